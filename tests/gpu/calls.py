"""Compare a recording's launches with the ones that CUPTI saw: are count, grid and block the same?

    ptxview run --no-tui --no-ranges -o square.ptxview -m tests.gpu.calls --trace trace.json \\
        examples/01_square.py
    python -m tests.gpu.calls square.ptxview trace.json

Run by hand on a machine with a GPU. The first command runs a program within torch.profiler, whose
times and counts of kernels are CUPTI's, and writes its trace; the second prints every kernel of
the recording, by name, grid, block and dynamic shared memory, that was launched another number of
times than the trace says, and exits with 1 where there is one. Kernels that are not Triton's are
passed over: of those, a recording knows no launches. A program that autotunes launches more than
is its own: such kernels are compared by their number alone, benchmarks included.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inspector.model import Recording

Key = tuple[str, tuple[int, ...], tuple[int, ...]]


def trace(out: str, program: list[str]) -> None:
    """Run a program within the profiler, and write its Chrome trace."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    sys.argv = program
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        runpy.run_path(program[0], run_name="__main__")
        torch.cuda.synchronize()
    profiler.export_chrome_trace(out)


def seen(path: Path, names: set[str]) -> Counter[Key]:
    """Launches in a trace of the kernels of these names."""
    events = json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
    out: Counter[Key] = Counter()
    for event in events:
        if event.get("cat") == "kernel" and event.get("name") in names:
            args = event["args"]
            out[event["name"], tuple(args["grid"]), tuple(args["block"])] += 1
    return out


def recorded(recording: Recording) -> Counter[Key]:
    """Launches in a recording; with clusters, CUPTI's grid counts each of their blocks."""
    out: Counter[Key] = Counter()
    for kernel, variant in recording.variants():
        for call in variant.calls:
            if call.grid is not None and call.block is not None:
                ctas = variant.config.get("num_ctas")
                wide = ctas if isinstance(ctas, int) else 1
                grid = (call.grid[0] * wide, *call.grid[1:])
                out[kernel.name, grid, call.block] += call.count
    return out


def main(argv: list[str]) -> int:
    if argv[0] == "--trace":
        trace(argv[1], argv[2:])
        return 0
    # Not above: the program runs in an interpreter that may lack what ptxview needs.
    from inspector.capture.opening import open_path
    from inspector.model import Origin

    recording = open_path(Path(argv[0]))
    ours = [(k, v) for k, v in recording.variants() if k.origin is not Origin.NVCC]
    names = {v.symbol for _, v in ours}
    tuned = {v.symbol for _, v in ours if v.benchmarks}
    there, here = seen(Path(argv[1]), names), recorded(recording)
    wrong = 0
    for key in sorted({*there, *here}):
        if key[0] in tuned:
            continue
        mark = "agrees" if there[key] == here[key] else "DIFFERS"
        wrong += there[key] != here[key]
        print(
            f"{mark}: {key[0]} grid {key[1]} block {key[2]}: CUPTI {there[key]}, ours {here[key]}"
        )
    for name in sorted(tuned):
        cupti = sum(n for key, n in there.items() if key[0] == name)
        total = sum((v.launches or 0) + (v.benchmarks or 0) for _, v in ours if v.symbol == name)
        wrong += cupti != total
        mark = "agrees" if cupti == total else "DIFFERS"
        print(f"{mark}: {name}, autotuned: CUPTI {cupti}, ours {total} with benchmarks")
    unknown = sorted({v.symbol for _, v in ours if v.launches is None} - {k[0] for k in there})
    if unknown:
        print(f"in neither: {', '.join(unknown)}")
    if not there:
        print("the trace holds no launch of a kernel of the recording")
    for problem in recording.problems:
        print(f"problem: {problem}")
    return 1 if wrong or not there else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
