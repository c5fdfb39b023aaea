"""libdevice's functions on the interpreter's tensors, by the torch function of the same meaning."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

MODULES = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")
# Where torch's name differs.
NAMES = {
    "abs": "abs", "fabs": "abs", "fast_expf": "exp", "fast_logf": "log", "fast_log2f": "log2",
    "fast_powf": "pow", "fast_tanhf": "tanh", "fast_sinf": "sin", "fast_cosf": "cos",
    "fast_dividef": "div", "div_rn": "div", "div_rz": None, "sqrt_rn": "sqrt", "isinf": "isinf",
    "isnand": "isnan", "isinfd": "isinf", "finitef": "isfinite", "isfinited": "isfinite",
    "nearbyint": "round", "rint": "round", "llrint": "round", "rsqrt_rn": "rsqrt",
    "j0": "bessel_j0", "j1": "bessel_j1", "y0": "bessel_y0", "y1": "bessel_y1",
    "cyl_bessel_i0": "i0", "cyl_bessel_i1": "i1", "normcdf": "ndtr", "erfcinv": None,
    "mulhi": None, "tgamma": None,
}  # fmt: skip


def _apply(function: Any, *given: Any) -> Any:
    """Call a torch function on interpreter tensors, promoted as Triton promotes them."""
    import numpy as np
    import torch
    import triton.language as tl
    from triton.runtime import interpreter

    first = next(a for a in given if isinstance(a, tl.tensor))
    operands = list(given)
    if len(operands) > 1:
        convert, promote = _semantic(tl, interpreter)
        operands = [convert(a) for a in operands]
        for i in range(1, len(operands)):
            operands[0], operands[i] = promote(operands[0], operands[i])
        first = operands[0]
    arrays = [torch.from_numpy(np.ascontiguousarray(o.handle.data)) for o in operands]
    result = function(*arrays).numpy()
    dtype = first.dtype
    if result.dtype == bool:  # as in CUDA, a truth value is an int
        result, dtype = result.astype(np.int32), tl.int32
    kind = tl.block_type(dtype, list(first.type.shape)) if first.type.is_block() else dtype
    return tl.tensor(interpreter.TensorHandle(result, dtype.scalar), kind)


def _semantic(tl: Any, interpreter: Any) -> tuple[Any, Any]:
    """Triton's conversion to a tensor and its promotion of two: methods since 3.4."""
    semantic = getattr(interpreter, "interpreter_semantic", None)
    if semantic is not None:
        return semantic.to_tensor, semantic.binary_op_type_checking_impl
    builder, functions = interpreter.interpreter_builder, tl.semantic
    return (
        lambda a: functions.to_tensor(a, builder),
        lambda a, b: functions.binary_op_type_checking_impl(a, b, builder),
    )


@cache
def _replacement(name: str) -> Any:
    import torch

    wanted = NAMES.get(name, name)
    function = None
    if wanted is not None:
        function = getattr(torch, wanted, None) or getattr(torch.special, wanted, None)

    def call(*args: Any, **ignored: Any) -> Any:
        if function is None:
            raise NotImplementedError(f"libdevice.{name} has no counterpart on the host")
        return _apply(function, *args)

    call.__name__ = name
    return call


@cache
def patches() -> list[tuple[Any, str, Any]]:
    """Every function of the libdevice modules, replaced."""
    import sys

    replacements = []
    for title in MODULES:
        module = sys.modules.get(title)
        for name, value in list(vars(module).items()) if module else ():
            if callable(value) and getattr(value, "__module__", "") in MODULES:
                replacements.append((module, name, _replacement(name)))
    return replacements


def names(space: dict[str, Any]) -> list[tuple[str, Any]]:
    """Functions of libdevice that a module has imported by name, with their replacements."""
    return [
        (name, _replacement(value.__name__))
        for name, value in space.items()
        if getattr(value, "__module__", "") in MODULES
        and callable(value)
        and not inspect.ismodule(value)
    ]
