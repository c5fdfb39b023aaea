"""Layouts by name, and the borders between panes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.geometry import Region

from inspector.base.model import Stage
from inspector.tui.widgets.subject import TreeSubject


@dataclass(frozen=True, slots=True)
class Layout:
    """``stages``: for each pane a stage and its substitutes; empty for one pane that keeps its
    stage."""

    name: str
    title: str
    stages: tuple[tuple[Stage, ...], ...] = ()

    def of(self, subject: TreeSubject) -> tuple[Stage, ...]:
        """The stages that the panes show of a subject."""
        return tuple(
            next((stage for stage in choices if subject.has(stage)), choices[0])
            for choices in self.stages
        )

    def lacks(self, subject: TreeSubject) -> tuple[Stage, ...]:
        """Those of them that the subject has not."""
        return tuple(stage for stage in self.of(subject) if not subject.has(stage))


LAYOUTS = {
    # Inductor's kernels have output_code as their source.
    "lowering": Layout(
        "lowering",
        "source · PTX · SASS",
        ((Stage.SOURCE, Stage.OUTPUT_CODE), (Stage.PTX,), (Stage.SASS,)),
    ),
    "generated": Layout(
        "generated",
        "source · output_code · PTX",
        ((Stage.SOURCE,), (Stage.OUTPUT_CODE,), (Stage.PTX,)),
    ),
    "whole": Layout("whole", "one pane, whole"),
}
"""By name, in the order of the key that goes through them."""


def after(now: Layout | None) -> Layout:
    """Return the next layout of that key."""
    every = [*LAYOUTS.values()]
    return every[0 if now is None else (every.index(now) + 1) % len(every)]


# Borders

MIN_PANE_COLUMNS = 16
MIN_PANE_ROWS = 4
"""Cells of the smallest pane."""

EVEN_SHARE = 1000
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
