"""Kernels of numba.cuda, by its own dispatcher's and compiler's words: one for each signature.

Its Python with lines and types of arguments, LLVM IR and PTX are told when a kernel is compiled, by
a launch or by ``cuda.compile``, which needs no GPU; its machine code when numba links it. On a GPU
the driver tells of launches, and its modules are theirs by the kernel's symbol.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import threading
import weakref
from collections.abc import Callable
from typing import Any

from . import private_names
from .writer import blob, emit, file_blob, problem

BY = "numba.cuda"
ASKED = ("get_asm_str",)
MOST = 1000
_ENTRY = re.compile(r"\.entry\s+([\w$.]{1,4000})")
_now = threading.local()  # library: the last one of this thread that gave its PTX
_kernels: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
"""What was told of a library's kernel."""
_told: set[tuple[str, str, bool]] = set()


def attach_dispatcher(module: Any) -> None:
    """``numba.cuda.dispatcher``: a ``_Kernel`` is a function compiled for types of arguments."""
    private_names.wrap("numba.cuda.dispatcher:_Kernel.__init__", _made)


def attach_compiler(module: Any) -> None:
    """``numba.cuda.compiler``: ``compile`` gives the PTX of a function, and launches nothing."""
    private_names.wrap("numba.cuda.compiler:compile", _compiled)


def attach_codegen(module: Any) -> None:
    """``numba.cuda.codegen``: a library has LLVM IR, PTX and machine code of a kernel."""
    # The first calls the second, which earlier versions have alone.
    names = [n for n in ("get_asm_strs", "get_asm_str") if hasattr(module.CUDACodeLibrary, n)]
    private_names.wrap(f"numba.cuda.codegen:CUDACodeLibrary.{(names or ASKED)[0]}", _asked)
    private_names.wrap("numba.cuda.codegen:CUDACodeLibrary.get_cubin", _linked)


def _quietly(step: Callable[..., Any], *args: Any) -> None:
    try:
        step(*args)
    except Exception as error:
        problem("a kernel of numba's", error)


def _made(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(self: Any, py_func: Any, *args: Any, **kwargs: Any) -> None:
        try:
            original(self, py_func, *args, **kwargs)
        finally:
            _quietly(_of_kernel, self, py_func, args)

    return init


def _of_kernel(kernel: Any, function: Any, args: tuple[Any, ...]) -> None:
    library = getattr(kernel, "_codelibrary", None)
    types = getattr(kernel, "argtypes", None) or (args[0] if args else ())
    symbol = getattr(kernel, "entry_name", None)
    _tell(function, types, _text(library, "get_asm_str"), library, symbol)


def _compiled(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile(pyfunc: Any, sig: Any, *args: Any, **kwargs: Any) -> Any:
        _now.library = None
        result = original(pyfunc, sig, *args, **kwargs)
        _quietly(_of_compiled, pyfunc, sig, result)
        return result

    return compile


def _of_compiled(function: Any, signature: Any, result: Any) -> None:
    code = result[0] if isinstance(result, tuple) and result else None
    entry = _ENTRY.search(code) if isinstance(code, str) else None
    if entry is not None:  # else a device function, or LTO's intermediate code
        types = getattr(signature, "args", signature)
        _tell(function, types, code, getattr(_now, "library", None), entry[1])


def _asked(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_asm_str(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        _now.library = self
        return result

    return get_asm_str


def _linked(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_cubin(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        _quietly(_of_cubin, self, result)
        return result

    return get_cubin


def _of_cubin(library: Any, cubin: Any) -> None:
    """The machine code of a kernel that was told of; numba gives an object that has it."""
    code = getattr(cubin, "code", cubin)
    known = _kernels.get(library)
    if known is not None and isinstance(code, bytes | bytearray | memoryview):
        _emit({**known, "cubin": blob(bytes(code))})


def _tell(function: Any, types: Any, ptx: str | None, library: Any, symbol: Any) -> None:
    event: dict[str, Any] = {
        "event": "uncaptured", "by": BY, "name": str(getattr(function, "__qualname__", "a kernel")),
    }  # fmt: skip
    if symbol is None and ptx and (entry := _ENTRY.search(ptx)) is not None:
        symbol = entry[1]
    if symbol:
        event["symbol"] = str(symbol)
    code = getattr(function, "__code__", None)
    if code is not None:
        names = code.co_varnames[: code.co_argcount]
        event["signature"] = {n: str(kind) for n, kind in zip(names, types or (), strict=False)}
    if code is not None and os.path.isfile(code.co_filename):
        lines, first = inspect.getsourcelines(function)
        event.update(path=os.path.abspath(code.co_filename), source=file_blob(code.co_filename),
                     lines=[first, first + len(lines) - 1])  # fmt: skip
    for key, text in (("ptx", ptx), ("llir", _text(library, "get_llvm_str"))):
        if text:
            event[key] = blob(text)
    if library is not None:
        _kernels[library] = event
    _emit(event)


def _emit(event: dict[str, Any]) -> None:
    key = (event["name"], event.get("symbol", ""), "cubin" in event)
    if key not in _told and len(_told) < MOST:
        _told.add(key)
        emit(event)


def _text(library: Any, method: str) -> str | None:
    try:
        return str(getattr(library, method)())
    except Exception:  # of some versions only within a context of its own
        return None
