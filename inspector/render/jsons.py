"""JSON, schema 1: what other programs read. An unknown value is null, never 0."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any

from msgspec import UNSET, Struct

from inspector.base.model import Stage

SCHEMA = 1


def _default(value: object) -> object:
    """What the encoder prints of an object that JSON does not have."""
    return pick_fields(value) if isinstance(value, Struct) or is_dataclass(value) else str(value)


_ENCODE = json.JSONEncoder(ensure_ascii=True, allow_nan=False, default=_default).encode


def dumps(value: object) -> str:
    """Return JSON on one line, in ASCII, without control characters (json leaves DEL alone)."""
    try:
        text = _ENCODE(value)
    except ValueError:
        text = _ENCODE(_finite(to_builtins(value)))
    return text.replace("\x7f", "\\u007f")


class Rows:
    """A JSON array whose members are made while they are written; they hold no ``Rows``."""

    def __init__(self, members: Iterable[object]) -> None:
        self.members = members


ROWS_AT_ONCE = 16
"""Members of ``Rows`` encoded at once."""


def pieces(value: object) -> Iterator[str]:
    """Yield the JSON of ``dumps`` in pieces; the value may hold ``Rows``."""
    if isinstance(value, Rows):
        separator, members = "[", iter(value.members)
        while some := list(islice(members, ROWS_AT_ONCE)):
            yield separator + dumps(some)[1:-1]
            separator = ", "
        yield "[]" if separator == "[" else "]"
    elif isinstance(value, dict) and any(_streamed(v) for v in value.values()):
        separator = "{"
        for name, member in value.items():
            yield f"{separator}{dumps(name)}: "
            yield from pieces(member)
            separator = ", "
        yield "}"
    else:
        yield dumps(value)


def _streamed(value: object) -> bool:
    return isinstance(value, Rows) or (
        isinstance(value, dict) and any(_streamed(v) for v in value.values())
    )


def _finite(value: object) -> object:
    """Replace infinities and NaN, which JSON lacks, by their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value


SCALARS = {str, int, float, bool, type(None)}
"""Types that JSON has: most values, so they are sorted out without a call."""


def pick_fields(value: Any, names: str = "") -> dict[str, object]:
    """Return fields of a record as JSON values: those of ``names``, words, else all.

    All fields have the names that they are printed with, and those that are ``UNSET`` are left out.
    """
    if names:
        items = [(name, getattr(value, name)) for name in names.split()]
    elif isinstance(value, Struct):
        printed = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        items = [(name, getattr(value, field)) for name, field in printed]
    else:
        items = [(field.name, getattr(value, field.name)) for field in fields(value)]
    return {
        name: member if type(member) in SCALARS else to_builtins(member)
        for name, member in items
        if member is not UNSET
    }


def to_builtins(value: object) -> object:
    """Return structs, dataclasses, mappings and sequences as JSON objects and arrays."""
    if isinstance(value, tuple | list):
        return [member if type(member) in SCALARS else to_builtins(member) for member in value]
    if isinstance(value, Struct) or is_dataclass(value):
        return pick_fields(value)
    if isinstance(value, Mapping):
        return {str(name): to_builtins(member) for name, member in value.items()}
    return value


def ordered(stages: Mapping[Stage, object]) -> list[Stage]:
    return sorted(stages, key=lambda s: s.rank)
