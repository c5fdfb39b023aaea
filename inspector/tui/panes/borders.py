"""Where panes meet: how much of the room each takes, and which border is under the mouse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.geometry import Region

LEAST_WIDTH = 16
LEAST_HEIGHT = 4
"""Cells that a pane keeps, whatever is dragged."""

EVEN = 1000
"""The share of a pane whose border nobody has moved."""


@dataclass(frozen=True, slots=True)
class Border:
    """Before the ``after``-th pane in view: a column if ``upright``, else the row of its title. The
    border before the first is that of the tree."""

    after: int
    upright: bool


def border_at(
    x: int, y: int, regions: Sequence[Region], all_of: Region, beside: bool, grid: bool
) -> Border | None:
    """The border under a place of the screen; ``regions`` are those of the panes in view."""
    if not all_of.contains(x, y):
        return None
    if x == all_of.x:
        return Border(0, upright=True)
    for index, region in enumerate(regions):
        if index == 0 or not region.contains(x, y):
            continue
        under = not beside or (grid and index == len(regions) - 1)
        if under and y == region.y:
            return Border(index, upright=False)
        if not under and x == region.x:
            return Border(index, upright=True)
    return None


def moved(sizes: Sequence[int], first: int, second: int, size: int, least: int) -> list[int]:
    """``sizes`` with the first of two neighbours ``size`` cells wide, the other giving way."""
    both = sizes[first] + sizes[second]
    least = min(least, both // 2)
    out = list(sizes)
    out[first] = max(least, min(size, both - least))
    out[second] = both - out[first]
    return out
