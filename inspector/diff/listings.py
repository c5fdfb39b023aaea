"""Two listings of one stage, compared function by function."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from msgspec import Struct, field

from inspector.diff.canonical import (
    Aliases,
    Forms,
    aliases_of,
    canonical,
    exact_forms,
    numbered,
    plain_name,
)
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
from inspector.parsers.line import Function, Listing

ENOUGH = 0.5
"""Of two functions' opcodes, the share that they must have in common to be paired by it."""

Pair = tuple[Function | None, Function | None]


def pair(a: Listing, b: Listing) -> tuple[Pair, ...]:
    """Every function of both once: pairs in the order of ``a``, then what only ``b`` has.

    By the name as it is, then by the name without digests, then by how alike their opcodes are,
    the most alike first. A single remaining function on each side is paired. A nested function is
    part of the outer one.
    """
    a_functions = apart(a.functions)
    b_functions = apart(b.functions)
    matches = partners(a_functions, b_functions, (lambda f: f.name, lambda f: plain_name(f.name)))
    used = set(matches.values())
    a_opcodes = {i: opcodes(a, f) for i, f in enumerate(a_functions) if i not in matches}
    b_opcodes = {j: opcodes(b, f) for j, f in enumerate(b_functions) if j not in used}
    matches |= _matches_by_likeness(a_opcodes, b_opcodes)
    pairs: list[Pair] = []
    for i, function in enumerate(a_functions):
        pairs.append((function, b_functions[matches[i]] if i in matches else None))
    unmatched = set(range(len(b_functions))) - set(matches.values())
    pairs += [(None, b_functions[j]) for j in sorted(unmatched)]
    return tuple(pairs)


def _matches_by_likeness(
    a_opcodes: Mapping[int, Counter[str]], b_opcodes: Mapping[int, Counter[str]]
) -> dict[int, int]:
    """Functions with enough opcodes in common, the most alike first, then those near by place."""
    alone = len(a_opcodes) == len(b_opcodes) == 1
    enough = 0 if alone else ENOUGH
    scored = []
    for i, a_counts in a_opcodes.items():
        for j, b_counts in b_opcodes.items():
            scored.append((likeness(a_counts, b_counts), -abs(i - j), i, j))
    matches: dict[int, int] = {}
    used: set[int] = set()
    for score, _, i, j in sorted(scored, reverse=True):
        if score >= enough and i not in matches and j not in used:
            matches[i] = j
            used.add(j)
    return matches


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
            x = pair.a
            y = pair.b
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
    only_functions = functions is not None
    if functions is None:
        whole_text = exact or a.language in _TEXTS or b.language in _TEXTS
        functions = () if whole_text else pair(a, b)
    comparison = _Comparison(a, b, exact, only_functions)
    pairs = [comparison.compare_functions(x, y) for x, y in functions]
    same = all(function_pair.identical for function_pair in pairs)
    if not only_functions:
        for a_span, b_span in _outside_spans(a, b, functions):
            if a_span[0] <= a_span[1] or b_span[0] <= b_span[1]:
                identical, _ = comparison.compare_spans(a_span, b_span)
                same = same and identical
    hunks = tuple(merged(_ordered(comparison.parts)))
    silent = (frozenset(comparison.silent[0]), frozenset(comparison.silent[1]))
    return ListingDiff(same, hunks, tuple(pairs), silent)


Span = tuple[int, int]
"""The first and last of some lines."""

NO_LINES: Span = (1, 0)


class _Comparison:
    """Collects the hunks of the compared parts of two listings, and their silent lines."""

    def __init__(self, a: Listing, b: Listing, exact: bool, only_functions: bool) -> None:
        self.a = a
        self.b = b
        self.exact = exact
        self.only_functions = only_functions
        self.parts: list[list[Hunk]] = []
        self.silent: tuple[set[int], set[int]] = (set(), set())
        self._a_aliases = {} if exact else aliases_of(a)
        self._b_aliases = {} if exact else aliases_of(b)

    def compare_functions(self, x: Function | None, y: Function | None) -> FunctionPair:
        if x is not None and y is not None:
            identical, names = self.compare_spans((x.first, x.last), (y.first, y.last), x, y)
            return FunctionPair(x, y, identical, names)
        if x is not None:
            self.parts.append([Hunk(Op.DELETE, (x.first, x.last + 1), (0, 0))])
        elif y is not None:
            self.parts.append([Hunk(Op.INSERT, (0, 0), (y.first, y.last + 1))])
        return FunctionPair(x, y, False)

    def compare_spans(
        self, x: Span, y: Span, f: Function | None = None, g: Function | None = None
    ) -> tuple[bool, Mapping[str, str]]:
        """Add the hunks of two spans; return if they are identical, and the names."""
        a_forms = self._forms(self.a, x, f, self._a_aliases)
        b_forms = self._forms(self.b, y, g, self._b_aliases)
        self.silent[0].update(_lines_without_form(a_forms))
        self.silent[1].update(_lines_without_form(b_forms))
        build = Builder(a_forms, b_forms, self.a.texts(*x), self.b.texts(*y))
        if len(a_forms.forms) == len(b_forms.forms) and numbered(a_forms) == numbered(b_forms):
            self.parts.append(build.build([((0, 0, len(a_forms.forms)), [])], {}))
            return True, _paired_names(a_forms, b_forms)
        a_lines = [self.a.lines[form.n - 1] for form in a_forms.forms]
        b_lines = [self.b.lines[form.n - 1] for form in b_forms.forms]
        aliases = not self.only_functions
        matching = match(a_forms, b_forms, (a_lines, b_lines), aliases=aliases)
        moves = moved(a_lines, matching) if f is not None and not self.exact else {}
        stretches = changes(matching.blocks, moves, matching.a_keys, matching.b_keys)
        hunks = build.build(stretches, moves)
        self.parts.append(hunks)
        # With the names of aliases alone in another order, nothing is left to show.
        silent = f is None and all(hunk.op is Op.EQUAL or hunk.quiet for hunk in hunks)
        return silent, matching.names

    def _forms(
        self, listing: Listing, span: Span, function: Function | None, aliases: Aliases
    ) -> Forms:
        if self.exact:
            return exact_forms(listing, span)
        return canonical(listing, function, span, aliases)


def _lines_without_form(forms: Forms) -> set[int]:
    return set(range(forms.first, forms.last + 1)) - {form.n for form in forms.forms}


def _paired_names(a: Forms, b: Forms) -> dict[str, str]:
    """Of ``a``'s names those of ``b``, whose forms are the same."""
    names: dict[str, str] = {}
    for a_form, b_form in zip(a.forms, b.forms, strict=True):
        names.update(zip(a_form.names, b_form.names, strict=True))
    return names


def _ordered(parts: list[list[Hunk]]) -> list[Hunk]:
    """The hunks of all parts in order of ``a``; parts of ``b`` alone after what precedes them."""
    in_a = [part for part in parts if _start_in_a(part)]
    only_in_b = [part for part in parts if part and not _start_in_a(part)]
    placed = sorted(in_a, key=_start_in_a)
    for part in sorted(only_in_b, key=lambda part: part[0].b[0]):
        _place_after_predecessor(placed, part)
    ordered: list[Hunk] = []
    a_line = b_line = 1
    for part in placed:
        for hunk in part:
            # An empty range is where the side has got to.
            a = (a_line, a_line) if _is_empty(hunk.a) else hunk.a
            b = (b_line, b_line) if _is_empty(hunk.b) else hunk.b
            ordered.append(Hunk(hunk.op, a, b, hunk.quiet))
            a_line = a[1]
            if hunk.op is not Op.MOVED:
                b_line = b[1]
    return ordered


def _is_empty(lines: tuple[int, int]) -> bool:
    return lines[0] >= lines[1]


def _start_in_a(part: Sequence[Hunk]) -> int:
    """The first line of ``a`` in a part; 0 for none."""
    return next((hunk.a[0] for hunk in part if not _is_empty(hunk.a)), 0)


def _end_in_b(part: Sequence[Hunk]) -> int:
    """The line of ``b`` after a part; 0 if it has none of ``b``."""
    return max((hunk.b[1] for hunk in part if not _is_empty(hunk.b)), default=0)


def _place_after_predecessor(placed: list[list[Hunk]], part: list[Hunk]) -> None:
    """Insert a part of ``b`` alone after the part that ends nearest above it, else in front."""
    index = 0
    nearest_end = 0
    for position, predecessor in enumerate(placed):
        end = _end_in_b(predecessor)
        if nearest_end < end <= part[0].b[0]:
            nearest_end = end
            index = position + 1
    placed.insert(index, part)


def _outside_spans(a: Listing, b: Listing, pairs: Sequence[Pair]) -> Iterator[tuple[Span, Span]]:
    """Yield lines outside of functions: before the first, between, after the last."""
    a_functions = sorted((x for x, _ in pairs if x), key=lambda f: f.first)
    b_functions = sorted((y for _, y in pairs if y), key=lambda f: f.first)
    a_outside = _outside(a_functions, len(a.lines))
    b_outside = _outside(b_functions, len(b.lines))
    if not a_functions or not b_functions:
        yield from zip_longest(a_outside, b_outside, fillvalue=NO_LINES)
        return
    yield a_outside[0], b_outside[0]
    a_spans = {f.first: span for f, span in zip(a_functions[1:], a_outside[1:], strict=False)}
    b_spans = {f.first: span for f, span in zip(b_functions[1:], b_outside[1:], strict=False)}
    for x, y in pairs:
        a_span = a_spans.get(x.first, NO_LINES) if x else NO_LINES
        b_span = b_spans.get(y.first, NO_LINES) if y else NO_LINES
        yield a_span, b_span
    yield a_outside[-1], b_outside[-1]


def _outside(functions: list[Function], total: int) -> list[Span]:
    starts = [1, *(f.last + 1 for f in functions)]
    ends = [*(f.first - 1 for f in functions), total]
    return list(zip(starts, ends, strict=True))
