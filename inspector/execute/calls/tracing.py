"""A call's blocks are run and counted: all of them where that is cheap, else some, and said.

Counts are put together by line of the PTX and of the stages that are tied to it, and for hints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inspector.analyse.hints.subject import ExecutedAccess, ExecutedBranch, ExecutedFacts
from inspector.base.errors import Stopped, UsageError
from inspector.execute import (
    Facts,
    Fault,
    LaunchError,
    Observer,
    OutOfBudget,
    Program,
    Trace,
    TraceTooLong,
    execute,
)
from inspector.execute.blocks import BasicBlock
from inspector.execute.calls.inputs import LaunchInputs
from inspector.execute.facts import AccessFacts, LineFacts, MemoryUse, Totals, ValueFacts
from inspector.execute.kinds import Array, Mask, i64, u64
from inspector.execute.lanes import Lanes
from inspector.execute.launch import choose
from inspector.execute.memory import Access

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


SECTOR = 32
WORD = 4
ORDERED = frozenset(("volatile", "acquire", "relaxed", "mmio"))
"""Loads that must be made again: somebody else may have stored."""
MAX_SEEN_ADDRESSES = 4_000_000
"""Addresses of lanes of a chunk that are remembered; beyond them, repetitions are not counted."""
FOLLOWED = 1024
"""Lanes of a chunk of blocks that are followed, whole blocks, at least one: all do alike, and to
follow all would take longer than to run them. With a lane's number of at most 15 bits an address of
48 is one number."""


class Touches(Observer):
    """An observer of accesses to global memory, by the first lanes of each chunk of blocks.

    Accesses of one stretch of code, load or store, whose lanes are within a few sectors of each
    other are taken together: four loads of neighbouring words waste nothing, though each alone
    does.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.together: Counter[int] = Counter()
        self.filled: Counter[int] = Counter()
        self.followed: Counter[int] = Counter()
        self.repeated: Counter[int] = Counter()
        self._lanes: Lanes | None = None
        self._seen: Array = np.empty(0, u64)
        self._stretch: dict[tuple[bool, int], list[tuple[int, Array, Array, int]]] = {}

    def visit(self, lanes: Lanes, block: BasicBlock, mask: Mask) -> None:
        """Another stretch of code begins."""
        self.flush()
        if self._lanes is not lanes:
            self._lanes, self._seen = lanes, np.empty(0, u64)

    def access(self, lanes: Lanes, access: Access) -> None:
        """Lanes read or write memory."""
        if access.space != "global" or access.way.startswith("matrix"):
            return
        row = self.program.code.instructions[access.instruction]
        kind = kind_of(access.way)
        if access.lane is not None:  # the copying unit's, whole tiles
            if kind != "load":
                self._stored(access.address)
            return
        rows = max(1, FOLLOWED // lanes.width)
        keep = lanes.full_mask(access.mask)[:rows]
        if not keep.any():
            return
        address = np.ascontiguousarray(lanes.full(access.address)[:rows][keep]).view(u64)
        lane = np.flatnonzero(keep).astype(u64)
        warp = lane >> u64(5)
        if kind == "load":
            if not ORDERED & set(row.parts):
                self._loaded(row.line, address, lane)
        else:
            self._stored(address)
        # Neighbouring accesses begin within so many bytes of each other, in the first lane.
        near = int(address[0]) // 256
        alike = next(
            (k for k in self._stretch if k[0] == (kind == "load") and abs(k[1] - near) <= 1),
            (kind == "load", near),
        )
        self._stretch.setdefault(alike, []).append((row.line, warp, address, access.nbytes))

    def flush(self) -> None:
        """The stretch of code has ended: what moved together in it is counted."""
        for those in self._stretch.values():
            unit = min(WORD, *(nbytes for _, _, _, nbytes in those))
            moved, wanted = (
                [
                    _pairs(warp, (address + u64(at)) // u64(size))
                    for _, warp, address, nbytes in those
                    for at in range(0, nbytes, size)
                ]
                for size in (SECTOR, unit)
            )
            sectors = len(np.unique(np.concatenate(moved)))
            least = self._least(np.unique(np.concatenate(wanted)), unit)
            for line in {one[0] for one in those}:
                self.together[line] += sectors
                self.filled[line] += least
        self._stretch.clear()

    @staticmethod
    def _least(places: Array, unit: int) -> int:
        """Sectors that the distinct bytes of each warp would fill."""
        _, counts = np.unique(places >> u64(48), return_counts=True)
        return int((-(-counts.astype(i64) * unit // SECTOR)).sum())

    def _loaded(self, line: int, address: Array, lane: Array) -> None:
        self.followed[line] += len(address)
        keys = (lane << u64(48)) | (address & u64((1 << 48) - 1))
        if len(self._seen):
            self.repeated[line] += int(np.isin(keys, self._seen).sum())
        if len(self._seen) < MAX_SEEN_ADDRESSES:
            self._seen = np.union1d(self._seen, keys)

    def _stored(self, address: Array) -> None:
        if len(self._seen):
            places = self._seen & u64((1 << 48) - 1)
            self._seen = self._seen[~np.isin(places, address.astype(u64))]


def _pairs(warp: Array, place: Array) -> Array:
    """A warp and a place as one number."""
    return (warp << u64(48)) | (place & u64((1 << 48) - 1))


def executed_facts(facts: Facts, touches: Touches, ran: int, of: int) -> ExecutedFacts:
    """Input of the hints from ``ran`` of ``of`` blocks."""
    touches.flush()
    totals = facts.totals()
    accesses: list[ExecutedAccess] = []
    branches: list[ExecutedBranch] = []
    for line in facts.lines():
        if line.branches:
            branches.append(ExecutedBranch(line.line, line.branches, line.divergent))
        for one in line.accesses:
            if one.way.startswith(("bulk", "matrix")) or not one.requests:
                continue
            more: dict[str, Any] = {}
            if one.space == "global":
                more = {
                    "sectors": one.sectors,
                    "least_sectors": one.least_sectors,
                    "together": touches.together[line.line],
                    "filled": touches.filled[line.line],
                    "followed": touches.followed[line.line],
                    "repeated": touches.repeated[line.line],
                }
            elif one.space == "shared":
                more = {"wavefronts": one.wavefronts, "least_wavefronts": one.least_wavefronts}
            else:
                continue
            accesses.append(
                ExecutedAccess(
                    line.line, one.space, kind_of(one.way), one.requests, one.lanes, **more
                )
            )
    return ExecutedFacts(
        ran,
        of,
        totals.instructions,
        totals.threads,
        totals.active,
        tuple(accesses),
        tuple(branches),
    )


Triple = tuple[int, int, int]

BUDGET = 1_000_000_000
"""Lane-instructions that a launch may take unless somebody says otherwise: a minute or two."""
CHEAP = 100_000_000
"""Lane-instructions up to which every block is run without being asked: a few seconds."""
MIN_BLOCKS = 8

Wanted = str | int | Sequence[int | Triple]
"""Which blocks: ``auto``, ``all``, so many spread over the grid, or these."""


def parse_sizes(text: str) -> tuple[int, ...]:
    """``1823``, ``64,4``, ``3,1,0``: one to three numbers. Raises ValueError with a sentence."""
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(p.isascii() and p.isdecimal() for p in parts):
        raise ValueError(f"{text} is not one to three whole numbers")
    if any(len(p) > 10 for p in parts):
        raise ValueError(f"{text} is more than any device has")
    return tuple(int(p) for p in parts)


def parse_place(text: str) -> Triple:
    """Coordinates: ``7``, ``3,1,0``; those that are left out are 0. Raises ValueError."""
    x, y, z = (*parse_sizes(text), 0, 0)[:3]
    return x, y, z


@dataclass(frozen=True, slots=True)
class TraceLaunch:
    """What a kernel is launched with beside its arguments; ``shared`` are dynamic bytes a block."""

    grid: Triple
    block: Triple
    shared: int = 0

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]


@dataclass(slots=True)
class TracedLaunch:
    """What happened. ``ran`` of ``launch.blocks`` blocks; ``work`` in lane-instructions.

    ``sampled``: blocks were left out because all would have taken long. ``fault`` or ``spent`` is
    what ended it; what ``facts`` have until then is not the whole of the blocks that were begun,
    and ``ran`` is None.
    """

    program: Program
    launch: TraceLaunch
    inputs: LaunchInputs
    facts: Facts
    touches: Touches
    ran: int | None = 0
    work: int = 0
    sampled: bool = False
    printed: list[str] = field(default_factory=list)
    """What lanes said by printf, one text a call, of groups of blocks that came to their end."""
    fault: Fault | None = None
    spent: OutOfBudget | None = None

    @property
    def executed(self) -> ExecutedFacts | None:
        """Input of the hints; None if the launch did not end normally."""
        if not self.ran:
            return None
        return executed_facts(self.facts, self.touches, self.ran, self.launch.blocks)


def trace_launch(
    program: Program,
    launch: TraceLaunch,
    make: Callable[[], LaunchInputs],
    *,
    blocks: Wanted = "auto",
    budget: int = BUDGET,
    cheap: int = CHEAP,
    values: bool = True,
    stop: Stop | None = None,
) -> TracedLaunch:
    """Runs a launch and counts what happens at each line.

    ``make`` gives new inputs each time that it is called; ``values``: also what registers
    held, which takes longer. Raises CannotRun before anything is run, LaunchError for a launch that
    no device would take, Stopped where ``stop`` says so; a fault and a budget that is spent are
    results.
    """
    program.check()
    if blocks != "auto":
        wanted: int | Sequence[int | Triple] | None = None
        if not isinstance(blocks, str):
            wanted = blocks
        chosen = choose(launch.grid, wanted).tolist()
        return _Runner(program, launch, make(), budget, values, stop).run(chosen)
    total = launch.blocks
    first = total // 2
    runner = _Runner(program, launch, make(), budget, values, stop)
    begun = runner.run([first])
    if begun.fault is not None and begun.fault.cause == "deadlock" and total > 1:
        # It waits for blocks that were not run: only all of them together come to an end.
        return _Runner(program, launch, make(), budget, values, stop).run(range(total))
    if begun.ran is None or total == 1:
        return begun
    each = max(1, begun.work)
    if each * total <= cheap:
        rest = [n for n in range(total) if n != first]
    else:
        count = max(MIN_BLOCKS, cheap // each)
        begun.sampled = count < total
        rest = [n for n in choose(launch.grid, count - 1).tolist() if n != first]
    return runner.run(rest)


def _never() -> bool:
    return False


class _Runner:
    """Runs blocks of one launch, a group after the other, and counts them together."""

    def __init__(
        self,
        program: Program,
        launch: TraceLaunch,
        inputs: LaunchInputs,
        budget: int,
        values: bool,
        stop: Stop | None,
    ) -> None:
        self.budget = budget
        facts, touches = Facts(program, values=values), Touches(program)
        self.out = TracedLaunch(program, launch, inputs, facts, touches)
        self.observer: Observer = ObserverGroup((facts, touches), stop or _never)

    def run(self, numbers: Sequence[int]) -> TracedLaunch:
        """Runs these blocks after those that were run before."""
        out = self.out
        launch = out.launch
        try:
            done = execute(
                out.program,
                launch.grid,
                launch.block,
                out.inputs.arguments,
                memory=out.inputs.memory,
                shared=launch.shared,
                blocks=list(numbers),
                budget=self.budget - out.work,
                observer=self.observer,
            )
        except Fault as fault:
            out.fault, out.ran = fault, None
            return out
        except OutOfBudget as spent:
            out.spent, out.ran, out.work = spent, None, self.budget
            return out
        out.work += done.work
        out.printed += done.printed
        out.ran = (out.ran or 0) + done.ran
        return out


# -- several observers -----------------------------------------------------------------------------


Stop = Callable[[], bool]
"""Whether what is under way is to end."""


class ObserverGroup(Observer):
    """An observer that tells several others what happens, and ends it where ``stop`` says so.

    Raises Stopped between two instructions. ``steps`` counts them.
    """

    def __init__(self, observers: Sequence[Observer], stop: Stop) -> None:
        self.observers, self.stop, self.steps = observers, stop, 0

    def visit(self, lanes: Lanes, block: BasicBlock, mask: Mask) -> None:
        for one in self.observers:
            one.visit(lanes, block, mask)

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        if self.stop():
            raise Stopped("it was stopped")
        self.steps += 1
        for one in self.observers:
            one.step(lanes, instruction, mask)

    def wrote(
        self, lanes: Lanes, instruction: int, register: int, value: Array, mask: Mask
    ) -> None:
        for one in self.observers:
            one.wrote(lanes, instruction, register, value, mask)

    def branched(self, lanes: Lanes, instruction: int, yes: Mask, no: Mask) -> None:
        for one in self.observers:
            one.branched(lanes, instruction, yes, no)

    def access(self, lanes: Lanes, access: Access) -> None:
        for one in self.observers:
            one.access(lanes, access)


# -- one block -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TracedBlock:
    """A block's steps. ``ended`` says why it did not come to its end, None where it did.

    ``facts`` count what it did, if that was asked for. ``fault`` is what a GPU would end it for:
    the last step is the one that faulted.
    """

    block: Triple
    trace: Trace
    inputs: LaunchInputs
    facts: Facts | None = None
    fault: Fault | None = None
    ended: str | None = None


def trace_block(
    program: Program,
    launch: TraceLaunch,
    inputs: LaunchInputs,
    block: Triple,
    *,
    budget: int,
    trace: Trace | None = None,
    facts: Facts | None = None,
    stop: Stop | None = None,
) -> TracedBlock:
    """Runs one block and keeps its steps, in ``trace`` with its bounds if one is given.

    A fault, a budget that is spent, a bound that is met and a stop are results: what came before
    is there. Raises CannotRun before anything is run, and UsageError for a launch that no device
    would take or a block that it has not.
    """
    program.check()
    trace = trace or Trace(program)
    observers: list[Observer] = [trace] if facts is None else [trace, facts]
    observer: Observer = trace
    if facts is not None or stop is not None:
        observer = ObserverGroup(observers, stop or _never)
    fault: Fault | None = None
    ended: str | None = None
    try:
        execute(
            program,
            launch.grid,
            launch.block,
            inputs.arguments,
            memory=inputs.memory,
            shared=launch.shared,
            blocks=[block],
            budget=budget,
            observer=observer,
        )
    except LaunchError as error:
        raise UsageError(error.message, error.hint) from None
    except Fault as error:
        fault, ended = error, error.message
    except (OutOfBudget, TraceTooLong, Stopped) as error:
        ended = f"{error.message}; the steps before that are here"
    return TracedBlock(block, trace, inputs, facts, fault, ended)
