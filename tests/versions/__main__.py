"""``python -m tests.versions [TORCH[/TRITON]…]``: which versions of torch and Triton are recorded.

Each pair gets a virtual environment of its own, one at a time, by pip; where no Triton is named, it
is the one that the wheel of torch asks for, or the newest. Three programs run in it through
``ptxview run --target sm_90``, and what stands in their recordings is held against what they make:
kernels with all of their stages, lines that are linked, tunings, graphs, no problem. The
environment is deleted afterwards. A row is printed as soon as it is known, of
the table that stands in docs/measured.md; what differs from what is expected is said below it.

An install takes a minute or two, 4 GB to download and 6 GB of disk, a row three minutes on two
cores. Exits with 1 where a version that runs is not recorded whole.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "tests" / "data" / "versions"
PAIRS = (
    "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0/3.7.1",
    "2.13.0/3.8.0", "2.13.0/3.9.0", "2.14.1", "2.15.0",
)  # fmt: skip
"""What a run without words tries: from the oldest that is supported to the newest."""
BESIDE = ("numpy", "setuptools<81", "ninja")
PATIENCE = 900
"""Seconds that an install may take; one that takes longer is not run, and said to be."""
TRITON_STAGES = ("source", "ttir", "ttgir", "llir", "ptx", "sass")
SAID = 5


@dataclass(frozen=True)
class Program:
    """A program, and what a recording of it holds: kernels' names as patterns, by origin."""

    name: str
    what: str
    origin: str
    kernels: tuple[str, ...]
    stages: tuple[str, ...]
    graphs: int = 0
    tuned: int = 0


PROGRAMS = (
    Program("triton_kernels", "Triton", "triton", ("add_kernel", "tuned_kernel"), TRITON_STAGES,
            tuned=2),
    Program("compiled", "torch.compile", "inductor", ("triton_.*",),
            ("output_code", *TRITON_STAGES), graphs=2),
    Program("extension", "load_inline", "nvcc", ("square_kernel",), ("source", "ptx", "sass")),
)  # fmt: skip


@dataclass
class Row:
    """What came of one pair of versions."""

    asked: str
    torch: str = "–"
    triton: str = "–"
    nvcc: str = "–"
    results: dict[str, str] = field(default_factory=dict)
    differs: list[str] = field(default_factory=list)

    def cells(self) -> list[str]:
        """The row as the table has it."""
        return [self.torch, self.triton, *(self.results.get(p.name, "not run") for p in PROGRAMS)]


class Environment:
    """A virtual environment with one pair of versions, deleted when it is left."""

    def __init__(self, place: Path, python: str) -> None:
        self.folder = place / "environment"
        self.python = self.folder / "bin" / "python"
        subprocess.run([python, "-m", "venv", str(self.folder)], check=True)

    def install(self, asked: str, seconds: float) -> str | None:
        """Why a pair could not be installed; None once it is."""
        torch, _, triton = asked.partition("/")
        began = time.monotonic()
        # A Triton that torch did not ask for is put in its place, without asking what it thinks.
        for words in self._steps(torch, triton):
            said = self._pip(words, seconds - (time.monotonic() - began))
            if said is not None:
                return said
        return None

    def _steps(self, torch: str, triton: str) -> Iterator[list[str]]:
        """What pip is asked for, one thing after the other."""
        yield [f"torch=={torch}", *BESIDE]
        if triton:
            yield ["--no-deps", f"triton=={triton}"]
        elif not self.has("triton"):
            yield ["--no-deps", "triton"]

    def _pip(self, words: Sequence[str], seconds: float) -> str | None:
        argv = [str(self.python), "-m", "pip", "install", "-q", "--no-cache-dir", *words]
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, timeout=max(seconds, 1), check=False
            )
        except subprocess.TimeoutExpired:
            return f"not run: the install took more than {PATIENCE} s"
        if done.returncode:
            last = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            return f"not run: {(last or ['pip failed'])[0][:160]}"
        return None

    def _packages(self) -> Path:
        (folder,) = self.folder.glob("lib/python*/site-packages")
        return folder

    def has(self, package: str) -> bool:
        """Whether a package is installed."""
        return (self._packages() / package).exists()

    def versions(self) -> tuple[str, str]:
        """Those of torch and Triton, as they say them."""
        code = "import torch, triton; print(torch.__version__, triton.__version__)"
        done = subprocess.run(
            [str(self.python), "-c", code], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise OSError((done.stderr.strip().splitlines() or ["python failed"])[-1])
        torch, triton = done.stdout.split()
        return torch, triton


def ptxview(*words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Our own command, by the interpreter that this runs in."""
    argv = [sys.executable, "-m", "inspector", *map(str, words)]
    return subprocess.run(
        argv, capture_output=True, text=True, cwd=ROOT, env=env, timeout=1200, check=False
    )


def recorded(program: Program, python: Path, place: Path) -> Iterator[str]:
    """How the recording of a program differs from what the program makes."""
    out = place / f"{program.name}.ptxview"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PTXVIEW_", "TRITON_"))}
    env |= {
        "TRITON_CACHE_DIR": str(place / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(place / "inductor"),
        "TORCH_EXTENSIONS_DIR": str(place / "extensions"),
        "TMPDIR": str(place), "PYTHONWARNINGS": "ignore", "PATH": path_with(python),
    }  # fmt: skip
    script = PLACE / f"{program.name}.py"
    done = ptxview("run", "--no-tui", "--target", "sm_90", "-o", out, "--python", python, script,
                   env=env)  # fmt: skip
    if done.returncode:
        yield f"exit status {done.returncode}: {(done.stderr.strip().splitlines() or ['–'])[-1]}"
    if not out.exists():
        yield "there is no recording"
        return
    listed = json.loads(ptxview("list", out, "--json").stdout)
    # That nothing is measured without a GPU is said of every version.
    problems = [p for p in listed["recording"]["problems"] if not p.startswith("target: ")]
    yield from (f"problem: {p}" for p in problems)
    yield from differs(program, listed)
    for kernel in listed["kernels"]:
        if kernel["origin"] == program.origin:
            yield from unlinked(program, out, kernel)


def path_with(python: Path) -> str:
    """PATH with an environment's own programs first: ninja is one."""
    return os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])


def differs(program: Program, listed: dict[str, Any]) -> Iterator[str]:
    """What a listing lacks of what a program makes."""
    kernels = [k for k in listed["kernels"] if k["origin"] == program.origin]
    for pattern in program.kernels:
        if not any(re.search(pattern, k["demangled"]) for k in kernels):
            yield f"no kernel {pattern}"
    for kernel in kernels:
        if not any(re.search(p, kernel["demangled"]) for p in program.kernels):
            yield f"kernel {kernel['name']} is not the program's"
        for variant in kernel["variants"]:
            lacking = [s for s in program.stages if s not in variant["stages"]]
            if lacking:
                yield f"{kernel['name']} has no {', '.join(lacking)}"
    graphs = listed["graphs"]
    if len(graphs) != program.graphs:
        yield f"{len(graphs)} graphs, not {program.graphs}"
    lonely = [g["id"] for g in graphs if not g["kernels"]]
    if lonely:
        yield f"graphs without kernels: {', '.join(lonely)}"
    tunings = [t for k in kernels for t in k["autotune"]]
    tried = max((len(t["configurations"]) for t in tunings), default=0)
    if program.tuned and tried != program.tuned:
        yield f"{tried} configurations were tuned, not {program.tuned}"


def unlinked(program: Program, out: Path, kernel: dict[str, Any]) -> Iterator[str]:
    """Stages of a kernel that no line of its PTX is linked to."""
    if not kernel["variants"]:
        yield f"{kernel['name']} has no variant"
        return
    variant = kernel["variants"][0]["id"]
    done = ptxview("show", out, variant, "--stage", "ptx", "--json")
    if done.returncode:
        yield f"{kernel['name']} cannot be shown: {done.stderr.strip()}"
        return
    reached = {
        s for line in json.loads(done.stdout)["lines"] for s, n in line["links"].items() if n
    }
    lacking = [s for s in program.stages if s not in ("ptx", *reached)]
    if lacking:
        yield f"{kernel['name']}: no line of PTX is linked to {', '.join(lacking)}"


def try_pair(
    asked: str, programs: Sequence[Program], place: Path, words: argparse.Namespace
) -> Row:
    """Install one pair, record the programs in it, delete it."""
    row = Row(asked)
    try:
        environment = Environment(place, words.python)
        said = environment.install(asked, words.seconds)
        if said is None:
            row.torch, row.triton = environment.versions()
        for program in programs if said is None else ():
            lines = list(recorded(program, environment.python, place))
            row.results[program.name] = "yes" if not lines else "differs"
            row.differs += [f"{program.what}: {line}" for line in lines[:SAID]]
    except (OSError, subprocess.SubprocessError) as error:
        said = f"not run: {error}"
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if said is not None:
        row.torch, _, row.triton = asked.partition("/")
        row.triton = row.triton or "–"
        row.results = {p.name: "not run" for p in programs}
        row.differs.append(said)
    return row


def main() -> int:
    """Try each pair; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument("pairs", nargs="*", metavar="TORCH[/TRITON]", default=PAIRS)
    parser.add_argument("--python", default=sys.executable, help="what makes the environments")
    parser.add_argument("--seconds", type=float, default=PATIENCE, help="for an install, at most")
    parser.add_argument("--only", action="append", choices=[p.name for p in PROGRAMS])
    asked = parser.parse_args()
    programs = [p for p in PROGRAMS if not asked.only or p.name in asked.only]
    heads = ["torch", "triton", *(p.what for p in PROGRAMS)]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    status = 0
    for pair in asked.pairs:
        with tempfile.TemporaryDirectory(prefix="ptxview-versions-") as place:
            row = try_pair(pair, programs, Path(place) / "pair", asked)
        print(f"| {' | '.join(row.cells())} |", flush=True)
        for line in row.differs:
            print(f"  {line}", file=sys.stderr, flush=True)
        if "differs" in row.results.values():
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
