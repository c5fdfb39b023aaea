"""A launch: every thread block, or some of them, a chunk at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inspector.execute.access import Observer
from inspector.execute.faults import Fault, LaunchError, OutOfBudget
from inspector.execute.kinds import Array, i64
from inspector.execute.lanes import Lanes, Triple
from inspector.execute.machine import Machine, Work
from inspector.execute.memory import Memory
from inspector.execute.program import Argument, Program

CHUNK = 32_768
"""Lanes that run at once: enough that numpy's own cost is small, few enough for the caches."""
CHUNK_BYTES = 1 << 28
"""Most shared and local memory of a chunk."""
MAX_BLOCKS = 1 << 31
MAX_SHARED_BYTES, MAX_LOCAL_BYTES = 1 << 18, 1 << 19
"""Bytes a block and a thread; no device has more (CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability")."""

Chosen = int | Sequence[int | Sequence[int]] | None
"""Which blocks to run: all, so many spread over the grid, or these (numbers or coordinates)."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What a launch did.

    ``ran`` of ``blocks`` thread blocks were run. ``work`` is in lane-instructions, ``cost`` what of
    a budget it took. ``written`` are the names of the buffers that something was stored to;
    ``printed`` is what lanes said by printf, one text a call.
    """

    kernel: str
    grid: Triple
    block: Triple
    blocks: int
    ran: int
    work: int
    written: tuple[str, ...]
    printed: tuple[str, ...] = ()
    cost: int = 0


def execute(
    program: Program,
    grid: Sequence[int],
    block: Sequence[int],
    arguments: Sequence[Argument],
    *,
    memory: Memory,
    shared: int = 0,
    blocks: Chosen = None,
    budget: int | None = None,
    observer: Observer | None = None,
    chunk: int = CHUNK,
) -> Execution:
    """Runs a kernel on ``memory``.

    ``grid`` and ``block`` have one to three dimensions; ``shared`` is the launch's dynamic shared
    memory in bytes, ``budget`` the most lane-instructions (an instruction costs at least
    ``machine.MIN_LANES_COST``), ``chunk`` the lanes that run at once.

    Raises CannotRun before anything is written; LaunchError where no device would take the launch;
    Fault for what a GPU would end it for, and for what would never end; OutOfBudget.
    """
    program.check()
    sizes = _triple(grid, "grid"), _triple(block, "block")
    threads = sizes[1][0] * sizes[1][1] * sizes[1][2]
    if threads > 1024:
        raise LaunchError(f"{program.name}: a block of {threads:,} threads, of at most 1,024")
    if program.required_block is not None and program.required_block != sizes[1]:
        raise LaunchError(
            f"{program.name} demands blocks of {program.required_block} threads, not {sizes[1]}"
        )
    bytes_shared = program.shared_bytes(shared)
    if bytes_shared > MAX_SHARED_BYTES or program.local_size > MAX_LOCAL_BYTES:
        raise LaunchError(
            f"{program.name}: {bytes_shared:,} bytes of shared memory a block and "
            f"{program.local_size:,} of local memory a thread, of at most {MAX_SHARED_BYTES:,} and "
            f"{MAX_LOCAL_BYTES:,}"
        )
    parameters = program.pack(arguments)
    numbers = choose(sizes[0], blocks)
    launch = _Launch(program, sizes, numbers, parameters, shared, memory, budget, observer)
    memory.written.clear()
    try:
        with np.errstate(all="ignore"):
            launch.run(chunk)
    except Fault as fault:
        fault.written = memory.names(memory.written)
        raise
    except OutOfBudget as spent:
        spent.written, spent.reachable = memory.names(memory.written), memory.names()
        raise
    total = sizes[0][0] * sizes[0][1] * sizes[0][2]
    written = memory.names(memory.written)
    work = launch.work
    return Execution(
        program.name,
        *sizes,
        total,
        len(numbers),
        work.done,
        written,
        tuple(work.printed),
        work.cost,
    )


def choose(grid: Triple, blocks: Chosen) -> Array:
    """The numbers of the blocks to run, in their order. Raises LaunchError."""
    total = grid[0] * grid[1] * grid[2]
    if blocks is None:
        return np.arange(total, dtype=i64)
    if isinstance(blocks, int):
        if blocks >= total:
            return np.arange(total, dtype=i64)
        return np.unique(np.linspace(0, total - 1, max(1, blocks)).astype(i64))
    out: list[int] = []
    for one in blocks:
        if isinstance(one, int | np.integer):
            number = int(one)
        else:
            x, y, z = (*one, 0, 0)[:3]
            if not (0 <= x < grid[0] and 0 <= y < grid[1] and 0 <= z < grid[2]):
                raise LaunchError(f"there is no block {(x, y, z)} in a grid of {grid}")
            number = x + grid[0] * (y + grid[1] * z)
        if not 0 <= number < total:
            raise LaunchError(f"there is no block {number} in a grid of {grid}")
        out.append(number)
    return np.array(sorted(set(out)), i64)


def _triple(sizes: Sequence[int], what: str) -> Triple:
    x, y, z = (*(int(n) for n in sizes), 1, 1)[:3]
    if min(x, y, z) < 1 or x * y * z > MAX_BLOCKS:
        raise LaunchError(f"a {what} of {x}×{y}×{z} cannot be launched")
    return x, y, z


class _Launch:
    """One launch under way."""

    def __init__(
        self,
        program: Program,
        sizes: tuple[Triple, Triple],
        numbers: Array,
        parameters: Array,
        shared: int,
        memory: Memory,
        budget: int | None,
        observer: Observer | None,
    ) -> None:
        self.program, self.sizes, self.numbers = program, sizes, numbers
        self.parameters, self.shared, self.memory = parameters, shared, memory
        self.observer = observer
        self.work = Work(program.name, budget)
        self.addresses = program.addresses(memory)

    def run(self, chunk: int) -> None:
        """Runs chunks in the order of blocks; one that waits for later ones is gone on with."""
        block = self.sizes[1]
        width = -(-(block[0] * block[1] * block[2]) // 32) * 32
        each = self.program.shared_bytes(self.shared) + width * self.program.local_size
        per = max(1, min(chunk // width, CHUNK_BYTES // max(1, each)))
        waiting: list[Machine] = []
        for at in range(0, len(self.numbers), per):
            machine = self._machine(self.numbers[at : at + per])
            if not machine.run():
                waiting.append(machine)
            elif waiting:
                waiting = [m for m in waiting if not m.run()]
        self._finish(waiting)

    def _finish(self, waiting: list[Machine]) -> None:
        """Goes round among chunks that wait for each other until none has changed anything."""
        while waiting:
            before = sum(m.memory.changes for m in waiting)
            left = [m for m in waiting if not m.run()]
            if len(left) == len(waiting) and sum(m.memory.changes for m in waiting) == before:
                raise left[0].spinning()
            waiting = left

    def _machine(self, numbers: Array) -> Machine:
        sizes = (self.shared, self.program.shared_bytes(self.shared))
        lanes = Lanes(*self.sizes, numbers, shared=sizes)
        return Machine(
            self.program,
            lanes,
            self.memory,
            self.parameters,
            dynamic=self.shared,
            addresses=self.addresses,
            work=self.work,
            observer=self.observer,
        )
