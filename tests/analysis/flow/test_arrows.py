"""Branches as arrows: against the edges that nvdisasm draws, and lanes against a plain search."""

import ast
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.analysis.flow.arrows import MAX_LANES, Arrow, FlowLanes, arrows
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.parsers.line import Kind
from inspector.tui.code.code_rows import along, arrow_at, cells
from tests.analysis.flow.test_flow import drawn
from tests.helpers.nightly import nightly
from tests.helpers.samples import DATA, disassemble, read_sample


@pytest.mark.parametrize("name", ["gelu_sm90.cubin", nightly("zoo_sm120.cubin")])
def test_arrows_of_sass_are_the_jumps_that_nvdisasm_draws(name: str) -> None:
    listing = parse(Stage.SASS, disassemble(name, "-c"))
    lines = listing.lines
    found = list(arrows(listing))
    seen, following, to_of = 0, None, {}
    for line in reversed(lines):
        following = line.address if line.opcode else following
        to_of[line.n] = following
    for function in listing.functions:
        own = lines[function.first - 1 : function.last]
        labels = {line.label for line in own if line.label}
        theirs = {e for title, edges in drawn(name).items() if title in labels for e in edges}
        jumps = {line.address for line in own if line.base in ("BRA", "BRX", "JMP")}
        theirs = {(a, b) for a, b in theirs if a in jumps and b != a + 16}
        ours = set()
        for arrow in found:
            if not function.first <= arrow.target <= function.last:
                continue
            ours |= {(lines[n - 1].address, to_of[arrow.target]) for n in arrow.sources}
        assert theirs <= ours
        # Not drawn: the loop after the end, and a jump to what follows.
        assert all(a == b or b == (a or 0) + 16 for a, b in ours - theirs)
        seen += len(theirs)
    assert seen > 0 or not any("BRA" in line.text and "@" in line.text for line in lines)


def test_labels_are_a_functions_own_and_tables_have_several() -> None:
    text = """.entry f()
{
$L1:
	@%p1 bra $L1;
}
.entry g()
{
$L1:
ts: .branchtargets
	$L2, $L3; // bra $L1;
	brx.idx %r1, ts;
$L2:
	bra.uni $L1;
$L3:
	ret;
}"""
    assert sorted(arrows(parse(Stage.PTX, text))) == [
        Arrow(3, 4, 3, (4,)),
        Arrow(8, 13, 8, (13,)),
        Arrow(11, 12, 12, (11,)),
        Arrow(11, 14, 14, (11,)),
    ]


def told(texts: Sequence[str], comment: str) -> set[tuple[str, str]]:
    """The edges between blocks that LLVM and MLIR write behind a block's label, by name: the
    first block of a function or a region is ^bb0 or the number behind its parameters."""
    out = set()
    for text in texts:
        name, found, before = text.partition(comment)
        if found:
            name = name.strip().rstrip(":").partition("(")[0]
            out |= {(one.strip(" ,%\n"), name) for one in before.split(":")[-1].split(",")}
    return out


@pytest.mark.parametrize(
    ("name", "comment"),
    [
        ("flow_sm90.llir", "; preds = "),
        ("gelu_sm90.llir", "; preds = "),
        ("flow_sm90.ttgir", "// pred"),
    ],
)
def test_arrows_of_ir_are_the_edges_that_its_printer_writes(name: str, comment: str) -> None:
    texts = read_sample(name).splitlines()
    listing = parse(Stage(name.rpartition(".")[2]), read_sample(name))
    labels = {n: line.label for n, line in enumerate(listing.lines, 1) if line.kind is Kind.LABEL}
    labels = {n: label for n, label in labels.items() if label and comment in texts[n - 1]}
    theirs = told(texts, comment)
    (first,) = {before for before, _ in theirs} - set(labels.values())
    ours = set()
    for arrow in arrows(listing):
        if arrow.target in labels:
            for n in arrow.sources:
                above = max((at for at in labels if at <= n), default=0)
                ours.add((labels.get(above, first), labels[arrow.target]))
    assert ours <= theirs
    # Not drawn: where the block that follows is all there is to go on with.
    following = list(labels.values())
    for a, b in theirs - ours:
        assert following.index(b) == (following.index(a) + 1 if a in following else 0)
    assert ours


@pytest.mark.parametrize("stage", ["ttir", "ttgir"])
def test_brackets_of_mlir_are_around_what_its_python_repeats_and_leaves_out(stage: str) -> None:
    python = ast.parse((DATA / "flow.py").read_text())
    listing = parse(Stage(stage), read_sample(f"flow_sm90.{stage}"))
    every = list(arrows(listing))
    texts = [line.text for line in listing.lines]
    for kind, word in ((ast.For, "scf.for"), (ast.While, "scf.while")):
        node = next(one for one in ast.walk(python) if isinstance(one, kind))
        (loop,) = (a for a in every if a.loops and word in texts[a.target - 1])
        within = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
        for line in listing.lines:
            if line.opcode and line.source and not line.opcode.endswith("constant"):
                outer = line.source.frames()[-1].line
                inside = loop.first < line.n < loop.last
                # TTGIR has what does not change before the loop.
                assert inside or stage == "ttgir" or outer not in within, line.text
                assert not inside or node.lineno <= outer <= within[-1] or "yield" in line.text
    choices = [a for a in every if "scf.if" in texts[a.first - 1]]
    assert len(choices) == sum("scf.if" in text for text in texts) == 2
    assert all("else" in texts[a.target - 1] for a in choices)
    (leaves,) = (a for a in every if "scf.condition" in texts[a.first - 1])
    assert not leaves.loops
    assert leaves.last == next(a.last for a in every if a.loops and a.first < leaves.first < a.last)


def test_what_goes_back_and_never_comes_again_is_no_loop() -> None:
    listing = parse(Stage.LLIR, read_sample("flow_sm90.llir"))
    back = [a for a in arrows(listing) if a.sources[-1] >= a.target]
    targets = {listing.lines[a.target - 1].label: a.loops for a in back}
    assert targets["common.ret"] is False
    assert sorted(targets.values()) == [False, True, True]


some = st.lists(
    st.tuples(st.integers(1, 60), st.lists(st.integers(1, 60), min_size=1, max_size=3)),
    max_size=30,
)


@given(some)
def test_arrows_in_a_lane_are_apart_and_all_of_them_can_be_found(
    drawn_from: list[tuple[int, list[int]]],
) -> None:
    every = [
        Arrow(min(target, *own), max(target, *own), target, tuple(sorted(set(own))))
        for target, own in drawn_from
    ]
    flow = FlowLanes(every)
    assert sorted([*flow.loose, *(a for lane in flow.lanes for a in lane)]) == sorted(every)
    assert len(flow.lanes) <= MAX_LANES
    for number, lane in enumerate(flow.lanes):
        assert all(a.last < b.first for a, b in pairwise(lane))
        for n in range(62):
            past = [a for a in lane if a.first <= n <= a.last]
            assert flow.arrow_at(number, n) == next(iter(past), None)
    for n in range(62):
        here = [a for a in every if n == a.target or n in a.sources]
        assert sorted(flow.ends(n)) == sorted(here)
        for shown in range(len(flow.lanes) + 1):
            assert len(cells(flow, shown, n, 0, continued=False)) == shown + 1


def picture(flow: FlowLanes, shown: int, lines: int, again: bool = False) -> list[str]:
    """The gutter beside each line."""
    rows = range(1, lines + 1)
    return ["".join(c[0] for c in cells(flow, shown, n, 0, again)).rstrip() for n in rows]


def test_a_loop_with_a_branch_in_it_and_one_out_of_it() -> None:
    loop, inner, out = Arrow(2, 7, 2, (7,)), Arrow(3, 5, 5, (3,)), Arrow(4, 8, 8, (4,))
    flow = FlowLanes([loop, inner, out])
    assert picture(flow, 3, 8) == [
        "",
        "┏━━▸",
        "┃ ╭─",
        "┃╭┼─",
        "┃│╰▸",
        "┃│",
        "┗╋━━",
        " ╰─▸",
    ]
    # With room for the shortest alone, ends of the others are all that is drawn of them.
    assert picture(flow, 1, 8) == ["", " ▹", "╭─", "│╶", "╰▸", "", " ╶", " ▹"]
    assert picture(flow, 3, 8, again=True)[1:3] == ["┃", "┃ │"]


def test_a_click_means_the_arrow_under_it_and_goes_along() -> None:
    loop, inner = Arrow(2, 9, 2, (7, 9)), Arrow(3, 5, 5, (3,))
    flow = FlowLanes([loop, inner])
    assert arrow_at(flow, 2, 4, 0) == loop
    assert arrow_at(flow, 2, 4, 1) == inner
    assert arrow_at(flow, 2, 3, 2) == inner
    assert arrow_at(flow, 2, 4, 2) is None
    assert [along(loop, n) for n in (9, 4, 2)] == [2, 2, 7]
    assert along(loop._replace(sources=(1, 7)), 2) == 7
