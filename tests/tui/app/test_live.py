"""A recording that grows, a program that runs beneath the interface, and what becomes of it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from textual.pilot import Pilot

from inspector.base.model import Recording
from inspector.reader.reader import Reader
from inspector.recording.layout import Writer
from inspector.sources.opening import open_path
from inspector.tui.app.app import PtxviewApp
from inspector.tui.panes.pane_screen import QuitDialog
from inspector.tui.program.live import Choice, Live, ProgramState, TerminalText
from inspector.tui.program.output_view import OutputView
from tests.helpers.sample import empty, reader, recording, settle, text_of
from tests.helpers.shared_app import started
from tests.helpers.tools import skip_without

ROOT = Path(__file__).resolve().parents[3]


def shown(*pieces: bytes) -> list[str]:
    text = TerminalText()
    for piece in pieces:
        text.feed(piece)
    return text.lines()


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        (b"one\r\ntwo", ["one", "two"]),
        (b" 10%\r 50%\r100%\r\n", ["100%"]),
        (b"longer\rab\x1b[K", ["ab"]),
        (b"a\tb", ["a       b"]),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07end", ["red end"]),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", ["link"]),
        (b"a long bar\r\x1b[2Kab", ["ab"]),
        (b"bell\x07 null\x00", ["bell null"]),
        (b"\xff\xfe", ["��"]),
    ],
)
def test_output_is_text_and_a_progress_bar_its_last_state(output: bytes, lines: list[str]) -> None:
    assert shown(output) == lines


@given(st.binary(max_size=200), st.integers(1, 7))
def test_output_reads_the_same_in_any_pieces(output: bytes, size: int) -> None:
    whole = shown(output)
    assert shown(*(output[n : n + size] for n in range(0, len(output), size))) == whole
    assert not any(re.search(r"[\x00-\x1f\x7f-\x9f]", line) for line in whole)


def test_an_alternate_screen_is_noticed_across_two_pieces() -> None:
    live = Live(lambda: None, lambda number: None)
    choices = []
    for piece in (b"text\x1b[?10", b"49h"):
        live.feed(piece)
        choices.append(live.choice)
    assert choices == [Choice.STAY, Choice.TERMINAL]


class Growth:
    def __init__(self) -> None:
        self.next: Reader | None = None

    def __call__(self) -> Reader | None:
        given, self.next = self.next, None
        return given


def without(*names: str) -> Recording:
    """The sample as it was before these kernels."""
    whole = recording()
    return replace(
        whole, complete=False, kernels=tuple(k for k in whole.kernels if k.id not in names),
        graphs=() if "k2" in names else whole.graphs,
    )  # fmt: skip


async def until(pilot: object, done: Callable[[], bool]) -> None:
    """Wait until something holds; fails after two minutes."""
    end = time.monotonic() + 120
    while not done():
        assert time.monotonic() < end, "it did not happen"
        await pilot.pause(0.02)  # type: ignore[attr-defined]


async def test_a_kernel_that_is_compiled_while_it_is_looked_at_is_shown() -> None:
    whole = recording()
    square = whole.kernels[0]
    growing = replace(whole, kernels=(replace(square, variants=()),), graphs=())
    growth = Growth()
    app = PtxviewApp(reader(growing), live=Live(growth))
    async with started(size=(120, 40), app=app) as (pilot, _):
        assert "No ptx here. No compilation of" in " ".join(text_of(pilot).split())
        growth.next = reader(replace(whole, kernels=(square,), graphs=()))
        await until(pilot, lambda: ".target sm_90a, .entry" in text_of(pilot))
        screen = await settle(pilot)
        assert "No ptx here" not in text_of(pilot)
        assert screen.panes.linked_lines(screen.panes.panes[1])


async def settle_empty(pilot: Pilot[None]) -> None:
    await until(pilot, lambda: "No kernels here" in text_of(pilot))


async def test_output_fills_the_screen_until_there_is_a_kernel() -> None:
    growth = Growth()
    live = Live(growth, lambda number: None)
    app = PtxviewApp(empty(), live=live)
    async with app.run_test(size=(160, 48)) as pilot:
        await settle_empty(pilot)
        live.feed(b"".join(b"line %d\r\n" % n for n in range(100)))
        await until(pilot, lambda: "line 99" in text_of(pilot))
        output = app.query_one(OutputView)
        assert output.size.height > 0.65 * 48
        assert output.has_focus
        assert "O output" in text_of(pilot).rsplit("\n", 1)[-1]
        await pilot.press("O")  # there is nothing else to see: it is not hidden
        assert output.display and output.has_focus
        assert "Running: python hello.py" in text_of(pilot)
        await pilot.press("g", "question_mark")  # an overlay stays
        growth.next = reader()
        await pilot.pause(0.8)
        assert len(app.screen_stack) == 2
        await pilot.press("escape")
        await until(pilot, lambda: "square_kernel" in text_of(pilot))
        screen = await settle(pilot)
        # Who reads it goes on reading, at the same line.
        assert screen.focused is output and "line 0 " in output.render_line(0).text
        assert screen.panes.panes[0].view.source is not None
        assert "O output" in text_of(pilot).rsplit("\n", 1)[-1]
        await pilot.press("escape")
        assert not output.display
        assert screen.kernels.has_focus


@pytest.mark.parametrize(
    ("key", "choice"), [("e", Choice.END), ("l", Choice.LEAVE), ("s", None), ("escape", None)]
)
async def test_leaving_asks_what_becomes_of_the_program(key: str, choice: Choice | None) -> None:
    sent: list[int] = []
    live = Live(lambda: None, sent.append)
    app = PtxviewApp(reader(), live=live)
    async with started(size=(120, 40), app=app) as (pilot, _):
        await pilot.press("q")
        assert isinstance(app.screen, QuitDialog)
        await pilot.press(key)
        await pilot.pause()
        assert app.is_running is (choice is None)
        assert live.choice is (choice or Choice.STAY)
        await until(pilot, lambda: bool(sent) is (choice is Choice.END))
        live.state = ProgramState.ENDED


class Terminal:
    """``ptxview`` in tmux."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder

    def run(self, words: str) -> None:
        """Start it; its exit status is printed when it has ended."""
        own = f"XDG_STATE_HOME={self.folder}/state XDG_CONFIG_HOME={self.folder}/config"
        command = (
            f"export {own} PYTHONPATH={ROOT}; cd {self.folder}; "
            f"{shlex.quote(sys.executable)} -m inspector {words}; echo STATUS $?; sleep 60"
        )
        self.tmux("new-session", "-d", "-x", "120", "-y", "30", command)

    def tmux(self, *words: str) -> str:
        """Run tmux with a private server, which takes no size from our environment."""
        done = subprocess.run(
            ["tmux", "-L", self.name, "-f", "/dev/null", *words],
            capture_output=True,
            text=True,
            check=False,
            env={k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "TMUX")},
        )
        return done.stdout

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def sees(self, text: str, seconds: float = 120, without: str = "\0") -> str:
        """Wait for a text, on a screen without another; the screen."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            screen = self.tmux("capture-pane", "-p")
            if text in screen and without not in screen:
                return screen
            time.sleep(0.1)
        raise AssertionError(f"{text!r} never came:\n{screen}")


@pytest.fixture
def terminal(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    skip_without("tmux", "sh")
    made = Terminal(f"ptxview-{os.getpid()}-{request.node.name[:40]}", tmp_path)
    yield made
    made.tmux("kill-server")


PRINTS = """import os, time
for n in range(80):
    print('line', n, flush=True)
    time.sleep(0 if os.path.exists('go') else 0.1)
"""
"""Prints slowly until it has been seen."""
ENDLESS = "import time\nprint('up', flush=True)\nwhile True:\n    time.sleep(0.1)\n"

SCENES = {
    "it prints": (PRINTS + "raise SystemExit(7)", [
        "see line 5", "match running", "match No kernels here yet\\.", "touch go",
        "see The program ended with status 7.", "see exit 7 after",
        r"match  exit 7 after \d+(\.\d)? s *\n",
        "match (line 7.*){10}",  # its output fills the screen
        # And it is on the terminal afterwards.
        "type q", "see STATUS 7", "match line 79\n", "match made no kernels",
    ]),
    "it reads": ("import time\nprint('hello')\nprint('hi', input('name? '))\ntime.sleep(1)", [
        "see hello\nname?", "type Ada Enter", "see hi Ada", "see No kernels here.", "type q",
        "see STATUS 0",
    ]),
    "it draws": ("import curses\ndef main(s):\n"
                 "    s.addstr(2, 4, f'DRAWN {s.getmaxyx()}'); s.refresh()\n"
                 "    s.addstr(3, 4, f'KEY {s.getkey()}'); s.refresh(); s.getkey()\n"
                 "curses.wrapper(main)", [
        "see DRAWN (30, 120)", "type x", "see KEY x", "type y", "see No kernels here.", "type q",
        "see STATUS 0",
    ]),
    "ctrl-c reaches it": ("input('wait ')", [
        "see wait", "pause", "type C-c", "see No kernels here.", "type q", "see STATUS 130",
        "match KeyboardInterrupt",
    ]),
    "it is killed": (
        "import os, time\nprint('up', flush=True); time.sleep(1)\nos.kill(os.getpid(), 9)", [
        "see The program was ended by SIGKILL", "see ended by SIGKILL after",
        r"match \A[^\n]*ended by SIGKILL after \d+(\.\d)? s *\n", "type q", "see STATUS 137",
    ]),
    "it is ended": (ENDLESS, [
        "see up", "type q", "see The program is still running", "type e", "see STATUS 130",
        "match KeyboardInterrupt",
    ]),
    "it is left running": (PRINTS, [
        "see line 3", "type q", "see The program is still running", "type l", "touch go",
        "see STATUS 0", "match line 0\nline 1\n|line 78\nline 79\n",
    ]),
}  # fmt: skip
OFTEN = ("it prints", "it reads", "it is ended")
"""Scenes of every run; the others are played at night."""


@pytest.mark.parametrize(
    "scene", [pytest.param(s, marks=() if s in OFTEN else pytest.mark.nightly) for s in SCENES]
)
def test_a_program_on_a_terminal(terminal: Terminal, scene: str) -> None:
    program, steps = SCENES[scene]
    (terminal.folder / "program.py").write_text(program)
    terminal.run("run program.py")
    screen = ""
    for step in steps:
        verb, _, what = step.partition(" ")
        if verb == "see":
            screen = terminal.sees(what, without="ptxview" if "name?" in what else "\0")
        elif verb == "type":
            terminal.keys(*what.split())
        elif verb == "touch":
            (terminal.folder / what).touch()
        elif verb == "pause":  # until the program has the terminal
            time.sleep(0.5)
        else:
            assert re.search(what, screen, re.DOTALL), screen


def test_a_run_of_another_process_is_followed(terminal: Terminal) -> None:
    writer = Writer(terminal.folder / "r")
    writer.event(event="recording", schema=1, time=1.0, command=["python", "x.py"], mode="gpu")
    terminal.run("open r")
    terminal.sees("The recording is unfinished")
    ptx = writer.blob(
        b".version 8.0\n.target sm_90\n.address_size 64\n"
        b".visible .entry late_kernel()\n{\n\tret;\n}\n"
    )
    writer.event(
        event="file", time=2.0, stage="ptx", path="/x/late.ptx", blob=ptx, symbols=["late_kernel"]
    )
    writer.event(event="end", time=3.0, exit_status=0, seconds=1.0)
    assert open_path(terminal.folder / "r").kernels
    terminal.sees("late_kernel")
    assert "exit 0 after 1.0 s" in terminal.sees("exit 0")
    terminal.keys("q")
    terminal.sees("STATUS 0")


def test_nothing_is_left_when_the_terminal_goes_away(terminal: Terminal) -> None:
    loop = "import time\nprint('on')\nfor _ in range(600): time.sleep(0.1)"
    (terminal.folder / "program.py").write_text(loop)
    terminal.run("run -o kept program.py")
    terminal.sees("No kernels here yet.")
    terminal.sees("on")
    terminal.tmux("kill-server")

    def left() -> list[str]:
        """The processes that work in the folder."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if (process / "cwd").readlink() == terminal.folder:
                    found.append((process / "cmdline").read_text())
            except OSError:
                continue
        return found

    end = time.monotonic() + 120
    while left() and time.monotonic() < end:
        time.sleep(0.2)
    assert left() == []
    assert (terminal.folder / "kept" / "events.jsonl").exists()
