"""What a program wrote on its terminal: lines, and as much of cursors as progress bars use.

Colours and everything else that is not text is left out; nothing is obeyed but carriage return,
backspace, tab, the moves of the cursor to a place near it, and erasing. A program that needs more
of a terminal is given the real one.
"""

from __future__ import annotations

import codecs
import re
import threading

MOST = 10_000
"""Lines that are kept."""

LONGEST = 2_000
"""Characters of a line that are kept."""

_SEQUENCE = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])"  # CSI, such as a colour or a move
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC and its like: a title, a link
    r"|\x1b[ -/]*[0-~]"
    r"|([\r\n\b\t])|[\x00-\x08\x0b-\x1f\x7f-\x9f]|([^\x00-\x1f\x7f-\x9f]+)"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]{0,4096}\x1b?|[ -/]*)$")


class TerminalText:
    """Lines of output. ``feed`` by one thread, read by another."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self.version = 0
        """Grows with every change."""

        self.dropped = 0
        """Lines at the beginning that are not kept any more."""

        self._touched = 0
        """The first line that ``changes`` has not told, counted with those that were dropped."""

        self._lines: list[str] = [""]
        self._row = self._column = 0
        self._held = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()

    def feed(self, data: bytes) -> None:
        """The program has written that."""
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
            if (over := len(self._lines) - MOST) > 0:
                del self._lines[:over]
                self._row = max(0, self._row - over)
                self.dropped += over
            self.version += 1

    def changes(self) -> tuple[int, int, list[str]]:
        """What is new since this was asked last, by one alone: how many lines are dropped, the
        first line that is another (both counted from the first that was ever written), and all
        lines from there on."""
        with self._lock:
            first = max(self._touched, self.dropped)
            end = self._end()
            self._touched = self.dropped + end
            return self.dropped, first, self._lines[first - self.dropped : end]

    def lines(self, start: int, stop: int) -> list[str]:
        """Lines ``start`` to ``stop`` of those that are kept, counted from 0."""
        with self._lock:
            return self._lines[start:stop]

    def __len__(self) -> int:
        with self._lock:
            return self._end()

    def _end(self) -> int:
        # The line after the last line feed is none until something stands in it.
        return len(self._lines) - (not self._lines[-1])

    def _touch(self) -> None:
        """The line with the cursor changes."""
        self._touched = min(self._touched, self.dropped + self._row)

    def _write(self, text: str) -> None:
        self._touch()
        line = self._lines[self._row]
        text = text[: max(0, LONGEST - self._column)]
        self._lines[self._row] = (
            line[: self._column].ljust(self._column) + text + line[self._column + len(text) :]
        )
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
        elif final == "C":
            self._column = min(LONGEST, self._column + by)
        elif final == "D":
            self._column = max(0, self._column - by)
        elif final == "G":
            self._column = min(LONGEST, by - 1)
        elif final == "K":
            self._touch()
            keep = "" if many == 2 else line[: self._column]
            after = line[self._column + 1 :] if many == 1 else ""
            self._lines[self._row] = (" " * len(keep + " ") + after) if many == 1 else keep
        elif final == "J" and many == 0:
            self._touch()
            self._lines[self._row] = line[: self._column]
            del self._lines[self._row + 1 :]
        if final in "EF":
            self._column = 0
