"""Annotations of the lines of one listing: counts, sentences, waits, notes, groups by source."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field

from inspector.analysis.isa import ReferenceEntry
from inspector.base.model import Note
from inspector.parsers.line import Kind, Listing

if TYPE_CHECKING:
    from inspector.analysis.function_facts import Consumer, Wait

HUES = 8
"""Colours that groups are given in turn, so that neighbours in the source differ."""


class SourceGroups(Struct, frozen=True):
    """``of[n]`` is the group of line ``n``: a line of the source from 1, or 0 where none is known.

    ``order`` are the groups that have code, ascending; it is the same for all stages of a kernel,
    so that one line of the source has one colour in all of them.
    """

    groups: Sequence[int]
    order: Sequence[int]

    def group(self, n: int) -> int:
        return self.groups[n] if 0 < n < len(self.groups) else 0

    def hue(self, group: int) -> int:
        """Which of the colours a group has, from 0."""
        return bisect_left(self.order, group) % HUES


def by_links(lines: int, links: Mapping[int, tuple[int, ...]]) -> Sequence[int]:
    """The group of each of so many lines, by their links to the source; of several the first."""
    groups = [0] * (lines + 1)
    for n, sources in links.items():
        if 0 < n <= lines and sources:
            groups[n] = sources[0]
    return groups


def by_places(listing: Listing, order: Sequence[tuple[str, int]] = ()) -> Sequence[int]:
    """The groups of a listing whose source is not at hand: the places that it names itself. The
    group is the number of a place in ``order``, from 1."""
    numbers = {place: number for number, place in enumerate(order, 1)}
    links = {n: (numbers.get(place, 0),) for n, place in _placed(listing)}
    return by_links(len(listing.lines), links)


def _placed(listing: Listing) -> Iterator[tuple[int, tuple[str, int]]]:
    """Instructions by number, each with the file and line that it names."""
    for line in listing.lines:
        if line.source is not None and line.kind is Kind.INSTRUCTION:
            yield line.n, (line.source.file, line.source.line)


def places(listing: Listing) -> tuple[tuple[str, int], ...]:
    return tuple(sorted({place for _, place in _placed(listing)}))


T = TypeVar("T")

# The figures are of SASS, so allocated registers and cycles; PTX's virtual registers are counted
# in PTX alone.


class Rolled(Struct, frozen=True):
    """What the instructions of one line come to.

    ``live`` is the greatest number of live registers, a class, at any one of them; ``stall`` the
    sum of their stall counts in issue cycles, each instruction once and of branches that exclude
    each other the longest alone, None if no instruction has control words; ``instructions`` how
    many there are. ``peak``: one of them has as many live general registers as any instruction of
    the kernel.
    """

    live: Mapping[str, int] = field(default_factory=dict)
    stall: int | None = None
    instructions: int = 0
    peak: bool = False


def roll_up(
    links: Mapping[int, tuple[int, ...]],
    live: Callable[[int], Mapping[str, int] | None],
    cycles: Callable[[Iterable[int]], int | None],
    highest: int | None,
) -> dict[int, Rolled]:
    """For each line of an upper stage, what its SASS lines come to.

    ``links`` are the lines of SASS of each upper line, ``live`` the figures of a line of SASS,
    ``cycles`` those of several, ``highest`` the kernel's greatest count of live general registers.
    Lines that share their links share one result, so the time is linear in the distinct links.
    """

    def roll(lines: tuple[int, ...]) -> Rolled | None:
        highest_counts: dict[str, int] = {}
        line_count = 0
        for n in lines:
            counts = live(n)
            if counts is None and cycles((n,)) is None:
                continue
            line_count += 1
            for name, count in (counts or {}).items():
                highest_counts[name] = max(highest_counts.get(name, 0), count)
        peak = highest is not None and highest > 0 and highest_counts.get("gpr") == highest
        return Rolled(highest_counts, cycles(lines), line_count, peak) if line_count else None

    return _summed(links, roll)


def _summed(
    links: Mapping[int, tuple[int, ...]], make: Callable[[tuple[int, ...]], T | None]
) -> dict[int, T]:
    """What ``make`` gives of each line's links, once for those that are one object."""
    totals = {
        key: make(lines)
        for key, lines in {id(line_links): line_links for line_links in links.values()}.items()
    }
    summed = {n: totals[id(lines)] for n, lines in links.items()}
    return {n: value for n, value in summed.items() if value is not None}


# A profiler's samples of warps, by instruction, and what they come to on the lines above.


class Samples(Struct, frozen=True):
    """How often a warp was seen at an instruction.

    ``all`` counts every sample, ``not_issued`` those in which its scheduler issued nothing;
    ``stalls`` says what the warp waited for in each of ``all``, by the profiler's own names
    (``long_sb``), only reasons that were seen.
    """

    all: int = 0
    not_issued: int = 0
    stalls: Mapping[str, int] = field(default_factory=dict)

    def top(self, limit: int = 2) -> tuple[tuple[str, int], ...]:
        """The most frequent reasons, the first of equals by name."""
        return tuple(sorted(self.stalls.items(), key=lambda s: (-s[1], s[0]))[:limit])


def total(samples: Iterable[Samples]) -> Samples:
    """The sum of samples."""
    all_samples = list(samples)
    stalls = sum((Counter(sample.stalls) for sample in all_samples), Counter[str]())
    return Samples(
        sum(sample.all for sample in all_samples),
        sum(sample.not_issued for sample in all_samples),
        stalls,
    )


def roll_up_samples(
    links: Mapping[int, tuple[int, ...]], by_line: Mapping[int, Samples]
) -> dict[int, Samples]:
    """For each line of an upper stage the sum over its lines of SASS, each of them once.

    Lines none of whose SASS was sampled over are left out. An instruction that several lines
    became counts on each of them, so that the sum over lines may exceed the kernel's.
    """

    def sampled(lines: tuple[int, ...]) -> Samples | None:
        samples = [by_line[line] for line in dict.fromkeys(lines) if line in by_line]
        return total(samples) if samples else None

    return _summed(links, sampled)


def hottest(by_line: Mapping[int, Samples], all_of: int, share: float = 0.1) -> tuple[int, ...]:
    """The lines that have at least ``share`` of ``all_of`` samples, ascending."""
    return tuple(sorted(n for n, s in by_line.items() if all_of and s.all >= share * all_of))


CLASSES = ("gpr", "pred", "ugpr", "upred")
"""SASS's classes of registers, as ``nvdisasm -plr`` heads its columns."""


def virtual(counts: Mapping[str, int]) -> int:
    """How many of PTX's virtual registers of any size are live, without predicates."""
    return sum(count for name, count in counts.items() if name != "pred")


class Told(Struct, frozen=True):
    """Annotations of one line.

    ``live`` counts live registers at the line itself (PTX, SASS), ``rolled`` is of its SASS
    (every stage above), ``stall`` is the line's own, in issue cycles. ``samples`` are a
    profiler's of the line's machine code. None and () are "nothing is known".
    """

    live: Mapping[str, int] | None = None
    rolled: Rolled | None = None
    stall: int | None = None
    notes: tuple[Note, ...] = ()
    samples: Samples | None = None

    def counts(self) -> Mapping[str, int] | None:
        """The live registers to show: the line's own, else the most at any of its SASS."""
        if self.live is not None:
            return self.live
        return None if self.rolled is None else self.rolled.live

    def cycles(self) -> int | None:
        """Stall cycles: the line's own, else the sum of its SASS."""
        return self.stall if self.stall is not None or self.rolled is None else self.rolled.stall


class Register(Struct, frozen=True):
    """A register of a line: the lines that may define the value it has there, or is given there,
    and the lines that may use that value. All ascending."""

    name: str
    defined: tuple[int, ...] = ()
    used: tuple[int, ...] = ()


class Words(Struct, frozen=True):
    """Words about one line.

    ``sentence`` reads the instruction out; ``waits`` says what it waits for and what waits for
    it, and ``waits_for`` and ``consumer`` are the same as values. ``definitions`` are the lines
    that may have defined each register that it uses.
    """

    sentence: str | None = None
    waits: tuple[str, ...] = ()
    waits_for: tuple[Wait, ...] = ()
    consumer: Consumer | None = None
    definitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def said(self) -> tuple[str, ...]:
        return ((self.sentence,) if self.sentence else ()) + self.waits


class Explained(Struct, frozen=True):
    """What the reference has of one word of a line; ``qualifiers`` are the line's."""

    entry: ReferenceEntry
    qualifiers: Mapping[str, str]


class LineAnnotations(Struct, frozen=True):
    """Annotations of a listing, by line.

    ``at`` is quick; ``words`` and ``registers`` may take a moment. ``classes`` are the
    registers that are live anywhere, ``stalls`` whether there are control words. ``noted`` are
    the lines that have notes and ``peaks`` those with as many live registers as any, both
    ascending. ``machine``: the counts are of allocated registers; else they are PTX's virtual ones.
    ``allocated``: how many a thread has, None if that is not known. ``sampled`` is how many
    samples a profiler took of the kernel, 0 for none, and ``hottest`` the
    lines that have a tenth of them or more. ``most`` are the greatest counts of live registers
    anywhere in the kernel, a class, and of PTX's virtual ones as ``virtual``. ``estimated`` are
    percentages of the warps' cycles by line, where they were simulated. ``upper`` are the annotated
    lines of a stage above PTX, ascending.
    """

    at: Callable[[int], Told]
    words: Callable[[int], Words]
    registers: Callable[[int], tuple[Register, ...]]
    classes: tuple[str, ...] = ()
    stalls: bool = False
    noted: tuple[int, ...] = ()
    peaks: tuple[int, ...] = ()
    machine: bool = True
    allocated: int | None = None
    sampled: int = 0
    hottest: tuple[int, ...] = ()
    most: Mapping[str, int] = field(default_factory=dict)
    estimated: Mapping[int, float] = field(default_factory=dict)
    upper: tuple[int, ...] = ()

    def share(self, n: int) -> float | None:
        """The percentage of the kernel's samples that line ``n`` has, None if it has none."""
        samples = self.at(n).samples
        return None if samples is None or not self.sampled else 100 * samples.all / self.sampled


def ranked(figures: Iterable[tuple[int, float]], plateaus: bool, limit: int) -> tuple[int, ...]:
    """The lines with the largest figures, the largest first, at most so many.

    ``figures`` are ascending by line. ``plateaus``: neighbours of one figure are one place, told by
    its first line, and only places that are higher than those beside them count: of live registers
    the next largest would else be the line beside the peak.
    """
    places: list[tuple[int, float]] = []
    for n, figure in figures:
        if not plateaus or not places or places[-1][1] != figure:
            places.append((n, figure))
    if plateaus:
        heights = [0.0, *(figure for _, figure in places), 0.0]
        places = [
            place
            for index, place in enumerate(places, 1)
            if heights[index - 1] < heights[index] > heights[index + 1]
        ]
    return tuple(n for n, figure in nsmallest(limit, places, key=lambda p: (-p[1], p[0])) if figure)


NOTHING_TOLD = Told()
NO_WORDS = Words()
NOTHING = LineAnnotations(lambda n: NOTHING_TOLD, lambda n: NO_WORDS, lambda n: ())
"""No annotations."""
