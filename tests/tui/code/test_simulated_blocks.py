"""Cycles by line are of some blocks of a launch, which the screen names."""

from __future__ import annotations

from inspector.commands.common import open_reader
from inspector.tui.app.app import PtxviewApp
from tests.helpers.ptxview import SAMPLE
from tests.helpers.sample import settle, text_of
from tests.helpers.shared_app import started


async def test_the_line_with_most_cycles_says_which_blocks_were_simulated() -> None:
    keys = ("escape", "slash", *"ed6dc2ce", "enter", "tab", "7")
    # A separate reader: its results would be in the pictures of other tests.
    app = PtxviewApp(open_reader(str(SAMPLE)))
    async with started(*keys, size=(160, 40), app=app) as (ui, screen):
        await screen.action_run("largest.cycles")
        for _ in range(600):
            await settle(ui)
            if "simulated cycles" in text_of(ui):
                break
            await ui.pause(0.05)
        text = " ".join(text_of(ui).split())
        assert "simulated cycles of blocks " in text, text
        assert "the most of any line" in text
