"""Extension modules that hold device code, seen when the interpreter loads them."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from importlib.machinery import ExtensionFileLoader
from itertools import pairwise
from typing import Any

from .. import private_names
from ..driver.native import has_fatbin
from ..hooks import argument, observed
from ..writer import emit

# Libraries of these packages hold thousands of kernels that are not the user's.
NOT_HIS = ("torch", "nvidia", "triton", "torchvision", "torchaudio", "cupy", "jaxlib", "numba")
NOT_HIS_BEGIN = ("jax_cuda",)

_his: set[str] = set()  # modules that have been created, and have not run yet


def attach(module: object) -> None:
    """``torch``: a library that holds device code and is its own is loaded after it.

    Each extension module is looked at once, after it has been created.
    """
    loader: Any = ExtensionFileLoader
    loader.create_module = observed(loader.create_module, _before_create, _created)
    loader.exec_module = observed(loader.exec_module, argument(1, "module"), _executed)


def _before_create(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
    spec = args[1] if len(args) > 1 else kwargs["spec"]
    return str(args[0].path), str(spec.name)


def _created(extension: tuple[str, str], module: Any, error: BaseException | None) -> None:
    path, name = extension
    if error is None and _look(path, name):
        _his.add(name)


def _executed(module: Any, result: Any, error: BaseException | None) -> None:
    name = getattr(module, "__name__", None)
    if name in _his:
        _his.discard(name)
        if error is None:
            from ..calls import graphs

            graphs.watch_module(module)


def attach_ops(module: Any) -> None:
    """Look at what ``torch.ops.load_library`` loads: libraries of operators, no Python modules."""
    private_names.wrap("torch._ops:_Ops.load_library", argument(1, "path"), _loaded)


def _loaded(path: Any, result: Any, error: BaseException | None) -> None:
    if error is None:
        _look(str(path), os.path.basename(str(path)))


def _look(path: str, name: str) -> bool:
    """Whether a library is the user's and holds device code; it is recorded if so."""
    full = os.path.realpath(path)
    if full.startswith(_standard()) or _foreign(full):
        return False
    if "torch" not in sys.modules or not has_fatbin(full):
        return False
    emit({"event": "library", "path": os.path.abspath(path), "name": name})
    return True


@functools.cache
def _standard() -> str:
    return os.path.realpath(sysconfig.get_path("stdlib")) + os.sep + "lib-dynload"


def _foreign(path: str) -> bool:
    parts = path.split(os.sep)
    packages = [
        package
        for folder, package in pairwise(parts)
        if folder in ("site-packages", "dist-packages")
    ]
    return any(package in NOT_HIS or package.startswith(NOT_HIS_BEGIN) for package in packages)
