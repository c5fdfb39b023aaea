"""An interpreter that has torch under the probes, and forks a child for each program.

It is started under the probes as any program is, so that they have seen each import; a child has
an environment, a recording, streams and an end (tests/helpers/warm.py).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])  # files beside this one are no libraries
from tests.helpers import warm


class Forks:
    """An interpreter with these modules, which all xdist workers share."""

    def __init__(self, modules: Sequence[str], env: Mapping[str, str], place: Path) -> None:
        self.warm = warm.warm(place, [sys.executable, __file__, *modules], env)

    def run(
        self, script: Path, args: Sequence[str], env: Mapping[str, str], stdin: str, folder: Path
    ) -> tuple[int, str, str]:
        """The exit status of a program in a child, and what it wrote to its two streams.

        It works in the folder, which its streams are kept in.
        """
        paths = [folder / f"{name}.{os.urandom(4).hex()}" for name in ("in", "out", "err")]
        paths[0].write_text(stdin)
        flags = (os.O_RDONLY, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        streams = [os.open(path, flags[n > 0], 0o644) for n, path in enumerate(paths)]
        try:
            child = self.warm.start([str(script), *args], env, folder, streams)
            status = child.wait(600)
        except (EOFError, OSError, ValueError) as error:
            said = self.warm.said.read_text()[-4000:]
            raise AssertionError(f"the interpreter has ended: {said}") from error
        finally:
            for stream in streams:
                os.close(stream)
        out, err = (path.read_text(errors="replace") for path in paths[1:])
        return status, out, err


def become(program: dict[str, Any]) -> None:
    """Have what a process of this program has, once it has begun."""
    sys.argv = program["argv"]
    # The interpreter that it starts may be one that a test chose.
    sys.executable = os.environ.pop("FORKS_EXECUTABLE", sys.executable)
    own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in own if path and path not in sys.path]
    # What the emulated device was asked for is read when the interpreter starts.
    target: Any = sys.modules["ptxview_probes.emulator"]
    target._current = target.read_settings(os.environ["PTXVIEW_TARGET"])
    sys.modules["ptxview_probes.emulator.cuda"].__dict__["properties"].cache_clear()


def prepare(modules: Sequence[str]) -> None:
    """Import them, and do what takes long at a first launch: Triton's digest, what runs PTX."""
    sys.path[0] = str(Path.cwd())
    for name in modules:
        import_module(name)
    import_module("triton.runtime.cache").triton_key()
    import_module("ptxview_probes.emulator.executor").load("execute")
    gc.collect()
    gc.freeze()  # what children never change stays shared with them


if __name__ == "__main__":
    prepare(sys.argv[1:-2])
    # Where the device is found in a process, which no environment from outside says.
    program = warm.serve(*warm.given(sys.argv), kept=["PTXVIEW_RUNTIME"])
    if program is not None:
        ended: BaseException | None = None
        try:
            become(program)
            warm.execute(sys.argv)
        except BaseException as error:
            ended = error
        warm.end(ended)
