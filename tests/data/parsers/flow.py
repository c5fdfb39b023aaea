"""Compiles a kernel that returns early, with a loop, choices and a while, without a GPU."""

from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def flow(out_ptr, in_ptr, n, steps, mode, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid * BLOCK >= n:
        return
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(in_ptr + offsets, mask=offsets < n, other=0.0)
    for i in range(steps):
        if i % 2 == 0:
            x = x * 2.0
        else:
            x = x + 1.0
        if mode == 3:
            x = x - tl.max(x, 0)
    total = tl.sum(x, 0)
    while total > 100.0:
        total = total * 0.5
        x = x * 0.5
    tl.store(out_ptr + offsets, x, mask=offsets < n)


def main() -> None:
    types = {"out_ptr": "*fp32", "in_ptr": "*fp32", "n": "i32", "steps": "i32", "mode": "i32"}
    source = ASTSource(flow, {**types, "BLOCK": "constexpr"}, {"BLOCK": 1024})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    for stage in ("ttir", "ttgir", "llir"):
        Path(f"flow_sm90.{stage}").write_text(compiled.asm[stage])


if __name__ == "__main__":
    main()
