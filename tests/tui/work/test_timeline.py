"""The timeline in the interface: ``t`` in the table of cost, zoom, moving, Enter to the kernel."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.dom import DOMNode
from textual.pilot import Pilot

from inspector.commands.common import open_reader
from inspector.tui.app.app import PtxviewApp
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.widgets.notice import in_thread
from inspector.tui.work import compiles_screen, timeline_key
from inspector.tui.work.timeline_screen import TimelineScreen, TimelineView
from tests.helpers.gpu_timeline import US, recorded, steps, timeline_file
from tests.helpers.sample import settle, text_of
from tests.helpers.shared_app import lecture_app, started
from tests.recording.test_driver_records import symbol as symbol

pytestmark = pytest.mark.usefixtures("new_user")

Opened = tuple[Pilot[None], MainScreen, TimelineView]


@asynccontextmanager
async def timeline(folder: Path, size: tuple[int, int] = (100, 30)) -> AsyncIterator[Opened]:
    """The timeline of a recording, opened from the table of cost."""
    app = PtxviewApp(open_reader(str(folder)))
    async with started("$", size=size, app=app) as (ui, main):
        await settle(ui, "t")
        assert isinstance(ui.app.screen, TimelineScreen)
        yield ui, main, ui.app.screen.view


def notices(ui: Pilot[None]) -> list[str]:
    """What the frame says below: a notification would cover rows."""
    assert not ui.app._notifications
    return [str(frame.border_subtitle) for frame in ui.app.screen.children]


@pytest.fixture
def folder(tmp_path: Path, symbol: bytes) -> Path:
    return recorded(tmp_path / "recording", symbol, timeline_file(steps(40)))


async def test_streams_are_rows_and_the_footer_names_the_keys(folder: Path) -> None:
    async with timeline(folder) as (ui, _, view):
        text = text_of(ui)
        rows = [line.strip("│ ") for line in text.split("\n")]
        assert view.length == 100 * US  # a step
        assert any(row.startswith("stream 7 ") and "triton" in row for row in rows)
        assert any(row.startswith("stream 9 ") for row in rows)
        assert "39 steps of 100.0 µs" in text and "╷" in text and "▲" in text
        for words in ("+ − zoom", "← → move", "[ ] kernel", "g gap", "Enter", "Esc"):
            assert words in text


async def test_keys_zoom_from_all_of_it_to_a_microsecond_a_column(folder: Path) -> None:
    async with timeline(folder) as (ui, _, view):
        await settle(ui, "plus", "plus", "plus", "plus")
        assert view.length == view.columns * US
        await settle(ui, *["minus"] * 9)
        assert (view.begin, view.length) == (0, view.shown.streams.length)
        await settle(ui, *["equals_sign"] * 4)
        chosen = view.shown.streams.start[view.selected]
        assert view.begin <= chosen <= view.begin + view.length


async def test_keys_go_through_kernels_gaps_and_time(folder: Path) -> None:
    async with timeline(folder) as (ui, _, view):
        streams = view.shown.streams
        await settle(ui, "home")
        assert (view.selected, view.begin) == (0, 0)
        assert "at 0.00 µs · 2.00 µs · no gap before it · GPU 0 stream 7 · copy" in text_of(ui)
        await settle(ui, "right_square_bracket")
        assert view.selected == 1
        assert "at 10.00 µs · 20.0 µs · after 8.00 µs idle · GPU 0 stream 7" in text_of(ui)
        await settle(ui, "g")
        assert (view.selected, streams.idle[view.selected]) == (3, 70 * US)
        await settle(ui, "G", "left_square_bracket")
        assert view.selected == 0
        await settle(ui, "end")
        assert view.selected == len(streams) - 1
        await settle(ui, "g")
        assert any("No gap of 2%" in text for text in notices(ui))
        begin = view.begin
        await settle(ui, "left")
        assert view.begin < begin
        await settle(ui, "right")
        assert view.begin == begin


async def test_enter_goes_to_the_kernel_or_says_why_it_cannot(folder: Path) -> None:
    async with timeline(folder) as (ui, main, _):
        await settle(ui, "home", "enter")
        assert notices(ui) == ["No code of this was recorded."]
        await settle(ui, "n", "enter")
        assert ui.app.screen is main
        assert main.panes.subject.variant is not None


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (30, 8), (200, 60)])
async def test_it_fits_into_any_terminal(folder: Path, size: tuple[int, int]) -> None:
    async with timeline(folder, size) as (ui, _, _):
        text = text_of(ui)
        assert "stream 7" in text and "▲" in text


async def test_keys_wait_for_the_times_and_the_frame_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Callable[[], None]] = []

    def hold(node: DOMNode, work: Any, then: Any, group: str, **options: Any) -> None:
        if group == "times":
            held.append(lambda: then(work()))
        else:
            in_thread(node, work, then, group, **options)

    monkeypatch.setattr(compiles_screen, "in_thread", hold)
    app = PtxviewApp(open_reader(str(folder)))
    async with started("$", "t", size=(100, 30), app=app) as (ui, _):
        assert "◔ reading times" in notices(ui)[0]
        held[0]()
        await settle(ui)
        assert isinstance(ui.app.screen, TimelineScreen)
        await settle(ui, "escape")
        assert "t timeline" in notices(ui)[0]


async def test_a_timeline_that_is_read_is_announced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_key, "in_thread", lambda *a, **k: None)
    app = PtxviewApp(open_reader(str(folder)))
    async with started("$", "t", size=(100, 30), app=app) as (ui, _):
        assert "◔ reading the timeline" in notices(ui)[0]


async def test_without_a_gpus_work_it_says_what_records_it() -> None:
    async with started("$", app=lecture_app) as (ui, _):
        await settle(ui, "t")
        assert any("No work of a GPU was recorded" in text for text in notices(ui))
