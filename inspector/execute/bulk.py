"""Bulk copies between global and shared memory: of bytes, and of tiles that tensor maps describe.

Each is done at once, when it is issued: what it reads may not be changed before it is waited for,
and what it writes not be read, so that a program cannot tell. The bytes that it moved are then told
to its mbarrier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from inspector.execute.barriers import Phases
from inspector.execute.kinds import UNSIGNED, WIDTHS, Array, Mask, f32, f64, i64, u8, u32, u64
from inspector.execute.memory import (
    DISTRIBUTED,
    RANK_SHIFT,
    WINDOWS,
    Access,
    AsynchronousAccess,
    ChunkMemory,
    Region,
    as_shared,
    in_order,
)
from inspector.parsers.tensor_map import (
    ADDRESS,
    BOX,
    DIMS,
    ELEMENT,
    FILL,
    HIGH_STRIDES,
    INTERLEAVE,
    IS_TF32,
    LOW_STRIDES,
    RANK,
    SIZE,
    STEPS,
    SWIZZLE,
    TF32,
    TF32_LESS,
    Field,
    TensorMap,
)

_OFFSET = (1 << 56) - 1
WARP_LANES = 32
WORD_BITS = 32
START_ALIGNMENT = 16
"""Bytes of which a tile's innermost coordinate is a multiple (an H200; triton-lang/triton#9112)."""
_ANSWER_BYTES = 16
"""Of ``clusterlaunchcontrol.try_cancel``."""


class BulkCopies:
    def __init__(self, memory: ChunkMemory, phases: Phases) -> None:
        self.memory = memory
        self.phases = phases
        self.lanes = memory.lanes

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
        """``tensormap.replace``: a field, which is part of a word where it is smaller than one."""
        for part in FIELDS[field]:
            bit = part.bit + part.width * dimension
            number = _numbers_of(part, value.astype(u64))
            kind = UNSIGNED[max(part.width, WORD_BITS)]
            place = address + u64(bit // WORD_BITS * (WORD_BITS // 8))
            if part.width < WORD_BITS:
                shift = u32(bit % WORD_BITS)
                bits = u32((1 << part.width) - 1) << shift
                old = self.memory.fetch(n, space, place, u32, mask)
                number = (old & ~bits) | ((number.astype(u32) << shift) & bits)
            self.memory.store(n, space, place, kind, [number.astype(kind)], mask)

    def copy_map(self, n: int, target: Array, source: Array, mask: Mask) -> None:
        """``tensormap.cp_fenceproxy``: 128 bytes from shared to global memory, by whole warps."""
        lead = self.lanes.full_mask(mask) & (self.lanes.lane == 0)
        for offset in range(0, SIZE, 8):
            word_offset = u64(offset)
            word = self.memory.fetch(n, "shared", as_shared(source + word_offset), u64, lead)
            self.memory.store(n, "generic", target + word_offset, u64, [word], lead)

    def _map(self, n: int, lane: tuple[int, int], address: int) -> TensorMap:
        window = address >> 56
        offset = address & _OFFSET
        memory = self.memory
        if window == WINDOWS["param"] >> 56:
            data = memory.parameters[offset : offset + SIZE].tobytes()
        elif window == WINDOWS["shared"] >> 56:
            row, offset = self._shared(n, lane, address, SIZE)
            data = memory.shared[row, offset : offset + SIZE].tobytes()
        else:
            region = self._region(n, lane, address, SIZE)
            start = address - region.base
            data = region.data[start : start + SIZE].tobytes()
        try:
            return TensorMap.decode(data.ljust(SIZE, b"\0"))
        except ValueError as error:
            sentence = f"a copy by a tensor map: {error}"
            raise self.memory.fault("tensor map", sentence, n, lane) from None

    def _region(self, n: int, lane: tuple[int, int], address: int, nbytes: int) -> Region:
        region = self.memory.memory.region_at(address)
        if region is not None and address + nbytes <= region.end:
            return region
        raise self.memory.outside_global(n, lane, address, nbytes)

    def _lanes_of(
        self, mask: Mask, *operands: Array
    ) -> Iterator[tuple[tuple[int, int], Sequence[int]]]:
        """Row and column of each lane of a mask, and its operands."""
        spread = [self.lanes.full(x) for x in operands]
        for row, column in zip(*np.nonzero(self.lanes.full_mask(mask)), strict=True):
            yield (int(row), int(column)), [int(x[row, column]) for x in spread]

    def _shared(self, n: int, lane: tuple[int, int], address: int, nbytes: int) -> tuple[int, int]:
        """The row of the block whose shared memory an address is in, and the offset there."""
        row = lane[0]
        offset = address & _OFFSET
        size = self.lanes.cluster_size
        if size > 1:
            rank, offset = divmod(offset, 1 << RANK_SHIFT)
            if rank >= size:
                sentence = f"it names the shared memory of block {rank} of its cluster"
                raise self.memory.fault("cluster", sentence, n, lane)
            row += rank - row % size
        if offset + nbytes > self.memory.limit:
            raise self.memory.outside(n, lane, "shared", offset, nbytes, self.memory.limit)
        return row, offset

    def _receivers(self, lane: tuple[int, int], row: int, multicast: int) -> list[int]:
        """The rows of the blocks that a copy goes to: the one that its address is in, or those of
        the cluster whose bits are set in ``multicast``."""
        if not multicast:
            return [row]
        first = lane[0] - lane[0] % self.lanes.cluster_size
        ranks = range(self.lanes.cluster_size)
        return [first + rank for rank in ranks if multicast >> rank & 1]

    def _elements(self, row: int, item: int) -> Array:
        """A block's shared memory as elements of ``item`` bytes."""
        elements: Array = self.memory.shared[row].view(UNSIGNED[item * 8])
        return elements

    def _tile(
        self,
        n: int,
        lane: tuple[int, int],
        tensor: int,
        points: list[int],
        rows: bool,
        shared: int,
    ) -> tuple[TensorMap, Array, Array, int, Array]:
        """A lane's tile: its map, addresses, which of them are in the tensor, the row of the block
        whose shared memory it is in, and its elements' places there. ``rows``: a gather or scatter,
        of a column and rows."""
        tile = self._map(n, lane, tensor)
        if len(points) != (len(tile.dims) + 3 if rows else len(tile.dims)):
            sentence = f"a tensor of {len(tile.dims)} dimensions at {len(points)} coordinates"
            raise self.memory.fault("tensor map", sentence, n, lane)
        if not rows and tile.numbers == 1 and (first := points[0] * tile.item) % START_ALIGNMENT:
            sentence = (
                f"a tile that begins {first} bytes into the tensor's rows: the copy engine takes "
                f"multiples of {START_ALIGNMENT} bytes, and ends others as an illegal instruction"
            )
            raise self.memory.fault("tensor map", sentence, n, lane)
        columns, *others = map(len, tile.offsets)
        count = columns * (4 if rows else prod(others)) // tile.numbers
        row, offset = self._shared(n, lane, shared, count * tile.shared_item)
        address, inside = _places_of(
            tile, [points[0], 0] if rows else points, points[1:] if rows else None
        )
        offsets = offset + np.arange(len(address), dtype=i64) * tile.shared_item
        places = offsets ^ (((offsets >> 7) & (0, 1, 3, 7)[tile.swizzle]) << 4)
        last = int(places.max())
        if last + tile.item > self.memory.limit:
            raise self.memory.outside(n, lane, "shared", last, tile.item, self.memory.limit)
        return tile, address, inside, row, places // tile.item

    def load_tile(
        self,
        n: int,
        target: Array,
        tensor: Array,
        coordinates: Sequence[Array],
        barrier: Array,
        multicast: Array,
        gather: bool,
        in_pair: bool,
        mask: Mask,
    ) -> None:
        """A tile from global to shared memory; its bytes are reported to an mbarrier.

        ``multicast`` has a bit for each block of the cluster that it goes to, 0 where the address
        says which. ``in_pair``: the mbarrier may be the other block's of a pair (cta_group::2).
        """
        signed = [c.view(np.int32) for c in coordinates]
        for lane, (to, source, waits, ranks, *points) in self._lanes_of(
            mask, target, tensor, barrier, multicast, *signed
        ):
            tile, address, inside, owner, places = self._tile(n, lane, source, points, gather, to)
            values = np.broadcast_to(_outside_bits(tile), address.shape).copy()
            if inside.any():
                self._tell(n, lane, "load", address[inside], tile.item)
                region = self._within(n, lane, address[inside], tile.item)
                index = (address[inside] - region.base) // tile.item
                values[inside] = region.view(values.dtype.type)[index]
            for row in self._receivers(lane, owner, ranks):
                mbarrier = self._mbarrier(n, lane, waits, row if ranks else None, in_pair)
                self._tell_shared(n, lane, row, "store", places * tile.item, tile.item, mbarrier)
                self._elements(row, tile.item)[places] = values
                self.memory.changes += 1
                self._arrived(n, lane, mbarrier, len(address) * tile.item)

    def store_tile(
        self,
        n: int,
        tensor: Array,
        coordinates: Sequence[Array],
        source: Array,
        reduction: str,
        scatter: bool,
        mask: Mask,
    ) -> None:
        """A tile from shared to global memory; ``reduction`` is its name, or "" for a store."""
        signed = [c.view(np.int32) for c in coordinates]
        for lane, (target, origin, *points) in self._lanes_of(mask, tensor, source, *signed):
            tile, address, inside, row, places = self._tile(
                n, lane, target, points, scatter, origin
            )
            self._tell_shared(n, lane, row, "load", places * tile.item, tile.item)
            if inside.any():
                values = self._elements(row, tile.item)[places][inside]
                self._write(n, lane, address[inside], values, tile.kind, reduction)

    def _write(
        self,
        n: int,
        lane: tuple[int, int],
        address: Array,
        values: Array,
        kind: str,
        reduction: str,
    ) -> None:
        """Elements of one lane's copy to global memory, or a reduction with the stored value."""
        item = values.dtype.itemsize
        self._tell(n, lane, "atomic" if reduction else "store", address, item, values)
        region = self._within(n, lane, address, item)
        self.memory.may_write(n, region, lane)
        index = (address - region.base) // item
        view = region.view(values.dtype.type)
        if reduction:
            in_order(view, index, reduction, kind, [values], returns_old=False)
        else:
            view[index] = values
        self.memory.changes += 1

    def _within(self, n: int, lane: tuple[int, int], address: Array, item: int) -> Region:
        """The region that all of a tile is in."""
        region = self._region(n, lane, int(address.min()), item)
        last = int(address.max())
        if last + item > region.end:
            raise self.memory.outside_global(n, lane, last, item)
        return region

    def _tell(
        self,
        n: int,
        lane: tuple[int, int],
        way: str,
        address: Array,
        nbytes: int,
        values: Array | None = None,
    ) -> None:
        """Tells an observer of a copy: the copying unit's accesses, of no lane's own."""
        if self.memory.watching:
            stored_values = () if values is None else (values,)
            access = Access(
                n, f"bulk {way}", "global", address.astype(u64), nbytes, None, stored_values, lane
            )
            self.memory.watching(access)

    def _tell_bytes(
        self,
        n: int,
        lane: tuple[int, int],
        row: int,
        way: str,
        offset: int,
        count: int,
        mbarrier: tuple[int, int] | None = None,
    ) -> None:
        """``_tell_shared`` of bytes in a row, a multiple of 16."""
        address = np.arange(offset, offset + count, 16, dtype=i64)
        self._tell_shared(n, lane, row, way, address, 16, mbarrier)

    def _tell_shared(
        self,
        n: int,
        lane: tuple[int, int],
        row: int,
        way: str,
        address: Array,
        nbytes: int,
        mbarrier: tuple[int, int] | None = None,
    ) -> None:
        """Tells the order observers what a lane's copy accesses of a block's shared memory."""
        if self.memory.ordering is not None:
            warp = lane[1] // WARP_LANES
            access = AsynchronousAccess(n, way, lane[0], warp, row, address, nbytes, mbarrier)
            self.memory.ordering("asynchronous", access)

    def copy_in(
        self,
        n: int,
        target: Array,
        source: Array,
        size: Array,
        barrier: Array,
        multicast: Array,
        from_shared: bool,
        kind: str,
        reduction: str,
        mask: Mask,
    ) -> None:
        """``cp.async.bulk`` or ``cp.reduce.async.bulk`` to shared memory, from global memory or
        ``from_shared`` memory. ``multicast`` is that of ``load_tile``."""
        for lane, (to, origin, count, waits, ranks) in self._lanes_of(
            mask, target, source, size, barrier, multicast
        ):
            self._aligned(n, lane, to | origin | count)
            owner, offset = self._shared(n, lane, to, count)
            if from_shared:
                source_row, start = self._shared(n, lane, origin, count)
                mbarrier = self._mbarrier(n, lane, waits)
                self._tell_bytes(n, lane, source_row, "load", start, count, mbarrier)
                data = self.memory.shared[source_row, start : start + count].copy()
            else:
                region = self._region(n, lane, origin, count)
                start = origin - region.base
                data = region.data[start : start + count]
                self._tell(n, lane, "load", origin + np.arange(0, count, 16, dtype=i64), 16)
            for row in self._receivers(lane, owner, ranks):
                mbarrier = self._mbarrier(n, lane, waits, row if ranks else None)
                way = "atomic" if reduction else "store"
                self._tell_bytes(n, lane, row, way, offset, count, mbarrier)
                target_bytes = self.memory.shared[row, offset : offset + count]
                if reduction:
                    bits = UNSIGNED[WIDTHS[kind]]
                    places = np.arange(count * 8 // WIDTHS[kind])
                    in_order(
                        target_bytes.view(bits), places, reduction, kind, [data.view(bits)],
                        returns_old=False,
                    )  # fmt: skip
                else:
                    target_bytes[:] = data
                self.memory.changes += 1
                self._arrived(n, lane, mbarrier, count)

    def answer(self, n: int, target: Array, barrier: Array, everywhere: bool, mask: Mask) -> None:
        """``clusterlaunchcontrol.try_cancel``: that nothing is taken over, 16 bytes of zeros.

        ``everywhere``: in all blocks of the cluster, at the same offsets.
        """
        ranks = (1 << self.lanes.cluster_size) - 1 if everywhere else 0
        for lane, (to, waits) in self._lanes_of(mask, target, barrier):
            owner, offset = self._shared(n, lane, to, _ANSWER_BYTES)
            for row in self._receivers(lane, owner, ranks):
                mbarrier = self._mbarrier(n, lane, waits, row if ranks else None)
                self._tell_bytes(n, lane, row, "store", offset, _ANSWER_BYTES, mbarrier)
                self.memory.shared[row, offset : offset + _ANSWER_BYTES] = 0
                self._arrived(n, lane, mbarrier, _ANSWER_BYTES)

    def store_async(
        self,
        n: int,
        target: Array,
        values: Sequence[Array],
        barrier: Array,
        kind: str,
        reduction: str,
        mask: Mask,
    ) -> None:
        """``st.async`` or ``red.async``: each lane's elements, and their bytes, to a block of the
        cluster. ``values`` are unsigned bits of ``kind``."""
        memory = self.memory
        item = WIDTHS[kind] // 8
        if reduction:
            memory.atomic(n, DISTRIBUTED, reduction, target, kind, values, None, mask, False)
        else:
            memory.store(n, DISTRIBUTED, target, UNSIGNED[WIDTHS[kind]], values, mask)
        nbytes = item * len(values)
        if memory.ordering is not None:
            way = "atomic" if reduction else "store"
            for lane, (to, waits) in self._lanes_of(mask, target, barrier):
                row, offset = self._shared(n, lane, to, nbytes)
                places = offset + np.arange(0, nbytes, item, dtype=i64)
                self._tell_shared(n, lane, row, way, places, item, self._mbarrier(n, lane, waits))
        self.phases.expect(n, barrier, np.full((1, 1), nbytes, np.uint32), mask, True)

    def _mbarrier(
        self,
        n: int,
        lane: tuple[int, int],
        barrier: int,
        receiver: int | None = None,
        in_pair: bool = False,
    ) -> tuple[int, int]:
        """The row and the offset of an mbarrier: the one that is named, or the one at its offset in
        the ``receiver``'s shared memory (``in_pair``: or of the block beside it)."""
        row, offset = self._shared(n, lane, barrier, 8)
        if receiver is not None:
            row = (receiver & ~1) | (row & 1) if in_pair else receiver
        return row, offset

    def _arrived(
        self, n: int, lane: tuple[int, int], mbarrier: tuple[int, int], nbytes: int
    ) -> None:
        """Bytes of a lane's copy came for an mbarrier."""
        thread = lane[0] * self.lanes.width + lane[1]
        self.phases.arrive_bytes(n, *mbarrier, nbytes, thread)

    def copy_out(
        self,
        n: int,
        target: Array,
        source: Array,
        size: Array,
        kind: str,
        reduction: str,
        mask: Mask,
    ) -> None:
        """``cp.async.bulk`` or ``cp.reduce.async.bulk`` from shared to global memory."""
        for lane, (to, origin, count) in self._lanes_of(mask, target, source, size):
            self._aligned(n, lane, to | origin | count)
            row, offset = self._shared(n, lane, origin, count)
            self._tell_bytes(n, lane, row, "load", offset, count)
            data = self.memory.shared[row, offset : offset + count].copy()
            bits = UNSIGNED[{"64": 64, "32": 32, "16": 16}.get(kind[-2:], 8)] if reduction else u8
            values = data.view(bits)
            address = to + np.arange(0, count, values.dtype.itemsize, dtype=i64)
            if count:
                self._write(n, lane, address, values, kind, reduction)

    def _aligned(self, n: int, lane: tuple[int, int], address: int) -> None:
        if address & 15:
            sentence = "copies bytes whose addresses or number is no multiple of 16"
            raise self.memory.fault("misaligned", sentence, n, lane)


FIELDS: dict[str, tuple[Field, ...]] = {
    "global_address": (ADDRESS,),
    "rank": (RANK._replace(less=0),),
    "box_dim": (BOX,),
    "global_dim": (DIMS,),
    "global_stride": (LOW_STRIDES, HIGH_STRIDES),
    "element_stride": (STEPS,),
    "elemtype": (ELEMENT, IS_TF32),
    "interleave_layout": (INTERLEAVE,),
    "swizzle_mode": (SWIZZLE,),
    "fill_mode": (FILL,),
}
"""The fields that ``tensormap.replace`` names; it counts ranks from 0."""
DIMENSIONS = {"box_dim": 5, "global_dim": 5, "global_stride": 4, "element_stride": 5}
"""How often a map has the fields that it has several of."""


def _numbers_of(field: Field, value: Array) -> Array:
    """Values as a field has them, before they are cut to its bits."""
    if field in (ELEMENT, IS_TF32):
        is_tf32 = np.isin(value, TF32)
        return is_tf32.astype(u64) if field is IS_TF32 else value - is_tf32 * u64(TF32_LESS)
    number: Array = (value - u64(field.less)) // u64(field.unit)
    return number


def _places_of(
    tile: TensorMap, start: Sequence[int], rows: Sequence[int] | None = None
) -> tuple[Array, Array]:
    """The addresses of a box's items (in order, flat) and which of them are in the tensor.

    ``start`` are the coordinates of its first element. ``rows``: the second coordinates of
    single rows, for a gather or a scatter.
    """
    rank = len(tile.dims)
    address: Array = np.full((1,) * rank, tile.address, i64)
    inside: Array = np.ones((1,) * rank, bool)
    for d in range(rank):
        if d == 1 and rows is not None:
            index = np.array(rows, i64)
        else:
            index = start[d] + np.array(tile.offsets[d], i64)
        size = tile.dims[d]
        if d == 0 and tile.numbers > 1:
            index = index[:: tile.numbers] // tile.numbers
            size //= tile.numbers
        shape = [1] * rank
        shape[rank - 1 - d] = len(index)
        index = index.reshape(shape)
        address = address + index * (tile.item if d == 0 else tile.strides[d - 1])
        inside = inside & (index >= 0) & (index < size)
    full_shape = np.broadcast_shapes(address.shape, inside.shape)
    flat = [np.broadcast_to(x, full_shape).reshape(-1) for x in (address, inside)]
    return flat[0], flat[1]


def _outside_bits(tile: TensorMap) -> Array:
    """The bits of what a load gives outside of the tensor: 0, or the type's NaN."""
    width = tile.item
    if not tile.fill:
        return np.zeros(1, f"u{width}")
    if width == 2:
        return np.array([0x7FFF], "u2")
    return np.array([np.nan], f64 if width == 8 else f32).view(f"u{width}")
