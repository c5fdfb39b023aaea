"""The screen of passes: every command, the filter, its looks; with a fake compiler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from inspector.analysis.passes import PassRun
from inspector.base.errors import Stopped
from inspector.base.model import Graph, Kernel, Origin, Recording, Stage, StageFile, Variant
from inspector.diff.beside import lines_changed
from inspector.reader.passes import PassList
from inspector.reader.reader import Reader
from inspector.recording.layout import DerivedCache
from inspector.tui.app.app import PtxviewApp
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.tool_screen import Overlay
from inspector.tui.work import passes_screen as showing
from inspector.tui.work.passes_screen import PassesScreen
from tests.helpers.sample import Bytes, settle, text_of
from tests.helpers.sample import rest as at_rest
from tests.helpers.shared_app import started

Ui = Pilot[None]
BEFORE = """\
#blocked = #ttg.blocked<{order = [0]}>
module {
  tt.func public @k(%a: !tt.ptr<f32>) {
    %x = tt.load %a : tensor<64xf32, #blocked> loc(#loc1)
    %y = tt.dot %x, %x : tensor<64xf32, #blocked> loc(#loc2)
    tt.store %a, %y : tensor<64xf32, #blocked>
    tt.return
  }
}"""
AFTER = BEFORE.replace(
    "    %y = tt.dot %x, %x",
    "    %z = ttg.convert_layout %x : tensor<64xf32, #blocked> -> tensor<64xf32, #mma>\n"
    "    %y = tt.dot %z, %z",
).replace("module {", "#mma = #ttg.nvidia_mma<{instrShape = [16, 8]}>\nmodule {")
LLVM = 'source_filename = "m"\n\ndefine void @k(ptr %0) {\n  %2 = load float, ptr %0\n  ret void\n}'


def made_up(
    number: int, place: str, name: str, texts: tuple[str, str] | None, **more: Any
) -> PassRun:
    stage, language = place.split()
    before, after = texts or (None, None)
    run = PassRun(number, stage, language, name, before=before, after=after, **more)
    return replace(run, lines=lines_changed(run)) if texts else run


def by_mlir(argument: str, milliseconds: float, *inside: str) -> dict[str, Any]:
    return {
        "argument": argument,
        "milliseconds": milliseconds,
        "timed_by": "mlir",
        "inside": inside,
    }


MATMUL = by_mlir("tritongpu-accelerate-matmul", 0.6, "CanonicalizerPass", "CanonicalizerPass")
LAYOUTS = by_mlir("tritongpu-remove-layout-conversions", 12.0)
NO_LOAD = LLVM.replace("  %2 = load float, ptr %0\n", "")
PASSES = (
    made_up(1, "ttir mlir", "CSEPass", None, **by_mlir("cse", 0.1)),
    made_up(2, "ttgir mlir", "TritonGPUAccelerateMatmul", (BEFORE, AFTER), **MATMUL),
    made_up(3, "ttgir mlir", "TritonGPURemoveLayoutConversions", (AFTER, BEFORE), **LAYOUTS),
    made_up(4, "llir llvm", "DCEPass", (LLVM, NO_LOAD), milliseconds=0.31, timed_by="arrival"),
    made_up(5, "ptx machine", "Register Coalescer", None, argument="register-coalescer"),
)
REMARK = "it was compiled by Triton 3.6.0, and is compiled again by 3.9.0: passes may be others"
LIST = PassList("sm_90", "3.9.0", "3.6.0", "source", PASSES, None, (REMARK,))


def app() -> PtxviewApp:
    variant = Variant(
        "11111111",
        "11111111" * 8,
        "matmul_kernel",
        target="sm_90",
        stages={Stage.TTIR: StageFile(Bytes(BEFORE.encode()), "k.ttir")},
        config={"num_warps": 4},
    )
    kernel = Kernel("k1", "matmul_kernel", "matmul_kernel", Origin.TRITON, (variant,))
    recording = Recording("/home/ada/k.ptxview", (kernel,), mode="gpu")
    return PtxviewApp(Reader(recording, DerivedCache(Path("/dev/null/none"))))


async def rest(ui: Ui, *keys: str) -> PassesScreen:
    """Press keys, then wait until nothing is under way on the screen."""
    await at_rest(ui, *keys)
    screen = ui.app.screen_stack[1]
    assert isinstance(screen, PassesScreen)
    return screen


Start = Callable[..., Any]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    """The screen on made-up passes; ``keys`` are pressed first."""
    monkeypatch.setattr(showing, "variant_passes", lambda *a, **k: LIST)

    @asynccontextmanager
    async def begin(
        *keys: str, size: tuple[int, int] = (160, 40)
    ) -> AsyncIterator[tuple[Ui, PassesScreen]]:
        async with started(size=size, app=app()) as (ui, _):
            screen = await rest(ui, "Z")
            for key in keys:
                await rest(ui, key)
            yield ui, screen

    return begin


def numbers(screen: PassesScreen) -> list[int]:
    return [run.number for run in screen.table.rows]


async def test_it_lists_what_changed_and_shows_the_first(start: Start) -> None:
    async with start() as (ui, screen):
        assert numbers(screen) == [2, 3, 4]
        text = text_of(ui)
        assert "3 of 5 changed something · r: remarks · sm_90 · Triton 3.9.0" in text
        assert "ttg.convert_layout %x" in text and "loc(" not in text
        assert "+1 ttg.convert_layout   runs CanonicalizerPass" in text
        assert "~0.3" in text and "12.0" in text


async def test_the_list_shows_one_stage_or_every_pass(start: Start) -> None:
    async with start("s", "s") as (ui, screen):
        assert screen.table.stage == "ttgir" and numbers(screen) == [2, 3]
        assert "ttgir alone" in text_of(ui)
        await rest(ui, "escape")
        assert numbers(screen) == [2, 3, 4] and len(ui.app.screen_stack) == 2
        await rest(ui, "a", "G")
        assert numbers(screen) == [1, 2, 3, 4, 5] and "It changed nothing." in text_of(ui)
        await rest(ui, "a")
        assert numbers(screen) == [2, 3, 4]
        await ui.press("escape")
        assert len(ui.app.screen_stack) == 1


async def test_the_filter_finds_operations_and_passes(start: Start) -> None:
    cases = {
        "convert_layout": [2, 3],
        "+convert_layout": [2],
        "-convert_layout": [3],
        "coalescer": [5],
        "layout llir": [],
        "load": [4],
    }
    async with start("G") as (ui, screen):
        for typed, fits in cases.items():
            await ui.press("slash")
            screen.prompt.input.value = typed
            await rest(ui)
            assert numbers(screen) == fits, typed
            await ui.press("enter")
            assert screen.focused is screen.table
            await rest(ui, "escape")
            assert numbers(screen) == [2, 3, 4] and screen.table.row is PASSES[3]


async def test_enter_goes_to_what_the_pass_changed_and_escape_back(start: Start) -> None:
    async with start() as (ui, screen):
        first = screen.view.cursor
        await ui.press("right_square_bracket")
        assert screen.view.cursor != first and screen.focused is screen.table
        await ui.press("left_square_bracket")
        assert screen.view.cursor == first
        await rest(ui, "<passes.remarks>")
        assert isinstance(ui.app.screen, Overlay)
        assert "it was compiled by Triton 3.6.0" in " ".join(text_of(ui).split())
        await ui.press("escape", "enter")
        assert screen.focused is screen.view
        before = screen.view.cursor
        await ui.press("G")
        assert screen.view.cursor > before and screen.table.row is PASSES[1]
        await rest(ui, "slash", *"mma", "enter")
        assert "match" in text_of(ui)
        await ui.press("escape", "escape")
        assert screen.focused is screen.table and len(ui.app.screen_stack) == 2
        await ui.press("enter", "q")
        assert len(ui.app.screen_stack) == 1


async def test_leaving_ends_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = Event(), Event()

    def slow(*args: object, **more: Any) -> PassList:
        more["say"]("Triton 3.9.0 compiles it")
        begun.set()
        while more["go_on"]():
            ended.wait(0.01)
        ended.set()
        raise Stopped("it was stopped before its end")

    monkeypatch.setattr(showing, "variant_passes", slow)
    async with started(size=(120, 40), app=app()) as (ui, _):
        await ui.press("Z")
        while not begun.is_set():
            await ui.pause(0.01)
        await ui.pause()
        assert "Triton 3.9.0 compiles it …" in text_of(ui)
        await ui.press("escape")
        assert len(ui.app.screen_stack) == 1
        while not ended.is_set():
            await ui.pause(0.01)


async def test_passes_of_a_graph_are_those_that_were_recorded() -> None:
    before = 'class GraphModule():\n        addmm: "f32[8]" = torch.ops.aten.addmm.default(a, b)\n'
    after = before.replace("addmm", "mm")
    passes = (("post_grad_passes", Bytes(before.encode()), Bytes(after.encode())),)
    graph = Graph("0/0", Origin.INDUCTOR, (), {}, passes=passes)
    async with started(size=(120, 40), app=app()) as (ui, _):
        screen = PassesScreen(TreeSubject(graph=graph))
        ui.app.push_screen(screen)
        await settle(ui)
        assert screen.pass_list is not None and [p.name for p in screen.pass_list.passes] == [
            passes[0][0]
        ]
        assert "1 of 1 changed something · Inductor's own" in screen.bar.right
        shown = text_of(ui)
        assert "aten.addmm.default" in shown and "aten.mm.default" in shown
