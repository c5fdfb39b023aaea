"""A vector add in each language that is installed and that compiles ahead without a GPU."""

import os
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

os.environ["CUTE_DSL_ARCH"] = "sm_90a"
PLACE = Path(os.environ["FAULT_PROGRAMS"])
for name, package in (
    ("bindings", "cuda.bindings"),
    ("numba_kernel", "numba"),
    ("warp_kernel", "warp"),
    ("cute_dsl", "cutlass"),
    ("cutile_kernel", "cuda.tile"),
    ("tilelang_kernel", "tilelang"),
):
    try:
        installed = find_spec(package) is not None
    except ModuleNotFoundError:
        installed = False
    if installed:
        sys.argv = [name]
        runpy.run_path(str(PLACE / f"{name}.py"), run_name="__main__")
