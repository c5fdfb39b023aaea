"""Inductor's cache of best configurations: a kernel that is tuned from it is not measured again."""

from __future__ import annotations

import base64
import functools
import json
import threading
from collections.abc import Callable
from typing import Any

from . import calls
from .autotune_trials import Trial, config_of, number
from .writer import emit

_now = threading.local()  # file, hints: of the kernel whose configuration is looked for


def attach(module: Any) -> None:
    """``torch._inductor.runtime.triton_heuristics``: it looks configurations up."""
    tuner = module.CachingAutotuner
    wrap(tuner, "recheck_autotune_cache", _recheck)
    cache = getattr(module, "AutotuneCache", None)
    if cache is not None:
        wrap(cache, "create", _create)
        wrap(cache, "read_best", _read_best)
    if hasattr(module, "cached_autotune"):
        module.cached_autotune = _hinted(module.cached_autotune)


def wrap(owner: Any, name: str, made: Callable[[Any], Any]) -> None:
    """Put what ``made`` makes of a class's own method in its place, where it has one."""
    held = vars(owner).get(name)
    if isinstance(held, staticmethod):
        setattr(owner, name, staticmethod(made(held.__func__)))
    elif callable(held):
        setattr(owner, name, made(held))


def sizes(held: Any) -> Any:
    """The sizes that Inductor tunes for, each the next power of two: by dimension."""
    if isinstance(held, dict):
        return {str(k): v if isinstance(v, int) else str(v) for k, v in held.items()}
    return [v if isinstance(v, int) else str(v) for v in held] if held else None


def unpacked(key: Any) -> str | None:
    """Triton's hash, of the name that its cache's folder has: the hash in base32."""
    if not isinstance(key, str):
        return None
    try:
        return base64.b32decode(key + "=" * (-len(key) % 8)).hex()
    except ValueError:
        return None


def _hinted(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def cached_autotune(size_hints: Any, *args: Any, **kwargs: Any) -> Any:
        _now.hints = size_hints
        try:
            return original(size_hints, *args, **kwargs)
        finally:
            _now.hints = None

    return cached_autotune


def _recheck(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def recheck(self: Any, *args: Any, **kwargs: Any) -> Any:
        _now.hints = getattr(self, "size_hints", None)
        try:
            return original(self, *args, **kwargs)
        finally:
            _now.hints = None

    return recheck


def _create(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def create(inductor_meta: Any, filename: Any, *args: Any, **kwargs: Any) -> Any:
        _now.file = filename
        return original(inductor_meta, filename, *args, **kwargs)

    return create


def _read_best(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def read_best(self: Any, inductor_meta: Any, configs: Any) -> Any:
        best = original(self, inductor_meta, configs)
        if best is not None:
            try:
                _cached(self, inductor_meta, configs, best)
            except Exception as error:
                calls.failed("Inductor's autotuning", error)
        return best

    return read_best


def _cached(cache: Any, meta: Any, configs: Any, best: Any) -> None:
    said: dict[str, Any] = {}
    try:
        with open(cache.local_cache[1], encoding="utf-8") as file:
            said = json.load(file)
    except (OSError, TypeError, ValueError):
        pass  # it came from a cache elsewhere
    winner = Trial(config_of(best))
    winner.hash = unpacked(said.get("triton_cache_hash"))
    trials = [Trial(config_of(c), "not measured: the best one was in the cache") for c in configs]
    at = next((n for n, t in enumerate(trials) if t.config == winner.config), len(trials))
    trials[at : at + 1] = [winner]
    emit(
        {
            "event": "autotune",
            "tuning": number(),
            "by": "inductor",
            "name": meta.get("kernel_name"),
            "file": getattr(_now, "file", None),
            "key": sizes(getattr(_now, "hints", None)),
            "stopwatch": None,
            "method": "coordinate descent" if said.get("found_by_coordesc") else None,
            "from_cache": True,
            "seconds": None,
            "configurations": [t.event() for t in trials],
            "winner": at,
        }
    )
