"""Editing a stage from the interface: a made-up editor, a real recording, the real ptxas."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest
from textual.pilot import Pilot

from inspector.base.errors import Stopped
from inspector.commands.common import open_reader
from inspector.sources.trying import TryOutcome, TryRequest
from inspector.tui.app.app import PtxviewApp
from inspector.tui.diff.diff_screen import DiffScreen
from inspector.tui.main import main_screen as acting
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.work import work_screen as trying
from inspector.tui.work.work_screen import TryScreen
from tests.helpers.sample import rest, settle, text_of
from tests.helpers.shared_app import started

SQUARE, GELU = "a4fe74f3", "4848992d"
Ui = Pilot[None]


class Editor:
    """What is done to the file that is opened, and where it was opened."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int, str]] = []
        self.does: Callable[[str], str] = lambda text: text

    def run(self, argv: list[str], env: object, *, is_job: bool) -> int:
        line, path = argv[-2], Path(argv[-1])
        text = path.read_text("utf-8")
        self.opened.append((path.name, int(line[1:]), text))
        path.write_text(self.does(text), "utf-8")
        return 0


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Editor:
    made = Editor()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("VISUAL", "vi")
    monkeypatch.setattr(acting, "run_program", made.run)
    monkeypatch.setattr(PtxviewApp, "suspend", lambda self: nullcontext())
    return made


@asynccontextmanager
async def reading(
    path: Path, *keys: str, variant: str = SQUARE, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[Ui]:
    """The interface on a variant of a recording, one pane in view; then ``keys``."""
    app = PtxviewApp(open_reader(str(path)))
    async with started(size=size, app=app) as (ui, main):
        at = [i for i, row in enumerate(main.kernels.rows) if row.subject.key[1] == variant]
        main.kernels.go(at[-1])
        await settle(ui)
        await ui.press("tab")
        for key in keys:
            await ui.press(key)
            if isinstance(app.screen, MainScreen):
                await settle(ui)
            await rest(ui)
        yield ui


def screen_of(ui: Ui) -> TryScreen:
    """The screen of what is tried."""
    screen = ui.app.screen
    assert isinstance(screen, TryScreen)
    return screen


async def test_a_changed_text_is_tried_and_the_recording_stays(
    editor: Editor, recording: Path
) -> None:
    before = hashlib.sha256(recording.read_bytes()).digest()
    editor.does = lambda text: text.replace("mul.f32", "add.f32")
    async with reading(recording, "6", "E", size=(80, 24)) as ui:
        (name, _, text) = editor.opened[0]
        assert name == f"square_kernel-{SQUARE}.ptx" and "mul.f32" in text
        screen, told = screen_of(ui), text_of(ui)
        assert "edited ptx" in told and "recorded" in told and "registers" in told
        row = next(line.split() for line in told.split("\n") if line.split()[:1] == ["registers"])
        assert row[1] == "22" and row[2].isdecimal()
        await rest(ui, "enter")
        diff = ui.app.screen
        assert isinstance(diff, DiffScreen) and "edit=edited ptx" in text_of(ui)
        assert "FMUL" in text_of(ui) and "FADD" in text_of(ui)
        await ui.press("escape")
        assert ui.app.screen is screen
        await settle(ui, "escape")
        assert len(ui.app.screen_stack) == 1
    assert hashlib.sha256(recording.read_bytes()).digest() == before


async def test_what_nothing_compiles_on_is_said(editor: Editor, recording: Path) -> None:
    editor.does = lambda text: text + "\n// more"
    async with reading(recording, "7", "E", variant=GELU) as ui:
        assert "goes nowhere: nothing assembles it" in text_of(ui)


async def test_the_text_opens_again_at_the_line_of_an_error(
    editor: Editor, recording: Path
) -> None:
    editor.does = lambda text: text.replace("ret;", "rat;", 1)
    async with reading(recording, "6", "E", variant=GELU) as ui:
        told, screen = text_of(ui), screen_of(ui)
        assert "error" in told and "'rat'" in told
        n = next(i for i, row in enumerate(editor.opened[0][2].split("\n"), 1) if "ret;" in row)
        assert f"{GELU}.ptx:{n}" in told
        await ui.press("enter")  # there is nothing to compare
        assert ui.app.screen is screen and "has not compiled" in text_of(ui)
        editor.does = lambda text: text.replace("rat;", "ret;", 1)
        await rest(ui, "E")
        assert editor.opened[1][1] == n and "rat;" in editor.opened[1][2]
        assert "the machine code is that of the recorded kernel" in " ".join(text_of(ui).split())
        await ui.press("E")  # it is as it was left
        assert len(editor.opened) == 3 and "The text is as it was" in text_of(ui)


async def test_escape_ends_what_is_under_way(
    editor: Editor, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = threading.Event()

    def slow(request: TryRequest, say: object, go_on: Callable[[], bool]) -> TryOutcome:
        began.set()
        while go_on():
            threading.Event().wait(0.01)
        raise Stopped("stopped")

    monkeypatch.setattr(trying, "try_stage", slow)
    editor.does = lambda text: text.replace("mul.f32", "add.f32")
    app = PtxviewApp(open_reader(str(recording)))
    async with started(size=(120, 40), app=app) as (ui, main):
        at = [i for i, row in enumerate(main.kernels.rows) if row.subject.key[1] == SQUARE]
        main.kernels.go(at[-1])
        await settle(ui)
        await settle(ui, "tab", "6")
        await ui.press("E")
        while not began.is_set():
            await ui.pause(0.01)
        screen = screen_of(ui)
        await ui.press("enter", "E")  # nothing of it can be done yet
        assert ui.app.screen is screen and len(editor.opened) == 1
        await rest(ui, "escape")
        assert screen.settled and screen.trial is None
        await settle(ui, "pagedown", "pageup", "up", "escape")
        assert len(ui.app.screen_stack) == 1
