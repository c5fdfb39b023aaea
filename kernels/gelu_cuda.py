"""GELU in CUDA as one writes it at first: ``0.5 *``, ``1.0 +``, ``tanh``. It runs in fp64.

What to look for in it (nvcc 13.0 for sm_90):

* **The promotion.** ``cvt.f64.f32 %fd1, %f1`` right after the load: ``0.5`` and ``1.0`` are
  doubles in C++, so everything up to ``cvt.rn.f32.f64`` before the store is done in fp64, and
  ``tanh`` is the fp64 one. One look at ``.reg .f64 %fd<79>`` says it all.
* **The constants**: ``0d3FE988453365DE00`` is 0.79788456 (``0d`` fp64 in hexadecimal, ``0f`` fp32).
* **tanh is inlined, twice.** Below |x| = 0.65 a polynomial (a column of ``fma.rn.f64``), above it
  an exponential (``ex2.approx``) and a reciprocal (``rcp.approx.ftz.f64``). A warp whose threads
  disagree (``@%p2 bra``) executes both.
* **SASS**: ``DFMA``, ``DMUL``, ``DADD``, 40 of them, and ``F2F.F64.F32``. An H200 does fp64 at half
  the rate of fp32, a GeForce card at 1/64.
* **Registers**: 20, against 14 in ``gelu_cuda_float``: a double takes two.

``ptxview time kernels/gelu_cuda.py`` says what the promotion costs: both versions on one input,
beside PyTorch's own, its formula in nine eager operations, and that compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.cpp_extension import load_inline

KERNEL = r"""
__global__ void gelu_kernel(const float* in, float* out, int num_elements) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num_elements) {
        out[i] = 0.5 * in[i] *
            (1.0 + tanh(0.79788456 * (in[i] + 0.044715 * in[i] * in[i] * in[i])));
    }
}
"""

HOST = r"""
#include <c10/cuda/CUDAException.h>

torch::Tensor gelu(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda(), "gelu wants a CUDA tensor");
    TORCH_CHECK(x.is_contiguous(), "gelu wants a contiguous tensor");
    auto y = torch::empty_like(x);
    int n = x.numel();
    gelu_kernel<<<(n + 1023) / 1024, 1024>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""


@functools.cache
def extension() -> Any:
    """Build the extension on first use (half a minute, then torch's cache has it)."""
    return load_inline(
        name="gelu_double_extension",
        cpp_sources="torch::Tensor gelu(torch::Tensor x);",
        cuda_sources=KERNEL + HOST,
        functions=["gelu"],
        with_cuda=True,
        extra_cuda_cflags=["-O2"],
    )


def gelu_float(x: torch.Tensor) -> torch.Tensor:
    """The same with float literals."""
    from kernels.gelu_cuda_float import extension as other

    out: torch.Tensor = other().gelu_float(x)
    return out


def spelt_out(x: torch.Tensor) -> torch.Tensor:
    """The formula in PyTorch: nine operations, in eager mode a kernel each."""
    return 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


@functools.cache
def compiled() -> Callable[[torch.Tensor], torch.Tensor]:
    """The formula, compiled."""
    return torch.compile(spelt_out)


VARIANTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "CUDA, double literals": lambda x: extension().gelu(x),
    "CUDA, float literals": gelu_float,
    "torch gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "eager, spelt out": spelt_out,
    "torch.compile": lambda x: compiled()(x),
}
# The constant is cut to eight digits, and tanh is not the same function everywhere.
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def inputs(N: int = 4096, M: int = 4096, device: str = "cuda") -> torch.Tensor:
    """M rows of N columns, fp32."""
    return torch.randn(M, N, device=device)


def reference(x: torch.Tensor) -> torch.Tensor:
    """PyTorch's tanh approximation in fp64."""
    return torch.nn.functional.gelu(x.double(), approximate="tanh")


def bytes_of(x: torch.Tensor) -> int:
    """Each value is read once and written once."""
    return 2 * x.nbytes


def flops_of(x: torch.Tensor) -> int:
    """Nine operations a value, a hyperbolic tangent counted as one of them."""
    return 9 * x.numel()


def run(device: str = "cuda") -> dict[str, torch.Tensor]:
    """GELU of 1024×1024 values, compared with torch's tanh approximation."""
    x = torch.randn(1024, 1024, device=device)
    out: torch.Tensor = extension().gelu(x)
    expected = torch.nn.functional.gelu(x, approximate="tanh")
    torch.testing.assert_close(out, expected)
    return {"gelu": out}
