"""Moments of the program on the timeline of the GPU: calls of compiled graphs, optimizer steps."""

from __future__ import annotations

import os
import sys
import weakref
from typing import Any

from .. import hooks, private_names
from ..writer import emit
from . import subscriber

OPTIMIZER = 1 << 31
"""Added to numbers of optimizers' marks: others are of graphs. gpu_times.py has the same."""

_graphs: dict[str, int] = {}  # in the order of their first calls, by torch's key
_optimizers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # of first steps


def graph_called(key: str, path: str) -> None:
    """Mark a call of the compiled graph with torch's ``key`` and its code in ``path``."""
    number = _graphs.get(key)
    if number is None:
        number = _graphs[key] = len(_graphs)
        _name(number, path)
    subscriber.mark(number)


def attach_optimizers(module: Any) -> None:
    """``torch.optim.optimizer``: have each step of an optimizer mark its end.

    One that is compiled does not: calls of its graph are marked.
    """
    if not os.environ.get("PTXVIEW_DRIVER"):
        return
    register = private_names.get("torch.optim.optimizer:register_optimizer_step_post_hook")
    if register is None:
        return

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        if _is_outermost(module.__file__):
            _optimizer_stepped(optimizer)

    hook = register(hooks.guarded(stepped, "steps of optimizers"))

    def compiling(args: Any, kwargs: Any) -> None:
        # Of a step that the program compiles the hook would become a part, or break its graph.
        code = args[0] if args else kwargs["code"]
        if code.co_filename == module.__file__:
            hook.remove()

    def attach_dynamo(module: Any) -> None:
        private_names.wrap("torch._dynamo.convert_frame:_compile", compiling)

    hooks.when_imported("torch._dynamo.convert_frame", attach_dynamo)


def _is_outermost(optimizer_file: str) -> bool:
    """Whether no step is within another's: torch calls hooks in a class's and in its base's."""
    steps = 0
    frame = sys._getframe(1)
    while frame is not None and steps < 2:
        steps += frame.f_code.co_filename == optimizer_file
        frame = frame.f_back  # type: ignore[assignment]
    return steps < 2


def _optimizer_stepped(optimizer: Any) -> None:
    number = _optimizers.get(optimizer)
    if number is None:
        number = _optimizers[optimizer] = OPTIMIZER + len(_optimizers)
        _name(number, type(optimizer).__name__)
    subscriber.mark(number)


def _name(number: int, name: str) -> None:
    if subscriber.is_loaded():
        emit({"event": "mark", "number": number, "name": name})
