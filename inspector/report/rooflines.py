"""The figure of a roofline: calls as points under what the device could do at most."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from inspector.bench.roofline import TITLES, UNITS, Peaks, Spot
from inspector.report.figures import Figure, Line

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
        Line(name, _slant(band, low, high, top), True, f"{band / 1e9:,.0f} GB/s")
        for name, band in slants
    ]
    for unit, level in levels:
        first = low if steepest is None else level / steepest
        if first < high:
            points = ((first, level / 1e12), (high, level / 1e12))
            said = f"{level / 1e12:,.4g} TFLOP/s"
            lines.append(Line(f"{TITLES[unit]} by data sheet", points, True, said))
    for spot in spots:
        said = f"{_figure(spot.intensity)} FLOP/byte, {_figure(spot.flops / 1e12)} TFLOP/s"
        said += _part(spot, slants, levels)
        lines.append(Line(spot.name, ((spot.intensity, spot.flops / 1e12),), said=said))
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
