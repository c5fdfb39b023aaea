"""What ``nvdisasm -plr`` prints, taken apart; and a store of it for cubins that are not kept."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parent.parent / "data" / "analysis"
CLASSES = {"GPR": "gpr", "PRED": "pred", "UGPR": "ugpr", "UPRED": "upred"}
FILES = {"GPR": "R", "PRED": "P", "UGPR": "UR", "UPRED": "UP"}
RESERVED = frozenset(("UR79",))
"""The register in which code for debuggers saves the predicates; ``-plr`` does not count it."""
SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+)")
MARK = re.compile(r"[:^vx]")
ADDRESS = re.compile(r"\s*/\*([0-9a-f]{4,})\*/")

Where = tuple[str, int]
"""Section and address."""


class Marks(NamedTuple):
    """The registers that ``-plr`` marks at one instruction."""

    defs: frozenset[str]
    """Marked ``^``, or ``x``, which is both."""
    uses: frozenset[str]
    """Marked ``v`` or ``x``."""
    live: frozenset[str]
    """Marked at all, be it ``:``."""


def read_marks(text: str) -> dict[Where, Marks]:
    """The marks at each instruction of what ``nvdisasm -plr`` prints."""
    out: dict[Where, Marks] = {}
    section = ""
    files: list[str] = []
    columns: dict[int, str] = {}
    for line in text.split("\n"):
        if found := SECTION.match(line):
            section = found[1]
        bar = line.rfind("// |")
        body = line[bar + 2 :] if bar >= 0 else ""
        address = ADDRESS.match(line)
        if address is not None and body:
            marks = [
                (columns[m.start()], m[0]) for m in MARK.finditer(body) if m.start() in columns
            ]
            out[section, int(address[1], 16)] = Marks(
                frozenset(register for register, mark in marks if mark in "^x"),
                frozenset(register for register, mark in marks if mark in "vx"),
                frozenset(register for register, _ in marks),
            )
        elif re.search(r"\|\s+#\s+\d", body):
            bars = [i for i, c in enumerate(body) if c == "|"]
            columns = {
                i: file + number[0]
                for first, last, file in zip(bars, bars[1:], files, strict=False)
                for number in re.finditer(r"\d+", body[first:last])
                for i in range(first + number.start(), first + number.end())
            }
        elif names := re.findall(r"\bU?(?:GPR|PRED)\b", body):
            files = [FILES[name] for name in names]
    return out


def live_sets(text: str) -> dict[Where, frozenset[str]]:
    """Every register that ``-plr`` marks at an instruction."""
    return {where: marks.live for where, marks in read_marks(text).items()}


class Forms(NamedTuple):
    """The forms of instructions of one architecture; see ``forms.py``."""

    text: str
    """What ``nvdisasm -c`` prints."""
    marks: dict[int, Marks]
    """What ``-plr`` marks, by line of ``text``."""


FORMS = tuple(sorted(path.name.split(".")[0] for path in DATA.glob("forms_*.sass.xz")))


@cache
def forms(name: str) -> Forms:
    """The kernels of ``forms_ARCHITECTURE.sass.xz``."""
    lines: list[str] = []
    marks: dict[int, Marks] = {}
    stored = lzma.decompress((DATA / f"{name}.sass.xz").read_bytes()).decode()
    for n, line in enumerate(stored.split("\n"), 1):
        text, tab, marked = line.partition("\t//")
        lines.append(text)
        if tab:
            words = marked.split()
            marks[n] = Marks(
                frozenset(word[1:] for word in words if word[0] in "^x"),
                frozenset(word[1:] for word in words if word[0] in "vx"),
                frozenset(word[1:] for word in words),
            )
    return Forms("\n".join(lines), marks)


def stored_sets(name: str) -> dict[Where, frozenset[str]]:
    """What nvdisasm 12.8 marks in ``plr/NAME.cubin``; later ones do not count its ELF ABI."""
    return live_sets(lzma.decompress((DATA / "plr" / f"{name}.plr.xz").read_bytes()).decode())


class Stored(NamedTuple):
    """One disassembly of ``plr_counts.txt.xz``."""

    name: str
    text: str
    """What ``nvdisasm -c`` prints."""
    counts: dict[int, dict[str, int]]
    """What ``-plr`` counts, by line of ``text``."""


@cache
def stored() -> dict[str, Stored]:
    """By name, such as ``hard_sm75``; see ``plr_README.md``."""
    text = lzma.decompress((DATA / "plr_counts.txt.xz").read_bytes()).decode()
    return {one.name: one for one in _parts(text)}


def _parts(text: str) -> Iterator[Stored]:
    for part in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        name, _, *classes = heading.split()
        lines: list[str] = []
        counts: dict[int, dict[str, int]] = {}
        for n, line in enumerate(body.split("\n"), 1):
            plain, tab, numbers = line.rpartition("\t")
            if tab and ADDRESS.match(line):
                found = zip(classes, map(int, numbers.split()), strict=True)
                counts[n] = {CLASSES[c]: count for c, count in found if count}
                lines.append(plain)
            else:
                lines.append(line)
        yield Stored(name, "\n".join(lines), counts)
