"""Every command of the table, by its key; and the table itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path

import pytest
from rich.console import RenderableType
from textual._compositor import LayoutUpdate
from textual.content import Content
from textual.pilot import Pilot
from textual.screen import Screen

from inspector.errors import Unreadable
from inspector.model import Stage
from inspector.tui.app.app import PtxviewApp
from inspector.tui.code.code_view import CodeView
from inspector.tui.diff import diff_screen
from inspector.tui.diff.diff_screen import DiffScreen
from inspector.tui.diff.diff_view import DiffView
from inspector.tui.find.finder import Finder
from inspector.tui.keys.command_table import TABLE, Where, command, footer
from inspector.tui.main import main_screen as acting
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.panes.understanding import HintList
from inspector.tui.program.live import Live, ProgramState
from inspector.tui.program.output_view import OutputView
from inspector.tui.step.step_screen import StepScreen
from inspector.tui.tree.kernel_tree import KernelTree
from inspector.tui.variants.variant_table import VariantTable
from inspector.tui.variants.variants_screen import VariantsScreen
from inspector.tui.widgets.overlay import Overlay
from inspector.tui.widgets.subject import TreeSubject, digit
from inspector.tui.work import passes_screen as passes_screen
from inspector.tui.work.pass_table import PassTable
from inspector.tui.work.passes_screen import PassesScreen
from inspector.tui.work.timing_screen import TimingScreen
from inspector.tui.work.try_screen import TryScreen
from tests.helpers.sample import reader, settle, text_of
from tests.helpers.shared_app import lecture_app, small_app

Ui = Pilot[None]
Start = Callable[..., AbstractAsyncContextManager[tuple[Ui, MainScreen]]]


@pytest.fixture
def start() -> Start:
    """The application on the small recording; ``keys`` are pressed first."""

    @asynccontextmanager
    async def begin(
        *keys: str, size: tuple[int, int] = (120, 40)
    ) -> AsyncIterator[tuple[Ui, MainScreen]]:
        async with small_app.run_test(size=size) as pilot:
            screen = await settle(pilot)
            await pilot.press(*keys)
            await settle(pilot)
            yield pilot, screen

    return begin


def stages(screen: MainScreen) -> list[str]:
    """What the panes show."""
    return [str(pane.stage) for pane in screen.panes.panes]


def cursor(screen: MainScreen) -> int:
    """The line of the active pane's cursor."""
    return screen.panes.active.view.cursor


# The table


def test_ids_are_unique() -> None:
    assert len({c.id for c in TABLE}) == len(TABLE)


@pytest.mark.parametrize("where", list(Where))
def test_no_key_means_two_things_in_one_place(where: Where) -> None:
    keys = [key for c in TABLE if c.where is where for key in c.keys.split(",")]
    assert len(set(keys)) == len(keys)


def test_no_key_of_a_part_is_hidden_by_one_of_the_whole() -> None:
    def keys(where: Where) -> set[str]:
        return {key for c in TABLE if c.where is where for key in c.keys.split(",")}

    assert not keys(Where.SCREEN) & (keys(Where.PANE) | keys(Where.TREE))


@pytest.mark.parametrize("one", TABLE, ids=lambda c: c.id)
def test_the_action_exists(one: object) -> None:
    chosen = command(getattr(one, "id", ""))
    name = chosen.action.partition("(")[0]
    screens: dict[Where, type] = {
        Where.DIFF: DiffScreen, Where.VARIANTS: VariantsScreen, Where.TIMING: TimingScreen,
        Where.STEP: StepScreen, Where.PASSES: PassesScreen, Where.TRYING: TryScreen,
    }  # fmt: skip
    homes: dict[str, type] = {
        "screen": screens.get(chosen.where, MainScreen), "app": PtxviewApp,
    }  # fmt: skip
    own = {
        Where.SCREEN: MainScreen, Where.PANE: CodeView, Where.TREE: KernelTree,
        Where.DIFF: DiffView, Where.VARIANTS: VariantTable, Where.TIMING: TimingScreen,
        Where.STEP: StepScreen, Where.PASSES: PassTable, Where.TRYING: TryScreen,
    }  # fmt: skip
    space, _, rest = name.rpartition(".")
    if name == "tell_app":
        space, rest = "app", chosen.action.split("'")[1]
    assert hasattr(homes.get(space, own[chosen.where]), f"action_{rest}")


def test_every_command_has_a_test() -> None:
    # In test_diff_screen.py, test_timing.py, test_step_screen.py, test_passes_screen.py and
    # test_try_screen.py.
    elsewhere = (Where.DIFF, Where.VARIANTS, Where.TIMING, Where.STEP, Where.PASSES,
                 Where.TRYING)  # fmt: skip
    moves = ("move(", "page(", "edge(", "sideways(")  # see the two tests of movement keys
    own = [c for c in TABLE if c.where not in elsewhere and not c.action.startswith(moves)]
    assert {c.id.replace(".", "_") for c in own} <= {
        name.removeprefix("test_key_") for name in globals()
    }


def test_the_footer_names_only_commands() -> None:
    for where in Where:
        assert all(command(name) for _, _, name in footer(where))


# Everywhere


async def test_key_help(start: Start) -> None:
    async with start("question_mark") as (pilot, _):
        assert isinstance(pilot.app.screen, Finder)
        assert "Everywhere" in text_of(pilot)
        await pilot.press("escape")
        assert len(pilot.app.screen_stack) == 1


async def shows(start: Start, stage: Stage) -> None:
    """The stage's key shows it in the active pane."""
    async with start("tab", "tab", digit(stage)) as (_, screen):
        assert stages(screen) == ["source", stage.value]
        assert screen.panes.active.view.source is not None


async def says_why(start: Start, stage: Stage) -> None:
    """The stage's key says that there is none, and the pane keeps the focus."""
    async with start("tab", digit(stage)) as (pilot, screen):
        assert screen.panes.active.view.notice is not None
        assert f"No {stage} here." in text_of(pilot)
        assert screen.panes.active.view.has_focus


async def test_key_stage_1(start: Start) -> None:
    await shows(start, Stage.SOURCE)


async def test_key_stage_2(start: Start) -> None:
    await says_why(start, Stage.OUTPUT_CODE)


async def test_key_stage_3(start: Start) -> None:
    await shows(start, Stage.TTIR)


async def test_key_stage_4(start: Start) -> None:
    await says_why(start, Stage.TTGIR)


async def test_key_stage_5(start: Start) -> None:
    await says_why(start, Stage.LLIR)


async def test_key_stage_6(start: Start) -> None:
    await shows(start, Stage.PTX)


async def test_key_stage_7(start: Start) -> None:
    await shows(start, Stage.SASS)


async def test_key_stage_8(start: Start) -> None:
    async with start("tab", "8") as (_, screen):
        assert screen.panes.active.stage is Stage.OPERATIONS
        assert screen.panes.active.view.notice is not None  # the kernel is in no graph
    async with start("G", "k", "k", "k", "tab") as (pilot, screen):
        assert stages(screen) == ["operations", "output_code"]
        seen = []
        for _ in range(3):
            await pilot.press("8")
            seen.append(stages(screen)[0])
        assert seen == ["dynamo", "post_grad", "operations"]


async def test_key_stage_next(start: Start) -> None:
    async with start("tab", "s") as (_, screen):
        assert stages(screen) == ["ttir", "ptx"]


async def test_key_stage_previous(start: Start) -> None:
    async with start("tab", "S") as (_, screen):
        assert stages(screen) == ["sass", "ptx"]


async def test_key_pane_next(start: Start) -> None:
    async with start() as (pilot, screen):
        seen = []
        for _ in range(4):
            seen.append(screen.focused)
            await pilot.press("tab")
        left, right = (pane.view for pane in screen.panes.panes)
        assert seen == [screen.kernels, left, right, screen.kernels]


async def test_key_pane_previous(start: Start) -> None:
    async with start("shift+tab") as (_, screen):
        assert screen.focused is screen.panes.panes[1].view


async def test_key_tree_toggle(start: Start) -> None:
    async with start("b") as (pilot, screen):
        assert not screen.kernels.display
        assert screen.focused is screen.panes.active.view
        await pilot.press("b")
        assert screen.kernels.display
        assert screen.focused is screen.kernels


async def test_key_filter(start: Start) -> None:
    async with start("tab", "f", *"gelu") as (pilot, screen):
        assert [row.text for row in screen.kernels.rows] == [
            "nvcc", "gelu_kernel",
        ]  # fmt: skip
        await pilot.press("enter")
        assert screen.focused is screen.kernels
        assert screen.panes.subject.variant is not None
        assert screen.panes.subject.variant.id == "c07711aa"


async def test_key_zoom(start: Start) -> None:
    async with start("tab", "z") as (pilot, screen):
        assert [pane.display for pane in screen.panes.panes] == [True, False]
        await pilot.press("tab")
        assert [pane.display for pane in screen.panes.panes] == [False, True]
        await pilot.press("z")
        assert [pane.display for pane in screen.panes.panes] == [True, True]


async def test_key_turn(start: Start) -> None:
    async with start() as (pilot, screen):
        left, right = screen.panes.panes
        assert left.region.y == right.region.y
        await pilot.press("v")
        await pilot.pause()
        assert left.region.x == right.region.x
        assert left.region.y < right.region.y


async def test_key_variant_next(start: Start) -> None:
    async with start("tab", "right_square_bracket") as (pilot, screen):
        assert screen.panes.subject.key == ("k1", "3f2a91c0", "")
        await pilot.press("right_square_bracket")
        assert screen.panes.subject.key == ("k1", "84d20b7e", "")
        assert screen.focused is screen.panes.active.view


async def test_key_variant_previous(start: Start) -> None:
    async with start("tab", "left_square_bracket") as (_, screen):
        assert screen.panes.subject.key == ("k3", "c07711aa", "")


async def test_key_tree_wider(start: Start) -> None:
    async with start() as (pilot, screen):
        before = screen.kernels.size.width
        await pilot.press("greater_than_sign")
        await pilot.pause()
        assert screen.kernels.size.width == before + 4


async def test_key_tree_narrower(start: Start) -> None:
    async with start() as (pilot, screen):
        before = screen.kernels.size.width
        await pilot.press("less_than_sign")
        await pilot.pause()
        assert screen.kernels.size.width == before - 4


async def test_key_pane_wider(start: Start) -> None:
    async with start("tab") as (pilot, screen):
        left, right = (pane.region.width for pane in screen.panes.panes)
        await pilot.press("greater_than_sign")
        await pilot.pause()
        assert [p.region.width for p in screen.panes.panes] == [left + 4, right - 4]
        await pilot.press("v")
        await pilot.pause()
        high, low = (pane.region.height for pane in screen.panes.panes)
        await pilot.press("greater_than_sign")
        await pilot.pause()
        assert [p.region.height for p in screen.panes.panes] == [high + 1, low - 1]


async def test_key_pane_narrower(start: Start) -> None:
    async with start("tab", "tab") as (pilot, screen):
        left, right = (pane.region.width for pane in screen.panes.panes)
        await pilot.press("less_than_sign")
        await pilot.pause()
        assert [p.region.width for p in screen.panes.panes] == [left + 4, right - 4]


async def test_key_borders(start: Start) -> None:
    async with start("greater_than_sign", "tab", "greater_than_sign") as (pilot, screen):
        wide = screen.kernels.region.width
        await pilot.press("equals_sign")
        await pilot.pause()
        assert screen.kernels.region.width == wide - 4
        left, right = (pane.region.width for pane in screen.panes.panes)
        assert abs(left - right) <= 1


async def test_key_layout(start: Start) -> None:
    async with start("tab", "L") as (pilot, screen):
        assert stages(screen) == ["source", "ptx", "sass"]
        assert "Layout: source · PTX · SASS. L goes on to" in text_of(pilot)
        await pilot.press("L")
        assert stages(screen) == ["source", "output_code", "ptx"]
        await pilot.press("L")
        assert len(screen.panes.panes) == 1
        await pilot.press("L")
        assert stages(screen) == ["source", "ptx", "sass"]
        assert screen.panes.active.view.has_focus


async def test_key_layout_lowering(start: Start) -> None:
    async with start("f3") as (_, screen):
        assert stages(screen) == ["source", "ptx", "sass"]
        assert screen.focused is screen.kernels


async def test_key_layout_generated(start: Start) -> None:
    async with start("f4") as (ui, screen):
        assert stages(screen) == ["source", "output_code", "ptx"]
        assert "There is no output_code of this." in text_of(ui)


async def test_key_layout_whole(start: Start) -> None:
    async with start("tab", "tab", "f5") as (_, screen):
        assert stages(screen) == ["ptx"]
        assert screen.panes.active.view.has_focus


async def test_key_problems(start: Start) -> None:
    async with start("exclamation_mark") as (pilot, _):
        assert "Nothing went wrong" in text_of(pilot)


async def test_key_output(start: Start) -> None:
    live = Live(lambda: None, lambda number: None)
    live.state = ProgramState.ENDED
    async with PtxviewApp(reader(), live=live).run_test(size=(120, 40)) as pilot:
        screen = await settle(pilot)
        output = screen.query_one(OutputView)
        assert output.display
        await pilot.press("O")
        assert screen.focused is output
        await pilot.press("O")
        assert not output.display
    async with start("O") as (pilot, screen):  # without a program nothing changes
        assert screen.focused is screen.kernels


async def test_key_theme(start: Start) -> None:
    async with start() as (pilot, _):
        assert pilot.app.current_theme.dark
        await pilot.press("T")
        assert not pilot.app.current_theme.dark


async def test_key_palette(start: Start) -> None:
    async with start("tab", "ctrl+p", *"to line") as (pilot, screen):
        await pilot.pause(0.3)
        await pilot.press("enter")
        await pilot.pause()
        assert screen.prompt.display
        assert screen.prompt.kind == "goto"


async def test_key_redraw(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start() as (ui, _):
        app = ui.app
        assert isinstance(app, PtxviewApp)
        drawn: list[object] = []
        own = app._display

        def display(screen: Screen[object], update: RenderableType | None) -> None:
            drawn.append(update)
            own(screen, update)

        assert text_of(ui)  # all that there is to see until then was seen
        monkeypatch.setattr(app, "_display", display)
        await ui.press("ctrl+l")
        await ui.press("escape")  # what a key leaves to draw is drawn before the next
        assert any(isinstance(one, LayoutUpdate) for one in drawn)


async def test_key_quit(start: Start) -> None:
    async with start("q") as (pilot, _):
        assert not pilot.app.is_running or pilot.app._exit


# In a pane


@pytest.mark.parametrize(
    ("keys", "line"),
    [("g", 1), ("g j down", 3), ("g j j k up", 1), ("G", "last"), ("g pagedown", "page"),
     ("g pagedown pageup", 1), ("g ctrl+d", "half"), ("g ctrl+d ctrl+u", 1)],
)  # fmt: skip
async def test_movement_keys_of_a_pane(start: Start, keys: str, line: int | str) -> None:
    async with start("tab", "tab", *keys.split(), size=(120, 24)) as (_, screen):
        view = screen.panes.active.view
        page = view.size.height - 1
        assert cursor(screen) == {"last": view.lines, "page": 1 + page, "half": 1 + page // 2}.get(
            str(line), line
        )


@pytest.mark.parametrize(("keys", "x"), [("l", 8), ("l l h", 8), ("l l 0", 0)])
async def test_a_pane_is_scrolled_sideways(start: Start, keys: str, x: int) -> None:
    async with start("tab", "tab", "3", *keys.split(), size=(80, 24)) as (_, screen):
        assert screen.panes.active.view.scroll_offset.x == x


@pytest.mark.parametrize(
    ("keys", "row"),
    [("j", 2), ("k", 0), ("j j g", 0), ("G", -1), ("pagedown", -1), ("G pageup", 0)],
)
async def test_movement_keys_of_the_tree(start: Start, keys: str, row: int) -> None:
    async with start(*keys.split()) as (_, screen):
        assert screen.kernels.cursor == row % len(screen.kernels.rows)


async def test_key_goto(start: Start) -> None:
    async with start("tab", "tab", "colon", "1", "4", "enter") as (_, screen):
        assert cursor(screen) == 14
        assert screen.focused is screen.panes.active.view


async def test_goto_wants_a_number(start: Start) -> None:
    async with start("tab", "colon", "x", "enter") as (pilot, _):
        assert "“x” is not a line number." in text_of(pilot)


async def test_key_search(start: Start) -> None:
    async with start("tab", "tab", "slash", *"mul.*f7,", "enter") as (pilot, screen):
        assert cursor(screen) == 21
        assert screen.panes.active.view.matches == (21,)
        assert "1 of 1" in text_of(pilot)


async def test_search_minds_capitals_once_there_is_one(start: Start) -> None:
    async with start("tab", "tab", "slash", *"nv", "enter") as (pilot, screen):
        assert screen.panes.active.view.matches == (2,)
        await pilot.press("slash", *"Nv", "enter")
        await settle(pilot)
        assert not screen.panes.active.view.matches
        assert "Nothing matches “Nv”." in text_of(pilot)


async def test_search_says_what_is_wrong_with_an_expression(start: Start) -> None:
    async with start("tab", "slash", "left_parenthesis", "enter") as (pilot, _):
        assert "is not a regular expression" in text_of(pilot)


async def test_key_match_next(start: Start) -> None:
    async with start("tab", "tab", "slash", *"ov", "enter", "n") as (pilot, screen):
        assert cursor(screen) == 12
        await pilot.press("n")
        assert cursor(screen) == 11  # round the end


async def test_key_match_previous(start: Start) -> None:
    async with start("tab", "tab", "slash", *"ov", "enter", "N") as (_, screen):
        assert cursor(screen) == 12


async def test_key_clear(start: Start) -> None:
    async with start("tab", "tab", "slash", *"ov", "enter", "escape") as (_, screen):
        assert screen.panes.active.view.pattern is None
        assert not screen.panes.active.view.matches


async def test_key_follow(start: Start) -> None:
    async with start("tab", "colon", *"14", "enter", "enter") as (_, screen):
        assert screen.focused is screen.panes.panes[1].view
        assert cursor(screen) == 14


async def test_key_verbatim(start: Start) -> None:
    async with start("tab", "tab", "7") as (pilot, _):
        assert " /*0010*/       S2R" in text_of(pilot)
        await pilot.press("w")
        assert "        /*0010*/                   S2R" in text_of(pilot)


async def test_verbatim_has_every_line_and_the_folds_come_back(start: Start) -> None:
    async with start("tab", "tab", "F", "w") as (pilot, screen):
        view = screen.panes.active.view
        assert view.map.rows == view.lines
        assert "The file as it is" in text_of(pilot)
        await pilot.press("w")
        assert view.map.rows == view.lines - 1


async def test_key_along() -> None:
    async with lecture_app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("slash", *"matmul", "enter", "tab", "6")
        await settle(pilot)
        await pilot.press("J")
        screen = await settle(pilot)
        view = screen.panes.active.view
        assert view.source is not None
        assert "No branch on this line" in text_of(pilot)
        texts = view.source.texts
        branch = next(n for n, text in enumerate(texts, 1) if "bra" in text.split()[1:2])
        label = texts[branch - 1].split()[-1].strip(";") + ":"
        await pilot.press("colon", *str(branch), "enter", "J")
        assert texts[cursor(screen) - 1].startswith(label)
        await pilot.press("J")
        assert cursor(screen) == branch
        # Within a loop it goes to the loop's head.
        loop = next(n for n, text in enumerate(texts, 1) if "Loop Header" in text)
        await pilot.press("colon", *str(loop + 20), "enter", "J")
        assert cursor(screen) == loop


async def test_key_map(start: Start) -> None:
    async with start("tab", "m") as (pilot, screen):
        assert "Each line has the colour of its source line" in text_of(pilot)
        assert all(pane.view.groups is not None for pane in screen.panes.panes)
        await pilot.press("m")
        assert "The map is off." in text_of(pilot)
        assert all(pane.view.groups is None for pane in screen.panes.panes)


async def test_key_largest_live(start: Start) -> None:
    async with start("tab", "R") as (pilot, screen):
        assert cursor(screen) == 14
        assert "18 live registers, the most of any line" in text_of(pilot)
        await pilot.press("R")
        assert cursor(screen) == 14  # the line beside it is no place of its own


async def test_key_largest_stall(start: Start) -> None:
    async with start("tab", "A") as (pilot, screen):
        assert cursor(screen) == 14
        await pilot.press("A")
        assert cursor(screen) == 15
        assert "12 stall cycles, number 2 of 2" in text_of(pilot)


async def test_key_largest_samples(start: Start) -> None:
    async with start("tab", "percent_sign") as (pilot, _):
        assert "No samples (ncu) are known for this listing." in text_of(pilot)


async def test_key_copy(start: Start) -> None:
    async with start("tab", "colon", *"13", "enter", "y") as (pilot, _):
        assert pilot.app.clipboard == "    mask = columns < n"
        assert "on the clipboard" in text_of(pilot)


# In the tree


async def test_key_tree_open(start: Start) -> None:
    async with start("enter") as (_, screen):
        assert screen.focused is screen.panes.panes[0].view


async def test_key_tree_fold(start: Start) -> None:
    async with start("h") as (pilot, screen):
        assert "84d20b7e" not in str([row.key for row in screen.kernels.rows])
        await pilot.press("h")
        assert screen.kernels.cursor == 0


async def test_key_tree_unfold(start: Start) -> None:
    async with start("h", "l", "l") as (_, screen):
        row = screen.kernels.row
        assert row is not None
        assert row.key == ("triton", "k1", "3f2a91c0")


async def test_key_tree_flip(start: Start) -> None:
    async with start() as (pilot, screen):
        before = len(screen.kernels.rows)
        await pilot.press("space")
        assert len(screen.kernels.rows) == before - 2
        await pilot.press("space")
        assert len(screen.kernels.rows) == before


async def test_key_tree_filter(start: Start) -> None:
    async with start("slash", *"0/ mul") as (pilot, screen):
        assert [row.text for row in screen.kernels.rows] == [
            "inductor", "graph 0/0", "triton_poi_fused_mul_0",
        ]  # fmt: skip
        await pilot.press("escape")
        assert len(screen.kernels.rows) > 3


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_a_filter_that_is_set_is_seen(size: tuple[int, int]) -> None:
    app = PtxviewApp(reader())
    async with app.run_test(size=size) as pilot:
        screen = await settle(pilot)
        assert " of 3  Esc" not in text_of(pilot)
        await pilot.press("slash", *"gelu", "enter")
        await settle(pilot)
        assert "1 of 3  Esc  /gelu" in text_of(pilot)
        await pilot.press("G")
        assert screen.kernels.cursor == len(screen.kernels.rows) - 1
        await pilot.press("escape")
        assert "/gelu" not in text_of(pilot)


async def test_key_tree_clear(start: Start) -> None:
    async with start("slash", *"gelu", "enter", "escape") as (_, screen):
        assert screen.kernels.query_text == ""
        assert len(screen.kernels.rows) > 3


async def test_key_tree_order(start: Start) -> None:
    async with start("o") as (ui, screen):
        assert [row.text for row in screen.kernels.rows[1:4]] == [
            "square_kernel", "BLOCK=4096 w16 84d2", "BLOCK=1024 w4 3f2a",
        ]  # fmt: skip
        assert "by registers" in text_of(ui).split("\n")[-1]
        row = screen.kernels.row
        assert row is not None
        assert row.key == ("triton", "k1")
        await ui.press("o")
        assert "16/24 B⚠" in text_of(ui)
        await ui.press("o", "o")  # nothing was timed: by name, and round
        assert [row.text[:10] for row in screen.kernels.rows[2:4]] == ["BLOCK=1024", "BLOCK=4096"]
        assert "o order" in text_of(ui)


async def test_key_card(start: Start) -> None:
    async with start("i") as (ui, _):
        assert isinstance(ui.app.screen, Overlay)
        assert "22 a thread" in text_of(ui)
        assert "warps" in text_of(ui)


async def test_key_profile(start: Start) -> None:
    async with start("M") as (ui, _):
        assert isinstance(ui.app.screen, Overlay)
        assert "ptxview profile SCRIPT" in text_of(ui)


async def test_key_compiles(start: Start) -> None:
    async with start("K") as (ui, screen):
        assert ui.app.screen is screen  # nothing is known of compiles: it says so
        assert "Nothing is known of compiles here" in text_of(ui)


async def test_key_hints(start: Start) -> None:
    async with start("tab", "H") as (ui, screen):
        assert isinstance(ui.app.screen, HintList)
        assert "narrow-access" in text_of(ui)
        await ui.press("enter")
        await settle(ui)
        assert ui.app.screen_stack == [screen]
        assert (screen.panes.active.stage, cursor(screen)) == (Stage.PTX, 14)


async def test_hints_where_there_are_none_say_so(start: Start) -> None:
    async with start("j", "j", "j", "H") as (ui, _):
        assert "No hint" in text_of(ui)


async def test_key_explain(start: Start) -> None:
    async with start("tab", "tab", "colon", "1", "4", "enter", "e") as (ui, _):
        shown = text_of(ui)
        assert "ld" in shown
        assert ".v4" in shown
        assert "PTX ISA" in shown


async def test_explain_on_a_line_without_a_word(start: Start) -> None:
    async with start("tab", "e") as (ui, _):
        assert "No instruction to explain on this line." in text_of(ui)


async def test_key_register(start: Start) -> None:
    async with start("tab", "tab", "colon", "1", "4", "enter") as (ui, screen):
        view = screen.panes.active.view
        assert view.register is not None
        assert view.register.name == "%r3"
        row = next(line for line in text_of(ui).split("\n") if "%f1, %f1" in line)
        assert "○" in row
        await ui.press("r")
        assert view.register is not None
        assert view.register.name == "%p1"
        row = next(line for line in text_of(ui).split("\n") if "setp.lt" in line)
        assert "●" in row


async def test_key_columns(start: Start) -> None:
    async with start("tab", "colon", "1", "4", "enter") as (ui, screen):
        view = screen.panes.active.view
        before = view.rows.margin
        assert " 18 " in next(r for r in text_of(ui).split("\n") if "tl.load" in r)
        await ui.press("c")
        assert view.rows.margin == before + 6
        assert " 25 " in next(r for r in text_of(ui).split("\n") if "tl.load" in r)
        await ui.press("c")
        assert view.rows.margin == before - 5
        await ui.press("c")
        assert view.rows.margin == before


async def test_key_note_next(start: Start) -> None:
    async with start("tab", "tab", "right_curly_bracket") as (ui, screen):
        assert cursor(screen) == 14
        assert "4 loads of 4 bytes" in text_of(ui)


async def test_key_note_previous(start: Start) -> None:
    async with start("tab", "tab", "left_curly_bracket") as (_, screen):
        assert cursor(screen) == 14


# Panes, marks, files


async def test_key_pane_more(start: Start) -> None:
    async with start("tab", "p") as (ui, screen):
        assert stages(screen) == ["source", "ptx", "sass"]
        assert screen.panes.active is screen.panes.panes[2]
        assert screen.panes.active.view.has_focus
        await ui.press("shift+tab", "p")
        await settle(ui)
        assert stages(screen) == ["ptx"]
        assert screen.panes.active.view.has_focus


async def test_key_pane_fewer(start: Start) -> None:
    async with start("tab", "P") as (ui, screen):
        assert stages(screen) == ["ptx"]
        await ui.press("P")
        assert "the only pane" in text_of(ui)
        await ui.press("p")
        await settle(ui)
        assert len(screen.panes.panes) == 2


async def test_key_mark(start: Start) -> None:
    async with start("d", "j", "j", "d") as (ui, screen):
        assert [one.key[:2] for one in screen.marked] == [("k1", "3f2a91c0"), ("k1", "84d20b7e")]
        rows = [row[:24] for row in text_of(ui).split("\n")]
        assert any("A 1024 w4 3f2a" in row for row in rows)
        assert any("B 4096 w16 84d2" in row for row in rows)
        await ui.press("d")
        assert len(screen.marked) == 1
        assert "Marked: A square_kernel 3f2a91c0. d marks another" in text_of(ui)


async def test_key_compare(start: Start) -> None:
    async with start("D") as (ui, _):
        assert "Mark two variants with d" in text_of(ui)


async def test_marked_variants_are_given_to_the_screen_of_differences(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(reads: object, a: TreeSubject, b: TreeSubject) -> Overlay:
        return Overlay("Differences", Content(f"{a.key[1]} and {b.key[1]}"))

    monkeypatch.setattr(diff_screen, "DiffScreen", compare)
    async with start("d", "j", "j", "d", "D") as (ui, _):
        assert "3f2a91c0 and 84d20b7e" in text_of(ui)


async def test_key_edited(start: Start) -> None:
    async with start("B") as (ui, _):
        assert "This variant has not changed" in text_of(ui)


async def test_key_time(start: Start) -> None:
    async with start("t") as (ui, _):
        screen = ui.app.screen
        assert isinstance(screen, TimingScreen)
        while not screen.settled:
            await ui.pause(0.01)
        assert "is not a recording: only one knows" in " ".join(text_of(ui).split())


async def test_key_block(start: Start) -> None:
    async with start("x") as (ui, _):
        screen = ui.app.screen
        assert isinstance(screen, StepScreen)
        while not screen.settled:
            await ui.pause(0.01)
        await ui.pause()
        assert "there is no kernel square_kernel in this PTX" in text_of(ui)
        await ui.press("escape")
        assert len(ui.app.screen_stack) == 1


async def test_key_passes(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **more: object) -> None:
        raise Unreadable("square_kernel is not Triton's")

    monkeypatch.setattr(passes_screen, "variant_passes", refuse)
    async with start("Z") as (ui, _):
        screen = ui.app.screen
        assert isinstance(screen, PassesScreen)
        while not screen.settled:
            await ui.pause(0.01)
        await ui.pause()
        assert "square_kernel is not Triton's" in " ".join(text_of(ui).split())
        await ui.press("escape")
        assert len(ui.app.screen_stack) == 1


async def test_key_edit(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[list[str]] = []
    texts: list[str] = []

    def run(argv: list[str], env: object, *, is_job: bool) -> int:
        assert not is_job  # it has the terminal, and is not stopped with us
        calls.append(argv)
        texts.append(Path(argv[-1].rpartition(":")[0]).read_text("utf-8"))
        return 0

    monkeypatch.setattr(acting, "run_program", run)
    monkeypatch.setattr(PtxviewApp, "suspend", lambda self: nullcontext())
    monkeypatch.setenv("VISUAL", "code --wait")
    async with start("tab", "tab", "colon", *"14", "enter", "E") as (_, screen):
        path = Path(calls[0][-1].removesuffix(":14"))
        assert calls[0] == ["code", "--wait", "--goto", f"{path}:14"] and path.is_absolute()
        assert texts[0].split("\n")[13].lstrip().startswith("@%p1 ld.global")
        assert not path.exists()  # it was a copy
        assert screen.panes.active.view.has_focus


async def test_the_editor_opens_the_source_where_it_lies(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[list[str]] = []

    def run(argv: list[str], env: object, *, is_job: bool) -> int:
        assert not is_job  # it has the terminal, and is not stopped with us
        calls.append(argv)
        return 3

    monkeypatch.setattr(acting, "run_program", run)
    monkeypatch.setattr(PtxviewApp, "suspend", lambda self: nullcontext())
    monkeypatch.setattr(acting, "whole_path", lambda recorded: tmp_path / "square.py")
    monkeypatch.setenv("VISUAL", "vi")
    async with start("tab", "E") as (ui, _):
        assert calls == [["vi", "+11", str(tmp_path / "square.py")]]
        assert "vi ended with status 3" in text_of(ui)


async def test_without_an_editor_it_says_what_to_set(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    async with start("tab", "E") as (ui, _):
        assert "EDITOR=vim" in text_of(ui)


async def test_control_c_leaves_as_q_does(start: Start) -> None:
    async with start("ctrl+c") as (ui, _):
        assert not ui.app._running or ui.app._exit


async def test_key_export(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    async with start("tab", "tab", "X") as (ui, _):
        assert "what is known of it are in" in text_of(ui)
        text = (tmp_path / "square_kernel-3f2a91c0.ptx.txt").read_text("utf-8")
        assert text.startswith("square_kernel  3f2a91c0  sm_90a  ptx")
        assert "if %p1: load 4 × 32 bits" in text
        assert "narrow-access" in text
        await ui.press("X")
        await settle(ui)
        assert (tmp_path / "square_kernel-3f2a91c0.ptx-2.txt").exists()


async def test_key_screenshot(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    async with start("ctrl+s") as (ui, _):
        assert "square_kernel" in (tmp_path / "ptxview.svg").read_text("utf-8")
        assert "A picture of the screen is in" in text_of(ui)


async def test_key_choose(start: Start) -> None:
    async with start("tab", "colon", *"12", "enter", "V", "j", "y") as (ui, screen):
        assert ui.app.clipboard.split("\n") == [
            "    columns = tl.arange(0, BLOCK)", "    mask = columns < n",
        ]  # fmt: skip
        assert "Lines 12 to 13 are on the clipboard." in text_of(ui)
        assert screen.panes.active.view.chosen is None
        await ui.press("V", "escape")
        assert screen.panes.active.view.chosen is None


async def test_key_copy_all(start: Start) -> None:
    async with start("tab", "Y") as (ui, screen):
        assert len(ui.app.clipboard.split("\n")) == screen.panes.active.view.lines


# Getting about


async def test_key_back(start: Start) -> None:
    async with start("tab", "tab", "colon", *"14", "enter", "G", "comma") as (ui, screen):
        assert cursor(screen) == 14
        await ui.press("comma", "comma")
        assert "nothing to go back to" in text_of(ui)


async def test_key_forward(start: Start) -> None:
    async with start("tab", "tab", "G", "comma", "full_stop") as (_, screen):
        assert cursor(screen) == screen.panes.active.view.lines


async def test_back_goes_to_another_variant_as_well(start: Start) -> None:
    async with start("tab", "tab", "colon", *"30", "enter", "right_square_bracket") as (ui, screen):
        await ui.press("right_square_bracket", "G", "comma", "comma")
        await settle(ui)
        assert screen.panes.subject.key[1] != ""
        assert screen.panes.subject.key[:2] == ("k1", "3f2a91c0")


async def test_key_frames(start: Start) -> None:
    async with start("tab", "tab", "colon", *"14", "enter", "I") as (ui, _):
        assert "/home/ada/square.py:14:4" in text_of(ui)


async def test_key_definition(start: Start) -> None:
    async with start("tab", "tab", "colon", *"14", "enter") as (ui, screen):
        await ui.press("r", "a")
        assert cursor(screen) == 13


async def test_key_use_next(start: Start) -> None:
    async with start("tab", "tab", "colon", *"14", "enter") as (ui, screen):
        await ui.press("u")
        assert cursor(screen) == 15


async def test_key_use_previous(start: Start) -> None:
    async with start("tab", "tab", "colon", *"14", "enter") as (ui, screen):
        await ui.press("U")
        assert cursor(screen) == 16  # round the beginning


async def test_without_a_register_the_keys_say_so(start: Start) -> None:
    async with start("tab", "a") as (ui, _):
        assert "No register is selected" in text_of(ui)


async def test_key_label_next(start: Start) -> None:
    async with start("tab", "tab", "7", "colon", "1", "enter", "right_parenthesis") as (_, screen):
        await settle(_)
        assert cursor(screen) == 2


async def test_key_label_previous(start: Start) -> None:
    async with start("tab", "tab", "7", "G", "left_parenthesis") as (ui, screen):
        await settle(ui)
        assert cursor(screen) == 2


async def test_key_columns_choose(start: Start) -> None:
    async with start("tab", "tab", "C") as (ui, screen):
        assert "live registers: pred" in text_of(ui)
        before = screen.panes.active.view.rows.margin
        await ui.press("j", "j", "space", "escape")
        await ui.pause()
        assert screen.panes.active.view.rows.gutter.columns == ("live", "live:pred")
        assert screen.panes.active.view.rows.margin == before + 5


async def test_key_fold(start: Start) -> None:
    async with start("tab", "tab", "g", "minus") as (ui, screen):
        assert "… 2 lines of comments" in text_of(ui)
        await ui.press("j")
        assert cursor(screen) == 3
        await ui.press("k", "minus")
        assert "Generated by LLVM" in text_of(ui)
        await ui.press("G", "minus")
        assert "Nothing to fold here." in text_of(ui)


async def test_key_fold_level(start: Start) -> None:
    async with start("tab", "tab", "F") as (ui, screen):
        view = screen.panes.active.view
        assert view.map.rows == view.lines - 1
        assert "Folded: location marks, debug sections, comments." in text_of(ui)
        await ui.press("F", "F")
        assert "Nothing is folded." in text_of(ui)
        assert view.map.rows == view.lines


async def test_key_wrap(start: Start) -> None:
    async with start("tab", "tab", "3", "W", size=(80, 24)) as (ui, _):
        assert "↪" in text_of(ui)
        assert "‹" not in text_of(ui)
        await ui.press("W")
        assert "↪" not in text_of(ui)


async def test_key_tree_variants(start: Start) -> None:
    async with start("V") as (ui, screen):
        assert isinstance(ui.app.screen, VariantsScreen)
        assert "2 variants" in text_of(ui)
        await ui.press("escape")
        assert ui.app.screen_stack == [screen]
