"""Writes the PTX of ``NAME.ptx`` here: ``python reductions.py``, with triton 3.6."""

# ruff: noqa: N803

import re
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def normalise(x, w, y, stride, n, eps, B: tl.constexpr):
    """Two sums over a row, of all warps, and a write under a mask: straight-line code."""
    row = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < n
    a = tl.load(x + row * stride + i, mask=m, other=0.0).to(tl.float32)
    mean = tl.sum(a, 0) / n
    d = tl.where(m, a - mean, 0.0)
    scale = tl.rsqrt(tl.sum(d * d, 0) / n + eps)
    tl.store(y + row * stride + i, d * scale * tl.load(w + i, mask=m, other=0.0), mask=m)


@triton.jit
def loss(x, target, out, stride, n, B: tl.constexpr):
    """The greatest and a sum of a row in blocks, behind a branch that some programs take."""
    row = tl.program_id(0)
    y = tl.load(target + row)
    if y < 0:
        tl.store(out + row, 0.0)
        return
    most = float("-inf")
    total = 0.0
    for at in range(0, n, B):
        i = at + tl.arange(0, B)
        a = tl.load(x + row * stride + i, mask=i < n, other=float("-inf")).to(tl.float32)
        high = tl.maximum(most, tl.max(a, 0))
        total = total * tl.exp(most - high) + tl.sum(tl.exp(a - high), 0)
        most = high
    tl.store(out + row, most + tl.log(total) - tl.load(x + row * stride + y).to(tl.float32))


NORMALISE = {"x": "*bf16", "w": "*fp32", "y": "*fp32", "stride": "i32", "n": "i32", "eps": "fp32"}
LOSS = {"x": "*bf16", "target": "*i64", "out": "*fp32", "stride": "i32", "n": "i32"}

for kernel, signature in ((normalise, NORMALISE), (loss, LOSS)):
    for capability in (80, 90):
        source = ASTSource(kernel, signature | {"B": "constexpr"}, constexprs={"B": 1024})
        made = triton.compile(source, target=GPUTarget("cuda", capability, 32))
        text = re.sub(r"\n\s*(\.loc|\.file).*", "", made.asm["ptx"])
        text = text.partition("\t.section")[0].replace(", debug", "")
        text = re.sub(r"\n\$L__(func_(begin|end)|tmp)\d+:", "", text)
        text = re.sub(r"\s*//.*", "", text)
        path = Path(__file__).with_name(f"{kernel.__name__}_sm{capability}.ptx")
        path.write_text(re.sub(r"\.version [\d.]+", ".version 8.7", text).strip() + "\n")
