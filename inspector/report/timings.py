"""Measured times as a table and as JSON."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Group

from inspector.base.model import Recording
from inspector.base.names import base_name
from inspector.base.text import microseconds, plural, shown
from inspector.measure.time.results import (
    COLD,
    Session,
    StoredTime,
    StoredTimes,
    Timing,
    timing_row,
)
from inspector.report.grid import grid
from inspector.report.jsons import SCHEMA, Rows
from inspector.report.tables import UNKNOWN

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
}
STATES = {
    "cold": "clean cold L2, flushed by reading",
    "hot": "hot L2, as the launch before left it",
    "dirty": "L2 full of other data not yet written back",
}


GIVES = (("inputs", 16), ("kernel", 16))


def document(session: Session) -> dict[str, object]:
    """``time``'s JSON: rows, the device and what its copy reached."""
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


def interval(timing: Timing) -> str:
    """The median's 95 % interval."""
    return between(timing.low_us, timing.high_us)


def between(low: float | None, high: float | None) -> str:
    return UNKNOWN if low is None or high is None else f"{duration(low)}…{duration(high)}"


def amount(value: float | None, places: int = 0) -> str:
    """A figure, or a dash."""
    return UNKNOWN if value is None else f"{value:,.{places}f}"


def size(value: int | None) -> str:
    """Return bytes in decimal units, as for bandwidth."""
    if value is None:
        return UNKNOWN
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= one:
            return f"{value / one:.3g} {unit}"
    return f"{value} B"


def _who(timing: Timing) -> tuple[str, str, str]:
    return shown(named(timing)), shown(timing.variant), shown(timing.inputs)


def named(timing: Timing) -> str:
    """What was launched or called, as people know it."""
    return f"graph {timing.kernel}" if timing.kind == "graph" else base_name(timing.kernel)


def table(session: Session, width: int) -> Group:
    """Return a row for each launch, with a column for each of several stopwatches."""
    watches = list(dict.fromkeys(t.stopwatch for t in session.rows if t.stopwatch))
    return _beside(session, watches, width) if len(watches) > 1 else _one(session, width)


WHO = ("kernel", "variant", "inputs")


def _one(session: Session, width: int) -> Group:
    moved = "bytes" if any(t.bytes_from == "given" for t in session.rows) else "bytes est."
    heads = [*WHO, "µs", "95 %", "n", moved, "GB/s", "of copy", "TFLOP/s"]
    narrow = width < 120
    if narrow:
        heads = [h for h in heads if h not in ("n", "inputs", "TFLOP/s", moved)]
    rows = []
    for timing in session.rows:
        kernel, variant, inputs = _who(timing)
        part = timing.percent_of_peak
        cells = {
            "kernel": kernel,
            "variant": variant,
            "inputs": inputs,
            "µs": "failed" if timing.error else duration(timing.median_us),
            "95 %": interval(timing),
            "n": str(timing.samples),
            moved: size(timing.bytes),
            "GB/s": amount(timing.gb_per_s),
            "of copy": UNKNOWN if part is None else f"{part:.0f} %",
            "TFLOP/s": amount(timing.tflop_per_s, 2),
        }
        rows.append([cells[head] for head in heads])
        parts = timing.kernels if timing.kind != "triton" else ()
        for part_of in parts:
            many = f"{part_of.per_call} a call" if part_of.per_call != 1 else ""
            own = {
                "kernel": f"  {shown(base_name(part_of.name))}",
                "variant": shown(part_of.variant or UNKNOWN),
                "inputs": many,
                "µs": duration(part_of.median_us),
                "95 %": between(part_of.low_us, part_of.high_us),
                "n": str(part_of.samples),
            }
            if narrow and many:
                own["kernel"] += f" ×{part_of.per_call}"
            rows.append([own.get(head, "") for head in heads])
    return Group(*grid(heads, rows, width, set(heads) - set(WHO), GIVES))


def _amounts(session: Session) -> str:
    """Whence the bytes and operations are, in words."""
    given = any("given" in (t.bytes_from, t.flops_from) for t in session.rows)
    # Old records without a source are estimates.
    if not given:
        return "estimates: each tensor's bytes once, operations counted in TTIR"
    parts = []
    for what, whence in (
        ("bytes", [t.bytes_from for t in session.rows if t.bytes is not None]),
        ("operations", [t.flops_from for t in session.rows if t.flops is not None]),
    ):
        if whence:
            parts.append(f"{what} as given" if "given" in whence else f"{what} as estimated")
    return " and ".join(parts)


def _beside(session: Session, watches: list[str], width: int) -> Group:
    states = {t.stopwatch: t.cache for t in session.rows if t.stopwatch}
    heads = [*WHO, *(f"{watch}, {states[watch]}" for watch in watches)]
    rows = []
    by_launch: dict[tuple[str, str, int], dict[str | None, Timing]] = {}
    for timing in session.rows:
        key = (timing.kernel, timing.variant, timing.call)
        by_launch.setdefault(key, {})[timing.stopwatch] = timing
    for by_watch in by_launch.values():
        cells = []
        for watch in watches:
            taken = by_watch.get(watch)
            failed = taken.error is not None if taken else None in by_watch
            cells.append("failed" if failed else duration(taken.median_us if taken else None))
        rows.append([*_who(next(iter(by_watch.values()))), *cells])
    return Group(*grid(heads, rows, width, set(heads) - set(WHO), GIVES))


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
    if len(watches) > 1:
        yield "Median µs of the same launch by each stopwatch:"
        for watch in watches:
            yield f"  {watch:<10} {LESSONS.get(watch, '')}"
    for state in dict.fromkeys(t.cache for t in session.rows if t.cache):
        yield f"{state}: {STATES.get(state, '')}"
    if any(t.bytes is not None for t in session.rows):
        yield (
            f"GB/s and TFLOP/s are of {_amounts(session)}; of copy: of the bandwidth that a copy "
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
        then = datetime.datetime.fromisoformat(taken)
        seconds = (now - then).total_seconds()
    except (ValueError, TypeError):
        return shown(taken)
    for unit, one in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= one:
            count = int(seconds // one)
            return f"{plural(count, unit)} ago"
    return "just now" if seconds >= 0 else shown(taken)


# -- the newest time of a variant -----------------------------------------------------------------

HOUR = 3600


def cell(time: StoredTime | None, now: datetime.datetime) -> str:
    """``4.03 µs``, with the state of the L2 where that was not cold and its age where it is older
    than an hour; "" of none."""
    if time is None:
        return ""
    parts = [f"{duration(time.median_us)} µs"]
    if time.cache != COLD:
        parts.append(f"{time.cache} L2")
    if _old(time.taken, now):
        parts.append(age(time.taken, now))
    return ", ".join(parts)


def _old(taken: str, now: datetime.datetime) -> bool:
    try:
        return abs((now - datetime.datetime.fromisoformat(taken)).total_seconds()) > HOUR
    except (ValueError, TypeError):
        return True


def sentence(time: StoredTime, now: datetime.datetime) -> str:
    """A measured time with all that it was taken with."""
    spread = between(time.low_us, time.high_us)
    how = f"{time.stopwatch}, {STATES.get(time.cache, time.cache)}"
    parts = (time.inputs, time.device or "unknown device", age(time.taken, now))
    return shown(
        f"{duration(time.median_us)} µs measured (95 %: {spread}) by {how}; "
        + ", ".join(p for p in parts if p)
    )


def with_times(value: dict[str, object], rec: Recording, times: StoredTimes) -> dict[str, object]:
    """``list``'s JSON, its kernels as ``Rows``, with the newest time of each variant."""
    kernels = value["kernels"]
    assert isinstance(kernels, Rows)
    made = kernels.members

    def timed() -> Iterator[object]:
        for said, kernel in zip(made, rec.kernels, strict=True):
            assert isinstance(said, dict)
            for one, variant in zip(said["variants"], kernel.variants, strict=True):
                one["timing"] = timing(times.of(kernel, variant))
            yield said

    return {**value, "kernels": Rows(timed())}


def timing(time: StoredTime | None) -> dict[str, object] | None:
    """A variant's time as JSON has it."""
    return None if time is None else asdict(time)
