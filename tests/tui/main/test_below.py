"""Annotations below the panes: with forty rows all of them are shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inspector.tui.panes.pane_screen import ReadingLine, stacked
from tests.helpers.ptxview import SAMPLE, call
from tests.helpers.sample import settle
from tests.helpers.shared_app import lecture_app, started

texts = st.lists(st.text("ab ", min_size=1, max_size=300).filter(str.strip), min_size=1, max_size=7)


@given(texts, st.integers(20, 120), st.integers(7, 9))
def test_every_part_has_a_row_and_nothing_is_lost_that_fits(
    parts: list[str], width: int, height: int
) -> None:
    rows = stacked([(text, str(at)) for at, text in enumerate(parts)], width, height)
    assert len(rows) <= height
    assert all(len(text) <= width for text, _ in rows)
    by_part = ["".join(t for t, s in rows if s == str(at)) for at in range(len(parts))]
    for said, text in zip(by_part, parts, strict=True):
        bare, wanted = "".join(said.split()), "".join(text.split())
        assert bare
        assert bare == wanted or (len(rows) == height and wanted.startswith(bare.removesuffix("…")))


async def test_sentence_hint_wait_and_register_are_shown_together() -> None:
    said = call("show", SAMPLE, "softmax_kernel", "--stage", "sass", "--json").json["lines"]
    line = next(n for n in said if n["notes"] and n["waits"] and n["sentence"])
    async with started(size=(120, 40), app=lecture_app) as (pilot, _):
        await pilot.press("slash", *"softmax_k", "enter", "tab", "7", "colon", *str(line["n"]))
        screen = await settle(pilot, "enter")
        await settle(pilot)
        below = screen.query_one(ReadingLine)
        shown = "".join(
            "".join(below.render_line(y).text.split()) for y in range(below.size.height)
        )
        for text in (line["sentence"], line["notes"][0]["text"], *line["waits"]):
            words = "".join(text.split())
            assert words in shown or f"{words[:40]}" in shown, text
        registers = [*line["defs"], *line["uses"]]
        assert any(f"{name}:defined" in shown for name in registers)
        assert below.size.height == 6
