"""Names the kernels of compilers that run within the program, as they are made.

Only what makes kernels is watched, never what launches them: NVRTC as torch and cuda.core use it,
the jiterator, CuPy, numba.cuda, JAX and PyCUDA. What it was given is kept with the names: on a GPU
the machine code comes by the driver (driver/subscriber.py), and is theirs by the name.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .writer import blob, emit, problem

MOST = 1000
LONGEST = 400
# A kernel of CUDA C++: what stands between __global__ and its name is short.
_KERNEL = re.compile(r"__global__\b[^;{}()]{0,400}?\b(\w{1,400})\s*\(")
# Comments, and launch bounds, which stand between __global__ and the name.
_ASIDE = re.compile(r"//[^\n]*|/\*.*?\*/|__launch_bounds__\s*\([^()]*\)", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$.]{1,400})")
LARGEST = 4 << 20
INHERITED = 1 << 10  # Py_TPFLAGS_BASETYPE: a class that others may be made of
_told: set[tuple[str, str]] = set()
_texts: set[int] = set()  # what NVRTC returned to torch, which is loaded right afterwards
_within = threading.local()


@contextmanager
def within() -> Iterator[None]:
    """A context for a compiler that calls another, whose kernels are recorded already."""
    before = getattr(_within, "maker", False)
    _within.maker = True
    try:
        yield
    finally:
        _within.maker = before


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


def _before(original: Callable[..., Any], tell: Callable[..., None]) -> Callable[..., Any]:
    """Wraps ``original`` so that ``tell`` runs first, even if the compiler then fails."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            tell(*args, **kwargs)
        except Exception as error:
            problem("a kernel that is not captured", error)
        return original(*args, **kwargs)

    return call


def private_names() -> Any:
    """The module of that name, which is not loaded before a compiler is."""
    from . import private_names as module

    return module


def _watch(name: str, tell: Callable[..., None]) -> None:
    try:
        private_names().wrap(name, functools.partial(_before, tell=tell))
    except (AttributeError, TypeError):
        return  # written in C


# -- torch ----------------------------------------------------------------------------------------

NVRTC = "torch.cuda._compile_kernel (NVRTC)"
LOADED = "torch.cuda (a module of PTX or cubin)"
JITERATOR = "torch.cuda.jiterator"


def attach_nvrtc(module: Any) -> None:
    """``torch.cuda._utils``: what compiles CUDA C++ at run time, and what loads a module."""

    def compiling(compiler: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compiler)
        def nvrtc_compile(kernel_source: Any, kernel_name: Any, *args: Any, **kwargs: Any) -> Any:
            more: dict[str, Any] = {}
            try:
                compiled = compiler(kernel_source, kernel_name, *args, **kwargs)
                if isinstance(compiled, tuple) and compiled and len(_texts) < MOST:
                    _texts.add(hash(compiled[0]))
                    more = {"ptx": _ptx(compiled[0])}
                    if len(compiled) > 1 and isinstance(compiled[1], str):
                        more["symbol"] = compiled[1]
                return compiled
            finally:
                told(NVRTC, [kernel_name], kernel_source, **more)

        return nvrtc_compile

    private_names().wrap("torch.cuda._utils:_nvrtc_compile", compiling)

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

    def compiled(code: Any = None, *args: Any, **kwargs: Any) -> None:
        told("cuda.core (NVRTC)", kernels(code), code)

    def told_of(create: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(create)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                compiled(*args, **kwargs)
            except Exception as error:
                problem("a kernel that is not captured", error)
            with within():
                create(self, *args, **kwargs)

        return init

    try:
        original.__init__ = told_of(original.__init__)  # type: ignore[misc]
    except TypeError:
        if not original.__flags__ & INHERITED:
            return
        space = {
            "__slots__": (),
            "__doc__": original.__doc__,
            "__module__": original.__module__,
            "__qualname__": original.__qualname__,
            "__init__": told_of(original.__init__),  # type: ignore[misc]
        }
        module.Program = type(original)(original.__name__, (original,), space)


def attach_pycuda(module: Any) -> None:
    """``pycuda.compiler``: every SourceModule is compiled by its ``compile``."""

    def compiled(source: Any, *args: Any, **kwargs: Any) -> None:
        told("PyCUDA", kernels(source), source)

    _watch("pycuda.compiler:compile", compiled)
