"""Whether a time is lost when very many are taken one after another, and how long one takes.

    python -m tests.gpu.time_rows [ROWS]

Run by hand on a machine with a GPU, from the repository's root; it takes about two minutes. It
records one training step of a small GPT-2 that is compiled, takes the times of all its kernels with
``ptxview time --seconds 0.5``, and then the same launches over and over in one process until there
are ROWS (1,000). It prints the seconds of both and each row that has no time, and exits with 1
where there is one. At the end it looks whether torch.profiler still sees every launch in a process
in which CUPTI was used, and whether CUPTI does afterwards.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SELF = "tests.gpu.time_rows"
LAUNCHES = 50


def program() -> None:
    """One training step of a small GPT-2, compiled."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    width, heads, words = 768, 12, 50304

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            rows, length, _ = x.shape
            parts = self.attend(self.before(x)).split(width, 2)
            q, k, v = (p.view(rows, length, heads, -1).transpose(1, 2) for p in parts)
            scores = (q @ k.transpose(-2, -1)) * (width // heads) ** -0.5
            masked = scores.masked_fill(self.mask(length, x.device), float("-inf"))
            seen = masked.softmax(-1).to(v.dtype) @ v
            x = x + self.project(seen.transpose(1, 2).reshape(rows, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.between(x))))

        @staticmethod
        def mask(length: int, device: Any) -> Any:
            return torch.ones(length, length, device=device, dtype=torch.bool).triu(1)

    class Model(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(1024, width)
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.last = nn.LayerNorm(width)

        def forward(self, at: Any, wanted: Any) -> Any:
            x = self.words(at) + self.places(torch.arange(at.shape[1], device=at.device))
            for block in self.blocks:
                x = block(x)
            scores = self.last(x) @ self.words.weight.t()
            return nn.functional.cross_entropy(scores.flatten(0, 1).float(), wanted.flatten())

    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = torch.compile(optimizer.step)
    compiled = torch.compile(model)
    at = torch.randint(0, words, (4, 257), device="cuda")
    for _ in range(2):
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(at[:, :-1], at[:, 1:])
        loss.backward()
        step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


def again(recording: Path, rows: int) -> int:
    """The launches of a recording over and over in one process; how many rows have no time."""
    from inspector.commands.common import open_reader
    from inspector.measure.time import child
    from inspector.measure.time.child import TimeWish
    from inspector.measure.time.take import _jobs, ready

    reader = open_reader(str(recording))
    recorded = reader.recording
    wish = TimeWish(seconds=0.5, python=sys.executable)
    given = ready(reader, recording, recorded.variants(), wish, ())
    jobs = _jobs(reader, recording, given).told
    many = [jobs[n % len(jobs)] for n in range(rows)]
    began = time.monotonic()
    gathered = child.measure(sys.executable, many, wish)
    took = time.monotonic() - began
    failed: collections.Counter[str] = collections.Counter()
    for n in range(rows):
        said = gathered.rows.get(n) or [{"error": "nothing was said of it"}]
        failed.update(str(one["error"]) for one in said if "error" in one)
        warned = [w for one in said for w in one.get("warnings", ())]  # type: ignore[attr-defined]
        failed.update(str(w) for w in warned if "torch.profiler" in str(w))
    lost = sum(failed.values())
    print(f"{rows} rows of {len(jobs)} launches in one process: {lost} lost, {took:.1f} s")
    for text, times in failed.items():
        print(f"  {times} × {text}")
    return lost


def beside() -> int:
    """torch.profiler and CUPTI by turns in this process; 1 where either misses a launch."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from inspector.probes.replay.trace import Records, Unavailable, device_events, trace_of

    x = torch.randn(1 << 20, device="cuda")
    trace = trace_of(torch)
    assert isinstance(trace, Records), trace.note

    def work() -> None:
        for _ in range(LAUNCHES):
            torch.square(x)

    def by_profiler() -> int:
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
            work()
            torch.cuda.synchronize()
        return len(device_events(profiler))

    def by_cupti() -> int:
        with trace:
            return len(trace.saw(work, lambda events: len(events) >= LAUNCHES))

    work()
    turns = [by_profiler, by_cupti, by_cupti, by_profiler, by_profiler, by_cupti, by_profiler]
    seen = [turn() for turn in turns * 5]
    print(f"torch.profiler and CUPTI by turns, launches seen of {LAUNCHES}: {seen}")
    refused = False
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        work()
        try:
            by_cupti()
        except Unavailable as error:
            refused = True
            print(f"while torch.profiler runs: {error}")
        torch.cuda.synchronize()
    whole = len(device_events(profiler))
    print(f"and it saw {whole} of {LAUNCHES}")

    def profiled_call() -> None:  # a call that has a profiler of its own
        by_profiler()

    with trace:
        within = [len(trace.saw(profiled_call, lambda events: len(events) >= LAUNCHES))]
        within.append(len(trace.saw(work, lambda events: len(events) >= LAUNCHES)))
    print(f"a call with a profiler of its own, and one without after it: {within}")
    return 0 if set(seen) == {LAUNCHES} and refused and within[1] == whole == LAUNCHES else 1


def main(argv: list[str]) -> int:
    if argv[:1] == ["--program"]:
        program()
        return 0
    if argv[:1] == ["--beside"]:
        return beside()
    rows = int(argv[0]) if argv else 1000
    with tempfile.TemporaryDirectory(prefix="ptxview-rows-") as folder:
        recording = Path(os.environ.get("RECORDING") or Path(folder, "gpt.ptxview"))
        tool = (sys.executable, "-m", "inspector")
        if not recording.exists():
            made = subprocess.run(
                (*tool, "run", "--no-tui", "-o", str(recording), "-m", SELF, "--program"),
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if made.returncode:
                raise SystemExit(f"the program failed:\n{made.stderr[-2000:]}")
        began = time.monotonic()
        done = subprocess.run(
            (*tool, "time", str(recording), "--trust", "--json", "--seconds", "0.5"),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        took = time.monotonic() - began
        try:
            times = json.loads(done.stdout)["rows"]
        except (ValueError, KeyError):
            raise SystemExit(f"ptxview time failed:\n{done.stderr[-2000:]}") from None
        failed = [r for r in times if r["error"]]
        print(f"ptxview time --seconds 0.5: {len(times)} rows, {len(failed)} failed, {took:.1f} s")
        for one in failed:
            print(f"  {one['kernel']}: {one['error']}")
        lost = again(recording, rows) if rows else 0
    apart = subprocess.run((sys.executable, "-m", SELF, "--beside"), check=False).returncode
    return 1 if failed or lost or apart else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
