"""Compare times of replayed calls with those of the same calls in a program of its own.

    python -m tests.gpu.time_calls [FOLDER]

Run by hand on a machine with a GPU, nvcc and ptxview in the interpreter; with nvcc's work it takes
about two minutes. It records a program with a compiled graph (forward and backward), an extension
with two kernels and a Triton kernel, lets ``ptxview time`` run all its calls again by every
stopwatch, and then makes the same calls here, on the program's own tensors, within torch.profiler,
after 256 MB were read. Prints both medians of each call and each kernel, and exits with 1 where
they are further apart than 3 % or 0.2 µs, whichever is more.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PTXVIEW = "import sys; from inspector.cli import main; raise SystemExit(main(sys.argv[1:]))"
CALLS = 200
CUDA = """
#include <torch/extension.h>
__global__ void scale_kernel(const float* x, float* out, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * by;
}
__global__ void shift_kernel(float* out, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += by;
}
torch::Tensor affine(torch::Tensor x, double by, double plus) {
  auto out = torch::empty_like(x);
  int n = x.numel(), threads = 256, blocks = (n + threads - 1) / threads;
  scale_kernel<<<blocks, threads>>>(x.data_ptr<float>(), out.data_ptr<float>(), n, by);
  shift_kernel<<<blocks, threads>>>(out.data_ptr<float>(), n, plus);
  shift_kernel<<<blocks, threads>>>(out.data_ptr<float>(), n, plus);
  return out;
}
"""

Call = Callable[[], object]


def programs() -> dict[str, Call]:
    """What is called, by the name that a row of ``ptxview time`` begins with."""
    import torch
    import torch._functorch.config
    from torch.utils.cpp_extension import load_inline

    from kernels.square import square

    torch.manual_seed(0)
    extension = load_inline(
        name="ptxview_affine", cpp_sources="torch::Tensor affine(torch::Tensor, double, double);",
        cuda_sources=CUDA, functions=["affine"],
    )  # fmt: skip
    weight = torch.randn(1024, 1024, device="cuda", requires_grad=True)
    x = torch.randn(4096, 1024, device="cuda", requires_grad=True)

    def model(x: Any, weight: Any) -> Any:
        return torch.softmax(torch.nn.functional.gelu(x @ weight) * 2, dim=-1)

    # Backwards that may take their inputs' memory cannot be repeated.
    torch._functorch.config.donated_buffer = False
    compiled = torch.compile(model)
    out: Any = compiled(x, weight)
    gradient = torch.randn_like(out)

    def backward() -> object:
        return torch.autograd.grad(out, (x, weight), gradient, retain_graph=True)

    backward()
    y = torch.randn(1823, 781, device="cuda")
    z = torch.randn(1 << 22, device="cuda")
    return {
        "forward": lambda: compiled(x, weight),
        "backward": backward,
        "ptxview_affine.affine": lambda: extension.affine(z, 2.0, 1.0),
        "square_kernel": lambda: square(y),
    }


def events_of(run: Call, count: int) -> list[tuple[str, float]]:
    """Name and µs of all that the device did, in order, as torch.profiler's own events have it."""
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(count):
            run()
        torch.cuda.synchronize()
    seen: Any = [e for e in profiler.events() or [] if e.device_type == DeviceType.CUDA]
    seen.sort(key=lambda e: e.time_range.start)
    return [(e.name, e.time_range.elapsed_us()) for e in seen]


def truth(call: Call) -> tuple[float, dict[str, float]]:
    """Medians in µs: of all that one call does, and of one launch of each kernel."""
    import torch

    memory = torch.zeros(64 << 20, device="cuda")
    flush = {name for name, _ in events_of(lambda: memory.sum(), 3)}
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        for _ in range(20):
            memory.sum()
            call()
        torch.cuda.synchronize()

    def both() -> None:
        memory.sum()
        call()

    seen = [(name, us) for name, us in events_of(both, CALLS) if name not in flush]
    each, rest = divmod(len(seen), CALLS)
    assert each and not rest, f"{len(seen)} launches by {CALLS} calls"
    sums = [sum(us for _, us in seen[at : at + each]) for at in range(0, len(seen), each)]
    names = dict.fromkeys(name for name, _ in seen)
    return statistics.median(sums), {
        name: statistics.median(us for n, us in seen if n == name) for name in names
    }


def ptxview(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PTXVIEW, *words], cwd=ROOT, text=True, stdout=subprocess.PIPE,
        env={**os.environ, "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
             "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
             "TORCHINDUCTOR_COMPILE_THREADS": "1"},
    )  # fmt: skip


def close(ours: float | None, theirs: float) -> bool:
    return ours is not None and abs(ours - theirs) <= max(0.2, 0.03 * theirs)


def row_of(rows: list[dict[str, Any]], name: str) -> dict[str, Any] | None:
    """CUPTI's row of a call: a graph is told by whether its id says that it is of the backward."""
    for row in rows:
        graph = "backward" if str(row["kernel"]).endswith("backward") else "forward"
        if row["stopwatch"] == "cupti" and (graph if row["kind"] == "graph" else row["kernel"]) == (
            name
        ):
            return row
    return None


def compare(rows: list[dict[str, Any]]) -> int:
    wrong = 0

    def told(what: str, ours: float | None, theirs: float) -> None:
        nonlocal wrong
        fine = close(ours, theirs)
        wrong += not fine
        print(f"{'agrees' if fine else 'DIFFERS'}: {what}: replayed {ours}, here {theirs:.2f} µs")

    for name, call in programs().items():
        whole, kernels = truth(call)
        row = row_of(rows, name)
        if row is None:
            print(f"MISSING: {name}")
            wrong += 1
            continue
        told(f"{name} ({row['kind']} {row['kernel']})", row["median_us"], whole)
        if row["cpu_us"] is not None:
            print(f"    the CPU is kept for {row['cpu_us']:.1f} µs a call")
        held = sorted(row["kernels"], key=lambda k: -k["median_us"])
        here = sorted(kernels.items(), key=lambda k: -k[1])
        if len(held) != len(here):
            print(f"DIFFERS: {len(held)} kernels replayed, {len(here)} here: {held} {here}")
            wrong += 1
        for one, (there, theirs) in zip(held, here, strict=False):
            told(f"  {one['name']} {one['variant']} ×{one['per_call']} as {there[:60]}",
                 one["median_us"], theirs)  # fmt: skip
    return wrong


def attributed(rows: list[dict[str, Any]]) -> int:
    """Kernels of the recording must have been found behind the names that CUPTI gave."""
    wrong = 0
    for row in rows:
        if row["stopwatch"] != "cupti":
            beside = f"{row['median_us']} µs" if row["median_us"] else row["error"]
            print(f"beside: {row['kernel']} by {row['stopwatch']}: {beside}")
            continue
        for one in row["kernels"]:
            his = one["name"].startswith("triton_") or "_kernel" in one["name"].split("(")[0][-30:]
            mine = row["kind"] == "extension" or one["name"].startswith("triton_")
            if his and mine and one["variant"] is None:
                print(f"NOT KNOWN: {one['name']} of {row['kernel']} has no variant")
                wrong += 1
        if row["error"] or row["warnings"]:
            print(f"said of {row['kernel']}: {row['error']} {row['warnings']}")
    return wrong


def main(argv: list[str]) -> int:
    if argv[:1] == ["--program"]:
        import torch

        for call in programs().values():
            call()
        torch.cuda.synchronize()
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(argv[0] if argv else temporary)
        folder.mkdir(parents=True, exist_ok=True)
        recording = folder / "calls.ptxview"
        ptxview("run", "--no-tui", "-o", str(recording), "-m", "tests.gpu.time_calls", "--program",
                folder=folder)  # fmt: skip
        done = ptxview("time", str(recording), "--trust", "--json", "--stopwatch", "all",
                       "--seconds", "1", folder=folder)  # fmt: skip
        (folder / "times.json").write_text(done.stdout)
        rows = json.loads(done.stdout)["rows"]
        os.environ["TORCH_EXTENSIONS_DIR"] = str(folder / "extensions")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
        wrong = compare(rows) + attributed(rows)
        listed = ptxview("list", str(recording), "--json", folder=folder)
        for kernel in json.loads(listed.stdout)["kernels"]:
            for variant in kernel["variants"]:
                time_of = variant.get("timing")
                print(f"list: {kernel['name'][:60]} {variant['id']}: "
                      f"{time_of['median_us'] if time_of else None} µs")  # fmt: skip
                made = variant["launches"] or kernel["origin"] == "nvcc"
                if made and time_of is None:
                    print("NOT LISTED")
                    wrong += 1
    print("as it should be" if not wrong else f"NOT as it should be: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
