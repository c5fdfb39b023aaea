"""An autotuned matrix product in Triton: three configurations of one kernel, on the tensor cores.

What to look for in it (Triton 3.9 for sm_90a):

* **Three variants of one name**, one a configuration. Autotuning compiles and times all of them and
  keeps one for each M, N, K.
* **Tensor cores.** ``tl.dot`` becomes ``wgmma.mma_async…m64n64k16.f32.f16.f16`` (m64n128, m64n256
  in the larger tiles): fp16 in, fp32 accumulated. In SASS ``HGMMA.64x64x16.F32``; on an Ampere card
  ``mma.sync`` and ``HMMA``. The TTGIR has the shape in ``#ttg.nvidia_mma<{… instrShape …}>``.
* **The pipeline.** num_stages 4 means that three tiles are on their way while one is multiplied:
  before the loop stand three tiles of A and three of B as ``cp.async.cg.shared.global … 0x10``
  (16 bytes each), every tile ended by ``cp.async.commit_group``; the loop begins with
  ``cp.async.wait_group 4``, all but the last four. In SASS ``LDGSTS`` and ``DEPBAR``.
* **Shared memory pays for it**: 32, 96 and 144 KiB, all dynamic. The cubin says 1024 bytes; the
  figure is in Triton's metadata.
* **Registers**: 60, 218, 220. The accumulator is there: 128×128 fp32 over 128 threads is 128 a
  thread before anything else. Few warps fit on an SM, and that is right: the tensor cores are busy.
* **The prologue**: ``pid // tiles_in_group`` is an integer division by a value not known when
  compiling; there is no instruction for it, so look for the reciprocal (``MUFU.RCP``) in the SASS.
* **GROUP_M** changes nothing but the order of the tiles, so that those that run together share rows
  and columns in the L2.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config(
        {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}, num_warps=4, num_stages=4
    ),
    triton.Config(
        {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}, num_warps=4, num_stages=3
    ),
    triton.Config(
        {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8}, num_warps=8, num_stages=3
    ),
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """One BLOCK_M×BLOCK_N tile of C; GROUP_M rows of tiles are visited together, for the L2."""
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles_in_group = GROUP_M * tiles_n
    first_m = (pid // tiles_in_group) * GROUP_M
    group_m = min(tiles_m - first_m, GROUP_M)
    pid_m = first_m + (pid % tiles_in_group) % group_m
    pid_n = (pid % tiles_in_group) // group_m

    rows = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    cols = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    ks = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_ptrs = b_ptr + ks[:, None] * stride_bk + cols[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=ks[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=ks[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + rows[:, None] * stride_cm + cols[None, :] * stride_cn
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)


def matmul(a: torch.Tensor, b: torch.Tensor, config: triton.Config | None = None) -> torch.Tensor:
    """``a @ b`` with an fp32 accumulator. Without ``config``, Triton times all and picks one."""
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    strides = (*a.stride(), *b.stride(), *c.stride())

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)

    if config is None:
        matmul_kernel[grid](a, b, c, m, n, k, *strides)
    else:
        matmul_kernel.fn[grid](a, b, c, m, n, k, *strides, **config.all_kwargs())
    return c


def _of(config: triton.Config) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    return lambda a, b: matmul(a, b, config)


def _name(config: triton.Config) -> str:
    tile = "×".join(str(config.kwargs[f"BLOCK_{axis}"]) for axis in "MNK")
    return f"Triton, {tile}, {config.num_warps} warps"


@functools.cache
def compiled() -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """``torch.matmul``, compiled: it calls the library, unless it autotunes."""
    return torch.compile(torch.matmul)


VARIANTS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    **{_name(config): _of(config) for config in CONFIGS},
    "Triton, autotuned": matmul,
    "torch.matmul": torch.matmul,
    "torch.compile": lambda a, b: compiled()(a, b),
}
# Sums of many products, rounded to fp16 in the end.
TOLERANCE = {"rtol": 1e-2, "atol": 5e-2}


def inputs(
    N: int = 1024, M: int | None = None, K: int | None = None, device: str = "cuda"
) -> tuple[torch.Tensor, torch.Tensor]:
    """M×K and K×N in fp16, squares unless M and K are given."""
    a = torch.randn(M or N, K or N, device=device, dtype=torch.float16)
    return a, torch.randn(K or N, N, device=device, dtype=torch.float16)


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product in fp32."""
    return a.float() @ b.float()


def bytes_of(a: torch.Tensor, b: torch.Tensor) -> int:
    """Both read once, the product written once."""
    return a.nbytes + b.nbytes + a.shape[0] * b.shape[1] * a.element_size()


def flops_of(a: torch.Tensor, b: torch.Tensor) -> int:
    """A multiplication and an addition for each of M·N·K."""
    return 2 * a.shape[0] * a.shape[1] * b.shape[1]


def run(device: str = "cuda") -> dict[str, torch.Tensor]:
    """256×512 by 512×384 in fp16: autotuned on CUDA, each configuration in turn elsewhere."""
    a = torch.randn(256, 512, device=device, dtype=torch.float16)
    b = torch.randn(512, 384, device=device, dtype=torch.float16)
    if a.is_cuda:
        results = {"matmul": matmul(a, b)}
    else:
        results = {f"matmul_{i}": matmul(a, b, config) for i, config in enumerate(CONFIGS)}
    for out in results.values():
        torch.testing.assert_close(out, a @ b, atol=5e-2, rtol=1e-2)
    return results
