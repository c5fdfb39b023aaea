"""Names the kernels of compilers that run within the program, as they are made.

Only what makes kernels is watched, never what launches them: NVRTC as torch and cuda.core use it,
the jiterator, CuPy, numba.cuda, JAX and PyCUDA. What it was given is kept with the names: on a GPU
the machine code comes by the driver (driver/subscriber.py), and is theirs by the name.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from .hooks import observed, per_recording
from .writer import blob, emit

MOST = 1000
LONGEST = 400
# A kernel of CUDA C++: what stands between __global__ and its name is short.
_KERNEL = re.compile(r"__global__\b[^;{}()]{0,400}?\b(\w{1,400})\s*\(")
# Comments, and launch bounds, which stand between __global__ and the name.
_ASIDE = re.compile(r"//[^\n]*|/\*.*?\*/|__launch_bounds__\s*\([^()]*\)", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$.]{1,400})")
LARGEST = 4 << 20
INHERITED = 1 << 10  # Py_TPFLAGS_BASETYPE: a class that others may be made of
_told: set[tuple[str, str]] = per_recording(set())
_texts: set[int] = set()  # what NVRTC returned to torch, which is loaded right afterwards
_within = threading.local()


def told(
    by: str,
    names: Iterable[object],
    source: object = None,
    options: Iterable[object] | None = None,
    **more: Any,
) -> None:
    """Record kernels that are not captured, each name once per compiler, and their source."""
    for kernel in names:
        name = str(kernel)[:LONGEST]
        if name and (by, name) not in _told and len(_told) < MOST:
            _told.add((by, name))
            event = {"event": "uncaptured", "by": by, "name": name, **more}
            text = source.encode("utf-8", "surrogateescape") if isinstance(source, str) else source
            if isinstance(text, bytes) and 0 < len(text) <= LARGEST:
                event["source"] = blob(text)
            if options is not None:
                event["options"] = [_plain(option) for option in options][:100]
            emit(event)


def _ptx(code: object) -> str | None:
    """The digest of PTX; None of a cubin, which the driver hands over anyway."""
    text = code.encode("utf-8", "surrogateescape") if isinstance(code, str) else code
    is_text = isinstance(text, bytes) and b".version" in text[:LARGEST]
    return blob(text) if isinstance(text, bytes) and is_text else None


def _plain(option: object) -> str:
    text = option.decode("utf-8", "replace") if isinstance(option, bytes) else str(option)
    return text[:LONGEST]


def kernels(source: object) -> list[str]:
    """Names of the kernels that CUDA C++ (or PTX) defines; a placeholder if none is seen."""
    if isinstance(source, bytes | bytearray):
        source = bytes(source).decode("utf-8", "replace")
    text = source if isinstance(source, str) else ""
    text = text[:LARGEST]
    names = _KERNEL.findall(_ASIDE.sub(" ", text)) or _ENTRY.findall(text)
    return list(dict.fromkeys(names)) or ["(without a name)"]


def private_names() -> Any:
    """The module of that name, which is not loaded before a compiler is."""
    from . import private_names as module

    return module


def _watch(name: str, tell: Callable[..., None]) -> None:
    """Have ``tell`` called with a compiler's arguments before it, even if it then fails."""
    try:
        private_names().wrap(name, partial(_telling, tell))
    except (AttributeError, TypeError):
        return  # written in C


def _telling(tell: Callable[..., None], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    tell(*args, **kwargs)


# -- torch ----------------------------------------------------------------------------------------

NVRTC = "torch.cuda._compile_kernel (NVRTC)"
LOADED = "torch.cuda (a module of PTX or cubin)"
JITERATOR = "torch.cuda.jiterator"


def attach_nvrtc(module: Any) -> None:
    """``torch.cuda._utils``: what compiles CUDA C++ at run time, and what loads a module."""

    def compiling(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        return (*args, *kwargs.values())

    def compiled(given: tuple[Any, ...], made: Any, error: BaseException | None) -> None:
        source, name, *_ = given
        more: dict[str, Any] = {}
        if isinstance(made, tuple) and made and len(_texts) < MOST:
            _texts.add(hash(made[0]))
            more = {"ptx": _ptx(made[0])}
            if len(made) > 1 and isinstance(made[1], str):
                more["symbol"] = made[1]
        told(NVRTC, [name], source, **more)

    private_names().wrap("torch.cuda._utils:_nvrtc_compile", compiling, compiled)

    def load(ptx: Any, kernel_names: Any = None, *args: Any, **kwargs: Any) -> None:
        text = ptx.encode() if isinstance(ptx, str) else ptx
        if hash(ptx) not in _texts and hash(text) not in _texts:
            told(LOADED, kernel_names or kernels(ptx), ptx=_ptx(text))

    _watch("torch.cuda._utils:_cuda_load_module", load)


def attach_jiterator(module: Any) -> None:
    """``torch.cuda.jiterator``: a kernel is made when its function is first called."""

    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        told(JITERATOR, [self.kernel_name], getattr(self, "code_string", None))

    _watch("torch.cuda.jiterator:_JittedFunction.__call__", call)


# -- others ---------------------------------------------------------------------------------------


def attach_cupy(module: Any) -> None:
    """``cupy.cuda.compiler``, which all of CuPy's kernels go through, its own ones too."""

    def compiled(source: Any, options: Any = (), *args: Any, **kwargs: Any) -> None:
        names = kwargs.get("name_expressions") or kernels(source)
        told("CuPy", names, source, options if isinstance(options, list | tuple) else None)

    names = ("_compile_module_with_cache", "compile_with_cache", "compile_using_nvrtc")
    present = [name for name in names if hasattr(module, name)]
    _watch(f"cupy.cuda.compiler:{(present or names)[0]}", compiled)


def attach_jax(module: Any) -> None:
    """``jax._src.compiler``: XLA makes the kernels of a whole module at once."""

    def compiled(backend: Any, computation: Any, *args: Any, **kwargs: Any) -> None:
        if str(getattr(backend, "platform", "")) not in ("gpu", "cuda"):
            return
        name = str(computation.operation.attributes["sym_name"]).strip('"')
        told("JAX (XLA)", [f"{name} (all of its module)"])

    _watch("jax._src.compiler:compile_or_get_cached", compiled)


def attach_bindings(module: Any) -> None:
    """``cuda.bindings.nvrtc``, NVIDIA's own, or ``cuda.nvrtc`` as it was called before."""

    def create(src: Any, *args: Any, **kwargs: Any) -> None:
        if not getattr(_within, "maker", False):
            told("NVRTC (cuda.bindings)", kernels(src), src)

    _watch(f"{module.__name__}:nvrtcCreateProgram", create)


def attach_core(module: Any) -> None:
    """``cuda.core``: ``Program`` is of C in the later versions, and then it is inherited from.

    The earlier ones call ``cuda.bindings`` to create it.
    """
    original = private_names().get(f"{module.__name__}:Program")
    if not isinstance(original, type):
        return

    made = observed(original.__init__, _making, _made)  # type: ignore[misc]
    try:
        original.__init__ = made  # type: ignore[misc]
    except TypeError:
        if not original.__flags__ & INHERITED:
            return
        space = {
            "__slots__": (),
            "__doc__": original.__doc__,
            "__module__": original.__module__,
            "__qualname__": original.__qualname__,
            "__init__": made,
        }
        module.Program = type(original)(original.__name__, (original,), space)


def _making(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell of a program's kernels; ``cuda.bindings``, which it calls, is not to tell them again."""
    before = getattr(_within, "maker", False)
    code = args[1] if len(args) > 1 else kwargs.get("code")
    told("cuda.core (NVRTC)", kernels(code), code)
    _within.maker = True
    return before


def _made(before: bool, result: Any, error: BaseException | None) -> None:
    _within.maker = before


def attach_pycuda(module: Any) -> None:
    """``pycuda.compiler``: every SourceModule is compiled by its ``compile``."""

    def compiled(source: Any, *args: Any, **kwargs: Any) -> None:
        told("PyCUDA", kernels(source), source)

    _watch("pycuda.compiler:compile", compiled)
