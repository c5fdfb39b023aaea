"""What is told of the lines of one listing: counts, sentences, waits, notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from inspector.analyse.entry import Entry
from inspector.analyse.rollup import Rolled
from inspector.analyse.samples import Samples
from inspector.analyse.scheduling import Consumer, Wait
from inspector.model import Note

CLASSES = ("gpr", "pred", "ugpr", "upred")
"""SASS's classes of registers, as ``nvdisasm -plr`` heads its columns."""


def virtual(counts: Mapping[str, int]) -> int:
    """How many of PTX's virtual registers are live, whatever their size; predicates are not."""
    return sum(count for name, count in counts.items() if name != "pred")


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of one line.

    ``live`` counts live registers at the line itself (PTX, SASS), ``rolled`` is of the SASS that
    came of it (every stage above), ``stall`` is the line's own, in issue cycles. ``samples`` are a
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


@dataclass(frozen=True, slots=True)
class Register:
    """A register of a line: the lines that may define the value it has there, or is given there,
    and the lines that may use that value. All ascending."""

    name: str
    defined: tuple[int, ...] = ()
    used: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of one line.

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
        """Sentence and waits."""
        return ((self.sentence,) if self.sentence else ()) + self.waits


@dataclass(frozen=True, slots=True)
class Explained:
    """What the reference has of one word of a line; ``qualifiers`` are those that stand there."""

    entry: Entry
    qualifiers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Telling:
    """What is told of a listing, by line.

    ``at`` is quick; ``words`` and ``registers`` may take a moment. ``classes`` are the
    registers that are live anywhere, ``stalls`` whether there are control words. ``noted`` are
    the lines that have notes and ``peaks`` those with as many live registers as any, both
    ascending. ``machine``: the counts are of allocated registers; else they are PTX's virtual ones.
    ``allocated``: how many a thread has, None where that is not known. ``sampled`` is how many
    samples a profiler took of the kernel, 0 where there are none to show, and ``hottest`` the
    lines that have a tenth of them or more.
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

    def share(self, n: int) -> float | None:
        """The percentage of the kernel's samples that line ``n`` has, None where it has none."""
        held = self.at(n).samples
        return None if held is None or not self.sampled else 100 * held.all / self.sampled


NOTHING_TOLD = Told()
NO_WORDS = Words()
NOTHING = Telling(lambda n: NOTHING_TOLD, lambda n: NO_WORDS, lambda n: ())
"""Of a listing that nothing is told of."""
