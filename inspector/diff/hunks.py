"""Hunks: stretches of lines of both listings, and what became of the one in the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from inspector.diff.canonical import Forms
from inspector.diff.matching import Blocks, refine


class Op(StrEnum):
    EQUAL = "equal"
    MOVED = "moved"
    REPLACE = "replace"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines ``a[0]`` to ``a[1]`` (not counted in), from 1, and those of ``b``.

    Every line compared is in one hunk on its side. Hunks are in the order of ``a``; those of ``b``
    are in order too, but for ``moved``, and for functions in another order. Lines of
    an ``equal`` hunk match one by one, unless one side has more comments and
    blanks: those are a hunk of their own, of nothing else.
    ``quiet``: nothing in it but locations and debugging information, comments and blanks.
    """

    op: Op
    a: tuple[int, int]
    b: tuple[int, int]
    quiet: bool = False


class LinePair(NamedTuple):
    """A line beside another, numbers from 1; ``partner``: where a moved line stands instead."""

    op: Op
    a: int | None
    b: int | None
    partner: int | None = None


class Change(NamedTuple):
    """Forms ``a0`` to ``a1`` of ``a`` that became ``b0`` to ``b1`` of ``b``; ``to``: moved."""

    op: Op
    a0: int
    a1: int
    b0: int
    b1: int


def changes(
    blocks: Blocks,
    moved: Iterable[tuple[int, int]],
    a: Sequence[int],
    b: Sequence[int],
    a_keys: Sequence[int],
    b_keys: Sequence[int],
) -> Iterator[tuple[tuple[int, int, int], list[Change]]]:
    """Each stretch of equal forms, after what changed before it. The last may be empty.

    Within a change, lines of the same kind are paired.
    """
    destinations = dict(moved)
    origins = {j: i for i, j in destinations.items()}
    x = y = 0
    for block in [*blocks, (len(a), len(b), 0)]:
        i, j, size = block
        yield block, list(_gap(x, i, y, j, destinations, origins, a_keys, b_keys))
        x, y = i + size, j + size


def _gap(
    x0: int,
    x1: int,
    y0: int,
    y1: int,
    destinations: dict[int, int],
    origins: dict[int, int],
    a_keys: Sequence[int],
    b_keys: Sequence[int],
) -> Iterator[Change]:
    pairs: Blocks = []
    if x0 < x1 and y0 < y1:
        # forms that moved get keys that match nothing
        left = [-1 if i in destinations else a_keys[i] for i in range(x0, x1)]
        right = [-2 if j in origins else b_keys[j] for j in range(y0, y1)]
        pairs = refine([], left, right)
    x, y = x0, y0
    for i, j, size in [*pairs, (x1 - x0, y1 - y0, 0)]:
        yield from _between(x, x0 + i, y, y0 + j, destinations, origins)
        if size:
            yield Change(Op.REPLACE, x0 + i, x0 + i + size, y0 + j, y0 + j + size)
        x, y = x0 + i + size, y0 + j + size


def _between(
    x0: int, x1: int, y0: int, y1: int, destinations: dict[int, int], origins: dict[int, int]
) -> Iterator[Change]:
    """Forms without a counterpart of their kind."""
    plain = destinations.keys().isdisjoint(range(x0, x1)) and origins.keys().isdisjoint(
        range(y0, y1)
    )
    if plain and x0 < x1 and y0 < y1:
        yield Change(Op.REPLACE, x0, x1, y0, y1)
        return
    for i in range(x0, x1):
        yield Change(Op.MOVED if i in destinations else Op.DELETE, i, i + 1, y0, y0)
    for j in range(y0, y1):
        yield Change(Op.MOVED if j in origins else Op.INSERT, x1, x1, j, j + 1)


_MANY = 4


def _split(changed: list[Change]) -> Iterator[Change]:
    for change in changed:
        op, a0, a1, b0, b1 = change
        if op is Op.REPLACE and a1 - a0 == b1 - b0:
            yield from (Change(op, a0 + k, a0 + k + 1, b0 + k, b0 + k + 1) for k in range(a1 - a0))
        else:
            yield change


class Builder:
    """Hunks of lines from changes of forms: comments, blanks and locations go with what follows."""

    def __init__(self, a: Forms, b: Forms, a_texts: Sequence[str], b_texts: Sequence[str]) -> None:
        self.a, self.b = a, b
        self.a_texts, self.b_texts = a_texts, b_texts
        self.x, self.y = a.first, b.first  # the first lines that are in no hunk yet
        self.out: list[Hunk] = []
        self.gone: dict[int, tuple[int, int]] = {}  # lines of moved forms of ``b``

    def build(
        self, stretches: Iterable[tuple[tuple[int, int, int], list[Change]]], moved: dict[int, int]
    ) -> list[Hunk]:
        a, b = self.a.forms, self.b.forms
        places: list[tuple[int, int]] = []
        for (i, j, size), changed in stretches:
            if changed:
                i0 = next((c.a0 for c in changed if c.a0 < c.a1), i)
                j0 = next((c.b0 for c in changed if c.b0 < c.b1), j)
                x = a[i0].n if i0 < len(a) else self.a.last + 1
                self._common(x, b[j0].n if j0 < len(b) else self.b.last + 1)
            for change in _split(changed):
                if change.op is Op.REPLACE:
                    self._common(a[change.a0].n, b[change.b0].n, _MANY)
                x = a[change.a1 - 1].n + 1 if change.a0 < change.a1 else self.x
                y = b[change.b1 - 1].n + 1 if change.b0 < change.b1 else self.y
                if change.op is Op.MOVED:
                    if change.a0 < change.a1:
                        places.append((len(self.out), change.a0))
                        self.out.append(Hunk(Op.MOVED, (self.x, x), (0, 0)))
                    else:
                        self.gone[change.b0] = (self.y, y)
                    self.x, self.y = x, y
                else:
                    self._add(change.op, x, y)
            if size:
                self._equal(i, j, size)
        for index, form in places:
            self.out[index] = Hunk(Op.MOVED, self.out[index].a, self.gone[moved[form]])
        x, y = self.a.last + 1, self.b.last + 1
        self._lead(x, y)
        self._add(Op.EQUAL, x, y)
        return merged(self.out)

    def _add(self, op: Op, x: int, y: int, quiet: bool = False) -> None:
        if self.x < x or self.y < y:
            if op is Op.REPLACE and (self.x == x or self.y == y):
                op = Op.DELETE if self.x < x else Op.INSERT
            self.out.append(Hunk(op, (self.x, x), (self.y, y), quiet))
            self.x, self.y = x, y

    def _equal(self, i: int, j: int, size: int) -> None:
        a, b = self.a.forms, self.b.forms
        for k in range(size):
            x, y = a[i + k].n, b[j + k].n
            if x - self.x != y - self.y or (x > self.x and (self.a.quiet or self.b.quiet)):
                self._lead(x, y)
            self.x, self.y, before = x + 1, y + 1, (self.x, self.y)
            last = self.out[-1] if self.out else None
            if last and last.op is Op.EQUAL and (last.a[1], last.b[1]) == before and _even(last):
                self.out[-1] = Hunk(Op.EQUAL, (last.a[0], x + 1), (last.b[0], y + 1))
            else:
                self.out.append(Hunk(Op.EQUAL, (before[0], x + 1), (before[1], y + 1)))

    def _lead(self, x: int, y: int) -> None:
        """Add the lines before two equal ones: equal too, except surplus locations."""
        if x == self.x and y == self.y:
            return
        ours, theirs = self.a.quiet, self.b.quiet
        left = [n for n in range(self.x, x) if n in ours]
        right = [m for m in range(self.y, y) if m in theirs]
        if [ours[n] for n in left] == [theirs[m] for m in right]:
            for n, m in zip(left, right, strict=True):
                self._add(Op.EQUAL, n, m)
                self._add(Op.EQUAL, n + 1, m + 1)
            self._add(Op.EQUAL, x, y)
            return
        self._common(x, y)
        self._add(Op.REPLACE, x, y, True)

    def _alike(self, x: int, y: int) -> bool:
        """Whether two lines without content are the same."""
        our_quiet, their_quiet = self.a.quiet.get(x), self.b.quiet.get(y)
        if our_quiet is not None or their_quiet is not None:
            return our_quiet == their_quiet
        text = self.a_texts[x - self.a.first].strip()
        return text == self.b_texts[y - self.b.first].strip()

    def _common(self, x: int, y: int, least: int = 1) -> None:
        """Comments, locations and blanks that are the same on both sides are equal.

        ``least`` lines, as the locations of an MLIR text are; else two neighbours stay one change.
        """
        size = 0
        while self.x + size < x and self.y + size < y and self._alike(self.x + size, self.y + size):
            size += 1
        if size >= least:
            self._add(Op.EQUAL, self.x + size, self.y + size)


def merged(hunks: Iterable[Hunk]) -> list[Hunk]:
    """Neighbours of one kind as one; what stands on both sides only where line is beside line."""
    out: list[Hunk] = []
    for hunk in hunks:
        last = out[-1] if out else None
        if (
            last is not None
            and last.op is hunk.op
            and last.quiet == hunk.quiet
            and last.a[1] == hunk.a[0]
            and last.b[1] == hunk.b[0]
            and (hunk.op in (Op.DELETE, Op.INSERT) or (_even(last) and _even(hunk)))
        ):
            out[-1] = Hunk(hunk.op, (last.a[0], hunk.a[1]), (last.b[0], hunk.b[1]), hunk.quiet)
        else:
            out.append(hunk)
    return out


def _even(hunk: Hunk) -> bool:
    return hunk.a[1] - hunk.a[0] == hunk.b[1] - hunk.b[0]


def rows(hunks: Sequence[Hunk]) -> Iterator[LinePair]:
    """Lines side by side: each line of both sides once, in the order of its side.

    A moved line stands alone in both places. Linear in the lines.
    """
    arriving = {hunk.b[0]: hunk for hunk in hunks if hunk.op is Op.MOVED}
    for hunk in hunks:
        (x, x1), (y, y1) = hunk.a, hunk.b
        if hunk.op is Op.MOVED:
            yield from (LinePair(Op.MOVED, x + k, None, _partner(y + k, y1)) for k in range(x1 - x))
            continue
        yield from _arrived(arriving, y)
        while x < x1 or y < y1:
            left = x if x < x1 else None
            right = y if y < y1 else None
            yield LinePair(hunk.op, left, right)
            x += left is not None
            y += right is not None
        yield from _arrived(arriving, y)


def _arrived(arriving: dict[int, Hunk], line: int) -> Iterator[LinePair]:
    while (hunk := arriving.pop(line, None)) is not None:
        (x, x1), (y, line) = hunk.a, hunk.b
        yield from (LinePair(Op.MOVED, None, y + k, _partner(x + k, x1)) for k in range(line - y))


def _partner(n: int, end: int) -> int | None:
    return n if n < end else None
