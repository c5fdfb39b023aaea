"""Load the PTX executor, ``inspector.execute``, into the user's process.

It is loaded at the first launch of a kernel, from the folder that contains the probes, and needs
only numpy. Its package has another name here, ``ptxview_executor``, so that it does not collide
with a package ``inspector`` of the program; its modules' imports are redirected to that name.
"""

import builtins
import importlib
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from typing import Any

HOUSE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
THEIRS = "inspector"
OURS = "ptxview_executor"


def _import(name: str, *args: Any, **kwargs: Any) -> Any:
    """``__import__`` for the executor's modules."""
    package, dot, below = name.partition(".")
    return builtins.__import__(OURS + dot + below if package == THEIRS else name, *args, **kwargs)


class _Loader(SourceFileLoader):
    def exec_module(self, module: Any) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
        super().exec_module(module)


class _Finder:
    """Finds the package ``OURS`` and its modules alone."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, *below = name.split(".")
        if package != OURS:
            return None
        place = os.path.join(HOUSE, *below)
        inside = os.path.join(place, "__init__.py")
        file = inside if os.path.exists(inside) else f"{place}.py"
        if not os.path.exists(file):
            return None
        spec = spec_from_file_location(name, file, loader=_Loader(name, file))
        if spec is not None:
            # Without folders to search, no other finder is asked about its submodules.
            spec.submodule_search_locations = [] if file == inside else None
        return spec


def load(name: str) -> Any:
    """One of the executor's modules, such as ``execute`` or ``listing.ptx``; raises ImportError."""
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)
    return importlib.import_module(f"{OURS}.{name}")
