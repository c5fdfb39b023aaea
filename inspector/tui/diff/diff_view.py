"""Two listings aligned, drawn line by line: side by side, or in one column where it is narrow."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import ClassVar, NamedTuple

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.base.model import Stage
from inspector.diff.beside import BesideRow, PassChange, Sign
from inspector.diff.compare import Compared
from inspector.render.diff_text import SIGNS
from inspector.tui.code.code_rows import code_strip, mark_matches, styled, with_ends
from inspector.tui.code.highlight import Highlighter, width_of
from inspector.tui.keys.command_table import KeyContext, bindings
from inspector.tui.widgets.notice import Notice, notice_row, visible
from inspector.tui.widgets.subject import TreeSubject

CONTEXT_ROWS = 3
"""Equal rows that stay in view before and after a change."""

MIN_FOLDED_ROWS = 2

MIN_BESIDE_CELLS = 100
"""Columns from which two listings are beside each other, unless the user says otherwise."""

MARGIN_ROWS = 3

ONE_COLUMN = {
    Sign.EQUAL: ("  ", "  "),
    Sign.CHANGED: ("-~", "+~"),
    Sign.DELETED: ("- ", "- "),
    Sign.INSERTED: ("+ ", "+ "),
    Sign.MOVED_AWAY: ("» ", "» "),
    Sign.MOVED_HERE: ("« ", "« "),
}
"""The signs of lines of ``a`` and of ``b`` where both are in one column."""

ARROWS = {Sign.MOVED_AWAY: "→", Sign.MOVED_HERE: "←"}
GROUNDS = {"-": "removed", "+": "added", "~": "changed"}
LOUD = {"-": "minus", "+": "plus", "~": "tilde", "»": "moved", "«": "moved"}

Span = tuple[int, int]


class DiffPlace(NamedTuple):
    """Where the cursor is: a line of either side, or of both that are in one row."""

    stage: Stage
    a: int | None
    b: int | None


class DiffRequest(Struct, frozen=True):
    """Two variants at a stage, None for the best that both have; ``at`` is the place to keep."""

    a: TreeSubject
    b: TreeSubject
    stage: Stage | None
    exact: bool = False
    place: DiffPlace | None = None


class Layout(Struct, frozen=True):
    """Rows, ``stretches`` of equal ones to fold, and ``changes``: first, last (exclusive)."""

    rows: tuple[BesideRow, ...] = ()
    stretches: tuple[Span, ...] = ()
    changes: tuple[Span, ...] = ()

    @classmethod
    def from_rows(cls, rows: Iterable[BesideRow]) -> Layout:
        all_rows = tuple(rows)
        folds = []
        changes = []
        first = 0
        for equal, run in groupby(all_rows, lambda row: row.sign is Sign.EQUAL):
            last = first + len(tuple(run))
            begin = first + CONTEXT_ROWS * (first > 0)
            end = last - CONTEXT_ROWS * (last < len(all_rows))
            if not equal:
                changes.append((first, last))
            elif end - begin >= MIN_FOLDED_ROWS:
                folds.append((begin, end))
            first = last
        return cls(all_rows, tuple(folds), tuple(changes))

    def find(self, a: int | None, b: int | None) -> int | None:
        in_a = (i for i, row in enumerate(self.rows) if a is not None and row.a == a)
        in_b = (i for i, row in enumerate(self.rows) if b is not None and row.b == b)
        return next(in_a, next(in_b, None))


class DiffOutcome(Struct, frozen=True):
    """A comparison and how it is laid out; ``at`` None: the cursor goes to the first change."""

    comparison: Compared | PassChange
    sources: tuple[Highlighter, ...]
    side_by_side: Layout
    unified: Layout
    width: int
    place: DiffPlace | None = None


def laid_out(comparison: Compared | PassChange, sources: tuple[Highlighter, ...]) -> DiffOutcome:
    side_by_side = Layout.from_rows(comparison.rows())
    width = max(width_of(source.texts) for source in sources)
    return DiffOutcome(
        comparison, sources, side_by_side, Layout.from_rows(unified(side_by_side.rows)), width
    )


def unified(rows: Iterable[BesideRow]) -> Iterator[BesideRow]:
    """One column of lines: a changed line is above what it became, which ``other`` names."""
    for _, run in groupby(rows, lambda row: row.sign in (Sign.UNLIKE, Sign.DELETED)):
        inserted: list[BesideRow] = []
        for row in run:
            if row.sign is Sign.UNLIKE:
                yield BesideRow(Sign.DELETED, row.a)
                inserted.append(BesideRow(Sign.INSERTED, None, row.b))
            elif row.sign is Sign.CHANGED:
                yield BesideRow(Sign.CHANGED, row.a, None, row.b)
                yield BesideRow(Sign.CHANGED, None, row.b, row.a)
            else:
                yield row
        yield from inserted


def moved_spans(raw: str, text: str, spans: Sequence[Span]) -> list[Span]:
    """Translate characters of a line to those of its ``text`` as it is shown."""
    lost = len(visible(raw)) - len(text)
    ends = [[max(0, len(visible(raw[:position])) - lost) for position in span] for span in spans]
    return [(first, last) for first, last in ends]


_PARTS = (
    "gutter cursor mark fold notice hint removed added changed old new minus plus tilde moved match"
)
"""Names of the parts that have styles of their own."""


def _matching_lines(source: Highlighter, pattern: re.Pattern[str]) -> set[int]:
    """The lines of a listing that have a match, from 1."""
    lines = range(1, len(source.texts) + 1)
    return {n for n in lines if pattern.search(source.text(n))}


class DiffView(ScrollView, can_focus=True, inherit_bindings=False):
    """Rows of two listings with a cursor, folds and matches; or a notice instead of them."""

    BINDINGS = bindings(KeyContext.DIFF)
    COMPONENT_CLASSES: ClassVar = {f"diff--{name}" for name in _PARTS.split()}

    class Moved(Message):
        """The cursor went to another row, or something else is here."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome: DiffOutcome | None = None
        self.notice: Notice | None = None
        self.cursor = 0
        self.side_by_side_wish: bool | None = None
        """Side by side, in one column, or as the width says: None."""
        self.side_by_side = True
        self.pattern: re.Pattern[str] | None = None
        self.matches: tuple[int, ...] = ()
        self.shown = Layout()
        self._shut: tuple[Span, ...] = ()
        self._visible: list[int] = []

    @property
    def row(self) -> BesideRow | None:
        rows = self.shown.rows
        return rows[self.cursor] if 0 <= self.cursor < len(rows) else None

    @property
    def comparison(self) -> Compared | PassChange | None:
        """The diff on screen; None while a notice is in its place."""
        return None if self.outcome is None else self.outcome.comparison

    @property
    def place(self) -> DiffPlace | None:
        row = self.row
        comparison = self.comparison
        if row is None or comparison is None:
            return None
        return DiffPlace(comparison.stage, row.a, row.b)

    def show(self, outcome: DiffOutcome | Notice) -> None:
        """Show a comparison; the cursor goes to the place that was kept, else to a change."""
        if isinstance(outcome, Notice):
            self.outcome = None
            self.show_notice(outcome)
        else:
            self.outcome = outcome
            self._lay(outcome.place)
            if outcome.place is None:
                self._sideways_to_mark()
        self.post_message(self.Moved())

    def show_notice(self, notice: Notice) -> None:
        self.shown = Layout()
        self.notice = notice
        self._close(())

    def find(self, pattern: re.Pattern[str] | None) -> None:
        self.pattern = pattern
        self._match()

    def _match(self) -> None:
        """In one column only b's line of two equal ones is shown."""
        self.refresh()
        self.matches = ()
        if self.pattern is None or self.outcome is None:
            return
        a_source, b_source = self.outcome.sources
        a_lines = _matching_lines(a_source, self.pattern)
        b_lines = _matching_lines(b_source, self.pattern)
        matches = []
        for index, row in enumerate(self.shown.rows):
            a_shown = self.side_by_side or row.sign is not Sign.EQUAL
            if row.b in b_lines or (a_shown and row.a in a_lines):
                matches.append(index)
        self.matches = tuple(matches)

    def _fits(self) -> bool:
        return (
            self.size.width >= MIN_BESIDE_CELLS
            if self.side_by_side_wish is None
            else self.side_by_side_wish
        )

    def _lay(self, place: DiffPlace | None) -> None:
        self.side_by_side = self._fits()
        if self.outcome is not None:
            self.shown = self.outcome.side_by_side if self.side_by_side else self.outcome.unified
        self._match()
        row = None if place is None else self.shown.find(place.a, place.b)
        first = self.shown.changes[0][0] if self.shown.changes else 0
        self.cursor = first if row is None else row
        self._close(self.shown.stretches)
        self._open(self.cursor)
        self._center()

    def _close(self, closed: tuple[Span, ...]) -> None:
        self._shut = closed
        hidden = {row for first, last in closed for row in range(first + 1, last)}
        self._visible = [n for n in range(len(self.shown.rows)) if n not in hidden]
        self._measure()

    def _open(self, row: int) -> None:
        if fold := _stretch_at(self._shut, row):
            self._close(tuple(span for span in self._shut if span != fold))

    def _measure(self) -> None:
        width = self.scrollable_content_region.width
        over = 0
        if self.outcome is not None and self._visible:
            over = max(0, self.outcome.width - self._room())
        # A scrollbar may come or go: some cells more than it takes.
        self.virtual_size = Size(width + over + 2 * (over > 0), len(self._visible))
        self.refresh()

    def visible_index(self) -> int:
        fold = _stretch_at(self._shut, self.cursor)
        return bisect_left(self._visible, self.cursor if fold is None else fold[0])

    def _center(self) -> None:
        top = max(0, self.visible_index() - max(1, self.size.height) // 3)
        self.scroll_to(self.scroll_offset.x, top, animate=False, force=True)

    def _reveal(self) -> None:
        index = self.visible_index()
        top = self.scroll_offset.y
        height = max(1, self.size.height)
        margin = min(MARGIN_ROWS, max(0, (height - 1) // 3))
        if index - margin < top:
            self.scroll_to(y=max(0, index - margin), animate=False, force=True)
        elif index + margin >= top + height:
            self.scroll_to(y=index + margin - height + 1, animate=False, force=True)

    def on_resize(self) -> None:
        if self._fits() != self.side_by_side:
            self._lay(self.place)
        self._measure()
        self._reveal()

    def go(self, row: int) -> None:
        if not self.shown.rows:
            return
        self.cursor = max(0, min(row, len(self.shown.rows) - 1))
        if self.cursor not in self._visible:
            self._open(self.cursor)
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    def reach(self, row: int) -> None:
        self._open(row)
        self.go(row)

    def go_visible(self, index: int) -> None:
        if self._visible:
            self.go(self._visible[max(0, min(index, len(self._visible) - 1))])

    def change(self) -> int:
        """The number from 1 of the change under the cursor, negative of the one before, else 0."""
        number = bisect_right(self.shown.changes, self.cursor, key=lambda change: change[0])
        return number if _stretch_at(self.shown.changes, self.cursor) else -number

    def action_move(self, step: int) -> None:
        self.go_visible(self.visible_index() + step)

    def action_page(self, pages: float) -> None:
        rows = max(1, int((self.size.height - 1) * abs(pages))) * (1 if pages > 0 else -1)
        self.scroll_to(y=self.scroll_offset.y + rows, animate=False, force=True)
        self.go_visible(self.visible_index() + rows)

    def action_edge(self, side: int) -> None:
        self.go_visible(0 if side < 0 else self.virtual_size.height - 1)

    def action_sideways(self, cells: int) -> None:
        self.scroll_to(x=max(0, self.scroll_offset.x + cells), animate=False, force=True)

    def action_change(self, step: int) -> None:
        if not self.shown.changes:
            return
        current = self.change()
        number = abs(current) if step > 0 else abs(current) - 1 - (current > 0)
        self.go(self.shown.changes[number % len(self.shown.changes)][0])
        self._center()
        self._sideways_to_mark()

    def _sideways_to_mark(self) -> None:
        """Scroll sideways so far as it takes to see where a changed line begins to differ."""
        marks = [] if self.row is None else [self._spans(self.row, side)[:1] for side in (0, 1)]
        mark = min((first for spans in marks for first, _ in spans), default=0)
        room = self._room()
        self.scroll_to(x=0 if mark < room - 8 else mark - room // 3, animate=False, force=True)

    def action_unfold(self) -> None:
        if fold := _stretch_at(self.shown.stretches, self.cursor):
            self._close(tuple(sorted({*self._shut} ^ {fold})))
            self.cursor = fold[0]
            self._reveal()
            self.post_message(self.Moved())

    def action_unfold_all(self) -> None:
        cursor_offset = self.visible_index() - self.scroll_offset.y
        self._close(() if self._shut else self.shown.stretches)
        fold = _stretch_at(self._shut, self.cursor)
        self.cursor = self.cursor if fold is None else fold[0]
        self.scroll_to(y=max(0, self.visible_index() - cursor_offset), animate=False, force=True)
        self._reveal()
        self.post_message(self.Moved())

    def action_turn(self) -> None:
        self.side_by_side_wish = not self.side_by_side
        self._lay(self.place)
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and self.scroll_offset.y + offset.y < len(self._visible):
            self.go(self._visible[self.scroll_offset.y + offset.y])
            if _stretch_at(self._shut, self.cursor) is not None:
                self.action_unfold()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = self.rich_style
        if not self._visible:
            loud = self._part("notice")
            quiet = self._part("hint")
            return notice_row(self.notice, y, width, base, loud, quiet)
        visible_row = self.scroll_offset.y + y
        if visible_row >= len(self._visible):
            return Strip.blank(width, base)
        index = self._visible[visible_row]
        row = self.shown.rows[index]
        fold = _stretch_at(self._shut, index)
        at_cursor = index == self.cursor if fold is None else fold[0] <= self.cursor < fold[1]
        if fold is not None:
            line = base + (self._part("cursor") if at_cursor else Style())
            fold_text = f"… {fold[1] - fold[0]} equal lines".center(width - 1)
            mark = Segment("▸" if at_cursor else " ", line + self._part("mark"))
            text = Segment(fold_text, line + self._part("fold"))
            return Strip([mark, text]).adjust_cell_length(width, line)
        if not self.side_by_side:
            side = int(row.a is None or (row.sign is Sign.EQUAL and row.b is not None))
            numbers = " ".join(self._number(n) for n in (row.a, row.b))
            return self._drawn(row, side, numbers, ONE_COLUMN[row.sign][side], at_cursor, width)
        half = (width - 1) // 2
        (a, b) = SIGNS[row.sign]
        left_half = self._drawn(row, 0, self._number(row.a), a, at_cursor, half)
        right_half = self._drawn(row, 1, self._number(row.b), b, at_cursor, width - 1 - half, " ")
        rule = Strip([Segment("│", base + self._part("gutter"))], 1)
        return Strip.join([left_half, rule, right_half])

    def _drawn(
        self,
        row: BesideRow,
        side: int,
        numbers: str,
        sign: str,
        at_cursor: bool,
        width: int,
        pointer: str = "▸",
    ) -> Strip:
        """Draw a line of one side: pointer, numbers, sign, code, and where it moved to."""
        ground = "cursor" if at_cursor else GROUNDS.get(sign[0])
        line = self.rich_style + (self._part(ground) if ground else Style())
        loud = self._part(LOUD[sign[0]]) if sign[0] in LOUD else Style()
        quiet = line + self._part("gutter")
        start = [
            Segment(pointer if at_cursor else " ", line + self._part("mark")),
            Segment(f"{numbers} ", quiet),
            Segment(f"{sign} ", line + loud),
        ]
        n = (row.a, row.b)[side]
        arrow = "" if n is None else ARROWS.get(row.sign, "")
        tail = f" {arrow} {row.other}" if arrow else ""
        room = max(0, width - len(numbers) - len(sign) - 3 - len(tail))
        code = Strip.blank(room, line)
        if n is not None:
            offset = self.scroll_offset.x
            full_code = self._code(row, side)
            code = full_code.crop(offset, offset + room).extend_cell_length(room).apply_style(line)
            code = with_ends(code, full_code, offset, room, quiet)
        end = Segment(tail, line + self._part("moved"))
        return Strip([*start, *code, end]).adjust_cell_length(width, line)

    def _number(self, n: int | None) -> str:
        return f"{'' if n is None else n:>{self._digits}}"

    @property
    def _digits(self) -> int:
        sources = () if self.outcome is None else self.outcome.sources
        return len(str(max((len(source.texts) for source in sources), default=99)))

    def _room(self) -> int:
        width = self.scrollable_content_region.width
        half = (width - 1) // 2 - self._digits - 4
        one_column = width - 2 * self._digits - 6
        return max(0, half if self.side_by_side else one_column)

    def _spans(self, row: BesideRow, side: int) -> list[Span]:
        outcome = self.outcome
        n = (row.a, row.b)[side]
        other = (row.b, row.a)[side]
        partner = row.other if other is None else other
        if row.sign is not Sign.CHANGED or n is None or partner is None:
            return []
        assert outcome is not None
        pair = (partner, n) if side else (n, partner)
        source = outcome.sources[side]
        text = source.text(n)
        shown = moved_spans(source.texts[n - 1], text, outcome.comparison.intra(*pair)[side])
        return [(cell_len(text[:first]), cell_len(text[:last])) for first, last in shown]

    def _code(self, row: BesideRow, side: int) -> Strip:
        outcome = self.outcome
        n = (row.a, row.b)[side]
        assert outcome is not None and n is not None
        source = outcome.sources[side]
        text = source.text(n)
        strip = code_strip(text, source.spans(n), self.app.current_theme.dark)
        if spans := self._spans(row, side):
            strip = styled(strip, spans, self._part("new" if side else "old"))
        if self.pattern is not None:
            strip = mark_matches(strip, text, self.pattern, self._part("match"))
        return strip

    def _part(self, name: str) -> Style:
        return self.get_component_rich_style(f"diff--{name}", partial=True)


def _stretch_at(stretches: tuple[Span, ...], row: int) -> Span | None:
    index = bisect_right(stretches, row, key=lambda stretch: stretch[0]) - 1
    return stretches[index] if index >= 0 and row < stretches[index][1] else None
