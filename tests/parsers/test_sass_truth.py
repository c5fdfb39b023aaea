"""SASS against the vendor's tool."""

import re
from collections.abc import Iterator
from functools import cache

import pytest

from inspector.parsers.line import Kind, Line, Listing
from inspector.parsers.sass import parse_sass
from tests.helpers.plr import FORMS, RESERVED, forms, read_marks
from tests.helpers.samples import DATA, disassemble

EVERY = sorted(path.name for path in DATA.glob("*.cubin"))
WITH_LINES = [name for name in EVERY if not name.startswith("zoo")]
LIVENESS = [name for name in EVERY if name.startswith(("zoo", "tma", "nested"))]
"""``-plr`` works only within nvdisasm's own ELF ABI, that of CUDA 13."""

Where = tuple[str, int]
"""Section and address."""

ANNOTATE = ("-c", "-gi", "-gp", "-hex")
_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,]+)")
_ADDRESS = re.compile(r"\s*/\*([0-9a-f]{4,})\*/")


def addressed(text: str) -> Iterator[tuple[Where | None, str]]:
    """Every line with its section and address, None where it has none."""
    section = ""
    for line in text.split("\n"):
        if found := _SECTION.match(line):
            section = found[1]
        address = _ADDRESS.match(line)
        yield ((section, int(address[1], 16)) if address else None), line


@cache
def listed(name: str) -> Listing:
    return parse_sass(disassemble(name, "-c"), disassemble(name, *ANNOTATE))


@cache
def parsed(name: str) -> dict[Where, Line]:
    """Our lines of a cubin."""
    where = (where for where, _ in addressed(disassemble(name, "-c")))
    return {at: line for at, line in zip(where, listed(name).lines, strict=True) if at is not None}


@pytest.mark.parametrize("name", EVERY)
def test_every_line_is_known(name: str) -> None:
    listing = listed(name)
    assert listing.text == disassemble(name, "-c")
    assert Kind.UNKNOWN not in {line.kind for line in listing.lines}
    instructions = [line for line in listing.lines if line.address is not None]
    assert all(line.control is not None for line in instructions)
    assert {line.kind for line in instructions} == {Kind.INSTRUCTION}
    labels = {line.label for line in listing.lines if line.label}
    assert {t for line in instructions for t in line.targets} <= labels


@pytest.mark.parametrize("name", WITH_LINES)
def test_locations_and_ptx_lines(name: str) -> None:
    """Every mark of -gi and -gp stands on the line after it, with its chain."""
    ours = parsed(name)
    frames: list[tuple[str, int]] = []
    ptx: int | None = None
    seen = 0
    mark = re.compile(r'"([^"]*)", line (\d+)')
    for where, line in addressed(disassemble(name, *ANNOTATE)):
        if "//## " in line:
            found = [(file, int(number)) for file, number in mark.findall(line)]
            if found[0][0] == ".nv_debug_ptx_txt":
                ptx = found[0][1]
            else:
                frames.append(found[0])
        elif where is not None:
            if frames:
                source = ours[where].source
                assert source is not None
                assert [(f.file, f.line) for f in source.frames()] == frames
                seen += 1
            if ptx is not None:
                assert ours[where].ptx_line == ptx
            frames, ptx = [], None
    assert seen > 10


@pytest.mark.parametrize("name", LIVENESS)
def test_registers_are_those_of_nvdisasm(name: str) -> None:
    """Every instruction's defined and used registers, as ``nvdisasm -plr`` marks them."""
    truth = read_marks(disassemble(name, "-c", "-plr"))
    assert len(truth) > 200
    for where, line in parsed(name).items():
        if where in truth and line.base != "CALL":
            # -plr leaves out padding, and charges a call with what the callee does
            assert registers(line) == truth[where][:2], line.text


def registers(line: Line) -> tuple[frozenset[str], frozenset[str]]:
    """What an instruction defines and uses, of the files that -plr counts."""
    defs = {r for r in line.defs if r[0] != "B"} - RESERVED
    uses = {r for r in line.uses if r[0] != "B"} - RESERVED
    if line.base in ("P2R", "UP2UR"):  # read predicates, which -plr does not count
        uses = {r for r in uses if r.lstrip("U")[0] != "P"}
    return frozenset(defs), frozenset(uses)


@pytest.mark.parametrize("name", FORMS)
def test_registers_of_every_form_are_those_of_nvdisasm(name: str) -> None:
    text, marks = forms(name)
    listing = parse_sass(text)
    assert len(marks) > 2000
    wrong = [
        (line.text, defs, uses)
        for n, (defs, uses, _) in marks.items()
        if (line := listing.lines[n - 1]).base != "CALL" and registers(line) != (defs, uses)
    ]
    assert wrong == []
