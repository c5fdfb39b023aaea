"""Numbers as ncu prints them: with the separators of the locale that it ran in, and with units."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

_NUMBER = re.compile(r"[-+]?\d[\d.,'’\s]*(?:e[-+]?\d+)?\Z", re.IGNORECASE)
# Separators of thousands that never are decimal points: Swiss and French ones.
_ALWAYS = str.maketrans("", "", "'’ \u00a0\u202f\t")
# A comma that is followed by three digits may be either; by anything else, it is a decimal point.
_THREE = re.compile(r"\d{3}(?!\d)")

# How many of a unit are one µs, one GHz.
_MICROSECONDS = {
    "ns": 1e3, "nsecond": 1e3, "us": 1.0, "µs": 1.0, "usecond": 1.0, "ms": 1e-3, "msecond": 1e-3,
    "s": 1e-6, "second": 1e-6,
}  # fmt: skip
_GIGAHERTZ = {
    "ghz": 1.0, "cycle/ns": 1.0, "cycle/nsecond": 1.0, "mhz": 1e3, "cycle/us": 1e3,
    "cycle/usecond": 1e3, "khz": 1e6, "cycle/ms": 1e6, "cycle/msecond": 1e6, "hz": 1e9,
    "cycle/s": 1e9, "cycle/second": 1e9,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Notation:
    """Which of point and comma is the decimal point; the other separates thousands."""

    decimal: str = "."

    def number(self, text: str) -> float | None:
        """The value of a cell; None of one that holds no finite number (``nan``, ``no data``)."""
        if text.isascii() and text.isdigit():  # most cells, and it is quick
            return _finite(float(text))
        if not _NUMBER.match(text.strip()):
            return None
        bare = text.strip().translate(_ALWAYS)
        bare = bare.replace("," if self.decimal == "." else ".", "").replace(self.decimal, ".")
        try:
            return _finite(float(bare))
        except ValueError:
            return None

    def count(self, text: str) -> int | None:
        """The value of a cell that counts something."""
        value = self.number(text)
        return None if value is None else round(value)


def _finite(value: float) -> float | None:
    """None of what is more than a number can be: 400 digits are no measurement."""
    return value if math.isfinite(value) else None


ENOUGH = 100
"""More cells for the one than for the other: the rest need not be looked at."""


def notation(cells: Iterable[str]) -> Notation:
    """The notation that the numbers of a report are written in.

    A comma that is not followed by exactly three digits is a decimal point, and so is one after a
    point; likewise for a point. Where nothing tells, it is English.
    """
    votes = {",": 0, ".": 0}
    for cell in cells:
        if "." not in cell and "," not in cell:
            continue
        text = cell.strip()
        if not _NUMBER.match(text):
            continue
        last = max(text.rfind(","), text.rfind("."))
        mark, other = text[last], "," if text[last] == "." else "."
        whole = text[:last].lstrip("+-")
        alone = text.count(mark) == 1
        if other in whole or (alone and (whole == "0" or not _THREE.match(text, last + 1))):
            votes[mark] += 1
        elif text.count(mark) > 1:
            votes[other] += 1
        if abs(votes[","] - votes["."]) > ENOUGH:
            break
    return Notation("," if votes[","] > votes["."] else ".")


def microseconds(value: float | None, unit: str) -> float | None:
    """A duration in µs; None of a unit that is no time."""
    scale = _MICROSECONDS.get(unit.strip().lower())
    return None if value is None or scale is None else _finite(value / scale)


def gigahertz(value: float | None, unit: str) -> float | None:
    """A clock in GHz; None of a unit that is no frequency."""
    scale = _GIGAHERTZ.get(unit.strip().lower())
    return None if value is None or scale is None else value / scale
