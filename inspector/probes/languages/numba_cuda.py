"""numba.cuda: a kernel's Python with lines and types of arguments, LLVM IR, PTX and machine code.

They are recorded when it is compiled, by a launch or by ``cuda.compile``, which needs no GPU; the
machine code when numba links it. A refusal of numba, NVVM or the linker is recorded in their words.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any

from .. import private_names
from ..hooks import Args, Kwargs, argument, per_recording, succeeded, timed
from ..writer import blob
from .emit import ENTRY, of_function, write_kernel
from .numba_refused import refused

BY = "numba.cuda"
_now = threading.local()  # library: the last one that gave its PTX in the compile that is under way
_libraries: weakref.WeakKeyDictionary[Any, dict[str, Any]] = per_recording(
    weakref.WeakKeyDictionary()
)
"""The event of a library's kernel."""
Making = tuple[Any, Any, Any, float]
"""The kernel or library, its function and types, and when its compilation began."""


def attach(module: Any) -> None:
    """``numba.cuda``: a ``_Kernel`` is a function compiled for types of arguments, ``compile``
    gives the PTX of a function, and a library has LLVM IR, PTX and machine code of a kernel."""
    if module.__name__ == "numba.cuda.dispatcher":
        call_arguments = timed("self", "py_func", "argtypes")
        private_names.wrap(
            "numba.cuda.dispatcher:_Kernel.__init__", call_arguments, _kernel_compiled
        )
    elif module.__name__ == "numba.cuda.compiler":
        private_names.wrap("numba.cuda.compiler:compile", _before_compile, _numba_compiled)
    else:
        library = "numba.cuda.codegen:CUDACodeLibrary"

        def note_library(library: Any, result: Any) -> None:
            if hasattr(_now, "library"):
                _now.library = library

        # The first calls the second, which earlier versions have alone.
        name = "get_asm_strs" if hasattr(module.CUDACodeLibrary, "get_asm_strs") else "get_asm_str"
        private_names.wrap(f"{library}.{name}", argument(0), succeeded(note_library))
        private_names.wrap(f"{library}.get_cubin", timed("self"), _linked)


def _kernel_compiled(making: Making, result: Any, error: BaseException | None) -> None:
    kernel, function, types, began = making
    event = _event(function, getattr(kernel, "argtypes", None) or types, began)
    if error is not None:
        refused(event, error, "ptx")
        return
    library = getattr(kernel, "_codelibrary", None)
    ptx = _text(library, "get_asm_str")
    symbol = getattr(kernel, "entry_name", None)
    entry = ENTRY.search(ptx or "")
    _write_kernel(event, ptx, library, symbol or (entry and entry[1]))


def _before_compile(args: Args, kwargs: Kwargs) -> Making:
    function, types, began = timed("pyfunc", "sig")(args, kwargs)
    _now.library = None
    return None, function, getattr(types, "args", types), began


def _numba_compiled(making: Making, result: Any, error: BaseException | None) -> None:
    event = _event(*making[1:])
    library = _now.__dict__.pop("library", None)
    if error is not None:
        refused(event, error, "ptx")
        return
    code = result[0] if isinstance(result, tuple) and result else None
    entry = ENTRY.search(code) if isinstance(code, str) else None
    if entry is not None:  # else a device function, or LTO's intermediate code
        _write_kernel(event, code, library, entry[1])


def _linked(token: tuple[Any, float], cubin: Any, error: BaseException | None) -> None:
    """Record the machine code of a recorded kernel, which numba returns in an object."""
    library, began = token
    kernel_event = _libraries.get(library)
    code = getattr(cubin, "code", cubin)
    if kernel_event is not None and error is not None:
        refused({**kernel_event, "began": began, "seconds": time.time() - began}, error, "sass")
    elif kernel_event is not None and isinstance(code, bytes | bytearray | memoryview):
        write_kernel({**kernel_event, "cubin": blob(bytes(code))})


def _event(function: Any, types: Any, began: float) -> dict[str, Any]:
    code = getattr(function, "__code__", None)
    names = () if code is None else code.co_varnames[: code.co_argcount]
    signature = {n: str(kind) for n, kind in zip(names, types or (), strict=False)}
    lasted = {"began": began, "seconds": time.time() - began}
    return {**of_function(BY, function), "signature": signature, **lasted}


def _write_kernel(kernel_event: dict[str, Any], ptx: str | None, library: Any, symbol: Any) -> None:
    event = dict(kernel_event)
    if symbol:
        event["symbol"] = str(symbol)
    for key, text in (("ptx", ptx), ("llir", _text(library, "get_llvm_str"))):
        if text:
            event[key] = blob(text)
    write_kernel(event)
    if library is not None:
        times = ("began", "seconds")
        _libraries[library] = {name: v for name, v in event.items() if name not in times}


def _text(library: Any, method: str) -> str | None:
    try:
        return str(getattr(library, method)())
    except Exception:  # some versions need a context for it
        return None
