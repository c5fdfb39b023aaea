"""Compare what hints say that a cure may gain with what it gains.

    python -m tests.gpu.hint_gains

Run by hand on a machine with a GPU. Each pair is a Triton launch with a fault and one that does the
same work without it. The program is recorded once; times are those that the recording has of each
launch (CUPTI). The bound of a hint holds where the measured gain is not above it. Exits with 1
where a pair has no hint, or gains more than its bound by more than 5 points.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TOLERANCE_PERCENT = 5.0
PAIRS = (
    ("uncoalesced-layout", "columns_fault", "columns_cured"),
    ("masked-lanes", "masked_fault", "masked_cured"),
    ("idle-lanes", "lanes_fault", "lanes_cured"),
    ("small-grid", "grid_fault", "grid_cured"),
    ("tail-effect", "tail_fault", "tail_cured"),
)
PROGRAM = """
import torch, triton
import triton.language as tl

@triton.jit
def columns_fault(out, x, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(out + row * n + at, tl.load(x + at * stride + row, mask=at < n) * 2, mask=at < n)

@triton.jit
def columns_cured(out, x, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(out + row * n + at, tl.load(x + row * stride + at, mask=at < n) * 2, mask=at < n)

@triton.jit
def masked_fault(out, x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(out + row * n + at, tl.exp(tl.load(x + row * n + at, mask=at < n)), mask=at < n)

@triton.jit
def masked_cured(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.exp(tl.load(x + at, mask=at < n)), mask=at < n)

@triton.jit
def lanes_fault(out, x, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.exp(tl.load(x + at)))

@triton.jit
def lanes_cured(out, x, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.exp(tl.load(x + at)))

@triton.jit
def grid_fault(out, x, per_program, BLOCK: tl.constexpr):
    first = tl.program_id(0) * per_program
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, per_program, BLOCK):
        total += tl.load(x + first + start + tl.arange(0, BLOCK))
    tl.store(out + tl.program_id(0), tl.sum(total))

@triton.jit
def grid_cured(out, x, per_program, BLOCK: tl.constexpr):
    first = tl.program_id(0) * per_program
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, per_program, BLOCK):
        total += tl.load(x + first + start + tl.arange(0, BLOCK))
    tl.store(out + tl.program_id(0), tl.sum(total))

@triton.jit
def tail_fault(out, x, turns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for _ in range(turns):
        value = value * 0.999 + 0.5
    tl.store(out + at, value)

@triton.jit
def tail_cured(out, x, turns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for _ in range(turns):
        value = value * 0.999 + 0.5
    tl.store(out + at, value)

x = torch.randn(1 << 24, device="cuda")
out = torch.empty_like(x)
sms = torch.cuda.get_device_properties(0).multi_processor_count
for _ in range(50):
    columns_fault[(4096,)](out, x, 4096, 4096, BLOCK=4096, num_warps=8)
    columns_cured[(4096,)](out, x, 4096, 4096, BLOCK=4096, num_warps=8)
    masked_fault[(26000,)](out, x, 528, BLOCK=1024)
    masked_cured[(triton.cdiv(26000 * 528, 1024),)](out, x, 26000 * 528, BLOCK=1024)
    lanes_fault[(1 << 18,)](out, x, BLOCK=32, num_warps=4)
    lanes_cured[(1 << 18,)](out, x, BLOCK=32, num_warps=1)
    grid_fault[(32,)](out, x, (1 << 24) // 32, BLOCK=1024)
    grid_cured[(1024,)](out, x, (1 << 24) // 1024, BLOCK=1024)
    tail_fault[(2 * sms + 8,)](out, x, 20000, BLOCK=1024, num_warps=32)
    tail_cured[(2 * sms,)](out, x, 20000, BLOCK=1024, num_warps=32)
torch.cuda.synchronize()
"""


def ptxview_json(*arguments: str | Path) -> Any:
    command = [sys.executable, "-m", "inspector", *map(str, arguments), "--json"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(output)


def hint_bounds(recording: Path, kernel: str) -> dict[str, float | None]:
    functions = ptxview_json("show", recording, kernel, "--stage", "ptx", "-a")["functions"]
    return {note["rule"]: note["gain_percent"] for entry in functions for note in entry["notes"]}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "pairs.py"
        program.write_text(PROGRAM)
        recording = Path(folder) / "pairs.ptxview"
        command = [sys.executable, "-m", "inspector", "run", "-o", str(recording), str(program)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = ptxview_json("list", recording, "--by", "cost")["costs"]
        times = {row["kernel"]: row["us"] for row in rows}
        failures = 0
        print(f"{'rule':20} {'fault µs':>9} {'cured µs':>9} {'gain %':>7} {'bound %':>8}")
        for rule, fault, cured in PAIRS:
            bounds = hint_bounds(recording, fault)
            bound = bounds.get(rule)
            gain = 100 * (1 - times[cured] / times[fault])
            failures += bound is None or gain > bound + TOLERANCE_PERCENT
            bound_text = "none" if bound is None else f"{bound:.0f}"
            print(
                f"{rule:20} {times[fault]:9.2f} {times[cured]:9.2f} {gain:7.0f} {bound_text:>8}"
                f"   {', '.join(bounds)}"
            )
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
