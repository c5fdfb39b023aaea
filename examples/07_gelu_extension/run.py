"""Build the extension with its setup.py, import it, and compare with torch.

`python setup.py build_ext --inplace` would leave build/ and a .so beside the source. To keep the
folder clean this script copies the two files into a folder of its own in torch's extension cache,
where a second run finds everything built.
"""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from torch.utils.cpp_extension import get_default_build_root

HERE = Path(__file__).resolve().parent


def build():
    """Copy what has changed, build in place there, and make the result importable."""
    root = os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root()
    folder = Path(root) / "ptxview_gelu_extension"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("setup.py", "gelu.cu"):
        source, copy = HERE / name, folder / name
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            shutil.copyfile(source, copy)
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if built.returncode:
        sys.exit(f"setup.py failed in {folder}:\n{built.stdout[-2000:]}{built.stderr[-2000:]}")
    sys.path.insert(0, str(folder))
    return importlib.import_module("gelu_extension")


if __name__ == "__main__":
    module = build()
    x = torch.randn(1024, 1024, device="cuda")
    torch.testing.assert_close(module.gelu(x), torch.nn.functional.gelu(x, approximate="tanh"))
    print(f"gelu from {Path(module.__file__).name}: agrees with torch")
