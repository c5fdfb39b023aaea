"""Layouts by name, and what says that something is on."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from inspector.tui.main.main_screen import MainScreen
from inspector.tui.work.overview_screen import OverviewScreen
from tests.helpers.nightly import first_by_day
from tests.helpers.sample import settle, text_of
from tests.helpers.shared_app import lecture_app, started

Ui = Pilot[None]


def title(ui: Ui, screen: MainScreen) -> str:
    region = screen.panes.active.title_line.region
    return text_of(ui).split("\n")[region.y][region.x : region.right]


async def test_what_is_on_says_so_with_its_key_and_a_click_ends_it() -> None:
    async with started("tab", size=(160, 48)) as (ui, screen):
        view = screen.panes.active.view
        modes = {"z": "[zoom z]", "<wrap>": "[wrapped]", "w": "[as it is w]"}
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


# By day the widths at which the number of panes or the tree changes.
SIZES = ((99, 24), (100, 30), (139, 40), (140, 40), (180, 40),
         (80, 24), (120, 40), (160, 48), (170, 40), (200, 60), (240, 60))  # fmt: skip


@pytest.mark.parametrize("size", first_by_day(SIZES, 5))
async def test_the_width_decides_how_many_panes_there_are(size: tuple[int, int]) -> None:
    width = size[0]
    async with started("tab", size=size) as (_, screen):
        shown = [pane for pane in screen.panes.panes if pane.display]
        assert len(shown) == (1 if width < 100 else 2 if width <= 171 else 3)
        assert all(pane.region.width >= 60 for pane in shown)
        assert screen.kernels.display == (width >= 140 and width != 180)
        if screen.kernels.display:
            assert screen.kernels.region.right <= shown[0].region.x


async def test_the_tree_opens_over_the_panes_and_closes_again() -> None:
    async with started(size=(120, 40)) as (ui, screen):
        for keys in (("escape",), ("b", "b"), ("b", "enter"), ("shift+tab", "tab")):
            await settle(ui, *keys[:-1])
            assert screen.kernels.display and screen.focused is screen.kernels
            assert screen.panes.panes[0].region.width == 60
            assert "b close" in text_of(ui)
            await settle(ui, keys[-1])
            assert not screen.kernels.display
            assert screen.focused is screen.panes.active.view
            assert "b kernels" in text_of(ui)


async def test_the_tree_stays_open_while_a_filter_is_typed() -> None:
    async with started("tab", "<filter>", *"gelu", size=(100, 30)) as (ui, screen):
        assert screen.kernels.display and screen.prompt.display
        await settle(ui, "enter")
        assert screen.focused is screen.kernels


async def test_escape_in_a_tree_beside_the_panes_goes_to_the_overview() -> None:
    async with started("escape", size=(160, 48)) as (ui, _):
        assert isinstance(ui.app.screen, OverviewScreen)


async def test_three_panes_leave_no_room_empty() -> None:
    async with started("tab", "<layout>", size=(120, 40)) as (ui, screen):
        first, second, third = (pane.region for pane in screen.panes.panes)
        assert first.width == second.width == 60
        assert third.y == first.bottom == second.bottom
        assert (third.x, third.width) == (0, 120)
        assert third.bottom == screen.panes.region.bottom
        await settle(ui, "<turn>")
        assert [pane.region.width for pane in screen.panes.panes] == [120] * 3


async def test_panes_that_the_user_asked_for_are_shown_however_narrow() -> None:
    async with started("tab", size=(80, 24)) as (ui, screen):
        assert [pane.display for pane in screen.panes.panes] == [True, False]
        await settle(ui, "p")
        assert [pane.display for pane in screen.panes.panes] == [True, True]
        await ui.resize_terminal(200, 60)
        await settle(ui)
        assert len(screen.panes.panes) == 2


@pytest.mark.parametrize("size", first_by_day([(120, 40), (80, 24), (160, 48), (200, 60)]))
async def test_rows_beneath_the_panes_are_not_blank(size: tuple[int, int]) -> None:
    async with started("tab", size=size, app=lecture_app) as (ui, screen):
        for key in ("7", "j", "j", "6", "j", "j", "j"):
            await settle(ui, key)
            region = screen.reading.region
            assert region.y == screen.panes.region.bottom
            rows = text_of(ui).split("\n")[region.y : region.bottom]
            assert len(rows) == 1 or all(row.strip() for row in rows), rows
