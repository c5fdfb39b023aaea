"""Compare what max-autotune chose from with the table that torch prints.

    python -m tests.gpu.max_autotune

Run by hand on a machine with a GPU. It records a product of matrices with an epilogue, cold and
then with the table on disk, by ``ptxview run`` and caches of its own. Exits with 1 where a
candidate, a time or the winner differs from the lines beneath ``AUTOTUNE``, where a candidate of
Triton's has neither a variant nor a reason, where the generated kernel is not told of the candidate
whose sizes stand in its code, or where the second run does not say that its times came from the
cache.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from inspector.model import Recording, Stage, Tuning

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = """
import torch
import torch._inductor.config as config
config.fx_graph_cache = False
config.autotune_num_choices_displayed = None

@torch.compile(mode="max-autotune-no-cudagraphs")
def layer(x, w, b):
    return torch.nn.functional.gelu(x @ w + b)

half = dict(device="cuda", dtype=torch.bfloat16)
layer(torch.randn(1024, 512, **half), torch.randn(512, 2048, **half), torch.randn(2048, **half))
"""
HEAD = re.compile(r"^AUTOTUNE (\w+\(.*\))$", re.MULTILINE)
SIZE = re.compile(r"(BLOCK_[MNK]) : tl.constexpr = (\d+)")
ROW = re.compile(r"^  (\w+) ([\d.]+) ms ", re.MULTILINE)


def main() -> int:
    """Record twice and compare."""
    from inspector.capture.opening import open_path

    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "layer.py")
        script.write_text(PROGRAM)
        caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/i", "TRITON_CACHE_DIR": f"{folder}/t"}
        printed: dict[str, str] = {}
        for run in ("cold", "warm"):
            out = Path(folder, f"{run}.ptxview")
            words = [
                sys.executable,
                "-m",
                "inspector",
                "run",
                "--no-tui",
                "-o",
                str(out),
                str(script),
            ]
            done = subprocess.run(words, cwd=REPOSITORY, env={**os.environ, **caches},
                                  capture_output=True, text=True, check=False)  # fmt: skip
            if done.returncode:
                print(done.stderr[-4000:])
                return 1
            if run == "cold":
                printed = dict(ROW.findall(done.stderr))
                head = HEAD.findall(done.stderr)
            tunings = [(k, t) for k in open_path(out).kernels for t in k.autotune if t.operation]
            print(run, [(k.name, len(t.configurations), t.from_cache) for k, t in tunings])
            if len(tunings) != 1:
                wrong.append(f"{run}: {len(tunings)} operations")
                continue
            kernel, tuning = tunings[0]
            if tuning.from_cache is (run == "cold"):
                wrong.append(f"{run}: from_cache is {tuning.from_cache}")
            if run == "cold" and kernel.name not in head:
                wrong.append(f"{kernel.name} is not {head}")
            times = sorted(f"{c.time_us / 1000:.4f}" for c in tuning.configurations
                           if c.time_us is not None)  # fmt: skip
            if times != sorted(t for t in printed.values() if t != "inf"):
                wrong.append(f"{run}: {times} are not {sorted(printed.values())}")
            best = min(printed, key=lambda name: float(printed[name]))
            chosen = None if tuning.winner is None else tuning.winner.config["choice"]
            if chosen != re.sub(r"_\d+$", "", best):
                wrong.append(f"{run}: {chosen} is not {best}")
            lost = [c for c in tuning.configurations
                    if c.maker == "Triton" and c.variant is None and not c.reason]  # fmt: skip
            wrong += [f"{run}: {why}" for why in not_generated(open_path(out), tuning)]
            if run == "cold" and lost:
                wrong.append(f"neither a variant nor a reason: {[dict(c.config) for c in lost]}")
    print("\n".join(wrong) or "all as torch says")
    return 1 if wrong else 0


def not_generated(recording: Recording, tuning: Tuning) -> Iterator[str]:
    """What is wrong with the kernel that is said to be generated from a candidate."""
    every = [use for use in tuning.uses if use.kernel is not None]
    if len(every) != 1 or every[0].configuration is None:
        yield f"{len(every)} kernels were generated from a candidate, not 1"
        return
    (graph,) = recording.graphs
    code = graph.stages[Stage.OUTPUT_CODE].content.read().decode()
    sizes = {name: str(size) for name, size in tuning.configurations[every[0].configuration].config
             .items() if name in ("BLOCK_M", "BLOCK_N", "BLOCK_K")}  # fmt: skip
    if dict(SIZE.findall(code)) != sizes:
        yield f"{every[0].kernel} has {SIZE.findall(code)}, not {sizes}"
    if not any(one.time_us is not None and len(one.nodes) > 1 for one in graph.tried):
        yield f"no fusion has a time: {graph.tried}"


if __name__ == "__main__":
    sys.exit(main())
