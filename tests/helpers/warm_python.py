"""An interpreter that has imported modules, and forks a child for each program that it is given.

There are no probes in it, and no device: it is for children whose work is tested,
and not that it starts.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])  # files beside this one are not libraries
from tests.helpers import warm

TRITON = (
    "triton",
    "triton.compiler.compiler",
    "triton.compiler.code_generator",
    "triton.backends.nvidia.compiler",
    "triton.experimental.gluon.language",
)
"""What a compilation by Triton alone imports."""


def python(place: Path, modules: Sequence[str] = TRITON) -> str:
    """The path of an interpreter that runs ``-c``, ``-m`` and scripts in a child of one that has
    imported these modules; all other questions go to ours."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PTXVIEW_", "TRITON_"))}
    started = warm.warm(place, [sys.executable, __file__, *modules], env)
    return str(warm.as_python(started, '"-c "*|"-m "*|[!-]*'))


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())
    for name in sys.argv[1:-2]:
        import_module(name)
    gc.collect()
    gc.freeze()  # what children never change stays shared with them
    program = warm.serve(*warm.given(sys.argv))
    if program is not None:
        ended: BaseException | None = None
        try:
            own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
            sys.path[1:1] = [path for path in own if path]
            warm.execute(program["argv"])
        except BaseException as error:
            ended = error
        warm.end(ended)
