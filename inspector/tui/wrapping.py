"""Where a line that is too long is broken, in cells."""

from __future__ import annotations

from rich.cells import cell_len

LONGEST = 200
"""Rows that one line takes at most; what is longer can be scrolled to with wrapping off."""


def breaks(text: str, room: int) -> tuple[int, ...]:
    """The cells at which the rows of ``text`` begin, the first 0; no wide character is cut."""
    if room < 2:
        return (0,)
    if text.isascii():
        return tuple(range(0, max(1, len(text)), room))[:LONGEST]
    out = [0]
    at = 0
    for char in text:
        wide = cell_len(char)
        if at + wide - out[-1] > room:
            if len(out) == LONGEST:
                break
            out.append(at)
        at += wide
    return tuple(out)
