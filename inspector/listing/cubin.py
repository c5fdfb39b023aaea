"""Reads the ELF of cubins, objects and libraries, with pyelftools."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.construct.core import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

EM_CUDA = 190
ET_EXEC = 2
# st_other's bit for a kernel, as nvdisasm prints it: STO_CUDA_ENTRY.
STO_CUDA_ENTRY = 0x10
# Attributes of .nv.info sections, as cuobjdump -elf names them (see cubin_parameters).
EIFMT_BVAL, EIFMT_SVAL = 2, 4
EIATTR_SHARED_SCRATCH = 0x32
EIATTR_NUM_BARRIERS = 0x4C
_HEADER = struct.Struct("<IIQQQQIIQQ")
FATBIN_SECTIONS = (b".nv_fatbin\0", b"__nv_relfatbin\0")
_TOOL = re.compile(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)")


# pyelftools raises many kinds of errors for damaged files.
DAMAGED = (
    ELFError,
    ConstructError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    OSError,
    AttributeError,
    AssertionError,
    OverflowError,
    MemoryError,
)


@dataclass(frozen=True, slots=True)
class Cubin:
    """Kernels (``entries``) and device functions of a cubin, each with its machine code.

    ``ptxas`` is the assembler's version if the file names it (``.note.nv.tkinfo``, ELF ABI 8);
    ``abi`` is 7 (CUDA 12) or 8 (CUDA 13).
    """

    entries: tuple[str, ...]
    code: dict[str, bytes]
    ptxas: str | None
    abi: int
    has_lines: bool


def is_elf(data: bytes) -> bool:
    """Whether the bytes begin as an ELF file."""
    return data[:4] == b"\x7fELF"


def is_cubin(data: bytes) -> bool:
    """Whether the bytes are an ELF file for the machine ``EM_CUDA``."""
    return is_elf(data) and len(data) > 20 and int.from_bytes(data[18:20], "little") == EM_CUDA


def architecture(data: bytes) -> str | None:
    """``sm_90`` as the header of a cubin has it, without an ``a`` or ``f``; None otherwise.

    In ``e_flags``: the lowest byte until CUDA 12 (ELF ABI 7), the second since CUDA 13 (ABI 8), as
    cuobjdump names them.
    """
    if not is_cubin(data) or len(data) < 52:
        return None
    flags = int.from_bytes(data[48:52], "little")
    number = flags >> 8 & 0xFF if data[8] >= 8 else flags & 0xFF
    return f"sm_{number}" if number >= 30 else None


def read_cubin(data: bytes) -> Cubin | None:
    """The kernels of a cubin; None if the file is damaged or not a cubin."""
    if not is_cubin(data):
        return None
    try:
        return _read(data)
    except DAMAGED:
        return None


def debug_ptx(data: bytes) -> bytes | None:
    """The PTX that ``-lineinfo`` leaves in a cubin, line for line, or None.

    ptxas keeps it in ``.nv_debug_ptx_txt`` with NUL between lines and without comments and
    ``.loc``; the line numbers are those that nvdisasm's ``-gp`` prints.
    """
    if not is_cubin(data):
        return None
    try:
        elf: Any = ELFFile(io.BytesIO(data))
        room = Room(len(data))
        for section in elf.iter_sections():
            if room.name(section.name) == ".nv_debug_ptx_txt":
                return room.content(section).replace(b"\0", b"\n")
        return None
    except DAMAGED:
        return None


class Room:
    """Limits what is read from an ELF file to its own size, since its sections do not overlap.

    A file made to fill the memory breaks that: a thousand sections of the same bytes, a section
    that unpacks to gigabytes, names without an end.
    """

    def __init__(self, size: int) -> None:
        self._content = size
        self._names = 4 * size + 65536

    def content(self, section: Any) -> bytes:
        """A section's bytes. Raises ``ELFError`` if all sections together exceed the file."""
        if section["sh_type"] == "SHT_NOBITS":
            return b""
        if section.compressed:
            raise ELFError("no tool of NVIDIA's packs sections")
        self._content -= int(section["sh_size"])
        if self._content < 0:
            raise ELFError("the sections are larger than the file")
        data: bytes = section.data()
        return data

    def name(self, name: str) -> str:
        """``name`` itself. Raises ``ELFError`` if all names together are too long for the file."""
        self._names -= len(name) + 1
        if self._names < 0:
            raise ELFError("the names are longer than the file")
        return name


def _read(data: bytes) -> Cubin:
    elf: Any = ELFFile(io.BytesIO(data))
    room = Room(len(data))
    code: dict[str, bytes] = {}
    entries: list[str] = []
    tool: bytes | None = None
    lines = False
    for section in elf.iter_sections():
        name = room.name(section.name)
        if name.startswith(".text."):
            code[name[6:]] = room.content(section)
        elif name.startswith(".note.nv.tkinfo"):
            match = _TOOL.search(room.content(section))
            tool = match[1] if match else tool
        elif name in (".debug_line", ".nv_debug_line_sass"):
            lines = True
        if isinstance(section, SymbolTableSection):
            # pyelftools splits st_other into the fields that it knows and drops this bit, so the
            # byte (the sixth of an Elf64_Sym's 24) is read as it stands.
            table = room.content(section)
            for index, symbol in enumerate(section.iter_symbols()):
                room.name(symbol.name)
                function = symbol["st_info"]["type"] == "STT_FUNC"
                if function and table[24 * index + 5] & STO_CUDA_ENTRY:
                    entries.append(symbol.name)
    kernels = tuple(dict.fromkeys(e for e in entries if e in code)) or tuple(code)
    return Cubin(kernels, code, tool.decode() if tool else None, data[8], lines)


@dataclass(frozen=True, slots=True)
class Record:
    """A cubin's record of one function: the number of its named barriers, and whether registers
    were spilled to shared memory (``.pragma "enable_smem_spilling"``).

    An object that is not ``linked`` (``nvcc -rdc=true``) has no stacks on record yet.
    """

    barriers: int
    shared_scratch: bool
    linked: bool


def function_records(data: bytes) -> Mapping[str, Record]:
    """The record of each function with machine code; empty if the file is damaged or no cubin.

    ELF ABI 7 keeps barriers in the flags of the code's section, bits 20 to 26; ABI 8 as the
    attribute ``EIATTR_NUM_BARRIERS``. Section headers are read as they are: pyelftools takes fifty
    times as long, and a cache has thousands of cubins.
    """
    if not is_cubin(data) or len(data) < 64 or data[4] != 2:
        return {}
    try:
        sections = {name: (flags, content) for name, flags, content in _sections(data)}
    except (struct.error, ValueError, IndexError):
        return {}
    linked = int.from_bytes(data[16:18], "little") == ET_EXEC
    out: dict[str, Record] = {}
    for name, (flags, _) in sections.items():
        if name.startswith(".text."):
            barriers = flags >> 20 & 0x7F if data[8] < 8 else 0
            scratch = False
            for form, kind, value in _attributes(sections.get(f".nv.info.{name[6:]}", (0, b""))[1]):
                if kind == EIATTR_NUM_BARRIERS and form == EIFMT_BVAL:
                    barriers = value
                scratch = scratch or kind == EIATTR_SHARED_SCRATCH
            out[name[6:]] = Record(barriers, scratch, linked)
    return out


def _sections(data: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Name, flags and content of the sections that hold functions' records."""
    for title, flags, offset, length in _headers(data):
        if title.startswith(".nv.info."):
            yield title, flags, data[offset : offset + length]
        elif title.startswith(".text."):
            yield title, flags, b""


def _headers(data: bytes) -> Iterator[tuple[str, int, int, int]]:
    """Name, flags, offset and size of every section."""
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    if size != _HEADER.size:
        raise ValueError("section headers of an unknown size")
    headers = [_HEADER.unpack_from(data, start + size * n) for n in range(count)]
    text = headers[names][4]
    for name, _, flags, _, offset, length, *_ in headers:
        end = data.index(b"\0", text + name)
        title = data[text + name : end].decode("utf-8", "surrogateescape")
        yield title, flags, offset, length


def debug_spans(data: bytes) -> tuple[tuple[int, int], ...]:
    """Half-open spans of debugging data and notes in a cubin; none of a damaged one."""
    try:
        return tuple(
            (offset, offset + length)
            for title, _, offset, length in _headers(data)
            if title.startswith((".debug_", ".nv_debug_", ".note"))
        )
    except (*DAMAGED, struct.error):
        return ()


def _attributes(section: bytes) -> Iterator[tuple[int, int, int]]:
    """Format, kind and, of the short formats, the value of each attribute."""
    position = 0
    while position + 4 <= len(section):
        form, kind, value = section[position], section[position + 1], section[position + 2]
        yield form, kind, value
        position += 4
        if form == EIFMT_SVAL:
            position += int.from_bytes(section[position - 2 : position], "little")


# -- parameters -----------------------------------------------------------------------------------
# Where a cubin's kernels find their parameters: constant bank 0, from a base on.
#
# A kernel's section ``.nv.info.<kernel>`` is a row of attributes: format and kind, a byte each,
# then a value of two bytes, or its length and as many bytes (formats and kinds as ``cuobjdump
# -elf`` prints them; NVIDIA documents neither).

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

    ``base`` is the offset of the first in constant bank 0, ``size`` the bytes of all; None if
    the cubin does not say.
    """

    parameters: tuple[CubinParameter, ...]
    base: int | None
    size: int | None


def cubin_parameters(data: bytes) -> Mapping[str, CubinParameters] | None:
    """The parameters of each kernel that has such a section; None if it is no valid cubin."""
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
    """The parameters of one kernel; None if the cubin has no such section."""
    by_kernel = cubin_parameters(data)
    return by_kernel.get(kernel) if by_kernel is not None else None


def _parameters(data: bytes) -> CubinParameters:
    by_ordinal: dict[int, CubinParameter] = {}
    base = size = None
    for kind, value in _parameter_attributes(data):
        if kind == EIATTR_KPARAM_INFO and len(value) >= 12:
            # index (4 bytes), ordinal, offset; alignment and space in 18 bits, then the size
            ordinal, offset, packed = struct.unpack_from("<HHI", value, 4)
            by_ordinal[ordinal] = CubinParameter(ordinal, offset, packed >> 18)
        elif kind == EIATTR_PARAM_CBANK and len(value) >= 8:
            base, size = struct.unpack_from("<HH", value, 4)
        elif kind == EIATTR_CBANK_PARAM_SIZE and size is None:
            size = int.from_bytes(value[:2], "little")
    return CubinParameters(tuple(by_ordinal[n] for n in sorted(by_ordinal)), base, size)


def _parameter_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position + 4 <= len(data):
        form, kind = data[position], data[position + 1]
        value = data[position + 2 : position + 4]
        position += 4
        if form == EIFMT_SVAL:
            length = int.from_bytes(value, "little")
            value = data[position : position + length]
            position += length
        yield kind, value
