"""The lanes of a chunk of thread blocks, and instructions in which lanes see each other.

An array over lanes has the shape (B, T): blocks of the chunk, threads of a block padded to whole
warps. What does not depend on the thread is (B, 1), on the block (1, T), on neither (1, 1).

Matrix fragments (``mma.sync``, ``wgmma.mma_async``) are laid out as the PTX ISA draws them.
Products are summed in single precision (integers exactly, fp64 and block-scaled ones in fp64), in
an order of numpy's choosing: the hardware's is another.
"""

from collections.abc import Callable, Sequence

import numpy as np

from inspector.base.names import words
from inspector.execute import floats
from inspector.execute.kinds import UNSIGNED, Array, Mask, f16, f32, f64, i64, u8, u16, u32, u64

Triple = tuple[int, int, int]
SPECIALS = frozenset(
    [
        f"%{name}.{axis}"
        for name in words("tid ntid ctaid nctaid clusterid nclusterid cluster_ctaid cluster_nctaid")
        for axis in "xyz"
    ]
) | words(
    "%laneid %warpid %nwarpid %smid %nsmid %gridid %cluster_ctarank %cluster_nctarank "
    "%is_explicit_cluster %clock %clock_hi %clock64 %globaltimer %globaltimer_lo "
    "%globaltimer_hi %dynamic_smem_size %total_smem_size WARP_SZ %lanemask_eq "
    "%lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt"
)
"""The special registers that have a value here."""

CLUSTER_SPECIALS = frozenset(s for s in SPECIALS if "cluster" in s)
CLOCKS = frozenset(s for s in SPECIALS if "clock" in s or "timer" in s)
WIDE = frozenset(["%clock64", "%globaltimer", "%gridid", "%total_smem_size64"])


class Lanes:
    """Some thread blocks of a launch, by their numbers in it (x runs fastest).

    In a launch of clusters they are whole clusters, each one's blocks by their rank.
    """

    def __init__(
        self,
        grid: Triple,
        block: Triple,
        numbers: Array,
        *,
        shared: tuple[int, int] = (0, 0),
        cluster: Triple = (1, 1, 1),
    ) -> None:
        self.grid = grid
        self.cluster = cluster
        self.cluster_size = cluster[0] * cluster[1] * cluster[2]
        self.block = block
        self.numbers = numbers
        self.threads = block[0] * block[1] * block[2]
        self.blocks = len(numbers)
        self.width = -(-self.threads // 32) * 32
        self.shape = (self.blocks, self.width)
        self.row: Array = np.arange(self.blocks, dtype=i64)[:, None]
        self.rank: Array = self.row % self.cluster_size
        """Of each block in its cluster."""
        self.column: Array = np.arange(self.width, dtype=u32)[None, :]
        self.warp_base: Array = (self.column // u32(32) * u32(32)).astype(i64)
        self.lane: Array = self.column % u32(32)
        self.ticks = 0
        """What the clocks show: lane-instructions run so far."""
        self.live: Mask = None if self.width == self.threads else self.column < u32(self.threads)
        """Lanes that have not ended; those that pad the last warp never began."""
        self.shared = shared

    def special(self, name: str) -> Array:
        """The value of a special register."""
        if name in CLOCKS:
            kind = u64 if name in WIDE else u32
            ticks = self.ticks >> 32 if name.endswith("_hi") else self.ticks
            return np.array([[ticks]]).astype(kind)
        base, _, axis = name.lstrip("%").partition(".")
        n = "xyz".index(axis) if axis else 0
        if base == "tid":
            step = [1, self.block[0], self.block[0] * self.block[1]][n]
            return self.column // u32(step) % u32(self.block[n])
        number = self.numbers.astype(u64)[:, None]
        bit = u32(1) << self.lane
        if base in ("ctaid", "clusterid", "cluster_ctaid"):
            step = [1, self.grid[0], self.grid[0] * self.grid[1]][n]
            place = (number // u64(step) % u64(self.grid[n])).astype(u32)
            blocks = u32(self.cluster[n])
            return {"ctaid": place, "clusterid": place // blocks}.get(base, place % blocks)
        by_lane = {
            "laneid": self.lane,
            "warpid": self.column // u32(32),
            "smid": (number % u64(SMS)).astype(u32),
            "cluster_ctarank": self.rank.astype(u32),
            "lanemask_eq": bit,
            "lanemask_lt": bit - u32(1),
            "lanemask_le": bit | (bit - u32(1)),
            "lanemask_gt": ~(bit | (bit - u32(1))),
            "lanemask_ge": ~(bit - u32(1)),
        }
        if base in by_lane:
            return by_lane[base]
        everywhere = {
            "WARP_SZ": 32,
            "ntid": self.block[n],
            "nctaid": self.grid[n],
            "nclusterid": self.grid[n] // self.cluster[n],
            "cluster_nctaid": self.cluster[n],
            "cluster_nctarank": self.cluster_size,
            "is_explicit_cluster": self.cluster_size > 1,
            "nwarpid": self.width // 32,
            "nsmid": SMS,
            "dynamic_smem_size": self.shared[0],
            "total_smem_size": self.shared[1],
            "gridid": 1,
        }
        return np.array([[everywhere.get(base, 0)]], u64 if name in WIDE else u32)

    def full(self, x: Array) -> Array:
        """An array in the whole shape (B, T), read-only."""
        return np.broadcast_to(x, self.shape)

    def full_mask(self, mask: Mask) -> Array:
        return np.broadcast_to(np.True_ if mask is None else mask, self.shape)

    def warps(self, x: Array) -> Array:
        """An array as (B, warps, 32)."""
        return np.broadcast_to(x, self.shape).reshape(self.blocks, -1, 32)

    def mask_warps(self, mask: Mask) -> Array:
        return self.full_mask(mask).reshape(self.blocks, -1, 32)

    def count(self, mask: Mask) -> int:
        if mask is None:
            return self.blocks * self.width
        return int(np.count_nonzero(mask)) * (self.blocks * self.width // mask.size)

    def first(self, mask: Array) -> tuple[int, int]:
        """Row and column of the first lane of a mask that has one."""
        return divmod(int(np.argmax(self.full(mask).reshape(-1))), self.width)


def coordinates(number: int, sizes: Triple) -> Triple:
    """The coordinates of a block in its grid, or of a thread in its block."""
    x, y, _ = sizes
    return number % x, number // x % y, number // (x * y)


def block_number(block: Triple, grid: Triple) -> int:
    """The number of a block in its grid."""
    return block[0] + grid[0] * (block[1] + grid[1] * block[2])


SMS = 132
"""Multiprocessors that ``%nsmid`` reports, those of an H200; blocks are dealt out in turn."""


_BITS = u32(1) << np.arange(32, dtype=u32)


def shuffle(lanes: Lanes, mode: str, a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """``shfl``: each lane's value of another, and whether that one is in its segment."""
    lane = lanes.lane.astype(i64)
    c = c.astype(i64)
    clamp = c & 31
    segment = (c >> 8) & 31
    b = b.astype(i64) & 31
    bound = (lane & segment) | (clamp & ~segment)
    sources = {"up": lane - b, "down": lane + b, "bfly": lane ^ b}
    source = sources.get(mode, (lane & segment) | (b & ~segment))
    inside = source >= bound if mode == "up" else source <= bound
    source = np.where(inside, source, lane)
    if a.shape[1] == 1:
        return a, inside
    source_index = source + lanes.warp_base
    if source_index.shape[0] == 1:
        return a[:, source_index[0]], inside
    return np.take_along_axis(lanes.full(a), lanes.full(source_index), 1), inside


def ballot(lanes: Lanes, predicate: Array, mask: Mask) -> Array:
    """A bit for each lane that runs and whose predicate holds."""
    bits = (lanes.warps(predicate) & lanes.mask_warps(mask)) * _BITS
    return np.repeat(bits.sum(2, dtype=u32), 32, 1)


def vote(lanes: Lanes, mode: str, predicate: Array, mask: Mask, members: Array) -> Array:
    """``vote``: whether the predicate holds in any, in all, or alike in all lanes that run."""
    active = lanes.mask_warps(mask) & _named(lanes, members)
    if mode == "ballot":
        return ballot(lanes, predicate, active.reshape(lanes.shape))
    some = (lanes.warps(predicate) & active).any(2)
    holds_in_all = (lanes.warps(predicate) | ~active).all(2)
    return np.repeat({"any": some, "all": holds_in_all}.get(mode, holds_in_all | ~some), 32, 1)


def _named(lanes: Lanes, members: Array) -> Array:
    """The lanes that a member mask names, as (B, warps, 32)."""
    named: Array = (lanes.warps(members) >> np.arange(32, dtype=u32)) & u32(1)
    return named.astype(bool)


def match(lanes: Lanes, value: Array, mask: Mask, members: Array) -> Array:
    """``match.any``: the lanes that have the same value."""
    active = lanes.mask_warps(mask) & _named(lanes, members)
    values = lanes.warps(value)
    same = (values[..., :, None] == values[..., None, :]) & active[..., None, :]
    return (same * _BITS).sum(-1, dtype=u32).reshape(lanes.shape)


def match_all(lanes: Lanes, value: Array, mask: Mask, members: Array) -> tuple[Array, Array]:
    """``match.all``: the member mask where all lanes have one value, else 0; and whether."""
    active = lanes.mask_warps(mask) & _named(lanes, members)
    values = lanes.warps(value)
    first = np.take_along_axis(values, np.argmax(active, 2)[..., None], 2)
    same = ((values == first) | ~active).all(2)
    bits = (active * _BITS).sum(2, dtype=u32)
    return np.repeat(np.where(same, bits, u32(0)), 32, 1), np.repeat(same, 32, 1)


_REDUCE = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def reduce_warp(
    lanes: Lanes, name: str, value: Array, mask: Mask, members: Array, absolute: bool, nan: bool
) -> Array:
    """``redux``: one value of all lanes that run and are named, in the type of ``value``."""
    active = lanes.mask_warps(mask) & _named(lanes, members)
    values = lanes.warps(np.abs(value) if absolute else value)
    if values.dtype.kind == "f":
        least = name == "min"
        if nan:
            operation = _REDUCE[name]
            nobody = np.inf if least else -np.inf
        else:
            operation = np.fmin if least else np.fmax
            nobody = np.nan
        filled = np.where(active, values, values.dtype.type(nobody))
        return np.repeat(operation.reduce(filled, axis=2), 32, 1)
    info = np.iinfo(values.dtype)
    start = {"min": info.max, "max": info.min, "and": -1 if info.min else info.max}.get(name, 0)
    filled = np.where(active, values, values.dtype.type(start))
    return np.repeat(_REDUCE[name].reduce(filled, axis=2), 32, 1).astype(values.dtype)


def elect(lanes: Lanes, mask: Mask, members: Array) -> tuple[Array, Array]:
    """``elect.sync``: the first lane that is named, and whether a lane is it."""
    active = lanes.mask_warps(mask) & _named(lanes, members)
    first = np.repeat(np.argmax(active, 2).astype(u32), 32, 1)
    return first, first == lanes.lane


Shape = tuple[int, int, int]
MMA_SHAPES = frozenset(
    [(16, 8, k, kind) for kind in ("f16", "bf16") for k in (8, 16)]
    + [(16, 8, k, "tf32") for k in (4, 8)]
    + [(16, 8, k, kind) for kind in ("e4m3", "e5m2") for k in (16, 32)]
    + [(16, 8, 32, kind) for kind in ("e3m2", "e2m3", "e2m1")]
    + [(m, 8, k, kind) for kind in ("s8", "u8") for m, k in ((8, 16), (16, 16), (16, 32))]
    + [(8, 8, 4, "f64"), (16, 8, 4, "f64"), (16, 8, 8, "f64"), (16, 8, 16, "f64")]
)
"""M, N, K and the type of A, of those ``mma.sync`` that are known here."""

_BYTES = ("s8", "u8", *floats.SMALL)
"""Types of elements of which a register holds four, each in a byte."""
MMA_KINDS = ("f16", "bf16", "tf32", "f32", "f64", "s32", *_BYTES)


def _warps(lanes: Lanes, a: Array) -> Array:
    """A register as (warps, 32)."""
    return np.ascontiguousarray(lanes.full(a)).reshape(-1, 32)


def _elements(lanes: Lanes, registers: Sequence[Array], kind: str) -> Array:
    """Registers of packed elements as numbers: (warps, 32, registers, elements of each)."""
    stacked = np.stack([_warps(lanes, r) for r in registers], -1)
    if kind in ("f64", "f32", "s32"):
        return stacked.view({"f64": f64, "f32": f32, "s32": np.int32}[kind])[..., None]
    if kind == "tf32":
        return (stacked & u32(0xFFFFE000)).view(f32)[..., None]
    if kind == "e2m1x2":
        pairs = stacked.view(u8).reshape(*stacked.shape, 4)
        nibbles = np.stack((pairs & u8(15), pairs >> u8(4)), -1)
        return floats.from_small(nibbles.reshape(*stacked.shape, 8), "e2m1")
    if kind in _BYTES:
        parts = stacked.view(u8).reshape(*stacked.shape, 4)
        return as_numbers(parts, kind)
    return as_numbers(stacked.view(u16).reshape(*stacked.shape, 2), kind)


def as_numbers(bits: Array, kind: str) -> Array:
    """Elements of a type by their bits, in a precision that their products are exact in."""
    if kind == "bf16":
        return floats.from_bf16(bits)
    if kind == "f16":
        return bits.view(f16).astype(f32)
    if kind == "tf32":
        return (bits & u32(0xFFFFE000)).view(f32)
    if kind == "s8":
        return bits.view(np.int8).astype(f64)
    if kind == "u8":
        return bits.astype(f64)
    # PTX ISA, "mma": 4 bits are in the middle of their byte, 6 are its lowest.
    return floats.from_small(bits >> u8(2) if kind == "e2m1" else bits, kind)


def scales(
    lanes: Lanes, register: Array, byte: Array, thread: Array, count: int, kind: str, down: int
) -> Array:
    """``count`` scales of each row of A (``down`` 2) or column of B (1): (warps, rows, count).

    PTX ISA, "Block Scaling for mma.sync": of a quad of lanes a pair has those of A, one lane those
    of B; ``thread`` selects which, ``byte`` the first of its bytes.
    """
    quads = _warps(lanes, register).reshape(-1, 8, 4)
    warps = quads.shape[0]
    first_lane = (_warps(lanes, thread)[:, :1] % u32(4 // down) * u32(down)).astype(i64)
    first_byte = (_warps(lanes, byte)[:, :1] & u32(3)).astype(i64)
    sources = np.broadcast_to((first_lane + np.arange(down))[:, None, :], (warps, 8, down))
    words = np.ascontiguousarray(np.take_along_axis(quads, sources, 2).transpose(0, 2, 1))
    places = (first_byte + np.arange(count))[:, None, :] & 3
    all_bytes = words.view(u8).reshape(warps, 8 * down, 4)
    bits = np.take_along_axis(all_bytes, np.broadcast_to(places, (warps, 8 * down, count)), 2)
    if kind == "ue4m3":
        return floats.from_small(bits & u8(127), "e4m3")
    return floats.from_scale(bits)


def fragment_a(
    lanes: Lanes, registers: Sequence[Array], kind: str, rows: int, columns: int
) -> Array:
    """A, by rows: (warps, rows, columns). Of a register i: 8·(i & 1) rows down, half i >> 1."""
    values = _elements(lanes, registers, kind)
    warps = values.shape[0]
    per = values.shape[-1]
    down = rows // 8
    values = values.reshape(warps, 8, 4, len(registers) // down, down, per)
    values = values.transpose(0, 4, 1, 3, 2, 5)
    return np.ascontiguousarray(values).reshape(warps, rows, columns)


def fragment_b(
    lanes: Lanes, registers: Sequence[Array], kind: str, rows: int, columns: int
) -> Array:
    """B, by columns: (warps, rows, columns), rows along K."""
    values = _elements(lanes, registers, kind)
    warps = values.shape[0]
    per = values.shape[-1]
    values = values.reshape(warps, 8, 4, len(registers), per).transpose(0, 3, 2, 4, 1)
    return np.ascontiguousarray(values).reshape(warps, rows, columns)


def multiply(
    lanes: Lanes,
    shape: Shape,
    kinds: Sequence[str],
    a: Sequence[Array],
    b: Sequence[Array],
    c: Sequence[Array],
    saturate: bool = False,
    scale_factors: Sequence[Array] = (),
) -> list[Array]:
    """``mma.sync`` D = A·B + C. ``kinds`` are the types of D, A, B and C; registers of bits.

    ``scale_factors``: those of A by row and of B by column, each for its part of K. With them all
    is exact in double precision but the sum, which is rounded to single precision at its end.
    """
    m, n, k = shape
    a_matrix = fragment_a(lanes, a, kinds[1], m, k)
    b_matrix = fragment_b(lanes, b, kinds[2], k, n)
    if scale_factors:
        a_scales, b_scales = (np.repeat(s.astype(f64), k // s.shape[2], 2) for s in scale_factors)
        a_matrix = a_matrix * a_scales
        b_matrix = b_matrix * b_scales.transpose(0, 2, 1)
    warps = a_matrix.shape[0]
    down = m // 8
    product = np.matmul(a_matrix, b_matrix).reshape(warps, down, 8, 4, 2).transpose(0, 2, 3, 1, 4)
    total = product + _elements(lanes, c, kinds[3]).reshape(warps, 8, 4, down, 2)
    # D's registers: (warps, group, thread, down, 2) numbers as bits
    kind = kinds[0]
    if kind == "f16":
        bits = np.ascontiguousarray(floats.to_f16(total)).view(u32)[..., 0]
    elif kind == "s32":
        if saturate:
            total = np.clip(total, -(2.0**31), 2.0**31 - 1)
        bits = np.ascontiguousarray(total.astype(i64).astype(u32))
    elif kind == "f64":
        bits = np.ascontiguousarray(total.astype(f64)).view(u64)
    else:
        bits = np.ascontiguousarray(floats.canonical(total.astype(f32))).view(u32)
    flat = bits.reshape(*lanes.shape, -1)
    return [np.ascontiguousarray(flat[..., i]) for i in range(flat.shape[-1])]


PRODUCTS_A_LANE = 128
"""Multiplications of a tensor core, which BLAS does, that cost as much as a lane's instruction."""
SWIZZLES = {0: 16, 1: 128, 2: 64, 3: 32}
"""Bytes of a swizzle by the mode in a descriptor of wgmma; 16 means none."""


def swizzled(address: Array, width: int) -> Array:
    """Where the bytes at an address of a swizzled tile are: 16-byte chunks, exchanged by row."""
    if width == 16:
        return address
    mask = {128: 7, 64: 3, 32: 1}[width]
    return address ^ (((address >> 7) & mask) << 4)


def tile_offsets(
    rows: int,
    columns: int,
    size: int,
    transposed: bool,
    leading: Array | int,
    stride: Array | int,
    width: int,
    depth: int = 8,
) -> Array:
    """Offsets from a tile's start of its elements of ``size`` bytes, not swizzled: (rows, columns).

    ``leading`` and ``stride`` are in bytes, as is ``width``, the swizzle's (16: none). Rows are
    along M or N, columns along K; of transposed tiles ``depth`` columns are beside each other. PTX
    ISA, "Strides".
    """
    r = np.arange(rows)[:, None]
    k = np.arange(columns)[None, :]
    if not transposed:
        byte_offset = k * size
        within = (r % 8) * width + byte_offset % width
        return (r // 8) * stride + within + (byte_offset // width) * leading
    byte_offset = r * size
    within = (k % depth) * width + byte_offset % width
    outer, inner = (leading, stride) if width > 16 else (stride, leading)
    return (byte_offset // width) * outer + within + (k // depth) * inner


def descriptor_tile(
    lanes: Lanes,
    shared: Array,
    descriptor: Array,
    rows: int,
    columns: int,
    size: int,
    transposed: bool,
    blocks: Array,
) -> tuple[Array, Array]:
    """A tile in shared memory that a matrix descriptor names: bits, (groups, rows, columns).

    With it the offset of each element in shared memory.

    Rows are along M or N, columns along K. ``descriptor`` is one a warp group, ``blocks`` the
    thread block of each. PTX ISA, "Matrix Descriptor Format" and "Strides".
    """
    start = ((descriptor & u64(0x3FFF)) << u64(4)).astype(i64)
    leading = (((descriptor >> u64(16)) & u64(0x3FFF)) << u64(4)).astype(i64)[:, None, None]
    stride = (((descriptor >> u64(32)) & u64(0x3FFF)) << u64(4)).astype(i64)[:, None, None]
    width = SWIZZLES[int(descriptor.flat[0] >> u64(62))]
    offset = tile_offsets(rows, columns, size, transposed, leading, stride, width)
    address = swizzled(start[:, None, None] + offset, width)
    if int(address.max()) + size > shared.shape[1]:
        raise IndexError("wgmma reads past the end of shared memory")
    flat = blocks[:, None, None] * shared.shape[1] + address
    result: Array = shared.reshape(-1).view(UNSIGNED[size * 8])[flat // size]
    return result, address


def multiply_group(
    lanes: Lanes,
    shared: Array,
    shape: Shape,
    kinds: Sequence[str],
    a: Sequence[Array] | Array,
    b: Array,
    keep: Array,
    signs: Sequence[int],
    transposed: Sequence[int],
    old: Sequence[Array],
    saturate: bool = False,
    *,
    tell_tile: Callable[[Array, int], None] | None = None,
) -> list[Array]:
    """``wgmma.mma_async`` D = A·B + D, done at once.

    ``tell_tile`` is given the offsets that each warp reads, an array a warp, and an element's size.

    ``a`` are registers or a descriptor, ``keep`` whether D is added, ``signs`` those of A and B.
    """
    m, n, k = shape
    groups = lanes.width // 128
    size = {"tf32": 4, "f16": 2, "bf16": 2}.get(kinds[1], 1)
    blocks = np.repeat(np.arange(lanes.blocks), groups)
    count = lanes.blocks * groups

    def first_of_group(x: Array) -> Array:
        """A register's value in the first lane of each warp group."""
        return lanes.full(x).reshape(count, 128)[:, 0]

    if isinstance(a, np.ndarray):
        tile, address = descriptor_tile(
            lanes, shared, first_of_group(a), m, k, size, bool(transposed[0]), blocks
        )
        if tell_tile is not None:
            tell_tile(address, size)
        a_matrix = as_numbers(tile, kinds[1])
    else:
        a_matrix = fragment_a(lanes, list(a), kinds[1], 16, k).reshape(count, 64, k)
    tile, address = descriptor_tile(
        lanes, shared, first_of_group(b), n, k, size, bool(transposed[1]), blocks
    )
    if tell_tile is not None:
        tell_tile(np.repeat(address, 4, axis=0), size)
    product = np.matmul(a_matrix, as_numbers(tile, kinds[2]).transpose(0, 2, 1))
    if signs[0] * signs[1] < 0:
        product = -product
    # row 16·warp + 8·h + group, column 8·j + 2·thread + e: register 4·j + 2·h + e
    product = product.reshape(count, 4, 2, 8, n // 8, 4, 2).transpose(0, 1, 3, 5, 4, 2, 6)
    if kinds[0] == "f16":
        rows = np.ascontiguousarray(product).reshape(*lanes.shape, n // 4, 2)
        prior = np.stack([lanes.full(r) for r in old], -1)
        prior = np.ascontiguousarray(prior).view(f16).reshape(rows.shape).astype(f32)
        total = rows + np.where(lanes.full(keep)[..., None, None], prior, f32(0))
        bits = floats.to_f16(total).view(u32)[..., 0]
        return [np.ascontiguousarray(bits[..., i]) for i in range(n // 4)]
    parts = np.ascontiguousarray(product.transpose(4, 5, 6, 0, 1, 2, 3))
    parts = parts.reshape(n // 2, *lanes.shape)
    if kinds[0] == "s32":
        totals = parts.astype(i64)
        for i, register in enumerate(old):
            totals[i] += np.where(keep, register.view(np.int32), np.int32(0))
        if saturate:
            totals = np.clip(totals, -(1 << 31), (1 << 31) - 1)
        return list(totals.astype(u32))
    parts = parts.astype(f32, copy=False)
    adds_all = bool(keep.all())
    for i, register in enumerate(old):
        parts[i] += register.view(f32) if adds_all else np.where(keep, register.view(f32), f32(0))
    return list(floats.canonical(parts).view(u32))


def move_transposed(lanes: Lanes, a: Array) -> Array:
    """``movmatrix.trans``: an 8×8 matrix of 16 bits, rows to columns."""
    out = np.ascontiguousarray(_warps(lanes, a).view(u16).reshape(-1, 8, 8).transpose(0, 2, 1))
    return out.view(u32).reshape(lanes.shape)
