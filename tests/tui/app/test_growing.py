"""Growing recordings: views update by themselves, and nothing moves.

The recording of an H200 is written again event by event; slow or never recorded data are of the
small recording.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from inspector.base.model import Kernel, Origin, Recording, Stage
from inspector.reader.reader import Reader
from inspector.recording.layout import DerivedCache
from inspector.sources.opening import open_path
from inspector.sources.running import Follower
from inspector.tui.app.app import PtxviewApp
from inspector.tui.code.code_view import CodeView
from inspector.tui.diff.diff_screen import DiffScreen
from inspector.tui.program.live import Live
from tests.helpers.ptxview import SAMPLE
from tests.helpers.sample import reader, recording, settle, text_of
from tests.helpers.shared_app import started
from tests.tui.app.test_live import Growth, until

Event = dict[str, Any]


class Written:
    """A recording that is written again step by step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "recording"
        self.cache = DerivedCache(folder / "derived")
        rows: list[tuple[float, str, Event]] = []
        with zipfile.ZipFile(SAMPLE) as archive:
            for name in archive.namelist():
                if name.endswith(".jsonl"):
                    told = map(json.loads, archive.read(name).splitlines())
                    # Later additions have no time.
                    rows += [(event.get("time") or float("inf"), name, event) for event in told]
                else:
                    archive.extract(name, self.folder)
        self._rows = sorted(rows, key=lambda row: row[0])
        self._follower = Follower(self.folder)

    def to(self, event: str) -> None:
        """Everything up to the next event of that kind."""
        while self._rows:
            _, name, told = self._rows.pop(0)
            with (self.folder / name).open("a") as file:
                file.write(json.dumps(told) + "\n")
            if told["event"] == event:
                return

    def look(self) -> Reader | None:
        """A reader of what there is by now, if there is more."""
        seen = self._follower.look()
        return None if seen is None else Reader(seen, self.cache)

    def app(self) -> PtxviewApp:
        return PtxviewApp(Reader(open_path(self.folder), self.cache), live=Live(self.look))


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def stands(view: CodeView) -> tuple[object, ...]:
    """Where one is in a pane, and what is folded."""
    return view.cursor, view.scroll_offset, view.map.rows, view.folding.level, view.matches


def diff_of(pilot: Pilot[None]) -> DiffScreen:
    screen: object = pilot.app.screen
    assert isinstance(screen, DiffScreen)
    return screen


async def test_a_kernel_of_an_open_graph_becomes_readable(
    written: Written,
) -> None:
    """``output_code`` is there before anything is compiled: who reads it goes on reading."""
    written.to("graph")
    app = written.app()
    async with started("G", "tab", *("j" * 30), "minus", size=(160, 48), app=app) as (
        pilot,
        screen,
    ):
        code, ptx = screen.panes.panes
        assert code.stage is Stage.OUTPUT_CODE
        shown = " ".join(text_of(pilot).split())
        assert "◔ No ptx here yet. The recording is unfinished" in shown
        before = stands(code.view)
        written.to("triton")
        await until(pilot, lambda: ptx.view.source is not None)
        screen = await settle(pilot)
        assert ".visible .entry triton_per" in "\n".join(ptx.view.source.texts)  # type: ignore[union-attr]
        assert "here yet" not in text_of(pilot)
        assert code.stage is Stage.OUTPUT_CODE
        assert stands(code.view) == before
        assert screen.focused is code.view
        # Its registers are in the tree and on the card, as cuobjdump has them.
        own = screen.panes.subject.variant
        assert own is not None
        registers = screen.reads.facts.resources(own).registers
        await until(pilot, lambda: f"{registers} registers" in text_of(pilot))
        await until(pilot, lambda: f"{registers}r" in text_of(pilot))
        assert not screen.panes.unlinked(ptx)


def kernels_more(many: int) -> Recording:
    """The sample with more kernels, before and behind those that there were, still growing."""
    whole = recording()
    first = whole.kernels[0]
    others = tuple(
        Kernel(
            f"n{n}",
            f"new_{n}",
            f"new_{n}",
            origin,
            (replace(first.variants[0], id=f"{n:08x}", hash=f"{n:08x}" * 8),),
        )
        for n in range(many)
        for origin in ([Origin.TRITON, Origin.NVCC][n % 2],)
    )
    return replace(whole, complete=False, kernels=(*others, *whole.kernels))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (("tab", "slash", *"mul"), "mul"),  # a search, half typed
        (("slash", *"gelu"), "gelu"),  # a filter, half typed
    ],
)
async def test_who_types_while_kernels_come_goes_on_typing(
    keys: tuple[str, ...], expected: str
) -> None:
    growth = Growth()
    app = PtxviewApp(reader(kernels_more(0)), live=Live(growth))
    async with started(*keys, size=(160, 48), app=app) as (pilot, screen):
        before = [stands(pane.view) for pane in screen.panes.panes]
        subject, key = screen.panes.subject, screen.kernels.row and screen.kernels.row.key
        growth.next = reader(kernels_more(30))
        await until(pilot, lambda: len(screen.reads.recording.kernels) > 30)
        await settle(pilot)
        assert screen.focused is screen.prompt.input
        assert screen.prompt.input.value == expected
        assert [stands(pane.view) for pane in screen.panes.panes] == before
        assert screen.panes.subject == subject
        assert (screen.kernels.row and screen.kernels.row.key) == key


async def test_marks_and_a_diff_go_on_with_what_came_since() -> None:
    """SASS that came after the marks were made can be compared."""
    whole = recording()
    square = whole.kernels[0]
    bare = tuple(
        replace(v, stages={s: f for s, f in v.stages.items() if s is not Stage.SASS})
        for v in square.variants
    )
    growing = replace(whole, complete=False, kernels=(replace(square, variants=bare),), graphs=())
    growth = Growth()
    app = PtxviewApp(reader(growing), live=Live(growth))
    async with started(size=(120, 40), app=app) as (pilot, screen):
        await pilot.press("j", "d", "j", "d", "D")
        diff = diff_of(pilot)
        await until(pilot, lambda: diff.settled)
        shown = text_of(pilot)
        growth.next = reader(replace(growing, kernels=(square,)))
        await until(
            pilot, lambda: Stage.SASS in screen.reads.recording.kernels[0].variants[0].stages
        )
        await pilot.pause()
        assert text_of(pilot) == shown
        await pilot.press("7")
        await until(pilot, lambda: diff.settled and diff.request.stage is Stage.SASS)
        outcome = diff.view.outcome
        assert outcome is not None and outcome.comparison is not None
        assert outcome.comparison.stage is Stage.SASS
