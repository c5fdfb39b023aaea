"""Moving about in rows: by one, by pages, to the ends, sideways."""

from __future__ import annotations

from textual.scroll_view import ScrollView


class MovingRows(ScrollView, inherit_bindings=False):
    """Rows of which one is the cursor's; who derives from it says which, and goes there."""

    def at(self) -> int:
        """The visible row of the cursor."""
        raise NotImplementedError

    def go_visible(self, at: int) -> None:
        """Put the cursor on a visible row, or the nearest there is."""
        raise NotImplementedError

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
