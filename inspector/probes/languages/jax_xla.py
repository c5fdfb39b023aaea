"""``jax.jit`` and Pallas: XLA makes all kernels of a module at once."""

from __future__ import annotations

from typing import Any

from .. import private_names
from ..hooks import arguments
from .made import record

BY = "JAX (XLA)"


def attach(module: Any) -> None:
    """``jax._src.compiler``: compiles a module, or has it in its cache."""

    def compiling(args: Any, kwargs: Any) -> None:
        backend, computation = arguments("backend", "computation")(args, kwargs)
        if str(getattr(backend, "platform", "")) in ("gpu", "cuda"):
            name = str(computation.operation.attributes["sym_name"]).strip('"')
            record(BY, [f"{name} (all of its module)"])

    private_names.wrap("jax._src.compiler:compile_or_get_cached", compiling)
