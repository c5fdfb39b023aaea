"""The text of one stage, drawn line by line: a million lines cost what a page does."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.tui.commands import Where, bindings
from inspector.tui.highlight import Highlighter
from inspector.tui.notice import Notice, notice_strips
from inspector.tui.paint import code_strip, mark_matches

MARGIN = 2
# Linked lines that lie this close are shown as one block, where the pane has room.
GAP = 6
"""Lines kept visible above and below the cursor and a linked run."""


class CodeView(ScrollView, can_focus=True, inherit_bindings=False):
    """A listing with a cursor, linked lines and matches; or a notice instead of one."""

    BINDINGS = bindings(Where.PANE)
    COMPONENT_CLASSES: ClassVar = {
        "code--gutter", "code--cursor", "code--linked", "code--match", "code--mark",
        "code--notice", "code--hint",
    }  # fmt: skip

    class Moved(Message):
        """The cursor went to another line, or another listing came."""

        def __init__(self, view: CodeView) -> None:
            super().__init__()
            self.view = view

        @property
        def control(self) -> CodeView:
            """The view whose cursor it is."""
            return self.view

    def __init__(self) -> None:
        super().__init__()
        self.source: Highlighter | None = None
        self.notice: Notice | None = None
        self.cursor = 1
        self.untouched = True
        self._top = 1
        self.linked: tuple[int, ...] = ()
        self.pattern: re.Pattern[str] | None = None
        self.matches: tuple[int, ...] = ()
        self._linked: frozenset[int] = frozenset()
        self._code = lru_cache(maxsize=2048)(self._make_code)
        self._row = lru_cache(maxsize=2048)(self._make_row)

    @property
    def lines(self) -> int:
        """How many lines there are; 0 while a notice stands here."""
        return 0 if self.source is None else len(self.source.listing.lines)

    # What is shown

    def show(self, source: Highlighter, width: int, top: int, at: int) -> None:
        """Show a listing whose widest line has about ``width`` cells.

        The cursor goes to line ``at``; line ``top``, the kernel's first, stays in view if it can.
        """
        self.source, self.notice = source, None
        self.linked, self._linked = (), frozenset()
        self.matches = ()
        self._forget()
        self.virtual_size = Size(width + self._gutter_width(), self.lines)
        self.cursor = max(1, min(at, self.lines))
        self.untouched = True
        self._top = top
        self._place()
        self.refresh()
        self.post_message(self.Moved(self))

    def _place(self) -> None:
        """Scroll to where reading begins."""
        self.scroll_to(0, max(0, self._top - 1 - MARGIN), animate=False, force=True)
        self.reveal(self.cursor, self.cursor)

    def on_resize(self) -> None:
        """The cursor stays in view; before the first move, so does the kernel's first line."""
        if self.untouched:
            self._place()
        else:
            self.reveal(self.cursor, self.cursor)

    def begin(self, n: int) -> None:
        """Begin on line ``n`` instead, which is not yet a move of the user's."""
        self.go(n)
        self.untouched = True

    def show_notice(self, notice: Notice) -> None:
        """Show a sentence and a hint instead of a listing."""
        self.source, self.notice = None, notice
        self.linked, self._linked, self.matches = (), frozenset(), ()
        self.virtual_size = Size(0, 0)
        self.refresh()
        self.post_message(self.Moved(self))

    def link(self, lines: tuple[int, ...], follow: bool) -> None:
        """Mark ``lines``; with ``follow``, bring them into view and take the cursor along."""
        lines = tuple(n for n in lines if 1 <= n <= self.lines)
        if lines != self.linked:
            self.linked, self._linked = lines, frozenset(lines)
            self.refresh()
        if follow and lines and self.cursor not in self._linked:
            self.cursor = self._nearest(lines)
            last = self.cursor
            for n in lines[bisect_left(lines, last) :]:
                # Directives and labels stand between the instructions of one statement.
                if n - last > GAP:
                    break
                last = n
            self.reveal(self.cursor, last)
            self.refresh()

    def _nearest(self, lines: tuple[int, ...]) -> int:
        """The first linked line in view, else the one that the least scrolling brings there."""
        top = self.scroll_offset.y + 1
        bottom = top + max(1, self.size.height) - 1
        at = bisect_left(lines, top)
        if at < len(lines) and lines[at] <= bottom:
            return lines[at]
        near = lines[max(0, at - 1) : at + 1]
        return min(near, key=lambda n: top - n if n < top else n - bottom)

    def reveal(self, first: int, last: int) -> None:
        """Scroll no further than it takes to see lines ``first`` to ``last``, ``first`` surely."""
        height = max(1, self.size.height)
        margin = min(MARGIN, max(0, (height - 1) // 3))
        top = self.scroll_offset.y + 1
        last = min(last, first + height - 1 - 2 * margin)
        if first - margin < top:
            top = first - margin
        elif last + margin > top + height - 1:
            top = last + margin - height + 1
        else:
            return
        self.scroll_to(y=max(0, top - 1), animate=False, force=True)

    def find(self, pattern: re.Pattern[str] | None, matches: tuple[int, ...]) -> None:
        """Light up a pattern; ``matches`` are the lines that have it, for n and N."""
        self.pattern, self.matches = pattern, matches
        self._forget()
        self.refresh()

    # Drawing

    def notify_style_update(self) -> None:
        """The theme changed: colours are made anew."""
        super().notify_style_update()
        self._forget()

    def _forget(self) -> None:
        self._code.cache_clear()
        self._row.cache_clear()

    def _gutter_width(self) -> int:
        return len(str(max(self.lines, 99))) + 2

    def _make_code(self, n: int) -> Strip:
        assert self.source is not None
        strip = code_strip(self.source.text(n), self.source.spans(n), self.app.current_theme.dark)
        if self.pattern is not None:
            style = self._part("code--match")
            strip = mark_matches(strip, self.source.text(n), self.pattern, style)
        return strip

    def render_line(self, y: int) -> Strip:
        """Row ``y`` of the view: mark, number, text."""
        width = self.scrollable_content_region.width
        if self.source is None:
            return self._render_notice(y, width, self.rich_style)
        n = self.scroll_offset.y + y + 1
        if n > self.lines:
            return Strip.blank(width, self.rich_style)
        focused = "cursor" if self.has_focus else "here"
        look = focused if n == self.cursor else "plain"
        return self._row(n, look, n in self._linked, self.scroll_offset.x, width)

    def _make_row(self, n: int, look: str, linked: bool, left: int, width: int) -> Strip:
        """A finished row; kept, since between two frames only few rows differ."""
        line = self.rich_style
        if look == "cursor":
            line += self._part("code--cursor")
        elif linked:
            line += self._part("code--linked")
        sign = "▸" if look == "cursor" else "▐" if linked else "▹" if look == "here" else " "
        gutter_width = self._gutter_width()
        number = line + self._part("code--gutter")
        gutter = [
            Segment(sign, line + self._part("code--mark")),
            Segment(f"{n:>{gutter_width - 2}} ", number),
        ]
        code = self._crop(n, max(0, width - gutter_width), left, line, number)
        return Strip([*gutter, *code], max(width, gutter_width))

    def _part(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)

    def _crop(self, n: int, room: int, left: int, line: Style, sign: Style) -> Strip:
        """The part of line ``n`` in view, with a sign where it goes on."""
        code = self._code(n)
        right = left + room
        strip = code.crop(left, right).extend_cell_length(room).apply_style(line)
        if code.cell_length > right and room > 2:
            strip = Strip.join([strip.crop(0, room - 1), Strip([Segment("›", sign)], 1)])
        if left and code.cell_length and room > 2:
            strip = Strip.join([Strip([Segment("‹", sign)], 1), strip.crop(1, room)])
        return strip

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

    # Commands

    def go(self, n: int) -> None:
        """Put the cursor on line ``n``, or the nearest there is."""
        if not self.lines:
            return
        n = max(1, min(n, self.lines))
        self.untouched = False
        if n != self.cursor:
            self.cursor = n
            self.post_message(self.Moved(self))
        self.reveal(n, n)
        self.refresh()

    def action_move(self, by: int) -> None:
        """Up or down by lines."""
        self.go(self.cursor + by)

    def action_page(self, pages: float) -> None:
        """Up or down by pages, the view and the cursor together."""
        rows = max(1, int((self.size.height - 1) * abs(pages))) * (1 if pages > 0 else -1)
        self.scroll_to(y=self.scroll_offset.y + rows, animate=False, force=True)
        self.go(self.cursor + rows)

    def action_edge(self, side: int) -> None:
        """To the first or the last line."""
        self.go(1 if side < 0 else self.lines)

    def action_sideways(self, cells: int) -> None:
        """Left or right."""
        self.scroll_to(x=max(0, self.scroll_offset.x + cells), animate=False, force=True)

    def action_clear(self) -> None:
        """Forget the search."""
        self.find(None, ())
        self.post_message(self.Moved(self))

    def action_match(self, step: int) -> None:
        """To the next or previous line that has the pattern, round the ends."""
        if not self.matches:
            return
        if step > 0:
            at = bisect_left(self.matches, self.cursor + 1)
        else:
            at = bisect_left(self.matches, self.cursor) - 1
        self.go(self.matches[at % len(self.matches)])

    def action_verbatim(self) -> None:
        """A disassembly with all its spaces, or with fewer."""
        if self.source is not None:
            self.source.as_it_is(verbatim=self.source.squeeze)
            self._forget()
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        """The line that was clicked."""
        offset = event.get_content_offset(self)
        if offset is not None and self.source is not None:
            self.go(self.scroll_offset.y + offset.y + 1)

    def on_focus(self) -> None:
        """This view's cursor is the one that the others follow now."""
        self.post_message(self.Moved(self))
