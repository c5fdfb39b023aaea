"""What a function is made of: its instructions by cost class and by opcode.

Static counts: each instruction once, however often it is run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from inspector.listing.line import Function, Kind, Line, Listing


@dataclass(frozen=True, slots=True)
class Mix:
    """Instructions of one function of PTX or SASS, counted as they stand.

    ``by_cost`` and ``by_opcode`` are pairs of a name and its count, the most frequent first;
    opcodes are bare (``ld``, ``LDG``). ``unclassed`` are those whose cost class is not known.
    """

    language: str
    total: int
    by_cost: tuple[tuple[str, int], ...]
    by_opcode: tuple[tuple[str, int], ...]
    unclassed: int


def mix(listing: Listing, function: Function, cost: Callable[[str], str | None]) -> Mix:
    """The mix of one function; ``cost`` gives the cost class of an opcode, None if not known."""
    opcodes = Counter(line.opcode or "" for line in instructions(listing, function))
    costs: Counter[str] = Counter()
    bases: Counter[str] = Counter()
    unclassed = 0
    for opcode, count in opcodes.items():
        bases[opcode.partition(".")[0]] += count
        known = cost(opcode)
        if known is None:
            unclassed += count
        else:
            costs[known] += count
    return Mix(listing.language, opcodes.total(), _ordered(costs), _ordered(bases), unclassed)


def _ordered(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def instructions(listing: Listing, function: Function) -> Iterator[Line]:
    """The instructions of a function, without what only fills SASS up to a boundary at its end:
    a branch to itself and ``NOP``."""
    lines = listing.lines
    last = min(function.last, len(lines))
    if listing.language == "sass":
        last = _before_padding(lines[max(function.first - 1, 0) : last]) + function.first - 1
    for n in range(function.first, last + 1):
        line = lines[n - 1]
        if line.kind is Kind.INSTRUCTION and line.opcode is not None:
            yield line


def _before_padding(held: Sequence[Line]) -> int:
    """How many of the lines stand before the padding."""
    end = len(held)
    while end and (held[end - 1].opcode is None or held[end - 1].base == "NOP"):
        end -= 1
    if end >= 1 and held[end - 1].base == "BRA" and held[end - 1].targets:
        above = next((x for x in reversed(held[: end - 1]) if x.kind is not Kind.BLANK), None)
        if above is not None and above.label in held[end - 1].targets:
            end -= 1
    return end
