"""Single tcgen05 instructions, beside layouts that NVIDIA documents: shared memory, tensor memory.

``tests/data/execute/tensor_memory.ptx`` is nvcc's, of the source beside it. Layouts are CUTLASS's
(include/cute/atom/mma_traits_sm100.hpp, copy_traits_sm100.hpp) and the PTX ISA's; numbers are such
that sums are exact.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest

from inspector.execute import Memory, Program, execute
from inspector.parsers.ptx import parse_ptx
from inspector.parsers.ptx_code import read_module
from tests.execute.test_h200 import FOLDER

Array = np.ndarray[Any, Any]
MODULE = read_module(parse_ptx((FOLDER.parent / "tensor_memory.ptx").read_text("utf-8")))
IMAGE_BYTES = 40960
LANES = COLUMNS = 128
A_START, B_START = 0, 20480
OPERANDS = np.dtype(
    [("a", "u8"), ("b", "u8"), ("instruction", "u4"), ("adds", "u4"), ("disabled", "u4", 8),
     ("tensor_a", "u4"), ("scales_a", "u4"), ("scales_b", "u4")], align=True,
)  # fmt: skip


class Layout(NamedTuple):
    """A canonical layout of a matrix in shared memory."""

    mode: int
    """The descriptor's: 0 none, 6, 4 and 2 swizzles of 32, 64 and 128 bytes, 1 by 32 bytes."""
    is_mn_major: bool
    leading: int
    stride: int

    def offsets(self, rows: int, columns: int, size: int) -> Array:
        """Bytes from the matrix's start of its elements, K along the columns."""
        r, k = np.arange(rows)[:, None], np.arange(columns)[None, :]
        t = 16 // size
        pieces = {0: 1, 6: 2, 4: 4, 2: 8, 1: 8}[self.mode]
        rest = self.stride * (r // 8)
        if not self.is_mn_major:
            step = self.leading if self.mode == 0 else 16
            offset = (r % 8) * pieces * 16 + rest + k % t * size + k // t * step
        elif self.mode == 0:
            offset = r % t * size + r // t * self.stride + k % 8 * 16 + k // 8 * self.leading
        else:
            depth = 4 if self.mode == 1 else 8
            offset = r % t * size + r // t % pieces * 16 + r // (t * pieces) * self.leading
            offset = offset + k % depth * pieces * 16 + k // depth * self.stride
        if self.mode == 1:  # Swizzle<2,5,2>
            return offset ^ (offset >> 7 & 3) << 5
        bits = {0: 0, 6: 1, 4: 3, 2: 7}[self.mode]  # Swizzle<B,4,3>
        return offset ^ (offset >> 7 & bits) << 4

    def descriptor(self, start: int) -> int:
        fields = start >> 4 | self.leading >> 4 << 16 | self.stride >> 4 << 32
        return fields | 1 << 46 | self.mode << 61


def k_major(mode: int, rows: int) -> Layout:
    pieces = {0: 1, 6: 2, 4: 4, 2: 8}[mode]
    return Layout(mode, False, 128 * (rows // 8) + 256, 128 * pieces)


def mn_major(mode: int, rows: int, size: int) -> Layout:
    pieces = {0: 1, 6: 2, 4: 4, 2: 8, 1: 8}[mode]
    if mode == 0:
        return Layout(mode, True, 128 * rows * size // 16, 128)
    groups = max(1, rows * size // (16 * pieces))
    row_bytes = 16 * pieces * (4 if mode == 1 else 8)
    return Layout(mode, True, row_bytes, row_bytes * groups)


def place(image: Array, start: int, layout: Layout, values: Array) -> None:
    """Lay a matrix out in the image of a block's shared memory."""
    size = values.dtype.itemsize
    rows, columns = values.shape
    offsets = start + layout.offsets(rows, columns, size)
    for byte in range(size):
        image[offsets + byte] = (
            np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, size)[..., byte]
        )


def instruction(m: int, n: int, a: int, b: int, d: int, **bits: int) -> int:
    word = d << 4 | a << 7 | b << 10 | n >> 3 << 17 | m >> 4 << 24
    for name, value in bits.items():
        shift = {"saturated": 3, "negate_a": 13, "negate_b": 14, "mn_a": 15, "mn_b": 16}[name]
        word |= int(value) << shift
    return word


def run(name: str, images: Array, tensor: Array, **operands: Any) -> Array:
    """Run a kernel: tensor memory at its end, (blocks, lanes, columns), of words."""
    memory = Memory()
    told = np.zeros(1, OPERANDS)
    for field, value in operands.items():
        told[field] = value
    extra = 4 if name.startswith("halves") else 0
    out = np.zeros(tensor.size + LANES * extra, np.uint32)
    arguments = [
        memory.add("image", np.ascontiguousarray(images).view(np.uint32).reshape(-1)),
        memory.add("tensor", np.ascontiguousarray(tensor).reshape(-1)),
        memory.add("out", out),
        memory.add("operands", told.view(np.uint8)),
    ]
    blocks = len(images)
    cluster = (blocks,) if blocks > 1 else None
    program = Program(MODULE, name)
    assert program.cannot() == ()
    execute(program, (blocks,), (LANES,), arguments, memory=memory, cluster=cluster)
    return out if extra else out.reshape(tensor.shape)


RNG = np.random.default_rng(0)


def integers(*shape: int, low: int = -4, high: int = 5) -> Array:
    return RNG.integers(low, high, shape)


def rows_and_columns(m: int, n: int, way: str) -> tuple[Array, Array]:
    """Lane and column of each element of D in one block."""
    r, c = np.broadcast_arrays(np.arange(m)[:, None], np.arange(n)[None, :])
    if way == "interleaved":  # M = 64: 16 lanes of each 32
        return r % 16 + r // 16 * 32, c
    parts = LANES // m  # 1x4, 2x2 and full datapath
    return r + c // (n // parts) * m, c % (n // parts)


def words(values: Array, kind: str) -> Array:
    return values.astype(kind).view(f"u{np.dtype(kind).itemsize}").astype(np.uint32)


def check_memory(out: Array, tensor: Array, places: tuple[Array, Array], expected: Array) -> None:
    whole = tensor.copy()
    whole[places] = expected
    assert np.array_equal(out, whole)


def noise(blocks: int = 1) -> Array:
    """Tensor memory whose words are all different."""
    return np.arange(blocks * LANES * COLUMNS, dtype=np.uint32).reshape(blocks, LANES, COLUMNS)


MODES = (0, 6, 4, 2)


@pytest.mark.parametrize("mode", MODES)
def test_f16_in_every_canonical_layout(mode: int) -> None:
    for mn_a, mn_b in itertools.product((False, True), repeat=2):
        m, n = 128, 64
        a, b, c = integers(m, 16), integers(n, 16), integers(m, n)
        layouts = [mn_major(mode, rows, 2) if mn else k_major(mode, rows)
                   for mn, rows in ((mn_a, m), (mn_b, n))]  # fmt: skip
        image = np.zeros((1, IMAGE_BYTES), np.uint8)
        place(image[0], A_START, layouts[0], a.astype(np.float16))
        place(image[0], B_START, layouts[1], b.astype(np.float16))
        tensor, places = noise(), rows_and_columns(m, n, "")
        tensor[0][places] = words(c, "f4")
        told = instruction(m, n, 0, 0, 1, mn_a=mn_a, mn_b=mn_b)
        descriptors = [layouts[0].descriptor(A_START), layouts[1].descriptor(B_START)]
        out = run(
            "f16", image, tensor, a=descriptors[0], b=descriptors[1], instruction=told, adds=1
        )
        check_memory(out[0], tensor[0], places, words(a @ b.T + c, "f4"))


def product(
    name: str,
    a: Array,
    b: Array,
    told: int,
    tensor: Array,
    places: tuple[Array, Array],
    layouts: tuple[Layout, Layout] | None = None,
    **operands: Any,
) -> Array:
    """Tensor memory after a product of matrices of bits in shared memory, by one block."""
    layouts = layouts or (k_major(2, len(a)), k_major(4, len(b)))
    image = np.zeros((1, IMAGE_BYTES), np.uint8)
    place(image[0], A_START, layouts[0], a)
    place(image[0], B_START, layouts[1], b)
    descriptors = [layouts[0].descriptor(A_START), layouts[1].descriptor(B_START)]
    return run(
        name, image, tensor, a=descriptors[0], b=descriptors[1], instruction=told, **operands
    )


@pytest.mark.parametrize(("m", "way"), [(64, "interleaved"), (128, "")])
def test_the_bits_of_an_instruction_descriptor(m: int, way: str) -> None:
    n = 64
    a, b, c = integers(m, 16), integers(n, 16), integers(m, n)
    halves = a.astype(np.float16), b.astype(np.float16)
    tensor, places = noise(), rows_and_columns(m, n, way)
    tensor[0][places] = words(c, "f4")
    negated = instruction(m, n, 0, 0, 1, negate_b=1)
    out = product("f16", *halves, negated, tensor, places, adds=1)
    check_memory(out[0], tensor[0], places, words(c - a @ b.T, "f4"))
    twice = instruction(m, n, 0, 0, 1, negate_a=1, negate_b=1)
    out = product("f16", *halves, twice, tensor, places, adds=0)
    check_memory(out[0], tensor[0], places, words(a @ b.T, "f4"))
    out = product("f16_scaled_d", *halves, instruction(m, n, 0, 0, 1), tensor, places, adds=1)
    check_memory(out[0], tensor[0], places, words(a @ b.T + c / 8, "f4"))
    tensor[0][places] = words(c, "f2") | 0x7F0000  # the upper half is nobody's
    out = product("f16", *halves, instruction(m, n, 0, 0, 0), tensor, places, adds=1)
    assert np.array_equal(out[0][places] & 0xFFFF, words(a @ b.T + c, "f2"))
    a_bits, b_bits = ((x.astype("f4").view(np.uint32) >> 16).astype(np.uint16) for x in (a, b))
    out = product("f16", a_bits, b_bits, instruction(m, n, 1, 1, 1), tensor, places, adds=0)
    check_memory(out[0], tensor[0], places, words(a @ b.T, "f4"))


def test_lanes_of_d_may_be_left_out() -> None:
    m, n = 128, 16
    a, b = integers(m, 16), integers(n, 16)
    disabled = RNG.integers(0, 1 << 32, 8, dtype=np.uint32)
    tensor, (lanes, columns) = noise(), rows_and_columns(m, n, "")
    out = product(
        "f16_disabled", a.astype(np.float16), b.astype(np.float16), instruction(m, n, 0, 0, 1),
        tensor, (lanes, columns), adds=0, disabled=disabled,
    )  # fmt: skip
    keeps = disabled[:4].view(np.uint8)
    keeps = np.unpackbits(keeps, bitorder="little").astype(bool)[:, None]
    expected = np.where(keeps, tensor[0][lanes, columns], words(a @ b.T, "f4"))
    check_memory(out[0], tensor[0], (lanes, columns), expected)


@pytest.mark.parametrize("m", [32, 64, 128])
def test_stationary_products_spread_their_columns(m: int) -> None:
    n = 64
    a, b, c = integers(m, 16), integers(n, 16), integers(m, n)
    tensor, places = noise(), rows_and_columns(m, n, "")
    tensor[0][places] = words(c, "f4")
    halves = a.astype(np.float16), b.astype(np.float16)
    told = instruction(m, n, 0, 0, 1)
    out = product("f16_stationary", *halves, told, tensor, places, adds=1)
    check_memory(out[0], tensor[0], places, words(a @ b.T + c, "f4"))


@pytest.mark.parametrize("saturated", [False, True])
@pytest.mark.parametrize(("a_type", "b_type"), [(0, 1), (1, 0), (1, 1)])
def test_integers_wrap_or_saturate(a_type: int, b_type: int, saturated: bool) -> None:
    m, n = 128, 32
    ranges = [(0, 256), (-128, 128)]
    a, b = (integers(rows, 32, low=ranges[t][0], high=ranges[t][1])
            for rows, t in ((m, a_type), (n, b_type)))  # fmt: skip
    c = np.where(integers(m, n) > 0, (1 << 31) - 9, -(1 << 31) + 7)
    tensor, places = noise(), rows_and_columns(m, n, "")
    tensor[0][places] = words(c.astype(np.int32), "i4")
    total = a @ b.T + c
    if saturated:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    told = instruction(m, n, a_type, b_type, 2, saturated=saturated)
    for name in ("i8", "i8_stationary"):
        out = product(name, a.astype(np.uint8), b.astype(np.uint8), told, tensor, places, adds=1)
        check_memory(out[0], tensor[0], places, (total & 0xFFFFFFFF).astype(np.uint32))


@pytest.mark.parametrize("mode", [*MODES, 1])
def test_tf32_along_m_and_n(mode: int) -> None:
    m, n = 64, 32
    a, b = integers(m, 8), integers(n, 8)
    layouts = mn_major(mode, m, 4), mn_major(mode, n, 4)
    tensor, places = noise(), rows_and_columns(m, n, "interleaved")
    told = instruction(m, n, 2, 2, 1, mn_a=1, mn_b=1)
    floats = a.astype(np.float32), b.astype(np.float32)
    out = product("tf32", *floats, told, tensor, places, layouts, adds=0)
    check_memory(out[0], tensor[0], places, words(a @ b.T, "f4"))


SMALL = {"e4m3": (0, 4, 3, 8), "e5m2": (1, 5, 2, 8), "e2m3": (3, 2, 3, 6), "e3m2": (4, 3, 2, 6),
         "e2m1": (5, 2, 1, 4)}  # fmt: skip
"""Number in a descriptor, bits of exponent and mantissa, bits in all."""


def small(kind: str, *shape: int) -> tuple[Array, Array]:
    """Codes of a type of 8 bits or fewer, and their values: without the largest exponents."""
    _, exponent_bits, mantissa_bits, bits = SMALL[kind]
    exponent = RNG.integers(0, min(4, 1 << exponent_bits), shape)
    mantissa = RNG.integers(0, 1 << mantissa_bits, shape)
    sign = RNG.integers(0, 2, shape)
    bias = (1 << exponent_bits - 1) - 1
    fraction = mantissa / (1 << mantissa_bits)
    values = np.where(exponent > 0, 2.0 ** (exponent - bias) * (1 + fraction),
                      2.0 ** (1 - bias) * fraction)  # fmt: skip
    codes = exponent << mantissa_bits | mantissa | sign << bits - 1
    return codes.astype(np.uint8), np.where(sign > 0, -values, values)


def padded(codes: Array, kind: str) -> Array:
    """16 elements in each 16 bytes, those of fewer bits packed at their beginning."""
    bits = SMALL[kind][3]
    each = np.unpackbits(codes[..., None], axis=-1, bitorder="little")[..., :bits]
    groups = each.reshape(len(codes), -1, 16 * bits)
    packed = np.packbits(groups, axis=-1, bitorder="little")
    whole = np.zeros((*packed.shape[:2], 16), np.uint8)
    whole[..., : packed.shape[2]] = packed
    return whole.reshape(len(codes), -1)


@pytest.mark.parametrize(
    ("a_kind", "b_kind"), [("e4m3", "e5m2"), ("e2m1", "e4m3"), ("e5m2", "e2m3"), ("e3m2", "e2m1")]
)
def test_small_floats_are_padded_to_bytes(a_kind: str, b_kind: str) -> None:
    m, n = 128, 32
    a, a_values = small(a_kind, m, 32)
    b, b_values = small(b_kind, n, 32)
    tensor, places = noise(), rows_and_columns(m, n, "")
    told = instruction(m, n, SMALL[a_kind][0], SMALL[b_kind][0], 1)
    out = product("f8f6f4", padded(a, a_kind), padded(b, b_kind), told, tensor, places, adds=0)
    check_memory(out[0], tensor[0], places, words(a_values @ b_values.T, "f4"))
    # A in tensor memory: a byte each, 4 bits in its middle
    shift = 2 if a_kind == "e2m1" else 0
    tensor[0, :, 64:72] = (a << shift).view(np.uint32)
    image = np.zeros((1, IMAGE_BYTES), np.uint8)
    layout = k_major(0, n)
    place(image[0], B_START, layout, padded(b, b_kind))
    out = run("f8_of_tensor", image, tensor, b=layout.descriptor(B_START), instruction=told,
              tensor_a=64)  # fmt: skip
    check_memory(out[0], tensor[0], places, words(a_values @ b_values.T, "f4"))


def test_a_in_tensor_memory() -> None:
    m, n = 128, 32
    a, b = integers(m, 16), integers(n, 16)
    tensor, places = noise(), rows_and_columns(m, n, "")
    tensor[0, :, 40:48] = a.astype(np.float16).view(np.uint32)
    image = np.zeros((1, IMAGE_BYTES), np.uint8)
    layout = k_major(6, n)
    place(image[0], B_START, layout, b.astype(np.float16))
    out = run("f16_of_tensor", image, tensor, b=layout.descriptor(B_START),
              instruction=instruction(m, n, 0, 0, 1), tensor_a=40)  # fmt: skip
    check_memory(out[0], tensor[0], places, words(a @ b.T, "f4"))


@pytest.mark.parametrize("m", [128, 256])
def test_a_pair_shares_a_product(m: int) -> None:
    n, own = 64, m // 2
    a, b, c = integers(m, 16), integers(n, 16), integers(m, n)
    layouts = k_major(2, own), k_major(4, n // 2)
    image = np.zeros((2, IMAGE_BYTES), np.uint8)
    tensor = noise(2)
    places = rows_and_columns(own, n, "")
    for block in range(2):
        rows = slice(block * own, block * own + own)
        place(image[block], A_START, layouts[0], a[rows].astype(np.float16))
        place(image[block], B_START, layouts[1], b[block * n // 2 :][: n // 2].astype(np.float16))
        tensor[block][places] = words(c[rows], "f4")
    disabled = RNG.integers(0, 1 << 32, 8, dtype=np.uint32)
    out = run(
        "f16_pair", image, tensor, a=layouts[0].descriptor(A_START), adds=1, disabled=disabled,
        b=layouts[1].descriptor(B_START), instruction=instruction(m, n, 0, 0, 1),
    )  # fmt: skip
    keeps = np.unpackbits(disabled.view(np.uint8), bitorder="little").astype(bool)
    for block in range(2):
        rows = slice(block * own, block * own + own)
        kept = keeps[block * 128 :][places[0]]
        expected = np.where(kept, tensor[block][places], words(a[rows] @ b.T + c[rows], "f4"))
        check_memory(out[block], tensor[block], places, expected)


@pytest.mark.parametrize("m", [128, 256])
def test_scales_of_a_pair(m: int) -> None:
    n, own = 64, m // 2
    a, a_values = small("e4m3", m, 32)
    b, b_values = small("e5m2", n, 32)
    scales = [RNG.integers(124, 131, rows) for rows in (m, n)]
    layouts = k_major(2, own), k_major(4, n // 2)
    image = np.zeros((2, IMAGE_BYTES), np.uint8)
    tensor = noise(2)
    places = rows_and_columns(own, n, "")
    for block in range(2):
        rows = slice(block * own, block * own + own)
        place(image[block], A_START, layouts[0], a[rows])
        place(image[block], B_START, layouts[1], b[block * n // 2 :][: n // 2])
        # tmem_sf_frg: a lane has row r % 32, 32 rows a column, the same in each 32 lanes; scales
        # of B are apart where 64 lanes have the first half of its columns
        for lane in range(LANES):
            tensor[block, lane, 80 : 80 + own // 32] = scales[0][rows][lane % 32 :: 32]
            mine = scales[1] if m == 256 else scales[1][lane // 64 * (n // 2) :][: n // 2]
            tensor[block, lane, 96 : 96 + len(mine) // 32] = mine[lane % 32 :: 32]
    scaled = 1 << 23 | instruction(m, n, 0, 1, 0)
    out = run(
        "mxf8_pair", image, tensor, a=layouts[0].descriptor(A_START), instruction=scaled,
        b=layouts[1].descriptor(B_START), scales_a=80, scales_b=96,
    )  # fmt: skip
    factors = [2.0 ** (bits - 127.0)[:, None] for bits in scales]
    whole = (a_values * factors[0]) @ (b_values * factors[1]).T
    for block in range(2):
        expected = words(whole[block * own :][:own], "f4")
        check_memory(out[block], tensor[block], places, expected)


COPIES = {
    "128x256b": (8, [[0, 1, 2, 3]]),
    "128x128b": (4, [[0, 1, 2, 3]]),
    "64x128b_02_13": (4, [[0, 1], [2, 3]]),
    "64x128b_01_23": (4, [[0, 2], [1, 3]]),
    "32x128b": (4, [[0], [1], [2], [3]]),
}
"""Words of a row; the warps whose lanes each 32 rows go to, once or several times."""


@pytest.mark.parametrize("shape", list(COPIES))
def test_copies_go_to_the_lanes_that_their_shape_names(shape: str) -> None:
    width, times = COPIES[shape]
    rows = 32 * len(times[0])
    values = RNG.integers(0, 1 << 32, (rows, width), dtype=np.uint32)
    tensor = noise()
    for mode in (0, 2):
        layout = k_major(mode, rows)
        image = np.zeros((1, IMAGE_BYTES), np.uint8)
        place(image[0], A_START, layout, values)
        out = run(f"copy_{shape}", image, tensor, a=layout.descriptor(A_START), tensor_a=24)
        expected = tensor[0].copy()
        for warps in times:
            lanes = np.concatenate([np.arange(32) + 32 * warp for warp in warps])
            expected[lanes, 24 : 24 + width] = values
        assert np.array_equal(out[0], expected)


@pytest.mark.parametrize(("name", "kind"), [("copy_b4", "e2m1"), ("copy_b6", "e2m3")])
def test_copies_unpack_small_floats(name: str, kind: str) -> None:
    codes, _ = small(kind, LANES, 32)
    layout = k_major(0, LANES)
    image = np.zeros((1, IMAGE_BYTES), np.uint8)
    place(image[0], A_START, layout, padded(codes, kind))
    out = run(name, image, noise(), a=layout.descriptor(A_START), tensor_a=8)
    bytes_each = codes << 2 if kind == "e2m1" else codes
    assert np.array_equal(out[0, :, 8:16], bytes_each.view(np.uint32))


def halves_place(shape: str, lane: int, register: int) -> tuple[int, int]:
    """Lane and column of a register's lower half, by PTX ISA's figures; the upper is beside it."""
    if shape == "32x32b":
        row, column = lane, register
    elif shape == "16x64b":
        row, column = lane // 4 + 8 * (lane & 1), (lane >> 1 & 1) + 2 * register
    elif shape == "16x128b":
        row, column = lane // 4 + 8 * (register & 1), lane % 4 + 4 * (register // 2)
    else:
        row, column = lane // 4 + 8 * (register // 2), register % 2 + 2 * (lane % 4)
    return row, 2 * column


@pytest.mark.parametrize("shape", ["32x32b", "16x64b", "16x128b", "16x256b"])
def test_halves_of_registers_are_in_columns_side_by_side(shape: str) -> None:
    tensor = noise()
    out = run(f"halves_{shape}", np.zeros((1, IMAGE_BYTES), np.uint8), tensor)
    loaded = out[LANES * COLUMNS :].reshape(LANES, 4)
    expected = tensor[0].copy()
    for thread, register in itertools.product(range(LANES), range(4)):
        row, column = halves_place(shape, thread % 32, register)
        row += thread // 32 * 32
        low, high = tensor[0, row, column : column + 2].tolist()
        assert loaded[thread, register] == (low & 0xFFFF | high << 16) & 0xFFFFFFFF
        stored = thread * 4 + 0x10000 * (register + 1) + register
        expected[row, 64 + column : 66 + column] = stored & 0xFFFF, stored >> 16
    assert np.array_equal(out[: LANES * COLUMNS].reshape(LANES, COLUMNS), expected)
