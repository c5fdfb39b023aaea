"""Lines of two functions that are equal under one renaming, in the same order or moved.

Lines are first aligned by their key with the keys of the lines that define their operands, however
far back, then one step back, then by the key alone. Most of those pairs give the renaming; under it
a line's identity is its key and its names, and lines are aligned again by that. So a swapped
operand is a change, and one more instruction in a row of the same kind is found where it was put.

A line has moved where it is equal under the renaming and depends on nothing that it passed, nor the
other way round. A load may pass a load. A store, an atomic, a barrier or a fence passes nothing
that touches memory or waits, and nothing passes a label or a branch. Any two addresses may be one.

Hunks are stretches of lines of both listings, and what became of the one in the other.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import accumulate, groupby, zip_longest
from typing import NamedTuple

from msgspec import Struct
from rapidfuzz.distance import LCSseq

from inspector.diff.canonical import Aliases, Forms, class_of
from inspector.parsers.line import Kind, Line


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


LinePair = tuple[Op, int | None, int | None, int | None]
"""A line of a beside one of b, numbers from 1; of a moved line, where it stands instead."""


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
    a_rest = list(a_keys)
    b_rest = list(b_keys)
    for i, j in moved.items():
        a_rest[i] = _GONE
        b_rest[j] = _COME
    x = y = 0
    for i, j, size in [*blocks, (len(a_rest), len(b_rest), 0)]:
        yield (i, j, size), list(_gap(x, y, a_rest[x:i], b_rest[y:j]))
        x = i + size
        y = j + size


_GONE = -1
_COME = -2
_MANY = 4


def _gap(x: int, y: int, a_keys: list[int], b_keys: list[int]) -> Iterator[Change]:
    """The changes of a gap that begins at ``x`` and ``y``, by its keys."""
    i = j = 0
    for i1, j1, size in [*refine([], a_keys, b_keys), (len(a_keys), len(b_keys), 0)]:
        gone = a_keys[i:i1]
        come = b_keys[j:j1]
        if gone and come and _GONE not in gone and _COME not in come:
            yield from _replaced(x + i, x + i1, y + j, y + j1)
        else:
            for k, key in enumerate(gone, x + i):
                yield Change(Op.MOVED if key == _GONE else Op.DELETE, k, k + 1, y + j, y + j)
            for k, key in enumerate(come, y + j):
                yield Change(Op.MOVED if key == _COME else Op.INSERT, x + i1, x + i1, k, k + 1)
        i = i1 + size
        j = j1 + size
        yield from _replaced(x + i1, x + i, y + j1, y + j)


def _replaced(x: int, x1: int, y: int, y1: int) -> Iterator[Change]:
    if x1 - x == y1 - y:
        yield from (Change(Op.REPLACE, x + k, x + k + 1, y + k, y + k + 1) for k in range(x1 - x))
    else:
        yield Change(Op.REPLACE, x, x1, y, y1)


class Builder:
    """Hunks of lines from changes of forms: comments, blanks and locations go with what follows."""

    def __init__(self, a: Forms, b: Forms, a_texts: Sequence[str], b_texts: Sequence[str]) -> None:
        self.a = a
        self.b = b
        self.a_texts = a_texts
        self.b_texts = b_texts
        # the first lines that are in no hunk yet
        self.x = a.first
        self.y = b.first
        self.out: list[Hunk] = []
        self.gone: dict[int, tuple[int, int]] = {}  # lines of moved forms of ``b``

    def build(
        self, stretches: Iterable[tuple[tuple[int, int, int], list[Change]]], moved: dict[int, int]
    ) -> list[Hunk]:
        moved_hunks: dict[int, int] = {}  # forms of ``a`` by their hunks
        for (i, j, size), changed in stretches:
            if changed:
                self._up_to_changes(changed, i, j)
            for change in changed:
                if change.op is Op.MOVED and change.a0 < change.a1:
                    moved_hunks[len(self.out)] = change.a0
                self._change(change)
            if size:
                self._equal(i, j, size)
        for index, form in moved_hunks.items():
            self.out[index] = Hunk(Op.MOVED, self.out[index].a, self.gone[moved[form]])
        x = self.a.last + 1
        y = self.b.last + 1
        self._lead(x, y)
        self._add(Op.EQUAL, x, y)
        return merged(self.out)

    def _up_to_changes(self, changed: Sequence[Change], i: int, j: int) -> None:
        """Add what is common before the first changed form of either side."""
        a_forms = self.a.forms
        b_forms = self.b.forms
        a_first = next((change.a0 for change in changed if change.a0 < change.a1), i)
        b_first = next((change.b0 for change in changed if change.b0 < change.b1), j)
        x = a_forms[a_first].n if a_first < len(a_forms) else self.a.last + 1
        y = b_forms[b_first].n if b_first < len(b_forms) else self.b.last + 1
        self._common(x, y)

    def _change(self, change: Change) -> None:
        """Add the lines of changed forms; those that moved here are kept for the hunk that they
        came from."""
        a = self.a.forms
        b = self.b.forms
        if change.op is Op.REPLACE:
            self._common(a[change.a0].n, b[change.b0].n, _MANY)
        x = a[change.a1 - 1].n + 1 if change.a0 < change.a1 else self.x
        y = b[change.b1 - 1].n + 1 if change.b0 < change.b1 else self.y
        if change.op is not Op.MOVED:
            self._add(change.op, x, y)
            return
        if change.a0 < change.a1:
            self.out.append(Hunk(Op.MOVED, (self.x, x), (0, 0)))
        else:
            self.gone[change.b0] = (self.y, y)
        self.x = x
        self.y = y

    def _add(self, op: Op, x: int, y: int, quiet: bool = False) -> None:
        if self.x < x or self.y < y:
            if op is Op.REPLACE and (self.x == x or self.y == y):
                op = Op.DELETE if self.x < x else Op.INSERT
            self.out.append(Hunk(op, (self.x, x), (self.y, y), quiet))
            self.x = x
            self.y = y

    def _equal(self, i: int, j: int, size: int) -> None:
        a = self.a.forms
        b = self.b.forms
        for k in range(size):
            x = a[i + k].n
            y = b[j + k].n
            if x - self.x != y - self.y or (x > self.x and (self.a.quiet or self.b.quiet)):
                self._lead(x, y)
            self._add(Op.EQUAL, x + 1, y + 1)

    def _lead(self, x: int, y: int) -> None:
        """Add the lines before two equal ones: equal too, except surplus locations."""
        if x == self.x and y == self.y:
            return
        a_kinds = self.a.quiet
        b_kinds = self.b.quiet
        a_quiet = [n for n in range(self.x, x) if n in a_kinds]
        b_quiet = [m for m in range(self.y, y) if m in b_kinds]
        if [a_kinds[n] for n in a_quiet] == [b_kinds[m] for m in b_quiet]:
            for n, m in zip(a_quiet, b_quiet, strict=True):
                self._add(Op.EQUAL, n, m)
                self._add(Op.EQUAL, n + 1, m + 1)
            self._add(Op.EQUAL, x, y)
            return
        self._common(x, y)
        self._add(Op.REPLACE, x, y, True)

    def _same_text(self, x: int, y: int) -> bool:
        our_quiet = self.a.quiet.get(x)
        their_quiet = self.b.quiet.get(y)
        if our_quiet is not None or their_quiet is not None:
            return our_quiet == their_quiet
        text = self.a_texts[x - self.a.first].strip()
        return text == self.b_texts[y - self.b.first].strip()

    def _common(self, x: int, y: int, least: int = 1) -> None:
        """Comments, locations and blanks that are the same on both sides are equal.

        ``least`` lines, as the locations of an MLIR text are; else two neighbours stay one change.
        """
        size = 0
        while (
            self.x + size < x
            and self.y + size < y
            and self._same_text(self.x + size, self.y + size)
        ):
            size += 1
        if size >= least:
            self._add(Op.EQUAL, self.x + size, self.y + size)


def merged(hunks: Iterable[Hunk]) -> list[Hunk]:
    """Neighbours of one kind as one; what stands on both sides only where line is beside line."""
    merged_hunks: list[Hunk] = []
    for hunk in hunks:
        last = merged_hunks[-1] if merged_hunks else None
        if last is not None and _continues(last, hunk):
            a = (last.a[0], hunk.a[1])
            b = (last.b[0], hunk.b[1])
            merged_hunks[-1] = Hunk(hunk.op, a, b, hunk.quiet)
        else:
            merged_hunks.append(hunk)
    return merged_hunks


def _continues(hunk: Hunk, following: Hunk) -> bool:
    """Whether two hunks are one: of one kind, with nothing between them."""
    if hunk.op is not following.op or hunk.quiet != following.quiet:
        return False
    if hunk.a[1] != following.a[0] or hunk.b[1] != following.b[0]:
        return False
    return hunk.op in (Op.DELETE, Op.INSERT) or (_even(hunk) and _even(following))


def _even(hunk: Hunk) -> bool:
    return hunk.a[1] - hunk.a[0] == hunk.b[1] - hunk.b[0]


def rows(hunks: Sequence[Hunk]) -> Iterator[LinePair]:
    """Lines side by side: each line of both sides once, in the order of its side.

    A moved line stands alone in both places. Linear in the lines.
    """
    arriving = {hunk.b[0]: hunk for hunk in hunks if hunk.op is Op.MOVED}
    for hunk in hunks:
        if hunk.op is Op.MOVED:
            for x, y in _line_pairs(hunk):
                if x is not None:
                    yield Op.MOVED, x, None, y
            continue
        yield from _arrived(arriving, hunk.b[0])
        yield from ((hunk.op, x, y, None) for x, y in _line_pairs(hunk))
        yield from _arrived(arriving, hunk.b[1])


def _line_pairs(hunk: Hunk) -> Iterator[tuple[int | None, int | None]]:
    return zip_longest(range(*hunk.a), range(*hunk.b))


def _arrived(arriving: dict[int, Hunk], line: int) -> Iterator[LinePair]:
    while (hunk := arriving.pop(line, None)) is not None:
        for x, y in _line_pairs(hunk):
            if y is not None:
                yield Op.MOVED, None, y, x
        line = hunk.b[1]


MAX_PAIRS = 1 << 28
"""Pairs compared at once: 32 MiB of bits."""

Blocks = list[tuple[int, int, int]]
"""Stretches that match: where they begin in both, and their length. In order, none empty."""


def align(a: Sequence[int], b: Sequence[int], anchors: bool = True) -> Blocks:
    return joined(_aligned(a, b, (0, len(a), 0, len(b)), anchors))


def _aligned(
    a: Sequence[int], b: Sequence[int], span: tuple[int, int, int, int], anchors: bool
) -> Iterator[tuple[int, int, int]]:
    todo = [(*span, anchors)]
    while todo:
        a0, a1, b0, b1, anchored = todo.pop()
        while a0 < a1 and b0 < b1 and a[a0] == b[b0]:
            yield a0, b0, 1
            a0, b0 = a0 + 1, b0 + 1
        while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1]:
            a1, b1 = a1 - 1, b1 - 1
            yield a1, b1, 1
        if a0 >= a1 or b0 >= b1:
            continue
        large = (a1 - a0) * (b1 - b0) > MAX_PAIRS
        common = _anchors(a, b, a0, a1, b0, b1) if anchored or large else []
        if common:
            x0 = a0
            y0 = b0
            for x, y in common:
                todo.append((x0, x, y0, y, False))
                yield x, y, 1
                x0 = x + 1
                y0 = y + 1
            todo.append((x0, a1, y0, b1, False))
        elif large:  # no anchor: cut in two
            x = (a0 + a1) // 2
            y = (b0 + b1) // 2
            todo += [(a0, x, b0, y, False), (x, a1, y, b1, False)]
        else:
            for block in LCSseq.opcodes(a[a0:a1], b[b0:b1]).as_matching_blocks():
                yield a0 + block.a, b0 + block.b, block.size


def _anchors(
    a: Sequence[int], b: Sequence[int], a0: int, a1: int, b0: int, b1: int
) -> list[tuple[int, int]]:
    """Positions of elements that occur once in both, in the longest order common to both."""
    count = Counter(a[a0:a1])
    other_count = Counter(b[b0:b1])
    b_index = {b[j]: j for j in range(b0, b1) if other_count[b[j]] == 1 and count.get(b[j]) == 1}
    pairs = [(i, b_index[a[i]]) for i in range(a0, a1) if a[i] in b_index]
    # the longest increasing subsequence of the positions in b
    ends: list[int] = []
    last_of_length: list[int] = []
    predecessors: list[int] = []
    for i, (_, y) in enumerate(pairs):
        k = bisect_left(ends, y)
        predecessors.append(last_of_length[k - 1] if k else -1)
        if k == len(ends):
            ends.append(y)
            last_of_length.append(i)
        else:
            ends[k] = y
            last_of_length[k] = i
    out: list[tuple[int, int]] = []
    i = last_of_length[-1] if last_of_length else -1
    while i >= 0:
        out.append(pairs[i])
        i = predecessors[i]
    return out[::-1]


def gaps(blocks: Blocks, a: int, b: int) -> Iterator[tuple[int, int, int, int]]:
    x = y = 0
    for i, j, size in [*blocks, (a, b, 0)]:
        if x < i or y < j:
            yield x, i, y, j
        x = i + size
        y = j + size


def joined(blocks: Iterable[tuple[int, int, int]]) -> Blocks:
    out: Blocks = []
    for i, j, size in sorted(block for block in blocks if block[2]):
        if out and out[-1][0] + out[-1][2] == i and out[-1][1] + out[-1][2] == j:
            out[-1] = (out[-1][0], out[-1][1], out[-1][2] + size)
        else:
            out.append((i, j, size))
    return out


def refine(blocks: Blocks, a: Sequence[int], b: Sequence[int]) -> Blocks:
    refined = list(blocks)
    for gap in gaps(blocks, len(a), len(b)):
        refined += _aligned(a, b, gap, True)
    return joined(refined)


Renaming = dict[str, str]
"""Names of one function by those of the other, one to one."""


def renaming(a: Forms, b: Forms, pairs: Iterable[tuple[int, int]], fixed: Renaming) -> Renaming:
    """Return the names on which most ``pairs`` of matching forms agree.

    Names with as many votes for one name as for another are left out, unless one is spelled
    alike on both sides. ``fixed`` holds from the start.
    """
    votes: Counter[tuple[str, str]] = Counter()
    for i, j in pairs:
        votes.update(zip(a.forms[i].names, b.forms[j].names, strict=False))
    names = dict(fixed)
    used = set(fixed.values())
    for _, tied in groupby(votes.most_common(), key=lambda vote: vote[1]):
        agreeing = []
        for (x, y), _ in tied:
            if x not in names and y not in used and class_of(a, x) == class_of(b, y):
                agreeing.append((x, y))
        spelled_alike = [(x, y) for x, y in agreeing if x == y]
        for x, y in spelled_alike + _unique_pairs(agreeing):
            if x not in names and y not in used:
                names[x] = y
                used.add(y)
    return names


def _unique_pairs(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs neither of whose names is in another pair."""
    a_counts = Counter(x for x, _ in pairs)
    b_counts = Counter(y for _, y in pairs)
    return [(x, y) for x, y in pairs if a_counts[x] == b_counts[y] == 1]


class Match(Struct, frozen=True):
    """Equal forms by place (``blocks``), and an integer for each form of both: ``a`` and ``b`` are
    equal where the forms are under the renaming ``names``, ``a_keys`` and ``b_keys`` by the key.
    """

    blocks: Blocks
    a: Sequence[int]
    b: Sequence[int]
    a_keys: Sequence[int]
    b_keys: Sequence[int]
    names: dict[str, str]


def match(
    a: Forms, b: Forms, lines: tuple[Sequence[Line], Sequence[Line]], aliases: bool = True
) -> Match:
    """The forms of ``a`` and ``b`` that are equal, and the renaming under which they are.

    ``lines`` are those of the forms. ``aliases``: a name whose meaning is written elsewhere may be
    renamed to one that means something else, as the difference is shown where they are defined.
    """
    keys: dict[object, int] = {}
    a_keys = [keys.setdefault(form.key, len(keys)) for form in a.forms]
    b_keys = [keys.setdefault(form.key, len(keys)) for form in b.forms]
    if not any(form.names for form in a.forms):
        return Match(align(a_keys, b_keys), a_keys, b_keys, a_keys, b_keys, {})
    a_side = (a, lines[0], a_keys)
    b_side = (b, lines[1], b_keys)
    blocks = align(_traced(*a_side, True), _traced(*b_side, True))
    if _size(blocks) < min(len(a_keys), len(b_keys)):
        blocks = refine(blocks, _traced(*a_side, False), _traced(*b_side, False))
        blocks = refine(blocks, a_keys, b_keys)
    settled = _settle(a, b, a_keys, b_keys, blocks, aliases)
    complete = len(settled.a) == len(settled.b) == _size(settled.blocks)
    return settled if complete else _as_written(a, b, settled)


def _size(blocks: Blocks) -> int:
    return sum(size for _, _, size in blocks)


def _as_written(a: Forms, b: Forms, match: Match) -> Match:
    """``match``, or one that keeps every name as written if that makes more lines equal.

    Without it, where one line has two registers swapped, the line that defines one of them would
    be the changed one. Not for aliases, whose names alone say nothing.
    """
    same_count = sum(name == counterpart for name, counterpart in match.names.items())
    if a.aliases or b.aliases or 2 * same_count < len(match.names):
        return match
    numbers: dict[object, int] = {}
    a_numbers = _numbers_as_written(a, numbers)
    b_numbers = _numbers_as_written(b, numbers)
    blocks = align(a_numbers, b_numbers)
    if _size(blocks) <= _size(match.blocks):
        return match
    b_names = set(_names_of(b))
    names = {name: name for name in _names_of(a) if name in b_names}
    return Match(blocks, a_numbers, b_numbers, match.a_keys, match.b_keys, names)


def _numbers_as_written(forms: Forms, numbers: dict[object, int]) -> list[int]:
    """A number for each form, the same for forms with the same key and names."""
    return [numbers.setdefault((form.key, form.names), len(numbers)) for form in forms.forms]


def _names_of(forms: Forms) -> Iterator[str]:
    return (name for form in forms.forms for name in form.names)


def _settle(
    a: Forms, b: Forms, a_keys: list[int], b_keys: list[int], blocks: Blocks, aliases: bool
) -> Match:
    """Derive the renaming from the alignment, then the alignment from the renaming."""
    fixed = _same_meaning(a.aliases, b.aliases)
    pairs = [(i + k, j + k) for i, j, size in blocks for k in range(size)]
    names = renaming(a, b, pairs, fixed)
    if not aliases:
        barred = a.aliases.keys() - fixed.keys()
        names = {name: other for name, other in names.items() if name not in barred}
    # A name's code is a number, an alias's its meaning: two aliases of one meaning are one.
    a_codes: Codes = dict(a.aliases)
    b_codes: Codes = dict(b.aliases)
    for number, (x, y) in enumerate(names.items(), 1):
        same = x in a.aliases and a.aliases[x] == b.aliases.get(y)
        code = a.aliases[x] if same else number
        a_codes[x] = code
        b_codes[y] = code
    numbers: dict[object, int] = {}
    a_ids = _identities(a, a_keys, a_codes, numbers, "a")
    b_ids = _identities(b, b_keys, b_codes, numbers, "b")
    agreeing = joined((i, j, 1) for i, j in pairs if a_ids[i] == b_ids[j])
    return Match(refine(agreeing, a_ids, b_ids), a_ids, b_ids, a_keys, b_keys, names)


def _same_meaning(a: Aliases, b: Aliases) -> Renaming:
    """Aliases of ``a`` by those of ``b`` that mean the same, each at most once."""
    unused = {name[0] + meaning: name for name, meaning in reversed([*b.items()])}
    names = {}
    for name, meaning in a.items():
        counterpart = unused.pop(name[0] + meaning, None)
        if counterpart is not None:
            names[name] = counterpart
    return names


def _traced(forms: Forms, lines: Sequence[Line], keys: Sequence[int], deep: bool) -> list[int]:
    """Hash each form's key with the definitions of its operands, recursively if ``deep``."""
    out: list[int] = []
    last: dict[str, int] = {}
    for form, line, key in zip(forms.forms, lines, keys, strict=True):
        defs = line.defs
        operands = [last.get(name, -1) for name in form.names if name not in defs]
        identity = hash((key, *operands)) if form.names else key
        out.append(identity)
        for place, name in enumerate(defs):
            last[name.partition("#")[0]] = identity + place if deep else key
    return out


Codes = dict[str, object]


def _identities(
    forms: Forms, keys: Sequence[int], codes: Codes, numbers: dict[object, int], side: str
) -> list[int]:
    out: list[int] = []
    for key, form in zip(keys, forms.forms, strict=True):
        identity = key
        if form.names:
            meaning = tuple([codes.get(name) or side + name for name in form.names])
            identity = -numbers.setdefault((key, meaning), len(numbers)) - 2
        out.append(identity)
    return out


MAX_PASSED = 1024
"""Lines that a moved line may have passed; beyond, it counts as deleted and inserted."""

MAX_LINES_SEEN = 1 << 20
"""Lines looked at for all candidates together."""

_NOWHERE = 1 << 60

_CONTROL = re.compile(
    r"(?:bra|brx|call|ret|exit|trap|br|cond_br|switch|invoke|unreachable|\w+\.(?:return|yield|br|"
    r"cond_br|for|if|while|condition|reduce|func)|BRA|BRX|BRXU|JMP|JMX|CALL|RET|EXIT|BSSY|BSYNC|"
    r"WARPSYNC|BREAK|KILL|YIELD|define|scf\..*|module)\Z"
)
_READS = re.compile(r"(?:ld|ldu|ldmatrix|load|tt\.load|ttg\.local_load|LD|LDG|LDS|LDL|LDSM|LDT)\Z")
_CONSTANT = re.compile(r"(?:LDC|LDCU|ULDC|S2R|S2UR|CS2R)\Z|(?:ld|ldu)\.param\b|arith\.|math\.")
_TOUCHES = re.compile(
    r"st|ld|atom|red|bar|barrier|membar|fence|cp|mbarrier|wgmma|tcgen05|prefetch|discard|multimem|"
    r"stmatrix|tensormap|shfl|vote|match|activemask|elect|nanosleep|griddepcontrol|setmaxnreg|"
    r"su(?:ld|st|red)|store|load|cmpxchg|atomicrmw|tail|tt\.(?:load|store|atomic\w*|descriptor\w*|"
    r"print|assert|call|elementwise\w*|extern\w*)|ttg\..*|ttng\..*|gpu\..*|nvvm\..*|llvm\..*|"
    r"ST.*|LD.*|ATOM.*|RED.*|BAR|MEMBAR|DEPBAR|FENCE|UTMA.*|UBLK.*|HGMMA|IGMMA|QGMMA|WARPGROUP.*|"
    r"UTC.*|SYNCS|ARRIVES|CCTL.*|ERRBAR|SHFL|VOTE.*|MATCH|ELECT|NANOSLEEP|SUST|SURED|SULD|R2UR|"
    r"ACQBULK|PREEXIT|CGAERRBAR|UCGABAR.*|NOP"
)


def moved(lines: Sequence[Line], match: Match) -> dict[int, int]:
    """The places of equal forms outside the blocks of ``match``: those that moved. ``lines`` are
    those of the forms of ``a``."""
    outside = list(gaps(match.blocks, len(match.a), len(match.b)))
    waiting: dict[int, deque[int]] = {}
    for _, _, b_first, b_end in outside:
        for j in range(b_first, b_end):
            waiting.setdefault(match.b[j], deque()).append(j)
    candidates: dict[int, int] = {}
    for a_first, a_end, _, _ in outside:
        for i in range(a_first, a_end):
            queue = waiting.get(match.a[i])
            if queue and lines[i].kind is Kind.INSTRUCTION:
                candidates[i] = queue.popleft()
    return _independent(lines, match.blocks, candidates) if candidates else {}


def _independent(
    lines: Sequence[Line], blocks: Blocks, candidates: dict[int, int]
) -> dict[int, int]:
    """The candidates that depend on none of the lines that they passed."""
    partner = [-1] * len(lines)
    for i, j, size in blocks:
        partner[i : i + size] = range(j, j + size)
    for i, j in candidates.items():
        partner[i] = j
    # up to a line, the last place in b of any; from it on, the first
    last = list(accumulate(partner, max))
    ends = (p if p >= 0 else _NOWHERE for p in reversed(partner))
    first = list(accumulate(ends, min))[::-1]
    effort = MAX_LINES_SEEN
    independent: dict[int, int] = {}
    for i, j in candidates.items():
        passed = _passed(i, j, first, last)
        effort -= len(passed)
        if effort < 0:
            break
        crossed = (k for k in passed if partner[k] >= 0 and (k > i) == (partner[k] < j))
        if len(passed) < MAX_PASSED and all(_may_pass(lines[i], lines[k]) for k in crossed):
            independent[i] = j
    return independent


def _passed(i: int, j: int, first: Sequence[int], last: Sequence[int]) -> list[int]:
    """The lines around line ``i`` of ``a`` that it may have passed on its way to ``j``: those
    behind it up to the last that is above there, and those before it."""
    passed = []
    for k in range(i + 1, min(len(first), i + 1 + MAX_PASSED)):
        if first[k] >= j:
            break
        passed.append(k)
    for k in range(i - 1, max(-1, i - 1 - MAX_PASSED), -1):
        if last[k] <= j:
            break
        passed.append(k)
    return passed


def _may_pass(moving: Line, passed: Line) -> bool:
    if passed.kind is Kind.LABEL or moving.kind is Kind.LABEL:
        return False
    for line in (moving, passed):
        if line.opcode is not None and _CONTROL.match(line.base or ""):
            return False
        if line.kind is Kind.UNKNOWN or (line.kind is Kind.INSTRUCTION and line.opcode is None):
            return False
    touched = {*passed.uses, *passed.defs}
    if not touched.isdisjoint(moving.defs) or not set(passed.defs).isdisjoint(moving.uses):
        return False
    effects = {_touches(moving), _touches(passed)}
    return "" in effects or effects == {"reads"}


def _touches(line: Line) -> str:
    """``reads`` for a load, else ``acts`` where memory or other threads have a part in it."""
    base = line.base or ""
    opcode = line.opcode or ""
    if _CONSTANT.match(opcode):
        return ""
    if _READS.match(base):
        return "acts" if ".volatile" in opcode or ".STRONG" in opcode else "reads"
    return "acts" if base == "call" or _TOUCHES.match(base) else ""
