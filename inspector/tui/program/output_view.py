"""What the program writes, in a pane beneath the others while it runs and after."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import ClassVar

from rich.cells import chop_cells
from rich.segment import Segment
from textual.binding import Binding
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.tui.program.live import Live
from inspector.tui.widgets.visible import visible


def _rows(text: str, width: int) -> list[str]:
    """A line as it stands on a terminal of so many columns."""
    text = visible(text)
    if len(text) <= width and text.isascii():
        return [text]
    if text.isascii():
        return [text[at : at + width] for at in range(0, len(text), width)]
    return chop_cells(text, width) or [""]


class OutputView(ScrollView, can_focus=True, inherit_bindings=False):
    """The lines of the output; follows the last one unless one has scrolled up.

    A line that is too long goes on beneath, as on a terminal; it is as wide as that, so that bars
    that fill a row fill one here.
    """

    BINDINGS: ClassVar = [
        Binding("up,k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("home,g", "edge(-1)", show=False),
        Binding("end,G", "edge(1)", show=False),
        Binding("escape", "leave", show=False),
    ]

    def __init__(self, live: Live) -> None:
        super().__init__()
        self.live = live
        self.follows = True
        self.chosen = False
        """Whether one has gone here by oneself."""

        self._lines: list[str] = []
        self._first = 0
        """How many lines were written before the first that is kept."""

        self._counts: list[int] = []
        self._ends: list[int] = []
        self._width = 0
        self._version = -1

    @property
    def is_read(self) -> bool:
        """Whether the user is about to read here: he came by himself, or has scrolled up."""
        return self.chosen or not self.follows

    def on_mount(self) -> None:
        """Begin at the end of what there is."""
        self.look()

    def look(self) -> None:
        """Show what has been written since the last look."""
        text = self.live.text
        if text.version == self._version:
            return
        self._version = text.version
        dropped, first, lines = text.changes()
        kept = slice(dropped - self._first, first - self._first)
        rows_gone = sum(self._counts[: kept.start])
        self._lines = self._lines[kept] + lines
        self._counts = self._counts[kept] + self._counted(lines)
        self._first = dropped
        self._lay()
        if not self.follows and rows_gone:
            self.scroll_to(y=self.scroll_offset.y - rows_gone, animate=False, force=True)

    def _counted(self, lines: list[str]) -> list[int]:
        width = max(1, self._width)
        return [len(_rows(line, width)) for line in lines]

    def _lay(self) -> None:
        """Of how many rows everything is."""
        self._ends = list(accumulate(self._counts))
        self.virtual_size = Size(0, self._ends[-1] if self._ends else 0)
        if self.follows:
            self.scroll_end(animate=False, force=True, immediate=True)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """At the end one means to stay there."""
        super().watch_scroll_y(old_value, new_value)
        self.follows = self.scroll_offset.y >= self.max_scroll_y

    def on_resize(self) -> None:
        """Lines take other rows; the one at the top stays there, or the last at the end."""
        width = self.scrollable_content_region.width
        follows, top = self.follows, self._line_of(self.scroll_offset.y)[0]
        if width != self._width:
            self._width = width
            self._counts = self._counted(self._lines)
            self._lay()
        if follows:
            self.scroll_end(animate=False, force=True)
        elif top < len(self._ends):
            self.scroll_to(y=self._ends[top] - self._counts[top], animate=False, force=True)

    def _line_of(self, row: int) -> tuple[int, int]:
        """The line that a row is of, and which of its rows it is."""
        at = bisect_right(self._ends, row)
        return at, row - (self._ends[at - 1] if at else 0)

    def render_line(self, y: int) -> Strip:
        """Row ``y`` of the view."""
        width = self.scrollable_content_region.width
        at, part = self._line_of(self.scroll_offset.y + y)
        base = self.rich_style
        text = ""
        if at < len(self._lines):
            rows = _rows(self._lines[at], max(1, self._width))
            text = rows[part] if part < len(rows) else ""
        elif y == 0 and not self._lines:
            text = "nothing written yet" if self.live.running else "nothing was written"
        return Strip([Segment(text, base)]).adjust_cell_length(width, base)

    def action_scroll(self, rows: int) -> None:
        """Up or down by lines."""
        self.scroll_relative(y=rows, animate=False, force=True)

    def action_page(self, pages: int) -> None:
        """Up or down by pages."""
        self.action_scroll(pages * max(1, self.size.height - 1))

    def action_edge(self, side: int) -> None:
        """To the first or the last line."""
        self.scroll_to(y=0 if side < 0 else self.max_scroll_y, animate=False, force=True)

    async def action_leave(self) -> None:
        """Back to where one came from; where there is nothing else yet, to the end."""
        self.chosen = False
        if self.has_class("-alone"):
            self.action_edge(1)
        else:
            await self.run_action("screen.tell_app('output')")
