"""Extension modules that hold device code, seen when the interpreter loads them."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from importlib.machinery import ExtensionFileLoader
from typing import Any

from ..driver.native import has_fatbin
from ..hooks import unseen
from ..writer import emit, problem

# Libraries of these packages hold thousands of kernels that are not the user's.
NOT_HIS = ("torch", "nvidia", "triton", "torchvision", "torchaudio", "cupy", "jaxlib", "numba")
NOT_HIS_BEGIN = ("jax_cuda",)

_his: set[str] = set()


def attach(module: object) -> None:
    """``torch``: a library that holds device code and is its own is loaded after it."""
    install()


def install() -> None:
    """Look at each extension module once, after it has been created."""
    original: Any = ExtensionFileLoader.create_module

    @functools.wraps(original)
    def create_module(self: Any, spec: Any) -> Any:
        try:
            module = original(self, spec)
        except BaseException as error:
            unseen(error)
            raise
        try:
            if _look(str(self.path), str(spec.name)):
                _his.add(str(spec.name))
        except Exception as error:
            problem("library", error)
        return module

    executed: Any = ExtensionFileLoader.exec_module

    @functools.wraps(executed)
    def exec_module(self: Any, module: Any) -> Any:
        try:
            result = executed(self, module)
        except BaseException as error:
            unseen(error)
            raise
        try:
            if getattr(module, "__name__", None) in _his:
                from ..calls import graphs

                graphs.watch_module(module)
        except Exception as error:
            problem("an extension's calls", error)
        return result

    ExtensionFileLoader.create_module = create_module  # type: ignore[method-assign]
    ExtensionFileLoader.exec_module = exec_module  # type: ignore[method-assign]


def attach_ops(module: Any) -> None:
    """Look at what ``torch.ops.load_library`` loads: libraries of operators, no Python modules."""
    from .. import private_names

    private_names.wrap("torch._ops:_Ops.load_library", _loading)


def _loading(original: Any) -> Any:
    @functools.wraps(original)
    def load_library(self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            result = original(self, path, *args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise
        try:
            _look(str(path), os.path.basename(str(path)))
        except Exception as error:
            problem("library", error)
        return result

    return load_library


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
    return any(
        folder in ("site-packages", "dist-packages") and parts[i + 1 : i + 2]
        and (parts[i + 1] in NOT_HIS or parts[i + 1].startswith(NOT_HIS_BEGIN))
        for i, folder in enumerate(parts)
    )  # fmt: skip
