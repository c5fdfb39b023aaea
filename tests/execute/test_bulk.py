"""Tensor maps, bulk copies, mbarriers and warp specialisation, in kernels that Triton makes."""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from inspector.execute import Facts, Fault, Memory, Program, TensorMap
from tests.execute.programs import Array, Made, launch, make
from tests.helpers.nightly import nightly

# ruff: noqa: N803


@triton.jit
def doubled(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    y = tl.make_tensor_descriptor(y_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    y.store([row, column], x.load([row, column]) * 2)


@triton.jit
def product(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    SPECIAL: tl.constexpr,
):
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=SPECIAL):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(tl.float16))


@triton.jit
def product_of_given(
    a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIAL: tl.constexpr
):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=SPECIAL):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(tl.float16))


@triton.jit
def gathered(x_ptr, rows_ptr, y_ptr, M, N, BN: tl.constexpr, ROWS: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[1, BN])
    rows = tl.load(rows_ptr + tl.arange(0, ROWS))
    at = tl.arange(0, ROWS)[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(y_ptr + at, x.gather(rows, 0))


@triton.jit
def added(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    y = tl.make_tensor_descriptor(y_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    at = (row + tl.arange(0, BM))[:, None] * N + column + tl.arange(0, BN)[None, :]
    y.atomic_add([row, column], tl.load(x_ptr + at))


def made_of(kernel: Any, cc: int, types: str, **constants: Any) -> Made:
    names = kernel.arg_names[: len(types.split())]
    return make(kernel, tuple(zip(names, types.split(), strict=True)), tuple(constants.items()), cc)


def some(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def run(made: Made, grid: tuple[int, ...], arguments: list[Any], **more: Any) -> None:
    """Launches a kernel, with global memory in which it makes its tensor maps."""
    program = more.pop("program", None) or Program(made.ptx)
    scratch = np.zeros(int(np.prod(grid)) * 4096, np.uint8)
    block = program.required_block or ()
    launch(program, grid, block, [*arguments, scratch], shared=made.shared, **more)


@pytest.mark.parametrize("cc", (90, 100, 120))
@pytest.mark.parametrize(
    ("kind", "dtype", "width"),
    [("fp32", np.float32, 32), ("fp32", np.float32, 16), ("fp16", np.float16, 16)],
)
def test_tiles_that_hang_over_the_edges(kind: str, dtype: Any, width: int, cc: int) -> None:
    """Swizzled within 128, 64 and 32 bytes; memory outside is neither read nor written."""
    made = made_of(doubled, cc, f"*{kind} *{kind} i32 i32", BM=16, BN=width)
    m, n = 50, 80
    x, y = some(m, n).astype(dtype), np.full((m + 2, n), 7, dtype)
    grid = (-(-m // 16), -(-n // width))
    run(made, grid, [x, y, m, n])
    assert np.array_equal(y[:m], x * 2)
    assert (y[m:] == 7).all()


@pytest.mark.parametrize("special", (nightly(False), True))
@pytest.mark.parametrize("cc", (90, nightly(120)))
def test_a_product_by_descriptors_that_the_kernel_makes(cc: int, special: bool) -> None:
    made = made_of(
        product, cc, "*fp16 *fp16 *fp16 i32 i32 i32", BM=64, BN=64, BK=64, SPECIAL=special
    )
    assert ("setmaxnreg" in made.ptx) == special
    m, n, k = 128, 192, 160
    a, b = some(m, k).astype(np.float16), some(k, n, seed=1).astype(np.float16)
    c = np.zeros((m, n), np.float16)
    run(made, (2, 3), [a, b, c, m, n, k])
    assert np.abs(c - a.astype(np.float64) @ b.astype(np.float64)).max() < 0.02


@pytest.mark.parametrize("special", (nightly(False), True))
def test_a_product_by_descriptors_that_are_parameters(special: bool) -> None:
    kind = "tensordesc<fp16[64,64]>"
    made = made_of(
        product_of_given, 90, f"{kind} {kind} {kind} i32", BM=64, BN=64, BK=64, SPECIAL=special
    )
    m, n, k = 128, 192, 160
    a, b = some(m, k).astype(np.float16), some(k, n, seed=1).astype(np.float16)
    c = np.zeros((m, n), np.float16)
    memory, arguments = Memory(), []
    for name, one in (("a", a), ("b", b), ("c", c)):
        rows, columns = one.shape
        address = memory.add(name, one).address
        tile = TensorMap(address, (columns, rows), (one.strides[0],), (64, 64), 6, 3)
        arguments += [tile.encode(), rows, columns, columns, 1]
    program = Program(made.ptx)
    block = program.required_block or ()
    launch(program, (2, 3), block, [*arguments, k], shared=made.shared, memory=memory)
    assert np.abs(c - a.astype(np.float64) @ b.astype(np.float64)).max() < 0.02


def test_rows_are_gathered_and_those_that_are_not_there_are_zero() -> None:
    made = made_of(gathered, 100, "*fp32 *i32 *fp32 i32 i32", BN=32, ROWS=32)
    x, y = some(50, 32).astype(np.float32), np.ones((32, 32), np.float32)
    rows = np.random.default_rng(0).integers(0, 53, 32).astype(np.int32)
    run(made, (1,), [x, rows, y, 50, 32])
    padded = np.vstack([x, np.zeros((3, 32), np.float32)])
    assert np.array_equal(y, padded[rows])


def test_a_tile_is_added_to_memory() -> None:
    made = made_of(added, 90, "*fp32 *fp32 i32 i32", BM=16, BN=32)
    x, y = some(48, 64).astype(np.float32), some(48, 64, seed=1).astype(np.float32)
    expected = x + y
    run(made, (3, 2), [x, y, 48, 64])
    assert np.array_equal(y, expected)


def test_a_tensor_map_of_more_than_its_tensor_is_a_fault() -> None:
    made = made_of(doubled, 90, "*fp32 *fp32 i32 i32", BM=16, BN=32)
    x, y = some(40, 32).astype(np.float32), np.zeros((48, 32), np.float32)
    with pytest.raises(Fault) as caught:
        run(made, (3, 1), [x, y, 48, 32])
    fault = caught.value
    assert (fault.cause, fault.buffer) == ("out of bounds", "argument 0")
    assert fault.place.block == (2, 0, 0)
    assert "cp.async.bulk.tensor" in fault.place.statement


def test_bytes_that_tiles_move_are_counted() -> None:
    made = made_of(doubled, 90, "*fp32 *fp32 i32 i32", BM=16, BN=32)
    x, y = some(32, 64).astype(np.float32), np.zeros((32, 64), np.float32)
    program = Program(made.ptx)
    facts = Facts(program, values=False)
    run(made, (2, 2), [x, y, 32, 64], program=program, observer=facts)
    tiles = [a for line in facts.lines() for a in line.accesses if a.way.startswith("bulk")]
    assert sorted((a.way, a.bytes_wanted) for a in tiles) == [
        ("bulk load", x.nbytes),
        ("bulk store", y.nbytes),
    ]


def test_an_mbarrier_that_nobody_arrives_at_is_a_fault_with_its_line() -> None:
    made = made_of(doubled, 90, "*fp32 *fp32 i32 i32", BM=16, BN=32)
    text = re.sub(r"(mbarrier\.init\S* \[%r\d+\]), 1;", r"\1, 2;", made.ptx)
    assert text != made.ptx
    x, y = some(32, 32).astype(np.float32), np.zeros((32, 32), np.float32)
    with pytest.raises(Fault) as caught:
        run(made, (2, 1), [x, y, 32, 32], program=Program(text))
    assert caught.value.cause == "deadlock"
    assert "mbarrier.try_wait" in caught.value.place.statement
