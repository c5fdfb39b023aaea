"""Divisions that are many instructions: integers by what is not constant, exact fp32, fp64."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from inspector.analyse.hints.operands import operands
from inspector.analyse.hints.subject import (
    Finding,
    Subject,
    Thresholds,
    number,
    numbers,
    plural,
    some,
)
from inspector.listing.line import Line
from inspector.model import Stage

RULE = "slow-division"

_DIVISION = re.compile(r"(?:div|rem)\.(?:r[nzmp]\.)?(?:ftz\.)?([suf](?:16|32|64))\Z")


def slow_division(subject: Subject, thresholds: Thresholds) -> Iterator[Finding]:
    """Divisions that are a good part of a loop, or of a kernel that has none.

    There is no instruction for them: each becomes a reciprocal and its corrections. What stands
    before a kernel's loops is run once and is left alone; so are ``div.full`` and ``div.approx``,
    and divisors that are constants.
    """
    if not subject.ptx:
        return
    flow = subject.flow(Stage.PTX)
    if flow is None:
        return
    bodies: dict[int, list[Line]] = defaultdict(list)
    for line in subject.ptx:
        inner = flow.loop_at(line.n)
        bodies[inner.first if inner else 0].append(line)
    looped = any(first for first in bodies)
    found: list[Line] = []
    for first, lines in bodies.items():
        slow = [line for line in lines if _slow(line)]
        if (
            slow
            and (first or not looped)
            and _share(slow, lines, thresholds) >= number(thresholds, RULE, "share")
        ):
            found += slow
    if not found:
        return
    what = some([f"{line.opcode}" for line in found])
    where = "in a loop" if looped else "in a kernel without loops"
    share = _share(found, [x for x in subject.ptx if not looped or flow.loop_at(x.n)], thresholds)
    yield Finding(
        RULE,
        "hint",
        f"{plural(len(found), 'division')} {where} ({what}), about {share:.0%} of its instructions "
        "(an estimate): the hardware has no such instruction, so each is a reciprocal and its "
        f"corrections. {_advice(found)}",
        {Stage.PTX: numbers(found)},
    )


def _advice(found: list[Line]) -> str:
    if all(".f" in (line.opcode or "") for line in found):
        return (
            "Multiply by the reciprocal, computed once, or allow an approximation (__fdividef, "
            "-use_fast_math, -prec-div=false)."
        )
    return (
        "Make the divisor a constant (a template parameter, a tl.constexpr: a power of two is a "
        "shift), count rows and columns along instead of dividing, or use 32 bits for 64."
    )


def _slow(line: Line) -> bool:
    if line.base not in ("div", "rem") or _DIVISION.match(line.opcode or "") is None:
        return False
    words = operands(line.text)
    return len(words) == 3 and words[2].startswith("%")


def _share(slow: list[Line], lines: list[Line], thresholds: Thresholds) -> float:
    """Instructions of divisions against all, both estimated from PTX."""
    costs = thresholds[RULE].get("instructions", {})
    known = costs if isinstance(costs, dict) else {}
    spent = 0.0
    for line in slow:
        kind = _DIVISION.match(line.opcode or "")
        spent += float(known.get(kind[1], 1)) if kind else 0.0
    return spent / max(spent + len(lines) - len(slow), 1)
