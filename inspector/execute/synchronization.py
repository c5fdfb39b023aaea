"""Races in shared memory: accesses of a block, or of a cluster, that nothing orders.

Warps run in lockstep here, so that a missing barrier changes no value. What must come before what
is kept as vector clocks instead: for each warp, up to what time it has to see the accesses of each
actor. Actors are the warps, and, since they go on while a warp does, its copies by ``cp.async``,
its ``wgmma`` and its bulk copies; those that report to an mbarrier are that mbarrier's. A time is
the number of an access of the block. An edge (PTX ISA, "Memory Consistency Model") is a barrier of
the block, a phase of an mbarrier, a wait for a group, or a fence between proxies.

A cluster is one such block: its blocks' warps and memories follow each other, by rank.

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
from inspector.execute.kinds import Array, Mask, i64, u8, u64
from inspector.execute.lanes import Lanes, Triple, coordinates
from inspector.execute.memory import (
    DISTRIBUTED,
    RANK_SHIFT,
    Access,
    AsynchronousAccess,
    OrderObserver,
    rank_of_address,
)
from inspector.execute.program import Program
from inspector.parsers.ptx_statement import ImmediateOperand

MAX_RACES = 100
"""Pairs of lines that are kept."""
MBARRIER_ACTORS = 16
"""Actors for mbarriers; with more of them, several share one, and a race may be missed."""
MAX_GRANULE = 16
MAX_TABLE_BYTES = 1 << 30
"""Bytes of what is kept of a cluster's accesses; one that needs more is not followed."""


class Unit(NamedTuple):
    """What accesses shared memory in a warp's name, and what a warp must do to see it done."""

    name: str
    wait: str


WARP, COPY, WGMMA, BULK, REPORTED, SENT = range(6)
UNITS = (
    Unit("", "barrier"),
    Unit("cp.async", "cp.async.wait_group"),
    Unit("wgmma", "wgmma.wait_group"),
    Unit("bulk", "cp.async.bulk.wait_group"),
    Unit("bulk", "wait for the mbarrier of the copy"),
    Unit("async", "wait for the mbarrier that its bytes are reported to"),
)
"""By number; actors of a unit have the warps' order. ``REPORTED`` copies and what ``st.async`` and
``red.async`` have ``SENT`` report to an mbarrier, whose actor they are."""
ASYNC_PROXY = (WGMMA, BULK, REPORTED)
WAYS = ("load", "store", "atomic")


CLUSTER_BARRIER = "barrier of the cluster"


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

    ``low`` to ``high`` are bytes that they access, of the shared memory of the block ``owner`` or,
    where that is None, of a tensor. ``reason`` is the missing edge in words.
    """

    accesses: tuple[RaceAccess, ...]
    low: int
    high: int
    reason: str
    owner: Triple | None = None


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
    """The clocks and the shared memory of one block, or of all blocks of a cluster.

    A clock has two rows: what a warp's own accesses may rely on, and which stores of warps the
    asynchronous proxy may see. A granule is the smallest piece of memory that was accessed.
    """

    def __init__(self, block_warps: int, block_bytes: int, blocks: int = 1) -> None:
        self.block_warps = block_warps
        self.block_bytes = block_bytes
        self.stride = -(-block_bytes // MAX_GRANULE) * MAX_GRANULE
        """Bytes from the beginning of one block's memory to the next one's."""
        self.warps = warps = block_warps * blocks
        actors = self.actors(block_warps, blocks)
        self.clocks: Array = np.zeros((2, warps, actors), i64)
        self.groups: list[list[int]] = [[] for _ in range(REPORTED * warps)]
        """Times at which each actor's groups were committed that nobody has waited for."""
        self.barriers: dict[int, Array] = {}
        self.mbarriers: dict[int, _Phases] = {}
        self.stamps = array("q", [0])
        self.granule = MAX_GRANULE
        count = self.stride // MAX_GRANULE * blocks + 1
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
        self.ends: Array = np.zeros((blocks, actors), i64)
        """What the warps of each block that have ended had seen."""

    @staticmethod
    def actors(block_warps: int, blocks: int) -> int:
        """How many access the memory of so many blocks."""
        return (REPORTED * block_warps + MBARRIER_ACTORS) * blocks

    @property
    def now(self) -> int:
        return len(self.stamps) - 1

    def places(self, rank: Array | int, offset: Array, nbytes: int) -> Array:
        """Places in the memory of all blocks; -1 of what is beyond a block's memory."""
        inside = (offset >= 0) & (offset + nbytes <= self.block_bytes)
        inside &= np.asarray(rank) < self.warps // self.block_warps
        places: Array = np.where(inside, rank * self.stride + offset, -1)
        return places

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
            if number in self.barriers:  # nobody has arrived otherwise than relaxed
                self.join(warp, self.barriers[number])

    def phases(self, offset: int) -> _Phases:
        if (phases := self.mbarriers.get(offset)) is None:
            shared = self.clocks.shape[2] - REPORTED * self.warps
            actor = REPORTED * self.warps + len(self.mbarriers) % shared
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

    def end(self, rank: int, warps: list[int]) -> None:
        for warp in warps:
            np.maximum(self.ends[rank], self.view(warp)[0], out=self.ends[rank])

    def unfinished(self, rank: int) -> Iterator[tuple[int, Array]]:
        """Accesses of other blocks, or of copies, to a block's memory that may come after its end:
        when they were, and the granules."""
        first = rank * self.stride // self.granule
        own = slice(first, first + self.stride // self.granule)
        foreign = np.arange(self.read.shape[1]) % self.warps // self.block_warps != rank
        foreign[REPORTED * self.warps :] = True
        tables = [self.read[own]]
        if len(self.changed) > 1:
            tables.append(self.changed[own])
        for table in tables:
            late = (table > self.ends[rank]) & foreign
            for time in np.unique(table[late]).tolist():
                yield time, first + np.flatnonzero((late & (table == time)).any(1))
        writer = self.writer[own, 0]
        written = self.written[own, 0]
        late = (written > self.ends[rank, writer]) & foreign[writer]
        for time in np.unique(written[late]).tolist():
            yield time, first + np.flatnonzero(late & (written == time))

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
        actor = unit * self.warps + warp if unit < REPORTED else self.phases(mbarrier).actor
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
    names = [str(access) for access in accesses]
    barrier = UNITS[WARP].wait
    if accesses[0].block != accesses[1].block:
        barrier = CLUSTER_BARRIER
        names = [f"{access} of block {access.block}" for access in accesses]
        if first.unit == WARP and not fence:
            missing = barrier
    if first.unit in (COPY, WGMMA, BULK) and first.warp != second.warp and not fence:
        missing += f" of warp {accesses[0].warp} and then a {barrier}"
    return f"no {missing} between {names[0]} and {names[1]}"


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
                self._places[row] = coordinates(number, lanes.grid)
            size = lanes.cluster_size
            for first in range(0, lanes.blocks, size):
                numbers = lanes.numbers[first : first + size].tolist()
                if self.numbers.isdisjoint(numbers) or self._is_large(lanes):
                    continue
                self.followed.update(numbers)
                if numbers[0] not in self._blocks:
                    warps = lanes.width // WARP_LANES
                    self._blocks[numbers[0]] = BlockOrder(warps, lanes.shared[1], size)
                for row in range(first, first + size):
                    self._rows[row] = self._blocks[numbers[0]]
        return self._rows

    @staticmethod
    def _is_large(lanes: Lanes) -> bool:
        """Whether the table of a cluster's accesses to words would be too large."""
        size = lanes.cluster_size
        nbytes = BlockOrder.actors(lanes.width // WARP_LANES, size) * lanes.shared[1] * size
        return size > 1 and nbytes > MAX_TABLE_BYTES

    def _warp(self, lanes: Lanes, row: int, warp: int) -> int:
        """The number that a warp of the block in a row has among those of the cluster."""
        return row % lanes.cluster_size * (lanes.width // WARP_LANES) + warp

    def _active(self, lanes: Lanes, mask: Mask) -> Iterator[tuple[BlockOrder, int, list[int]]]:
        """Of each followed block that has lanes in a mask: its row and these warps."""
        on = lanes.mask_warps(mask)
        for row, order in self._orders(lanes).items():
            warps = np.flatnonzero(on[row].any(1)).tolist()
            if warps:
                yield order, row, warps

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        self._mask = mask
        base = self.program.code.instructions[instruction].base
        if lanes.cluster_size > 1 and base in ("ret", "exit"):
            self._end(lanes, instruction, mask)
        if (entry := self._operations.get(instruction)) is None:
            return
        operation, count = entry
        for order, row, block_warps in self._active(lanes, mask):
            for warp in (self._warp(lanes, row, w) for w in block_warps):
                if operation.action == "fence":
                    order.fence(warp)
                if operation.action in ("commit", "wait all"):
                    order.commit(operation.unit, warp)
                if operation.action in ("wait", "wait all"):
                    order.wait(operation.unit, warp, count)

    def _end(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        """Warps end: with a block's last ones its memory goes, which no other may access then."""
        remaining = lanes.full_mask(lanes.live) & ~lanes.full_mask(mask)
        for order, row, block_warps in self._active(lanes, mask):
            warps = [self._warp(lanes, row, warp) for warp in block_warps]
            rank = row % lanes.cluster_size
            order.end(rank, warps)
            if remaining[row].any():
                continue
            end = self._named(order, _Stamp(instruction, warps[0], WARP, "end"), row)
            for time, places in order.unfinished(rank):
                earlier = order.stamp(time)
                key = (earlier.instruction, instruction, False)
                access = self._named(order, earlier, row)
                name = f"{access} of block {access.block}"
                reason = f"no {CLUSTER_BARRIER} between {name} and the end of block {end.block}"
                if key not in self._races and len(self._races) < MAX_RACES:
                    self._races[key] = self._race(order, (access, end), places, reason, row)

    def barrier(self, lanes: Lanes, way: str, number: int, mask: Array) -> None:
        for order, row, block_warps in self._active(lanes, mask):
            warps = [self._warp(lanes, row, warp) for warp in block_warps]
            size = lanes.cluster_size
            key = number if number < 0 else number * size + row % size
            if way == "arrive":
                order.arrive(key, warps)
            else:
                order.release(key, warps)

    def mbarrier(
        self, lanes: Lanes, way: str, instruction: int, rows: Array, offsets: Array, threads: Array
    ) -> None:
        orders = self._orders(lanes)
        warps = threads // WARP_LANES if threads.size else np.zeros_like(rows)
        relaxed = "relaxed" in self.program.code.instructions[instruction].parts
        places = np.unique(np.stack([rows, offsets, warps], 1), axis=0)
        for row, offset, chunk_warp in places.tolist():
            if (order := orders.get(row)) is None:
                continue
            place = int(order.places(row % lanes.cluster_size, np.array(offset), 8))
            phases = order.phases(place)
            if way == "complete":
                order.complete(place)
                continue
            issuer, block_warp = divmod(chunk_warp, order.block_warps)
            warp = self._warp(lanes, issuer, block_warp)
            if way == "wait" and not relaxed:
                order.join(warp, phases.over)
            access = "store" if way == "init" else "atomic"
            self._note(order, _Stamp(instruction, warp, WARP, access), np.array([place]), 8, issuer)
            if way == "init":
                phases.arrived[:] = 0
                phases.over = phases.arrived.copy()
            elif way == "arrive" and not relaxed:
                phases.arrived = np.maximum(phases.arrived, order.view(warp))
            elif way == "hold":
                phases.arrived[0, COPY * order.warps + warp] = order.now

    def asynchronous(self, lanes: Lanes, access: AsynchronousAccess) -> None:
        if (order := self._orders(lanes).get(access.row)) is None:
            return
        base = self.program.code.instructions[access.instruction].base
        unit = WGMMA if base == "wgmma" else BULK
        mbarrier = -1
        if access.mbarrier is not None:
            unit = SENT if base in ("st", "red") else REPORTED
            row, offset = access.mbarrier
            mbarrier = int(order.places(row % lanes.cluster_size, np.array(offset), 8))
        warp = self._warp(lanes, access.issuer, access.warp)
        accessed = _Stamp(access.instruction, warp, unit, access.way)
        rank = access.row % lanes.cluster_size
        address = order.places(rank, access.address.reshape(-1), access.nbytes)
        self._note(order, accessed, address, access.nbytes, access.issuer, mbarrier=mbarrier)

    def access(self, lanes: Lanes, access: Access) -> None:
        instruction = self.program.code.instructions[access.instruction]
        is_sent = instruction.base in ("st", "red") and "async" in instruction.parts
        if access.space not in ("shared", DISTRIBUTED) or is_sent:
            return
        unit = COPY if instruction.base == "cp" else WARP
        way = access.way.rpartition(" ")[2].replace("matrix", "load")
        matrix = access.way.startswith("matrix")
        if matrix:
            alive = lanes.mask_warps(self._mask).any(2)
            index = np.cumsum(alive.reshape(-1)).reshape(alive.shape) - 1
        for order, row, warps in self._active(lanes, self._mask if matrix else access.mask):
            for warp in warps:
                accessed = _Stamp(access.instruction, self._warp(lanes, row, warp), unit, way)
                values = None
                if matrix:
                    address = access.address[index[row, warp]]
                else:
                    on = lanes.mask_warps(access.mask)[row, warp]
                    address = lanes.warps(access.address)[row, warp][on]
                    if way == "store" and access.values:
                        parts = [lanes.warps(v)[row, warp][on] for v in access.values]
                        values = np.stack(parts, 1).view(u8)
                rank: Array | int = row % lanes.cluster_size
                if access.space == DISTRIBUTED:
                    rank = rank_of_address(address).astype(i64)
                    address = address & u64((1 << RANK_SHIFT) - 1)
                places = order.places(rank, address.astype(i64), access.nbytes)
                self._note(order, accessed, places, access.nbytes, row, values)

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
        """Take an access by a warp of the block in a row to elements at places, and keep the races
        that it is in."""
        inside = address >= 0
        if not inside.all():  # the observer comes before the fault
            address = address[inside]
            values = None if values is None else values[inside]
        if accessed.unit not in ASYNC_PROXY:
            order.refine(nbytes)
        granules, index = np.unique(order.granules(address, nbytes), return_index=True)
        if values is not None:
            values = values.reshape(-1, order.granule)[index]
        named = self._named(order, accessed, row)
        places = granules[order.written[granules, 0] == 0]
        if len(places) and accessed.way != "store" and accessed.instruction not in self.unwritten:
            reason = f"nothing wrote what the {named.access} in line {named.line} reads"
            self.unwritten[accessed.instruction] = self._race(order, (named,), places, reason, row)
        for time, places, fence in order.access(accessed, granules, values, mbarrier):
            earlier = order.stamp(time)
            key = (earlier.instruction, accessed.instruction, fence)
            if key in self._races or len(self._races) >= MAX_RACES:
                continue
            both = self._named(order, earlier, row), named
            reason = _reason(earlier, accessed, both, fence)
            self._races[key] = self._race(order, both, places, reason, row)

    def _race(
        self,
        order: BlockOrder,
        accesses: tuple[RaceAccess, ...],
        granules: Array,
        reason: str,
        row: int,
    ) -> Race:
        """A race in the first piece of some granules, of which one block has the memory."""
        end = np.append(np.flatnonzero(np.diff(granules) > 1) + 1, len(granules))[0]
        rank, low = divmod(int(granules[0]) * order.granule, order.stride)
        high = min((int(granules[end - 1]) + 1) * order.granule - rank * order.stride, order.stride)
        return Race(accesses, low, high - 1, reason, self._place_of(order, row, rank))

    def _place_of(self, order: BlockOrder, row: int, rank: int) -> Triple:
        """The block of a rank in the cluster of the block in a row."""
        size = order.warps // order.block_warps
        return self._places[row - row % size + rank]

    def _named(self, order: BlockOrder, stamp: _Stamp, row: int) -> RaceAccess:
        line = self.program.code.instructions[stamp.instruction].line
        access = f"{UNITS[stamp.unit].name} {stamp.way}".strip()
        rank, warp = divmod(stamp.warp, order.block_warps)
        return RaceAccess(line, self._place_of(order, row, rank), warp, access)
