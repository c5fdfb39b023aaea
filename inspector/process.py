"""The only code that starts processes: vendor tools with a time limit, and the user's program."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from inspector.errors import RunFailed, Stopped, ToolMissing, Unreadable


@dataclass(frozen=True, slots=True)
class Finished:
    """What a tool printed and how it ended."""

    status: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Standard output, with surrogate escapes where it is not UTF-8."""
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def complaint(self) -> str:
        """Standard error for a message: its last five lines."""
        return "\n".join(self.err.decode("utf-8", "replace").strip().splitlines()[-5:])


# Seconds between two questions whether to go on, and for the output of a tool that was killed:
# another process may hold its pipes open.
GLANCE, DRAIN = 0.1, 2.0


def run_tool(
    argv: Sequence[str | Path],
    *,
    seconds: float = 120,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    go_on: Callable[[], bool] | None = None,
) -> Finished:
    """Run a tool to its end without a shell; its input is empty.

    ``go_on`` is asked some times a second; once it says no, the tool is killed. Raises
    ``ToolMissing`` where it cannot be started, ``Unreadable`` where it takes longer than
    ``seconds``, ``Stopped`` where ``go_on`` said no.
    """
    try:
        child = subprocess.Popen(
            [os.fspath(a) for a in argv],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=cwd, env=None if env is None else dict(env),
        )  # fmt: skip
    except OSError as error:
        raise ToolMissing(f"{argv[0]} cannot be started: {error.strerror or error}") from None
    with child:
        try:
            out, err = _gather(child, seconds, go_on)
        except subprocess.TimeoutExpired:
            raise Unreadable(f"{argv[0]} did not finish within {seconds:.0f} s") from None
        finally:  # also where we are interrupted
            if child.poll() is None:
                child.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.communicate(timeout=DRAIN)
    return Finished(child.returncode, out, err)


def _gather(
    child: subprocess.Popen[bytes], seconds: float, go_on: Callable[[], bool] | None
) -> tuple[bytes, bytes]:
    """What a tool prints until its end."""
    if go_on is None:
        return child.communicate(timeout=seconds)
    until = time.monotonic() + seconds
    while go_on():
        try:
            return child.communicate(timeout=GLANCE)
        except subprocess.TimeoutExpired:
            if time.monotonic() > until:
                raise
    raise Stopped("it was stopped before its end")


_begun: list[subprocess.Popen[bytes]] = []


def begin(argv: Sequence[str | Path]) -> None:
    """Start a tool that nobody waits for, and that may fail; Ctrl-C at the terminal is not its."""
    no = subprocess.DEVNULL
    with contextlib.suppress(OSError):
        # The object is kept: one that goes away before its process would warn.
        _begun.append(
            subprocess.Popen(argv, start_new_session=True, stdin=no, stdout=no, stderr=no)
        )


# Signals that somebody may send to the run and means for the program.
FORWARDED = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
SI_KERNEL = 0x80


def run_program(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Run the user's program to its end on this terminal; its status, 128+n for a signal.

    Signals that reach this process are handed on, but for those that the terminal sends to the
    whole foreground group, which the program has then had from the kernel itself. Raises
    ``RunFailed`` where the program cannot be started.
    """
    watched = {*FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        try:
            child = subprocess.Popen(
                list(argv),
                env=dict(env),
                # The mask is inherited; the program must start with the one we were given.
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before) and None,
            )
        except OSError as error:
            raise RunFailed(
                f"{argv[0]} cannot be started: {error.strerror or error}",
                "Check the path, or name the interpreter with --python.",
            ) from None
        while child.poll() is None:
            got = signal.sigtimedwait(watched, 1.0)
            if got is None or got.si_signo == signal.SIGCHLD:
                continue
            if got.si_code != SI_KERNEL:
                child.send_signal(got.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    status = child.returncode
    return 128 - status if status < 0 else status
