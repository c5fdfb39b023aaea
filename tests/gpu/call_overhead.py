"""What recording costs a launch that was seen before, and a training step.

    python -m tests.gpu.call_overhead

Run by hand on a machine with a GPU that nothing else uses; takes about two minutes. The same
program runs twice in turn without ptxview and with it, and takes its own times: of one launch of a
Triton kernel by the CPU (three tensors, six scalars, the queue never full), of the first launch
with each of several sizes, and of a training step of a compiled model. Prints what recording adds,
and exits with 1 where that is more than 1 µs a repeated launch or 3 % of a training step.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

ROOT = Path(__file__).parents[2]
PTXVIEW = "import sys; from inspector.cli import main; raise SystemExit(main(sys.argv[1:]))"
TURNS, LAUNCHES, STEPS = 3, 500, 150


@triton.jit  # type: ignore[untyped-decorator]
def add_kernel(x, y, out, n, sx, sy, so, first, last, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = (at < n) & (at >= first) & (at < last)
    tl.store(out + at * so, tl.load(x + at * sx, mask) + tl.load(y + at * sy, mask), mask)


def launches() -> tuple[float, float, float | None]:
    """µs of the CPU for a launch that was seen, for one that is new, and what of the first is
    recording's, None where nothing is recorded."""
    tensors = [torch.zeros(4096, device="cuda") for _ in range(3)]

    def launch(n: int) -> Any:
        return add_kernel[(4,)](*tensors, n, 1, 1, 1, 0, 4096, block=1024)

    def block() -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(LAUNCHES):
            launch(4096)
        return (time.perf_counter() - begin) / LAUNCHES * 1e6

    compiled = launch(4096)
    torch.cuda.synchronize()
    stands = compiled.run
    bare = getattr(getattr(stands, "_ptxview", None), "inner", None)
    seen, differences = [], []
    for _ in range(40):
        seen.append(block())
        if bare is not None:
            compiled._run = bare
            differences.append(seen[-1] - block())
            compiled._run = stands
    launch(4000)
    new = []
    for n in range(3984, 3984 - 16 * 40, -16):  # all of one compilation
        begin = time.perf_counter()
        launch(n)
        new.append((time.perf_counter() - begin) * 1e6)
    torch.cuda.synchronize()
    return min(seen), statistics.median(new), statistics.median(differences or [0.0]) or None


def step_time() -> float:
    """Median ms of a training step, the device waited for at its end."""
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, dropout=0.0)
    model: Any = torch.compile(torch.nn.TransformerEncoder(layer, 4).cuda())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    x = torch.randn(8, 128, 256, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    for _ in range(10):
        step()
    times = []
    for _ in range(STEPS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def main(argv: list[str]) -> int:
    if argv[:1] == ["--program"]:
        seen, new, own = launches()
        said = {"seen": seen, "new": new, "step": step_time(), "own": own}
        Path(argv[1]).write_text(json.dumps(said))
        return 0
    held: dict[str, list[dict[str, Any]]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "said.json"
        env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "inductor")}
        words = ["-m", "tests.gpu.call_overhead", "--program", str(out)]
        for turn in range(TURNS):
            for how, before in (
                ("without", [sys.executable]),
                ("with", [sys.executable, "-c", PTXVIEW, "run", "--no-tui", "-o",
                          str(Path(folder) / f"recording{turn}")]),
            ):  # fmt: skip
                subprocess.run(
                    [*before, *words], cwd=ROOT, env=env, check=True, stderr=subprocess.DEVNULL
                )
                held[how].append(json.loads(out.read_text()))
                print(how, held[how][-1])
    best = {
        how: {k: min(s[k] for s in said) for k in ("seen", "new", "step")}
        for how, said in held.items()
    }
    launch = statistics.median(s["own"] for s in held["with"])
    new = best["with"]["new"] - best["without"]["new"]
    step = best["with"]["step"] / best["without"]["step"] - 1
    between = best["with"]["seen"] - best["without"]["seen"]
    print(f"a repeated launch: {launch:+.2f} µs ({between:+.2f} between processes)")
    print(f"one that is new: {new:+.1f} µs")
    print(f"a training step of {best['without']['step']:.2f} ms: {step:+.1%}")
    fine = launch < 1 and step < 0.03
    print("as it should be" if fine else "NOT as it should be")
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
