"""Two ranks of torchrun, each on its GPU, which compile and launch different things.

    python -m tests.gpu.ranks

Run by hand on a machine with two GPUs; where there is one, both ranks use it, and Gloo. Exits with
1 where the recording tells other launches than the ranks were written to make, a kernel of NCCL's
is missing, or what they compiled differently is not told, from one folder or from two.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

GPUS = torch.cuda.device_count()
ROOT = Path(__file__).parents[2]
KERNELS = """
import triton
import triton.language as tl

@triton.jit
def copy(out, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n), at < n)
"""
PROGRAM = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import kernels

rank = int(os.environ["RANK"])
both = torch.cuda.device_count() > 1
device = rank if both else 0
torch.cuda.set_device(device)
dist.init_process_group("nccl" if both else "gloo")
x = torch.ones(64, device="cuda")
for _ in range(5 + rank):
    kernels.copy[(1,)](x.clone(), x, 64 if rank else 63, BLOCK=64)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(64, 64).cuda(), device_ids=[device])
step = torch.compile(model, dynamic=False)
for n in (32, 48 if rank else 32):  # as many steps: each is a collective operation
    for _ in range(3):
        step(torch.ones(n, 64, device="cuda")).relu().sum().backward()
total = torch.tensor([rank + 1.0], device="cuda")
dist.all_reduce(total)
sys.stdout.write(f"rank {rank} of {dist.get_world_size()}: {total.item()}\\n")
dist.destroy_process_group()
"""


def listed(*paths: Path) -> dict[str, Any]:
    """What ``list --json`` says."""
    done = subprocess.run([sys.executable, "-m", "inspector", "list", "--json", *paths], cwd=ROOT,
                          capture_output=True, check=True)  # fmt: skip
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def main() -> int:
    """Record, and hold it against what was written."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        folder, recording = Path(place), Path(place, "recording")
        (folder / "kernels.py").write_text(KERNELS)
        (folder / "program.py").write_text(PROGRAM)
        done = subprocess.run(
            [sys.executable, "-m", "inspector", "run", "--no-tui", "-o", recording, "--",
             sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
             "program.py"], cwd=folder, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
                 "TRITON_CACHE_DIR": f"{folder}/t", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/i"},
        )  # fmt: skip
        print(done.stdout, done.stderr[-1500:])
        if sorted(done.stdout.splitlines()) != [f"rank {n} of 2: 3.0" for n in range(2)]:
            wrong.append(f"it printed {done.stdout!r}, status {done.returncode}")
            wrong += [row for row in done.stderr.splitlines() if "Error" in row or "rror:" in row][
                :12
            ]
        document = listed(recording)
        for kernel in document["kernels"]:
            for one in kernel["variants"]:
                print(
                    kernel["origin"], kernel["name"][:60], one["id"], one["ranks"], one["launches"]
                )
        copies = {
            tuple(variant["ranks"]): variant["launches"]
            for kernel in document["kernels"]
            for variant in kernel["variants"]
            if kernel["name"] == "copy"
        }
        if copies != {(0,): 5, (1,): 6}:
            wrong.append(f"copy: {copies}")
        if GPUS > 1 and not any("nccl" in k["name"].lower() for k in document["kernels"]):
            wrong.append("no kernel of NCCL's")
        told = {(one["kind"], one["text"]) for one in document["ranks"]["differences"]}
        print(*sorted(told), sep="\n")
        if not {"variant", "compiles"} <= {kind for kind, _ in told}:
            wrong.append(f"differences: {told}")
        disks = []
        for rank in (0, 1):
            disks.append(folder / f"node{rank}")
            shutil.copytree(recording, disks[-1])
        for rank in (0, 1):
            for file in recording.glob("events-*"):
                if json.loads(file.read_text().splitlines()[0]).get("rank") == rank:
                    (disks[1 - rank] / file.name).unlink()
        apart = {one["kind"] for one in listed(*disks)["ranks"]["differences"]}
        print("from two folders:", sorted(apart))
        if not {"variant", "compiles"} <= apart:
            wrong.append(f"from two folders: {apart}")
    print("\n".join(wrong) or "both ranks are told as they are")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
