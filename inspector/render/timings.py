"""Measured times of recorded launches: cells, tables, notes, JSON."""

import datetime
from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct
from rich.console import Group

from inspector.base.escapes import shown
from inspector.base.names import base_name
from inspector.base.units import microseconds, plural, some
from inspector.measure.launch_time import LaunchTime
from inspector.measure.time.results import (
    ESTIMATE,
    HOT,
    KernelTime,
    Session,
    StoredTime,
    Timing,
    timing_row,
)
from inspector.render.jsons import SCHEMA
from inspector.render.tables import UNKNOWN, grid

LESSONS = {
    "cupti": "the kernel's own duration, from the device's own time stamps (CUPTI's records): "
    "this is how long the kernel takes",
    "event": "a pair of CUDA events around one launch on an idle device, as a script does it: the "
    "launch's way through the CPU and the driver stands between them, and costs more than many "
    "kernels; Triton's own launch from Python costs more than the one made here",
    "do_bench": "Triton's do_bench: events in a full queue, which still count the gaps between "
    "them, after a flush that writes: the kernel pays for the dirty lines in the L2",
    "cudagraph": "Triton's do_bench_cudagraph: launches on end in a graph, without gaps or CPU, "
    "and with all that fits left in the L2; the mean of many",
    ESTIMATE: "simulated from machine code and executed PTX, without a GPU; the interval holds the "
    "measured time of 85 % of the kernels that the model had not seen",
}
STATES = {
    "cold": "clean cold L2, flushed by reading",
    "hot": "hot L2, as the launch before left it",
    "dirty": "L2 full of other data not yet written back",
}


LAUNCH_COLUMNS = ("kernel", "variant", "inputs")


def document(session: Session) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "taken": session.taken,
        "device": dict(session.device),
        "peak": [
            {"stopwatch": p.stopwatch, "cache": p.cache, "copy_gb_per_s": p.gb_per_s}
            for p in session.peaks
        ],
        "data_sheet_gb_per_s": session.data_sheet_gb_per_s,
        "rows": [timing_row(t) for t in session.rows],
    }


def duration(us: float | None) -> str:
    """µs to as many places as are worth reading."""
    return UNKNOWN if us is None else microseconds(us)


def time_text(timing: Timing) -> str:
    about = "≈ " if timing.stopwatch == ESTIMATE and timing.median_us is not None else ""
    return "failed" if timing.error else about + duration(timing.median_us)


def interval(timing: Timing | KernelTime) -> str:
    if timing.low_us is None or timing.high_us is None:
        return UNKNOWN
    return f"{duration(timing.low_us)}…{duration(timing.high_us)}"


def amount(value: float | None, places: int = 0, unit: str = "") -> str:
    """A figure, or a dash."""
    return UNKNOWN if value is None else f"{value:,.{places}f}{unit}"


def size(value: int | None) -> str:
    """Return bytes in decimal units, as for bandwidth."""
    if value is None:
        return UNKNOWN
    for unit, unit_bytes in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= unit_bytes:
            return f"{value / unit_bytes:.3g} {unit}"
    return f"{value} B"


def launched_name(timing: Timing) -> str:
    """What was launched or called, as people know it."""
    return f"graph {timing.kernel}" if timing.kind == "graph" else base_name(timing.kernel)


def rates(timing: Timing) -> dict[str, str]:
    """The cells that a recorded launch and a variant of a script have alike."""
    return {
        "variant": shown(timing.variant),
        "µs": time_text(timing),
        "95 %": interval(timing),
        "GB/s": amount(timing.gb_per_s),
        "of copy": amount(timing.percent_of_peak, unit=" %"),
        "TFLOP/s": amount(timing.tflop_per_s, 2),
    }


def table(session: Session, width: int) -> Group:
    """Return a row for each launch, with a column for each of several stopwatches."""
    watches = list(dict.fromkeys(t.stopwatch for t in session.rows if t.stopwatch))
    heads, rows = (
        _several_stopwatches(session, watches)
        if len(watches) > 1
        else _single_stopwatch(session, narrow=width < 120)
    )
    gives = (("inputs", 16), ("kernel", 16))
    return Group(*grid(heads, rows, width, set(heads) - set(LAUNCH_COLUMNS), gives))


def _single_stopwatch(session: Session, narrow: bool) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of one stopwatch, each launch above what it launched."""
    has_given_bytes = any(t.bytes_from == "given" for t in session.rows)
    bytes_head = "bytes" if has_given_bytes else "bytes est."
    heads = [*LAUNCH_COLUMNS, "µs", "95 %", "n", bytes_head, "GB/s", "of copy", "TFLOP/s"]
    if any(t.stopwatch == ESTIMATE for t in session.rows):
        heads = [*LAUNCH_COLUMNS, "µs", "85 %"]
    if narrow:
        heads = [h for h in heads if h not in ("n", "inputs", "TFLOP/s", bytes_head)]
    rows: list[dict[str, str]] = []
    for timing in session.rows:
        cells = rates(timing) | {
            "kernel": shown(launched_name(timing)),
            "inputs": shown(timing.inputs),
            "n": str(timing.samples),
            bytes_head: size(timing.bytes),
            "85 %": interval(timing),
        }
        rows.append(cells)
        if timing.kind != "triton":
            rows += (_part_cells(part, narrow) for part in timing.kernels)
    return heads, [[row.get(head, "") for head in heads] for row in rows]


def _part_cells(part: KernelTime, narrow: bool) -> dict[str, str]:
    """The cells of one kernel that a graph or an extension's function launched."""
    is_repeated = part.per_call != 1
    times = f" ×{part.per_call}" if narrow and is_repeated else ""
    return {
        "kernel": f"  {shown(base_name(part.name))}{times}",
        "variant": shown(part.variant or UNKNOWN),
        "inputs": f"{part.per_call} a call" if is_repeated else "",
        "µs": duration(part.median_us),
        "95 %": interval(part),
        "n": str(part.samples),
    }


def _several_stopwatches(
    session: Session, watches: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of several stopwatches."""
    states = {t.stopwatch: t.cache for t in session.rows if t.stopwatch}
    by_launch: dict[tuple[str, str, str, int], dict[str | None, Timing]] = {}
    for timing in session.rows:
        key = (
            shown(launched_name(timing)),
            shown(timing.variant),
            shown(timing.inputs),
            timing.call,
        )
        by_launch.setdefault(key, {})[timing.stopwatch] = timing
    rows = []
    for (*launch, _), timings_by_stopwatch in by_launch.items():
        # A launch that failed before any stopwatch has a row of none.
        failed = timings_by_stopwatch.get(None)
        timings = [timings_by_stopwatch.get(watch) or failed for watch in watches]
        rows.append([*launch, *(UNKNOWN if t is None else time_text(t) for t in timings)])
    return [*LAUNCH_COLUMNS, *(f"{watch}, {states[watch]}" for watch in watches)], rows


def heading(session: Session) -> str:
    """Where, with what and how this was measured."""
    device = session.device
    versions = " ".join(f"{n} {device[n]}" for n in ("torch", "triton") if device.get(n))
    copies = [p for p in session.peaks if p.stopwatch == "cupti"] or list(session.peaks)
    parts = [str(device.get("name") or "unknown device"), versions]
    if copies:
        sheet = session.data_sheet_gb_per_s
        data_sheet = f", {sheet:,.0f} by its data sheet" if sheet is not None else ""
        parts.append(f"copy {copies[0].gb_per_s:,.0f} GB/s measured{data_sheet}")
    return shown(" · ".join(p for p in parts if p))


def footnotes(session: Session) -> Iterator[str]:
    """What the table's figures are, then warnings and failures, each with whose it is."""
    watches = list(dict.fromkeys(t.stopwatch for t in session.rows if t.stopwatch))
    if watches == [ESTIMATE]:
        yield from _estimate_footnotes(session)
        return
    if len(watches) > 1:
        yield "Median µs of the same launch by each stopwatch:"
        for watch in watches:
            yield f"  {watch:<10} {LESSONS.get(watch, '')}"
    for state in dict.fromkeys(t.cache for t in session.rows if t.cache):
        yield f"{state}: {STATES.get(state, '')}"
    yield from _rate_footnotes(session)
    yield from _call_footnotes(session)
    yield from _input_footnotes(session)
    for timing in session.rows:
        parts = (launched_name(timing), timing.variant, timing.stopwatch)
        subject = " ".join(filter(None, parts))
        if timing.error:
            yield shown(f"{subject}: failed: {timing.error}")
        for warning in timing.warnings:
            yield shown(f"{subject}: {warning}")


def _estimate_footnotes(session: Session) -> Iterator[str]:
    """What an estimate is, and each warning once with the launches that have it."""
    yield f"≈: {LESSONS[ESTIMATE]} (docs/explanation/accuracy.md)"
    if any(timing.cache == HOT for timing in session.rows):
        yield f"{HOT}: {STATES[HOT]}"
    launches_by_warning: dict[str, dict[str, None]] = {}
    for timing in session.rows:
        for warning in timing.warnings:
            launches_by_warning.setdefault(warning, {})[launched_name(timing)] = None
    for warning, launches in launches_by_warning.items():
        yield shown(f"{some(list(launches))}: {warning}")


def _rate_footnotes(session: Session) -> Iterator[str]:
    """Where the bytes and operations of rates are from."""
    # Old records without a source are estimates.
    bytes_sources = [t.bytes_from for t in session.rows if t.bytes is not None]
    flops_sources = [t.flops_from for t in session.rows if t.flops is not None]
    if not bytes_sources:
        return
    amounts = "estimates: each tensor's bytes once, operations counted in TTIR"
    if "given" in (*bytes_sources, *flops_sources):
        quantities = {"bytes": bytes_sources, "operations": flops_sources}
        amounts = " and ".join(
            f"{quantity} as {'given' if 'given' in sources else 'estimated'}"
            for quantity, sources in quantities.items()
            if sources
        )
    yield (
        f"GB/s and TFLOP/s are of {amounts}; of copy: of the bandwidth that a copy "
        "of 1 GB reached in the same run"
    )


def _call_footnotes(session: Session) -> Iterator[str]:
    """What a time of a graph or of an extension's function is, and how long each kept the CPU."""
    calls = [t for t in session.rows if t.kind != "triton" and t.stopwatch == "cupti"]
    if calls:
        yield (
            "of a graph or an extension's function: the sum of what the device did for one call, "
            "and below it one launch of each kernel"
        )
    for timing in calls:
        if timing.cpu_us is not None:
            yield shown(
                f"{launched_name(timing)}: one call keeps the CPU for {duration(timing.cpu_us)} "
                f"µs, its kernels the device for {duration(timing.median_us)}"
            )


def _input_footnotes(session: Session) -> Iterator[str]:
    """Whose values the inputs held, where that is known."""
    known = [t for t in session.rows if t.kept_inputs is not None]
    kept = {f"{launched_name(t)} ({some(t.kept_inputs)})": None for t in known if t.kept_inputs}
    if kept:
        yield shown(
            f"inputs: as the program's call had them, of {some(list(kept))}; "
            "all others are new ones of the same kind"
        )
    elif known:
        yield "inputs: new ones of the same kind"


def age(timestamp: str, now: datetime.datetime) -> str:
    """``3 days ago`` of an ISO 8601 time; the time itself where it cannot be read."""
    try:
        seconds = (now - datetime.datetime.fromisoformat(timestamp)).total_seconds()
    except (ValueError, TypeError):
        return shown(timestamp)
    for unit, unit_seconds in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= unit_seconds:
            count = int(seconds // unit_seconds)
            return f"{plural(count, unit)} ago"
    return "just now" if seconds >= 0 else shown(timestamp)


class LaunchTimeRow(Struct, frozen=True, kw_only=True):
    """The time of one launch: µs, whose they are, and how many launches were timed."""

    us: Annotated[float, Meta(description="the median; of a profile the mean")]
    source: str
    timed: Annotated[int | None, Meta(description="launches that were timed")]
    measured: Annotated[bool, Meta(description="false of an estimate and of a lower bound")]


def launch_time_row(time: LaunchTime | None) -> LaunchTimeRow | None:
    if time is None:
        return None
    return LaunchTimeRow(us=time.us, source=time.source, timed=time.timed, measured=time.measured)


def measurement_text(time: StoredTime, age_text: str) -> str:
    """All that a time was taken with; ``age_text`` says when."""
    parts = (time.inputs, time.device or "unknown device", age_text)
    return (
        f"measured (95 %: {interval(time.timing)}) by {time.timing.stopwatch}, "
        f"{STATES.get(time.cache, time.cache)}; {', '.join(filter(None, parts))}"
    )


class TimingRow(Struct, frozen=True, kw_only=True):
    """A stored time: µs of the median and its interval, and what it was taken with."""

    median_us: float | None
    low_us: float | None
    high_us: float | None
    stopwatch: str | None
    cache: str | None
    taken: str
    device: str | None
    inputs: str


def stored_time_row(stored: StoredTime | None) -> TimingRow | None:
    if stored is None:
        return None
    timing = stored.timing
    return TimingRow(
        median_us=timing.median_us,
        low_us=timing.low_us,
        high_us=timing.high_us,
        stopwatch=timing.stopwatch,
        cache=timing.cache,
        taken=stored.taken,
        device=stored.device,
        inputs=stored.inputs,
    )
