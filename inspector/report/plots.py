"""Plots in a terminal, in Braille, by plotext: lines with letters and colours, rooflines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.text import Text

from inspector.base.names import base_name, short_name
from inspector.base.text import shown
from inspector.measure.time.ranking import TITLES, UNITS, Peaks, Race, RaceRow, Spot, dtypes_in
from inspector.measure.time.results import Session

Point = tuple[float, float]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A line through points in the axes' units, or one point.

    ``limit`` marks a bound, such as a roof; ``said`` follows the name in the legend.
    """

    name: str
    points: tuple[Point, ...]
    limit: bool = False
    said: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
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


# -- rooflines ------------------------------------------------------------------------------------

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
    lines = [
        PlotLine(name, _slant(band, low, high, top), True, f"{band / 1e9:,.0f} GB/s")
        for name, band in slants
    ]
    for unit, level in levels:
        first = low if steepest is None else level / steepest
        if first < high:
            points = ((first, level / 1e12), (high, level / 1e12))
            said = f"{level / 1e12:,.4g} TFLOP/s"
            lines.append(PlotLine(f"{TITLES[unit]} by data sheet", points, True, said))
    for spot in spots:
        said = f"{_figure(spot.intensity)} FLOP/byte, {_figure(spot.flops / 1e12)} TFLOP/s"
        said += _part(spot, slants, levels)
        lines.append(PlotLine(spot.name, ((spot.intensity, spot.flops / 1e12),), said=said))
    return Figure(title, "FLOP/byte", "TFLOP/s", tuple(lines), log=True)


def _slant(band: float, low: float, high: float, top: float) -> tuple[tuple[float, float], ...]:
    end = min(high, top / band)
    start = min(low, end / MARGIN)
    return (start, start * band / 1e12), (end, end * band / 1e12)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _part(
    spot: Spot, slants: Sequence[tuple[str, float]], levels: Sequence[tuple[str, float]]
) -> str:
    """How near a call comes to the roof above it: the first slanted one, or the highest level."""
    unit, top = max(levels, key=lambda each: each[1], default=("", math.inf))
    name, slant = (slants[0][0], slants[0][1] * spot.intensity) if slants else ("", math.inf)
    lowest = min((level for _, level in levels), default=math.inf)
    if slants and slant <= lowest:
        return f", {100 * spot.flops / slant:.0f} % of {name}"
    if levels and slant >= top:
        return f", {100 * spot.flops / top:.0f} % of {TITLES[unit]}"
    return ""


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
    watch = rows[0].timing.stopwatch if rows else None
    spots = [_spot(r) for r in rows if r.timing.stopwatch == watch]
    peak = next((p for p in race.peaks if p.stopwatch == watch), None)
    band = race.data_sheet_gb_per_s
    inputs = rows[0].timing.inputs if rows else ""
    return figure(
        f"{name_of(race.script)}, {inputs}",
        [s for s in spots if s is not None],
        peak.gb_per_s * 1e9 if peak is not None else None,
        band * 1e9 if band is not None else None,
        sheet,
        rows[0].dtypes if rows else (),
    )


def _spot(row: RaceRow) -> Spot | None:
    timing = row.timing
    return Spot.of(timing.variant, timing.median_us, timing.bytes, timing.flops)


def session_roofline(session: Session, name: str, sheet: Peaks | None) -> Figure | None:
    """Recorded launches that were timed, by the first stopwatch, under the same roofs."""
    watch = next((t.stopwatch for t in session.rows if t.stopwatch), None)
    rows = [t for t in session.rows if t.stopwatch == watch]
    spots = [
        Spot.of(
            f"{short_name(base_name(t.kernel))} {t.variant} {t.inputs}".strip(),
            t.median_us,
            t.bytes,
            t.flops,
        )
        for t in rows
    ]
    peak = next((p for p in session.peaks if p.stopwatch == watch), None)
    known = session.data_sheet_gb_per_s
    band = known * 1e9 if known is not None else sheet.bandwidth if sheet else None
    estimated = any("estimate" in (t.bytes_from, t.flops_from) for t in rows)
    return figure(
        f"{name}; bytes and operations are estimates" if estimated else name,
        [s for s in spots if s is not None],
        peak.gb_per_s * 1e9 if peak is not None else None,
        band,
        sheet,
        list(dict.fromkeys(d for t in rows for d in dtypes_in(t.inputs))),
    )


COLOURS = (4, 2, 1, 5, 6, 3, 12, 10, 9, 13, 14, 11)
"""The terminal's own colours, which contrast with its background."""
GREY = 8
MIN_COLUMNS, MAX_COLUMNS = 40, 160


def plot(figure: Figure, width: int, height: int) -> Group:
    """Return a plot of ``width`` columns and ``height`` rows above its legend."""
    title = Text(shown(f"{figure.y} over {figure.x}: {figure.title}"), style="bold")
    legend = [
        Text.assemble(
            (LETTERS[n % len(LETTERS)], f"color({_colour(figure, n)})"),
            f" {shown(f'{line.name}  {line.said}'.rstrip())}",
        )
        for n, line in enumerate(figure.lines)
    ]
    return Group(title, _drawn(figure, max(min(width, MAX_COLUMNS), MIN_COLUMNS), height), *legend)


def _colour(figure: Figure, n: int) -> int:
    return GREY if figure.lines[n].limit else COLOURS[n % len(COLOURS)]


def _drawn(figure: Figure, width: int, height: int) -> Text:
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
        pixel = plotext.pixel(_colour(figure, n))
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
