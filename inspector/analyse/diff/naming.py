"""Which name of one function is which of another: a bijection, by what lines that match say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inspector.analyse.diff.canonical import class_of
from inspector.analyse.diff.forms import Forms

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
        here = []
        for x, y in by_count[count]:
            if x in out or y in taken:
                continue
            one = classes[0].get(x) or classes[0].setdefault(x, class_of(a, x))
            other = classes[1].get(y) or classes[1].setdefault(y, class_of(b, y))
            if one == other:
                here.append((x, y))
        for x, y in here:
            if x == y:
                out[x] = y
                taken.add(y)
        left, right = Counter(x for x, _ in here), Counter(y for _, y in here)
        for x, y in here:
            if left[x] == right[y] == 1 and x not in out and y not in taken:
                out[x] = y
                taken.add(y)
    return out
