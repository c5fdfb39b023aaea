"""ptxview: walk from a line of Python to the SASS that it became.

``with inspector.record() as recording:`` records what a block of a program compiles and launches;
``inspector.reference(kernel, function)`` names what ``ptxview verify`` compares a kernel with;
``%load_ext inspector`` gives a notebook ``%%ptxview``. Nothing else is loaded until one is used.
"""

import os
from collections.abc import Callable
from typing import Any

__version__ = "0.1.0"


def record(path: str | os.PathLike[str] | None = None, *, target: str | None = None) -> Any:
    """Record what a block compiles and launches: ``with inspector.record() as recording: …``.

    ``path`` is where the recording goes: a folder, or one file (``x.ptxview``); without it, a
    new folder in the user's state folder. ``target`` (``sm_90``) gives the program an
    emulated device, before it has imported torch. At the block's end the program is as it was
    before. Raises ``inspector.base.errors.PtxviewError`` where nothing can be recorded.
    """
    return _notebook().Recorder(path, target)


_references: list[tuple[Any, Callable[..., Any]]] = []
"""Kernels with their references, for the probes of ``ptxview verify``."""


def reference(kernel: Any, function: Callable[..., Any]) -> None:
    """Name what a Triton kernel is to compute: ``ptxview verify`` compares it with that.

    ``function`` takes those of the kernel's arguments, by their names, that it has parameters for,
    and calls operators of torch. It returns what the kernel is to have written: a tensor, several
    in the order of the arguments, a dict by name, or nothing where it writes to its arguments
    itself; these are clones. The same holds for the kernel in a graph of torch.compile, where a
    ``torch.library.triton_op`` launches it. Outside of ``ptxview verify`` nothing is done. Raises
    ``TypeError`` where the kernel is not Triton's.
    """
    if not hasattr(kernel, "fn") or not hasattr(kernel, "run"):
        kind = type(kernel).__name__
        raise TypeError(f"reference() takes a function of triton.jit and its reference, not {kind}")
    _references.append((kernel, function))


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext inspector``: ``%%ptxview`` records a cell and shows what it compiled."""
    _notebook().load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext inspector``."""
    _notebook().unload(shell)


def _notebook() -> Any:
    """The notebook's module: every room stands below this one, and the executor's come into the
    program without it. ``__init__.pyi`` has the types."""
    from importlib import import_module

    return import_module(f"{__name__}.commands.notebook")
