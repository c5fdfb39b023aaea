"""Names the kernels of compilers that run within the program, as they are made.

Only compilers are observed, never launches: NVRTC as torch and cuda.core use it, the jiterator,
CuPy, JAX and PyCUDA. Their sources are kept with the names: on a GPU the machine code comes from
the driver (driver/subscriber.py), and is matched by name.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import private_names
from .hooks import observed, per_recording
from .writer import blob, emit

if TYPE_CHECKING:
    from .hooks import Args, Before, Kwargs


MAX_KERNELS = 1000
MAX_NAME_CHARACTERS = 400
MAX_SOURCE_BYTES = 4 << 20
# A kernel of CUDA C++: little is between __global__ and its name.
_KERNEL = re.compile(r"__global__\b[^;{}()]{0,400}?\b(\w{1,400})\s*\(")
# Comments, and launch bounds, which are between __global__ and the name.
_ASIDE = re.compile(r"//[^\n]*|/\*.*?\*/|__launch_bounds__\s*\([^()]*\)", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$.]{1,400})")
INHERITABLE = 1 << 10  # Py_TPFLAGS_BASETYPE
_told: set[tuple[str, str]] = per_recording(set())
_texts: set[int] = set()  # what NVRTC returned to torch, which is loaded right afterwards
_within = threading.local()  # maker: whether a compiler runs whose kernels are named already


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
                event["options"] = [_decoded(option) for option in options][:100]
            emit(event)


def _encoded(text: object) -> bytes | None:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    return text if isinstance(text, bytes) else None


def _decoded(text: object) -> str:
    plain = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return plain[:MAX_NAME_CHARACTERS]


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


def _given(args: Args, kwargs: Kwargs, place: int, name: str) -> Any:
    """An argument of a call, by its place or its name; None if it is not given."""
    return args[place] if len(args) > place else kwargs.get(name)


# -- compilers of one function --------------------------------------------------------------------


def _jiterator(args: Args, kwargs: Kwargs) -> None:
    """A kernel is made when its function is first called."""
    record("torch.cuda.jiterator", [args[0].kernel_name], getattr(args[0], "code_string", None))


def _cupy(args: Args, kwargs: Kwargs) -> None:
    """All of CuPy's kernels go through here, its own ones too."""
    source, options = _given(args, kwargs, 0, "source"), _given(args, kwargs, 1, "options")
    names = _listed(kwargs.get("name_expressions")) or kernels(source)
    record("CuPy", names, source, _listed(options))


def _jax(args: Args, kwargs: Kwargs) -> None:
    """XLA makes the kernels of a whole module at once."""
    backend = _given(args, kwargs, 0, "backend")
    if str(getattr(backend, "platform", "")) in ("gpu", "cuda"):
        computation = _given(args, kwargs, 1, "computation")
        name = str(computation.operation.attributes["sym_name"]).strip('"')
        record("JAX (XLA)", [f"{name} (all of its module)"])


def _bindings(args: Args, kwargs: Kwargs) -> None:
    source = _given(args, kwargs, 0, "src")
    if not getattr(_within, "maker", False):
        record("NVRTC (cuda.bindings)", kernels(source), source)


def _pycuda(args: Args, kwargs: Kwargs) -> None:
    source = _given(args, kwargs, 0, "source")
    record("PyCUDA", kernels(source), source)


COMPILERS: dict[str, tuple[str, Before]] = {
    "torch.cuda.jiterator": ("_JittedFunction.__call__", _jiterator),
    "cupy.cuda.compiler": ("_compile_module_with_cache", _cupy),
    "jax._src.compiler": ("compile_or_get_cached", _jax),
    "cuda.bindings.nvrtc": ("nvrtcCreateProgram", _bindings),
    "cuda.nvrtc": ("nvrtcCreateProgram", _bindings),
    "pycuda.compiler": ("compile", _pycuda),
}
"""Modules with the function that compiles, and the hook before it."""


def attach(module: Any) -> None:
    """Observe the compiler of one of ``COMPILERS``."""
    function, before = COMPILERS[module.__name__]
    private_names.wrap(f"{module.__name__}:{function}", before)


# -- torch's NVRTC --------------------------------------------------------------------------------


def attach_nvrtc(module: Any) -> None:
    """``torch.cuda._utils``: compiles CUDA C++ at run time, and loads modules."""
    private_names.wrap("torch.cuda._utils:_nvrtc_compile", _compiling, _compiled)
    private_names.wrap("torch.cuda._utils:_cuda_load_module", _loading)


def _compiling(args: Args, kwargs: Kwargs) -> tuple[Any, Any]:
    return _given(args, kwargs, 0, "kernel_source"), _given(args, kwargs, 1, "kernel_name")


def _compiled(given: tuple[Any, Any], compiled: Any, error: BaseException | None) -> None:
    source, name = given
    more: dict[str, Any] = {}
    if isinstance(compiled, tuple) and compiled and len(_texts) < MAX_KERNELS:
        _texts.add(hash(_encoded(compiled[0])))
        more = {"ptx": _ptx(compiled[0])}
        if len(compiled) > 1 and isinstance(compiled[1], str):
            more["symbol"] = compiled[1]
    record("torch.cuda._compile_kernel (NVRTC)", [name], source, **more)


def _loading(args: Args, kwargs: Kwargs) -> None:
    code, names = _given(args, kwargs, 0, "ptx"), _given(args, kwargs, 1, "kernel_names")
    if hash(_encoded(code)) not in _texts:
        maker = "torch.cuda (a module of PTX or cubin)"
        record(maker, _listed(names) or kernels(code), ptx=_ptx(code))


# -- cuda.core ------------------------------------------------------------------------------------


def attach_core(module: Any) -> None:
    """``cuda.core``: later versions have ``Program`` in C, and then it is inherited from.

    The earlier ones call ``cuda.bindings`` to create it.
    """
    program = private_names.get(f"{module.__name__}:Program")
    create: Any = getattr(program, "__init__", None)
    if not isinstance(program, type) or create is object.__init__:
        return
    init = observed(create, _core, _cored)
    try:
        program.__init__ = init  # type: ignore[misc]
    except TypeError:
        if program.__flags__ & INHERITABLE:
            copied = ("__doc__", "__module__", "__qualname__")
            space = {name: getattr(program, name) for name in copied}
            space.update(__slots__=(), __init__=init)
            module.Program = type(program)(program.__name__, (program,), space)


def _core(args: Args, kwargs: Kwargs) -> bool:
    code = _given(args, kwargs, 1, "code")
    record("cuda.core (NVRTC)", kernels(code), code)
    outer = getattr(_within, "maker", False)
    _within.maker = True
    return outer


def _cored(outer: bool, result: Any, error: BaseException | None) -> None:
    _within.maker = outer
