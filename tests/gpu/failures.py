"""Compare what fails on a GPU with and without us, and with what the emulated device says of it.

    python -m tests.gpu.failures

Run by hand on a machine with a GPU. Programs whose kernels do not compile, cannot be loaded, are
refused by the driver or end in a fault run bare and recorded; one is killed. Exits with 1 where a
recorded program prints or returns something else than the bare one, where a recording does not tell
of a failure, or where the emulated device gives another error than the GPU.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inspector.capture.opening import open_path

ROOT = Path(__file__).parents[2]
COMPILES = ROOT / "tests" / "probes" / "compiles" / "test_failures.py"
LAUNCHES = r'''
import torch
from torch.utils.cpp_extension import load_inline

CUDA = """
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void plain(float *p) { if (p) p[threadIdx.x] = 1; }
__global__ void __launch_bounds__(64) bounded(float *p) { if (p) p[threadIdx.x] = 1; }
__global__ void shares(float *p) {
  extern __shared__ float s[];
  s[threadIdx.x] = p[threadIdx.x]; __syncthreads(); p[threadIdx.x] = s[threadIdx.x ^ 1];
}
__global__ void owns(float *p) {
  extern __shared__ float s[];
  __shared__ float own[8192];
  own[threadIdx.x] = s[threadIdx.x] = p[threadIdx.x]; __syncthreads();
  p[threadIdx.x] = s[threadIdx.x ^ 1] + own[threadIdx.x ^ 2];
}
__global__ void heavy(float *p) {
  float v[128];
  #pragma unroll
  for (int i = 0; i < 128; i++) v[i] = p[i * 1024 + threadIdx.x];
  __syncthreads();
  float sum = 0;
  #pragma unroll
  for (int i = 0; i < 128; i++) sum = sum * v[i] + v[127 - i];
  p[threadIdx.x] = sum;
}
std::string launch(int64_t which, torch::Tensor x, int64_t gx, int64_t gy, int64_t block,
                   int64_t shared, int64_t allowed) {
  void (*kernels[])(float *) = {plain, bounded, shares, owns, heavy};
  auto kernel = kernels[which];
  std::string asked;
  if (allowed >= 0)
    asked = cudaGetErrorName(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)allowed));
  cudaGetLastError();
  float *p = x.data_ptr<float>();
  if (which == 0) plain<<<dim3(gx, gy), block, shared>>>(p);
  if (which == 1) bounded<<<dim3(gx, gy), block, shared>>>(p);
  if (which == 2) shares<<<dim3(gx, gy), block, shared>>>(p);
  if (which == 3) owns<<<dim3(gx, gy), block, shared>>>(p);
  if (which == 4) heavy<<<dim3(gx, gy), block, shared>>>(p);
  return asked + " " + cudaGetErrorName(cudaGetLastError());
}
"""
module = load_inline("refused_launches", "std::string launch(int64_t, torch::Tensor, int64_t, "
                     "int64_t, int64_t, int64_t, int64_t);", CUDA, functions=["launch"])
x = torch.ones(128 * 1024, device="cuda")
PLAIN, BOUNDED, SHARES, OWNS, HEAVY = range(5)
for what, *asked in (
    ("plain", PLAIN, 1, 1, 32, 0, -1),
    ("a block of 1025", PLAIN, 1, 1, 1025, 0, -1),
    ("a block of 0", PLAIN, 1, 1, 0, 0, -1),
    ("a grid of 0", PLAIN, 0, 1, 32, 0, -1),
    ("65536 blocks in y", PLAIN, 1, 65536, 32, 0, -1),
    ("launch bounds kept", BOUNDED, 1, 1, 64, 0, -1),
    ("launch bounds exceeded by a thread", BOUNDED, 1, 1, 65, 0, -1),
    ("launch bounds exceeded by a warp", BOUNDED, 1, 1, 96, 0, -1),
    ("launch bounds exceeded sixteen times", BOUNDED, 1, 1, 1024, 0, -1),
    ("48 KiB of shared memory", SHARES, 1, 1, 32, 49152, -1),
    ("a byte more", SHARES, 1, 1, 32, 49153, -1),
    ("64 KiB, 60 asked for", SHARES, 1, 1, 32, 65536, 61440),
    ("64 KiB, asked for", SHARES, 1, 1, 32, 65536, 65536),
    ("227 KiB, asked for", SHARES, 1, 1, 32, 232448, 232448),
    ("a byte more, asked for", SHARES, 1, 1, 32, 232449, 232449),
    ("32 KiB static and 16 dynamic", OWNS, 1, 1, 32, 16384, -1),
    ("32 KiB static and 17 dynamic", OWNS, 1, 1, 32, 17408, -1),
    ("32 KiB static and 195 dynamic, asked for", OWNS, 1, 1, 32, 199680, 199680),
    ("32 KiB static and 196 dynamic, asked for", OWNS, 1, 1, 32, 200704, 200704),
    ("many registers, 256 threads", HEAVY, 1, 1, 256, 0, -1),
    ("many registers, 1024 threads", HEAVY, 1, 1, 1024, 0, -1),
):
    print(f"{what}: {module.launch(asked[0], x, *asked[1:]).strip()}", flush=True)
torch.cuda.synchronize()
print("and goes on", float(x[0]) == float(x[0]))
'''
FAULTS = {
    "an access that is nobody's": "out + 2**40 + tl.arange(0, 32)",
    "a device's assert": None,
}
FAULT = """
import sys, torch, triton
import triton.language as tl

@triton.jit{debug}
def faulty(out):
    {body}

x = torch.zeros(32, device="cuda")
(x + 1).sum().item()
faulty[(1,)](x)
print("launched", flush=True)
try:
    torch.cuda.synchronize()
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0], flush=True)
sys.exit(3)
"""
GOES_ON = """
import torch, triton, time
import triton.language as tl

@triton.jit
def twice(x):
    at = tl.arange(0, 64)
    tl.store(x + at, 2 * tl.load(x + at))

x = torch.ones(64, device="cuda")
n = 0
while True:
    twice[(1,)](x)
    n += 1
    if n == 1000:
        print("going", flush=True)
    time.sleep(0.0005)
"""


@dataclass
class Ran:
    """How a program ended and what it printed."""

    status: int
    out: bytes
    err: bytes


def run(script: Path, recording: Path | None, *options: str) -> Ran:
    """A script, bare or recorded, with compilers' caches of its own that are empty."""
    folder = script.parent / f"caches-{recording.stem if recording else 'bare'}"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"TRITON_CACHE_DIR": f"{folder}/t", "TORCH_EXTENSIONS_DIR": f"{folder}/e",
                        "XDG_STATE_HOME": f"{folder}/s", "PYTHONWARNINGS": "ignore",
                        "PYTHONPATH": path}  # fmt: skip
    own = () if recording is None else ("-m", "inspector", "run", "--no-tui", "-o", recording)
    done = subprocess.run([sys.executable, *own, *options, script], env=env, cwd=script.parent,
                          capture_output=True, check=False, timeout=400)  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr)


def listed(recording: Path) -> dict[str, Any]:
    """What ``list --json`` says."""
    words = [sys.executable, "-m", "inspector", "list", "--json", str(recording)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


ADDRESSES = re.compile(rb"0x[0-9a-f]{6,}|/caches-\w+/|/tmp/\w+|refused_launches\w*")


def differs(what: str, bare: Ran, recorded: Ran) -> Iterator[str]:
    """Where a recorded program did something else."""
    if bare.status != recorded.status:
        yield f"{what}: status {recorded.status}, bare {bare.status}"
        yield recorded.err[-800:].decode()
    if ADDRESSES.sub(b"", bare.out) != ADDRESSES.sub(b"", recorded.out):
        yield f"{what}: prints\n{recorded.out.decode()}\nbare\n{bare.out.decode()}"


def refused(folder: Path) -> Iterator[str]:
    """Launches of CUDA C++ that the driver refuses."""
    script = folder / "launches.py"
    script.write_text(LAUNCHES)
    recording, emulated = folder / "launches.ptxview", folder / "emulated.ptxview"
    bare = run(script, None)
    recorded = run(script, recording)
    print(bare.out.decode(), bare.err.decode()[-500:] if bare.status else "")
    yield from differs("refused launches", bare, recorded)
    document = listed(recording)
    for kernel in document["kernels"]:
        for variant in kernel["variants"]:
            print(" ", kernel["name"], variant["launches"], "failed:", variant["failed"])
    problems = "\n".join(open_path(recording).problems)
    print(problems)
    wanted = sum(row.split(" ")[-1] != "cudaSuccess" for row in bare.out.decode().splitlines()[:-1])
    told = problems.count(" was refused: ") + sum(
        variant["failed"] is not None for k in document["kernels"] for variant in k["variants"]
    )
    if told < 3 or not wanted:
        yield f"{told} of {wanted} refused launches are told"
    posed = run(script, emulated, "--target", "sm_90")
    for real, ours in zip(
        bare.out.decode().splitlines(), posed.out.decode().splitlines(), strict=False
    ):
        if real != ours:
            yield f"the GPU says «{real}», the emulated device «{ours}»"
    if posed.status != bare.status or posed.out.count(b"\n") != bare.out.count(b"\n"):
        yield f"emulated: {posed.status} {posed.err[-800:].decode()}"


def compiled(folder: Path) -> Iterator[str]:
    """Kernels of Triton's that do not compile or cannot be loaded."""
    tree = ast.parse(COMPILES.read_text())
    (program,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PROGRAM"
    )
    script = folder / "compiles.py"
    script.write_text(program)
    recording, emulated = folder / "compiles.ptxview", folder / "posed.ptxview"
    bare, recorded = run(script, None), run(script, recording)
    run(script, emulated, "--target", "sm_90")
    yield from differs("failed compiles", bare, recorded)
    told = [failures(listed(path)) for path in (recording, emulated)]
    # It is compiled in a forked process, where torch refuses to use CUDA before Triton is asked.
    told = [{k: v for k, v in one.items() if not k.startswith("ended ")} for one in told]
    print(f"failed compiles: {len(told[0])} on the GPU")
    for key in {**told[0], **told[1]}:
        if told[0].get(key) != told[1].get(key):
            yield f"{key}: the GPU {told[0].get(key)}\n  the emulated device {told[1].get(key)}"


def failures(document: dict[str, Any]) -> dict[str, Any]:
    """The errors of a recording, by kernel and configuration."""
    keys = ("stage", "tool", "kind", "message", "required", "limit", "resource", "line")
    return {
        f"{kernel['name']} {variant['config']}": [
            *(str(variant["error"][key])[:200] for key in keys), variant["stages"]]
        for kernel in document["kernels"] for variant in kernel["variants"] if variant["error"]
    }  # fmt: skip


def faults(folder: Path) -> Iterator[str]:
    """Programs that end the device's context."""
    for n, (what, address) in enumerate(FAULTS.items()):
        body = (
            f"tl.store({address}, 1.0)" if address else 'tl.device_assert(tl.load(out) > 1, "no")'
        )
        script, recording = folder / f"fault{n}.py", folder / f"fault{n}.ptxview"
        script.write_text(FAULT.format(body=body, debug="" if address else "(debug=True)"))
        bare, recorded = run(script, None), run(script, recording)
        print(what, bare.status, bare.out.decode().replace("\n", " | "))
        yield from differs(what, bare, recorded)
        document = listed(recording)
        kernels = {k["name"]: k["variants"] for k in document["kernels"]}
        if not document["recording"]["complete"] or "sass" not in kernels["faulty"][0]["stages"]:
            yield f"{what}: {document['recording']}"


def killed(folder: Path) -> Iterator[str]:
    """A program, and ptxview with it, that are killed."""
    script, recording = folder / "goes_on.py", folder / "killed.ptxview"
    script.write_text(GOES_ON)
    child = subprocess.Popen(
        [sys.executable, "-m", "inspector", "run", "--no-tui", "-o", recording, script], cwd=ROOT,
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(1)
    os.killpg(child.pid, signal.SIGKILL)
    subprocess.run(["pkill", "-9", "-f", str(script)], check=False)
    child.wait()
    document = listed(recording)
    kernels = {k["name"]: k["variants"][0] for k in document["kernels"]}
    print("killed:", document["recording"]["complete"],
          {name: one["launches"] for name, one in kernels.items()})  # fmt: skip
    if document["recording"]["complete"] or (kernels["twice"]["launches"] or 0) < 100:
        yield f"killed: {document['recording']} {kernels}"


def main() -> int:
    """Print what differs."""
    parts = {part.__name__: part for part in (refused, compiled, faults, killed)}
    asked = argparse.ArgumentParser(prog="python -m tests.gpu.failures")
    asked.add_argument("part", nargs="*", choices=[*parts, []], help="what to try (all)")
    wrong: list[str] = []
    for name in asked.parse_args().part or parts:
        with tempfile.TemporaryDirectory() as folder:
            try:
                wrong += parts[name](Path(folder))
            except (subprocess.SubprocessError, KeyError, OSError) as error:
                wrong.append(f"{name}: {type(error).__name__} {error}")
    print("\n".join(wrong) or "failures are told as they are")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
