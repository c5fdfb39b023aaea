"""Kernels of cubins: machine code, records, parameters, debugging data; one kernel alone.

Sections, symbols and names are those of ELF-64 files, little-endian (System V ABI, chapter 4).
``extract_kernel`` keeps one kernel, and the functions that it calls, of a cubin with many: a
library's has hundreds (20 MB of torch's, of which nvdisasm makes a gigabyte of text). The one
extracted has the same machine code, constants, attributes, relocations and resources under the
same names; lines and PTX of ``-lineinfo`` and the constants of the whole module are left out.

``embedded_binaries`` finds what AOTInductor embeds in a host's library or object: with
``aot_inductor.embed_kernel_binary`` each kernel's cubin, or fat binary, is read-only data from
``__NAME_start`` to ``__NAME_end`` (``batch_convert_cubins_to_obj`` and ``convert_cubin_to_obj`` of
``torch/_inductor/codecache.py``). Only headers, symbols and names are read: a model's weights may
be gigabytes behind them.
"""

import re
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMTAB = 2
RELA = 4
NOBITS = 8
REL = 9
DYNSYM = 11


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


class FileHeader(NamedTuple):
    """A file's header, field by field; ``names`` is the number of the section of their names."""

    identification: bytes
    type: int
    machine: int
    version: int
    entry: int
    program_headers: int
    section_headers: int
    flags: int
    size: int
    program_header_size: int
    program_header_count: int
    section_header_size: int
    section_count: int
    names: int


class Symbol(NamedTuple):
    """A symbol, field by field; ``name`` is a place among the names, ``section`` a number."""

    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


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
    file = FileHeader(*HEADER.unpack_from(data))
    start = file.section_headers
    size = file.section_header_size
    count = file.section_count
    if size != SECTION.size or start + count * size > len(data) or file.names >= count:
        raise ValueError("damaged section headers")
    headers = [SectionHeader(*SECTION.unpack_from(data, start + n * size)) for n in range(count)]
    if sum(header.size for header in headers if header.type != NOBITS) > 2 * len(data):
        raise ValueError("the sections are larger than the file")
    contents = [b"" if h.type == NOBITS else data[h.offset : h.offset + h.size] for h in headers]
    section_names = read_names(contents[file.names], (header.name for header in headers))
    return list(map(Section, section_names, headers, contents))


def read_symbols(table: bytes) -> Iterator[Symbol]:
    """Every symbol of a table."""
    return map(Symbol._make, SYMBOL.iter_unpack(table))


def read_names(table: bytes, places: Iterable[int]) -> list[str]:
    """Return the NUL-terminated names at some places of a table.

    Raises:
        ValueError: A string has no end, or all are longer than a table's shared endings allow.
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


EM_CUDA = 190
ET_EXEC = 2
STT_FUNC = 2
# st_other's bit for a kernel, as nvdisasm prints it: STO_CUDA_ENTRY.
STO_CUDA_ENTRY = 0x10
# Formats and kinds of the attributes in .nv.info sections, as cuobjdump -elf names them.
EIFMT_BVAL = 2
EIFMT_SVAL = 4
EIATTR_PARAM_CBANK = 0x0A
EIATTR_KPARAM_INFO = 0x17
EIATTR_CBANK_PARAM_SIZE = 0x19
EIATTR_SHARED_SCRATCH = 0x32
EIATTR_NUM_BARRIERS = 0x4C
FATBIN_SECTIONS = (b".nv_fatbin\0", b"__nv_relfatbin\0")
_INFO = ".nv.info."
_TOOL = re.compile(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)")


class Cubin(Struct, frozen=True):
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
    if not sections:
        return None
    code = {s.name[6:]: s.data for s in sections if s.name.startswith(".text.")}
    try:
        entry_names = [name for section in sections for name in _entries(section, sections)]
    except (ValueError, IndexError, struct.error):
        return None
    kernels = tuple(dict.fromkeys(name for name in entry_names if name in code)) or tuple(code)
    has_lines = any(s.name in (".debug_line", ".nv_debug_line_sass") for s in sections)
    return Cubin(kernels, code, _assembler_version(sections), data[8], has_lines)


def _assembler_version(sections: Iterable[Section]) -> str | None:
    """The version in the last note that names one."""
    version = None
    for section in sections:
        if section.name.startswith(".note.nv.tkinfo"):
            match = _TOOL.search(section.data)
            version = match[1].decode() if match else version
    return version


def _entries(table: Section, sections: list[Section]) -> list[str]:
    if table.header.type != SYMTAB:
        return []
    return read_names(
        sections[table.header.link].data,
        (
            symbol.name
            for symbol in read_symbols(table.data)
            if symbol.info & 15 == STT_FUNC and symbol.other & STO_CUDA_ENTRY
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


class Record(Struct, frozen=True):
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
            function_attributes = list(attributes(info.data)) if info else []
            for form, kind, value in function_attributes:
                if kind == EIATTR_NUM_BARRIERS and form == EIFMT_BVAL:
                    barriers = value[0]
            scratch = any(kind == EIATTR_SHARED_SCRATCH for _, kind, _ in function_attributes)
            out[name[6:]] = Record(barriers, scratch, linked)
    return out


def attributes(section: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Format, kind and value of each attribute of a ``.nv.info`` section.

    Format and kind are a byte each; then comes a value of two bytes, or its length and as many
    bytes. NVIDIA documents neither.
    """
    position = 0
    while position + 4 <= len(section):
        form = section[position]
        kind = section[position + 1]
        value = section[position + 2 : position + 4]
        position += 4
        if form == EIFMT_SVAL:
            length = int.from_bytes(value, "little")
            value = section[position : position + length]
            position += length
        yield form, kind, value


class CubinParameter(Struct, frozen=True):
    """``ordinal`` counts from 0; ``offset`` in bytes from the base of the parameters."""

    ordinal: int
    offset: int
    size: int


class CubinParameters(Struct, frozen=True):
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


_RELOCATION = struct.Struct("<QQ")

WHOLE_FILE = (".nv.info", ".note.", ".nv.compat")
"""Prefixes of the sections of a whole file that are kept."""
SHN_LORESERVE = 0xFF00
"""Section numbers from here on are no sections."""

_FUNCTION_SECTION = re.compile(
    r"(\.(?:rela?\.)?text\.|\.nv\.info\.|\.nv\.constant\d+\.|\.nv\.shared\.)(.+)", re.DOTALL
)


def extract_kernel(cubin: bytes, kernel: str) -> bytes | None:
    """A cubin with this kernel alone, and what it calls; None if it is damaged or lacks it."""
    if not is_cubin(cubin):
        return None
    try:
        sections = read_sections(cubin)
        reached = _functions_reached(sections, kernel)
        return _without_other_functions(cubin, sections, reached) if reached else None
    except (ValueError, IndexError, struct.error, StopIteration):
        return None


def _functions_reached(sections: Sequence[Section], kernel: str) -> frozenset[str]:
    """The function and those whose machine code its own refers to, by the names of sections."""
    table = next(s for s in sections if s.header.type == SYMTAB)
    names = {s.name[len(".text.") :] for s in sections if s.name.startswith(".text.")}
    relocations: dict[str, list[Section]] = {}
    for section in sections:
        function = _function_of(section)
        if section.header.type in (REL, RELA) and function is not None:
            relocations.setdefault(function, []).append(section)
    reached: set[str] = set()
    waiting = [kernel] if kernel in names else []
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        for section in relocations.get(name, ()):
            for number in _sections_referred_to(section, table):
                if 0 < number < len(sections):
                    function = _function_of(sections[number])
                    if function is not None:
                        waiting.append(function)
    return frozenset(reached)


def _function_of(section: Section) -> str | None:
    """The function that a section is of; None for one of the whole file."""
    match = _FUNCTION_SECTION.fullmatch(section.name)
    return match[2] if match else None


def _sections_referred_to(relocations: Section, table: Section) -> Iterator[int]:
    """The numbers of the sections of the symbols that relocations refer to."""
    step = 24 if relocations.header.type == RELA else 16
    for position in range(0, len(relocations.data) - step + 1, step):
        _, info = _RELOCATION.unpack_from(relocations.data, position)
        symbol = Symbol._make(SYMBOL.unpack_from(table.data, (info >> 32) * SYMBOL.size))
        yield symbol.section


def _without_other_functions(
    cubin: bytes, sections: Sequence[Section], reached: frozenset[str]
) -> bytes:
    """The file without other functions' sections, symbols and names.

    Their headers and symbols become zeros, so that the numbers of those that are kept stay.
    """
    file = FileHeader(*HEADER.unpack_from(cubin))
    titles_section = file.names
    table = next(n for n, s in enumerate(sections) if s.header.type == SYMTAB)
    strings = sections[table].header.link
    kept_sections = {table, strings, titles_section}
    kept_sections.update(n for n, s in enumerate(sections) if _is_kept(s, reached))
    symbols, gone_symbols = _kept_symbols(sections[table], kept_sections)
    name_places, names = _name_table(read_names(sections[strings].data, (s.name for s in symbols)))
    rows = bytearray()
    for name_place, symbol in zip(name_places, symbols, strict=True):
        rows += SYMBOL.pack(*symbol._replace(name=name_place))
    kept_names = [s.name if n in kept_sections else "" for n, s in enumerate(sections)]
    name_places, section_names = _name_table(kept_names)
    contents = {number: sections[number].data for number in kept_sections}
    contents |= {table: bytes(rows), strings: names, titles_section: section_names}
    for number in kept_sections:
        if sections[number].name == ".nv.info":
            contents[number] = _attributes_without(contents[number], gone_symbols)
    body, section_headers = _laid_out(sections, contents, name_places)
    file = file._replace(program_headers=0, program_header_count=0, section_headers=len(body))
    body[: HEADER.size] = HEADER.pack(*file)
    return bytes(body + section_headers)


def _kept_symbols(table: Section, kept_sections: Container[int]) -> tuple[list[Symbol], set[int]]:
    """A table's symbols, with zeros for those of other sections, and the numbers of these."""
    symbols = list(read_symbols(table.data))
    gone_symbols: set[int] = set()
    for number, symbol in enumerate(symbols):
        if 0 < symbol.section < SHN_LORESERVE and symbol.section not in kept_sections:
            symbols[number] = Symbol(0, symbol.info, 0, 0, 0, 0)
            gone_symbols.add(number)
    return symbols, gone_symbols


def _is_kept(section: Section, reached: frozenset[str]) -> bool:
    """Whether a section is of a function that is kept, or one of the whole file that is."""
    function = _function_of(section)
    return section.name.startswith(WHOLE_FILE) if function is None else function in reached


def _laid_out(
    sections: Sequence[Section], contents: Mapping[int, bytes], name_places: Sequence[int]
) -> tuple[bytearray, bytearray]:
    """A file's body, with room for its header, and the headers of its sections.

    Sections without ``contents``, which are by number, get a header of zeros.
    """
    body = bytearray(HEADER.size)
    headers = bytearray()
    for number, section in enumerate(sections):
        header = SectionHeader(*[0] * 10)
        if number in contents:
            data = contents[number]
            header = section.header
            body += b"\0" * (-len(body) % max(1, min(header.alignment, 4096)))
            size = header.size if header.type == NOBITS else len(data)
            header = header._replace(name=name_places[number], offset=len(body), size=size)
            body += data
        headers += SECTION.pack(*header)
    body += b"\0" * (-len(body) % 8)
    return body, headers


def _name_table(names: Iterable[str]) -> tuple[list[int], bytes]:
    """The place of each name in a table, and the table; place 0 is the empty name."""
    places = []
    out = bytearray(b"\0")
    for name in names:
        places.append(len(out) if name else 0)
        out += name.encode("utf-8", "surrogateescape") + b"\0" if name else b""
    return places, bytes(out)


def _attributes_without(section: bytes, gone_symbols: set[int]) -> bytes:
    """The whole file's attributes (registers, stack …) but those of symbols that are gone."""
    out = bytearray()
    for form, kind, value in attributes(section):
        of_symbol = form == EIFMT_SVAL
        if not of_symbol or struct.unpack_from("<I", value)[0] not in gone_symbols:
            size = struct.pack("<H", len(value)) if of_symbol else b""
            out += bytes((form, kind)) + size + value
    return bytes(out)


ReadBytes = Callable[[int, int], bytes]
"""At most so many bytes from an offset on."""

RELOCATABLE = 1
MAX_SECTIONS = 4096
MAX_TABLE_BYTES = 64 << 20
"""Bytes of a table of symbols or of names that are looked at."""
_ENDS = re.compile(rb"\0__([A-Za-z_]\w{0,1000})_(start|end)(?=\0)")


class EmbeddedBinary(Struct, frozen=True):
    """A kernel's binary in a file: the name between the symbols, from where on, how many bytes."""

    name: str
    offset: int
    size: int


def embedded_binaries(read: ReadBytes) -> tuple[EmbeddedBinary, ...]:
    """What stands between such symbols, by name; nothing of what is no ELF file of a host."""
    try:
        return tuple(_read_embedded_binaries(read))
    except (struct.error, IndexError):
        return ()


def _read_embedded_binaries(read: ReadBytes) -> Iterator[EmbeddedBinary]:
    head = read(0, HEADER.size)
    if head[:6] != b"\x7fELF\x02\x01":
        return
    file = FileHeader(*HEADER.unpack(head))
    size = file.section_header_size
    count = file.section_count
    if size != SECTION.size or count > MAX_SECTIONS:
        return
    table = read(file.section_headers, size * count)
    sections = [SectionHeader(*SECTION.unpack_from(table, size * n)) for n in range(count)]
    yielded_names: set[str] = set()
    for section in sorted(sections, key=lambda s: s.type):  # all symbols, then the dynamic ones
        if section.type not in (SYMTAB, DYNSYM) or section.link >= count:
            continue
        names = sections[section.link]
        relocatable = file.type == RELOCATABLE
        places = dict(_boundary_symbols(read, section, names, sections, relocatable))
        for name, start in places.items():
            end = places.get(name.removesuffix(b"start") + b"end")
            if not name.endswith(b"start") or end is None or end <= start:
                continue
            binary_name = name.removesuffix(b"_start").decode("ascii", "replace")
            if binary_name not in yielded_names:
                yielded_names.add(binary_name)
                yield EmbeddedBinary(binary_name, start, end - start)


def _boundary_symbols(
    read: ReadBytes,
    symbols: SectionHeader,
    names: SectionHeader,
    sections: Sequence[SectionHeader],
    relocatable: bool,
) -> Iterator[tuple[bytes, int]]:
    """``NAME_start`` and ``NAME_end`` with where in the file each is."""
    text = read(names.offset, min(names.size, MAX_TABLE_BYTES))
    name_by_place = {m.start() + 1: m[1] + b"_" + m[2] for m in _ENDS.finditer(text)}
    if not name_by_place:
        return
    table = read(symbols.offset, min(symbols.size, MAX_TABLE_BYTES))
    table_bytes = len(table) // SYMBOL.size * SYMBOL.size
    for symbol in read_symbols(table[:table_bytes]):
        name = name_by_place.get(symbol.name)
        if name is None or not 0 < symbol.section < len(sections):
            continue
        section = sections[symbol.section]
        inside = symbol.value if relocatable else symbol.value - section.address
        if section.type != NOBITS and 0 <= inside <= section.size:
            yield name, section.offset + inside
