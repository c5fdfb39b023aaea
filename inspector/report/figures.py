"""Plots as values: lines and points with names, on axes with ticks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Point = tuple[float, float]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class Line:
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
    lines: tuple[Line, ...]
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
