"""Compare times of replayed launches with those of Triton's own launches in one program.

    ptxview run --no-tui -o times.ptxview -m tests.gpu.time --program
    ptxview time times.ptxview --trust --json > times.json
    python -m tests.gpu.time --against times.json

    ptxview run --no-tui -o trouble.ptxview -m tests.gpu.time --trouble
    ptxview time trouble.ptxview --trust --limit 20 --json > trouble.json ; test $? = 1
    python -m tests.gpu.time --troubles trouble.json

Run by hand on a machine with a GPU. The third command launches the same kernels as the recorded
program did, through Triton, on the program's own tensors, and takes their time by CUPTI after 256
MB were read; it prints both medians and exits with 1 where they are further apart than 3 % or
0.2 µs, whichever is more, unless ptxview said that it moved meanwhile. The program of
trouble has launches that cannot be run on new inputs: one waits for ever there, one reads where no
memory is. Each must fail alone.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from kernels.matmul import matmul
from kernels.softmax import softmax
from kernels.square import square

SIZES = ((64, 1024), (1823, 781), (2048, 2048), (4096, 4096), (8192, 4096), (16384, 8192))
MATMULS = (1024, 4096)
# Chosen here: two processes that tune might choose differently.
BLOCKS = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}
CONFIG = triton.Config(BLOCKS, num_warps=8, num_stages=3)
LAUNCHES = 250


@triton.jit  # type: ignore[untyped-decorator]
def gather_kernel(out, table, index, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * block + tl.arange(0, block)
    which = tl.load(index + at, mask=at < n, other=0)
    tl.store(out + at, tl.load(table + which, mask=at < n), mask=at < n)


@triton.jit  # type: ignore[untyped-decorator]
def count_kernel(counts, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(counts + at, tl.load(counts + at, mask=at < n) + 1, mask=at < n)


@triton.jit
def wait_kernel(flag):  # type: ignore[no-untyped-def]
    while tl.load(flag, volatile=True) < 1000.0:
        pass


@triton.jit  # type: ignore[untyped-decorator]
def far_kernel(out, where, block: tl.constexpr):  # type: ignore[no-untyped-def]
    far = (tl.load(where) * 1e15).to(tl.int64)
    tl.store(out + far + tl.arange(0, block), 0.0)


def programs() -> dict[tuple[str, tuple[int, ...]], Any]:
    """What is launched, by the kernel's name and the shape of its first tensor."""
    out: dict[tuple[str, tuple[int, ...]], Any] = {}
    for shape in SIZES:
        x = torch.randn(shape, device="cuda")
        out["square_kernel", shape] = lambda x=x: square(x)
    y = torch.randn(1823, 781, device="cuda")
    out["softmax_kernel", (1823, 781)] = lambda: softmax(y)
    for n in MATMULS:
        a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
        out["matmul_kernel", (n, n)] = lambda a=a, b=b: matmul(a, b, CONFIG)
    n = 1 << 22
    table = torch.randn(1 << 20, device="cuda")
    index = torch.randint(0, 1 << 20, (n,), device="cuda")
    into, counts = torch.empty(n, device="cuda"), torch.zeros(n, device="cuda", dtype=torch.int32)
    grid = (triton.cdiv(n, 1024),)
    out["gather_kernel", (n,)] = lambda: gather_kernel[grid](into, table, index, n, block=1024)
    out["count_kernel", (n,)] = lambda: count_kernel[grid](counts, n, block=1024)
    return out


def trouble() -> None:
    flag, zero = torch.full((1,), 2000.0, device="cuda"), torch.zeros(1, device="cuda")
    out = torch.zeros(1024, device="cuda")
    far_kernel[(1,)](out, zero, block=1024)
    square(torch.randn(64, 1024, device="cuda"))
    wait_kernel[(1,)](flag)
    softmax(torch.randn(1823, 781, device="cuda"))
    torch.cuda.synchronize()


def truth(name: str, launch: Any) -> float:
    """The median of the kernel's own time in µs, of Triton's launches after a read of 256 MB."""
    from torch.profiler import ProfilerActivity, profile

    memory = torch.zeros(64 << 20, device="cuda")
    until = time.monotonic() + 0.3  # for as long as ptxview works before it: clocks fall under load
    while time.monotonic() < until:
        for _ in range(50):
            memory.sum()
            launch()
        torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(LAUNCHES):
            memory.sum()
            launch()
        torch.cuda.synchronize()
    events: Any = profiler.events()
    times = [e.time_range.elapsed_us() for e in events if e.name == name]
    assert len(times) == LAUNCHES, (name, len(times))
    return float(statistics.median(times))


def compare(path: Path) -> int:
    rows = json.loads(path.read_text("utf-8"))["rows"]
    wrong = 0
    for (name, shape), launch in programs().items():
        theirs = truth(name, launch)
        said = "×".join(map(str, shape))
        found = [r for r in rows if r["kernel"] == name and r["inputs"].split(",")[0].endswith(
            f" {said}")]  # fmt: skip
        ours = found[0]["median_us"] if found else None
        agree = ours is not None and abs(ours - theirs) <= max(0.2, 0.03 * theirs)
        # What heats the device to its limit takes another time from one second to the next.
        moved = bool(found) and any(
            "in the end" in w or "slowed" in w for w in found[0]["warnings"]
        )
        wrong += not agree and not moved
        mark = "agrees" if agree else "it moved" if moved else "DIFFERS"
        print(f"{mark}: {name} {said}: replayed {ours}, in the program {theirs:.2f} µs")
    return 1 if wrong else 0


def troubles(path: Path) -> int:
    rows = {r["kernel"]: r for r in json.loads(path.read_text("utf-8"))["rows"]}
    for name, row in rows.items():
        print(f"{name}: {row['median_us']} µs, {row['error']}")
    failed = {name for name, row in rows.items() if row["error"]}
    timed = {name for name, row in rows.items() if row["median_us"]}
    right = failed == {"wait_kernel", "far_kernel"} and timed == {"square_kernel", "softmax_kernel"}
    print("as it should be" if right else "NOT as it should be")
    return 0 if right else 1


def main(argv: list[str]) -> int:
    if argv[:1] == ["--program"]:
        for launch in programs().values():
            launch()
        torch.cuda.synchronize()
        return 0
    if argv[:1] == ["--trouble"]:
        trouble()
        return 0
    return (compare if argv[0] == "--against" else troubles)(Path(argv[1]))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
