"""Compare recorded tunings with what the tuners themselves say: is the winner the same?

    python -m tests.gpu.autotune

Run by hand on a machine with a GPU. It records this very file as a program, with ``ptxview run``
and caches of its own: the specimen matmul for two sizes, a Triton kernel with a pruned and a
failing configuration, and a reduction of torch.compile's, tuned cold and, in a second run, taken
from the cache. The program writes each tuner's own choice and times (``best_config``,
``configs_timings``, the launcher that is left); they are printed beside the recording's. Exits
with 1 where a winner, a time or the number of configurations differs, or nothing was tuned.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspector.model import Kernel, Tuning

REPOSITORY = Path(__file__).resolve().parents[2]


def plain(config: Any) -> dict[str, Any]:
    """A ``triton.Config`` as the recording writes it."""
    named = {n: getattr(config, n, None) for n in ("num_warps", "num_stages", "num_ctas",
                                                   "maxnreg", "ir_override")}  # fmt: skip
    return {k: v for k, v in {**config.kwargs, **named}.items() if v is not None}


# -- the program that is recorded -----------------------------------------------------------------


def program(out: str) -> None:
    """Tune, and write what the tuners themselves know: one entry for each tuning."""
    import torch

    sys.path.insert(0, str(REPOSITORY))
    found = [*_triton(torch), *_inductor(torch)]
    Path(out).write_text(json.dumps(found))


def _triton(torch: Any) -> list[dict[str, Any]]:
    import triton

    from kernels import matmul

    kernel = matmul.matmul_kernel
    too_large = triton.Config(
        {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 128, "GROUP_M": 8}, num_warps=8, num_stages=4
    )
    pruned = triton.Config(
        {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 4}, num_warps=2, num_stages=2
    )
    kernel.configs = [*matmul.CONFIGS, too_large, pruned]

    def early(configs: Any, named: Any, **given: Any) -> Any:
        return [c for c in configs if c.num_warps != 2]

    kernel.early_config_prune = early
    found = []
    for size in (512, 2048):
        a = torch.randn(size, size, device="cuda", dtype=torch.float16)
        matmul.matmul(a, a)
        found.append({
            "by": "triton", "name": "matmul_kernel", "size": size, "total": len(kernel.configs),
            "winner": plain(kernel.best_config),
            "times": [[plain(c), t] for c, t in kernel.configs_timings.items()],
        })  # fmt: skip
    return found


def _inductor(torch: Any) -> list[dict[str, Any]]:
    from torch._inductor import config
    from torch._inductor.runtime import triton_heuristics

    config.max_autotune_pointwise = True
    config.coordinate_descent_tuning = os.environ.get("DESCEND") == "1"
    tuners: dict[int, Any] = {}
    run = triton_heuristics.CachingAutotuner.run

    def watched(self: Any, *args: Any, **given: Any) -> Any:
        tuners[id(self)] = self
        return run(self, *args, **given)

    triton_heuristics.CachingAutotuner.run = watched

    def model(x: Any) -> Any:
        return torch.softmax(x * 2, -1).sum(0)

    torch.compile(model)(torch.randn(4096, 2048, device="cuda"))
    torch.cuda.synchronize()
    return [
        {
            "by": "inductor",
            "name": tuner.inductor_meta.get("kernel_name"),
            "winner": plain(tuner.launchers[0].config),
            # What the coordinate descent tuner remembers is every time that was measured.
            "times": [[[str(k), v] for k, v in sorted(dict(held).items())] + [t] for held, t in
                      _remembered(tuner)],
        }
        for tuner in tuners.values()
    ]  # fmt: skip


def _remembered(tuner: Any) -> list[tuple[Any, float]]:
    return [(key, t) for key, t in tuner.coordesc_tuner.cached_benchmark_results.items()]


# -- the comparison -------------------------------------------------------------------------------


def show(kernel: Kernel, tuning: Tuning) -> None:
    """One tuning, a line for each configuration."""
    how = "from a cache" if tuning.from_cache else tuning.stopwatch
    print(f"{kernel.name} {tuning.by} key {tuning.key} {how} {tuning.method or ''}")
    for at, one in enumerate(tuning.configurations):
        time = "–" if one.time_us is None else f"{one.time_us:.2f} µs"
        mark = "best" if at == tuning.best else ""
        print(f"    {time:>12} {mark:4} {one.variant or '–':10} {dict(one.config)}"
              f" {one.reason or ''}")  # fmt: skip


def fits(one: dict[str, Any], tuning: Tuning) -> list[str]:
    """In what a tuning differs from what the tuner itself said; empty where it agrees."""
    wrong = []
    winner = tuning.winner
    if winner is None or dict(winner.config) != one["winner"]:
        wrong.append(f"winner {None if winner is None else dict(winner.config)} "
                     f"and not {one['winner']}")  # fmt: skip
    elif winner.variant is None:
        wrong.append("the winner is tied to no variant")
    if one["by"] == "inductor":
        theirs = sorted(t[-1] * 1000 for t in one["times"] if t[-1] != float("inf"))
        ours = sorted(c.time_us for c in tuning.configurations if c.time_us is not None)
        same = len(ours) == len(theirs) and all(
            abs(a - b) < 1e-6 * b for a, b in zip(ours, theirs, strict=True)
        )
        if theirs and not tuning.from_cache and not same:
            wrong.append(f"times {ours} and not {theirs}")
        return wrong
    if len(tuning.configurations) != one["total"]:
        wrong.append(f"{len(tuning.configurations)} configurations and not {one['total']}")
    for config, times in one["times"]:
        held = [c for c in tuning.configurations if dict(c.config) == config]
        median = None if times[0] == float("inf") else times[0] * 1000
        if len(held) != 1 or held[0].time_us != median:
            wrong.append(f"{config}: {[c.time_us for c in held]} and not {median}")
        elif median is None and not (held[0].reason or "").startswith("failed: OutOf"):
            wrong.append(f"{config}: reason {held[0].reason}")
    if not any((c.reason or "") == "pruned: early_config_prune" for c in tuning.configurations):
        wrong.append("no configuration was pruned")
    return wrong


def compared(recording: Path, said: list[dict[str, Any]]) -> int:
    """Print a recording's tunings, and how many of the tuners' own are not in it."""
    from inspector.capture.opening import open_path

    rec = open_path(recording)
    for problem in rec.problems:
        print(f"problem: {problem}")
    for kernel in rec.kernels:
        for tuning in kernel.autotune:
            show(kernel, tuning)
    missing = 0
    for one in said:
        tunings = [t for k in rec.kernels if k.name == one["name"] for t in k.autotune
                   if one["by"] == "inductor" or
                   (isinstance(t.key, dict) and t.key.get("M") == one["size"])]  # fmt: skip
        if one["by"] == "inductor" and not one["times"] and not tunings:
            continue  # it had one configuration
        wrong = [fits(one, t) for t in tunings]
        good = any(not w for w in wrong)
        missing += not good
        print(f"{'agrees' if good else 'DIFFERS'}: {one['by']} {one['name']} {one.get('size', '')}"
              f" {'' if good else wrong or 'not recorded'}")  # fmt: skip
    if not any(k.autotune for k in rec.kernels):
        print("nothing was tuned")
        missing += 1
    return missing


def main() -> int:
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for name, descend in (("cold", "0"), ("warm", "0"), ("descent", "1")):
            caches = here / ("descent" if descend == "1" else "caches")
            env = {**os.environ, "TRITON_CACHE_DIR": str(caches / "triton"), "DESCEND": descend,
                   "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor")}  # fmt: skip
            recording, said = here / name, here / f"{name}.json"
            command = [sys.executable, "-m", "inspector", "run", "--no-tui", "-o", str(recording),
                       str(Path(__file__).resolve()), "--program", str(said)]  # fmt: skip
            print(f"== {name}", flush=True)
            done = subprocess.run(command, cwd=REPOSITORY, env=env, check=False)
            if done.returncode:
                return done.returncode
            wrong += compared(recording, json.loads(said.read_text()))
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--program"]:
        program(sys.argv[2])
    else:
        raise SystemExit(main())
