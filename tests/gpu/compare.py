"""Compare ``ptxview time SCRIPT.py`` with an independent measurement of the same calls.

    python -m tests.gpu.compare square gelu_cuda       # a minute, of which half builds extensions
    python -m tests.gpu.compare softmax matmul         # a minute
    python -m tests.gpu.compare sweep                  # CSV and, with matplotlib, PNG, in $OUT
    python -m tests.gpu.compare trouble                # variants that hang, crash or are wrong

Run by hand on a machine with a GPU. The specimens' variants are called in this process too, after
a read of 256 MB, under torch.profiler; exits with 1 where a median is further apart than 3 % or
0.2 µs, whichever is more, or where a variant disagrees that should not. In ``trouble`` each must
fail alone, and what leaves memory unwritten must be called wrong.
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

KERNELS = Path(__file__).parents[2] / "kernels"
SPECIMENS = ("square", "gelu_cuda", "softmax", "matmul")
CALLS = 120
PTXVIEW = "from inspector.cli import main; raise SystemExit(main())"
TROUBLE = """
import os, signal
import torch, triton
import triton.language as tl

@triton.jit
def half_kernel(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(out + at, v * v, mask=at < n)

@triton.jit
def wait_kernel(flag):
    while tl.load(flag, volatile=True) < 1000.0:
        pass

@triton.jit
def far_kernel(out, far, BLOCK: tl.constexpr):
    tl.store(out + far + tl.arange(0, BLOCK), 0.0)

def half(x):
    out = torch.empty_like(x)
    half_kernel[(triton.cdiv(x.numel() // 2, 1024),)](out, x, x.numel() // 2, BLOCK=1024)
    return out

def hang(x):
    wait_kernel[(1,)](torch.zeros(1, device="cuda"))
    return x * x

def far(x):
    far_kernel[(1,)](x, 1 << 45, BLOCK=1024)
    return x * x

VARIANTS = {
    "right": lambda x: x * x,
    "half of it unwritten": half,
    "hangs": hang,
    "also right": torch.square,
    "writes far away": far,
    "is killed": lambda x: os.kill(os.getpid(), signal.SIGKILL),
    "out of memory": lambda x: torch.empty(1 << 45, device="cuda"),
    "raises": lambda x: x.nothing_of_that_name,
    "changes its input": lambda x: x.mul_(x),
    "launches nothing": lambda x: x,
    "right at last": lambda x: x**2,
}
def inputs(N=1 << 20, device="cuda"): return torch.randn(N, device=device)
def reference(x): return x.double() ** 2
def bytes_of(x): return 2 * x.nbytes
"""


def ptxview(*words: str) -> tuple[int, str, str, float]:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PTXVIEW, "time", *words, "--python", sys.executable],
        capture_output=True, text=True, timeout=570,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr, time.monotonic() - began


def profiled(run: Any, count: int) -> list[tuple[float, str, float]]:
    """Start, name and µs of what the device did, in order."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(count):
            run()
        torch.cuda.synchronize()
    found: Any = profiler.events()
    return sorted(
        (e.time_range.start, e.name, e.time_range.elapsed_us())
        for e in found
        if "CUDA" in str(e.device_type) and not getattr(e, "is_user_annotation", False)
    )


def truth(function: Any, given: tuple[Any, ...]) -> tuple[float, int]:
    """The median of what the device did for a call, in µs, and how many kernels it launched.

    What is read between two calls is of a type that no specimen sums, and so is known by its name.
    """
    memory = torch.zeros(32 << 20, dtype=torch.int64, device="cuda")
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        for _ in range(20):
            memory.sum()
            function(*given)
        torch.cuda.synchronize()
    alone = [name for _, name, _ in profiled(memory.sum, 5)]
    flush = {name for name in alone if "Mem" not in name}
    assert flush, "the profiler saw nothing"
    ahead = sum("Mem" in name for name in alone) // 5  # what a sum clears before it

    def both() -> None:
        memory.sum()
        function(*given)

    done: list[list[float]] = [[]]
    for _, name, us in profiled(both, CALLS):
        if name in flush:
            del done[-1][len(done[-1]) - ahead :]
            done.append([])
        else:
            done[-1].append(us)
    calls = done[1:]
    assert len(calls) == CALLS, len(calls)
    return statistics.median(map(sum, calls)), round(statistics.median(map(len, calls)))


def specimen(name: str) -> int:
    path = KERNELS / f"{name}.py"
    status, out, err, took = ptxview(str(path), "--json", "--seconds", "0.5")
    if not out:
        print(f"{name}: status {status}: {err}")
        return 1
    said = json.loads(out)
    module: Any = importlib.import_module(f"kernels.{name}")
    torch.manual_seed(0)
    given = module.inputs()
    given = given if isinstance(given, tuple) else (given,)
    wrong = 0
    print(f"\n{name}: {said['rows'][0]['inputs']}, {took:.0f} s; copy "
          f"{said['peak'][0]['copy_gb_per_s']:,.0f} GB/s")  # fmt: skip
    for row in sorted(said["rows"], key=lambda r: r["rank"] or 99):
        ours = row["median_us"]
        theirs, kernels = truth(module.VARIANTS[row["variant"]], given)
        if ours is None or not row["agrees"]:
            print(f"FAILED: {row['variant']}: {row['error'] or row['wrong']}")
            wrong += 1
            continue
        if "autotuned" in row["variant"]:
            # Two processes that tune might choose differently.
            print(f"tuned anew: rank {row['rank']} {row['variant']}: {ours:.2f}, here {theirs:.2f}")
            continue
        # The profiler here slows the kernel as it does there.
        near = abs((row["traced_us"] or ours) - theirs) <= max(0.2, 0.03 * theirs)
        moved = any("in the end" in w or "slowed" in w for w in row["warnings"])
        same = sum(k["per_call"] for k in row["kernels"]) == kernels
        wrong += (not near and not moved) or not same
        mark = "agrees" if near else "it moved" if moved else "DIFFERS"
        print(f"{mark}: rank {row['rank']} {row['variant']}: {ours:.2f} µs, here {theirs:.2f}; "
              f"{kernels} kernel(s){'' if same else ' HERE'}, span {row['span_us']:.2f}, "
              f"CPU {row['cpu_us']:.1f} µs, {row['gb_per_s'] or 0:,.0f} GB/s, "
              f"diff {row['difference']:.1e} {row['warnings']}")  # fmt: skip
    return wrong


def swept() -> int:
    folder = Path(os.environ.get("OUT") or tempfile.mkdtemp())
    table, picture = folder / "square.csv", folder / "square.png"
    words = ["--sweep", "N=1024:8192:1024", "--size", "M=4096", "--csv", str(table),
             "--seconds", "0.3", "--roofline"]  # fmt: skip
    drawn = importlib.util.find_spec("matplotlib") is not None
    words += ["--png", str(picture)] if drawn else []
    status, out, err, took = ptxview(str(KERNELS / "square.py"), *words)
    print(f"\nsweep: status {status}, {took:.0f} s\n{out}\n{err}")
    (folder / "square.txt").write_text(out)
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    sizes = {r["N"] for r in rows}
    good = status == 0 and len(sizes) == 8 and all(r["agrees"] == "True" for r in rows)
    good = good and (picture.read_bytes()[:4] == b"\x89PNG" if drawn else True)
    print("as it should be" if good else "NOT as it should be")
    return 0 if good else 1


def trouble() -> int:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "trouble.py")
        script.write_text(TROUBLE)
        words = ["--json", "--seconds", "0.5", "--limit", "12"]
        status, out, err, took = ptxview(str(script), *words)
    print(f"\ntrouble: status {status}, {took:.0f} s\n{err}")
    rows = {r["variant"]: r for r in json.loads(out)["rows"]}
    for name, row in rows.items():
        print(f"{name}: rank {row['rank']}, agrees {row['agrees']}, {row['median_us']} µs, "
              f"{row['wrong'] or ''} {row['error'] or ''}")  # fmt: skip
    ranked = {n for n, r in rows.items() if r["rank"]}
    wrong = {n for n, r in rows.items() if r["agrees"] is False}
    failed = {n for n, r in rows.items() if r["error"]}
    right = (
        ranked == {"right", "also right", "right at last"}
        and wrong == {"half of it unwritten", "changes its input", "launches nothing"}
        and failed >= {"hangs", "writes far away", "is killed", "out of memory", "raises"}
        and status == 1
    )
    print("as it should be" if right else "NOT as it should be")
    return 0 if right else 1


def build() -> None:
    """Build the extensions side by side, which the specimens would one after another."""
    names = ("square_cuda", "gelu_cuda", "gelu_cuda_float")
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda n: importlib.import_module(f"kernels.{n}").extension(), names))


def main(argv: list[str]) -> int:
    wanted = argv or SPECIMENS
    began = time.monotonic()
    if {"square", "gelu_cuda", "sweep"} & set(wanted):
        build()
        print(f"built in {time.monotonic() - began:.0f} s")
    wrong = 0
    for name in wanted:
        wrong += {"sweep": swept, "trouble": trouble}.get(name, lambda n=name: specimen(n))()
    print(f"\n{wrong} wrong; {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
