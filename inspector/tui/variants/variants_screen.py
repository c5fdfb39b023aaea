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
from textual.content import Content
from textual.strip import Strip
from textual.worker import get_current_worker

from inspector.analysis.tuner_times import TunerFacts, tuner_facts
from inspector.base.model import Configuration, Kernel, Recording, Stage, Tuning, Variant
from inspector.base.units import plural
from inspector.diff import variants
from inspector.diff.variants import VariantRow
from inspector.reader.query import folded, has_word, kernel_words
from inspector.reader.reader import Reader
from inspector.render import diff_text, tunings
from inspector.render.columns import COLUMNS
from inspector.render.diff_text import absent_text, settings_of
from inspector.render.kernel_names import distinct_names
from inspector.render.labels import specializations
from inspector.render.tables import (
    BEST_BY_GPU,
    STAR,
    TILE,
    exceeded_resource,
    fit,
    padded,
    settings_text,
)
from inspector.render.timings import duration
from inspector.render.verify import WORDS
from inspector.tui.diff.diff_screen import DiffScreen
from inspector.tui.keys.command_table import BARE, KeyContext, bindings, bindings_of
from inspector.tui.widgets.notice import Notice, cut, following, in_thread, label
from inspector.tui.widgets.row_list import Table
from inspector.tui.widgets.selection import MatchingIds, Selection
from inspector.tui.widgets.subject import (
    UNKNOWN,
    UNREAD,
    RecordingTimes,
    TreeSubject,
    age,
    resolve,
    same_but_launches,
    spills,
)
from inspector.tui.widgets.tool_screen import SubjectBar, ToolScreen
from inspector.verify.verdicts import SEVERITY, Verdict

Value = float | str | None

MAX_CELLS = 24
"""Cells of a column at most, but for the configuration as a whole, kernels and reasons."""

CHOICE = "choice"
"""What max-autotune calls a candidate, which is after its settings."""


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
        if self.text:
            text = self.text(row)
        elif value is None:
            text = UNKNOWN
        else:
            text = label(str(value))
        unknown = value is None or text == UNKNOWN
        return UNREAD if self.read and row.unread and unknown else text


def _ident(row: VariantRow) -> str:
    if row.variant is not None:
        return label(row.variant.id)
    choice = "" if row.maker in (None, "Triton") else row.config.get(CHOICE) or ""
    return label(f"{absent_text(row)} {choice}".strip())


def _time(us: float | None) -> str:
    return UNKNOWN if us is None else f"{duration(us)} µs"


def _sign(row: VariantRow) -> str:
    mark = " "
    if row.winner:
        mark = STAR
    elif (row.reason or "").partition(":")[0] == "failed":
        mark = "✗"
    return mark + BEST_BY_GPU * row.gpu_best


def _launches(row: VariantRow) -> str:
    """The program's launches; an autotuner's own where there are no others."""
    variant = row.variant
    if variant is None or variant.launches is None:
        return UNKNOWN
    tried = 0 if variant.launches else variant.benchmarks
    return f"benchmarked {tried}×" if tried else str(variant.launches)


IDENT = VariantColumn("variant", _ident, _ident, right=False)
WINNER = VariantColumn("winner", lambda r: r.winner, _sign, "★", right=False, least=False)
TUNED = VariantColumn("tuner's", lambda r: r.time_us, lambda r: _time(r.time_us))
"""What the program's own tuner measured: by another stopwatch, on its own inputs."""
TUNED_ON_GPU = VariantColumn("gpu", lambda r: r.gpu_us, lambda r: _time(r.gpu_us), "tuner's GPU")
"""What the GPU took for the launches that the tuner measured."""


def _figure_column(key: str, text: Callable[[VariantRow], str] | None = None) -> VariantColumn:
    column = COLUMNS[key]
    head = "" if text else column.head
    least = column.least and key not in LOCAL_MEMORY
    return VariantColumn(key, column.value, text or column.cell, head, least=least, read=True)


LOCAL_MEMORY = ("stack", "spills")
"""Columns whose order begins with the largest: kernels that have any are looked for."""


FIGURES = (
    _figure_column("registers"),
    _figure_column("spills", lambda r: spills(r.resources)),
    _figure_column("stack"),
    _figure_column("shared"),
    _figure_column("occupancy"),
    VariantColumn("hints", lambda r: r.hints, read=True),
    _figure_column("instructions"),
    VariantColumn("live", lambda r: r.live, read=True),
)
LAUNCHES = VariantColumn(
    "launches", lambda r: r.variant.launches if r.variant else None, _launches, least=False
)
SPECIALISED = VariantColumn(
    "specialised",
    lambda r: (" ".join(specializations(r.variant)) or None) if r.variant else None,
    right=False,
)
KERNEL = VariantColumn(
    "kernel",
    lambda r: r.kernel.display_name.casefold(),
    lambda r: label(r.kernel.display_name),
    right=False,
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
    "instructions",
    "hints",
    "occupancy",
    *LOCAL_MEMORY,
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
LEAST_NAME_CELLS = 12
"""The least width of kernels' names, before figures of their speed give way."""


def _setting(name: str, row: VariantRow) -> Value:
    value = row.config.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None if value is None else str(value)
    return value


def differing(rows: Sequence[VariantRow]) -> Iterator[str]:
    """Settings that differ, constexprs first; what another maker than Triton made has none."""
    names = dict.fromkeys(name for row in rows for name in row.config if name != "flags")
    launch_options = ("num_warps", "num_stages", "num_ctas", "maxnreg", CHOICE)
    ordered = [n for n in names if n not in launch_options] + [
        n for n in launch_options if n in names
    ]
    set_by = [row for row in rows if row.maker in (None, "Triton")]
    for name in ordered:
        if len({repr(row.config.get(name)) for row in set_by or rows}) > 1:
            yield name


def _configuration_column(names: Sequence[str]) -> VariantColumn:
    shown_names = dict.fromkeys((*TILE, *names) if set(TILE) & set(names) else names)

    def text(row: VariantRow) -> str:
        return settings_text({name: row.config.get(name) for name in shown_names})

    def value(row: VariantRow) -> str:
        return re.sub(r"\d+", lambda match: match[0].zfill(12), text(row))

    return VariantColumn("configuration", value, lambda r: label(text(r)), "config.", right=False)


def columns(
    rows: Sequence[VariantRow], width: int, times: RecordingTimes
) -> list[tuple[VariantColumn, int]]:
    """The columns that fit into a width, and their sizes.

    Settings are columns of their own, of one kernel where there is room; else one column.
    """
    several = len({row.kernel.name for row in rows}) > 1
    figures = _figure_columns(rows, several, times)
    idle = _left_out(_without_local_memory(rows))
    single_settings = [VariantColumn(name, partial(_setting, name)) for name in differing(rows)]
    configuration = []
    if single_settings or several:
        configuration.append(_configuration_column([column.name for column in single_settings]))
    if several:
        columns = [KERNEL, IDENT, WINNER, *configuration, *figures]
        cuts = (*idle, *MIN_CELLS, *_left_out(GIVEN_UP), ("kernel", LEAST_NAME_CELLS))
        return _whole(_sized(columns, rows, width, cuts), width)
    cuts = (*idle, *MIN_CELLS[:2])
    columns = [IDENT, WINNER, *single_settings, *figures]
    sized = _sized(columns, rows, width, (*cuts, *_left_out(SPARED)))
    if sum(size + 2 for _, size in sized) <= width:
        return sized
    columns = [IDENT, WINNER, *configuration, *figures]
    return _whole(_sized(columns, rows, width, (*cuts, *_left_out(GIVEN_UP))), width)


def _whole(
    sized: Sequence[tuple[VariantColumn, int]], width: int
) -> list[tuple[VariantColumn, int]]:
    """The first columns that fit: one that is cut would show other figures."""
    used = 0
    count = 0
    for _, size in sized:
        used += size + 2
        if used - 2 > width:
            break
        count += 1
    return list(sized[:count])


def _figure_columns(
    rows: Sequence[VariantRow], several: bool, times: RecordingTimes
) -> list[VariantColumn]:
    """The columns after the settings: those that have something to show."""

    def us(row: VariantRow) -> float | None:
        return times.us(row.kernel, row.variant)

    def text(row: VariantRow) -> str:
        return UNKNOWN if row.variant is None else times.text(row.kernel, row.variant)

    tuned = any(row.time_us is not None for row in rows)
    is_shown = {
        VariantColumn("time", us, text): not tuned
        or not times.are_read
        or any(us(row) is not None for row in rows),
        _verified_column(times): any(times.verdict(row.variant) for row in rows),
        TUNED: tuned,
        TUNED_ON_GPU: any(row.gpu_us is not None for row in rows),
        **dict.fromkeys(FIGURES, True),
        LAUNCHES: any(LAUNCHES.value(row) is not None for row in rows),
        SPECIALISED: len({SPECIALISED.value(row) for row in rows}) > 1,
        REASON: not several and any(row.reason for row in rows),
    }
    return [column for column, shown in is_shown.items() if shown]


VERIFIED = "verified"


def _verified_column(times: RecordingTimes) -> VariantColumn:
    """What ``verify`` said of the kernel; that which is not explained is first."""

    def severity(row: VariantRow) -> int | None:
        verdict = times.verdict(row.variant)
        return None if verdict is None else SEVERITY.index(verdict.verdict)

    def text(row: VariantRow) -> str:
        verdict = times.verdict(row.variant)
        return UNKNOWN if verdict is None else WORDS[verdict.verdict]

    return VariantColumn(VERIFIED, severity, text, right=False, least=False)


def _without_local_memory(rows: Sequence[VariantRow]) -> list[str]:
    """Columns of local memory that are 0 in all rows, which give way before any other."""
    return [
        name
        for name in LOCAL_MEMORY
        if not any(COLUMNS[name].value(row) or row.unread for row in rows)
    ]


def _left_out(names: Iterable[str]) -> list[tuple[str, int]]:
    """Columns that are cut down to nothing."""
    return [(name, 0) for name in names]


def _sized(
    columns: Sequence[VariantColumn],
    rows: Sequence[VariantRow],
    width: int,
    cuts: Sequence[tuple[str, int]],
) -> list[tuple[VariantColumn, int]]:
    """Columns with their sizes after ``cuts``, as many as a width needs; without those cut to 0."""
    full = {column.name: _size(column, rows) for column in columns}
    sizes = fit(full, width - 2, cuts)
    return [(column, sizes[column.name]) for column in columns if column.name in sizes]


def _size(column: VariantColumn, rows: Iterable[VariantRow]) -> int:
    """The widest cell; the head has room for the sign of the order."""
    head = cell_len(column.head or column.name) + 1
    widest = max([head, *(cell_len(column.cell(row)) for row in rows)])
    unlimited = column.name in ("configuration", "kernel", "reason")
    return widest if unlimited else min(widest, max(head, MAX_CELLS))


def ordered(
    rows: Sequence[VariantRow], column: VariantColumn, worst_first: bool
) -> list[VariantRow]:
    pairs = [(column.value(row), row) for row in rows]
    # Numbers come before words in both directions.
    numbers = [pair for pair in pairs if isinstance(pair[0], int | float)]
    words = [pair for pair in pairs if isinstance(pair[0], str)]
    for group in (numbers, words):
        group.sort(key=itemgetter(0), reverse=worst_first == column.least)
    unknown = [row for row in rows if column.value(row) is None]
    return [*(row for _, row in numbers + words), *unknown]


def _under_headings(rows: Sequence[VariantRow], rounds: Iterable[str]) -> list[VariantRow]:
    """Rows by their round, each round with a heading if it has one."""
    grouped: list[VariantRow] = []
    for heading in rounds:
        round_rows = [row for row in rows if row.round == heading]
        if heading and round_rows:
            grouped.append(replace(round_rows[0], variant=None, head=True))
        grouped += round_rows
    return grouped


LEGEND = "★ chosen by tuning  ☆ shortest by the GPU's clock, or tied  ? this row"
"""What the signs of most rows mean, beneath the table."""


class VariantTable(Table[VariantRow], can_focus=True, inherit_bindings=False):
    """One row a variant, then one for each other configuration of a tuner's."""

    BINDINGS = bindings(KeyContext.VARIANTS)

    def __init__(
        self,
        rows: tuple[VariantRow, ...],
        times: RecordingTimes,
        marked: tuple[TreeSubject, ...],
        reads: Callable[[], Reader],
        notify: Callable[[str], object],
    ) -> None:
        super().__init__()
        self.border_subtitle = Content(LEGEND)
        self.times = times
        self.all_rows = self.rows = rows
        self.marked = marked
        self.sorted: str | None = None
        self.words = ""
        self.matching_ids = cast(MatchingIds, None)
        self.selection = Selection(self, reads, self._select, notify)
        self.reversed = False
        self.columns: list[tuple[VariantColumn, int]] = []
        self._names: dict[str, str] = {}

    def renew(self, rows: tuple[VariantRow, ...]) -> None:
        old_cursor = self.cursor
        top = self.scroll_offset.y
        self.all_rows = rows
        self.lay()
        if self.cursor != old_cursor:
            self.scroll_to(y=top + self.cursor - old_cursor, animate=False, force=True)

    @staticmethod
    def subject(row: VariantRow) -> TreeSubject | None:
        return None if row.variant is None else TreeSubject(row.kernel, row.variant)

    def lay(self) -> None:
        cursor_row = self.row
        width = self.scrollable_content_region.width - 4
        self.columns = columns(self.all_rows, width, self.times)
        terms = folded(self.words).split()
        rows = [row for row in self.all_rows if _fits(row, terms) and self._is_selected(row)]
        column = next((c for c, _ in self.columns if c.name == self.sorted), None)
        if column is not None:
            rows = ordered(rows, column, self.reversed)
        rounds = dict.fromkeys(row.round for row in self.all_rows)
        rows = _under_headings(rows, rounds)
        self._names = self._short_names()
        index = self.cursor
        if cursor_row is not None:
            same = (i for i, row in enumerate(rows) if _same(row, cursor_row))
            index = next(same, self.cursor)
        self.show_rows(rows, index)

    def _is_selected(self, row: VariantRow) -> bool:
        if self.matching_ids is None:
            return True
        return row.variant is not None and (row.kernel.id, row.variant.id) in self.matching_ids

    def _short_names(self) -> dict[str, str]:
        """Names of kernels, shortened to their column so that they remain distinct."""
        names = [KERNEL.cell(row) for row in self.all_rows]
        longest = max(map(cell_len, names), default=0)
        kernel_widths = (size for column, size in self.columns if column is KERNEL)
        return distinct_names(names, next(kernel_widths, longest))

    on_resize = lay

    def filter(self, text: str) -> None:
        self.selection.look(text)

    def _select(self, query: str, words: str, matching_ids: MatchingIds) -> None:
        self.query_text = query
        self.words = words
        self.matching_ids = matching_ids
        self.lay()

    def sort(self, name: str) -> None:
        self.reversed = name == self.sorted and not self.reversed
        self.sorted = name
        self.lay()

    def action_sort(self, step: int) -> None:
        names = [c.name for c, _ in self.columns]
        self.sorted, self.reversed = following(names, self.sorted, step), False
        self.lay()

    def action_reverse(self) -> None:
        self.sort(self.sorted or IDENT.name)

    def action_mark(self) -> None:
        subject = None if self.row is None else self.subject(self.row)
        if subject is not None:
            self.marked = subject.marked_in(self.marked)
            self.refresh()
            self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or offset.y:
            return
        x = 4
        for column, size in self.columns:
            if x <= offset.x < x + size + 2:
                self.sort(column.name)
                return
            x += size + 2

    def draw_row(self, index: int, width: int, base: Style) -> Strip:
        row = self.rows[index]
        at_cursor = index == self.cursor
        if row.head:
            style = base + self.part("cursor" if at_cursor else "origin")
            text = cut(f"  {label(row.round)}", width)
            return Strip([Segment(text, style)]).adjust_cell_length(width, style)
        if row.variant is None:
            base += self.part("quiet")
        elif row.winner:
            base += self.part("loud")
        if at_cursor:
            base += self.part("cursor")
        cursor_sign = "▸" if at_cursor else " "
        subject = self.subject(row)
        mark = "AB"[self.marked.index(subject)] if subject in self.marked else " "
        parts = [Segment(f"{cursor_sign}{mark}  ", base + self.part("mark"))]
        for column, size in self.columns:
            text = column.cell(row)
            if column is KERNEL:
                text = self._names.get(text, text)
            style = base
            if column.name == VERIFIED and text == WORDS[Verdict.UNEXPLAINED]:
                style += self.part("error")
            parts.append(Segment(f"{padded(text, size, column.right)}  ", style))
        return Strip(parts).adjust_cell_length(width, base)

    def draw_head(self, width: int) -> Strip:
        head_style = self.rich_style + self.part("head")
        sorted_style = self.rich_style + self.part("sorted")
        parts = [Segment("    ", head_style)]
        for column, size in self.columns:
            text = column.head or column.name
            style = head_style
            if column.name == self.sorted:
                # The sign says which end of the numbers is above: ▲ the least.
                sign = "▲" if self.reversed != column.least else "▼"
                text += sign
                style = sorted_style
            parts.append(Segment(f"{padded(text, size, column.right)}  ", style))
        return Strip(parts).adjust_cell_length(width, head_style)


def _fits(row: VariantRow, terms: list[str]) -> bool:
    kernel = row.kernel
    variant = row.variant
    words = [kernel_words(kernel), settings_of(row.config)]
    digest = ""
    if variant is not None:
        words += [variant.id, variant.target or "", *specializations(variant)]
        digest = variant.hash
    text = folded(" ".join(words))
    return all(has_word(text, word) or digest.startswith(word) for word in terms)


def _same(row: VariantRow, other: VariantRow) -> bool:
    if (row.round, row.head) != (other.round, other.head):
        return False
    if row.variant is None or other.variant is None:
        return row.variant is other.variant and row.config == other.config
    return row.variant.hash == other.variant.hash and row.variant.symbol == other.variant.symbol


UPDATE_SECONDS = 0.2

READ = frozenset(column.name for column in FIGURES)
"""Columns whose order is not final while figures are read."""

MARKING = (
    "d marks two variants, D compares them",
    "d marks another, D compares it with this",
    "D compares them",
)
"""What to do, by how many variants are marked."""


ScreenResult = tuple[tuple[TreeSubject, ...], TreeSubject | None]
"""The state on leaving: marked variants, and the variant to open."""


class Scope(NamedTuple):
    """The variants of a table, with a name."""

    name: str
    variants: tuple[tuple[Kernel, Variant], ...]
    kernels: tuple[Kernel, ...]


def recording_scope(recording: Recording) -> Scope:
    kernel_count = plural(len(recording.kernels), "kernel")
    return Scope(f"all of {kernel_count}", recording.variants(), recording.kernels)


def scope_of(name: str, subjects: Sequence[TreeSubject]) -> Scope:
    pairs = {s.key[:2]: (s.kernel, s.variant) for s in subjects if s.kernel and s.variant}
    kernels = {s.kernel.id: s.kernel for s in subjects if s.kernel}
    return Scope(name, tuple(pairs.values()), tuple(kernels.values()))


class RoundOf(NamedTuple):
    """A round of an operation's tuning, by its number in the kernel that has its candidates."""

    kernel: Kernel
    number: int


def _rounds(recording: Recording, scope: Scope) -> list[RoundOf]:
    """The rounds of the one kernel of a scope: its own, or those that it was generated from."""
    if len(scope.kernels) != 1:
        return []
    kernel = scope.kernels[0]
    if len(kernel.autotune) > 1 or any(tuning.operation for tuning in kernel.autotune):
        return [RoundOf(kernel, number) for number in range(len(kernel.autotune))]
    if kernel.autotune:
        return []
    return [
        RoundOf(candidates, number)
        for candidates in recording.kernels
        for number, tuning in enumerate(candidates.autotune)
        if any(use.kernel == kernel.id for use in tuning.uses)
    ]


def _with_candidates(recording: Recording, scope: Scope) -> Scope:
    """A scope with the candidates that its one kernel was generated from."""
    pairs = {(kernel.id, variant.id): (kernel, variant) for kernel, variant in scope.variants}
    for candidates, number in _rounds(recording, scope):
        timed = {c.variant for c in candidates.autotune[number].configurations}
        for variant in candidates.variants:
            if variant.id in timed:
                pairs[candidates.id, variant.id] = candidates, variant
    return scope._replace(variants=tuple(pairs.values()))


def recorded(reads: Reader, scope: Scope) -> tuple[VariantRow, ...]:
    code = any(Stage.SASS in variant.stages for _, variant in scope.variants)
    facts = tuner_facts(reads.recording, {})
    rows = [_row(reads, kernel, variant, code) for kernel, variant in scope.variants]
    if rounds := _rounds(reads.recording, scope):
        return tuple(_in_rounds(scope.kernels[0], rounds, rows, facts))
    # A time of one of several rounds says nothing beside those of others.
    rows = [replace(row, time_us=None) if len(row.kernel.autotune) > 1 else row for row in rows]
    rows += [row for k in scope.kernels for row in variants.without_variant(k)]
    return tuple(_with_round_facts(row, facts) for row in rows)


def _with_round_facts(row: VariantRow, facts: TunerFacts) -> VariantRow:
    """A row with the facts of the only round of its kernel."""
    row = replace(row, overhead_us=facts.overheads_us.get(variants.stopwatch(row)))
    if row.variant is None or len(row.kernel.autotune) != 1:
        return row
    tuning = row.kernel.autotune[0]
    for candidate in tuning.configurations:
        if candidate.variant == row.variant.id:
            return _with_gpu_time(row, tuning, candidate, facts)
    return row


def _with_gpu_time(
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
    kernel: Kernel, rounds: Sequence[RoundOf], rows: Sequence[VariantRow], facts: TunerFacts
) -> Iterator[VariantRow]:
    """What rounds of other kernels became this one; the candidates of each round by time, with its
    choice; then what no round tried."""
    rows_by_id = {(row.kernel.id, row.variant.id): row for row in rows if row.variant is not None}
    is_generated = all(candidates is not kernel for candidates, _ in rounds)
    if is_generated:
        yield from (row for row in rows if row.kernel is kernel)
    for candidates, number in rounds:
        tuning = candidates.autotune[number]
        remarks = tunings.remarks(candidates, tuning, facts)
        name = label(candidates.display_name) if is_generated else ""
        about = tunings.about(candidates, number)
        heading = " · ".join(filter(None, (name, about, *remarks)))
        for place, candidate in tunings.by_time(tuning):
            best = place == tuning.best
            row = rows_by_id.get((candidates.id, candidate.variant or "")) or variants.candidate(
                candidates, candidate, best
            )
            reason = candidate.reason or row.reason
            row = replace(row, time_us=candidate.time_us, winner=best, reason=reason, round=heading)
            row = _with_gpu_time(row, tuning, candidate, facts)
            yield replace(row, overhead_us=facts.overhead_us(tuning))
    if is_generated:
        return
    tried = {candidate.variant for tuning in kernel.autotune for candidate in tuning.configurations}
    for (_, ident), row in rows_by_id.items():
        if ident not in tried:
            yield replace(row, time_us=None, winner=None, round="in no round of tuning")


def _row(reads: Reader, kernel: Kernel, variant: Variant, code: bool) -> VariantRow:
    summary = reads.summaries.summary_of(variant)
    row = VariantRow(
        kernel,
        variant,
        {**variant.config, **({"tile": variant.tile} if variant.tile else {})},
        variant.recorded_resources,
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
    called = {kernel.id: kernel.display_name for kernel in recording.kernels}
    names: dict[str, None] = {}
    for tuning in row.kernel.autotune:
        for use in tuning.uses:
            if use.configuration is None or use.kernel not in called:
                continue
            if _is_of_row(tuning.configurations[use.configuration], row):
                names[called[use.kernel]] = None
    return ", ".join(names)


def _is_of_row(candidate: Configuration, row: VariantRow) -> bool:
    if row.variant is not None:
        return candidate.variant == row.variant.id
    return candidate.variant is None and candidate.config == row.config


def _why_not(row: VariantRow) -> str:
    error = None if row.variant is None else row.variant.error
    error_text = "" if error is None else exceeded_resource(error)
    return f"not loaded: {error_text}" if error_text else label(row.reason or "")


def _with_failure(row: VariantRow, failure: str) -> VariantRow:
    """A row whose figures will not be read."""
    if not row.unread:
        return row
    return replace(row, unread=False, reason=row.reason or failure)


class VariantsScreen(ToolScreen[ScreenResult]):
    """The table, filled by a thread."""

    BINDINGS = bindings_of(BARE)
    AUTO_FOCUS = "VariantTable"
    contexts: ClassVar = (KeyContext.VARIANTS,)

    def __init__(
        self,
        reads: Reader,
        marked: tuple[TreeSubject, ...],
        cursor_variant: Variant | None,
        times: RecordingTimes,
        current_scope: Callable[[], Scope],
    ) -> None:
        """``again`` returns the scope, which may grow."""
        super().__init__()
        self.reads = reads
        self.times = times
        self.current_scope = current_scope
        self.scope = _with_candidates(reads.recording, current_scope())
        self.bar = SubjectBar("variants", self.scope.name)
        self._reading = False
        self._failed = ""
        """Why figures could not be read: what is unread then stays so."""
        rows = recorded(reads, self.scope)
        self.table = VariantTable(rows, self.times, marked, lambda: self.reads, self.note)
        self.table.cursor = next(
            (i for i, r in enumerate(rows) if cursor_variant and r.variant is cursor_variant), 0
        )

    def compose(self) -> ComposeResult:
        yield from (self.bar, self.table, *self.below)

    def on_mount(self) -> None:
        self._read()

    def _read(self) -> None:
        if self._reading or self.settled:
            return
        self._reading = True
        reads = self.reads
        pending = [variant for _, variant in self.scope.variants]

        def read() -> None:
            worker = get_current_worker()
            last = monotonic()
            for _ in reads.summaries.read(
                pending, lambda: self.is_attached and not worker.is_cancelled
            ):
                if monotonic() - last > UPDATE_SECONDS:
                    self.call_later(self._show)
                    last = monotonic()

        def ended(answer: Notice | None) -> None:
            self._reading = False
            self._failed = answer.message if answer is not None else ""
            if reads is not self.reads:  # there are more now
                self._copy_summaries(reads)
            self._show()
            self._read()

        in_thread(self, read, ended, "variants", failed=ended)

    def _show(self) -> None:
        rows = recorded(self.reads, self.scope)
        if self._failed:
            rows = tuple(_with_failure(row, self._failed) for row in rows)
        self.table.renew(rows)

    show_times = _show

    def renew(self, reads: Reader) -> None:
        old_reader, self.reads = self.reads, reads
        self.table.marked = tuple(
            resolve(reads.recording, subject) for subject in self.table.marked
        )
        self._show_scope(self.current_scope(), old_reader)

    def _show_scope(self, scope: Scope, old_reader: Reader) -> None:
        self.scope = _with_candidates(self.reads.recording, scope)
        self.bar.name_text = scope.name
        self._copy_summaries(old_reader)
        self._show()
        self._read()

    @property
    def widest(self) -> bool:
        return len(self.scope.variants) == len(self.reads.recording.variants())

    def _copy_summaries(self, old_reader: Reader) -> None:
        old_variants = {(v.hash, v.symbol): v for _, v in old_reader.recording.variants()}
        for _, variant in self.scope.variants:
            earlier = old_variants.get((variant.hash, variant.symbol))
            summary = None if earlier is None else old_reader.summaries.summary_of(earlier)
            if summary is not None and same_but_launches(earlier, variant):
                self.reads.summaries.adopt(variant, summary)

    @property
    def home(self) -> VariantTable:
        return self.table

    @property
    def unread_count(self) -> int:
        return len({id(row.variant) for row in self.table.all_rows if row.unread})

    @property
    def settled(self) -> bool:
        return self.unread_count == 0

    @on(VariantTable.Moved)
    def _tell(self) -> None:
        self.bar.tell(right=" · ".join(self._table_state()))
        self.status.say("   ".join([*self._row_sentences(), *self._measured_sentences()]))

    def _table_state(self) -> Iterator[str]:
        """How many variants are shown, lacking and read; the order and the filter."""
        table = self.table
        variant_count = len(self.scope.variants)
        all_variants = plural(variant_count, "variant")
        shown = len({id(row.variant) for row in table.rows if row.variant is not None})
        filtered = table.query_text and shown < variant_count
        yield f"{shown} of {all_variants}" if filtered else all_variants
        absent = {
            (repr(r.config), diff_text.absent_text(r)) for r in table.all_rows if not r.variant
        }
        for words, count in Counter(words for _, words in absent).items():
            yield f"{count} {words}"
        if self.unread_count:
            yield f"◔ {variant_count - self.unread_count} of {variant_count} read"
        if table.sorted is not None:
            preliminary = "◔ " if self.unread_count and table.sorted in READ else ""
            yield f"{preliminary}by {table.sorted}"
        if table.query_text:
            yield f"/{label(table.query_text)}"

    def legend(self) -> list[tuple[str, str]]:
        from inspector.tui.find.legend import table_row_legend

        return table_row_legend(self.table)

    def _row_sentences(self) -> Iterator[str]:
        """The details of the row at the cursor, then what can be marked."""
        row = self.table.row
        if row is not None and not row.head:
            if why := _why_not(row):
                yield why
            if generated_names := generated_from(self.reads.recording, row):
                yield f"{label(generated_names)} was generated from it."
            if row.winner and row.variant is not None and row.variant.launches == 0:
                yield "★ was chosen by tuning, but the program never launched it."
            if row.verdict and (row.winner or row.gpu_best):
                yield f"{label(row.verdict[:1].upper() + row.verdict[1:])}."
        yield self._marking()

    def _marking(self) -> str:
        pairs = zip("AB", self.table.marked, strict=False)
        marked = ", ".join(f"{letter} {label(subject.key[1])}" for letter, subject in pairs)
        action = MARKING[len(self.table.marked)]
        if marked:
            return f"Marked: {marked}. {action}."
        wider = "" if self.widest else ", a shows those of the recording"
        return f"{action}{wider}."

    def _measured_sentences(self) -> Iterator[str]:
        """What to know of the times of the row at the cursor."""
        row = self.table.row
        if row is None or row.head:
            return
        if row.time_us is not None and row.overhead_us is not None:
            yield f"Launching alone may take up to {_time(row.overhead_us)} of the tuner's time."
        if measurement := self.times.latest(row.kernel, row.variant):
            yield f"Measured {age(measurement.taken)}, {measurement.timing.cache} L2."

    def action_diff(self) -> None:
        pair = self.table.marked
        row = self.table.row
        cursor_subject = None if row is None else self.table.subject(row)
        if len(pair) < 2 and cursor_subject is not None and cursor_subject not in pair:
            pair = (*pair, cursor_subject)
        if len(pair) < 2:
            self.status.say("It takes two variants to compare: mark each with d.")
        else:
            self.app.push_screen(DiffScreen(self.reads, pair[0], pair[1]))

    @on(VariantTable.Chosen)
    def action_open(self) -> None:
        row = self.table.row
        subject = None if row is None else self.table.subject(row)
        if subject is not None:
            self.dismiss((self.table.marked, subject))
        elif row is not None and row.head:
            self.status.say(label(row.round))
        else:
            uncompiled = row is not None and row.compiled is False
            why = "was not compiled" if uncompiled else "is not known which variant this is"
            self.status.say(f"It {why}: there is nothing to read.")

    def action_filter(self) -> None:
        def closed(text: str | None) -> None:
            if text is None:
                self.table.filter("")

        self.ask("filter", self.table.query_text, closed, self.table.filter)

    def action_wider(self) -> None:
        if self.widest:
            self.status.say("This is every variant of the recording.")
        else:
            self.current_scope = lambda: recording_scope(self.reads.recording)
            self._show_scope(self.current_scope(), self.reads)

    def action_escape(self) -> None:
        if self.table.query_text:
            self.table.filter("")
        else:
            self.action_back()

    def action_back(self) -> None:
        self.dismiss((self.table.marked, None))
