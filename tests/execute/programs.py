"""Kernels to be run: PTX that Triton and nvcc make here, and launches of it on numpy's arrays."""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from inspector.execute import Execution, Memory, Program, execute
from inspector.parsers.ptx_code import PtxModule
from kernels.matmul import matmul_kernel
from kernels.softmax import softmax_kernel
from kernels.square import square_kernel

Array = np.ndarray[Any, Any]


class Made(NamedTuple):
    """A Triton kernel's PTX and how it is launched."""

    ptx: str
    shared: int
    threads: int


@functools.cache
def make(
    kernel: Any,
    signature: tuple[tuple[str, str], ...],
    constants: tuple[tuple[str, Any], ...],
    cc: int = 90,
    warps: int = 4,
    stages: int = 3,
    aligned: tuple[int, ...] = (),
) -> Made:
    """The PTX of a Triton kernel; ``aligned`` are arguments that are multiples of 16."""
    source = ASTSource(
        fn=kernel,
        signature=dict(signature) | dict.fromkeys(dict(constants), "constexpr"),
        constexprs=dict(constants),
        attrs={(n,): [["tt.divisibility", 16]] for n in aligned},
    )
    made = triton.compile(
        source, target=GPUTarget("cuda", cc, 32), options={"num_warps": warps, "num_stages": stages}
    )
    threads = 32 * getattr(made.metadata, "num_warps", warps)
    return Made(str(made.asm["ptx"]), made.metadata.shared, threads)


ROWS = (
    ("output_ptr", "*fp32"), ("input_ptr", "*fp32"), ("input_row_stride", "i32"),
    ("output_row_stride", "i32"), ("n_cols", "i32"),
)  # fmt: skip
WIDE = (("BLOCK_SIZE", 1024),)


def square(cc: int = 90) -> Made:
    return make(square_kernel, ROWS, WIDE, cc, aligned=(0, 1))


def softmax(cc: int = 90) -> Made:
    return make(softmax_kernel, ROWS, WIDE, cc, aligned=(0, 1))


@triton.jit
def layer_norm_kernel(y_ptr, x_ptr, w_ptr, b_ptr, stride, n_cols, eps, BLOCK_SIZE: tl.constexpr):
    """A row less its mean, over its deviation, times a weight and a bias."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_cols
    w = tl.load(w_ptr + cols, mask=mask)
    b = tl.load(b_ptr + cols, mask=mask)
    y = centred * tl.rsqrt(variance + eps) * w + b
    tl.store(y_ptr + row * stride + cols, y, mask=mask)


def layer_norm(cc: int = 90) -> Made:
    names = ("y_ptr", "x_ptr", "w_ptr", "b_ptr", "stride", "n_cols", "eps")
    kinds = (*["*fp32"] * 4, "i32", "i32", "fp32")
    signature = tuple(zip(names, kinds, strict=True))
    return make(layer_norm_kernel, signature, WIDE, cc, aligned=(0, 1, 2, 3))


@triton.jit
def gelu_kernel(y_ptr, x_ptr, n, BLOCK_SIZE: tl.constexpr):
    """gelu by the error function."""
    at = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, 0.5 * x * (1 + tl.erf(x * 0.7071067811865476)), mask=at < n)


def gelu(cc: int = 90) -> Made:
    signature = (("y_ptr", "*fp32"), ("x_ptr", "*fp32"), ("n", "i32"))
    return make(gelu_kernel, signature, WIDE, cc, aligned=(0, 1))


def matmul(
    kind: str = "fp16", cc: int = 90, tile: tuple[int, int, int] = (64, 64, 32), stages: int = 4
) -> Made:
    names = matmul_kernel.fn.arg_names[:12]
    out = "fp32" if kind in ("fp32", "fp8e4nv", "fp8e5") else kind
    kinds = (f"*{kind}", f"*{kind}", f"*{out}", *["i32"] * 9)
    blocks = tuple(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
    constants = (*blocks, ("GROUP_M", 8), ("stride_ak", 1), ("stride_bn", 1), ("stride_cn", 1))
    signature = tuple(
        pair for pair in zip(names, kinds, strict=True) if pair[0] not in dict(constants)
    )
    return make(matmul_kernel.fn, signature, constants, cc, 4, stages, (0, 1, 2, 3, 4, 5, 6, 8, 10))


@triton.jit
def scaled_kernel(
    a_ptr, sa_ptr, b_ptr, sb_ptr, c_ptr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr, PER_A: tl.constexpr, PER_B: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """A product of matrices of narrow floats, their scales by row, column and chunk of K."""
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    chunks = tl.arange(0, K // CHUNK)
    a = tl.load(a_ptr + m[:, None] * (K // PER_A) + tl.arange(0, K // PER_A)[None, :])
    b = tl.load(b_ptr + n[None, :] * (K // PER_B) + tl.arange(0, K // PER_B)[:, None])
    sa = tl.load(sa_ptr + m[:, None] * (K // CHUNK) + chunks[None, :])
    sb = tl.load(sb_ptr + n[:, None] * (K // CHUNK) + chunks[None, :])
    tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot_scaled(a, sa, A, b, sb, B))


def launch(
    ptx: str | Program | PtxModule,
    grid: Sequence[int],
    block: Sequence[int] | int,
    arguments: Sequence[Any],
    entry: str | None = None,
    **more: Any,
) -> Execution:
    """Runs a kernel on arrays, in place; arguments that are missing at the end are 0."""
    program = ptx if isinstance(ptx, Program) else Program(ptx, entry)
    memory = more.pop("memory", None) or Memory()
    given: list[Any] = [
        memory.add(f"argument {n}", value) if isinstance(value, np.ndarray) else value
        for n, value in enumerate(arguments)
    ]
    given += [0] * (len(program.parameters) - len(given))
    threads = (block,) if isinstance(block, int) else block
    return execute(program, grid, threads, given, memory=memory, **more)


def bfloat16(values: Array) -> Array:
    """Single precision rounded to bf16 by torch, as its bits."""
    import torch

    return torch.from_numpy(values).bfloat16().view(torch.int16).numpy().view(np.uint16)


def from_bfloat16(bits: Array) -> Array:
    """bf16's bits as single precision."""
    wide: Array = (bits.astype(np.uint32) << 16).view(np.float32)
    return wide
