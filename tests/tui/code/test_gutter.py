"""The gutter: its head, its bars, and from the largest figure down; held to ``show --json``."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from inspector.analysis.line_annotations import ranked
from inspector.tui.code.code_rows import BARS
from inspector.tui.code.code_view import CodeView
from tests.helpers.ptxview import SAMPLE, call
from tests.helpers.sample import settle, text_of
from tests.helpers.shared_app import lecture_app


def lines_of(stage: str) -> list[dict[str, Any]]:
    """What ``show --json`` says of each line of the softmax."""
    said = call("show", SAMPLE, "softmax_kernel", "--stage", stage, "--json").json
    return list(said["lines"])


async def softmax(pilot: Pilot[None], *keys: str) -> CodeView:
    await settle(pilot)
    screen = await settle(pilot, "slash", *"softmax_k", "enter", "b", "tab", "z", *keys)
    await settle(pilot)
    return screen.panes.active.view


def cell(view: CodeView, n: int) -> tuple[str, bool]:
    """What the first column shows on a line, and whether it has the peak's colour."""
    text, loud = view.rows.gutter.parts(n)[0]
    return text.strip(), loud


async def test_the_peak_its_number_and_its_colour_are_one_measure() -> None:
    said = {line["n"]: line["live"]["gpr"] for line in lines_of("sass") if line["live"]}
    most = max(said.values())
    async with lecture_app.run_test(size=(120, 36)) as pilot:
        view = await softmax(pilot, "7")
        assert "live" in text_of(pilot).splitlines()[3].split()
        for n, count in said.items():
            text, loud = cell(view, n)
            assert text.rstrip("".join(BARS)) == str(count)
            assert loud == (count == most)
            assert text.endswith(BARS[-1]) == (count * 8 >= most * 7) or not count
        await settle(pilot, "<largest.live>")
        assert said[view.cursor] == most
        assert f"{most} live registers, the most of any line" in text_of(pilot)
        order = [view.cursor]
        for _ in range(3):
            await settle(pilot, "<largest.live>")
            order.append(view.cursor)
        counts = [said[n] for n in order]
        assert counts == sorted(counts, reverse=True)
        assert len(set(order)) == len(order)
        for n in order:  # each is a local peak
            beside = [said[m] for m in (n - 1, n + 1) if m in said]
            assert all(said[n] >= other for other in beside)


async def test_on_a_source_line_the_figure_is_that_of_its_machine_code() -> None:
    said = {n["n"]: n["rolled_up"]["live"]["gpr"] for n in lines_of("source") if n["rolled_up"]}
    async with lecture_app.run_test(size=(120, 36)) as pilot:
        view = await softmax(pilot, "1", "<largest.live>")
        assert said[view.cursor] == max(said.values())
        assert cell(view, view.cursor) == (f"{max(said.values())}{BARS[-1]}", True)


@given(st.lists(st.integers(0, 9), max_size=30))
def test_places_are_ranked_from_the_highest(heights: list[int]) -> None:
    figures = list(enumerate(heights, 1))
    lines = ranked(figures, plateaus=False, limit=10)
    assert [heights[n - 1] for n in lines] == sorted(filter(None, heights), reverse=True)[:10]
    places = ranked(figures, plateaus=True, limit=10)
    assert not any(heights) or heights[places[0] - 1] == max(heights)
    for n in places:
        assert n == 1 or heights[n - 2] < heights[n - 1]
        after = next((h for h in heights[n:] if h != heights[n - 1]), 0)
        assert after < heights[n - 1]
