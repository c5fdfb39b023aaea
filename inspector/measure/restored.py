"""Dataclasses of measurements, read again from the JSON that they were stored as."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

MAX_NUMBER = float(1 << 63)
"""No figure (bytes, operations or µs) is as large as this."""


def restored(kind: Any, value: object) -> Any:
    """Read a value of JSON as a type: a dataclass, a tuple, a mapping, a text or a number.

    Fields that are missing or of another type get their defaults, elements of another type are
    left out. Raises ``TypeError`` for a value of another type, or a needed field without one.
    """
    arguments = get_args(kind)
    if NoneType in arguments:
        (kind,) = (each for each in arguments if each is not NoneType)
        return None if value is None else restored(kind, value)
    if is_dataclass(kind):
        return _dataclass(kind, value)
    if get_origin(kind) is tuple:
        return _tuple(arguments, value)
    kind = get_origin(kind) or kind
    wrong = isinstance(value, bool) and kind is not bool
    if isinstance(value, int | float) and not wrong:
        wrong = not -MAX_NUMBER < value < MAX_NUMBER
        value = float(value) if kind is float and not wrong else value
    if wrong or not isinstance(value, kind):
        raise TypeError(f"not of type {kind}")
    return value


def _dataclass(kind: Any, value: object) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"not an object, which {kind} is")
    hints, given = get_type_hints(kind), {}
    for field in fields(kind):
        with suppress(TypeError, KeyError):
            given[field.name] = restored(hints[field.name], value[field.name])
    return kind(**given)


def _tuple(kinds: tuple[Any, ...], value: object) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError("not an array")
    if kinds[-1] is not Ellipsis:
        if len(value) != len(kinds):
            raise TypeError(f"not an array of {len(kinds)}")
        return tuple(map(restored, kinds, value))
    out = []
    for each in value:
        with suppress(TypeError):
            out.append(restored(kinds[0], each))
    return tuple(out)
