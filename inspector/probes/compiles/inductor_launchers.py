"""Kernels that Inductor takes from its caches and launches without a call of ``triton.compile``."""

from __future__ import annotations

import os
from typing import Any

from .. import private_names
from ..calls import subjects, triton_launches
from ..hooks import argument
from ..writer import plain

HEURISTICS = "torch._inductor.runtime.triton_heuristics"


def attach(module: Any) -> None:
    """Watch the making of launchers: it happens once for each configuration that is kept."""
    for name in ("StaticTritonCompileResult", "TritonCompileResult"):
        private_names.wrap(f"{HEURISTICS}:{name}.make_launcher", argument(0), _made)
    subjects.as_benchmark(f"{HEURISTICS}:CachingAutotuner.bench")
    faster = f"{HEURISTICS}:CachingAutotuner._build_fast_launcher"
    private_names.wrap(faster, argument(1, "launcher"), _made_faster)


def _made(compiled: Any, launcher: Any, error: BaseException | None) -> None:
    if error is None:
        _record(compiled, launcher)
    elif isinstance(error, Exception):
        _dropped(compiled, error)


def _made_faster(slow: Any, fast: Any, error: BaseException | None) -> None:
    if fast is not None:
        triton_launches.watch_faster(slow, fast)


def _dropped(result: Any, error: Exception) -> None:
    """Record a configuration that compiled but cannot be loaded, so that Inductor drops it."""
    from ..autotune import inductor, trials
    from . import triton_compiles

    name = (getattr(result, "inductor_meta", None) or {}).get("kernel_name")
    digest = getattr(result.kernel, "hash", None)
    inductor.dropped(name, None, result.config, trials.first_line(error), digest)
    # It was compiled all the same, here or by another process, whose files are in the cache.
    _compiled(result)
    triton_compiles.not_loaded(digest, error)


def _caches(kernel: Any, meta: Any) -> list[str]:
    """Where Inductor keeps what Triton compiled for it: beside the cubin, or in its own cache."""
    path = getattr(kernel, "cubin_path", None)
    folders = [os.path.dirname(os.path.dirname(path))] if isinstance(path, str) else []
    cache = private_names.get("torch._inductor.runtime.cache_dir_utils:triton_cache_dir")
    if cache is not None:
        folders.append(cache(meta.get("device", 0)))
    return folders


def _arguments(kernel: Any) -> list[str] | None:
    """Names of the arguments that the kernel declares ``tl.constexpr``; None if unknown."""
    function: Any = getattr(getattr(kernel, "src", None), "fn", None)
    names = getattr(kernel, "arg_names", None) or getattr(function, "arg_names", None)
    declared = getattr(kernel, "declared_constexprs", None)
    if declared is None and getattr(function, "params", None) is not None:
        declared = [p.num for p in function.params if p.is_constexpr]
    if names is None or declared is None:
        return None
    return [str(names[i]) for i in declared if i < len(names)]


def _record(result: Any, launcher: Any) -> None:
    from . import triton_compiles

    _compiled(result)
    kernel = result.kernel
    digest = getattr(kernel, "hash", None)
    if not digest:
        return
    meta = getattr(result, "compile_meta", None) or {}
    registers = getattr(launcher, "n_regs", None)
    if hasattr(kernel, "full_constexprs"):
        signature, constants = meta.get("signature"), meta.get("constants")
        triton_launches.watch_static(
            launcher, kernel, signature, constants, lambda: _compiled(result)
        )
    if registers is not None:
        triton_compiles.loaded(digest, registers, getattr(launcher, "n_spills", None))


def _compiled(result: Any) -> None:
    """Record what a configuration of Inductor's was compiled to."""
    from ..autotune import inductor
    from . import triton_compiles

    kernel = result.kernel
    digest = getattr(kernel, "hash", None)
    if not digest:
        return
    inductor.configured(result.config, digest)
    meta = getattr(result, "compile_meta", None) or {}
    name = getattr(kernel, "name", None) or getattr(
        getattr(getattr(kernel, "src", None), "fn", None), "__name__", ""
    )
    source: dict[str, Any] = {
        "signature": {str(k): str(v) for k, v in (meta.get("signature") or {}).items()},
        "constexprs": {str(k): plain(v) for k, v in (meta.get("constants") or {}).items()},
    }
    names = _arguments(kernel)
    if names is not None:
        source["declared"] = names
    attributes = next(iter(meta.get("configs") or ()), None)
    if isinstance(attributes, dict):
        order = list(source["signature"])
        source["specialization"] = {
            order[k[0]]: plain(v)
            for k, v in attributes.items()
            if isinstance(k, tuple) and len(k) == 1 and isinstance(k[0], int) and k[0] < len(order)
        }
    triton_compiles.record_cached(str(digest), str(name), source, _caches(kernel, meta))
