"""A table of variants that can be sorted, drawn row by row."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from inspector.diff.variants import VariantRow
from inspector.report.diff_text import settings
from inspector.report.tables import apart, specialised
from inspector.tui.keys.command_table import Where, bindings
from inspector.tui.tree.rows import Measured
from inspector.tui.variants.columns import IDENT, KERNEL, VariantColumn, columns, ordered
from inspector.tui.widgets.row_list import RowList
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.visible import cut


class VariantTable(RowList[VariantRow], can_focus=True, inherit_bindings=False):
    """One row a variant, then one for each other configuration of a tuner's; a head above."""

    BINDINGS = bindings(Where.VARIANTS)
    empty_text = "    nothing matches the filter"
    HEAD_LINES = 1

    class Changed(Message):
        """The order or the marks are others."""

    class Chosen(Message):
        """A row was clicked twice: it is to be read."""

    def __init__(
        self, rows: tuple[VariantRow, ...], measured: Measured, marked: tuple[TreeSubject, ...] = ()
    ) -> None:
        super().__init__()
        self.measured = measured
        self.known = rows
        self.rows = list(rows)
        self.marked = marked
        self.sorted: str | None = None
        self.reversed = False
        self.query_text = ""
        self._columns: list[tuple[VariantColumn, int]] = []
        self._names: dict[str, str] = {}

    def on_mount(self) -> None:
        """Lay the columns out."""
        self._lay()

    def on_resize(self) -> None:
        """Other columns may fit."""
        self._lay()

    def renew(self, rows: tuple[VariantRow, ...]) -> None:
        """More is known of the variants; the cursor stays on its row."""
        self.known = rows
        self._lay()

    def grow(self, rows: tuple[VariantRow, ...]) -> None:
        """There are more variants; the cursor's row stays where it is on the screen."""
        before = self.cursor
        self.renew(rows)
        if moved := self.cursor - before:
            self.scroll_to(y=self.scroll_offset.y + moved, animate=False, force=True)

    @property
    def column(self) -> VariantColumn | None:
        """What the rows are sorted by, None: as they were compiled."""
        return next((c for c, _ in self._columns if c.name == self.sorted), None)

    @staticmethod
    def subject(row: VariantRow) -> TreeSubject | None:
        """The variant of a row."""
        return None if row.variant is None else TreeSubject(row.kernel, row.variant)

    def _lay(self) -> None:
        here = self.row
        self._columns = columns(self.known, self.scrollable_content_region.width - 4, self.measured)
        column = self.column
        wanted = self.query_text.casefold().split()
        self.rows = [row for row in self.known if _fits(row, wanted)]
        if column is not None:
            self.rows = ordered(self.rows, column, self.reversed)
        names = [KERNEL.text(row) for row in self.known]
        own = (size for one, size in self._columns if one is KERNEL)
        self._names = apart(names, next(own, max(map(cell_len, names), default=0)))
        if here is not None:
            same = (i for i, row in enumerate(self.rows) if _same(row, here))
            self.cursor = next(same, min(self.cursor, max(0, len(self.rows) - 1)))
        self.virtual_size = Size(0, len(self.rows) + 1)
        self.refresh()

    # Commands

    def sort(self, name: str) -> None:
        """By a column; again: the other way round."""
        self.reversed = name == self.sorted and not self.reversed
        self.sorted = name
        self._lay()
        self.reveal()
        self.post_message(self.Changed())

    def action_sort(self, by: int) -> None:
        """By the next column."""
        names = [c.name for c, _ in self._columns]
        at = names.index(self.sorted) + by if self.sorted in names else (0 if by > 0 else -1)
        self.reversed = False
        self.sorted = None
        self.sort(names[at % len(names)])

    def filter(self, text: str) -> None:
        """Only rows with all the words of ``text``."""
        self.query_text = text
        self._lay()
        self.reveal()
        self.post_message(self.Changed())

    def show(self, row: VariantRow) -> None:
        """The cursor on the row of the same variant."""
        self.go(next((i for i, one in enumerate(self.rows) if _same(one, row)), self.cursor))

    def action_reverse(self) -> None:
        """The other way round."""
        self.sort(self.sorted or IDENT.name)

    def action_mark(self) -> None:
        """Mark the variant, or take its mark away; a third takes the place of the second."""
        own = None if self.row is None else self.subject(self.row)
        if own is None:
            return
        self.marked = own.marked_in(self.marked)
        self.refresh()
        self.post_message(self.Changed())

    def moved(self) -> None:
        """Have the screen describe another row."""
        self.post_message(self.Changed())

    def on_click(self, event: events.Click) -> None:
        """A head sorts, a row is chosen."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y == 0:
            at = 4
            for column, size in self._columns:
                if at <= offset.x < at + size + 2:
                    self.sort(column.name)
                    return
                at += size + 2
        elif (index := self.clicked(event)) is not None:
            self.go(index)
            if event.chain == 2:
                self.post_message(self.Chosen())

    # Drawing

    def draw_row(self, index: int, width: int, base: Style) -> Strip:
        """Draw a variant, a cell a column."""
        row = self.rows[index]
        if row.variant is None:
            base += self.part("quiet")
        elif row.winner:
            base += self.part("loud")
        if index == self.cursor:
            base += self.part("cursor")
        own = self.subject(row)
        mark = "AB"[self.marked.index(own)] if own in self.marked else " "
        here = "▸" if index == self.cursor else " "
        parts = [Segment(f"{here}{mark}  ", base + self.part("mark"))]
        for column, size in self._columns:
            text = column.text(row)
            if column is KERNEL:
                text = self._names.get(text, text)
            parts.append(Segment(_cell(text, size, column.right), base))
        return Strip(parts).adjust_cell_length(width, base)

    def draw_head(self, width: int) -> Strip:
        """Draw the heads of the columns, the one that sorts with a sign."""
        plain, loud = self.part("head"), self.part("sorted")
        base = self.rich_style + plain
        parts = [Segment("    ", base)]
        for column, size in self._columns:
            here = column.name == self.sorted
            # The sign says which end of the numbers is above: ▲ the least.
            up = self.reversed != column.least
            text = f"{column.head}{'▲' if up else '▼'}" if here else column.head
            style = self.rich_style + loud if here else base
            parts.append(Segment(_cell(text, size, column.right), style))
        return Strip(parts).adjust_cell_length(width, base)


def _cell(text: str, size: int, right: bool) -> str:
    text = cut(text, size)
    gap = " " * (size - cell_len(text))
    return f"{gap}{text}  " if right else f"{text}{gap}  "


def _fits(row: VariantRow, wanted: list[str]) -> bool:
    """Whether a row has every word of a filter; a hash is found by its beginning."""
    if not wanted:
        return True
    kernel, variant = row.kernel, row.variant
    words = [kernel.name, kernel.demangled, kernel.origin.value, settings(row.config)]
    words += [] if variant is None else [variant.id, variant.target or "", *specialised(variant)]
    text = " ".join(words).casefold()
    return all(
        word in text or (variant is not None and variant.hash.startswith(word)) for word in wanted
    )


def _same(one: VariantRow, other: VariantRow) -> bool:
    if one.variant is None or other.variant is None:
        return one.variant is other.variant and one.config == other.config
    return one.variant.hash == other.variant.hash and one.variant.symbol == other.variant.symbol
