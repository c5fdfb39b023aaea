"""CuTe DSL: MLIR that is traced from Python, and compiled to machine code within one library.

The machine code is in the module that the compiler leaves, as a string of LLVM's dialect. PTX is a
file where the program's own CUTE_DSL_KEEP_PTX or ``cute.KeepPTX`` has it written.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from .. import private_names
from ..hooks import Args, Kwargs, succeeded
from .emit import source_place, write_kernel

BY = "CuTe DSL"
SAID = {"ir": "MLIR, as CuTe DSL traced it"}
LACKS = {"ptx": "CuTe DSL keeps none; CUTE_DSL_KEEP_PTX=1 has it, and turns its cache off"}


def attach(module: Any) -> None:
    """``cutlass.base_dsl.dsl``: compiles a traced module, or has it in its cache."""

    def on_call(args: Args, kwargs: Kwargs) -> str:
        traced = args[1] if len(args) > 1 else kwargs["module"]
        return str(traced.operation.get_asm(enable_debug_info=True, large_elements_limit=16))

    name = "cutlass.base_dsl.dsl:BaseDSL.compile_and_cache"
    private_names.wrap(name, on_call, succeeded(_compiled))


def _compiled(traced: str, function: Any) -> None:
    ptx = getattr(getattr(function, "artifacts", None), "PTX", None)
    code = {"ptx": ptx} if isinstance(ptx, str) and ".version" in ptx else {"lacks": LACKS}
    cubins = _cubins(getattr(function, "ir_module", None))
    for symbol in getattr(function, "kernel_info", None) or ():
        cubin = next((c for c in cubins if symbol.encode() in c), None)
        identity = {
            "by": BY,
            "name": symbol,
            "symbol": symbol,
            "said": SAID,
            **_place(traced, symbol),
        }
        write_kernel({**identity, **code, "ir": traced, "cubin": cubin})


def _place(traced: str, symbol: str) -> dict[str, Any]:
    """The file and the lines of a kernel: MLIR's location of its parameters, else nothing."""
    name = re.escape(symbol)
    used = re.search(rf"cuda\.kernel @{name}\([^\n]*?\((#loc\d{{1,9}})\)", traced)
    location = f"{used[1]} = loc" if used else "no location"
    place = re.search(rf'^{location}\("([^"\n]+)":(\d{{1,9}})', traced, re.MULTILINE)
    return {} if place is None else source_place(place[1], int(place[2]))


def _cubins(module: Any) -> list[bytes]:
    """The machine code that a compiled module holds as fat binaries in strings."""
    if module is None:
        return []
    out = []
    for op in module.body.operations:
        attributes = op.operation.attributes
        data = getattr(attributes["value"], "value_bytes", b"") if "value" in attributes else b""
        if data[:4] == b"P\xedU\xba" and len(data) > 32:
            _, _, head, size = struct.unpack_from("<HHIQ", data, 16)
            out.append(data[16 + head : 16 + head + size])
    return [cubin for cubin in out if cubin[:4] == b"\x7fELF"]
