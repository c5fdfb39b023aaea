"""Names the kernels of compilers that run within the program, as they are made.

Only what makes kernels is watched, never what launches them: NVRTC as torch and cuda.core use it,
the jiterator, CuPy, numba.cuda, JAX and PyCUDA. What it was given is kept with the names: on a GPU
the machine code comes by the driver (driver/subscriber.py), and is theirs by the name.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .hooks import observed, per_recording
from .writer import blob, emit

if TYPE_CHECKING:
    from .hooks import Before

    Args = tuple[Any, ...]
    Kwargs = dict[str, Any]

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
_within = threading.local()  # maker: whether a compiler runs whose kernels are named already


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
        source = bytes(source[:LARGEST]).decode("utf-8", "replace")
    text = source if isinstance(source, str) else ""
    text = text[:LARGEST]
    names = _KERNEL.findall(_ASIDE.sub(" ", text)) or _ENTRY.findall(text)
    return list(dict.fromkeys(names)) or ["(without a name)"]


def _listed(names: object) -> list[Any]:
    """Names that the program gave; none where they are an iterator, which is the compiler's."""
    return list(names) if isinstance(names, list | tuple | set | frozenset) else []


def private_names() -> Any:
    """The module of that name, which is not loaded before a compiler is."""
    from . import private_names as module

    return module


def _given(args: Args, kwargs: Kwargs, place: int, name: str) -> Any:
    """An argument of a call, by its place or its name; None if it is not given."""
    return args[place] if len(args) > place else kwargs.get(name)


def _watch(name: str, before: Before) -> None:
    """Call ``before`` when a compiler begins, which may then fail."""
    try:
        private_names().wrap(name, before)
    except (AttributeError, TypeError):
        return  # written in C


# -- torch ----------------------------------------------------------------------------------------

NVRTC = "torch.cuda._compile_kernel (NVRTC)"
LOADED = "torch.cuda (a module of PTX or cubin)"
JITERATOR = "torch.cuda.jiterator"


def attach_nvrtc(module: Any) -> None:
    """``torch.cuda._utils``: what compiles CUDA C++ at run time, and what loads a module."""

    def before(args: Args, kwargs: Kwargs) -> tuple[Any, Any]:
        return _given(args, kwargs, 0, "kernel_source"), _given(args, kwargs, 1, "kernel_name")

    def after(given: tuple[Any, Any], compiled: Any, error: BaseException | None) -> None:
        source, name = given
        more: dict[str, Any] = {}
        if isinstance(compiled, tuple) and compiled and len(_texts) < MOST:
            _texts.add(hash(compiled[0]))
            more = {"ptx": _ptx(compiled[0])}
            if len(compiled) > 1 and isinstance(compiled[1], str):
                more["symbol"] = compiled[1]
        told(NVRTC, [name], source, **more)

    private_names().wrap("torch.cuda._utils:_nvrtc_compile", before, after)

    def load(args: Args, kwargs: Kwargs) -> None:
        ptx, kernel_names = _given(args, kwargs, 0, "ptx"), _given(args, kwargs, 1, "kernel_names")
        text = ptx.encode() if isinstance(ptx, str) else ptx
        if hash(ptx) not in _texts and hash(text) not in _texts:
            told(LOADED, _listed(kernel_names) or kernels(ptx), ptx=_ptx(text))

    _watch("torch.cuda._utils:_cuda_load_module", load)


def attach_jiterator(module: Any) -> None:
    """``torch.cuda.jiterator``: a kernel is made when its function is first called."""

    def call(args: Args, kwargs: Kwargs) -> None:
        told(JITERATOR, [args[0].kernel_name], getattr(args[0], "code_string", None))

    _watch("torch.cuda.jiterator:_JittedFunction.__call__", call)


# -- others ---------------------------------------------------------------------------------------


def attach_cupy(module: Any) -> None:
    """``cupy.cuda.compiler``, which all of CuPy's kernels go through, its own ones too."""

    def compiling(args: Args, kwargs: Kwargs) -> None:
        source, options = _given(args, kwargs, 0, "source"), _given(args, kwargs, 1, "options")
        names = _listed(kwargs.get("name_expressions")) or kernels(source)
        told("CuPy", names, source, _listed(options))

    names = ("_compile_module_with_cache", "compile_with_cache", "compile_using_nvrtc")
    present = [name for name in names if hasattr(module, name)]
    _watch(f"cupy.cuda.compiler:{(present or names)[0]}", compiling)


def attach_jax(module: Any) -> None:
    """``jax._src.compiler``: XLA makes the kernels of a whole module at once."""

    def compiling(args: Args, kwargs: Kwargs) -> None:
        backend = _given(args, kwargs, 0, "backend")
        if str(getattr(backend, "platform", "")) not in ("gpu", "cuda"):
            return
        computation = _given(args, kwargs, 1, "computation")
        name = str(computation.operation.attributes["sym_name"]).strip('"')
        told("JAX (XLA)", [f"{name} (all of its module)"])

    _watch("jax._src.compiler:compile_or_get_cached", compiling)


def attach_bindings(module: Any) -> None:
    """``cuda.bindings.nvrtc``, NVIDIA's own, or ``cuda.nvrtc`` as it was called before."""

    def create(args: Args, kwargs: Kwargs) -> None:
        src = _given(args, kwargs, 0, "src")
        if not getattr(_within, "maker", False):
            told("NVRTC (cuda.bindings)", kernels(src), src)

    _watch(f"{module.__name__}:nvrtcCreateProgram", create)


def attach_core(module: Any) -> None:
    """``cuda.core``: ``Program`` is of C in the later versions, and then it is inherited from.

    The earlier ones call ``cuda.bindings`` to create it.
    """
    program = private_names().get(f"{module.__name__}:Program")
    create: Any = getattr(program, "__init__", None)
    if not isinstance(program, type) or create is object.__init__:
        return

    def before(args: Args, kwargs: Kwargs) -> Any:
        code = _given(args, kwargs, 1, "code")
        told("cuda.core (NVRTC)", kernels(code), code)
        outer = getattr(_within, "maker", False)
        _within.maker = True
        return outer

    def after(outer: bool, result: Any, error: BaseException | None) -> None:
        _within.maker = outer

    init = observed(create, before, after)
    try:
        program.__init__ = init  # type: ignore[misc]
    except TypeError:
        if program.__flags__ & INHERITED:
            space = {
                "__slots__": (),
                "__doc__": program.__doc__,
                "__module__": program.__module__,
                "__qualname__": program.__qualname__,
                "__init__": init,
            }
            module.Program = type(program)(program.__name__, (program,), space)


def attach_pycuda(module: Any) -> None:
    """``pycuda.compiler``: every SourceModule is compiled by its ``compile``."""

    def compiling(args: Args, kwargs: Kwargs) -> None:
        source = _given(args, kwargs, 0, "source")
        told("PyCUDA", kernels(source), source)

    _watch("pycuda.compiler:compile", compiling)
