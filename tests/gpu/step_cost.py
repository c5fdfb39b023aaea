"""``python -m tests.gpu.step_cost [--pairs 6] [--seconds 12]``: the cost of recording a step.

GPT-2 (12 layers of 768, eager, AdamW, one sequence of 128 tokens) is trained bare, under
``ptxview run`` and with ``TORCH_TRACE`` alone, in alternated order. Each process trains for some
seconds and prints the median of its later half's steps, whose launches are sampled by then. Needs a
GPU, torch, and the driver library: ``pip install --no-build-isolation -e .``, or::

    cc -O2 -shared -fPIC -pthread inspector/probes/driver/driver.c \\
        -o inspector/probes/driver/ptxview_driver.so -ldl -Wl,-z,nodelete
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from inspector.capture import machine

ROOT = Path(__file__).parents[2]
PROGRAM = """
import statistics, sys, time
import torch
torch.manual_seed(0)
try:
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config()).cuda()
    tokens = torch.randint(50257, (1, 128), device="cuda")
    def loss():
        return model(tokens, labels=tokens).loss
except ImportError:
    layer = torch.nn.TransformerEncoderLayer(
        768, 12, 3072, activation="gelu", batch_first=True, norm_first=True)
    body = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
    model = torch.nn.Sequential(
        torch.nn.Embedding(50257, 768), body, torch.nn.Linear(768, 50257)).cuda()
    tokens = torch.randint(50257, (1, 128), device="cuda")
    def loss():
        return torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
model.train()
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
seconds, took, began = float(sys.argv[1]), [], time.perf_counter()
while time.perf_counter() - began < seconds:
    at = time.perf_counter()
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()
    torch.cuda.synchronize()
    took.append((time.perf_counter() - at) * 1e3)
print("step_ms", statistics.median(took[len(took) // 2:]), flush=True)
"""


def step_ms(way: str, seconds: float, place: Path) -> float:
    """The median of a process's later steps."""
    program = [sys.executable, "-c", PROGRAM, str(seconds)]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PTXVIEW_", "TORCH_TRACE"))}
    if way == "run":
        out = place / f"{len(list(place.iterdir()))}.ptxview"
        program = [sys.executable, "-m", "inspector", "run", "--no-tui", "-o", str(out), "--",
                   *program]  # fmt: skip
    elif way == "TORCH_TRACE":
        env["TORCH_TRACE"] = str(place / "trace")
    done = subprocess.run(program, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("step_ms ")]
    if done.returncode or not lines:
        raise SystemExit(f"{way} ended with {done.returncode}: {done.stderr[-2000:]}")
    return float(lines[-1].split()[1])


def main() -> None:
    """Print medians and quartiles of the step, and the ratio of each pair."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.step_cost")
    parser.add_argument("--pairs", type=int, default=6, help="runs of each way (6)")
    parser.add_argument("--seconds", type=float, default=12, help="of each run's training (12)")
    asked = parser.parse_args()
    if machine.driver_library() is None:
        raise SystemExit("the driver library is not built: see this module's text")
    rows: dict[str, list[float]] = {"bare": [], "run": [], "TORCH_TRACE": []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(asked.pairs):
            for way in rows if turn % 2 else reversed(rows):
                rows[way].append(step_ms(way, asked.seconds, Path(folder)))
            print(f"pair {turn + 1}:", {w: f"{r[-1]:.3f}" for w, r in rows.items()}, flush=True)
    for way, each in rows.items():
        ratios = [a / b for a, b in zip(each, rows["bare"], strict=True)]
        for what, values in (("ms", each), ("times bare", ratios)):
            low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
            print(f"{way:<12} {middle:7.3f} ({low:.3f} … {high:.3f}) {what}")
        print(f"{way:<12} ratios {' '.join(f'{r:.3f}' for r in ratios)}")


if __name__ == "__main__":
    main()
