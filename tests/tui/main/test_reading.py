"""Reading in several panes: searching as one types, folds in the way, branches, odd sizes."""

from __future__ import annotations

from inspector.base.model import Stage
from inspector.parsers.line import Kind, Line, Listing
from inspector.tui.app.app import PtxviewApp
from tests.helpers.sample import FakeReader, FakeStages, reader, settle, text_of
from tests.helpers.shared_app import started


async def test_a_search_follows_what_one_types_and_counts_in_every_pane() -> None:
    async with started("tab", "tab", "slash", *"st.gl", size=(120, 40)) as (pilot, screen):
        view = screen.panes.active.view
        assert view.cursor == 55
        await settle(pilot, "backspace", "backspace", "backspace", "backspace", "backspace")
        assert view.cursor == 11  # nothing is searched for: where it began
        await settle(pilot, *"row", "enter")
        assert "Nothing matches “row” here; 4 in source." in text_of(pilot)


async def test_giving_a_search_up_goes_back_and_keeps_the_one_before() -> None:
    async with started(
        "tab", "tab", "slash", *"mov", "enter", "slash", *"st.gl", size=(120, 40)
    ) as (pilot, screen):
        view = screen.panes.active.view
        assert view.cursor == 55
        await settle(pilot, "escape")
        assert view.cursor == 11
        assert view.pattern is not None
        assert view.pattern.pattern == "mov"
        assert view.matches == (11, 12)


class Branching(FakeStages):
    """PTX with a loop, a branch out of it and one that goes nowhere."""

    def listing(self, variant: object, stage: Stage) -> Listing:
        texts = ("$L1:", "\tadd;", "\tbra $L1;", "\tbra $gone;", "\tret;")
        targets = ((), (), ("$L1",), ("$gone",), ())
        return Listing(
            "ptx",
            tuple(
                Line(n, text, Kind.UNKNOWN, targets=t)
                for n, (text, t) in enumerate(zip(texts, targets, strict=True), 1)
            ),
        )


async def test_enter_follows_a_branch_and_the_way_leads_back() -> None:
    made = reader()
    app = PtxviewApp(FakeReader(made.recording, made.texts, stages_type=Branching))
    async with started(size=(80, 24), app=app) as (pilot, screen):
        view = screen.panes.active.view
        await settle(pilot, "tab", "colon", "3", "enter", "enter")
        assert view.cursor == 1
        assert view.has_focus
        await pilot.press("comma")
        assert view.cursor == 3
        await settle(pilot, "j", "enter")
        assert view.cursor == 4
        assert "$gone is not in this listing." in text_of(pilot)


async def test_every_row_of_a_wrapped_listing_comes_into_view() -> None:
    class Wide(FakeStages):
        def listing(self, variant: object, stage: Stage) -> Listing:
            lines = (Line(n, f"{n:03}" + "日x" * 100 + "END", Kind.UNKNOWN) for n in range(1, 31))
            return Listing("ptx", tuple(lines))

    made = reader()
    app = PtxviewApp(FakeReader(made.recording, made.texts, stages_type=Wide))
    async with started(size=(80, 24), app=app) as (pilot, screen):
        view = screen.panes.active.view
        await settle(pilot, "tab", "<wrap>", "z")
        for n in (1, 30, 17):
            view.go(n)
            await pilot.pause()
            own = [part for line, part in view.laid() if line == n]
            assert [first > 0 for first, _ in own] == [False] + [True] * (len(own) - 1)
            assert "END" in "".join(
                view.render_line(y).text for y, (line, _) in enumerate(view.laid()) if line == n
            )
        view.foldable(view.folding.regions)  # found by a thread that was slower than the reader
        assert "END" in "".join(
            view.render_line(y).text for y, (line, _) in enumerate(view.laid()) if line == 17
        )
        for _ in range(40):
            view.action_move(-1)
        assert view.cursor == 1
        view.action_page(1)
        assert view.cursor > 1
