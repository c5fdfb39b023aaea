"""What a cubin, an object or a library says of itself (ELF, read with pyelftools)."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.construct.core import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

EM_CUDA = 190
# st_other's bit for a kernel, as nvdisasm prints it: STO_CUDA_ENTRY.
STO_CUDA_ENTRY = 0x10
_TOOL = re.compile(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)")


# pyelftools lets many kinds through on damaged files; all of them mean "damaged".
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

    ``ptxas`` is the assembler's version where the file names it (``.note.nv.tkinfo``, ELF ABI 8);
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


def has_device_code(data: bytes) -> bool:
    """Whether a host object or library carries a fat binary."""
    return is_elf(data) and (b".nv_fatbin\0" in data or b"__nv_relfatbin\0" in data)


def read_cubin(data: bytes) -> Cubin | None:
    """The kernels of a cubin, or None where the file is damaged or none."""
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
        section = elf.get_section_by_name(".nv_debug_ptx_txt")
        return section.data().replace(b"\0", b"\n") if section is not None else None
    except DAMAGED:
        return None


def _read(data: bytes) -> Cubin:
    elf: Any = ELFFile(io.BytesIO(data))
    code: dict[str, bytes] = {}
    entries: list[str] = []
    tool: bytes | None = None
    lines = False
    for section in elf.iter_sections():
        name = section.name
        if name.startswith(".text."):
            code[name[6:]] = section.data()
        elif name.startswith(".note.nv.tkinfo"):
            found = _TOOL.search(section.data())
            tool = found[1] if found else tool
        elif name in (".debug_line", ".nv_debug_line_sass"):
            lines = True
        if isinstance(section, SymbolTableSection):
            # pyelftools splits st_other into the fields that it knows and drops this bit, so the
            # byte (the sixth of an Elf64_Sym's 24) is read as it stands.
            table = section.data()
            for index, symbol in enumerate(section.iter_symbols()):
                function = symbol["st_info"]["type"] == "STT_FUNC"
                if function and table[24 * index + 5] & STO_CUDA_ENTRY:
                    entries.append(symbol.name)
    kept = tuple(dict.fromkeys(e for e in entries if e in code)) or tuple(code)
    return Cubin(kept, code, tool.decode() if tool else None, data[8], lines)
