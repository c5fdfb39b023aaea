"""``python -m tests.versions [TORCH[/TRITON]…]``: recordings under other torch and Triton versions.

Each pair gets a new virtual environment, one at a time, by pip; without a named Triton, the
one that torch's wheel asks for, or the newest. Three programs run in it through ``ptxview run
--target sm_90``, and their recordings are compared with what they make: kernels with all of their
stages, linked lines, tunings, graphs, no problem. Prints a row of the table in
docs/explanation/accuracy.md as soon as it is known, and each difference below it.

An install takes a minute or two, 4 GB to download and 6 GB of disk, a row three minutes on two
cores. Exits with 1 where a version that runs is not recorded whole.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.versions import languages

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "tests" / "data" / "versions"
PAIRS = (
    *("2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1"),
    *("2.13.0/3.7.1", "2.13.0/3.8.0", "2.13.0/3.9.0", "2.14.1", "2.15.0"),
)
BESIDE = ("numpy", "setuptools<81", "ninja")
MAX_INSTALL_SECONDS = 900
MAX_DIFFERENCES = 5
TRITON_STAGES = ("source", "ttir", "ttgir", "llir", "ptx", "sass")


@dataclass(frozen=True)
class Program:
    """A program, and the contents of its recording: kernels' names as patterns, by origin."""

    name: str
    title: str
    origin: str
    kernels: tuple[str, ...]
    stages: tuple[str, ...]
    graphs: int = 0
    tuned: int = 0


KERNELS = ("add_kernel", "tuned_kernel")
GRAPH_STAGES = ("output_code", *TRITON_STAGES)
PROGRAMS = (
    Program("triton_kernels", "Triton", "triton", KERNELS, TRITON_STAGES, 0, 2),
    Program("compiled", "torch.compile", "inductor", ("triton_.*",), GRAPH_STAGES, 2),
    Program("extension", "load_inline", "nvcc", ("square_kernel",), ("source", "ptx", "sass")),
)


def environment(pair: str, place: Path) -> Path:
    """Install a pair of versions; the interpreter. Raises ``CalledProcessError``."""
    python = place / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    torch, _, triton = pair.partition("/")
    # A Triton that torch did not ask for replaces the one that it did.
    for words in (
        [f"torch=={torch}", *BESIDE],
        ["--no-deps", f"triton=={triton}" if triton else "triton"],
    ):
        pip = [str(python), "-m", "pip", "install", "-q", "--no-cache-dir", *words]
        subprocess.run(pip, check=True, timeout=MAX_INSTALL_SECONDS)
    return python


def versions(python: Path) -> list[str]:
    code = "import torch, triton; print(torch.__version__, triton.__version__)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def ptxview(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "inspector", *map(str, words)]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PTXVIEW_", "TRITON_"))}
    return subprocess.run(
        argv, capture_output=True, text=True, cwd=ROOT, env=kept | env, timeout=1200, check=False
    )


def differences(program: Program, python: Path, place: Path) -> Iterator[str]:
    """Yield how the recording of a program differs from what the program makes."""
    out = place / f"{program.name}.ptxview"
    done = ptxview(
        *("run", "--no-tui", "--target", "sm_90", "-o", out, "--python", python),
        PLACE / f"{program.name}.py",
        TRITON_CACHE_DIR=str(place / "triton"),
        TORCHINDUCTOR_CACHE_DIR=str(place / "inductor"),
        TORCH_EXTENSIONS_DIR=str(place / "extensions"),
        TMPDIR=str(place),
        PYTHONWARNINGS="ignore",
        PATH=os.pathsep.join([str(python.parent), os.environ.get("PATH", "")]),  # for its ninja
    )
    if done.returncode or not out.exists():
        yield f"exit status {done.returncode}: {(done.stderr.strip().splitlines() or ['–'])[-1]}"
        return
    listed = json.loads(ptxview("list", out, "--json").stdout)
    # Every version says that nothing is measured without a GPU.
    problems = [p for p in listed["recording"]["problems"] if not p.startswith("target: ")]
    yield from (f"problem: {p}" for p in problems)
    kernels = [k for k in listed["kernels"] if k["origin"] == program.origin]
    names = [k["demangled"] for k in kernels]
    for pattern in program.kernels:
        if not any(re.search(pattern, name) for name in names):
            yield f"no kernel {pattern}"
    for name in names:
        if not any(re.search(pattern, name) for pattern in program.kernels):
            yield f"kernel {name} is not the program's"
    if len(listed["graphs"]) != program.graphs:
        yield f"{len(listed['graphs'])} graphs, not {program.graphs}"
    yield from (f"graph {g['id']} has no kernels" for g in listed["graphs"] if not g["kernels"])
    tried = max((len(t["configurations"]) for k in kernels for t in k["autotune"]), default=0)
    if program.tuned and tried != program.tuned:
        yield f"{tried} configurations were tuned, not {program.tuned}"
    for kernel in kernels:
        yield from unlinked(program, out, kernel)


def unlinked(program: Program, out: Path, kernel: dict[str, Any]) -> Iterator[str]:
    """Yield the stages that a kernel lacks, or that no line of its PTX is linked to."""
    for variant in kernel["variants"]:
        if lacking := [stage for stage in program.stages if stage not in variant["stages"]]:
            yield f"{kernel['name']} has no {', '.join(lacking)}"
    identity = kernel["variants"][0]["id"] if kernel["variants"] else kernel["name"]
    done = ptxview("show", out, identity, "--stage", "ptx", "--json")
    if done.returncode:
        yield f"{kernel['name']} cannot be shown: {done.stderr.strip()}"
        return
    lines = json.loads(done.stdout)["lines"]
    reached = {stage for line in lines for stage, linked in line["links"].items() if linked}
    if lacking := [stage for stage in program.stages if stage not in ("ptx", *reached)]:
        yield f"{kernel['name']}: no line of PTX is linked to {', '.join(lacking)}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument("pairs", nargs="*", metavar="TORCH[/TRITON]", default=PAIRS)
    parser.add_argument("--languages", action="store_true", help="of other languages: PACKAGE…")
    parser.add_argument("--only", action="append", choices=[p.name for p in PROGRAMS])
    asked = parser.parse_args()
    if asked.languages:
        wanted = [] if asked.pairs is PAIRS else asked.pairs
        print("| package | release | stages |\n|---|---|---|", flush=True)
        told = []
        for row, said in languages.rows(wanted):
            print(row, flush=True)
            told.append(said)
        return int(any(told))
    programs = [p for p in PROGRAMS if not asked.only or p.name in asked.only]
    heads = ["torch", "triton", *(p.title for p in programs)]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    status = 0
    for pair in asked.pairs:
        with tempfile.TemporaryDirectory(prefix="ptxview-versions-") as folder:
            place, told = Path(folder), list[str]()
            try:
                python = environment(pair, place)
                cells = versions(python)
                for program in programs:
                    found = list(differences(program, python, place))
                    cells.append("differs" if found else "yes")
                    told += [f"{program.title}: {text}" for text in found[:MAX_DIFFERENCES]]
            except (OSError, subprocess.SubprocessError) as error:
                cells, told = [pair, "–", *["not run"] * len(programs)], [str(error)]
        print(f"| {' | '.join(cells)} |", *(f"  {text}" for text in told), sep="\n", flush=True)
        status = max(status, int("differs" in cells))
    return status


if __name__ == "__main__":
    sys.exit(main())
