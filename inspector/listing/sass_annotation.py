"""What ``nvdisasm -gi -gp -hex`` says of each address: location, PTX line, control word.

``//## File "f", line 7 inlined at "g", line 13`` lines stand before the first instruction of
their place, innermost frame first; they hold until the next ones, as rows of a DWARF line table
do. The PTX line is a table of its own, under the file name ``.nv_debug_ptx_txt``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from inspector.listing.line import Control
from inspector.model import Location

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
    """What is known of one instruction."""

    source: Location | None
    ptx_line: int | None
    control: Control | None


def section_of(text: str) -> str | None:
    """The function whose code begins here: ``.section .text.f`` or cuobjdump's ``Function : f``."""
    if found := SECTION.match(text):
        return found[1].removeprefix(".text.")
    if "Function" in text and (found := FUNCTION.match(text)):
        return found[1]
    return None


def control_of(high: int) -> Control:
    """The scheduling fields of the upper word of a 128-bit instruction."""
    bits = high >> 41
    write, read = bits >> 5 & 7, bits >> 8 & 7
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
    here: Location | None = None
    for file, line in reversed(frames):
        if line:
            here = Location(file, line, None, here)
    return here if frames and frames[0][1] else None


def read_annotations(texts: list[str]) -> dict[tuple[str, int], Annotation]:
    """By function (section) and address."""
    out: dict[tuple[str, int], Annotation] = {}
    section = ""
    source: Location | None = None
    ptx_line: int | None = None
    group: list[re.Match[str]] = []
    pending: tuple[str, int] | None = None
    known: dict[tuple[str, ...], Location | None] = {}
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
                if key not in known:
                    known[key] = location_of(group)
                source = known[key]
                group = []
            pending = (section, int(address[1], 16))
            out[pending] = Annotation(source, ptx_line, None)
        elif pending and (word := WORD.search(text)):
            if word.start() == len(text) - len(text.lstrip()):
                before = out[pending]
                out[pending] = before._replace(control=control_of(int(word[1], 16)))
            pending = None
        elif (name := section_of(text)) is not None:
            section, source, ptx_line, group, pending = name, None, None, [], None
    return out
