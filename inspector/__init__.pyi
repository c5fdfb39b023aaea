import os
from typing import Any

from inspector.commands.notebook import Recorder

__version__: str

def record(
    path: str | os.PathLike[str] | None = None, *, target: str | None = None
) -> Recorder: ...
def load_ipython_extension(shell: Any) -> None: ...
def unload_ipython_extension(shell: Any) -> None: ...
