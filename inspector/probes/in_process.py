"""Recording that begins and ends within a program: torch and triton may be imported already.

``begin`` puts in place what ``start`` would have put there when the interpreter started, and then
what it would have met on the way: names under which a wrapped function was imported before, and
kernels of the program's modules that were compiled and loaded before, which are recorded when they
are first launched. ``end`` only stops recording: what was replaced stays, and passes calls on.

Not recorded are calls through launchers that Inductor made before the first recording, functions of
extensions that were loaded before it, and earlier kernels that no module names.
"""

import importlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from . import emulator, hooks, private_names, writer

PACKAGE = "ptxview_probes"
MAX_DEPTH = 8
"""Objects around a jitted function (tuners, heuristics) that are looked through."""


def begin() -> None:
    """Record from now on, into the folder that ``PTXVIEW_RECORDING`` names."""
    writer.begin_file()
    hooks.begin_recording()
    importlib.import_module(f"{PACKAGE}.start").start()
    if "triton.compiler.compiler" in sys.modules:
        hooks.guarded(_compiled_before)()


def end() -> None:
    """Write the last counts, and record nothing until ``begin``."""
    for name, function in (("calls.call_counts", "finish"), ("compiles.libraries", "note_device")):
        if (module := sys.modules.get(f"{PACKAGE}.{name}")) is not None:
            hooks.guarded(getattr(module, function))()
    hooks.end_recording()


def _compiled_before() -> None:
    """Observe what was taken before ``triton.compile`` was: by name, and by jitted functions."""
    wrapper = private_names.get("triton.compiler.compiler:compile")
    original = getattr(wrapper, "__wrapped__", None)
    if original is None:
        return
    for name, module in list(sys.modules.items()):
        if f"{name}.".startswith(("triton.", "torch._inductor.")):
            for attribute, value in list(vars(module).items()):
                if value is original:
                    setattr(module, attribute, wrapper)
    compiles = importlib.import_module(f"{PACKAGE}.compiles.triton_compiles")
    for function in _jitted():
        if vars(function).get("compile") is original:
            function.compile = wrapper
        for kernel in _kernels(function):
            hooks.guarded(compiles.watch, "a kernel that was compiled before")(kernel)


def _jitted() -> Iterator[Any]:
    """Triton's jitted functions that modules name, with or without a tuner around them."""
    kind = private_names.get("triton.runtime.jit:JITFunction")
    if not isinstance(kind, type):
        return
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType):
            for value in list(vars(module).values()):
                function = _unwrapped(value, kind)
                if function is not None:
                    yield function


def _unwrapped(value: Any, kind: type) -> Any:
    """The jitted function that a value is, or that is within Triton's own wrappers; else None."""
    for _ in range(MAX_DEPTH):
        if type(value) is kind:
            return value
        if not str(type(value).__module__).startswith("triton."):
            return None
        value = getattr(value, "fn", None)
    return None


def _kernels(function: Any) -> Iterator[Any]:
    """The kernels that a jitted function has loaded, by device; their caches differ by version."""
    caches = getattr(function, "device_caches", None) or getattr(function, "cache", None) or {}
    for cache in list(caches.values()):
        kernels = cache[0] if isinstance(cache, tuple) else cache
        loaded = list(kernels.values()) if isinstance(kernels, dict) else []
        for kernel in loaded:
            if getattr(kernel, "module", None) is not None and hasattr(kernel, "metadata"):
                yield kernel


def emulate(architecture: str) -> str | None:
    """Give the program an emulated device; why that cannot be, where it cannot."""
    if emulator.installed():
        have = os.environ.get("PTXVIEW_TARGET")
        return None if have == architecture else f"this process has an emulated {have} already"
    if "torch" in sys.modules:
        return "torch is imported already, and looks for a device once"
    os.environ["PTXVIEW_TARGET"] = architecture
    hooks.install()
    try:
        emulator.install(architecture)
    except Exception as error:
        del os.environ["PTXVIEW_TARGET"]
        return str(error)
    return None
