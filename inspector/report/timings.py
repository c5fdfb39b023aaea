"""Measured times: tables, JSON, CSV, and plots in a terminal, in Braille, by plotext.

One module because recorded launches and a script's variants share cells, notes and rooflines.
"""

from __future__ import annotations

import csv
import datetime
import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group
from rich.text import Text

from inspector.base.model import Recording
from inspector.base.names import base_name, short_name
from inspector.base.text import microseconds, plural, shown
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
from inspector.measure.time.results import (
    COLD,
    Session,
    StoredTime,
    StoredTimes,
    Timing,
    timing_row,
)
from inspector.report.jsons import SCHEMA, Rows
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
    spread = between(time.timing.low_us, time.timing.high_us)
    how = f"{time.timing.stopwatch}, {STATES.get(time.cache, time.cache)}"
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
    if time is None:
        return None
    names = ("median_us", "low_us", "high_us", "stopwatch", "cache")
    own = {name: getattr(time.timing, name) for name in names}
    return {**own, "taken": time.taken, "device": time.device, "inputs": time.inputs}


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


def race_row(one: RaceRow) -> dict[str, object]:
    """Return a row as JSON has it: a timing's fields and the comparison's."""
    own = {name: value for name, value in asdict(one).items() if name != "timing"}
    return {**timing_row(one.timing), **own, "dtypes": list(one.dtypes)}


def race_document(race: Race) -> dict[str, object]:
    """Return the JSON of ``time SCRIPT``."""
    return {
        **document(_session(race)),
        "script": race.script,
        "python": race.python,
        "swept": race.swept,
        "variants": list(race.variants),
        "rows": [race_row(r) for r in race.rows],
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
        lines.writerow({**race_row(one), **one.sizes, "kernels": launches})
    return out.getvalue()


def race_heading(race: Race) -> str:
    """Return where and with what this was measured."""
    return heading(_session(race))


def race_title(race: Race, which: int) -> str:
    """Return the input of one size in words: ``float32 1823×781 (N=781, M=1823)``."""
    rows = [r for r in race.rows if r.timing.call == which]
    words = next((r.timing.inputs for r in rows if r.timing.inputs), "unknown input")
    sizes = {**race.defaults, **rows[0].sizes}
    named = ", ".join(f"{n}={v}" for n, v in sizes.items() if v is not None)
    return shown(words + (f" ({named})" if named else ""))


def race_table(rows: Sequence[RaceRow], width: int) -> Group:
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
        "95 %": interval(timing),
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


def race_footnotes(race: Race, sizes: Sequence[int]) -> Iterator[str]:
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
    others = [
        f"{n}={v}"
        for n, v in {**race.defaults, **race.rows[0].sizes}.items()
        if n != race.swept and v is not None
    ]
    words = " · ".join(filter(None, (name_of(race.script), ", ".join(others))))
    return Figure(words, race.swept, FIGURE_UNITS[unit], tuple(lines))
