"""What recording costs a launch that was seen before, and a training step.

    python -m tests.gpu.call_overhead

Run by hand on a machine with a GPU that nothing else uses; takes about two minutes. The same
program runs in turn without ptxview and with it, and takes its own times: of one launch of a Triton
kernel by the CPU (three tensors, six scalars, the queue never full), of the first launch with each
of several sizes, and of a training step of a compiled model. Where it is recorded it also takes
away, in turn with itself, all that stands before launchers and graphs: processes differ from one
another by more than recording costs, and what is judged is that difference within one. Exits with 1
where it is more than 0.5 µs a repeated launch or 3 % of a training step.
"""

from __future__ import annotations

import gc
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

import torch
import triton
import triton.language as tl

ROOT = Path(__file__).parents[2]
PTXVIEW = "import sys; from inspector.cli import main; raise SystemExit(main(sys.argv[1:]))"
# Of 32 calls of a graph one is looked at whole: a block of steps holds one.
TURNS, PAIRS, LAUNCHES, STEPS = 3, 60, 300, 32


@triton.jit  # type: ignore[untyped-decorator]
def add_kernel(x, y, out, n, sx, sy, so, first, last, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = (at < n) & (at >= first) & (at < last)
    tl.store(out + at * so, tl.load(x + at * sx, mask) + tl.load(y + at * sy, mask), mask)


def switch() -> Callable[[bool], None]:
    """A function that takes away what records calls (True), or puts it back (False)."""
    kind = sys.modules["ptxview_probes.calls.launch"].Stand
    places: list[tuple[dict[Any, Any], Any, Any, Any]] = []
    for stand in [held for held in gc.get_objects() if type(held) is kind]:
        called = [stand.call, *(o for o in gc.get_referrers(stand.call) if callable(o))]
        for ours in called:
            for held in gc.get_referrers(ours):
                if type(held) is dict and held is not vars(stand):
                    found = [key for key, value in list(held.items()) if value is ours]
                    places += [(held, key, ours, stand.inner) for key in found]
    assert places, "nothing stands before a launcher"
    from torch._inductor.output_code import CompiledFxGraph as Graph

    recorded: Any = Graph.__call__

    def switched(away: bool) -> None:
        for held, key, ours, inner in places:
            held[key] = inner if away else ours
        graph: Any = Graph
        graph.__call__ = recorded.__wrapped__ if away else recorded

    return switched


def differences(once: Callable[[], float], away: Callable[[bool], None]) -> dict[str, float]:
    """Medians with recording and without it, and of what it adds each time, by turns."""
    with_it, added = [], []
    for turn in range(PAIRS):
        pair = {}
        for bare in (False, True) if turn % 2 else (True, False):
            away(bare)
            pair[bare] = once()
        with_it.append(pair[False])
        added.append(pair[False] - pair[True])
    away(False)
    low, middle, high = statistics.quantiles(added, n=4)
    return {"with": statistics.median(with_it), "added": middle, "low": low, "high": high}


def launches(recorded: bool) -> dict[str, Any]:
    """µs of the CPU for a launch that was seen, for one that is new, and what recording adds."""
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
    ours = compiled._run
    seen = min(block() for _ in range(40))
    own = None
    if recorded:
        inner = ours._ptxview.inner

        def away(bare: bool) -> None:
            compiled._run = inner if bare else ours

        own = {**differences(block, away), "in C": ours._ptxview.native}
    launch(4000)
    new = []
    for n in range(3984, 3984 - 16 * 40, -16):  # all of one compilation
        begin = time.perf_counter()
        launch(n)
        new.append((time.perf_counter() - begin) * 1e6)
    torch.cuda.synchronize()
    return {"seen": seen, "new": statistics.median(new), "own": own}


def training(recorded: bool) -> dict[str, Any]:
    """Median ms of a training step, the device waited for at its end, and what recording adds."""
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, dropout=0.0)
    model: Any = torch.compile(torch.nn.TransformerEncoder(layer, 4).cuda())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    x = torch.randn(8, 128, 256, device="cuda")

    def once() -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1e3

    def some() -> float:
        return statistics.fmean(once() for _ in range(STEPS))

    for _ in range(100):
        once()
    median = statistics.median(once() for _ in range(150))
    return {"step": median, "steps": differences(some, switch()) if recorded else None}


def main(argv: list[str]) -> int:
    if argv[:1] == ["--program"]:
        recorded = "ptxview_probes" in sys.modules
        Path(argv[1]).write_text(json.dumps({**launches(recorded), **training(recorded)}))
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
                subprocess.run([*before, *words], cwd=ROOT, env=env, check=True)
                held[how].append(json.loads(out.read_text()))
                print(how, held[how][-1])
    best = {
        how: {k: min(s[k] for s in said) for k in ("seen", "new", "step")}
        for how, said in held.items()
    }
    # Others' load on the machine only ever adds: the process on which it weighed least counts.
    own = min((s["own"] for s in held["with"]), key=lambda own: own["with"])
    steps = min((s["steps"] for s in held["with"]), key=lambda steps: steps["with"])
    launch, step = own["added"], steps["added"] / steps["with"]
    by_process = {k: best["with"][k] - best["without"][k] for k in ("seen", "new", "step")}
    between = by_process["seen"]
    print(f"a repeated launch: {launch:+.2f} µs of {own['with']:.1f} ({between:+.2f} by processes)")
    print(f"one that is new: {by_process['new']:+.1f} µs")
    between = by_process["step"] / best["without"]["step"]
    print(
        f"a training step: {step:+.1%} of {steps['with']:.2f} ms ({between:+.1%} between processes)"
    )
    fine = launch < 0.5 and step < 0.03
    print("as it should be" if fine else "NOT as it should be")
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
