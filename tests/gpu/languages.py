"""Run a vector add in each language that is installed, bare and recorded.

    python -m tests.gpu.languages [NAME…] [--target sm_90]

Run by hand on a machine with a GPU; ``--target`` is for one without: the programs then compile
ahead, or run on the emulated device. Prints a row a language: whether status and standard output
are the bare program's, the seconds, and each kernel with its stages; 1 where any differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import site
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = REPOSITORY / "tests" / "data" / "languages"
SECONDS = 300
_IMPORT = re.compile(r"^(?:from|import) ([\w.]+)", re.MULTILINE)


def missing(program: Path) -> list[str]:
    """The packages that a program imports and that are not installed."""
    names = {name.partition(".")[0] for name in _IMPORT.findall(program.read_text("utf-8"))}
    return sorted(name for name in names if find_spec(name) is None)


def run(program: Path, place: Path, words: list[str]) -> tuple[int, str, str, float]:
    """Run a program with new caches; its status, output, errors and seconds."""
    names = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUPY_CACHE_DIR", "WARP_CACHE_PATH")
    env = {**os.environ, **{name: str(place / "caches" / name) for name in names}}
    env.update(XDG_CACHE_HOME=str(place / "caches"), XLA_PYTHON_CLIENT_PREALLOCATE="false")
    env["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), *sys.path[1:]])
    began = time.monotonic()
    argv = [sys.executable, *words, str(program)]
    try:
        done = subprocess.run(
            argv, env=env, cwd=place, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return -1, "", f"no end in {SECONDS} s", SECONDS
    return done.returncode, done.stdout, done.stderr, time.monotonic() - began


def tell(program: Path, target: str | None) -> bool:
    """Print the result of one program; whether it was as bare."""
    with tempfile.TemporaryDirectory() as bare, tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "r.ptxview")
        options = ["--target", target] if target else []
        ours = ["-m", "inspector", "run", "--no-tui", "-o", str(file), *options]
        plain, recorded = run(program, Path(bare), []), run(program, Path(folder), ours)
        # A line with a percentage is a progress bar's.
        said = [[row for row in one[1].splitlines() if "%" not in row] for one in (plain, recorded)]
        same = (plain[0] == recorded[0] and said[0] == said[1]) or (
            target is not None and not recorded[0]
        )
        what = "as bare" if same else f"DIFFERS: {plain[:2]} bare, {recorded[:2]} recorded"
        print(f"{program.stem}: {what}, {recorded[3]:.1f} s, bare {plain[3]:.1f} s")
        if plain[0] or not same:
            print("   ", plain[2][-600:], "\n   ", recorded[2][-1200:])
        argv = [sys.executable, "-m", "inspector", "list", str(file), "--json"]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path[1:]])}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        listed = json.loads(done.stdout or '{"kernels": [], "recording": {"problems": []}}')
        for kernel in listed["kernels"]:
            for variant in kernel["variants"]:
                lacks = {s: w for s, w in variant["missing"].items() if s in ("ptx", "sass")}
                tuned = f" tuned {len(kernel['autotune'])}" if kernel["autotune"] else ""
                stages = " ".join(variant["stages"])
                launches = variant["launches"]
                print(f"    {variant['maker']} {kernel['demangled'][:60]}: {stages}, {launches} ×"
                      f"{tuned} {lacks or ''}")  # fmt: skip
        print(*(f"    ! {problem}" for problem in listed["recording"]["problems"]), sep="\n")
    return same


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.languages", description=__doc__)
    parser.add_argument("names", nargs="*", help="programs of tests/data/languages; all by default")
    parser.add_argument("--target", help="without a GPU: the architecture that is emulated")
    asked = parser.parse_args()
    for folder in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        site.addsitedir(folder)  # wheels unpacked there may have .pth files
    every = sorted(PROGRAMS.glob("*.py"))
    same = True
    for program in every:
        if asked.names and program.stem not in asked.names:
            continue
        if lacking := missing(program):
            print(f"{program.stem}: not installed: {', '.join(lacking)}")
        else:
            same &= tell(program, asked.target)
        sys.stdout.flush()
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
