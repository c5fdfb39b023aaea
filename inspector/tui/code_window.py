"""A window on a listing, drawn line by line: a million lines cost what a page does.

Rows are lines but for what is folded away (``RowMap``). One scrolls by rows; where long lines are
wrapped, one row takes several of the screen, and only those in view are measured.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from typing import ClassVar

from rich.style import Style
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.analyse.telling import Register
from inspector.tui.code_rows import CodeRows, Look, Part
from inspector.tui.folding import Fold, Region
from inspector.tui.highlight import Highlighter
from inspector.tui.marks_bar import SIGNS, MarkedBar, Marks, placed
from inspector.tui.notice import Notice, notice_strips
from inspector.tui.row_map import RowMap
from inspector.tui.wrapping import breaks

MARGIN = 2
"""Lines kept visible above and below the cursor and a linked run."""

_STYLES = {"cursor": "code--mark", "match": "code--found", "note": "code--note",
           "linked": "code--link", "hot": "code--peak", "peak": "code--peak"}  # fmt: skip


class CodeWindow(ScrollView, inherit_bindings=False):
    """Draws a listing, or a notice instead of one, and scrolls it; what moves it derives of it."""

    COMPONENT_CLASSES: ClassVar = {
        "code--gutter", "code--cursor", "code--linked", "code--match", "code--mark",
        "code--notice", "code--hint", "code--note", "code--peak", "code--register",
        "code--chosen", "code--found", "code--link",
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.rows = CodeRows(self._part)
        self.map = RowMap(0)
        self.notice: Notice | None = None
        self.cursor = 1
        self.chosen_from: int | None = None
        self.wrapped = False
        self.linked: tuple[int, ...] = ()
        self.matches: tuple[int, ...] = ()
        self.register: Register | None = None
        self._width = 0
        self._linked: frozenset[int] = frozenset()
        self._places: dict[int, str] = {}
        self._laid: tuple[object, list[tuple[int, Part]]] = (None, [])

    @property
    def source(self) -> Highlighter | None:
        """The listing that is shown, with its colours."""
        return self.rows.source

    @property
    def lines(self) -> int:
        """How many lines there are; 0 while a notice stands here."""
        return 0 if self.source is None else len(self.source.texts)

    @property
    def chosen(self) -> tuple[int, int] | None:
        """The first and the last line of what is chosen to be copied."""
        if self.chosen_from is None:
            return None
        ends = sorted((self.chosen_from, self.cursor))
        fold = self.map.fold(ends[1])
        return ends[0], ends[1] if fold is None else fold.last

    # Where things stand

    def measure(self) -> None:
        """The size of everything changed."""
        height = max(1, self.size.height)
        if self.wrapped:
            # The last line must be able to come to the top, however many rows it takes.
            self.virtual_size = Size(0, self.map.rows + height - 1 if self.lines else 0)
        else:
            self.virtual_size = Size(self._width + self.rows.margin, self.map.rows)
        self._laid = (None, [])
        self.refresh()

    def _parts(self, row: int) -> list[tuple[int, Part]]:
        """The rows of the screen that a row of the listing takes."""
        n = self.map.line(row)
        if not self.wrapped:
            return [(n, Part(self.scroll_offset.x))]
        if self.map.fold(n) is not None:
            return [(n, Part(0))]
        room = self.scrollable_content_region.width - self.rows.margin
        cells = breaks(self.rows.text(n), room)
        return [
            (n, Part(start, end, again=start > 0))
            for start, end in zip(cells, (*cells[1:], cells[-1] + max(0, room)), strict=True)
        ]

    def laid(self) -> list[tuple[int, Part]]:
        """What each row of the screen shows, from the top; shorter where the listing ends."""
        top, height = self.scroll_offset.y, max(1, self.size.height)
        key = (top, self.scroll_offset.x, self.size, self.wrapped, self.map, self.rows.margin)
        if self._laid[0] != key:
            out: list[tuple[int, Part]] = []
            row = top
            while len(out) < height and row < self.map.rows:
                out += self._parts(row)
                row += 1
            self._laid = (key, out[:height])
        return self._laid[1]

    def span(self) -> tuple[int, int]:
        """The first and the last row in view."""
        laid = self.laid()
        if not laid:
            return 0, 0
        return self.map.row(laid[0][0]), self.map.row(laid[-1][0])

    def _top_for(self, row: int) -> int:
        """The first row that can stand at the top while ``row`` is wholly in view."""
        height = max(1, self.size.height)
        if not self.wrapped:
            return row - height + 1
        top, used = row, len(self._parts(row))
        while top > 0:
            used += len(self._parts(top - 1))
            if used > height:
                break
            top -= 1
        return top

    def reveal(self, first: int, last: int) -> None:
        """Scroll no further than it takes to see lines ``first`` to ``last``, ``first`` surely."""
        if not self.map.rows:
            return
        height = max(1, self.size.height)
        margin = min(MARGIN, max(0, (height - 1) // 3))
        top = self.scroll_offset.y
        begin = self.map.row(first)
        end = min(self.map.row(last), begin + height - 1 - 2 * margin)
        low = self._top_for(min(end + margin, self.map.rows - 1))
        wanted = begin - margin if begin - margin < top else max(top, low)
        # Rows of several rows each: the margin must not push out what is to be seen.
        wanted = min(max(wanted, self._top_for(end)), begin)
        if wanted == top:
            return
        self.scroll_to(y=max(0, wanted), animate=False, force=True)

    def nearest(self, lines: tuple[int, ...]) -> int:
        """The first of ``lines`` in view, else the one that the least scrolling brings there."""
        first, last = self.span()
        top, bottom = self.map.line(first), self.map.line(last)
        at = bisect_left(lines, top)
        if at < len(lines) and lines[at] <= bottom:
            return lines[at]
        near = lines[max(0, at - 1) : at + 1]
        return min(near, key=lambda n: top - n if n < top else n - bottom)

    # Drawing

    def notify_style_update(self) -> None:
        """The theme changed: colours are made anew."""
        super().notify_style_update()
        self.rows.dark = self.app.current_theme.dark
        self.rows.plain = self.rich_style
        self.rows.forget()

    def render_line(self, y: int) -> Strip:
        """Row ``y`` of the view: mark, number, text."""
        width = self.scrollable_content_region.width
        if self.source is None:
            return self._render_notice(y, width, self.rich_style)
        laid = self.laid()
        if y >= len(laid):
            return Strip.blank(width, self.rich_style)
        n, part = laid[y]
        return self.rows.row(n, self._look(n), part, width)

    def _look(self, n: int) -> Look:
        fold = self.map.fold(n)
        last = n if fold is None else fold.last
        linked = self._any(self.linked, n, last) if fold else n in self._linked
        here = n <= self.cursor <= last
        if here and self.has_focus:
            sign = "cursor"
        elif linked:
            sign = "linked"
        else:
            sign = "here" if here else self._places.get(n, "plain")
        chosen = self.chosen
        return Look(
            sign,
            linked,
            chosen is not None and chosen[0] <= last and n <= chosen[1],
            "" if fold is None else fold.words,
            fold is not None and fold.kind is Fold.FUNCTION,
        )

    @staticmethod
    def _any(lines: tuple[int, ...], first: int, last: int) -> bool:
        at = bisect_left(lines, first)
        return at < len(lines) and lines[at] <= last

    def _part(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)

    def _render_notice(self, y: int, width: int, base: Style) -> Strip:
        strips = notice_strips(
            self.notice,
            width,
            base + self._part("code--notice"),
            base + self._part("code--hint"),
        )
        if 0 <= y - 1 < len(strips):
            return strips[y - 1].extend_cell_length(width, base).apply_style(base)
        return Strip.blank(width, base)

    # The scrollbar

    def on_mount(self) -> None:
        """The scrollbar shows where the marks are."""
        self.vertical_scrollbar.renderer = partial(MarkedBar, marks=self.marks)  # type: ignore[misc,assignment]

    def refresh_marks(self) -> None:
        """What is marked has changed."""
        if self.is_mounted:
            self.vertical_scrollbar.refresh()

    def marks(self, height: int) -> Marks:
        """What the scrollbar shows."""
        if not self.lines:
            return {}
        telling = self.rows.gutter.telling
        wanted = {
            "cursor": (self.cursor,), "match": self.matches, "note": telling.noted,
            "linked": self.linked, "hot": telling.hottest, "peak": telling.peaks,
        }  # fmt: skip
        return {
            y: (SIGNS[kind], self._part(_STYLES[kind]))
            for y, kind in placed(wanted, self.map, height)
        }

    def region_at(self, n: int, regions: dict[Fold, tuple[Region, ...]]) -> Region | None:
        """The smallest region of lines that line ``n`` lies in."""
        found: list[Region] = []
        for each in regions.values():
            at = bisect_left(each, n + 1, key=lambda region: region.first) - 1
            if at >= 0 and n <= each[at].last:
                found.append(each[at])
        return min(found, key=lambda region: region.last - region.first, default=None)
