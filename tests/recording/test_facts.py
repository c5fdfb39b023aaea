"""Names and spans of kernels in CUDA C++, against sources whose kernels are known."""

from __future__ import annotations

import pytest

from inspector.recording.facts import cuda_kernels, cuda_span

SOURCE = """#include <cuda.h>
// a comment that says __global__ and no more
__global__ void plain(const float* x, int n) { if (n) { x; } }
template <typename T>
__global__ void __launch_bounds__(128, 2) bounded(T* x)
{
    x[0] = 1;
}
extern "C" __global__ void declared(float*);
void host() { plain<<<1, 2>>>(nullptr, 0); declared<<<1, 1>>>(nullptr); }
"""


def test_names_of_kernels() -> None:
    assert cuda_kernels(SOURCE) == ("plain", "bounded", "declared")
    assert cuda_kernels("void host() {}") == ()


@pytest.mark.parametrize(("name", "span"), [("plain", (3, 3)), ("bounded", (5, 8))])
def test_span_of_a_kernel(name: str, span: tuple[int, int]) -> None:
    assert cuda_span(SOURCE, name) == span


def test_no_span_without_a_definition() -> None:
    assert cuda_span(SOURCE, "host") is None
    assert cuda_span("x" * 100_000 + " plain(" * 20_000, "plain") is None
