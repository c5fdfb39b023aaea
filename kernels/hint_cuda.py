"""Pairs of CUDA kernels, one with a fault that a hint names and one without it.

What to look for in it (nvcc 13.0 for sm_90; ``ptxview show … NAME``, and the hints on its card):

* **spilled** and **kept**: one body; ``__launch_bounds__(1024, 2)`` leaves the first 32 registers,
  so the SASS is full of ``STL`` and ``LDL``.
* **indexed** and **selected**: an array indexed by a value read from memory is a ``.local`` depot,
  ``ld.local`` and ``st.local``; the twin compares with every index and stays in registers.
* **narrow** and **wide**: four neighbours as four ``ld.global.f32`` and as one
  ``ld.global.v4.f32``. nvcc may not merge them itself: it does not know that the pointer is
  aligned.
* **down_columns** and **along_rows**: the lanes of a warp read addresses a row apart (32 sectors of
  32 bytes for 128 bytes of data), or next to each other (4 sectors).
* **unpadded** and **padded**: a transposition through ``tile[32][32]``, whose columns are each in
  one bank, and through ``tile[32][33]``.
* **waiting** and **ahead**: one load a turn of the loop, waited for at once (``#pragma unroll 1``),
  and four in flight.
* **divided** and **by_rows**: ``/`` and ``%`` by an argument in a loop (a reciprocal and its
  corrections in SASS), and a row that is the grid's second axis.
* **treed** and **shuffled**: a sum in shared memory with a barrier a step, and one by shuffles with
  one barrier in all.
* **called** and **inlined**: ``__noinline__`` leaves a ``call`` in the loop.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch
from torch.utils.cpp_extension import load_inline

TENSORS = "#include <ATen/core/Tensor.h>\n"
BINDINGS = f"""{TENSORS}#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
"""
HEADERS = f"{TENSORS}#include <c10/cuda/CUDAException.h>\n"
"""What the sources need of torch; all of its headers take the compilers far longer to read, and
one of an operator (``at::empty``) as long as three times these: a tensor makes its like itself."""

LEAN: dict[str, Any] = {"no_implicit_headers": True}
if LEAN.keys() - inspect.signature(load_inline).parameters.keys():
    LEAN = {}  # an older torch puts all of them in front anyway

KERNEL = r"""
// -- registers ---------------------------------------------------------------------------------

__device__ __forceinline__ void mix(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float held[48];
#pragma unroll
    for (int k = 0; k < 48; k++) held[k] = in[k * n + i];
#pragma unroll
    for (int k = 0; k < 48; k++) out[k * n + i] = held[k] * held[47 - k] + held[(k * 7) % 48];
}

__global__ __launch_bounds__(1024, 2) void spilled(const float* in, float* out, int n) {
    mix(in, out, n);
}

__global__ void kept(const float* in, float* out, int n) { mix(in, out, n); }

__global__ void indexed(const float* in, const int* pick, float* out, int n, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float bin[16] = {};
    for (int k = 0; k < rows; k++) bin[pick[k * n + i] & 15] += in[k * n + i];
    float most = bin[0];
#pragma unroll
    for (int b = 1; b < 16; b++) most = fmaxf(most, bin[b]);
    out[i] = most;
}

__global__ void selected(const float* in, const int* pick, float* out, int n, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float bin[16] = {};
    for (int k = 0; k < rows; k++) {
        int which = pick[k * n + i] & 15;
        float x = in[k * n + i];
#pragma unroll
        for (int b = 0; b < 16; b++) bin[b] += which == b ? x : 0.0f;
    }
    float most = bin[0];
#pragma unroll
    for (int b = 1; b < 16; b++) most = fmaxf(most, bin[b]);
    out[i] = most;
}

// -- global memory -----------------------------------------------------------------------------

__global__ void narrow(const float* __restrict__ in, float* __restrict__ out, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 >= n) return;
    float a = in[i], b = in[i + 1], c = in[i + 2], d = in[i + 3];
    out[i] = a * a;
    out[i + 1] = b * b;
    out[i + 2] = c * c;
    out[i + 3] = d * d;
}

__global__ void wide(const float* __restrict__ in, float* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i + 3 >= n) return;
    float4 x = reinterpret_cast<const float4*>(in)[i];
    reinterpret_cast<float4*>(out)[i] = make_float4(x.x * x.x, x.y * x.y, x.z * x.z, x.w * x.w);
}

__global__ void down_columns(const float* in, float* out, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, col = blockIdx.y;
    if (row < rows) out[row * cols + col] = in[row * cols + col] * 2.0f;
}

__global__ void along_rows(const float* in, float* out, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (col < cols) out[row * cols + col] = in[row * cols + col] * 2.0f;
}

__global__ void __launch_bounds__(256) waiting(const float* in, float* out, int n) {
    float sum = 0.0f;
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += 256) sum += in[blockIdx.x * n + i];
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

__global__ void __launch_bounds__(256) ahead(const float* in, float* out, int n) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 4 * 256) {
        float part[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int at = i + 256 * k;
            part[k] = at < n ? in[blockIdx.x * n + at] : 0;
        }
        sum += (part[0] + part[1]) + (part[2] + part[3]);
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

// -- shared memory and barriers ----------------------------------------------------------------

template <int WIDTH>
__device__ __forceinline__ void transposed(float (&tile)[32][WIDTH], const float* in, float* out,
                                           int size) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * size + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    out[y * size + x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void unpadded(const float* in, float* out, int size) {
    __shared__ float tile[32][32];
    transposed(tile, in, out, size);
}

__global__ void padded(const float* in, float* out, int size) {
    __shared__ float tile[32][33];
    transposed(tile, in, out, size);
}

__global__ void treed(const float* in, float* out) {
    __shared__ float part[256];
    int t = threadIdx.x;
    part[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
#pragma unroll 1
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) part[t] += part[t + half];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}

__global__ void shuffled(const float* in, float* out) {
    __shared__ float part[8];
    int t = threadIdx.x;
    float sum = in[blockIdx.x * 256 + t];
#pragma unroll
    for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, half);
    if (t % 32 == 0) part[t / 32] = sum;
    __syncthreads();
    if (t == 0) {
        float all = 0.0f;
#pragma unroll
        for (int k = 0; k < 8; k++) all += part[k];
        out[blockIdx.x] = all;
    }
}

// -- instructions ------------------------------------------------------------------------------

__global__ void divided(const int* in, int* out, int n, int width) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = in[i] + i / width - i % width;
}

__global__ void by_rows(const int* in, int* out, int rows, int width) {
    int row = blockIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col < width) out[row * width + col] = in[row * width + col] + row - col;
}

__device__ __noinline__ float far_away(float x) { return x * x + 1.0f; }
__device__ __forceinline__ float nearby(float x) { return x * x + 1.0f; }

__global__ void called(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = far_away(in[i]);
}

__global__ void inlined(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = nearby(in[i]);
}
"""

HOST = r"""
void check(const at::Tensor& x) {
    TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "a contiguous CUDA tensor is wanted");
}

at::Tensor mixed(at::Tensor x, bool bounded) {
    check(x);
    auto y = x.new_empty(x.sizes());
    int n = x.size(1);
    if (bounded) spilled<<<n / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    else kept<<<n / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

at::Tensor picked(at::Tensor x, at::Tensor pick, bool array) {
    check(x);
    int rows = x.size(0), n = x.size(1), blocks = (n + 255) / 256;
    auto y = x.new_empty({n});
    const float* in = x.data_ptr<float>();
    const int* which = pick.data_ptr<int>();
    if (array) indexed<<<blocks, 256>>>(in, which, y.data_ptr<float>(), n, rows);
    else selected<<<blocks, 256>>>(in, which, y.data_ptr<float>(), n, rows);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

at::Tensor squared(at::Tensor x, bool scalar) {
    check(x);
    auto y = x.new_empty(x.sizes());
    int n = x.numel();
    if (scalar) narrow<<<(n / 4 + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    else wide<<<(n / 4 + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

at::Tensor doubled(at::Tensor x, bool columns) {
    check(x);
    auto y = x.new_empty(x.sizes());
    int rows = x.size(0), cols = x.size(1);
    dim3 down((rows + 127) / 128, cols), along((cols + 127) / 128, rows);
    const float* in = x.data_ptr<float>();
    if (columns) down_columns<<<down, 128>>>(in, y.data_ptr<float>(), rows, cols);
    else along_rows<<<along, 128>>>(in, y.data_ptr<float>(), rows, cols);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

at::Tensor summed(at::Tensor x, bool one_by_one) {
    check(x);
    int rows = x.size(0), n = x.size(1);
    auto y = x.new_empty({rows, 256});
    if (one_by_one) waiting<<<rows, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    else ahead<<<rows, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

at::Tensor turned(at::Tensor x, bool conflicts) {
    check(x);
    auto y = x.new_empty(x.sizes());
    int size = x.size(0);
    dim3 block(32, 32), grid(size / 32, size / 32);
    if (conflicts) unpadded<<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), size);
    else padded<<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), size);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

at::Tensor reduced(at::Tensor x, bool barriers) {
    check(x);
    int rows = x.size(0);
    auto y = x.new_empty({rows});
    if (barriers) treed<<<rows, 256>>>(x.data_ptr<float>(), y.data_ptr<float>());
    else shuffled<<<rows, 256>>>(x.data_ptr<float>(), y.data_ptr<float>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

at::Tensor placed(at::Tensor x, bool division) {
    check(x);
    auto y = x.new_empty(x.sizes());
    int rows = x.size(0), width = x.size(1);
    if (division) divided<<<132, 128>>>(x.data_ptr<int>(), y.data_ptr<int>(), rows * width, width);
    else by_rows<<<dim3((width + 127) / 128, rows), 128>>>(
        x.data_ptr<int>(), y.data_ptr<int>(), rows, width);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

at::Tensor raised(at::Tensor x, bool call) {
    check(x);
    auto y = x.new_empty(x.sizes());
    int n = x.numel();
    if (call) called<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    else inlined<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""

DECLARED = """
at::Tensor mixed(at::Tensor x, bool bounded);
at::Tensor picked(at::Tensor x, at::Tensor pick, bool array);
at::Tensor squared(at::Tensor x, bool scalar);
at::Tensor doubled(at::Tensor x, bool columns);
at::Tensor summed(at::Tensor x, bool one_by_one);
at::Tensor turned(at::Tensor x, bool conflicts);
at::Tensor reduced(at::Tensor x, bool barriers);
at::Tensor placed(at::Tensor x, bool division);
at::Tensor raised(at::Tensor x, bool call);
"""

FUNCTIONS = (
    "mixed",
    "picked",
    "squared",
    "doubled",
    "summed",
    "turned",
    "reduced",
    "placed",
    "raised",
)


@functools.cache
def extension() -> Any:
    """Build the extension on first use; then torch's cache has it."""
    return load_inline(
        name="hint_pairs_extension",
        cpp_sources=BINDINGS + DECLARED,
        cuda_sources=HEADERS + KERNEL + HOST,
        functions=list(FUNCTIONS),
        with_cuda=True,
        extra_cuda_cflags=["-O2"],
        **LEAN,
    )


def run(device: str = "cuda") -> dict[str, torch.Tensor]:
    """Run both of each pair, compare with torch, return the outputs by kernel."""
    pairs = extension()
    # Just large enough that each of an H200's 132 multiprocessors has a block.
    many = 132 * 256
    columns = torch.randn(48, many, device=device)
    pick = torch.randint(16, (48, many), device=device, dtype=torch.int32)
    flat = torch.randn(4 * many, device=device)
    plane = torch.randn(1056, 1056, device=device)
    square = torch.randn(384, 384, device=device)
    rows = torch.randn(132, 2048, device=device)
    short = torch.randn(132, 256, device=device)
    whole = torch.randint(100, (132, 40), device=device, dtype=torch.int32)
    order = torch.arange(48, device=device)
    turns = torch.arange(132, device=device, dtype=torch.int32)[:, None]
    expected = {
        "mixed": columns * columns[47 - order] + columns[(order * 7) % 48],
        "picked": columns.new_zeros(16, many).scatter_add(0, pick.long(), columns).amax(0),
        "squared": flat * flat,
        "doubled": plane * 2,
        "summed": rows.reshape(132, 8, 256).sum(1),
        "turned": square.T,
        "reduced": short.sum(1),
        "placed": whole + turns - torch.arange(40, device=device, dtype=torch.int32),
        "raised": flat[:many] ** 2 + 1,
    }
    inputs = {
        "mixed": (columns,),
        "picked": (columns, pick),
        "squared": (flat,),
        "doubled": (plane,),
        "summed": (rows,),
        "turned": (square,),
        "reduced": (short,),
        "placed": (whole,),
        "raised": (flat[:many],),
    }
    kernels = {
        "mixed": ("spilled", "kept"),
        "picked": ("indexed", "selected"),
        "squared": ("narrow", "wide"),
        "doubled": ("down_columns", "along_rows"),
        "summed": ("waiting", "ahead"),
        "turned": ("unpadded", "padded"),
        "reduced": ("treed", "shuffled"),
        "placed": ("divided", "by_rows"),
        "raised": ("called", "inlined"),
    }
    out: dict[str, torch.Tensor] = {}
    for name, pair in kernels.items():
        for kernel, fault in zip(pair, (True, False), strict=True):
            out[kernel] = getattr(pairs, name)(*inputs[name], fault)
            torch.testing.assert_close(out[kernel], expected[name], msg=kernel)
    return out
