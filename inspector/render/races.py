"""A script's variants and their times: tables, JSON, CSV, rooflines, plots by plotext."""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Any

from msgspec import Struct
from rich.console import Group
from rich.text import Text

from inspector.base.escapes import shown
from inspector.base.names import base_name, short_name
from inspector.measure.time.results import Session, Timing, timing_row
from inspector.measure.time.take import GAP, Race, RaceRow
from inspector.render import timings
from inspector.render.pictures.picture import PlotLine
from inspector.render.tables import UNKNOWN, grid
from inspector.render.timings import LESSONS, STATES, amount, duration, rates, time_text

Point = tuple[float, float]

# A dtype as torch names it: the units that compute with it, by the data sheet's peaks.
UNITS = {
    "float64": ("fp64", "fp64_tensor"),
    "float32": ("fp32", "tf32_tensor"),
    "float16": ("fp32", "fp16_tensor"),
    "bfloat16": ("fp32", "bf16_tensor"),
    "float8_e4m3fn": ("fp32", "fp8_tensor"),
    "float8_e5m2": ("fp32", "fp8_tensor"),
}


class Figure(Struct, frozen=True):
    """A plot as a value; axes are both linear or both logarithmic (values above 0)."""

    title: str
    x: str
    y: str
    lines: Sequence[PlotLine]
    log: bool = False


# -- figures --------------------------------------------------------------------------------------

MARGIN = 4.0
"""Factor by which a roofline reaches beyond its points."""


def roofs(
    bands: Mapping[str, float], levels: Mapping[str, float], low: float, high: float
) -> list[PlotLine]:
    """Return bandwidths (GB/s) and peaks (TFLOP/s) as lines between intensities in FLOP/byte."""
    steepest = max(bands.values(), default=0.0) / 1e3
    lines = []
    for name, band in bands.items():
        end = min(high, 1e3 * max(levels.values(), default=math.inf) / band)
        points = [(x, x * band / 1e3) for x in (min(low, end / MARGIN), end)]
        lines.append(PlotLine(name, points, True, f"{band:,.0f} GB/s"))
    for name, level in levels.items():
        first = level / steepest if steepest else low
        if first < high:
            points = [(first, level), (high, level)]
            lines.append(PlotLine(name, points, True, f"{level:,.4g} TFLOP/s"))
    return lines


def _roofline(
    title: str,
    named_timings: Sequence[tuple[str, Timing]],
    session: Session,
    peaks: Mapping[str, float],
    dtypes: Iterable[str],
) -> Figure | None:
    """The times of the first stopwatch under the device's roofs; None without a time or roof."""
    stopwatches = (t.stopwatch for _, t in named_timings if t.bytes and t.tflop_per_s)
    stopwatch = next(stopwatches, None)
    spots = [
        (name, (timing.flops / timing.bytes, timing.tflop_per_s))
        for name, timing in named_timings
        if timing.stopwatch == stopwatch and timing.bytes and timing.flops and timing.tflop_per_s
    ]
    return points_under_roofs(
        title, spots, _bandwidths(session, peaks, stopwatch), compute_peaks(peaks, dtypes)
    )


def points_under_roofs(
    title: str,
    spots: Sequence[tuple[str, Point]],
    bands: Mapping[str, float],
    levels: Mapping[str, float],
) -> Figure | None:
    """Named points (FLOP/byte, TFLOP/s) under bandwidths and peaks; None without point or roof."""
    if not spots or not (bands or levels):
        return None
    low = min(x for _, (x, _) in spots) / MARGIN
    high = max(x for _, (x, _) in spots) * MARGIN
    if bands and levels:  # the ridge is always shown
        high = max(high, MARGIN * 1e3 * min(levels.values()) / max(bands.values()))
    lines = roofs(bands, levels, low, high)
    for name, (x, y) in spots:
        roof, limit = roof_above(x, bands, levels)
        remark = f"{_short_number(x)} FLOP/byte, {_short_number(y)} TFLOP/s"
        if roof:
            remark += f", {100 * y / limit:.0f} % of {roof.removesuffix(' by data sheet')}"
        lines.append(PlotLine(name, [(x, y)], remark=remark))
    return Figure(title, "FLOP/byte", "TFLOP/s", lines, log=True)


def _bandwidths(
    session: Session, peaks: Mapping[str, float], stopwatch: str | None
) -> dict[str, float]:
    """Known memory bandwidths in GB/s, the measured one first."""
    copies = (p.gb_per_s for p in session.peaks if p.stopwatch == stopwatch)
    sources = {
        "copy, measured": next(copies, None),
        "memory by data sheet": session.data_sheet_gb_per_s
        or peaks.get("memory_bandwidth", 0.0) / 1e9,
    }
    return {name: bandwidth for name, bandwidth in sources.items() if bandwidth}


def compute_peaks(peaks: Mapping[str, float], dtypes: Iterable[str]) -> dict[str, float]:
    """TFLOP/s of the units that compute with some dtypes, by the device's data sheet."""
    units = dict.fromkeys(chain.from_iterable(UNITS.get(dtype, ()) for dtype in dtypes))
    return {
        f"{unit.replace('_tensor', ' tensor cores')} by data sheet": peaks[unit] / 1e12
        for unit in units
        if unit in peaks
    }


def roof_above(
    intensity: float, bands: Mapping[str, float], levels: Mapping[str, float]
) -> tuple[str, float]:
    """The roof that limits an intensity, "" between the levels of two units, and its TFLOP/s."""
    top = max(levels, key=lambda name: levels[name], default="")
    limit = levels.get(top, math.inf)
    if not bands:
        return top, limit
    first, bandwidth = next(iter(bands.items()))
    memory_limit = bandwidth * intensity / 1e3
    if memory_limit <= min(levels.values(), default=math.inf):
        return first, memory_limit
    return ("", limit) if memory_limit < limit else (top, limit)


def _short_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def roofline(race: Race, peaks: Mapping[str, float]) -> Figure | None:
    """The variants that agree, of the largest size, under the roofs of the device and its sheet."""
    last = max((r.call for r in race.rows), default=0)
    rows = [r for r in race.rows if r.call == last and r.rank is not None]
    if not rows:
        return None
    title = f"{PurePath(race.script).stem}, {rows[0].inputs}"
    named_timings = [(r.variant, r) for r in rows]
    return _roofline(title, named_timings, race.session, peaks, rows[0].dtypes)


def session_roofline(session: Session, name: str, peaks: Mapping[str, float]) -> Figure | None:
    """Recorded launches that were timed, by the first stopwatch, under the same roofs."""
    named_timings = [
        (f"{short_name(base_name(t.kernel))} {t.variant} {t.inputs}".strip(), t)
        for t in session.rows
    ]
    estimated = any("estimate" in (t.bytes_from, t.flops_from) for t in session.rows)
    title = f"{name}; bytes and operations are estimates" if estimated else name
    dtypes = [d for d in UNITS for t in session.rows if re.search(rf"\b{d}\b", t.inputs)]
    return _roofline(title, named_timings, session, peaks, dtypes)


FIGURE_UNITS = {"gb_per_s": "GB/s", "tflop_per_s": "TFLOP/s", "median_us": "µs"}


def _unit(race: Race, peaks: Mapping[str, float]) -> str:
    """The unit of a sweep: GB/s; TFLOP/s where computing limits the largest size; else µs."""
    rows = [r for r in race.rows if r.median_us is not None]
    if not rows:
        return "median_us"
    if any(r.bytes is None for r in rows):
        return "tflop_per_s" if all(r.flops for r in rows) else "median_us"
    largest = rows[-1]
    bandwidth = peaks.get("memory_bandwidth")
    units = chain.from_iterable(UNITS.get(dtype, ()) for dtype in largest.dtypes)
    peak = max((peaks.get(unit, 0.0) for unit in units), default=0.0)
    if not (largest.flops and largest.bytes and bandwidth and peak):
        return "gb_per_s"
    is_compute_limited = largest.flops / largest.bytes > peak / bandwidth
    return "tflop_per_s" if is_compute_limited else "gb_per_s"


def sweep_figure(race: Race, peaks: Mapping[str, float]) -> Figure | None:
    """Return a sweep's figure: a line a variant that agrees; None if there is nothing to draw."""
    assert race.swept is not None
    unit = _unit(race, peaks)
    stopwatch = next((r.stopwatch for r in race.rows if r.stopwatch), None)
    lines = []
    for name in race.variants:
        rows = [r for r in race.rows if r.variant == name and r.stopwatch == stopwatch]
        points = _sweep_points(rows, race.swept, unit)
        if points:
            size, value = points[-1]
            text = amount(value, 0 if unit == "gb_per_s" else 2)
            remark = f"{text} {FIGURE_UNITS[unit]} at {race.swept}={size:.0f}"
            lines.append(PlotLine(name, points, remark=remark))
    if not lines:
        return None
    copies = (p.gb_per_s for p in race.session.peaks if p.stopwatch == stopwatch)
    copy = next(copies, None)
    if unit == "gb_per_s" and copy is not None:
        sizes = {x for x, _ in chain.from_iterable(line.points for line in lines)}
        points = [(x, copy) for x in sorted(sizes)]
        lines.append(PlotLine("copy, measured", points, True, f"{copy:,.0f} GB/s"))
    parameters = {**race.defaults, **race.rows[0].sizes, race.swept: None}
    fixed_sizes = ", ".join(f"{n}={v}" for n, v in parameters.items() if v is not None)
    title = " · ".join(filter(None, (PurePath(race.script).stem, fixed_sizes)))
    return Figure(title, race.swept, FIGURE_UNITS[unit], lines)


def _sweep_points(rows: Iterable[RaceRow], swept: str, unit: str) -> list[Point]:
    """The swept size and the figure of each row that agrees and has the figure."""
    points = []
    for row in rows:
        value = getattr(row, unit)
        if row.agrees and value is not None:
            points.append((float(row.sizes[swept]), float(value)))
    return points


# -- plots ----------------------------------------------------------------------------------------

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
COLOURS = (4, 2, 1, 5, 6, 3, 12, 10, 9, 13, 14, 11)
"""The terminal's own colours, which contrast with its background."""
GREY = 8
MIN_COLUMNS, MAX_COLUMNS = 40, 160
MAX_TICKS = 6


def plot(figure: Figure, width: int, height: int) -> Group:
    """Return a plot of ``width`` columns and ``height`` rows above its legend."""
    import plotext

    plotext.terminal.limit(False, False)  # the size is given
    canvas: Any = plotext.figure
    canvas.clear.all()
    canvas.theme("colorless")
    canvas.canvas("default")
    canvas.plot_size(max(min(width, MAX_COLUMNS), MIN_COLUMNS), height)
    for axis, name in enumerate("xy"):
        _scale(canvas.ruler(name), [p[axis] for line in figure.lines for p in line.points], figure)
    canvas.label(shown(figure.x), axis="x")
    legend, marks = [], []
    for n, line in enumerate(figure.lines):
        letter = LETTERS[n % len(LETTERS)]
        colour = GREY if line.limit else COLOURS[n % len(COLOURS)]
        pixel = plotext.pixel(colour)
        xs, ys = map(list, zip(*line.points, strict=True))
        if len(xs) > 1:
            canvas.draw(canvas.signal(xs, ys, marker=plotext.marker("braille", pixel)).lines())
        letter_place = (2 * n + 1) * len(xs) // (2 * len(figure.lines))  # lines' letters are apart
        marks.append(
            canvas.signal(
                [xs[letter_place]], [ys[letter_place]], marker=plotext.marker(letter, pixel)
            )
        )
        legend_text = f" {shown(f'{line.name}  {line.remark}'.rstrip())}"
        legend.append(Text.assemble((letter, f"color({colour})"), legend_text))
    for mark in marks:
        canvas.draw(mark)
    body = Text.from_ansi(str(canvas.build()))
    body.rstrip()
    body.no_wrap = True
    title = Text(shown(f"{figure.y} over {figure.x}: {figure.title}"), style="bold")
    return Group(title, body, *legend)


def _scale(ruler: Any, values: Sequence[float], figure: Figure) -> None:
    """Set a ruler's range and ticks: decades, or round numbers."""
    low, high = min(values), max(values)
    if figure.log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        last = max(last, first + 1)
        ruler.scale("log")
        ruler.lim(10.0**first, 10.0**last)
        ruler.frequency(last - first + 1)
        return
    low, high = 0.0, 1.05 * high
    ten = 10.0 ** math.floor(math.log10(high / MAX_TICKS))
    step = next(m * ten for m in (1, 2, 5, 10) if m * ten * MAX_TICKS >= high)
    ticks = [n * step for n in range(int(high / step) + 1)]
    ruler.lim(low, high)
    ruler.ticks(ticks, [f"{value:,.6g}" for value in ticks])


# -- tables, JSON, CSV ----------------------------------------------------------------------------

WIDE = 110
"""Columns of a terminal in which all figures fit."""
CSV_COLUMNS = (
    *("variant", "stopwatch", "cache", "median_us", "low_us", "high_us", "samples"),
    *("bytes", "flops", "gb_per_s", "tflop_per_s", "percent_of_peak", "kernels"),
    *("span_us", "cpu_us", "agrees", "rank", "inputs", "error"),
)


def race_document(race: Race) -> dict[str, object]:
    return {
        **timings.document(race.session),
        "script": race.script,
        "python": race.python,
        "swept": race.swept,
        "variants": race.variants,
        "rows": [timing_row(r) for r in race.rows],
    }


def csv_text(race: Race) -> str:
    """Return all rows as CSV in full precision; an unknown value is an empty cell."""
    columns = [*race.rows[0].sizes, *CSV_COLUMNS]
    out = io.StringIO()
    lines = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    lines.writeheader()
    for row in race.rows:
        lines.writerow({**timing_row(row), **row.sizes, "kernels": _launches(row)})
    return out.getvalue()


def _launches(row: RaceRow) -> int | None:
    return sum(k.per_call for k in row.kernels) or None


def race_title(race: Race, rows: Sequence[RaceRow]) -> str:
    """Return the input of one size in words: ``float32 1823×781 (N=781, M=1823)``."""
    words = next((r.inputs for r in rows if r.inputs), "unknown input")
    sizes = {**race.defaults, **rows[0].sizes}
    sizes_text = ", ".join(f"{n}={v}" for n, v in sizes.items() if v is not None)
    return shown(words + (f" ({sizes_text})" if sizes_text else ""))


def best_first(rows: Iterable[RaceRow]) -> list[RaceRow]:
    """Ranked rows in their order, then wrong ones, then those that failed."""
    return sorted(rows, key=lambda r: (r.rank is None, r.median_us is None, r.median_us or 0.0))


def race_table(rows: Sequence[RaceRow], width: int) -> Group:
    """Return one size: a row a variant, ranked by the first stopwatch, the fastest first."""
    stopwatches = dict.fromkeys(r.stopwatch for r in rows if r.stopwatch)
    other_stopwatches = list(stopwatches)[1:]
    heads = ["", "variant", "µs", "95 %", *other_stopwatches]
    if not other_stopwatches:
        heads += ["× fastest", "GB/s"]
        if width >= WIDE:
            heads += ["of copy", "TFLOP/s", "kernels", "CPU µs", "max diff"]
    lines = []
    for row in best_first(r for r in rows if r.stopwatch not in other_stopwatches):
        cells = _race_cells(row)
        for other in rows:
            if other.variant == row.variant and other.stopwatch in other_stopwatches:
                cells[str(other.stopwatch)] = time_text(other)
        style = "red" if row.agrees is False or row.error else ""
        lines.append([(cells.get(head, UNKNOWN), style) for head in heads])
    return Group(*grid(heads, lines, width, set(heads) - {"variant"}, (("variant", 8),)))


def _race_cells(row: RaceRow) -> dict[str, str]:
    """A row's cells by their heads; the first one is its rank."""
    rank = UNKNOWN
    if row.rank:
        rank = str(row.rank)
    elif row.agrees is False:
        rank = "wrong"
    return rates(row) | {
        "": rank,
        "× fastest": amount(row.slower, 2),
        "kernels": amount(_launches(row)),
        "CPU µs": duration(row.cpu_us),
        "max diff": UNKNOWN if row.difference is None else f"{row.difference:.1e}",
    }


def launched_kernels(rows: Sequence[RaceRow]) -> Iterator[str]:
    """Yield what each variant launched: each kernel with its time."""
    for row in best_first(r for r in rows if r.kernels):
        parts = []
        for kernel in row.kernels:
            times = f"{kernel.per_call} × " if kernel.per_call > 1 else ""
            parts.append(f"{times}{short_name(kernel.name)} {duration(kernel.median_us)} µs")
        text = f"  {row.variant}: {', '.join(parts)}"
        if row.span_us and row.median_us and row.span_us > row.median_us * (1 + GAP):
            text += f"; {duration(row.span_us)} µs from the first to the end of the last"
        yield shown(text)


def race_footnotes(race: Race) -> Iterator[str]:
    """Yield what the figures mean, then failures, disagreements and warnings, each once."""
    rows = race.rows
    for watch in dict.fromkeys(r.stopwatch for r in rows if r.stopwatch):
        yield f"{watch}: {LESSONS.get(watch, '')}"
    for state in dict.fromkeys(r.cache for r in rows if r.cache):
        yield f"{state}: {STATES.get(state, '')}"
    yield "A rank is shared where 95 % intervals overlap; CPU µs: until a call returns."
    if any(r.bytes is not None for r in rows):
        yield (
            "GB/s and TFLOP/s are of the bytes and operations that the script gives for a call; "
            "of copy: of the bandwidth that a copy of 1 GB reached in the same run"
        )
    places_by_text: dict[str, list[str]] = {}
    for row in rows:
        place = f"{race.swept}={row.sizes[race.swept]}" if race.swept else ""
        for remark in _row_remarks(row):
            places_by_text.setdefault(f"{row.variant}: {remark}", []).append(place)
    for text, places in places_by_text.items():
        yield shown(f"{text} ({', '.join(places)})" if race.swept else text)


def _row_remarks(row: RaceRow) -> Iterator[str]:
    """A row's disagreement, failure and warnings."""
    if row.agrees is False:
        yield f"wrong: {row.wrong or 'it disagrees'}"
    if row.error:
        yield f"failed: {row.error}"
    yield from row.warnings
