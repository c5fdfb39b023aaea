"""Layouts by name, and what says that something is on."""

from __future__ import annotations

from textual.pilot import Pilot

from inspector.tui.main.main_screen import MainScreen
from tests.helpers.sample import settle, text_of
from tests.helpers.shared_app import started

Ui = Pilot[None]


def title(ui: Ui, screen: MainScreen) -> str:
    region = screen.panes.active.title_line.region
    return text_of(ui).split("\n")[region.y][region.x : region.right]


async def test_what_is_on_says_so_with_its_key_and_a_click_ends_it() -> None:
    async with started("tab", size=(160, 48)) as (ui, screen):
        view = screen.panes.active.view
        modes = {"z": "[zoom z]", "W": "[wrapped W]", "w": "[as it is w]"}
        for key, word in modes.items():
            assert word not in title(ui, screen)
            await settle(ui, key)
            assert word in title(ui, screen)
            assert view.region.bottom <= screen.panes.region.bottom
            region = screen.panes.active.title_line.region
            at = title(ui, screen).index(word)
            await ui.click(offset=(region.x + at + 1, region.y))
            await settle(ui)
            assert word not in title(ui, screen)
        assert not (screen.panes.zoomed or view.wrapped or view.folding.as_it_is)
