"""Extracts one kernel, and the functions that it calls, from a cubin with many.

A library's cubin has hundreds of kernels (20 MB of torch's, of which nvdisasm makes a gigabyte of
text). The extracted kernel has the same machine code, constants, attributes, relocations and
resources under the same names; lines and PTX of ``-lineinfo`` and the constants of the whole module
are left out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from inspector.listing.cubin import EIFMT_SVAL, is_cubin

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQ")
SYMTAB, STRTAB, RELA, NOBITS, REL = 2, 3, 4, 8, 9
EIATTR_PARAM_CBANK, EIATTR_EXTERNS = 0x0A, 0x0F
"""Attributes of a function that name symbols: the bank of its parameters, what it calls."""

WHOLE_FILE = (b".nv.info", b".note.", b".nv.compat")
"""Prefixes of the sections of a whole file that are kept."""
UNLINKED = (b".nv.constant", b".nv.shared", b".note.", b".nv.compat")
"""Prefixes of sections whose ``sh_link`` is no symbol table."""

SHN_LORESERVE = 0xFF00
"""Section numbers from here on are no sections."""

_OWN = re.compile(
    rb"(\.(?:rela?\.)?text\.|\.nv\.info\.|\.nv\.constant\d+\.|\.nv\.shared\.)(.+)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class _Section:
    name: bytes
    fields: tuple[int, ...]
    """As in the file: name, type, flags, address, offset, size, link, info, alignment, entry."""
    data: bytes


def only(cubin: bytes, kernel: str) -> bytes | None:
    """A cubin with this kernel alone, and what it calls; None if it is damaged or lacks it."""
    if not is_cubin(cubin) or len(cubin) < _HEADER.size or cubin[4:6] != b"\x02\x01":
        return None
    try:
        sections = _sections(cubin)
        wanted = _called(sections, kernel.encode("utf-8", "surrogateescape"))
        return _extracted(cubin, sections, wanted) if wanted else None
    except (ValueError, IndexError, struct.error, StopIteration):
        return None


def _called(sections: Sequence[_Section], kernel: bytes) -> frozenset[bytes]:
    """The function and those whose machine code its own refers to, by the names of sections."""
    table = next(s for s in sections if s.fields[1] == SYMTAB)
    names = {s.name[len(b".text.") :] for s in sections if s.name.startswith(b".text.")}
    relocations: dict[bytes, list[_Section]] = {}
    for section in sections:
        if section.fields[1] in (REL, RELA) and (own := _OWN.fullmatch(section.name)):
            relocations.setdefault(own[2], []).append(section)
    wanted: set[bytes] = set()
    waiting = [kernel] if kernel in names else []
    while waiting:
        name = waiting.pop()
        if name in wanted:
            continue
        wanted.add(name)
        for section in relocations.get(name, ()):
            step = 24 if section.fields[1] == RELA else 16
            for at in range(0, len(section.data) - step + 1, step):
                number = _RELOCATION.unpack_from(section.data, at)[1] >> 32
                home = _SYMBOL.unpack_from(table.data, number * _SYMBOL.size)[3]
                if 0 < home < len(sections) and (own := _OWN.fullmatch(sections[home].name)):
                    waiting.append(own[2])
    return frozenset(wanted)


def _sections(cubin: bytes) -> list[_Section]:
    header = _HEADER.unpack_from(cubin)
    offset, size, count, names_at = header[6], header[11], header[12], header[13]
    if size != _SECTION.size or count * size > len(cubin):
        raise ValueError("damaged")
    fields = [_SECTION.unpack_from(cubin, offset + n * size) for n in range(count)]
    data = [b"" if f[1] == NOBITS else cubin[f[4] : f[4] + f[5]] for f in fields]
    if sum(map(len, data)) > 2 * len(cubin):  # sections that overlap, a thousand times over
        raise ValueError("damaged")
    return [_Section(_name(data[names_at], f[0]), f, d) for f, d in zip(fields, data, strict=True)]


def _name(table: bytes, at: int) -> bytes:
    return table[at : table.index(b"\0", at)]


def _extracted(cubin: bytes, sections: Sequence[_Section], wanted: frozenset[bytes]) -> bytes:
    """A file of these functions' sections and of those of the whole file."""
    kept = [0]
    for number, section in enumerate(sections):
        own = _OWN.fullmatch(section.name)
        if own[2] in wanted if own else section.name.startswith(WHOLE_FILE):
            kept.append(number)
    places = {old: new for new, old in enumerate(kept) if new}
    table = next(s for s in sections if s.fields[1] == SYMTAB)
    every = [_SYMBOL.unpack_from(table.data, at) for at in
             range(0, len(table.data) - _SYMBOL.size + 1, _SYMBOL.size)]  # fmt: skip
    old_numbers = [
        n for n, symbol in enumerate(every)
        if n and (not 0 < symbol[3] < SHN_LORESERVE or symbol[3] in places)
    ]  # fmt: skip
    old_numbers.sort(key=lambda n: every[n][1] >> 4 != 0)  # local symbols stand first in a table
    numbers = {old: new for new, old in enumerate(old_numbers, 1)}
    strings, symbols = bytearray(b"\0"), bytearray(_SYMBOL.size)
    for old in old_numbers:
        at, info, other, home, value, size = every[old]
        name = _name(sections[table.fields[6]].data, at)
        symbols += _SYMBOL.pack(
            len(strings) if name else 0, info, other, places.get(home, home), value, size
        )
        strings += name + b"\0" if name else b""
    local = 1 + sum(every[old][1] >> 4 == 0 for old in old_numbers)
    symtab = len(kept)
    out = [_Section(b"", (0,) * 10, b"")]
    out += [_moved(sections[old], places, numbers, symtab) for old in kept[1:]]
    names = b"\0" + b"".join(s.name + b"\0" for s in out[1:]) + b".symtab\0.strtab\0.shstrtab\0"
    out += [
        _Section(b".symtab", (0, SYMTAB, 0, 0, 0, 0, symtab + 1, local, 8, _SYMBOL.size),
                 bytes(symbols)),
        _Section(b".strtab", (0, STRTAB, 0, 0, 0, 0, 0, 0, 1, 0), bytes(strings)),
        _Section(b".shstrtab", (0, STRTAB, 0, 0, 0, 0, 0, 0, 1, 0), names),
    ]  # fmt: skip
    return _file(cubin, out)


def _moved(
    section: _Section, places: Mapping[int, int], numbers: Mapping[int, int], symtab: int
) -> _Section:
    """A section whose references to others and to symbols have their new numbers."""
    fields = list(section.fields)
    type_, info, data = fields[1], fields[7], section.data
    if section.name.startswith(b".text."):
        # The upper eight bits are the registers of the function that the others name.
        fields[6] = symtab
        fields[7] = info & 0xFF000000 | numbers.get(info & 0xFFFFFF, 0)
    else:
        fields[6] = 0 if section.name.startswith(UNLINKED) else symtab
        fields[7] = places.get(info, 0)
    if type_ in (REL, RELA):
        step = 24 if type_ == RELA else 16
        changed = bytearray(data)
        for at in range(0, len(data) - step + 1, step):
            offset, symbol = _RELOCATION.unpack_from(data, at)
            now = numbers.get(symbol >> 32, 0) << 32 | symbol & 0xFFFFFFFF
            _RELOCATION.pack_into(changed, at, offset, now)
        data = bytes(changed)
    elif section.name == b".nv.info":
        data = _of_these(data, numbers)
    elif section.name.startswith(b".nv.info."):
        data = _attributes(data, numbers)
    return _Section(section.name, tuple(fields), data)


def _attributes(data: bytes, numbers: Mapping[int, int]) -> bytes:
    """The attributes of a function, whose symbols have other numbers now."""
    out, at = bytearray(data), 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != EIFMT_SVAL:
            continue
        many = {EIATTR_PARAM_CBANK: 1, EIATTR_EXTERNS: size // 4}.get(attribute, 0)
        for word in range(at, min(at + 4 * many, at + size - 3, len(data) - 3), 4):
            (symbol,) = struct.unpack_from("<I", data, word)
            struct.pack_into("<I", out, word, numbers.get(symbol, 0))
        at += size
    return bytes(out)


def _of_these(data: bytes, numbers: Mapping[int, int]) -> bytes:
    """The attributes of a file that are of these functions: registers, stack (a symbol each)."""
    out, at = bytearray(), 0
    while at + 4 <= len(data):
        form, _, size = struct.unpack_from("<BBH", data, at)
        end = at + 4 + (size if form == EIFMT_SVAL else 0)
        if form != EIFMT_SVAL:
            out += data[at:end]
        elif size >= 4 and (now := numbers.get(struct.unpack_from("<I", data, at + 4)[0])):
            out += data[at : at + 4] + struct.pack("<I", now) + data[at + 8 : end]
        at = end
    return bytes(out)


def _file(like: bytes, sections: Sequence[_Section]) -> bytes:
    """An ELF file of these sections, with the header of another."""
    body, heads = bytearray(_HEADER.size), bytearray()
    for at, section in zip(_starts(sections), sections, strict=True):
        fields = list(section.fields)
        fields[0] = at
        if section.name:
            align = fields[8] if 0 < fields[8] <= 4096 else 1
            body += b"\0" * (-len(body) % align)
            fields[4] = len(body)
            if fields[1] != NOBITS:
                fields[5] = len(section.data)
                body += section.data
        heads += _SECTION.pack(*fields)
    body += b"\0" * (-len(body) % 8)
    header = list(_HEADER.unpack_from(like))
    header[5], header[6], header[10] = 0, len(body), 0  # no program headers
    header[12], header[13] = len(sections), len(sections) - 1
    body[: _HEADER.size] = _HEADER.pack(*header)
    return bytes(body + heads)


def _starts(sections: Sequence[_Section]) -> Iterator[int]:
    """Where the name of each section begins among all of them."""
    at = 1
    for section in sections:
        yield at if section.name else 0
        at += len(section.name) + 1 if section.name else 0
