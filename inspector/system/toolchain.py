"""Finds the vendor's tools and the user's interpreter, without importing torch."""

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

from inspector.base.errors import PtxviewError, ToolMissing
from inspector.system.process import run_tool

# What each tool is for, and where it comes from when it is missing.
PURPOSE = {
    "nvdisasm": ("SASS of cubins", "pip install nvidia-cuda-nvdisasm"),
    "cuobjdump": (
        "registers, stack, shared memory; cubins inside .so and .o files",
        "pip install nvidia-cuda-cuobjdump",
    ),
    "ptxas": ("spilled bytes", "pip install triton, or a CUDA toolkit"),
    "nvcc": (
        "PTX of load_inline, load and CUDAExtension builds, and .cu files",
        "pip install 'ptxview[cuda]', or a CUDA toolkit",
    ),
    "c++filt": ("readable names of C++ kernels", "the system's binutils package"),
    "ncu": (
        "ptxview ncu; reading .ncu-rep files (CSV exports need none)",
        "Nsight Compute, a part of the CUDA toolkit",
    ),
}


# Mangled names of C++; c++filt is not asked for others.
_MANGLED = re.compile(r"_Z[\w$.]{1,20000}", re.ASCII)
MAX_ARGUMENTS = 200
_NVIDIA_VERSION = re.compile(r"\bV(\d+(?:\.\d+)+)")  # "release 13.0, V13.0.88"
_VERSION = re.compile(r"(?<!\d)(\d++\.\d++(?:\.\d++)*+)")  # "GNU c++filt (GNU Binutils) 2.40"


class Tool(Struct, frozen=True):
    """A program found on this machine; ``version`` as it prints it, None if it prints none."""

    name: str
    path: Path
    version: str | None
    found_in: str


def _package_folders(name: str) -> list[Path]:
    spec = importlib.util.find_spec(name)
    return (
        [] if spec is None else [Path(folder) for folder in spec.submodule_search_locations or ()]
    )


def path_folders() -> list[str]:
    """The absolute folders on PATH: in the current one anybody may have put a program."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return [entry for entry in entries if Path(entry).is_absolute()]


def find_program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join(path_folders()))


NSIGHT = (
    ("the usual place", "usr/local/cuda-*/bin"),
    ("Nsight Compute's own folder", "opt/nvidia/nsight-compute/*"),
    ("Nsight Compute's own folder", "usr/local/NVIDIA-Nsight-Compute*"),
    ("Nsight Compute's own folder", "usr/local/cuda*/nsight-compute-*"),
)
"""Where Nsight Compute's installers put ncu, which no wheel has; of each the newest first."""


def places() -> Iterator[tuple[str, Path]]:
    """Folders in which tools are looked for, in order: wheels, CUDA_HOME, PATH, /usr/local."""
    for root in _package_folders("nvidia"):  # nvidia/cu13/bin, nvidia/*/bin
        for folder in (*sorted(root.glob("cu*/bin"), reverse=True), *sorted(root.glob("*/bin"))):
            yield "NVIDIA's wheel", folder
    for root in _package_folders("triton"):
        yield "triton's wheel", root / "backends" / "nvidia" / "bin"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield variable, Path(os.environ[variable]) / "bin"
    for entry in path_folders():
        yield "PATH", Path(entry)
    yield "the usual place", Path("/usr/local/cuda/bin")


def _release(item: Path | Tool) -> tuple[int, ...]:
    text = (item.version or "0") if isinstance(item, Tool) else str(item)
    return tuple(int(n) for n in re.findall(r"\d+", text))


@cache
def version_of(path: Path) -> str | None:
    """The release that a CUDA tool prints (``13.0.88``), or None."""
    try:
        printed = run_tool([path, "--version"], seconds=20)
    except Exception:
        return None
    match = _NVIDIA_VERSION.search(printed.text) or _VERSION.search(printed.text)
    return match[1] if match else None


def installed_copies(name: str) -> Iterator[Tool]:
    """Every copy of a tool on this machine, the preferred one first; versions are read lazily."""
    resolved_paths: set[Path] = set()
    installed = [
        (origin, folder)
        for origin, pattern in (NSIGHT if name == "ncu" else ())
        for folder in sorted(Path("/").glob(pattern), key=_release, reverse=True)
    ]
    for origin, folder in (*places(), *installed):
        # Triton keeps a second assembler for sm_100 and later beside the first.
        names = (name, "ptxas-blackwell") if name == "ptxas" else (name,)
        for program in names:
            path = folder / program
            if path.is_file() and os.access(path, os.X_OK) and path.resolve() not in resolved_paths:
                resolved_paths.add(path.resolve())
                yield Tool(name, path, version_of(path), origin)


@cache
def find(name: str) -> Tool | None:
    """The preferred copy of a tool, or None: that of NVIDIA's wheel, else the newest one found.

    An older disassembler reads newer cubins, but names them wrongly (``sm_90`` for ``sm_90a``).
    """
    tools: list[Tool] = []
    for tool in installed_copies(name):
        if tool.found_in == "NVIDIA's wheel":
            return tool
        tools.append(tool)
    return max(tools, key=_release, default=None)


def newest_first(name: str) -> list[Tool]:
    """Every copy of a tool, the newest first: each release drops old architectures."""
    return sorted(installed_copies(name), key=_release, reverse=True)


def need(name: str) -> Tool:
    """The preferred copy of a tool. Raises ``ToolMissing`` with how to get it."""
    tool = find(name)
    if tool is None:
        purpose, remedy = PURPOSE[name]
        raise ToolMissing(f"{name} was not found; it is needed for {purpose}", f"Get it: {remedy}")
    return tool


def demangle(names: list[str]) -> list[str]:
    """C++ names as people write them, in the same order; unchanged where c++filt is missing."""
    mangled = list(dict.fromkeys(n for n in names if _MANGLED.fullmatch(n)))
    tool = find("cu++filt") or find("c++filt")
    program = find_program("llvm-cxxfilt") if tool is None else tool.path
    readable: dict[str, str] = {}
    for start in range(0, len(mangled) if program is not None else 0, MAX_ARGUMENTS):
        part = mangled[start : start + MAX_ARGUMENTS]
        with suppress(PtxviewError):
            finished = run_tool([program or "", *part], seconds=20)
            lines = finished.text.splitlines()
            if finished.status == 0 and len(lines) == len(part):
                readable.update(zip(part, lines, strict=True))
    return [readable.get(n, n) for n in names]


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


def interpreter(option: str | None) -> str:
    """The Python for the user's program.

    The one asked for; else the one that ptxview runs on, if torch or triton is installed there;
    else the activated environment's; else ``python3`` on PATH.
    """
    if option is not None:
        return option
    if importlib.util.find_spec("torch") or importlib.util.find_spec("triton"):
        return sys.executable
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        python = Path(os.environ.get(variable, "/nowhere")) / "bin" / "python"
        if python.is_file():
            return str(python)
    return find_program("python3") or find_program("python") or sys.executable


def versions(python: str) -> dict[str, str | None]:
    """Versions of Python, torch, triton and ninja in an interpreter, and the packages' folders."""
    import json

    try:
        finished = run_tool([python, "-c", _ASK], seconds=30)
        reported = json.loads(finished.text) if finished.status == 0 else {}
    except (PtxviewError, ValueError):
        reported = {}
    return reported if isinstance(reported, dict) else {}


def nvidia_smi() -> dict[str, object] | None:
    """Name, driver, capability and memory (MiB) of the first GPU, as nvidia-smi says; or None."""
    path = find_program("nvidia-smi")
    if path is None:
        return None
    fields = ("name", "driver_version", "compute_cap", "memory.total")
    query = (f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
    try:
        finished = run_tool([path, *query], seconds=20)
    except PtxviewError:
        return None
    rows = finished.text.strip().splitlines()
    if finished.status or not rows:
        return None
    values = [v.strip() for v in rows[0].split(",")]
    return dict(zip(fields, values, strict=False)) | {"gpus": len(rows)}
