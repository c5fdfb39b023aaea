"""Kernels by cost: launches, the time of each launch, its source, and its share of the run."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from itertools import chain
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from inspector.base.escapes import shown
from inspector.base.model import Kernel, Recording, Variant
from inspector.base.units import microseconds, plural, time_span, whole_percent
from inspector.measure.evidence import Evidence
from inspector.measure.gpu_window import GpuWindow
from inspector.measure.launch_time import BOUND, MEANINGS, PROFILED, RUN, LaunchTime
from inspector.measure.profile.trace import GpuWork
from inspector.measure.time.results import ESTIMATE
from inspector.render.compiles import CompileLine
from inspector.render.jsons import SCHEMA, Rows
from inspector.render.kernel_names import distinct_names, titles
from inspector.render.profile import busy
from inspector.render.tables import UNKNOWN, calling_operators, grid, user_line

LATENCY_US = 2.5
"""A shorter kernel is bounded by the launch itself and one trip to memory."""
MEMORY_BOUND_PERCENT = 60.0
"""Share of the device's copy speed, or of ncu's peak, at which that is what bounds a kernel."""
BUSY_SHARE = 0.9
"""Share of the SMs below which a grid's blocks are what bounds a kernel: the others are idle."""
HOW_TO_TIME = "ptxview time, or run it again"
"""What gives a recording without times of its launches some."""
BAR_CELLS = 12
"""Cells of the bar of the largest share."""


class Cost(Struct, frozen=True):
    """What one variant, or a kernel that only a profile names, took of the run; None is unknown.

    ``launches`` are the program's own, at least so many where they are not ``exact``; ``at_most``
    where an autotuner's are among them; ``per_step`` those in a step of the profile. ``time`` is
    that of one launch. ``share`` is the percentage of all known totals, ``step_share`` that of a
    step of the profile, GPU idle included. ``bound`` is what bounds it, ``rules`` are those of its
    hints, what may gain most first; None where none were looked for.
    """

    name: str
    kernel: Kernel | None = None
    variant: Variant | None = None
    launches: int | None = None
    exact: bool = True
    at_most: bool = False
    per_step: float | None = None
    time: LaunchTime | None = None
    share: float | None = None
    step_share: float | None = None
    bound: str | None = None
    rules: tuple[str, ...] | None = None

    @property
    def hint(self) -> str | None:
        """The rule of the hint that may gain most, "" without a hint; None if not looked for."""
        return self.hint_beside(())

    def hint_beside(self, common: Collection[str]) -> str | None:
        """The same, of rules that are not in ``common``."""
        if self.rules is None:
            return None
        return next((rule for rule in self.rules if rule not in common), "")

    @property
    def us(self) -> float | None:
        """The median time of one launch."""
        return None if self.time is None else self.time.us

    @property
    def timed(self) -> int | None:
        """How many launches were timed."""
        return None if self.time is None else self.time.timed

    @property
    def source(self) -> str | None:
        return None if self.time is None else self.time.source

    @property
    def total_us(self) -> float | None:
        """GPU time of the launches that count.

        Of a run that was watched for a part of its time those that were timed: launches of Triton's
        are all counted, and those of a library while they are watched. Else of all launches.
        """
        if self.time is None:
            return None
        counted = self.launches
        if self.source == RUN:
            counted = self.timed
        elif self.at_most:
            counted = None
        return None if counted is None else self.time.mean_us * counted


class Costs(Struct, frozen=True):
    """The rows of a run, the most expensive first, and what is below the fold.

    ``idle`` are variants that were compiled and never launched, ``untimed`` how many rows have no
    time: shares are then of what is timed. ``busy_percent`` is the share of the profiled time in
    which the GPU worked, ``window`` what the GPU did in a part of the run. ``unestimated`` rows
    have neither a measured time nor an estimate, which there may be. ``emulated``: no GPU ran it.
    """

    rows: tuple[Cost, ...]
    idle: tuple[Cost, ...] = ()
    steps: int | None = None
    busy_percent: float | None = None
    window: GpuWindow | None = None
    unestimated: int = 0
    emulated: bool = False

    @property
    def untimed(self) -> int:
        """How many launched rows have no time."""
        return sum(row.us is None for row in self.rows)

    @property
    def common_rules(self) -> dict[str, int]:
        """Rules that speak of most kernels, with how many: one finding of the whole recording."""
        return common_rules([row.rules for row in self.rows if row.rules is not None])

    def measure(self, name: str, variant: Variant) -> float | None:
        """Return the ``time`` of a variant's launch in µs, or its ``cost`` in percent."""
        for row in self.rows:
            if row.variant is variant:
                return row.us if name == "time" else row.share
        return None


def costs(rec: Recording, evidence: Evidence) -> Costs:
    """The costs of a recording's variants, and of what only its profile names."""
    profile = evidence.profile
    works = () if profile is None else profile.kernels
    steps = 0 if profile is None else len(profile.window.steps)
    rows = _variant_costs(rec, evidence, steps)
    has_launches = any(row.launches is not None for row in rows)
    rows += [_profile_only_cost(work, steps) for work in works if work.kernel is None]
    idle: list[Cost] = []
    launched: list[Cost] = []
    for row in rows:
        is_idle = has_launches and not row.launches and not row.per_step
        (idle if is_idle else launched).append(row)
    step_us = profile.overhead.window_us / steps if profile is not None and steps else 0
    launched = _with_shares(launched, step_us)
    launched.sort(key=_most_expensive_first)
    # In this order, for there may be time for the hints of the costliest rows only.
    launched = [_with_hint(row, evidence) for row in launched]
    busy_percent = None if profile is None else busy(profile.overhead)
    return Costs(
        tuple(launched),
        tuple(idle),
        steps or None,
        busy_percent,
        evidence.window,
        emulated=rec.mode == "target",
    )


def _variant_costs(rec: Recording, evidence: Evidence, steps: int) -> list[Cost]:
    """A row for each variant; shares and hints are not set yet."""
    titles_by_id = titles(rec, with_launches=False)
    # Older recordings do not tell an autotuner's launches of a library's kernels from others.
    tunings = chain.from_iterable(kernel.autotune for kernel in rec.kernels)
    has_tuned_operations = any(tuning.operation for tuning in tunings)
    rows = []
    for kernel, variant in rec.variants():
        work = evidence.works.get((kernel.id, variant.id))
        may_hold_benchmarks = variant.benchmarks is None and bool(variant.launches)
        rows.append(
            replace(
                _cost(kernel, variant, evidence),
                name=titles_by_id.get(kernel.id, kernel.display_name),
                at_most=has_tuned_operations and may_hold_benchmarks,
                per_step=work.calls / steps if work is not None and steps else None,
            )
        )
    return rows


def _with_shares(rows: Sequence[Cost], step_us: float) -> list[Cost]:
    """Rows with their shares of the known totals, and of a step of ``step_us``."""
    total_us = sum(row.total_us or 0 for row in rows)
    return [
        replace(
            row,
            share=_share(row.total_us, total_us),
            step_share=_share(_per_step_us(row), step_us),
        )
        for row in rows
    ]


def _most_expensive_first(row: Cost) -> list[float]:
    return [-(figure or 0) for figure in (row.total_us, row.step_share, row.us)]


def _with_hint(row: Cost, evidence: Evidence) -> Cost:
    if row.variant is None:
        return row
    return replace(row, rules=evidence.rules(row.variant))


class Order(Enum):
    """Orders of the rows; the value is the word for it."""

    TOTAL = "total"
    TIME = "µs"
    LAUNCHES = "launches"
    NAME = "kernel"


def ordered(rows: Sequence[Cost], order: Order) -> list[Cost]:
    """Rows in an order, the greatest figure first; unknown ones last."""
    if order is Order.TOTAL:
        return list(rows)
    if order is Order.NAME:
        return sorted(rows, key=lambda row: row.name.casefold())
    if order is Order.TIME:
        return sorted(rows, key=lambda row: (row.us is None, -(row.us or 0)))
    return sorted(rows, key=lambda row: (row.launches is None, -(row.launches or 0)))


def _share(part: float | None, total: float) -> float | None:
    return None if part is None or not total else 100 * part / total


def _per_step_us(row: Cost) -> float | None:
    """GPU time of a row in a step of the profile."""
    return None if row.us is None or row.per_step is None else row.us * row.per_step


def _profile_only_cost(work: GpuWork, steps: int) -> Cost:
    """A kernel that only the profile names: how often the whole run launched it is unknown."""
    mean = work.gpu_us / work.calls if work.calls else None
    return Cost(
        work.short,
        per_step=work.calls / steps if steps else None,
        time=None if mean is None else LaunchTime(mean, PROFILED, mean, work.calls),
    )


def common_rules(rules_of_kernels: Sequence[Collection[str]]) -> dict[str, int]:
    """Rules that speak of most of several kernels, with how many these are."""
    counts: Counter[str] = Counter()
    for rules in rules_of_kernels:
        counts.update(set(rules))
    return {
        rule: count
        for rule, count in counts.most_common()
        if count >= MIN_COMMON and count > COMMON_SHARE * len(rules_of_kernels)
    }


def _cost(kernel: Kernel, variant: Variant, evidence: Evidence) -> Cost:
    time = evidence.launch_time(kernel, variant)
    stored_time = evidence.times.representative(kernel, variant)
    copy_percent = None if stored_time is None else stored_time.timing.percent_of_peak
    counters = evidence.measured(variant)
    busiest = None if counters is None else counters.busiest
    return Cost(
        kernel.display_name,
        kernel,
        variant,
        variant.launches,
        exact=variant.launches_exact is not False,
        time=time,
        bound=_bound(variant, time, evidence, copy_percent, busiest),
    )


COMMON_SHARE = 0.5
"""Share of the kernels from which a hint is one finding of the whole recording."""
MIN_COMMON = 4


def _bound(
    variant: Variant,
    time: LaunchTime | None,
    evidence: Evidence,
    copy_percent: float | None,
    busiest: tuple[float, str] | None,
) -> str | None:
    """What bounds a kernel, from ncu's peaks, its share of a copy's speed, its grid or its time."""
    if busiest is not None and busiest[0] >= MEMORY_BOUND_PERCENT:
        return f"{busiest[1]} {busiest[0]:.0f} %"
    if copy_percent is not None and copy_percent >= MEMORY_BOUND_PERCENT:
        return f"≈ memory {copy_percent:.0f} %"  # of bytes that are an estimate
    device = evidence.device(variant)
    grids = [call.grid for call in variant.calls if call.grid is not None]
    if device is not None and device.sms and grids:
        blocks = max(x * y * z for x, y, z in grids)
        if blocks < BUSY_SHARE * device.sms:
            return f"{blocks} of {device.sms} SMs"
    if time is not None and time.source != BOUND and time.us < LATENCY_US:
        return "≈ latency"
    return None


NUMBERS = ("launches", "µs", "total", "share", "of step")
SHRINK_ORDER = (
    *(("kernel", 64), ("hint", 12), ("kernel", 24), ("hint", 0), ("bound by", 0), ("variant", 0)),
    *(("from", 0), ("of step", 0), ("", 0), ("kernel", 12)),
)


def cells(row: Cost, largest: float = 0.0, common: Collection[str] = ()) -> dict[str, str]:
    """A row's cells by their heads; ``largest`` is the share that fills the bar, ``common`` are
    rules that the table names once and not in each row."""
    hint = row.hint_beside(common)
    if hint is None:
        hint = "…" if row.variant is not None else ""
    mark = "" if row.time is None else row.time.mark
    return {
        "kernel": row.name if row.kernel is not None else shown(row.name),
        "variant": "" if row.variant is None else shown(row.variant.id),
        "launches": _launches(row),
        "µs": UNKNOWN if row.us is None else mark + microseconds(row.us),
        "total": UNKNOWN if row.total_us is None else mark + time_span(row.total_us),
        "share": _percent(row.share),
        "": _bar(row.share, largest),
        "of step": _percent(row.step_share),
        "from": row.source or "",
        "bound by": row.bound or "",
        "hint": hint,
    }


def _launches(row: Cost) -> str:
    """How often a kernel was launched, with its mark where the number is a bound."""
    if row.per_step is not None:
        return f"{row.per_step:g} a step"
    if row.launches is None:
        return UNKNOWN
    mark = "" if row.exact else "≥ "
    if row.at_most:
        mark = "≤ "
    return f"{mark}{row.launches:,}"


def _bar(share: float | None, largest: float) -> str:
    """A share as a bar of eighths of cells."""
    if not share or not largest:
        return ""
    eighths = max(round(8 * BAR_CELLS * share / largest), 1)
    full, remainder = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[remainder] if remainder else "")


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f} %"


def lines(run_costs: Costs, width: int) -> Iterator[CompileLine]:
    """The table, the most expensive kernel first; each row is about its variant."""
    largest = max((row.share or 0.0 for row in run_costs.rows), default=0.0)
    common = run_costs.common_rules
    rows = [cells(row, largest, common) for row in run_costs.rows] or [cells(Cost(""))]
    heads = [head for head in rows[0] if head != "of step" or run_costs.steps]
    table = grid(
        heads,
        [[row[head] for head in heads] for row in rows],
        width,
        NUMBERS,
        SHRINK_ORDER,
        {"kernel": distinct_names},
    )
    yield CompileLine(next(table))
    for text, row in zip(table, run_costs.rows, strict=False):
        variant = None if row.variant is None else row.variant.hash
        yield CompileLine(text, kernel=variant, about=about(row))


def about(row: Cost) -> str:
    """Why a kernel takes its time and where it is from, which a narrow table has no room for."""
    place = "" if row.kernel is None else user_line(row.kernel)
    operators = "" if place or row.variant is None else calling_operators(row.variant)
    bound = row.bound and f"bound by {row.bound}"
    return " · ".join(filter(None, (bound, row.hint, place, operators and f"in {operators}")))


def title(run_costs: Costs) -> str:
    """What the table is of: how many kernels have a time, and what the GPU did in the run."""
    row_count = len(run_costs.rows)
    timed = sum(row.time is not None and row.time.measured for row in run_costs.rows)
    if not row_count:
        return "no launch was recorded"
    if not timed and run_costs.emulated:
        return f"{plural(row_count, 'launched kernel')}, not run on a GPU: no time is measured"
    launched = any(row.launches is not None for row in run_costs.rows)
    if not timed:
        noun = "kernel" if launched else "variant"
        return f"no GPU time of {plural(row_count, noun)} was recorded: {HOW_TO_TIME}"
    parts = [
        f"GPU time of {timed} of {plural(row_count, 'launched kernel' if launched else 'kernel')}"
    ]
    window = run_costs.window
    if window is not None and window.busy_percent is not None:
        length = time_span(window.seconds * 1e6)
        parts.append(f"GPU busy {whole_percent(window.busy_percent)} of {length}")
        if window.steps is not None:
            parts.append(f"{time_span(window.steps.us)} a {shown(window.steps.kind)}")
    return " · ".join(parts)


def footnotes(run_costs: Costs) -> list[str]:
    """What the table leaves out, and what its shares are of."""
    sentences = []
    if run_costs.idle:
        sentences.append(
            f"{plural(len(run_costs.idle), 'candidate')} not launched (ptxview list has them)"
        )
    sources = {row.source for row in run_costs.rows}
    if RUN in sources:
        sentences.append("total: of the launches that were timed while the program ran")
    if any(row.share is not None for row in run_costs.rows):
        untimed_text = (
            f"; {plural(run_costs.untimed, 'kernel')} without a time" if run_costs.untimed else ""
        )
        sentences.append(f"share: of the totals of the rows{untimed_text}")
    if ESTIMATE in sources:
        sentences.append("≈: simulated without a GPU (ptxview time --estimate)")
    if BOUND in sources:
        sentences.append(f"≥: a {MEANINGS[BOUND]}")
    if run_costs.unestimated:
        launches = plural(run_costs.unestimated, "kernel")
        sentences.append(f"{launches} not estimated yet: list --by cost --estimate waits for all")
    looked_at = sum(row.rules is not None for row in run_costs.rows)
    for rule, count in run_costs.common_rules.items():
        sentences.append(f"{rule}: on {count} of {plural(looked_at, 'kernel')}")
    unread = sum(row.rules is None for row in run_costs.rows if row.variant is not None)
    if 0 < unread < len(run_costs.rows):
        sentences.append(
            f"hints of {plural(unread, 'kernel')} not counted yet: list --by cost --estimate "
            "waits for all"
        )
    if any(row.at_most for row in run_costs.rows):
        sentences.append("≤: launches by which max-autotune chose are among a library's")
    if run_costs.steps and any(row.step_share is not None for row in run_costs.rows):
        share_text = "shares are of a profiled step, its idle time included"
        if run_costs.busy_percent is not None:
            share_text += (
                f": the GPU worked for {run_costs.busy_percent:.1f} % of it (profile --timeline)"
            )
        sentences.append(share_text)
    return sentences


def document(run_costs: Costs) -> dict[str, object]:
    """``list --by cost``'s JSON."""
    return {
        "schema": SCHEMA,
        "steps": run_costs.steps,
        "window": window_row(run_costs.window),
        "costs": Rows(map(cost_row, run_costs.rows)),
        "not_launched": Rows(map(cost_row, run_costs.idle)),
    }


class WindowRow(Struct, frozen=True, kw_only=True):
    """What the GPU did in ``seconds`` of the run; ``timed`` are launches, ``gaps`` are in µs.

    ``step_us`` is the length of a step, which an optimizer or a graph ended.
    """

    seconds: float
    busy_percent: float | None
    launches: int
    timed: int
    steps: int
    step_us: float | None
    step_kind: Literal["graph", "optimizer"] | None
    step_name: str | None
    gaps: list[float]


def window_row(window: GpuWindow | None) -> WindowRow | None:
    if window is None:
        return None
    steps = window.steps
    step_kind: Literal["graph", "optimizer"] | None = None
    if steps is not None:
        step_kind = "optimizer" if steps.is_optimizers else "graph"
    return WindowRow(
        seconds=window.seconds,
        busy_percent=window.busy_percent,
        launches=window.launches,
        timed=window.attributed,
        steps=0 if steps is None else steps.count,
        step_us=None if steps is None else steps.us,
        step_kind=step_kind,
        step_name=None if steps is None else steps.name,
        gaps=[gap.us for gap in window.gaps],
    )


class CostRow(Struct, frozen=True, kw_only=True):
    """What one variant, or a kernel that only a profile names, took of the run.

    ``timed`` are the launches of which ``us`` is the median. Shares are of all known totals, and
    of a step of the profile.
    """

    kernel: str
    title: str
    variant: str | None
    launches: int | None
    launches_exact: bool
    launches_at_most: bool
    timed: int | None
    launches_per_step: float | None
    us: float | None
    source: str | None
    total_us: float | None
    share_percent: float | None
    step_share_percent: float | None
    bound: str | None
    hint: str | None


def cost_row(cost: Cost) -> CostRow:
    return CostRow(
        kernel=cost.name if cost.kernel is None else cost.kernel.id,
        title=cost.name,
        variant=None if cost.variant is None else cost.variant.id,
        launches=cost.launches,
        launches_exact=cost.exact and not cost.at_most,
        launches_at_most=cost.at_most,
        timed=cost.timed,
        launches_per_step=cost.per_step,
        us=cost.us,
        source=cost.source,
        total_us=cost.total_us,
        share_percent=cost.share,
        step_share_percent=cost.step_share,
        bound=cost.bound,
        hint=cost.hint,
    )
