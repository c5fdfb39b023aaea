"""Reversible steps of one thread block."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from inspector.base.errors import PtxviewError
from inspector.execute.access import Access, Observer
from inspector.execute.blocks import BasicBlock, register_kinds
from inspector.execute.facts import as_values
from inspector.execute.kinds import Array, Mask
from inspector.execute.lanes import Lanes
from inspector.execute.program import Program


class Touched(NamedTuple):
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
    touched: list[Touched] = field(default_factory=list)


STEP_BYTES, CHANGE_BYTES, TOUCHED_BYTES = 270, 300, 400
"""What Python needs for a step, a register that it wrote and an access, beside their arrays."""


class TraceTooLong(PtxviewError):
    """A block has more steps than a trace was allowed to keep."""


class Trace(Observer):
    """An observer that keeps every step of a launch of one block.

    ``most_steps`` and ``most_bytes`` bound what is kept; beyond them TraceTooLong is raised.
    """

    def __init__(
        self, program: Program, *, most_steps: int = 1_000_000, most_bytes: int = 1 << 30
    ) -> None:
        self.program = program
        self.most_steps, self.most_bytes = most_steps, most_bytes
        self.steps: list[TraceStep] = []
        self.kinds = register_kinds(program.code, program.blocks.carry)
        self.kept_bytes = 0
        self.lanes: Lanes | None = None
        self._history: dict[int, tuple[list[int], list[Array]]] = {}

    # -- what the machine tells ------------------------------------------------------------------

    def visit(self, lanes: Lanes, block: BasicBlock, mask: Mask) -> None:
        if lanes.blocks != 1:
            raise PtxviewError("A trace is of one thread block, and more were run.")
        self.lanes = lanes

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        line = self.program.code.instructions[instruction].line
        active = lanes.full_mask(mask)[0, : lanes.threads]
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
        kept = value[0, : lanes.threads].copy() if value.shape[1] > 1 else value[0].copy()
        self._spend(CHANGE_BYTES + kept.nbytes)
        self.steps[-1].changes.append((register, kept))
        places, values = self._history.setdefault(register, ([], []))
        places.append(len(self.steps) - 1)
        values.append(kept)

    def access(self, lanes: Lanes, access: Access) -> None:
        if access.way.startswith("matrix") or access.lane is not None:
            address = access.address.reshape(-1).copy()
            values = tuple(v.copy() for v in access.values)
        else:
            keep = lanes.full_mask(access.mask)[0]
            address = lanes.full(access.address)[0][keep]
            values = tuple(lanes.full(v)[0][keep] for v in access.values)
        self._spend(TOUCHED_BYTES + address.nbytes + sum(v.nbytes for v in values))
        self.steps[-1].touched.append(
            Touched(access.way, access.space, address, access.nbytes, values)
        )

    def _spend(self, nbytes: int) -> None:
        self.kept_bytes += nbytes
        if self.kept_bytes > self.most_bytes:
            raise TraceTooLong(
                f"{self.program.name}: the steps of a block take more than "
                f"{self.most_bytes >> 20:,} MiB"
            )

    # -- what is read of it ----------------------------------------------------------------------

    def bits(self, register: int, step: int) -> Array | None:
        """A register's bits by thread after a step; None where nothing has written it yet."""
        history = self._history.get(register)
        if history is None:
            return None
        at = bisect_right(history[0], step) - 1
        if at < 0:
            return None
        kept = history[1][at]
        threads = 1 if self.lanes is None else self.lanes.threads
        return np.broadcast_to(kept, (threads,)) if kept.size == 1 else kept

    def values(self, register: int, step: int) -> Array | None:
        """A register's values by thread after a step, in the type that it is used as."""
        bits = self.bits(register, step)
        return None if bits is None else as_values(np.ascontiguousarray(bits), self.kinds[register])

    def writer(self, register: int, step: int) -> int | None:
        """The step that wrote a register last, up to a step; None if none has yet."""
        places = self._history[register][0] if register in self._history else []
        at = bisect_right(places, step)
        return places[at - 1] if at else None

    def written(self, step: int) -> dict[int, int]:
        """The registers that were written up to a step, each with the step that did it last."""
        out: dict[int, int] = {}
        for register, (places, _) in self._history.items():
            at = bisect_right(places, step) - 1
            if at >= 0:
                out[register] = places[at]
        return out

    def first_nan(self, after: int = -1) -> int | None:
        """The first step that wrote a NaN in a thread that ran it."""

        def has_nan(step: TraceStep) -> bool:
            for register, bits in step.changes:
                if self.kinds[register][0] not in "fb" or bits.dtype == bool:
                    continue
                values = as_values(bits, self.kinds[register])
                if values.dtype.kind == "f" and np.isnan(values).any():
                    if bits.size == 1:
                        return bool(step.active.any())
                    nan = np.isnan(values).reshape(bits.size, -1).any(1)
                    if (nan & step.active).any():
                        return True
            return False

        return self._first(after, has_nan)

    def parting(self, first: int, second: int, after: int = -1) -> int | None:
        """The first step that one of two threads runs and the other does not."""
        return self._first(after, lambda step: bool(step.active[first] != step.active[second]))

    def store_to(self, address: int, after: int = -1, space: str = "global") -> int | None:
        """The first step that stores to a byte of memory."""

        def stores(step: TraceStep) -> bool:
            for one in step.touched:
                if one.way.endswith(("store", "atomic")) and one.space == space:
                    begin = one.address.astype(object)
                    if any(a <= address < a + one.nbytes for a in begin.tolist()):
                        return True
            return False

        return self._first(after, stores)

    def _first(self, after: int, wanted: object) -> int | None:
        assert callable(wanted)
        for n in range(after + 1, len(self.steps)):
            if wanted(self.steps[n]):
                return n
        return None
