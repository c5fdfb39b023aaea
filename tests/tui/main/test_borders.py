"""Layouts by name, borders that are moved, and what says that something is on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from inspector.base.model import Stage
from inspector.tui.main.main_screen import MainScreen
from tests.helpers.sample import settle, text_of
from tests.helpers.shared_app import small_app

Ui = Pilot[None]


@asynccontextmanager
async def started(
    *keys: str, size: tuple[int, int] = (120, 36)
) -> AsyncIterator[tuple[Ui, MainScreen]]:
    """The interface on the small recording; ``keys`` are pressed first."""
    async with small_app.run_test(size=size) as ui:
        screen = await settle(ui)
        await ui.press(*keys)
        await settle(ui)
        yield ui, screen


async def drag(ui: Ui, start: tuple[int, int], end: tuple[int, int]) -> None:
    """Press at one place of the screen, go to another, let go."""
    await ui.mouse_down(offset=start)
    await ui.hover(offset=((start[0] + end[0]) // 2, (start[1] + end[1]) // 2))
    await ui.hover(offset=end)
    await ui.mouse_up(offset=end)
    await ui.pause()


def stages(screen: MainScreen) -> list[Stage | None]:
    """What the panes show."""
    return [pane.stage for pane in screen.panes.panes]


# Borders


async def test_the_border_between_panes_is_dragged_and_put_back_by_a_double_click() -> None:
    async with started(size=(160, 48)) as (ui, screen):
        left, right = screen.panes.panes
        both = left.region.width + right.region.width
        at = right.region.x
        await ui.hover(offset=(at, 20))
        assert right.has_class("-grip")
        await ui.hover(offset=(at + 5, 20))
        assert not right.has_class("-grip")
        await drag(ui, (at, 20), (at - 17, 25))
        assert right.region.x == at - 17
        assert left.region.width + right.region.width == both
        await ui.click(offset=(right.region.x, 20), times=2)
        await ui.pause()
        assert right.region.x == at


async def test_the_border_of_the_tree_is_dragged_and_put_back() -> None:
    async with started(size=(160, 48)) as (ui, screen):
        at = screen.panes.region.x
        await drag(ui, (at, 10), (at + 9, 10))
        assert screen.panes.region.x == screen.kernels.region.width == at + 9
        await drag(ui, (at + 9, 10), (1, 10))
        assert screen.kernels.region.width == 16, "it keeps some columns"
        await ui.click(offset=(16, 10), times=2)
        await ui.pause()
        assert screen.panes.region.x == at


async def test_the_title_of_a_pane_beneath_another_is_dragged() -> None:
    async with started(size=(80, 24)) as (ui, screen):
        high, low = screen.panes.panes
        at, stage = low.region.y, low.stage
        assert low.region.x == high.region.x
        # By a stage's digit: taken hold of, it is not chosen.
        x = low.region.right - 2
        await drag(ui, (x, at), (x, at - 4))
        assert low.region.y == at - 4
        assert low.stage is stage
        await drag(ui, (x, at - 4), (x, 2))
        assert high.region.height == 4, "it keeps some rows"
        await ui.click(offset=(low.region.x + 2, low.region.y), times=2)
        await ui.pause()
        assert low.region.y == at


async def test_of_three_panes_each_border_is_dragged() -> None:
    sizes: list[tuple[int, int]] = [(220, 60), (160, 48)]
    for size in sizes:
        async with started("tab", "p", size=size) as (ui, screen):
            a, b, c = screen.panes.panes
            grid = c.region.y > a.region.y
            assert grid is (size[0] == 160)
            x = b.region.x
            await drag(ui, (x, 10), (x + 11, 10))
            assert b.region.x == x + 11
            if grid:
                y = c.region.y
                await drag(ui, (c.region.x + 20, y), (c.region.x + 20, y + 5))
                assert c.region.y == y + 5 and b.region.x == x + 11
            else:
                x, widths = c.region.x, a.region.width
                await drag(ui, (x, 10), (x - 13, 10))
                assert c.region.x == x - 13 and a.region.width == widths


async def test_a_click_in_the_first_column_is_still_a_click() -> None:
    async with started("tab", size=(80, 24)) as (ui, screen):
        view = screen.panes.active.view
        row = view.region.y + 3
        await ui.click(offset=(view.region.x, row))
        await ui.pause()
        laid = view.laid()[3][0]
        assert view.cursor == laid
        assert screen.tree_width is None


# Layouts


async def test_a_layout_stays_from_kernel_to_kernel_and_says_what_a_kernel_lacks() -> None:
    async with started("L", size=(160, 48)) as (ui, screen):
        await ui.press("ctrl+p", *"gelu", "enter")
        await settle(ui)
        assert stages(screen)[1:] == [Stage.PTX, Stage.SASS]
        assert "No sass here. The object file was not kept." in text_of(ui)
        await ui.press("ctrl+p", *"square_k", "enter")
        await settle(ui)
        assert stages(screen) == [Stage.SOURCE, Stage.PTX, Stage.SASS]
        assert "No sass here" not in text_of(ui)


async def test_what_is_generated_has_its_output_code_for_a_source() -> None:
    async with started("L", "ctrl+p", *"poi_fused", "enter", size=(160, 48)) as (_, screen):
        assert stages(screen) == [Stage.OUTPUT_CODE, Stage.PTX, Stage.SASS]


async def test_another_stage_ends_a_layout_and_the_others_stay() -> None:
    async with started("tab", "L", "3", size=(160, 48)) as (ui, screen):
        assert stages(screen) == [Stage.TTIR, Stage.PTX, Stage.SASS]
        assert screen.panes.arrangement is None
        await ui.press("L")
        await settle(ui)
        assert stages(screen) == [Stage.SOURCE, Stage.PTX, Stage.SASS]


async def test_layouts_are_in_the_palette_and_on_the_mouse() -> None:
    async with started("ctrl+p", *"source output", "enter", size=(160, 48)) as (ui, screen):
        assert stages(screen) == [Stage.SOURCE, Stage.OUTPUT_CODE, Stage.PTX]
        at = text_of(ui).split("\n")[-1].index("^p palette")
        await ui.click(offset=(at, 47))
        await ui.press(*"layout")
        await settle(ui)
        rows = text_of(ui).split("\n")
        row = next(y for y, text in enumerate(rows) if "Layout: whole" in text)
        await ui.click(offset=(rows[row].index("Layout"), row))
        await settle(ui)
        assert len(screen.panes.panes) == 1


# What is on


def title(ui: Ui, screen: MainScreen) -> str:
    """The title of the active pane."""
    region = screen.panes.active.title_line.region
    return text_of(ui).split("\n")[region.y][region.x : region.right]


async def test_what_is_on_says_so_with_its_key_and_a_click_ends_it() -> None:
    async with started("tab", size=(160, 48)) as (ui, screen):
        view = screen.panes.active.view
        for key, word in (("z", "[zoom z]"), ("W", "[wrapped W]"), ("w", "[as it is w]")):
            assert word not in title(ui, screen)
            await ui.press(key)
            await settle(ui)
            assert word in title(ui, screen)
            assert view.region.bottom <= screen.panes.region.bottom
            region = screen.panes.active.title_line.region
            at = title(ui, screen).index(word)
            await ui.click(offset=(region.x + at + 1, region.y))
            await settle(ui)
            assert word not in title(ui, screen)
        assert not (screen.panes.zoomed or view.wrapped or view.folding.as_it_is)


async def test_folds_say_how_many_lines_they_hide() -> None:
    async with started("tab", "6", size=(160, 48)) as (ui, screen):
        view = screen.panes.active.view
        assert "[" not in title(ui, screen), "nothing of this is folded at first"
        await ui.press("F")
        await settle(ui)
        assert f"[…{view.lines - view.map.rows} w]" in title(ui, screen)
        assert view.map.rows < view.lines
        await ui.press("w")
        await settle(ui)
        assert view.map.rows == view.lines
        assert "[as it is w]" in title(ui, screen)


async def test_map_and_filter_are_in_the_first_line() -> None:
    async with started("m", "slash", *"square", "enter", "b", size=(160, 48)) as (ui, screen):
        first = text_of(ui).split("\n")[0]
        assert "[map m] [filter square Esc]" in first
        await ui.click(offset=(first.index("[filter"), 0))
        await settle(ui)
        assert not screen.kernels.query_text
        first = text_of(ui).split("\n")[0]
        assert "filter" not in first
        await ui.click(offset=(first.index("[map"), 0))
        await settle(ui)
        assert not screen.panes.mapped
        assert "map" not in text_of(ui).split("\n")[0]
