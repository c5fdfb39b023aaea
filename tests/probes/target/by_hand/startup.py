"""How much later a program starts on the emulated device: ``import torch, triton``, warm caches.

By hand, medians of ten starts each, in seconds: ``python tests/probes/target/by_hand/startup.py``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROBES = Path(__file__).parents[4] / "inspector" / "probes"
PROGRAMS = {
    "import torch, triton": "import torch, triton",
    "and one CUDA tensor": "import torch, triton; torch.ones(1, device=DEVICE).sum().item()",
}


def median(program: str, env: dict[str, str]) -> float:
    """Seconds from start to end of one interpreter."""
    found = []
    for _ in range(10):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], env=env, check=True)
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "blobs").mkdir()
        recorded = {"PYTHONPATH": str(PROBES / "bootstrap"), "PTXVIEW_RECORDING": folder}
        target = {**os.environ, **recorded, "PTXVIEW_TARGET": "sm_90"}
        for name, program in PROGRAMS.items():
            bare = median(program.replace("DEVICE", "'cpu'"), dict(os.environ))
            here = median(program.replace("DEVICE", "'cuda'"), target)
            print(f"{name:22} bare {bare:.2f}  target {here:.2f}  more {here - bare:+.2f}")
