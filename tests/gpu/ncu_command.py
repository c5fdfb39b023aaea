"""``ptxview ncu`` with the real ncu: that its options work, and launches and samples find home.

    python -m tests.gpu.ncu_command

Run by hand on a machine with a GPU and Nsight Compute, from the repository's root; about a minute.
Every launch must be tied to a variant, the samples of every kernel stand at its lines, and their
sums equal those of the report. Where ncu may not read the counters, ``ptxview ncu`` must say so in
one sentence, exit with 3 and keep the recording, and this exits with 0.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SELF = "tests.gpu.ncu_command"
# Inductor tunes its kernel, and launches it as often as it likes.
LAUNCHES = {"square_kernel": 2, "softmax_kernel": 1, "triton_poi_fused_pow_0": None}
MOST = 10


def program() -> None:
    """Two variants of one kernel, one of another, and one that Inductor makes."""
    import torch

    from kernels.softmax import softmax
    from kernels.square import square

    square(torch.randn(64, 1024, device="cuda"))
    x = torch.randn(1823, 781, device="cuda")
    square(x)
    softmax(x)
    torch.compile(torch.square)(x)
    torch.cuda.synchronize()
    print("the program's own words")


def ptxview(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "inspector", *words],
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip


def check(folder: Path) -> list[str]:
    """What is wrong."""
    out = folder / "squares.ptxview"
    names = "|".join(LAUNCHES)
    done = ptxview(
        "ncu", "-o", str(out), "--kernel", f"regex:^({names})$", "--launch-count", str(MOST),
        "--report", str(folder / "squares.ncu-rep"), "-m", SELF, "--program",
    )  # fmt: skip
    print(done.stderr)
    wrong = [] if done.stdout == "the program's own words\n" else [f"stdout: {done.stdout!r}"]
    if "ERR_NVGPUCTRPERM" in done.stderr:
        print("Counters are not permitted here.")
        kept = ptxview("list", str(out), "--json")
        held = json.loads(kept.stdout)["kernels"] if kept.returncode == 0 else []
        wrong += [] if done.returncode == 3 else [f"exit status {done.returncode}, not 3"]
        return wrong + ([] if held else ["the recording is lost"])
    if done.returncode:
        return [f"exit status {done.returncode}"]
    value = json.loads(ptxview("list", str(out), "--json").stdout)
    wrong += _attached(value, out)
    alone = json.loads(ptxview("list", str(folder / "squares.ncu-rep"), "--json").stdout)
    if len(alone["ncu"]["launches"]) != len(value["ncu"]["launches"]):
        wrong.append("the report alone has other launches")
    if os.environ.get("OUT"):
        for page in ("details", "raw", "source"):
            _export(folder / "squares.ncu-rep", page)
    return wrong


def _attached(value: dict[str, Any], out: Path) -> list[str]:
    wrong = []
    seen: dict[str, int] = {}
    for one in value["ncu"]["launches"]:
        seen[one["function"]] = seen.get(one["function"], 0) + 1
        if one["variant"] is None:
            wrong.append(f"launch {one['id']} of {one['function']}: {one['unattached']}")
        if one["duration_us"] is None or one["registers"] is None:
            wrong.append(f"launch {one['id']} of {one['function']} lacks figures: {one}")
    for name, many in LAUNCHES.items():
        if seen.get(name, 0) != (many if many is not None else seen.get(name, 0) or 1):
            wrong.append(f"{seen.get(name, 0)} launches of {name}")
    for kernel in value["kernels"]:
        for variant in kernel["variants"]:
            if variant["ncu"] is None:
                continue
            if why := variant["ncu"]["samples_missing"]:
                wrong.append(f"{kernel['name']} {variant['id']}: {why}")
                continue
            wrong += _lines(kernel["name"], variant, out)
    return wrong


def _lines(name: str, variant: dict[str, Any], out: Path) -> list[str]:
    told = variant["ncu"]["samples"]["all"]
    summed = sum(one["samples"]["all"] for one in variant["ncu"]["launches"])
    shown = json.loads(ptxview("show", str(out), variant["id"], "--stage", "sass", "--json").stdout)
    lines = sum(line["samples"]["all"] for line in shown["lines"] if line["samples"])
    print(f"{name} {variant['id']}: {told} samples, {summed} in the report, {lines} at lines")
    return [] if told == summed == lines else [f"{name}: samples {told}, {summed}, {lines}"]


def _export(report: Path, page: str) -> None:
    """What the real ncu printed, to look at."""
    from inspector.measure.ncu.files import need

    done = subprocess.run(
        [str(need()), "--import", str(report), "--csv", "--page", page],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    Path(os.environ["OUT"], f"{page}.csv").write_text(done.stdout)


def main(argv: list[str]) -> int:
    if argv[:1] == ["--program"]:
        program()
        return 0
    with tempfile.TemporaryDirectory(prefix="ptxview-ncu-") as folder:
        wrong = check(Path(folder))
    for said in wrong:
        print(f"WRONG: {said}")
    print("NOT as it should be" if wrong else "as it should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
