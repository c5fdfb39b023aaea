"""``python -m tests.versions --languages``: the two newest releases of each language's package.

Each is installed into a new virtual environment without what it asks for, beside the versions of
torch and the others that are installed here; its vector add (tests/data/languages) runs through
``ptxview run --target sm_90``, and its kernel must have the stages of the table.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
RELEASES = 2
MAX_INSTALL_SECONDS = 900


class Language(NamedTuple):
    """A package, what is installed beside it, the program and the stages of its kernel."""

    package: str
    program: str
    stages: str
    beside: tuple[str, ...] = ()
    whole: bool = True
    """Whether pip installs what it asks for; else it would install another torch."""


CUDA = ("nvidia-cuda-nvrtc>=13,<14", "nvidia-nvvm>=13,<14", "nvidia-nvjitlink")
NVCC = ("nvidia-cuda-nvcc", "nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-runtime")
TVM = ("apache-tvm-ffi<0.1.13", "z3-solver<4.15.5", "torch-c-dlpack-ext", "cloudpickle", "tqdm")
LANGUAGES = (
    Language("cuda-bindings", "bindings", "source ptx sass", CUDA),
    Language("numba-cuda", "numba_kernel", "source llir ptx", CUDA),
    Language("warp-lang", "warp_kernel", "source output_code ptx"),
    Language(
        "helion", "helion_kernel", "source output_code ttir llir ptx sass", ("psutil",), False
    ),
    Language("nvidia-cutlass-dsl", "cute_dsl", "source ir sass"),
    Language(
        "cuda-tile",
        "cutile_kernel",
        "source ir sass",
        ("nvidia-cuda-tileiras", "nvidia-nvvm", *NVCC),
    ),
    Language(
        *("tilelang", "tilelang_kernel", "source ir output_code sass"),
        (*TVM, "psutil", "ml-dtypes", *NVCC, "nvidia-nvvm"),
        False,
    ),
)


def releases(package: str) -> list[str]:
    """The newest releases of a package, by its registry."""
    argv = [sys.executable, "-m", "pip", "index", "versions", package]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    listed = re.search(r"Available versions: ([^\n]+)", done.stdout)
    return listed[1].split(", ")[:RELEASES] if listed is not None else []


def environment(language: Language, release: str, place: Path) -> Path:
    """A new environment with the release, and all that is installed here after it."""
    python = place / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    pip = [str(python), "-m", "pip", "install", "-q"]
    wanted = [f"{language.package}=={release}"]
    alone = [] if language.whole else ["--no-deps"]
    for words in ([*alone, *wanted], ["--no-deps", *language.beside, "numpy", "typing_extensions"]):
        subprocess.run([*pip, *words], check=True, timeout=MAX_INSTALL_SECONDS)
    (packages,) = python.parents[1].glob("lib/*/site-packages")
    ours = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "zz_beside.pth").write_text("\n".join(ours) + "\n")
    return python


def lacking(language: Language, python: Path, place: Path) -> str:
    """Record the program; which stages its kernels lack, "" if none."""
    out = place / "r.ptxview"
    (packages,) = python.parents[1].glob("lib/*/site-packages")
    tools = packages / "nvidia" / "cu13"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PTXVIEW_", "TRITON_"))}
    env |= {"CUTE_DSL_ARCH": "sm_90a", "TMPDIR": str(place), "XDG_CACHE_HOME": str(place)}
    env |= {"PATH": f"{tools / 'bin'}:{env['PATH']}", "CUDA_HOME": str(tools), "HOME": str(place)}
    program = ROOT / "tests" / "data" / "languages" / f"{language.program}.py"
    run = ("run", "--no-tui", "--target", "sm_90", "-o", out, "--python", python, program)
    for words in (run, ("list", out, "--json")):
        argv = [sys.executable, "-m", "inspector", *map(str, words)]
        done = subprocess.run(argv, capture_output=True, text=True, env=env, cwd=ROOT, check=False)
        if done.returncode:
            rows = done.stderr.strip().splitlines() or ["–"]
            return next((row for row in reversed(rows) if "Error" in row), rows[-1])
    listed = json.loads(done.stdout)
    names = [p for p in listed["recording"]["problems"] if "has no such" in p]
    variants = [v for kernel in listed["kernels"] for v in kernel["variants"]]
    missing = [s for s in language.stages.split() if not any(s in v["stages"] for v in variants)]
    return "; ".join([*(["no kernel"] if not variants else missing), *names])


def rows(wanted: list[str]) -> Iterator[tuple[str, str]]:
    """Yield a row of the table for each release, and what it lacks."""
    for language in LANGUAGES:
        for release in (
            releases(language.package) if not wanted or language.package in wanted else ()
        ):
            with tempfile.TemporaryDirectory(prefix="ptxview-languages-") as folder:
                try:
                    python = environment(language, release, Path(folder))
                    said = lacking(language, python, Path(folder))
                except (OSError, subprocess.SubprocessError) as error:
                    said = str(error)
            yield f"| {language.package} | {release} | {said or language.stages} |", said
