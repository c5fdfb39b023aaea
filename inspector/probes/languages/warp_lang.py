"""Warp: a module's kernels are functions of Python, and Warp makes one file of CUDA C++ of them.

It compiles within its own library, to machine code or to PTX, when a module is first launched or
by ``wp.compile_aot_module``; a module in its cache has the CUDA C++ beside the code.
"""

from __future__ import annotations

import glob
import os
import threading
from typing import Any

from .. import private_names
from ..hooks import argument, arguments, during, succeeded
from .emit import code, of_function, write_kernel

BY = "Warp"
LACKS = "Warp compiled to machine code; wp.config.cuda_output = 'ptx' has it make PTX instead"
_now = threading.local()  # module: the one that is compiled or loaded


def attach(module: Any) -> None:
    """``warp._src.context``: the methods of a module within which files are made and loaded."""
    private_names.wrap("warp._src.context:Module._compile", *during(_now, "module", argument(0)))
    private_names.wrap("warp._src.context:Module.load", *during(_now, "module", argument(0)))

    def built(token: tuple[Any, ...], result: Any) -> None:
        _write_kernels(str(token[0]), str(token[2]))

    def loaded(path: Any, result: Any) -> None:
        for source in glob.glob(os.path.join(glob.escape(os.path.dirname(path)), "*.cu")):
            if os.path.basename(path).startswith(os.path.basename(source)[:-2]):
                _write_kernels(source, path)

    call_arguments = arguments("cu_path", "arch", "output_path")
    private_names.wrap("warp._src.build:build_cuda", call_arguments, succeeded(built))
    private_names.wrap("warp._src.build:load_cuda", argument(0, "input_path"), succeeded(loaded))


def _write_kernels(source: str, binary: str) -> None:
    """The kernels of a module that are in a file, forwards and backwards."""
    with open(source, "rb") as text, open(binary, "rb") as data:
        generated = text.read()
        stages = code(data.read())
    product = next(iter(stages.values()), b"")
    for kernel in list(getattr(getattr(_now, "module", None), "_live_kernels", ())):
        if kernel.hash is None:
            continue  # it is of no build yet
        mangled = kernel.get_mangled_name()
        for direction in ("forward", "backward"):
            symbol = f"{mangled}_cuda_kernel_{direction}"
            if symbol.encode() in product:
                types = {parameter.label: _type(parameter.type) for parameter in kernel.adj.args}
                fields = {"symbol": symbol, "signature": types, "output_code": generated, **stages}
                name = kernel.key if direction == "forward" else f"{kernel.key} (backward)"
                paths = {"output_code": os.path.basename(source)}
                identity = {**of_function(BY, kernel.func), "name": name, "paths": paths}
                write_kernel(
                    {**identity, **fields, "lacks": {} if "ptx" in stages else {"ptx": LACKS}}
                )


def _type(kind: Any) -> str:
    element_type = getattr(kind, "dtype", None)
    name = str(getattr(element_type or kind, "__name__", element_type or kind))
    return name if element_type is None else f"array({name})"
