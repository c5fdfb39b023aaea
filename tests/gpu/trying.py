"""Kernels that are tried on a GPU: whether results agree, what faults, and how long they take.

    ptxview run --no-tui -o tried.ptxview -m tests.gpu.trying --program
    python -m tests.gpu.trying --against tried.ptxview

Run by hand on a machine with a GPU. The second command tries each kernel of the program with other
warps and with edited stages, and prints what came of it; it exits with 1 where that is not what the
edit makes of the results, or where the recorded kernel's time is further than 10 % or 0.3 µs from
the one that `ptxview time` takes of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def twice(out, x, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)


@triton.jit  # type: ignore[untyped-decorator]
def summed(out, x, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0), axis=0))


def program() -> None:
    """Launches both."""
    import torch

    x = torch.randn(1 << 22, device="cuda")
    twice[(1 << 12,)](torch.empty_like(x), x, x.numel(), BLOCK=1024)
    summed[(1 << 12,)](torch.zeros(1, device="cuda"), x, x.numel(), BLOCK=1024)
    torch.cuda.synchronize()


def ptxview(*words: str | Path) -> subprocess.CompletedProcess[bytes]:
    """One command of ours."""
    argv = [sys.executable, "-m", "inspector", *map(str, words)]
    return subprocess.run(argv, capture_output=True, check=False)


def tried(recorded: str, *words: str | Path, status: int = 0) -> Any:
    """The JSON of a trial."""
    done = ptxview("try", recorded, *words, "--trust", "--json")
    assert done.returncode == status, done.stderr.decode()
    return json.loads(done.stdout)


def told(value: Any) -> None:
    """What came of it, on the terminal."""
    for column in value["columns"]:
        time, results = column["time"] or {}, column["results"] or {}
        print(f"{value['kernel']:8} {column['label']:16} {time.get('median_us')} µs",
              results.get("identical"), results.get("steady"), results.get("why") or "",
              *(f"{t['differing']}/{t['elements']} {t['largest']}"
                for t in results.get("tensors", ())))  # fmt: skip


def against(recorded: str) -> bool:
    """Whether all is as the edits make it."""
    fits = []
    warps = tried(recorded, "twice", "--num-warps", "2,8")
    told(warps)
    fits += [c["results"]["identical"] is True for c in warps["columns"][1:] if c["results"]]
    fits += [c["time"]["median_us"] is not None for c in warps["columns"]]
    timed = json.loads(ptxview("time", recorded, "twice", "--trust", "--json").stdout)
    usual, own = timed["rows"][0]["median_us"], warps["columns"][0]["time"]["median_us"]
    print(f"ptxview time: {usual} µs, in the trial {own} µs")
    fits.append(abs(usual - own) < max(0.3, usual / 10))
    with tempfile.TemporaryDirectory() as name:
        ttir, ptx = Path(name) / "x.ttir", Path(name) / "x.ptx"
        text = ptxview("show", recorded, "twice", "--stage", "ttir").stdout.decode()
        ttir.write_text(text.replace("2.000000e+00", "3.000000e+00"))
        other = tried(recorded, "twice", "--stage", "ttir", ttir)
        told(other)
        (out,) = other["columns"][-1]["results"]["tensors"]
        fits.append(abs(out["b"] / out["a"] - 1.5) < 1e-6 and out["differing"] > 4_000_000)
        text = ptxview("show", recorded, "twice", "--stage", "ptx").stdout.decode()
        ptx.write_text(text.replace("mul.wide.s32", "mul.wide.u32").replace(", 4;", ", 1000000;"))
        wild = tried(recorded, "twice", "--stage", "ptx", ptx, status=1)
        told(wild)
        fits.append(wild["columns"][-1]["results"]["fault"])
    unsteady = tried(recorded, "summed", "--num-warps", "8")
    told(unsteady)
    fits.append(unsteady["columns"][-1]["results"]["tensors"][0]["largest"] is not None)
    return all(fits)


if __name__ == "__main__":
    if sys.argv[1] == "--program":
        program()
    else:
        sys.exit(not against(sys.argv[2]))
