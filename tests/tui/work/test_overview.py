"""The first screen: what ran, where the time goes, and where its lines lead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.dom import DOMNode

from inspector.commands.common import open_reader
from inspector.tui.app.app import PtxviewApp
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.widgets.notice import in_thread
from inspector.tui.work import overview_screen
from inspector.tui.work.overview_screen import OverviewScreen
from tests.helpers.ptxview import SAMPLE, call
from tests.helpers.sample import rest, settle, text_of
from tests.helpers.shared_app import lecture_app, started


def opened(path: Path) -> PtxviewApp:
    return PtxviewApp(open_reader(str(path)), begins_with_overview=True)


async def test_the_first_screen_has_the_run_its_costs_and_hints() -> None:
    async with started(size=(120, 48), app=opened(SAMPLE)) as (pilot, _):
        assert isinstance(pilot.app.screen, OverviewScreen)
        await rest(pilot)
        text = text_of(pilot)
        assert "NVIDIA H200" in text and "9 kernels · 16 variants" in text
        costs = call("list", SAMPLE, "--by", "cost", "--json").json["costs"]
        places = [text.find(cost["title"][:12]) for cost in costs[:5]]
        assert -1 not in places and places == sorted(places)
        assert "costliest kernels" in text or "(masked-lanes)" in text


async def test_enter_on_a_kernel_shows_it_and_a_key_comes_back() -> None:
    async with started(size=(120, 48), app=opened(SAMPLE)) as (pilot, _):
        await rest(pilot)
        overview = pilot.app.screen
        assert isinstance(overview, OverviewScreen)
        index = next(n for n, row in enumerate(overview.rows) if row.kernel is not None)
        chosen = overview.rows[index].kernel
        overview.options.highlighted = index
        await settle(pilot, "enter")
        main = pilot.app.screen
        assert isinstance(main, MainScreen)
        variant = main.panes.subject.variant
        assert variant is not None and variant.hash == chosen
        await settle(pilot, "0")
        assert isinstance(pilot.app.screen, OverviewScreen)
        await settle(pilot, "escape")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_enter_before_there_are_rows_opens_nothing_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hold(node: DOMNode, work: Any, then: Any, group: str, **options: Any) -> None:
        if group == "overview":
            in_thread(node, work, then, group, **options)

    monkeypatch.setattr(overview_screen, "in_thread", hold)
    async with started("enter", size=(120, 48), app=opened(SAMPLE)) as (pilot, _):
        assert isinstance(pilot.app.screen, OverviewScreen)
        await settle(pilot, "enter")
        assert isinstance(pilot.app.screen, OverviewScreen)
        assert "reading times: Enter opens a row once it is known" in text_of(pilot)


async def test_a_finding_leads_to_its_line() -> None:
    async with started(size=(120, 48), app=opened(SAMPLE)) as (pilot, _):
        await rest(pilot)
        overview = pilot.app.screen
        assert isinstance(overview, OverviewScreen)
        index, line = next(
            (n, getattr(row, "line", None))
            for n, row in enumerate(overview.rows)
            if getattr(row, "line", None) is not None
        )
        overview.options.highlighted = index
        await settle(pilot, "enter")
        main = pilot.app.screen
        assert isinstance(main, MainScreen)
        await rest(pilot)
        assert main.view.cursor == line


async def test_keys_of_other_screens_lead_there() -> None:
    async with started("0", "dollar_sign", size=(120, 40), app=lecture_app) as (pilot, _):
        await rest(pilot)
        assert "share: of the totals of the rows" in " ".join(text_of(pilot).split())


async def test_of_a_file_it_says_what_can_be_asked(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_bytes(call("show", SAMPLE, "softmax_kernel", "--stage", "ptx").out)
    async with started(size=(80, 24), app=opened(path)) as (pilot, _):
        await rest(pilot)
        text = text_of(pilot)
        assert "No launch is known" in text and "Find a kernel" in text
        assert "Where the time goes" not in text
