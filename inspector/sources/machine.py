"""Inspects this machine and the user's interpreter, without importing torch or waking the GPU."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from inspector.base.errors import PtxviewError
from inspector.system.process import run_tool
from inspector.system.toolchain import which

PROBES: Path = Path(__file__).resolve().parent.parent / "probes" / "bootstrap"

# The current folder is taken off sys.path, so that a json.py in it is not imported.
_ASK = """
import sys; sys.path[:] = [p for p in sys.path if p]
import importlib.metadata as m, json, sys, sysconfig, importlib.util as u
def v(n):
    try: return m.version(n)
    except Exception: return None
def where(n):
    try: s = u.find_spec(n)
    except Exception: return None
    return list(s.submodule_search_locations)[0] if s and s.submodule_search_locations else None
print(json.dumps({"python": sys.version.split()[0], "torch": v("torch"), "triton": v("triton"),
    "ninja": v("ninja"), "include_folder": sysconfig.get_path("include"),
    "torch_folder": where("torch"), "triton_folder": where("triton")}))
"""


def gpu_present() -> bool:
    """Whether this user's programs see an NVIDIA GPU: a device node, not hidden from them."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1", "NoDevFiles"):
        return False
    nodes = [p for p in Path("/dev").glob("nvidia[0-9]*") if p.name[6:].isdigit()]
    return bool(nodes) or Path("/dev/dxg").exists()


def driver_library() -> Path | None:
    """The library that sees launches at the CUDA driver, which was built at the installation."""
    return next(iter(sorted((PROBES.parent / "driver").glob("*driver*.so"))), None)


def interpreter(asked: str | None) -> str:
    """The Python for the user's program.

    The one asked for; else the one that ptxview runs on, if torch or triton is installed there;
    else the activated environment's; else ``python3`` on PATH.
    """
    if asked is not None:
        return asked
    if importlib.util.find_spec("torch") or importlib.util.find_spec("triton"):
        return sys.executable
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        python = Path(os.environ.get(variable, "/nowhere")) / "bin" / "python"
        if python.is_file():
            return str(python)
    return which("python3") or which("python") or sys.executable


def versions(python: str) -> dict[str, str | None]:
    """Versions of Python, torch, triton and ninja in an interpreter, and the packages' folders."""
    import json

    try:
        done = run_tool([python, "-c", _ASK], seconds=30)
        reported = json.loads(done.text) if done.status == 0 else {}
    except (PtxviewError, ValueError):
        reported = {}
    return reported if isinstance(reported, dict) else {}


def nvidia_smi() -> dict[str, object] | None:
    """Name, driver, capability and memory (MiB) of the first GPU, as nvidia-smi says; or None."""
    path = which("nvidia-smi")
    if path is None:
        return None
    fields = ("name", "driver_version", "compute_cap", "memory.total")
    try:
        done = run_tool(
            [path, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"], seconds=20
        )
    except PtxviewError:
        return None
    row = done.text.strip().splitlines()
    if done.status != 0 or not row:
        return None
    values = [v.strip() for v in row[0].split(",")]
    return dict(zip(fields, values, strict=False)) | {"gpus": len(row)}
