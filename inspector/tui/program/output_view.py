"""The output of a program, in a pane beneath the others."""

from typing import ClassVar

from rich.cells import chop_cells
from rich.segment import Segment
from textual.binding import Binding
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.tui.program.live import Live
from inspector.tui.widgets.notice import visible


def wrapped(text: str, width: int) -> list[str]:
    text = visible(text)
    return [text] if len(text) <= width and text.isascii() else chop_cells(text, width) or [""]


class OutputView(ScrollView, can_focus=True, inherit_bindings=False):
    """The lines of the output, wrapped; follows the last one until the user scrolls up."""

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
        self.border_title = Content("Output of the program")
        self.live = live
        self.follows = True
        self._rows: list[tuple[int, str]] = []
        """The number of a line since the program began, and the text of one of its rows."""
        self._version = -1

    def look(self) -> None:
        if self.live.text.version != self._version:
            self.on_resize()

    on_mount = look

    def on_resize(self) -> None:
        follows = self.follows
        y = self.scroll_offset.y
        top = self._rows[y][0] if y < len(self._rows) else 0
        text = self.live.text
        width = self.scrollable_content_region.width
        if width <= 0:
            return  # it has no place yet
        self._version = text.version
        lines = enumerate(text.lines(), text.dropped)
        self._rows = [(n, row) for n, line in lines for row in wrapped(line, width)]
        self.virtual_size = Size(0, len(self._rows))
        if follows:
            self.scroll_end(animate=False, force=True, immediate=True)
        elif y >= len(self._rows) or self._rows[y][0] != top:
            first = next((i for i, (n, _) in enumerate(self._rows) if n >= top), 0)
            self.scroll_to(y=first, animate=False, force=True)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.follows = self.scroll_offset.y >= self.max_scroll_y

    def render_line(self, y: int) -> Strip:
        base = self.rich_style
        width = self.scrollable_content_region.width
        nothing = "nothing written yet" if self.live.running else "nothing was written"
        rows = [row for _, row in self._rows] or [nothing]
        text = "".join(rows[self.scroll_offset.y + y :][:1])
        return Strip([Segment(text, base)]).adjust_cell_length(width, base)

    def action_scroll(self, rows: int) -> None:
        self.scroll_relative(y=rows, animate=False, force=True)

    def action_page(self, pages: int) -> None:
        self.action_scroll(pages * max(1, self.size.height - 1))

    def action_edge(self, side: int) -> None:
        self.scroll_to(y=0 if side < 0 else self.max_scroll_y, animate=False, force=True)

    async def action_leave(self) -> None:
        if self.screen.has_class("-empty"):
            self.action_edge(1)
        else:
            await self.run_action("screen.tell_app('output')")
