"""Products of sm_100's tensor cores, beside references in fp64; what tensor memory refuses."""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from inspector.execute import Facts, Fault, Memory, Program, execute
from tests.execute.programs import Made, make

Array = np.ndarray[Any, Any]
DEPTH = 128
"""K of every product here."""


@triton.jit  # type: ignore[untyped-decorator]
def product_kernel(
    a, b, c, m, n, k, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr
):
    rows = tl.program_id(0) * block_m + tl.arange(0, block_m)
    columns = tl.program_id(1) * block_n + tl.arange(0, block_n)
    total = tl.zeros((block_m, block_n), tl.float32)
    for start in range(0, k, block_k):
        depth = start + tl.arange(0, block_k)
        a_tile = tl.load(a + rows[:, None] * k + depth[None, :])
        total += tl.dot(a_tile, tl.load(b + depth[:, None] * n + columns[None, :]))
    tl.store(c + rows[:, None] * n + columns[None, :], total)


@triton.jit  # type: ignore[untyped-decorator]
def scaled_kernel(
    a, a_scales, b, b_scales, c, block_m: tl.constexpr, block_n: tl.constexpr,
    block_k: tl.constexpr, a_kind: tl.constexpr, b_kind: tl.constexpr, a_pack: tl.constexpr,
    b_pack: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    rows = tl.arange(0, block_m)
    columns = tl.arange(0, block_n)
    of_a = tl.arange(0, block_k // a_pack)
    of_b = tl.arange(0, block_k // b_pack)
    groups = tl.arange(0, block_k // group)
    a_tile = tl.load(a + rows[:, None] * (block_k // a_pack) + of_a[None, :])
    b_tile = tl.load(b + columns[None, :] * (block_k // b_pack) + of_b[:, None])
    a_scale = tl.load(a_scales + rows[:, None] * (block_k // group) + groups[None, :])
    b_scale = tl.load(b_scales + columns[:, None] * (block_k // group) + groups[None, :])
    total = tl.zeros((block_m, block_n), tl.float32)
    total = tl.dot_scaled(a_tile, a_scale, a_kind, b_tile, b_scale, b_kind, total)
    tl.store(c + rows[:, None] * block_n + columns[None, :], total)


def run(made: Made, blocks: tuple[int, int], inputs: list[Array], out: Array, *sizes: int) -> int:
    """Run a kernel; its floating point operations."""
    memory = Memory()
    program = Program(made.ptx)
    facts = Facts(program, values=False)
    arguments: list[Any] = [memory.add(str(k), array) for k, array in enumerate(inputs)]
    arguments += [memory.add("out", out), *sizes]
    arguments += [0] * (len(program.parameters) - len(arguments))  # Triton's scratch memory
    execute(
        program, blocks, (made.threads,), arguments,
        memory=memory, shared=made.shared, observer=facts,
    )  # fmt: skip
    return facts.totals().operations


TORCH = {"fp16": torch.float16, "fp32": torch.float32, "fp8e4nv": torch.float8_e4m3fn}


@pytest.mark.parametrize(
    ("kind", "block", "tolerance"),
    [
        ("fp16", (128, 128, 64), 1e-6),
        ("fp16", (64, 64, 64), 1e-6),  # the rows of D are apart in tensor memory
        ("fp32", (128, 64, 32), 2e-3),  # tf32
        ("fp8e4nv", (128, 256, 128), 1e-6),
    ],
)
def test_tritons_products_are_within_their_type(
    kind: str, block: tuple[int, int, int], tolerance: float
) -> None:
    block_m, block_n, block_k = block
    pointers = (("a", f"*{kind}"), ("b", f"*{kind}"), ("c", "*fp32"))
    numbers = (("m", "i32"), ("n", "i32"), ("k", "i32"))
    sizes = (("block_m", block_m), ("block_n", block_n), ("block_k", block_k))
    made = make(product_kernel, pointers + numbers, sizes, 100, aligned=tuple(range(6)))
    assert "tcgen05.mma" in made.ptx
    m = 2 * block_m
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(m, DEPTH, generator=generator).to(TORCH[kind])
    b = torch.randn(DEPTH, block_n, generator=generator).to(TORCH[kind])
    c = np.zeros((m, block_n), np.float32)
    inputs = [x.view(torch.uint8).numpy().copy() for x in (a, b)]
    operations = run(made, (2, 1), inputs, c, m, block_n, DEPTH)
    assert operations >= 2 * m * block_n * DEPTH
    expected = (a.double() @ b.double()).numpy()
    assert np.abs(c - expected).max() <= tolerance * np.abs(expected).max()


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def operand(kind: str, rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Bytes of a matrix of ``DEPTH`` columns, and its values."""
    if kind == "e4m3":
        values = torch.from_numpy(rng.standard_normal((rows, DEPTH))).to(torch.float8_e4m3fn)
        return values.view(torch.uint8).numpy().copy(), values.double().numpy()
    codes = rng.integers(0, 16, (rows, DEPTH))
    packed = codes[:, 0::2] | codes[:, 1::2] << 4
    return packed.astype(np.uint8), np.where(codes < 8, 1, -1) * E2M1[codes % 8]


@pytest.mark.parametrize(
    ("a_kind", "b_kind", "group", "product"),
    [
        ("e4m3", "e2m1", 32, "kind::mxf8f6f4.block_scale"),
        ("e2m1", "e2m1", 32, "kind::mxf4.block_scale"),
        ("e2m1", "e2m1", 16, "kind::mxf4nvf4.block_scale"),
    ],
)
def test_tritons_scaled_products_equal_fp64(
    a_kind: str, b_kind: str, group: int, product: str
) -> None:
    m, n = 128, 64
    rng = np.random.default_rng(1)
    a, a_values = operand(a_kind, m, rng)
    b, b_values = operand(b_kind, n, rng)
    if group == 16:
        scale_type = "fp8e4nv"
        scales = [torch.rand(rows, DEPTH // group).to(torch.float8_e4m3fn) for rows in (m, n)]
        factors = [scale.double().numpy() for scale in scales]
        scale_bytes = [scale.view(torch.uint8).numpy().copy() for scale in scales]
    else:
        scale_type = "u8"
        scale_bytes = [rng.integers(120, 134, (r, DEPTH // group)).astype(np.uint8) for r in (m, n)]
        factors = [2.0 ** (bits.astype(np.int64) - 127) for bits in scale_bytes]
    types = {"e4m3": ("*fp8e4nv", 1), "e2m1": ("*u8", 2)}
    signature = (
        ("a", types[a_kind][0]), ("a_scales", f"*{scale_type}"), ("b", types[b_kind][0]),
        ("b_scales", f"*{scale_type}"), ("c", "*fp32"),
    )  # fmt: skip
    constants = (
        ("block_m", m), ("block_n", n), ("block_k", DEPTH), ("a_kind", a_kind), ("b_kind", b_kind),
        ("a_pack", types[a_kind][1]), ("b_pack", types[b_kind][1]), ("group", group),
    )  # fmt: skip
    made = make(scaled_kernel, signature, constants, 100, aligned=tuple(range(5)))
    assert product in made.ptx
    c = np.zeros((m, n), np.float32)
    run(made, (1, 1), [a, scale_bytes[0], b, scale_bytes[1]], c)
    a_scaled, b_scaled = (
        values * np.repeat(factor, group, 1)
        for values, factor in zip((a_values, b_values), factors, strict=True)
    )
    expected = a_scaled @ b_scaled.T
    assert np.abs(c - expected).max() <= 1e-6 * np.abs(expected).max()


HEAD = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a) {
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
.reg .pred %p<3>;
.shared .align 16 .b8 place[16];
"""
ALLOCATED = """tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 64;
ld.shared.b32 %r1, [place];
"""


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 48;", "48 columns"),
        (9 * ALLOCATED, "waits for ever for 64 columns, which its block has taken"),
        ("mov.b32 %r1, 0;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1];",
         "loads columns 0 to 0 of tensor memory, of which 0 columns are allocated"),
        (ALLOCATED + "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r2, %r3}, [%r1+63];",
         "loads columns 63 to 64 of tensor memory, of which 1 column"),
        (ALLOCATED + "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1+0x200000], {%r1};",
         "warp 0 stores lanes from 32 on of tensor memory; its own are 0 to 31"),
        (ALLOCATED + "setp.eq.b32 %p1, 0, 0;\nmov.b64 %rd1, 0;\nmov.b32 %r2, 0x8100010;\n"
         "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd1, %r2, %p1;",
         "0x0 is no descriptor of a matrix in shared memory"),
        (ALLOCATED + "setp.eq.b32 %p1, 0, 0;\nmov.b64 %rd1, 0;\nmov.b32 %r2, 0x4100010;\n"
         "tcgen05.mma.cta_group::2.kind::f16 [%r1], %rd1, %rd1, %r2, %p1;", "says 64×64"),
    ],
)  # fmt: skip
def test_what_tensor_memory_has_not_is_a_fault(body: str, sentence: str) -> None:
    program = Program(HEAD + body + "\nret;\n}\n")
    assert program.cannot() == ()
    with pytest.raises(Fault, match=sentence):
        execute(program, (1,), (32,), [0], memory=Memory())


STORED = """ld.param.u64 %rd1, [a];
mov.u32 %r2, %tid.x;
mad.wide.u32 %rd1, %r2, 16, %rd1;
ld.global.v4.b32 {%r3, %r4, %r5, %r6}, [%rd1];
tcgen05.st.sync.aligned.32x32b.x4.b32 [%r1], {%r3, %r4, %r5, %r6};
"""
NAN = float("nan")


@pytest.mark.parametrize(
    ("words", "dtype", "expected"),
    [
        ("min.f32", np.float32, [-5, -0.0, 2, NAN]),
        ("max.f32", np.float32, [3, 0.0, 2, NAN]),
        ("max.abs.f32", np.float32, [5, 0, 2, NAN]),
        ("min.NaN.f32", np.float32, [-5, -0.0, NAN, NAN]),
        ("min.s32", np.int32, [-7, 0, 1, 2]),
        ("max.u32", np.uint32, [0xFFFFFFF9, 0, 4, 2]),
    ],
)
def test_a_load_may_reduce_what_each_thread_loads(
    words: str, dtype: type, expected: list[float]
) -> None:
    if dtype is np.float32:
        rows = np.array([[1, -5, 3, 2], [0.0, -0.0, 0.0, 0.0], [NAN, 2, NAN, 2], [NAN] * 4], "f4")
    else:
        rows = np.array([[1, -7, 3, 2], [0, 0, 0, 0], [1, 2, 3, 4], [2, 2, 2, 2]], "i4")
    values = np.tile(rows.view(np.uint32), (8, 1))
    memory = Memory()
    body = f"""tcgen05.ld.red.sync.aligned.32x32b.x4.{words} {{%r3, %r4, %r5, %r6}}, {{%r7}}, [%r1];
st.global.v2.b32 [%rd1], {{%r7, %r4}};"""
    program = Program(HEAD + ALLOCATED + STORED + body + "\nret;\n}\n")
    arguments = [memory.add("a", values)]
    second = values[:, 1].copy()
    execute(program, (1,), (32,), arguments, memory=memory)
    reduced: Array = values[:, 0].view(dtype)
    assert np.array_equal(
        reduced, np.tile(expected, 8).astype(dtype), equal_nan=dtype is np.float32
    )
    assert np.array_equal(np.signbit(reduced.astype(float)), np.signbit(np.tile(expected, 8)))
    assert np.array_equal(values[:, 1], second)
