"""Load the PTX executor, ``inspector.execute``, into the user's process.

It is loaded at the first launch of a kernel, from the folder that contains the probes, and needs
only numpy. Its package has another name here, ``ptxview_executor``, so that it does not collide
with a package ``inspector`` of the program; its modules' imports are redirected to that name.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from typing import Any

HOUSE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
THEIRS, OURS = "inspector", "ptxview_executor"

_loaded: Any = None


class CannotLoad(Exception):
    """This interpreter cannot load the executor; the text says why."""


def _import(name: str, *rest: Any, **given: Any) -> Any:
    """``__import__`` as the executor's modules see it."""
    package, dot, below = name.partition(".")
    return builtins.__import__(OURS + dot + below if package == THEIRS else name, *rest, **given)


class _Loader(SourceFileLoader):
    def exec_module(self, module: Any) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
        super().exec_module(module)


class _Finder:
    """Finds the modules below ``OURS``; for every other name it is not asked anything."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, below = name.partition(".")
        if package != OURS:
            return None
        place = os.path.join(HOUSE, *below.split(".")) if below else HOUSE
        inside = os.path.join(place, "__init__.py")
        file = inside if os.path.exists(inside) else f"{place}.py"
        if not os.path.exists(file):
            return None
        spec = spec_from_file_location(name, file, loader=_Loader(name, file))
        if spec is not None:
            # No other finder is asked about its submodules.
            spec.submodule_search_locations = [] if file == inside else None
        return spec


def load() -> Any:
    """The package ``inspector.execute``; raises CannotLoad."""
    global _loaded
    if _loaded is None:
        if _Finder not in sys.meta_path:
            sys.meta_path.append(_Finder)
        try:
            _loaded = importlib.import_module(f"{OURS}.execute")
        except Exception as error:
            raise CannotLoad(f"{type(error).__name__}: {error}"[:300]) from error
    return _loaded


def part(name: str) -> Any:
    """Another of the executor's modules, such as ``listing.ptx``; load() must have succeeded."""
    return importlib.import_module(f"{OURS}.{name}")
