"""``python -m tests.benchmarks.overhead [--turns N] [--steps N]``: the cost of being recorded.

The same programs run bare and recorded, in turn, so that other work on the machine falls on both:

- ``starts``: Python that imports neither torch nor triton.
- ``cold`` and ``warm``: a compiled model's training loop, on the GPU where there is one, else on
  the CPU; with empty caches (each run compiles) and with full ones.

Prints wall and CPU seconds as median and quartiles, and what is added to the bare run of the same
turn, also as a ratio: that is the cost, since turns differ by more than recording does. CPU seconds
are those of the process and its children. ``recorded`` is the program with the environment of
``ptxview run``; ``run`` is the whole command. Asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from inspector.sources.running import RunRequest, environment
from inspector.system import toolchain

ROOT = Path(__file__).parents[2]
STARTS = "import json, argparse, subprocess"
TRAINS = """
import os, sys
import torch
device = os.environ["OVERHEAD_DEVICE"]
torch.manual_seed(0)
torch.set_num_threads(1)
batch, length, width = map(int, os.environ["OVERHEAD_SHAPE"].split(","))
layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.0)
model = torch.compile(torch.nn.TransformerEncoder(layer, 2).to(device))
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
x = torch.randn(batch, length, width, device=device)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
if device == "cuda":
    torch.cuda.synchronize()
"""
SHAPES = {"small": "8,64,64", "wide": "16,512,1024"}
"""Batch, length and width of what is trained: on a GPU a small step is bound by its launches, on
which recording weighs most, and a wide one by the GPU."""
WAYS = ("bare", "recorded", "run")
Seconds = tuple[float, float]
"""Wall and CPU of a process and its children."""


def taken(argv: Sequence[str], env: Mapping[str, str]) -> Seconds:
    began = time.perf_counter()
    child = subprocess.Popen(argv, env=dict(env), cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{argv[:4]} ended with {child.returncode}")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def recording(folder: Path) -> dict[str, str]:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "blobs").mkdir(parents=True)
    env = environment(folder, RunRequest("script", ("x",)), None)
    library = toolchain.driver_library()
    if library is None or not toolchain.gpu_present():
        return env
    return env | dict.fromkeys(("PTXVIEW_DRIVER", "CUDA_INJECTION64_PATH"), str(library))


def bare() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("PTXVIEW_", "TORCH_TRACE"))}


def starts(turns: int, place: Path) -> None:
    program = [sys.executable, "-c", STARTS]
    ours = ["-m", "inspector", "run", "--no-tui", "--target", "sm_90", "--"]
    whole = [sys.executable, *ours, *program]
    rows: dict[str, list[Seconds]] = {"bare": [], "recorded": [], "run": []}
    taken(program, recording(place / "r"))  # what is compiled to bytecode once
    for turn in range(turns):
        ways = [("bare", program, bare()), ("recorded", program, recording(place / "r"))]
        if turn % 5 == 0:
            ways.append(("run", whole, bare() | {"XDG_STATE_HOME": str(place / "state")}))
        for way, argv, env in ways if turn % 2 else reversed(ways):
            rows[way].append(taken(argv, env))
    tell("starts", rows, 1000, "ms")


def trains(turns: int, steps: int, place: Path, cold: bool, model: str) -> None:
    os.environ["OVERHEAD_SHAPE"] = SHAPES[model]
    rows: dict[str, list[Seconds]] = {way: [] for way in WAYS}
    for way in () if cold else WAYS:
        trained(way, place, 1, fresh=True)
    for turn in range(turns):
        for way in WAYS if turn % 2 else reversed(WAYS):
            rows[way].append(trained(way, place, steps, fresh=cold))
    tell(f"trains, {model}, {'cold' if cold else 'warm'}, {steps} steps", rows, 1, "s")


def trained(way: str, place: Path, steps: int, fresh: bool) -> Seconds:
    """Run a training loop in one way, with separate caches."""
    program = [sys.executable, "-c", TRAINS, str(steps)]
    ours = [sys.executable, "-m", "inspector", "run", "--no-tui", "--"] if way == "run" else []
    caches = place / way
    if fresh:
        shutil.rmtree(caches, ignore_errors=True)
    env = recording(place / "r") if way == "recorded" else bare()
    env |= {
        "OVERHEAD_DEVICE": "cuda" if toolchain.gpu_present() else "cpu",
        "XDG_STATE_HOME": str(place / "state"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "PYTHONWARNINGS": "ignore",
    }
    return taken([*ours, *program], env)


def quartiles(values: Sequence[float]) -> str:
    """Median and quartiles, in three significant figures; one value alone is itself."""
    if len(values) == 1:
        return f"{values[0]:.3g}"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.3g} ({low:.3g} … {high:.3g})"


def tell(what: str, rows: Mapping[str, Sequence[Seconds]], factor: float, unit: str) -> None:
    """One line a way: wall and CPU, and what either adds to the bare run of its turn."""
    print(f"{what}: median (quartiles), {unit}")
    for way, several in rows.items():
        cells = [quartiles([factor * each[n] for each in several]) for n in (0, 1)]
        line = f"  {way:<12} wall {cells[0]:<26} CPU {cells[1]:<26}"
        if way != "bare" and len(several) == len(rows["bare"]):
            pairs = list(zip(several, rows["bare"], strict=True))
            added = [quartiles([factor * (a[n] - b[n]) for a, b in pairs]) for n in (0, 1)]
            ratios = [quartiles([a[n] / b[n] for a, b in pairs]) for n in (0, 1)]
            line += f" added: wall {added[0]}, CPU {added[1]}"
            line += f"; ratio: wall {ratios[0]}, CPU {ratios[1]}"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.overhead")
    parser.add_argument("--turns", type=int, default=7, help="runs of each training loop (7)")
    parser.add_argument("--starts", type=int, default=40, help="runs of what has no torch (40)")
    parser.add_argument("--steps", type=int, default=2000, help="steps of a training loop (2000)")
    parser.add_argument("--only", action="append", choices=("starts", "warm", "cold"))
    parser.add_argument("--model", choices=SHAPES, default="small", help="what is trained (small)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for part in asked.only or ("starts", "warm", "cold"):
            if part == "starts":
                starts(asked.starts, Path(folder))
            else:
                trains(asked.turns, asked.steps, Path(folder), part == "cold", asked.model)


if __name__ == "__main__":
    main()
