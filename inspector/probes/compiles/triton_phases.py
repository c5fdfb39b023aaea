"""How long each stage of a compile of Triton's took, in the thread that compiles.

Triton's own listener, ``knobs.compilation.listener``, would be told the same from 3.4 on; it is a
single slot, which stays the user's.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

from ..hooks import unseen
from ..writer import problem

_attached: list[Any] = []
_now = threading.local()  # stages: [name, seconds] of the compile under way


def attach(module: Any) -> None:
    """``triton.compiler.compiler``: what it calls to get a backend gives one that is timed."""
    original = getattr(module, "make_backend", None)
    if original is None:
        problem("triton's stages", "this version of Triton names its backends otherwise")
        return

    @functools.wraps(original)
    def make_backend(*args: Any, **kwargs: Any) -> Any:
        backend = original(*args, **kwargs)
        try:
            backend.add_stages = _timed(backend.add_stages)
        except Exception as error:
            problem("triton's stages", error)
        return backend

    module.make_backend = make_backend
    _attached.append(module)


def watched() -> bool:
    """Whether stages are seen at all."""
    return bool(_attached)


def begin() -> None:
    """A compile begins in this thread."""
    _now.stages = []


def ended() -> list[list[Any]]:
    """The stages of the compile that ends in this thread, in order, with their seconds."""
    stages: list[list[Any]] = getattr(_now, "stages", [])
    _now.stages = []
    return stages


def _timed(add_stages: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(add_stages)
    def timed(stages: Any, *args: Any, **kwargs: Any) -> Any:
        result = add_stages(stages, *args, **kwargs)
        for name, stage in list(stages.items()):
            stages[name] = _stage(str(name), stage)
        return result

    return timed


def _stage(name: str, stage: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stage)
    def lower(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return stage(*args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise
        finally:
            if len(getattr(_now, "stages", ())) < 64:
                _now.__dict__.setdefault("stages", []).append([name, time.perf_counter() - began])

    return lower
