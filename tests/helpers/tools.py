"""Programs that tests drive and a machine may lack: tests skip and name what to install."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from inspector.system.toolchain import find

INSTALL = {
    "bash": "apt-get install bash",
    "c++filt": "apt-get install binutils",
    "cc": "apt-get install gcc",
    "chromium": "apt-get install chromium",
    "dash": "apt-get install dash",
    "fish": "apt-get install fish",
    "g++": "apt-get install g++",
    "gcc": "apt-get install gcc",
    "mount": "apt-get install mount",
    "ninja": "pip install ninja",
    "nm": "apt-get install binutils",
    "nvcc": "pip install -e '.[cuda]', or a CUDA toolkit",
    "ps": "apt-get install procps",
    "Python.h": "apt-get install python3-dev",
    "readelf": "apt-get install binutils",
    "script": "apt-get install bsdutils",
    "sed": "apt-get install sed",
    "sh": "apt-get install dash",
    "strip": "apt-get install binutils",
    "tmux": "apt-get install tmux",
    "vim": "apt-get install vim",
    "zsh": "apt-get install zsh",
}
OTHER_NAMES = {"cc": ("gcc",), "chromium": ("google-chrome",), "g++": ("c++", "clang++")}


def path_of(name: str) -> str | None:
    if name == "Python.h":
        header = Path(sysconfig.get_path("include")) / name
        return str(header) if header.exists() else None
    if name in ("nvcc", "ptxas", "nvdisasm", "cuobjdump"):
        vendors = find(name)
        return str(vendors.path) if vendors else None
    for each in (name, *OTHER_NAMES.get(name, ())):
        if found := shutil.which(each):
            return found
    beside = Path(sys.executable).with_name(name)  # where pip puts ninja, on the PATH or not
    if beside.exists():
        return str(beside)
    return None


def lack(name: str) -> str:
    return f"needs {name}: {INSTALL.get(name, 'pip install triton')}"


def missing(names: tuple[str, ...]) -> list[str]:
    """Name what this machine lacks of the programs, and of what they start themselves."""
    wanted = [*names, *("g++" for name in names if name == "nvcc")]
    return [name for name in wanted if path_of(name) is None]


def needs(*names: str) -> pytest.MarkDecorator:
    """Mark tests that skip where one of these programs is missing."""
    lacking = missing(names)
    return pytest.mark.skipif(bool(lacking), reason="; ".join(map(lack, lacking)))


def skip_without(*names: str) -> None:
    """Skip the test that runs, or asks for a fixture, where one of these programs is missing."""
    if lacking := missing(names):
        pytest.skip("; ".join(map(lack, lacking)))
