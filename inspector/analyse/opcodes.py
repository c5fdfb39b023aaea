"""A function's instructions by opcode."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from inspector.listing.line import Function, Kind, Line, Listing

_GUARD = re.compile(r"\A\s*(?:/\*[0-9a-f]+\*/\s*)?(?:\{\s*)?@")


def guarded(line: Line) -> bool:
    """Whether an instruction of PTX or SASS has a predicate."""
    return "@" in line.text and _GUARD.match(line.text) is not None


class OpcodeLines:
    """The instructions of a function by opcode; ``guarded`` counts those with a predicate."""

    def __init__(self, listing: Listing, function: Function) -> None:
        self.listing = listing
        self.function = function
        self.by_opcode: dict[str, list[Line]] = {}
        self.guarded: Counter[str] = Counter()
        for line in listing.between(function.first, function.last):
            if line.opcode is None or line.kind is not Kind.INSTRUCTION:
                continue
            self.by_opcode.setdefault(line.opcode, []).append(line)
            self.guarded[line.opcode] += guarded(line)

    def count(self, wanted: Callable[[str], object]) -> int:
        """How many instructions have an opcode that is wanted."""
        return sum(len(lines) for opcode, lines in self.by_opcode.items() if wanted(opcode))

    def lines(self, wanted: Callable[[str], object] = lambda _: True) -> Sequence[Line]:
        """The lines of the opcodes that are wanted, in order."""
        lines = [n for opcode, at in self.by_opcode.items() if wanted(opcode) for n in at]
        return sorted(lines, key=lambda line: line.n)

    def of(self, *bases: str) -> Sequence[Line]:
        """The lines whose opcode begins with one of these words: ``ld``, ``LDG``."""
        return self.lines(lambda opcode: base_of(opcode) in bases)

    def without_padding(self) -> Mapping[str, Sequence[Line]]:
        """Lines by opcode without the padding at the end of SASS."""
        end = before_padding(self.listing, self.function)
        kept = {
            op: [each for each in lines if each.n <= end] for op, lines in self.by_opcode.items()
        }
        return {opcode: lines for opcode, lines in kept.items() if lines}


def base_of(opcode: str) -> str:
    """``ld`` of ``ld.global.b32``."""
    return opcode.partition(".")[0]


def before_padding(listing: Listing, function: Function) -> int:
    """The last line of a function before what only fills SASS up to a boundary: a branch to itself
    and ``NOP``."""
    lines = listing.lines
    last, first = min(function.last, len(lines)), max(function.first, 1)
    if listing.language != "sass":
        return last
    end = last
    while end >= first and (lines[end - 1].opcode is None or lines[end - 1].base == "NOP"):
        end -= 1
    if end >= first and lines[end - 1].base == "BRA" and lines[end - 1].targets:
        above = end - 1
        while above >= first and lines[above - 1].kind is Kind.BLANK:
            above -= 1
        if above >= first and lines[above - 1].label in lines[end - 1].targets:
            end -= 1
    return end
