"""Text from a recording as it may be shown: what a terminal would obey becomes a symbol.

Names and listings are data. A control character is drawn as its picture (``␛``), anything else
without a shape (direction marks, joiners, bytes that were not UTF-8) as its number.
"""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

from inspector.base.text import harmless, symbol

TAB_CELLS = 4
"""Columns between tab stops; eight would spend half of a narrow pane on indentation."""


def visible(text: str, tabs: bool = True) -> str:
    """``text`` without anything that a terminal would obey; tabs are expanded, or shown as ␉."""
    if text.isprintable():
        return text
    if tabs:
        expanded = text.expandtabs(TAB_CELLS)
        if expanded.isprintable():
            return expanded
    shown = "".join(
        char if harmless(char) or (tabs and char == "\t") else symbol(char) for char in text
    )
    return shown.expandtabs(TAB_CELLS) if tabs else shown


_SASS = re.compile(r"^ {8}(/\*[0-9a-f]{4,}\*/) {12}(?= )")


def squeezed(text: str) -> str:
    """A line of nvdisasm's with less air: its instructions begin at column 35.

    Seven of the nineteen columns before them stay, which is room for the guard.
    """
    return _SASS.sub(r" \1", text)


def label(text: str) -> str:
    """A name or a path on one row: tabs and newlines are symbols too."""
    return visible(text, tabs=False)


def shorten(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells; what is cut is the middle, where names differ least."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return text
    if width <= 4:
        return set_cell_size(text, width - 1) + "…"
    tail = max(1, (width - 1) // 3)
    end = ""
    for char in reversed(text):
        if cell_len(char + end) > tail:
            break
        end = char + end
    return set_cell_size(text, width - 1 - cell_len(end)) + "…" + end


def plain(text: str) -> str:
    """``text`` for the clipboard: bytes that were not UTF-8 become the replacement character."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def cut(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells, cut at its end: a sentence says the most first."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 1 else ""
