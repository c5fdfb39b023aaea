"""ptxview: walk from a line of Python to the SASS that it became.

``with inspector.record() as recording:`` records what a block of a program compiles and launches;
``%load_ext inspector`` gives a notebook ``%%ptxview``. Nothing else is loaded until one is used.
"""

import os
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
