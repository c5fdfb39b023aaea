"""What the screen of times says: the launches, the times by launch, what they teach, the past."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from math import prod

from inspector.measure.time.calls import ReplayableCall
from inspector.measure.time.planning import Plan, PlannedLaunch, inputs
from inspector.measure.time.results import Session, Timing
from inspector.names import base_name
from inspector.report import timings
from inspector.text import kibibytes, plural
from inspector.tui.widgets import recorded_times as times
from inspector.tui.widgets.figures import UNKNOWN
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.visible import label, shorten

Part = tuple[str, str]
HEAD = "bold $primary"
QUIET = "$quiet"
WARN = "bold $warning"
PAST = 12
"""Former measurements that are shown."""

ESTIMATE = (
    "GB/s is of an estimate, each tensor's bytes once; of copy: of the bandwidth that a copy of "
    "1 GB reached by the same stopwatch in the same run."
)


def wrapped(text: str, width: int, style: str = "", indent: str = "  ") -> Iterator[Part]:
    """A text in lines of at most ``width`` cells."""
    for line in textwrap.wrap(label(text), max(20, width - len(indent))):
        yield f"{indent}{line}\n", style


def launches(plan: Plan, calls: Sequence[ReplayableCall], width: int) -> Iterator[Part]:
    """What would be run, a launch after the other, then calls that launch; and what would not."""
    many = len(plan.launches)
    if many:
        yield f"{plural(many, 'launch')} to time\n", HEAD
    for launch in plan.launches:
        yield from _launch(launch, width)
    if calls:
        yield f"{plural(len(calls), 'call')} to make again\n", HEAD
    for one in calls:
        said = f"{one.call.kind} {one.call.name}: {inputs(one.call.arguments)}"
        yield f"  {shorten(label(said), width - 4)}\n", "bold"
        yield f"    made {_often(one.call.count)} in the run\n", QUIET
    for said in plan.left_out:
        yield from wrapped(f"left out: {said}", width, QUIET)


def _launch(launch: PlannedLaunch, width: int) -> Iterator[Part]:
    call = launch.call
    yield f"  {shorten(label(inputs(call.arguments) or 'no tensors'), width - 4)}\n", "bold"
    parts = []
    if call.grid is not None:
        parts.append(f"grid {'×'.join(map(str, call.grid))}")
    if call.block is not None:
        parts.append(f"{plural(prod(call.block), 'thread')} a block")
    if call.shared_bytes is not None:
        shared = (
            f"{kibibytes(call.shared_bytes)} shared" if call.shared_bytes else "no shared memory"
        )
        parts.append(shared)
    parts.append(f"launched {_often(call.count)}")
    yield from wrapped(" · ".join(parts), width, QUIET, "    ")


def _often(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def leave(path: str, python: str, width: int) -> Iterator[Part]:
    """The question whether another's code may be run."""
    yield "\nRun it?\n", WARN
    yield from wrapped(
        "This runs the code of a recording that is not yours: it does not lie in your own "
        f"folder of recordings, but in {path}. It would run under {python}, with your rights and "
        "on your GPU. Say yes only if you trust whoever made it.",
        width,
    )
    yield "\n", ""
    yield from (("  y", HEAD), (" run it    ", ""), ("n", HEAD), (" do not\n", ""))


def trouble(notice: Notice, width: int) -> Iterator[Part]:
    """Why there is no time, in a sentence, and what to do."""
    yield "\n", ""
    yield from wrapped(f"{notice.sign} {notice.message}", width, "bold $error", "")
    for line in notice.hint.splitlines():
        yield from wrapped(line, width, QUIET)


def measured(session: Session, width: int) -> Iterator[Part]:
    """The times of one run, with all that is to be said of them."""
    yield "\nMeasured just now\n", HEAD
    yield from wrapped(timings.heading(session), width, QUIET)
    yield from by_launch(session.rows, width)
    watches = dict.fromkeys(t.stopwatch for t in session.rows if t.stopwatch)
    if len(watches) > 1:
        yield "\nWhy they differ\n", HEAD
        for watch in watches:
            yield from _lesson(watch, timings.LESSONS.get(watch, ""), width)
    yield "\n", ""
    for state in dict.fromkeys(t.cache for t in session.rows if t.cache):
        yield from wrapped(f"{state}: {timings.STATES.get(state, '')}", width, QUIET)
    if any(t.gb_per_s is not None for t in session.rows):
        yield from wrapped(ESTIMATE, width, QUIET)


def _lesson(watch: str, text: str, width: int) -> Iterator[Part]:
    lines = textwrap.wrap(text, max(20, width - 12))
    yield f"  {watch:<10}", "bold"
    yield "\n            ".join(lines) + "\n", ""


def before(sessions: Sequence[Session], width: int) -> Iterator[Part]:
    """What was taken earlier, the newest first."""
    told = [s for s in reversed(sessions) if s.rows][:PAST]
    if told:
        yield "\nTaken before\n", HEAD
    for session in told:
        name = label(str(session.device.get("name") or "unknown device"))
        yield f"  {timings.age(session.taken, times.now())}", "bold"
        yield f"  {name}\n", QUIET
        yield from by_launch(session.rows, width)


HEADS = ("stopwatch", "L2", "µs", "95 %", "n", "GB/s", "of copy", "SM MHz")
_LEFT = ("stopwatch", "L2")


def by_launch(rows: Sequence[Timing], width: int) -> Iterator[Part]:
    """A table for each launch, a row for each stopwatch; failures and warnings beneath."""
    whole = [HEADS, *map(_cells, rows)]
    sizes = [max(len(row[n]) for row in whole) for n in range(len(HEADS))]
    kept = list(range(len(HEADS)))
    for spare in ("SM MHz", "n"):
        if sum(sizes[n] + 2 for n in kept) + 2 > width:
            kept.remove(HEADS.index(spare))
    for call in dict.fromkeys((t.kind, t.kernel, t.call) for t in rows):
        own = [t for t in rows if (t.kind, t.kernel, t.call) == call]
        of = "" if own[0].variant else f"a call of {own[0].kernel}: "
        yield f"  {shorten(label(of + (own[0].inputs or 'no tensors')), width - 4)}\n", ""
        if any(t.error is None for t in own):
            yield _row(HEADS, sizes, kept), QUIET
        for timing in own:
            if timing.error is not None:
                said = f"✗ {timing.stopwatch or ''} failed: {timing.error}".replace("  ", " ")
                yield from wrapped(said, width, "$error", "    ")
                continue
            text = _row(_cells(timing), sizes, kept)
            yield text, "bold" if timing.stopwatch == "cupti" else ""
            yield from _of_call(timing, width)
        yield from _warnings([t for t in own if t.error is None], width)


def _of_call(timing: Timing, width: int) -> Iterator[Part]:
    """What of a call's time was whose, and how long the CPU was at it."""
    if timing.variant:
        return
    for one in timing.kernels:
        name = label(f"{base_name(one.name)} {one.variant or ''}".rstrip())
        many = f" ×{one.per_call} a call" if one.per_call != 1 else ""
        yield from wrapped(
            f"{timings.duration(one.median_us)} µs{many}  {name}", width, "", "      "
        )
    if timing.cpu_us is not None:
        said = f"One call keeps the CPU for {timings.duration(timing.cpu_us)} µs."
        yield from wrapped(said, width, QUIET, "      ")


def _warnings(rows: Sequence[Timing], width: int) -> Iterator[Part]:
    """Each warning once, with the stopwatches that it is of where it is not of all."""
    told: dict[str, list[str]] = {}
    for timing in rows:
        for said in timing.warnings:
            told.setdefault(said, []).append(timing.stopwatch or UNKNOWN)
    for said, watches in told.items():
        whose = f"{', '.join(watches)}: " if len(watches) < len(rows) else ""
        yield from wrapped(f"⚠ {whose}{said}", width, "$warning", "    ")


def _row(cells: Sequence[str], sizes: Sequence[int], kept: Sequence[int]) -> str:
    out = []
    for n in kept:
        gap = " " * (sizes[n] - len(cells[n]))
        out.append(f"{cells[n]}{gap}" if HEADS[n] in _LEFT else f"{gap}{cells[n]}")
    return f"    {'  '.join(out)}\n"


def _cells(timing: Timing) -> tuple[str, ...]:
    part = timing.percent_of_peak
    return (
        label(timing.stopwatch or UNKNOWN),
        label(timing.cache or UNKNOWN),
        timings.duration(timing.median_us),
        timings.interval(timing),
        str(timing.samples) if timing.samples else UNKNOWN,
        timings.amount(timing.gb_per_s),
        UNKNOWN if part is None else f"{part:.0f} %",
        _clock(timing),
    )


def _clock(timing: Timing) -> str:
    low, high = (timing.clocks.get(name) for name in ("low_mhz", "high_mhz"))
    if not isinstance(low, int) or not isinstance(high, int):
        return UNKNOWN
    return str(high) if low == high else f"{low}…{high}"
