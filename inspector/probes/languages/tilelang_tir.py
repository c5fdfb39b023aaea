"""TileLang: TIR that is made of Python's, and the CUDA C++ that TVM generates for nvcc.

nvcc's machine code is returned to TileLang, or is in its cache; else the driver has it.
"""

from __future__ import annotations

import re
import sys
import threading
from typing import Any

from .. import private_names
from ..hooks import Args, Kwargs, arguments, per_recording, succeeded
from .emit import MAX_KERNELS, code, kernels, source_place, write_kernel

BY = "TileLang"
SAID = {"ir": "TIR, as TileLang traced it"}
LACKS = {
    "ptx": "TileLang has nvcc make machine code, and no PTX; kernel.export_ptx does that again"
}
_now = threading.local()  # code: the CUDA C++ that nvcc, or its cache, was asked for
_binaries: dict[tuple[str, ...], dict[str, bytes]] = per_recording({})
"""What nvcc made, by the names of the kernels."""


def attach(module: Any) -> None:
    """``tilelang.engine.lower``: lowers a function, or a module of some, to CUDA C++."""

    def on_call(args: Args, kwargs: Kwargs) -> tuple[Any, dict[str, Any]]:
        (function,) = arguments("func_or_mod")(args, kwargs)
        return function, _place(function)

    name = "tilelang.engine.lower:lower_with_context"
    private_names.wrap(name, on_call, succeeded(_lowered))


def attach_nvcc(module: Any) -> None:
    """``tilelang.contrib.nvcc``: compiles CUDA C++ in another process, if no cache has it."""

    def compiled(token: tuple[Any], binary: Any) -> None:
        _note_binary(token[0], binary)

    name = "tilelang.contrib.nvcc:compile_cuda"
    private_names.wrap(name, arguments("code"), succeeded(compiled))


def attach_cache(module: Any) -> None:
    """``tilelang.cache.cuda_binary_cache``: is asked for a key, and then for what has it."""

    def keyed(args: Args, kwargs: Kwargs) -> None:
        _now.code = kwargs.get("code")

    def loaded(token: None, binary: Any) -> None:
        if binary and getattr(_now, "code", None):
            _note_binary(_now.code, binary)

    cache = "tilelang.cache.cuda_binary_cache:CUDABinaryCache"
    private_names.wrap(f"{cache}.make_key", keyed)
    private_names.wrap(f"{cache}.load", None, succeeded(loaded), inherited=True)


def _note_binary(text: Any, binary: Any) -> None:
    """The machine code of a file, which is compiled while it is lowered."""
    if len(_binaries) < MAX_KERNELS:
        _binaries[tuple(kernels(text))] = code(binary)


def _lowered(token: tuple[Any, dict[str, Any]], artifact: Any) -> None:
    function, place = token
    names = tuple(kernels(artifact.kernel_source))
    paths = {"paths": {"ir": "tir.py", "output_code": f"{names[0]}.cu"}}
    texts = {"ir": function.script(), "output_code": artifact.kernel_source}
    event = {
        "by": BY,
        **place,
        "said": SAID,
        "lacks": LACKS,
        **paths,
        **texts,
        **_binaries.pop(names, {}),
    }
    for name in names:
        write_kernel({**event, "name": name, "symbol": name})


def _place(function: Any) -> dict[str, Any]:
    """The file that had it lowered, and the lines there of the function of this name."""
    frame = sys._getframe()
    name = re.escape(str((getattr(function, "attrs", None) or {}).get("global_symbol", "")))
    while frame.f_back is not None:
        frame = frame.f_back
        path = frame.f_code.co_filename
        module_name = str(frame.f_globals.get("__name__", ""))
        if module_name.partition(".")[0] not in ("tilelang", "ptxview_probes", "tvm_ffi", "tvm"):
            break
    with open(path, encoding="utf-8") as file:
        rows = list(enumerate(file, 1))
    first = next((n for n, row in rows if re.match(rf"\s*def {name}\b", row)), None)
    return source_place(path, first or 1, is_block=first is not None)
