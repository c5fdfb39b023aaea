"""Recording that begins and ends within a program: torch and triton may be imported already.

``begin`` puts in place what ``start`` would have put there when the interpreter started, and then
what it would have met on the way: names under which a wrapped function was imported before, kernels
that were compiled and loaded before, which are recorded when they are first launched. ``end`` takes
all of it away again: each wrapper of ours in any module or class gives way to what it wraps, each
launcher to the one that it stands before. The modules of a recording are loaded anew for the next,
so that none knows what another has seen; the emulated device stays, once a program has one.

Not seen are calls through launchers that Inductor made before, and functions of extensions that
were loaded before.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import logging
import os
import sys
import time
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from . import hooks, private_names, target, writer

PACKAGE = "ptxview_probes"
STAYING = tuple(
    f"{PACKAGE}.{name}" for name in ("hooks", "writer", "late", "target", "private_names")
)
"""What is not loaded anew; of the emulated device there is one a process."""


class Earlier:
    """Stands before the launcher of a kernel that was loaded before, until its first launch."""

    def __init__(self, kernel: Any, slot: str, inner: Any) -> None:
        self.kernel, self.slot, self.inner = kernel, slot, inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record the kernel, have its launches counted from this one on, and launch it."""
        space = self.kernel.__dict__
        if space.get(self.slot) is self:
            space[self.slot] = self.inner
            _compiled_before(self.kernel)
        return space[self.slot](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def _compiled_before(kernel: Any) -> None:
    compiles = importlib.import_module(f"{PACKAGE}.compiles.triton_compiles")
    launches = importlib.import_module(f"{PACKAGE}.calls.triton_launches")
    try:
        compiles._record(kernel, kernel.src, time.time())
        compiles.loaded(
            kernel.hash, getattr(kernel, "n_regs", None), getattr(kernel, "n_spills", None),
            getattr(kernel, "n_max_threads", None),
        )  # fmt: skip
        launches.watch(kernel)
    except Exception as error:
        writer.problem("a kernel that was compiled before", error)


def begin() -> None:
    """Record from now on, into the folder that ``PTXVIEW_RECORDING`` names."""
    _forget()
    importlib.import_module(f"{PACKAGE}.start").start()
    if "triton.compiler.compiler" not in sys.modules:
        return
    wrapper = private_names.get("triton.compiler.compiler:compile")
    compiled = private_names.get("triton.compiler.compiler:CompiledKernel") or ()
    original = getattr(wrapper, "__wrapped__", None)
    if original is None or not _ours(wrapper):
        return
    for module in _modules("triton", "torch._inductor"):
        for name, value in list(vars(module).items()):
            if value is original:
                setattr(module, name, wrapper)
    jit = private_names.get("triton.runtime.jit:JITFunction") or ()
    for thing in _living(jit, compiled):
        space = vars(thing)
        if space.get("compile") is original:
            space["compile"] = wrapper
        elif isinstance(thing, compiled):
            slot = "_run" if "_run" in space else "run"
            inner = space.get(slot)
            if inner is not None:
                space[slot] = Earlier(thing, slot, inner)
            elif "src" in space:
                _compiled_before(thing)


def end() -> None:
    """Write the last counts, and leave the program as it was."""
    subjects = sys.modules.get(f"{PACKAGE}.calls.subjects")
    device = sys.modules.get(f"{PACKAGE}.compiles.device")
    if subjects is not None:
        for timer in list(subjects._later):
            timer.cancel()
        subjects.finish()
    if device is not None:
        atexit.unregister(device.note)
        device.note()
    _unwind()
    hooks.forget(PACKAGE + ".target")
    log = logging.getLogger("torch.__trace")
    for handler in list(log.handlers):
        if _of_recording(type(handler).__module__):
            log.removeHandler(handler)
    _forget()


def _unwind() -> None:
    """Put back whatever ours stands before, wherever it was put."""
    for thing in _living(object):
        kind = type(thing)
        if kind is dict:
            # The names that a launcher of Inductor's sees: it calls what is called "runner".
            counter = getattr(thing.get("runner"), "_ptxview", None) if "runner" in thing else None
            if counter is not None:
                thing["runner"] = counter.inner
        elif issubclass(kind, (ModuleType, type)):
            _unwrap(thing)
        elif kind.__name__ in ("CompiledKernel", "JITFunction"):
            space = getattr(thing, "__dict__", {})
            for slot in ("_run", "run", "compile"):
                held = space.get(slot)
                if isinstance(held, Earlier):
                    space[slot] = held.inner
                elif (counter := getattr(held, "_ptxview", None)) is not None:
                    space[slot] = counter.inner
                elif held is not None and _ours(held):
                    space[slot] = held.__wrapped__


def _unwrap(owner: Any) -> None:
    try:
        values = list(vars(owner).items())
    except Exception:
        return
    for name, value in values:
        function = value.__func__ if type(value) in (classmethod, staticmethod) else value
        if type(function) is not FunctionType or not _ours(function):
            continue
        if _of_recording(getattr(owner, "__name__", "")):
            return  # a module of ours, which has them by right
        if _of_recording(getattr(owner, "__module__", None) or ""):
            return
        inner = function
        while type(inner) is FunctionType and _ours(inner) and hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        try:
            if inner is function:
                delattr(owner, name)  # what it stands before is inherited
            elif type(value) is staticmethod:
                setattr(owner, name, staticmethod(inner))
            else:
                setattr(owner, name, inner)
        except (AttributeError, TypeError):
            continue


def _ours(function: Any) -> bool:
    """Whether a function was made by a module that records."""
    space = getattr(function, "__globals__", None)
    return isinstance(space, dict) and _of_recording(space.get("__name__") or "")


def _of_recording(module: str) -> bool:
    return module.startswith(f"{PACKAGE}.") and not module.startswith(STAYING)


def _living(*kinds: Any) -> Iterator[Any]:
    """All objects of some classes."""
    wanted = tuple(kind for kind in kinds if isinstance(kind, type))
    for thing in gc.get_objects():
        if issubclass(type(thing), wanted):  # isinstance() would ask things that answer for others
            yield thing


def _modules(*packages: str) -> list[ModuleType]:
    return [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType)
        and any(name == package or name.startswith(f"{package}.") for package in packages)
    ]


def _forget() -> None:
    """Have the modules of a recording loaded anew when they are needed; those there were are dumb:
    a wrapper of ours that somebody wrapped in turn calls what it wraps, and writes nothing."""
    for name, module in list(sys.modules.items()):
        if _of_recording(name) and isinstance(module, ModuleType):
            del sys.modules[name]
            for written, dumb in (("emit", _nothing), ("blob", _nothing), ("file_blob", _nothing),
                                  ("problem", _nothing)):  # fmt: skip
                if hasattr(module, written):
                    setattr(module, written, dumb)
    writer.begin_anew()
    private_names.begin_anew()


def _nothing(*_: object) -> None:
    """In the place of what writes."""


def emulate(architecture: str) -> str | None:
    """Give the program an emulated device; why that cannot be, where it cannot."""
    if target.installed():
        have = os.environ.get("PTXVIEW_TARGET")
        return None if have == architecture else f"this process has an emulated {have} already"
    if "torch" in sys.modules:
        return "torch is imported already, and looks for a device once"
    os.environ["PTXVIEW_TARGET"] = architecture
    hooks.install()
    try:
        target.install(architecture)
    except Exception as error:
        del os.environ["PTXVIEW_TARGET"]
        return str(error)
    return None
