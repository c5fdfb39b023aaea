"""Converts the JSON of events to typed values, and is tolerant of what strangers write.

A value that fits its type is converted by msgspec in one call. Of one that does not fit, each field
is converted by itself: a malformed field gets its default, a malformed entry of a map is left out,
and everything else is kept. Unknown fields are ignored.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, TypeVar, Union, cast, get_args, get_origin

from msgspec import UNSET, Meta, Struct, ValidationError, convert
from msgspec.structs import fields

INTEGER_BOUND = 1 << 63

Integer = Annotated[int, Meta(gt=-INTEGER_BOUND, le=INTEGER_BOUND - 1)]
"""A count or a size; JSON's integers may be of any size."""
Text = Annotated[str, Meta(min_length=1)]
Seconds = Annotated[float, Meta(ge=0, lt=1e9)]
"""A duration that may have passed."""
Moment = Annotated[float, Meta(gt=0, lt=1e11)]
"""Seconds since 1970."""
Size = Annotated[int, Meta(ge=0, le=INTEGER_BOUND - 1)]
Dimensions = tuple[Size, Size, Size]
"""A grid or a block, in x, y and z."""

RawEvent = Mapping[str, object]
T = TypeVar("T")
_MALFORMED = (ValidationError, UnicodeEncodeError)
"""What msgspec raises; the latter for a field's name with half of a character."""


Report = Callable[[Mapping[str, object], object], None]
"""Takes the fields that are not null, and the Struct that some of them may not fit."""


def tolerant(values: Mapping[str, object], kind: type[T], report: Report | None = None) -> T:
    """Convert a JSON object to a Struct whose fields all have defaults.

    Args:
        values: the fields by name; null is as good as missing.
        kind: the Struct.
        report: called for values that do not fit the Struct as a whole.
    """
    present = _without_nulls(values)
    try:
        return convert(present, kind)
    except _MALFORMED:
        if report is not None:
            report(present, kind)
        return _field_by_field(present, kind)


def _without_nulls(values: Mapping[str, object]) -> Mapping[str, object]:
    if None not in values.values():  # most events: no copy is made of them
        return values
    return {name: value for name, value in values.items() if value is not None}


def _field_by_field(values: Mapping[str, object], kind: type[T]) -> T:
    converted: dict[str, object] = {}
    for name, (encoded_name, field_type) in fields_of(kind).items():  # type: ignore[arg-type]
        value = values.get(encoded_name)
        if value is None:
            continue
        part = _part(value, field_type)
        if part is not UNSET:
            converted[name] = part
    return kind(**converted)


@cache
def fields_of(kind: object) -> dict[str, tuple[str, object]]:
    """The name in JSON and the type of each field of a Struct."""
    return {f.name: (f.encode_name, f.type) for f in fields(cast(type[Struct], kind))}


def _part(value: object, kind: object) -> object:
    """As much of a value as fits its type; UNSET if nothing does."""
    try:
        converted: object = convert(value, kind)
        return converted
    except _MALFORMED:
        pass
    for arm in arms_of(kind):
        origin = get_origin(arm)
        if isinstance(value, Mapping):
            if isinstance(arm, type) and issubclass(arm, Struct) and has_defaults(arm):
                return _field_by_field(value, arm)
            if origin is dict:
                return dict(_entries(value, get_args(arm)[1]))
        elif isinstance(value, list | tuple) and origin is tuple and get_args(arm)[1] is Ellipsis:
            return tuple(_items(value, get_args(arm)[0]))
    return UNSET


def fits(value: object, kind: object) -> bool:
    """Whether msgspec converts a value to a type."""
    try:
        convert(value, kind)
    except _MALFORMED:
        return False
    return True


def has_defaults(kind: type[Struct]) -> bool:
    """Whether no field of a Struct is required; one with a required field fits whole or not."""
    return len(kind.__struct_defaults__) == len(kind.__struct_fields__)


def arms_of(kind: object) -> tuple[object, ...]:
    """The types of a union, else the type itself."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _entries(values: Mapping[object, object], kind: object) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        part = _item(value, kind)
        if part is not UNSET:
            yield str(name), part


def _items(values: list[object] | tuple[object, ...], kind: object) -> Iterator[object]:
    for value in values:
        part = _item(value, kind)
        if part is not UNSET:
            yield part


def _item(value: object, kind: object) -> object:
    """An item of a list or a map; lists are read by index, so a malformed item keeps its place
    where its type has an empty value."""
    part = _part(value, kind)
    if part is not UNSET:
        return part
    if kind is str:
        return str(value)
    if NoneType in arms_of(kind):
        return None
    if isinstance(kind, type) and issubclass(kind, Struct) and has_defaults(kind):
        return kind()
    return UNSET


def checked(values: Mapping[str, object], kind: type[T]) -> tuple[T | None, str | None]:
    """Convert a JSON object whose fields must all fit; else None, and a sentence on what does not.

    Null fields take their defaults, unknown fields are ignored.
    """
    try:
        if not _within_64_bits(values):
            raise ValidationError("a number has more than 63 bits")
        return convert(_without_nulls(values), kind), None
    except _MALFORMED as error:
        sentence = f"a record of kind {values.get('event')} is malformed and was left out: {error}"
        return None, sentence


def _within_64_bits(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_within_64_bits, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_within_64_bits, value))
    return not isinstance(value, int) or -INTEGER_BOUND <= value < INTEGER_BOUND


def known_values(arguments: object) -> object:
    """Arguments of a call without values and ranges that are beyond 64 signed bits, which are
    unknown then: a uint64 has more."""
    if not isinstance(arguments, list):
        return arguments
    return [_known_value(a) if isinstance(a, Mapping) else a for a in arguments]


def _known_value(argument: Mapping[str, object]) -> Mapping[str, object]:
    out = dict(argument)
    for names in (("value",), ("low", "high")):
        if not all(_within_64_bits(out.get(name)) for name in names):
            out |= dict.fromkeys(names)
    return out


def as_map(value: object) -> dict[str, object]:
    return {str(k): v for k, v in value.items()} if isinstance(value, Mapping) else {}


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def as_int(value: object) -> int | None:
    """A count or a size as an int; None for any other value, or one beyond 63 bits."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < INTEGER_BOUND else None


def as_three(value: object) -> tuple[int, int, int] | None:
    """A grid or a block, in x, y and z, none negative; None for any other value."""
    numbers = [as_int(n) for n in value] if isinstance(value, list | tuple) else []
    if len(numbers) != 3 or None in numbers:
        return None
    x, y, z = (n or 0 for n in numbers)
    return None if min(x, y, z) < 0 else (x, y, z)


def as_seconds(value: object, limit: float = 1e9) -> float | None:
    """A time that may have passed, below ``limit``; None for any other value. JSON's integers may
    be of any size."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value < limit else None


def is_launch_number(text: str) -> bool:
    """Whether a key of a map of counts is the number of a call or launch: at most nine digits."""
    return text.isdecimal() and len(text) < 10
