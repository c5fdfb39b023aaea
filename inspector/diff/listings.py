"""Two listings of one stage, compared function by function."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from msgspec import Struct, field

from inspector.diff.canonical import aliases_of, canonical, exact_forms, numbered, plain_name
from inspector.diff.matching import (
    Builder,
    Hunk,
    Op,
    changes,
    match,
    merged,
    moved,
)
from inspector.diff.recordings import partners
from inspector.listing.line import Function, Listing

ENOUGH = 0.5
"""Of two functions' opcodes, the share that they must have in common to be paired by it."""

Pair = tuple[Function | None, Function | None]


def pair(a: Listing, b: Listing) -> tuple[Pair, ...]:
    """Every function of both once: pairs in the order of ``a``, then what only ``b`` has.

    By the name as it is, then by the name without digests, then by how alike their opcodes are,
    the most alike first. A single remaining function on each side is paired. A nested function is
    part of the outer one.
    """
    a_functions, b_functions = apart(a.functions), apart(b.functions)
    matches = partners(a_functions, b_functions, (lambda f: f.name, lambda f: plain_name(f.name)))
    used = set(matches.values())
    a_opcodes = {i: opcodes(a, f) for i, f in enumerate(a_functions) if i not in matches}
    b_opcodes = {j: opcodes(b, f) for j, f in enumerate(b_functions) if j not in used}
    enough = 0 if len(a_opcodes) == len(b_opcodes) == 1 else ENOUGH
    scored = [
        (likeness(x, y), -abs(i - j), i, j)
        for i, x in a_opcodes.items()
        for j, y in b_opcodes.items()
    ]
    for score, _, i, j in sorted(scored, reverse=True):
        if score >= enough and i not in matches and j not in used:
            matches[i] = j
            used.add(j)
    out: list[Pair] = [
        (f, b_functions[matches[i]] if i in matches else None) for i, f in enumerate(a_functions)
    ]
    return (*out, *((None, function) for j, function in enumerate(b_functions) if j not in used))


def apart(functions: Sequence[Function]) -> list[Function]:
    out: list[Function] = []
    for function in sorted(functions, key=lambda f: (f.first, -f.last)):
        if function.first > (out[-1].last if out else 0):
            out.append(function)
    return out


def opcodes(listing: Listing, function: Function) -> Counter[str]:
    lines = listing.lines[function.first - 1 : function.last]
    return Counter(line.opcode for line in lines if line.opcode is not None)


def likeness(a: Counter[str], b: Counter[str]) -> float:
    """The share of opcodes that two functions have in common, 0 to 1: 2·|a ∩ b| / (|a| + |b|)."""
    total = a.total() + b.total()
    return 2 * (a & b).total() / total if total else 1.0


_TEXTS = frozenset(("source", "output_code"))
"""Languages in which functions are not taken apart: a reader reads the file."""


class FunctionPair(Struct, frozen=True):
    """Two functions that were compared, None if one side has none.

    ``names``: of ``a``'s names those of ``b``, where lines that are equal or were replaced say so.
    """

    a: Function | None
    b: Function | None
    identical: bool
    names: Mapping[str, str] = field(default_factory=dict)


class ListingDiff(Struct, frozen=True):
    """What changed from ``a`` to ``b``.

    ``identical``: no hunk but equal and quiet ones. ``silent`` are the locations, comments and
    blanks of each side.
    """

    identical: bool
    hunks: tuple[Hunk, ...]
    functions: tuple[FunctionPair, ...]
    silent: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())

    def names_at(self, a: int, b: int) -> Mapping[str, str]:
        """Return the names of the functions of lines ``a`` and ``b``, for ``intra_line``."""
        for pair in self.functions:
            x, y = pair.a, pair.b
            if x and y and x.first <= a <= x.last and y.first <= b <= y.last:
                return pair.names
        return {}


def diff_listings(
    a: Listing, b: Listing, *, exact: bool = False, functions: tuple[Pair, ...] | None = None
) -> ListingDiff:
    """What changed from ``a`` to ``b``, two listings of one language.

    ``exact`` compares text. Functions are paired by name, then by likeness, or are the pairs given
    as ``functions``: then only their lines are compared. Never raises.
    """
    only = functions is not None
    if functions is None:
        functions = () if exact or a.language in _TEXTS or b.language in _TEXTS else pair(a, b)
    meanings = tuple({} if exact else aliases_of(listing) for listing in (a, b))
    parts: list[list[Hunk]] = []
    silent: tuple[set[int], set[int]] = (set(), set())

    def compare(
        x: tuple[int, int],
        y: tuple[int, int],
        f: Function | None = None,
        g: Function | None = None,
    ) -> tuple[bool, Mapping[str, str]]:
        """Add the hunks of two inclusive spans; return if they are identical, and the names."""
        a_forms, b_forms = (
            exact_forms(listing, span) if exact else canonical(listing, function, span, aliases)
            for listing, function, span, aliases in zip(
                (a, b), (f, g), (x, y), meanings, strict=True
            )
        )
        for forms, lines in zip((a_forms, b_forms), silent, strict=True):
            lines.update(set(range(forms.first, forms.last + 1)) - {form.n for form in forms.forms})
        build = Builder(a_forms, b_forms, a.texts(*x), b.texts(*y))
        if len(a_forms.forms) == len(b_forms.forms) and numbered(a_forms) == numbered(b_forms):
            parts.append(build.build([((0, 0, len(a_forms.forms)), [])], {}))
            both = zip(a_forms.forms, b_forms.forms, strict=True)
            return True, {n: m for x, y in both for n, m in zip(x.names, y.names, strict=True)}
        lines_of = (
            [a.lines[form.n - 1] for form in a_forms.forms],
            [b.lines[form.n - 1] for form in b_forms.forms],
        )
        matching = match(a_forms, b_forms, lines_of, aliases=not only)
        moves = moved(lines_of[0], matching) if f is not None and not exact else {}
        stretches = changes(matching.blocks, moves, matching.a_keys, matching.b_keys)
        parts.append(build.build(stretches, moves))
        # with the names of aliases alone in another order, nothing is left to show
        return f is None and all(h.op is Op.EQUAL or h.quiet for h in parts[-1]), matching.names

    pairs: list[FunctionPair] = []
    for x, y in functions:
        if x is not None and y is not None:
            pairs.append(FunctionPair(x, y, *compare((x.first, x.last), (y.first, y.last), x, y)))
            continue
        pairs.append(FunctionPair(x, y, False))
        if x is not None:
            parts.append([Hunk(Op.DELETE, (x.first, x.last + 1), (0, 0))])
        elif y is not None:
            parts.append([Hunk(Op.INSERT, (0, 0), (y.first, y.last + 1))])
    same = all(function_pair.identical for function_pair in pairs)
    for a_span, b_span in () if only else _rests(a, b, functions):
        if a_span[0] <= a_span[1] or b_span[0] <= b_span[1]:
            same &= compare(a_span, b_span)[0]
    quiet = frozenset(silent[0]), frozenset(silent[1])
    return ListingDiff(same, tuple(merged(_ordered(parts))), tuple(pairs), quiet)


def _ordered(parts: list[list[Hunk]]) -> list[Hunk]:
    """The hunks of all parts in order of ``a``; parts of ``b`` alone after what precedes them."""
    begins = [next((h.a[0] for h in part if h.a[0] < h.a[1]), 0) for part in parts]
    both = sorted(zip(begins, parts, strict=True), key=lambda item: item[0])
    placed = [part for begin, part in both if begin]
    alone = [part for begin, part in both if part and not begin]
    for part in sorted(alone, key=lambda part: part[0].b[0]):
        ends = [max((h.b[1] for h in p if h.b[0] < h.b[1]), default=0) for p in placed]
        preceding = [k for k, end in enumerate(ends) if 0 < end <= part[0].b[0]]
        placed.insert(max(preceding, key=lambda k: ends[k]) + 1 if preceding else 0, part)
    out: list[Hunk] = []
    x = y = 1
    for part in placed:
        for hunk in part:
            # an empty range stands where the side has got to
            a = hunk.a if hunk.a[0] < hunk.a[1] else (x, x)
            b = hunk.b if hunk.b[0] < hunk.b[1] else (y, y)
            out.append(Hunk(hunk.op, a, b, hunk.quiet))
            x = a[1]
            y = b[1] if hunk.op is not Op.MOVED else y
    return out


def _rests(
    a: Listing, b: Listing, pairs: Sequence[Pair]
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield lines outside of functions: before the first, between, after the last."""
    a_functions = sorted((x for x, _ in pairs if x), key=lambda f: f.first)
    b_functions = sorted((y for _, y in pairs if y), key=lambda f: f.first)
    left_outside, right_outside = (
        _outside(a_functions, len(a.lines)),
        _outside(b_functions, len(b.lines)),
    )
    if not a_functions or not b_functions:
        yield from zip_longest(left_outside, right_outside, fillvalue=(1, 0))
        return
    yield left_outside[0], right_outside[0]
    a_spans = {f.first: span for f, span in zip(a_functions[1:], left_outside[1:], strict=False)}
    b_spans = {f.first: span for f, span in zip(b_functions[1:], right_outside[1:], strict=False)}
    for x, y in pairs:
        yield a_spans.get(x.first if x else 0, (1, 0)), b_spans.get(y.first if y else 0, (1, 0))
    yield left_outside[-1], right_outside[-1]


def _outside(functions: list[Function], total: int) -> list[tuple[int, int]]:
    starts = [1, *(f.last + 1 for f in functions)]
    ends = [*(f.first - 1 for f in functions), total]
    return list(zip(starts, ends, strict=True))
