"""Figures of machine instructions told on the lines that they came from.

The figures are of SASS, so allocated registers and cycles; PTX's virtual registers are counted in
PTX alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Rolled:
    """What the instructions of one line come to.

    ``live`` is the greatest number of live registers, a class, at any one of them; ``stall`` the
    sum of their stall counts in issue cycles, each instruction once, None where no instruction
    has control words; ``instructions`` how many there are. ``peak``: one of them has as many live
    general registers as any instruction of the kernel.
    """

    live: Mapping[str, int] = field(default_factory=dict)
    stall: int | None = None
    instructions: int = 0
    peak: bool = False


def roll_up(
    links: Mapping[int, tuple[int, ...]],
    live: Callable[[int], Mapping[str, int] | None],
    stall: Callable[[int], int | None],
    highest: int | None,
) -> dict[int, Rolled]:
    """For each line of an upper stage, what its SASS lines come to.

    ``links`` are the lines of SASS of each upper line, ``live`` and ``stall`` the figures of a
    line of SASS, ``highest`` the kernel's greatest count of live general registers. Lines that
    share their links share one result, so the time is linear in the distinct links.
    """
    known: dict[int, Rolled] = {}
    out: dict[int, Rolled] = {}
    for n, lines in links.items():
        found = known.get(id(lines))
        if found is None:
            found = known[id(lines)] = _roll(lines, live, stall, highest)
        if found.instructions:
            out[n] = found
    return out


def _roll(
    lines: tuple[int, ...],
    live: Callable[[int], Mapping[str, int] | None],
    stall: Callable[[int], int | None],
    highest: int | None,
) -> Rolled:
    most: dict[str, int] = {}
    cycles: int | None = None
    many = 0
    for n in lines:
        counts, waits = live(n), stall(n)
        if counts is None and waits is None:
            continue
        many += 1
        for name, count in (counts or {}).items():
            most[name] = max(most.get(name, 0), count)
        if waits is not None:
            cycles = (cycles or 0) + waits
    peak = highest is not None and highest > 0 and most.get("gpr") == highest
    return Rolled(most, cycles, many, peak)
