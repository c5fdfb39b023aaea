"""Launches of hand-written Triton kernels that have a reference, with contents of their tensors."""

import os
from typing import Any

from .. import private_names
from . import call_counts, references
from .tensor_contents import begun, counted, described, launched, passed_names


def attach(module: Any) -> None:
    """Keep contents around the launches of kernels that have a reference."""
    if os.environ.get("PTXVIEW_VERIFY"):
        private_names.wrap("triton.runtime.jit:JITFunction.run", _launching, launched)


def _launching(args: Any, kwargs: Any) -> dict[str, Any] | None:
    """The event of a launch that is kept, with contents from before it; None of another."""
    kernel, *values = args
    is_launched = not kwargs.get("warmup") and not call_counts.is_tuning()
    reference = references.of_kernel(kernel) if is_launched else None
    if reference is None:
        return None
    bound = {
        **{p.name: p.default for p in kernel.params if p.has_default},
        **dict(zip(kernel.arg_names, values, strict=False)),
        **{name: value for name, value in kwargs.items() if name in kernel.arg_names},
    }
    arguments = {name: bound[name] for name in passed_names(kernel) if name in bound}
    compiled_in = {name: value for name, value in bound.items() if name not in arguments}
    tensors = [described(*item) for item in arguments.items() if hasattr(item[1], "dtype")]
    number = counted((kernel.src, repr(tensors), repr(compiled_in)))
    if number is None:
        return None
    event = {"name": kernel.fn.__name__, "call": number, "changed": frozenset()}
    return begun(event, list(arguments), list(arguments.values()), reference, compiled_in)
