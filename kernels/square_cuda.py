"""The square in CUDA, blocks of 16×16 threads, built with ``load_inline``.

What to look for in it (nvcc 13.0 for sm_90):

* **The name.** The entry is ``_Z20square_matrix_kernelPKfPfii``: C++ mangles the argument types
  into it (``PKf`` const float*, ``Pf`` float*, ``ii`` two ints). The Triton square keeps its name.
* **The index.** ``%ctaid.y``, ``%ntid.y``, ``%tid.y`` and one ``mad.lo.s32`` are
  ``blockIdx.y * blockDim.y + threadIdx.y``, and once more for x. Triton knows its block size and
  needs no ``%ntid``; nvcc does not know 16×16 and reads it at run time (in SASS ``c[0x0][0x4]``).
* **The guard.** ``setp.ge``, ``setp.ge``, ``or.pred``, ``@%p3 bra $L__BB0_2``: a jump over the
  body, where Triton predicates each load and store. In SASS it has become ``@P0 EXIT``.
* **The work.** One ``ld.global.f32``, one ``mul.f32``, one ``st.global.f32`` a thread, against
  eight of each in the Triton square: one load in flight a thread, hidden by other warps only.
* **cvta.to.global** says that the pointers are global; it costs nothing here (look for it in SASS).
* **Registers**: 10. A warp is two rows of 16 threads, so it reads two stretches of 64 bytes.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils.cpp_extension import load_inline

KERNEL = r"""
__global__ void square_matrix_kernel(const float* matrix, float* result, int width, int height) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < height && col < width) {
        int idx = row * width + col;
        result[idx] = matrix[idx] * matrix[idx];
    }
}
"""

HOST = r"""
#include <c10/cuda/CUDAException.h>

torch::Tensor square_matrix(torch::Tensor matrix) {
    TORCH_CHECK(matrix.is_cuda(), "square_matrix wants a CUDA tensor");
    TORCH_CHECK(matrix.is_contiguous(), "square_matrix wants a contiguous tensor");
    TORCH_CHECK(matrix.dim() == 2, "square_matrix wants a matrix");
    const auto height = matrix.size(0);
    const auto width = matrix.size(1);
    auto result = torch::empty_like(matrix);
    dim3 threads_per_block(16, 16);
    dim3 number_of_blocks((width + 15) / 16, (height + 15) / 16);
    square_matrix_kernel<<<number_of_blocks, threads_per_block>>>(
        matrix.data_ptr<float>(), result.data_ptr<float>(), width, height);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return result;
}
"""


@functools.cache
def extension() -> Any:
    """Build the extension on first use (half a minute, then torch's cache has it)."""
    return load_inline(
        name="square_matrix_extension",
        cpp_sources="torch::Tensor square_matrix(torch::Tensor matrix);",
        cuda_sources=KERNEL + HOST,
        functions=["square_matrix"],
        with_cuda=True,
        extra_cuda_cflags=["-O2"],
    )


def run(device: str = "cuda") -> dict[str, torch.Tensor]:
    """Square 1823×781 values, compare with ``x * x``, return the output by name."""
    x = torch.randn(1823, 781, device=device)
    out: torch.Tensor = extension().square_matrix(x)
    torch.testing.assert_close(out, x * x)
    return {"square_matrix": out}
