"""Finding nvcc: CUDA_HOME, PATH, the usual place, NVIDIA's wheels."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def homes() -> list[str]:
    """Folders that may be a CUDA toolkit, best first; each holds bin/nvcc."""
    found: list[str] = []
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            found.append(os.environ[name])
    on_path = shutil.which("nvcc")
    if on_path:
        found.append(str(Path(on_path).resolve().parents[1]))
    found.append("/usr/local/cuda")
    for folder in sys.path:
        wheels = Path(folder) / "nvidia"
        found.extend(str(wheels / name) for name in ("cu13", "cuda_nvcc"))
    unique = dict.fromkeys(found)
    return [home for home in unique if (Path(home) / "bin" / "nvcc").exists()]
