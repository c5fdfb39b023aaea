"""Which line stands in which row once some lines are folded away; both ways in logarithmic time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, islice
from operator import itemgetter, lt, sub

from inspector.tui.folding import Region

_FIRST, _LAST = itemgetter(0), itemgetter(1)


def _outer(regions: list[Region]) -> list[Region]:
    """Of regions by their first line, those that lie in no other."""
    if all(map(lt, map(_LAST, regions), map(_FIRST, islice(regions, 1, None)))):
        return regions
    outer: list[Region] = []
    end = 0
    for region in regions:
        if region[0] > end:
            outer.append(region)
            end = region[1]
        elif region[1] > end and region[0] == outer[-1][0]:
            outer[-1] = region
            end = region[1]
    return outer


class RowMap:
    """Rows count from 0, lines from 1. A folded region is one row, which stands for its first
    line."""

    def __init__(self, lines: int, closed: Iterable[Region] = ()) -> None:
        """``closed`` in any order; one that lies in another is folded away with it."""
        self.lines = lines
        self.closed = _outer(sorted(closed, key=_FIRST))
        # Without a step of Python's for each: there may be a hundred thousand of them.
        self._firsts: list[int] = list(map(_FIRST, self.closed))
        # How many lines are hidden before each region, and in all of them.
        hidden: Iterable[int] = map(sub, map(_LAST, self.closed), self._firsts)
        self._hidden: list[int] = [0, *accumulate(hidden)]
        self._rows: list[int] = list(map(sub, self._firsts, map((1).__add__, self._hidden)))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.lines - self._hidden[-1]

    def fold(self, n: int) -> Region | None:
        """The folded region that line ``n`` lies in."""
        at = bisect_right(self._firsts, n) - 1
        return self.closed[at] if at >= 0 and n <= self.closed[at].last else None

    def shown(self, n: int) -> int:
        """The line whose row line ``n`` stands in."""
        found = self.fold(n)
        return n if found is None else found.first

    def row(self, n: int) -> int:
        """The row of line ``n``."""
        n = self.shown(n)
        return n - 1 - self._hidden[bisect_right(self._firsts, n - 1)]

    def line(self, row: int) -> int:
        """The first line that stands in a row."""
        at = bisect_right(self._rows, row) - 1
        if at >= 0 and row == self._rows[at]:
            return self._firsts[at]
        return row + 1 + self._hidden[at + 1]
