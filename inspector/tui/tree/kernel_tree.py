"""The tree of kernels: rows, figures that are read in threads, folds, a filter and an order."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from inspector.base.model import Resources, Variant
from inspector.base.units import plural
from inspector.reader.reader import Reader
from inspector.render.kernel_names import distinct_names
from inspector.render.labels import shorten_settings
from inspector.render.tables import settings_in_words
from inspector.tui.keys.command_table import KeyContext, bindings
from inspector.tui.tree.rows import (
    Key,
    Order,
    TreeEntry,
    TreeKind,
    TreeRow,
    entry_of,
    fitness,
    ordered,
    orders,
    recording_tree,
    rows,
    walk_entries,
)
from inspector.tui.widgets.notice import (
    Notice,
    attempt,
    cancelled,
    cut,
    following,
    in_thread,
    label,
    shorten,
)
from inspector.tui.widgets.row_list import RowList
from inspector.tui.widgets.selection import MatchingIds, Selection
from inspector.tui.widgets.subject import (
    UNKNOWN,
    UNREAD,
    RecordingTimes,
    TreeSubject,
    figure,
    spilled,
    spills,
)

READ_DELAY_SECONDS = 0.05
"""Before the figures of rows in view are read: keys are answered first."""

MIN_NAME_CELLS = 12
"""Cells of a name below which it is said in fewer how many beneath it failed."""

_STYLES = {TreeKind.ORIGIN: "origin", TreeKind.OPERATORS: "quiet"}

Read = Sequence[tuple[Key, Resources | None]]


def shorten_variant(text: str, width: int) -> str:
    settings, _, ident = text.rpartition(" ")
    if not settings or cell_len(text) <= width:
        return shorten(text, width)
    return f"{shorten_settings(settings, width - cell_len(ident) - 1)} {ident}"


LEGEND_FRAME_CELLS = 4
LEGENDS = (
    "● launched  ★ chosen by tuning  ? this row",
    "● launched  ★ chosen  ? this row",
    "● launched  ★ chosen",
    "? this row",
)
"""What the signs of most rows mean, in the lower border."""


class KernelTree(RowList[TreeRow], can_focus=True, inherit_bindings=False):
    """Origins, graphs, kernels and variants, with registers, warps and spills."""

    BINDINGS = bindings(KeyContext.TREE)
    empty_text = " nothing matches the filter"

    @dataclass
    class Selected(Message):
        """The cursor came to a row that can be read."""

        subject: TreeSubject

    class Filtered(Message):
        """The filter has changed."""

    class Ordered(Message):
        """The order has changed, or more figures decide it."""

    def __init__(
        self, reads: Reader, times: RecordingTimes, notify: Callable[[str], object]
    ) -> None:
        """``told`` is given how a filter fares, or what is wrong with it."""
        super().__init__()
        self.border_title = Content("Kernels")
        self.reads = reads
        self.times = times
        self.order = Order.COMPILED
        self.query_text = self.words = ""
        self.matching_ids: MatchingIds = None
        self.selection = Selection(self, lambda: self.reads, self._select, notify)
        self.marked: tuple[Key, ...] = ()
        # By kernel and variant: two kernels of one object file share its hash.
        self._resources: dict[Key, Resources | None] = {}
        self._read_scheduled = False
        self._last: TreeRow | None = None
        """Where the cursor was, while a filter shows nothing."""
        self._folds: dict[Key, bool] = {}
        self._plant()

    def _plant(self) -> None:
        self._tree = recording_tree(self.reads.recording)
        texts = (row.text for row in rows(self._tree) if row.kind is TreeKind.KERNEL)
        self._shortened = cache(partial(distinct_names, tuple(dict.fromkeys(texts))))
        self._sort()

    def _sort(self) -> None:
        self.entries = ordered(self._tree, self.order, self._resources, self.times.us)

    def on_mount(self) -> None:
        self._rebuild()
        self.go(next((i for i, r in enumerate(self.rows) if r.subject.kernel is not None), 0))

    def _rebuild(self) -> None:
        cursor_row = self._last = self.row or self._last
        self.rows = rows(self.entries, self.words, self._folds, self.matching_ids)
        # The last line of the view says what is filtered: the last row must come above it.
        self.virtual_size = Size(0, len(self.rows) + bool(self.query_text))
        if cursor_row is not None:
            index_by_key = {row.key: index for index, row in enumerate(self.rows)}
            # Its own row, one of the same subject where it came under a graph, or a row above.
            similar = (
                r.key
                for r in self.rows
                if r.subject == cursor_row.subject and r.kind is cursor_row.kind
            )
            ancestors = (cursor_row.key[:end] for end in range(len(cursor_row.key) - 1, 0, -1))
            keys = (cursor_row.key, *similar, *ancestors)
            self.cursor = next((index_by_key[key] for key in keys if key in index_by_key), 0)
        self.refresh()
        self._ask()

    def renew(self, reads: Reader) -> None:
        self.reads = reads
        # One that has come to have so many rows that it would begin folded stays as it is.
        group_rows = (entry.row for entry in walk_entries(self._tree) if entry.row.count)
        self._folds = {row.key: row.open for row in group_rows} | self._folds
        self._plant()
        old_cursor = self.cursor
        selected = self.row
        self._rebuild()
        if selected is None:
            self.on_mount()
        elif moved := self.cursor - old_cursor:
            self.scroll_to(y=self.scroll_offset.y + moved, animate=False, force=True)
        if self.matching_ids is not None:
            self.selection.look(self.query_text)

    def filter(self, text: str) -> None:
        self.selection.look(text)

    def _select(self, query: str, words: str, matching_ids: MatchingIds) -> None:
        self.query_text = query
        self.words = words
        self.matching_ids = matching_ids
        last_row = self._last
        self._rebuild()
        self.post_message(self.Filtered())
        if (words or matching_ids is not None) and self.rows:
            fits = [fitness(row, words) for row in self.rows]
            best = max(fits)
            if not fits[self.cursor] or fits[self.cursor] < best:
                self.go(fits.index(best))
            elif last_row is None or self.rows[self.cursor].subject != last_row.subject:
                self.go(self.cursor)

    def mark(self, marked: tuple[Key, ...]) -> None:
        self.marked = marked
        self.refresh()

    @property
    def rows_in_view(self) -> int:
        return max(0, self.size.height - bool(self.query_text))

    def moved(self) -> None:
        self._ask()
        row = self.row
        if row is not None and (row.subject.kernel is not None or row.subject.graph is not None):
            self.post_message(self.Selected(row.subject))

    def on_resize(self) -> None:
        room = self.outer_size.width - LEGEND_FRAME_CELLS
        legend = next((text for text in LEGENDS if cell_len(text) <= room), "")
        self.border_subtitle = Content(legend)
        self._ask()
        self.reveal()

    def find(self, key: tuple[str, ...]) -> bool:
        """Go to the first row of a subject; without the graph's id, of a variant."""
        all_rows = self._all_rows()
        key_length = len(key)
        return self._show(
            r for r in all_rows if r.subject.key[:key_length] == key and (key_length > 2 or r.leaf)
        )

    def go_to(self, key: Key) -> bool:
        if all(row.key != key for row in self._all_rows()):
            self.filter("")
        return self._show(row for row in self._all_rows() if row.key == key)

    def _all_rows(self) -> tuple[TreeRow, ...]:
        return rows(self.entries, self.words, None, self.matching_ids)

    def _show(self, matches: Iterator[TreeRow]) -> bool:
        key = next((row.key for row in matches), None)
        if key is None:
            return False
        if all(row.key != key for row in self.rows):
            self._folds |= {key[:end]: True for end in range(1, len(key))}
            self._rebuild()
        self.go(next(i for i, row in enumerate(self.rows) if row.key == key))
        return True

    def step(self, direction: int) -> None:
        shown = self._all_rows()
        cursor_row = self.row
        index = next(
            (i for i, row in enumerate(shown) if cursor_row and row.key == cursor_row.key), 0
        )
        other_rows = (shown[index:] + shown[:index])[1:]
        self._show(row for row in other_rows[::direction] if row.leaf)

    def entry(self, key: Key) -> TreeEntry | None:
        return entry_of(self.entries, key)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._ask()

    def _ask(self) -> None:
        if not self._read_scheduled and self.is_mounted:
            self._read_scheduled = True
            self.set_timer(READ_DELAY_SECONDS, self._read_visible)

    def _read_visible(self) -> None:
        self._read_scheduled = False
        top = self.scroll_offset.y
        shown = [row.subject for row in self.rows[top : top + max(1, self.size.height)]]
        if any(subject.variant is not None for subject in shown):
            in_thread(self, lambda: self._read(shown), self._were_read, "figures")

    def _read(self, subjects: Sequence[TreeSubject]) -> Read:
        resources = []
        for subject in subjects:
            if subject.variant is not None and not cancelled():
                answer = attempt(partial(self.reads.facts.resources, subject.variant))
                resources.append((subject.key[:2], None if isinstance(answer, Notice) else answer))
        return resources

    def read_all(self) -> None:
        both = self.reads.recording.variants()
        reads = self.reads

        def read() -> Read:
            attempt(
                lambda: list(reads.facts.read_resources([variant for _, variant in both]))
            )  # tools side by side
            return self._read([TreeSubject(*pair) for pair in both])

        def sort(resources: Read) -> None:
            self._were_read(resources)
            self.reorder()
            self.post_message(self.Ordered())

        in_thread(self, read, sort, "order")

    def _were_read(self, resources: Read) -> None:
        self._resources.update(resources)
        self.refresh()

    def action_order(self) -> None:
        timed = bool(self.times.stored) or bool(self.times.launches)
        available = orders(self.reads.recording, timed)
        self.order = following(available, self.order)
        self.reorder()
        if self.order in (Order.REGISTERS, Order.SPILLS):
            self.read_all()
        self.post_message(self.Ordered())

    @property
    def read_so_far(self) -> tuple[int, int]:
        ids = {(k.id, v.id) for k, v in self.reads.recording.variants()}
        return len(ids & self._resources.keys()), len(ids)

    def timed(self) -> None:
        if self.order is Order.TIME:
            self.reorder()
        self.refresh()

    def reorder(self) -> None:
        self._sort()
        self._rebuild()
        self.reveal()

    def render_line(self, y: int) -> Strip:
        if not self.query_text or y == 0 or y != self.size.height - 1:
            return super().render_line(y)
        width = self.scrollable_content_region.width
        base = self.rich_style
        shown_kernels = {r.subject.kernel.id for r in self.rows if r.subject.kernel is not None}
        kernel_count = f"{len(shown_kernels)} of {len(self.reads.recording.kernels)}"
        text = shorten(f" {kernel_count}  Esc  /{label(self.query_text)}", width)
        return Strip([Segment(text, base + self.part("warning"))]).extend_cell_length(width, base)

    def draw_row(self, index: int, width: int, base: Style) -> Strip:
        row = self.rows[index]
        at_cursor = index == self.cursor
        if at_cursor:
            base += self.part("cursor" if self.has_focus else "cursor-blurred")
        warps, figures, warned = self._figures_of(row)
        time = self.times.launch(row.subject.kernel, row.subject.variant) if row.leaf else None
        measured = "" if time is None or self.order is Order.TIME else f"{time.text}  "
        lead = ("›" if at_cursor else " ") + "  " * row.depth + self._sign(row)
        room = width - cell_len(lead) - cell_len(figures) - 1
        if room < MIN_NAME_CELLS:
            figures = re.sub(r" (?:kernel|variant)s?(?= $)", "", figures)
            figures = re.sub(r"(?<!\d)(\d+) failed +", r"✗\1 ", figures)
            room = width - cell_len(lead) - cell_len(figures) - 1
        for extra in (measured, f"{warps:<8} " if warps else ""):
            if cell_len(row.text + extra) <= room:
                figures = extra + figures
                room -= cell_len(extra)
        text = self._fitted(row, room)
        gap = " " * max(0, width - cell_len(lead + text + figures))
        style = self.part(_STYLES[row.kind]) if row.kind in _STYLES else Style()
        parts = [
            Segment(lead, base + self.part("quiet")),
            Segment(text, base + style),
            Segment(gap, base),
            Segment(figures, base + self.part("warning" if warned else "figures")),
        ]
        return Strip(parts).adjust_cell_length(width, base)

    def _fitted(self, row: TreeRow, room: int) -> str:
        worded = settings_in_words(row.text)
        if cell_len(worded) <= room:
            return worded
        if cell_len(row.text) <= room:
            return row.text
        if row.kind is TreeKind.OPERATORS:
            return cut(row.text, room)
        if row.short:
            telling = row.telling or row.short
            return row.short if cell_len(row.short) <= room else shorten_variant(telling, room)
        short_names = self._shortened(room) if row.kind is TreeKind.KERNEL and room > 0 else {}
        return short_names.get(row.text) or shorten(row.text, room)

    def _sign(self, row: TreeRow) -> str:
        if row.kind is TreeKind.OPERATORS:
            return "∘ "
        if row.count:
            return "▾ " if row.open else "▸ "
        key = row.subject.key[:2]
        variant = row.subject.variant
        mark = "●" if variant is not None and variant.launches else " "
        if key in self.marked:
            mark = "AB"[self.marked.index(key)]
        return f"{mark}{'★' if row.winner else ' '}"

    def _figures_of(self, row: TreeRow) -> tuple[str, str, bool]:
        variant = row.subject.variant
        if row.kind is TreeKind.OPERATORS:
            return "", "", False
        if row.failed and not row.count and (variant is None or variant.uncompiled):
            return "", "failed ", True
        group = row.kind in (TreeKind.ORIGIN, TreeKind.GRAPH) or variant is None
        if row.count or group or variant is None:
            failed = f"{row.failed} failed  " if row.failed else ""
            count = plural(row.count, "kernel" if group else "variant") if row.count else UNKNOWN
            return "", f"{failed}{count} ", bool(failed)
        resources = self._resources.get(row.subject.key[:2]) or variant.recorded_resources
        figures = self._ordered_by(row, variant, resources)
        if variant.error is not None:
            return figures.strip(), "failed ", True
        # Where its siblings have others, the variant's own text tells its warps.
        warps = variant.config.get("num_warps") if row.kind is TreeKind.KERNEL else None
        is_in_title = settings_in_words(row.text) != row.text
        warps_text = f"warps {warps}" if isinstance(warps, int) and not is_in_title else ""
        return warps_text, figures, spilled(resources)

    def _ordered_by(self, row: TreeRow, variant: Variant, resources: Resources) -> str:
        if self.order is Order.TIME:
            return f"{self.times.text(row.subject.kernel, variant)} "
        by_spills = self.order is Order.SPILLS
        warning = "⚠" if spilled(resources) else " "
        text = spills(resources).removesuffix(" ⚠") if by_spills else figure(resources.registers)
        if text == UNKNOWN and row.subject.key[:2] not in self._resources:
            return f"{UNREAD:>3} {warning}"
        return text + warning if by_spills else f"{text:>3}r{warning}"

    def action_unfold(self) -> None:
        row = self.row
        if row is not None and row.count and row.open:
            self.go(self.cursor + 1)
        else:
            self.action_flip()

    def action_fold(self) -> None:
        row = self.row
        if row is not None and row.count and row.open and not self.query_text:
            self.action_flip()
        elif row is not None:
            parents = (i for i, r in enumerate(self.rows) if r.key == row.key[:-1])
            self.go(next(parents, self.cursor))

    def action_flip(self) -> None:
        row = self.row
        if row is not None and row.count:
            self._folds[row.key] = not row.open
            self._rebuild()

    def on_click(self, event: events.Click) -> None:
        if (index := self.clicked(event)) is None:
            return
        self.go(index)
        row = self.rows[index]
        if row.count and event.x <= 2 * row.depth + 2:
            self.action_flip()
        elif event.chain == 2:
            self.call_later(self.run_action, "screen.read")
