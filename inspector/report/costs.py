"""Kernels by cost: launches, the time of each launch, its source, and its share of the run."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from inspector.analyse.hints.subject import Finding
from inspector.analyse.tuner_times import overheads
from inspector.base.model import Kernel, Recording, Variant
from inspector.base.text import microseconds, plural, shown
from inspector.measure.evidence import Evidence
from inspector.measure.profile.trace import GpuWork
from inspector.measure.time.results import ESTIMATE
from inspector.report.compiles import CompileLine
from inspector.report.jsons import SCHEMA, Rows
from inspector.report.profile import busy
from inspector.report.tables import UNKNOWN, grid, titles, user_line

TIMED, PROFILED, NCU, TUNER = "time", "profile", "ncu", "tuner"
"""Sources of a launch's time, the most trusted first."""
LATENCY_US = 2.5
"""A shorter kernel is bounded by the launch itself and one trip to memory."""
MEMORY_BOUND_PERCENT = 60.0
"""Share of the device's copy speed, or of ncu's peak, at which that is what bounds a kernel."""

BUSY_SHARE = 0.9
"""Share of the SMs below which a grid's blocks are what bounds a kernel: the others are idle."""


class Cost(Struct, frozen=True):
    """What one variant, or a kernel that only a profile names, took of the run; None is unknown.

    ``launches`` are the program's own, ``at_most`` where an autotuner's are among them;
    ``per_step`` those in a step of the profile. ``us`` is the time of one launch from ``source``,
    ``total_us`` of all launches if their number is known. ``share`` is the percentage of
    all known totals, ``step_share`` that of a step of the profile, GPU idle included. ``bound`` is
    what bounds it, ``hint`` the rule of its most severe hint, "" if there is none. ``overhead``:
    the time is no longer than what the tuner's stopwatch reads of launching alone.
    """

    name: str
    kernel: Kernel | None = None
    variant: Variant | None = None
    launches: int | None = None
    at_most: bool = False
    per_step: float | None = None
    us: float | None = None
    source: str | None = None
    share: float | None = None
    step_share: float | None = None
    bound: str | None = None
    hint: str | None = None
    overhead: bool = False

    @property
    def total_us(self) -> float | None:
        """Time of all launches."""
        if self.us is None or self.launches is None or self.at_most:
            return None
        return self.us * self.launches


class Costs(Struct, frozen=True):
    """The rows of a run, the most expensive first, and what is below the fold.

    ``idle`` are variants that were compiled and never launched, ``untimed`` how many rows have no
    time: shares are then of what is timed. ``busy_percent`` is the share of the profiled time in
    which the GPU worked.
    """

    rows: tuple[Cost, ...]
    idle: tuple[Cost, ...] = ()
    steps: int | None = None
    busy_percent: float | None = None

    @property
    def untimed(self) -> int:
        """How many launched rows have no time."""
        return sum(row.us is None for row in self.rows)

    def measure(self, name: str, variant: Variant) -> float | None:
        """Return the ``time`` of a variant's launch in µs, or its ``cost`` in percent."""
        for row in self.rows:
            if row.variant is variant:
                return row.us if name == "time" else row.share
        return None


def costs(rec: Recording, given: Evidence) -> Costs:
    """The costs of a recording's variants, and of what only its profile names."""
    works = given.profile.kernels if given.profile is not None else ()
    steps = len(given.profile.window.steps) if given.profile is not None else 0
    by_variant = _works_by_variant(rec, works)
    named, floors = titles(rec), overheads(rec)
    chosen = {  # of the candidate that each kernel of max-autotune was generated from
        use.kernel: {
            "time_us": tuning.configurations[use.configuration].time_us,
            "stopwatch": tuning.stopwatch,
        }
        for kernel in rec.kernels
        for tuning in kernel.autotune
        for use in tuning.uses
        if use.kernel is not None and use.configuration is not None
    }
    # Older recordings do not tell an autotuner's launches of a library's kernels from others.
    tuned = any(tuning.operation for kernel in rec.kernels for tuning in kernel.autotune)
    rows = []
    for kernel, variant in rec.variants():
        work, best = by_variant.get((kernel.id, variant.id)), chosen.get(kernel.id, {})
        rows.append(
            replace(
                _cost(kernel, variant, given, work, best, floors),
                name=named.get(kernel.id, kernel.called),
                at_most=tuned and variant.benchmarks is None and bool(variant.launches),
                per_step=work.calls / steps if work is not None and steps else None,
            )
        )
    known = any(row.launches is not None for row in rows)
    rows += [  # how often the whole run launched what only the profile names is unknown
        Cost(
            work.short,
            per_step=work.calls / steps if steps else None,
            us=work.gpu_us / work.calls if work.calls else None,
            source=PROFILED,
        )
        for work in works
        if work.kernel is None
    ]
    whole = sum(row.total_us or 0 for row in rows)
    window = given.profile.overhead.window_us if given.profile is not None else 0
    step_us = window / steps if steps else 0
    launched: list[Cost] = []
    idle: list[Cost] = []
    for row in rows:
        if not row.launches and not row.per_step and known:
            idle.append(row)
            continue
        total = row.total_us
        step = None if row.us is None or row.per_step is None else row.us * row.per_step
        launched.append(
            replace(
                row,
                share=None if total is None or not whole else 100 * total / whole,
                step_share=None if step is None or not step_us else 100 * step / step_us,
                hint=None if row.variant is None else worst(given.hints(row.variant)),
            )
        )
    launched.sort(key=lambda row: [-(x or 0) for x in (row.step_share, row.total_us, row.us)])
    worked = None if given.profile is None else busy(given.profile.overhead)
    return Costs(tuple(launched), tuple(idle), steps or None, worked)


def worst(found: Sequence[Finding] | None) -> str | None:
    """The rule of the most severe hint, "" if there is none; None where none were looked for."""
    severe = sorted(found or (), key=lambda hint: _SEVERITIES.get(hint.severity, 3))
    return None if found is None else severe[0].rule if severe else ""


def _works_by_variant(rec: Recording, works: Sequence[GpuWork]) -> dict[tuple[str, str], GpuWork]:
    """Works whose variant is sure: the only one that fits, or the only launched one that does."""
    launched = {(k.id, v.id) for k, v in rec.variants() if v.launches}
    out: dict[tuple[str, str], GpuWork] = {}
    for work in works:
        keys = [(work.kernel or "", variant) for variant in work.variants]
        sure = keys if len(keys) == 1 else [key for key in keys if key in launched]
        if len(sure) == 1:
            out[sure[0]] = work
    return out


def _cost(
    kernel: Kernel,
    variant: Variant,
    given: Evidence,
    work: GpuWork | None,
    chosen: Mapping[str, object],
    floors: Mapping[str, float],
) -> Cost:
    taken = given.times.of(kernel, variant)
    measured = given.measured(variant)
    record = variant.autotune or {}
    record = record if record.get("time_us") else chosen
    tuned, overhead_us = record.get("time_us"), floors.get(str(record.get("stopwatch")), 0.0)
    us, source, copied = None, None, None
    if taken is not None:
        us, source, copied = taken.median_us, TIMED, taken.timing.percent_of_peak
    elif work is not None and work.calls:
        us, source = work.gpu_us / work.calls, PROFILED
    elif measured is not None and measured.us is not None:
        us, source = measured.us, NCU
    elif isinstance(tuned, int | float) and variant.launches:
        us, source = float(tuned), TUNER
    elif variant.launches and (us := given.estimated(kernel, variant)) is not None:
        source = ESTIMATE
    return Cost(
        kernel.called,
        kernel,
        variant,
        variant.launches,
        us=us,
        source=source,
        bound=_bound(
            variant, us, source, given, copied, None if measured is None else measured.busiest
        ),
        overhead=source == TUNER and us is not None and us <= overhead_us,
    )


_SEVERITIES = {"warn": 0, "hint": 1, "info": 2}


def _bound(
    variant: Variant,
    us: float | None,
    source: str | None,
    given: Evidence,
    copy_percent: float | None,
    busiest: tuple[float, str] | None,
) -> str | None:
    """What bounds a kernel, from ncu's peaks, its share of a copy's speed, its grid or its time."""
    if busiest is not None and busiest[0] >= MEMORY_BOUND_PERCENT:
        return f"{busiest[1]} {busiest[0]:.0f} %"
    if copy_percent is not None and copy_percent >= MEMORY_BOUND_PERCENT:
        return f"≈ memory {copy_percent:.0f} %"  # of bytes that are an estimate
    device = given.device(variant)
    grids = [call.grid for call in variant.calls if call.grid is not None]
    if device is not None and device.sms and grids:
        blocks = max(x * y * z for x, y, z in grids)
        if blocks < BUSY_SHARE * device.sms:
            return f"{blocks} of {device.sms} SMs"
    if us is not None and us < LATENCY_US and source != TUNER:
        return "≈ latency"
    return None


NUMBERS = ("launches", "µs", "total", "share", "of step")
GIVES = (
    *(("kernel", 44), ("total", 0), ("worst hint", 12), ("kernel", 30), ("variant", 0)),
    *(("bound by", 0), ("from", 0), ("worst hint", 0), ("kernel", 12)),
)


def cells(row: Cost) -> dict[str, str]:
    """A row's cells by their heads."""
    launches = UNKNOWN if row.launches is None else f"{'≤ ' * row.at_most}{row.launches:,}"
    counted = row.hint is not None or row.variant is None
    about = "≈ " if row.source == ESTIMATE else ""
    return {
        "kernel": row.name if row.kernel is not None else shown(row.name),
        "variant": "" if row.variant is None else shown(row.variant.id),
        "launches": launches if row.per_step is None else f"{row.per_step:g} a step",
        "µs": UNKNOWN if row.us is None else about + microseconds(row.us),
        "from": "launch overhead" if row.overhead else row.source or "",
        "total": UNKNOWN if row.total_us is None else f"{about}{microseconds(row.total_us)} µs",
        "share": _percent(row.share),
        "of step": _percent(row.step_share),
        "bound by": row.bound or "",
        "worst hint": row.hint or "" if counted else UNKNOWN,
    }


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f} %"


def lines(found: Costs, width: int) -> Iterator[CompileLine]:
    """The table, the most expensive kernel first; each row is about its variant."""
    rows = [cells(row) for row in found.rows] or [cells(Cost(""))]
    heads = [head for head in rows[0] if head != "of step" or found.steps]
    table = grid(heads, [[row[head] for head in heads] for row in rows], width, NUMBERS, GIVES)
    yield CompileLine(next(table))
    for text, row in zip(table, found.rows, strict=False):
        variant = None if row.variant is None else row.variant.hash
        yield CompileLine(text, kernel=variant, about=about(row))


def about(row: Cost) -> str:
    """Why a kernel takes its time and where it is from, which a narrow table has no room for."""
    calls = () if row.variant is None else row.variant.calls
    place = "" if row.kernel is None else user_line(row.kernel)
    operators = " → ".join(calls[0].operators) if calls and not place else ""
    bound = row.bound and f"bound by {row.bound}"
    return " · ".join(filter(None, (bound, row.hint, place, operators and f"in {operators}")))


def footnotes(found: Costs) -> list[str]:
    """What the table leaves out, and what its shares are of."""
    out = []
    if found.idle:
        out.append(f"{plural(len(found.idle), 'candidate')} not launched (ptxview list has them)")
    if found.rows and found.untimed == len(found.rows):
        out.append("no times are known: ptxview time takes them, ptxview run --time with the run")
    elif found.untimed:
        out.append(f"{plural(found.untimed, 'kernel')} without a time; shares are of the others")
    if any(row.source == ESTIMATE for row in found.rows):
        out.append("≈: simulated without a GPU (ptxview time --estimate)")
    if any(row.at_most for row in found.rows):
        out.append("≤: launches by which max-autotune chose are among a library's")
    if found.steps and any(row.step_share is not None for row in found.rows):
        said = "shares are of a profiled step, its idle time included"
        if found.busy_percent is not None:
            said += f": the GPU worked for {found.busy_percent:.1f} % of it (profile --timeline)"
        out.append(said)
    return out


def document(found: Costs) -> dict[str, object]:
    """``list --by cost``'s JSON."""
    return {
        "schema": SCHEMA,
        "steps": found.steps,
        "costs": Rows(_json(row) for row in found.rows),
        "not_launched": Rows(_json(row) for row in found.idle),
    }


def _json(row: Cost) -> dict[str, object]:
    return {
        "kernel": row.name if row.kernel is None else row.kernel.id,
        "title": row.name,
        "variant": None if row.variant is None else row.variant.id,
        "launches": row.launches,
        "launches_at_most": row.at_most,
        "launches_per_step": row.per_step,
        "us": row.us,
        "source": row.source,
        "mostly_overhead": row.overhead,
        "total_us": row.total_us,
        "share_percent": row.share,
        "step_share_percent": row.step_share,
        "bound": row.bound,
        "hint": row.hint,
    }
