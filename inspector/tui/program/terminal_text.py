"""The lines that a program wrote on its terminal, with what progress bars do to them.

Colours and everything else that is not text is left out; nothing is obeyed but carriage return,
backspace, tab, moves of the cursor, and erasing. A program that needs more of a terminal is given
the real one.
"""

from __future__ import annotations

import codecs
import re
import threading

MAX_LINES = 10_000
"""Lines that are kept, the newest."""

MAX_LINE_CHARS = 2_000

_SEQUENCE = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])"  # CSI, such as a colour or a move
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC and its like: a title, a link
    r"|\x1b[ -/]*[0-~]"
    r"|([\r\n\b\t])|[\x00-\x08\x0b-\x1f\x7f-\x9f]|([^\x00-\x1f\x7f-\x9f]+)"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]{0,4096}\x1b?|[ -/]*)$")


class TerminalText:
    """Lines of output. ``feed`` is called by one thread, the rest by another."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self.version = 0
        """Grows with every change."""
        self.dropped = 0
        """Lines at the beginning that are not kept any more."""
        self._lines: list[str] = [""]
        self._row = self._column = 0
        self._held = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()

    def feed(self, data: bytes) -> None:
        """Take what the program has written."""
        text = self._held + self._decoder.decode(data)
        cut = _UNFINISHED.search(text)
        self._held = text[cut.start() :] if cut else ""
        with self._lock:
            for match in _SEQUENCE.finditer(text, 0, len(text) - len(self._held)):
                if match[4] is not None:
                    self._write(match[4])
                elif match[3] is not None:
                    self._control(match[3])
                elif match[2] is not None:
                    self._sequence(match[1], match[2])
            if (over := len(self._lines) - MAX_LINES) > 0:
                del self._lines[:over]
                self._row = max(0, self._row - over)
                self.dropped += over
            self.version += 1

    def lines(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Return lines of those that are kept, from 0."""
        with self._lock:
            # After the last line feed there is no line until something is written.
            kept = self._lines if self._lines[-1] else self._lines[:-1]
            return kept[start:stop]

    def _write(self, text: str) -> None:
        line = self._lines[self._row]
        text = text[: max(0, MAX_LINE_CHARS - self._column)]
        before, after = line[: self._column], line[self._column + len(text) :]
        self._lines[self._row] = before.ljust(self._column) + text + after
        self._column += len(text)

    def _control(self, sign: str) -> None:
        if sign == "\n":
            self._row += 1
            if self._row == len(self._lines):
                self._lines.append("")
        elif sign == "\r":
            self._column = 0
        elif sign == "\b":
            self._column = max(0, self._column - 1)
        else:
            self._write(" " * (8 - self._column % 8))

    def _sequence(self, given: str, final: str) -> None:
        first = given.split(";")[0]
        many = int(first) if first.isdecimal() and len(first) < 6 else 0
        by = max(1, many)
        line = self._lines[self._row]
        if final in "AF":
            top = max(0, len(self._lines) - self.rows)
            self._row = max(min(top, self._row), self._row - by)
        elif final in "BE":
            self._row = min(len(self._lines) - 1, self._row + by)
        elif final in "CDG":
            column = by - 1 if final == "G" else self._column + (by if final == "C" else -by)
            self._column = max(0, min(MAX_LINE_CHARS, column))
        elif final == "K":
            after = line[self._column + 1 :] if many == 1 else ""
            before = "" if many == 2 else line[: self._column]
            self._lines[self._row] = " " * (self._column + 1) + after if many == 1 else before
        elif final == "J" and many == 0:
            self._lines[self._row] = line[: self._column]
            del self._lines[self._row + 1 :]
        if final in "EF":
            self._column = 0
