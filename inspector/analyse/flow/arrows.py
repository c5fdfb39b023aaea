"""Branches of a listing as arrows in lanes beside its lines, read from the texts alone.

Nothing is parsed for it, so that a million lines take a second of a thread. A branch is an arrow
from its line to the label's; those to one label in one direction share an arrow. One that goes
back is a loop. Shorter arrows lie nearer the text, so that what lies within lies inside.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from inspector.listing.line import Function

MOST_LANES = 8
"""Arrows beside each other; of what lies further out only the ends are kept."""

_LABEL = re.compile(r"\s*([\w$.%]+):")
_PTX = re.compile(r"(?:^|[\s;:}])bra(?:\.uni)?\s++([\w$%.]++)\s*+;")
_TABLE = re.compile(r"(?:^|[\s;:}])brx\.idx(?:\.uni)?\s++[^,;\s]++\s*+,\s*+([\w$%.]++)")
_SASS = re.compile(r"\s(?:BRA|JMP|JMX|BRX|BRXU)(?:\.[\w.]+)?\s([^;]*)")
_SASS_TARGET = re.compile(r"`\((\.[\w$.]+)\)")
_SASS_TABLE = re.compile(r'BRANCH_TARGETS ([^"*]*)')
_NAME = re.compile(r"[\w$%.]+")
TABLE_LINES = 4096
"""Lines over which a table of branch targets is read."""


class Arrow(NamedTuple):
    """Lines ``first`` to ``last``; one of them is ``target``, and ``sources`` branch there."""

    first: int
    last: int
    target: int
    sources: tuple[int, ...]

    @property
    def loops(self) -> bool:
        """Whether it goes back, or to itself."""
        return self.sources[-1] >= self.target

    def ends_at(self, n: int) -> bool:
        """Whether line ``n`` branches along it, or is where it leads."""
        at = bisect_left(self.sources, n)
        return n == self.target or (at < len(self.sources) and self.sources[at] == n)


class FlowLanes:
    """The arrows of a listing: disjoint in each lane, lane 0 beside the text.

    ``loose`` arrows have found no lane. Everything about a line takes logarithmic time.
    """

    def __init__(self, arrows: Iterable[Arrow]) -> None:
        self.lanes: list[list[Arrow]] = []
        self.loose: list[Arrow] = []
        for arrow in sorted(arrows, key=lambda a: (a.last - a.first, a.first)):
            lane = next((one for one in self.lanes if _free(one, arrow)), None)
            if lane is None and len(self.lanes) < MOST_LANES:
                lane = []
                self.lanes.append(lane)
            insort(self.loose if lane is None else lane, arrow)
        self._ends: dict[int, list[Arrow]] = defaultdict(list)
        for arrow in (*self.loose, *(a for lane in self.lanes for a in lane)):
            for n in {arrow.target, *arrow.sources}:
                self._ends[n].append(arrow)

    def at(self, lane: int, n: int) -> Arrow | None:
        """The arrow in a lane that goes past line ``n``, or ends there."""
        if not 0 <= lane < len(self.lanes):
            return None
        arrows = self.lanes[lane]
        at = bisect_right(arrows, n, key=lambda a: a.first) - 1
        return arrows[at] if at >= 0 and n <= arrows[at].last else None

    def ends(self, n: int) -> Sequence[Arrow]:
        """The arrows that begin or end on line ``n``."""
        return self._ends.get(n, ())

    def loop(self, n: int) -> Arrow | None:
        """The innermost loop around line ``n``, among those that have a lane."""
        around = (self.at(lane, n) for lane in range(len(self.lanes)))
        return next((a for a in around if a is not None and a.loops), None)


def _free(lane: list[Arrow], arrow: Arrow) -> bool:
    at = bisect_right(lane, arrow.first, key=lambda a: a.first)
    before, after = lane[at - 1] if at else None, lane[at] if at < len(lane) else None
    return (before is None or before.last < arrow.first) and (
        after is None or arrow.last < after.first
    )


def arrows(texts: Sequence[str], functions: Sequence[Function], language: str) -> Iterator[Arrow]:
    """The branches of PTX or SASS whose labels stand in the same listing; none of others."""
    if language not in ("ptx", "sass"):
        return
    labels: dict[str, list[int]] = defaultdict(list)
    branches: list[tuple[int, tuple[str, ...]]] = []
    tables: dict[str, tuple[str, ...]] = {}
    ptx = language == "ptx"
    for n, text in enumerate(texts, 1):
        if ":" in text and (match := _LABEL.match(text)):
            labels[match[1]].append(n)
            if ptx and ".branchtargets" in text:
                tables[match[1]] = _table(texts, n)
        if ptx:
            if "bra" in text or "brx" in text:
                text = text.partition("//")[0]
                branches += [(n, (name,)) for name in _PTX.findall(text)]
                branches += [(n, (name,)) for name in _TABLE.findall(text)]
        elif ("BR" in text or "JM" in text) and (match := _SASS.search(text)):
            named = _SASS_TARGET.findall(match[1])
            for table in _SASS_TABLE.findall(text):
                named += [name.strip() for name in table.split(",")]
            branches.append((n, tuple(named)))
    ends: dict[tuple[int, bool], list[int]] = defaultdict(list)
    starts = [f.first for f in functions]
    for n, names in branches:
        for name in (one for own in names for one in tables.get(own, (own,))):
            target = _nearest(labels.get(name, ()), n, functions, starts)
            if target is not None:
                ends[target, n >= target].append(n)
    for (target, _), sources in ends.items():
        every = tuple(sorted(set(sources)))
        yield Arrow(min(target, every[0]), max(target, every[-1]), target, every)


def _table(texts: Sequence[str], n: int) -> tuple[str, ...]:
    """The labels of a ``.branchtargets`` that begins on line ``n``."""
    said = []
    for text in texts[n - 1 : n - 1 + TABLE_LINES]:
        said.append(text.partition("//")[0])
        if ";" in text:
            break
    listed = " ".join(said).partition(".branchtargets")[2].partition(";")[0]
    return tuple(_NAME.findall(listed))


def _nearest(
    places: Sequence[int], n: int, functions: Sequence[Function], starts: Sequence[int]
) -> int | None:
    """Of lines that define a label, the one in the function of line ``n``; labels are its own."""
    if len(places) < 2:
        return places[0] if places else None
    at = bisect_right(starts, n) - 1
    if at >= 0:
        own = functions[at]
        inside = bisect_left(places, own.first)
        if inside < len(places) and places[inside] <= own.last:
            return places[inside]
    return places[0]
