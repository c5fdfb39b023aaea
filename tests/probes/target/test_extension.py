"""load_inline and its kin on the emulated device: device code by nvcc, values on the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from inspector.probes.target import nvcc
from tests.probes.conftest import Run, ok

needs_nvcc = pytest.mark.skipif(not nvcc.homes(), reason="no CUDA toolkit: nvcc with its headers")


@needs_nvcc
def test_load_inline_has_device_code_and_values(run: Run) -> None:
    done = ok(run("extension.py"))
    assert done.out.strip() == "done"
    (code,) = done.of("device_code")
    assert code["ptx"] and code["cubin"] and code["lineinfo_cubin"] and code["why"] is None
    assert code["arch"] == "sm_90" and "ptxview_sm_90" in code["directory"]
    again = ok(run("extension.py"))  # already built: captured all the same
    (second,) = again.of("device_code")
    assert (second["ptx"], second["cubin"]) == (code["ptx"], code["cubin"])


@needs_nvcc
def test_what_the_host_cannot_compile_is_captured_and_refuses_calls(run: Run) -> None:
    done = ok(
        run('''
import torch
from torch.utils.cpp_extension import load_inline
module = load_inline("ptxview_test_asm", "torch::Tensor f(torch::Tensor x);", r"""
__global__ void lane_kernel(int* x) {
  int l; asm("mov.u32 %0, %%laneid;" : "=r"(l)); x[threadIdx.x] = l;
}
torch::Tensor f(torch::Tensor x) { lane_kernel<<<1, 32>>>(x.data_ptr<int>()); return x; }
""", functions=["f"], with_cuda=True)
try:
    module.f(torch.zeros(32, dtype=torch.int32, device="cuda"))
except RuntimeError as error:
    print(str(error).splitlines()[0])
''')
    )
    assert "ptxview: ptxview_test_asm.f() cannot run here" in done.out
    assert done.of("device_code")[0]["ptx"]
    assert len(done.said("was captured, and cannot run on the host")) == 1


def test_without_nvcc_the_source_is_captured_and_one_line_says_so(run: Run, tmp_path: Path) -> None:
    done = ok(
        run("""
import os
os.environ["PATH"] = "/nowhere"
import ptxview_probes.target.nvcc as nvcc
nvcc.homes = lambda: ()
import torch
from torch.utils.cpp_extension import load_inline
for name in ("one", "two"):
    module = load_inline("ptxview_test_" + name, "int f();", "__global__ void k() {}", ["f"],
                         with_cuda=True)
try:
    module.f()
except RuntimeError as error:
    print(error)
""")
    )
    assert "ptxview_test_two.f() cannot run here: no CUDA toolkit was found" in done.out
    assert len(done.said("no CUDA toolkit was found")) == 1
    codes = done.of("device_code")
    assert len(codes) == 2 and all(c["source_blob"] and c["why"] for c in codes)
