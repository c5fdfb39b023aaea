"""The tree of kernels, drawn row by row: ten thousand variants cost what a page does."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from inspector.model import Recording
from inspector.recording.layout import DerivedCache, user_cache
from inspector.report.naming import apart
from inspector.tui.keys.command_table import Where, bindings
from inspector.tui.main.title_bar import parts
from inspector.tui.tree.kept_tree import MOST_ROWS, KeptRow, KeptTree, TreeKeeper
from inspector.tui.tree.ordering import Order, ordered, orders
from inspector.tui.tree.row_look import RowLook, shorten_variant
from inspector.tui.tree.rows import (
    Key,
    TreeEntry,
    TreeKind,
    TreeRow,
    beginning,
    entry_of,
    fitness,
    flips,
    folded,
    rows,
    stands_for,
    subjects,
    whole_tree,
)
from inspector.tui.tree.tree_figures import TreeFigures
from inspector.tui.widgets.recorded_times import RecordingTimes
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.visible import cut, label, shorten

if TYPE_CHECKING:
    from inspector.reader.reader import Reader


_STYLES = {
    TreeKind.ORIGIN: "tree--origin", TreeKind.GRAPH: "tree--kernel",
    TreeKind.KERNEL: "tree--kernel", TreeKind.VARIANT: "", TreeKind.OPERATORS: "tree--quiet",
}  # fmt: skip
"""How a name looks, by what the row stands for."""


def _names(tree: tuple[TreeEntry, ...]) -> tuple[str, ...]:
    """The names of kernels in a tree, each once."""
    every = (row for row in rows(tree, "", None) if row.kind is TreeKind.KERNEL)
    return tuple(dict.fromkeys(row.text for row in every))


class KernelTree(TreeFigures, can_focus=True, inherit_bindings=False):
    """Origins, graphs, kernels and variants, with registers, warps and spills."""

    BINDINGS = bindings(Where.TREE)

    class Selected(Message):
        """The cursor came to a row that can be read."""

        def __init__(self, subject: TreeSubject) -> None:
            super().__init__()
            self.subject = subject

    class Opened(Message):
        """A row was chosen for reading: the panes should have the focus."""

    class Filtered(Message):
        """Only rows that fit something are shown, or all again."""

    class Ordered(Message):
        """The tree stands in another order; of how many variants the figures are read."""

        def __init__(self, order: Order, read: int, of: int) -> None:
            super().__init__()
            self.order = order
            self.read = read
            self.of = of

    def __init__(self, reads: Reader, times: RecordingTimes | None = None) -> None:
        super().__init__(reads, times)
        self.query_text = ""
        self.cursor = 0
        self.marked: tuple[Key, ...] = ()
        self._tree = whole_tree(reads.recording)
        self._entries = self._tree
        self._flipped: frozenset[Key] = frozenset()
        self._shortened: dict[int, dict[str, str]] = {}
        self._names = _names(self._tree)

    @property
    def recording(self) -> Recording:
        """What the tree is of."""
        return self.reads.recording

    @property
    def whole(self) -> tuple[TreeEntry, ...]:
        """Every row there is, whatever is filtered, in the order in which they stand."""
        return self._entries

    def on_mount(self) -> None:
        """Begin at the first row that can be read."""
        self._rebuild()
        first = next((i for i, r in enumerate(self.rows) if r.subject.kernel is not None), 0)
        self.go(first)

    # Rows

    @property
    def row(self) -> TreeRow | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if 0 <= self.cursor < len(self.rows) else None

    def _rebuild(self) -> None:
        """Make the rows anew; the cursor stays on its row, wherever that stands now, or on one that
        it stood beneath."""
        here = self.row
        self.rows = rows(self._entries, self.query_text, self._flipped)
        # The last line of the view says what is filtered: the last row must come above it.
        self.virtual_size = Size(0, len(self.rows) + bool(self.query_text))
        if here is not None:
            own = {here.key[:end] for end in range(1, len(here.key) + 1)}
            there = ((len(row.key), index) for index, row in enumerate(self.rows) if row.key in own)
            self.cursor = max(there, default=(0, 0))[1]
            if self.rows and self.rows[self.cursor].key != here.key:
                what = stands_for(here)
                same = (i for i, row in enumerate(self.rows) if stands_for(row) == what)
                self.cursor = next(same, self.cursor)
        self.refresh()
        self._ask()

    def renew(self, reads: Reader) -> None:
        """Show what ``reads`` has by now; the cursor stays on its row, the row in its place."""
        self.reads = reads
        self.stale = frozenset(self._resources)
        folds = folded(self._tree, self._flipped)
        self._tree = whole_tree(reads.recording)
        # One that has come to have so many rows that it would begin folded stays as it is.
        self._flipped = flips(self._tree, folds)
        self._names, self._shortened = _names(self._tree), {}
        self._entries = ordered(self._tree, self.order, self._resources, self.times.us)
        before, selected = self.cursor, self.row
        self._rebuild()
        if selected is None:
            self.on_mount()
        elif moved := self.cursor - before:
            self.scroll_to(y=self.scroll_offset.y + moved, animate=False, force=True)

    def filter(self, text: str) -> None:
        """Show only rows with all the words of ``text``; the cursor goes to the first match."""
        self.query_text = text
        self._rebuild()
        self.post_message(self.Filtered())
        if not text.strip() or not self.rows:
            return
        fits = [fitness(row, text) for row in self.rows]
        best = max(fits)
        here = fits[self.cursor] if self.row is not None else 0
        if here < best or not here:
            self.go(fits.index(best))

    @property
    def filtered(self) -> str:
        """What is filtered for, how much of the tree that leaves, and how to be rid of it."""
        there = {r.subject.kernel.id for r in self.rows if r.subject.kernel is not None}
        many = f"{len(there)} of {len(self.recording.kernels)}"
        return f"{many}  Esc  /{label(self.query_text)}"

    def action_order(self) -> None:
        """The next order that means something here."""
        there = orders(self.recording, bool(self.times))
        self.order = there[(there.index(self.order) + 1) % len(there)]
        self.reorder()
        if self.order in (Order.REGISTERS, Order.SPILLS):
            self.read_every()
        self.tell_order()

    def tell_order(self) -> None:
        """Say how the tree stands, and of how many the figures are read that it stands by."""
        every = {(k.id, v.id) for k, v in self.recording.variants()}
        read = len(every & self._resources.keys())
        self.post_message(self.Ordered(self.order, read, len(every)))

    def timed(self) -> None:
        """Other times are known."""
        if self.order is Order.TIME:
            self.reorder()
        self.refresh()

    def reorder(self) -> None:
        """The rows in their order, the cursor on the row that it is on."""
        self._entries = ordered(self._tree, self.order, self._resources, self.times.us)
        self._rebuild()
        self._reveal()

    def mark(self, marked: tuple[Key, ...]) -> None:
        """Show which variants are marked, the first as A and the second as B."""
        self.marked = marked
        self.refresh()

    def go(self, index: int) -> None:
        """Put the cursor on a row and say what it stands for."""
        if not self.rows:
            return
        self.cursor = max(0, min(index, len(self.rows) - 1))
        self._reveal()
        self.refresh()
        self._ask()
        subject = self.rows[self.cursor].subject
        if subject.kernel is not None or subject.graph is not None:
            self.post_message(self.Selected(subject))

    def _reveal(self) -> None:
        """Scroll no further than it takes to see the cursor."""
        height = self.size.height
        self.reveal(self.cursor, max(1, height - bool(self.query_text)) if height else 0)

    def on_resize(self) -> None:
        """The cursor stays in view."""
        super().on_resize()
        self._reveal()

    def find(self, subject: tuple[str, ...]) -> bool:
        """To the row of a subject with these ids, unfolding what it stands beneath; whether there
        is one."""
        found = next((row for row in self._every() if row.subject.key == subject), None)
        if found is None:
            return False
        self._show(found.key)
        return True

    def go_to(self, key: Key) -> bool:
        """To the row with this key, without the filter if that hides it; False if there is none."""
        if entry_of(self._entries, key) is None:
            return False
        if not any(row.key == key for row in self._every()):
            self.filter("")
        self._show(key)
        return True

    def find_variant(self, ids: tuple[str, ...]) -> bool:
        """To the row of a variant alone, by the ids of its kernel and its own: see ``find``."""
        every = [row for row in self._every() if row.subject.key[:2] == ids]
        leaves = [row for row in every if not row.count and row.kind is not TreeKind.OPERATORS]
        for row in leaves[:1]:
            self._show(row.key)
        return bool(leaves)

    def _every(self) -> tuple[TreeRow, ...]:
        """Every row that the filter leaves, as if nothing were folded."""
        return rows(self._entries, self.query_text, None)

    def _show(self, key: Key) -> None:
        """The cursor on the row with this key, which must not be filtered away."""
        there = {row.key for row in self.rows}
        if key not in there:
            for end in range(1, len(key)):
                above = entry_of(self._entries, key[:end])
                if above is not None and above.row.open == (key[:end] in self._flipped):
                    self._flipped = self._flipped ^ {key[:end]}
            self._rebuild()
        self.go(next((i for i, row in enumerate(self.rows) if row.key == key), self.cursor))

    def step(self, by: int) -> None:
        """To the next row that stands for one variant, over everything else, round the ends."""
        every, here = self._every(), self.row
        count = len(every)
        at = next((i for i, row in enumerate(every) if here and row.key == here.key), 0)
        for distance in range(1, count + 1):
            row = every[(at + by * distance) % count]
            if row.kind is TreeKind.VARIANT or (row.kind is TreeKind.KERNEL and not row.count):
                self._show(row.key)
                return

    def again(self, row: TreeRow) -> TreeRow | None:
        """The row that stands for what ``row`` stood for before the recording grew."""
        what = stands_for(row)
        every = rows(self._entries, "", None)
        return next((one for one in every if stands_for(one) == what), None)

    def above(self, row: TreeRow) -> TreeRow | None:
        """The row that this one stands beneath."""
        entry = entry_of(self._entries, row.key[:-1])
        return None if entry is None else entry.row

    def beneath(self, row: TreeRow) -> tuple[TreeSubject, ...]:
        """Every variant that a row stands for, in the order of the tree, whatever is filtered."""
        entry = entry_of(self._entries, row.key)
        return () if entry is None else tuple(subjects(entry))

    # Drawing

    def render_line(self, y: int) -> Strip:
        """Row ``y`` of the view: name at the left, figures at the right."""
        width = self.scrollable_content_region.width
        index = self.scroll_offset.y + y
        base = self.rich_style
        if self.query_text and y > 0 and y == self.size.height - 1:
            loud = base + self.part("tree--warning")
            return Strip([Segment(shorten(f" {self.filtered}", width), loud)]).extend_cell_length(
                width, base
            )
        if index >= len(self.rows):
            if not self.rows and y == 1:
                quiet = base + self.part("tree--quiet")
                text = shorten(" nothing matches the filter", width)
                return Strip([Segment(text, quiet)]).extend_cell_length(width, base)
            return Strip.blank(width, base)
        row = self.rows[index]
        return self.drawn(
            self.look_of(row), width, index == self.cursor, lambda room: self.fitted(row, room)
        )

    def look_of(self, row: TreeRow) -> RowLook:
        """What is drawn of a row."""
        many, figures, spill = self.figures_of(row)
        return RowLook(
            row.depth, _STYLES[row.kind], self._sign(row), row.text, figures, many,
            self.measured(row), spill,
        )  # fmt: skip

    def kept(self, title: tuple[str, ...]) -> KeptTree:
        """The whole tree as it begins, to be drawn the next time before it is read."""
        width = self.scrollable_content_region.width
        return KeptTree(
            title,
            tuple(self._kept_row(row, width) for row in islice(beginning(self._tree), MOST_ROWS)),
        )

    def _kept_row(self, row: TreeRow, width: int) -> KeptRow:
        look = replace(self.look_of(row), timed="")
        if look.sign[0] in "AB":
            look = replace(look, sign=f" {look.sign[1]}")
        room = look.room(width)
        cut = self.fitted(row, room) if 0 < room < cell_len(row.text) else ""
        return KeptRow(look, row.subject.key, room, cut, row.short)

    def fitted(self, row: TreeRow, room: int) -> str:
        """The text of a row in so many cells: names of kernels are told apart by what is left."""
        if cell_len(row.text) <= room:
            return row.text
        if row.kind is TreeKind.OPERATORS:
            return cut(row.text, room)
        if row.short:
            return shorten_variant(row.short, room)
        if row.kind is not TreeKind.KERNEL or room < 1:
            return shorten(row.text, room)
        if room not in self._shortened:
            self._shortened[room] = apart(self._names, room)
        return self._shortened[room].get(row.text) or shorten(row.text, room)

    def _sign(self, row: TreeRow) -> str:
        """Whether it is folded; of a leaf, the letter of its mark."""
        if row.kind is TreeKind.OPERATORS:
            return "∘ "
        if row.count:
            return "▾ " if row.open else "▸ "
        key = row.subject.key[:2]
        mark = "AB"[self.marked.index(key)] if key in self.marked else " "
        return f"{mark}{'★' if row.winner else ' '}"

    # Commands

    def action_move(self, by: int) -> None:
        """Up or down by rows."""
        self.go(self.cursor + by)

    def action_page(self, pages: int) -> None:
        """Up or down by pages."""
        self.go(self.cursor + pages * max(1, self.size.height - 1))

    def action_edge(self, side: int) -> None:
        """To the first or the last row."""
        self.go(0 if side < 0 else len(self.rows) - 1)

    def enter(self) -> bool:
        """Whether the row can be read; one that cannot is folded or unfolded."""
        row = self.row
        if row is not None and row.kind is TreeKind.ORIGIN:
            self.action_flip()
            return False
        return row is not None

    def action_unfold(self) -> None:
        """Unfold, or go in."""
        row = self.row
        if row is not None and row.count:
            if row.open:
                self.go(self.cursor + 1)
            else:
                self.action_flip()

    def action_fold(self) -> None:
        """Fold, or go to the row above."""
        row = self.row
        if row is None:
            return
        if row.count and row.open and not self.query_text:
            self.action_flip()
        else:
            above = [i for i, r in enumerate(self.rows) if r.key == row.key[:-1]]
            self.go(above[0] if above else self.cursor)

    def action_flip(self) -> None:
        """Fold or unfold."""
        row = self.row
        if row is not None and row.count:
            self._flipped = self._flipped ^ {row.key}
            self._rebuild()

    def on_click(self, event: events.Click) -> None:
        """Choose a row; its sign folds it, a double click reads it."""
        offset = event.get_content_offset(self)
        if offset is None or self.scroll_offset.y + offset.y >= len(self.rows):
            return
        self.go(self.scroll_offset.y + offset.y)
        row = self.row
        if row is not None and row.count and offset.x <= 2 * row.depth + 2:
            self.action_flip()
        elif event.chain == 2 and self.enter():
            self.post_message(self.Opened())


def keep_rows(reads: Reader, path: Path) -> None:
    """Keep the rows of a recording that was just made, so that its first opening finds them.

    How long names were cut depends on a screen, and none has shown them: they are cut when drawn.
    """
    keeper = TreeKeeper(DerivedCache(user_cache()), path)
    title = tuple(part for part in parts(reads.recording) if part)
    keeper.keep(KernelTree(reads).kept(title))
