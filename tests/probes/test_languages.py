"""A vector add in each language that is installed and that compiles without a GPU, recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.helpers.ptxview import REPOSITORY, call, variants_of

PROGRAMS = REPOSITORY / "tests" / "data" / "languages"
LANGUAGES = {
    "bindings": ("cuda.bindings", {"source", "ptx", "sass"}),
    "numba_kernel": ("numba.cuda", {"source", "llir", "ptx"}),
    "warp_kernel": ("warp", {"source", "output_code", "ptx"}),
    "cute_dsl": ("cutlass", {"source", "ir", "sass"}),
    "cutile_kernel": ("cuda.tile", {"source", "ir", "sass"}),
    "tilelang_kernel": ("tilelang", {"source", "ir", "output_code", "sass"}),
}


def installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_kernel_has_the_stages_of_its_language(name: str, tmp_path: Path) -> None:
    package, stages = LANGUAGES[name]
    if not installed(package):
        pytest.skip(f"needs a language's package: {package} is not installed")
    env = {**os.environ, "CUTE_DSL_ARCH": "sm_90a"}
    argv = [sys.executable, "-m", "inspector", "run", "--no-tui", "--target", "sm_90"]
    argv += ["-o", str(tmp_path / "r"), str(PROGRAMS / f"{name}.py")]
    done = subprocess.run(
        argv, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    listed = call("list", tmp_path / "r", "--json").json
    assert not [p for p in listed["recording"]["problems"] if "has no such" in p or "Error" in p]
    for one in ("vector_add", "matmul") if name != "bindings" else ("vector_add",):
        found = [set(v["stages"]) for kernel, v in variants_of(listed) if one in str(kernel)]
        assert found and all(stages <= each for each in found), one
