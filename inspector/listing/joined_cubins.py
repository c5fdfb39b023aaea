"""Several cubins as one, so that the disassembler is started once; one kernel of a large one.

nvdisasm takes a third of a second to start and milliseconds for a kernel. Joined are the sections
of machine code with their relocations, constants and symbols, each name with a mark of its cubin
before it; lines and PTX of ``-lineinfo`` are left out. What nvdisasm prints of such a file is, but
for the numbers of labels and the column of encodings, what it prints of each alone: a test holds it
against that. So it is fit to count in, and not to be shown.

A library's cubin has hundreds of kernels (20 MB of torch's, of which nvdisasm makes a gigabyte of
text). ``only`` takes one of them out, with the functions that it calls: the same bytes of machine
code, under the same names.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from inspector.listing.cubin import EIFMT_SVAL, is_cubin

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQ")
SYMTAB, STRTAB, RELA, NOBITS, REL = 2, 3, 4, 8, 9
EIATTR_PARAM_CBANK, EIATTR_EXTERNS = 0x0A, 0x0F
"""Attributes of a function that name symbols: the bank of its parameters, what it calls."""

WHOLE = (b".nv.info", b".note.", b".nv.compat")
"""Beginnings of the names of sections that are of a whole file and are wanted with one kernel."""

RESERVED = 0xFF00
"""Section numbers from here on are no sections (SHN_LORESERVE)."""

_OWN = re.compile(
    rb"(\.(?:rela?\.)?text\.|\.nv\.info\.|\.nv\.constant\d+\.|\.nv\.shared\.)(.+)", re.DOTALL
)
_HEAD = re.compile(r"^(?=//-{3,} )", re.MULTILINE)
_CODE = re.compile(r"//-+ \.text\.(\w+?_)")


@dataclass(frozen=True, slots=True)
class _Section:
    name: bytes
    fields: tuple[int, ...]
    """As in the file: name, type, flags, address, offset, size, link, info, alignment, entry."""
    data: bytes


@dataclass(frozen=True, slots=True)
class JoinedCubins:
    """The file, and the mark before the names of each cubin."""

    data: bytes
    marks: tuple[str, ...]

    def apart(self, text: str) -> dict[int, str]:
        """What nvdisasm printed of the file, by the number of the cubin, under their own names."""
        head, *sections = _HEAD.split(text)
        numbers = {mark: number for number, mark in enumerate(self.marks)}
        parts: dict[int, list[str]] = {}
        for section in sections:
            match = _CODE.match(section)
            if match and match[1] in numbers:
                own = section.replace(match[1], "")
                parts.setdefault(numbers[match[1]], [head]).append(own)
        return {number: "".join(texts) for number, texts in parts.items()}


def kind(cubin: bytes) -> bytes | None:
    """What cubins must have in common to be joined: class, ABI, type, machine and flags; None of
    what is no such file."""
    if not is_cubin(cubin) or len(cubin) < _HEADER.size or cubin[4:6] != b"\x02\x01":
        return None
    return cubin[4:20] + cubin[48:52]


def joined(cubins: Sequence[bytes]) -> JoinedCubins | None:
    """The cubins, all of one ``kind``, as one file; None if one of them is damaged."""
    tag = next(
        (t for t in (b"zq", b"zx", b"qz", b"qx", b"xq") if not any(t + b"0" in c for c in cubins)),
        None,
    )
    if tag is None or not cubins:
        return None
    marks = tuple(b"%s%06d_" % (tag, number) for number in range(len(cubins)))
    try:
        data = _joined(cubins[0], map(_sections, cubins), marks)
    except (ValueError, IndexError, struct.error, KeyError, StopIteration):
        return None
    return JoinedCubins(data, tuple(mark.decode() for mark in marks))


def only(cubin: bytes, kernel: str) -> bytes | None:
    """A cubin with this kernel alone, and what it calls; None if it is damaged or lacks it.

    Its machine code, constants, attributes, relocations and figures are as they were; lines and
    PTX of ``-lineinfo`` and the constants of the whole module are left out.
    """
    try:
        if kind(cubin) is None:
            return None
        sections = _sections(cubin)
        wanted = _called(sections, kernel.encode("utf-8", "surrogateescape"))
        if not wanted:
            return None
        return _joined(cubin, [sections], [b""], wanted)
    except (ValueError, IndexError, struct.error, KeyError, StopIteration):
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


def _marked(name: bytes, mark: bytes) -> bytes:
    """A name with the mark of its cubin: of a section's, before the function's."""
    own = _OWN.fullmatch(name)
    if own is not None:
        return own[1] + mark + own[2]
    return mark + name if name else b""


class _Joiner:
    """Sections and symbols of all, and where those of each have gone."""

    def __init__(self) -> None:
        self.sections = [_Section(b"", (0,) * 10, b"")]
        self.places: list[dict[int, int]] = []
        self.symbols: list[tuple[int, int, bytes, tuple[int, ...], int]] = []

    def take(
        self,
        number: int,
        sections: Sequence[_Section],
        mark: bytes,
        wanted: frozenset[bytes] | None = None,
    ) -> None:
        """The sections of one cubin that hold code or belong to it; ``wanted``: of these functions,
        and those that are of the whole file and name nothing but them."""
        places: dict[int, int] = {}
        for n, section in enumerate(sections):
            own = _OWN.fullmatch(section.name)
            if wanted is not None and (
                own[2] not in wanted if own else not section.name.startswith(WHOLE)
            ):
                continue
            if own or wanted is not None:
                places[n] = len(self.sections)
                self.sections.append(replace(section, name=_marked(section.name, mark)))
        self.places.append(places)
        table = next(s for s in sections if s.fields[1] == SYMTAB)
        strings = sections[table.fields[6]].data
        for n in range(1, len(table.data) // _SYMBOL.size):
            symbol = _SYMBOL.unpack_from(table.data, n * _SYMBOL.size)
            home = symbol[3]
            if 0 < home < RESERVED and home not in places:
                continue
            name = _marked(_name(strings, symbol[0]), mark)
            self.symbols.append((number, n, name, symbol, places.get(home, home)))

    def tables(self) -> tuple[bytes, bytes, int, dict[tuple[int, int], int]]:
        """Symbols, their names, how many are local, and the new number of each."""
        # Local symbols stand first in a table.
        ordered = sorted(self.symbols, key=lambda s: s[3][1] >> 4 != 0)
        symbols, strings = bytearray(_SYMBOL.size), bytearray(b"\0")
        numbers: dict[tuple[int, int], int] = {}
        for number, (cubin, n, name, symbol, home) in enumerate(ordered, 1):
            numbers[cubin, n] = number
            at = len(strings) if name else 0
            strings += name + b"\0" if name else b""
            symbols += _SYMBOL.pack(at, symbol[1], symbol[2], home, symbol[4], symbol[5])
        local = 1 + sum(s[3][1] >> 4 == 0 for s in ordered)
        return bytes(symbols), bytes(strings), local, numbers


def _joined(
    first: bytes,
    sections: Iterable[Sequence[_Section]],
    marks: Sequence[bytes],
    wanted: frozenset[bytes] | None = None,
) -> bytes:
    """One file of the sections of several, with the header of the first."""
    joiner = _Joiner()
    for number, (own, mark) in enumerate(zip(sections, marks, strict=True)):
        joiner.take(number, own, mark, wanted)
    symbols, strings, local, numbers = joiner.tables()
    out = joiner.sections
    symtab = len(out)
    for number, places in enumerate(joiner.places):
        for new in places.values():
            out[new] = _moved(out[new], number, places, numbers, symtab)
    out.append(_Section(b".symtab", (0, SYMTAB, 0, 0, 0, 0, symtab + 1, local, 8, _SYMBOL.size),
                        symbols))  # fmt: skip
    out.append(_Section(b".strtab", (0, STRTAB, 0, 0, 0, 0, 0, 0, 1, 0), strings))
    names = b"\0" + b"".join(s.name + b"\0" for s in out[1:]) + b".shstrtab\0"
    out.append(_Section(b".shstrtab", (0, STRTAB, 0, 0, 0, 0, 0, 0, 1, 0), names))
    return _file(first, out)


def _moved(
    section: _Section,
    number: int,
    places: dict[int, int],
    numbers: dict[tuple[int, int], int],
    symtab: int,
) -> _Section:
    """A section whose references to others and to symbols lead to where those are now."""
    fields = list(section.fields)
    kind_, info, data = fields[1], fields[7], section.data
    if section.name.startswith(b".text."):
        # The upper eight bits are the registers of the function that the others name.
        fields[6] = symtab
        fields[7] = info & 0xFF000000 | numbers.get((number, info & 0xFFFFFF), 0)
    else:
        alone = (b".nv.constant", b".nv.shared", b".note.", b".nv.compat")
        fields[6] = 0 if section.name.startswith(alone) else symtab
        fields[7] = places.get(info, 0)
    if kind_ in (REL, RELA):
        step = 24 if kind_ == RELA else 16
        changed = bytearray(data)
        for at in range(0, len(data) - step + 1, step):
            offset, symbol = _RELOCATION.unpack_from(data, at)
            now = numbers.get((number, symbol >> 32), 0) << 32 | symbol & 0xFFFFFFFF
            _RELOCATION.pack_into(changed, at, offset, now)
        data = bytes(changed)
    elif section.name == b".nv.info":
        own_numbers = {old: new for (own, old), new in numbers.items() if own == number}
        data = _of_these(data, own_numbers)
    elif section.name.startswith(b".nv.info."):
        data = _attributes(data, {old: new for (own, old), new in numbers.items() if own == number})
    return _Section(section.name, tuple(fields), data)


def _attributes(data: bytes, numbers: dict[int, int]) -> bytes:
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


def _of_these(data: bytes, numbers: dict[int, int]) -> bytes:
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
