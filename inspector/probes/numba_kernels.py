"""Kernels of numba.cuda, recorded where its dispatcher and compiler make them, one a signature.

The Python source with lines and types of arguments, LLVM IR and PTX are recorded when a kernel is
compiled, by a launch or by ``cuda.compile``, which needs no GPU; the machine code when numba links
it. A refusal of numba, NVVM or the linker is recorded in their words. On a GPU the driver reports
launches, and its modules are matched by the kernel's symbol.
"""

from __future__ import annotations

import inspect
import os
import re
import threading
import time
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from . import private_names
from .hooks import argument, per_recording
from .writer import blob, emit, file_blob

if TYPE_CHECKING:
    from .hooks import Args, Kwargs

BY = "numba.cuda"
MAX_KERNELS = 1000
_ENTRY = re.compile(r"\.entry\s+([\w$.]{1,4000})")
_now = threading.local()  # library: the last one that gave its PTX in the compile that is under way
_kernels: weakref.WeakKeyDictionary[Any, dict[str, Any]] = per_recording(
    weakref.WeakKeyDictionary()
)
"""The event of a library's kernel."""
_told: set[tuple[str, ...]] = per_recording(set())
MAX_LOG_CHARACTERS = 20_000
_STEP = re.compile(r"Failed in [^\n]{1,200} \(step: [^\n]{1,200}\)\s*")
_LINKER = re.compile(r"error\s{0,9}:")
_SHARED = re.compile(r"too much shared data \((0x[0-9a-f]{1,16}) bytes, (0x[0-9a-f]{1,16}) max\)")


def attach_dispatcher(module: Any) -> None:
    """``numba.cuda.dispatcher``: a ``_Kernel`` is a function compiled for types of arguments."""
    private_names.wrap("numba.cuda.dispatcher:_Kernel.__init__", _before_kernel, _made)


def attach_compiler(module: Any) -> None:
    """``numba.cuda.compiler``: ``compile`` gives the PTX of a function, and launches nothing."""
    private_names.wrap("numba.cuda.compiler:compile", _before_compile, _compiled)


def attach_codegen(module: Any) -> None:
    """``numba.cuda.codegen``: a library has LLVM IR, PTX and machine code of a kernel."""
    library = "numba.cuda.codegen:CUDACodeLibrary"
    # The first calls the second, which earlier versions have alone.
    name = "get_asm_strs" if hasattr(module.CUDACodeLibrary, "get_asm_strs") else "get_asm_str"
    private_names.wrap(f"{library}.{name}", argument(0), _asked)
    private_names.wrap(f"{library}.get_cubin", _before_link, _linked)


class Making(NamedTuple):
    """A function that numba is given to compile, or a library that it is given to link."""

    of: Any
    types: Any
    began: float


def _before_kernel(args: Args, kwargs: Kwargs) -> tuple[Any, Making]:
    given = dict(zip(("self", "py_func", "argtypes"), args, strict=False), **kwargs)
    return given["self"], Making(given["py_func"], given.get("argtypes"), time.time())


def _made(token: tuple[Any, Making], result: Any, error: BaseException | None) -> None:
    kernel, making = token
    took = _since(making.began)
    if error is not None:
        _not_made(making.of, making.types, error, took)
        return
    library = getattr(kernel, "_codelibrary", None)
    types = getattr(kernel, "argtypes", None) or making.types or ()
    symbol = getattr(kernel, "entry_name", None)
    _tell(making.of, types, _text(library, "get_asm_str"), library, symbol, took)


def _before_compile(args: Args, kwargs: Kwargs) -> Making:
    given = dict(zip(("pyfunc", "sig"), args, strict=False), **kwargs)
    making = Making(given["pyfunc"], getattr(given["sig"], "args", given["sig"]), time.time())
    _now.library = [None]
    return making


def _compiled(making: Making, result: Any, error: BaseException | None) -> None:
    took = _since(making.began)
    (library,), _now.library = getattr(_now, "library", None) or [None], None
    if error is not None:
        _not_made(making.of, making.types, error, took)
        return
    code = result[0] if isinstance(result, tuple) and result else None
    entry = _ENTRY.search(code) if isinstance(code, str) else None
    if entry is not None:  # else a device function, or LTO's intermediate code
        _tell(making.of, making.types, code, library, entry[1], took)


def _asked(library: Any, result: Any, error: BaseException | None) -> None:
    compiling = getattr(_now, "library", None)
    if error is None and compiling is not None:
        compiling[0] = library


def _before_link(args: Args, kwargs: Kwargs) -> Making:
    return Making(args[0], None, time.time())


def _linked(making: Making, cubin: Any, error: BaseException | None) -> None:
    """Record the machine code of a recorded kernel, which numba returns in an object."""
    known = _kernels.get(making.of)
    if known is None:
        return
    if error is not None:
        _refused({**known, **_since(making.began)}, error, "sass")
        return
    code = getattr(cubin, "code", cubin)
    if isinstance(code, bytes | bytearray | memoryview):
        _emit({**known, "cubin": blob(bytes(code))})


def _since(began: float) -> dict[str, float]:
    return {"began": began, "seconds": time.time() - began}


def _of_function(function: Any, types: Any) -> dict[str, Any]:
    """What a kernel is made of: its name, its source with the lines, the types of its arguments."""
    out: dict[str, Any] = {"by": BY, "name": str(getattr(function, "__qualname__", "a kernel"))}
    code = getattr(function, "__code__", None)
    if code is not None:
        names = code.co_varnames[: code.co_argcount]
        out["signature"] = {n: str(kind) for n, kind in zip(names, types or (), strict=False)}
    if code is not None and os.path.isfile(code.co_filename):
        lines, first = inspect.getsourcelines(function)
        out.update(
            path=os.path.abspath(code.co_filename),
            source=file_blob(code.co_filename),
            lines=[first, first + len(lines) - 1],
        )
    return out


def _tell(
    function: Any, types: Any, ptx: str | None, library: Any, symbol: Any, took: dict[str, float]
) -> None:
    event: dict[str, Any] = {"event": "uncaptured", **_of_function(function, types)}
    if symbol is None and ptx and (entry := _ENTRY.search(ptx)) is not None:
        symbol = entry[1]
    if symbol:
        event["symbol"] = str(symbol)
    for key, text in (("ptx", ptx), ("llir", _text(library, "get_llvm_str"))):
        if text:
            event[key] = blob(text)
    if library is not None:
        _kernels[library] = event
    _emit({**event, **took})


# -- what is refused ------------------------------------------------------------------------------


def _not_made(function: Any, types: Any, error: BaseException, took: dict[str, float]) -> None:
    _refused({**_of_function(function, types), **took}, error, "ptx")


def _refused(made: dict[str, Any], error: BaseException, stage: str) -> None:
    """A kernel that numba, NVVM or the linker would not compile."""
    if not isinstance(error, Exception):
        return  # the program was interrupted
    log = str(error).strip()
    tool, message = BY, _first(log) or type(error).__name__
    if stage == "sass" and (said := _LINKER.search(log)) is not None:
        tool, message = "nvJitLink", log[said.end() :].partition("\n")[0].strip()
    event = {
        **made,
        "event": "made_failed",
        "stage": stage,
        "tool": tool,
        "kind": type(error).__name__,
        "message": message,
        "log": blob(log[:MAX_LOG_CHARACTERS]),
        "messages": [{"severity": "error", "message": message, "tool": tool, **_place(made, log)}],
    }
    if (shared := _SHARED.search(log)) is not None:
        event.update(
            required=int(shared[1], 16), limit=int(shared[2], 16), resource="shared memory"
        )
    _emit(event)


def _first(log: str) -> str:
    """What numba says first, but for the step that it was at: one line, with what it announces."""
    lines = [line.strip() for line in _STEP.sub("", log).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1].removeprefix('>>> ')}"
    return lines[0] if lines else ""


def _place(made: dict[str, Any], log: str) -> dict[str, Any]:
    """The line that numba names, else the kernel's first; {} where neither is known."""
    for path, line in _lines_named(log) if "source" in made else ():
        path = os.path.abspath(path)
        if os.path.isfile(path):
            return {"file": path, "line": line}
    return {"file": made["path"], "line": made["lines"][0]} if "lines" in made else {}


def _lines_named(log: str) -> Iterator[tuple[str, int]]:
    """Where numba says that it was: by a path, and else by one from the current folder."""
    shown: list[tuple[str, int]] = []
    for text in log.splitlines():
        if text.startswith("During: ") and text.endswith(")"):
            before, _, number = text[:-1].rpartition(" (")
            path = before.rpartition(" at ")[2]
            if path.startswith("/") and number.isdecimal():
                yield path, int(number[:9])
        elif text.startswith('File "') and text.endswith(":"):
            path, _, number = text[6:-1].rpartition('", line ')
            if path and number.isdecimal():
                shown.append((path, int(number[:9])))
    yield from shown


def _emit(event: dict[str, Any]) -> None:
    of = str(event.get("symbol") or event.get("signature"))
    key = (event["event"], event["name"], of, str("cubin" in event))
    if key not in _told and len(_told) < MAX_KERNELS:
        _told.add(key)
        emit(event)


def _text(library: Any, method: str) -> str | None:
    try:
        return str(getattr(library, method)())
    except Exception:  # some versions need a context for it
        return None
