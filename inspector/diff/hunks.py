"""Hunks: stretches of lines of both listings, and what became of the one in the other."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import NamedTuple

from msgspec import Struct

from inspector.diff.canonical import Forms
from inspector.diff.matching import Blocks, refine


class Op(StrEnum):
    EQUAL = "equal"
    MOVED = "moved"
    REPLACE = "replace"
    DELETE = "delete"
    INSERT = "insert"


class Hunk(Struct, frozen=True):
    """Lines ``a[0]`` to ``a[1]`` (not counted in), from 1, and those of ``b``.

    Every line compared is in one hunk on its side. Hunks are in the order of ``a``; those of ``b``
    are in order too, but for ``moved``, and for functions in another order. Lines of an ``equal``
    hunk match one by one; surplus comments and blanks are a hunk of their own. ``quiet``: nothing
    but locations and debugging information, comments and blanks.
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
    blocks: Blocks, moved: dict[int, int], a_keys: Sequence[int], b_keys: Sequence[int]
) -> Iterator[tuple[tuple[int, int, int], list[Change]]]:
    """Each stretch of equal forms, after what changed before it. The last may be empty.

    Within a change, lines of the same kind are paired.
    """
    # forms that moved get keys that match nothing
    left, right = list(a_keys), list(b_keys)
    for i, j in moved.items():
        left[i], right[j] = _GONE, _COME
    x = y = 0
    for i, j, size in [*blocks, (len(left), len(right), 0)]:
        yield (i, j, size), list(_gap(x, y, left[x:i], right[y:j]))
        x, y = i + size, j + size


_GONE, _COME = -1, -2
_MANY = 4


def _gap(x: int, y: int, left: list[int], right: list[int]) -> Iterator[Change]:
    """The changes of a gap that begins at ``x`` and ``y``, by its keys."""
    i = j = 0
    for i1, j1, size in [*refine([], left, right), (len(left), len(right), 0)]:
        gone, come = left[i:i1], right[j:j1]
        if gone and come and _GONE not in gone and _COME not in come:
            yield from _replaced(x + i, x + i1, y + j, y + j1)
        else:
            for k, key in enumerate(gone, x + i):
                yield Change(Op.MOVED if key == _GONE else Op.DELETE, k, k + 1, y + j, y + j)
            for k, key in enumerate(come, y + j):
                yield Change(Op.MOVED if key == _COME else Op.INSERT, x + i1, x + i1, k, k + 1)
        i, j = i1 + size, j1 + size
        yield from _replaced(x + i1, x + i, y + j1, y + j)


def _replaced(x: int, x1: int, y: int, y1: int) -> Iterator[Change]:
    if x1 - x == y1 - y:
        yield from (Change(Op.REPLACE, x + k, x + k + 1, y + k, y + k + 1) for k in range(x1 - x))
    else:
        yield Change(Op.REPLACE, x, x1, y, y1)


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
            for change in changed:
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
            self._add(Op.EQUAL, x + 1, y + 1)

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
        if hunk.op is Op.MOVED:
            for x, y in _beside(hunk):
                if x is not None:
                    yield LinePair(Op.MOVED, x, None, y)
            continue
        yield from _arrived(arriving, hunk.b[0])
        yield from (LinePair(hunk.op, x, y) for x, y in _beside(hunk))
        yield from _arrived(arriving, hunk.b[1])


def _beside(hunk: Hunk) -> Iterator[tuple[int | None, int | None]]:
    return zip_longest(range(*hunk.a), range(*hunk.b))


def _arrived(arriving: dict[int, Hunk], line: int) -> Iterator[LinePair]:
    while (hunk := arriving.pop(line, None)) is not None:
        for x, y in _beside(hunk):
            if y is not None:
                yield LinePair(Op.MOVED, None, y, x)
        line = hunk.b[1]
