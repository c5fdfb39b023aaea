"""A recording that grows while it is looked at, the program that makes it, and its output.

Threads of the program's runner change ``Live``; the application looks at it a few times a second.
"""

from __future__ import annotations

import codecs
import re
import signal
import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from inspector.base.errors import ended_by

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

    Opener = Callable[[], tuple[Reader, "Live | None"]]
else:
    Opener = Callable

SHOWN_BYTES = 1 << 18
KEPT_BYTES = 1 << 20
"""Bytes of output that are kept to be shown, and to be printed on the terminal later."""

MAX_LINE_CHARS = 2_000

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI, such as a colour or a move
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC and its like: a title, a link
    r"|\x1b[ -/]*[0-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]{0,4096}\x1b?|[ -/]*)$")


def _visible_part(line: str) -> str:
    """The visible end of a line: a progress bar writes it again after each carriage return."""
    return line.rstrip("\r").rpartition("\r")[2].expandtabs()[:MAX_LINE_CHARS]


class TerminalText:
    """The last ``limit`` bytes of output, from the beginning of a line on, and its plain lines.

    A program that needs more of a terminal is given the real one. ``feed`` is called by one
    thread, the rest by another.
    """

    def __init__(self, limit: int = SHOWN_BYTES) -> None:
        self.limit = limit
        self.version = 0
        self.cut = self.dropped = 0
        """Bytes and lines at the beginning that are not kept any more."""
        self._data = bytearray()
        self._lock = threading.Lock()

    def feed(self, data: bytes) -> None:
        with self._lock:
            self._data += data
            self.version += 1
            over = len(self._data) - self.limit
            if over > 0:
                over += self.limit // 4
                over = self._data.find(b"\n", over) + 1 or over
                self.cut += over
                self.dropped += self._data.count(b"\n", 0, over)
                del self._data[:over]

    @property
    def data(self) -> bytes:
        with self._lock:
            return bytes(self._data)

    def lines(self) -> list[str]:
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(self.data)
        plain_text = _SEQUENCE.sub("", _UNFINISHED.sub("", text))
        *ended, last = map(_visible_part, plain_text.split("\n"))
        return [*ended, last] if last else ended


GRACE = 3.0
"""Seconds between Ctrl-C, a request to end, and the end without asking."""

TAKES_SCREEN = (b"\x1b[?1049h", b"\x1b[?1047h", b"\x1b[?47h")


def ending(status: int, seconds: float | None, killed_by: int | None = None) -> str:
    outcome = ended_by(status) or f"exit {status}"
    if killed_by is not None:
        names = {
            signal_number.value: signal_number.name for signal_number in signal.Signals
        }  # those of real time have none
        outcome = f"ended by {names.get(killed_by, f'signal {killed_by}')}"
    if seconds is None:
        return outcome
    minutes, remaining_seconds = divmod(round(seconds), 60)
    took = f"{minutes} min {remaining_seconds} s" if minutes else f"{remaining_seconds} s"
    return f"{outcome} after {seconds:.1f} s" if seconds < 10 else f"{outcome} after {took}"


class ProgramState(Enum):
    """Where a program is; its value is what the title says."""

    RUNNING = "running"
    ENDING = "ending"
    FINISHING = "finishing the recording"
    ENDED = ""


class Choice(Enum):
    """Why the interface was left while a program ran."""

    STAY = "stay"
    END = "end"
    LEAVE = "leave"
    TERMINAL = "terminal"


class Live:
    """What grows: ``look`` gives a reader of what there is so far, or None if nothing is new.

    ``look`` is called in a thread and may take seconds. ``send`` sends the program a
    signal; None if there is no program that we started to send one to.
    """

    def __init__(
        self,
        look: Callable[[], Reader | None],
        send: Callable[[int], None] | None = None,
    ) -> None:
        self.look = look
        self.send = send
        self.state = ProgramState.RUNNING if send is not None else ProgramState.ENDED
        self.status: int | None = None
        self.killed_by: int | None = None

        self.choice = Choice.STAY
        self.text = TerminalText()
        self.began = time.monotonic()
        self.ended: float | None = None

        self._raw = TerminalText(KEPT_BYTES)
        self._tail = b""
        self.news: list[tuple[str, str, bool]] = []
        """What is to be shown in the corner: a title, a text, whether it is bad."""
        self.idle_text = ""
        """What the title says where there is no program."""

    @property
    def running(self) -> bool:
        return self.state in (ProgramState.RUNNING, ProgramState.ENDING)

    @property
    def state_text(self) -> str:
        if self.state is ProgramState.RUNNING:
            return f"◔ running {int(time.monotonic() - self.began)} s"
        if self.state is ProgramState.ENDED and self.status is not None:
            seconds = None if self.ended is None else self.ended - self.began
            return ending(self.status, seconds, self.killed_by)
        return f"◔ {self.state.value}" if self.state.value else self.idle_text

    def feed(self, data: bytes) -> None:
        self._raw.feed(data)
        self.text.feed(data)
        if any(sign in self._tail + data for sign in TAKES_SCREEN):
            self.wants_terminal()
        self._tail = data[-8:]

    def wants_terminal(self) -> None:
        if self.choice is Choice.STAY:
            self.choice = Choice.TERMINAL

    def printed(self) -> bytes:
        """The output so far, which is not kept for a second time."""
        raw, self._raw = self._raw, TerminalText(KEPT_BYTES)
        note = f"ptxview: the first {raw.cut >> 10} KiB of the output are not repeated here\r\n"
        return note.encode() + raw.data if raw.cut else raw.data

    def end(self) -> None:
        if self.send is None or not self.running:
            return
        self.state = ProgramState.ENDING
        threading.Thread(target=self._end, daemon=True, name="ending").start()

    def _end(self) -> None:
        assert self.send is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            self.send(number)
            self.send(signal.SIGCONT)
            until = time.monotonic() + GRACE
            while time.monotonic() < until:
                if not self.running:
                    return
                time.sleep(0.02)
