"""An interpreter that has imported what takes long, and forks a child for each program.

It is started under the probes as any program is, so that they have seen each import; a child has
an environment, a recording, streams and an end of its own. A program whose start is what is tested
gets an interpreter of its own instead.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn


class Forks:
    """An interpreter with these modules; ended with ``close``."""

    def __init__(self, modules: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        ours, its = socket.socketpair()
        ours.settimeout(600)
        self.said = folder / "said"
        with its, self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(its.fileno()), *modules], env=dict(env),
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, pass_fds=[its.fileno()],
                cwd=folder,
            )  # fmt: skip
        self.asked = ours.makefile("w")
        self.told = ours.makefile("r")
        self.socket = ours

    def run(
        self, script: Path, args: Sequence[str], env: Mapping[str, str], stdin: str, folder: Path
    ) -> tuple[int, str, str]:
        """The exit status of a program in a child, and what it wrote to its two streams.

        It works in the folder, which its streams are kept in.
        """
        streams = [folder / f"{name}.{os.urandom(4).hex()}" for name in ("in", "out", "err")]
        streams[0].write_text(stdin)
        asked = {
            "argv": [str(script), *args], "env": dict(env), "cwd": str(folder),
            "streams": [str(path) for path in streams],
        }  # fmt: skip
        try:
            print(json.dumps(asked), file=self.asked, flush=True)
            told = self.told.readline()
        except OSError:
            told = ""
        assert told, f"the interpreter has ended: {self.said.read_text()[-4000:]}"
        out, err = (path.read_text(errors="replace") for path in streams[1:])
        return int(told), out, err

    def close(self) -> None:
        """Let it end, which it does when nobody can ask it any more."""
        for each in (self.asked, self.told, self.socket):
            each.close()
        self.process.wait(120)


def serve(to: socket.socket) -> dict[str, Any] | None:
    """Answer what is asked; the program that is asked for in its child, and None in the end."""
    with to, to.makefile("r") as asked, to.makefile("w") as told:
        for line in asked:
            pid = os.fork()
            if pid == 0:
                return dict(json.loads(line))
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            print(status, file=told, flush=True)
    return None


def become(program: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Have what a process of this program has; its text, and the names of its module."""
    # Where the device is found in this very process, which no environment from outside says.
    runtime = {k: v for k, v in os.environ.items() if k == "PTXVIEW_RUNTIME"}
    os.environ.clear()
    os.environ.update(program["env"] | runtime)
    os.chdir(program["cwd"])
    for number, path in enumerate(program["streams"]):
        stream = os.open(path, os.O_RDWR | os.O_CREAT | (os.O_APPEND if number else 0), 0o644)
        os.dup2(stream, number)
        os.close(stream)
    sys.argv = program["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    # What the emulated device was asked for is read when the interpreter starts.
    target: Any = sys.modules["ptxview_probes.target"]
    target._current = target._settings.read(program["env"]["PTXVIEW_TARGET"])
    sys.modules["ptxview_probes.target.cuda"].__dict__["_properties"].clear()
    module = ModuleType("__main__")
    module.__file__ = sys.argv[0]
    sys.modules["__main__"] = module
    return Path(sys.argv[0]).read_text(), module.__dict__


def prepare(modules: Sequence[str]) -> None:
    """Import them, and do what takes long at a first launch: Triton's digest, what runs PTX."""
    sys.path[0] = str(Path.cwd())  # what lies beside this file is no library
    for name in modules:
        import_module(name)
    import_module("triton.runtime.cache").triton_key()
    import_module("ptxview_probes.target.executor").load()
    gc.collect()
    gc.freeze()  # what children never change stays shared with them


def end(error: BaseException | None) -> NoReturn:
    """End as the interpreter does, but for taking down what it has imported, which takes long."""
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    elif error is not None:
        assert error.__traceback__ is not None
        sys.excepthook(type(error), error, error.__traceback__.tb_next)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    prepare(sys.argv[2:])
    program = serve(socket.socket(fileno=int(sys.argv[1])))
    if program is not None:
        text, names = become(program)
        ended: BaseException | None = None
        try:
            exec(compile(text, sys.argv[0], "exec"), names)
        except BaseException as error:
            ended = error
        end(ended)
