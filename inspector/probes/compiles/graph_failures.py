"""A graph that Inductor could not compile: which one, at which of the user's lines, and why."""

from __future__ import annotations

import re
import time
import weakref
from typing import TYPE_CHECKING, Any

from .. import private_names
from ..hooks import per_recording
from ..writer import blob, emit
from . import graph_nodes

if TYPE_CHECKING:
    from ..hooks import After

PARTS = (("run", "ir_pre_fusion"), ("codegen", "output_code"), ("compile_to_module", None))
"""What Inductor does with a graph, and what it makes by it; last come the graph's kernels."""
MAX_LOG_CHARACTERS = 20_000
_QUOTED = re.compile(r"at \d+:\d+:$")
_told: set[tuple[Any, ...]] = per_recording(set())
_began: weakref.WeakKeyDictionary[Any, float] = per_recording(weakref.WeakKeyDictionary())
"""When Inductor began with a graph, since 1970."""


def attach(module: Any) -> None:
    """``torch._inductor.graph``: what goes wrong there is noted, and goes on as it was raised."""
    for name, stage in PARTS:
        private_names.wrap(f"torch._inductor.graph:GraphLowering.{name}", _began_at, _of(stage))


def _began_at(args: Any, kwargs: Any) -> float:
    """When Inductor began with this graph, maybe with an earlier part of it."""
    return _began.setdefault(args[0], time.time())


def _of(stage: str | None) -> After:
    def ended(began: float, _: Any, error: BaseException | None) -> None:
        if isinstance(error, Exception):
            _record(error, stage, began)

    return ended


def _record(error: BaseException, stage: str | None, began: float) -> None:
    ids, name = graph_nodes.ids(), graph_nodes.aot()
    key = (name, *ids.values())
    if key in _told:
        return  # an inner part was recorded before: it raises first
    _told.add(key)
    text = str(error).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = lines[0] if lines else ""
    if _QUOTED.match(message):  # Triton quotes the source up to a caret before it says what it is
        message = lines[-1]
    kind = type(error).__name__
    if kind != "LoweringException":  # which begins with the name of what it is about
        message = f"{kind}: {message}" if message else kind
    # The user's line of the node that could not be lowered.
    _, found, stack = text.rpartition("Found from :")
    place = graph_nodes._line(stack) if found else None
    file, line = place[:2] if place else (None, None)
    emit(
        {
            "event": "graph_failed",
            "graph": name,
            **ids,
            "began": began,
            "seconds": time.time() - began,
            "stage": stage,
            "kind": kind,
            "tool": "torch",
            "message": message[:2000],
            "messages": [
                {
                    "severity": "error",
                    "message": message[:2000],
                    "tool": "torch",
                    "file": file,
                    "line": line,
                }
            ],
            "log": blob(text[:MAX_LOG_CHARACTERS]),
        }
    )
