"""A list of rows with a cursor, which draws only the rows in view."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.tui.widgets.notice import Notice, cut, notice_row

RowType = TypeVar("RowType")


_PARTS = (
    "cursor cursor-blurred head sorted mark loud quiet notice plus minus origin warning error "
    "figures"
)
"""Names of the parts that have styles of their own."""


class RowList(ScrollView, Generic[RowType], can_focus=True, inherit_bindings=False):
    """Base of the tree and all tables. A subclass draws one row."""

    COMPONENT_CLASSES: ClassVar = {f"row--{name}" for name in _PARTS.split()}
    HEAD_LINES = 0

    rows: Sequence[RowType] = ()
    cursor = 0
    notice: Notice | None = None
    empty_text = ""

    def draw_head(self, width: int) -> Strip:
        return Strip.blank(width)

    @abstractmethod
    def draw_row(self, index: int, width: int, base: Style) -> Strip: ...

    def moved(self) -> None:
        """React to a cursor that was put on a row."""

    @property
    def row(self) -> RowType | None:
        return self.rows[self.cursor] if 0 <= self.cursor < len(self.rows) else None

    @property
    def rows_in_view(self) -> int:
        return max(0, self.size.height - self.HEAD_LINES)

    def go(self, index: int) -> None:
        self.cursor = max(0, min(index, len(self.rows) - 1))
        self.reveal()
        self.refresh()
        self.moved()

    def reveal(self) -> None:
        top = self.scroll_offset.y
        height = self.rows_in_view
        y = max(min(top, self.cursor), self.cursor - height + 1)
        if height and y != top:
            self.scroll_to(y=y, animate=False, force=True)

    def clicked(self, event: events.Click) -> int | None:
        offset = event.get_content_offset(self)
        y = -1 if offset is None else offset.y - self.HEAD_LINES
        index = self.scroll_offset.y + y
        return index if y >= 0 and index < len(self.rows) else None

    def action_move(self, rows: int) -> None:
        self.go(self.cursor + rows)

    def action_page(self, pages: int) -> None:
        self.go(self.cursor + pages * max(1, self.rows_in_view - 1))

    def action_edge(self, side: int) -> None:
        self.go(0 if side < 0 else len(self.rows) - 1)

    def part(self, name: str) -> Style:
        return self.get_component_rich_style(f"row--{name}", partial=True)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = self.rich_style
        if self.notice is not None:
            return notice_row(self.notice, y, width, base, self.part("notice"), self.part("quiet"))
        if y < self.HEAD_LINES:
            return self.draw_head(width)
        index = self.scroll_offset.y + y - self.HEAD_LINES
        if index < len(self.rows):
            return self.draw_row(index, width, base)
        text = self.empty_text if not self.rows and y == self.HEAD_LINES + 1 else ""
        blank = Strip([Segment(cut(text, width), base + self.part("quiet"))])
        return blank.adjust_cell_length(width, base)


class Table(RowList[RowType], can_focus=True, inherit_bindings=False):
    """Rows beneath a head; some of them where a filter is set."""

    empty_text = "    nothing matches the filter"
    HEAD_LINES = 1

    class Moved(Message):
        """The cursor is on another row, or the rows, their order or marks are others."""

    class Chosen(Message):
        """A row was clicked twice."""

    query_text = ""

    @abstractmethod
    def lay(self) -> None: ...

    def filter(self, text: str) -> None:
        self.query_text = text
        self.lay()

    def show_rows(self, rows: Sequence[RowType], cursor: int) -> None:
        self.rows = rows
        self.cursor = max(0, min(cursor, len(rows) - 1))
        self.virtual_size = Size(0, len(rows) + self.HEAD_LINES)
        self.reveal()
        self.refresh()
        self.post_message(self.Moved())

    def moved(self) -> None:
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        if (index := self.clicked(event)) is not None:
            self.go(index)
            if event.chain == 2:
                self.post_message(self.Chosen())
