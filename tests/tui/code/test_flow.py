"""Branches beside the code: as many as there is room for, and followed by a click."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from inspector.tui.code.code_rows import BARS
from inspector.tui.code.code_view import CodeView
from tests.helpers.sample import press, settle, text_of
from tests.helpers.shared_app import lecture_app


async def matmul(pilot: Pilot[None], stage: str) -> CodeView:
    """A kernel with a loop and a branch around it, in one stage."""
    await settle(pilot)
    screen = await settle(pilot, "slash", *"matmul", "enter", "b", "tab", stage, "z")
    await settle(pilot)
    return screen.panes.active.view


def branch(view: CodeView, word: str) -> tuple[int, int]:
    """The last branch that goes back, and where its label stands, by the text of the file."""
    assert view.source is not None
    texts = view.source.texts
    labels = {text.split(":")[0].strip(): n for n, text in enumerate(texts, 1) if ":" in text}
    for n, text in enumerate(texts, 1):
        if word in text.split() and "@" in text:
            name = text.split(word)[1].strip(" \t;`()")
            if labels.get(name, n) < n:
                return n, labels[name]
    raise AssertionError("there is no loop")


async def test_a_click_on_the_bracket_goes_to_the_loops_head_and_back() -> None:
    async with lecture_app.run_test(size=(120, 36)) as pilot:
        view = await matmul(pilot, "7")
        source, head = branch(view, "BRA")
        await pilot.press("colon", *str(source), "enter")
        y = [n for n, _ in view.laid()].index(source)
        row = view.render_line(y).text
        x = next(at for at, sign in enumerate(row) if sign in "┗┣")
        assert view.rows.margin - view.rows.flow_width <= x < view.rows.margin
        assert "┃" in view.render_line(y - 1).text
        head_row = text_of(pilot).splitlines()[3]
        bar = next(at for at, sign in enumerate(row) if sign in BARS)
        assert head_row.index("live") + 3 == view.region.x + bar
        await pilot.click(view, offset=(x, y))
        assert view.cursor == head
        y = [n for n, _ in view.laid()].index(head)
        assert "▸" in view.render_line(y).text[: view.rows.margin]
        await pilot.click(view, offset=(view.rows.margin - 1, y))
        assert view.cursor == source
        await pilot.click(view, offset=(view.rows.margin + 4, y))
        assert view.cursor != source


@pytest.mark.parametrize(
    ("stage", "inside", "head", "end"),
    [
        ("3", "tt.dot ", "scf.for ", "}"),
        ("5", "wgmma.mma_async", "; preds = %.lr.ph, %", "br i1 "),
    ],
)
async def test_loops_of_ir_are_brackets_along_which_one_goes(
    stage: str, inside: str, head: str, end: str
) -> None:
    async with lecture_app.run_test(size=(160, 48)) as pilot:
        view = await matmul(pilot, stage)
        assert view.source is not None
        texts = view.source.texts
        n = next(n for n, text in enumerate(texts, 1) if inside in text and n > 20)
        await press(pilot, "colon", *str(n), "enter", "<along>")
        assert head in texts[view.cursor - 1]
        first = view.cursor
        row = [n for n, _ in view.laid()].index(first)
        assert "▸" in view.render_line(row).text[: view.rows.margin]
        assert "┃" in view.render_line(row + 1).text[: view.rows.margin]
        await press(pilot, "<along>")
        assert view.cursor > n
        assert texts[view.cursor - 1].strip().startswith(end)
        await press(pilot, "<along>")
        assert view.cursor == first
