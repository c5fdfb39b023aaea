"""CUDA C++ that is compiled within the program: NVRTC by cuda.bindings and CuPy; PyCUDA.

NVRTC is asked for its PTX once it has compiled, also where the program asks for machine code. The
jiterator compiles within torch's library: its source is recorded, and the driver has its machine
code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .. import private_names
from ..hooks import Args, Kwargs, arguments, per_recording, succeeded
from .emit import ENTRY, MAX_KERNELS, code, kernels, record, refused

_sources: dict[int, tuple[Any, Any]] = per_recording({})  # by NVRTC's program


def tell_program(
    language: str, origin: tuple[Any, Any], options: object, *products: object
) -> None:
    """A compiled program, given as a text and the name of it: its kernels are those of its PTX."""
    stages = {kind: data for product in products for kind, data in code(product).items()}
    source, path = origin
    fields = {"source": source, "path": path, "options": listed(options) or None, **stages}
    symbols = ENTRY.findall(stages.get("ptx", b"").decode("utf-8", "replace"))
    for symbol in symbols:
        record(language, [symbol], symbol=symbol, **fields)
    if not symbols:
        record(language, kernels(source), **fields)


def listed(names: object) -> list[Any]:
    """Names that the program gave; none of an iterator, which is the compiler's to read."""
    return list(names) if isinstance(names, list | tuple | set | frozenset) else []


# -- compilers of one function --------------------------------------------------------------------


def _jiterator(language: str, function: Any, *_: Any, **kwargs: Any) -> None:
    """A kernel is made when its function is first called."""
    record(language, [function.kernel_name], source=getattr(function, "code_string", None))


def _cupy(language: str, source: Any, options: Any = (), *_: Any, **kwargs: Any) -> None:
    """All of CuPy's kernels go through here, its own ones too, and those in its cache."""
    names = listed(kwargs.get("name_expressions")) or kernels(source)
    record(language, names, source=source, options=listed(options))


def _pycuda(language: str, *args: Any, **kwargs: Any) -> None:
    source = args[0] if args else kwargs.get("source")
    record(language, kernels(source), source=source)


COMPILERS: dict[str, tuple[str, str, Callable[..., None]]] = {
    "torch.cuda.jiterator": ("_JittedFunction.__call__", "torch.cuda.jiterator", _jiterator),
    "cupy.cuda.compiler": ("_compile_module_with_cache", "CuPy", _cupy),
    "pycuda.compiler": ("compile", "PyCUDA", _pycuda),
}
"""Modules with the function that compiles, its name for people, and what notes a call of it."""


def attach(module: Any) -> None:
    """Observe the compiler of one of ``COMPILERS``."""
    function, language, note = COMPILERS[module.__name__]

    def on_call(args: Args, kwargs: Kwargs) -> None:
        note(language, *args, **kwargs)

    private_names.wrap(f"{module.__name__}:{function}", on_call)
    if module.__name__ == "cupy.cuda.compiler":
        name = "cupy.cuda.compiler:_NVRTCProgram.compile"
        private_names.wrap(name, arguments("self", "options"), _of_cupy)


def _of_cupy(token: tuple[Any, Any], result: Any, error: BaseException | None) -> None:
    program, options = token
    if isinstance(error, Exception):
        refused("CuPy", "NVRTC", str(error), source=program.src, path=program.name)
    elif error is None:
        ptx = sys.modules["cupy.cuda.compiler"].nvrtc.getPTX(program.ptr)
        tell_program("CuPy", (program.src, program.name), options, ptx, result[0])


# -- cuda.bindings --------------------------------------------------------------------------------


def attach_bindings(module: Any) -> None:
    """``cuda.bindings.nvrtc``: functions of a program, which is a number."""
    language = "NVRTC (cuda.bindings)"

    def created(token: tuple[Any, Any], result: Any) -> None:
        source, name = token
        if not int(result[0]) and len(_sources) < MAX_KERNELS:
            _sources[int(result[1])] = source, (name or b"").decode(errors="replace")

    def text(program: Any, product: str) -> bytes:
        error, size = getattr(module, f"nvrtcGet{product}Size")(program)
        data = bytes(0 if int(error) else size)
        if data:
            getattr(module, f"nvrtcGet{product}")(program, data)
        return data

    def compiled(token: tuple[Any, Any, Any], result: Any) -> None:
        program, _, options = token
        source, path = _sources.get(int(program), (None, None))
        if int(result[0]):
            log = text(program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
            refused(language, "NVRTC", log, source=source, path=path)
        else:
            origin = source, path
            tell_program(language, origin, options, text(program, "PTX"), text(program, "CUBIN"))

    name = module.__name__
    private_names.wrap(f"{name}:nvrtcCreateProgram", arguments("src", "name"), succeeded(created))
    private_names.wrap(
        f"{name}:nvrtcCompileProgram",
        arguments("prog", "numOptions", "options"),
        succeeded(compiled),
    )
