"""``python -m tests.benchmarks.bench_values``: PTX run for its values, beside Triton's interpreter.

Four kernels on the emulated device, each launched by both in an interpreter of its own, one after
the other. Times are the processor's, the best of three launches after the first; what the first
costs more (translating, loading) is said too. Prints, asserts only that values agree with torch's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.ratio import Ratio

PROBES = Path(__file__).parents[2] / "inspector" / "probes"
PROGRAM = """
import json, time, torch, triton, triton.language as tl
@triton.jit
def square(out, x, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v * v, mask=i < n)
@triton.jit
def softmax(out, x, n, block: tl.constexpr):
    i = tl.arange(0, block)
    at = tl.program_id(0) * n + i
    v = tl.load(x + at, mask=i < n, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(out + at, v / tl.sum(v, 0), mask=i < n)
@triton.jit
def layer_norm(out, x, w, b, n, eps, block: tl.constexpr):
    i = tl.arange(0, block)
    at = tl.program_id(0) * n + i
    v = tl.load(x + at, mask=i < n, other=0.0)
    d = tl.where(i < n, v - tl.sum(v, 0) / n, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    w, b = tl.load(w + i, mask=i < n), tl.load(b + i, mask=i < n)
    tl.store(out + at, d * scale * w + b, mask=i < n)
@triton.jit
def matmul(a, b, c, m, n, k, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr):
    rows = tl.program_id(0) * bm + tl.arange(0, bm)
    columns = tl.program_id(1) * bn + tl.arange(0, bn)
    total = tl.zeros((bm, bn), tl.float32)
    for start in range(0, k, bk):
        inner = start + tl.arange(0, bk)
        left = tl.load(a + rows[:, None] * k + inner[None, :])
        right = tl.load(b + inner[:, None] * n + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))
x = torch.randn(1823, 781, device="cuda")
w, b = torch.randn(781, device="cuda"), torch.randn(781, device="cuda")
left, right = (torch.randn(512, 512, device="cuda").half() for _ in range(2))
out, product = torch.empty_like(x), torch.empty_like(left)
norm = torch.nn.functional.layer_norm(x, (781,), w, b)
LAUNCHES = {
    "square": (lambda: square[(1391,)](out, x, x.numel(), block=1024), out, x * x, 1e-6),
    "softmax": (lambda: softmax[(1823,)](out, x, 781, block=1024), out, x.softmax(-1), 1e-5),
    "layer norm": (lambda: layer_norm[(1823,)](out, x, w, b, 781, 1e-5, block=1024), out, norm,
                   1e-4),
    "matmul": (lambda: matmul[(8, 8)](left, right, product, 512, 512, 512, 64, 64, 32), product,
               (left.float() @ right.float()).half(), 1e-2),
}
seconds = {}
for name, (launch, made, want, tolerance) in LAUNCHES.items():
    times = []
    for _ in range(4):
        begin = time.process_time()
        launch()
        times.append(time.process_time() - begin)
    torch.testing.assert_close(made, want, rtol=tolerance, atol=10 * tolerance)
    seconds[name] = times[0], min(times[1:])
print(json.dumps(seconds))
"""


def measured(values: str, folder: Path) -> dict[str, tuple[float, float]]:
    """Seconds of the first launch and of the best other one, by kernel."""
    recording = folder / values
    (recording / "blobs").mkdir(parents=True)
    program = folder / "program.py"
    program.write_text(PROGRAM)
    given = {
        **os.environ,
        "PYTHONPATH": str(PROBES / "bootstrap"),
        "PTXVIEW_RECORDING": str(recording),
        "PTXVIEW_TARGET": "sm_90",
        "PTXVIEW_VALUES": values,
        "PTXVIEW_VALUE_SECONDS": "inf",
        "TRITON_CACHE_DIR": str(folder / "triton"),
    }
    done = subprocess.run(
        [sys.executable, str(program)], env=given, check=True, capture_output=True, text=True
    )
    seconds: dict[str, tuple[float, float]] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def ratios() -> Iterator[Ratio]:
    """Each kernel's later launches by the interpreter beside those of its PTX."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        interpreted, executed = measured("interpreter", folder), measured("ptx", folder)
    for kernel, (_, slow) in interpreted.items():
        what = f"{kernel} on the emulated device by Triton's interpreter"
        yield Ratio(what, slow / executed[kernel][1], "it as PTX")


def main() -> None:
    """Print them with their times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        interpreted, executed = measured("interpreter", folder), measured("ptx", folder)
    print(f"{'kernel':>12} {'interpreter':>12} {'PTX':>9} {'times':>7} {'first launch':>13}")
    for kernel, (_, slow) in interpreted.items():
        first, fast = executed[kernel]
        print(f"{kernel:>12} {slow:>10.3f} s {fast:>7.3f} s {slow / fast:>7.1f} {first:>11.2f} s")


if __name__ == "__main__":
    main()
