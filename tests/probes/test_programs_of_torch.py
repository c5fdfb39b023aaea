"""Programs of torch's own ways: ranks of torchrun, and settings by which they leave files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from inspector.sources.opening import open_path
from tests.helpers.ptxview import call, environment, ptxview
from tests.probes.conftest import INDUCTOR

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
RANKS = """
import os, sys
import torch
import torch.distributed as dist
import kernels

rank = int(os.environ["RANK"])

def step(x):
    return x * 2 + 1

def only_first(x):
    return x - 1

dist.init_process_group("gloo")
value = torch.arange(3.0) * (rank + 1)
dist.all_reduce(value)
sys.stdout.write(f"rank {rank} of {dist.get_world_size()}: {value.tolist()}\\n")
x = torch.ones(64, device="cuda")
kernels.copy[(1,)](x.clone(), x, 64 if rank else 63, BLOCK=64)
if rank == 0:
    kernels.same[(1,)](x, BLOCK=64)
dist.barrier()  # the other finds it in Triton's cache
if rank == 1:
    kernels.same[(1,)](x, BLOCK=64)
compiled = torch.compile(step, backend="eager", dynamic=False)
compiled(torch.ones(4))
if rank == 1:
    compiled(torch.ones(5))
else:
    torch.compile(only_first, backend="eager")(torch.ones(4))
dist.barrier()
dist.destroy_process_group()
sys.exit(rank * 7)
"""


@pytest.mark.nightly
def test_two_ranks_of_torchrun(
    tmp_path: Path, warm_python: Callable[..., Path], caches: Path
) -> None:
    """Each writes a separate file; differences are reported, from one disk or two.

    Torchrun is an interpreter like any; its ranks are forked from one that has torch.
    """
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "program.py").write_text(RANKS)
    env = environment(
        TRITON_CACHE_DIR=str(tmp_path / "cache"),
        OMP_NUM_THREADS="1",
        PYTHONWARNINGS="ignore",
        XDG_CACHE_HOME=str(caches),
    )
    python = warm_python(*INDUCTOR)
    torchrun = Path(sys.executable).with_name("torchrun")
    words: list[str | Path] = [
        torchrun,
        "--standalone",
        "--nproc-per-node",
        "2",
        "--no-python",
        python,
        "program.py",
    ]
    rec = tmp_path / "rec"
    done = ptxview(
        "run", "--no-tui", "--target", "sm_90", "-o", rec, "--", *words, cwd=tmp_path, env=env
    )
    assert done.status == 1, done.said  # torchrun's own, of a rank that ended with 7
    assert sorted(done.text.splitlines()) == [f"rank {n} of 2: [0.0, 3.0, 6.0]" for n in range(2)]
    assert "exitcode  : 7" in done.said and done.said.index("exitcode") < done.said.index("→ ")
    files = [(f, json.loads(f.read_text().splitlines()[0])) for f in rec.glob("events-*")]
    of_rank = {first["rank"]: file for file, first in files if first["rank"] is not None}
    assert set(of_rank) == {0, 1} and all(first["event"] == "process" for _, first in files)

    def told(*paths: Path) -> dict[str, str]:
        value = call("list", "--json", *paths).json["ranks"]
        assert [one["rank"] for one in value["ranks"]] == [0, 1]
        return {one["kind"]: one["text"] for one in value["differences"]}

    by_kind = told(rec)
    assert set(by_kind) == {"variant", "compiles", "function", "cache"}
    assert re.fullmatch(
        r"copy: rank 0 compiled \w{4}, rank 1 compiled n:16 \w{4}", by_kind["variant"]
    )
    assert by_kind["compiles"].startswith("step  program.py:9: rank 1 compiled it twice, rank 0 ")
    assert (
        by_kind["function"] == "only_first  program.py:12: rank 0 compiled it once, rank 1 did not"
    )
    assert by_kind["cache"].startswith(
        "Triton's cache: rank 0 compiled 1 kernel that rank 1 found there: same "
    )
    assert f"≠ {by_kind['variant']}" in call("list", rec).text


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
        here.mkdir()
        (here / "kernels.py").write_text(KERNELS)
        # Triton 3.7's ptxas writes the time of the source into the line table of the cubin.
        os.utime(here / "kernels.py", (1_700_000_000, 1_700_000_000))
        (here / "program.py").write_text(SETTINGS)
        env = environment(PYTHONWARNINGS="ignore", OMP_NUM_THREADS="1", XDG_CACHE_HOME=str(caches))
        own = (
            []
            if name == "bare"
            else [
                "-m",
                "inspector",
                "run",
                "--no-tui",
                "--target",
                "sm_90",
                "-o",
                str(tmp_path / "rec"),
            ]
        )
        done = subprocess.run(
            [sys.executable, *own, "program.py"],
            capture_output=True,
            cwd=here,
            check=False,
            env=env | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )
        assert done.returncode == 0, done.stderr
        here.rename(tmp_path / name)
        left[name] = done
    bare, recorded = left["bare"], left["recorded"]
    # Our frames are in no traceback.
    assert recorded.stdout == bare.stdout and bare.stdout.count(b"Traceback") >= 2
    its = OTHER.sub(b"", bare.stderr)
    assert b"a @ b" in its and OTHER.sub(b"", recorded.stderr).startswith(its)

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
