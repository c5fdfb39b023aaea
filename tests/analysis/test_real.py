"""Links on real listings, with nvdisasm's own output as truth."""

import re
from itertools import combinations
from pathlib import PurePath

import pytest

from inspector.analysis.links import StageNames
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.parsers.line import Kind, Listing
from tests.analysis.test_links import KNOWN, link, pairs
from tests.helpers.samples import Disassembler, read_sample

MARK = re.compile(r'\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
CODE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?!\.)\S[^;]*;")


def stages_of(name: str, run: Disassembler) -> dict[Stage, Listing]:
    """Every stage of a sample."""
    annotated = run(f"{name}.cubin", "-c", "-gi", "-gp", "-hex")
    out = {Stage.SASS: parse(Stage.SASS, run(f"{name}.cubin", "-c"), annotated=annotated)}
    for stage in (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX):
        out[stage] = parse(stage, read_sample(f"{name}.{stage.value}"))
    return out


def test_source_and_sass_are_as_nvdisasm_says(nvdisasm: Disassembler) -> None:
    plain = nvdisasm("nested.cubin", "-c")
    annotated = nvdisasm("nested.cubin", "-c", "-gi", "-gp", "-hex")
    sass = parse(Stage.SASS, plain, annotated=annotated)
    source = parse(Stage.SOURCE, read_sample("nested.cu"), path="nested.cu")
    places = {Stage.SOURCE: StageNames("nested.cu")}
    found = link(sass, source, (Stage.SASS, Stage.SOURCE), places, KNOWN)
    # The truth, read apart: a group of marks holds from the instruction after it.
    wanted: list[int] = []
    here, group = 0, []
    for text in nvdisasm("nested.cubin", "-c", "-gi").split("\n"):
        if mark := MARK.match(text):
            group.append((mark[1], int(mark[2])))
        elif CODE.match(text):
            if group:
                inner = [n for file, n in group if PurePath(file).name == "nested.cu"]
                here, group = (inner[0] if inner else 0), []
            wanted.append(here)
        elif ".section" in text:
            here = 0
    code = [line for line in sass.lines if line.kind is Kind.INSTRUCTION]
    assert len(code) == len(wanted)
    for line, n in zip(code, wanted, strict=True):
        assert n == 0 or n in found[line.n]


@pytest.mark.parametrize("name", ["gelu_sm90", "matmul_sm90"])
def test_every_two_stages_both_ways(name: str, nvdisasm: Disassembler) -> None:
    stages = stages_of(name, nvdisasm)
    through = {
        s: link(stages[Stage.PTX], stages[s], (Stage.PTX, s), {}, KNOWN)
        for s in (Stage.TTIR, Stage.TTGIR, Stage.LLIR)
    }
    assert len(stages) >= 5
    for a, b in combinations(sorted(stages, key=lambda s: s.rank), 2):
        extra = through.get(a) if b is Stage.SASS else None
        down = link(stages[a], stages[b], (a, b), {}, KNOWN, extra)
        up = link(stages[b], stages[a], (b, a), {}, KNOWN, extra)
        assert pairs(down) == {(x, y) for y, x in pairs(up)}
        located = [x.n for x in stages[b].lines if x.source and x.kind is Kind.INSTRUCTION]
        assert sum(n in up for n in located) > 0.9 * len(located), (a, b)
        for n, others in up.items():
            assert stages[b].lines[n - 1].kind is Kind.INSTRUCTION
            kinds = {stages[a].lines[o - 1].kind for o in others}
            # nvdisasm gives a kernel's prologue to the brace that opens its PTX.
            assert kinds == {Kind.INSTRUCTION} or (a, b) == (Stage.PTX, Stage.SASS)
