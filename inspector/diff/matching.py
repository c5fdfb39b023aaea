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

from inspector.diff.align import Blocks, align, refine
from inspector.diff.canonical import class_of
from inspector.diff.forms import Forms
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.text import words

# -- names of one function in the other -----------------------------------------------------------
# Which name of one function is which of another: a bijection, by what lines that match say.

Names = Sequence[tuple[str, ...]]

_FIRM = 1024
"""A place where a register's name counts, against one where its value has a name of its own."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """``names``: of ``a`` to ``b``, one to one. ``values``: so too values local to a block."""

    names: dict[str, str]
    values: dict[str, str]


def renaming(
    a: Forms, b: Forms, a_webs: Names | None, b_webs: Names | None,
    pairs: Iterable[tuple[int, int]], fixed: dict[str, str],
) -> Renaming:  # fmt: skip
    """What most of the ``pairs`` of matching forms agree on.

    Names on which as many pairs say one thing as another are left out, unless one of them is
    spelled alike on both sides: a line that names them then counts as changed. ``fixed`` holds
    from the start.
    """
    votes: Counter[tuple[str, str]] = Counter()
    values: dict[str, str] = {}
    a_forms, b_forms = a.forms, b.forms
    if a_webs is None or b_webs is None:
        for i, j in pairs:
            votes.update(zip(a_forms[i].names, b_forms[j].names, strict=False))
    else:
        both: Counter[tuple[tuple[str, str], tuple[str, str]]] = Counter()
        for i, j in pairs:
            both.update(
                zip(
                    zip(a_forms[i].names, b_forms[j].names, strict=False),
                    zip(a_webs[i], b_webs[j], strict=False),
                    strict=False,
                )
            )
        values = _alone(both)
        for (names, (x, y)), count in both.items():
            votes[names] += count if values.get(x) == y else count * _FIRM
    return Renaming(_bijection(a, b, votes, fixed), values)


def _alone(both: Counter[tuple[tuple[str, str], tuple[str, str]]]) -> dict[str, str]:
    """Values that are matched with one value only, wherever they stand, and more than once."""
    forward: defaultdict[str, set[str]] = defaultdict(set)
    backward: defaultdict[str, set[str]] = defaultdict(set)
    count: Counter[str] = Counter()
    for (_, (x, y)), times in both.items():
        forward[x].add(y)
        backward[y].add(x)
        count[x] += times
    return {
        x: y
        for x, ys in forward.items()
        if "~" in x and len(ys) == 1 and count[x] > 1
        for y in ys
        if "~" in y and len(backward[y]) == 1
    }


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


# -- values of one block --------------------------------------------------------------------------
# Values that live and die within one block of straight code, so that each can be renamed alone.
#
# ``ptxas`` gives one register to many values. Where a register is written again before its block
# ends, nothing else can read what it held before: such a value may be in another register in
# another variant, whatever that register is otherwise. Every other value goes by its register's
# name.

_LEAVES = words(
    "BRA BRX BRXU JMP JMX JMXU CALL JCAL CAL BSYNC BSSY SYNC SSY BRK CONT PBK PCNT RET PRET "
    "WARPSYNC BREAK bra brx call ret RPCMOV"
)
"""After these, another block may go on with the values of this one."""

_ENDS = words("EXIT KILL exit trap ret RET")
"""After these, where no guard is before them, no value is read. (``ret`` of an entry only.)"""


def webs(forms: Forms, lines: Sequence[Line], entry: bool) -> list[tuple[str, ...]]:
    """For each form its names, those of values local to a block as ``name~number``.

    ``lines`` are those of the forms.
    """
    out: list[list[str]] = []
    open_: dict[str, list[tuple[int, int]]] = {}
    """By register, where its present value is named: form and position."""
    count = 0
    for i, ((_, key, named), line) in enumerate(zip(forms.forms, lines, strict=True)):
        names = list(named)
        out.append(names)
        if line.opcode is None:
            if line.kind is Kind.LABEL or line.label is not None:
                open_.clear()
            continue
        if line.label is not None:
            open_.clear()
        guarded = bool(names) and key[0] == "@"
        defs = line.defs
        written: dict[str, int] = {}
        for k, name in enumerate(names):
            if name in defs and name not in written and not (guarded and k == 0):
                written[name] = k
            elif name in open_:
                open_[name].append((i, k))
        for name, k in written.items():
            if guarded:
                if name in open_:
                    open_[name].append((i, k))
                continue
            closed = open_.get(name)
            if closed is not None:
                count += 1
                _rename(out, closed, f"{name}~{count}")
            open_[name] = [(i, k)]
        base = line.base or ""
        if base in _ENDS and not guarded and (entry or base.lower() != "ret"):
            for name, closed in open_.items():
                count += 1
                _rename(out, closed, f"{name}~{count}")
            open_.clear()
        elif base in _LEAVES:
            open_.clear()
    return [tuple(names) for names in out]


def _rename(out: list[list[str]], places: list[tuple[int, int]], name: str) -> None:
    for i, k in places:
        out[i][k] = name


_SMALL = 4000
_ASTRAY = 8
"""A second round pays in small functions, and where a good part of the pairs did not hold."""


@dataclass(frozen=True, slots=True)
class MatchSide:
    """One of the two: its forms, and the lines that they are of."""

    forms: Forms
    lines: Sequence[Line]
    entry: bool

    @staticmethod
    def of(listing: Listing, forms: Forms, function: Function | None) -> MatchSide:
        """Of forms that were read from ``listing``."""
        every = listing.lines[forms.first - 1 : forms.last]
        lines = [every[form.n - forms.first] for form in forms.forms]
        return MatchSide(forms, lines, function is None or function.entry)


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
    blocks = align(_far(a, a_keys), _far(b, b_keys))
    matched = sum(size for _, _, size in blocks)
    if matched < len(a_keys) and matched < len(b_keys):
        blocks = refine(blocks, _near(a, a_keys), _near(b, b_keys))
        blocks = refine(blocks, a_keys, b_keys)
    settled = _settle(a, b, a_keys, b_keys, blocks, aliases)
    return settled if _complete(settled) else _as_written(a.forms, b.forms, settled)


def _as_written(a: Forms, b: Forms, match: Match) -> Match:
    """``match``, or one that keeps every name as written if that makes more lines equal.

    Otherwise, if two registers are swapped in one line, the line that defines one of them would
    seem to be the changed one.

    Not where names stand for what is written elsewhere: there a name alone says nothing.
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
    """Renaming and alignment, each from the other.

    At first a register is one name. Where that leaves much, values within a block have names of
    their own; PTX and the others give each value one as it is.
    """
    numbers: dict[object, int] = {}
    fixed, barred = _fixed(a.forms, b.forms, aliases)
    first_round: Match | None = None
    a_webs: Names | None = None
    b_webs: Names | None = None
    while True:
        pairs = [(i + k, j + k) for i, j, size in blocks for k in range(size)]
        names = renaming(a.forms, b.forms, a_webs, b_webs, pairs, fixed)
        for name in barred:
            names.names.pop(name, None)
        codes = _codes(names, a.forms, b.forms)
        a_ids = _identities(a.forms, a_webs, a_keys, codes[0], numbers, "a")
        b_ids = _identities(b.forms, b_webs, b_keys, codes[1], numbers, "b")
        agreeing = _runs([(i, j) for i, j in pairs if a_ids[i] == b_ids[j]])
        equal = refine(agreeing, a_ids, b_ids)
        result = Match(equal, a_ids, b_ids, a_keys, b_keys, names.names)
        if first_round is not None:
            # the values are the same one by one, and yet the functions are not: registers decide
            return first_round if _complete(result) else result
        astray = len(pairs) - sum(size for _, _, size in agreeing)
        if not astray or len(pairs) > max(_SMALL, _ASTRAY * astray):
            return result
        first_round = result
        blocks = refine(equal, a_keys, b_keys)
        if a.forms.language == "sass":
            a_webs = webs(a.forms, a.lines, a.entry)
            b_webs = webs(b.forms, b.lines, b.entry)


def _complete(match: Match) -> bool:
    return len(match.a) == len(match.b) == sum(size for _, _, size in match.blocks)


def _far(side: MatchSide, keys: Sequence[int]) -> list[int]:
    """An integer for each form: a hash of its key and, recursively, of its operands' definitions.

    Whether the names agree is checked later.
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
            identity = hash((key, *[get(n, -1) for n in names if n not in defs]))
            for place, name in enumerate(defs):
                last[name if "#" not in name else name.partition("#")[0]] = identity + place
        else:
            identity = hash((key, *[get(n, -1) for n in names]))
        out.append(identity)
    return out


def _near(side: MatchSide, keys: Sequence[int]) -> list[int]:
    """Like ``_far``, but looking back only one step: at the lines that define the operands."""
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


def _codes(renaming: Renaming, a: Forms, b: Forms) -> tuple[Codes, Codes]:
    """What stands for each name, and for each value local to a block, on both sides."""
    left: Codes = {}
    right: Codes = {}
    for number, (x, y) in enumerate(renaming.names.items(), 1):
        left[x] = right[y] = number
    for number, (x, y) in enumerate(renaming.values.items(), 1):
        left[x] = right[y] = -number
    for forms, codes in ((a, left), (b, right)):
        for name, meaning in forms.aliases.items():
            if name not in codes:
                codes[name] = meaning
    for x, y in renaming.names.items():  # two aliases of one meaning are one
        if x in a.aliases and a.aliases[x] == b.aliases.get(y):
            left[x] = right[y] = a.aliases[x]
    return left, right


def _identities(
    forms: Forms, local: Names | None, keys: Sequence[int], codes: Codes,
    numbers: dict[object, int], side: str,
) -> list[int]:  # fmt: skip
    """An integer for each form: its key, and what stands for its names."""
    out: list[int] = []
    get = codes.get
    intern = numbers.setdefault
    for i, (_, _, names) in enumerate(forms.forms):
        if not names:
            out.append(keys[i])
            continue
        if local is None or local[i] == names:
            meaning = tuple([get(n) or side + n for n in names])
        else:
            meaning = tuple(
                [
                    get(v) if v in codes else get(n, side + n)
                    for n, v in zip(names, local[i], strict=True)
                ]
            )
        out.append(-intern((keys[i], meaning), len(numbers)) - 2)
    return out


def _runs(pairs: list[tuple[int, int]]) -> Blocks:
    out: Blocks = []
    for i, j in pairs:
        if out and out[-1][0] + out[-1][2] == i and out[-1][1] + out[-1][2] == j:
            out[-1] = (out[-1][0], out[-1][1], out[-1][2] + 1)
        else:
            out.append((i, j, 1))
    return out
