"""Formulas of functions of three bits: the tables of ``lop3``, ``LOP3.LUT`` and ``PLOP3.LUT``.

Bit ``a << 2 | b << 1 | c`` of the table is the result for bits a, b, c: 0xf0 is a alone, 0xcc b,
0xaa c (PTX ISA, Logic and Shift Instructions: lop3).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import permutations, product

A, B, C = 0xF0, 0xCC, 0xAA
ALL = 0xFF


def restrict(table: int, constants: Sequence[int | None]) -> int:
    """The table where some inputs are always 0 or always 1 (None: not known)."""
    out = 0
    for i, bits in enumerate(product((0, 1), repeat=3)):
        fixed = [b if k is None else k for b, k in zip(bits, constants, strict=True)]
        out |= (table >> (fixed[0] << 2 | fixed[1] << 1 | fixed[2]) & 1) << i
    return out


def _joins(inner: int, outer: int) -> bool:
    """Whether an operation reads well inside another without parentheses."""
    return inner == 4 or inner == outer or (inner == 3 and outer == 1)


@cache
def _formulas() -> dict[int, str]:
    """The shortest formula of each table: built up from the inputs, simple ones first."""
    best: dict[int, tuple[int, int, str]] = {}  # cost, precedence, text

    def offer(table: int, cost: int, level: int, text: str) -> bool:
        cheapest = best.get(table)
        if cheapest is not None and cheapest[0] <= cost:
            return False
        best[table] = (cost, level, text)
        return True

    for table, text in ((0, "0"), (ALL, "1"), (A, "a"), (B, "b"), (C, "c")):
        offer(table, 0, 4, text)
    grown = True
    last: dict[int, tuple[int, int, str]] = {}
    while grown:
        grown = False
        for table, (cost, level, text) in list(best.items()):
            inner = text if level == 4 else f"({text})"
            grown |= offer(~table & ALL, cost + 1, 4, f"~{inner}")
        items = sorted(best.items(), key=lambda kv: (kv[1][0], kv[1][2]))
        # Two that were the same the last time make what they made then, and so do two the other way
        # round; and where each table has a formula, none is shorter than the longest of all.
        changed = {table for table, cheapest in items if last.get(table) != cheapest}
        last = dict(items)
        most = max(cost for cost, _, _ in best.values()) if len(best) > ALL else None
        for n, (x, (cx, lx, tx)) in enumerate(items):
            for y, (cy, ly, ty) in items[n:]:
                if most is not None and cx + cy + 2 >= most:
                    break
                if x not in changed and y not in changed:
                    continue
                for op, level, result in (("&", 3, x & y), ("^", 2, x ^ y), ("|", 1, x | y)):
                    left = tx if _joins(lx, level) else f"({tx})"
                    right = ty if _joins(ly, level) else f"({ty})"
                    grown |= offer(result, cx + cy + 2, level, f"{left} {op} {right}")
    best[A & B | A & C | B & C] = (0, 1, "a & b | a & c | b & c")
    inputs = {"a": A, "b": B, "c": C}
    for k, one, other in permutations(inputs):
        # Each bit of k chooses between one and other.
        table = inputs[k] & inputs[one] | ~inputs[k] & inputs[other] & ALL
        best[table] = (0, 1, f"{k} & {one} | ~{k} & {other}")
    return {table: text for table, (_, _, text) in best.items()}


def formula(table: int) -> str:
    """A formula in a, b, c with ``~ & ^ |`` of a table of eight bits; ``0`` and ``1`` too."""
    return _formulas()[table & ALL]


def named(text: str, names: Sequence[str]) -> str:
    """A formula with what a, b and c represent."""
    words = dict(zip("abc", names, strict=True))
    return "".join(words.get(c, c) for c in text)
