"""Names the kernels of compilers that run within the program, as they are made.

Only compilers are observed, never launches: NVRTC as torch and cuda.bindings use it, the jiterator,
CuPy, JAX and PyCUDA. Their sources are kept with the names: on a GPU the machine code comes from
the driver (driver/subscriber.py), and is matched by name.
"""

import inspect
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from . import private_names
from .hooks import Args, Kwargs, argument, arguments, per_recording, succeeded, timed
from .writer import blob, emit, file_blob

MAX_KERNELS = 1000
MAX_NAME_CHARACTERS = 400
MAX_SOURCE_BYTES = 4 << 20
# A kernel of CUDA C++: little is between __global__ and its name.
_KERNEL = re.compile(r"__global__\b[^;{}()]{0,400}?\b(\w{1,400})\s*\(")
# Comments, and launch bounds, which are between __global__ and the name.
_ASIDE = re.compile(r"//[^\n]*|/\*.*?\*/|__launch_bounds__\s*\([^()]*\)", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$.]{1,400})")
_told: set[tuple[str, str]] = per_recording(set())
_texts: set[int] = set()  # what NVRTC returned to torch, which is loaded right afterwards


def record(
    by: str,
    names: Iterable[object],
    source: object = None,
    options: Iterable[object] | None = None,
    **more: Any,
) -> None:
    """Record kernels that are not captured, each name once per compiler, and their source."""
    for kernel in names:
        name = str(kernel)[:MAX_NAME_CHARACTERS]
        if name and (by, name) not in _told and len(_told) < MAX_KERNELS:
            _told.add((by, name))
            event = {"event": "uncaptured", "by": by, "name": name, **more}
            text = _encoded(source)
            if text is not None and 0 < len(text) <= MAX_SOURCE_BYTES:
                event["source"] = blob(text)
            if options is not None:
                given = [o.decode(errors="replace") if isinstance(o, bytes) else o for o in options]
                event["options"] = [str(option)[:MAX_NAME_CHARACTERS] for option in given][:100]
            emit(event)


def _encoded(text: object) -> bytes | None:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    return text if isinstance(text, bytes) else None


def _ptx(code: object) -> str | None:
    """The digest of PTX; None of a cubin, which the driver hands over anyway."""
    text = _encoded(code)
    return blob(text) if text is not None and b".version" in text[:MAX_SOURCE_BYTES] else None


def kernels(source: object) -> list[str]:
    """Names of the kernels that CUDA C++ (or PTX) defines; a placeholder if none is seen."""
    text = (_encoded(source) or b"")[:MAX_SOURCE_BYTES].decode("utf-8", "replace")
    names = _KERNEL.findall(_ASIDE.sub(" ", text)) or _ENTRY.findall(text)
    return list(dict.fromkeys(names)) or ["(without a name)"]


def _listed(names: object) -> list[Any]:
    """Names that the program gave; none of an iterator, which is the compiler's to read."""
    return list(names) if isinstance(names, list | tuple | set | frozenset) else []


# -- compilers of one function --------------------------------------------------------------------


def _jiterator(by: str, function: Any, *_: Any, **given: Any) -> None:
    """A kernel is made when its function is first called."""
    record(by, [function.kernel_name], getattr(function, "code_string", None))


def _cupy(by: str, source: Any, options: Any = (), *_: Any, **given: Any) -> None:
    """All of CuPy's kernels go through here, its own ones too."""
    names = _listed(given.get("name_expressions")) or kernels(source)
    record(by, names, source, _listed(options))


def _jax(by: str, backend: Any, computation: Any, *_: Any, **given: Any) -> None:
    """XLA makes the kernels of a whole module at once."""
    if str(getattr(backend, "platform", "")) in ("gpu", "cuda"):
        name = str(computation.operation.attributes["sym_name"]).strip('"')
        record(by, [f"{name} (all of its module)"])


def _of_source(by: str, *args: Any, **given: Any) -> None:
    """A compiler whose first argument is the source."""
    source = args[0] if args else given.get("src", given.get("source"))
    record(by, kernels(source), source)


COMPILERS: dict[str, tuple[str, str, Callable[..., None]]] = {
    "torch.cuda.jiterator": ("_JittedFunction.__call__", "torch.cuda.jiterator", _jiterator),
    "cupy.cuda.compiler": ("_compile_module_with_cache", "CuPy", _cupy),
    "jax._src.compiler": ("compile_or_get_cached", "JAX (XLA)", _jax),
    "cuda.bindings.nvrtc": ("nvrtcCreateProgram", "NVRTC (cuda.bindings)", _of_source),
    "cuda.nvrtc": ("nvrtcCreateProgram", "NVRTC (cuda.bindings)", _of_source),
    "pycuda.compiler": ("compile", "PyCUDA", _of_source),
}
"""Modules with the function that compiles, its name for people, and what notes a call of it."""


def attach(module: Any) -> None:
    """Observe the compiler of one of ``COMPILERS``."""
    function, by, note = COMPILERS[module.__name__]

    def before(args: Args, kwargs: Kwargs) -> None:
        note(by, *args, **kwargs)

    private_names.wrap(f"{module.__name__}:{function}", before)


# -- torch's NVRTC --------------------------------------------------------------------------------


def attach_nvrtc(module: Any) -> None:
    """``torch.cuda._utils``: compiles CUDA C++ at run time, and loads modules."""
    asked = arguments("kernel_source", "kernel_name")
    private_names.wrap("torch.cuda._utils:_nvrtc_compile", asked, _compiled)

    def loading(args: Args, kwargs: Kwargs) -> None:
        given = {**dict(zip(("ptx", "kernel_names"), args, strict=False)), **kwargs}
        code = given.get("ptx")
        if hash(_encoded(code)) not in _texts:
            names = _listed(given.get("kernel_names")) or kernels(code)
            record("torch.cuda (a module of PTX or cubin)", names, ptx=_ptx(code))

    private_names.wrap("torch.cuda._utils:_cuda_load_module", loading)


def _compiled(given: tuple[Any, Any], compiled: Any, error: BaseException | None) -> None:
    source, name = given
    more: dict[str, Any] = {}
    if isinstance(compiled, tuple) and compiled and len(_texts) < MAX_KERNELS:
        _texts.add(hash(_encoded(compiled[0])))
        more = {"ptx": _ptx(compiled[0])}
        if len(compiled) > 1 and isinstance(compiled[1], str):
            more["symbol"] = compiled[1]
    record("torch.cuda._compile_kernel (NVRTC)", [name], source, **more)


# -- numba.cuda -----------------------------------------------------------------------------------
# A kernel's Python source with lines and types of arguments, LLVM IR and PTX are recorded when it
# is compiled, by a launch or by ``cuda.compile``, which needs no GPU; the machine code when numba
# links it. A refusal of numba, NVVM or the linker is recorded in their words.

BY = "numba.cuda"
MAX_LOG_CHARACTERS = 20_000
_now = threading.local()  # library: the last one that gave its PTX in the compile that is under way
_libraries: weakref.WeakKeyDictionary[Any, dict[str, Any]] = per_recording(
    weakref.WeakKeyDictionary()
)
"""The event of a library's kernel."""
_numba_told: set[tuple[str, ...]] = per_recording(set())
_STEP = re.compile(r"Failed in [^\n]{1,200} \(step: [^\n]{1,200}\)\s*")
_LINKER = re.compile(r"error\s{0,9}: ([^\n]{1,2000})")
_SHARED = re.compile(r"too much shared data \((0x[0-9a-f]{1,16}) bytes, (0x[0-9a-f]{1,16}) max\)")
# Where numba says that it was: by a path, and else by one from the current folder.
_PLACES = (
    re.compile(r"^During: [^\n]{1,400} at (/[^\n]{1,4096}) \((\d{1,9})\)$", re.MULTILINE),
    re.compile(r'^File "([^"\n]{1,4096})", line (\d{1,9}):$', re.MULTILINE),
)
Making = tuple[Any, Any, Any, float]
"""The kernel or library, its function and types, and when its compilation began."""


def attach_numba(module: Any) -> None:
    """``numba.cuda``: a ``_Kernel`` is a function compiled for types of arguments, ``compile``
    gives the PTX of a function, and a library has LLVM IR, PTX and machine code of a kernel."""
    if module.__name__ == "numba.cuda.dispatcher":
        asked = timed("self", "py_func", "argtypes")
        private_names.wrap("numba.cuda.dispatcher:_Kernel.__init__", asked, _made)
    elif module.__name__ == "numba.cuda.compiler":
        private_names.wrap("numba.cuda.compiler:compile", _before_compile, _numba_compiled)
    else:
        library = "numba.cuda.codegen:CUDACodeLibrary"

        def given(library: Any, result: Any) -> None:
            if hasattr(_now, "library"):
                _now.library = library

        # The first calls the second, which earlier versions have alone.
        name = "get_asm_strs" if hasattr(module.CUDACodeLibrary, "get_asm_strs") else "get_asm_str"
        private_names.wrap(f"{library}.{name}", argument(0), succeeded(given))
        private_names.wrap(f"{library}.get_cubin", timed("self"), _linked)


def _made(making: Making, result: Any, error: BaseException | None) -> None:
    kernel, function, types, began = making
    event = _of_function(function, getattr(kernel, "argtypes", None) or types, began)
    if error is not None:
        _refused(event, error, "ptx")
        return
    library = getattr(kernel, "_codelibrary", None)
    ptx, symbol = _text(library, "get_asm_str"), getattr(kernel, "entry_name", None)
    entry = _ENTRY.search(ptx or "")
    _tell(event, ptx, library, symbol or (entry and entry[1]))


def _before_compile(args: Args, kwargs: Kwargs) -> Making:
    function, types, began = timed("pyfunc", "sig")(args, kwargs)
    _now.library = None
    return None, function, getattr(types, "args", types), began


def _numba_compiled(making: Making, result: Any, error: BaseException | None) -> None:
    event = _of_function(*making[1:])
    library = _now.__dict__.pop("library", None)
    if error is not None:
        _refused(event, error, "ptx")
        return
    code = result[0] if isinstance(result, tuple) and result else None
    entry = _ENTRY.search(code) if isinstance(code, str) else None
    if entry is not None:  # else a device function, or LTO's intermediate code
        _tell(event, code, library, entry[1])


def _linked(token: tuple[Any, float], cubin: Any, error: BaseException | None) -> None:
    """Record the machine code of a recorded kernel, which numba returns in an object."""
    library, began = token
    known = _libraries.get(library)
    code = getattr(cubin, "code", cubin)
    if known is not None and error is not None:
        _refused({**known, "began": began, "seconds": time.time() - began}, error, "sass")
    elif known is not None and isinstance(code, bytes | bytearray | memoryview):
        _numba_emit({**known, "cubin": blob(bytes(code))})


def _of_function(function: Any, types: Any, began: float) -> dict[str, Any]:
    """What a kernel is made of: its name, its source with the lines, the types of its arguments."""
    out: dict[str, Any] = {
        "by": BY,
        "name": str(getattr(function, "__qualname__", "a kernel")),
        "began": began,
        "seconds": time.time() - began,
    }
    code = getattr(function, "__code__", None)
    if code is not None:
        names = code.co_varnames[: code.co_argcount]
        out["signature"] = {n: str(kind) for n, kind in zip(names, types or (), strict=False)}
        if os.path.isfile(code.co_filename):
            lines, first = inspect.getsourcelines(function)
            out["path"] = os.path.abspath(code.co_filename)
            out["source"] = file_blob(code.co_filename)
            out["lines"] = [first, first + len(lines) - 1]
    return out


def _tell(made: dict[str, Any], ptx: str | None, library: Any, symbol: Any) -> None:
    event: dict[str, Any] = {**made, "event": "uncaptured"}
    if symbol:
        event["symbol"] = str(symbol)
    for key, text in (("ptx", ptx), ("llir", _text(library, "get_llvm_str"))):
        if text:
            event[key] = blob(text)
    _numba_emit(event)
    if library is not None:
        times = ("began", "seconds")
        _libraries[library] = {name: v for name, v in event.items() if name not in times}


def _refused(made: dict[str, Any], error: BaseException, stage: str) -> None:
    """A kernel that numba, NVVM or the linker would not compile."""
    if not isinstance(error, Exception):
        return  # the program was interrupted
    log = str(error).strip()
    tool, message = BY, _first(log) or type(error).__name__
    if stage == "sass" and (said := _LINKER.search(log)) is not None:
        tool, message = "nvJitLink", said[1].strip()
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
        required, limit = int(shared[1], 16), int(shared[2], 16)
        event.update(required=required, limit=limit, resource="shared memory")
    _numba_emit(event)


def _first(log: str) -> str:
    """What numba says first, but for the step that it was at: one line, with what it announces."""
    lines = [line.strip() for line in _STEP.sub("", log).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1].removeprefix('>>> ')}"
    return lines[0] if lines else ""


def _place(made: dict[str, Any], log: str) -> dict[str, Any]:
    """The line that numba names, else the kernel's first; {} where neither is known."""
    if "lines" not in made:
        return {}
    for path, line in (place for named in _PLACES for place in named.findall(log)):
        if os.path.isfile(path):
            return {"file": os.path.abspath(path), "line": int(line)}
    return {"file": made["path"], "line": made["lines"][0]}


def _numba_emit(event: dict[str, Any]) -> None:
    of = str(event.get("symbol") or event.get("signature"))
    key = (event["event"], event["name"], of, str("cubin" in event))
    if key not in _numba_told and len(_numba_told) < MAX_KERNELS:
        _numba_told.add(key)
        emit(event)


def _text(library: Any, method: str) -> str | None:
    try:
        return str(getattr(library, method)())
    except Exception:  # some versions need a context for it
        return None
