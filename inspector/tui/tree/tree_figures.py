"""Figures of the variants in a tree, read in threads: those in view, or all where an order asks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import on, work
from textual.message import Message
from textual.worker import get_current_worker

from inspector.model import Recording, Resources, Variant
from inspector.report.timings import duration
from inspector.tui.panes.listing_outcome import attempt
from inspector.tui.tree.ordering import Order, time_of
from inspector.tui.tree.row_look import TreeRows
from inspector.tui.tree.rows import Key, TreeKind, TreeRow
from inspector.tui.widgets.figures import UNKNOWN, UNREAD, figure, spilled, spills, warps
from inspector.tui.widgets.recorded_times import RecordingTimes
from inspector.tui.widgets.subject import TreeSubject

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

TOGETHER = 48
"""Variants between two answers while all are read: each makes the tree anew."""


def _variants(subjects: Sequence[TreeSubject]) -> list[Variant]:
    return [subject.variant for subject in subjects if subject.variant is not None]


# Threads have a description of their own throughout: Textual's spells out every argument, which of
# a kernel with many variants takes longer than the work.


class TreeFigures(TreeRows, inherit_bindings=False):
    """What has been read, and asking for the rest."""

    class Figures(Message):
        """A thread has read the resources of variants.

        By kernel and variant: two kernels of one object file share its hash.
        """

        def __init__(self, found: tuple[tuple[Key, Resources | None], ...], every: bool) -> None:
            super().__init__()
            self.found = found
            self.every = every

    def __init__(self, reads: Reader, times: RecordingTimes | None = None) -> None:
        super().__init__()
        self.reads = reads
        self.times = times if times is not None else RecordingTimes(reads.recording.path)
        self.order = Order.COMPILED
        self.rows: tuple[TreeRow, ...] = ()
        self._resources: dict[Key, Resources | None] = {}
        self.stale: frozenset[Key] = frozenset()
        """Figures that were read of what the recording held before."""

        self._asked = False

    def reorder(self) -> None:
        """Figures that decide the order have come."""
        raise NotImplementedError

    def tell_order(self) -> None:
        """More is read of what the order is by."""
        raise NotImplementedError

    def on_resize(self) -> None:
        """More rows may be in view."""
        self._ask()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other rows are in view."""
        super().watch_scroll_y(old_value, new_value)
        self._ask()

    def _ask(self) -> None:
        """Have the figures of the rows in view read, once the keys have been answered."""
        if not self._asked and self.is_mounted:
            self._asked = True
            self.set_timer(0.05, self._read_visible)

    def _unread(self, subjects: Sequence[TreeSubject]) -> tuple[TreeSubject, ...]:
        return tuple(
            one for one in subjects
            if one.variant is not None
            and (one.key[:2] not in self._resources or one.key[:2] in self.stale)
        )  # fmt: skip

    def _read_visible(self) -> None:
        self._asked = False
        top = self.scroll_offset.y
        shown = self.rows[top : top + max(1, self.size.height)]
        if wanted := self._unread([row.subject for row in shown]):
            self._read(wanted)

    def read_every(self) -> None:
        """Have the figures of all variants read."""
        self._read_rest(self.reads.recording, frozenset(self._resources))

    def _one(self, subject: TreeSubject) -> tuple[Key, Resources | None]:
        variant = subject.variant
        assert variant is not None
        answer = attempt(lambda: self.reads.resources(variant))
        return subject.key[:2], answer if isinstance(answer, Resources) else None

    @work(thread=True, exclusive=True, group="figures", exit_on_error=False, description="figures")
    def _read(self, subjects: tuple[TreeSubject, ...]) -> None:
        worker = get_current_worker()
        found: list[tuple[Key, Resources | None]] = []
        for subject in subjects:
            if worker.is_cancelled:
                break
            found.append(self._one(subject))
        self.post_message(self.Figures(tuple(found), every=False))

    @work(thread=True, exclusive=True, group="order", exit_on_error=False, description="order")
    def _read_rest(self, recording: Recording, read: frozenset[Key]) -> None:
        worker = get_current_worker()
        wanted = [
            subject
            for subject in (TreeSubject(*pair) for pair in recording.variants())
            if subject.key[:2] not in read
        ]
        # Some at once, so that the tools run side by side.
        for begin in range(0, len(wanted), TOGETHER):
            part = wanted[begin : begin + TOGETHER]
            attempt(lambda part=part: deque(self.reads.figures(_variants(part)), 0))  # type: ignore[misc]
            if worker.is_cancelled:
                return
            self.post_message(self.Figures(tuple(map(self._one, part)), every=True))

    @on(Figures)
    def _were_read(self, message: Figures) -> None:
        """Draw what was read; None is a variant whose cubin cannot be read, asked no more."""
        message.stop()
        self._resources.update(message.found)
        self.stale -= {key for key, _ in message.found}
        if message.every:
            self.reorder()
            self.tell_order()
        self.refresh()

    def time_of(self, row: TreeRow) -> str:
        """The time of a row's variant as it was measured, else its tuner's with a sign."""
        subject = row.subject
        time = self.times.us(subject.kernel, subject.variant)
        if time is not None:
            return f"{duration(time)} µs "
        tuned = None if subject.variant is None else time_of(subject.variant)
        return f"{UNKNOWN} " if tuned is None else f"{duration(tuned)} µs°"

    def measured(self, row: TreeRow) -> str:
        """A time that was measured of the row's variant, where the order shows none already."""
        leaf = row.kind in (TreeKind.KERNEL, TreeKind.VARIANT) and not row.count
        if not leaf or self.order is Order.TIME:
            return ""
        time = self.times.us(row.subject.kernel, row.subject.variant)
        return "" if time is None else f"{duration(time)} µs"

    def figures_of(self, row: TreeRow) -> tuple[str, str, bool]:
        """(warps, what the order is by, spilled) of a row that stands for one variant; of others
        a count. Of one that could not be loaded the first is what the order is by: its name is
        told rather than that."""
        variant = row.subject.variant
        if row.kind is TreeKind.OPERATORS:
            return "", "", False
        failed = f"{row.failed} failed  " if row.failed else ""
        if row.failed and row.kind is TreeKind.GRAPH and not row.count:
            return "", "failed ", True
        if row.kind in (TreeKind.ORIGIN, TreeKind.GRAPH) or variant is None:
            return "", f"{failed}{row.count or UNKNOWN} ", bool(failed)
        if row.count:
            return "", f"{failed}×{row.count} ", bool(failed)
        if variant.uncompiled:
            return "", "failed ", True
        key = row.subject.key[:2]
        resources = self._resources.get(key) or variant.known
        unread = key not in self._resources
        # Where its siblings have others, the variant's own text tells its warps.
        many = warps(variant) if row.kind is TreeKind.KERNEL else None
        spill = spilled(resources)
        if self.order is Order.SPILLS:
            told = spills(resources)
            told = UNREAD if unread and told == UNKNOWN else told.removesuffix(" ⚠")
            shown = told + ("⚠" if spill else " ")
        elif self.order is Order.TIME:
            shown = self.time_of(row)
        else:
            registers = f"{figure(resources.registers):>3}r"
            if unread and resources.registers is None:
                registers = f"{UNREAD:>3} "
            shown = f"{registers}{'⚠' if spill else ' '}"
        if variant.error is not None:
            return shown.strip(), "failed ", True
        return "" if many is None else f"w{many}", shown, spill
