"""Runs a program in the background of a new terminal, for ``ptxview run`` to watch."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from inspector.base.errors import RunFailed
from inspector.system.process import (
    LOOK_SECONDS,
    die_with_parent,
    dispositions,
    inherited_descriptors,
    state_of,
)

WANTS_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)
"""Signals that stop a program in the background when it reads or sets up its terminal."""


class Attended:
    """A program in the background of a new terminal, as after ``program &``.

    Its output is read from ``master``. As soon as it reads its terminal (``input()``) or changes
    the terminal's mode (curses, getpass, readline), the kernel stops it, which ``events`` tells,
    and it waits until ``foreground`` lets it. A small process between this one and the
    program, the leader of that terminal's session, is what makes this possible; it starts nothing
    else, and ends with the program. When this process is stopped, so is the program, and when it is
    killed. Call ``start`` before there are threads.
    """

    def __init__(self, master: int, control: socket.socket) -> None:
        self.master = master
        self._control = control
        self._lines = control.makefile("rb")

    @classmethod
    def start(cls, argv: Sequence[str], env: Mapping[str, str], size: tuple[int, int]) -> Attended:
        """Start a program on a terminal of (columns, rows).

        Raises ``RunFailed`` where it cannot be started.
        """
        ours, theirs = socket.socketpair()
        master, slave = os.openpty()
        with contextlib.suppress(termios.error):  # without a terminal: the kernel's settings
            termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(0))
        attended = cls(master, ours)
        attended.resize(*size)
        inherited, us = inherited_descriptors(), os.getpid()
        if os.fork() == 0:
            try:
                attended._lines.close()  # if it stayed open, our end would never be noticed
                ours.close()
                os.close(master)
                _lead(argv, env, slave, theirs, inherited, us)
            finally:
                os._exit(0)
        for number in inherited:  # only the program keeps them open
            os.close(number)
        theirs.close()
        os.close(slave)
        first_event = next(attended.events(), None)
        if first_event is None or first_event[0] != "began":
            attended.close()
            reason = "nobody knows why" if first_event is None else str(first_event[1])
            raise RunFailed(
                f"{argv[0]} cannot be started: {reason}",
                "Check the path, or name the interpreter with --python.",
            )
        return attended

    def resize(self, columns: int, rows: int) -> None:
        """Set the terminal's size."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._say("resized", 0)

    def events(self) -> Iterator[tuple[str, int | str]]:
        """``("stopped", signal)`` any number of times, ``("killed", signal)`` after a signal,
        then ``("ended", status)``, 128+n for a signal. Blocks."""
        try:
            for line in self._lines:
                what, value = json.loads(line)
                yield what, value
        except (OSError, ValueError):  # it was closed
            return

    def follows(self, whether: bool) -> None:
        """Tell the leader whether this process stops because the program has stopped."""
        self._say("follows", int(whether))

    def foreground(self) -> None:
        """Give the program its terminal, and let it go on where it was stopped."""
        self._say("foreground", 0)

    def signal(self, number: int) -> None:
        """Send a signal to the program and to those that it started in its group."""
        self._say("signal", number)

    def signal_program(self, number: int) -> None:
        """Send a signal to the program alone, as ``kill`` does."""
        self._say("kill", number)

    def _say(self, what: str, value: int) -> None:
        _send(self._control, what, value)

    def close(self) -> None:
        """Close the terminal; a program that still runs is killed."""
        # A thread may be waiting for events.
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        os.close(self.master)


def _send(control: socket.socket, what: str, value: int | str) -> None:
    """Send a pair, unless the other side has ended."""
    with contextlib.suppress(OSError):
        control.sendall(json.dumps([what, value]).encode() + b"\n")


def _lead(
    argv: Sequence[str],
    env: Mapping[str, str],
    slave: int,
    control: socket.socket,
    inherited: Sequence[int],
    us: int,
) -> None:
    """The leader of a session on ``slave``: starts the program there and reports its state.

    ``control`` carries one JSON pair a line in both directions; ``us`` is ptxview's process id.
    """
    tell = partial(_send, control)
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    awake, waker = os.pipe()
    os.set_blocking(waker, False)

    first, leader = dispositions(), os.getpid()
    signal.signal(signal.SIGCHLD, lambda *_: None)  # if ignored, we would miss the program's end

    def ready() -> None:
        die_with_parent()
        if os.getppid() != leader:  # the leader was killed
            os._exit(128 + signal.SIGKILL)
        for number, handler in first.items():
            signal.signal(number, handler)
        # As a shell does for a job: our parent may ignore these, as tmux does, and a program that
        # ignores them would read an end of input instead of being stopped.
        for number in (*WANTS_TERMINAL, signal.SIGTSTP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WANTS_TERMINAL)

    try:
        child = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            process_group=0,
            preexec_fn=ready,
            close_fds=False,
            restore_signals=False,
        )
    except OSError as error:
        tell("failed", error.strerror or str(error))
        return
    # The terminal that ptxview itself runs on is not ours to keep open.
    for descriptor in (0, 1, 2):
        os.dup2(slave, descriptor)
    for descriptor in inherited:
        os.close(descriptor)
    for number in (signal.SIGHUP, signal.SIGTERM, *WANTS_TERMINAL):
        signal.signal(number, lambda *_: None)
    # Blocked, since taking the terminal back from the foreground group would stop us.
    signal.pthread_sigmask(signal.SIG_BLOCK, WANTS_TERMINAL)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    tell("began", child.pid)
    code = _follow(child.pid, slave, control, awake, tell, us)
    # When this leader ends, the foreground group gets a SIGHUP: make that our own group.
    with contextlib.suppress(OSError):
        os.tcsetpgrp(slave, os.getpgrp())
    if code < 0:
        tell("killed", -code)
    tell("ended", 128 - code if code < 0 else code)


class _Followed:
    """The attended program, and the orders that can be given for it."""

    def __init__(self, pid: int, slave: int) -> None:
        self.pid = pid
        self.slave = slave
        self.follows = False
        """Whether ptxview is stopped because the program is."""
        self._rest = b""

    def obey(self, data: bytes) -> None:
        """Carry out the orders in ``data``, one a line."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            order, value = json.loads(line)
            if order == "follows":
                self.follows = bool(value)
            elif order == "kill":
                os.kill(self.pid, value)
            elif order == "foreground":
                os.tcsetpgrp(self.slave, self.pid)
                self.send(signal.SIGCONT)
            elif order == "signal":
                self.send(value)
            # If the program has the terminal, the kernel has sent it a change of size.
            elif os.tcgetpgrp(self.slave) != self.pid:
                self.send(signal.SIGWINCH)

    def send(self, number: int) -> None:
        """Send a signal to the program's group."""
        with contextlib.suppress(OSError):
            os.killpg(self.pid, number)

    def abandon(self) -> None:
        """End the program: ptxview is gone, and nobody reads the terminal any more."""
        self.send(signal.SIGHUP)
        self.send(signal.SIGCONT)
        os.kill(self.pid, signal.SIGKILL)


def _follow(
    pid: int,
    slave: int,
    control: socket.socket,
    awake: int,
    tell: Callable[[str, int], None],
    us: int,
) -> int:
    """Carry out orders from ``control`` until the program ends; its status, -n for a signal."""
    program = _Followed(pid, slave)
    attended: list[socket.socket] = [control]
    stopped_by_us = False  # it was stopped because we were
    while True:
        waited, wait_status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if waited and os.WIFSTOPPED(wait_status):
            if not stopped_by_us:
                tell("stopped", os.WSTOPSIG(wait_status))
        elif waited:
            return os.waitstatus_to_exitcode(wait_status)
        waiting: list[int | socket.socket] = [awake, *attended]
        stopped = state_of(us) == "T"
        if (
            stopped
            and not stopped_by_us
            and not program.follows
            and state_of(pid) not in ("T", "Z")
        ):
            stopped_by_us = True
            os.kill(pid, signal.SIGSTOP)
        elif stopped_by_us and not stopped:
            stopped_by_us = False
            os.kill(pid, signal.SIGCONT)
        ready, _, _ = select.select(waiting, [], [], LOOK_SECONDS)
        if awake in ready:
            os.read(awake, 4096)
        if control in ready:
            if data := control.recv(4096):
                program.obey(data)
            else:
                attended.clear()
                program.abandon()
