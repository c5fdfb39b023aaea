"""Every error a user can meet: a sentence, what to do about it, and the exit status."""

from enum import IntEnum


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
