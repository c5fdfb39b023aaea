"""All variants of a kernel in one table: sorted by any column, any two of them compared.

One module because the table, its columns and the screen that reads their figures are one thing.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from time import monotonic
from typing import ClassVar, NamedTuple, cast

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.strip import Strip
from textual.worker import get_current_worker

from inspector.analyse.tuner_times import TunerFacts, tuner_facts
from inspector.base.model import Configuration, Kernel, Recording, Stage, Tuning, Variant
from inspector.base.text import plural
from inspector.diff import variants
from inspector.diff.variants import VariantRow
from inspector.measure.launch_time import LaunchTime
from inspector.reader.reader import Reader
from inspector.report import diff_text, tunings
from inspector.report.diff_text import absent, settings
from inspector.report.tables import TILE, apart, brief, fit, padded, refused, shared, specialised
from inspector.report.timings import duration
from inspector.tui.diff.diff_screen import DiffScreen
from inspector.tui.keys.command_table import BARE, Where, bindings, bindings_of
from inspector.tui.widgets.notice import Notice, cut, following, in_thread, label
from inspector.tui.widgets.row_list import Table
from inspector.tui.widgets.selection import Chosen, Selection
from inspector.tui.widgets.subject import (
    UNKNOWN,
    UNREAD,
    RecordingTimes,
    TreeSubject,
    age,
    resolve,
    spills,
    told_alike,
)
from inspector.tui.widgets.tool_screen import SubjectBar, ToolScreen

Value = float | str | None

MAX_CELLS = 24
"""Cells of a column at most, but for the configuration as a whole, kernels and reasons."""

CHOICE = "choice"
"""What max-autotune calls a candidate, which is after its settings."""

LaunchTimeOf = Callable[[Kernel | None, Variant | None], LaunchTime | None]


class VariantColumn(Struct, frozen=True):
    """``value`` is what rows are sorted by, None last; ``text`` its cell where that is more.

    ``least`` is whether the least is the best; ``read`` whether figures are read in a thread.
    """

    name: str
    value: Callable[[VariantRow], Value]
    text: Callable[[VariantRow], str] | None = None
    head: str = ""
    right: bool = True
    least: bool = True
    read: bool = False

    def cell(self, row: VariantRow) -> str:
        """The text of a row; "…" for a figure that is not read yet."""
        value = self.value(row)
        text = self.text(row) if self.text else UNKNOWN if value is None else label(str(value))
        return UNREAD if self.read and row.unread and (value is None or text == UNKNOWN) else text


def _ident(row: VariantRow) -> str:
    if row.variant is not None:
        return label(row.variant.id)
    choice = "" if row.maker in (None, "Triton") else row.config.get(CHOICE) or ""
    return label(f"{absent(row)} {choice}".strip())


def _time(us: float | None) -> str:
    return UNKNOWN if us is None else f"{duration(us)} µs"


def _sign(row: VariantRow) -> str:
    failed = (row.reason or "").partition(":")[0] == "failed"
    chosen = tunings.STAR if row.winner else "✗" if failed else " "
    return chosen + tunings.BEST_BY_GPU * row.gpu_best


def _launches(row: VariantRow) -> str:
    """The program's launches; an autotuner's own where there are no others."""
    variant = row.variant
    if variant is None or variant.launches is None:
        return UNKNOWN
    tried = 0 if variant.launches else variant.benchmarks
    return f"benchmarked {tried}×" if tried else str(variant.launches)


IDENT = VariantColumn("variant", _ident, _ident, right=False)
WINNER = VariantColumn("winner", lambda r: r.winner, _sign, "★", right=False, least=False)
TUNED = VariantColumn("tuner's", lambda r: r.time_us, lambda r: r.at_most + _time(r.time_us))
"""What the program's own tuner measured: by another stopwatch, on its own inputs."""
TUNED_ON_GPU = VariantColumn("gpu", lambda r: r.gpu_us, lambda r: _time(r.gpu_us), "tuner's GPU")
"""What the GPU took for the launches that the tuner measured."""
FIGURES = (
    VariantColumn("registers", lambda r: r.resources.registers, head="regs", read=True),
    VariantColumn("spills", lambda r: r.spills, lambda r: spills(r.resources), read=True),
    VariantColumn("shared", lambda r: r.shared, lambda r: shared(r.resources), read=True),
    VariantColumn(
        "occupancy",
        lambda r: r.occupancy,
        lambda r: UNKNOWN if r.occupancy is None else f"{r.occupancy:.4g} %",
        "occup.",
        least=False,
        read=True,
    ),
    VariantColumn("hints", lambda r: r.hints, read=True),
    VariantColumn("instructions", lambda r: r.instructions, head="instr.", read=True),
    VariantColumn("live", lambda r: r.live, read=True),
)
LAUNCHES = VariantColumn(
    "launches", lambda r: r.variant.launches if r.variant else None, _launches, least=False
)
SPECIALISED = VariantColumn(
    "specialised",
    lambda r: (" ".join(specialised(r.variant)) or None) if r.variant else None,
    right=False,
)
KERNEL = VariantColumn(
    "kernel", lambda r: r.kernel.called.casefold(), lambda r: label(r.kernel.called), right=False
)
REASON = VariantColumn(
    "reason", lambda r: r.reason, lambda r: label(r.reason or ""), "why not", right=False
)
GIVEN_UP = (
    "specialised",
    "launches",
    "live",
    "reason",
    "shared",
    "spills",
    "instructions",
    "hints",
    "occupancy",
)
"""Columns that a narrow table leaves out, in this order."""
SPARED = (*GIVEN_UP[:3], "hints")
"""Columns that give way to columns of single settings."""
MIN_CELLS = (
    ("reason", 18),
    ("configuration", 24),
    ("kernel", 36),
    ("configuration", 12),
    ("kernel", 20),
)
"""Columns that are cut where a table is too wide, in this order, and how far."""


def _setting(name: str, row: VariantRow) -> Value:
    value = row.config.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None if value is None else str(value)
    return value


def differing(rows: Sequence[VariantRow]) -> Iterator[str]:
    """Settings that differ, constexprs first; what another maker than Triton made has none."""
    names = dict.fromkeys(name for row in rows for name in row.config if name != "flags")
    own = ("num_warps", "num_stages", "num_ctas", "maxnreg", CHOICE)
    ordered = [n for n in names if n not in own] + [n for n in own if n in names]
    set_by = [row for row in rows if row.maker in (None, "Triton")]
    for name in ordered:
        if len({repr(row.config.get(name)) for row in set_by or rows}) > 1:
            yield name


def _whole(names: Sequence[str]) -> VariantColumn:
    wanted = dict.fromkeys((*TILE, *names) if set(TILE) & set(names) else names)

    def told(row: VariantRow) -> str:
        return brief({name: row.config.get(name) for name in wanted})

    def value(row: VariantRow) -> str:
        return re.sub(r"\d+", lambda found: found[0].zfill(12), told(row))

    return VariantColumn("configuration", value, lambda r: label(told(r)), "config.", right=False)


def columns(
    rows: Sequence[VariantRow], width: int, of: LaunchTimeOf
) -> list[tuple[VariantColumn, int]]:
    def us(row: VariantRow) -> float | None:
        time = of(row.kernel, row.variant)
        return None if time is None else time.us

    def text(row: VariantRow) -> str:
        time = of(row.kernel, row.variant)
        return UNKNOWN if time is None else time.text

    own = VariantColumn("time", us, text)
    several = len({row.kernel.name for row in rows}) > 1
    tuned = any(row.time_us is not None for row in rows)
    wanted = {
        own: not tuned or any(us(row) is not None for row in rows),
        TUNED: tuned,
        TUNED_ON_GPU: any(row.gpu_us is not None for row in rows),
        **dict.fromkeys(FIGURES, True),
        LAUNCHES: any(LAUNCHES.value(row) is not None for row in rows),
        SPECIALISED: len({SPECIALISED.value(row) for row in rows}) > 1,
        REASON: not several and any(row.reason for row in rows),
    }
    figures = [column for column, there in wanted.items() if there]
    each = [VariantColumn(name, partial(_setting, name)) for name in differing(rows)]
    whole = [_whole([one.name for one in each])] if each or several else []
    first = [*([KERNEL] if several else []), IDENT, WINNER]
    cuts = MIN_CELLS if several else MIN_CELLS[:2]
    for told, spared in ((whole, GIVEN_UP),) if several else ((each, SPARED), (whole, GIVEN_UP)):
        kept = [*first, *told, *figures]
        full = {one.name: _size(one, rows) for one in kept}
        sizes = fit(full, width - 2, (*cuts, *((name, 0) for name in spared)))
        if sum(sizes.values()) + 2 * len(sizes) <= width:
            break
    return [(one, sizes[one.name]) for one in kept if one.name in sizes]


def _size(column: VariantColumn, rows: Iterable[VariantRow]) -> int:
    """The widest cell; the head has room for the sign of the order."""
    head = cell_len(column.head or column.name) + 1
    found = max([head, *(cell_len(column.cell(row)) for row in rows)])
    whole = column.name in ("configuration", "kernel", "reason")
    return found if whole else min(found, max(head, MAX_CELLS))


def ordered(
    rows: Sequence[VariantRow], column: VariantColumn, worst_first: bool
) -> list[VariantRow]:
    known = [(value, row) for row in rows if (value := column.value(row)) is not None]
    # Numbers come before words in both directions.
    numbers = [one for one in known if not isinstance(one[0], str)]
    words = [one for one in known if isinstance(one[0], str)]
    for each in (numbers, words):
        each.sort(key=itemgetter(0), reverse=worst_first == column.least)
    rest = [row for row in rows if column.value(row) is None]
    return [*(row for _, row in numbers + words), *rest]


class VariantTable(Table[VariantRow], can_focus=True, inherit_bindings=False):
    """One row a variant, then one for each other configuration of a tuner's."""

    BINDINGS = bindings(Where.VARIANTS)

    def __init__(
        self,
        rows: tuple[VariantRow, ...],
        measured: LaunchTimeOf,
        marked: tuple[TreeSubject, ...],
        reads: Callable[[], Reader],
        told: Callable[[str], object],
    ) -> None:
        super().__init__()
        self.measured = measured
        self.known = self.rows = rows
        self.marked = marked
        self.sorted: str | None = None
        self.words, self.chosen = "", cast(Chosen, None)
        self.selection = Selection(self, reads, self._select, told)
        self.reversed = False
        self.columns: list[tuple[VariantColumn, int]] = []
        self._names: dict[str, str] = {}

    def renew(self, rows: tuple[VariantRow, ...]) -> None:
        before, top = self.cursor, self.scroll_offset.y
        self.known = rows
        self.lay()
        if self.cursor != before:
            self.scroll_to(y=top + self.cursor - before, animate=False, force=True)

    @staticmethod
    def subject(row: VariantRow) -> TreeSubject | None:
        return None if row.variant is None else TreeSubject(row.kernel, row.variant)

    def lay(self) -> None:
        here = self.row
        self.columns = columns(self.known, self.scrollable_content_region.width - 4, self.measured)
        wanted, chosen = self.words.casefold().split(), self.chosen
        rows = [
            row
            for row in self.known
            if _fits(row, wanted)
            and (chosen is None or (row.kernel.id, row.variant and row.variant.id) in chosen)
        ]
        column = next((c for c, _ in self.columns if c.name == self.sorted), None)
        if column is not None:
            rows = ordered(rows, column, self.reversed)
        rows = [
            row
            for each in dict.fromkeys(row.round for row in self.known)
            if (of := [one for one in rows if one.round == each])
            for row in (*([replace(of[0], variant=None, head=True)] if each else ()), *of)
        ]
        names = [KERNEL.cell(row) for row in self.known]
        own = (size for one, size in self.columns if one is KERNEL)
        self._names = apart(names, next(own, max(map(cell_len, names), default=0)))
        same = (i for i, row in enumerate(rows) if here is not None and _same(row, here))
        self.show_rows(rows, next(same, self.cursor))

    on_resize = lay

    def filter(self, text: str) -> None:
        self.selection.look(text)

    def _select(self, query: str, words: str, chosen: Chosen) -> None:
        self.query_text, self.words, self.chosen = query, words, chosen
        self.lay()

    def sort(self, name: str) -> None:
        self.reversed = name == self.sorted and not self.reversed
        self.sorted = name
        self.lay()

    def action_sort(self, by: int) -> None:
        names = [c.name for c, _ in self.columns]
        self.sorted, self.reversed = following(names, self.sorted, by), False
        self.lay()

    def action_reverse(self) -> None:
        self.sort(self.sorted or IDENT.name)

    def action_mark(self) -> None:
        own = None if self.row is None else self.subject(self.row)
        if own is not None:
            self.marked = own.marked_in(self.marked)
            self.refresh()
            self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        offset, at = event.get_content_offset(self), 4
        for column, size in self.columns if offset is not None and offset.y == 0 else ():
            if offset is not None and at <= offset.x < at + size + 2:
                self.sort(column.name)
            at += size + 2

    def draw_row(self, index: int, width: int, base: Style) -> Strip:
        row, here = self.rows[index], index == self.cursor
        if row.head:
            plain = base + self.part("cursor" if here else "origin")
            text = cut(f"  {label(row.round)}", width)
            return Strip([Segment(text, plain)]).adjust_cell_length(width, plain)
        if row.variant is None:
            base += self.part("quiet")
        elif row.winner:
            base += self.part("loud")
        if here:
            base += self.part("cursor")
        own = self.subject(row)
        mark = "AB"[self.marked.index(own)] if own in self.marked else " "
        parts = [Segment(f"{'▸' if here else ' '}{mark}  ", base + self.part("mark"))]
        for column, size in self.columns:
            text = column.cell(row)
            text = self._names.get(text, text) if column is KERNEL else text
            parts.append(Segment(f"{padded(text, size, column.right)}  ", base))
        return Strip(parts).adjust_cell_length(width, base)

    def draw_head(self, width: int) -> Strip:
        plain, loud = (self.rich_style + self.part(name) for name in ("head", "sorted"))
        parts = [Segment("    ", plain)]
        for column, size in self.columns:
            here = column.name == self.sorted
            # The sign says which end of the numbers is above: ▲ the least.
            up = self.reversed != column.least
            text = f"{column.head or column.name}{('▲' if up else '▼') if here else ''}"
            parts.append(Segment(f"{padded(text, size, column.right)}  ", loud if here else plain))
        return Strip(parts).adjust_cell_length(width, plain)


def _fits(row: VariantRow, wanted: list[str]) -> bool:
    kernel, variant = row.kernel, row.variant
    words = [kernel.name, kernel.demangled, kernel.origin.value, settings(row.config)]
    words += [] if variant is None else [variant.id, variant.target or "", *specialised(variant)]
    text = " ".join(words).casefold()
    digest = "" if variant is None else variant.hash
    return all(word in text or digest.startswith(word) for word in wanted)


def _same(one: VariantRow, other: VariantRow) -> bool:
    if (one.round, one.head) != (other.round, other.head):
        return False
    if one.variant is None or other.variant is None:
        return one.variant is other.variant and one.config == other.config
    return one.variant.hash == other.variant.hash and one.variant.symbol == other.variant.symbol


UPDATE_SECONDS = 0.2

READ = frozenset(column.name for column in FIGURES)
"""Columns whose order is not final while figures are read."""

MARKING = (
    "d marks two variants, D compares them",
    "d marks another, D compares it with this",
    "D compares them",
)
"""What to do, by how many variants are marked."""


Left = tuple[tuple[TreeSubject, ...], TreeSubject | None]
"""The state on leaving: marked variants, and the variant to open."""


class Scope(NamedTuple):
    """The variants of a table, with a name."""

    name: str
    variants: tuple[tuple[Kernel, Variant], ...]
    kernels: tuple[Kernel, ...]


def whole_scope(recording: Recording) -> Scope:
    many = plural(len(recording.kernels), "kernel")
    return Scope(f"all of {many}", recording.variants(), recording.kernels)


def scope_of(name: str, subjects: Sequence[TreeSubject]) -> Scope:
    pairs = {s.key[:2]: (s.kernel, s.variant) for s in subjects if s.kernel and s.variant}
    kernels = {s.kernel.id: s.kernel for s in subjects if s.kernel}
    return Scope(name, tuple(pairs.values()), tuple(kernels.values()))


def recorded(reads: Reader, scope: Scope) -> tuple[VariantRow, ...]:
    code = any(Stage.SASS in variant.stages for _, variant in scope.variants)
    facts = tuner_facts(reads.recording, {})
    rows = [_row(reads, kernel, variant, code) for kernel, variant in scope.variants]
    first = scope.kernels[0] if len(scope.kernels) == 1 else None
    if first is not None and (len(first.autotune) > 1 or any(t.operation for t in first.autotune)):
        return tuple(_in_rounds(first, rows, facts))
    # A time of one of several rounds says nothing beside those of others.
    rows = [replace(row, time_us=None) if len(row.kernel.autotune) > 1 else row for row in rows]
    rows += [one for k in scope.kernels for one in variants.without_variant(k)]
    return tuple(_of_one_round(row, facts) for row in rows)


def _of_one_round(row: VariantRow, facts: TunerFacts) -> VariantRow:
    """A row with what is known of the only round of its kernel."""
    row = replace(row, overhead_us=facts.overheads_us.get(variants.stopwatch(row)))
    for tuning in row.kernel.autotune if len(row.kernel.autotune) == 1 else ():
        for one in tuning.configurations:
            if row.variant is not None and one.variant == row.variant.id:
                return _judged(row, tuning, one, facts)
    return row


def _judged(
    row: VariantRow, tuning: Tuning, candidate: Configuration, facts: TunerFacts
) -> VariantRow:
    """A row with the GPU's time of its candidate in a round."""
    return replace(
        row,
        gpu_us=None if candidate.gpu_time is None else candidate.gpu_time.median_us,
        gpu_best=candidate in facts.tied_by_gpu(tuning),
        verdict=tunings.verdict(row.kernel, tuning, facts),
    )


def _in_rounds(
    kernel: Kernel, rows: Sequence[VariantRow], facts: TunerFacts
) -> Iterator[VariantRow]:
    """The candidates of each round by time, with its choice; then what no round tried."""
    known = {row.variant.id: row for row in rows if row.variant is not None}
    for number, tuning in enumerate(kernel.autotune):
        remarks = tunings.remarks(kernel, tuning, facts)
        heading = " · ".join((tunings.about(kernel, number), *remarks))
        for place, one in tunings.by_time(tuning):
            best = place == tuning.best
            row = known.get(one.variant or "") or variants.candidate(kernel, one, best)
            reason = one.reason or row.reason
            row = replace(row, time_us=one.time_us, winner=best, reason=reason, round=heading)
            row = _judged(row, tuning, one, facts)
            yield replace(row, overhead_us=facts.overhead_us(tuning))
    tried = {one.variant for tuning in kernel.autotune for one in tuning.configurations}
    for ident, row in known.items():
        if ident not in tried:
            yield replace(row, time_us=None, winner=None, round="in no round of tuning")


def _row(reads: Reader, kernel: Kernel, variant: Variant, code: bool) -> VariantRow:
    summary = reads.summaries.summary_of(variant)
    row = VariantRow(
        kernel,
        variant,
        {**variant.config, **({"tile": variant.tile} if variant.tile else {})},
        variant.known,
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
    called = {kernel.id: kernel.called for kernel in recording.kernels}
    own = None if row.variant is None else row.variant.id
    made = (
        (use.kernel, tuning.configurations[use.configuration])
        for tuning in row.kernel.autotune
        for use in tuning.uses
        if use.configuration is not None and use.kernel in called
    )
    names = [
        called[kernel]
        for kernel, candidate in made
        if candidate.variant == own and (own is not None or candidate.config == row.config)
    ]
    return ", ".join(dict.fromkeys(names))


def _why_not(row: VariantRow) -> str:
    error = None if row.variant is None else row.variant.error
    told = "" if error is None else refused(error)
    return f"not loaded: {told}" if told else label(row.reason or "")


class VariantsScreen(ToolScreen[Left]):
    """The table, filled by a thread."""

    BINDINGS = bindings_of(BARE)
    AUTO_FOCUS = "VariantTable"
    wheres: ClassVar = (Where.VARIANTS,)

    def __init__(
        self,
        reads: Reader,
        marked: tuple[TreeSubject, ...],
        at: Variant | None,
        times: RecordingTimes,
        again: Callable[[], Scope],
    ) -> None:
        """``again`` returns the scope, which may grow."""
        super().__init__()
        self.reads, self.times, self.again = reads, times, again
        self.scope = again()
        self.bar = SubjectBar("variants", self.scope.name)
        self._reading = False
        self._failed = ""
        """Why figures could not be read: what is unread then stays so."""
        rows = recorded(reads, self.scope)
        self.table = VariantTable(rows, self.times.launch, marked, lambda: self.reads, self.note)
        self.table.cursor = next((i for i, r in enumerate(rows) if at and r.variant is at), 0)

    def compose(self) -> ComposeResult:
        yield from (self.bar, self.table, *self.below)

    def on_mount(self) -> None:
        self._read()

    def _read(self) -> None:
        if self._reading or self.settled:
            return
        self._reading = True
        reads, wanted = self.reads, [variant for _, variant in self.scope.variants]

        def read() -> None:
            worker, last = get_current_worker(), monotonic()
            for _ in reads.summaries.read(
                wanted, lambda: self.is_attached and not worker.is_cancelled
            ):
                if monotonic() - last > UPDATE_SECONDS:
                    self.call_later(self._show)
                    last = monotonic()

        def ended(answer: Notice | None) -> None:
            self._reading = False
            self._failed = answer.message if answer is not None else ""
            if reads is not self.reads:  # there are more now
                self._keep(reads)
            self._show()
            self._read()

        in_thread(self, read, ended, "variants", failed=ended)

    def _show(self) -> None:
        rows, why = recorded(self.reads, self.scope), self._failed
        self.table.renew(
            tuple(
                replace(row, unread=False, reason=row.reason or why) if why and row.unread else row
                for row in rows
            )
        )

    def renew(self, reads: Reader) -> None:
        before, self.reads = self.reads, reads
        self.table.marked = tuple(resolve(reads.recording, one) for one in self.table.marked)
        self._look_at(self.again(), before)

    def _look_at(self, scope: Scope, before: Reader) -> None:
        self.scope, self.bar.name_text = scope, scope.name
        self._keep(before)
        self._show()
        self._read()

    @property
    def widest(self) -> bool:
        return len(self.scope.variants) == len(self.reads.recording.variants())

    def _keep(self, before: Reader) -> None:
        own = {(v.hash, v.symbol): v for _, v in before.recording.variants()}
        for _, variant in self.scope.variants:
            earlier = own.get((variant.hash, variant.symbol))
            summary = None if earlier is None else before.summaries.summary_of(earlier)
            if summary is not None and told_alike(earlier, variant):
                self.reads.summaries.know(variant, summary)

    @property
    def home(self) -> VariantTable:
        return self.table

    @property
    def left(self) -> int:
        return len({id(row.variant) for row in self.table.known if row.unread})

    @property
    def settled(self) -> bool:
        return self.left == 0

    @on(VariantTable.Moved)
    def _tell(self) -> None:
        table, row, many = self.table, self.table.row, len(self.scope.variants)
        every = plural(many, "variant")
        shown = len({id(one.variant) for one in table.rows if one.variant is not None})
        parts = [f"{shown} of {every}" if table.query_text and shown < many else every]
        absent = {(repr(r.config), diff_text.absent(r)) for r in table.known if r.variant is None}
        others = Counter(words for _, words in absent)
        parts += [f"{count} {words}" for words, count in others.items()]
        if self.left:
            parts.append(f"◔ {many - self.left} of {many} read")
        if table.sorted is not None:
            parts.append(f"{'◔ ' if self.left and table.sorted in READ else ''}by {table.sorted}")
        if table.query_text:
            parts.append(f"/{label(table.query_text)}")
        self.bar.tell(right=" · ".join(parts))
        pairs = zip("AB", table.marked, strict=False)
        marked = ", ".join(f"{letter} {label(one.key[1])}" for letter, one in pairs)
        wider = "" if self.widest or marked else ", V shows those of the recording"
        said = [f"{MARKING[len(table.marked)]}{wider}."]
        if marked:
            said[0] = f"Marked: {marked}. {said[0]}"
        if row is not None and not row.head:
            made = generated_from(self.reads.recording, row)
            generated = f"{label(made)} was generated from it." if made else ""
            judged = row.verdict if row.winner or row.gpu_best else ""
            verdict = f"{label(judged[:1].upper() + judged[1:])}." if judged else ""
            said[:0] = [one for one in (_why_not(row), generated, verdict) if one]
            if row.at_most:
                said.append(f"≤ is mostly launch overhead, {_time(row.overhead_us)} at most.")
            if taken := self.times.latest(row.kernel, row.variant):
                said.append(f"Measured {age(taken.taken)}, {taken.timing.cache} L2.")
        self.status.say("   ".join(said))

    def action_diff(self) -> None:
        row, marked = self.table.row, self.table.marked
        here = None if row is None else self.table.subject(row)
        pair = (*marked, here) if len(marked) < 2 and here not in marked else marked
        a, b = (*pair, None, None)[:2]
        if a is None or b is None:
            self.status.say("It takes two variants to compare: mark each with d.")
        else:
            self.app.push_screen(DiffScreen(self.reads, a, b))

    @on(VariantTable.Chosen)
    def action_open(self) -> None:
        row = self.table.row
        own = None if row is None else self.table.subject(row)
        if own is not None:
            self.dismiss((self.table.marked, own))
        elif row is not None and row.head:
            self.status.say(label(row.round))
        else:
            known = row is not None and row.compiled is False
            why = "was not compiled" if known else "is not known which variant this is"
            self.status.say(f"It {why}: there is nothing to read.")

    def action_filter(self) -> None:
        def done(text: str | None) -> None:
            if text is None:
                self.table.filter("")

        self.ask("filter", self.table.query_text, done, self.table.filter)

    def action_wider(self) -> None:
        if self.widest:
            self.status.say("This is every variant of the recording.")
        else:
            self.again = lambda: whole_scope(self.reads.recording)
            self._look_at(self.again(), self.reads)

    def action_escape(self) -> None:
        if self.table.query_text:
            self.table.filter("")
        else:
            self.action_back()

    def action_back(self) -> None:
        self.dismiss((self.table.marked, None))
