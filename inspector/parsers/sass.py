"""SASS: the text of ``nvdisasm -c`` or ``cuobjdump -sass``, line by line.

Locations, PTX lines and encodings, which other options print, are joined by function and address.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from inspector.base.stage import Location
from inspector.parsers.line import Control, Function, Kind, Line, Listing
from inspector.parsers.sass_operands import read_operands

# What ``nvdisasm -gi -gp -hex`` prints for each address: location, PTX line, control word.
#
# ``//## File "f", line 7 inlined at "g", line 13`` lines come before the first instruction of their
# place, innermost frame first; they hold until the next ones, as rows of a DWARF line table do. The
# PTX line is a separate table, under the file name ``.nv_debug_ptx_txt``.

MARK = re.compile(
    r'\s*//## File "((?:[^"\\]|\\.)*+)", line (\d{1,9})'
    r'(?: inlined at "((?:[^"\\]|\\.)*+)", line (\d{1,9}))?'
)
SECTION = re.compile(r"\s*\.section\s+(\.text\.[^,\s]++)")
FUNCTION = re.compile(r"\s*+Function\s*+:\s*+(\S(?:.*\S)?)\s*+\Z")
ADDRESS = re.compile(r"\s*/\*([0-9a-f]{4,16})\*/")
WORD = re.compile(r"/\* 0x([0-9a-f]{16}) \*/\s*\Z")
PTX_FILE = ".nv_debug_ptx_txt"


class Annotation(NamedTuple):
    """Location, PTX line and control word of one instruction; None if not known."""

    source: Location | None
    ptx_line: int | None
    control: Control | None


def section_of(text: str) -> str | None:
    """The function whose code begins here: ``.section .text.f`` or cuobjdump's ``Function : f``."""
    if match := SECTION.match(text):
        return match[1].removeprefix(".text.")
    if "Function" in text and (match := FUNCTION.match(text)):
        return match[1]
    return None


def control_of(high: int) -> Control:
    """The scheduling fields of the upper word of a 128-bit instruction."""
    bits = high >> 41
    write = bits >> 5 & 7
    read = bits >> 8 & 7
    return Control(
        stall=bits & 15,
        yield_=bool(bits >> 4 & 1),
        write_barrier=None if write == 7 else write,
        read_barrier=None if read == 7 else read,
        wait=bits >> 11 & 63,
        reuse=bits >> 17 & 15,
    )


def location_of(marks: list[re.Match[str]]) -> Location | None:
    """The chain of one group of marks; None for line 0."""
    frames: list[tuple[str, int]] = []
    for mark in marks:
        frame = (mark[1], int(mark[2]))
        if not frames or frames[-1] != frame:
            frames.append(frame)
        if mark[3] is not None:
            frames.append((mark[3], int(mark[4])))
    if not frames or not frames[0][1]:
        return None
    location: Location | None = None
    for file, line in reversed(frames):
        location = Location(file, line, None, location) if line else location
    return location


def read_annotations(texts: list[str]) -> dict[tuple[str, int], Annotation]:
    """Annotations by function (section) and address."""
    out: dict[tuple[str, int], Annotation] = {}
    section = ""
    source: Location | None = None
    ptx_line: int | None = None
    group: list[re.Match[str]] = []
    pending: tuple[str, int] | None = None
    locations: dict[tuple[str, ...], Location | None] = {}
    for text in texts:
        if "//## " in text and (mark := MARK.match(text)):
            if mark[1].startswith(PTX_FILE):
                ptx_line = int(mark[2]) or None
            else:
                group.append(mark)
            continue
        address = ADDRESS.match(text)
        if address:
            if group:
                key = tuple(m[0] for m in group)
                if key not in locations:
                    locations[key] = location_of(group)
                source = locations[key]
                group = []
            pending = (section, int(address[1], 16))
            out[pending] = Annotation(source, ptx_line, None)
        elif pending and (word := WORD.search(text)):
            if word.start() == len(text) - len(text.lstrip()):
                annotation = out[pending]
                out[pending] = annotation._replace(control=control_of(int(word[1], 16)))
            pending = None
        elif (name := section_of(text)) is not None:
            section = name
            source = None
            ptx_line = None
            group = []
            pending = None
    return out


_INSTRUCTION = re.compile(
    r"\s*+/\*([0-9a-f]{4,16})\*/\s*+(?:\{\s*+)?(?:@(!?U?P(?:\d|T))\s++)?"
    r"([A-Z][\w]*+)((?:\.[\w.]++)?)(?:\s++([^;]*+))?\s*+;"
)
_DATA = re.compile(r"\s*+/\*[0-9a-f]{4,16}\*/\s*+\.\w")
_DIRECTIVE = re.compile(r"\s*+\.[A-Za-z_]")
_WORD_ONLY = re.compile(r"\s*+/\*[^*]*+\*/\s*+\Z")
_HEADING = re.compile(
    r"\s*+(?:Fatbin (?:elf|ptx) code:|=+\s*\Z|code for sm_|arch = |code version = |host = |"
    r"compile_size = |compressed|producer = |identifier:|Function : |host_info|ptxasOptions)"
)
_SEPARATOR = re.compile(r"\s*+\.{4,}+\s*+\Z")


def parse_sass(listing_text: str, annotated: str | None = None) -> Listing:
    """The listing of a text; ``annotated`` is ``nvdisasm -c -gi -gp -hex`` of the same cubin.

    If ``listing_text`` itself holds encodings or locations (cuobjdump, or nvdisasm with options),
    they are read from it.
    """
    texts = listing_text.split("\n")
    annotations: dict[tuple[str, int], Annotation] = {}
    if annotated is not None:
        annotations = read_annotations(annotated.split("\n"))
    elif any("//## " in t or ("*/" in t and " 0x" in t) for t in texts):
        annotations = read_annotations(texts)
    lines: list[Line] = []
    section = ""
    for n, text in enumerate(texts, 1):
        if match := _INSTRUCTION.match(text):
            lines.append(_instruction(n, text, match, section, annotations))
        else:
            section = section_of(text) or section
            lines.append(_other(n, text))
    return Listing("sass", lines, _functions(texts))


def _instruction(
    n: int,
    text: str,
    match: re.Match[str],
    section: str,
    annotations: Mapping[tuple[str, int], Annotation],
) -> Line:
    hexadecimal, guard, base, qualifiers, operands = match.groups()
    opcode = base + qualifiers
    address = int(hexadecimal, 16)
    defs, uses, targets = _registers(base, opcode, guard, (operands or "").rstrip())
    source, ptx_line, control = annotations.get((section, address), (None, None, None))
    line_fields = (base, opcode, defs, uses, source, None, targets, address, ptx_line, control)
    return Line(n, text, Kind.INSTRUCTION, *line_fields)


# Half of a kernel's instructions repeat an earlier one, operands included.
_registers = lru_cache(maxsize=16384)(read_operands)


def _functions(texts: list[str]) -> tuple[Function, ...]:
    """A function for each section of code; functions called within it are part of it."""
    out: list[Function] = []
    name: str | None = None
    first = 0
    entry = True
    last = 0
    for n, text in enumerate(texts, 1):
        ends = text.startswith("//-----") or _SEPARATOR.match(text) or "Fatbin" in text
        section = None if ends else section_of(text)
        if name is not None and (ends or section is not None):
            out.append(Function(name, first, last, entry))
        if ends:
            name = None
            first = n
        elif section is not None:
            name = section
            entry = FUNCTION.match(text) is not None
            if not (first == n - 1 and texts[n - 2].startswith("//-----")):
                first = n
        elif name and ".other" in text and "STO_CUDA_ENTRY" in text:
            entry = True
        if text and not text.isspace():
            last = n
    if name is not None:
        out.append(Function(name, first, last, entry))
    return tuple(out)


def _other(n: int, text: str) -> Line:
    stripped = text.strip()
    if not stripped:
        return Line(n, text, Kind.BLANK)
    if stripped.startswith("//") or _SEPARATOR.match(text) or _WORD_ONLY.match(text):
        return Line(n, text, Kind.COMMENT)
    if stripped.endswith(":") and len(stripped) < 65536 and " " not in stripped:
        return Line(n, text, Kind.LABEL, label=stripped[:-1])
    if _DIRECTIVE.match(text) or _DATA.match(text) or _HEADING.match(text):
        return Line(n, text, Kind.DIRECTIVE)
    return Line(n, text, Kind.UNKNOWN)
