"""Which function of one listing is which of another: by name, then by likeness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from inspector.analyse.diff.symbols import plain_name
from inspector.listing.line import Function, Listing

ENOUGH = 0.5
"""Of two functions' opcodes, the share that they must have in common to be paired by it."""

Pair = tuple[Function | None, Function | None]


def pair(a: Listing, b: Listing) -> tuple[Pair, ...]:
    """Every function of both once: pairs in the order of ``a``, then what only ``b`` has.

    By the name as it is, then by the name without digests, then by how alike their opcodes are,
    the most alike first. A single function that is left on each side is paired whatever it does.
    One that stands within another is part of it.
    """
    left, right = apart(a.functions), apart(b.functions)
    found: dict[int, int] = {}
    for named in (lambda f: f.name, lambda f: plain_name(f.name)):
        places: dict[str, list[int]] = {}
        taken = set(found.values())
        for j, function in enumerate(right):
            if j not in taken:
                places.setdefault(named(function), []).append(j)
        for i, function in enumerate(left):
            if i not in found and (same := places.get(named(function))):
                found[i] = same.pop(0)
    taken = set(found.values())
    mine = [i for i in range(len(left)) if i not in found]
    theirs = [j for j in range(len(right)) if j not in taken]
    if len(mine) == len(theirs) == 1:
        found[mine[0]] = theirs[0]
    elif mine and theirs:
        found.update(_alike(a, b, left, right, mine, theirs))
    taken = set(found.values())
    out: list[Pair] = [
        (function, right[found[i]] if i in found else None) for i, function in enumerate(left)
    ]
    return (*out, *((None, function) for j, function in enumerate(right) if j not in taken))


def apart(functions: Sequence[Function]) -> list[Function]:
    """Those that stand in no other, in order."""
    out: list[Function] = []
    for function in sorted(functions, key=lambda f: (f.first, -f.last)):
        if function.first > (out[-1].last if out else 0):
            out.append(function)
    return out


def _alike(
    a: Listing, b: Listing, left: Sequence[Function], right: Sequence[Function],
    mine: list[int], theirs: list[int],
) -> dict[int, int]:  # fmt: skip
    ours = {i: opcodes(a, left[i]) for i in mine}
    others = {j: opcodes(b, right[j]) for j in theirs}
    scored = sorted(
        ((likeness(x, y), -abs(i - j), i, j) for i, x in ours.items() for j, y in others.items()),
        reverse=True,
    )
    out: dict[int, int] = {}
    taken: set[int] = set()
    for score, _, i, j in scored:
        if score >= ENOUGH and i not in out and j not in taken:
            out[i] = j
            taken.add(j)
    return out


def opcodes(listing: Listing, function: Function) -> Counter[str]:
    """How often each opcode occurs."""
    lines = listing.lines[function.first - 1 : function.last]
    return Counter(line.opcode for line in lines if line.opcode is not None)


def likeness(a: Counter[str], b: Counter[str]) -> float:
    """The share of opcodes that two functions have in common, 0 to 1: 2·|a ∩ b| / (|a| + |b|)."""
    total = a.total() + b.total()
    return 2 * (a & b).total() / total if total else 1.0
