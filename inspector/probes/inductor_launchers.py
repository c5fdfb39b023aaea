"""Kernels that Inductor takes from its caches and launches without a call of ``triton.compile``."""

from __future__ import annotations

import functools
import os
from typing import Any

from .writer import problem


def attach(module: Any) -> None:
    """Wrap the making of launchers: it happens once for each configuration that is kept."""
    for name in ("StaticTritonCompileResult", "TritonCompileResult"):
        kind = getattr(module, name, None)
        if kind is not None and "make_launcher" in vars(kind):
            kind.make_launcher = _watched(kind.make_launcher)


def _watched(original: Any) -> Any:
    @functools.wraps(original)
    def make_launcher(self: Any, *args: Any, **kwargs: Any) -> Any:
        launcher = original(self, *args, **kwargs)
        try:
            _record(self, launcher)
        except Exception as error:
            problem("inductor launcher", error)
        return launcher

    return make_launcher


def _caches(kernel: Any, meta: Any) -> list[str]:
    """Where Inductor keeps what Triton compiled for it: beside the cubin, or in its own cache."""
    path = getattr(kernel, "cubin_path", None)
    found = [os.path.dirname(os.path.dirname(path))] if isinstance(path, str) else []
    try:
        from torch._inductor.runtime.cache_dir_utils import triton_cache_dir

        found.append(triton_cache_dir(meta.get("device", 0)))
    except ImportError:
        pass
    return found


def _record(result: Any, launcher: Any) -> None:
    from . import triton_compiles

    kernel = result.kernel
    digest = getattr(kernel, "hash", None)
    if not digest:
        return
    meta = getattr(result, "compile_meta", None) or {}
    name = getattr(kernel, "name", None) or getattr(
        getattr(getattr(kernel, "src", None), "fn", None), "__name__", ""
    )
    source = {
        "signature": {str(k): str(v) for k, v in (meta.get("signature") or {}).items()},
        "constexprs": {
            str(k): triton_compiles._plain(v) for k, v in (meta.get("constants") or {}).items()
        },
        "inductor_config": triton_compiles._plain(
            dict(getattr(getattr(result, "config", None), "kwargs", {}) or {})
        ),
    }
    triton_compiles.record_cached(str(digest), str(name), source, _caches(kernel, meta))
    registers = getattr(launcher, "n_regs", None)
    if registers is not None:
        triton_compiles.loaded(digest, registers, getattr(launcher, "n_spills", None))
