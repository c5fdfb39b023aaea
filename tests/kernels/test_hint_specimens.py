"""The specimens that have faults, compiled here and now: their hints are those of the README."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels import hints_table

ROOT = Path(__file__).resolve().parents[2]


def compiled(folder: Path, *names: str) -> list[str]:
    """The rows of the table for specimens that are compiled for sm_90 now."""
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("triton", reason="triton is not installed")
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TRITON_DEFAULT_FP_FUSION": "1",
        "XDG_STATE_HOME": str(folder / "state"),
    }
    recording = folder / "specimens.ptxview"
    words = ["run", "--target", "sm_90", "--no-tui", "-o", str(recording), "-m", "kernels", *names]
    code = "import sys; from inspector.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return hints_table.rows(str(recording))


def documented(*names: str) -> list[str]:
    """The README's rows for specimens."""
    rows = hints_table.between(hints_table.README.read_text("utf-8"))
    return [row for row in rows if row.split("|")[1].strip() in names]


def test_hints_of_triton_specimens_are_as_documented(tmp_path: Path) -> None:
    names = ("hint_triton", "square", "softmax")
    assert compiled(tmp_path, *names) == documented(*names)


@pytest.mark.nvcc
def test_hints_of_cuda_specimens_are_as_documented(tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on this machine")
    assert compiled(tmp_path, "hint_cuda") == documented("hint_cuda")


def test_hints_of_recorded_cuda_specimens_are_as_documented() -> None:
    """Half a minute of nvcc each: what a GPU's machine once built of them tells as much."""
    names = ("gelu_cuda", "gelu_cuda_float", "square_cuda")
    rows = hints_table.rows(str(ROOT / "examples" / "recordings" / "lecture-h200.ptxview"))
    found = [row for row in rows if row.split("|")[1].strip() in names]
    assert found == documented(*names) and len(found) == len(names)


def test_the_pair_of_literals_differs_in_one_hint() -> None:
    (double,), (single,) = documented("gelu_cuda"), documented("gelu_cuda_float")
    assert "fp64-promotion" in double
    assert single.endswith("| – |")


def test_every_hint_is_explained_and_has_a_specimen() -> None:
    text = hints_table.README.read_text("utf-8")
    meanings = text.rpartition("## What each hint means")[2].splitlines()
    explained = {row.split("`")[1] for row in meanings if row.startswith("| `")}
    hints = [row.split("|")[4] for row in hints_table.between(text)]
    assert explained == {word for said in hints for word in said.split("`")[1::2]}
