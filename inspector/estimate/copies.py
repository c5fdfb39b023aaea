"""What a block's warps do with mbarriers, in the order in which it was executed.

The simulation takes it from here which copy a wait is for: a phase of an mbarrier is over once all
that arrived at it, or was copied for it, in the executed block has done so in the simulated one.
"""

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from inspector.execute.blocks import BasicBlock
from inspector.execute.kinds import Array, Mask
from inspector.execute.lanes import Lanes
from inspector.execute.memory import AsynchronousAccess, OrderObserver
from inspector.execute.program import Program

WARP = 32
MAX_ROLES = 6
WAITS = 0
"""The place of a line in the keys of a warp's waits, whose machine code is tied to no line of PTX:
the waits of a warp are in one order."""


class BarrierEvent(NamedTuple):
    """An arrival, a copy of ``nbytes`` or a wait; ``barrier`` is an mbarrier's offset in shared
    memory, ``phase`` its number, from 0. A wait for the phase before the first has -1."""

    barrier: int
    phase: int
    nbytes: int = 0


class CopyLog(OrderObserver):
    """An observer of the mbarriers and bulk copies of one block, by its number.

    ``events`` and ``sends`` (bytes of copies from shared memory) are by warp and line of PTX, in
    their order; ``needed`` counts what each phase of an mbarrier waits for.
    """

    def __init__(self, program: Program, number: int) -> None:
        self.program = program
        self.number = number
        self.events: dict[tuple[int, int], list[BarrierEvent]] = defaultdict(list)
        self.sends: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.needed: Counter[tuple[int, int]] = Counter()
        self._executed: Counter[tuple[int, int]] = Counter()
        """How often each warp came to each line of PTX."""
        self._warps = 0
        self._phases: Counter[int] = Counter()
        """How many phases of each mbarrier are over."""
        self._row = -1

    def visit(self, lanes: Lanes, block: BasicBlock, mask: Mask) -> None:
        numbers = lanes.numbers.tolist()
        self._row = numbers.index(self.number) if self.number in numbers else -1
        self._warps = lanes.width // WARP

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        if self._row >= 0:
            line = self.program.code.instructions[instruction].line
            running = np.flatnonzero(lanes.mask_warps(mask)[self._row].any(1))
            self._executed.update((warp, line) for warp in running.tolist())

    def groups(self) -> list[tuple[list[int], dict[int, float]]]:
        """The warps that came to the same lines as often as each other, and how often that was.

        Empty where warps have no roles: all wait for the same mbarriers, or there are so many
        groups that data says where a warp goes.
        """
        waits: dict[int, set[int]] = {warp: set() for warp in range(self._warps)}
        for (warp, line), events in self.events.items():
            if line == WAITS:
                waits[warp].update(event.barrier for event in events)
        if len({frozenset(barriers) for barriers in waits.values()}) < 2:
            return []
        lines = sorted({row.line for row in self.program.code.instructions})
        groups: dict[tuple[float, ...], list[int]] = {}
        for warp in range(self._warps):
            counts = tuple(float(self._executed[warp, line]) for line in lines)
            groups.setdefault(counts, []).append(warp)
        if len(groups) > MAX_ROLES:
            return []
        return [(warps, dict(zip(lines, counts, strict=True))) for counts, warps in groups.items()]

    def mbarrier(
        self, lanes: Lanes, way: str, instruction: int, rows: Array, offsets: Array, threads: Array
    ) -> None:
        own = rows == self._row
        if way == "complete":
            self._phases.update(offsets[own].tolist())
            return
        if way not in ("arrive", "wait"):
            return
        line = self.program.code.instructions[instruction].line
        warps = threads[own] % lanes.width // WARP
        places = np.stack([warps, offsets[own]], 1)
        for warp, barrier in np.unique(places, axis=0).tolist():
            phase = self._phases[barrier] - (way == "wait")
            if way == "wait":
                self.events[warp, WAITS].append(BarrierEvent(barrier, phase))
            else:
                self.events[warp, line].append(BarrierEvent(barrier, phase))
                self.needed[barrier, phase] += 1

    def asynchronous(self, lanes: Lanes, access: AsynchronousAccess) -> None:
        row = self.program.code.instructions[access.instruction]
        if access.row != self._row or row.base != "cp":
            return
        nbytes = access.address.size * access.nbytes
        if access.mbarrier is None:
            self.sends[access.warp, row.line].append(nbytes)
        elif access.way == "store":
            barrier = access.mbarrier[1]
            phase = self._phases[barrier]
            self.events[access.warp, row.line].append(BarrierEvent(barrier, phase, nbytes))
            self.needed[barrier, phase] += 1
