"""What the terminal shows already is not sent again: over a slow line every byte is waited for.

Textual sends a widget whole when anything in it changes: a hundred kilobytes for a step of the
cursor on a large terminal. Here what was sent is kept by row and column, and only the pieces of
rows that are others go out. What is not known to stand there is sent: everything, once the
terminal has another size or was lent. Nothing leaves that a terminal would obey but colours and
places of our own.
"""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.control import Control
from rich.segment import Segment
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

from inspector.tui.widgets.visible import label


class Sent:
    """What stands on the terminal: pieces of rows, by row and by their first column."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[int, Strip]] = {}

    def forget(self) -> None:
        """Others may have written there."""
        self._rows.clear()

    def thin(self, update: RenderableType | None) -> RenderableType | None:
        """The same update, of which only what is new is sent."""
        if isinstance(update, ChopsUpdate | LayoutUpdate):
            return Thin(self, update)
        if update is not None:
            self.forget()
        return update

    def whole(self, update: LayoutUpdate) -> list[tuple[int, int, Strip]]:
        """The pieces of a whole screen that are not what stands there: row, column, strip."""
        out: list[tuple[int, int, Strip]] = []
        for y, row in enumerate(update.strips, update.region.y):
            x = update.region.x
            for strip in row:
                if self._new(y, x, strip):
                    out.append((y, x, strip))
                x += strip.cell_length
        return out

    def changed(self, update: ChopsUpdate) -> list[tuple[int, int, Strip]]:
        """The same of a part of it. What is cut by the part's edge is always sent."""
        out: list[tuple[int, int, Strip]] = []
        for y, first, last in update.spans:
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if strip is None or x >= last or end <= first:
                    continue
                if first <= x and end <= last and strip.cell_length == end - x:
                    if self._new(y, x, strip):
                        out.append((y, x, strip))
                else:
                    cut = strip.crop(0, min(end, last) - x)
                    self._over(y, x, cut.cell_length)
                    out.append((y, x, cut))
        return out

    def _new(self, y: int, x: int, strip: Strip) -> bool:
        """Whether something else stands there; it will not any more."""
        held = self._rows.setdefault(y, {})
        if (known := held.get(x)) is not None and known == strip:
            return False
        self._over(y, x, strip.cell_length)
        held[x] = strip
        return True

    def _over(self, y: int, x: int, cells: int) -> None:
        """What stood there is written over, wholly or in part."""
        held = self._rows.setdefault(y, {})
        for at in [a for a, s in held.items() if a < x + cells and a + s.cell_length > x]:
            del held[at]


class Thin(CompositorUpdate):
    """An update on its way: it is compared when it is sent, for some never are."""

    def __init__(self, sent: Sent, update: ChopsUpdate | LayoutUpdate) -> None:
        self.sent = sent
        self.update = update

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As it is."""
        yield from self.update.__rich_console__(console, options)

    def render_segments(self, console: Console) -> str:
        """What is sent."""
        sent, update = self.sent, self.update
        found = sent.whole(update) if isinstance(update, LayoutUpdate) else sent.changed(update)
        return "".join(
            f"{Control.move_to(x, y).segment.text}{harmless(strip).render(console)}"
            for y, x, strip in found
        )


def harmless(strip: Strip) -> Strip:
    """The last place before the terminal: nothing but text and colours leaves, whoever wrote it.

    Widgets make visible what they show, and know how wide that is; what one forgets is made so
    here, cut where its place ends.
    """
    if all(s.text.isprintable() and not (s.style and s.style.link) for s in strip):
        return strip
    segments = [
        Segment(label(text), style.update_link(None) if style and style.link else style)
        for text, style, _ in strip
    ]
    return Strip(segments).adjust_cell_length(strip.cell_length)
