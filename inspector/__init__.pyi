import os
from collections.abc import Callable
from typing import Any

from inspector.commands.notebook import Recorder

__version__: str

def record(
    path: str | os.PathLike[str] | None = None, *, target: str | None = None
) -> Recorder: ...
def reference(kernel: Any, function: Callable[..., Any]) -> None: ...
def load_ipython_extension(shell: Any) -> None: ...
def unload_ipython_extension(shell: Any) -> None: ...
