"""What happens beyond single keys: links, loading, failures, hostile names, resizing."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from textual import events

from inspector.base.model import Kernel, Origin, Recording, Stage
from inspector.tui.app.app import PtxviewApp
from inspector.tui.main.bars import EmptyState
from inspector.tui.widgets.tool_screen import Overlay
from tests.helpers.nightly import first_by_day
from tests.helpers.sample import (
    ALL,
    FakeReader,
    Text,
    broken,
    empty,
    press,
    reader,
    settle,
    target,
    text_of,
    variant,
)
from tests.helpers.shared_app import started


async def test_the_cursor_lights_up_its_lines_in_the_other_pane() -> None:
    async with started(size=(120, 40)) as (pilot, screen):
        right = screen.panes.panes[1].view
        assert right.linked == (11,)  # the kernel begins at line 5, and 11 is linked
        await pilot.press("tab", "colon", *"14", "enter")
        assert right.linked == (14,)
        assert right.cursor == 14
        assert "1 in ptx" in text_of(pilot)
        row = next(line for line in text_of(pilot).split("\n") if "ld.global.v4" in line)
        assert "▐" in row
        await pilot.press("tab", "colon", *"30", "enter")
        assert screen.panes.panes[0].view.linked == (15,)


async def test_the_card_shows_figures_and_dashes() -> None:
    async with started("j", "j", size=(160, 40)) as (pilot, _):
        text = text_of(pilot)
        assert "83 registers  spills 16/24 B ⚠  stack 40 B  shared 48 KiB" in text
        await settle(pilot, "G")
        assert "– registers  spills –  shared –" in text_of(pilot)


async def test_clicks_choose_rows_stages_lines_and_keys() -> None:
    async with started(size=(120, 40)) as (pilot, screen):
        await pilot.click(screen.kernels, offset=(8, 4))
        assert screen.panes.subject.key == ("k1", "84d20b7e", "")
        await pilot.press("enter")  # it closes the tree, which is over the left pane
        left = screen.panes.panes[0]
        await pilot.click(left.view, offset=(20, 4))
        assert left.view.cursor == left.view.scroll_offset.y + 5
        assert left.view.has_focus
        await pilot.click(left.title_line, offset=(str(left.title_line.render()).index("7"), 0))
        await settle(pilot)
        assert left.stage is Stage.SASS
        await pilot.click(screen.footer, offset=(2, 0))
        assert len(pilot.app.screen_stack) == 2


async def test_keys_that_arrive_together_go_where_the_one_before_has_led() -> None:
    async with started(size=(120, 40)) as (pilot, screen):
        row, line = screen.kernels.cursor, screen.panes.active.view.cursor
        for key, character in (("tab", "\t"), ("j", "j"), ("slash", "/"), ("q", "q"), ("b", "b")):
            pilot.app.post_message(events.Key(key, character))
        await pilot.pause()
        await settle(pilot)
        assert screen.kernels.cursor == row
        assert screen.panes.active.view.cursor == line + 1
        assert screen.prompt.input.value == "qb"


async def test_a_tool_that_is_missing_is_a_message_and_a_hint() -> None:
    async with started("tab", "7", size=(120, 40), app=PtxviewApp(broken())) as (pilot, _):
        assert "nvdisasm was not found." in text_of(pilot)
        assert "pip install nvidia-cuda-nvdisasm" in text_of(pilot)


async def test_a_fault_in_a_thread_costs_one_pane() -> None:
    async with started("tab", "3", size=(120, 40), app=PtxviewApp(broken())) as (pilot, screen):
        assert "ZeroDivisionError" in text_of(pilot)
        await settle(pilot, "1")
        assert screen.panes.active.view.source is not None


async def test_an_empty_recording_says_what_to_do() -> None:
    async with PtxviewApp(empty()).run_test(size=(80, 24)) as pilot:
        assert "ptxview run script.py" in text_of(pilot)
        for key in ("tab", "1", "b", "z", "s", "right_square_bracket", "n"):
            await pilot.press(key)
        assert pilot.app.screen.query_one(EmptyState)
        await pilot.press("question_mark")
        assert "What people ask first" in text_of(pilot)


async def test_what_no_gpu_ran_says_so_on_every_screen() -> None:
    async with started(size=(80, 24), app=PtxviewApp(reader(target()))) as (pilot, _):
        for keys in ((), ("question_mark",), ("escape", "exclamation_mark")):
            await pilot.press(*keys)
            assert "compiled for sm_90, not run on a GPU" in text_of(pilot)
    made = FakeReader(replace(target(), kernels=(), graphs=()), {})
    async with PtxviewApp(made).run_test(size=(80, 24)) as pilot:
        assert "compiled for sm_90, not run on a GPU" in text_of(pilot)


NAMES = (
    "[bold]x[/bold] [/] [@click=app.quit]",
    "核函数🚀e\u0301" + "k" * 300,
    "\x1b[31mred\x1b]0;title\x07a\nb\tc\u202e\udcff\udcfe",
)

LINES: Text = (
    ("\x1b[2J\x1b]52;c;aGk=\x07 mov", 1),
    ("[bold]not markup[/bold] [/nothing]", 2),
    ("\udcff raw \x9b31m byte", 3),
    ("日本語🚀 e\u0301 \u200b", 4),
    ("x" * 20000, 5),
    ("\r\n".strip("\n"), 6),
)


def hostile(name: str) -> FakeReader:
    """A recording in which everything has that name."""
    made = variant(
        name, "deadbeef", *ALL, target=name, config={name: name}, missing={Stage.LLIR: name}
    )
    of = Recording(
        f"/tmp/{name}",
        (Kernel("k", name, name, Origin.TRITON, (made, replace(made, id="f00d"))),),
        command=(name,),
        device={"name": name},
        mode="gpu",
        problems=(name,),
    )
    texts = {(i, stage): LINES for i in ("deadbeef", "f00d") for stage in ALL}
    return FakeReader(of, texts, broken={Stage.SASS: OSError(name)})


async def test_a_tiny_terminal_and_back() -> None:
    async with started(size=(120, 40)) as (pilot, screen):
        await pilot.press("tab")
        for size, keys in (
            ((20, 5), ("j", "tab", "shift+tab", "question_mark", "escape")),
            ((1, 1), ("k", "slash", "x", "escape")),
            ((300, 8), ("<turn>", "<turn>")),
        ):
            await pilot.resize_terminal(*size)
            await press(pilot, *keys)
        await pilot.resize_terminal(120, 40)
        for _ in range(100):  # the last size may arrive late
            await settle(pilot)
            if all(pane.display for pane in screen.panes.panes):
                break
        assert not screen.kernels.display
        assert len(screen.panes.panes) == 2
        assert all(pane.display for pane in screen.panes.panes)
        assert "lecture-h200" in text_of(pilot)


async def test_below_80_columns_one_thing_is_shown_at_a_time() -> None:
    async with started(size=(60, 20)) as (pilot, screen):
        left, right = screen.panes.panes
        assert screen.kernels.display
        assert not screen.panes.display
        await pilot.press("tab")
        await pilot.pause()
        assert (screen.kernels.display, left.display, right.display) == (False, True, False)
        await pilot.press("tab")
        await pilot.pause()
        assert (screen.kernels.display, left.display, right.display) == (False, False, True)


async def test_no_color_leaves_colours_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = PtxviewApp(reader())
    async with started(size=(120, 40), app=app) as _:
        ground = app.background_colors[0]
        strips = app.screen._compositor.render_strips()
        assert len(strips) == 40 and all(strips)
        for strip in strips:
            for segment in strip:
                filtered = [segment]
                for one in app._filters:
                    if one.enabled:
                        filtered = one.apply(filtered, ground)
                style = filtered[0].style
                assert style is None or style.color is None or style.color.is_default
                assert style is None or style.bgcolor is None or style.bgcolor.is_default


@pytest.mark.parametrize("name", first_by_day(NAMES), ids=range(len(NAMES)))
async def test_names_and_lines_are_shown_and_not_obeyed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDITOR", "/nowhere/editor")
    async with started(size=(100, 30), app=PtxviewApp(hostile(name))) as (pilot, screen):
        await settle(pilot, "tab")
        if name == NAMES[0]:
            assert "␛[2J␛]52;c;aGk=␇ mov" in text_of(pilot)
            assert "[bold]not markup[/bold]" in text_of(pilot)
        for keys in (
            ("7",),  # whose reading fails with the name in its error
            ("5", "1", "slash", "x", "enter", "G", "y", "l", "exclamation_mark"),
            (
                "escape",
                "d",
                "o",
                "o",
                "p",
                "shift+tab",
                "<wrap>",
                "F",
                "shift+down",
                "y",
                "<copy.all>",
            ),
            ("<export>", "E", "<screenshot>", "minus", "<wrap>", "I"),
        ):
            await settle(pilot, *keys)
            text = text_of(pilot)
            assert not any(c in text for c in "\x1b\x07\x9b\r\u202e\u200b")
            text.encode("utf-8")
        assert isinstance(pilot.app.screen, Overlay)
        assert len(screen.marked) == 1
