"""Variants of one computation: the ranked table, JSON, CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Literal

from rich.cells import cell_len
from rich.table import Table

from inspector.measure.time.ranking import Race, RaceRow, best_first
from inspector.measure.time.results import Session, timing_row
from inspector.names import short_name
from inspector.report.jsons import SCHEMA
from inspector.report.plots import Figure, PlotLine, name_of
from inspector.report.tables import UNKNOWN
from inspector.report.timings import LESSONS, SHORTEST, STATES, amount, duration, interval
from inspector.report.timings import heading as session_heading
from inspector.text import plural, shown

# Which columns a narrow terminal lacks, in this order, for names of at least so many letters.
DROPPED, NAME = ("max diff", "TFLOP/s", "95 %", "of copy", "kernels", "CPU µs"), 30
CSV_FIGURES = (
    "median_us", "low_us", "high_us", "samples", "bytes", "flops", "gb_per_s", "tflop_per_s",
    "percent_of_peak",
)  # fmt: skip


def row(one: RaceRow) -> dict[str, object]:
    """A row as JSON has it: a timing's with what is a race's."""
    return {
        **timing_row(one.timing),
        "sizes": dict(one.sizes),
        "dtypes": list(one.dtypes),
        "agrees": one.agrees,
        "difference": one.difference,
        "wrong": one.wrong,
        "span_us": one.span_us,
        "rank": one.rank,
        "slower": one.slower,
    }


def document(race: Race) -> dict[str, object]:
    """``time SCRIPT``'s JSON."""
    return {
        "schema": SCHEMA,
        "taken": race.taken,
        "script": race.script,
        "python": race.python,
        "device": dict(race.device),
        "peak": [
            {"stopwatch": p.stopwatch, "cache": p.cache, "copy_gb_per_s": p.gb_per_s}
            for p in race.peaks
        ],
        "data_sheet_gb_per_s": race.data_sheet_gb_per_s,
        "swept": race.swept,
        "variants": list(race.variants),
        "rows": [row(r) for r in race.rows],
    }


def csv_text(race: Race) -> str:
    """All rows as CSV, in full precision; what is not known is an empty cell."""
    sizes = list(dict.fromkeys(name for r in race.rows for name in r.sizes))
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n")
    write.writerow(
        [*sizes, "variant", "stopwatch", "cache", *CSV_FIGURES, "kernels", "span_us", "cpu_us",
         "agrees", "rank", "inputs", "error"]
    )  # fmt: skip
    for one in race.rows:
        timing = one.timing
        figures = [getattr(timing, name) for name in CSV_FIGURES]
        launches = sum(k.per_call for k in timing.kernels) or None
        write.writerow(
            [*(one.sizes.get(n) for n in sizes), timing.variant, timing.stopwatch, timing.cache,
             *figures, launches, one.span_us, timing.cpu_us, one.agrees, one.rank, timing.inputs,
             timing.error]
        )  # fmt: skip
    return out.getvalue()


def watches(race: Race) -> list[str]:
    """Stopwatches that took a time."""
    return list(dict.fromkeys(r.timing.stopwatch for r in race.rows if r.timing.stopwatch))


def heading(race: Race) -> str:
    """Where and with what this was measured."""
    bare = Session(race.taken, race.device, (), race.peaks, race.data_sheet_gb_per_s)
    return session_heading(bare)


def title(race: Race, which: int) -> str:
    """The input of one size in words: ``float32 1823×781 (N=781, M=1823)``."""
    rows = [r for r in race.rows if r.timing.call == which]
    words = next((r.timing.inputs for r in rows if r.timing.inputs), "")
    sizes = {**race.defaults, **rows[0].sizes} if rows else {}
    named = ", ".join(f"{n}={v}" for n, v in sizes.items() if v is not None)
    return shown(f"{words or 'unknown input'}" + (f" ({named})" if named else ""))


def table(rows: Sequence[RaceRow], width: int) -> Table:
    """One size: a row a variant, the fastest first; by several stopwatches, ranked by the first."""
    held = list(dict.fromkeys(r.timing.stopwatch for r in rows if r.timing.stopwatch))
    first = [r for r in rows if r.timing.stopwatch in (*held[:1], None)]
    others = held[1:]
    heads = ["", "variant", "µs", "95 %", *others]
    if not others:
        heads += ["× fastest", "GB/s", "of copy", "TFLOP/s", "kernels", "CPU µs", "max diff"]
    if all(r.timing.flops is None for r in rows):
        heads = [h for h in heads if h != "TFLOP/s"]
    lines: list[tuple[dict[str, str], str | None]] = []
    for one in best_first(first):
        cells = _cells(one)
        for watch in others:
            same = (r for r in rows if r.timing.variant == one.timing.variant)
            beside = next((r for r in same if r.timing.stopwatch == watch), None)
            cells[watch] = UNKNOWN if beside is None else _time(beside)
        lines.append((cells, "red" if one.agrees is False or one.timing.error else None))
    return _laid_out(heads, lines, width)


def _laid_out(
    heads: Sequence[str], lines: Sequence[tuple[dict[str, str], str | None]], width: int
) -> Table:
    """Figures stay whole: columns are left out until names have room, which are cut then."""
    wide = {h: max(map(cell_len, (h, *(cells[h] for cells, _ in lines)))) for h in heads}

    def over() -> int:
        return sum(wide.values()) + 2 * (len(wide) - 1) - width

    full = wide["variant"]
    wide["variant"] = min(full, NAME)
    for head in DROPPED:
        if over() > 0:
            wide.pop(head, None)
    wide["variant"] = max(min(full, wide["variant"] - over()), min(full, SHORTEST))
    out = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for head, size in wide.items():
        justify: Literal["left", "right"] = "left" if head == "variant" else "right"
        out.add_column(head, width=size, justify=justify, no_wrap=True, overflow="ellipsis")
    for cells, style in lines:
        out.add_row(*(cells[head] for head in wide), style=style)
    return out


def _time(one: RaceRow) -> str:
    return "failed" if one.timing.error else duration(one.timing.median_us)


def _cells(one: RaceRow) -> dict[str, str]:
    timing = one.timing
    part = timing.percent_of_peak
    launches = sum(k.per_call for k in timing.kernels)
    mark = str(one.rank) if one.rank else "wrong" if one.agrees is False else UNKNOWN
    return {
        "": mark,
        "variant": shown(timing.variant),
        "µs": _time(one),
        "95 %": interval(timing),
        "× fastest": UNKNOWN if one.slower is None else f"{one.slower:.2f}",
        "GB/s": amount(timing.gb_per_s),
        "of copy": UNKNOWN if part is None else f"{part:.0f} %",
        "TFLOP/s": amount(timing.tflop_per_s, 2),
        "kernels": str(launches) if launches else UNKNOWN,
        "CPU µs": duration(timing.cpu_us),
        "max diff": UNKNOWN if one.difference is None else f"{one.difference:.1e}",
    }


def launched(rows: Sequence[RaceRow]) -> Iterator[str]:
    """What each variant launched: each kernel with its time."""
    for one in best_first(rows):
        timing = one.timing
        if not timing.kernels:
            continue
        parts = []
        for kernel in timing.kernels:
            times = f"{kernel.per_call} × " if kernel.per_call > 1 else ""
            parts.append(f"{times}{short_name(kernel.name)} {duration(kernel.median_us)} µs")
        gap = f"; {duration(one.span_us)} µs from the first to the end of the last" * one.gaps
        yield shown(f"  {timing.variant}: {', '.join(parts)}{gap}")


def footnotes(race: Race, sizes: Sequence[int]) -> Iterator[str]:
    """What the figures are, then what disagrees, failed or is worth a word, each with whose it is.

    Of a sweep each is said once, with the sizes that it happened at.
    """
    rows = [r for r in race.rows if r.timing.call in sizes]
    names = watches(race)
    if len(names) > 1:
        yield "Median µs of the same call by each stopwatch:"
        for watch in names:
            yield f"  {watch:<10} {LESSONS.get(watch, '')}"
    elif "cupti" in names:
        yield (
            "µs: the kernels of a call together, by CUPTI; a rank is shared where the 95 % "
            "intervals meet; CPU µs: until a call returns"
        )
    for state in dict.fromkeys(r.timing.cache for r in rows if r.timing.cache):
        yield f"{state}: {STATES.get(state, '')}"
    if any(r.timing.bytes is not None for r in rows):
        yield (
            "GB/s and TFLOP/s are of the bytes and operations that the script gives for a call; "
            "of copy: of the bandwidth that a copy of 1 GB reached in the same run"
        )
    said: dict[str, list[RaceRow]] = {}
    for one in rows:
        who = one.timing.variant
        if one.agrees is False:
            said.setdefault(f"{who}: wrong: {one.wrong or 'it disagrees'}", []).append(one)
        if one.timing.error:
            watch = f" {one.timing.stopwatch}" if one.timing.stopwatch else ""
            said.setdefault(f"{who}{watch}: failed: {one.timing.error}", []).append(one)
        for warning in one.timing.warnings if race.swept is None else ():
            said.setdefault(f"{who} {one.timing.stopwatch}: {warning}", []).append(one)
    warned = sum(bool(r.timing.warnings) for r in rows)
    if race.swept is not None and warned:
        yield f"{warned} of {plural(len(rows), 'time')} with a warning (--json has them)"
    for text, whose in said.items():
        yield shown(text + _where(whose, race))


def _where(whose: Sequence[RaceRow], race: Race) -> str:
    if race.swept is None:
        return ""
    sizes = [r.sizes.get(race.swept) for r in whose]
    held = ", ".join(map(str, sizes[:3])) + (f" … {sizes[-1]}" if len(sizes) > 3 else "")
    return f" ({race.swept}={held})"


def unit_of(race: Race, ridge: float | None) -> str:
    """What a sweep is told in: GB/s; TFLOP/s where computing bounds the largest size; else µs.

    ``ridge`` is how many operations a byte it takes for that, of the device; None: not known.
    """
    rows = [r for r in race.rows if r.timing.median_us is not None]
    if any(r.timing.bytes is None for r in rows):
        return "tflop_per_s" if all(r.timing.flops for r in rows) else "median_us"
    last = rows[-1].timing if rows else None
    if last and last.flops and last.bytes and ridge and last.flops / last.bytes > ridge:
        return "tflop_per_s"
    return "gb_per_s"


UNITS = {"gb_per_s": "GB/s", "tflop_per_s": "TFLOP/s", "median_us": "µs"}


def swept(race: Race, unit: str) -> Figure | None:
    """A sweep's figure: a line a variant, of what agrees; None if there is nothing to draw."""
    assert race.swept is not None
    watch = next(iter(watches(race)), None)
    lines = []
    for name in race.variants:
        points = [
            (float(r.sizes[race.swept]), float(value))
            for r in race.rows
            if r.timing.variant == name and r.timing.stopwatch == watch and r.agrees
            if (value := getattr(r.timing, unit)) is not None
        ]
        if points:
            lines.append(PlotLine(name, tuple(points), said=_at_last(points, unit, race.swept)))
    if not lines:
        return None
    values = [float(r.sizes[race.swept]) for r in race.rows]
    peak = next((p for p in race.peaks if p.stopwatch == watch), None)
    if unit == "gb_per_s" and peak is not None and min(values) < max(values):
        ends = ((min(values), peak.gb_per_s), (max(values), peak.gb_per_s))
        lines.append(PlotLine("copy, measured", ends, True, f"{peak.gb_per_s:,.0f} GB/s"))
    sizes = {**race.defaults, **race.rows[0].sizes}
    others = ", ".join(f"{n}={v}" for n, v in sizes.items() if n != race.swept and v is not None)
    state = STATES.get(next((r.timing.cache for r in race.rows if r.timing.cache), "") or "", "")
    title = " · ".join(x for x in (name_of(race.script), others, state) if x)
    return Figure(title, race.swept, UNITS[unit], tuple(lines))


def _at_last(points: Sequence[tuple[float, float]], unit: str, name: str) -> str:
    size, value = points[-1]
    figure = amount(value, 0 if unit == "gb_per_s" else 2)
    return f"{figure} {UNITS[unit]} at {name}={size:.0f}"
