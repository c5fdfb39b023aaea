"""The reversible steps of one block: an observer that keeps them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from inspector.base.errors import PtxviewError
from inspector.execute.blocks import BasicBlock, register_kinds
from inspector.execute.facts import as_values
from inspector.execute.kinds import Array, Mask
from inspector.execute.lanes import Lanes
from inspector.execute.memory import Access, Observer
from inspector.execute.program import Program


class StepAccess(NamedTuple):
    """Memory that a step read or wrote: addresses by thread, of those that ran it."""

    way: str
    space: str
    address: Array
    nbytes: int
    values: tuple[Array, ...]


@dataclass(slots=True)
class TraceStep:
    """One instruction of one block, by some of its threads.

    ``active`` is by thread, ``changes`` are the registers written, by number: their bits by
    thread, or one value where all threads have it.
    """

    instruction: int
    line: int
    active: Array
    changes: list[tuple[int, Array]] = field(default_factory=list)
    accesses: list[StepAccess] = field(default_factory=list)


STEP_BYTES = 270
CHANGE_BYTES = 300
ACCESS_BYTES = 400
"""What Python needs for a step, a register that it wrote and an access, beside their arrays."""


class TraceTooLong(PtxviewError):
    """A block has more steps than a trace was allowed to keep."""


class Trace(Observer):
    """An observer that keeps every step of a launch of one block.

    In a launch of one cluster, that is block ``number``. ``most_steps`` and ``most_bytes`` bound
    what is kept; beyond them TraceTooLong is raised.
    """

    def __init__(
        self,
        program: Program,
        *,
        most_steps: int = 1_000_000,
        most_bytes: int = 1 << 30,
        number: int | None = None,
    ) -> None:
        self.number = number
        self.program = program
        self.most_steps = most_steps
        self.most_bytes = most_bytes
        self.steps: list[TraceStep] = []
        self.kinds = register_kinds(program.code, program.blocks.carry)
        self.kept_bytes = 0
        self.lanes: Lanes | None = None
        self._row = 0
        self._is_there = True
        """Whether lanes of the block are among those that run."""
        self._warps: Array = np.zeros(0, bool)
        """Of the warps that run the step, those of the block."""
        self._writes: dict[int, list[int]] = {}
        """The steps that wrote each register."""

    def visit(self, lanes: Lanes, block: BasicBlock, mask: Mask) -> None:
        if lanes.blocks != lanes.cluster_size:
            raise PtxviewError("A trace is of one thread block, and more were run.")
        if self.lanes is not lanes and lanes.blocks > 1:
            self._row = lanes.numbers.tolist().index(self.number)
        self.lanes = lanes
        self._is_there = bool(lanes.full_mask(mask)[self._row].any())

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        if not self._is_there:
            return
        line = self.program.code.instructions[instruction].line
        active = lanes.full_mask(mask)[self._row, : lanes.threads]
        running = lanes.mask_warps(mask).any(2)
        self._warps = np.broadcast_to(lanes.row == self._row, running.shape)[running]
        last = self.steps[-1].active if self.steps else None
        if last is not None and np.array_equal(last, active):
            active = last
        else:
            active = active.copy()
            self._spend(active.nbytes)
        self._spend(STEP_BYTES)
        self.steps.append(TraceStep(instruction, line, active))
        if len(self.steps) > self.most_steps:
            raise TraceTooLong(
                f"{self.program.name}: a block takes more than {self.most_steps:,} steps"
            )

    def wrote(
        self, lanes: Lanes, instruction: int, register: int, value: Array, mask: Mask
    ) -> None:
        if not self._is_there:
            return
        bits = value[self._row if value.shape[0] > 1 else 0]
        lane_bits = bits[: lanes.threads].copy()
        self._spend(CHANGE_BYTES + lane_bits.nbytes)
        self.steps[-1].changes.append((register, lane_bits))
        self._writes.setdefault(register, []).append(len(self.steps) - 1)

    def access(self, lanes: Lanes, access: Access) -> None:
        if not self._is_there:
            return
        if access.lane is not None:
            if access.lane[0] != self._row:
                return
            address = access.address.reshape(-1).copy()
            values = tuple(v.copy() for v in access.values)
        elif access.way.startswith("matrix"):
            address = access.address[self._warps].reshape(-1)
            values = ()
        else:
            keep = lanes.full_mask(access.mask)[self._row]
            address = lanes.full(access.address)[self._row][keep]
            values = tuple(lanes.full(v)[self._row][keep] for v in access.values)
        if lanes.blocks > 1 and not len(address):
            return  # another block's
        self._spend(ACCESS_BYTES + address.nbytes + sum(v.nbytes for v in values))
        self.steps[-1].accesses.append(
            StepAccess(access.way, access.space, address, access.nbytes, values)
        )

    def _spend(self, nbytes: int) -> None:
        self.kept_bytes += nbytes
        if self.kept_bytes > self.most_bytes:
            raise TraceTooLong(
                f"{self.program.name}: the steps of a block take more than "
                f"{self.most_bytes >> 20:,} MiB"
            )

    def bits(self, register: int, step: int) -> Array | None:
        """A register's bits by thread after a step; None where nothing has written it yet."""
        if (writer := self.writer(register, step)) is None or self.lanes is None:
            return None
        lane_bits = dict(self.steps[writer].changes)[register]
        return (
            np.broadcast_to(lane_bits, (self.lanes.threads,)) if lane_bits.size == 1 else lane_bits
        )

    def values(self, register: int, step: int) -> Array | None:
        """A register's values by thread after a step, in the type that it is used as."""
        bits = self.bits(register, step)
        return None if bits is None else as_values(np.ascontiguousarray(bits), self.kinds[register])

    def writer(self, register: int, step: int) -> int | None:
        """The step that wrote a register last, up to a step; None if none has yet."""
        places = self._writes.get(register, [])
        count = bisect_right(places, step)
        return places[count - 1] if count else None

    def written(self) -> list[int]:
        return sorted(self._writes)

    def first_nan(self, after_step: int = -1) -> int | None:
        """The first step that wrote a NaN in a thread that ran it."""
        return self._first(after_step, self._has_nan)

    def parting(self, first: int, second: int, after_step: int = -1) -> int | None:
        """The first step that one of two threads runs and the other does not."""
        return self._first(after_step, lambda step: bool(step.active[first] != step.active[second]))

    def store_to(self, address: int, after_step: int = -1) -> int | None:
        """The first step that stores to a byte of global memory."""

        def stores(step: TraceStep) -> bool:
            for access in step.accesses:
                if access.space == "global" and access.way.endswith(("store", "atomic")):
                    starts = access.address.tolist()
                    if any(first <= address < first + access.nbytes for first in starts):
                        return True
            return False

        return self._first(after_step, stores)

    def _has_nan(self, step: TraceStep) -> bool:
        for register, bits in step.changes:
            if self.kinds[register][0] in "fb" and bits.dtype != bool:
                values = as_values(bits, self.kinds[register])
                nan = values != values
                if (nan.reshape(bits.size, -1).any(1) & step.active).any():
                    return True
        return False

    def _first(self, after_step: int, condition: Callable[[TraceStep], bool]) -> int | None:
        return next(
            (n for n in range(after_step + 1, len(self.steps)) if condition(self.steps[n])), None
        )
