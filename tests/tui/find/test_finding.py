"""The palette and the help, by keys and by mouse."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from inspector.analysis.graph_view import NodeOrigin
from inspector.base.model import Kernel, Stage
from inspector.reader.graphs import GraphReader
from inspector.tui.app.app import PtxviewApp
from inspector.tui.find.finder import Finder
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.step.step_screen import StepScreen
from inspector.tui.variants.variants_screen import VariantsScreen
from tests.helpers.nightly import nightly
from tests.helpers.sample import empty, settle, text_of
from tests.helpers.shared_app import lecture_app, started

Ui = Pilot[None]


def hits(ui: Ui) -> list[tuple[str, str]]:
    """Kind and name of each match."""
    screen = ui.app.screen
    assert isinstance(screen, Finder)
    return [(match.entry.lead, match.entry.text) for match in screen.matches]


async def test_kernels_and_graphs_are_found_by_name() -> None:
    async with started("ctrl+p", *"gelu", size=(80, 24)) as (ui, screen):
        assert hits(ui)[0] == ("kernel", "gelu_kernel")
        assert "gelu_kernel" in text_of(ui)
        await settle(ui, "enter")
        assert screen.panes.subject.key[0] == "k3"
        assert screen.panes.active.view.has_focus
        await settle(ui, "ctrl+p", *"graph", "enter")
        row = screen.kernels.row
        assert row is not None and row.text == "graph 0/0"


async def test_a_label_in_the_open_listing_is_found() -> None:
    async with started("tab", "tab", "7", "ctrl+p", *".text", size=(80, 24)) as (ui, screen):
        assert ("label", ".text.square_kernel") in hits(ui)
        assert "sass, line 2" in text_of(ui)
        await settle(ui, "enter")
        assert (screen.panes.active.stage, screen.panes.active.view.cursor) == (Stage.SASS, 2)
        await ui.press("comma")  # and back
        assert screen.panes.active.view.cursor != 2


async def test_a_hint_is_found_and_its_line_is_gone_to() -> None:
    async with started("ctrl+p", *"narrow") as (ui, screen):
        assert hits(ui)[0][0] == "hint"
        await settle(ui, "enter")
        assert (screen.panes.active.stage, screen.panes.active.view.cursor) == (Stage.PTX, 14)


async def test_stages_of_open_and_of_other_kernels_are_found() -> None:
    async with started("ctrl+p", *"ttgir") as (ui, screen):
        assert ("stage", "TTGIR") in hits(ui)
        assert "absent here" in text_of(ui)
        await ui.press("ctrl+u", *"ttir")
        assert hits(ui)[0] == ("stage", "TTIR")
        await settle(ui, "enter")
        assert str(screen.panes.active.stage) == "ttir"
        await ui.press("ctrl+p", *"gelu", "space", *"pt")
        assert hits(ui)[0] == ("ptx", "gelu_kernel")
        await settle(ui, "enter")
        assert screen.panes.subject.key[0] == "k3"
        assert screen.panes.active.stage is Stage.PTX


async def test_escape_changes_nothing_and_nothing_that_fits_is_said() -> None:
    async with started("ctrl+p", *"qqqq") as (ui, screen):
        assert "Nothing fits." in text_of(ui)
        before = screen.panes.subject
        await ui.press("enter", "escape")
        assert ui.app.screen is screen and screen.panes.subject == before


async def test_where_nothing_was_compiled_commands_are_found() -> None:
    async with PtxviewApp(empty()).run_test(size=(80, 24)) as ui:
        await ui.press("ctrl+p", *"dark")
        assert hits(ui) == [("command", "Dark or light")]


async def test_another_screen_has_its_own_commands() -> None:
    async with started("V", "ctrl+p", *"reverse") as (ui, _):
        assert ("command", "Reverse") in hits(ui)
        assert not [one for one in hits(ui) if one[0] == "kernel"]
        await ui.press("escape")
        assert isinstance(ui.app.screen, VariantsScreen)


async def test_the_help_begins_with_the_focused_part_and_opens_the_rest_by_task() -> None:
    async with started("question_mark", size=(80, 24)) as (ui, _):
        first, second, *_ = hits(ui)
        assert first[1] == "The row under the cursor"
        assert second == ("▾", "open: ← hides the rows beneath")
        assert ("$", "What costs most?") in hits(ui) and len(hits(ui)) < 50
        await ui.press("enter")
        assert second not in hits(ui)
        tasks = [text for lead, text in hits(ui) if lead == "▸"]
        assert tasks[1:3] == ["What people ask first", "The tree"]
        await ui.press("escape", "tab", "question_mark")
        assert hits(ui)[0][1] == "The row under the cursor" and hits(ui)[1][1] == "the cursor"
        await ui.press("escape", "shift+tab", "V", "question_mark")
        assert "What people ask first" in [text for _, text in hits(ui)]
        assert "In the table of variants (V)" in [text for _, text in hits(ui)]


@pytest.mark.parametrize(
    ("typed", "question", "screen"),
    [
        ("coalesced", "Is its memory access coalesced?", StepScreen),
        ("wait", "What does this instruction wait for?", MainScreen),
        nightly("trace", "What values does it compute?", StepScreen),
        nightly("local memory", "Which kernel spills or uses local memory?", MainScreen),
    ],
)
async def test_the_help_answers_questions_with_a_command(
    typed: str, question: str, screen: type
) -> None:
    async with started("question_mark", *typed, size=(120, 40)) as (ui, _):
        assert question in [text for _, text in hits(ui)][:4]
        while True:
            finder = ui.app.screen
            assert isinstance(finder, Finder)
            if finder.entry is not None and finder.entry.text == question:
                break
            await ui.press("down")
        await settle(ui, "enter")
        assert isinstance(ui.app.screen, screen)


async def test_what_works_here_comes_before_what_fits_better_elsewhere() -> None:
    async with started("tab", "question_mark", *"fold") as (ui, screen):
        assert hits(ui)[0] == ("-", "Fold or unfold")  # the tree's is called Fold
        await settle(ui, "ctrl+u", *"wrap", "enter")
        assert screen.panes.active.view.wrapped


async def test_a_module_selects_its_kernels_in_the_palette_and_the_tree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def origins(_: GraphReader, kernel: Kernel) -> tuple[NodeOrigin, ...]:
        return (NodeOrigin("/m/gpt.py", 1, "h.0.attn.c_proj"),) if kernel.id == "k2" else ()

    monkeypatch.setattr(GraphReader, "origins", origins)
    async with started("ctrl+p", *"attn.c_proj") as (ui, screen):
        palette = ui.app.screen
        assert isinstance(palette, Finder)
        assert {match.entry.subject for match in palette.matches} == {("k2", "b615ffe2")}
        await settle(ui, "escape", "slash", *"attn.c_proj")
        assert {row.subject.key[0] for row in screen.kernels.rows if row.leaf} == {"k2"}
        await settle(ui, *"x")
        assert not screen.kernels.rows


async def test_a_property_selects_variants_in_the_palette_the_tree_and_the_table() -> None:
    async with started("ctrl+p", *"sq spill>0") as (ui, screen):
        palette = ui.app.screen
        assert isinstance(palette, Finder)
        assert {one.entry.subject for one in palette.matches} == {("k1", "84d20b7e")}
        await settle(ui, "escape", "slash", *"spi", "tab", "0")
        assert {row.subject.key[1] for row in screen.kernels.rows if row.leaf} == {"84d20b7e"}
        await settle(ui, *" rgs>1")
        assert "Did you mean regs?" in text_of(ui) and "spill>0 rgs>1" in text_of(ui)
        await settle(ui, "escape")
        assert {"3f2a91c0", "84d20b7e"} <= {row.subject.key[1] for row in screen.kernels.rows}
        await settle(ui, "V")
        await settle(ui, "slash", *"spill>0 sq", "enter")
        assert "3f2a91c0" not in text_of(ui) and "84d20b7e" in text_of(ui)


async def test_kernels_that_use_local_memory_are_one_command() -> None:
    async with started("ctrl+p", *"local memory", "enter", app=lecture_app) as (ui, screen):
        assert screen.kernels.query_text == "stack>0 launched" and screen.kernels.has_focus
        assert "filter stack>0 launched" in text_of(ui)
    async with started("ctrl+p", *"local memory", "enter") as (_, screen):  # none was launched
        assert screen.kernels.query_text == "stack>0"
