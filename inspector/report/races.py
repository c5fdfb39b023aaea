"""A script's variants and their times: tables, JSON, CSV, rooflines, plots by plotext."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict
from rich.console import Group
from rich.text import Text

from inspector.base.names import base_name, short_name
from inspector.base.text import shown
from inspector.measure.time.ranking import (
    TITLES,
    UNITS,
    Peaks,
    Race,
    RaceRow,
    Spot,
    best_first,
    dtypes_in,
)
from inspector.measure.time.results import Session, Timing, timing_row
from inspector.report import timings
from inspector.report.jsons import SCHEMA
from inspector.report.tables import UNKNOWN, grid
from inspector.report.timings import LESSONS, STATES, amount, duration, rates, took

Point = tuple[float, float]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


class PlotLine(Struct, frozen=True):
    """A line through points in the axes' units, or one point.

    ``limit`` marks a bound, such as a roof; ``said`` follows the name in the legend.
    """

    name: str
    points: tuple[Point, ...]
    limit: bool = False
    said: str = ""


class Figure(Struct, frozen=True):
    """A plot as a value; axes are both linear or both logarithmic (values above 0)."""

    title: str
    x: str
    y: str
    lines: tuple[PlotLine, ...]
    log: bool = False

    def reach(self, axis: int) -> tuple[float, float]:
        """Return the least and greatest value of an axis (0: x, 1: y) with a margin."""
        values = [p[axis] for line in self.lines for p in line.points]
        low, high = min(values), max(values)
        if self.log:
            return low / 1.25, high * 1.25
        margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        if axis:
            return 0.0 if low >= 0 else low - margin, high + margin
        return (low, high) if high > low else (low - margin, high + margin)


def ticks(low: float, high: float, most: int, log: bool) -> list[tuple[float, str]]:
    """Return at most ``most`` round values of a range with their labels."""
    if log:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for parts in ((1, 2, 5), (1, 3), (1,)):
            found = [v for d in decades for p in parts if low <= (v := p * 10.0**d) <= high]
            if len(found) <= most:
                break
    else:
        raw = (high - low) / max(most - 1, 1)
        ten = 10.0 ** math.floor(math.log10(raw))
        step = next(m * ten for m in (1, 2, 2.5, 5, 10) if m * ten >= raw * (1 - 1e-9))
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        found = [n * step for n in range(first, last + 1)]
    return [(value, f"{value:,.0f}" if value >= 1000 else f"{value:.4g}") for value in found]


MARGIN = 4.0
"""Factor by which a roofline reaches beyond its points."""


def figure(
    title: str,
    spots: Sequence[Spot],
    copy: float | None,
    sheet: float | None,
    peaks: Peaks | None,
    dtypes: Iterable[str],
) -> Figure | None:
    """Return a roofline; None without spots or roofs. ``copy`` and ``sheet`` in bytes a second."""
    units = list(dict.fromkeys(u for d in dtypes for u in UNITS.get(d, ())))
    known = {} if peaks is None else peaks.flops
    levels = [(u, known[u]) for u in units if u in known]
    slants = [(n, b) for n, b in (("copy, measured", copy), ("memory by data sheet", sheet)) if b]
    if not spots or not (slants or levels):
        return None
    steepest = max((b for _, b in slants), default=None)
    low = min(s.intensity for s in spots) / MARGIN
    high = max(s.intensity for s in spots) * MARGIN
    # Always show the ridge.
    if steepest and levels:
        high = max(high, MARGIN * min(level for _, level in levels) / steepest)
    top = max((level for _, level in levels), default=math.inf)
    lines = []
    for name, band in slants:
        end = min(high, top / band)
        ends = tuple((x, x * band / 1e12) for x in (min(low, end / MARGIN), end))
        lines.append(PlotLine(name, ends, True, f"{band / 1e9:,.0f} GB/s"))
    for unit, level in levels:
        first = low if steepest is None else level / steepest
        if first < high:
            points = ((first, level / 1e12), (high, level / 1e12))
            said = f"{level / 1e12:,.4g} TFLOP/s"
            lines.append(PlotLine(f"{TITLES[unit]} by data sheet", points, True, said))
    for spot in spots:
        figures = [
            f"{v:,.0f}" if v >= 100 else f"{v:.3g}" for v in (spot.intensity, spot.flops / 1e12)
        ]
        said = f"{figures[0]} FLOP/byte, {figures[1]} TFLOP/s{_part(spot, slants, levels)}"
        lines.append(PlotLine(spot.name, ((spot.intensity, spot.flops / 1e12),), said=said))
    return Figure(title, "FLOP/byte", "TFLOP/s", tuple(lines), log=True)


def _part(
    spot: Spot, slants: Sequence[tuple[str, float]], levels: Sequence[tuple[str, float]]
) -> str:
    """How near a call comes to the roof above it: the first slanted one, or the highest level."""
    unit, top = max(levels, key=lambda each: each[1], default=("", math.inf))
    name, slant = (slants[0][0], slants[0][1] * spot.intensity) if slants else ("", math.inf)
    if slants and slant <= min((level for _, level in levels), default=math.inf):
        return f", {100 * spot.flops / slant:.0f} % of {name}"
    return f", {100 * spot.flops / top:.0f} % of {TITLES[unit]}" if slant >= top else ""


def name_of(script: str) -> str:
    """``square`` of ``kernels/square.py``."""
    return script.rpartition("/")[2].removesuffix(".py")


def ridge(race: Race, sheet: Peaks | None) -> float | None:
    """How many operations a byte the device can do while it moves one, for the inputs' dtypes."""
    if sheet is None or not sheet.bandwidth or not race.rows:
        return None
    units = [u for d in race.rows[-1].dtypes for u in UNITS.get(d, ())]
    rates = [sheet.flops[u] for u in units if u in sheet.flops]
    return max(rates) / sheet.bandwidth if rates else None


def roofline(race: Race, sheet: Peaks | None) -> Figure | None:
    """The variants that agree, of the largest size, under the roofs of the device and its sheet."""
    last = max((r.timing.call for r in race.rows), default=0)
    rows = [r for r in race.rows if r.timing.call == last and r.rank is not None]
    named = [(r.timing.variant, r.timing) for r in rows]
    title = f"{name_of(race.script)}, {rows[0].timing.inputs if rows else ''}"
    dtypes = rows[0].dtypes if rows else ()
    return _under_roofs(title, named, session_of(race), sheet, race.data_sheet_gb_per_s, dtypes)


def session_roofline(session: Session, name: str, sheet: Peaks | None) -> Figure | None:
    """Recorded launches that were timed, by the first stopwatch, under the same roofs."""
    named = [
        (f"{short_name(base_name(t.kernel))} {t.variant} {t.inputs}".strip(), t)
        for t in session.rows
    ]
    band = session.data_sheet_gb_per_s
    if band is None and sheet is not None and sheet.bandwidth is not None:
        band = sheet.bandwidth / 1e9
    estimated = any("estimate" in (t.bytes_from, t.flops_from) for t in session.rows)
    title = f"{name}; bytes and operations are estimates" if estimated else name
    dtypes = dict.fromkeys(d for t in session.rows for d in dtypes_in(t.inputs))
    return _under_roofs(title, named, session, sheet, band, dtypes)


def _under_roofs(
    title: str,
    named: Sequence[tuple[str, Timing]],
    session: Session,
    sheet: Peaks | None,
    band: float | None,
    dtypes: Iterable[str],
) -> Figure | None:
    """The times of the first stopwatch; ``band`` is the data sheet's, in GB/s."""
    watch = next((t.stopwatch for _, t in named if t.stopwatch), None)
    peak = next((p.gb_per_s * 1e9 for p in session.peaks if p.stopwatch == watch), None)
    spots = [
        Spot.of(name, t.median_us, t.bytes, t.flops) for name, t in named if t.stopwatch == watch
    ]
    seen = [spot for spot in spots if spot is not None]
    return figure(title, seen, peak, None if band is None else band * 1e9, sheet, dtypes)


COLOURS = (4, 2, 1, 5, 6, 3, 12, 10, 9, 13, 14, 11)
"""The terminal's own colours, which contrast with its background."""
GREY = 8
MIN_COLUMNS, MAX_COLUMNS = 40, 160


def plot(figure: Figure, width: int, height: int) -> Group:
    """Return a plot of ``width`` columns and ``height`` rows above its legend."""
    title = Text(shown(f"{figure.y} over {figure.x}: {figure.title}"), style="bold")
    colours = [
        GREY if line.limit else COLOURS[n % len(COLOURS)] for n, line in enumerate(figure.lines)
    ]
    legend = [
        Text.assemble(
            (LETTERS[n % len(LETTERS)], f"color({colour})"),
            f" {shown(f'{line.name}  {line.said}'.rstrip())}",
        )
        for n, (line, colour) in enumerate(zip(figure.lines, colours, strict=True))
    ]
    width = max(min(width, MAX_COLUMNS), MIN_COLUMNS)
    return Group(title, _drawn(figure, colours, width, height), *legend)


def _drawn(figure: Figure, colours: Sequence[int], width: int, height: int) -> Text:
    import plotext

    plotext.terminal.limit(False, False)  # the size is given
    made: Any = plotext.figure
    made.clear.all()
    made.theme("colorless")
    made.canvas("default")
    made.plot_size(width, height)
    scale: Callable[[float], float] = math.log10 if figure.log else float
    cells = []
    for axis, places in enumerate((max((width - 10) // 10, 2), max(height // 3, 2))):
        low, high = figure.reach(axis)
        ruler = made.ruler("xy"[axis])
        ruler.lim(scale(low), scale(high))
        marks = ticks(low, high, places, figure.log)
        ruler.ticks([scale(value) for value, _ in marks], [text for _, text in marks])
        # Roughly a cell: the labels of the ticks take some of the width.
        cells.append((scale(high) - scale(low)) / max((width - 9, height - 4)[axis], 1))
    taken: Counter[tuple[int, int]] = Counter()
    letters: list[tuple[Any, list[Point]]] = []
    for n, line in enumerate(figure.lines):
        points = [(scale(x), scale(y)) for x, y in line.points]
        pixel = plotext.pixel(colours[n])
        if len(points) > 1:
            xs, ys = zip(*points, strict=True)
            marker = plotext.marker("braille", pixel)
            made.draw(made.signal(list(xs), list(ys), marker=marker).lines())
            part = (n + 0.5) / (2 * len(figure.lines))
            at = [_along(points, part), _along(points, part + 0.5)]
        else:
            (x, y) = points[0]
            cell = round(x / cells[0]), round(y / cells[1])
            at = [(x + taken[cell] * cells[0], y)]
            taken[cell] += 1
        letters.append((plotext.marker(LETTERS[n % len(LETTERS)], pixel), at))
    for marker, at in letters:
        xs, ys = zip(*at, strict=True)
        made.draw(made.signal(list(xs), list(ys), marker=marker))
    made.label(shown(figure.x), axis="x")
    text = Text.from_ansi(str(made.build()))
    text.rstrip()
    text.no_wrap = True
    return text


def _along(line: Sequence[Point], part: float) -> Point:
    """Interpolate a point at a part (0 to 1) of a line's points."""
    at, rest = divmod(part * (len(line) - 1), 1)
    (x0, y0), (x1, y1) = line[int(at)], line[int(at) + 1]
    return x0 + rest * (x1 - x0), y0 + rest * (y1 - y0)


WIDE = 110
"""Columns of a terminal in which all figures fit."""
CSV_COLUMNS = (
    *("variant", "stopwatch", "cache", "median_us", "low_us", "high_us", "samples"),
    *("bytes", "flops", "gb_per_s", "tflop_per_s", "percent_of_peak", "kernels"),
    *("span_us", "cpu_us", "agrees", "rank", "inputs", "error"),
)


def race_row(one: RaceRow) -> dict[str, object]:
    own = asdict(one) | {"dtypes": list(one.dtypes)}
    del own["timing"]
    return timing_row(one.timing) | own


def race_document(race: Race) -> dict[str, object]:
    return {
        **timings.document(session_of(race)),
        "script": race.script,
        "python": race.python,
        "swept": race.swept,
        "variants": list(race.variants),
        "rows": [race_row(r) for r in race.rows],
        "schema": SCHEMA,
    }


def session_of(race: Race) -> Session:
    return Session(race.taken, race.device, (), race.peaks, race.data_sheet_gb_per_s)


def csv_text(race: Race) -> str:
    """Return all rows as CSV in full precision; an unknown value is an empty cell."""
    sizes = list(dict.fromkeys(name for r in race.rows for name in r.sizes))
    out = io.StringIO()
    lines = csv.DictWriter(out, [*sizes, *CSV_COLUMNS], extrasaction="ignore", lineterminator="\n")
    lines.writeheader()
    for one in race.rows:
        launches = sum(k.per_call for k in one.timing.kernels) or None
        lines.writerow({**race_row(one), **one.sizes, "kernels": launches})
    return out.getvalue()


def race_title(race: Race, which: int) -> str:
    """Return the input of one size in words: ``float32 1823×781 (N=781, M=1823)``."""
    rows = [r for r in race.rows if r.timing.call == which]
    words = next((r.timing.inputs for r in rows if r.timing.inputs), "unknown input")
    sizes = {**race.defaults, **rows[0].sizes}
    named = ", ".join(f"{n}={v}" for n, v in sizes.items() if v is not None)
    return shown(words + (f" ({named})" if named else ""))


def race_table(rows: Sequence[RaceRow], width: int) -> Group:
    """Return one size: a row a variant, ranked by the first stopwatch, the fastest first."""
    others = list(dict.fromkeys(r.timing.stopwatch for r in rows if r.timing.stopwatch))[1:]
    heads = ["", "variant", "µs", "95 %", *map(str, others)]
    if not others:
        heads += ["× fastest", "GB/s"]
        heads += ["of copy", "TFLOP/s", "kernels", "CPU µs", "max diff"] if width >= WIDE else []
    lines = []
    for one in best_first(r for r in rows if r.timing.stopwatch not in others):
        cells = _cells(one)
        for other in rows:
            if other.timing.variant == one.timing.variant and other.timing.stopwatch in others:
                cells[str(other.timing.stopwatch)] = took(other.timing)
        style = "red" if one.agrees is False or one.timing.error else ""
        lines.append([(cells.get(head, UNKNOWN), style) for head in heads])
    numbers = [head for head in heads if head != "variant"]
    return Group(*grid(heads, lines, width, numbers, (("variant", 8),)))


def _cells(one: RaceRow) -> dict[str, str]:
    launches = sum(k.per_call for k in one.timing.kernels)
    return rates(one.timing) | {
        "": str(one.rank) if one.rank else "wrong" if one.agrees is False else UNKNOWN,
        "× fastest": amount(one.slower, 2),
        "kernels": str(launches) if launches else UNKNOWN,
        "CPU µs": duration(one.timing.cpu_us),
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


def race_footnotes(race: Race, sizes: Sequence[int]) -> Iterator[str]:
    """Yield what the figures mean, then failures, disagreements and warnings, each once."""
    rows = [r for r in race.rows if r.timing.call in sizes]
    watches = dict.fromkeys(r.timing.stopwatch for r in rows if r.timing.stopwatch)
    states = dict.fromkeys(r.timing.cache for r in rows if r.timing.cache)
    yield from (f"{watch}: {LESSONS.get(watch, '')}" for watch in watches)
    yield from (f"{state}: {STATES.get(state, '')}" for state in states)
    yield "A rank is shared where 95 % intervals overlap; CPU µs: until a call returns."
    if any(r.timing.bytes is not None for r in rows):
        yield (
            "GB/s and TFLOP/s are of the bytes and operations that the script gives for a call; "
            "of copy: of the bandwidth that a copy of 1 GB reached in the same run"
        )
    said: dict[str, list[str]] = {}
    for one in rows:
        words = [f"wrong: {one.wrong or 'it disagrees'}"] if one.agrees is False else []
        words += [f"failed: {one.timing.error}"] if one.timing.error else []
        where = f"{race.swept}={one.sizes[race.swept]}" if race.swept else ""
        for word in (*words, *one.timing.warnings):
            said.setdefault(f"{one.timing.variant}: {word}", []).append(where)
    for text, places in said.items():
        yield shown(f"{text} ({', '.join(places)})" if race.swept else text)


FIGURE_UNITS = {"gb_per_s": "GB/s", "tflop_per_s": "TFLOP/s", "median_us": "µs"}


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
            at = f"{figure} {FIGURE_UNITS[unit]} at {race.swept}={points[-1][0]:.0f}"
            lines.append(PlotLine(name, points, said=at))
    if not lines:
        return None
    sizes = [x for line in lines for x, _ in line.points]
    peak = next((p.gb_per_s for p in race.peaks if p.stopwatch == watch), None)
    if unit == "gb_per_s" and peak is not None and min(sizes) < max(sizes):
        ends = ((min(sizes), peak), (max(sizes), peak))
        lines.append(PlotLine("copy, measured", ends, True, f"{peak:,.0f} GB/s"))
    sizes_of = {**race.defaults, **race.rows[0].sizes, race.swept: None}
    others = [f"{n}={v}" for n, v in sizes_of.items() if v is not None]
    words = " · ".join(filter(None, (name_of(race.script), ", ".join(others))))
    return Figure(words, race.swept, FIGURE_UNITS[unit], tuple(lines))
