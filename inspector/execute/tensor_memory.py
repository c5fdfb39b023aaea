"""Tensor memory and the tensor cores that use it: ``tcgen05`` of sm_100.

A block has 128 lanes of 512 columns of 32 bits; an address has the lane in its upper half and the
column in its lower one. Copies and products are done at once, when they are issued: what they read
may not be changed, and what they write not be read, before they are waited for, so that a program
cannot tell. PTX ISA, "TensorCore 5th Generation Instructions".

Which thread holds what of a load's matrix, and where the rows of a product are, follows the ISA's
figures; no bits of a Blackwell GPU were compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inspector.base.units import plural
from inspector.execute import floats
from inspector.execute.barriers import Phases
from inspector.execute.faults import Fault
from inspector.execute.kinds import UNSIGNED, Array, Mask, f16, f32, f64, i64, u8, u16, u32
from inspector.execute.lanes import PRODUCTS_A_LANE, as_numbers, swizzled, tile_offsets
from inspector.execute.memory import RANK_SHIFT, ChunkMemory

LANES = 128
COLUMNS = 512
BYTES = LANES * COLUMNS * 4
"""Bytes of a block's tensor memory."""
LEAST_COLUMNS = 32
WARP = 32
_COLUMN = (1 << 16) - 1


# -- what a product's descriptors say -------------------------------------------------------------


class ProductForm(NamedTuple):
    """What a product's opcode says.

    ``stationary``: ``.ws``; ``in_pair``: by two blocks; ``scales`` of each row of A and column of
    B, 0 without any.
    """

    kind: str
    stationary: bool = False
    in_pair: bool = False
    scales: int = 0


_SMALL = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
TYPES: Mapping[str, Mapping[int, str]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "i8": {0: "u8", 1: "s8"},
    "f8f6f4": _SMALL,
    "mxf8f6f4": _SMALL,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
"""Types of A and B by the number in an instruction descriptor, by the kind of the product."""
DEPTHS = {"f16": 16, "tf32": 8, "i8": 32, "f8f6f4": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
"""K of one product."""
K_OF_4_BITS = 64
"""K of products whose elements have 4 bits, two of them a byte."""
SUMS = {0: "f16", 1: "f32", 2: "s32"}
"""Types of D."""
PADDED = {"e2m1": 8, "e2m3": 12, "e3m2": 12}
"""Bytes that 16 elements of a type below 8 bits fill of their 16, in products of ``f8f6f4``."""


_SHIFTS = {"e2m1": 2}
"""Lowest bit in its byte of an element of fewer bits in tensor memory, of others 0."""


class InvalidDescriptor(Exception):
    """A descriptor that names what no product has; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Product:
    """An instruction descriptor, read: ``m`` and ``n`` of D, its type and those of A and B."""

    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    negated: bool
    transposed: tuple[bool, bool]
    saturated: bool
    scale_kind: str
    scale_bytes: tuple[int, int]
    """Which byte of its word holds the first scale, of A and of B."""


def read_descriptor(bits: int, form: ProductForm) -> Product:
    """PTX ISA, "Instruction Descriptor". Raises InvalidDescriptor."""
    types = TYPES[form.kind]
    a = types.get(bits >> 7 & 7)
    b = types.get(bits >> 10 & (3 if form.kind.startswith("mxf4") else 7))
    m = (bits >> 24 & 31) << 4
    n = (bits >> 17 & 63) << 3
    d = "f32" if form.scales else SUMS.get(bits >> 4 & 3)
    if a is None or b is None or d is None:
        raise InvalidDescriptor(
            f"its instruction descriptor {bits:#x} names a type that is unknown"
        )
    if bits & 4:
        raise InvalidDescriptor("sparse products are not emulated")
    if form.kind.startswith("mxf4") and bits >> 31:
        raise InvalidDescriptor("products whose K is 96 are not emulated")
    rows = (128, 256) if form.in_pair else (32, 64, 128) if form.stationary else (64, 128)
    if m not in rows or not 8 <= n <= 256:
        raise InvalidDescriptor(f"its instruction descriptor {bits:#x} says {m}×{n}")
    return Product(
        m,
        n,
        DEPTHS[form.kind],
        a,
        b,
        d,
        negated=bool((bits >> 13 ^ bits >> 14) & 1),
        transposed=(bool(bits >> 15 & 1), bool(bits >> 16 & 1)),
        saturated=form.kind == "i8" and bool(bits & 8),
        scale_kind="ue8m0" if bits >> 23 & 1 else "ue4m3",
        scale_bytes=(bits >> 29 & 3, bits >> 4 & 3),
    )


SWIZZLES = {0: 16, 1: 128, 2: 128, 4: 64, 6: 32}
"""Bytes of a swizzle by the mode in a descriptor of shared memory; 16 means none. Mode 1 exchanges
pieces of 32 bytes."""
_PIECES_OF_32 = 1
_DEPTH_OF_PIECES_OF_32 = 4
"""Rows along K of the pattern of that mode, which is for matrices along M or N alone (CUTLASS,
mma_traits_sm100.hpp)."""


def swizzled_by_32(address: Array) -> Array:
    """Where the bytes at an address of a tile are that is swizzled in pieces of 32 bytes."""
    return address ^ ((address >> 7 & 3) << 5)


def tile_addresses(
    descriptor: int, rows: int, columns: int, size: int, *, transposed: bool = False
) -> Array:
    """Offsets in shared memory of a matrix that a descriptor names: (rows, columns).

    Elements have ``size`` bytes. PTX ISA, "Shared Memory Descriptor". Raises InvalidDescriptor.
    """
    start = (descriptor & 0x3FFF) << 4
    leading = (descriptor >> 16 & 0x3FFF) << 4
    stride = (descriptor >> 32 & 0x3FFF) << 4
    mode = descriptor >> 61
    if descriptor >> 46 & 7 != 1 or mode not in SWIZZLES:
        raise InvalidDescriptor(f"{descriptor:#x} is no descriptor of a matrix in shared memory")
    width = SWIZZLES[mode]
    # Rows of 128 bytes from a multiple of the swizzle's pattern on to where the pattern begins
    base_offset = (descriptor >> 49 & 7) % (width // 16)
    if base_offset or descriptor >> 52 & 1:
        raise InvalidDescriptor(
            f"the base offset or absolute address of {descriptor:#x} is unknown"
        )
    if mode != _PIECES_OF_32:
        offsets = tile_offsets(rows, columns, size, transposed, leading, stride, width)
        return swizzled(start + offsets, width)
    if not transposed:
        raise InvalidDescriptor(f"{descriptor:#x} swizzles pieces of 32 bytes along K")
    depth = _DEPTH_OF_PIECES_OF_32
    offsets = tile_offsets(rows, columns, size, transposed, leading, stride, width, depth)
    return swizzled_by_32(start + offsets)


def row_places(product: Product, form: ProductForm) -> tuple[Array, Array]:
    """Lanes and columns of a block's elements of D: (rows, columns) each, or (rows, 1), (1, N).

    PTX ISA, "Data Path Layout Organization", layouts A, B, D, E, F and G.
    """
    rows = product.m // 2 if form.in_pair else product.m
    row = np.arange(rows)[:, None]
    column = np.arange(product.n)[None, :]
    if rows == LANES:
        return row, column
    if rows == 64 and not (form.in_pair or form.stationary):
        return row // 16 * WARP + row % 16, column
    parts = LANES // rows  # of the columns, one after another in further lanes
    width = product.n // parts
    return row + rows * (column // width), column % width


def load_places(shape: str, count: int) -> tuple[Array, Array]:
    """Lanes and columns of a load's or store's elements from its address on: (32, registers) each,
    by thread of a warp. PTX ISA, "Data Movement Shape"."""
    thread = np.arange(WARP)[:, None]
    register = np.arange(count * REGISTERS[shape])[None, :]
    if shape == "32x32b":
        return thread, register
    if shape == "16x32bx2":
        return thread % 16, register
    if shape == "16x64b":
        return thread // 4 + 8 * (thread % 2), thread // 2 % 2 + 2 * register
    if shape == "16x128b":
        return thread // 4 + 8 * (register % 2), thread % 4 + 4 * (register // 2)
    column = 2 * (thread % 4) + register % 2 + 8 * (register // 4)
    return thread // 4 + 8 * (register // 2 % 2), column


REGISTERS = {"32x32b": 1, "16x32bx2": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}
"""Registers of a thread by the shape of a load or store, of its ``.x1``."""

COPIES: Mapping[str, tuple[int, Sequence[Sequence[int]]]] = {
    "128x256b": (8, [(0, 32, 64, 96)]),
    "128x128b": (4, [(0, 32, 64, 96)]),
    "64x128b.warpx2::02_13": (4, [(0, 32), (64, 96)]),
    "64x128b.warpx2::01_23": (4, [(0, 64), (32, 96)]),
    "32x128b.warpx4": (4, [(0,), (32,), (64,), (96,)]),
}
"""Words of a row of a copy from shared memory, by its shape; and for each time that it is made the
first lane of each 32 rows."""


class TensorMemory:
    """The tensor memory of a chunk's blocks."""

    def __init__(
        self,
        memory: ChunkMemory,
        phases: Phases,
        pay: Callable[[int], None],
        tell: Callable[[int, int], None],
    ) -> None:
        self.memory = memory
        self.phases = phases
        self.pay = pay
        """Takes what a product costs from the launch's budget."""
        self.tell = tell
        """Tells observers of an instruction's floating point operations."""
        self.lanes = memory.lanes
        self.cells: Array = np.zeros((0, LANES, COLUMNS), u32)
        self.allocated: Array = np.zeros((self.lanes.blocks, COLUMNS), bool)

    # -- allocation

    def allocate(self, n: int, target: Array, columns: Array, mask: Mask) -> None:
        """``tcgen05.alloc``: a warp takes columns; their address goes to shared memory."""
        if not self.cells.size:
            self.cells = np.zeros((self.lanes.blocks, LANES, COLUMNS), u32)
        addresses = np.zeros(self.lanes.shape, u32)
        first_lanes = self._first_lanes(mask)
        for row, lane in zip(*np.nonzero(first_lanes), strict=True):
            count = int(self.lanes.full(columns)[row, lane])
            if count < LEAST_COLUMNS or count > COLUMNS or count & (count - 1):
                sentence = f"takes {count} columns, which is no power of two from 32 to 512"
                raise self._fault(sentence, n, (row, lane))
            free = ~self.allocated[row].reshape(-1, count).any(1)
            if not free.any():
                sentence = f"waits for ever for {count} columns, which its block has taken itself"
                raise self._fault(sentence, n, (row, lane))
            start = int(np.argmax(free)) * count
            self.allocated[row, start : start + count] = True
            addresses[row, lane] = start
        self.memory.store(n, "shared", target, u32, [addresses], first_lanes)

    def deallocate(self, n: int, address: Array, columns: Array, mask: Mask) -> None:
        """``tcgen05.dealloc``."""
        for row, lane in zip(*np.nonzero(self._first_lanes(mask)), strict=True):
            count = int(self.lanes.full(columns)[row, lane])
            start = int(self.lanes.full(address)[row, lane]) & _COLUMN
            self._check(n, (row, lane), start, start + count, "gives back")
            self.allocated[row, start : start + count] = False

    def _first_lanes(self, mask: Mask) -> Array:
        """The first lane that runs of each warp that has one: a mask."""
        running = self.lanes.mask_warps(mask)
        first = np.argmax(running, 2)[..., None] == np.arange(WARP)
        result: Array = (first & running).reshape(self.lanes.shape)
        return result

    def _check(self, n: int, lane: tuple[int, int], first: int, end: int, verb: str) -> None:
        """Raise Fault where columns are not allocated."""
        allocated = self.allocated[lane[0]]
        if end > COLUMNS or not allocated[first:end].all():
            sentence = f"{verb} columns {first} to {end - 1} of tensor memory, of which "
            sentence += f"{plural(int(allocated[first:end].sum()), 'column')} are allocated"
            raise self._fault(sentence, n, lane)

    def _fault(self, sentence: str, n: int, lane: tuple[int, int]) -> Fault:
        return self.memory.fault("tensor memory", sentence, n, (int(lane[0]), int(lane[1])))

    # -- loads and stores

    def load(
        self, n: int, shape: str, count: int, address: Array, half: int, packed: bool, mask: Mask
    ) -> list[Array]:
        """``tcgen05.ld`` of ``shape`` and ``.x`` ``count``, as registers.

        ``half``: columns from the first 16 threads' to the others' of ``.16x32bx2``. ``packed``:
        a register has the lower halves of two columns.
        """
        cells = self._cells(n, shape, count, address, half, packed, mask, "loads")
        values = self.cells[cells]
        if packed:
            values = (values[..., 0::2] & u32(0xFFFF)) | (values[..., 1::2] << u32(16))
        flat = values.reshape(*self.lanes.shape, -1)
        return [np.ascontiguousarray(flat[..., k]) for k in range(flat.shape[-1])]

    def store(
        self,
        n: int,
        shape: str,
        count: int,
        address: Array,
        half: int,
        unpacked: bool,
        values: Sequence[Array],
        mask: Mask,
    ) -> None:
        """``tcgen05.st``; ``unpacked`` is the opposite of ``packed``."""
        parts = [self.lanes.full(value) for value in values]
        if unpacked:
            parts = [part >> u32(s) & u32(0xFFFF) for part in parts for s in (0, 16)]
        cells = self._cells(n, shape, count, address, half, unpacked, mask, "stores")
        running = self.lanes.mask_warps(mask).any(2)
        stacked = np.stack(parts, -1).reshape(*running.shape, WARP, -1)
        self.cells[tuple(index[running] for index in cells)] = stacked[running]
        self.memory.changes += 1

    def _cells(
        self,
        n: int,
        shape: str,
        count: int,
        address: Array,
        half: int,
        by_halves: bool,
        mask: Mask,
        verb: str,
    ) -> tuple[Array, Array, Array]:
        """Block, lane and column of each element: (B, warps, 32, elements) each; those of warps
        that do not run are 0. Raises Fault where a warp reaches lanes that are not its own.

        ``by_halves``: the halves of a register are in two columns, one beside the other.
        """
        lanes = self.lanes
        running = lanes.mask_warps(mask).any(2)
        first_lanes = self._first_lanes(mask)
        warp_address = np.where(first_lanes, lanes.full(address), u32(0))
        base = warp_address.reshape(*running.shape, WARP).max(2).astype(i64)
        lane, column = load_places(shape, count)
        if by_halves:
            lane = np.repeat(lane, 2, 1) if lane.shape[1] > 1 else lane
            column = np.stack((2 * column, 2 * column + 1), -1).reshape(len(column), -1)
        if shape == "16x32bx2":
            column = column + half * (np.arange(WARP)[:, None] // 16)
        first_lane = base >> 16
        first_column = base & _COLUMN
        last_column = first_column + int(column.max())
        own = np.arange(running.shape[1]) % 4 * WARP
        foreign = (first_lane < own) | (first_lane + int(lane.max()) >= own + WARP)
        block_columns = np.cumsum(~self.allocated, axis=1)
        block = np.broadcast_to(np.arange(lanes.blocks)[:, None], running.shape)
        ends = np.minimum(last_column, COLUMNS - 1)
        absent = block_columns[block, ends] - block_columns[block, first_column % COLUMNS]
        absent = (absent > 0) | ~self.allocated[block, first_column % COLUMNS]
        absent |= last_column >= COLUMNS
        for row, warp in np.argwhere(running & (foreign | absent)).tolist():
            place = (row, int(np.argmax(first_lanes[row, warp * WARP :])) + warp * WARP)
            if foreign[row, warp]:
                lane_number = int(first_lane[row, warp])
                sentence = f"warp {warp} {verb} lanes from {lane_number} on of tensor memory; "
                sentence += f"its own are {own[warp]} to {own[warp] + WARP - 1}"
                raise self._fault(sentence, n, place)
            columns = int(first_column[row, warp]), int(last_column[row, warp]) + 1
            self._check(n, place, *columns, verb)
        base_lane = np.where(running, first_lane, 0)[..., None, None]
        base_column = np.where(running, first_column, 0)[..., None, None]
        cells = np.broadcast_arrays(block[..., None, None], base_lane + lane, base_column + column)
        return cells[0], cells[1], np.minimum(cells[2], COLUMNS - 1)

    # -- copies, products, commits

    def copy(
        self,
        n: int,
        shape: str,
        packed: str,
        in_pair: bool,
        address: Array,
        descriptor: Array,
        mask: Mask,
    ) -> None:
        """``tcgen05.cp`` from shared memory; with ``in_pair`` in both blocks of a pair.

        ``packed``: the type of elements that become a byte each, as products read them, or "".
        """
        width, copies = COPIES[shape]
        for lane, (to, source) in self._lanes_of(mask, address, descriptor):
            first = to & _COLUMN
            try:
                places = tile_addresses(source, WARP * len(copies[0]), width, 4)
            except InvalidDescriptor as error:
                raise self._fault(str(error), n, lane) from None
            for row in [lane[0] & ~1, lane[0] | 1] if in_pair else [lane[0]]:
                self._check(n, (row, lane[1]), first, first + width, "writes")
                words = self._shared(n, lane, np.array([row]), places, 4)[0]
                if packed:
                    elements = unpadded(words.view(u8), packed) << u8(_SHIFTS.get(packed, 0))
                    words = elements.view(u32)
                for starts in copies:
                    target_lanes = np.concatenate([start + np.arange(WARP) for start in starts])
                    self.cells[row, target_lanes, first : first + width] = words
        self.memory.changes += 1

    def commit(self, n: int, address: Array, ranks: Array | None, mask: Mask) -> None:
        """``tcgen05.commit``: all before it is done; arrivals at the mbarriers, at the one that is
        named or at its offset in the blocks whose bits are set in ``ranks``."""
        if ranks is None:
            self.phases.arrive(n, address, None, None, mask)
            return
        base = address & ~address.dtype.type(0xFF << RANK_SHIFT)
        for rank in range(self.lanes.cluster_size):
            named = self.lanes.full_mask(mask) & (self.lanes.full(ranks) >> u16(rank) & u16(1) > 0)
            if named.any():
                self.phases.arrive(
                    n, base | address.dtype.type(rank << RANK_SHIFT), None, None, named
                )

    def multiply(
        self,
        n: int,
        form: tuple[str, bool, bool, int],
        target: Array,
        a: Array,
        b: Array,
        descriptor: Array,
        adds: Array,
        a_is_in_tensor_memory: bool,
        disabled: Sequence[Array],
        halvings: int,
        scales: Sequence[Array],
        mask: Mask,
    ) -> None:
        """``tcgen05.mma`` D = A·B + D · 2^-``halvings``, D being 0 where not ``adds``.

        ``a`` is a descriptor of shared memory or an address in tensor memory, as ``scales`` of A
        and B are. ``disabled``: words with a bit for each lane of tensor memory that keeps its D.
        """
        groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        operands = (target, a, b, descriptor, adds, *disabled, *scales)
        for lane, values in self._lanes_of(mask, *operands):
            groups.setdefault(tuple(values), []).append(lane)
        product_form = ProductForm(*form)
        for group, lanes in groups.items():
            try:
                self._multiply(
                    n, product_form, group, lanes, a_is_in_tensor_memory, len(disabled), halvings
                )
            except InvalidDescriptor as error:
                raise self._fault(str(error), n, lanes[0]) from None
        self.memory.changes += 1

    def _multiply(
        self,
        n: int,
        form: ProductForm,
        operands: tuple[int, ...],
        lanes: list[tuple[int, int]],
        a_is_in_tensor_memory: bool,
        disabled_count: int,
        halvings: int,
    ) -> None:
        """A product of several blocks whose operands are the same. Raises InvalidDescriptor."""
        target, a, b, descriptor, adds, *further = operands
        disabled, scales = further[:disabled_count], further[disabled_count:]
        product = read_descriptor(descriptor, form)
        products = len(lanes) * product.m * product.n * product.k
        self.pay(products // PRODUCTS_A_LANE)
        if product.d != "s32":
            self.tell(n, 2 * products)
        issuing = np.array([lane[0] for lane in lanes])
        pairs = [issuing & ~1, issuing | 1] if form.in_pair else [issuing]
        columns = product.n // len(pairs)
        b_parts = [self._of_shared(n, lanes[0], rows, product, b, columns, False) for rows in pairs]
        b_matrix = np.concatenate(b_parts, 1)
        for part, rows in enumerate(pairs):
            own = product.m // len(pairs)
            if a_is_in_tensor_memory:
                a_matrix = self._of_tensor(n, lanes[0], rows, product, form, a, own)
            else:
                a_matrix = self._of_shared(n, lanes[0], rows, product, a, own, True)
            scaled_b = b_matrix
            if scales:
                a_matrix = a_matrix * self._scales(rows, form, product, scales[0], own, 0)
                scaled_b = b_matrix * self._scales(rows, form, product, scales[1], product.n, 1)
            result = np.matmul(a_matrix, scaled_b.transpose(0, 2, 1))
            if product.negated:
                result = -result
            keep = disabled[part * 4 : part * 4 + 4]
            self._add(n, lanes[0], form, product, rows, target, result, bool(adds), keep, halvings)

    def _of_shared(
        self,
        n: int,
        lane: tuple[int, int],
        rows: Array,
        product: Product,
        descriptor: int,
        count: int,
        is_a: bool,
    ) -> Array:
        """A or B, transposed, in shared memory, as numbers: (blocks, ``count``, K)."""
        kind = product.a if is_a else product.b
        transposed = product.transposed[0 if is_a else 1]
        if product.k == K_OF_4_BITS:
            places = tile_addresses(descriptor, count, product.k // 2, 1)
            return nibbles(self._shared(n, lane, rows, places, 1), kind)
        size = {"tf32": 4, "f16": 2, "bf16": 2}.get(kind, 1)
        places = tile_addresses(descriptor, count, product.k, size, transposed=transposed)
        bits = self._shared(n, lane, rows, places, size)
        if kind not in PADDED:
            return as_numbers(bits, kind)
        if transposed:  # they are packed along M or N
            bits = unpadded(bits.transpose(0, 2, 1), kind).transpose(0, 2, 1)
        else:
            bits = unpadded(bits, kind)
        return floats.from_small(bits, kind)

    def _shared(
        self, n: int, lane: tuple[int, int], rows: Array, places: Array, size: int
    ) -> Array:
        """Elements of blocks' shared memory at offsets: (blocks, *places)."""
        last = int(places.max())
        if last + size > self.memory.limit:
            raise self.memory.outside(n, lane, "shared", last, size, self.memory.limit)
        elements = self.memory.shared.view(UNSIGNED[size * 8])
        picked: Array = elements[rows[:, None, None], (places // size)[None]]
        return picked

    def _of_tensor(
        self,
        n: int,
        lane: tuple[int, int],
        rows: Array,
        product: Product,
        form: ProductForm,
        address: int,
        count: int,
    ) -> Array:
        """A in tensor memory, by the rows of D, K along the columns: (blocks, ``count``, K)."""
        if count < 64:
            raise InvalidDescriptor(f"A of {count} rows in tensor memory is not emulated")
        size = {"tf32": 4, "f16": 2, "bf16": 2}.get(product.a, 1)
        words = product.k * size // (8 if product.k == K_OF_4_BITS else 4)
        first = address & _COLUMN
        self._check(n, lane, first, first + words, "reads")
        row = np.arange(count)
        if count == 64 and not (form.in_pair or form.stationary):
            row = row // 16 * WARP + row % 16
        place = (address >> 16) + row
        cells = np.ascontiguousarray(self.cells[rows][:, place, first : first + words])
        if product.k == K_OF_4_BITS:
            return nibbles(cells.view(u8), product.a)
        return as_numbers(cells.view(UNSIGNED[size * 8]), product.a)

    def _scales(
        self,
        rows: Array,
        form: ProductForm,
        product: Product,
        address: int,
        count: int,
        which: int,
    ) -> Array:
        """Scales of A's rows or B's columns, each for its part of K: (blocks, ``count``, K).

        The word of row ``r`` is in lane r % 32, r // 32 columns on; where the columns of D are in
        two halves of the lanes, so are their scales (CUTLASS, tmem_sf_frg).
        """
        row = np.arange(count)
        first_lane = np.zeros(count, i64)
        if which and product.m == LANES and form.in_pair:
            first_lane = row // (count // 2) * (LANES // 2)
            row = row % (count // 2)
        words = self.cells[rows][:, first_lane + row % WARP, (address & _COLUMN) + row // WARP]
        each = np.ascontiguousarray(words).view(u8).reshape(*words.shape, 4)
        first = product.scale_bytes[which]
        bits = each[..., (first + np.arange(form.scales)) % 4]
        if product.scale_kind == "ue8m0":
            values = floats.from_scale(bits)
        else:
            values = floats.from_small(bits & u8(127), "e4m3")
        return np.repeat(values.astype(f64), product.k // form.scales, 2)

    def _add(
        self,
        n: int,
        lane: tuple[int, int],
        form: ProductForm,
        product: Product,
        rows: Array,
        target: int,
        result: Array,
        adds: bool,
        disabled: Sequence[int],
        halvings: int,
    ) -> None:
        """Add a product to D of some blocks, where its lanes are enabled."""
        row, column = row_places(product, form)
        first = target & _COLUMN
        self._check(n, lane, first, first + int(column.max()) + 1, "sums to")
        lane_index, column_index = np.broadcast_arrays((target >> 16) + row, first + column)
        if int(lane_index.max()) >= LANES:
            raise InvalidDescriptor(f"its sums begin at lane {target >> 16} of tensor memory")
        old = self.cells[rows[:, None, None], lane_index, column_index]
        bits = _sum_bits(product, result, old if adds else None, halvings)
        words = np.array(disabled, u32)
        if words.any():
            keeps = words[lane_index // WARP] >> (lane_index % WARP).astype(u32) & u32(1)
            bits = np.where(keeps.astype(bool), old, bits)
        self.cells[rows[:, None, None], lane_index, column_index] = bits

    def _lanes_of(
        self, mask: Mask, *operands: Array
    ) -> Iterator[tuple[tuple[int, int], list[int]]]:
        """Row and column of each lane of a mask, and its operands."""
        spread = [self.lanes.full(x) for x in operands]
        for row, column in np.argwhere(self.lanes.full_mask(mask)).tolist():
            yield (row, column), [int(x[row, column]) for x in spread]


def nibbles(packed: Array, kind: str) -> Array:
    """Numbers of 4 bits, two of which are in each byte."""
    each = np.stack((packed & u8(15), packed >> u8(4)), -1)
    return floats.from_small(each.reshape(*packed.shape[:-1], -1), kind)


def unpadded(tile: Array, kind: str) -> Array:
    """Elements of 4 or 6 bits, 16 of which are packed in each 16 bytes: as many bytes, one each."""
    groups = tile.reshape(*tile.shape[:-1], -1, 16)
    packed = np.ascontiguousarray(groups[..., : PADDED[kind]])
    bits = np.unpackbits(packed, axis=-1, bitorder="little")
    each = bits.reshape(*packed.shape[:-1], 16, -1)
    values = np.packbits(each, axis=-1, bitorder="little")
    return values.reshape(tile.shape)


def _sum_bits(product: Product, result: Array, old: Array | None, halvings: int) -> Array:
    """The bits of D: a product and what D held before, if that is added."""
    if product.d == "s32":
        total = result.astype(i64)
        if old is not None:
            total = total + old.view(np.int32)
        if product.saturated:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return total.astype(u32)
    if old is not None:
        before = old.astype(u16).view(f16) if product.d == "f16" else old.view(f32)
        result = result + np.ldexp(before.astype(f32), -halvings)
    if product.d == "f16":
        return floats.to_f16(result.astype(f32)).astype(u32)
    return floats.canonical(result.astype(f32)).view(u32)
