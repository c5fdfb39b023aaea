"""What a thread brings to the diff screen: two variants compared at one stage, laid out in rows."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from inspector.base.errors import PtxviewError
from inspector.base.model import Stage, Variant
from inspector.diff import compare
from inspector.diff.beside import BesideRow, PassChange, Sign
from inspector.diff.compare import Compared
from inspector.reader.reader import Reader
from inspector.tui.code.highlight import Highlighter, highlighter_for, width_of
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.threads import attempt

CONTEXT_ROWS = 3
"""Equal rows that stay in view before and after a change."""

MIN_FOLDED_ROWS = 2
"""Rows that a fold represents at least."""

SEARCH_RADIUS_LINES = 50
"""Lines around the cursor that are searched for a link with the other stage."""


class DiffPlace(NamedTuple):
    """Where the cursor is: a line of either side, or of both that are in one row."""

    stage: Stage
    a: int | None
    b: int | None


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """Two variants at a stage, None for the best that both have; ``at`` is the place to keep."""

    a: TreeSubject
    b: TreeSubject
    stage: Stage | None
    exact: bool = False
    at: DiffPlace | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows in order. ``stretches`` are those of equal rows that can be folded away, ``changes``
    those of rows that differ: first and last row (not counted in) from 0, ascending."""

    rows: tuple[BesideRow, ...]
    stretches: tuple[tuple[int, int], ...]
    changes: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, rows: Iterable[BesideRow]) -> Layout:
        """Find the stretches of rows."""
        every = tuple(rows)
        runs = list(_runs(every))
        folds = []
        for number, (first, last, equal) in enumerate(runs):
            if equal:
                begin = first + CONTEXT_ROWS * (number > 0)
                end = last - CONTEXT_ROWS * (number + 1 < len(runs))
                if end - begin >= MIN_FOLDED_ROWS:
                    folds.append((begin, end))
        return cls(every, tuple(folds), tuple((x, y) for x, y, equal in runs if not equal))

    def find(self, a: int | None, b: int | None) -> int | None:
        """The row of line ``a``, else that of ``b``; None if neither was compared."""
        found = (i for i, row in enumerate(self.rows) if a is not None and row.a == a)
        other = (i for i, row in enumerate(self.rows) if b is not None and row.b == b)
        return next(found, next(other, None))


@dataclass(frozen=True, slots=True)
class DiffOutcome:
    """The answer to a request: a comparison, how it is coloured and laid out, and where to look;
    or a notice. ``at`` is the place that was kept, None: the cursor goes to the first change."""

    request: DiffRequest
    comparison: Compared | PassChange | None = None
    sources: tuple[Highlighter, Highlighter] | None = None
    beside: Layout | None = None
    unified: Layout | None = None
    width: int = 0
    at: DiffPlace | None = None
    notice: Notice | None = None


def _runs(rows: tuple[BesideRow, ...]) -> Iterator[tuple[int, int, bool]]:
    """Yield (first, end, equal) of each run of equal or of different rows."""
    first = 0
    for equal, run in groupby(rows, lambda row: row.sign is Sign.EQUAL):
        end = first + len(tuple(run))
        yield first, end, equal
        first = end


def unified(rows: Iterable[BesideRow]) -> Iterator[BesideRow]:
    """One column of lines: a line that became another is above it, ``other`` names it; lines
    that have nothing to do with one another are in two blocks."""
    waiting: list[BesideRow] = []
    for row in rows:
        if row.sign is Sign.UNLIKE:
            yield BesideRow(Sign.DELETED, row.a)
            waiting.append(BesideRow(Sign.INSERTED, None, row.b))
            continue
        if row.sign is not Sign.DELETED:
            yield from waiting
            waiting = []
        if row.sign is Sign.CHANGED:
            yield BesideRow(Sign.CHANGED, row.a, None, row.b)
            yield BesideRow(Sign.CHANGED, None, row.b, row.a)
        else:
            yield row
    yield from waiting


def shared_stages(a: TreeSubject, b: TreeSubject) -> tuple[Stage, ...]:
    """The stages that both have, in the order of lowering."""
    return tuple(
        stage
        for stage in Stage
        if all(s.variant is not None and stage in s.variant.stages for s in (a, b))
    )


def load(reads: Reader, request: DiffRequest) -> DiffOutcome:
    """Compare what a request asks for; called in a thread."""
    a, b = request.a.variant, request.b.variant
    if a is None or b is None:
        raise PtxviewError("It takes two variants to compare.", "Mark them with d in the tree.")
    stage = compare.stage_of(a, b, request.stage)
    comparison = compare.compare((reads, reads), (a, b), stage, exact=request.exact)
    sources = (
        highlighter_for(comparison.listings[0], stage, a.stages[stage].origin_path),
        highlighter_for(comparison.listings[1], stage, b.stages[stage].origin_path),
    )
    beside = Layout.of(comparison.rows())
    one = Layout.of(unified(beside.rows))
    width = max(width_of(source.texts) for source in sources)
    at = attempt(lambda: landing(reads, request, (a, b), stage, beside))
    place = at if isinstance(at, DiffPlace) else None
    return DiffOutcome(request, comparison, sources, beside, one, width, place)


def landing(
    reads: Reader, request: DiffRequest, pair: tuple[Variant, Variant], stage: Stage, layout: Layout
) -> DiffPlace | None:
    """The place in ``stage`` that belongs to the one that is to be kept: of the line there, or the
    nearest to it that is linked, the first linked line that was compared."""
    place = request.at
    if place is None or place.stage is stage:
        return place
    for side, (variant, n) in enumerate(zip(pair, place[1:], strict=True)):
        if n is None:
            continue
        compared = {row.b if side else row.a for row in layout.rows}
        line = _nearest(reads.links(variant, place.stage, stage), n, compared)
        if line is not None:
            return DiffPlace(stage, None, line) if side else DiffPlace(stage, line, None)
    return None


def _nearest(
    links: Mapping[int, tuple[int, ...]], n: int, wanted: Container[int | None]
) -> int | None:
    """Of the line nearest to ``n`` that has one, the first linked line that is ``wanted``."""
    near = (line for line in links if abs(line - n) <= SEARCH_RADIUS_LINES)
    linked = (m for line in sorted(near, key=lambda m: abs(m - n)) for m in links[line])
    return next((m for m in linked if m in wanted), None)
