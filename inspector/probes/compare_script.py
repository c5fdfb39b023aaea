"""Reads what a script declares to be compared: variants of one computation, and their input.

A script declares it in plain names, without any import of ours:

    VARIANTS = {"eager": torch.square, "a * a": lambda x: x * x}   # called with what inputs() gives
    def inputs(N=781, M=1823, device="cuda"): return torch.randn(M, N, device=device)
    def reference(x): return x * x             # what all must agree with; else the first variant
    def bytes_of(x): return 2 * x.nbytes       # what one call has to move, and to compute
    def flops_of(x): return x.numel()
    TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}   # as torch.testing.assert_close has it

Only the first two are asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

Function = Callable[..., Any]
WHY = 'ptxview time compares what the file declares: VARIANTS = {"name": function} and inputs()'


class NotDeclared(Exception):
    """The script cannot be read as a comparison; the message says why."""


class Declared:
    """What a script declares. ``sizes`` are those parameters of ``inputs`` that are integers."""

    def __init__(self, module: Any) -> None:
        variants, inputs = getattr(module, "VARIANTS", None), getattr(module, "inputs", None)
        if not isinstance(variants, dict) or not variants or not callable(inputs):
            lacks = "no inputs()" if isinstance(variants, dict) and variants else "no VARIANTS"
            raise NotDeclared(f"it has {lacks}; {WHY}")
        for name, function in variants.items():
            if not callable(function):
                raise NotDeclared(f"VARIANTS[{str(name)!r}] is no function")
        self.variants: dict[str, Function] = {str(n): f for n, f in variants.items()}
        self._inputs: Function = inputs
        self.reference = self._optional(module, "reference")
        self.bytes_of = self._optional(module, "bytes_of")
        self.flops_of = self._optional(module, "flops_of")
        tolerance = getattr(module, "TOLERANCE", None) or {}
        self.tolerance = {k: float(tolerance[k]) for k in ("rtol", "atol") if k in tolerance}
        try:
            self._parameters = dict(inspect.signature(inputs).parameters)
        except (TypeError, ValueError):
            self._parameters = {}
        self.sizes = {
            name: one.default
            for name, one in self._parameters.items()
            if isinstance(one.default, int | None) and not isinstance(one.default, bool)
        }

    @staticmethod
    def _optional(module: Any, name: str) -> Function | None:
        found = getattr(module, name, None)
        return found if callable(found) else None

    def lacks(self, sizes: dict[str, int]) -> str | None:
        """What ``inputs`` has no parameter for, in words."""
        unknown = [name for name in sizes if name not in self._parameters]
        known = ", ".join(self.sizes) or "none"
        return f"inputs() has no parameter {unknown[0]} (its sizes: {known})" if unknown else None

    def inputs(self, sizes: dict[str, int], device: str) -> tuple[Any, ...]:
        """The arguments of a call of those sizes."""
        given: dict[str, Any] = dict(sizes)
        if "device" in self._parameters:
            given["device"] = device
        made = self._inputs(**given)
        return tuple(made) if isinstance(made, tuple | list) else (made,)

    def amount(self, which: str, given: tuple[Any, ...]) -> int | None:
        """``bytes_of`` or ``flops_of`` these arguments; None where it is not declared."""
        function = getattr(self, which)
        return None if function is None else int(function(*given))


def load(path: str) -> Declared:
    """Import a script and read what it declares. Raises ``NotDeclared``, ``Broken``.

    A file of a package is imported as that package's, so that its own imports work; another by
    itself, from its folder, as ``python path`` would have it. Its ``__main__`` part does not run.
    """
    file = Path(path).resolve()
    folder, names = file.parent, [file.stem]
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    sys.path.insert(0, str(folder))
    sys.argv = [path]
    try:
        if len(names) > 1:
            return Declared(importlib.import_module(".".join(names)))
        spec = importlib.util.spec_from_file_location(file.stem, file)
        if spec is None or spec.loader is None:
            raise NotDeclared("it is no Python file")
        module = importlib.util.module_from_spec(spec)
        # Classes are looked up by it, and so are functions that are compiled.
        sys.modules[file.stem] = module
        spec.loader.exec_module(module)
        return Declared(module)
    except NotDeclared:
        raise
    except (Exception, SystemExit) as error:
        raise Broken(said(error, str(file))) from error


class Broken(Exception):
    """The script raised while it was imported; the message has its own words and the line."""


def said(error: BaseException, file: str | None = None) -> str:
    """An error in one line: its kind, its words, and which line of ``file`` it came from."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Triton's errors begin with where they are, and end with what is wrong.
    words = (lines[-1] if lines[0].startswith("at ") else lines[0]) if lines else ""
    if "out of memory" in words:
        words = ". ".join(words.split(". ")[:2])  # then comes advice on torch's allocator
    name = type(error).__name__
    text = f"{name}: {words}" if words and name not in ("RuntimeError", "DriverError") else words
    frames = traceback.extract_tb(error.__traceback__)
    own = [f.lineno for f in frames if file is not None and f.filename == file]
    if isinstance(error, SyntaxError):
        own = [error.lineno]
        text = f"{name}: {error.msg}"
    return (text or name) + (f" (line {own[-1]})" if own and own[-1] else "")
