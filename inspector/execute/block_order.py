"""Accesses of different blocks to global memory that nothing orders.

Of each granule of a buffer the last two blocks are kept that loaded it, stored to it and changed it
by an atomic. Two accesses race if one is a plain store, or one an atomic and the other plain. A
block that has loaded with ``volatile``, ``relaxed`` or ``acquire``, or has used the result of an
atomic, where another block stored or changed something before, is taken to come after all blocks
that have stored in such a way or made an atomic by then: an order too many hides a race, and none
is made up. The barrier of a cluster, and arrivals at mbarriers, order what its blocks did before.
Stores of the same value are no race.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from inspector.execute.blocks import ORDERED
from inspector.execute.facts import kind_of
from inspector.execute.kinds import Array, i64, u8, u32
from inspector.execute.lanes import Lanes, coordinates
from inspector.execute.memory import Access, Memory, OrderObserver, Region
from inspector.execute.program import Program
from inspector.execute.synchronization import MAX_GRANULE, MAX_RACES, Race, RaceAccess

MAX_TABLE_BYTES = 1 << 30
"""Bytes of a table of one region; accesses to a larger one are not compared."""
MAX_ORDERED = 1 << 20
"""Blocks whose orders are apart; of more, some share theirs, and a race may be missed."""
STRONG = ORDERED | {"release"}
"""Words of loads and stores that blocks may agree by."""
CONFLICTS = {
    "load": ("store", "atomic"),
    "store": ("load", "store", "atomic"),
    "atomic": ("load", "store"),
}


class _Shadow:
    """Which blocks accessed the granules of a region: by kind, the last block and another one.

    A table has the axes slot, field (number of the block + 1, access) and granule.
    """

    def __init__(self, region: Region, granule: int) -> None:
        self.region = region
        self.granule = granule
        self.tables: dict[str, Array] = {}

    def table(self, kind: str) -> Array:
        """The table of a kind, whose pages take memory once they are written to."""
        if kind not in self.tables:
            count = self.region.span // self.granule + 1
            self.tables[kind] = np.zeros((2, 2, count), u32)
        return self.tables[kind]

    def refine(self, nbytes: int) -> None:
        """Make granules as small as an access."""
        if nbytes < self.granule:
            factor = self.granule // nbytes
            self.tables = {k: np.repeat(t, factor, axis=2) for k, t in self.tables.items()}
            self.granule = nbytes

    def contents(self, places: Array) -> Array:
        """The bytes of granules, a row each."""
        contents: Array = self.region.data[
            (places * self.granule)[:, None] + np.arange(self.granule)
        ]
        return contents


class _Batch(NamedTuple):
    """The granules that an access is in, each with the number of its block + 1.

    ``values`` are the bytes that a store writes there, ``contents`` those that it finds, if known.
    """

    shadow: _Shadow
    kind: str
    places: Array
    blocks: Array
    values: Array | None
    contents: Array | None = None

    def same(self) -> Array:
        """Whether granules hold the bytes that are stored, and a block stored them."""
        if self.values is None or self.contents is None:
            return np.zeros(len(self.places), bool)
        same: Array = (self.values == self.contents).all(1)
        return same & (self.shadow.table("store")[0, 0, self.places] != 0)

    def turns(self) -> Iterator[_Batch]:
        """Each granule once, by the first block that accesses it, then by the last."""
        places, first = np.unique(self.places, return_index=True)
        last = len(self.places) - 1 - np.unique(self.places[::-1], return_index=True)[1]
        contents = None if self.values is None else self.shadow.contents(places)
        for rows in (first, last):
            values = None if self.values is None else self.values[rows]
            yield _Batch(self.shadow, self.kind, places, self.blocks[rows], values, contents)
            if (self.blocks[rows] == self.blocks[last]).all():
                return
            contents = values


def cluster_numbers(lanes: Lanes, blocks: Array) -> Array:
    """The numbers of the clusters that blocks are in."""
    grid_x, grid_y, _ = lanes.grid
    x, y, z = lanes.cluster
    cluster_y = blocks // grid_x % grid_y // y
    cluster_z = blocks // (grid_x * grid_y) // z
    numbers: Array = blocks % grid_x // x + grid_x // x * (cluster_y + grid_y // y * cluster_z)
    return numbers


class BlockObserver(OrderObserver):
    """An observer of the accesses of blocks to global memory."""

    def __init__(self, program: Program, memory: Memory) -> None:
        self.program = program
        self.memory = memory
        self.left_out: set[str] = set()
        """Buffers that are too large to be followed."""
        self._races: dict[tuple[int, int], Race] = {}
        self._shadows: dict[int, _Shadow] = {}
        self._released: Array = np.zeros(MAX_ORDERED, u32)
        self._acquired: Array = np.zeros(MAX_ORDERED, u32)
        """When each block last gave, and took, an order."""
        self._arrived: Array = np.zeros(MAX_ORDERED, u32)
        self._waited: Array = np.zeros(MAX_ORDERED, u32)
        """The same within its cluster."""
        self._accesses = array("q", [0])
        """The instruction of each access to global memory, whose time is its number."""

    @property
    def races(self) -> tuple[Race, ...]:
        """A race for each two lines, in the order in which they came up."""
        return tuple(self._races.values())

    @property
    def _now(self) -> int:
        return len(self._accesses) - 1

    def barrier(self, lanes: Lanes, way: str, number: int, mask: Array) -> None:
        if number < 0:
            self._order_clusters(lanes, way == "arrive", lanes.numbers[mask.any(1)])

    def mbarrier(
        self, lanes: Lanes, way: str, instruction: int, rows: Array, offsets: Array, threads: Array
    ) -> None:
        if lanes.cluster_size > 1 and way in ("arrive", "wait"):
            self._order_clusters(lanes, way == "arrive", lanes.numbers[threads // lanes.width])

    def _order_clusters(self, lanes: Lanes, arrive: bool, numbers: Array) -> None:
        """Blocks give an order to their clusters, or take the one that was given."""
        table = self._arrived if arrive else self._waited
        table[(numbers + 1) % MAX_ORDERED] = self._now

    def access(self, lanes: Lanes, access: Access) -> None:
        if access.space != "global":
            return
        row = self.program.code.instructions[access.instruction]
        kind = kind_of(access.way)
        is_strong = row.base in ("ld", "st") and not STRONG.isdisjoint(row.parts)
        if is_strong and kind == "store":
            kind = "atomic"
        self._accesses.append(access.instruction)
        takes_order = row.base == "atom" or (is_strong and kind == "load")
        for batch in self._batches(lanes, access, kind):
            acquiring = self._acquiring(batch) if takes_order else batch.blocks[:0]
            if not is_strong or kind != "load":
                for turn in batch.turns():
                    same = turn.same()
                    self._compare(lanes, turn, same)
                    self._keep(turn, same)
            if kind == "atomic":
                self._released[batch.blocks % MAX_ORDERED] = self._now
            self._acquired[acquiring] = self._now

    def _batches(self, lanes: Lanes, access: Access, kind: str) -> Iterator[_Batch]:
        """The granules of an access, by region."""
        numbers = lanes.numbers[:, None].astype(u32) + u32(1)
        if access.lane is not None:  # a copying unit's, whole tiles
            address = access.address.astype(i64)
            blocks = np.full(len(address), numbers[access.lane[0], 0])
            values = [value.reshape(-1) for value in access.values]
        else:
            keep = lanes.full_mask(access.mask)
            address = lanes.full(access.address)[keep].astype(i64)
            blocks = lanes.full(numbers)[keep]
            values = [lanes.full(value)[keep] for value in access.values]
        stored = np.stack(values, 1).view(u8) if kind == "store" and values else None
        starts = np.searchsorted(self.memory.starts, address.astype(np.uint64), "right") - 1
        for number in np.unique(starts[starts >= 0]).tolist():
            region = self.memory.regions[number]
            shadow = self._shadow(region, access.nbytes)
            inside = (starts == number) & (address + access.nbytes <= region.base + region.span)
            if shadow is None or not inside.any():  # an observer is told before the fault
                continue
            count = max(1, access.nbytes // shadow.granule)
            first = (address[inside] - region.base) // shadow.granule
            places = (first[:, None] + np.arange(count)).reshape(-1)
            granules = None if stored is None else stored[inside].reshape(-1, shadow.granule)
            yield _Batch(shadow, kind, places, np.repeat(blocks[inside], count), granules)

    def _shadow(self, region: Region, nbytes: int) -> _Shadow | None:
        """The shadow of a region; None of one that is too large."""
        granule = min(nbytes, MAX_GRANULE)
        if region.span // granule * MAX_GRANULE > MAX_TABLE_BYTES:
            self.left_out.update(buffer.name for buffer in region.buffers)
            return None
        shadow = self._shadows.setdefault(region.address, _Shadow(region, granule))
        shadow.refine(granule)
        return shadow

    def _compare(self, lanes: Lanes, turn: _Batch, same: Array) -> None:
        """Find accesses of other blocks that nothing orders before these."""
        for kind in CONFLICTS[turn.kind]:
            slots = turn.shadow.table(kind)[:, :, turn.places]
            for blocks, times in slots:
                late = (blocks != 0) & (blocks != turn.blocks)
                if kind == "store":  # what several stored, a block that loads may have, too
                    late &= slots[1, 0] == 0 if turn.kind == "load" else ~same
                released = self._released[blocks % MAX_ORDERED] >= times
                late &= ~(released & (self._acquired[turn.blocks % MAX_ORDERED] >= times))
                if lanes.cluster_size > 1 and late.any():
                    late &= ~self._in_order(lanes, turn, blocks, times)
                if late.any():
                    self._found(lanes, turn, kind, late, blocks, times)

    def _in_order(self, lanes: Lanes, turn: _Batch, blocks: Array, times: Array) -> Array:
        """Whether a cluster's order is between accesses of its blocks at some times and a batch."""
        arrived = self._arrived[blocks % MAX_ORDERED] >= times
        waited = self._waited[turn.blocks % MAX_ORDERED] >= times
        clusters = [cluster_numbers(lanes, x.astype(i64) - 1) for x in (blocks, turn.blocks)]
        in_order: Array = arrived & waited & (clusters[0] == clusters[1])
        return in_order

    def _found(
        self, lanes: Lanes, turn: _Batch, kind: str, late: Array, blocks: Array, times: Array
    ) -> None:
        """Keep a race for each two lines of accesses to granules."""
        rows = self.program.code.instructions
        instruction = self._accesses[-1]
        earlier = np.frombuffer(self._accesses, i64)[times]
        for number in np.unique(earlier[late]).tolist():
            key = min(number, instruction), max(number, instruction)
            if key in self._races or len(self._races) >= MAX_RACES:
                continue
            n = int(np.argmax(late & (earlier == number)))
            places = [coordinates(int(b[n]) - 1, lanes.grid) for b in (blocks, turn.blocks)]
            first = RaceAccess(rows[number].line, places[0], None, kind)
            second = RaceAccess(rows[instruction].line, places[1], None, turn.kind)
            address = turn.shadow.region.base + int(turn.places[n]) * turn.shadow.granule
            buffer = self.memory.buffer_at(address)
            low = address if buffer is None else address - buffer.address
            element = hex(address) if buffer is None else buffer.element_at(low)
            reason = f"{element}: no order between {first} and {second}"
            high = low + turn.shadow.granule - 1
            self._races[key] = Race((first, second), low, high, reason)

    def _acquiring(self, batch: _Batch) -> Array:
        """Those blocks of a batch that come after others, which have stored or changed something
        where these look."""
        seen = np.zeros(len(batch.places), bool)
        for kind in ("store", "atomic"):
            for blocks, times in batch.shadow.table(kind)[:, :, batch.places]:
                seen |= (blocks != 0) & (blocks != batch.blocks)
                np.maximum.at(self._released, blocks % MAX_ORDERED, times)
        if batch.kind == "atomic":  # lanes take their turns
            _, first, index = np.unique(batch.places, return_index=True, return_inverse=True)
            seen |= batch.blocks[first][index] != batch.blocks
        acquiring: Array = batch.blocks[seen] % MAX_ORDERED
        return acquiring

    def _keep(self, turn: _Batch, same: Array) -> None:
        """Keep an access as the last one, and another block's as the one before.

        A store of another value replaces both.
        """
        table = turn.shadow.table(turn.kind)
        previous = table[0][:, turn.places]
        moved = previous[0] != turn.blocks
        table[1][:, turn.places[moved]] = previous[:, moved]
        table[0, 0, turn.places] = turn.blocks
        table[0, 1, turn.places] = self._now
        if turn.kind == "store":
            table[1, 0, turn.places[~same]] = 0
