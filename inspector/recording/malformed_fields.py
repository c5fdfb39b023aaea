"""Counts fields of events whose values do not fit their types, as problems of a recording.

A value that may be unknown is not malformed: null, an empty text, and a number that is infinite or
NaN, as the time of a configuration that failed. Nor is a value that becomes text in a map of text.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args, get_origin

from msgspec import Struct, inspect

from inspector.base.units import plural
from inspector.recording.decoding import arms_of, fields_of, fits, has_defaults
from inspector.recording.events import KINDS


class MalformedFields:
    """Malformed fields of a recording's events, by the kind of event and the field."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def count(self, values: Mapping[str, object], kind: object) -> None:
        """Count the malformed fields of one event, each once.

        Args:
            values: its fields as they were written.
            kind: the Struct that it is decoded to.
        """
        name = values.get("event")
        is_known = isinstance(name, str) and name in KINDS
        event = f"the event {name}" if is_known else "an event of unknown kind"
        field_types = dict(_malformed_fields(values, kind, ""))
        for path, field_type in field_types.items():
            self._counts[event, path, _description(inspect.type_info(field_type))] += 1

    def problems(self) -> Iterator[str]:
        """A sentence for each kind of event and field, with the count if there are several."""
        for (event, path, expected), count in self._counts.items():
            times = f" ({plural(count, 'time')})" if count > 1 else ""
            yield f"the field {path} of {event} is not {expected}{times}"


def _malformed_fields(
    values: Mapping[str, object], kind: object, prefix: str
) -> Iterator[tuple[str, object]]:
    """The path and the type of each malformed field of an object: ``source.first``, an integer."""
    for encoded_name, field_type in fields_of(kind).values():
        yield from _malformed(values.get(encoded_name), field_type, prefix + encoded_name)


def _malformed(value: object, kind: object, path: str) -> Iterator[tuple[str, object]]:
    """The field at a path if its value does not fit; of an object, its own fields that do not."""
    if _may_be_unknown(value) or fits(value, kind):
        return
    for arm in arms_of(kind):
        if isinstance(value, Mapping):
            if isinstance(arm, type) and issubclass(arm, Struct) and has_defaults(arm):
                yield from _malformed_fields(value, arm, f"{path}.")
                return
            if get_origin(arm) is dict:
                yield from _malformed_items(value.values(), get_args(arm)[1], kind, path)
                return
        elif isinstance(value, list | tuple) and get_origin(arm) is tuple and ... in get_args(arm):
            yield from _malformed_items(value, get_args(arm)[0], kind, path)
            return
    yield path, kind


def _malformed_items(
    values: Iterable[object], item_kind: object, kind: object, path: str
) -> Iterator[tuple[str, object]]:
    """The list or map at a path once for each malformed item; of objects, their fields that are."""
    if item_kind is str:  # any value has a text
        return
    for value in values:
        for item_path, field_type in _malformed(value, item_kind, path):
            yield item_path, kind if item_path == path else field_type


def _may_be_unknown(value: object) -> bool:
    """Whether writers use a value for one that they do not know."""
    if isinstance(value, float):
        return not math.isfinite(value)
    return value is None or value == ""


def _description(kind: inspect.Type) -> str:
    """What a value of a type is, in a sentence: ``a list of 3 integers``."""
    match kind:
        case inspect.UnionType():
            arms = [arm for arm in kind.types if not isinstance(arm, inspect.NoneType)]
            return " or ".join(_description(arm) for arm in arms)
        case inspect.VarTupleType():
            return f"a list of {_plural(kind.item_type)}"
        case inspect.TupleType():
            item_words = {_plural(item) for item in kind.item_types}
            items = item_words.pop() if len(item_words) == 1 else "values"
            return f"a list of {len(kind.item_types)} {items}"
        case inspect.DictType(value_type=inspect.CustomType()):
            return "an object"
        case inspect.DictType():
            return f"an object of {_plural(kind.value_type)}"
        case inspect.IntType():
            return "an integer from 0" if kind.ge == 0 else "an integer of 64 bits"
        case inspect.FloatType():
            return "a number" if kind.ge is None and kind.gt is None else "a time in range"
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return "text"
        case _:
            return "an object"


def _plural(kind: inspect.Type) -> str:
    """What the items of a list or the values of an object are: ``integers``."""
    match kind:
        case inspect.UnionType():
            arms = [arm for arm in kind.types if not isinstance(arm, inspect.NoneType)]
            return " or ".join(_plural(arm) for arm in arms)
        case inspect.VarTupleType() | inspect.TupleType():
            return "lists"
        case inspect.DictType() | inspect.StructType():
            return "objects"
        case inspect.IntType():
            return "integers"
        case inspect.FloatType():
            return "numbers"
        case inspect.StrType():
            return "texts"
        case _:
            return "values"
