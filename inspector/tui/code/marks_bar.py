"""Marks in the scrollbar: where in the listing the cursor, links, matches, notes, peaks
and the hottest lines are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment, Segments
from rich.style import Style
from textual.scrollbar import ScrollBarRender

from inspector.tui.code.folding import RowMap

Marks = Mapping[int, tuple[str, Style]]
"""By the row of the scrollbar: a sign and its style."""

SIGNS = {"cursor": "◂", "match": "=", "note": "◆", "linked": "▐", "hot": "▪", "peak": "▴"}
"""The most wanted first: one row has room for one."""


def placed(
    wanted: Mapping[str, Sequence[int]], rows: RowMap, height: int
) -> Iterator[tuple[int, str]]:
    """(row of the bar, kind) of what there is to mark, in time of the bar's height.

    ``wanted`` has ascending lines by kind. Each row of the bar represents as many rows of the
    listing; a listing that fits is not spread.
    """
    many = max(rows.rows, height)
    for y in range(height):
        first, last = y * many // height, (y + 1) * many // height
        if first >= rows.rows:
            return
        begin = rows.line(first)
        end = rows.line(last) if last < rows.rows else rows.lines + 1
        for kind in SIGNS:
            lines = wanted.get(kind, ())
            at = bisect_left(lines, begin)
            if at < len(lines) and lines[at] < end:
                yield y, kind
                break


class MarkedBar(ScrollBarRender):
    """The usual bar with the marks drawn over it."""

    def __init__(self, *args: Any, marks: Callable[[int], Marks], **more: Any) -> None:
        super().__init__(*args, **more)
        self.marks = marks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One segment a row."""
        for bar in super().__rich_console__(console, options):
            if isinstance(bar, Segments):
                rows = list(bar.segments)
                for y, (sign, style) in self.marks(len(rows)).items():
                    if y < len(rows):
                        rows[y] = _over(rows[y], sign, style)
                bar = Segments(rows, new_lines=True)
            yield bar


def _over(under: Segment, sign: str, style: Style) -> Segment:
    held = under.style or Style()
    ground = held.color if held.reverse else held.bgcolor
    drawn = Style(color=style.color, bgcolor=ground, bold=True, meta=held.meta)
    return Segment(sign, drawn)
