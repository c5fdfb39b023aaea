"""load_inline and its kin on the emulated device: nvcc's PTX, run for its values."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from inspector.probes.emulator import extension
from inspector.system.toolchain import find
from tests.helpers.tools import lack
from tests.probes.compiles.test_user_kernels import read
from tests.probes.conftest import PROGRAMS, Run, ok

needs_nvcc = pytest.mark.skipif(not extension.homes(), reason=lack("nvcc"))


@pytest.mark.nightly
@needs_nvcc
def test_load_inline_has_device_code_and_values(forked: Run) -> None:
    done = ok(forked("extension.py"))
    assert done.out.strip() == "done"
    (code,) = done.of("device_code")
    assert code["ptx"] and code["cubin"] and code["lineinfo_cubin"] and code["why"] is None
    assert code["arch"] == "sm_90" and "ptxview_sm_90" in code["directory"]
    launches = [
        (c["name"], c["grid"], c["block"], c["shared_bytes"])
        for c in done.of("call")
        if c["kind"] == "cuda"
    ]
    assert launches == [
        ("row_sum_kernel", [53, 1, 1], [256, 1, 1], 1024),
        ("warp_sum_kernel", [53, 1, 1], [64, 1, 1], 0),
        ("scale_kernel", [4, 1, 1], [64, 1, 1], 0),
    ]
    again = ok(forked("extension.py"))  # already built: captured all the same
    (second,) = again.of("device_code")
    assert (second["ptx"], second["cubin"]) == (code["ptx"], code["cubin"])


@pytest.mark.nightly
@needs_nvcc
def test_sources_of_every_form_launch_their_ptx(run: Run, tmp_path: Path) -> None:
    done = ok(run("cuda_runtime.py"))
    lines = done.out.splitlines()
    assert lines[:2] == ["thread 0 of 2", "thread 1 of 2"] and lines[-1] == "done"
    past = next(line for line in lines if "just past the end" in line)
    assert "block (0, 0, 0), thread (30, 0, 0) of launch 3 of of_file, grid (1, 1, 1)" in past
    assert "writes 4 bytes at 0x" in past and "120 bytes" in past, past
    assert "many.cu:23: if (threadIdx.x < n) atomicAdd" in past
    assert "a block of (2048, 1, 1), 2048 threads cannot be launched" in done.out
    assert "reads 4 bytes" in done.out and "a cooperative launch" in done.out
    assert "c10::cuda::CUDACachingAllocator cannot run here" in done.out
    assert "attribute 135 is not known of the emulated device" in done.out
    clusters = {call["name"]: call.get("cluster") for call in done.of("call")}
    assert (clusters["paired"], clusters["plain_c"]) == ([2, 1, 1], None)
    named = {call["name"] for call in done.of("call") if call["kind"] == "cuda"}
    assert {"hidden", "of_file", "plain_c", "by_value", "packed", "adds_int", "apply"} <= named
    asked = {(one["name"], one["kind"]): one for one in done.of("not_launched")}
    assert [name for name, _ in asked] == ["heavy", "by_value", "shares", "adds_int", "of_file"]
    for name, kind in asked:
        assert f"the launch of {name} was refused: {kind}" in done.err
    bounds = asked["by_value", "cudaErrorInvalidValue"]
    over = asked["of_file", "cudaErrorInvalidValue"]
    assert (bounds["required"], bounds["limit"], over["resource"]) == (65, 64, "threads")
    codes = {Path(code["source"]).name: code for code in done.of("device_code")}
    assert set(codes) == {"many.cu", "others.cu"}
    assert all(code["ptx"] and code["cubin"] and code["why"] is None for code in codes.values())
    (blobs,) = tmp_path.glob("recording*/blobs")
    machine = blobs / codes["many.cu"]["cubin"]
    cuobjdump = find("cuobjdump")
    assert cuobjdump is not None
    told = subprocess.run(
        [cuobjdump.path, "-res-usage", machine], capture_output=True, text=True, check=True
    ).stdout
    registers = re.search(r"Function _Z5heavyPf:\s+REG:(\d+)", told)
    assert registers is not None
    # A warp of 32 gets registers in units of 256, 8 a thread.
    required = 1024 * (-(-int(registers[1]) // 8) * 8)
    refused = asked["heavy", "cudaErrorLaunchOutOfResources"]
    assert (refused["required"], refused["limit"]) == (required, 65536)
    recording = read(done, blobs)
    kernels = {k.display_name: k.variants[0] for k in recording.kernels}
    error = kernels["heavy"].error
    assert error is not None and error.at_load and error.resource == "registers"
    assert error.message.startswith("cudaErrorLaunchOutOfResources: too many resources requested")
    assert kernels["by_value"].error is None, "it was launched besides"
    assert [p for p in recording.problems if "by_value was refused: cudaErrorInvalidValue" in p]


@needs_nvcc
def test_memory_that_a_kernel_over_budget_writes_is_absent(run: Run) -> None:
    done = ok(
        run(
            f"""
import sys; sys.path.insert(0, {str(PROGRAMS)!r})
import torch
from cuda_runtime import load_without_torch, raised
module = load_without_torch()
a, b, c = (torch.ones(32, device="cuda") for _ in range(3))
module.by_value(b.data_ptr(), a.data_ptr())
print(a.sum().item(), c.sum().item())
print(raised(b.cpu))
print(raised(module.of_file, a.data_ptr(), 3))
from ptxview_probes.emulator import cudart as limits
limits.find_kernel = limits.device_attributes = lambda *given: 1 / 0
print(raised(module.refused, a.data_ptr(), 5, 32, 0))
print(raised(module.limit, 0))
""",
            seconds=1e-6,
        )
    )
    assert done.out.startswith("32.0 32.0\n"), "what is read and what is not reached stay"
    assert "is absent" in done.out and "by_value was not run to its end" in done.out
    assert "the value of" in done.out and "of_file was not run" in done.out
    assert done.out.count("division by zero") == 2, "our failures raise"


def test_without_nvcc_sources_are_recorded_with_one_warning(forked: Run, tmp_path: Path) -> None:
    done = ok(
        forked("""
import os
os.environ["PATH"] = "/nowhere"
import ptxview_probes.emulator.extension as nvcc
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
