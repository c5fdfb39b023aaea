"""What a launch finds in the caches: under ncu, and under ``ptxview time``.

    python -m tests.gpu.cold_caches

Run by hand on a machine with a GPU, nvcc and ncu, from the repository's root; it takes about a
minute, and needs no torch. Short kernels are launched after nothing (``hot``), after the L2 was
flushed by reading (``cold``, as ``ptxview time`` does it), and after a kernel besides whose code
and constants fill the caches of instructions and of constants (``code``). Each is timed by CUPTI,
tracing kernels that may run at once and, which adds no code, one after another (``serial``); and by
ncu with ``--cache-control all`` and ``none``. Prints medians in µs, and ncu's cycles in which an
SM was active: what differs between ``all`` and ``none`` there is the caches', what an empty kernel
takes is the launch's.
"""

from __future__ import annotations

import csv
import ctypes
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from inspector.probes.replay.cupti import CONCURRENT_KERNEL, KERNEL, Cupti, library
from inspector.probes.replay.driver import Driver, Kernel
from inspector.probes.replay.trace import Records

SELF = "tests.gpu.cold_caches"
STATES = ("hot", "cold", "code")
LAUNCHES, TRACED, FLUSHED = 9, 200, 256 << 20
METRICS = ("gpu__time_duration.sum", "sm__cycles_active.max")
CODE = """
#define F1 asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(a) : "f"(x));
#define F16 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1 F1
#define F256 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16
#define F4K F256 F256 F256 F256 F256 F256 F256 F256 F256 F256 F256 F256 F256 F256 F256 F256
__constant__ int table[16000];
extern "C" __global__ void fill_code(float* out, float x, int n) {
  float a = x; int s = 0;
  for (int i = 0; i < n; i += 16) s += table[i];
  F4K F4K F4K F4K F4K F4K
  if (a == 1.0f && s == 7) out[0] = a;
}
extern "C" __global__ void read_all(float* out, float x, int n) {
  const float4* in = (const float4*)out;
  float a = 0;
  for (long i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += gridDim.x * blockDim.x) {
    float4 v = in[i]; a += v.x + v.y + v.z + v.w;
  }
  if (a == 1.0f) out[0] = a;
}
extern "C" __global__ void empty_kernel(float* out, float x, int n) {}
extern "C" __global__ void square_kernel(float* out, float x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i + n] = out[i] * out[i];
}
extern "C" __global__ void softmax_kernel(float* out, float x, int n) {
  __shared__ float part[8];
  float* row = out + blockIdx.x * n;
  float most = -1e30f, sum = 0, held[4];
  for (int k = 0; k < 4; k++) {
    int i = threadIdx.x + 256 * k;
    held[k] = i < n ? row[i] : -1e30f;
    most = fmaxf(most, held[k]);
  }
  for (int s = 16; s; s /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, s));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = most;
  __syncthreads();
  for (int k = 0; k < 8; k++) most = fmaxf(most, part[k]);
  __syncthreads();
  for (int k = 0; k < 4; k++) sum += held[k] = __expf(held[k] - most);
  for (int s = 16; s; s /= 2) sum += __shfl_xor_sync(~0u, sum, s);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int k = 0; k < 8; k++) sum += part[k];
  for (int k = 0; k < 4; k++)
    if (threadIdx.x + 256 * k < n) row[threadIdx.x + 256 * k] = held[k] / sum;
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
# Name, kernel, blocks, threads, n; 4096×4096 last, which is no short one.
SPECIMENS = {
    "empty": ("empty_kernel", 1, 32, 0),
    "square 64×1024": ("square_kernel", 256, 256, 1 << 16),
    "softmax 1823×781": ("softmax_kernel", 1823, 256, 781),
    "512 instructions": ("long_code", 64, 128, 0),
    "2048 instructions": ("longer_code", 64, 128, 0),
    "square 4096×4096": ("square_kernel", 65536, 256, 1 << 24),
}
Launch = Callable[[], None]


class Device:
    """The first device by the driver alone, with memory to read and to write."""

    def __init__(self, cubin: bytes) -> None:
        self.driver = Driver()
        call = self.driver.call
        device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
        call("cuInit", 0)
        call("cuDeviceGet", ctypes.byref(device), 0)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        call("cuCtxSetCurrent", context)
        call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(FLUSHED))
        call("cuMemsetD8_v2", memory, 0, ctypes.c_size_t(FLUSHED))
        self.memory = memory.value
        call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(FLUSHED))
        call("cuMemsetD8_v2", memory, 0, ctypes.c_size_t(FLUSHED))
        self.other = memory.value
        module = ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(cubin))
        self._module = module
        self.flush = self.launch("read_all", 132 * 8, 256, FLUSHED // 4, self.other)
        self.fill = self.launch("fill_code", 132 * 2, 128, 16000, self.other)
        self.kernels = {name: self.launch(*said, self.memory) for name, said in SPECIMENS.items()}
        # As a torch, as far as records are taken.
        self.cuda = SimpleNamespace(synchronize=self.synchronize)

    def launch(self, name: str, blocks: int, threads: int, n: int, address: int) -> Launch:
        function = ctypes.c_void_p()
        self.driver.call("cuModuleGetFunction", ctypes.byref(function), self._module, name.encode())
        values = [address.to_bytes(8, "little"), bytes(ctypes.c_float(1.5)),
                  n.to_bytes(4, "little")]  # fmt: skip
        kernel = Kernel(
            self.driver, function, {"grid": (blocks, 1, 1), "block": (threads, 1, 1)}, values
        )
        return lambda: kernel.launch(0)

    def synchronize(self) -> None:
        self.driver.call("cuCtxSynchronize")

    def warm(self) -> None:
        """Work until the clocks are up, for half a second."""
        for launch in self.kernels.values():
            launch()
        for _ in range(5000):
            self.flush()
        self.synchronize()

    def before(self, state: str) -> None:
        """What stands before a launch."""
        if state == "code":
            self.fill()
        if state != "hot":
            self.flush()
        if state == "code":  # last, since it takes the L2 too
            self.fill()


def launches(cubin: Path) -> None:
    """Each kernel often in each state, in the order of the table: for ncu."""
    device = Device(cubin.read_bytes())
    device.warm()
    for launch in device.kernels.values():
        for state in STATES:
            for _ in range(LAUNCHES):
                for _ in range(10):  # the device works in between, as with us
                    device.flush()
                if state == "hot":  # the launch before was measured too: see that it is near
                    launch()
                device.before(state)
                launch()
    device.synchronize()


def ours(cubin: Path) -> dict[str, dict[str, float]]:
    """CUPTI's medians in µs, by kernel, of each state and way of tracing."""
    device: Any = Device(cubin.read_bytes())
    device.warm()
    out: dict[str, dict[str, float]] = {name: {} for name in SPECIMENS}
    for kind, mark in ((CONCURRENT_KERNEL, ""), (KERNEL, " serial")):
        with Records(device, Cupti(library("*"), (kind,))) as trace:
            for name, launch in device.kernels.items():
                for state in STATES:

                    def work(state: str = state, launch: Launch = launch) -> None:
                        for _ in range(TRACED):
                            device.before(state)
                            launch()

                    own = SPECIMENS[name][0]

                    def whole(events: Sequence[Any], own: str = own) -> bool:
                        return [event.name for event in events].count(own) >= TRACED

                    seen = trace.saw(work, whole)
                    times = [e.ns / 1000 for e in seen if e.name == own]
                    out[name][state + mark] = statistics.fmean(sorted(times)[20:-20])
    return out


def theirs(cubin: Path, control: str) -> dict[str, dict[str, float]]:
    """ncu's medians, by kernel, of each state and metric."""
    log = cubin.with_suffix(f".{control}.csv")
    names = "|".join(dict.fromkeys(said[0] for said in SPECIMENS.values()))
    subprocess.run(
        ["ncu", "--clock-control", "none", "--cache-control", control, "--metrics",
         ",".join(METRICS), "--kernel-name", f"regex:^({names})$", "--csv", "--page", "raw",
         "--log-file", str(log), sys.executable, "-m", SELF, "--launches", str(cubin)],
        check=False,
    )  # fmt: skip
    lines = [line for line in log.read_text().splitlines() if line.startswith('"')]
    table = list(csv.DictReader(io.StringIO("\n".join(lines))))
    units, rows = table[0], table[1 + len(SPECIMENS) :]
    each = LAUNCHES * (len(STATES) + 1)
    if len(rows) != each * len(SPECIMENS):
        print(f"ncu saw {len(rows)} launches", log.read_text()[-1500:])
        return {}
    out: dict[str, dict[str, float]] = {name: {} for name in SPECIMENS}
    for n, (name, state) in enumerate((name, state) for name in SPECIMENS for state in STATES):
        at = each * (n // len(STATES)) + LAUNCHES * (n % len(STATES) + (state != "hot"))
        # Of a hot L2 every second one: the one before it brought the data there.
        part = rows[at + 1 : at + 2 * LAUNCHES : 2] if state == "hot" else rows[at : at + LAUNCHES]
        assert {row["Kernel Name"] for row in part} == {SPECIMENS[name][0]}, (name, state)
        for metric in METRICS:
            median = statistics.median(float(row[metric].replace(",", "")) for row in part)
            ns = units[metric] in ("ns", "nsecond")
            out[name][f"{state} {metric}"] = median / 1000 if ns else median
    return out


def main(argv: list[str]) -> int:
    if argv[:1] == ["--launches"]:
        launches(Path(argv[1]))
        return 0
    if argv[:1] == ["--ours"]:
        print(json.dumps(ours(Path(argv[1]))))
        return 0
    with tempfile.TemporaryDirectory(prefix="ptxview-cold-") as folder:
        source, cubin = Path(folder, "code.cu"), Path(os.environ.get("CUBIN") or folder, "c.cubin")
        if not cubin.exists():
            source.write_text(CODE)
            subprocess.run(
                ["nvcc", "-arch=sm_90", "-cubin", str(source), "-o", str(cubin)], check=True
            )
        done = subprocess.run([sys.executable, "-m", SELF, "--ours", str(cubin)],
                              capture_output=True, text=True, check=False)  # fmt: skip
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        cupti = json.loads(done.stdout.splitlines()[-1])
        print(json.dumps(cupti), flush=True)
        ncu = {}
        for control in ("all", "none"):
            ncu[control] = theirs(cubin, control)
            print(control, json.dumps(ncu[control]), flush=True)
    head = ["kernel", "state", "CUPTI", "serial", "ncu all", "ncu none", "active all", "none"]
    print(" | ".join(head))
    for name in SPECIMENS:
        for state in STATES:
            cells = [cupti[name][state], cupti[name][f"{state} serial"]]
            sides = [ncu[control].get(name, {}) for control in ("all", "none")]
            cells += [s.get(f"{state} {m}", float("nan")) for m in METRICS for s in sides]
            print(" | ".join([name, state, *(f"{c:.3f}" for c in cells)]))
    if out := os.environ.get("OUT"):
        Path(out, "cold_caches.json").write_text(json.dumps({"cupti": cupti, "ncu": ncu}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
