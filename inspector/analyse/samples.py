"""A profiler's samples of warps, by instruction, and what they come to on the lines above."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Samples:
    """How often a warp was seen at an instruction.

    ``all`` counts every sample, ``not_issued`` those in which its scheduler issued nothing;
    ``stalls`` says what the warp waited for in each of ``all``, by the profiler's own names
    (``long_sb``), only reasons that were seen.
    """

    all: int = 0
    not_issued: int = 0
    stalls: Mapping[str, int] = field(default_factory=dict)

    def top(self, many: int = 2) -> tuple[tuple[str, int], ...]:
        """The most frequent reasons, the first of equals by name."""
        return tuple(sorted(self.stalls.items(), key=lambda s: (-s[1], s[0]))[:many])


def total(each: Iterable[Samples]) -> Samples:
    """The sum of samples."""
    every = not_issued = 0
    stalls: dict[str, int] = {}
    for one in each:
        every += one.all
        not_issued += one.not_issued
        for reason, count in one.stalls.items():
            stalls[reason] = stalls.get(reason, 0) + count
    return Samples(every, not_issued, stalls)


def roll_up(
    links: Mapping[int, tuple[int, ...]], by_line: Mapping[int, Samples]
) -> dict[int, Samples]:
    """For each line of an upper stage the sum over its lines of SASS, each of them once.

    Lines none of whose SASS was sampled over are left out. An instruction that several lines
    became counts on each of them, so that the sum over lines may exceed the kernel's.
    """
    known: dict[int, Samples | None] = {}
    out: dict[int, Samples] = {}
    for n, lines in links.items():
        if id(lines) not in known:
            held = [by_line[line] for line in dict.fromkeys(lines) if line in by_line]
            known[id(lines)] = total(held) if held else None
        found = known[id(lines)]
        if found is not None:
            out[n] = found
    return out


def hottest(by_line: Mapping[int, Samples], all_of: int, share: float = 0.1) -> tuple[int, ...]:
    """The lines that have at least ``share`` of ``all_of`` samples, ascending."""
    return tuple(sorted(n for n, s in by_line.items() if all_of and s.all >= share * all_of))
