"""Values of a kernel's parameters, from the bytes with which it was launched."""

import re
import struct
from collections.abc import Sequence

from inspector.base.model import Argument

_FORMATS = {
    "bool": "?",
    "char": "b",
    "signed char": "b",
    "unsigned char": "B",
    "short": "h",
    "unsigned short": "H",
    "int": "i",
    "unsigned int": "I",
    "unsigned": "I",
    "long": "q",
    "unsigned long": "Q",
    "long long": "q",
    "unsigned long long": "Q",
    "float": "f",
    "double": "d",
    "__half": "e",
}
"""The layout of C++'s types on 64-bit Linux (System V ABI), in the letters of ``struct``."""

HIGHEST_ALIGNMENT = 512
_HEX = re.compile("(?:[0-9a-f]{2})*")


def arguments_of(
    parameters: Sequence[str], varied: int, types: Sequence[str]
) -> tuple[Argument, ...]:
    """The arguments of launches that were alike.

    An address is hexadecimal text, with its alignment; what is neither a number nor an address has
    no value, but the bytes of the first launch: of a structure, padding alone may differ later.

    Args:
        parameters: the bytes of each in hex.
        varied: a bit for each that was not always the same, whose value is unknown then.
        types: those of the kernel's C++ parameters, ignored where there are not as many.
    """
    fits = len(types) == len(parameters)
    out = []
    for index, text in enumerate(parameters):
        name = f"parameter {index}"
        kind = types[index] if fits else None
        data = bytes.fromhex(text) if _HEX.fullmatch(text) else b""
        number = _number(data, kind)
        is_opaque = number is None and not _is_pointer(kind) and bool(data)
        if is_opaque:
            out.append(Argument(name, kind, data=text))
        elif varied >> index & 1:
            out.append(Argument(name, kind))
        elif _is_pointer(kind) and len(data) == 8:
            address = int.from_bytes(data, "little")
            alignment = min(address & -address or HIGHEST_ALIGNMENT, HIGHEST_ALIGNMENT)
            out.append(Argument(name, kind, hex(address), alignment=alignment))
        else:
            out.append(Argument(name, kind, number))
    return tuple(out)


def _base_type(kind: str | None) -> str:
    """A C++ type without ``const`` and ``volatile``."""
    return re.sub(r"\b(?:const|volatile)\b", "", kind or "").strip()


def _is_pointer(kind: str | None) -> bool:
    return _base_type(kind).endswith(("*", "&"))


def _number(data: bytes, kind: str | None) -> int | float | bool | None:
    """A value of a C++ type; None where the type is no number of this size."""
    form = _FORMATS.get(_base_type(kind))
    if form is None or struct.calcsize(f"<{form}") != len(data):
        return None
    number: int | float | bool
    (number,) = struct.unpack(f"<{form}", data)
    return number
