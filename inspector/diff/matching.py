"""Lines of two functions that are equal under one renaming, in the same order or moved.

Lines are first aligned by their key with the keys of the lines that define their operands, however
far back, then one step back, then by the key alone. Most of those pairs give the renaming; under it
a line's identity is its key and its names, and lines are aligned again by that. So a swapped
operand is a change, and one more instruction in a row of the same kind is found where it was put.

A line has moved where it is equal under the renaming and depends on nothing that it passed, nor the
other way round. A load may pass a load. A store, an atomic, a barrier or a fence passes nothing
that touches memory or waits, and nothing passes a label or a branch. Any two addresses may be one.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, islice, takewhile

from msgspec import Struct
from rapidfuzz.distance import LCSseq

from inspector.diff.canonical import Forms, class_of
from inspector.listing.line import Kind, Line, Listing

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
            x0, y0 = a0, b0
            for x, y in common:
                todo.append((x0, x, y0, y, False))
                yield x, y, 1
                x0, y0 = x + 1, y + 1
            todo.append((x0, a1, y0, b1, False))
        elif large:  # no anchor: cut in two
            x, y = (a0 + a1) // 2, (b0 + b1) // 2
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
    where = {b[j]: j for j in range(b0, b1) if other_count[b[j]] == 1 and count.get(b[j]) == 1}
    pairs = [(i, where[a[i]]) for i in range(a0, a1) if a[i] in where]
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
        x, y = i + size, j + size


def joined(blocks: Iterable[tuple[int, int, int]]) -> Blocks:
    out: Blocks = []
    for i, j, size in sorted(block for block in blocks if block[2]):
        if out and out[-1][0] + out[-1][2] == i and out[-1][1] + out[-1][2] == j:
            out[-1] = (out[-1][0], out[-1][1], out[-1][2] + size)
        else:
            out.append((i, j, size))
    return out


def refine(blocks: Blocks, a: Sequence[int], b: Sequence[int]) -> Blocks:
    more = [block for gap in gaps(blocks, len(a), len(b)) for block in _aligned(a, b, gap, True)]
    return joined([*blocks, *more])


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
    out = dict(fixed)
    taken = set(fixed.values())
    for _, alike in groupby(votes.most_common(), key=lambda vote: vote[1]):
        free = [(x, y) for (x, y), _ in alike if x not in out and y not in taken]
        agreeing = [(x, y) for x, y in free if class_of(a, x) == class_of(b, y)]
        left, right = Counter(x for x, _ in agreeing), Counter(y for _, y in agreeing)
        unique = [(x, y) for x, y in agreeing if left[x] == right[y] == 1]
        for x, y in (*((x, y) for x, y in agreeing if x == y), *unique):
            if x not in out and y not in taken:
                out[x] = y
                taken.add(y)
    return out


class MatchSide:
    def __init__(self, listing: Listing, forms: Forms) -> None:
        self.forms = forms
        self.lines = [listing.lines[form.n - 1] for form in forms.forms]


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


def match(a: MatchSide, b: MatchSide, aliases: bool = True) -> Match:
    """The forms of ``a`` and ``b`` that are equal, and the renaming under which they are.

    ``aliases``: a name whose meaning is written elsewhere may be renamed to one that means
    something else, as the difference is shown where they are defined.
    """
    keys: dict[object, int] = {}
    a_keys = [keys.setdefault(form.key, len(keys)) for form in a.forms.forms]
    b_keys = [keys.setdefault(form.key, len(keys)) for form in b.forms.forms]
    if not any(form.names for form in a.forms.forms):
        return Match(align(a_keys, b_keys), a_keys, b_keys, a_keys, b_keys, {})
    blocks = align(_traced(a, a_keys, True), _traced(b, b_keys, True))
    if _size(blocks) < min(len(a_keys), len(b_keys)):
        blocks = refine(blocks, _traced(a, a_keys, False), _traced(b, b_keys, False))
        blocks = refine(blocks, a_keys, b_keys)
    settled = _settle(a, b, a_keys, b_keys, blocks, aliases)
    complete = len(settled.a) == len(settled.b) == _size(settled.blocks)
    return settled if complete else _as_written(a.forms, b.forms, settled)


def _size(blocks: Blocks) -> int:
    return sum(size for _, _, size in blocks)


def _as_written(a: Forms, b: Forms, match: Match) -> Match:
    """``match``, or one that keeps every name as written if that makes more lines equal.

    Without it, where one line has two registers swapped, the line that defines one of them would
    be the changed one. Not for aliases, whose names alone say nothing.
    """
    alike = sum(name == counterpart for name, counterpart in match.names.items())
    if a.aliases or b.aliases or 2 * alike < len(match.names):
        return match
    numbers: dict[object, int] = {}
    ours, theirs = (
        [numbers.setdefault((form.key, form.names), len(numbers)) for form in forms.forms]
        for forms in (a, b)
    )
    blocks = align(ours, theirs)
    if _size(blocks) <= _size(match.blocks):
        return match
    written = {name for form in b.forms for name in form.names}
    names = {n: n for form in a.forms for n in form.names if n in written}
    return Match(blocks, ours, theirs, match.a_keys, match.b_keys, names)


def _settle(
    a: MatchSide, b: MatchSide, a_keys: list[int], b_keys: list[int], blocks: Blocks, aliases: bool
) -> Match:
    """Derive the renaming from the alignment, then the alignment from the renaming."""
    meanings, others = a.forms.aliases, b.forms.aliases
    by_meaning = {name[0] + meaning: name for name, meaning in reversed([*others.items()])}
    # of aliases of ``a``, each has at most one that means the same in ``b``
    fixed = {
        name: counterpart
        for name, meaning in meanings.items()
        if (counterpart := by_meaning.pop(name[0] + meaning, None)) is not None
    }
    barred = set() if aliases else meanings.keys() - fixed.keys()
    pairs = [(i + k, j + k) for i, j, size in blocks for k in range(size)]
    names = renaming(a.forms, b.forms, pairs, fixed)
    names = {name: other for name, other in names.items() if name not in barred}
    # a name's code is a number, an alias's its meaning: two aliases of one meaning are one
    left: Codes = dict(meanings)
    right: Codes = dict(others)
    for number, (x, y) in enumerate(names.items(), 1):
        same = x in meanings and meanings[x] == others.get(y)
        left[x] = right[y] = meanings[x] if same else number
    numbers: dict[object, int] = {}
    a_ids = _identities(a.forms, a_keys, left, numbers, "a")
    b_ids = _identities(b.forms, b_keys, right, numbers, "b")
    agreeing = joined((i, j, 1) for i, j in pairs if a_ids[i] == b_ids[j])
    return Match(refine(agreeing, a_ids, b_ids), a_ids, b_ids, a_keys, b_keys, names)


def _traced(side: MatchSide, keys: Sequence[int], deep: bool) -> list[int]:
    """Hash each form's key with the definitions of its operands, recursively if ``deep``."""
    out: list[int] = []
    last: dict[str, int] = {}
    for form, line, key in zip(side.forms.forms, side.lines, keys, strict=True):
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


def moved(a: MatchSide, match: Match) -> dict[int, int]:
    """The places of equal forms outside the blocks of ``match``: those that moved."""
    outside = list(gaps(match.blocks, len(match.a), len(match.b)))
    waiting: defaultdict[int, deque[int]] = defaultdict(deque)
    for _, _, j0, j1 in outside:
        for j in range(j0, j1):
            waiting[match.b[j]].append(j)
    candidates: dict[int, int] = {}
    for i0, i1, _, _ in outside:
        for i in range(i0, i1):
            queue = waiting.get(match.a[i])
            if queue and a.lines[i].kind is Kind.INSTRUCTION:
                candidates[i] = queue.popleft()
    return _independent(a, match.blocks, candidates) if candidates else {}


def _independent(a: MatchSide, blocks: Blocks, candidates: dict[int, int]) -> dict[int, int]:
    partner = [-1] * len(a.lines)
    for i, j, size in blocks:
        partner[i : i + size] = range(j, j + size)
    for i, j in candidates.items():
        partner[i] = j
    # up to a line, the last place in b of any; from it on, the first
    last = list(accumulate(partner, max))
    ends = (p if p >= 0 else _NOWHERE for p in reversed(partner))
    first = list(accumulate(ends, min))[::-1]
    effort = MAX_LINES_SEEN
    out: dict[int, int] = {}
    for i, j in candidates.items():
        behind = takewhile(lambda k, j=j: first[k] < j, range(i + 1, len(partner)))  # type: ignore[misc]
        before = takewhile(lambda k, j=j: last[k] > j, range(i - 1, -1, -1))  # type: ignore[misc]
        passed = [*islice(behind, MAX_PASSED), *islice(before, MAX_PASSED)]
        effort -= len(passed)
        if effort < 0:
            break
        crossed = (k for k in passed if partner[k] >= 0 and (k > i) == (partner[k] < j))
        if len(passed) < MAX_PASSED and all(_may_pass(a.lines[i], a.lines[k]) for k in crossed):
            out[i] = j
    return out


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
    base, opcode = line.base or "", line.opcode or ""
    if _CONSTANT.match(opcode):
        return ""
    if _READS.match(base):
        return "acts" if ".volatile" in opcode or ".STRONG" in opcode else "reads"
    return "acts" if base == "call" or _TOUCHES.match(base) else ""
