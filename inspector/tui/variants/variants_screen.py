"""All variants of a kernel in one table: sorted by any column, any two of them compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.worker import get_current_worker

from inspector.base.model import Configuration, Kernel, Recording, Stage, Variant
from inspector.base.text import plural
from inspector.diff import variants
from inspector.diff.variants import VariantRow
from inspector.reader.reader import Reader
from inspector.report import diff_text
from inspector.report.tables import refused
from inspector.tui.diff.diff_screen import DiffScreen
from inspector.tui.keys.command_table import BARE, Where, bindings_of
from inspector.tui.variants.columns import FIGURES
from inspector.tui.variants.variant_table import VariantTable
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.prompt import Prompt
from inspector.tui.widgets.recorded_times import RecordingTimes, age
from inspector.tui.widgets.subject import TreeSubject, resolve, told_alike
from inspector.tui.widgets.subject_bar import SubjectBar
from inspector.tui.widgets.threads import in_thread
from inspector.tui.widgets.tool_screen import ToolScreen
from inspector.tui.widgets.visible import label

UPDATE_SECONDS = 0.2
"""Seconds between two tables while the variants are read."""

READ = frozenset(column.name for column in FIGURES)
"""Columns whose order is not final while figures are read."""


@dataclass(frozen=True, slots=True)
class Left:
    """The state on leaving: marked variants, and the variant to open."""

    marked: tuple[TreeSubject, ...]
    read: TreeSubject | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """The variants of a table, with a name; ``wider`` is the next larger scope."""

    name: str
    variants: tuple[tuple[Kernel, Variant], ...]
    kernels: tuple[Kernel, ...]
    wider: Scope | None = None


def whole_scope(recording: Recording) -> Scope:
    """Every variant of a recording."""
    many = plural(len(recording.kernels), "kernel")
    return Scope(f"all of {many}", recording.variants(), recording.kernels)


def scope_of(recording: Recording, name: str, subjects: Sequence[TreeSubject]) -> Scope:
    """The variants of a row of the tree; beyond them those of the recording."""
    pairs = {
        (s.kernel.id, s.variant.id): (s.kernel, s.variant)
        for s in subjects
        if s.kernel is not None and s.variant is not None
    }
    kernels = {s.kernel.id: s.kernel for s in subjects if s.kernel is not None}
    wider = whole_scope(recording)
    more = wider if len(wider.variants) > len(pairs) else None
    return Scope(name, tuple(pairs.values()), tuple(kernels.values()), more)


def recorded(reads: Reader, scope: Scope) -> tuple[VariantRow, ...]:
    """Return the rows without reading a listing."""
    rows = [row_of(reads, kernel, variant) for kernel, variant in scope.variants]
    return (*rows, *(one for k in scope.kernels for one in variants.without_variant(k)))


def row_of(reads: Reader, kernel: Kernel, variant: Variant, code: bool = True) -> VariantRow:
    """A variant's row with the figures that were read so far. ``code``: what is counted are
    instructions of SASS, else of PTX."""
    summary = reads.summaries.of(variant)
    row = VariantRow(
        kernel,
        variant,
        variant.config,
        reads.known_by_now(variant),
        time_us=variants.time_us(variant),
        winner=variants.winner(variant),
        reason=variants.reason(variant),
        unread=summary is None,
    )
    if summary is None:
        return row
    return replace(
        row,
        resources=summary.resources,
        occupancy=summary.occupancy,
        hints=None if variant.uncompiled else summary.hints,
        instructions=summary.instructions if code else summary.ptx_instructions,
        live=summary.live,
        reason=row.reason or summary.lacking,
    )


def generated_from(recording: Recording, row: VariantRow) -> str:
    """The kernels whose code Inductor generated from a candidate of max-autotune's; "" if none."""
    called = {kernel.id: kernel.called for kernel in recording.kernels}
    names = [
        called[use.kernel]
        for tuning in row.kernel.autotune
        for use in tuning.uses
        if use.configuration is not None
        and use.kernel in called
        and _is_of(tuning.configurations[use.configuration], row)
    ]
    return ", ".join(dict.fromkeys(names))


def _is_of(candidate: Configuration, row: VariantRow) -> bool:
    if row.variant is not None:
        return candidate.variant == row.variant.id
    return candidate.variant is None and candidate.config == row.config


def _why_not(row: VariantRow) -> str:
    """Why there is no time of it, and three blanks after it; "" where nothing says so."""
    error = None if row.variant is None else row.variant.error
    told = "" if error is None else refused(error)
    said = f"not loaded: {told}" if told else label(row.reason or "")
    return f"{said}   " if said else ""


class VariantsScreen(ToolScreen[Left]):
    """The table, filled by a thread."""

    BINDINGS = bindings_of(BARE)
    AUTO_FOCUS = "VariantTable"
    wheres: ClassVar = (Where.VARIANTS,)

    def __init__(
        self,
        reads: Reader,
        scope: Scope,
        marked: tuple[TreeSubject, ...] = (),
        at: Variant | None = None,
        times: RecordingTimes | None = None,
        again: Callable[[], Scope] | None = None,
    ) -> None:
        """``again`` returns the current scope, where the recording may grow."""
        super().__init__()
        self.again = again
        self.widened = False
        """Whether it is of the whole recording, though it was of less."""

        self._reading = False
        self.times = times if times is not None else RecordingTimes(reads.recording.path)
        self.reads = reads
        self.scope = scope
        self.bar = SubjectBar("variants", scope.name)
        rows = recorded(reads, scope)
        self.table = VariantTable(rows, self.times.us, marked)
        self.table.cursor = next((i for i, r in enumerate(rows) if at and r.variant is at), 0)
        self.left = sum(row.unread for row in rows)

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.bar
        yield self.table
        yield self.status
        yield self.prompt
        yield self.footer

    def on_mount(self) -> None:
        """Read every variant."""
        self._tell()
        self._begin()

    def _begin(self) -> None:
        """Read every variant of the scope that was not read before."""
        self._reading = True
        reads, scope = self.reads, self.scope
        wanted = [variant for _, variant in scope.variants]
        code = any(Stage.SASS in variant.stages for variant in wanted)
        others = tuple(one for k in scope.kernels for one in variants.without_variant(k))

        def known() -> tuple[VariantRow, ...]:
            return (*(row_of(reads, k, v, code) for k, v in scope.variants), *others)

        def read() -> tuple[VariantRow, ...]:
            worker, last = get_current_worker(), monotonic()
            for done, of in reads.summaries.read(
                wanted, lambda: self.is_attached and not worker.is_cancelled
            ):
                if monotonic() - last > UPDATE_SECONDS and done < of:
                    self.call_later(self._known, reads, scope, known(), of - done)
                    last = monotonic()
            return known()

        def ended(rows: tuple[VariantRow, ...] | Notice) -> None:
            if isinstance(rows, Notice):
                # What could not be read is not read later either.
                why = rows.message
                rows = tuple(
                    replace(row, unread=False, reason=row.reason or why) if row.unread else row
                    for row in known()
                )
            self._known(reads, scope, rows, 0)

        in_thread(self, read, ended, "variants")

    def renew(self, reads: Reader) -> None:
        """Show a recording that has grown; new variants are read after the earlier ones."""
        before, was = self.reads, self.scope
        self.reads = reads
        if self.again is not None:
            scope = self.again()
            self.scope = scope.wider or scope if self.widened else scope
            self.bar.name_text = self.scope.name
        self.table.marked = tuple(resolve(reads.recording, one) for one in self.table.marked)
        self._keep(before, was)
        rows = recorded(self.reads, self.scope)
        self.left = sum(row.unread for row in rows)
        self.table.grow(rows)
        self._tell()
        if not self._reading:
            self._begin()

    def _keep(self, before: Reader, was: Scope) -> None:
        """What was read of a variant that is as it was need not be read again."""
        own = {(v.hash, v.symbol): v for _, v in was.variants}
        for _, variant in self.scope.variants:
            earlier = own.get((variant.hash, variant.symbol))
            summary = None if earlier is None else before.summaries.of(earlier)
            if summary is not None and told_alike(earlier, variant):
                self.reads.summaries.know(variant, summary)

    @property
    def home(self) -> VariantTable:
        """The widget that has the focus when nobody types."""
        return self.table

    @property
    def settled(self) -> bool:
        """Whether every variant was read."""
        return self.left == 0

    def _known(self, reads: Reader, scope: Scope, rows: tuple[VariantRow, ...], left: int) -> None:
        """Show some more of a scope; ``left`` variants are not read yet."""
        self.left = left
        if scope is not self.scope:  # there are more now
            self._keep(reads, scope)
            rows = recorded(self.reads, self.scope)
            self.left = sum(row.unread for row in rows)
        self.table.renew(rows)
        self._tell()
        if left == 0:
            self._reading = False
            if self.left:
                self._begin()

    @on(VariantTable.Changed)
    def _tell(self) -> None:
        many = len(self.scope.variants)
        shown = sum(row.variant is not None for row in self.table.rows)
        parts = [
            plural(many, "variant")
            if shown == many or not self.table.query_text
            else f"{shown} of {plural(many, 'variant')}"
        ]
        others = Counter(diff_text.absent(row) for row in self.table.known if row.variant is None)
        parts += [f"{count} {words}" for words, count in others.items()]
        name = self.table.sorted
        if name is not None and self.left and name in READ:
            parts.append(f"◔ by {name} ({many - self.left} of {many} read)")
        else:
            if self.left:
                parts.append(f"◔ {many - self.left} of {many} read")
            parts += [f"by {name}"] if name is not None else []
        if self.table.query_text:
            parts.append(f"/{label(self.table.query_text)}")
        self.bar.tell(" · ".join(parts))
        names = [
            f"{letter} {label(one.key[1])}"
            for letter, one in zip("AB", self.table.marked, strict=False)
        ]
        hint = (
            "d marks two variants, D compares them",
            "d marks another, D compares it with this",
            "D compares them",
        )[len(names)]
        row = self.table.row
        reason = "" if row is None else _why_not(row)
        if row is not None and (made := generated_from(self.reads.recording, row)):
            reason += f"{label(made)} was generated from it.   "
        why = ""
        if row is not None and (taken := self.times.latest(row.kernel, row.variant)) is not None:
            why += f"   Measured {age(taken)}, {taken.timing.cache} L2."
        marked = f"Marked: {', '.join(names)}. " if names else ""
        wider = "" if self.scope.wider is None or names else ", V shows those of the recording"
        self.status.say(f"{reason}{marked}{hint}{wider}.{why}", cuts_end=bool(reason))

    @on(VariantTable.Chosen)
    def _open(self) -> None:
        self.action_open()

    @on(Prompt.Edited)
    def _edited(self, message: Prompt.Edited) -> None:
        message.stop()
        self.table.filter(message.text)

    @on(Prompt.Closed)
    def _filtered(self, message: Prompt.Closed) -> None:
        message.stop()
        self.status.display = True
        if not message.accepted:
            self.table.filter("")
        self.set_focus(self.table)

    # Commands

    def action_diff(self) -> None:
        """Compare the two that are marked, or the one that is marked with the one here."""
        row, marked = self.table.row, self.table.marked
        here = None if row is None else self.table.subject(row)
        pair = (*marked, here) if len(marked) < 2 and here not in marked else marked
        a, b = (*pair, None, None)[:2]
        if a is None or b is None:
            self.status.say("It takes two variants to compare: mark each with d.")
        else:
            self.app.push_screen(DiffScreen(self.reads, a, b))

    def action_open(self) -> None:
        """Go to the variant, and close the table."""
        row = self.table.row
        own = None if row is None else self.table.subject(row)
        if own is None:
            certain = row is not None and row.compiled is False
            self.status.say(
                "It was not compiled: there is nothing to read."
                if certain
                else "It is not known which variant this is, so there is nothing to read."
            )
        else:
            self.dismiss(Left(self.table.marked, own))

    def action_filter(self) -> None:
        """Only rows with the words that one types."""
        self.ask("filter", self.table.query_text)

    def action_wider(self) -> None:
        """Every variant of the recording, where it was less."""
        wider = self.scope.wider
        if wider is None:
            self.status.say("This is every variant of the recording.")
            return
        row = self.table.row
        self.scope, self.bar.name_text, self.widened = wider, wider.name, True
        rows = recorded(self.reads, wider)
        self.left = sum(one.unread for one in rows)
        self.table.renew(rows)
        if row is not None and row.variant is not None:
            self.table.show(row)
        self._tell()
        self._begin()

    def action_escape(self) -> None:
        """Forget the filter, else close the table."""
        if self.table.query_text:
            self.table.filter("")
        else:
            self.action_back()

    def action_back(self) -> None:
        """Close the table."""
        self.dismiss(Left(self.table.marked))
