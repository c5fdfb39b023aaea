"""cuTile: IR that is made of Python's, Tile IR's bytecode, and tileiras' machine code.

tileiras goes from bytecode to machine code in another process, and writes no PTX.
"""

from __future__ import annotations

import threading
from typing import Any

from .. import private_names
from ..hooks import arguments, succeeded
from .emit import MAX_KERNELS, of_function, write_kernel

BY = "cuTile"
LACKS = {"ptx": "tileiras makes machine code of Tile IR, and no PTX"}
_now = threading.local()  # texts: cuTile's IR of what is compiled, by the number of the signature


def attach(module: Any) -> None:
    """``cuda.tile._compile``: compiles a function for signatures, or has them in its cache."""

    def lowered(token: tuple[Any, Any], block: Any) -> None:
        texts = getattr(_now, "texts", None)
        if texts is not None and len(texts) < MAX_KERNELS:
            texts[token[1]] = block.to_string(include_loc=False)

    def on_call(args: Any, kwargs: Any) -> Any:
        _now.texts = {}
        return arguments("ann_func")(args, kwargs)[0]

    call_arguments = arguments("self", "signature_index")
    private_names.wrap(
        "cuda.tile._compile:_IrKeeper.get_final_ir", call_arguments, succeeded(lowered)
    )
    private_names.wrap("cuda.tile._compile:compile_tile", on_call, succeeded(_compiled))


def _compiled(function: Any, result: Any) -> None:
    texts = _now.__dict__.pop("texts", {})
    identity = of_function(BY, getattr(function, "pyfunc", function))
    common = {"said": {"ir": "cuTile's IR, before Tile IR"}, "cubin": result.cubin, "lacks": LACKS}
    for n, signature in enumerate(result.kernel_signatures):
        types = [_type(parameter) for parameter in signature.parameters]
        names = [*getattr(getattr(function, "pysig", None), "parameters", ())]
        types_by_name = dict(zip(names, types, strict=False))
        write_kernel(
            {
                **identity,
                **common,
                "symbol": signature.symbol,
                "signature": types_by_name,
                "ir": texts.get(n),
            }
        )


def _type(parameter: Any) -> str:
    """What a signature says of a parameter: an array's or a scalar's type, or a constant."""
    kind = getattr(parameter, "dtype", None)
    if kind is None:
        return f"constant {getattr(parameter, 'value', '')}"
    name = str(getattr(kind, "name", kind))
    return f"array({name}, {parameter.ndim}d)" if hasattr(parameter, "ndim") else name
