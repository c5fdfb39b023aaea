"""What was executed, by line of the PTX and of the stages that are tied to it, and in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from inspector.execute import Facts
from inspector.execute.facts import AccessFacts, LineFacts, MemoryUse, Totals, ValueFacts

GLOBAL = ("global", "const")
SHARED = ("shared",)
NOT_CLASSED = "not classed"

Cost = Callable[[str], str | None]
"""The class of an opcode of PTX (``memory``, ``arithmetic`` …), None if it is not known."""


def memory_use(
    accesses: Iterable[AccessFacts], spaces: tuple[str, ...], kind: str | None = None
) -> MemoryUse | None:
    """The accesses of some spaces in sum, those of one kind (see ``kind_of``) alone if it is given;
    None if unknown."""
    those = [a for a in accesses if a.space in spaces and kind in (None, kind_of(a.way))]
    if not those:
        return None
    return MemoryUse.total(those)


def kind_of(way: str) -> str:
    """``load``, ``store`` or ``atomic``: the kind of an access of any instruction."""
    last = way.rsplit(" ", 1)[-1]
    return "load" if last == "matrix" else last


@dataclass(frozen=True, slots=True)
class ExecutedLine:
    """One line of a stage: of the PTX itself, or what the PTX that is tied to it comes to.

    ``executed`` counts warps, ``threads`` the lanes that came, ``active`` those that ran it.
    ``ptx`` are the lines of PTX that were taken together. ``values`` are known of PTX alone.
    """

    n: int
    ptx: tuple[int, ...]
    executed: int
    threads: int
    active: int
    branches: int
    divergent: int
    accesses: tuple[AccessFacts, ...] = ()
    values: tuple[ValueFacts, ...] = ()

    @property
    def lanes_per_warp(self) -> float | None:
        """Lanes that ran it of a warp's 32, on average; None where no warp came."""
        return self.active / self.executed if self.executed else None

    @property
    def predicated_off(self) -> float | None:
        """The share of lanes that came and did not run it; None where none came."""
        return 1 - self.active / self.threads if self.threads else None

    def use(self, spaces: tuple[str, ...], kind: str | None = None) -> MemoryUse | None:
        """What it asked of some spaces."""
        return memory_use(self.accesses, spaces, kind)

    @property
    def requests(self) -> int | None:
        """Requests of warps to memory of any space, but those of a copy from one to another once;
        None where it accesses none."""
        if not self.accesses:
            return None
        of_global = self.use(GLOBAL)
        if of_global is not None:
            return of_global.requests
        return sum(a.requests for a in self.accesses)


def executed_lines(facts: Facts) -> tuple[ExecutedLine, ...]:
    """Every line of PTX that has an instruction, in order; those that were not reached too."""
    return tuple(_line(f.line, (f,), tuple(f.values)) for f in facts.lines())


def rolled_up(facts: Facts, links: Mapping[int, tuple[int, ...]]) -> tuple[ExecutedLine, ...]:
    """The lines of another stage that ``links`` tie lines of the PTX to, in order.

    A line of PTX that is tied to several counts on each.
    """
    by_line: dict[int, list[LineFacts]] = {}
    for one in facts.lines():
        for n in links.get(one.line, ()):
            by_line.setdefault(n, []).append(one)
    return tuple(_line(n, by_line[n]) for n in sorted(by_line))


def _line(n: int, those: Iterable[LineFacts], values: tuple[ValueFacts, ...] = ()) -> ExecutedLine:
    each = tuple(those)
    return ExecutedLine(
        n,
        tuple(f.line for f in each),
        sum(f.executed for f in each),
        sum(f.threads for f in each),
        sum(f.active for f in each),
        sum(f.branches for f in each),
        sum(f.divergent for f in each),
        tuple(a for f in each for a in f.accesses),
        values,
    )


@dataclass(frozen=True, slots=True)
class ExecutedTotals:
    """All lines together; ``classes`` are warp instructions by the class of their opcode."""

    totals: Totals
    classes: Mapping[str, int]
    accesses: tuple[AccessFacts, ...]

    def use(self, spaces: tuple[str, ...], kind: str | None = None) -> MemoryUse:
        """Requests to some spaces."""
        return memory_use(self.accesses, spaces, kind) or MemoryUse()


def executed_totals(facts: Facts, cost: Cost) -> ExecutedTotals:
    """The blocks that were run, as a whole."""
    totals = facts.totals()
    classes: Counter[str] = Counter()
    for opcode, count in totals.opcodes.items():
        classes[cost(opcode) or NOT_CLASSED] += count
    accesses = tuple(a for line in facts.lines() for a in line.accesses)
    return ExecutedTotals(totals, dict(classes.most_common()), accesses)
