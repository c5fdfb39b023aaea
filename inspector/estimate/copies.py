"""What a cluster's warps do with mbarriers, in the order in which it was executed.

The simulation takes it from here which copy a wait is for: a phase of an mbarrier is over once all
that arrived at it, or was copied for it, in the executed cluster has done so in the simulated one.
A block that is in no cluster is one of its own.
"""

from collections import Counter, defaultdict
from typing import NamedTuple, TypeVar

import numpy as np

from inspector.execute.blocks import BasicBlock
from inspector.execute.kinds import Array, Mask
from inspector.execute.lanes import Lanes
from inspector.execute.memory import RANK_SHIFT, AsynchronousAccess, OrderObserver
from inspector.execute.program import Program

WARP = 32
OFFSETS = (1 << RANK_SHIFT) - 1
MAX_ROLES = 12
"""Of a block; where there are more, data says where a warp goes."""
ARRIVING = ("cp", "st", "red")
"""Instructions that report to an mbarrier what they have stored."""
WAITS = 0
"""The place of a line in the keys of a warp's waits, whose machine code is tied to no line of PTX:
the waits of a warp are in one order."""


class BarrierEvent(NamedTuple):
    """An arrival, a copy of ``nbytes`` or a wait; ``barrier`` is an mbarrier's address in the
    cluster (its offset in shared memory, above it the rank of its block), ``phase`` its number,
    from 0. A wait for the phase before the first has -1."""

    barrier: int
    phase: int
    nbytes: int = 0


Place = TypeVar("Place", int, Array)


class CopyLog(OrderObserver):
    """An observer of the mbarriers and bulk copies of the cluster that a block is in.

    Its warps are numbered by the ranks of their blocks. ``events`` (of each execution) and
    ``sends`` (bytes of copies from shared memory) are by warp and line of PTX, in their order;
    ``needed`` counts what each phase of an mbarrier waits for.
    """

    def __init__(self, program: Program, number: int) -> None:
        self.program = program
        self.number = number
        self.events: dict[tuple[int, int], list[list[BarrierEvent]]] = defaultdict(list)
        self.sends: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.needed: Counter[tuple[int, int]] = Counter()
        self.size = 1
        """Blocks of the cluster."""
        self.warps = 0
        """Warps of a block."""
        self._executed: Counter[tuple[int, int]] = Counter()
        """How often each warp came to each line of PTX."""
        self._latest: dict[tuple[int, int], int] = {}
        """Which execution of a warp's line the last of its ``events`` are of."""
        self._phases: Counter[int] = Counter()
        """How many phases of each mbarrier are over."""
        self._rows = range(0)
        """The rows of the cluster's blocks."""

    def visit(self, lanes: Lanes, block: BasicBlock, mask: Mask) -> None:
        numbers = lanes.numbers.tolist()
        self.size = lanes.cluster_size
        self.warps = lanes.width // WARP
        row = numbers.index(self.number) if self.number in numbers else -1
        first = row - row % self.size
        self._rows = range(first, first + self.size) if row >= 0 else range(0)

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        if self._rows:
            line = self.program.code.instructions[instruction].line
            of_cluster = lanes.mask_warps(mask)[self._rows.start : self._rows.stop]
            running = np.flatnonzero(of_cluster.any(2))
            self._executed.update((warp, line) for warp in running.tolist())

    def groups(self) -> list[tuple[list[int], dict[int, float]]]:
        """The warps that came to the same lines as often as each other, and how often that was.

        Empty where warps have no roles: all wait for the same mbarriers of their block, or there
        are so many groups that data says where a warp goes.
        """
        all_warps = range(self.size * self.warps)
        waits: dict[int, set[int]] = {warp: set() for warp in all_warps}
        for (warp, line), executions in self.events.items():
            if line == WAITS:
                offsets = (event.barrier & OFFSETS for events in executions for event in events)
                waits[warp].update(offsets)
        if len({frozenset(barriers) for barriers in waits.values()}) < 2:
            return []
        lines = sorted({row.line for row in self.program.code.instructions})
        groups: dict[tuple[float, ...], list[int]] = {}
        for warp in all_warps:
            counts = tuple(float(self._executed[warp, line]) for line in lines)
            groups.setdefault(counts, []).append(warp)
        if len(groups) > MAX_ROLES * self.size:
            return []
        return [(warps, dict(zip(lines, counts, strict=True))) for counts, warps in groups.items()]

    def mbarrier(
        self, lanes: Lanes, way: str, instruction: int, rows: Array, offsets: Array, threads: Array
    ) -> None:
        own = (rows >= self._rows.start) & (rows < self._rows.stop)
        barriers = self._barrier(rows[own], offsets[own])
        if way == "complete":
            self._phases.update(barriers.tolist())
            return
        if way not in ("arrive", "wait"):
            return
        line = self.program.code.instructions[instruction].line
        warps = threads[own] // WARP - self._rows.start * self.warps
        for warp, barrier in np.unique(np.stack([warps, barriers], 1), axis=0).tolist():
            phase = self._phases[barrier] - (way == "wait")
            if way == "wait":
                self.events[warp, WAITS].append([BarrierEvent(barrier, phase)])
            else:
                self._add(warp, line, BarrierEvent(barrier, phase))

    def asynchronous(self, lanes: Lanes, access: AsynchronousAccess) -> None:
        row = self.program.code.instructions[access.instruction]
        if access.issuer not in self._rows or row.base not in ARRIVING:
            return
        nbytes = access.address.size * access.nbytes
        warp = (access.issuer - self._rows.start) * self.warps + access.warp
        if access.mbarrier is None:
            self.sends[warp, row.line].append(nbytes)
        elif access.way != "load":
            barrier = self._barrier(*access.mbarrier)
            self._add(warp, row.line, BarrierEvent(barrier, self._phases[barrier], nbytes))

    def _barrier(self, row: Place, offset: Place) -> Place:
        """The address in the cluster of an mbarrier at an offset of a row's block."""
        return ((row - self._rows.start) << RANK_SHIFT) + offset

    def _add(self, warp: int, line: int, event: BarrierEvent) -> None:
        """An arrival or a copy, with the others of the same execution of its line."""
        executions = self.events[warp, line]
        execution = self._executed[warp, line]
        if self._latest.get((warp, line)) != execution:
            executions.append([])
        self._latest[warp, line] = execution
        executions[-1].append(event)
        self.needed[event.barrier, event.phase] += 1
