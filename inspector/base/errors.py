"""Errors with a message, a remedy and an exit status, and the gist of other programs' errors."""

import re
from enum import IntEnum

_QUOTED = re.compile(r"(?:\w+: )?at \d{1,9}:\d{1,9}:$")


def first_error(text: str) -> str:
    """The line of an error's text that says what went wrong; "" of an empty one.

    Torch says first whose backend raised it (``backend='inductor' raised:``), and Triton first
    where it is and quotes the source up to a caret (``CompilationError: at 2:34:``).
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(" raised:"):
        lines = lines[1:]
    if lines and _QUOTED.match(lines[0]) and "^" in lines[1:-1]:
        kind, colon, _ = lines[0].partition(": at ")
        sentence = lines[lines.index("^") + 1]
        return f"{kind}: {sentence}" if colon else sentence
    return lines[0] if lines else ""


def ended_by(status: int | None) -> str:
    """``ended by SIGSEGV (status 139)`` of a status that a signal gives; else ""."""
    import signal

    try:
        return f"ended by {signal.Signals((status or 0) - 128).name} (status {status})"
    except ValueError:
        return ""


class Exit(IntEnum):
    """Exit statuses of every command but ``run``, which gives the program's own."""

    OK = 0
    DIFFERENT = 1
    USAGE = 2
    MISSING = 3
    UNREADABLE = 4
    RUN_FAILED = 125
    INTERRUPTED = 130


class PtxviewError(Exception):
    """An error with a message for the user and a hint at what to do.

    ``message`` is one sentence; ``hint`` is what to do next, or "" if nothing can be done.
    """

    status = Exit.UNREADABLE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(PtxviewError):
    """The command line asks for something that cannot be meant."""

    status = Exit.USAGE


class ToolMissing(PtxviewError):
    """A program or a device that is needed is not on this machine."""

    status = Exit.MISSING


class Unreadable(PtxviewError):
    """Input that exists but cannot be read as what it should be."""


class RunFailed(PtxviewError):
    """``run`` itself failed, before or beside the user's program."""

    status = Exit.RUN_FAILED


class Stopped(PtxviewError):
    """The user stopped what was under way."""

    status = Exit.INTERRUPTED
