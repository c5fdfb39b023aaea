"""Stages of a Triton compilation in the thread that compiles: durations, and the stage that failed.

Triton's own listener, ``knobs.compilation.listener``, gives the same from 3.4 on; it is a single
slot, which stays the user's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import private_names
from ..hooks import argument, observed

if TYPE_CHECKING:
    from ..hooks import Before

MAX_STAGES = 64
"""Stages of one compilation that are timed."""
_attached: list[bool] = []
# Of the compile under way: stages ([name, seconds]), making (the last stage that was begun, with
# Triton's metadata and what it is made of), digest (Triton's hash of it), missed (what is called
# where it is in no cache).
_now = threading.local()


def attach() -> None:
    """``triton.compiler.compiler``: what it calls to get a backend gives one that is timed."""
    private_names.wrap("triton.compiler.compiler:get_cache_manager", _keyed)
    if private_names.wrap("triton.compiler.compiler:make_backend", after=_made):
        _attached.append(True)


def _made(_: object, backend: Any, error: BaseException | None) -> None:
    """Observe which stages a new backend has."""
    if error is None:
        backend.add_stages = observed(backend.add_stages, argument(0, "stages"), _added)


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


def _keyed(args: Any, kwargs: Any) -> None:
    """Note the hash for which Triton asks for its cache: one that fails early has no other."""
    _now.digest = str(args[0] if args else kwargs["key"])


def _added(stages: Any, _: object, error: BaseException | None) -> None:
    """Time each stage; what comes next is a compilation that was in no cache."""
    if error is not None:
        return
    for name, stage in list(stages.items()):
        stages[name] = observed(stage, _beginning(str(name)), _stage_ended)
    missed, _now.missed = getattr(_now, "missed", None), None
    if missed is not None:
        missed()


def _beginning(name: str) -> Before:
    def stage_began(args: Any, kwargs: Any) -> tuple[str, float]:
        metadata = args[1] if len(args) > 1 and isinstance(args[1], dict) else {}
        _now.making = (name, metadata, args[0] if args else None)
        return name, time.perf_counter()

    return stage_began


def _stage_ended(token: tuple[str, float], _: object, error: BaseException | None) -> None:
    name, began = token
    stages = _now.__dict__.setdefault("stages", [])
    if len(stages) < MAX_STAGES:
        stages.append([name, time.perf_counter() - began])
