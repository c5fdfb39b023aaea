"""Measured times of recorded launches: cells, tables, notes, JSON."""

import datetime
from collections.abc import Iterator, Sequence

from rich.console import Group

from inspector.base.text import base_name, microseconds, plural, shown, some
from inspector.measure.launch_time import LaunchTime
from inspector.measure.time.results import (
    ESTIMATE,
    KernelTime,
    Session,
    StoredTime,
    Timing,
    timing_row,
)
from inspector.report.jsons import SCHEMA, members
from inspector.report.tables import UNKNOWN, grid

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


WHO = ("kernel", "variant", "inputs")


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


def took(timing: Timing) -> str:
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
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= one:
            return f"{value / one:.3g} {unit}"
    return f"{value} B"


def named(timing: Timing) -> str:
    """What was launched or called, as people know it."""
    return f"graph {timing.kernel}" if timing.kind == "graph" else base_name(timing.kernel)


def rates(timing: Timing) -> dict[str, str]:
    """The cells that a recorded launch and a variant of a script have alike."""
    return {
        "variant": shown(timing.variant),
        "µs": took(timing),
        "95 %": interval(timing),
        "GB/s": amount(timing.gb_per_s),
        "of copy": amount(timing.percent_of_peak, unit=" %"),
        "TFLOP/s": amount(timing.tflop_per_s, 2),
    }


def table(session: Session, width: int) -> Group:
    """Return a row for each launch, with a column for each of several stopwatches."""
    watches = list(dict.fromkeys(t.stopwatch for t in session.rows if t.stopwatch))
    heads, rows = (
        _beside(session, watches) if len(watches) > 1 else _one(session, narrow=width < 120)
    )
    gives = (("inputs", 16), ("kernel", 16))
    return Group(*grid(heads, rows, width, set(heads) - set(WHO), gives))


def _one(session: Session, narrow: bool) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of one stopwatch, each launch above what it launched."""
    moved = "bytes" if any(t.bytes_from == "given" for t in session.rows) else "bytes est."
    heads = [*WHO, "µs", "95 %", "n", moved, "GB/s", "of copy", "TFLOP/s"]
    if any(t.stopwatch == ESTIMATE for t in session.rows):
        heads = [*WHO, "µs", "85 %"]
    if narrow:
        heads = [h for h in heads if h not in ("n", "inputs", "TFLOP/s", moved)]
    rows: list[dict[str, str]] = []
    for timing in session.rows:
        own = {"kernel": shown(named(timing)), "inputs": shown(timing.inputs)}
        own |= {"n": str(timing.samples), moved: size(timing.bytes)}
        rows.append(rates(timing) | own | {"85 %": interval(timing)})
        for part in timing.kernels if timing.kind != "triton" else ():
            times = f" ×{part.per_call}" if narrow and part.per_call != 1 else ""
            rows.append(
                {
                    "kernel": f"  {shown(base_name(part.name))}{times}",
                    "variant": shown(part.variant or UNKNOWN),
                    "inputs": f"{part.per_call} a call" if part.per_call != 1 else "",
                    "µs": duration(part.median_us),
                    "95 %": interval(part),
                    "n": str(part.samples),
                }
            )
    return heads, [[row.get(head, "") for head in heads] for row in rows]


def _beside(session: Session, watches: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of several stopwatches."""
    states = {t.stopwatch: t.cache for t in session.rows if t.stopwatch}
    by_launch: dict[tuple[str, str, str, int], dict[str | None, Timing]] = {}
    for timing in session.rows:
        key = (shown(named(timing)), shown(timing.variant), shown(timing.inputs), timing.call)
        by_launch.setdefault(key, {})[timing.stopwatch] = timing
    rows = [
        # A launch that failed before any stopwatch has a row of none.
        [*who, *(took(found) if (found := by.get(w) or by.get(None)) else UNKNOWN for w in watches)]
        for (*who, _), by in by_launch.items()
    ]
    return [*WHO, *(f"{watch}, {states[watch]}" for watch in watches)], rows


def heading(session: Session) -> str:
    """Where, with what and how this was measured."""
    device = session.device
    versions = " ".join(f"{n} {device[n]}" for n in ("torch", "triton") if device.get(n))
    copies = [p for p in session.peaks if p.stopwatch == "cupti"] or list(session.peaks)
    parts = [str(device.get("name") or "unknown device"), versions]
    if copies:
        sheet = session.data_sheet_gb_per_s
        beside = f", {sheet:,.0f} by its data sheet" if sheet is not None else ""
        parts.append(f"copy {copies[0].gb_per_s:,.0f} GB/s measured{beside}")
    return shown(" · ".join(p for p in parts if p))


def footnotes(session: Session) -> Iterator[str]:
    """What the table's figures are, then warnings and failures, each with whose it is."""
    watches = list(dict.fromkeys(t.stopwatch for t in session.rows if t.stopwatch))
    if watches == [ESTIMATE]:
        yield f"≈: {LESSONS[ESTIMATE]} (docs/explanation/accuracy.md)"
        for said in dict.fromkeys(said for t in session.rows for said in t.warnings):
            those = dict.fromkeys(named(t) for t in session.rows if said in t.warnings)
            yield shown(f"{some(list(those))}: {said}")
        return
    if len(watches) > 1:
        yield "Median µs of the same launch by each stopwatch:"
        for watch in watches:
            yield f"  {watch:<10} {LESSONS.get(watch, '')}"
    for state in dict.fromkeys(t.cache for t in session.rows if t.cache):
        yield f"{state}: {STATES.get(state, '')}"
    # Old records without a source are estimates.
    moved = [t.bytes_from for t in session.rows if t.bytes is not None]
    flops = [t.flops_from for t in session.rows if t.flops is not None]
    if moved:
        amounts = "estimates: each tensor's bytes once, operations counted in TTIR"
        if "given" in (*moved, *flops):
            amounts = " and ".join(
                f"{what} as {'given' if 'given' in sources else 'estimated'}"
                for what, sources in (("bytes", moved), ("operations", flops))
                if sources
            )
        yield (
            f"GB/s and TFLOP/s are of {amounts}; of copy: of the bandwidth that a copy "
            "of 1 GB reached in the same run"
        )
    calls = [t for t in session.rows if t.kind != "triton" and t.stopwatch == "cupti"]
    if calls:
        yield (
            "of a graph or an extension's function: the sum of what the device did for one call, "
            "and below it one launch of each kernel"
        )
    for timing in calls:
        if timing.cpu_us is not None:
            yield shown(
                f"{named(timing)}: one call keeps the CPU for {duration(timing.cpu_us)} µs, its "
                f"kernels the device for {duration(timing.median_us)}"
            )
    for timing in session.rows:
        parts = (named(timing), timing.variant, timing.stopwatch)
        whose = " ".join(p for p in parts if p)
        if timing.error:
            yield shown(f"{whose}: failed: {timing.error}")
        for said in timing.warnings:
            yield shown(f"{whose}: {said}")


def age(taken: str, now: datetime.datetime) -> str:
    """``3 days ago`` of an ISO 8601 time; the time itself where it cannot be read."""
    try:
        seconds = (now - datetime.datetime.fromisoformat(taken)).total_seconds()
    except (ValueError, TypeError):
        return shown(taken)
    for unit, one in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= one:
            count = int(seconds // one)
            return f"{plural(count, unit)} ago"
    return "just now" if seconds >= 0 else shown(taken)


def launch_json(time: LaunchTime | None) -> dict[str, object] | None:
    """The time of a launch with its source: µs, whose, and how many launches were timed."""
    return None if time is None else members(time, "us source timed measured")


def how(time: StoredTime, taken: str) -> str:
    """All that a time was taken with; ``taken`` says when."""
    parts = (time.inputs, time.device or "unknown device", taken)
    return (
        f"measured (95 %: {interval(time.timing)}) by {time.timing.stopwatch}, "
        f"{STATES.get(time.cache, time.cache)}; {', '.join(filter(None, parts))}"
    )


def timing(time: StoredTime | None) -> dict[str, object] | None:
    if time is None:
        return None
    own = members(time.timing, "median_us low_us high_us stopwatch cache")
    return own | members(time, "taken device inputs")
