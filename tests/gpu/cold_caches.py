"""What a launch finds in the caches: under ncu, and under ``ptxview time``.

    python -m tests.gpu.cold_caches

Run by hand on a machine with a GPU, nvcc and ncu, from the repository's root; it takes about a
minute. Short kernels are launched after nothing (``hot``), after the L2 was flushed by reading
(``cold``, as ``ptxview time`` does it), and after a kernel whose code and constants fill the caches
of instructions and of constants as well (``code``). Each is timed by CUPTI, and by ncu with
``--cache-control all`` and ``none``, which say what ncu itself adds: to an empty kernel, and to what
is cold. Prints a table of medians in µs, and ncu's cycles in which an SM was active.
"""

from __future__ import annotations

import csv
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

SELF = "tests.gpu.cold_caches"
STATES = ("hot", "cold", "code")
LAUNCHES = 15
METRICS = ("gpu__time_duration.sum", "sm__cycles_active.max", "gpc__cycles_elapsed.max")
CODE = """
#define F1 asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(a) : "f"(x));
#define F16 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1
#define F256 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16
#define F4K F256 F256 F256 F256 F256 F256 F256 F256 F256 F256 F256 F256 F256 F256 F256 F256
__constant__ int table[16000];
extern "C" __global__ void fill_code(float* out, float x, int n) {
  float a = x; int s = 0;
  for (int i = 0; i < n; i += 16) s += table[i];
  F4K F4K F4K F4K F4K F4K F4K F4K
  if (a == 1.0f && s == 7) out[0] = a;
}
extern "C" __global__ void empty_kernel(float* out, float x, int n) {}
extern "C" __global__ void one_load(float* out, float x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = out[i] * x;
}
extern "C" __global__ void long_code(float* out, float x, int n) {
  float a = x;
  F256 F256
  if (a == 1.0f) out[0] = a;
}
extern "C" __global__ void longer_code(float* out, float x, int n) {
  float a = x;
  F256 F256 F256 F256 F256 F256 F256 F256
  if (a == 1.0f) out[0] = a;
}
"""
NAMES = ("empty_kernel", "one_load", "long_code", "longer_code", "square_kernel", "softmax_kernel")


def launchers(torch: Any, cubin: bytes) -> tuple[dict[str, Callable[[], Any]], Callable[[], Any]]:
    """What launches each kernel, and what fills the caches of code."""
    import ctypes

    from inspector.probes.replay_driver import Driver, Kernel
    from kernels.softmax import softmax
    from kernels.square import square

    driver = Driver()
    out = torch.zeros(1 << 16, device="cuda")
    values = [int(out.data_ptr()).to_bytes(8, "little"), bytes(ctypes.c_float(1.5)),
              (1 << 16).to_bytes(4, "little")]  # fmt: skip
    processors = torch.cuda.get_device_properties(0).multi_processor_count

    def of(name: str, blocks: int, threads: int, n: int = 1 << 16) -> Callable[[], Any]:
        _, function = driver.load(cubin, name)
        given = [*values[:2], n.to_bytes(4, "little")]
        kernel = Kernel(driver, function, {"grid": (blocks, 1, 1), "block": (threads, 1, 1)}, given)
        return lambda: kernel.launch(torch.cuda.current_stream().cuda_stream)

    small, wide = (torch.randn(s, device="cuda") for s in ((64, 1024), (1823, 781)))
    return {
        "empty_kernel": of("empty_kernel", 1, 32), "one_load": of("one_load", 256, 256),
        "long_code": of("long_code", 64, 128), "longer_code": of("longer_code", 64, 128),
        "square_kernel": lambda: square(small), "softmax_kernel": lambda: softmax(wide),
    }, of("fill_code", 2 * processors, 128, 16000)  # fmt: skip


def befores(torch: Any, fill: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    from inspector.probes.replay_stopwatches import Cache

    cold = Cache(torch, "cold")

    def both() -> None:
        fill()
        cold.prepare()
        fill()

    return {"hot": lambda: None, "cold": cold.prepare, "code": both}


def compiled(folder: Path) -> bytes:
    source, cubin = folder / "code.cu", folder / "code.cubin"
    if not cubin.exists():
        source.write_text(CODE)
        subprocess.run(["nvcc", "-arch=sm_90", "-cubin", str(source), "-o", str(cubin)], check=True)
    return cubin.read_bytes()


def launches(folder: Path) -> None:
    """Each kernel often in each state, in the order of NAMES and STATES: for ncu."""
    import torch

    kernels, fill = launchers(torch, compiled(folder))
    before = befores(torch, fill)
    for launch in kernels.values():
        launch()
    torch.cuda.synchronize()
    for _ in range(3000):
        before["cold"]()
    for name in NAMES:
        for state in STATES:
            for _ in range(LAUNCHES):
                for _ in range(3):
                    before["cold"]()
                before[state]()
                kernels[name]()
    torch.cuda.synchronize()


def ours(folder: Path) -> dict[tuple[str, str], float]:
    """CUPTI's medians in µs, by kernel and state; both ways of tracing."""
    import torch

    from inspector.probes.cupti import CONCURRENT_KERNEL, KERNEL, Cupti, library
    from inspector.probes.replay_trace import Records

    kernels, fill = launchers(torch, compiled(folder))
    before = befores(torch, fill)
    out: dict[tuple[str, str], float] = {}
    for _ in range(3000):
        before["cold"]()
    for kind, mark in ((CONCURRENT_KERNEL, ""), (KERNEL, ", serialized")):
        trace = Records(torch, Cupti(library(torch.version.cuda), (kind,)))
        for name in NAMES:
            for state in STATES:

                def work(name: str = name, state: str = state) -> None:
                    for _ in range(200):
                        before[state]()
                        kernels[name]()

                with trace:
                    work()
                    seen = trace.saw(work, lambda events: len(events) >= 200)
                times = [e.ns / 1000 for e in seen if e.name == name]
                out[name, state + mark] = statistics.median(times)
    return out


def theirs(folder: Path, control: str) -> dict[tuple[str, str], dict[str, float]]:
    """ncu's medians, by kernel and state, of each metric."""
    log = folder / f"{control}.csv"
    subprocess.run(
        ["ncu", "--clock-control", "none", "--cache-control", control, "--metrics",
         ",".join(METRICS), "--kernel-name", f"regex:^({'|'.join(NAMES)})$", "--csv", "--page",
         "raw", "--log-file", str(log), sys.executable, "-m", SELF, "--launches", str(folder)],
        check=False,
    )  # fmt: skip
    lines = [line for line in log.read_text().splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    units, rows = rows[0], rows[1 + len(NAMES) :]
    if len(rows) != LAUNCHES * len(NAMES) * len(STATES):
        print(f"ncu saw {len(rows)} launches", log.read_text()[-1500:])
        return {}
    out: dict[tuple[str, str], dict[str, float]] = {}
    for n, key in enumerate((name, state) for name in NAMES for state in STATES):
        part = rows[n * LAUNCHES : (n + 1) * LAUNCHES]
        assert {row["Kernel Name"] for row in part} == {key[0]}, (key, part[0]["Kernel Name"])
        out[key] = {
            m: statistics.median(float(r[m].replace(",", "")) for r in part) for m in METRICS
        }
        if units[METRICS[0]] in ("ns", "nsecond"):
            out[key][METRICS[0]] /= 1000
    return out


def main(argv: list[str]) -> int:
    if argv[:1] == ["--launches"]:
        launches(Path(argv[1]))
        return 0
    if argv[:1] == ["--ours"]:
        print(json.dumps([[*k, v] for k, v in ours(Path(argv[1])).items()]))
        return 0
    with tempfile.TemporaryDirectory(prefix="ptxview-cold-") as held:
        folder = Path(held)
        compiled(folder)
        done = subprocess.run([sys.executable, "-m", SELF, "--ours", held], capture_output=True,
                              text=True, check=False)  # fmt: skip
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        cupti = {(a, b): v for a, b, v in json.loads(done.stdout.splitlines()[-1])}
        ncu = {control: theirs(folder, control) for control in ("all", "none")}
    print("kernel | state | CUPTI | serialized | ncu all | ncu none | active all | active none | "
          "elapsed all | elapsed none")  # fmt: skip
    for name in NAMES:
        for state in STATES:
            cells = [cupti[name, state], cupti[name, f"{state}, serialized"]]
            sides = [ncu[c].get((name, state), {}) for c in ("all", "none")]
            cells += [side.get(metric, float("nan")) for metric in METRICS for side in sides]
            print(" | ".join([name, state, *(f"{c:.3f}" for c in cells)]))
    if out := os.environ.get("OUT"):
        Path(out, "cold_caches.json").write_text(json.dumps(
            {"cupti": [[*k, v] for k, v in cupti.items()],
             "ncu": {c: [[*k, v] for k, v in held.items()] for c, held in ncu.items()}}))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
