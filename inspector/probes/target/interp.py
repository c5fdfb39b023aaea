"""Running a kernel in Triton's interpreter, on the memory of the tensors that it was given.

The interpreter is Triton's own; what is changed in it is changed while a launch runs and put
back when it ends, so that compilation and the user's own TRITON_INTERPRET stay untouched.
"""

from __future__ import annotations

import inspect
import math
import time
from typing import Any

from . import bfloat16, bounds, debug, libdevice, native
from .scoped import Patches


class OverBudget(Exception):
    """The launch would take longer than it may; ``estimate``: seconds for the whole of it."""

    def __init__(self, estimate: float) -> None:
        super().__init__(estimate)
        self.estimate = estimate


class NotInterpretable(Exception):
    """The interpreter cannot run this kernel; the text says why."""


_functions: dict[Any, Any] = {}
_mended: list[tuple[Any, str, Any]] = []
# What rewritten kernels refer to, by version of Triton.
_LANGUAGE_NAMES = (
    "interpreter_builder",
    "interpreter_semantic",
    "_InterpreterComparison",
    "triton",
)


def _interpreter() -> Any:
    from triton.runtime import interpreter

    return interpreter


def _rewritten(fn: Any) -> Any:
    """The Python function as the interpreter wants it, without what the rewriting leaves behind."""
    if fn not in _functions:
        before = set(fn.__globals__)
        _functions[fn] = _interpreter().InterpretedFunction(fn).rewrite()
        for name in set(fn.__globals__) - before:
            del fn.__globals__[name]
    return _functions[fn]


class _Launch:
    """The language as the interpreter needs it, for the length of one launch."""

    def __init__(self) -> None:
        self.interpreter = _interpreter()
        self.original = self.interpreter._patch_lang
        self.patches = Patches()
        self.seen: set[int] = set()
        self.saved: list[tuple[Any, dict[str, Any]]] = []

    def __enter__(self) -> _Launch:
        import triton.language as tl
        from triton.runtime.jit import JITFunction

        if not _mended:
            _mended.extend(bfloat16.patches(self.interpreter))
            _mended.extend(bounds.patches(self.interpreter, _mended))
        for owner in (tl, tl.core, tl.math, tl.core.tensor, tl.core.dtype,
                      getattr(tl.core, "tensor_descriptor_base", None),
                      getattr(tl.core, "tensor_descriptor", None),
                      getattr(tl.core, "condition", None)):  # fmt: skip
            if owner is not None:
                self.saved.append((owner, dict(vars(owner))))
        self.patches.__enter__()
        for owner, name, value in (*_mended, *libdevice.patches()):
            self.patches.set(owner, name, value)
        self.patches.set(self.interpreter, "_patch_lang", self._once)
        self.patches.set(JITFunction, "__call__", lambda fn, *a, **k: self.call(fn.fn, *a, **k))
        return self

    def __exit__(self, *raised: Any) -> None:
        self.patches.__exit__(*raised)
        for owner, before in self.saved:
            for name, value in list(vars(owner).items()):
                if name not in before:
                    delattr(owner, name)
                elif value is not before[name]:
                    setattr(owner, name, before[name])

    def _once(self, fn: Any) -> Any:
        self.enter_globals(fn)
        return _NoScope()

    def enter_globals(self, fn: Any) -> None:
        """Make ready the module in which the function was written, once for each launch."""
        space = fn.__globals__
        if id(space) in self.seen:
            return
        self.seen.add(id(space))
        import triton.language as tl

        if any(inspect.ismodule(v) and v in (tl, tl.core) for v in space.values()):
            self.original(fn)
            # Older interpreters convert an array of one element, which NumPy has ceased to do.
            tl.core.tensor.__index__ = lambda tensor: int(tensor.handle.data.reshape(-1)[0])
        owner = _Namespace(space)
        for name in _LANGUAGE_NAMES:
            if name not in space and hasattr(self.interpreter, name):
                self.patches.set(owner, name, getattr(self.interpreter, name))
        for name, replaced in libdevice.names(space):
            self.patches.set(owner, name, replaced)

    def call(self, fn: Any, *args: Any, **given: Any) -> Any:
        """A kernel's call of another @triton.jit function."""
        self.enter_globals(fn)
        return _rewritten(fn)(*args, **given)


class _NoScope:
    def restore(self) -> None:
        return None


class _Namespace:
    """A function's globals as attributes, so that Patches can put them back."""

    def __init__(self, space: dict[str, Any]) -> None:
        object.__setattr__(self, "__dict__", space)


class _Clock:
    """Stops a launch early: by what it has used, and by what it is going to use."""

    def __init__(self, seconds: float, programs: int) -> None:
        self.seconds, self.programs = seconds, programs
        self.begun = time.perf_counter()

    def check(self, done: int) -> None:
        """After ``done`` programs; raises OverBudget."""
        used = time.perf_counter() - self.begun
        if used < min(0.25, self.seconds) or not done:
            return
        estimate = used / done * self.programs
        if used > self.seconds or estimate > 1.5 * self.seconds:
            raise OverBudget(estimate)


def run(fn: Any, grid: tuple[int, int, int], named: dict[str, Any], seconds: float) -> None:
    """Run every program of the grid, one after another, within so many seconds.

    Raises OverBudget or NotInterpretable, and whatever the kernel's own code raises.
    """
    function = fn.fn
    constexprs = {p.name for p in fn.params if p.is_constexpr}
    interpreter = _interpreter()
    builder = interpreter.interpreter_builder
    with _Launch() as launch:
        launch.enter_globals(function)
        rewritten = _rewritten(function)
        arguments = {
            name: value if name in constexprs else interpreter._implicit_cvt(_on_host(value))
            for name, value in named.items()
        }
        bounds.begin(str(getattr(fn, "__name__", function.__name__)))
        # Time at the debugger's prompt is the user's own.
        seconds = math.inf if debug.wanted(fn) else seconds
        clock = _Clock(seconds, grid[0] * grid[1] * grid[2])
        builder.set_grid_dim(*grid)
        done = 0
        with debug.watching(fn):
            for x in range(grid[0]):
                for y in range(grid[1]):
                    for z in range(grid[2]):
                        builder.set_grid_idx(x, y, z)
                        debug.at((x, y, z))
                        bounds.at((x, y, z))
                        try:
                            rewritten(**arguments)
                        except NotImplementedError as error:
                            raise NotInterpretable(str(error) or "not implemented") from error
                        done += 1
                        clock.check(done)


def _on_host(value: Any) -> Any:
    """The same argument over CPU tensors of the same memory."""
    import dataclasses

    import torch
    from triton.runtime.jit import TensorWrapper

    if isinstance(value, torch.Tensor):
        return native.host(value)
    if isinstance(value, TensorWrapper):
        return TensorWrapper(_on_host(value.base), value.dtype)
    if isinstance(value, tuple):
        made = [_on_host(v) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    if hasattr(value, "block_shape") and dataclasses.is_dataclass(value):
        described: Any = value
        return dataclasses.replace(described, base=_on_host(described.base))
    return value
