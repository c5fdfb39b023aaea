"""The stages of a compile of Triton's in the thread that compiles: how long each took, and which
was being made of what when it failed.

Triton's own listener, ``knobs.compilation.listener``, would be told the same from 3.4 on; it is a
single slot, which stays the user's.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

from .. import private_names
from ..hooks import unseen
from ..writer import problem

_attached: list[bool] = []
# Of the compile under way: stages ([name, seconds]), making (the last stage that was begun, with
# Triton's metadata and what it is made of), digest (Triton's hash of it), missed (what is called
# where it is in no cache).
_now = threading.local()


def attach() -> None:
    """``triton.compiler.compiler``: what it calls to get a backend gives one that is timed."""
    private_names.wrap("triton.compiler.compiler:get_cache_manager", _keyed)
    if private_names.wrap("triton.compiler.compiler:make_backend", _timing):
        _attached.append(True)


def _timing(original: Any) -> Any:
    @functools.wraps(original)
    def make_backend(*args: Any, **kwargs: Any) -> Any:
        backend = original(*args, **kwargs)
        try:
            backend.add_stages = _timed(backend.add_stages)
        except Exception as error:
            problem("triton's stages", error)
        return backend

    return make_backend


def watched() -> bool:
    """Whether stages are seen at all."""
    return bool(_attached)


def begin(missed: Callable[[], object]) -> None:
    """A compile begins in this thread; ``missed`` is called where it is in no cache."""
    _now.stages, _now.making, _now.digest, _now.missed = [], None, None, missed


def digest() -> str | None:
    """Triton's hash of the compile under way; None where it has not come to that."""
    return getattr(_now, "digest", None)


def making() -> tuple[str, dict[str, Any], Any] | None:
    """The stage that was begun last, Triton's metadata, and what it was to be made of."""
    begun: tuple[str, dict[str, Any], Any] | None = getattr(_now, "making", None)
    return begun


def ended() -> list[list[Any]]:
    """The stages of the compile that ends in this thread, in order, with their seconds."""
    stages: list[list[Any]] = getattr(_now, "stages", [])
    # What it was made of is kept alive by nobody.
    _now.stages, _now.making, _now.missed = [], None, None
    return stages


def _keyed(original: Any) -> Any:
    """Note the hash for which Triton asks for its cache: one that fails early has no other."""

    @functools.wraps(original)
    def get_cache_manager(key: Any, *args: Any, **kwargs: Any) -> Any:
        _now.digest = str(key)
        return original(key, *args, **kwargs)

    return get_cache_manager


def _timed(add_stages: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(add_stages)
    def timed(stages: Any, *args: Any, **kwargs: Any) -> Any:
        result = add_stages(stages, *args, **kwargs)
        for name, stage in list(stages.items()):
            stages[name] = _stage(str(name), stage)
        missed = getattr(_now, "missed", None)
        if missed is not None:
            missed()
        return result

    return timed


def _stage(name: str, stage: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stage)
    def lower(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        metadata = args[1] if len(args) > 1 and isinstance(args[1], dict) else {}
        _now.making = (name, metadata, args[0] if args else None)
        try:
            return stage(*args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise
        finally:
            if len(getattr(_now, "stages", ())) < 64:
                _now.__dict__.setdefault("stages", []).append([name, time.perf_counter() - began])

    return lower
