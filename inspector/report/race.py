"""Variants of one computation: the ranked table, JSON, CSV, the plot of a sweep."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.console import Group

from inspector.base.names import short_name
from inspector.base.text import shown
from inspector.measure.time.ranking import Race, RaceRow, best_first
from inspector.measure.time.results import Session, timing_row
from inspector.report import timings
from inspector.report.grid import grid
from inspector.report.jsons import SCHEMA
from inspector.report.plots import Figure, PlotLine, name_of
from inspector.report.tables import UNKNOWN
from inspector.report.timings import LESSONS, STATES, amount, duration

WIDE = 110
"""Columns of a terminal in which all figures fit."""
CSV_COLUMNS = (
    "variant",
    "stopwatch",
    "cache",
    "median_us",
    "low_us",
    "high_us",
    "samples",
    "bytes",
    "flops",
    "gb_per_s",
    "tflop_per_s",
    "percent_of_peak",
    "kernels",
    "span_us",
    "cpu_us",
    "agrees",
    "rank",
    "inputs",
    "error",
)


def row(one: RaceRow) -> dict[str, object]:
    """Return a row as JSON has it: a timing's fields and the comparison's."""
    own = {name: value for name, value in asdict(one).items() if name != "timing"}
    return {**timing_row(one.timing), **own, "dtypes": list(one.dtypes)}


def document(race: Race) -> dict[str, object]:
    """Return the JSON of ``time SCRIPT``."""
    return {
        **timings.document(_session(race)),
        "script": race.script,
        "python": race.python,
        "swept": race.swept,
        "variants": list(race.variants),
        "rows": [row(r) for r in race.rows],
        "schema": SCHEMA,
    }


def _session(race: Race) -> Session:
    return Session(race.taken, race.device, (), race.peaks, race.data_sheet_gb_per_s)


def csv_text(race: Race) -> str:
    """Return all rows as CSV in full precision; an unknown value is an empty cell."""
    sizes = list(dict.fromkeys(name for r in race.rows for name in r.sizes))
    out = io.StringIO()
    lines = csv.DictWriter(out, [*sizes, *CSV_COLUMNS], extrasaction="ignore", lineterminator="\n")
    lines.writeheader()
    for one in race.rows:
        launches = sum(k.per_call for k in one.timing.kernels) or None
        lines.writerow({**row(one), **one.sizes, "kernels": launches})
    return out.getvalue()


def heading(race: Race) -> str:
    """Return where and with what this was measured."""
    return timings.heading(_session(race))


def title(race: Race, which: int) -> str:
    """Return the input of one size in words: ``float32 1823×781 (N=781, M=1823)``."""
    rows = [r for r in race.rows if r.timing.call == which]
    words = next((r.timing.inputs for r in rows if r.timing.inputs), "unknown input")
    sizes = {**race.defaults, **rows[0].sizes}
    named = ", ".join(f"{n}={v}" for n, v in sizes.items() if v is not None)
    return shown(words + (f" ({named})" if named else ""))


def table(rows: Sequence[RaceRow], width: int) -> Group:
    """Return one size: a row a variant, ranked by the first stopwatch, the fastest first."""
    watches = list(dict.fromkeys(r.timing.stopwatch for r in rows if r.timing.stopwatch))
    others = watches[1:]
    heads = ["", "variant", "µs", "95 %", *map(str, others)]
    if not others:
        heads += ["× fastest", "GB/s"]
        heads += ["of copy", "TFLOP/s", "kernels", "CPU µs", "max diff"] if width >= WIDE else []
    lines = []
    for one in best_first(r for r in rows if r.timing.stopwatch not in others):
        cells = _cells(one)
        for other in rows:
            if other.timing.variant == one.timing.variant and other.timing.stopwatch in others:
                cells[str(other.timing.stopwatch)] = _time(other)
        style = "red" if one.agrees is False or one.timing.error else ""
        lines.append([(cells.get(head, UNKNOWN), style) for head in heads])
    numbers = [head for head in heads if head != "variant"]
    return Group(*grid(heads, lines, width, numbers, (("variant", 8),)))


def _time(one: RaceRow) -> str:
    return "failed" if one.timing.error else duration(one.timing.median_us)


def _cells(one: RaceRow) -> dict[str, str]:
    timing, part = one.timing, one.timing.percent_of_peak
    launches = sum(k.per_call for k in timing.kernels)
    return {
        "": str(one.rank) if one.rank else "wrong" if one.agrees is False else UNKNOWN,
        "variant": shown(timing.variant),
        "µs": _time(one),
        "95 %": timings.interval(timing),
        "× fastest": amount(one.slower, 2),
        "GB/s": amount(timing.gb_per_s),
        "of copy": UNKNOWN if part is None else f"{part:.0f} %",
        "TFLOP/s": amount(timing.tflop_per_s, 2),
        "kernels": str(launches) if launches else UNKNOWN,
        "CPU µs": duration(timing.cpu_us),
        "max diff": UNKNOWN if one.difference is None else f"{one.difference:.1e}",
    }


def launched(rows: Sequence[RaceRow]) -> Iterator[str]:
    """Yield what each variant launched: each kernel with its time."""
    for one in best_first(r for r in rows if r.timing.kernels):
        parts = []
        for kernel in one.timing.kernels:
            times = f"{kernel.per_call} × " if kernel.per_call > 1 else ""
            parts.append(f"{times}{short_name(kernel.name)} {duration(kernel.median_us)} µs")
        gap = f"; {duration(one.span_us)} µs from the first to the end of the last" * one.gaps
        yield shown(f"  {one.timing.variant}: {', '.join(parts)}{gap}")


def footnotes(race: Race, sizes: Sequence[int]) -> Iterator[str]:
    """Yield what the figures mean, then failures, disagreements and warnings, each once."""
    rows = [r for r in race.rows if r.timing.call in sizes]
    watches = dict.fromkeys(r.timing.stopwatch for r in rows if r.timing.stopwatch)
    for watch in watches:
        yield f"{watch}: {LESSONS.get(watch, '')}"
    for state in dict.fromkeys(r.timing.cache for r in rows if r.timing.cache):
        yield f"{state}: {STATES.get(state, '')}"
    yield "A rank is shared where 95 % intervals overlap; CPU µs: until a call returns."
    if any(r.timing.bytes is not None for r in rows):
        yield (
            "GB/s and TFLOP/s are of the bytes and operations that the script gives for a call; "
            "of copy: of the bandwidth that a copy of 1 GB reached in the same run"
        )
    said: dict[str, list[str]] = {}
    for one in rows:
        words = [f"wrong: {one.wrong or 'it disagrees'}"] * (one.agrees is False)
        words += [f"failed: {one.timing.error}"] * bool(one.timing.error)
        where = f"{race.swept}={one.sizes[race.swept]}" if race.swept else ""
        for word in (*words, *one.timing.warnings):
            said.setdefault(f"{one.timing.variant}: {word}", []).append(where)
    for text, places in said.items():
        yield shown(f"{text} ({', '.join(places)})" if race.swept else text)


UNITS = {"gb_per_s": "GB/s", "tflop_per_s": "TFLOP/s", "median_us": "µs"}


def unit_of(race: Race, ridge: float | None) -> str:
    """Return the unit of a sweep: GB/s; TFLOP/s where computing limits the largest size; else µs.

    ``ridge`` is the device's operations a byte at that limit; None if unknown.
    """
    rows = [r.timing for r in race.rows if r.timing.median_us is not None]
    if not rows or any(t.bytes is None for t in rows):
        return "tflop_per_s" if rows and all(t.flops for t in rows) else "median_us"
    flops, moved = rows[-1].flops, rows[-1].bytes
    return "tflop_per_s" if flops and moved and ridge and flops / moved > ridge else "gb_per_s"


def swept(race: Race, unit: str) -> Figure | None:
    """Return a sweep's figure: a line a variant that agrees; None if there is nothing to draw."""
    assert race.swept is not None
    watch = next((r.timing.stopwatch for r in race.rows if r.timing.stopwatch), None)
    lines = []
    for name in race.variants:
        points = tuple(
            (float(r.sizes[race.swept]), float(value))
            for r in race.rows
            if r.timing.variant == name and r.timing.stopwatch == watch and r.agrees
            if (value := getattr(r.timing, unit)) is not None
        )
        if points:
            figure = amount(points[-1][1], 0 if unit == "gb_per_s" else 2)
            at = f"{figure} {UNITS[unit]} at {race.swept}={points[-1][0]:.0f}"
            lines.append(PlotLine(name, points, said=at))
    if not lines:
        return None
    sizes = [x for line in lines for x, _ in line.points]
    peak = next((p.gb_per_s for p in race.peaks if p.stopwatch == watch), None)
    if unit == "gb_per_s" and peak is not None and min(sizes) < max(sizes):
        ends = ((min(sizes), peak), (max(sizes), peak))
        lines.append(PlotLine("copy, measured", ends, True, f"{peak:,.0f} GB/s"))
    others = [
        f"{n}={v}"
        for n, v in {**race.defaults, **race.rows[0].sizes}.items()
        if n != race.swept and v is not None
    ]
    words = " · ".join(filter(None, (name_of(race.script), ", ".join(others))))
    return Figure(words, race.swept, UNITS[unit], tuple(lines))
