"""Lines of two functions that say the same, in the same order, under one renaming.

First lines are aligned by what they do: their key with that of the lines their operands come from,
however far back, then one step back, then the key alone. What most of those pairs say of the names
is taken as the renaming; under it a line's identity is its key and its names, and lines are aligned
again by that. So a swapped operand is a change, although the line still does the same kind of
thing, and one more instruction in a row of the same kind is found where it was put.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inspector.diff.align import Blocks, align, joined, refine
from inspector.diff.canonical import class_of
from inspector.diff.forms import Forms
from inspector.listing.line import Line, Listing

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
    return _bijection(a, b, votes, fixed)


def _bijection(
    a: Forms, b: Forms, votes: Counter[tuple[str, str]], fixed: dict[str, str]
) -> dict[str, str]:
    out = dict(fixed)
    taken = set(fixed.values())
    classes: tuple[dict[str, str], dict[str, str]] = ({}, {})
    by_count: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
    for pair, count in votes.items():
        by_count[count].append(pair)
    for count in sorted(by_count, reverse=True):
        agreeing = []
        for x, y in by_count[count]:
            if x in out or y in taken:
                continue
            our_class = classes[0].get(x) or classes[0].setdefault(x, class_of(a, x))
            their_class = classes[1].get(y) or classes[1].setdefault(y, class_of(b, y))
            if our_class == their_class:
                agreeing.append((x, y))
        for x, y in agreeing:
            if x == y:
                out[x] = y
                taken.add(y)
        left, right = Counter(x for x, _ in agreeing), Counter(y for _, y in agreeing)
        for x, y in agreeing:
            if left[x] == right[y] == 1 and x not in out and y not in taken:
                out[x] = y
                taken.add(y)
    return out


@dataclass(frozen=True, slots=True)
class MatchSide:
    """One side: its forms and their lines."""

    forms: Forms
    lines: Sequence[Line]

    @staticmethod
    def of(listing: Listing, forms: Forms) -> MatchSide:
        """Return the side of forms that were read from ``listing``."""
        return MatchSide(forms, [listing.lines[form.n - 1] for form in forms.forms])


@dataclass(frozen=True, slots=True)
class Match:
    """``blocks``: forms that are equal, by their places. ``a`` and ``b``: an integer for each
    form, equal where the forms are under the renaming; ``a_keys``, ``b_keys``: where the keys are.
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
    matched = sum(size for _, _, size in blocks)
    if matched < len(a_keys) and matched < len(b_keys):
        blocks = refine(blocks, _traced(a, a_keys, False), _traced(b, b_keys, False))
        blocks = refine(blocks, a_keys, b_keys)
    settled = _settle(a, b, a_keys, b_keys, blocks, aliases)
    return settled if _complete(settled) else _as_written(a.forms, b.forms, settled)


def _as_written(a: Forms, b: Forms, match: Match) -> Match:
    """``match``, or one that keeps every name as written if that makes more lines equal.

    Otherwise, if two registers are swapped in one line, the line that defines one of them would
    seem to be the changed one.

    Not for aliases, whose names alone say nothing.
    """
    alike = sum(name == counterpart for name, counterpart in match.names.items())
    if a.aliases or b.aliases or 2 * alike < len(match.names):
        return match
    numbers: dict[object, int] = {}
    ours, theirs = [
        [
            numbers.setdefault((key, form.names), len(numbers))
            for key, form in zip(keys, forms.forms, strict=True)
        ]
        for keys, forms in ((match.a_keys, a), (match.b_keys, b))
    ]
    equal = sum(size for _, _, size in match.blocks)
    if (Counter(ours) & Counter(theirs)).total() <= equal:
        return match
    blocks = align(ours, theirs)
    if sum(size for _, _, size in blocks) <= equal:
        return match
    written = {name for form in b.forms for name in form.names}
    names = {n: n for form in a.forms for n in form.names if n in written}
    return Match(blocks, ours, theirs, match.a_keys, match.b_keys, names)


def _settle(
    a: MatchSide, b: MatchSide, a_keys: list[int], b_keys: list[int], blocks: Blocks, aliases: bool
) -> Match:
    """Derive the renaming from the alignment, then the alignment from the renaming."""
    fixed, barred = _fixed(a.forms, b.forms, aliases)
    pairs = [(i + k, j + k) for i, j, size in blocks for k in range(size)]
    names = renaming(a.forms, b.forms, pairs, fixed)
    names = {name: other for name, other in names.items() if name not in barred}
    left, right = _codes(names, a.forms, b.forms)
    numbers: dict[object, int] = {}
    a_ids = _identities(a.forms, a_keys, left, numbers, "a")
    b_ids = _identities(b.forms, b_keys, right, numbers, "b")
    agreeing = joined((i, j, 1) for i, j in pairs if a_ids[i] == b_ids[j])
    return Match(refine(agreeing, a_ids, b_ids), a_ids, b_ids, a_keys, b_keys, names)


def _complete(match: Match) -> bool:
    return len(match.a) == len(match.b) == sum(size for _, _, size in match.blocks)


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


def _fixed(a: Forms, b: Forms, aliases: bool) -> tuple[dict[str, str], set[str]]:
    """Aliases of ``a`` with those of ``b`` that mean the same, and those that may have no pair."""
    fixed: dict[str, str] = {}
    if not a.aliases and not b.aliases:
        return fixed, set()
    by_meaning: dict[str, str] = {}
    for name, meaning in b.aliases.items():
        by_meaning.setdefault(name[0] + meaning, name)
    for name, meaning in a.aliases.items():
        counterpart = by_meaning.pop(name[0] + meaning, None)
        if counterpart is not None:
            fixed[name] = counterpart
    return fixed, set() if aliases else a.aliases.keys() - fixed.keys()


Codes = dict[str, object]


def _codes(names: Renaming, a: Forms, b: Forms) -> tuple[Codes, Codes]:
    """Return a code for each name on both sides: a number, or an alias's meaning."""
    left: Codes = dict(a.aliases)
    right: Codes = dict(b.aliases)
    for number, (x, y) in enumerate(names.items(), 1):
        # Two aliases of one meaning are one.
        same = x in a.aliases and a.aliases[x] == b.aliases.get(y)
        left[x] = right[y] = a.aliases[x] if same else number
    return left, right


def _identities(
    forms: Forms, keys: Sequence[int], codes: Codes, numbers: dict[object, int], side: str
) -> list[int]:
    """Return an integer for each form: its key and the codes of its names."""
    out: list[int] = []
    for key, form in zip(keys, forms.forms, strict=True):
        identity = key
        if form.names:
            meaning = tuple([codes.get(name) or side + name for name in form.names])
            identity = -numbers.setdefault((key, meaning), len(numbers)) - 2
        out.append(identity)
    return out
