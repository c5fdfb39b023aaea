"""The layout of the main screen: how the tree and the panes share its columns, and its focus."""

from __future__ import annotations

from inspector.reader.reader import Reader
from inspector.tui.panes.pane import Pane
from inspector.tui.panes.pane_screen import PaneScreen
from inspector.tui.panes.panes import (
    DEFAULT_PANES,
    MAX_PANES,
    MIN_COLUMNS_OF_TWO,
    MIN_PANE_COLUMNS,
    Panes,
    next_layout,
)
from inspector.tui.tree.kernel_tree import KernelTree
from inspector.tui.widgets.notice import following
from inspector.tui.widgets.subject import RecordingTimes

HEIGHTS = [(0, "-low"), (8, "-short"), (14, "-tall"), (30, "-high"), (40, "-ample"), (56, "-vast")]
"""Rows of the screen from which a class of the styles holds: what gives way where it is low."""

NARROW_CELLS = 80
"""Columns of the screen below which the tree and the panes are not shown together."""

DRAWER_CELLS = 140
"""Columns of the screen below which the tree is a drawer over the panes."""

MIN_TREE_CELLS = 16
MIN_TREE_BESIDE_CELLS = 20
"""Columns that must be left beside the panes, else the tree is a drawer, too."""

MIN_PANES_CELLS = 30


class LayoutScreen(PaneScreen[None]):
    """The tree beside the panes, or as a drawer over them, and the keys that change this."""

    VERTICAL_BREAKPOINTS = HEIGHTS

    def __init__(self, reads: Reader, times: RecordingTimes) -> None:
        super().__init__(reads, Panes(reads), times)
        self.empty = not (reads.recording.kernels or reads.recording.graphs)
        self.tree_wanted = True
        self.tree_width: int | None = None
        self.kernels = KernelTree(reads, times, self.note)

    def fit(self) -> None:
        """Lay out the tree, beside the panes or as a drawer over them, and the panes."""
        if self.empty:
            return
        width = self.size.width
        narrow = width < NARROW_CELLS
        filtering = self.prompt.display and self.prompt.completes
        in_tree = self.focused is self.kernels or filtering
        beside = self._cells_beside() if self.tree_wanted else 0
        cells = beside
        if in_tree:
            cells = max(beside, min(self._tree_cells(), width - MIN_PANES_CELLS))
        self.kernels.display = in_tree or beside > 0
        self.panes.display = not (narrow and in_tree)
        self.panes.styles.margin = (0, 0, 0, beside)
        self.kernels.styles.width = "1fr" if narrow else max(MIN_TREE_CELLS, cells)
        self.kernels.set_class(cells > beside and not narrow, "-drawer")
        word = "tree"
        if self.in_drawer and in_tree:
            word = "close"
        elif self.in_drawer and width >= MIN_COLUMNS_OF_TWO:
            word = "kernels"
        keys = {"tree.toggle": word}
        self.footer.tell(words=self.footer.words | keys)

    @property
    def in_drawer(self) -> bool:
        """Whether there is no room for the tree beside the panes: it is opened over them."""
        return not self._cells_beside()

    def _tree_cells(self) -> int:
        """Columns of the tree as the user wants it, else by the width."""
        width = self.size.width
        if self.tree_width is not None:
            return self.tree_width
        if width < DRAWER_CELLS:
            return max(46, min(60, width // 2))
        return max(24, min(46, width // 5 + 6))

    def _cells_beside(self) -> int:
        """Columns of the tree beside the panes, which have theirs first; 0 for a drawer."""
        width = self.size.width
        if width < DRAWER_CELLS:
            return 0
        if self.tree_width is not None or self.panes.count_chosen:
            return min(self._tree_cells(), width - MIN_PANES_CELLS)
        three = width >= MAX_PANES * MIN_PANE_COLUMNS
        panes = MAX_PANES if three else DEFAULT_PANES
        spare = width - panes * MIN_PANE_COLUMNS
        return min(self._tree_cells(), spare) if spare >= MIN_TREE_BESIDE_CELLS else 0

    on_resize = fit

    def focus_tree(self) -> None:
        self.kernels.display = True
        self.set_focus(self.kernels)

    def focus_pane(self, pane: Pane | None = None) -> None:
        """Go to a pane, the active one if none is named; shown if it was not."""
        self.panes.display = True
        self.panes.activate(pane or self.panes.active)

    def action_toggle_tree(self) -> None:
        """Show or hide the tree; where it is a drawer, open or close it."""
        if self.in_drawer:
            self.tree_wanted = True
            shows = self.focused is not self.kernels
        else:
            shows = self.tree_wanted = not self.tree_wanted
        (self.focus_tree if shows else self.focus_pane)()
        self.fit()

    def action_widen(self, cells: int) -> None:
        max_cells = self.size.width - MIN_PANES_CELLS
        self.tree_width = max(MIN_TREE_CELLS, min(self.kernels.outer_size.width + cells, max_cells))
        self.fit()

    def action_next_pane(self, step: int) -> None:
        focused = self.kernels if self.focused is self.kernels else self.panes.active
        stops = [self.kernels, *self.panes.panes] if self.tree_wanted else self.panes.panes
        stop = following(stops, focused, step)
        if isinstance(stop, Pane):
            self.focus_pane(stop)
        else:
            self.focus_tree()

    def action_pane_more(self) -> None:
        self.panes.add_pane()

    def action_widen_pane(self, cells: int) -> None:
        if not self.panes.widen(cells) and self.kernels.display:
            self.action_widen(-cells)

    def action_layout(self) -> None:
        arrangement = next_layout(self.panes.arrangement)
        self.panes.display = True
        self.panes.lay_out(arrangement)
        if self.focused is not self.kernels:
            self.panes.activate(self.panes.active)
        sentence = f"Layout: {arrangement.title}."
        if lacks := arrangement.lacks(self.panes.subject):
            sentence += f" There is no {' and no '.join(map(str, lacks))} of this."
        self.say(f"{sentence} The next is {next_layout(arrangement).title}.")
