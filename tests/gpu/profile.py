"""Compare what ``ptxview profile`` says with what torch.profiler says itself, on a GPU.

    python -m tests.gpu.profile

Run by hand on a machine with a GPU. It profiles this very file as four programs, with caches of
its own: one that runs torch.profiler itself around the lecture's squares (10000×10000), a Triton
kernel and a compiled function, and writes what its ``key_averages()`` says; the training of a
compiled model, whose steps ptxview finds; a benchmark that calls torch.compile inside what it
times; and the squares without any step. Exits with 1 where something is not as it should be.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
_wrong: list[str] = []


# -- the programs that are profiled -------------------------------------------------------------


def own(out: str) -> None:
    """The program's own profiler, and what it says."""
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile, schedule

    from kernels.square import square

    x = torch.randn(10000, 10000, device="cuda")
    small = torch.randn(1823, 781, device="cuda")
    fused = torch.compile(lambda a: torch.nn.functional.gelu(a * a + 1))
    plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=kinds, schedule=plan) as prof:
        for _ in range(4):
            torch.square(x)
            x * x
            x**2
            square(small)
            fused(small)
            torch.cuda.synchronize()
            prof.step()
    rows = [
        {
            "name": e.key,
            "on_gpu": e.device_type != DeviceType.CPU,
            "annotation": bool(getattr(e, "is_user_annotation", False)),
            "calls": e.count,
            "self_cpu_us": e.self_cpu_time_total,
            "self_gpu_us": e.self_device_time_total,
            "gpu_us": e.device_time_total,
        }
        for e in prof.key_averages()
    ]
    Path(out).write_text(json.dumps(rows))


def train() -> None:
    """A compiled model and an optimizer; nobody says where a step ends."""
    import torch

    model = torch.nn.Sequential(
        torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.LayerNorm(512), torch.nn.Linear(512, 8)
    ).cuda()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(8):
        compiled(torch.randn(256, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


def timed(n: int) -> float:
    """The lecture's plot: torch.compile is called inside what is timed."""
    import torch

    x = torch.randn(4096, n, device="cuda")
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    torch.compile(torch.square, dynamic=False)(x)
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end))


def squares() -> None:
    """No steps at all."""
    import torch

    x = torch.randn(10000, 10000, device="cuda")
    for _ in range(3):
        torch.square(x)
    torch.cuda.synchronize()


# -- what is compared ----------------------------------------------------------------------------


def check(right: bool, what: str) -> None:
    print(f"{'as it should be' if right else 'WRONG'}: {what}", flush=True)
    if not right:
        _wrong.append(what)


def profiled(folder: Path, name: str, *words: str, options: tuple[str, ...] = ()) -> Any:
    """The JSON of a profile of this file as a program."""
    command = [sys.executable, "-m", "inspector", "profile", "-o", str(folder / name), "--json",
               *options, "-m", "tests.gpu.profile", *words]  # fmt: skip
    environment = {
        **os.environ,
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    print(f"-- {name}: status {done.returncode}, {time.monotonic() - began:.0f} s", flush=True)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        print(done.stderr[-3000:])
        raise SystemExit(1) from None
    for line in (*found["problems"], *found["notes"], *found["warnings"]):
        print(f"   said: {line}")
    check(done.returncode == 0, f"{name}: the program's status")
    return found


def alike(a: float | None, b: float) -> bool:
    return a is not None and abs(a - b) <= max(0.05, 1e-4 * abs(b))


def compare_own(found: Any, theirs: list[dict[str, Any]]) -> None:
    check(found["window"]["by"] == "program", "own: the program's own profiler is read")
    kernels = {k["name"]: k for k in found["kernels"]}
    operators = {(o["name"], o["kind"]): o for o in found["operators"]}
    on_gpu = [r for r in theirs if r["on_gpu"] and not r["annotation"] and "Step" not in r["name"]]
    off = [
        r["name"][:60]
        for r in on_gpu
        if r["name"] not in kernels
        or kernels[r["name"]]["calls"] != r["calls"]
        or not alike(kernels[r["name"]]["gpu_us"], r["self_gpu_us"])
    ]
    check(bool(on_gpu) and not off, f"own: {len(on_gpu)} kernels, calls and times; off: {off}")
    check(set(kernels) <= {r["name"] for r in on_gpu}, "own: no kernel that torch does not have")
    off, seen = [], 0
    for row in theirs:
        ours = operators.get((row["name"], "op"))
        if ours is None or row["on_gpu"]:
            continue
        seen += 1
        same = (
            ours["calls"] == row["calls"]
            and alike(ours["self_cpu_us"], row["self_cpu_us"])
            and alike(ours["self_gpu_us"], row["self_gpu_us"])
            and alike(ours["gpu_us"], row["gpu_us"])
        )
        if not same:
            off.append((row, ours))
    check(seen > 5 and not off, f"own: {seen} operators, calls, CPU and GPU times; off: {off[:3]}")
    paths = [(c["path"], c["short"], c["calls"]) for c in found["chains"]]
    square = [p for p in paths if p[0][-2:] == ["aten::square", "aten::pow"]]
    check(
        len(square) == 1 and "pow" in square[0][1] and square[0][2] == 2,
        f"own: aten::square → aten::pow → kernel, twice: {square}",
    )
    check(any(p[0][-1:] == ["aten::mul"] for p in paths), "own: aten::mul → kernel")
    triton = [k for k in found["kernels"] if k["name"] == "square_kernel"]
    check(
        len(triton) == 1 and len(triton[0]["variants"]) == 1,
        f"own: Triton's square_kernel is one variant: {[k['variants'] for k in triton]}",
    )
    fused = [k for k in found["kernels"] if k["name"].startswith("triton_") and k["kernel"]]
    check(
        len(fused) == 1 and len(fused[0]["variants"]) == 1 and bool(fused[0]["fused"]),
        f"own: the compiled kernel and what it fuses: {[(k['name'], k['fused']) for k in fused]}",
    )
    chain = [c["path"] for c in found["chains"] if c["kernel"].startswith("triton_")]
    print(f"   the compiled kernel's chain: {chain}")
    seen_of = found["overhead"]
    check(
        seen_of["kernels"] == sum(r["calls"] for r in on_gpu if not r["name"].startswith("Mem"))
        and 0 < seen_of["busy_us"] <= seen_of["window_us"]
        and seen_of["launches"] >= seen_of["kernels"],
        f"own: overhead {seen_of}",
    )


def compare_train(found: Any, trace: Path) -> None:
    check(found["window"]["steps"] == [2, 3, 4], f"train: steps {found['window']['steps']}")
    check("AdamW.step" in found["window"]["about"], f"train: {found['window']['about']}")
    check(found["window"]["gpu"] is True, "train: GPU times were taken")
    linked = [k["name"] for k in found["kernels"] if k["name"].startswith("triton_")]
    lost = [k["name"] for k in found["kernels"] if k["name"].startswith("triton_")
            and (not k["variants"] or k["calls"] % 3)]  # fmt: skip
    check(bool(linked) and not lost, f"train: {len(linked)} generated kernels; lost: {lost}")
    check(not found["compiling"], f"train: nothing compiles in the steps: {found['compiling']}")
    for chain in found["chains"][:8]:
        print(f"   {' → '.join(chain['path'])} → {chain['short']}  {chain['calls']}")
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    kernels = sum(e.get("cat") == "kernel" for e in events)
    check(kernels == found["overhead"]["kernels"] > 0, f"train: {kernels} kernels in the trace")


def compare_timed(found: Any) -> None:
    told = found["warnings"]
    check(any("torch.compile was called" in w and "profile.py" in w for w in told), "timed: calls")
    check(any(w.startswith("between the events of") for w in told), "timed: between events")
    check(any("is compiling" in w for w in told), "timed: the steps compile")
    check(bool(found["compiling"]), f"timed: {found['compiling']}")


def compare_squares(found: Any) -> None:
    about, seen = found["window"]["about"], found["overhead"]
    check("from the first use of CUDA" in about, f"squares: {about}")
    chains = {tuple(c["path"]): c["calls"] for c in found["chains"]}
    check(chains.get(("aten::square", "aten::pow")) == 3, f"squares: {chains}")
    check(seen["kernels"] >= 4 and seen["launches"] >= 4, f"squares: {seen}")


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compare_own(
            profiled(folder, "own", "--own", str(folder / "theirs.json")),
            json.loads((folder / "theirs.json").read_text()),
        )
        trace = folder / "trace.json.gz"
        compare_train(profiled(folder, "train", "--train", options=("--trace", str(trace))), trace)
        compare_timed(
            profiled(folder, "timed", "--timed", options=("--step", "tests.gpu.profile:timed"))
        )
        compare_squares(profiled(folder, "squares", "--squares"))
    print(f"{len(_wrong)} things are wrong" if _wrong else "all is as it should be")
    return 1 if _wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--own"]:
        own(sys.argv[2])
    elif sys.argv[1:2] == ["--train"]:
        train()
    elif sys.argv[1:2] == ["--timed"]:
        from tests.gpu import profile as imported  # --step names functions of imported modules

        for size in range(128, 128 * 6, 128):
            imported.timed(size)
    elif sys.argv[1:2] == ["--squares"]:
        squares()
    else:
        raise SystemExit(main())
