"""Sections and names of ELF-64 files, little-endian (System V ABI, chapter 4)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMTAB, STRTAB, RELA, NOBITS, REL, DYNSYM = 2, 3, 4, 8, 9, 11


class SectionHeader(NamedTuple):
    """A section's header, field by field as in the file; ``name`` is a place among the names."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class Section(NamedTuple):
    """A section with its name and bytes."""

    name: str
    header: SectionHeader
    data: bytes


def read_sections(data: bytes) -> list[Section]:
    """Return every section of a file.

    Raises:
        ValueError: The file is damaged, or its sections together exceed it: a small file could
            else fill the memory with a thousand copies of itself.
    """
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < HEADER.size:
        raise ValueError("no ELF-64 file")
    _, _, _, _, _, _, start, _, _, _, _, size, count, names = HEADER.unpack_from(data)
    if size != SECTION.size or start + count * size > len(data) or names >= count:
        raise ValueError("damaged section headers")
    headers = [SectionHeader(*SECTION.unpack_from(data, start + n * size)) for n in range(count)]
    if sum(header.size for header in headers if header.type != NOBITS) > 2 * len(data):
        raise ValueError("the sections are larger than the file")
    held = [b"" if h.type == NOBITS else data[h.offset : h.offset + h.size] for h in headers]
    titles = read_names(held[names], (header.name for header in headers))
    return [Section(*each) for each in zip(titles, headers, held, strict=True)]


def read_names(table: bytes, places: Iterable[int]) -> list[str]:
    """Return the NUL-terminated names at some places of a table.

    Raises:
        ValueError: One has no end, or all together are longer than a table's shared endings allow.
    """
    room = 16 * len(table) + 65536
    out = []
    for place in places:
        end = table.index(b"\0", place)
        room -= end - place
        if room < 0:
            raise ValueError("the names are longer than the file")
        out.append(table[place:end].decode("utf-8", "surrogateescape"))
    return out
