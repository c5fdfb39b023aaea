"""Races in shared memory: accesses of a block that nothing orders.

Warps run in lockstep here, so that a missing barrier changes no value. What must come before what
is kept as vector clocks instead: for each warp, up to what time it has to see the accesses of each
actor. Actors are the warps, and, since they go on while a warp does, its copies by ``cp.async``,
its ``wgmma`` and its bulk copies; those that report to an mbarrier are that mbarrier's. A time is
the number of an access of the block. An edge (PTX ISA, "Memory Consistency Model") is a barrier of
the block, a phase of an mbarrier, a wait for a group, or a fence between proxies.

Lanes of one warp are not compared with each other, and memory other than shared is not looked at.
Two stores of the same value are no race, as is one atomic beside another. Reads of what nothing in
the block wrote are kept too: whether they matter is for another execution to say.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inspector.execute.bulk import WARP_LANES
from inspector.execute.kinds import Array, Mask, i64, u8
from inspector.execute.lanes import Lanes, Triple, coordinates
from inspector.execute.memory import Access, AsynchronousAccess, OrderObserver
from inspector.execute.program import Program
from inspector.parsers.ptx_statement import ImmediateOperand

MAX_RACES = 100
"""Pairs of lines that are kept."""
MBARRIER_ACTORS = 16
"""Actors for mbarriers; with more of them, several share one, and a race may be missed."""
MAX_GRANULE = 16


class Unit(NamedTuple):
    """What accesses shared memory in a warp's name, and what a warp must do to see it done."""

    name: str
    wait: str


WARP, COPY, WGMMA, BULK, REPORTED = range(5)
UNITS = (
    Unit("", "barrier"),
    Unit("cp.async", "cp.async.wait_group"),
    Unit("wgmma", "wgmma.wait_group"),
    Unit("bulk", "cp.async.bulk.wait_group"),
    Unit("bulk", "wait for the mbarrier of the copy"),
)
"""By number; actors of a unit have the warps' order. ``REPORTED`` copies report to an mbarrier."""
ASYNC_PROXY = (WGMMA, BULK, REPORTED)
WAYS = ("load", "store", "atomic")


class Operation(NamedTuple):
    """An instruction that orders accesses: the words of its opcode, what it does to which unit."""

    words: frozenset[str]
    action: str
    unit: int = WARP


OPERATIONS = (
    Operation(frozenset(("cp", "bulk", "commit_group")), "commit", BULK),
    Operation(frozenset(("cp", "bulk", "wait_group")), "wait", BULK),
    Operation(frozenset(("cp", "commit_group")), "commit", COPY),
    Operation(frozenset(("cp", "wait_group")), "wait", COPY),
    Operation(frozenset(("cp", "wait_all")), "wait all", COPY),
    Operation(frozenset(("wgmma", "commit_group")), "commit", WGMMA),
    Operation(frozenset(("wgmma", "wait_group")), "wait", WGMMA),
    Operation(frozenset(("fence", "proxy", "async")), "fence"),
)
"""The first whose words an opcode has is the one that it is."""


class RaceAccess(NamedTuple):
    """An access of a race: ``access`` is ``load``, ``store``, ``cp.async store`` …

    ``block`` is the block's place in the grid; where blocks are compared, there is no ``warp``.
    """

    line: int
    block: Triple
    warp: int | None
    access: str

    def __str__(self) -> str:
        actor = f"block {self.block}" if self.warp is None else f"warp {self.warp}"
        return f"the {self.access} in line {self.line} by {actor}"


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses that nothing orders, or one that reads what nothing wrote.

    ``low`` to ``high`` are bytes that they access, of shared memory or, between blocks, of a
    tensor. ``reason`` is the missing edge in words.
    """

    accesses: tuple[RaceAccess, ...]
    low: int
    high: int
    reason: str


class _Phases:
    """What the arrivals at an mbarrier have seen, and what the end of its last phase shows."""

    def __init__(self, actor: int, size: int) -> None:
        self.actor = actor
        self.arrived: Array = np.zeros((2, size), i64)
        self.over: Array = np.zeros((2, size), i64)


class _Stamp(NamedTuple):
    """The access at a time."""

    instruction: int
    warp: int
    unit: int
    way: str


class BlockOrder:
    """The clocks and the shared memory of one block.

    A clock has two rows: what a warp's own accesses may rely on, and which stores of warps the
    asynchronous proxy may see. A granule is the smallest piece of memory that was accessed.
    """

    def __init__(self, warps: int, shared_bytes: int) -> None:
        self.warps = warps
        self.shared_bytes = shared_bytes
        actors = REPORTED * warps + MBARRIER_ACTORS
        self.clocks: Array = np.zeros((2, warps, actors), i64)
        self.groups: list[list[int]] = [[] for _ in range(REPORTED * warps)]
        """Times at which each actor's groups were committed that nobody has waited for."""
        self.barriers: dict[int, Array] = {}
        self.mbarriers: dict[int, _Phases] = {}
        self.stamps = array("q", [0])
        self.granule = MAX_GRANULE
        count = -(-shared_bytes // MAX_GRANULE) + 1
        self.writer: Array = np.zeros((count, 2), np.int32)
        self.written: Array = np.zeros((count, 2), np.int32)
        """Which actor stored last, and when; and which stored another value last before that."""
        self.stored: Array = np.zeros(count, bool)
        """Granules of which ``content`` is what a warp stored last."""
        self.content: Array = np.zeros(count * MAX_GRANULE, u8)
        self.read: Array = np.zeros((count, actors), np.int32)
        """When each actor has read each granule last."""
        self.changed: Array = np.zeros((1, actors), np.int32)
        """The same of atomics; of no granule until there is one."""

    @property
    def now(self) -> int:
        return len(self.stamps) - 1

    def stamp(self, time: int) -> _Stamp:
        rest, way = divmod(self.stamps[time], len(WAYS))
        rest, unit = divmod(rest, len(UNITS))
        return _Stamp(*divmod(rest, self.warps), unit, WAYS[way])

    # -- edges

    def view(self, warp: int) -> Array:
        """What others see who see what a warp has done until now."""
        clock: Array = self.clocks[:, warp].copy()
        clock[0, warp] = self.now
        return clock

    def join(self, warp: int, clock: Array) -> None:
        np.maximum(self.clocks[:, warp], clock, out=self.clocks[:, warp])

    def arrive(self, number: int, warps: list[int]) -> None:
        for warp in warps:
            view = self.view(warp)
            self.barriers[number] = np.maximum(self.barriers.get(number, view), view)

    def release(self, number: int, warps: list[int]) -> None:
        for warp in warps:
            self.join(warp, self.barriers[number])

    def phases(self, offset: int) -> _Phases:
        if (phases := self.mbarriers.get(offset)) is None:
            actor = REPORTED * self.warps + len(self.mbarriers) % MBARRIER_ACTORS
            phases = self.mbarriers[offset] = _Phases(actor, self.clocks.shape[2])
        return phases

    def complete(self, offset: int) -> None:
        phases = self.phases(offset)
        phases.arrived[0, phases.actor] = self.now
        phases.over = phases.arrived.copy()

    def fence(self, warp: int) -> None:
        np.maximum(self.clocks[1, warp], self.view(warp)[0], out=self.clocks[1, warp])

    def commit(self, unit: int, warp: int) -> None:
        self.groups[unit * self.warps + warp].append(self.now)

    def wait(self, unit: int, warp: int, pending: int) -> None:
        """All groups of a warp are done but the last ``pending``."""
        actor = unit * self.warps + warp
        groups = self.groups[actor]
        done = len(groups) - pending
        if done > 0:
            self.clocks[0, warp, actor] = groups[done - 1]
            del groups[:done]

    # -- accesses

    def granules(self, address: Array, nbytes: int) -> Array:
        """The granules that each access of ``nbytes`` is in, a row an access."""
        return (address // self.granule)[:, None] + np.arange(max(1, nbytes // self.granule))

    def refine(self, nbytes: int) -> None:
        """Make granules as small as an access."""
        factor = self.granule // nbytes
        if factor > 1:
            for name in ("writer", "written", "stored", "read", "changed"):
                table = getattr(self, name)
                if len(table) > 1:
                    setattr(self, name, np.repeat(table, factor, axis=0))
            self.granule = nbytes

    def access(
        self, accessed: _Stamp, granules: Array, values: Array | None = None, mbarrier: int = -1
    ) -> Iterator[tuple[int, Array, bool]]:
        """Note an access to granules, each once; of those that it races with: when they were, the
        granules, whether it is but for a fence between proxies. ``values`` are the bytes that a
        warp stores, a row a granule."""
        instruction, warp, unit, way = accessed
        actor = unit * self.warps + warp if unit != REPORTED else self.phases(mbarrier).actor
        code = (instruction * self.warps + warp) * len(UNITS) + unit
        self.stamps.append(code * len(WAYS) + WAYS.index(way))
        seen = self.view(warp)
        writer = self.writer[granules]
        written = self.written[granules]
        unseen = written > seen[0, writer]
        unfenced = np.zeros(unseen.shape, bool)
        if unit in ASYNC_PROXY:
            unfenced = ~unseen & (writer < self.warps) & (written > seen[1, writer])
        same = self._same(granules, values)
        unseen[:, 0] &= ~same
        unseen[:, 1] &= same
        for late, fence in ((unseen, False), (unfenced & [True, False], True)):
            for time in np.unique(written[late]).tolist():
                yield time, granules[(late & (written == time)).any(1)], fence
        if way == "atomic" and len(self.changed) == 1:
            self.changed = np.zeros_like(self.read)
        others = {"load": (self.changed,), "atomic": (self.read,)}.get(way)
        for table in others or (self.read, self.changed):
            times = table[granules] if len(table) > 1 else table
            late = times > seen[0]
            for time in np.unique(times[late]).tolist():
                yield time, granules[(late & (times == time)).any(1)], False
        if way == "store":
            self._store(granules, actor, same, values)
        else:
            (self.read if way == "load" else self.changed)[granules, actor] = self.now
            self.stored[granules] &= way == "load"

    def _same(self, granules: Array, values: Array | None) -> Array:
        """Whether granules hold the bytes that are stored, which a warp stored before."""
        if values is None:
            return np.zeros(len(granules), bool)
        content = self.content.reshape(-1, self.granule)
        same: Array = self.stored[granules] & (content[granules] == values).all(1)
        return same

    def _store(self, granules: Array, actor: int, same: Array, values: Array | None) -> None:
        other = granules[~same]
        for table, value in ((self.writer, actor), (self.written, self.now)):
            table[other, 1] = table[other, 0]
            table[granules, 0] = value
        self.stored[granules] = values is not None
        if values is not None:
            self.content.reshape(-1, self.granule)[granules] = values


def _reason(
    first: _Stamp, second: _Stamp, accesses: tuple[RaceAccess, RaceAccess], fence: bool
) -> str:
    """The edge that is missing, in words."""
    unit = UNITS[first.unit]
    missing = "fence.proxy.async" if fence else unit.wait
    if first.unit in (COPY, WGMMA, BULK) and first.warp != second.warp and not fence:
        missing += f" of warp {first.warp} and then a barrier"
    return f"no {missing} between {accesses[0]} and {accesses[1]}"


def _race(accesses: tuple[RaceAccess, ...], granules: Array, granule: int, reason: str) -> Race:
    """A race in the first piece of some granules of ``granule`` bytes."""
    end = np.append(np.flatnonzero(np.diff(granules) > 1) + 1, len(granules))[0]
    low = int(granules[0]) * granule
    return Race(accesses, low, (int(granules[end - 1]) + 1) * granule - 1, reason)


class RaceObserver(OrderObserver):
    """An observer of races in the blocks of some numbers."""

    def __init__(self, program: Program, numbers: Collection[int]) -> None:
        self.program = program
        self.numbers = frozenset(numbers)
        self.followed: set[int] = set()
        """The blocks among them that were run."""
        self._blocks: dict[int, BlockOrder] = {}
        self._races: dict[tuple[int, int, bool], Race] = {}
        self.unwritten: dict[int, Race] = {}
        """Reads of what nothing wrote, by instruction."""
        self._lanes: Lanes | None = None
        self._rows: dict[int, BlockOrder] = {}
        self._places: dict[int, Triple] = {}
        self._mask: Mask = None
        self._operations: dict[int, tuple[Operation, int]] = {}
        for n, row in enumerate(program.code.instructions):
            words = {word for part in row.parts for word in part.split("::")}
            found = (o for o in OPERATIONS if o.words <= words and "global" not in words)
            if (operation := next(found, None)) is not None:
                counts = [o.value for o in row.operands if isinstance(o, ImmediateOperand)]
                self._operations[n] = operation, int(counts[0] or 0) if counts else 0

    @property
    def races(self) -> tuple[Race, ...]:
        """A race for each two lines, in the order in which they came up."""
        return tuple(self._races.values())

    def _orders(self, lanes: Lanes) -> dict[int, BlockOrder]:
        """The followed blocks of a chunk, by row."""
        if self._lanes is not lanes:
            self._lanes = lanes
            self._rows = {}
            for row, number in enumerate(lanes.numbers.tolist()):
                if number in self.numbers:
                    self.followed.add(number)
                    order = BlockOrder(lanes.width // WARP_LANES, lanes.shared[1])
                    self._rows[row] = self._blocks.setdefault(number, order)
                    self._places[row] = coordinates(number, lanes.grid)
        return self._rows

    def _active(self, lanes: Lanes, mask: Mask) -> Iterator[tuple[BlockOrder, int, list[int]]]:
        """Of each followed block that has lanes in a mask: its row and these warps."""
        on = lanes.mask_warps(mask)
        for row, order in self._orders(lanes).items():
            warps = np.flatnonzero(on[row].any(1)).tolist()
            if warps:
                yield order, row, warps

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        self._mask = mask
        if (entry := self._operations.get(instruction)) is None:
            return
        operation, count = entry
        for order, _, warps in self._active(lanes, mask):
            for warp in warps:
                if operation.action == "fence":
                    order.fence(warp)
                if operation.action in ("commit", "wait all"):
                    order.commit(operation.unit, warp)
                if operation.action in ("wait", "wait all"):
                    order.wait(operation.unit, warp, count)

    def barrier(self, lanes: Lanes, way: str, number: int, mask: Array) -> None:
        for order, _, warps in self._active(lanes, mask):
            if way == "arrive":
                order.arrive(number, warps)
            else:
                order.release(number, warps)

    def mbarrier(
        self, lanes: Lanes, way: str, instruction: int, rows: Array, offsets: Array, threads: Array
    ) -> None:
        orders = self._orders(lanes)
        warps = threads % lanes.width // WARP_LANES if threads.size else np.zeros_like(rows)
        places = np.unique(np.stack([rows, offsets, warps], 1), axis=0)
        for row, offset, warp in places.tolist():
            if (order := orders.get(row)) is None:
                continue
            phases = order.phases(offset)
            if way == "complete":
                order.complete(offset)
                continue
            if way == "wait":
                order.join(warp, phases.over)
            access = "store" if way == "init" else "atomic"
            self._note(order, _Stamp(instruction, warp, WARP, access), np.array([offset]), 8, row)
            if way == "init":
                phases.arrived[:] = 0
                phases.over = phases.arrived.copy()
            elif way == "arrive":
                phases.arrived = np.maximum(phases.arrived, order.view(warp))
            elif way == "hold":
                phases.arrived[0, COPY * order.warps + warp] = order.now

    def asynchronous(self, lanes: Lanes, access: AsynchronousAccess) -> None:
        if (order := self._orders(lanes).get(access.row)) is None:
            return
        base = self.program.code.instructions[access.instruction].base
        unit = WGMMA if base == "wgmma" else BULK if access.mbarrier is None else REPORTED
        accessed = _Stamp(access.instruction, access.warp, unit, access.way)
        mbarrier = -1 if access.mbarrier is None else access.mbarrier
        address = access.address.reshape(-1)
        self._note(order, accessed, address, access.nbytes, access.row, mbarrier=mbarrier)

    def access(self, lanes: Lanes, access: Access) -> None:
        if access.space != "shared":
            return
        copies = self.program.code.instructions[access.instruction].base == "cp"
        unit = COPY if copies else WARP
        way = access.way.rpartition(" ")[2].replace("matrix", "load")
        matrix = access.way.startswith("matrix")
        if matrix:
            alive = lanes.mask_warps(self._mask).any(2)
            index = np.cumsum(alive.reshape(-1)).reshape(alive.shape) - 1
        for order, row, warps in self._active(lanes, self._mask if matrix else access.mask):
            for warp in warps:
                accessed = _Stamp(access.instruction, warp, unit, way)
                values = None
                if matrix:
                    address = access.address[index[row, warp]]
                else:
                    on = lanes.mask_warps(access.mask)[row, warp]
                    address = lanes.warps(access.address)[row, warp][on]
                    if way == "store" and access.values:
                        parts = [lanes.warps(v)[row, warp][on] for v in access.values]
                        values = np.stack(parts, 1).view(u8)
                self._note(order, accessed, address.astype(i64), access.nbytes, row, values)

    def _note(
        self,
        order: BlockOrder,
        accessed: _Stamp,
        address: Array,
        nbytes: int,
        row: int,
        values: Array | None = None,
        mbarrier: int = -1,
    ) -> None:
        """Take an access to elements at offsets, and keep the races that it is in."""
        inside = (address >= 0) & (address + nbytes <= order.shared_bytes)
        if not inside.all():  # the observer comes before the fault
            address = address[inside]
            values = None if values is None else values[inside]
        if accessed.unit not in ASYNC_PROXY:
            order.refine(nbytes)
        granules, index = np.unique(order.granules(address, nbytes), return_index=True)
        if values is not None:
            values = values.reshape(-1, order.granule)[index]
        named = self._named(accessed, row)
        places = granules[order.written[granules, 0] == 0]
        if len(places) and accessed.way != "store" and accessed.instruction not in self.unwritten:
            reason = f"nothing wrote what the {named.access} in line {named.line} reads"
            self.unwritten[accessed.instruction] = _race((named,), places, order.granule, reason)
        for time, places, fence in order.access(accessed, granules, values, mbarrier):
            earlier = order.stamp(time)
            key = (earlier.instruction, accessed.instruction, fence)
            if key in self._races or len(self._races) >= MAX_RACES:
                continue
            both = self._named(earlier, row), named
            reason = _reason(earlier, accessed, both, fence)
            self._races[key] = _race(both, places, order.granule, reason)

    def _named(self, stamp: _Stamp, row: int) -> RaceAccess:
        line = self.program.code.instructions[stamp.instruction].line
        access = f"{UNITS[stamp.unit].name} {stamp.way}".strip()
        return RaceAccess(line, self._places[row], stamp.warp, access)
