"""Bulk copies between global and shared memory: of bytes, and of tiles that tensor maps describe.

Each is done at once, when it is issued: what it reads may not be changed before it is waited for,
and what it writes not be read, so that a program cannot tell. The bytes that it moved are then told
to its mbarrier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from inspector.execute.access import WINDOWS, Access, ChunkMemory
from inspector.execute.atomics import OPERATIONS, in_order
from inspector.execute.faults import Fault
from inspector.execute.kinds import UNSIGNED, Array, Mask, i64, u8, u64
from inspector.execute.memory import Region
from inspector.execute.phases import Phases
from inspector.execute.tensormaps import SIZE, TensorMap, field_place, swizzled_offsets

_OFFSET = (1 << 56) - 1


class BulkCopies:
    """The bulk copies of a chunk."""

    def __init__(self, memory: ChunkMemory, phases: Phases) -> None:
        self.memory, self.phases, self.lanes = memory, phases, memory.lanes
        self._maps: dict[bytes, TensorMap] = {}

    # -- tensor maps -----------------------------------------------------------------------------

    def replace(
        self,
        n: int,
        space: str,
        address: Array,
        field: str,
        dimension: int,
        value: Array,
        mask: Mask,
    ) -> None:
        """``tensormap.replace`` of one field."""
        offset, size = field_place(field, dimension)
        bits = UNSIGNED[size * 8]
        self.memory.store(n, space, address + u64(offset), bits, [value.astype(bits)], mask)

    def copy_map(self, n: int, target: Array, source: Array, mask: Mask) -> None:
        """``tensormap.cp_fenceproxy``: 128 bytes from shared to global memory, by whole warps."""
        lead = self.lanes.full_mask(mask) & (self.lanes.lane == 0)
        for at in range(0, SIZE, 8):
            more = u64(at)
            word = self.memory.fetch(n, "shared", (source + more) & u64(_OFFSET), u64, 1, lead)
            self.memory.store(n, "generic", target + more, u64, word, lead)

    def _map(self, n: int, where: tuple[int, int], address: int) -> TensorMap:
        """The tensor map at a generic address, as one lane sees it."""
        window, offset = address >> 56, address & _OFFSET
        memory = self.memory
        if window == WINDOWS["param"] >> 56:
            data = memory.parameters[offset : offset + SIZE].tobytes()
        elif window == WINDOWS["shared"] >> 56:
            data = memory.shared[where[0], offset : offset + SIZE].tobytes()
        else:
            region = self._region(n, where, address, SIZE)
            at = address - region.base
            data = region.data[at : at + SIZE].tobytes()
        made = self._maps.get(data)
        if made is None:
            try:
                made = self._maps[data] = TensorMap.decode(data.ljust(SIZE, b"\0"))
            except ValueError as error:
                raise self._fault(
                    "tensor map", f"a copy by a tensor map: {error}", n, where
                ) from None
        return made

    def _fault(self, cause: str, sentence: str, n: int, where: tuple[int, int]) -> Fault:
        return self.memory.scene.fault(cause, sentence, n, where)

    def _region(self, n: int, where: tuple[int, int], address: int, nbytes: int) -> Region:
        number = self.memory.memory.region_at(address)
        if number is not None:
            region = self.memory.memory.regions[number]
            if address + nbytes <= region.end:
                return region
        raise self.memory.outside_global(n, where, address, nbytes)

    def _each(self, mask: Mask) -> Iterator[tuple[int, int]]:
        rows, columns = np.nonzero(self.lanes.full_mask(mask))
        yield from zip(rows.tolist(), columns.tolist(), strict=True)

    def _shared(self, n: int, where: tuple[int, int], address: int, nbytes: int) -> int:
        offset = address & _OFFSET
        if offset + nbytes > self.memory.limit:
            raise self.memory.scene.fault(
                "out of bounds",
                f"{nbytes} bytes of shared memory at {offset:#x}, of which there are "
                f"{self.memory.limit:,} bytes",
                n,
                where,
                space="shared",
                address=offset,
                nbytes=nbytes,
                past=offset + nbytes - self.memory.limit,
            )
        return offset

    # -- tiles -----------------------------------------------------------------------------------

    def load_tile(
        self,
        n: int,
        target: Array,
        tensor: Array,
        coordinates: Sequence[Array],
        barrier: Array,
        gather: bool,
        mask: Mask,
    ) -> None:
        """A tile from global to shared memory; its bytes are reported to an mbarrier."""
        spread = [self.lanes.full(x) for x in (target, tensor, barrier)]
        points = [self.lanes.full(c).view(np.int32) for c in coordinates]
        for where in self._each(mask):
            tile = self._map(n, where, int(spread[1][where]))
            rows, start = _points(points, where, gather)
            address, inside = tile.places(start, rows)
            values = np.broadcast_to(tile.outside_bits(), address.shape).copy()
            bits = UNSIGNED[tile.item * 8]
            if inside.any():
                self._tell(n, where, "load", address[inside], tile.item)
                region = self._within(n, where, address[inside], tile.item)
                index = (address[inside] - region.base) // tile.item
                values[inside] = region.view(bits)[index]
            nbytes = len(address) * tile.item
            offset = self._shared(n, where, int(spread[0][where]), nbytes)
            places = swizzled_offsets(offset, len(address), tile.item, tile.swizzle)
            self.memory.shared[where[0]].view(bits)[places // tile.item] = values
            self.memory.changes += 1
            self.phases.came(n, where[0], int(spread[2][where]) & _OFFSET, nbytes)

    def store_tile(
        self,
        n: int,
        tensor: Array,
        coordinates: Sequence[Array],
        source: Array,
        what: str,
        scatter: bool,
        mask: Mask,
    ) -> None:
        """A tile from shared to global memory; ``what`` is a reduction, or "" for a store."""
        spread = [self.lanes.full(x) for x in (tensor, source)]
        points = [self.lanes.full(c).view(np.int32) for c in coordinates]
        for where in self._each(mask):
            tile = self._map(n, where, int(spread[0][where]))
            rows, start = _points(points, where, scatter)
            address, inside = tile.places(start, rows)
            bits = UNSIGNED[tile.item * 8]
            nbytes = len(address) * tile.item
            offset = self._shared(n, where, int(spread[1][where]), nbytes)
            places = swizzled_offsets(offset, len(address), tile.item, tile.swizzle)
            values = self.memory.shared[where[0]].view(bits)[places // tile.item][inside]
            if not inside.any():
                continue
            self._write(n, where, address[inside], values, tile.kind, what)

    def _write(
        self, n: int, where: tuple[int, int], address: Array, values: Array, kind: str, what: str
    ) -> None:
        """Elements of one lane's copy to global memory, or a reduction with the stored value."""
        item = values.dtype.itemsize
        self._tell(n, where, "atomic" if what else "store", address, item, values)
        region = self._within(n, where, address, item)
        self.memory.may_write(n, region, where)
        index = (address - region.base) // item
        view = region.view(values.dtype.type)
        if what:
            in_order(view, index, OPERATIONS[what], kind, [values], wanted=False)
        else:
            view[index] = values
        self.memory.changes += 1

    def _within(self, n: int, where: tuple[int, int], address: Array, item: int) -> Region:
        """The region that all of a tile is in."""
        region = self._region(n, where, int(address.min()), item)
        last = int(address.max())
        if last + item > region.end:
            raise self.memory.outside_global(n, where, last, item)
        return region

    def _tell(
        self,
        n: int,
        where: tuple[int, int],
        way: str,
        address: Array,
        nbytes: int,
        values: Array | None = None,
    ) -> None:
        """Tells an observer of a copy: the copying unit's accesses, of no lane's own."""
        if self.memory.watching:
            told = () if values is None else (values,)
            access = Access(
                n, f"bulk {way}", "global", address.astype(u64), nbytes, None, told, where
            )
            self.memory.watching.access(self.lanes, access)

    # -- bytes -----------------------------------------------------------------------------------

    def copy_in(
        self, n: int, target: Array, source: Array, size: Array, barrier: Array, mask: Mask
    ) -> None:
        """``cp.async.bulk`` to shared memory, from global memory or shared memory."""
        spread = [self.lanes.full(x) for x in (target, source, size, barrier)]
        for where in self._each(mask):
            to, origin, count, waits = (int(x[where]) for x in spread)
            self._aligned(n, where, to | origin | count)
            offset = self._shared(n, where, to, count)
            if origin >> 56 == WINDOWS["shared"] >> 56 or origin < self.memory.limit:
                at = self._shared(n, where, origin, count)
                data = self.memory.shared[where[0], at : at + count].copy()
            else:
                region = self._region(n, where, origin, count)
                at = origin - region.base
                data = region.data[at : at + count]
                self._tell(n, where, "load", origin + np.arange(0, count, 16, dtype=i64), 16)
            self.memory.shared[where[0], offset : offset + count] = data
            self.memory.changes += 1
            self.phases.came(n, where[0], waits & _OFFSET, count)

    def copy_out(
        self, n: int, target: Array, source: Array, size: Array, kind: str, what: str, mask: Mask
    ) -> None:
        """``cp.async.bulk`` or ``cp.reduce.async.bulk`` from shared to global memory."""
        spread = [self.lanes.full(x) for x in (target, source, size)]
        for where in self._each(mask):
            to, origin, count = (int(x[where]) for x in spread)
            self._aligned(n, where, to | origin | count)
            offset = self._shared(n, where, origin, count)
            data = self.memory.shared[where[0], offset : offset + count].copy()
            bits = UNSIGNED[{"64": 64, "32": 32, "16": 16}.get(kind[-2:], 8)] if what else u8
            values = data.view(bits)
            item = values.dtype.itemsize
            address = to + np.arange(0, count, item, dtype=i64)
            self._write(n, where, address, values, kind, what)

    def _aligned(self, n: int, where: tuple[int, int], address: int) -> None:
        if address & 15:
            raise self._fault(
                "misaligned",
                "copies bytes whose addresses or number is no multiple of 16",
                n,
                where,
            )


def _points(
    points: Sequence[Array], where: tuple[int, int], rows: bool
) -> tuple[list[int] | None, list[int]]:
    """A lane's coordinates; of a gather or scatter its rows, and the column."""
    numbers = [int(p[where]) for p in points]
    if not rows:
        return None, numbers
    return numbers[1:], [numbers[0], 0]
