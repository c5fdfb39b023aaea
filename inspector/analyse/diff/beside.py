"""Two listings side by side: what each row shows, and what is folded away."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from inspector.analyse.diff import hunks
from inspector.analyse.diff.hunks import Hunk, Op
from inspector.listing.line import Line

_WORD = re.compile(r"[\w$.]+|[^\s\w]")
_LARGEST = 1 << 12  # pairs of lines of one replaced stretch that are compared with one another


class Sign(StrEnum):
    """What one row shows."""

    EQUAL = "equal"
    CHANGED = "changed"
    """One line that became another."""
    UNLIKE = "unlike"
    """A line of each, which have nothing to do with one another."""
    DELETED = "deleted"
    INSERTED = "inserted"
    MOVED_AWAY = "moved away"
    MOVED_HERE = "moved here"
    FOLD = "fold"


@dataclass(frozen=True, slots=True)
class Row:
    """One row; line numbers from 1, None where a side has no line.

    ``other`` is where a moved line stands on the other side; ``count`` how many equal rows a fold
    stands for, ``a`` and ``b`` being the first of them that both sides have.
    """

    sign: Sign
    a: int | None = None
    b: int | None = None
    other: int | None = None
    count: int = 0


Lines = frozenset[int]
_NONE: tuple[Lines, Lines] = (frozenset(), frozenset())


def rows(
    held: Iterable[Hunk],
    lines: tuple[Sequence[Line], Sequence[Line]],
    silent: tuple[Lines, Lines] = _NONE,
) -> Iterator[Row]:
    """Every line of the hunks, each once, in the order of its side.

    ``silent`` are the lines of each side that say nothing of the code: locations, comments and
    blanks. They are shown as equal wherever they stand, beside each other or alone.
    """
    parted = [part for hunk in held for part in _parts(_loud(hunk), lines)]
    for op, a, b, partner in hunks.rows(parted):
        if op is Op.EQUAL:
            yield Row(Sign.EQUAL, a, b)
        elif op is Op.MOVED:
            yield Row(Sign.MOVED_HERE if a is None else Sign.MOVED_AWAY, a, b, partner)
        elif (a is None or a in silent[0]) and (b is None or b in silent[1]):
            if a is None or b is None or _related(lines[0][a - 1], lines[1][b - 1]):
                yield Row(Sign.EQUAL, a, b)
            else:
                yield Row(Sign.EQUAL, a, None)
                yield Row(Sign.EQUAL, None, b)
        elif a is None or a in silent[0]:
            if a is not None:
                yield Row(Sign.EQUAL, a, None)
            yield Row(Sign.INSERTED, None, b)
        elif b is None or b in silent[1]:
            yield Row(Sign.DELETED, a, None)
            if b is not None:
                yield Row(Sign.EQUAL, None, b)
        else:
            related = _related(lines[0][a - 1], lines[1][b - 1])
            yield Row(Sign.CHANGED if related else Sign.UNLIKE, a, b)


def loud(held: Iterable[Hunk]) -> list[Hunk]:
    """Hunks with those that say nothing of the code as equal ones, neighbours joined."""
    out: list[Hunk] = []
    for hunk in held:
        now = _loud(hunk)
        last = out[-1] if out else None
        if (
            last is not None
            and last.op is now.op is Op.EQUAL
            and last.a[1] == now.a[0]
            and last.b[1] == now.b[0]
        ):
            out[-1] = Hunk(Op.EQUAL, (last.a[0], now.a[1]), (last.b[0], now.b[1]))
        else:
            out.append(now)
    return out


def _loud(hunk: Hunk) -> Hunk:
    return replace(hunk, op=Op.EQUAL, quiet=False) if hunk.quiet else hunk


def _parts(hunk: Hunk, lines: tuple[Sequence[Line], Sequence[Line]]) -> Iterator[Hunk]:
    """A replaced stretch of unlike lengths in parts: lines that became one another, and the rest.

    The lines are paired in order so that they have the most in common in sum.
    """
    (x, x1), (y, y1) = hunk.a, hunk.b
    many = (x1 - x) * (y1 - y)
    if hunk.op is not Op.REPLACE or x1 - x == y1 - y or not 0 < many <= _LARGEST:
        yield hunk
        return
    left, right = lines[0][x - 1 : x1 - 1], lines[1][y - 1 : y1 - 1]
    scores = [[_likeness(one, other) for other in right] for one in left]
    best = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) - 1, -1, -1):
        for j in range(len(right) - 1, -1, -1):
            paired = best[i + 1][j + 1] + scores[i][j] if scores[i][j] else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], paired)
    i = j = i0 = j0 = 0
    while i < len(left) and j < len(right):
        if scores[i][j] and best[i][j] == best[i + 1][j + 1] + scores[i][j]:
            yield from _apart(x + i0, x + i, y + j0, y + j)
            yield Hunk(Op.REPLACE, (x + i, x + i + 1), (y + j, y + j + 1))
            i, j = i + 1, j + 1
            i0, j0 = i, j
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    yield from _apart(x + i0, x1, y + j0, y1)


def _apart(x: int, x1: int, y: int, y1: int) -> Iterator[Hunk]:
    """What is left on both sides between pairs."""
    if x < x1 or y < y1:
        op = Op.REPLACE if x < x1 and y < y1 else Op.DELETE if x < x1 else Op.INSERT
        yield Hunk(op, (x, x1), (y, y1))


def _likeness(x: Line, y: Line) -> float:
    """The share of their words that two lines have in common, 0 where that is less than half."""
    if not _related(x, y):
        return 0.0
    one, other = Counter(_WORD.findall(x.text)), Counter(_WORD.findall(y.text))
    share = 2 * (one & other).total() / max(one.total() + other.total(), 1)
    return share if share >= 0.5 else 0.0


def _related(x: Line, y: Line) -> bool:
    """Whether two lines do the same kind of thing."""
    if x.kind is not y.kind:
        return False
    if x.base is not None or y.base is not None:
        return x.base == y.base
    return not set(_WORD.findall(x.text)).isdisjoint(_WORD.findall(y.text))


def folded(held: Iterable[Row], context: int) -> Iterator[Row]:
    """Rows with stretches of equal ones folded but for ``context`` rows next to a change.

    A fold stands for two rows at least.
    """
    stretch: list[Row] = []
    begun = False
    for row in held:
        if row.sign is Sign.EQUAL:
            stretch.append(row)
            continue
        yield from _fold(stretch, context if begun else 0, context)
        stretch, begun = [], True
        yield row
    yield from _fold(stretch, context if begun else 0, 0)


def _fold(stretch: list[Row], before: int, after: int) -> Iterator[Row]:
    hidden = len(stretch) - before - after
    if hidden < 2:
        yield from stretch
        return
    yield from stretch[:before]
    middle = stretch[before : before + hidden]
    a = next((row.a for row in middle if row.a is not None), None)
    b = next((row.b for row in middle if row.b is not None), None)
    yield Row(Sign.FOLD, a, b, None, hidden)
    yield from stretch[len(stretch) - after :]
