"""How fast PTX is run here, beside Triton's own interpreter of the same kernels in the same run.

``python -m tests.benchmarks.bench_execute``: the ratio of CPU times of square, softmax and layer
norm of 1823×781 and of a matrix product of 256³, and the memory of 1,000 to 100,000 programs.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.benchmarks.ratio import Ratio

WANTED = {"square": 10, "softmax": 10, "layer norm": 10, "matmul": 5}
"""Times Triton's interpreter, at least."""
ROWS, COLUMNS, SIZE = 1823, 781, 256


def best(function: Callable[[], Any], times: int = 3) -> float:
    """The least CPU time of several runs, in seconds."""
    out = []
    for _ in range(times):
        began = time.process_time()
        function()
        out.append(time.process_time() - began)
    return min(out)


def ours() -> dict[str, float]:
    """CPU seconds of each kernel, run as PTX."""
    import numpy as np

    from inspector.execute import Program
    from tests.execute import programs

    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    out, row = np.empty_like(x), x[0].copy()
    a = rng.standard_normal((SIZE, SIZE)).astype(np.float16)
    c = np.empty_like(a)
    n, k = COLUMNS, SIZE
    kernels = {
        "square": (programs.square(90), (ROWS,), [out, x, n, n, n]),
        "softmax": (programs.softmax(90), (ROWS,), [out, x, n, n, n]),
        "layer norm": (programs.layer_norm(90), (ROWS,), [out, x, row, row, n, n, 1e-5]),
        "matmul": (programs.matmul("fp16", 80), (16,), [a, a, c, k, k, k, k, k, k]),
        "matmul, sm_90": (programs.matmul("fp16", 90), (16,), [a, a, c, k, k, k, k, k, k]),
    }
    times = {}
    for name, (made, grid, arguments) in kernels.items():
        began = time.process_time()
        program = Program(made.ptx)
        program.check()
        times[f"{name}, translated"] = time.process_time() - began
        times[name] = best(
            lambda p=program, m=made, g=grid, v=arguments: programs.launch(  # type: ignore[misc]
                p, g, m.threads, v, shared=m.shared
            )
        )
    return times


def interpreters() -> dict[str, float]:
    """CPU seconds of each kernel by Triton's interpreter."""
    import torch
    import triton

    from kernels.matmul import matmul_kernel
    from kernels.softmax import softmax_kernel
    from kernels.square import square_kernel
    from tests.execute.programs import layer_norm_kernel

    torch.set_num_threads(1)
    x = torch.randn(ROWS, COLUMNS)
    out, row, n = torch.empty_like(x), x[0].clone(), COLUMNS
    a = torch.randn(SIZE, SIZE).half()
    c = torch.empty_like(a)
    tile = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}
    sizes = (SIZE, SIZE, SIZE, SIZE, 1, SIZE, 1, SIZE, 1)
    grid, tiles = (ROWS,), (triton.cdiv(SIZE, 64) ** 2,)
    return {
        "square": best(lambda: square_kernel[grid](out, x, n, n, n, BLOCK_SIZE=1024), 1),
        "softmax": best(lambda: softmax_kernel[grid](out, x, n, n, n, BLOCK_SIZE=1024), 1),
        "layer norm": best(
            lambda: layer_norm_kernel[grid](out, x, row, row, n, n, 1e-5, BLOCK_SIZE=1024), 1
        ),
        "matmul": best(lambda: matmul_kernel.fn[tiles](a, a, c, *sizes, **tile), 1),
    }


def flat() -> dict[str, list[float]]:
    """CPU seconds and the process's greatest memory in MiB, by how many programs were run."""
    import numpy as np

    from inspector.execute import Program
    from tests.execute import programs

    made = programs.square(90)
    program = Program(made.ptx)
    program.check()
    x, out = np.ones((1, COLUMNS), np.float32), np.empty((1, COLUMNS), np.float32)
    rows = {}
    for count in (1_000, 10_000, 100_000):  # each program the same row: only its registers grow
        took = best(
            lambda n=count: programs.launch(  # type: ignore[misc]
                program, (n,), made.threads, [out, x, 0, 0, COLUMNS]
            ),
            1,
        )
        rows[str(count)] = [took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]
    return rows


def child(what: str, interpret: bool) -> Any:
    """One of the measurements in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("TRITON_INTERPRET", None)
    if interpret:
        environment["TRITON_INTERPRET"] = "1"
    command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks.bench_execute", what]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def ratios() -> Iterator[Ratio]:
    """Each kernel by Triton's interpreter, beside it as PTX; and ten times as many programs."""
    own, other = child("ours", False), child("interpreters", True)
    for name in WANTED:
        yield Ratio(f"{name} by Triton's interpreter", other[name] / own[name], "it as PTX")
    (_, least), *_, (_, most) = child("flat", False).values()
    yield Ratio("peak memory of 100,000 programs", most / least, "1,000 of them")


def main() -> None:
    """Print them with their times; nothing is asserted."""
    own, other = child("ours", False), child("interpreters", True)
    for name, wanted in WANTED.items():
        ratio = other[name] / own[name]
        print(f"{name:12} {1e3 * own[name]:7.0f} ms, interpreter {1e3 * other[name]:7.0f} ms: "
              f"{ratio:.1f}×, wanted {wanted}× (translated in "
              f"{1e3 * own[name + ', translated']:.0f} ms)")  # fmt: skip
    print(f"matmul as sm_90's wgmma {1e3 * own['matmul, sm_90']:.0f} ms")
    for count, (seconds, memory) in child("flat", False).items():
        print(f"{int(count):7,} programs {seconds:7.2f} s, {memory:.0f} MiB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        made = {"ours": ours, "interpreters": interpreters, "flat": flat}[sys.argv[1]]()
        print(json.dumps(made))
    else:
        main()
