"""Which lines of a function have which opcode, gone through once.

What is asked of a kernel's instructions is mostly asked of a few opcodes of hundreds; a line is
then read again where it stands, so that a function of a million lines is nowhere held as lines.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import overload

from inspector.listing.line import Function, Kind, Line, Listing

_GUARD = re.compile(r"\A\s*(?:/\*[0-9a-f]+\*/\s*)?(?:\{\s*)?@")


def guarded(line: Line) -> bool:
    """Whether an instruction of PTX or SASS stands under a predicate."""
    return _GUARD.match(line.text) is not None


class LinesAgain(Sequence[Line]):
    """Lines of a listing by their numbers, ascending; read anew each time they are gone through."""

    def __init__(self, listing: Listing, numbers: Sequence[int]) -> None:
        self.listing = listing
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Line]: ...
    def __getitem__(self, index: int | slice) -> Line | Sequence[Line]:
        if isinstance(index, slice):
            return LinesAgain(self.listing, self.numbers[index])
        return self.listing.lines[self.numbers[index] - 1]

    def __iter__(self) -> Iterator[Line]:
        if isinstance(self.numbers, range) and self.numbers.step == 1:
            return self.listing.between(self.numbers.start, self.numbers.stop - 1)
        lines = self.listing.lines
        return (lines[n - 1] for n in self.numbers)

    def texts(self) -> Iterator[str]:
        """The lines' texts: nothing is parsed for them."""
        if isinstance(self.numbers, range) and self.numbers.step == 1:
            return self.listing.texts(self.numbers.start, self.numbers.stop - 1)
        return (line.text for line in self)

    def having(self, word: str) -> Iterator[Line]:
        """The lines in whose text a word stands; no other is parsed."""
        for n, text in zip(self.numbers, self.texts(), strict=True):
            if word in text:
                yield self.listing.lines[n - 1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self.numbers))


class OpcodeLines:
    """The instructions of a function by opcode: line numbers, ascending, four bytes each.

    ``guarded`` has those of them that stand under a predicate.
    """

    def __init__(self, listing: Listing, function: Function) -> None:
        self.listing = listing
        self.function = function
        self.by_opcode: dict[str, array[int]] = {}
        self.guarded: dict[str, array[int]] = {}
        by_opcode = self.by_opcode
        for line in listing.between(function.first, function.last):
            opcode = line.opcode
            if opcode is None or line.kind is not Kind.INSTRUCTION:
                continue
            numbers = by_opcode.get(opcode)
            if numbers is None:
                numbers = by_opcode[opcode] = array("i")
            numbers.append(line.n)
            if "@" in line.text and guarded(line):
                self.guarded.setdefault(opcode, array("i")).append(line.n)

    def count(self, wanted: Callable[[str], object]) -> int:
        """How many instructions have an opcode that is wanted."""
        return sum(len(at) for opcode, at in self.by_opcode.items() if wanted(opcode))

    def numbers(self, wanted: Callable[[str], object] = lambda _: True) -> Sequence[int]:
        """The lines of the opcodes that are wanted, in order."""
        return merged(at for opcode, at in self.by_opcode.items() if wanted(opcode))

    def lines(self, wanted: Callable[[str], object] = lambda _: True) -> LinesAgain:
        """The same as lines."""
        return LinesAgain(self.listing, self.numbers(wanted))

    def of(self, *bases: str) -> LinesAgain:
        """The lines whose opcode begins with one of these words: ``ld``, ``LDG``."""
        return self.lines(lambda opcode: base_of(opcode) in bases)

    def without_padding(self) -> Mapping[str, Sequence[int]]:
        """Lines by opcode without what only fills SASS up to a boundary at its end."""
        end = before_padding(self.listing, self.function)
        kept = {op: at[: bisect_right(at, end)] for op, at in self.by_opcode.items()}
        return {opcode: at for opcode, at in kept.items() if at}


def merged(parts: Iterable[Sequence[int]]) -> Sequence[int]:
    """Ascending numbers of several rows as one."""
    several = [part for part in parts if part]
    if len(several) == 1:
        return several[0]
    out = array("i")
    for part in several:
        out.extend(part)
    return array("i", sorted(out))


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
