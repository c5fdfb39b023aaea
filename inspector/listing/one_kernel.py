"""Extracts one kernel, and the functions that it calls, from a cubin with many.

A library's cubin has hundreds of kernels (20 MB of torch's, of which nvdisasm makes a gigabyte of
text). The extracted kernel has the same machine code, constants, attributes, relocations and
resources under the same names; lines and PTX of ``-lineinfo`` and the constants of the whole module
are left out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence

from inspector.listing.cubin import EIFMT_SVAL, attributes, is_cubin
from inspector.listing.elf import (
    HEADER,
    NOBITS,
    REL,
    RELA,
    SECTION,
    STRTAB,
    SYMBOL,
    SYMTAB,
    Section,
    SectionHeader,
    read_names,
    read_sections,
)

_RELOCATION = struct.Struct("<QQ")
EIATTR_PARAM_CBANK, EIATTR_EXTERNS = 0x0A, 0x0F
"""Attributes of a function that name symbols: the bank of its parameters, what it calls."""

WHOLE_FILE = (".nv.info", ".note.", ".nv.compat")
"""Prefixes of the sections of a whole file that are kept."""
UNLINKED = (".nv.constant", ".nv.shared", ".note.", ".nv.compat")
"""Prefixes of sections whose ``sh_link`` is no symbol table."""

SHN_LORESERVE = 0xFF00
"""Section numbers from here on are no sections."""

_OWN = re.compile(
    r"(\.(?:rela?\.)?text\.|\.nv\.info\.|\.nv\.constant\d+\.|\.nv\.shared\.)(.+)", re.DOTALL
)


def only(cubin: bytes, kernel: str) -> bytes | None:
    """A cubin with this kernel alone, and what it calls; None if it is damaged or lacks it."""
    if not is_cubin(cubin):
        return None
    try:
        sections = read_sections(cubin)
        wanted = _called(sections, kernel)
        return _extracted(cubin, sections, wanted) if wanted else None
    except (ValueError, IndexError, struct.error, StopIteration):
        return None


def _called(sections: Sequence[Section], kernel: str) -> frozenset[str]:
    """The function and those whose machine code its own refers to, by the names of sections."""
    table = next(s for s in sections if s.header.type == SYMTAB)
    names = {s.name[len(".text.") :] for s in sections if s.name.startswith(".text.")}
    relocations: dict[str, list[Section]] = {}
    for section in sections:
        if section.header.type in (REL, RELA) and (own := _OWN.fullmatch(section.name)):
            relocations.setdefault(own[2], []).append(section)
    wanted: set[str] = set()
    waiting = [kernel] if kernel in names else []
    while waiting:
        name = waiting.pop()
        if name in wanted:
            continue
        wanted.add(name)
        for section in relocations.get(name, ()):
            step = 24 if section.header.type == RELA else 16
            for at in range(0, len(section.data) - step + 1, step):
                number = _RELOCATION.unpack_from(section.data, at)[1] >> 32
                home = SYMBOL.unpack_from(table.data, number * SYMBOL.size)[3]
                if 0 < home < len(sections) and (own := _OWN.fullmatch(sections[home].name)):
                    waiting.append(own[2])
    return frozenset(wanted)


def _extracted(cubin: bytes, sections: Sequence[Section], wanted: frozenset[str]) -> bytes:
    """A file of these functions' sections and of those of the whole file."""
    kept = [0]
    for number, section in enumerate(sections):
        own = _OWN.fullmatch(section.name)
        if own[2] in wanted if own else section.name.startswith(WHOLE_FILE):
            kept.append(number)
    places = {old: new for new, old in enumerate(kept) if new}
    table = next(s for s in sections if s.header.type == SYMTAB)
    every = list(SYMBOL.iter_unpack(table.data))
    old_numbers = [
        n
        for n, (_, _, _, home, _, _) in enumerate(every)
        if n and (not 0 < home < SHN_LORESERVE or home in places)
    ]
    old_numbers.sort(key=lambda n: every[n][1] >> 4 != 0)  # local symbols stand first in a table
    numbers = {old: new for new, old in enumerate(old_numbers, 1)}
    titles = read_names(sections[table.header.link].data, (every[n][0] for n in old_numbers))
    strings, symbols = bytearray(b"\0"), bytearray(SYMBOL.size)
    for old, title in zip(old_numbers, titles, strict=True):
        _, info, other, home, value, size = every[old]
        at = len(strings) if title else 0
        symbols += SYMBOL.pack(at, info, other, places.get(home, home), value, size)
        strings += _terminated(title) if title else b""
    local = 1 + sum(every[old][1] >> 4 == 0 for old in old_numbers)
    symtab = len(kept)
    out = [Section("", SectionHeader(*[0] * 10), b"")]
    out += [_moved(sections[old], places, numbers, symtab) for old in kept[1:]]
    head = SectionHeader(0, SYMTAB, 0, 0, 0, 0, symtab + 1, local, 8, SYMBOL.size)
    out.append(Section(".symtab", head, bytes(symbols)))
    head = SectionHeader(0, STRTAB, 0, 0, 0, 0, 0, 0, 1, 0)
    out += [Section(".strtab", head, bytes(strings)), Section(".shstrtab", head, b"")]
    return _file(cubin, out)


def _terminated(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape") + b"\0"


def _moved(
    section: Section, places: Mapping[int, int], numbers: Mapping[int, int], symtab: int
) -> Section:
    """A section whose references to others and to symbols have their new numbers."""
    name, header, data = section
    link, info = symtab, places.get(header.info, 0)
    if name.startswith(".text."):
        # The upper eight bits are the registers of the function that the others name.
        info = header.info & 0xFF000000 | numbers.get(header.info & 0xFFFFFF, 0)
    elif name.startswith(UNLINKED):
        link = 0
    if header.type in (REL, RELA):
        step = 24 if header.type == RELA else 16
        changed = bytearray(data)
        for at in range(0, len(data) - step + 1, step):
            offset, symbol = _RELOCATION.unpack_from(data, at)
            now = numbers.get(symbol >> 32, 0) << 32 | symbol & 0xFFFFFFFF
            _RELOCATION.pack_into(changed, at, offset, now)
        data = bytes(changed)
    elif name.startswith(".nv.info"):
        data = _renumbered(data, numbers, of_file=name == ".nv.info")
    return Section(name, header._replace(link=link, info=info), data)


def _renumbered(section: bytes, numbers: Mapping[int, int], of_file: bool) -> bytes:
    """Attributes with the new numbers of their symbols.

    Those of the whole file begin with the symbol of a function (its registers, its stack); of
    functions that are not kept they go.
    """
    out = bytearray()
    for form, kind, value in attributes(section):
        head = struct.pack("<BB", form, kind)
        if form != EIFMT_SVAL:
            out += head + value
            continue
        many = {EIATTR_PARAM_CBANK: 1, EIATTR_EXTERNS: len(value) // 4}.get(kind, 0)
        symbols = struct.unpack_from(f"<{1 if of_file else many}I", value)
        if not of_file or symbols[0] in numbers:
            new = struct.pack(f"<{len(symbols)}I", *(numbers.get(old, 0) for old in symbols))
            out += head + struct.pack("<H", len(value)) + new + value[len(new) :]
    return bytes(out)


def _file(like: bytes, sections: Sequence[Section]) -> bytes:
    """An ELF file of these sections, with the header of another; the last has their names."""
    body, heads, names = bytearray(HEADER.size), bytearray(), bytearray(b"\0")
    places = []
    for section in sections:
        places.append(len(names) if section.name else 0)
        names += _terminated(section.name) if section.name else b""
    for at, (name, header, data) in zip(places, sections, strict=True):
        header = header._replace(name=at)
        if name:
            align = header.alignment if 0 < header.alignment <= 4096 else 1
            body += b"\0" * (-len(body) % align)
            header = header._replace(offset=len(body))
            data = bytes(names) if at == places[-1] else data
            if header.type != NOBITS:
                header = header._replace(size=len(data))
                body += data
        heads += SECTION.pack(*header)
    body += b"\0" * (-len(body) % 8)
    fields = list(HEADER.unpack_from(like))
    fields[5], fields[6], fields[10] = 0, len(body), 0  # no program headers
    fields[12], fields[13] = len(sections), len(sections) - 1
    body[: HEADER.size] = HEADER.pack(*fields)
    return bytes(body + heads)
