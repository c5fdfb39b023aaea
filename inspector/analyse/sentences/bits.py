"""``lop3``'s truth tables and ``prmt``'s selectors in words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

A, B, C = 0xF0, 0xCC, 0xAA
"""What the three operands are in a table: bit ``4a + 2b + c`` of it is the result's."""


@cache
def _formulas() -> dict[int, str]:
    """The simplest formula found of every table that two steps or a common idiom reach."""
    out: dict[int, str] = {0: "0", 255: "all ones"}
    single = {A: "{0}", B: "{1}", C: "{2}"}
    single |= {value ^ 255: f"not {name}" for value, name in single.items()}
    out.update(single)
    pairs: dict[int, str] = {}
    for (x, left), (y, right) in product(single.items(), repeat=2):
        if left >= right:
            continue
        for value, sign in ((x & y, "&"), (x | y, "|"), (x ^ y, "xor")):
            pairs.setdefault(value, f"{left} {sign} {right}")
    for value, text in pairs.items():
        out.setdefault(value, text)
    for c, name in ((A, "{0}"), (B, "{1}"), (C, "{2}")):
        others = [(v, n) for v, n in single.items() if name not in n]
        for (x, left), (y, right) in product(others, repeat=2):
            value = (x & c) | (y & ~c & 255)
            out.setdefault(value, f"{left} where {name} is set, else {right}")
    out.setdefault((A & B) | (A & C) | (B & C), "the majority of {0}, {1} and {2}")
    out.setdefault(A ^ B ^ C, "{0} xor {1} xor {2}")
    for (x, left), (y, right) in product(pairs.items(), single.items()):
        for value, sign in ((x & y, "&"), (x | y, "|"), (x ^ y, "xor")):
            out.setdefault(value, f"({left}) {sign} {right}")
    for (x, left), (y, right) in product(pairs.items(), repeat=2):
        for value, sign in ((x & y, "&"), (x | y, "|"), (x ^ y, "xor")):
            out.setdefault(value, f"({left}) {sign} ({right})")
    return out


def logic(table: int, names: Sequence[str]) -> str:
    """A table of eight bits as a formula of three names."""
    text = _formulas().get(table & 255)
    if text is None:
        return (
            f"{names[0]}, {names[1]}, {names[2]} combined bit by bit, by table 0x{table & 255:02x}"
        )
    for i, name in enumerate(names):
        text = text.replace(f"{{{i}}}", name)
    return text


def byte_picks(a: str, b: str, selector: int) -> str:
    """``prmt.b32``: the four bytes of the result, highest first; bytes 0 to 3 are ``a``'s."""
    picks = [selector >> 4 * i & 15 for i in range(3, -1, -1)]
    said: list[str] = []
    for pick in picks:
        name, place = (a, pick & 7) if pick & 7 < 4 else (b, (pick & 7) - 4)
        sign = "the sign of " if pick & 8 else ""
        said.append(f"{sign}byte {place} of {name}")
    return f"bytes, the highest first: {', '.join(said)}"
