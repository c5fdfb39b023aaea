"""Launches that cannot be run again must fail alone, each with one clear error.

    python -m tests.gpu.time_failures

Run by hand on a machine with a GPU; takes about a minute. It records a program of small launches
that were harmless there and are not on new inputs: one reads where a table of addresses leads (all
zeros here), one waits for a value that never comes, one call needs more memory than there is, one
kills its process, one raises. Then ``ptxview time`` must fail on those alone and have a time of
every other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

ROOT = Path(__file__).parents[2]
PTXVIEW = "import sys; from inspector.cli import main; raise SystemExit(main(sys.argv[1:]))"
# What each row's error must have in it; None: a time.
EXPECTED = {
    "first_kernel": None,
    "far_kernel": "illegal memory access",
    "second_kernel": None,
    "wait_kernel": "did not finish within 15 s",
    "third_kernel": None,
    "huge": "out of memory",
    "killed": "SIGKILL",
    "raises": "NameError",
    "gone": "its code is gone",
    "last_kernel": None,
}
# Kinds of code that a graph's call may have; the recording below carries them as graphs.
GRAPHS = {
    "huge": "import torch\ndef call(args):\n    return torch.empty(1 << 46, device='cuda')\n",
    "killed": "import os, signal\ndef call(args):\n    os.kill(os.getpid(), signal.SIGKILL)\n",
    "raises": "def call(args):\n    return nothing\n",
}


@triton.jit  # type: ignore[untyped-decorator]
def first_kernel(out, block: tl.constexpr):  # type: ignore[no-untyped-def]
    tl.store(out + tl.arange(0, block), 1.0)


@triton.jit  # type: ignore[untyped-decorator]
def far_kernel(table, block: tl.constexpr):  # type: ignore[no-untyped-def]
    out = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(out + tl.arange(0, block), 2.0)


@triton.jit  # type: ignore[untyped-decorator]
def second_kernel(out, block: tl.constexpr):  # type: ignore[no-untyped-def]
    tl.store(out + tl.arange(0, block), 3.0)


@triton.jit
def wait_kernel(value):  # type: ignore[no-untyped-def]
    while tl.load(value, volatile=True) < 5000.0:
        pass


@triton.jit  # type: ignore[untyped-decorator]
def third_kernel(out, block: tl.constexpr):  # type: ignore[no-untyped-def]
    tl.store(out + tl.arange(0, block), 4.0)


@triton.jit  # type: ignore[untyped-decorator]
def last_kernel(out, block: tl.constexpr):  # type: ignore[no-untyped-def]
    tl.store(out + tl.arange(0, block), 5.0)


def program() -> None:
    """The program that is recorded."""
    out = torch.zeros(1024, device="cuda")
    value = torch.full((1,), 7000.0, device="cuda")
    table = torch.tensor([out.data_ptr()], device="cuda", dtype=torch.int64)
    first_kernel[(1,)](out, block=1024)
    # Recorded without ranges: nobody knows which integers these were, and new ones are zeros.
    far_kernel[(1,)](table, block=1024)
    second_kernel[(1,)](out, block=1024)
    wait_kernel[(1,)](value)
    third_kernel[(1,)](out, block=1024)
    last_kernel[(1,)](out, block=1024)
    torch.cuda.synchronize()


def add_calls(recording: Path) -> None:
    """Calls of graphs whose code does harm and of a library that is gone, as probes tell them."""
    from inspector.recording.layout import Writer

    writer = Writer(recording)
    pid, time = 1, 4e9
    for n, (name, code) in enumerate(GRAPHS.items()):
        path = f"/nowhere/{name}.py"
        writer.event(event="graph", path=path, blob=writer.blob(code.encode()), id=name, time=time)
        writer.event(event="call", id=n, kind="graph", name="", first=n, grid=None, arguments=[],
                     subject=path, time=time, pid=pid)  # fmt: skip
    writer.event(event="call", id=9, kind="extension", name="module.gone", first=9, grid=None,
                 arguments=[], subject="module.gone", time=time, pid=pid,
                 library={"path": "/nowhere/module.so", "size": 1, "sha256": None})  # fmt: skip
    writer.close()


def ptxview(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PTXVIEW, *words], cwd=ROOT, text=True, capture_output=True,
    )  # fmt: skip


def main(argv: list[str]) -> int:
    if argv[:1] == ["--program"]:
        program()
        return 0
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder) / "recording"
        ran = ptxview("run", "--no-tui", "--no-ranges", "-o", str(recording), "-m",
                      "tests.gpu.time_failures", "--program")  # fmt: skip
        print(ran.stderr[-2000:])
        add_calls(recording)
        done = ptxview("time", str(recording), "--trust", "--json", "--limit", "15", "--seconds",
                       "0.5")  # fmt: skip
        print(done.stderr)
        rows = json.loads(done.stdout)["rows"]
        wrong = done.returncode != 1 or "Traceback" in done.stderr
        seen: dict[str, dict[str, Any]] = {}
        for row in rows:
            seen[row["kernel"].rpartition(".")[2]] = row
        for name, error in EXPECTED.items():
            row = seen.get(name)
            if row is None:
                fine = False
            elif error is None:
                fine = row["error"] is None and row["median_us"] is not None
            else:
                fine = error in str(row["error"]) and row["median_us"] is None
            wrong = wrong or not fine
            said = None if row is None else (row["median_us"], row["error"])
            print(f"{'as it should be' if fine else 'WRONG'}: {name}: {said}")
        without = ptxview("time", str(recording), "first_kernel", "--trust", "--python",
                          "/nowhere/python")  # fmt: skip
        print(without.returncode, without.stderr)
        wrong = wrong or without.returncode != 3 or len(without.stderr.splitlines()) > 3
    print("as it should be" if not wrong else "NOT as it should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
