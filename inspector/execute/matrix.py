"""Matrix multiplication by warps and warp groups: ``mma.sync`` and ``wgmma.mma_async``.

Fragments are laid out as the PTX ISA draws them ("Matrix Fragments for mma", "Asynchronous
Warpgroup Level Matrix"). Products are summed in single precision (integers exactly, fp64 in fp64),
in an order of numpy's choosing: the hardware's is another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inspector.execute import floats
from inspector.execute.kinds import UNSIGNED, Array, f16, f32, f64, i64, u8, u16, u32, u64
from inspector.execute.lanes import Lanes

Shape = tuple[int, int, int]
MMA_SHAPES = frozenset(
    [(16, 8, k, kind) for kind in ("f16", "bf16") for k in (8, 16)]
    + [(16, 8, k, "tf32") for k in (4, 8)]
    + [(16, 8, k, kind) for kind in ("e4m3", "e5m2") for k in (16, 32)]
    + [(m, 8, k, kind) for kind in ("s8", "u8") for m, k in ((8, 16), (16, 16), (16, 32))]
    + [(8, 8, 4, "f64"), (16, 8, 4, "f64"), (16, 8, 8, "f64"), (16, 8, 16, "f64")]
)
"""M, N, K and the type of A, of those ``mma.sync`` that are known here."""

MMA_KINDS = ("f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s32", "e4m3", "e5m2")


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
    if kind in ("s8", "u8", "e4m3", "e5m2"):
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
    return floats.from_small(bits, kind)


def fragment_a(
    lanes: Lanes, registers: Sequence[Array], kind: str, rows: int, columns: int
) -> Array:
    """A, by rows: (warps, rows, columns). Of a register i: 8·(i & 1) rows down, half i >> 1."""
    values = _elements(lanes, registers, kind)
    warps, per = values.shape[0], values.shape[-1]
    down = rows // 8
    values = values.reshape(warps, 8, 4, len(registers) // down, down, per)
    values = values.transpose(0, 4, 1, 3, 2, 5)
    return np.ascontiguousarray(values).reshape(warps, rows, columns)


def fragment_b(
    lanes: Lanes, registers: Sequence[Array], kind: str, rows: int, columns: int
) -> Array:
    """B, by columns: (warps, rows, columns), rows along K."""
    values = _elements(lanes, registers, kind)
    warps, per = values.shape[0], values.shape[-1]
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
) -> list[Array]:
    """``mma.sync`` D = A·B + C. ``kinds`` are the types of D, A, B and C; registers of bits."""
    m, n, k = shape
    left = fragment_a(lanes, a, kinds[1], m, k)
    right = fragment_b(lanes, b, kinds[2], k, n)
    warps, down = left.shape[0], m // 8
    product = np.matmul(left, right).reshape(warps, down, 8, 4, 2).transpose(0, 2, 3, 1, 4)
    addend = _elements(lanes, c, kinds[3]).reshape(warps, 8, 4, down, 2)
    total = product + addend
    return _results(lanes, total, kinds[0], saturate)


def _results(lanes: Lanes, total: Array, kind: str, saturate: bool) -> list[Array]:
    """D's registers: (warps, group, thread, down, 2) numbers as bits."""
    if kind == "f16":
        bits = np.ascontiguousarray(total.astype(f16)).view(u32)[..., 0]
    elif kind == "s32":
        if saturate:
            total = np.clip(total, -(2.0**31), 2.0**31 - 1)
        bits = np.ascontiguousarray(total.astype(i64).astype(u32))
    elif kind == "f64":
        bits = np.ascontiguousarray(total.astype(f64)).view(u64)
    else:
        bits = np.ascontiguousarray(total.astype(f32)).view(u32)
    flat = bits.reshape(*lanes.shape, -1)
    return [np.ascontiguousarray(flat[..., i]) for i in range(flat.shape[-1])]


SWIZZLES = {0: 16, 1: 128, 2: 64, 3: 32}
"""Bytes of a swizzle by the mode in a descriptor of wgmma; 16 means none."""


def swizzled(address: Array, width: int) -> Array:
    """Where the bytes at an address of a swizzled tile are: 16-byte chunks, exchanged by row."""
    if width == 16:
        return address
    mask = {128: 7, 64: 3, 32: 1}[width]
    return address ^ (((address >> 7) & mask) << 4)


def descriptor_tile(
    lanes: Lanes,
    shared: Array,
    descriptor: Array,
    rows: int,
    columns: int,
    size: int,
    transposed: bool,
    blocks: Array,
) -> Array:
    """A tile in shared memory that a matrix descriptor names: bits, (groups, rows, columns).

    Rows are along M or N, columns along K. ``descriptor`` is one a warp group, ``blocks`` the
    thread block of each. PTX ISA, "Matrix Descriptor Format" and "Strides".
    """
    start = ((descriptor & u64(0x3FFF)) << u64(4)).astype(i64)
    leading = (((descriptor >> u64(16)) & u64(0x3FFF)) << u64(4)).astype(i64)[:, None, None]
    stride = (((descriptor >> u64(32)) & u64(0x3FFF)) << u64(4)).astype(i64)[:, None, None]
    width = SWIZZLES[int(descriptor.flat[0] >> u64(62))]
    r, k = np.arange(rows)[:, None], np.arange(columns)[None, :]
    if not transposed:
        at = k * size
        within = ((r % 8) * width + at % width)[None]
        offset = (r // 8)[None] * stride + within + (at // width)[None] * leading
    else:
        at = r * size
        within = ((k % 8) * width + at % width)[None]
        outer, inner = (leading, stride) if width > 16 else (stride, leading)
        offset = (at // width)[None] * outer + within + (k // 8)[None] * inner
    address = swizzled(start[:, None, None] + offset, width)
    if int(address.max()) + size > shared.shape[1]:
        raise IndexError("wgmma reads past the end of shared memory")
    flat = blocks[:, None, None] * shared.shape[1] + address
    result: Array = shared.reshape(-1).view(UNSIGNED[size * 8])[flat // size]
    return result


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
) -> list[Array]:
    """``wgmma.mma_async`` D = A·B + D, done at once.

    ``a`` are registers or a descriptor, ``keep`` whether D is added, ``signs`` those of A and B.
    """
    m, n, k = shape
    groups = lanes.width // 128
    size = {"tf32": 4, "f16": 2, "bf16": 2}.get(kinds[1], 1)
    blocks = np.repeat(np.arange(lanes.blocks), groups)
    count = lanes.blocks * groups

    def one(x: Array) -> Array:
        """A register's value in the first lane of each warp group."""
        return lanes.full(x).reshape(count, 128)[:, 0]

    if isinstance(a, np.ndarray):
        tile = descriptor_tile(lanes, shared, one(a), m, k, size, bool(transposed[0]), blocks)
        left = as_numbers(tile, kinds[1])
    else:
        left = fragment_a(lanes, list(a), kinds[1], 16, k).reshape(count, 64, k)
    tile = descriptor_tile(lanes, shared, one(b), n, k, size, bool(transposed[1]), blocks)
    product = np.matmul(left, as_numbers(tile, kinds[2]).transpose(0, 2, 1))
    if signs[0] * signs[1] < 0:
        product = -product
    # row 16·warp + 8·h + group, column 8·j + 2·thread + e: register 4·j + 2·h + e
    product = product.reshape(count, 4, 2, 8, n // 8, 4, 2).transpose(0, 1, 3, 5, 4, 2, 6)
    if kinds[0] == "f16":
        rows = np.ascontiguousarray(product).reshape(*lanes.shape, n // 4, 2)
        prior = np.stack([lanes.full(r) for r in old], -1)
        prior = np.ascontiguousarray(prior).view(f16).reshape(rows.shape).astype(f32)
        total = (rows + np.where(lanes.full(keep)[..., None, None], prior, f32(0))).astype(f16)
        bits = total.view(u32)[..., 0]
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
    every = bool(keep.all())
    for i, register in enumerate(old):
        parts[i] += register.view(f32) if every else np.where(keep, register.view(f32), f32(0))
    return list(parts.view(u32))


def move_transposed(lanes: Lanes, a: Array) -> Array:
    """``movmatrix.trans``: an 8×8 matrix of 16 bits, rows to columns."""
    values = _warps(lanes, a).view(u16).reshape(-1, 8, 8)
    out = np.ascontiguousarray(values.transpose(0, 2, 1))
    return out.view(u32).reshape(lanes.shape)
