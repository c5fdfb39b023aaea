"""Lines of two functions that say the same, in the same order, under one renaming.

First lines are aligned by what they do: their key with that of the lines their operands come from,
however far back, then one step back, then the key alone. What most of those pairs say of the names
is taken as the renaming; under it a line's identity is its key and its names, and lines are aligned
again by that. So a swapped operand is a change, although the line still does the same kind of
thing, and one more instruction in a row of the same kind is found where it was put.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from inspector.analyse.diff.align import Blocks, align, refine
from inspector.analyse.diff.forms import Forms
from inspector.analyse.diff.naming import Names, Renaming, renaming
from inspector.analyse.diff.webs import webs
from inspector.listing.line import Function, Line, Listing

_SMALL = 4000
_ASTRAY = 8
"""A second round pays in small functions, and where a good part of the pairs did not hold."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: its forms, and the lines that they are of."""

    forms: Forms
    lines: Sequence[Line]
    entry: bool

    @staticmethod
    def of(listing: Listing, forms: Forms, function: Function | None) -> Side:
        """Of forms that were read from ``listing``."""
        every = listing.lines[forms.first - 1 : forms.last]
        lines = [every[form.n - forms.first] for form in forms.forms]
        return Side(forms, lines, function is None or function.entry)


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


def match(a: Side, b: Side, aliases: bool = True) -> Match:
    """The forms of ``a`` and ``b`` that are equal, and the renaming under which they are.

    ``aliases``: a name whose meaning is written elsewhere may be renamed to one that means
    something else, as the difference is shown where they are defined.
    """
    keys: dict[object, int] = {}
    a_keys = [keys.setdefault(form.key, len(keys)) for form in a.forms.forms]
    b_keys = [keys.setdefault(form.key, len(keys)) for form in b.forms.forms]
    if not any(form.names for form in a.forms.forms):
        return Match(align(a_keys, b_keys), a_keys, b_keys, a_keys, b_keys, {})
    blocks = align(_far(a, a_keys), _far(b, b_keys))
    matched = sum(size for _, _, size in blocks)
    if matched < len(a_keys) and matched < len(b_keys):
        blocks = refine(blocks, _near(a, a_keys), _near(b, b_keys))
        blocks = refine(blocks, a_keys, b_keys)
    found = _settle(a, b, a_keys, b_keys, blocks, aliases)
    return found if _complete(found) else _as_written(a.forms, b.forms, found)


def _as_written(a: Forms, b: Forms, found: Match) -> Match:
    """What was found, or the names as they are written where more lines are equal so: of a swap of
    two registers in one line, the line that defines one of them would else seem the changed one.

    Not where names stand for what is written elsewhere: there a name alone says nothing.
    """
    alike = sum(name == other for name, other in found.names.items())
    if a.aliases or b.aliases or 2 * alike < len(found.names):
        return found
    known: dict[object, int] = {}
    ours, theirs = [
        [
            known.setdefault((key, form.names), len(known))
            for key, form in zip(keys, forms.forms, strict=True)
        ]
        for keys, forms in ((found.a_keys, a), (found.b_keys, b))
    ]
    equal = sum(size for _, _, size in found.blocks)
    if (Counter(ours) & Counter(theirs)).total() <= equal:
        return found
    blocks = align(ours, theirs)
    if sum(size for _, _, size in blocks) <= equal:
        return found
    written = {name for form in b.forms for name in form.names}
    names = {n: n for form in a.forms for n in form.names if n in written}
    return Match(blocks, ours, theirs, found.a_keys, found.b_keys, names)


def _settle(
    a: Side, b: Side, a_keys: list[int], b_keys: list[int], blocks: Blocks, aliases: bool
) -> Match:
    """Renaming and alignment, each from the other.

    At first a register is one name. Where that leaves much, values within a block have names of
    their own; PTX and the others give each value one as it is.
    """
    known: dict[object, int] = {}
    fixed, barred = _fixed(a.forms, b.forms, aliases)
    first: Match | None = None
    a_webs: Names | None = None
    b_webs: Names | None = None
    while True:
        pairs = [(i + k, j + k) for i, j, size in blocks for k in range(size)]
        names = renaming(a.forms, b.forms, a_webs, b_webs, pairs, fixed)
        for name in barred:
            names.names.pop(name, None)
        codes = _codes(names, a.forms, b.forms)
        a_ids = _identities(a.forms, a_webs, a_keys, codes[0], known, "a")
        b_ids = _identities(b.forms, b_webs, b_keys, codes[1], known, "b")
        kept = _runs([(i, j) for i, j in pairs if a_ids[i] == b_ids[j]])
        equal = refine(kept, a_ids, b_ids)
        found = Match(equal, a_ids, b_ids, a_keys, b_keys, names.names)
        if first is not None:
            # the values are the same one by one, and yet the functions are not: registers decide
            return first if _complete(found) else found
        astray = len(pairs) - sum(size for _, _, size in kept)
        if not astray or len(pairs) > max(_SMALL, _ASTRAY * astray):
            return found
        first = found
        blocks = refine(equal, a_keys, b_keys)
        if a.forms.language == "sass":
            a_webs = webs(a.forms, a.lines, a.entry)
            b_webs = webs(b.forms, b.lines, b.entry)


def _complete(found: Match) -> bool:
    return len(found.a) == len(found.b) == sum(size for _, _, size in found.blocks)


def _far(side: Side, keys: Sequence[int]) -> list[int]:
    """An integer a form for what it does with operands that come from where, and so on.

    Hashes: whether the names agree is looked at later.
    """
    out: list[int] = []
    last: dict[str, int] = {}
    get = last.get
    for (_, _, names), line, key in zip(side.forms.forms, side.lines, keys, strict=True):
        if not names:
            out.append(key)
            continue
        defs = line.defs
        if defs:
            what = hash((key, *[get(n, -1) for n in names if n not in defs]))
            for place, name in enumerate(defs):
                last[name if "#" not in name else name.partition("#")[0]] = what + place
        else:
            what = hash((key, *[get(n, -1) for n in names]))
        out.append(what)
    return out


def _near(side: Side, keys: Sequence[int]) -> list[int]:
    """The same of the lines alone that a form's operands come from."""
    out: list[int] = []
    last: dict[str, int] = {}
    get = last.get
    for (_, _, names), line, key in zip(side.forms.forms, side.lines, keys, strict=True):
        if not names:
            out.append(key)
            continue
        defs = line.defs
        out.append(hash((key, *[get(n, -1) for n in names if n not in defs])))
        for name in defs:
            last[name if "#" not in name else name.partition("#")[0]] = key
    return out


def _fixed(a: Forms, b: Forms, aliases: bool) -> tuple[dict[str, str], set[str]]:
    """Aliases of one meaning, and those that have no counterpart and may not be given one."""
    fixed: dict[str, str] = {}
    if not a.aliases and not b.aliases:
        return fixed, set()
    meant: dict[str, str] = {}
    for name, meaning in b.aliases.items():
        meant.setdefault(name[0] + meaning, name)
    for name, meaning in a.aliases.items():
        other = meant.pop(name[0] + meaning, None)
        if other is not None:
            fixed[name] = other
    return fixed, set() if aliases else a.aliases.keys() - fixed.keys()


Codes = dict[str, object]


def _codes(found: Renaming, a: Forms, b: Forms) -> tuple[Codes, Codes]:
    """What stands for each name, and for each value local to a block, on both sides."""
    left: Codes = {}
    right: Codes = {}
    for number, (x, y) in enumerate(found.names.items(), 1):
        left[x] = right[y] = number
    for number, (x, y) in enumerate(found.values.items(), 1):
        left[x] = right[y] = -number
    for forms, codes in ((a, left), (b, right)):
        for name, meaning in forms.aliases.items():
            if name not in codes:
                codes[name] = meaning
    for x, y in found.names.items():  # two aliases of one meaning are one
        if x in a.aliases and a.aliases[x] == b.aliases.get(y):
            left[x] = right[y] = a.aliases[x]
    return left, right


def _identities(
    forms: Forms, local: Names | None, keys: Sequence[int], codes: Codes,
    known: dict[object, int], side: str,
) -> list[int]:  # fmt: skip
    """An integer for each form: its key, and what stands for its names."""
    out: list[int] = []
    get = codes.get
    intern = known.setdefault
    for i, (_, _, names) in enumerate(forms.forms):
        if not names:
            out.append(keys[i])
            continue
        if local is None or local[i] == names:
            what = tuple([get(n) or side + n for n in names])
        else:
            what = tuple(
                [
                    get(v) if v in codes else get(n, side + n)
                    for n, v in zip(names, local[i], strict=True)
                ]
            )
        out.append(-intern((keys[i], what), len(known)) - 2)
    return out


def _runs(pairs: list[tuple[int, int]]) -> Blocks:
    out: Blocks = []
    for i, j in pairs:
        if out and out[-1][0] + out[-1][2] == i and out[-1][1] + out[-1][2] == j:
            out[-1] = (out[-1][0], out[-1][1], out[-1][2] + 1)
        else:
            out.append((i, j, 1))
    return out
