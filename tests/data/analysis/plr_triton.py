"""Writes the cubins of ``triton_*`` in ``plr_counts.txt.xz`` to the folder given."""

# ruff: noqa: N803

import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def mixed(x, y, o, n, k, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    a = tl.load(x + i, mask=m, other=0.0)
    s = tl.zeros((B,), tl.float32)
    j = 0
    while j < k:
        b = tl.load(y + i + j * n, mask=m)
        if tl.sum(b) > 0:
            s += tl.exp(a) * b
        else:
            s -= tl.cumsum(b, 0)
        j += 1
    tl.atomic_add(o + i % 64, s, mask=m)
    tl.store(o + n + i, tl.sort(s), mask=m)


@triton.jit
def gemm(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, k, BK):
        left = tl.load(a + rm[:, None] * k + (i + rk)[None, :])
        right = tl.load(b + (i + rk)[:, None] * n + rn[None, :])
        acc = tl.dot(left, right, acc)
    tl.store(c + rm[:, None] * n + rn[None, :], acc)


SIZES = dict.fromkeys(("m", "n", "k"), "i32")
TILES = dict.fromkeys(("BM", "BN", "BK"), "constexpr")
HALVES = {"a": "*fp16", "b": "*fp16", "c": "*fp32", **SIZES, **TILES}
FLOATS = {"a": "*fp32", "b": "*fp32", "c": "*fp32", **SIZES, **TILES}
VECTORS = {"x": "*fp32", "y": "*fp32", "o": "*fp32", "n": "i32", "k": "i32", "B": "constexpr"}
ALIGNED = {(i,): [["tt.divisibility", 16]] for i in range(6)}
KERNELS = (
    ("mixed", mixed, VECTORS, {"B": 256}, {}, {}),
    ("gemm", gemm, HALVES, {"BM": 64, "BN": 64, "BK": 32}, ALIGNED, {"num_stages": 3}),
    ("gemm8", gemm, FLOATS, {"BM": 32, "BN": 32, "BK": 32}, {}, {"num_warps": 8}),
)

for capability in (75, 80, 86, 90, 100, 120):
    for name, kernel, signature, constants, attributes, options in KERNELS:
        source = ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
        made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
        path = Path(sys.argv[1]) / f"triton_{name}_sm{capability}.cubin"
        path.write_bytes(made.asm["cubin"])
