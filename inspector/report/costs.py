"""Kernels by cost: launches, the time of each launch, its source, and its share of the run."""

from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from inspector.analyse.hints.subject import Finding
from inspector.base.model import Kernel, Recording, Variant
from inspector.base.text import microseconds, plural, shown, time_span
from inspector.measure.evidence import Evidence
from inspector.measure.gpu_window import GpuWindow, Steps
from inspector.measure.launch_time import BOUND, MEANINGS, PROFILED, RUN, LaunchTime
from inspector.measure.profile.trace import GpuWork
from inspector.measure.time.results import ESTIMATE
from inspector.report.compiles import CompileLine
from inspector.report.jsons import SCHEMA, Rows
from inspector.report.profile import busy
from inspector.report.tables import UNKNOWN, grid, titles, user_line

LATENCY_US = 2.5
"""A shorter kernel is bounded by the launch itself and one trip to memory."""
MEMORY_BOUND_PERCENT = 60.0
"""Share of the device's copy speed, or of ncu's peak, at which that is what bounds a kernel."""
BUSY_SHARE = 0.9
"""Share of the SMs below which a grid's blocks are what bounds a kernel: the others are idle."""
HOW_TO_TIME = "ptxview time, or run it again"
"""What gives a recording without times of its launches some."""
BAR_CELLS = 12
"""Cells of the bar that stands for the largest share."""


class Cost(Struct, frozen=True):
    """What one variant, or a kernel that only a profile names, took of the run; None is unknown.

    ``launches`` are the program's own, at least so many where they are not ``exact``; ``at_most``
    where an autotuner's are among them; ``per_step`` those in a step of the profile. ``time`` is
    that of one launch. ``share`` is the percentage of all known totals, ``step_share`` that of a
    step of the profile, GPU idle included. ``bound`` is what bounds it, ``hint`` the rule of its
    most severe hint, "" if there is none.
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
    hint: str | None = None

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
    have neither a measured time nor an estimate, which there may be.
    """

    rows: tuple[Cost, ...]
    idle: tuple[Cost, ...] = ()
    steps: int | None = None
    busy_percent: float | None = None
    window: GpuWindow | None = None
    unestimated: int = 0

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
    named = titles(rec)
    # Older recordings do not tell an autotuner's launches of a library's kernels from others.
    tuned = any(tuning.operation for kernel in rec.kernels for tuning in kernel.autotune)
    rows = []
    for kernel, variant in rec.variants():
        work = given.works.get((kernel.id, variant.id))
        rows.append(
            replace(
                _cost(kernel, variant, given),
                name=named.get(kernel.id, kernel.called),
                at_most=tuned and variant.benchmarks is None and bool(variant.launches),
                per_step=work.calls / steps if work is not None and steps else None,
            )
        )
    known = any(row.launches is not None for row in rows)
    rows += [_only_profiled(work, steps) for work in works if work.kernel is None]
    idle = [row for row in rows if known and not row.launches and not row.per_step]
    launched = [row for row in rows if row not in idle]
    whole = sum(row.total_us or 0 for row in launched)
    window_us = given.profile.overhead.window_us if given.profile is not None else 0
    step_us = window_us / steps if steps else 0
    shared = [
        replace(
            row,
            share=_share(row.total_us, whole),
            step_share=_share(_per_step_us(row), step_us),
        )
        for row in launched
    ]
    shared.sort(key=lambda row: [-(x or 0) for x in (row.total_us, row.step_share, row.us)])
    # In this order, for there may be time for the hints of the costliest rows only.
    shared = [
        row if row.variant is None else replace(row, hint=worst(given.hints(row.variant)))
        for row in shared
    ]
    worked = None if given.profile is None else busy(given.profile.overhead)
    return Costs(tuple(shared), tuple(idle), steps or None, worked, given.window)


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


def _share(part: float | None, whole: float) -> float | None:
    return None if part is None or not whole else 100 * part / whole


def _per_step_us(row: Cost) -> float | None:
    """GPU time of a row in a step of the profile."""
    return None if row.us is None or row.per_step is None else row.us * row.per_step


def _only_profiled(work: GpuWork, steps: int) -> Cost:
    """A kernel that only the profile names: how often the whole run launched it is unknown."""
    mean = work.gpu_us / work.calls if work.calls else None
    return Cost(
        work.short,
        per_step=work.calls / steps if steps else None,
        time=None if mean is None else LaunchTime(mean, PROFILED, mean, work.calls),
    )


def worst(found: Sequence[Finding] | None) -> str | None:
    """The rule of the most severe hint, "" if there is none; None where none were looked for."""
    severe = sorted(found or (), key=lambda hint: _SEVERITIES.get(hint.severity, 3))
    return None if found is None else severe[0].rule if severe else ""


def _cost(kernel: Kernel, variant: Variant, given: Evidence) -> Cost:
    time = given.launch_time(kernel, variant)
    taken = given.times.representative(kernel, variant)
    counters = given.measured(variant)
    return Cost(
        kernel.called,
        kernel,
        variant,
        variant.launches,
        exact=variant.launches_exact is not False,
        time=time,
        bound=_bound(
            variant,
            time,
            given,
            None if taken is None else taken.timing.percent_of_peak,
            None if counters is None else counters.busiest,
        ),
    )


_SEVERITIES = {"warn": 0, "hint": 1, "info": 2}


def _bound(
    variant: Variant,
    time: LaunchTime | None,
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
    if time is not None and time.source != BOUND and time.us < LATENCY_US:
        return "≈ latency"
    return None


NUMBERS = ("launches", "µs", "total", "share", "of step")
GIVES = (
    *(("worst hint", 12), ("kernel", 24), ("worst hint", 0), ("bound by", 0), ("variant", 0)),
    *(("from", 0), ("of step", 0), ("", 0), ("kernel", 12)),
)


def cells(row: Cost, largest: float = 0.0) -> dict[str, str]:
    """A row's cells by their heads; ``largest`` is the share that fills the bar."""
    counted = row.hint is not None or row.variant is None
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
        "worst hint": row.hint or "" if counted else UNKNOWN,
    }


def _launches(row: Cost) -> str:
    """How often a kernel was launched, with its mark where the number is a bound."""
    if row.per_step is not None:
        return f"{row.per_step:g} a step"
    if row.launches is None:
        return UNKNOWN
    mark = "≤ " if row.at_most else "" if row.exact else "≥ "
    return f"{mark}{row.launches:,}"


def _bar(share: float | None, largest: float) -> str:
    """A share as a bar of eighths of cells."""
    if not share or not largest:
        return ""
    eighths = max(round(8 * BAR_CELLS * share / largest), 1)
    full, rest = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f} %"


def lines(found: Costs, width: int) -> Iterator[CompileLine]:
    """The table, the most expensive kernel first; each row is about its variant."""
    largest = max((row.share or 0.0 for row in found.rows), default=0.0)
    rows = [cells(row, largest) for row in found.rows] or [cells(Cost(""))]
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


def title(found: Costs) -> str:
    """What the table is of: how many kernels have a time, and what the GPU did in the run."""
    many = len(found.rows)
    timed = sum(row.time is not None and row.time.measured for row in found.rows)
    if not many:
        return "no launch was recorded"
    if not timed:
        return f"no GPU time of {plural(many, 'kernel')} was recorded: {HOW_TO_TIME}"
    launched = any(row.launches is not None for row in found.rows)
    parts = [f"GPU time of {timed} of {plural(many, 'launched kernel' if launched else 'kernel')}"]
    window = found.window
    if window is not None and window.busy_percent is not None:
        length = time_span(window.seconds * 1e6)
        parts.append(f"GPU busy {window.busy_percent:.0f} % of {length}")
        if window.steps is not None:
            parts.append(f"{time_span(window.steps.us)} a {shown(window.steps.kind)}")
    return " · ".join(parts)


def footnotes(found: Costs) -> list[str]:
    """What the table leaves out, and what its shares are of."""
    out = []
    if found.idle:
        out.append(f"{plural(len(found.idle), 'candidate')} not launched (ptxview list has them)")
    sources = {row.source for row in found.rows}
    if RUN in sources:
        out.append("total: of the launches that were timed while the program ran")
    if any(row.share is not None for row in found.rows):
        others = f"; {plural(found.untimed, 'kernel')} without a time" if found.untimed else ""
        out.append(f"share: of the totals of the rows{others}")
    if ESTIMATE in sources:
        out.append("≈: simulated without a GPU (ptxview time --estimate)")
    if BOUND in sources:
        out.append(f"≥: a {MEANINGS[BOUND]}")
    if found.unestimated:
        launches = plural(found.unestimated, "kernel")
        out.append(f"{launches} not estimated yet: list --by cost --estimate waits for all")
    unread = sum(row.hint is None for row in found.rows if row.variant is not None)
    if 0 < unread < len(found.rows):
        out.append(
            f"hints of {plural(unread, 'kernel')} not counted yet: list --by cost --estimate "
            "waits for all"
        )
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
        "window": window_json(found.window),
        "costs": Rows(_json(row) for row in found.rows),
        "not_launched": Rows(_json(row) for row in found.idle),
    }


def window_json(window: GpuWindow | None) -> dict[str, object] | None:
    """What the GPU did in a part of the run, as JSON."""
    if window is None:
        return None
    return {
        "seconds": window.seconds,
        "busy_percent": window.busy_percent,
        "launches": window.launches,
        "timed": window.attributed,
        **_steps_json(window.steps),
        "gaps": [gap.us for gap in window.gaps],
    }


def _steps_json(steps: Steps | None) -> dict[str, object]:
    if steps is None:
        return {"steps": 0, "step_us": None, "step_kind": None, "step_name": None}
    return {
        "steps": steps.count,
        "step_us": steps.us,
        "step_kind": "optimizer" if steps.is_optimizers else "graph",
        "step_name": steps.name,
    }


def _json(row: Cost) -> dict[str, object]:
    return {
        "kernel": row.name if row.kernel is None else row.kernel.id,
        "title": row.name,
        "variant": None if row.variant is None else row.variant.id,
        "launches": row.launches,
        "launches_exact": row.exact and not row.at_most,
        "launches_at_most": row.at_most,
        "timed": row.timed,
        "launches_per_step": row.per_step,
        "us": row.us,
        "source": row.source,
        "total_us": row.total_us,
        "share_percent": row.share,
        "step_share_percent": row.step_share,
        "bound": row.bound,
        "hint": row.hint,
    }
