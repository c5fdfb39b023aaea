"""Two listings aligned, drawn line by line: side by side, or in one column where it is narrow."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.diff.beside import BesideRow, Sign
from inspector.tui.diff.diff_rows import DiffRows
from inspector.tui.diff.diff_work import DiffOutcome, DiffPlace, Layout
from inspector.tui.keys.command_table import Where, bindings
from inspector.tui.widgets.notice import Notice, notice_row

MIN_BESIDE_CELLS = 100
"""Columns from which two listings are beside each other, unless the user says otherwise."""

MARGIN_ROWS = 3
"""Rows kept visible above and below the cursor."""

EMPTY = Layout((), (), ())


class DiffView(ScrollView, can_focus=True, inherit_bindings=False):
    """Rows of two listings with a cursor and folds; or a notice instead of them."""

    BINDINGS = bindings(Where.DIFF)
    COMPONENT_CLASSES: ClassVar = {
        "diff--gutter",
        "diff--cursor",
        "diff--mark",
        "diff--fold",
        "diff--notice",
        "diff--hint",
        "diff--removed",
        "diff--added",
        "diff--changed",
        "diff--old",
        "diff--new",
        "diff--minus",
        "diff--plus",
        "diff--tilde",
        "diff--moved",
        "diff--match",
    }

    class Moved(Message):
        """The cursor went to another row, or something else is here."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = DiffRows(self._part)
        self.outcome: DiffOutcome | None = None
        self.notice: Notice | None = None
        self.cursor = 0
        self.wanted: bool | None = None
        """Side by side, in one column, or as the width says: None."""
        self._beside = True
        self._layout = EMPTY
        self._shut: tuple[tuple[int, int], ...] = ()
        self._visible: list[int] = []

    # Content

    @property
    def beside(self) -> bool:
        """Whether the two are beside each other."""
        return self._beside

    @property
    def changes(self) -> tuple[tuple[int, int], ...]:
        """First and last row of each change, from 0."""
        return self._layout.changes

    @property
    def row(self) -> BesideRow | None:
        """The row under the cursor."""
        rows = self._layout.rows
        return rows[self.cursor] if 0 <= self.cursor < len(rows) else None

    @property
    def place(self) -> DiffPlace | None:
        """The lines under the cursor."""
        row = self.row
        if row is None or self.outcome is None or self.outcome.comparison is None:
            return None
        return DiffPlace(self.outcome.comparison.stage, row.a, row.b)

    def show(self, outcome: DiffOutcome) -> None:
        """Show a comparison; the cursor goes to the place that was kept, else to a change."""
        self.outcome, self.notice = outcome, outcome.notice
        self.rows.dark, self.rows.plain = self.app.current_theme.dark, self.rich_style
        self.rows.show(outcome.comparison, outcome.sources or ())
        self._beside = self._fits()
        self._lay()
        at = outcome.at
        row = None if at is None else self._layout.find(at.a, at.b)
        if row is None:
            row = self.changes[0][0] if self.changes else 0
        self.cursor = row
        self._open(row)
        self._measure()
        self._center()
        if outcome.comparison is not None and at is None:
            self._sideways_to_mark()
        self.post_message(self.Moved())

    def show_notice(self, notice: Notice) -> None:
        """Show a sentence instead."""
        self._layout, self.notice = EMPTY, notice
        self._close(())
        self._measure()

    def _fits(self) -> bool:
        return self.size.width >= MIN_BESIDE_CELLS if self.wanted is None else self.wanted

    def _lay(self) -> None:
        """The rows of the layout that is wanted, everything equal folded."""
        outcome = self.outcome
        layout = None if outcome is None else outcome.beside if self._beside else outcome.unified
        self._layout = layout or EMPTY
        self._close(self._layout.stretches)

    def _close(self, closed: tuple[tuple[int, int], ...]) -> None:
        """Fold these stretches away; each leaves its first row, which represents it."""
        self._shut = closed
        hidden = {row for first, last in closed for row in range(first + 1, last)}
        self._visible = [row for row in range(len(self._layout.rows)) if row not in hidden]

    def _fold_at(self, row: int) -> tuple[int, int] | None:
        """The closed stretch around a row."""
        return _stretch_at(self._shut, row)

    def _open(self, row: int) -> None:
        """Unfold what hides a row; what represents a fold is not hidden by it."""
        fold = self._fold_at(row)
        if fold is not None:
            self._close(tuple(one for one in self._shut if one != fold))

    def _measure(self) -> None:
        width = self.scrollable_content_region.width
        over = 0
        if self.outcome is not None and self._visible:
            over = max(0, self.outcome.width - self.rows.room(width, self._beside))
        self.virtual_size = Size(width + over, len(self._visible))
        self.refresh()

    def at(self) -> int:
        """The row of the view that the cursor is in."""
        fold = self._fold_at(self.cursor)
        return bisect_left(self._visible, self.cursor if fold is None else fold[0])

    def _center(self) -> None:
        """The cursor a third from the top, so that what comes next is in view."""
        top = max(0, self.at() - max(1, self.size.height) // 3)
        self.scroll_to(self.scroll_offset.x, top, animate=False, force=True)

    def _reveal(self) -> None:
        at, top, height = self.at(), self.scroll_offset.y, max(1, self.size.height)
        margin = min(MARGIN_ROWS, max(0, (height - 1) // 3))
        if at - margin < top:
            self.scroll_to(y=max(0, at - margin), animate=False, force=True)
        elif at + margin >= top + height:
            self.scroll_to(y=at + margin - height + 1, animate=False, force=True)

    def on_resize(self) -> None:
        """Beside each other or not, as it is wide; the cursor stays in view."""
        if self._fits() != self._beside:
            self._turn()
        self._measure()
        self._reveal()

    def _turn(self) -> None:
        """The other layout, the cursor on the same line."""
        place = self.place
        self._beside = self._fits()
        self._lay()
        row = None if place is None else self._layout.find(place.a, place.b)
        self.cursor = row or 0
        self._open(self.cursor)
        self._measure()
        self._center()

    # Moving

    def go(self, row: int) -> None:
        """Put the cursor on a row of the layout; what hides it is unfolded, a fold itself not."""
        if not self._layout.rows:
            return
        self.cursor = max(0, min(row, len(self._layout.rows) - 1))
        fold = self._fold_at(self.cursor)
        if fold is not None and fold[0] != self.cursor:
            self._open(self.cursor)
            self._measure()
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    def reach(self, row: int) -> None:
        """Put the cursor on a row; what it is folded away in is unfolded."""
        self._open(row)
        self._measure()
        self.go(row)

    def go_visible(self, at: int) -> None:
        if self._visible:
            self.go(self._visible[max(0, min(at, len(self._visible) - 1))])

    def change(self) -> int:
        """The number of the change under the cursor, from 1; of the one before it, negative; 0:
        none is before it."""
        at = bisect_right(self.changes, self.cursor, key=lambda one: one[0])
        return at if _stretch_at(self.changes, self.cursor) else -at

    def action_move(self, by: int) -> None:
        """Up or down by rows."""
        self.go_visible(self.at() + by)

    def action_page(self, pages: float) -> None:
        """Up or down by pages, the view and the cursor together."""
        rows = max(1, int((self.size.height - 1) * abs(pages))) * (1 if pages > 0 else -1)
        self.scroll_to(y=self.scroll_offset.y + rows, animate=False, force=True)
        self.go_visible(self.at() + rows)

    def action_edge(self, side: int) -> None:
        """To the first or the last row."""
        self.go_visible(0 if side < 0 else self.virtual_size.height - 1)

    def action_sideways(self, cells: int) -> None:
        """Left or right, both sides together."""
        self.scroll_to(x=max(0, self.scroll_offset.x + cells), animate=False, force=True)

    def action_change(self, step: int) -> None:
        """To the next or previous change, round the ends."""
        if not self.changes:
            return
        firsts = [first for first, _ in self.changes]
        if step > 0:
            at = bisect_right(firsts, self.cursor)
        else:
            here = self.change()
            start = firsts[here - 1] if here > 0 else self.cursor
            at = bisect_left(firsts, start) - 1
        self.go(firsts[at % len(firsts)])
        self._center()
        self._sideways_to_mark()

    def _sideways_to_mark(self) -> None:
        """Scroll sideways so far as it takes to see where a changed line begins to differ."""
        row = self.row
        mark = None if row is None else self.rows.first_mark(row)
        room = self.rows.room(self.scrollable_content_region.width, self._beside)
        near = mark is None or mark < room - 8
        self.scroll_to(x=0 if near else (mark or 0) - room // 3, animate=False, force=True)

    # Folding

    def action_unfold(self) -> None:
        """Unfold what the cursor is on, or fold what it is in."""
        fold = self._fold_at(self.cursor)
        if fold is not None:
            self._close(tuple(one for one in self._shut if one != fold))
        else:
            fold = _stretch_at(self._layout.stretches, self.cursor)
            if fold is None:
                return
            self._close(tuple(sorted({*self._shut, fold})))
        self.cursor = fold[0]
        self._measure()
        self._reveal()
        self.post_message(self.Moved())

    def action_unfold_all(self) -> None:
        """Everything in view, or everything equal folded."""
        above = self.at() - self.scroll_offset.y
        self._close(() if self._shut else self._layout.stretches)
        fold = self._fold_at(self.cursor)
        self.cursor = self.cursor if fold is None else fold[0]
        self._measure()
        self.scroll_to(y=max(0, self.at() - above), animate=False, force=True)
        self._reveal()
        self.post_message(self.Moved())

    def action_turn(self) -> None:
        """Beside each other, or in one column."""
        self.wanted = not self._beside
        self._turn()
        self.post_message(self.Moved())

    # Drawing

    def notify_style_update(self) -> None:
        """Make colours again: the theme has changed."""
        super().notify_style_update()
        self.rows.dark, self.rows.plain = self.app.current_theme.dark, self.rich_style
        self.rows.forget()

    def render_line(self, y: int) -> Strip:
        """Row ``y`` of the view."""
        width = self.scrollable_content_region.width
        base = self.rich_style
        if not self._visible:
            loud, quiet = self._part("diff--notice"), self._part("diff--hint")
            return notice_row(self.notice, y, width, base, loud, quiet)
        at = self.scroll_offset.y + y
        if at >= len(self._visible):
            return Strip.blank(width, base)
        index = self._visible[at]
        row = self._layout.rows[index]
        fold = self._fold_at(index)
        if fold is not None:
            here = "▸" if fold[0] <= self.cursor < fold[1] else " "
            fold_row = BesideRow(Sign.FOLD, row.a, row.b, None, fold[1] - fold[0])
            return self.rows.fold(fold_row, here, width)
        here = "▸" if index == self.cursor else " "
        draw = self.rows.beside if self._beside else self.rows.unified
        return draw(row, here, self.scroll_offset.x, width)

    def _part(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)

    def on_click(self, event: events.Click) -> None:
        """The row that was clicked; a fold is unfolded."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        at = self.scroll_offset.y + offset.y
        if at < len(self._visible):
            self.go(self._visible[at])
            if self._fold_at(self.cursor) is not None:
                self.action_unfold()


def _stretch_at(stretches: tuple[tuple[int, int], ...], row: int) -> tuple[int, int] | None:
    """Return the stretch around a row; they ascend."""
    at = bisect_right(stretches, row, key=lambda one: one[0]) - 1
    return stretches[at] if at >= 0 and row < stretches[at][1] else None
