"""Runs a program beneath the interface: its kernels and its output are seen as they come.

The program has its own terminal, as large as the real one. One that reads it, or draws on it,
gets the real one until it ends, and the interface comes back then.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from inspector.base.errors import PtxviewError
from inspector.commands.common import reader_of
from inspector.reader.reader import Reader
from inspector.sources.opening import open_path
from inspector.sources.running import Follower, Run, RunOutcome, RunRequest
from inspector.system import printing
from inspector.system.printing import narrate
from inspector.system.process import ENDING, STOPPING, WANTS_TERMINAL, Attended, forwarded
from inspector.tui.program.live import Choice, Live, Opener, ProgramState

HANG_UP = 60.0
"""Seconds in which a program whose terminal is gone may end, and its recording be completed."""

MOMENT = 0.5
"""Seconds within which we are stopped, once we have asked to be."""

DRAIN = 0.5
"""Seconds in which the last of the output must come once the program has ended."""


# What a terminal sends to all that run on it; what else is sent is the program's alone.
TO_ALL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
# Faults are our own, where they are faults; the rest is of stopping, going on and window sizes.
_OURS = {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGABRT,
    signal.SIGTRAP,
    signal.SIGSYS,
    signal.SIGCONT,
    signal.SIGWINCH,
    *STOPPING,
}


class ProgramSession:
    """A program that runs, and the threads that tell ``live`` of it."""

    def __init__(self, request: RunRequest) -> None:
        """Start the program. Raises ``RunFailed`` where that cannot be."""
        self._run = Run(request)
        size = os.get_terminal_size(printing.descriptor())
        try:
            self._program = Attended.start(self._run.argv, self._run.env, size)
        except PtxviewError:
            self._run.abandon()
            raise
        self._follower = Follower(self._run.folder)
        self.live = Live(self._look, self._program.signal, (size.columns, size.lines))
        self.outcome: RunOutcome | None = None
        self._relays = False
        self._cooked: list[Any] = []
        self._goes_on = threading.Event()
        self._say: Callable[[str], None] = self._into_output
        if (elsewhere := self._run.elsewhere()) is not None:
            self._say(elsewhere)
        self._drained = threading.Event()
        self._done = threading.Event()
        threading.Thread(target=self._read, daemon=True, name="output").start()
        threading.Thread(target=self._attend, daemon=True, name="program").start()

    @property
    def folder(self) -> Path:
        """Where the recording grows."""
        return self._run.folder

    def reader(self) -> Reader:
        """A reader of what there is by now."""
        folder = self._run.folder
        return reader_of(open_path(folder))

    def _look(self) -> Reader | None:
        if self.live.state is ProgramState.ENDED and self.outcome is not None:
            outcome, self._follower = self.outcome, _Ended()
            return _reader(outcome) if outcome.recording is not None else None
        found = self._follower.look()
        return None if found is None else reader_of(found)

    # Threads

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._program.master, 1 << 16)
            except OSError:
                break
            if not data:
                break
            self.live.feed(data)
            if self._relays:
                self._print()
        self._drained.set()

    def _attend(self) -> None:
        status = 128 + signal.SIGKILL  # of the session's leader, if no event says more
        for what, value in self._program.events():
            if what == "stopped" and value in WANTS_TERMINAL:
                self.live.wants_terminal()
            elif what == "stopped" and self._relays:
                self._stop(int(value))
            elif what == "killed":
                self.live.killed_by = int(value)
            elif what == "ended":
                status = int(value)
        self._drained.wait(DRAIN)
        self.live.status, self.live.ended = status, time.monotonic()
        self.live.state = ProgramState.FINISHING
        with contextlib.suppress(Exception):
            self.outcome = self._run.ended(status, lambda text: self._say(text))
        self.live.state = ProgramState.ENDED
        self._done.set()

    def _stop(self, number: int) -> None:
        """The program was stopped, by Ctrl-Z as a rule: so are we, and go on together.

        Ctrl-Z stops all that was started with us, too, such as a script that waits for us.
        """
        fileno = sys.stdin.fileno()
        self._goes_on.clear()
        self._program.follows(True)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fileno, termios.TCSADRAIN, self._cooked)
        # A group that nobody could let go on again is not stopped at all; nor is the program then.
        if number == signal.SIGTSTP:
            os.killpg(0, number)
        else:
            os.kill(os.getpid(), number)
        self._goes_on.wait(MOMENT)
        with contextlib.suppress(OSError, termios.error):
            tty.setraw(fileno, termios.TCSANOW)
            self._program.resize(*os.get_terminal_size(printing.descriptor()))
        self._program.follows(False)
        self._program.foreground()

    def _continued(self, number: int, frame: FrameType | None) -> None:
        self._goes_on.set()

    def _into_output(self, text: str) -> None:
        self.live.text.feed(f"ptxview: {text}\r\n".encode("utf-8", "surrogateescape"))

    # The real terminal

    def _print(self) -> None:
        data = self.live.printed()
        if data:
            with contextlib.suppress(OSError):
                printing.relay(data)

    def relay(self) -> None:
        """Give the program the real terminal until it ends."""
        # The interface had these for itself, and is gone.
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.signal(signal.SIGCONT, self._continued)
        self._cooked = termios.tcgetattr(sys.stdin.fileno())
        with _raw_terminal(self._program) as fileno:
            self._print()
            self._relays = True
            self._program.foreground()
            while self.live.running:
                ready, _, _ = select.select([fileno], [], [], 0.05)
                if ready:
                    typed = os.read(fileno, 1 << 14)
                    with contextlib.suppress(OSError):
                        os.write(self._program.master, typed or b"\x04")
                    if not typed:
                        break
            while self.live.running and not self._done.wait(0.05):
                pass
            self._print()

    def finish(self) -> RunOutcome | None:
        """Wait until the program has ended and its recording is complete; None if that failed."""
        self._say = lambda text: narrate(f"ptxview: {text}")
        while not self._done.wait(0.1):
            pass
        self._print()
        self._program.close()
        return self.outcome

    def _hung_up(self) -> None:
        """The terminal is gone: nobody can leave the interface, and there is nothing to restore."""
        self._done.wait(HANG_UP)
        os._exit(128 + signal.SIGHUP)

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Hand on what is sent to us and meant for the program."""
        hurried: list[int] = []

        def hand_on(number: int, frame: FrameType | None) -> None:
            gone = number == signal.SIGHUP and _terminal_is_gone()
            if self.live.running:
                if number in TO_ALL:
                    self._program.signal(number)
                else:
                    self._program.signal_program(number)
            elif number not in ENDING:  # it was meant for the program, which has ended
                pass
            elif self.live.state is ProgramState.FINISHING and not hurried:
                hurried.append(number)
                self._run.hurry()
            elif number != signal.SIGHUP or not gone:
                signal.signal(number, signal.SIG_DFL)  # it is meant for us alone
                os.kill(os.getpid(), number)
            if gone:
                threading.Thread(target=self._hung_up, daemon=True, name="hung up").start()

        def resized(number: int, frame: FrameType | None) -> None:
            with contextlib.suppress(OSError):
                self._program.resize(*os.get_terminal_size(printing.descriptor()))

        wanted: dict[int, Callable[[int, FrameType | None], None]]
        wanted = dict.fromkeys(forwarded() - _OURS, hand_on)
        wanted |= {signal.SIGWINCH: resized, signal.SIGCONT: self._continued}
        before = {number: signal.signal(number, do) for number, do in wanted.items()}
        try:
            yield
        finally:
            for number, do in before.items():
                signal.signal(number, do)


def _terminal_is_gone() -> bool:
    try:
        termios.tcgetattr(sys.stdin.fileno())
    except termios.error:
        return True
    return False


class _Ended(Follower):
    """Of a recording that is complete nothing more is to come."""

    def __init__(self) -> None:
        """Nothing is looked at."""

    def look(self) -> None:
        """Nothing new."""


def _reader(outcome: RunOutcome) -> Reader:
    assert outcome.recording is not None
    return reader_of(outcome.recording)


@contextlib.contextmanager
def _raw_terminal(program: Attended) -> Iterator[int]:
    """Standard input handed on key by key; given back as it was."""
    fileno = sys.stdin.fileno()
    before = termios.tcgetattr(fileno)
    tty.setraw(fileno, termios.TCSANOW)
    # What the program writes has its line ends already.
    try:
        program.resize(*os.get_terminal_size(printing.descriptor()))
        yield fileno
    finally:
        termios.tcsetattr(fileno, termios.TCSADRAIN, before)


def watch(
    request: RunRequest, show: Callable[[Opener, str, Live], None]
) -> tuple[RunOutcome | None, bool]:
    """Run a program beneath the interface, which ``show`` opens and which ends when one leaves it.

    Gives how the run ended (None: it could not be completed), and whether the interface is still
    wanted: it had to go because the program needed the terminal.
    """
    watched = ProgramSession(request)
    live = watched.live
    with watched.signals():
        try:
            show(lambda: (watched.reader(), live), watched.folder.name, live)
        finally:
            # Left by hand, by the program's wish, or by a fault: the program goes on or is ended.
            if live.running and live.choice is not Choice.END:
                watched.relay()
            outcome = watched.finish()
    return outcome, live.choice is Choice.TERMINAL
