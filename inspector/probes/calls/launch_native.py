"""Compiles ``launch.c`` and finds it again: what stands before a launcher, in C.

Run as a script by ``ptxview run``, in the program's interpreter and beside the program, which does
not wait for it: a process of the program's own might be noticed by it. Where there is no C compiler
or no ``Python.h``, launches are counted in Python, which costs a third of a microsecond more.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from typing import Any

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launch.c")
NAME = "ptxview_launch"
_loaded: list[Any] = []


@functools.cache
def _digest() -> str:
    with open(SOURCE, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:20]


def library() -> str:
    """Where the compiled file for this interpreter lies, or would."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX") or ".so")
    return os.path.join(base, "ptxview", "launch", _digest(), NAME + suffix)


def build() -> str | None:
    """Compile ``launch.c`` unless it is compiled (half a second): the path, None if it failed."""
    target = library()
    if os.path.exists(target):
        return target
    include = sysconfig.get_path("include")
    compiler = _compiler()
    without_lock = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    if without_lock or compiler is None or not os.path.exists(os.path.join(include, "Python.h")):
        return None
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
    except OSError:
        return None
    part = f"{target}.{os.getpid()}"
    flags = ["-O2", "-fPIC", "-shared", "-w", f"-I{include}"]
    command = [compiler, *flags, SOURCE, "-o", part]
    try:
        subprocess.run(
            command, check=True, timeout=120, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.replace(part, target)
    except (OSError, subprocess.SubprocessError):
        if os.path.exists(part):
            os.unlink(part)
        return None
    return target


def _compiler() -> str | None:
    from_environment = os.environ.get("CC", "").split(" ")[0]
    for name in (from_environment, "cc", "gcc", "clang"):
        path = shutil.which(name) if name else None
        if path:
            return path
    return None


def launch_type() -> Any:
    """The compiled ``Launch`` type; None if it is not compiled or cannot be loaded."""
    if _loaded:
        return _loaded[0]
    try:
        path = library()
        if not os.path.exists(path):
            return None  # perhaps a moment later
        from importlib.machinery import ExtensionFileLoader
        from importlib.util import module_from_spec, spec_from_loader

        loader = ExtensionFileLoader(NAME, path)
        spec = spec_from_loader(NAME, loader)
        assert spec is not None
        module = module_from_spec(spec)
        loader.exec_module(module)
        _loaded.append(module.Launch)
    except Exception:
        _loaded.append(None)
    return _loaded[0]


if __name__ == "__main__":
    sys.exit(0 if build() else 1)
