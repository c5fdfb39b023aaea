"""Branches as arrows: against the edges that nvdisasm draws, and lanes against a plain search."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.analyse.flow.arrows import MOST_LANES, Arrow, FlowLanes, arrows
from inspector.listing import parse
from inspector.listing.line import Listing
from inspector.model import Stage
from inspector.tui.code.flow import along, arrow_at, cells
from inspector.tui.code.highlight import texts_of
from tests.analyse.flow.test_flow import CUBINS, drawn
from tests.helpers.samples import disassemble, read_sample


def of(listing: Listing) -> list[Arrow]:
    """The arrows of a listing."""
    return list(arrows(texts_of(listing), listing.functions, listing.language))


@pytest.mark.parametrize("name", CUBINS)
def test_arrows_of_sass_are_the_jumps_that_nvdisasm_draws(name: str) -> None:
    listing = parse(Stage.SASS, disassemble(name, "-c"))
    lines = listing.lines
    found = of(listing)
    seen = 0
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
            to = next(line.address for line in lines[arrow.target - 1 :] if line.opcode)
            ours |= {(lines[n - 1].address, to) for n in arrow.sources}
        assert theirs <= ours
        # Not drawn: the loop after the end, and a jump to what follows.
        assert all(a == b or b == (a or 0) + 16 for a, b in ours - theirs)
        seen += len(theirs)
    assert seen > 0 or not any("BRA" in line.text and "@" in line.text for line in lines)


def test_the_loop_of_a_real_kernel_is_a_bracket_around_its_products() -> None:
    listing = parse(Stage.PTX, read_sample("matmul_sm90.ptx"))
    loops = [arrow for arrow in of(listing) if arrow.loops]
    assert len(loops) == 1
    inside = [line.text for line in listing.lines[loops[0].first - 1 : loops[0].last]]
    assert any("mma" in text for text in inside)
    assert inside[0].split("//")[0].strip().rstrip(":") in inside[-1]


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
    assert sorted(of(parse(Stage.PTX, text))) == [
        Arrow(3, 4, 3, (4,)), Arrow(8, 13, 8, (13,)), Arrow(11, 12, 12, (11,)),
        Arrow(11, 14, 14, (11,)),
    ]  # fmt: skip


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
    assert len(flow.lanes) <= MOST_LANES
    for number, lane in enumerate(flow.lanes):
        assert all(a.last < b.first for a, b in pairwise(lane))
        for n in range(62):
            past = [a for a in lane if a.first <= n <= a.last]
            assert flow.at(number, n) == next(iter(past), None)
    for n in range(62):
        here = [a for a in every if n == a.target or n in a.sources]
        assert sorted(flow.ends(n)) == sorted(here)
        for shown in range(len(flow.lanes) + 1):
            assert len(cells(flow, shown, n, 0, again=False)) == shown + 1


def picture(flow: FlowLanes, shown: int, lines: int, again: bool = False) -> list[str]:
    """What stands beside each line."""
    rows = range(1, lines + 1)
    return ["".join(c.sign for c in cells(flow, shown, n, 0, again)).rstrip() for n in rows]


def test_a_loop_with_a_branch_in_it_and_one_out_of_it() -> None:
    loop, inner, out = Arrow(2, 7, 2, (7,)), Arrow(3, 5, 5, (3,)), Arrow(4, 8, 8, (4,))
    flow = FlowLanes([loop, inner, out])
    assert picture(flow, 3, 8) == [
        "", "┏━━▸", "┃ ╭─", "┃╭┼─", "┃│╰▸", "┃│", "┗╋━━", " ╰─▸",
    ]  # fmt: skip
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
