"""Kernels of cubins: machine code, records, parameters, debugging data."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from inspector.listing.elf import SYMBOL, SYMTAB, Section, read_names, read_sections

EM_CUDA = 190
ET_EXEC = 2
STT_FUNC = 2
# st_other's bit for a kernel, as nvdisasm prints it: STO_CUDA_ENTRY.
STO_CUDA_ENTRY = 0x10
# Formats and kinds of the attributes in .nv.info sections, as cuobjdump -elf names them.
EIFMT_BVAL, EIFMT_SVAL = 2, 4
EIATTR_PARAM_CBANK = 0x0A
EIATTR_KPARAM_INFO = 0x17
EIATTR_CBANK_PARAM_SIZE = 0x19
EIATTR_SHARED_SCRATCH = 0x32
EIATTR_NUM_BARRIERS = 0x4C
FATBIN_SECTIONS = (b".nv_fatbin\0", b"__nv_relfatbin\0")
_INFO = ".nv.info."
_TOOL = re.compile(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)")


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


def _sections(data: bytes) -> list[Section]:
    """The sections of a cubin; none if the file is damaged or not a cubin."""
    try:
        return read_sections(data) if is_cubin(data) else []
    except ValueError:
        return []


def read_cubin(data: bytes) -> Cubin | None:
    """The kernels of a cubin; None if the file is damaged or not a cubin."""
    sections = _sections(data)
    code = {s.name[6:]: s.data for s in sections if s.name.startswith(".text.")}
    notes = [s.data for s in sections if s.name.startswith(".note.nv.tkinfo")]
    tools = [match[1].decode() for note in notes if (match := _TOOL.search(note))]
    lines = any(s.name in (".debug_line", ".nv_debug_line_sass") for s in sections)
    try:
        named = [name for section in sections for name in _entries(section, sections)]
    except (ValueError, IndexError, struct.error):
        return None
    if not sections:
        return None
    kernels = tuple(dict.fromkeys(name for name in named if name in code)) or tuple(code)
    return Cubin(kernels, code, tools[-1] if tools else None, data[8], lines)


def _entries(table: Section, sections: list[Section]) -> list[str]:
    """The names of the kernels in a table of symbols."""
    if table.header.type != SYMTAB:
        return []
    return read_names(
        sections[table.header.link].data,
        (
            name
            for name, info, other, *_ in SYMBOL.iter_unpack(table.data)
            if info & 15 == STT_FUNC and other & STO_CUDA_ENTRY
        ),
    )


def debug_ptx(data: bytes) -> bytes | None:
    """The PTX that ``-lineinfo`` leaves in a cubin, line for line, or None.

    ptxas keeps it in ``.nv_debug_ptx_txt`` with NUL between lines and without comments and
    ``.loc``; the line numbers are those that nvdisasm's ``-gp`` prints.
    """
    texts = (s.data for s in _sections(data) if s.name == ".nv_debug_ptx_txt")
    text = next(texts, None)
    return None if text is None else text.replace(b"\0", b"\n")


def debug_spans(data: bytes) -> tuple[tuple[int, int], ...]:
    """Half-open spans of debugging data and notes in an ELF file; none of a damaged one."""
    try:
        sections = read_sections(data)
    except ValueError:
        return ()
    return tuple(
        (s.header.offset, s.header.offset + s.header.size)
        for s in sections
        if s.name.startswith((".debug_", ".nv_debug_", ".note"))
    )


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
    attribute ``EIATTR_NUM_BARRIERS``.
    """
    sections = {section.name: section for section in _sections(data)}
    linked = int.from_bytes(data[16:18], "little") == ET_EXEC
    out: dict[str, Record] = {}
    for name, section in sections.items():
        if name.startswith(".text."):
            barriers = section.header.flags >> 20 & 0x7F if data[8] < 8 else 0
            info = sections.get(_INFO + name[6:])
            own = list(attributes(info.data)) if info else []
            for form, kind, value in own:
                if kind == EIATTR_NUM_BARRIERS and form == EIFMT_BVAL:
                    barriers = value[0]
            scratch = any(kind == EIATTR_SHARED_SCRATCH for _, kind, _ in own)
            out[name[6:]] = Record(barriers, scratch, linked)
    return out


def attributes(section: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Format, kind and value of each attribute of a ``.nv.info`` section.

    Format and kind are a byte each; then comes a value of two bytes, or its length and as many
    bytes. NVIDIA documents neither.
    """
    position = 0
    while position + 4 <= len(section):
        form, kind = section[position], section[position + 1]
        value = section[position + 2 : position + 4]
        position += 4
        if form == EIFMT_SVAL:
            length = int.from_bytes(value, "little")
            value = section[position : position + length]
            position += length
        yield form, kind, value


# -- parameters in constant bank 0 ----------------------------------------------------------------


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


def kernel_parameters(data: bytes, kernel: str) -> CubinParameters | None:
    """The parameters of one kernel; None if no section of a valid cubin has them."""
    info = next((s.data for s in _sections(data) if s.name == _INFO + kernel), None)
    if info is None:
        return None
    by_ordinal: dict[int, CubinParameter] = {}
    base = size = None
    for _, kind, value in attributes(info):
        if kind == EIATTR_KPARAM_INFO and len(value) >= 12:
            # index (4 bytes), ordinal, offset; alignment and space in 18 bits, then the size
            ordinal, offset, packed = struct.unpack_from("<HHI", value, 4)
            by_ordinal[ordinal] = CubinParameter(ordinal, offset, packed >> 18)
        elif kind == EIATTR_PARAM_CBANK and len(value) >= 8:
            base, size = struct.unpack_from("<HH", value, 4)
        elif kind == EIATTR_CBANK_PARAM_SIZE and size is None:
            size = int.from_bytes(value[:2], "little")
    return CubinParameters(tuple(by_ordinal[n] for n in sorted(by_ordinal)), base, size)
