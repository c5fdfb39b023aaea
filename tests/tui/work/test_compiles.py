"""What was compiled and why, in the interface: its parts, and the lines that it leads to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from inspector.base.model import Stage
from inspector.commands.common import open_reader
from inspector.recording.layout import Writer
from inspector.tui.app.app import PtxviewApp
from inspector.tui.widgets.theme import DARK, LIGHT
from inspector.tui.widgets.tool_screen import Overlay
from inspector.tui.work.compiles_screen import CompilesScreen
from tests.helpers.contrast import hard_to_read
from tests.helpers.ptxview import SQUARE
from tests.helpers.sample import settle, text_of
from tests.helpers.shared_app import started

EVIL = "\x1b]0;T\x07\x1b[2J[bold]"
BREAK = f"""Graph break in user code at /home/me/model.py:4
Graph Break Reason: Data-dependent {EVIL} branching
  Explanation: Detected a branch on a tensor.
  Hint: Use torch.cond.

User code traceback:
  File "/home/me/train.py", line 30, in <module>
    step(x)
  File "/home/me/model.py", line 4, in step
    if x.sum() > 0:

Traceback (most recent call last):
  File "/x/site-packages/torch/_dynamo/symbolic_convert.py", line 1, in wrapper
"""
AGAIN = [
    "0/0: tensor 'x' size mismatch at index 0. expected 16, actual 24",
    "0/0: n == 3           # y = x * n  # me/model.py:3 in step",
]
MODEL = "import torch\n\ndef step(x, n):\n    if x.sum() > 0:\n        return x * n\n"
ID = {"frame_id": 0, "pid": 1}


pytestmark = pytest.mark.usefixtures("new_user")


def marks(*spans: tuple[str, float, float]) -> list[list[object]]:
    """Beginnings and ends of nested phases, in microseconds."""
    ends = [("E", name, ended, -began) for name, began, ended in spans]
    both = [*(("B", name, began, -ended) for name, began, ended in spans), *ends]
    both.sort(key=lambda mark: (mark[2], mark[0] == "B", mark[3]))
    return [[kind, name, at * 1e6] for kind, name, at, _ in both]


def triton(writer: Writer, digest: str, **more: object) -> None:
    """Write the event of square_kernel's compilation."""
    ptx = writer.blob((SQUARE / "square_kernel.ptx").read_bytes())
    event = {"event": "triton", "name": "square_kernel", "began": 1000.5, "seconds": 0.5}
    event |= {"hash": digest * 32, "files": {"ptx": ptx}, "cache_hit": False}
    writer.event(**event, **more)


def compiled(writer: Writer, own: dict[str, object], began: float) -> None:
    """Write the beginning and the end of a compilation of step."""
    file, kind = "/home/me/model.py", "compilation_metrics"
    stack = [{"file": file, "line": 3, "name": "step", "code": ""}]
    figures = {"co_name": "step", "co_filename": file, "co_firstlineno": 3}
    figures |= {"duration_us": 2_000_000, "start_time": began}
    writer.event(event="compile_start", **own, stack=stack)
    writer.event(event="compile_end", **own, kind=kind, figures=figures)


def recorded(folder: Path, source: str) -> Path:
    """One kernel of ``source``, two compiles of /home/me/model.py with a break, of which the
    second is a recompile."""
    writer = Writer(folder)
    writer.event(event="recording", schema=1, mode="gpu", time=1.0)
    writer.event(event="user_file", path="/home/me/model.py", blob=writer.blob(MODEL.encode()))
    kept = {"file": source, "blob": writer.blob(MODEL.encode()), "first": 3, "last": 5}
    triton(writer, "ab", pid=1, source=kept, stage_seconds=[["ptx", 0.1], ["cubin", 0.25]])
    for n, cache in enumerate(("hit", "miss")):
        own: dict[str, object] = {**ID, "frame_compile_id": n}
        began = 1000.0 + 10 * n
        if n:
            writer.event(event="recompile", **own, blob=writer.blob(json.dumps(AGAIN).encode()))
        compiled(writer, own, began)
        writer.event(event="graph_break", **own, attempt=0, blob=writer.blob(BREAK.encode()))
        name = f"fx_graph_cache_{cache}"
        writer.event(event="compile_cache", **own, name=name, said={"key": "f"})
        phases = (
            ("dynamo", began, began + 2),
            ("compile_attempt_0", began, began + 0.25),
            ("compile_attempt_1", began + 0.25, began + 2),
            ("inductor_compile", began + 0.5, began + 1.5),
        )
        writer.event(event="compile_phases", **own, marks=marks(*phases))
    writer.close()
    return folder


async def can_be_read(pilot: Pilot[None]) -> CompilesScreen:
    """Every row, with and without the cursor on it, in either theme."""
    screen = pilot.app.screen
    assert isinstance(screen, CompilesScreen)
    for theme in (DARK, LIGHT):
        pilot.app.theme = theme.name
        await settle(pilot)
        for n in (row for row, r in enumerate(screen.rows) if r.text.plain):
            screen.options.highlighted = n
            await settle(pilot)
            assert not hard_to_read(pilot), f"row {n} of {theme.name}"
    return screen


async def test_everything_is_there_and_harmless(tmp_path: Path) -> None:
    reader = open_reader(str(recorded(tmp_path / "rec", "/home/me/model.py")))
    async with started("K", size=(200, 60), app=PtxviewApp(reader)) as (pilot, _):
        text = text_of(pilot)
        assert "1 function compiled 2 times · 2 graph breaks · 1 recompile" in " ".join(
            text.split()
        )
        row = next(line for line in text.split("\n") if "0/0 step" in line)
        bar = row.partition(" s ")[2].strip("│ ▁▂▃▄▅▆▇█")
        # A quarter Dynamo, then Inductor with Triton and ptxas in it, then Dynamo again.
        assert bar[0] == bar[-1] == "D" and "I" in bar and "\x1b" not in text
        letters = [bar.count(letter) for letter in "DIp"]
        assert letters[0] > letters[1] and letters[2]
        await settle(pilot, "n")
        text = text_of(pilot)
        assert "2 graph breaks in 1 place" in text and "/home/me/model.py:4 in step" in text
        assert "[bold]" in text  # shown, not obeyed
        assert "500 ms of tracing were repeated because of it" in " ".join(text.split())
        await settle(pilot, "n")
        text = text_of(pilot)
        assert "1 recompile, 2.00 s" in text
        assert "n == 3 (guard of 0/0)" in text


@pytest.mark.parametrize("source", ["/home/me/model.py", "/elsewhere.py"])
async def test_enter_goes_to_the_line(tmp_path: Path, source: str) -> None:
    reader = open_reader(str(recorded(tmp_path / "rec", source)))
    async with started("K", "n", "down", "enter", app=PtxviewApp(reader)) as (pilot, screen):
        if source == "/home/me/model.py":
            assert pilot.app.screen is screen
            pane = next(p for p in screen.panes.panes if p.stage is Stage.SOURCE)
            assert screen.panes.active is pane and pane.view.cursor == 4
        else:
            # No kernel was made of that file: it is shown as it was.
            assert isinstance(pilot.app.screen, Overlay)
            assert "if x.sum() > 0:" in text_of(pilot)
            assert "line 4" in text_of(pilot)


async def test_a_failed_compilation_leads_to_its_line(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "rec")
    writer.event(event="recording", schema=1, mode="gpu", time=1.0)
    file, message = "/home/me/model.py", "absent is not defined"
    error = {"severity": "error", "message": message, "file": file, "line": 4, "column": 8}
    failed = {"name": "refused", "hash": "ab" * 32, "stage": "ttir", "pid": 1, "tool": "triton"}
    failed |= {"message": message, "began": 1000.0, "seconds": 0.25, "stage_seconds": []}
    failed |= {"messages": [{**error, "tool": "triton"}]}
    source = {"file": file, "blob": writer.blob(MODEL.encode()), "first": 3, "last": 5}
    writer.event(event="triton_failed", **failed, source=source)
    writer.close()
    reader = open_reader(str(tmp_path / "rec"))
    async with started("K", app=PtxviewApp(reader)) as (pilot, screen):
        text = text_of(pilot)
        assert "1 compile failed in 250 ms" in text and "✗ triton refused" in text
        assert "refused failed after 250 ms: model.py:4:8: absent is not defined" in text
        first = pilot.app.screen.query_one(OptionList).highlighted
        (await can_be_read(pilot)).options.highlighted = first
        await settle(pilot, "enter")
        assert pilot.app.screen is screen
        pane = next(p for p in screen.panes.panes if p.stage is Stage.SOURCE)
        assert pane.view.cursor == 4
