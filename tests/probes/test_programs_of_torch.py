"""Programs with torch's own settings by which they leave files."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from inspector.sources.opening import open_path
from tests.helpers.ptxview import REPOSITORY, command, environment, finished, saved

KERNELS = """
import torch
import triton
import triton.language as tl

@triton.jit
def copy(out, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n), at < n)

@triton.jit
def same(out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), 1.0)

@triton.jit
def fails(x):
    tl.store(x, not_defined)
"""


SETTINGS = """
import os, sys, traceback
here = os.getcwd()
os.environ.update(
    TRITON_CACHE_DIR=f"{here}/triton", TORCH_TRACE=f"{here}/trace", TORCH_LOGS="graph_code",
)
import torch
import kernels
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
signature = {"out": "*fp32", "x": "*fp32", "n": "i32", "BLOCK": "constexpr"}
target = GPUTarget("cuda", 90, 32)
print(sorted(compile(ASTSource(kernels.copy, signature, {(3,): 64}), target=target).asm))
step = torch.compile(lambda a, b: a @ b, backend="eager")
print(step(torch.ones(8, 8), torch.ones(8, 8)).sum().item())
for fails in (
    lambda: compile(ASTSource(kernels.fails, {"x": "*fp32"}, {}), target=target),
    lambda: torch.ops.load_library("/nowhere.so"),
):
    try:
        fails()
    except Exception:
        traceback.print_exc(file=sys.stdout)
"""
OTHER = re.compile(rb"^[A-Z]\d{4} [\d:.]+ \d+ |__compiled_fn_\w+|/cache-\w+/", re.MULTILINE)
"""What of torch's log is another in each run: a time, a process, a random name."""


@pytest.mark.nightly
def test_files_that_it_has_torch_and_triton_write_are_written(tmp_path: Path, caches: Path) -> None:
    """By its own settings, as with the bare run, and it is recorded all the same.

    What Inductor leaves in TORCHINDUCTOR_CACHE_DIR is compiles/test_capture.py's.
    """
    left = {}
    for name in ("bare", "recorded"):
        here = tmp_path / "here"
        saved(here / "kernels.py", KERNELS)
        # Triton 3.7's ptxas writes the time of the source into the line table of the cubin.
        os.utime(here / "kernels.py", (1_700_000_000, 1_700_000_000))
        (here / "program.py").write_text(SETTINGS)
        env = environment(PYTHONWARNINGS="ignore", OMP_NUM_THREADS="1", XDG_CACHE_HOME=str(caches))
        env |= {"PYTHONPATH": str(REPOSITORY)}
        run = command(["run", "--no-tui", "--target", "sm_90", "-o", tmp_path / "rec"])
        words = [sys.executable] if name == "bare" else run
        done = finished([*words, "program.py"], here, env)
        assert done.status == 0, done.said
        here.rename(tmp_path / name)
        left[name] = done
    bare, recorded = left["bare"], left["recorded"]
    # Our frames are in no traceback.
    assert recorded.out == bare.out and bare.out.count(b"Traceback") >= 2
    its = OTHER.sub(b"", bare.err)
    assert b"a @ b" in its and OTHER.sub(b"", recorded.err).startswith(its)

    def files(name: str, folder: str) -> dict[str, bytes]:
        top = tmp_path / name / folder
        return {str(p.relative_to(top)): p.read_bytes() for p in top.rglob("*") if p.is_file()}

    triton, its_triton = files("recorded", "triton"), files("bare", "triton")
    assert triton == its_triton and any(path.endswith(".ptx") for path in triton)
    records = []
    for name in ("recorded", "bare"):
        ((path, data),) = files(name, "trace").items()
        assert path.startswith("dedicated_log_torch_trace")
        lines = [
            json.loads(line.split(b"] ", 1)[1])
            for line in data.splitlines()
            if line.startswith(b"V") and b"] {" in line
        ]
        records.append([next(iter(line)) for line in lines])
    assert records[0] == records[1] and "dynamo_output_graph" in {*records[0]}
    recording = open_path(tmp_path / "rec")
    assert {kernel.name for kernel in recording.kernels} >= {"copy"} and recording.frame_compiles
