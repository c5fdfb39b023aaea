"""Running a block in the interface: its keys, what stops it, what it leaves, what it looks like."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.worker import WorkerCancelled, WorkerFailed

from inspector.base.model import (
    Argument,
    Call,
    Kernel,
    Origin,
    Recording,
    Stage,
    StageFile,
    Variant,
)
from inspector.commands.common import open_reader
from inspector.reader.reader import Reader
from inspector.recording.layout import DerivedCache
from inspector.tui.app.app import PtxviewApp
from inspector.tui.panes.pane_screen import HintList
from inspector.tui.step.step_figures import LaneGrid
from inspector.tui.step.step_screen import StepScreen
from inspector.tui.widgets.tool_screen import Overlay
from tests.execute.calls.programs import kernel
from tests.execute.calls.test_block import LOOP, PARTED, at
from tests.execute.calls.test_counted_hints import tile
from tests.helpers.nightly import nightly
from tests.helpers.ptxview import SAMPLE
from tests.helpers.sample import Bytes, settle, text_of
from tests.helpers.sample import press as press_keys
from tests.helpers.shared_app import SharedApp, lecture_app, started
from tests.tui.main.test_looks import Compare

SQUARE, SOFTMAX, MATMUL, NVCC = "a4fe74f3", "ed6dc2ce", "ff3a7da2", "b533c0b0"

Ui = Pilot[None]


def made(
    text: str, threads: int = 64, name: str = "x", dtype: str = "float32", blocks: int = 1
) -> PtxviewApp:
    """The application on one kernel of PTX, of which a launch on new values was recorded."""
    x = Argument(
        name,
        "*fp32",
        dtype=dtype,
        shape=(threads * blocks,),
        strides=(1,),
        alignment=512,
        low=0,
        high=9,
    )
    call = Call("triton", "k", grid=(blocks, 1, 1), block=(threads, 1, 1), arguments=(x,))
    variant = Variant(
        "11111111",
        "11111111" * 8,
        "k",
        target="sm_80",
        stages={Stage.PTX: StageFile(Bytes(text.encode()), "k.ptx")},
        config={},
        calls=(call,),
    )
    of = Kernel("k1", "k", "k", Origin.TRITON, (variant,))
    recording = Recording("/home/ada/k.ptxview", (of,), mode="gpu")
    return PtxviewApp(Reader(recording, DerivedCache(Path("/dev/null/none"))))


async def rest(ui: Ui, *keys: str) -> StepScreen:
    """Press keys, then wait until nothing is under way on the screen."""
    await press_keys(ui, *keys)
    for _ in range(3000):
        await ui.pause()
        screen = ui.app.screen_stack[1]
        assert isinstance(screen, StepScreen)
        busy = [w for w in ui.app.workers if not w.is_finished]
        if screen.settled and not busy and all(p.settled for p in screen.panes.panes):
            if screen.reading.is_fitting:  # it waits until the cursor rests: now
                screen.reading.fit()
            await ui.pause()
            return screen
        with suppress(WorkerCancelled, WorkerFailed):  # a thread has the processor to itself
            await ui.app.workers.wait_for_complete(busy)
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to rest")


async def begin(ui: Ui, variant: str = "", *keys: str) -> StepScreen:
    """Go to a variant, run a block of it, and press keys."""
    main = await settle(ui)
    if variant:
        rows = enumerate(main.kernels.rows)
        main.kernels.go([i for i, row in rows if row.subject.key[1] == variant][-1])
        await settle(ui)
    await rest(ui, "x")
    return await press(ui, *keys)


async def press(ui: Ui, *keys: str) -> StepScreen:
    for key in keys:
        await rest(ui, *(key[1:] if key[0] == "=" else [key]))
    return await rest(ui)


async def ask(ui: Ui, key: str, text: str) -> StepScreen:
    screen = await press(ui, key)
    screen.prompt.input.value = text
    return await press(ui, "enter")


def line_at(screen: StepScreen) -> int:
    place = screen.stepper.place()
    assert place is not None
    return place.line


async def test_a_key_runs_a_block_and_lines_show_what_they_gave() -> None:
    app = made(PARTED)
    async with app.run_test(size=(100, 30)) as ui:
        screen = await begin(ui)
        load = at(PARTED, "ld.global")
        screen = await ask(ui, "colon", str(load))
        await press(ui, "u")
        assert line_at(screen) == load
        (strip,) = screen.stepper.strips(load)
        assert strip.values is not None
        rows = [row for row in text_of(ui).splitlines() if "ld.global.f32 %f1" in row]
        assert rows[0].startswith("⇒") and f"{strip.values[0]:.7g}" in rows[0]
        (below,) = (row for row in text_of(ui).splitlines() if "setp.lt.s32" in row)
        assert below.split()[1] == "setp.lt.s32"  # nothing between its number and itself
        await press(ui, "n", "n")
        (below,) = (row for row in text_of(ui).splitlines() if "setp.lt.s32" in row)
        assert below.split()[1] == "true"
        await press(ui, "b", "b")
        (below,) = (row for row in text_of(ui).splitlines() if "setp.lt.s32" in row)
        assert below.split()[1] == "setp.lt.s32"


STRIDED = kernel(
    "    mul.wide.s32 %rd4, %r1, 32;\n    add.s64 %rd5, %rd0, %rd4;\n"
    "    ld.global.f32 %f1, [%rd5];\n    st.global.f32 [%rd1], %f1;"
)
"""Lanes read words that are a sector apart, and write neighbouring ones."""


async def test_it_says_how_coalesced_the_accesses_were_and_has_hints_of_the_counts() -> None:
    async with made(STRIDED, blocks=16).run_test(size=(100, 30)) as ui:
        await begin(ui)
        assert "Sectors a request: reads 32, 8 × the least; writes 4, the least" in text_of(ui)
        await press_keys(ui, "H")
        for _ in range(400):
            if isinstance(ui.app.screen, HintList):
                break
            await ui.pause(0.02)
        assert "uncoalesced-layout" in text_of(ui)
        await press_keys(ui, "escape")


@pytest.mark.nightly
async def test_escape_ends_a_run_and_what_came_before_is_there() -> None:
    app = made(LOOP.replace("100000", "2000000000"), dtype="int32")
    async with started(size=(100, 30), app=app) as (ui, _):
        await ui.press("x")
        screen = app.screen
        assert isinstance(screen, StepScreen)
        for _ in range(3000):
            await ui.pause(0.01)
            if (
                screen.running is not None
                and screen.running.trace
                and len(screen.running.trace.steps) > 500
            ):
                break
        assert screen.running is not None
        assert "Esc stops it" in text_of(ui)
        await rest(ui, "escape")
        assert "it was stopped; the steps before that are here" in text_of(ui)
        await press(ui, "<step.end>")
        assert 500 < len(screen.stepper.trace.steps) == screen.stepper.step_index + 1
        assert (
            f"{screen.stepper.step_index:,} of {screen.stepper.step_index + 1:,} kept"
            in text_of(ui)
        )
        await ui.press("escape")
        await ui.pause()
        assert app.screen is not screen


async def test_without_a_launch_a_sentence_says_what_to_do() -> None:
    async with lecture_app.run_test(size=(80, 24)) as ui:
        await begin(ui, NVCC)
        words = " ".join(text_of(ui).split())
        assert "no launch of square_matrix_kernel" in words and "was recorded" in words
        assert "--grid and --threads" in words and f"{NVCC} …" in words
        await press(ui, "n", "u", "enter", "r", "L", "N")  # without an effect
        await settle(ui, "escape")
        assert len(ui.app.screen_stack) == 1


async def test_unsupported_instructions_are_named_with_their_lines() -> None:
    text = kernel("    tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd0, {%r1}];")
    app = made(text)
    async with app.run_test(size=(100, 30)) as ui:
        screen = await begin(ui)
        words = text_of(ui)
        assert "cannot be run here; nothing was run" in words
        assert f"line {at(text, 'tex.1d')}: tex.1d.v4.f32.s32" in words
        assert screen._kernel is None


async def test_a_fault_is_the_last_step() -> None:
    text = kernel("    ld.global.f32 %f1, [%rd1+4000];")
    async with made(text).run_test(size=(140, 30)) as ui:
        screen = await begin(ui)
        assert "past the end of x" in text_of(ui), text_of(ui)
        await press(ui, "<step.end>")
        assert line_at(screen) == at(text, "ld.global")
        assert "here the block ended" in text_of(ui)


async def test_it_goes_to_lines_partings_stores_and_the_first_nan() -> None:
    async with made(PARTED).run_test(size=(100, 40)) as ui:
        screen = await begin(ui)
        await press(ui, "N")
        assert line_at(screen) == at(PARTED, "sqrt")  # new values are negative as often as not
        await press(ui, "<step.start>")
        assert screen.stepper.step_index == 0
        await ask(ui, "<step.parts>", "3 30")
        active = screen.stepper.trace.steps[screen.stepper.step_index].active
        assert active[3] != active[30]
        await ask(ui, "s", "x+200")
        assert line_at(screen) == at(PARTED, "], 7")
        await ask(ui, "s", "y+200")
        assert "say where to" in text_of(ui) and line_at(screen) == at(PARTED, "], 7")
        await ask(ui, "<step.go>", "2")
        assert screen.stepper.step_index == 2
        await ask(ui, "colon", str(at(PARTED, "setp")))
        await press(ui, "u")
        assert line_at(screen) == at(PARTED, "setp")
        await press(ui, "u")
        assert "no further step is on line" in text_of(ui)
        await ask(ui, "colon", str(at(PARTED, "ld.global")))
        await press(ui, "<step.before>")
        assert line_at(screen) == at(PARTED, "ld.global")


async def test_the_current_line_is_marked_and_followed_in_every_pane() -> None:
    async with lecture_app.run_test(size=(160, 50)) as ui:
        screen = await begin(ui, SOFTMAX, "4")
        links = screen.reads.stages.links
        variant = screen.subject.variant
        assert variant is not None
        for key in ("n",) * 5 + ("m",) * 2:
            screen = await press(ui, key)
            for pane in screen.panes.panes:
                assert pane.stage is not None
                here: tuple[int, ...] = (line_at(screen),)
                if pane.stage is not Stage.PTX:
                    here = links(variant, Stage.PTX, pane.stage).get(here[0], ())
                assert pane.view.current == tuple(sorted(here)), pane.stage
                if here:
                    first, last = (pane.view.map.line(row) for row in pane.view.span())
                    assert first <= pane.view.cursor <= last and pane.view.cursor in here


async def test_enter_shows_the_lanes_and_chooses_one() -> None:
    async with made(PARTED).run_test(size=(80, 24)) as ui:
        screen = await begin(ui)
        await ask(ui, "colon", str(at(PARTED, "sqrt")))
        await press(ui, "enter")
        assert "has not run by this step" in text_of(ui)
        await press(ui, "u")
        await ui.press("enter")
        assert isinstance(ui.app.screen, LaneGrid)
        text = text_of(ui)
        assert "56 of 64 lanes ran this step" in text and "which did not run it" in text
        await ui.press("right", "down")
        assert "lane 33 (warp 1, lane 1)" in text_of(ui)
        await ui.press("4", "7")
        assert "lane 47 (warp 1, lane 15)" in text_of(ui)
        await ui.press("9")  # there is no lane 479: a new number begins
        assert "lane 9 (warp 0, lane 9)" in text_of(ui)
        await rest(ui, "escape")
        assert screen.stepper.lane == 0
        await rest(ui, "enter", "4", "7", "enter")
        assert screen.stepper.lane == 47 and "lane 47" in text_of(ui)


@pytest.mark.parametrize(
    ("width", "words"), [(36, "takes 4 wavefronts"), nightly(33, "No lanes collide")]
)
async def test_lanes_that_collide_in_a_bank_are_drawn(width: int, words: str) -> None:
    async with made(tile(width), threads=32).run_test(size=(120, 40)) as ui:
        screen = await begin(ui)
        screen.action_banks()
        await ui.pause()
        assert words in text_of(ui)


@pytest.mark.parametrize("width", [80, pytest.param(120, marks=pytest.mark.nightly)])
async def test_registers_are_beside_the_panes_or_over_them(width: int) -> None:
    async with lecture_app.run_test(size=(width, 40)) as ui:
        screen = await begin(ui, SOFTMAX, "n", "n", "n")
        beside = width >= 110
        assert ("Used later" in text_of(ui)) is beside and screen.panel.display is beside
        await ui.press("r")
        await ui.pause()
        assert ("Used later" in text_of(ui)) is not beside
        assert isinstance(ui.app.screen, Overlay) is not beside
        if not beside:
            assert "Registers of lane 0" in text_of(ui) and "input_row_str…" in text_of(ui)
            await ui.press("escape")
        await press(ui, "r")
        if beside:
            assert screen.panel.display


@pytest.fixture(scope="module")
def own_lecture(tmp_path_factory: pytest.TempPathFactory) -> SharedApp:
    """The interface on a copy of the recording that nothing was measured of."""
    path = tmp_path_factory.mktemp("own") / "lecture.ptxview"
    shutil.copy(SAMPLE, path)
    return SharedApp(cache(lambda: open_reader(str(path))))


def stepping(variant: str, *keys: str) -> Callable[[Ui], Any]:
    async def run(ui: Ui) -> None:
        ui.app.animation_level = "none"
        await begin(ui, variant, *keys)

    return run


TO_THE_LOAD = ("slash", *"ld.global", "enter", "u", "n", "n", "n", "n")


@pytest.mark.parametrize("size", [(120, 40)], ids=lambda s: f"{s[0]}x{s[1]}")
def test_how_a_block_looks(
    snap_compare: Compare, own_lecture: SharedApp, size: tuple[int, int]
) -> None:
    keys = stepping(SQUARE, *TO_THE_LOAD)
    assert snap_compare(PtxviewApp(own_lecture.reads()), terminal_size=size, run_before=keys)
