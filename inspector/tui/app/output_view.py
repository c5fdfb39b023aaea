"""What the program writes, in a pane beneath the others while it runs and after."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.tui.app.live import Live
from inspector.tui.widgets.visible import shorten, visible


class OutputView(ScrollView, can_focus=True, inherit_bindings=False):
    """The lines of the output; follows the last one unless one has scrolled up."""

    BINDINGS: ClassVar = [
        Binding("up,k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("home,g", "edge(-1)", show=False),
        Binding("end,G", "edge(1)", show=False),
        Binding("escape", "screen.tell_app('output')", show=False),
    ]

    def __init__(self, live: Live) -> None:
        super().__init__()
        self.live = live
        self.follows = True
        self._version = -1
        self._dropped = 0

    def on_mount(self) -> None:
        """Begin at the end of what there is."""
        self.look()

    def look(self) -> None:
        """Show what has been written since the last look."""
        text = self.live.text
        if text.version == self._version:
            return
        self._version = text.version
        gone, self._dropped = text.dropped - self._dropped, text.dropped
        self.virtual_size = Size(0, len(text))
        if self.follows:
            self.scroll_end(animate=False, force=True, immediate=True)
        elif gone:
            self.scroll_to(y=self.scroll_offset.y - gone, animate=False, force=True)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """At the end one means to stay there."""
        super().watch_scroll_y(old_value, new_value)
        self.follows = self.scroll_offset.y >= self.max_scroll_y

    def on_resize(self) -> None:
        """The end is elsewhere now."""
        if self.follows:
            self.scroll_end(animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        """Row ``y`` of the view."""
        width = self.scrollable_content_region.width
        at = self.scroll_offset.y + y
        found = self.live.text.lines(at, at + 1)
        base = self.rich_style
        text = found[0] if found else ""
        if not found and y == 0 and not len(self.live.text):
            text = "nothing written yet" if self.live.running else "nothing was written"
        line = Strip([Segment(" " + shorten(visible(text), width - 1), base)])
        return line.adjust_cell_length(width, base)

    def action_scroll(self, rows: int) -> None:
        """Up or down by lines."""
        self.scroll_relative(y=rows, animate=False, force=True)

    def action_page(self, pages: int) -> None:
        """Up or down by pages."""
        self.action_scroll(pages * max(1, self.size.height - 1))

    def action_edge(self, side: int) -> None:
        """To the first or the last line."""
        self.scroll_to(y=0 if side < 0 else self.max_scroll_y, animate=False, force=True)
