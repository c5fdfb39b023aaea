"""Branches of a listing as arrows in lanes beside its lines.

A branch is an arrow from its line to the label's; those to one label in one direction share an
arrow. One that goes back is a loop, and so is a region of MLIR that is run again and again
(``scf.for``); one that may be left out (``scf.if``) is jumped over. Shorter arrows are nearer the
text. LLVM and MLIR end each block with a branch: one to the block that follows is no arrow.
"""

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from inspector.base.grouping import by_key
from inspector.parsers.line import Function, Kind, Line, Listing
from inspector.parsers.sass_operands import BRANCHES, CALLS

MAX_LANES = 8
"""Arrows beside each other; of further ones only the ends are kept."""

_MLIR_REGION = re.compile(r'(?:%[^=]*+=\s*+)?+"?((?:scf|affine)\.\w++)')
_MLIR_LOOPS = frozenset(
    ("scf.for", "scf.while", "scf.parallel", "scf.forall", "affine.for", "affine.parallel")
)
_MLIR_CHOICES = frozenset(("scf.if", "affine.if"))


class Arrow(NamedTuple):
    """Lines ``first`` to ``last``; one of them is ``target``, and ``sources`` branch there.
    ``away``: it goes back to a block that only stands above: it ends there."""

    first: int
    last: int
    target: int
    sources: tuple[int, ...]
    away: bool = False

    @property
    def loops(self) -> bool:
        """Whether it goes back, or to itself, as a loop does."""
        return self.sources[-1] >= self.target and not self.away

    def ends_at(self, n: int) -> bool:
        """Whether line ``n`` branches along it, or is where it leads."""
        return n == self.target or n in self.sources


class FlowLanes:
    """The arrows of a listing: disjoint in each lane, lane 0 beside the text. ``loose`` arrows have
    found no lane. Everything about a line takes logarithmic time."""

    def __init__(self, arrows: Iterable[Arrow]) -> None:
        self.lanes: list[list[Arrow]] = []
        self.loose: list[Arrow] = []
        for arrow in sorted(arrows, key=lambda a: (a.last - a.first, a.first)):
            lane = next((candidate for candidate in self.lanes if _free(candidate, arrow)), None)
            if lane is None and len(self.lanes) < MAX_LANES:
                lane = []
                self.lanes.append(lane)
            insort(self.loose if lane is None else lane, arrow)
        self._ends = by_key(
            (n, arrow)
            for lane in (self.loose, *self.lanes)
            for arrow in lane
            for n in {arrow.target, *arrow.sources}
        )

    def arrow_at(self, lane: int, n: int) -> Arrow | None:
        """The arrow in a lane that goes past line ``n``, or ends there."""
        if not 0 <= lane < len(self.lanes):
            return None
        arrows = self.lanes[lane]
        index = bisect_right(arrows, n, key=lambda a: a.first) - 1
        return arrows[index] if index >= 0 and n <= arrows[index].last else None

    def ends(self, n: int) -> Sequence[Arrow]:
        return self._ends.get(n, ())

    def loop(self, n: int) -> Arrow | None:
        """The innermost loop around line ``n``, among those that have a lane."""
        around = (self.arrow_at(lane, n) for lane in range(len(self.lanes)))
        return next((a for a in around if a is not None and a.loops), None)


def _free(lane: list[Arrow], arrow: Arrow) -> bool:
    index = bisect_right(lane, arrow.first, key=lambda a: a.first)
    previous = lane[index - 1] if index else None
    following = lane[index] if index < len(lane) else None
    return (previous is None or previous.last < arrow.first) and (
        following is None or arrow.last < following.first
    )


Jump = tuple[int, int, bool]
"""The line of a branch, that of its label, and whether nothing goes on from there."""


def arrows(listing: Listing) -> Iterator[Arrow]:
    """The branches of PTX, SASS, LLVM IR or MLIR whose labels are in the same listing, and
    MLIR's loops and choices; nothing of other languages."""
    jumps: Iterable[Jump] = ()
    if listing.language in ("ptx", "sass"):
        jumps = _machine(listing)
    elif listing.language == "llvm":
        functions: list[Row] = []
        for line in listing.lines:
            scope = line.n if line.base == "define" or not functions else functions[-1][0]
            functions.append((scope, line, line.targets if line.base != "call" else ()))
        jumps = _between_blocks(functions, listing.lines)
    elif listing.language in ("ttir", "ttgir"):
        regions: list[Arrow] = []
        rows = list(_mlir(listing.lines, regions))
        yield from regions
        jumps = _between_blocks(rows, listing.lines)
    ends = by_key(((target, source >= target, away), source) for source, target, away in jumps)
    for (target, _, away), sources in ends.items():
        origins = tuple(sorted({*sources}))
        yield Arrow(min(target, origins[0]), max(target, origins[-1]), target, origins, away)


def _machine(listing: Listing) -> Iterator[Jump]:
    labelled = [(line.label, line) for line in listing.lines if line.label is not None]
    labels = by_key((label, line.n) for label, line in labelled)
    tables = {label: x.targets for label, x in labelled if x.kind is Kind.LABEL and x.targets}
    branching = BRANCHES - CALLS
    for line in listing.lines:
        if line.opcode is None or (listing.language == "sass" and line.base not in branching):
            continue
        for entry in line.targets:
            for name in tables.get(entry, (entry,)):
                target = _nearest(labels.get(name, ()), line.n, listing.functions)
                if target is not None:
                    yield line.n, target, False


def _nearest(places: Sequence[int], n: int, functions: Sequence[Function]) -> int | None:
    """Of lines that define a label, the one in the function of line ``n``; labels are its own."""
    index = bisect_right(functions, n, key=lambda function: function.first) - 1
    if len(places) > 1 and index >= 0:
        inside = bisect_left(places, functions[index].first)
        if inside < len(places) and places[inside] <= functions[index].last:
            return places[inside]
    return places[0] if places else None


Row = tuple[int, Line, Sequence[str]]
"""A line with the labels that it branches to, and its scope, where labels are known: the line that
begins the function, or the region of MLIR."""


def _between_blocks(rows: Iterable[Row], lines: Sequence[Line]) -> Iterator[Jump]:
    """The branches but for those to what follows anyway."""
    labels: dict[tuple[int, str], int] = {}
    branches: list[tuple[int, int, str]] = []
    for scope, line, names in rows:
        if line.kind is Kind.LABEL and line.label is not None:
            labels[scope, line.label] = line.n
        branches += [(line.n, scope, name) for name in names]
    quiet = (Kind.BLANK, Kind.COMMENT)
    starts = [0, *sorted(labels.values())]
    going_on = {starts[bisect_right(starts, n) - 1] for n, _, _ in branches}
    for n, scope, name in branches:
        target = labels.get((scope, name))
        if target is None:
            continue
        backwards = target <= n
        if backwards or any(line.kind not in quiet for line in lines[n : target - 1]):
            yield n, target, backwards and target not in going_on


class _OpenRegion(NamedTuple):
    """An operation of MLIR whose last region is open: its name, the line that opened it and those
    that opened its further regions, and the lines that leave it."""

    operation: str
    opened: list[int]
    exits: list[int]


def _mlir(lines: Iterable[Line], regions: list[Arrow]) -> Iterator[Row]:
    """The lines of MLIR; ``regions`` are given what is run again or left out."""
    stack: list[_OpenRegion] = []
    for line in lines:
        text = line.text.strip()
        if line.kind is Kind.COMMENT or not text:
            continue
        if text[0] == "}" and stack:
            if text[-1] == "{":
                stack[-1].opened.append(line.n)
            else:
                regions += _closed(line.n, *stack.pop())
        if text[0] == "}":
            continue
        region = stack[-1].opened[-1] if stack else 0
        yield region, line, [name for name in line.targets if name[:1] == "^"]
        if text[-1] == "{":
            operation = _MLIR_REGION.match(text)
            stack.append(_OpenRegion(operation[1] if operation else "", [line.n], []))
        elif stack and line.base == "scf.condition":
            stack[-1].exits.append(line.n)


def _closed(n: int, operation: str, opened: list[int], exits: list[int]) -> Iterator[Arrow]:
    """The arrows of an operation whose last region ends on line ``n``."""
    if operation in _MLIR_LOOPS:
        yield Arrow(opened[0], n, opened[0], (n,))
        yield from (Arrow(exit_line, n, n, (exit_line,)) for exit_line in exits)
    elif operation in _MLIR_CHOICES:
        # From a condition that does not hold to what else is done, and past that where it does.
        yield from (Arrow(a, b, b, (a,)) for a, b in pairwise([*opened, n]))
