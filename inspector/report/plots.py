"""Figures in a terminal, in Braille, by plotext.

Lines are told apart by letters on them, and by colour where there is any. plotext 6 is the version
that is kept (textual-plotext wants an older one, and is for Textual's screens).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.text import Text

from inspector.measure.time.ranking import Race, RaceRow
from inspector.measure.time.results import Session
from inspector.measure.time.roofline import TITLES, UNITS, Peaks, Spot, dtypes_in
from inspector.names import base_name, short_name
from inspector.text import shown

# -- plots as values ------------------------------------------------------------------------------
# Lines and points with names, on axes with ticks.

Point = tuple[float, float]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A line through points, in the axes' units; of one point, the point. ``limit``: a bound that
    the others are held against, and no measurement of theirs. ``said`` stands beside the name."""

    name: str
    points: tuple[Point, ...]
    limit: bool = False
    said: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """What is drawn. A logarithmic axis has no values of 0 or less."""

    title: str
    x: str
    y: str
    lines: tuple[PlotLine, ...]
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = True

    @property
    def letters(self) -> tuple[str, ...]:
        """What each line is called in a plot that has no room for names."""
        return tuple(LETTERS[n % len(LETTERS)] for n in range(len(self.lines)))

    def reach(self, axis: int) -> tuple[float, float]:
        """Least and greatest value of an axis (0: x, 1: y), with some air."""
        values = [p[axis] for line in self.lines for p in line.points]
        low, high = min(values), max(values)
        if (self.log_x, self.log_y)[axis]:
            return low / 1.25, high * 1.25
        air = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        if axis:
            return (0.0 if self.from_zero and low >= 0 else low - air), high + air
        return (low, high) if high > low else (low - air, high + air)


def ticks(low: float, high: float, most: int, log: bool) -> list[tuple[float, str]]:
    """At most so many round values between two, with what is written beside them."""
    found = list(_log_ticks(low, high, most) if log else _ticks(low, high, most))
    return [(value, label(value)) for value in found]


def label(value: float) -> str:
    """A tick's text: ``0.05``, ``4,096``."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _ticks(low: float, high: float, most: int) -> Iterator[float]:
    raw = (high - low) / max(most - 1, 1)
    if raw <= 0:
        yield low
        return
    ten = 10.0 ** math.floor(math.log10(raw))
    step = next(m * ten for m in (1, 2, 2.5, 5, 10) if m * ten >= raw * (1 - 1e-9))
    at = math.ceil(low / step - 1e-9)
    while at * step <= high * (1 + 1e-9) + 1e-12:
        yield at * step
        at += 1


def _log_ticks(low: float, high: float, most: int) -> Iterator[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for parts in ((1, 2, 5), (1, 3), (1,)):
        found = [p * 10.0**d for d in decades for p in parts]
        inside = [v for v in found if low <= v <= high]
        if len(inside) <= most:
            break
    yield from inside[:: -(-len(inside) // max(most, 1)) or 1]


def spread(count: int, most: int, shift: int) -> list[int]:
    """Indices of some of ``count`` points, so spaced that lines' letters seldom fall together."""
    if count <= 1:
        return list(range(count))
    step = max(count / most, 1.0)
    first = (shift * 0.37) % 1 * step
    found = {min(int(first + n * step), count - 1) for n in range(int(count / step))}
    return sorted(found)


def legend(figure: Figure, shown: Sequence[str] | None = None) -> list[tuple[str, str]]:
    """Each line's letter and what it is."""
    letters = shown or figure.letters
    return [
        (letter, f"{line.name}  {line.said}".rstrip())
        for letter, line in zip(letters, figure.lines, strict=True)
    ]


# -- the roofline ---------------------------------------------------------------------------------
# The figure of a roofline: calls as points under what the device could do at most.

# The plot reaches so far beyond the points, as a factor.
AIR = 4.0


def figure(
    title: str, spots: Sequence[Spot], copy: float | None, sheet: float | None,
    peaks: Peaks | None, dtypes: Iterable[str],
) -> Figure | None:  # fmt: skip
    """A roofline plot; None without spots or any roof. ``copy`` and ``sheet`` in bytes a second."""
    units = list(dict.fromkeys(u for d in dtypes for u in UNITS.get(d, ())))
    known = {} if peaks is None else peaks.flops
    levels = [(u, known[u]) for u in units if u in known]
    slants = [(n, b) for n, b in (("copy, measured", copy), ("memory by data sheet", sheet)) if b]
    if not spots or not (slants or levels):
        return None
    steepest = max((b for _, b in slants), default=None)
    low = min(s.intensity for s in spots) / AIR
    high = max(s.intensity for s in spots) * AIR
    # The ridge is always seen: on which side of it a call lies is what one wants to know.
    if steepest and levels:
        high = max(high, AIR * min(level for _, level in levels) / steepest)
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
    return Figure(title, "FLOP/byte", "TFLOP/s", tuple(lines), True, True)


def _slant(band: float, low: float, high: float, top: float) -> tuple[tuple[float, float], ...]:
    end = min(high, top / band)
    start = min(low, end / AIR)
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
        Spot.of(f"{short_name(base_name(t.kernel))} {t.variant} {t.inputs}".strip(), t.median_us,
                t.bytes, t.flops)
        for t in rows
    ]  # fmt: skip
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


# Of the terminal's own sixteen colours, so that they are seen on its ground; limits are grey.
COLOURS = (4, 2, 1, 5, 6, 3, 12, 10, 9, 13, 14, 11)
GREY = 8
WIDEST, LEAST = 160, 40


def plot(figure: Figure, width: int, height: int) -> Group:
    """A figure of ``width`` columns, its plot of ``height`` rows, the legend below it.

    Colours are styles, which a console without colour leaves out.
    """
    width = max(min(width, WIDEST), LEAST)
    title = shown(f"{figure.y} over {figure.x}: {figure.title}")
    parts: list[Any] = [Text(title, style="bold"), _drawn(figure, width, height)]
    entries = legend(figure)
    cells = [Text.assemble((letter, _style(figure, n)), f" {shown(text)}")
             for n, (letter, text) in enumerate(entries)]  # fmt: skip
    return Group(*parts, *cells)


def _style(figure: Figure, n: int) -> str:
    return f"color({_colour(figure, n)})"


def _colour(figure: Figure, n: int) -> int:
    return GREY if figure.lines[n].limit else COLOURS[n % len(COLOURS)]


def _drawn(figure: Figure, width: int, height: int) -> Text:
    import plotext

    def on(value: float, log: bool) -> float:
        return math.log10(value) if log else value

    # It would else draw no larger than the terminal, or than 80 columns where there is none.
    plotext.terminal.limit(False, False)
    made: Any = plotext.figure
    made.clear.all()
    made.theme("colorless")
    made.canvas("default")
    made.plot_size(width, height)
    places = (max((width - 10) // 10, 2), max(height // 3, 2))
    for axis, log in enumerate((figure.log_x, figure.log_y)):
        low, high = figure.reach(axis)
        ruler = made.ruler("xy"[axis])
        ruler.lim(on(low, log), on(high, log))
        marks = ticks(low, high, places[axis], log)
        ruler.ticks([on(value, log) for value, _ in marks], [text for _, text in marks])
    points = [
        [(on(x, figure.log_x), on(y, figure.log_y)) for x, y in line.points]
        for line in figure.lines
    ]
    for n, line in enumerate(points):
        if len(line) > 1:
            pixel = plotext.pixel(_colour(figure, n))
            marker = plotext.marker("braille", pixel)
            xs, ys = zip(*line, strict=True)
            made.draw(made.signal(list(xs), list(ys), marker=marker).lines())
    free = _Cells(figure, width, height)
    for n, (line, letter) in enumerate(zip(points, figure.letters, strict=True)):
        pixel = plotext.pixel(_colour(figure, n))
        at = [_along(line, part) for part in _letters(figure.lines[n], n, width)]
        if len(line) == 1:
            at = [free.beside(at[0])]
        if at:
            xs, ys = zip(*at, strict=True)
            marker = plotext.marker(letter, pixel)
            made.draw(made.signal(list(xs), list(ys), marker=marker))
    made.label(shown(figure.x), axis="x")
    text = Text.from_ansi(str(made.build()))
    text.rstrip()
    text.no_wrap = True
    return text


class _Cells:
    """Which cells of a plot have a letter already, so that points that fall together all show."""

    def __init__(self, figure: Figure, width: int, height: int) -> None:
        self._taken: set[tuple[int, int]] = set()
        edges = []
        for axis, log in enumerate((figure.log_x, figure.log_y)):
            low, high = figure.reach(axis)
            edges.append((math.log10(low), math.log10(high)) if log else (low, high))
        (left, right), (self._low, top) = edges
        self._left = left
        # About as large as they are: the ticks' labels take some of the width.
        self._wide = (right - left) / max(width - 9, 1)
        self._high = (top - self._low) / max(height - 4, 1)

    def beside(self, point: tuple[float, float]) -> tuple[float, float]:
        """The point, or one as many cells to the right of it as have letters."""
        x, y = point
        row = round((y - self._low) / self._high)
        column = round((x - self._left) / self._wide)
        moved = 0
        while (column + moved, row) in self._taken:
            moved += 1
        self._taken.add((column + moved, row))
        return x + moved * self._wide, y


def _letters(line: PlotLine, n: int, width: int) -> list[float]:
    """Where a line's letter stands, as parts of its way: on few of its points, never crowded."""
    count = len(line.points)
    if count == 1:
        return [0.0]
    most = max(2, min(count, width // 30))
    if line.limit or count <= 3:
        return [(0.15 + 0.1 * n) % 0.9]
    return [at / (count - 1) for at in spread(count, most, n)]


def _along(line: list[tuple[float, float]], part: float) -> tuple[float, float]:
    """A point of a line at a part of its points' number, between two of them where it falls so."""
    place = part * (len(line) - 1)
    low = min(int(place), max(len(line) - 2, 0))
    if len(line) == 1:
        return line[0]
    rest = place - low
    (x0, y0), (x1, y1) = line[low], line[low + 1]
    return x0 + rest * (x1 - x0), y0 + rest * (y1 - y0)
