"""The only code that starts processes: vendor tools with a time limit, and the user's program."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from inspector.errors import RunFailed, ToolMissing, Unreadable


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


def run_tool(
    argv: Sequence[str | Path],
    *,
    seconds: float = 120,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Finished:
    """Run a tool to its end without a shell; its input is empty.

    Raises ``ToolMissing`` where it cannot be started, ``Unreadable`` where it takes longer than
    ``seconds``.
    """
    try:
        done = subprocess.run(
            [os.fspath(a) for a in argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            cwd=cwd,
            env=None if env is None else dict(env),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unreadable(f"{argv[0]} did not finish within {seconds:.0f} s") from None
    except OSError as error:
        raise ToolMissing(f"{argv[0]} cannot be started: {error.strerror or error}") from None
    return Finished(done.returncode, done.stdout, done.stderr)


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
