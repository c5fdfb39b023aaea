"""A recording that grows while it is looked at, and the program that makes it, if it is ours.

Nothing here draws. Threads of the program's runner change ``Live``; the application looks at it
a few times a second, so that neither ever waits for the other.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from inspector.base.text import ended_by
from inspector.tui.program.terminal_text import TerminalText

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

    Opener = Callable[[], tuple[Reader, "Live | None"]]
else:
    Opener = Callable

GRACE = 3.0
"""Seconds between Ctrl-C, a request to end, and the end without asking."""

KEPT = 1 << 20
"""Bytes of output that are kept to be printed on the terminal later."""

TAKES_SCREEN = (b"\x1b[?1049h", b"\x1b[?1047h", b"\x1b[?47h")
"""Sequences that switch to the alternate screen."""


def ending(status: int, seconds: float | None, killed_by: int | None = None) -> str:
    """How a program ended: ``exit 3 after 29 s``, ``ended by SIGKILL after 1 min 5 s``."""
    said = ended_by(status) or f"exit {status}"
    if killed_by is not None:
        try:
            said = f"ended by {signal.Signals(killed_by).name}"
        except ValueError:  # one of real time
            said = f"ended by signal {killed_by}"
    if seconds is None:
        return said
    minutes, rest = divmod(round(seconds), 60)
    if minutes:
        return f"{said} after {minutes} min {rest} s"
    return f"{said} after {seconds:.1f} s" if seconds < 10 else f"{said} after {rest} s"


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
        size: tuple[int, int] = (80, 24),
    ) -> None:
        self.look = look
        self.send = send
        self.state = ProgramState.RUNNING if send is not None else ProgramState.ENDED
        self.status: int | None = None
        self.killed_by: int | None = None
        """The signal that ended the program, if one did."""

        self.choice = Choice.STAY
        self.text = TerminalText(*size)
        self.began = time.monotonic()
        self.ended: float | None = None
        """When the program ended, if it did."""

        self._raw = bytearray()
        self._cut = 0
        self._tail = b""
        self._lock = threading.Lock()
        self.news: list[tuple[str, str, bool]] = []
        """What is to be shown in the corner: a title, a text, whether it is bad."""
        self.said = ""
        """What the title says where there is no program."""

    @property
    def running(self) -> bool:
        """Whether a program that we started has yet to end."""
        return self.state in (ProgramState.RUNNING, ProgramState.ENDING)

    @property
    def told(self) -> str:
        """What the title says of the program."""
        if self.state is ProgramState.RUNNING:
            return f"◔ running {int(time.monotonic() - self.began)} s"
        if self.state is ProgramState.ENDED and self.status is not None:
            seconds = None if self.ended is None else self.ended - self.began
            return ending(self.status, seconds, self.killed_by)
        return f"◔ {self.state.value}" if self.state.value else self.said

    # What the program does, told by threads

    def feed(self, data: bytes) -> None:
        """The program has written that."""
        with self._lock:
            self._raw += data
            if len(self._raw) > KEPT:
                over = self._raw.find(b"\n", len(self._raw) - KEPT * 3 // 4) + 1
                over = over or len(self._raw) - KEPT * 3 // 4
                del self._raw[:over]
                self._cut += over
        self.text.feed(data)
        if any(sign in self._tail + data for sign in TAKES_SCREEN):
            self.wants_terminal()
        self._tail = data[-8:]

    def wants_terminal(self) -> None:
        """The program reads its terminal, or draws on it."""
        if self.choice is Choice.STAY:
            self.choice = Choice.TERMINAL

    def printed(self) -> bytes:
        """What the program has written since this was asked last, as it wrote it."""
        with self._lock:
            raw, self._raw = bytes(self._raw), bytearray()
            cut, self._cut = self._cut, 0
        if cut:
            note = f"ptxview: the first {cut >> 10} KiB of the output are not repeated here\r\n"
            raw = note.encode() + raw
        return raw

    # What the user wants

    def end(self) -> None:
        """End the program: as Ctrl-C does, then with a request, then without asking."""
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
