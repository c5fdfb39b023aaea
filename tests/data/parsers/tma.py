"""Compiles a matrix product through tensor descriptors for sm_90 and sm_100, without a GPU."""

from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def tma(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(da.load([pm * BM, k]), db.load([pn * BN, k]).T, acc)
    dc.store([pm * BM, pn * BN], acc.to(c.dtype.element_ty))


types = {"a": "*bf16", "b": "*bf16", "c": "*bf16", "M": "i32", "N": "i32", "K": "i32"}
sizes = {"BM": 128, "BN": 128, "BK": 64}
aligned = {(i,): [["tt.divisibility", 16]] for i in range(6)}
for device in (90, 100):
    source = ASTSource(tma, {**types, **dict.fromkeys(sizes, "constexpr")}, sizes, aligned)
    compiled = triton.compile(source, target=GPUTarget("cuda", device, 32))
    Path(f"tma_sm{device}.cubin").write_bytes(compiled.asm["cubin"])
