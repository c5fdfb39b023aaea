"""Interpreters that have imported what takes long, and fork a child for each program.

One serves all xdist workers: it listens at a socket in the folder that they have in common, and
ends when the last of them has gone. A child has arguments, an environment, a folder and streams of
its own. A program whose start is tested gets a new interpreter instead.

As a program this file is such a child seen from outside: ``warm.py SOCKET WORD…`` has it run in the
caller's folder, environment and streams, hands signals on to it, and ends as it does.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

GUEST, PROGRAM = b"G", b"P"
"""The first byte of a connection: a client that may still ask, or a program to run."""


def connect(place: Path) -> socket.socket:
    """A connection to who listens at a path of any length."""
    made = socket.socket(socket.AF_UNIX)
    folder = os.open(place.parent, os.O_PATH)
    try:
        made.connect(f"/proc/self/fd/{folder}/{place.name}")
    except OSError:
        made.close()
        raise
    finally:
        os.close(folder)
    return made


class Child:
    """A program that runs in a child of such an interpreter."""

    def __init__(
        self,
        place: Path,
        argv: Sequence[str],
        env: Mapping[str, str],
        folder: Path,
        streams: Sequence[int],
    ) -> None:
        """Start it with these descriptors as its standard input, output and error.

        Further descriptors keep their number.
        """
        numbers = [0, 1, 2, *streams[3:]]
        asked = {"argv": list(argv), "env": dict(env), "cwd": str(folder), "numbers": numbers}
        self._connection = connect(place)
        socket.send_fds(self._connection, [PROGRAM], streams)
        self._connection.sendall(json.dumps(asked).encode() + b"\n")
        self._told = self._connection.makefile("r")
        self.pid = int(self._told.readline())
        self.peak: int | None = None
        """Bytes of memory that it has taken at most, what its parent had among them; once ended."""

    def wait(self, seconds: float | None = None) -> int:
        """Its exit status, or less than zero for a signal; killed when it takes longer.

        Raises ``EOFError`` if the interpreter has ended.
        """
        self._connection.settimeout(seconds)
        try:
            told = self._told.readline()
        except TimeoutError:
            os.kill(self.pid, signal.SIGKILL)
            raise
        finally:
            self._told.close()
            self._connection.close()
        if not told:
            raise EOFError("the interpreter has ended")
        status, peak = told.split()
        self.peak = int(peak)
        return int(status)


class Warm:
    """One of the interpreters, as a worker has it: started by the first one that asks for it."""

    def __init__(self, place: Path, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Go to the one that listens at the path; else start the command, which is to ``serve``.

        The command is given two descriptors more: a socket that listens, and one that is closed
        when this worker goes.
        """
        self.place, self.said = place, place.with_suffix(".said")
        self._started: subprocess.Popen[bytes] | None = None
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                self._guest = connect(self.place)
                self._guest.sendall(GUEST)
            except OSError:
                self._start(command, env)

    def _start(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.place.unlink(missing_ok=True)
        self._guest, its = socket.socketpair()
        folder = os.open(self.place.parent, os.O_PATH)
        with its, socket.socket(socket.AF_UNIX) as listening, self.said.open("wb") as said:
            listening.bind(f"/proc/self/fd/{folder}/{self.place.name}")
            os.close(folder)
            listening.listen(64)
            given = [listening.fileno(), its.fileno()]
            self._started = subprocess.Popen(
                [*command, *map(str, given)],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=given,
                cwd=self.place.parent,
            )

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], folder: Path, streams: Sequence[int]
    ) -> Child:
        return Child(self.place, argv, env, folder, streams)

    @property
    def command(self) -> list[str]:
        """The beginning of a command line that runs a program in a child."""
        return [sys.executable, "-I", "-S", __file__, str(self.place)]

    def leave(self) -> None:
        self._guest.close()

    def wait(self) -> None:
        """Wait for its end, which comes when all have left; of the one that was started here."""
        if self._started is not None:
            self._started.wait(600)


_asked: dict[Path, Warm] = {}


def warm(place: Path, command: Sequence[str], env: Mapping[str, str]) -> Warm:
    """The interpreter of a path, gone to or started once."""
    if place not in _asked:
        _asked[place] = Warm(place, command, env)
    return _asked[place]


def leave_all() -> None:
    """Leave them all, and wait for those that were started here: nothing outlives the tests."""
    for each in _asked.values():
        each.leave()
    for each in _asked.values():
        each.wait()
    _asked.clear()


def serve(
    listening: socket.socket, starter: socket.socket, kept: Sequence[str] = ()
) -> dict[str, Any] | None:
    """Answer requests; returns the program to run in its child, and None at the end.

    ``kept`` are variables that a child has from its fork, in any environment.
    """
    running: dict[int, socket.socket] = {}
    waked, wakes = socket.socketpair()
    wakes.setblocking(False)
    before = signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno())
    with selectors.DefaultSelector() as selector:
        for each in (listening, starter, waked):
            selector.register(each, selectors.EVENT_READ)
        guests = 1
        while guests or running:
            for key, _ in selector.select():
                from_whom: Any = key.fileobj
                if from_whom is waked:
                    waked.recv(4096)
                    _tell_of_ends(running)
                elif from_whom is not listening:
                    if not from_whom.recv(16):
                        selector.unregister(from_whom)
                        from_whom.close()
                        guests -= 1
                else:
                    connection, _ = listening.accept()
                    first, streams, *_ = socket.recv_fds(connection, 1, 16)
                    if first == GUEST:
                        selector.register(connection, selectors.EVENT_READ)
                        guests += 1
                    elif first == PROGRAM:
                        pid = os.fork()
                        if pid == 0:
                            signal.set_wakeup_fd(-1)
                            signal.signal(signal.SIGCHLD, before)
                            break
                        running[pid] = connection
                        connection.sendall(b"%d\n" % pid)
                        for stream in streams:
                            os.close(stream)
            else:
                continue
            break
        else:
            return None
    with connection.makefile("r") as asked:
        program: dict[str, Any] = json.loads(asked.readline())
    for each in (listening, starter, waked, wakes, connection, *running.values()):
        each.close()
    moved = [fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, 64) for stream in streams]
    for stream in streams:
        os.close(stream)
    for number, stream in zip(program["numbers"], moved, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    own = {name: os.environ[name] for name in kept if name in os.environ}
    os.environ.clear()
    os.environ.update(program["env"] | own)
    os.chdir(program["cwd"])
    return program


def _tell_of_ends(running: dict[int, socket.socket]) -> None:
    for pid, connection in list(running.items()):
        ended, status, used = os.wait4(pid, os.WNOHANG)
        if ended:
            del running[pid]
            try:
                told = os.waitstatus_to_exitcode(status), used.ru_maxrss * 1024
                connection.sendall(b"%d %d\n" % told)
            except OSError:
                pass  # nobody waits for it any more
            connection.close()


def end(error: BaseException | None) -> NoReturn:
    """End as the interpreter does, but for taking down what it has imported, which takes long."""
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    elif error is not None:
        assert error.__traceback__ is not None
        sys.last_value = error
        sys.excepthook(type(error), error, error.__traceback__.tb_next)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def execute(argv: list[str]) -> None:
    """What Python does with a command line that begins with a script, with -c and a program, or
    with -m and a module."""
    sys.argv = argv
    if argv[0] == "-m":
        sys.path[0] = str(Path.cwd())
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    if argv[0] == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *argv[2:]]
        exec(compile(argv[1], "<string>", "exec"), module.__dict__)
        return
    sys.path[0] = str(Path(argv[0]).resolve().parent)
    module.__file__ = argv[0]
    exec(compile(Path(argv[0]).read_text(), argv[0], "exec"), module.__dict__)


def as_python(started: Warm, asked: str, condition: str = "") -> Path:
    """An executable that hands on the command lines of an interpreter to one of these.

    ``asked`` are a shell's patterns of the words, after ``condition``, that it takes; all other
    words are those of a new interpreter.
    """
    path = started.place.with_suffix(".sh")
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(
        f'#!/bin/sh\ncase "{condition}$*" in\n{asked}) exec {shlex.join(started.command)} "$@" ;;\n'
        f'*) exec {shlex.quote(sys.executable)} "$@" ;;\nesac\n'
    )
    part.chmod(0o755)
    part.replace(path)
    return path


def given(words: Sequence[str]) -> tuple[socket.socket, socket.socket]:
    """The two sockets of the descriptors that a command was given."""
    listening, starter = (socket.socket(fileno=int(word)) for word in words[-2:])
    return listening, starter


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def seen_from_outside(place: Path, words: Sequence[str]) -> int:
    """Have an interpreter run a program in a child; its exit status."""
    there = (int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208 - one is gone by then
    more = [number for number in there if 2 < number < 10 and _is_open(number)]
    child = Child(place, words, os.environ, Path.cwd(), (0, 1, 2, *more))

    def hand_on(number: int, _: Any) -> None:
        os.kill(child.pid, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, hand_on)
    status = child.wait()
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(seen_from_outside(Path(sys.argv[1]), sys.argv[2:]))
