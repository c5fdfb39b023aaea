# mypy: ignore-errors
"""load_inline: C++, CUDA C++ where there is nvcc, and a source that does not compile."""

import hashlib
import shutil
from pathlib import Path

import torch
from torch.utils.cpp_extension import load_inline

HEAD = """#include <ATen/core/Tensor.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
"""
DOUBLED = HEAD + "at::Tensor doubled(at::Tensor x) { return x.mul(2); }\n"
DECLARED = HEAD + "at::Tensor tripled(at::Tensor x);\n"
TRIPLED = """#include <ATen/core/Tensor.h>
#include <cuda_runtime.h>
__global__ void triple(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 3 * x[i];
}
at::Tensor tripled(at::Tensor x) {
  auto y = x.clone();
  triple<<<(x.numel() + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
"""


def digest(tensor):
    return hashlib.sha256(tensor.cpu().numpy().tobytes()).hexdigest()[:16]


x = torch.arange(100, dtype=torch.float32)
made = load_inline("faults_cpp", DOUBLED, functions=["doubled"], no_implicit_headers=True)
for _ in range(3):
    print(digest(made.doubled(x)))
if shutil.which("nvcc"):
    made = load_inline(
        "faults_cuda", DECLARED, TRIPLED, functions=["tripled"], no_implicit_headers=True
    )
    for _ in range(3):
        print(digest(made.tripled(x.cuda())))
# Programs that run at the same time would wait for each other's build, and find none.
Path("wrong").mkdir()
try:
    load_inline(
        "faults_wrong",
        "wrong",
        functions=["wrong"],
        no_implicit_headers=True,
        build_directory="wrong",
    )
except RuntimeError as error:
    print(str(error).splitlines()[0])
