"""Kernels compared with their operators from the interface."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from inspector.base.errors import Stopped
from inspector.commands.common import open_reader
from inspector.recording.layout import VERDICTS, store_record, stored_records
from inspector.tui.app.app import PtxviewApp
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.variants.variants_screen import VariantsScreen
from inspector.tui.work import verify_screen
from inspector.tui.work.verify_screen import VerifyScreen
from tests.helpers.sample import rest, settle, text_of
from tests.helpers.shared_app import started

Ui = Pilot[None]


def go(main: MainScreen, name: str) -> None:
    """To the row of a kernel."""
    names = [(row.subject.kernel and row.subject.kernel.name) or "" for row in main.kernels.rows]
    main.kernels.go(next(n for n, own in enumerate(names) if name in own))


@asynccontextmanager
async def verifying(
    path: Path, name: str, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Ui, MainScreen]]:
    """The screen, opened on a kernel with its command."""
    app = PtxviewApp(open_reader(str(path)))
    async with started(size=size, app=app) as (ui, main):
        go(main, name)
        await settle(ui)
        main.action_verify()
        await ui.pause()
        yield ui, main


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_the_report_is_the_commands_and_is_kept(
    lost_scale: Path,
    size: tuple[int, int],
    plain_python: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    python = plain_python("torch", "torch._inductor.inductor_prims")
    monkeypatch.setattr(verify_screen, "interpreter", lambda *_: python)
    async with verifying(lost_scale, "softmax", size) as (ui, _):
        await rest(ui)
        assert isinstance(ui.app.screen, VerifyScreen)
        text = " ".join(text_of(ui).split())
        assert "graph 0/0 triton_per_fused__softmax" in text
        assert "NOT EXPLAINED" in text
        assert "first: out_ptr2[0, 0]" in text
        assert "768 of 768 elements of mul are not explained by rounding" in text
        assert "graph 0/0: 0 of 1 kernel explained" in text
        assert "gelu" not in text  # it is of another graph
        (record,) = stored_records(lost_scale, VERDICTS)
        kernels: Any = record["kernels"]
        assert [kernel["verdict"] for kernel in kernels] == ["unexplained"]
        await rest(ui, "escape")
        assert isinstance(ui.app.screen, MainScreen)


async def test_it_is_stopped_with_escape(lost_scale: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def compared(
        reads: object, launches: object, python: str, tell: Callable[[str], object], go_on: Any
    ) -> None:
        tell("computing operators: 1 of 2")
        begun.set()
        while go_on():
            threading.Event().wait(0.01)
        raise Stopped("it was stopped before its end")

    monkeypatch.setattr(verify_screen, "compared", compared)
    monkeypatch.setattr(verify_screen, "interpreter", lambda *_: "/opt/python")
    async with verifying(lost_scale, "softmax") as (ui, _):
        while not begun.is_set():
            await ui.pause(0.01)
        await ui.pause()
        text = text_of(ui)
        assert "Each kernel of graph 0/0 is compared with its own operators" in text
        assert "computing operators: 1 of 2 · Esc stops it" in text
        await rest(ui, "escape")
        assert "it was stopped before its end" in text_of(ui)
        assert stored_records(lost_scale, VERDICTS) == []
        await rest(ui, "escape")
        assert isinstance(ui.app.screen, MainScreen)


async def test_what_stands_in_the_way_is_said(
    lost_scale: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_screen, "launch_tasks", lambda *_: no_torch())
    async with verifying(lost_scale, "gelu") as (ui, _):
        await rest(ui)
        assert "no interpreter with torch" in text_of(ui)


def no_torch() -> None:
    from inspector.base.errors import ToolMissing

    raise ToolMissing("no interpreter with torch was found to run the calls under")


async def test_kept_verdicts_are_a_column_of_the_graph_and_a_line_of_the_card(
    lost_scale: Path,
) -> None:
    kernels: list[dict[str, Any]] = []
    recording = open_reader(str(lost_scale)).recording
    verdicts = {"29a5f0ad": "unexplained", "23c30efe": "equal"}
    for kernel, variant in recording.variants():
        if variant.id in verdicts:
            row = {"graph": "0/0", "call": 0, "kernel": kernel.id}
            kernels.append({**row, "reason": "it is so", "verdict": verdicts[variant.id]})
            if verdicts[variant.id] == "unexplained":  # else it is the one that was launched
                kernels[-1]["variant"] = variant.hash
    record = {"taken": "2026-01-01T12:00:00+00:00", "inputs": "", "kernels": kernels}
    store_record(lost_scale, record, VERDICTS)
    app = PtxviewApp(open_reader(str(lost_scale)))
    async with started(size=(160, 40), app=app) as (ui, main):
        ids = [row.subject.key[1] for row in main.kernels.rows]
        main.kernels.go(ids.index("29a5f0ad"))
        await settle(ui)
        await rest(ui, "V", "a")
        text = text_of(ui)
        assert "verified" in text
        screen = app.screen
        assert isinstance(screen, VariantsScreen)
        words = [column.cell(row) for column, _ in screen.table.columns
                 if column.name == "verified" for row in screen.table.rows]  # fmt: skip
        assert sorted(words) == ["NOT EXPLAINED", "equal", "–", "–"]
        segments = [s for strip in screen._compositor.render_strips() for s in strip]
        (segment,) = [s for s in segments if "NOT EXPLAINED" in s.text]
        (other,) = [s for s in segments if s.text.strip() == "equal"]
        assert segment.style is not None and other.style is not None
        assert segment.style.color != other.style.color
        await rest(ui, "escape", "i")
        assert "verified" in text_of(ui)
        assert "NOT EXPLAINED: it is so" in text_of(ui)


async def test_the_operations_of_a_graph_have_the_newest_verdicts(lost_scale: Path) -> None:
    def keep(verdict: str) -> None:
        row = {"graph": "0/0", "call": 0, "kernel": kernel.id, "verdict": verdict}
        store_record(lost_scale, {"taken": "", "inputs": "", "kernels": [row]}, VERDICTS)

    recording = open_reader(str(lost_scale)).recording
    kernel = next(kernel for kernel in recording.kernels if "softmax" in kernel.name)
    app = PtxviewApp(open_reader(str(lost_scale)))
    async with started(size=(80, 24), app=app) as (ui, main):
        go(main, "softmax")
        await rest(ui, "8", "b")
        assert "call  kernel" in text_of(ui) and "verified" not in text_of(ui)
        for verdict, words in (("equal", "equal"), ("unexplained", "NOT EXPLAINED")):
            keep(verdict)
            main.read_times()
            await settle(ui)
            lines = text_of(ui).splitlines()
            (head,) = [line for line in lines if "call  verified" in line]
            call = lines[lines.index(head) + 1]
            assert call[head.index("verified") :].startswith(words)
