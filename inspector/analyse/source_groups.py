"""Which line of the source each line of a listing comes from, as groups that can be coloured."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from inspector.listing.line import Kind, Listing

HUES = 8
"""Colours that groups are given in turn, so that neighbours in the source differ."""


@dataclass(frozen=True, slots=True)
class SourceGroups:
    """``of[n]`` is the group of line ``n``: a line of the source from 1, or 0 where none is known.

    ``order`` are the groups that have code, ascending; it is the same for all stages of a kernel,
    so that one line of the source has one colour in all of them.
    """

    of: Sequence[int]
    order: Sequence[int]

    def group(self, n: int) -> int:
        """The group of line ``n``, 0 if it has none."""
        return self.of[n] if 0 < n < len(self.of) else 0

    def hue(self, group: int) -> int:
        """Which of the colours a group has, from 0."""
        return bisect_left(self.order, group) % HUES


def by_links(lines: int, links: Mapping[int, tuple[int, ...]]) -> Sequence[int]:
    """The group of each of so many lines, by their links to the source; of several the first."""
    of = array("I", bytes(array("I").itemsize * (lines + 1)))
    for n, sources in links.items():
        if 0 < n <= lines and sources:
            of[n] = sources[0]
    return of


def of_source(lines: int, coded: Iterable[int]) -> Sequence[int]:
    """The groups of the source itself: each line of it that code was made of is its own."""
    return by_links(lines, {n: (n,) for n in coded})


def by_places(listing: Listing, order: Sequence[tuple[str, int]] = ()) -> Sequence[int]:
    """The groups of a listing whose source is not at hand: the places that it names itself.

    The group is the number of a place in ``order``, from 1.
    """
    numbers = {place: number for number, place in enumerate(order, 1)}
    of = array("I", bytes(array("I").itemsize * (len(listing.lines) + 1)))
    for line in listing.lines:
        if line.source is not None and line.kind is Kind.INSTRUCTION:
            of[line.n] = numbers.get((line.source.file, line.source.line), 0)
    return of


def places(listing: Listing) -> tuple[tuple[str, int], ...]:
    """The files and lines that the instructions of a listing come from, ascending."""
    named = {
        (line.source.file, line.source.line)
        for line in listing.lines
        if line.source is not None and line.kind is Kind.INSTRUCTION
    }
    return tuple(sorted(named))
