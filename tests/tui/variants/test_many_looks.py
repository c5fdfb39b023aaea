"""What a recording of three hundred kernels looks like, as text: tree and panes, the
table, the map, a comparison.

One application goes through them all, without colours, so that the map shows its letters. Run with
--snapshot-update when a change is meant.
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest
from syrupy.assertion import SnapshotAssertion
from textual.pilot import Pilot

from inspector.capture.opening import open_path
from inspector.reader.reader import Reader
from inspector.recording.layout import DerivedCache
from inspector.tui.app.app import PtxviewApp
from inspector.tui.diff.diff_screen import DiffScreen
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.variants.variants_screen import VariantsScreen
from tests.helpers.many import many
from tests.helpers.sample import settle, text_of

SIZES = ((120, 36),)


async def at_rest(pilot: Pilot[None]) -> None:
    """Wait until nothing is read any more, whatever screen stands there."""
    end = monotonic() + 120
    while True:
        assert monotonic() < end, "it never comes to rest"
        await settle(pilot)
        await pilot.pause(0.2)  # figures of rows in view are asked for a moment later
        if all(worker.is_finished for worker in pilot.app.workers):
            return
        await pilot.pause(0.05)


async def pictures(pilot: Pilot[None], what: str, snapshot: SnapshotAssertion) -> None:
    """Hold what the terminal shows at each size against how it looked."""
    for width, height in SIZES:
        await pilot.resize_terminal(width, height)
        lines: list[str] = []
        while len(lines) != height or len(lines[0]) != width:
            await at_rest(pilot)
            lines = text_of(pilot).split("\n")
        lines = [line.rstrip() for line in lines]
        assert "\n".join(lines) == snapshot(name=f"{what} {width}x{height}")


async def test_how_many_kernels_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    path = many(tmp_path / "many.ptxview", 300, 12)
    app = PtxviewApp(Reader(open_path(path), DerivedCache(tmp_path / "derived")))
    async with app.run_test(size=SIZES[0]) as pilot:
        await pictures(pilot, "tree and panes", snapshot)
        await pilot.press("slash", *"mm_tem", "enter", "V")
        assert isinstance(app.screen, VariantsScreen)
        await pictures(pilot, "table", snapshot)
        await pilot.press("escape", "enter", "m")
        assert isinstance(app.screen, MainScreen) and app.screen.panes.mapped
        await pictures(pilot, "map", snapshot)
        await pilot.press("m", "d", *["right_square_bracket"] * 5)
        await at_rest(pilot)
        await pilot.press("d", "D")
        await pilot.pause()
        assert isinstance(app.screen, DiffScreen)
        await pictures(pilot, "comparison", snapshot)
