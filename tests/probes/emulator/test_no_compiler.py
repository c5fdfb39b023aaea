"""Where the emulated device cannot be set up: no C++ compiler, or a part that fails."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.helpers.ptxview import REPOSITORY, ptxview, saved
from tests.probes.conftest import PROBES, Run, ok

PARTS = ("shim", "cuda")
"""Of the emulated device; by day tests/faults has some of their functions fail."""
PROGRAM = """
import torch, triton, triton.language as tl

@triton.jit
def double(y, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

x = torch.arange(100.0)
y = torch.zeros(100)
double[(2,)](y, x, 100, BLOCK=64)
assert torch.equal(y, x * 2), y
print("values are right")
"""


def test_triton_on_cpu_tensors(tmp_path: Path) -> None:
    script = saved(tmp_path / "program.py", PROGRAM)
    (tmp_path / "bin").mkdir()
    env = {
        **{k: v for k, v in os.environ.items() if k not in ("CXX", "CC")},
        "PATH": str(tmp_path / "bin"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
    }
    words = ("run", "--no-tui", "--target", "sm_90", "-o", tmp_path / "r", script)
    done = ptxview(*words, cwd=REPOSITORY, env=env, fresh=True)
    assert (done.status, done.text) == (0, "values are right\n"), done.said
    assert "no C++ compiler was found" in done.said
    assert "double" in done.said and "ptx sass" in done.said


@pytest.mark.parametrize(
    "broken",
    [
        "start.py",
        *(pytest.param(f"emulator/{name}.py", marks=pytest.mark.nightly) for name in PARTS),
    ],
)
def test_a_device_that_cannot_be_set_up_is_said_once_with_the_reason(
    run: Run, tmp_path: Path, broken: str
) -> None:
    probes = tmp_path / "probes"
    shutil.copytree(PROBES, probes)
    (probes / broken).write_text("raise RuntimeError('this part is broken')\n")
    program = "import torch; print(torch.cuda.is_available())"
    done = ok(run(program, env={"PYTHONPATH": str(probes / "bootstrap")}))
    assert done.out == "False\n"
    (line,) = done.said("ptxview:")
    assert "could not be set up (RuntimeError: this part is broken)" in line
    assert any("could not be set up" in str(event["text"]) for event in done.of("problem"))
