"""Without a C++ compiler there is no emulated device; Triton on CPU tensors is still compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    (tmp_path / "bin").mkdir()
    env = {
        **{k: v for k, v in os.environ.items() if k not in ("CXX", "CC")},
        "PATH": str(tmp_path / "bin"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
    }
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "inspector",
            "run",
            "--no-tui",
            "--target",
            "sm_90",
            "-o",
            str(tmp_path / "r"),
            str(script),
        ],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "values are right\n"
    assert "no C++ compiler was found" in done.stderr
    assert "double" in done.stderr and "ptx sass" in done.stderr
