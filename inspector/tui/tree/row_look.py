"""How a row of the tree is drawn, by the tree and by the frame that stands before it is read.

What this module imports is all that the first frame needs of the tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.tui.widgets.visible import cut, shorten

MEASURED, MANY = 2, 4
"""Cells that stand before a time, and that the number of warps takes at least."""


@dataclass(frozen=True, slots=True)
class RowLook:
    """What is drawn of a row; all texts are safe to draw.

    ``style`` is the component class of its name, "" for none; ``sign`` says whether it is folded,
    marked or chosen. At the right stand ``timed`` and ``many``, where there is room, and
    ``figures``, which warn where something is spilled.
    """

    depth: int
    style: str
    sign: str
    text: str
    figures: str = ""
    many: str = ""
    timed: str = ""
    spill: bool = False

    @property
    def lead(self) -> int:
        """Cells before its text."""
        return 1 + 2 * self.depth + cell_len(self.sign)

    def room(self, width: int) -> int:
        """Cells that are left to its text, in a tree so wide."""
        return width - self.lead - cell_len(self.right(width)) - 1

    def right(self, width: int) -> str:
        """What stands at the right, in a tree so wide."""
        room = width - self.lead - cell_len(self.figures) - 1
        wide, figures = cell_len(self.text), self.figures
        if self.timed and wide + cell_len(self.timed) + MEASURED <= room:
            figures = f"{self.timed}  {figures}"
            room -= cell_len(self.timed) + MEASURED
        if self.many and wide + max(MANY, cell_len(self.many) + 1) <= room:
            figures = f"{self.many:<3} {figures}"
        return figures


IDENT, LONG = 2, 8
"""Digits of an id at least: fewer are no beginning of one; cells in which settings and these fit.
"""


def shorten_variant(text: str, width: int) -> str:
    """``128 w4 a361`` in so many cells: the settings first, then as much of the id's beginning as
    there is room for; of longer settings the beginning."""
    if cell_len(text) <= width:
        return text
    told, _, ident = text.rpartition(" ")
    wide = cell_len(told)
    if told and wide <= width:
        left = width - wide - 1
        return f"{told} {ident[:left]}" if left >= IDENT else told
    if told and width >= LONG:
        begin = ident if width >= 4 * cell_len(ident) else ident[:IDENT]
        return f"{cut(told, width - cell_len(begin) - 1)} {begin}"
    return shorten(text, width)


class TreeRows(ScrollView, inherit_bindings=False):
    """Draws rows, one of them with the cursor on it."""

    COMPONENT_CLASSES: ClassVar = {
        "tree--cursor", "tree--cursor-quiet", "tree--origin", "tree--kernel", "tree--figures",
        "tree--warning", "tree--quiet",
    }  # fmt: skip

    DEFAULT_CSS = """
    TreeRows {
        height: 100%; background: $surface; color: $foreground;
        scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; overflow-x: hidden;
        & > .tree--cursor { background: $cursor-line; text-style: bold; }
        & > .tree--cursor-quiet { background: $panel; }
        & > .tree--origin { color: $accent; text-style: bold; }
        & > .tree--kernel { color: $foreground; }
        & > .tree--figures { color: $secondary; }
        & > .tree--warning { color: $warning; text-style: bold; }
        & > .tree--quiet { color: $quiet; }
        &:nocolor > .tree--cursor { text-style: reverse; }
    }
    """

    def reveal(self, row: int, height: int) -> None:
        """Scroll no further than it takes to see a row in so many lines."""
        top = self.scroll_offset.y
        if not height:  # it has no place yet
            return
        if row < top:
            self.scroll_to(y=row, animate=False, force=True)
        elif row >= top + height:
            self.scroll_to(y=row - height + 1, animate=False, force=True)

    def drawn(
        self,
        look: RowLook,
        width: int,
        chosen: bool = False,
        fitted: Callable[[int], str] | None = None,
    ) -> Strip:
        """A row: name at the left, figures at the right.

        ``chosen`` is whether the cursor is on it; ``fitted`` gives its text in so many cells.
        """
        base = self.rich_style
        if chosen:
            name = "tree--cursor" if self.has_focus else "tree--cursor-quiet"
            base = base + self.part(name)
        right, room = look.right(width), look.room(width)
        text = shorten(look.text, room) if fitted is None else fitted(room)
        gap = max(0, width - look.lead - cell_len(text) - cell_len(right))
        lead = ("›" if chosen else " ") + "  " * look.depth + look.sign
        named = self.part(look.style) if look.style else Style()
        figures = self.part("tree--warning" if look.spill else "tree--figures")
        return Strip(
            [
                Segment(lead, base + self.part("tree--quiet")),
                Segment(text, base + named),
                Segment(" " * gap, base),
                Segment(right, base + figures),
            ]
        ).adjust_cell_length(width, base)

    def part(self, name: str) -> Style:
        """The style of a component class."""
        return self.get_component_rich_style(name, partial=True)


HEIGHTS = [(0, "-low"), (8, "-short"), (14, "-tall"), (30, "-high"), (40, "-ample"), (56, "-vast")]
"""Lines of a screen from which on a class of the styles holds: what gives way to the tree and the
panes where it gets low, and what is wrapped where there is room."""

NARROW = 80
"""Columns below which the tree and a pane do not fit beside each other."""


def tree_width(wanted: int | None, width: int) -> int | None:
    """Columns of the tree on a screen so wide, where one has asked for ``wanted`` or for none;
    None: all of them, since a pane does not fit beside it."""
    if width < NARROW:
        return None
    return max(16, min(wanted or max(24, min(46, width // 5 + 6)), width - 30))
