"""Where a host's library or object has kernels' binaries between symbols, as AOTInductor puts them.

With ``aot_inductor.embed_kernel_binary`` each kernel's cubin, or fat binary, is read-only data from
``__NAME_start`` to ``__NAME_end`` (``batch_convert_cubins_to_obj`` and ``convert_cubin_to_obj`` of
``torch/_inductor/codecache.py``). Only headers, symbols and names are read: a model's weights may
be gigabytes behind them. Structures are those of ELF-64 (System V ABI, chapter 4), little-endian.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from inspector.listing.elf import DYNSYM, HEADER, NOBITS, SECTION, SYMBOL, SYMTAB

Read = Callable[[int, int], bytes]
"""At most so many bytes from an offset on."""

RELOCATABLE = 1
MAX_SECTIONS = 4096
MAX_TABLE_BYTES = 64 << 20
"""Bytes of a table of symbols or of names that are looked at."""
_ENDS = re.compile(rb"\0__([A-Za-z_]\w{0,1000})_(start|end)(?=\0)")


@dataclass(frozen=True, slots=True)
class EmbeddedBinary:
    """A kernel's binary in a file: the name between the symbols, from where on, how many bytes."""

    name: str
    offset: int
    size: int


def binaries(read: Read) -> tuple[EmbeddedBinary, ...]:
    """What stands between such symbols, by name; nothing of what is no ELF file of a host."""
    try:
        return tuple(_binaries(read))
    except (struct.error, IndexError):
        return ()


def _binaries(read: Read) -> Iterator[EmbeddedBinary]:
    head = read(0, HEADER.size)
    if head[:6] != b"\x7fELF\x02\x01":
        return
    _, kind, *_, at, _, _, _, _, size, count, _ = HEADER.unpack(head)
    if size != SECTION.size or count > MAX_SECTIONS:
        return
    table = read(at, size * count)
    sections = [SECTION.unpack_from(table, size * n) for n in range(count)]
    told: set[str] = set()
    for section in sorted(sections, key=lambda s: s[1]):  # all symbols, then the dynamic ones
        if section[1] not in (SYMTAB, DYNSYM) or section[6] >= count:
            continue
        places = dict(_places(read, section, sections[section[6]], sections, kind == RELOCATABLE))
        for name, begins in places.items():
            ends = places.get(name.removesuffix(b"start") + b"end")
            if not name.endswith(b"start") or ends is None or ends <= begins:
                continue
            plain = name.removesuffix(b"_start").decode("ascii", "replace")
            if plain not in told:
                told.add(plain)
                yield EmbeddedBinary(plain, begins, ends - begins)


def _places(
    read: Read,
    symbols: tuple[int, ...],
    names: tuple[int, ...],
    sections: list[tuple[int, ...]],
    relocatable: bool,
) -> Iterator[tuple[bytes, int]]:
    """``NAME_start`` and ``NAME_end`` with where in the file each is."""
    text = read(names[4], min(names[5], MAX_TABLE_BYTES))
    wanted = {m.start() + 1: m[1] + b"_" + m[2] for m in _ENDS.finditer(text)}
    table = read(symbols[4], min(symbols[5], MAX_TABLE_BYTES)) if wanted else b""
    whole = len(table) // SYMBOL.size * SYMBOL.size
    for at, _, _, number, value, _ in SYMBOL.iter_unpack(table[:whole]):
        name = wanted.get(at)
        if name is None or not 0 < number < len(sections) or sections[number][1] == NOBITS:
            continue
        section = sections[number]
        inside = value if relocatable else value - section[3]
        if 0 <= inside <= section[5]:
            yield name, section[4] + inside
