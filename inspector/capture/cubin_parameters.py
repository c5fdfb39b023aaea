"""Where a cubin's kernels find their parameters: constant bank 0, from a base on.

A kernel's section ``.nv.info.<kernel>`` is a row of attributes: format and kind, a byte each, then
a value of two bytes, or its length and as many bytes (formats and kinds as ``cuobjdump -elf``
prints them; NVIDIA documents neither).
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from elftools.elf.elffile import ELFFile

from inspector.capture.elf import DAMAGED, Room, is_cubin

EIFMT_SVAL = 4
EIATTR_PARAM_CBANK = 0x0A
EIATTR_KPARAM_INFO = 0x17
EIATTR_CBANK_PARAM_SIZE = 0x19
SECTION = ".nv.info."


@dataclass(frozen=True, slots=True)
class CubinParameter:
    """``ordinal`` counts from 0; ``offset`` in bytes from the base of the parameters."""

    ordinal: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class CubinParameters:
    """The parameters of one kernel, by ordinal.

    ``base`` is the offset of the first in constant bank 0, ``size`` the bytes of all; None where
    the cubin does not say.
    """

    parameters: tuple[CubinParameter, ...]
    base: int | None
    size: int | None


def cubin_parameters(data: bytes) -> Mapping[str, CubinParameters] | None:
    """By kernel, for each that has such a section; None where the file is damaged or no cubin."""
    if not is_cubin(data):
        return None
    try:
        elf: Any = ELFFile(io.BytesIO(data))
        room = Room(len(data))
        return {
            name[len(SECTION) :]: _parameters(room.content(section))
            for section in elf.iter_sections()
            if (name := room.name(section.name)).startswith(SECTION)
        }
    except DAMAGED:
        return None


def kernel_parameters(data: bytes, kernel: str) -> CubinParameters | None:
    """Those of one kernel; None where the cubin has no such section."""
    known = cubin_parameters(data)
    return known.get(kernel) if known is not None else None


def _parameters(data: bytes) -> CubinParameters:
    found: dict[int, CubinParameter] = {}
    base = size = None
    for kind, value in _attributes(data):
        if kind == EIATTR_KPARAM_INFO and len(value) >= 12:
            # index (4 bytes), ordinal, offset; alignment and space in 18 bits, then the size
            ordinal, offset, packed = struct.unpack_from("<HHI", value, 4)
            found[ordinal] = CubinParameter(ordinal, offset, packed >> 18)
        elif kind == EIATTR_PARAM_CBANK and len(value) >= 8:
            base, size = struct.unpack_from("<HH", value, 4)
        elif kind == EIATTR_CBANK_PARAM_SIZE and size is None:
            size = int.from_bytes(value[:2], "little")
    return CubinParameters(tuple(found[n] for n in sorted(found)), base, size)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        form, kind = data[at], data[at + 1]
        value = data[at + 2 : at + 4]
        at += 4
        if form == EIFMT_SVAL:
            length = int.from_bytes(value, "little")
            value = data[at : at + length]
            at += length
        yield kind, value
