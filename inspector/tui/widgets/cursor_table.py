"""A table with a head that stays, and a cursor that keys move: its rows are whoever's it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from textual.scroll_view import ScrollView

RowType = TypeVar("RowType")


class CursorTable(ScrollView, Generic[RowType], can_focus=True, inherit_bindings=False):
    """Line 0 is the head; ``moved`` says that the cursor stands elsewhere."""

    rows: Sequence[RowType] = ()
    cursor = 0

    @property
    def row(self) -> RowType | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if 0 <= self.cursor < len(self.rows) else None

    def moved(self) -> None:
        """The cursor has been put on a row."""
        raise NotImplementedError

    def go(self, index: int) -> None:
        """Put the cursor on a row."""
        self.cursor = max(0, min(index, len(self.rows) - 1))
        self._reveal()
        self.refresh()
        self.moved()

    def _reveal(self) -> None:
        top, height = self.scroll_offset.y, max(1, self.size.height - 1)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, force=True)

    def action_move(self, by: int) -> None:
        """Up or down by rows."""
        self.go(self.cursor + by)

    def action_page(self, pages: int) -> None:
        """Up or down by pages."""
        self.go(self.cursor + pages * max(1, self.size.height - 2))

    def action_edge(self, side: int) -> None:
        """To the first or the last row."""
        self.go(0 if side < 0 else len(self.rows) - 1)
