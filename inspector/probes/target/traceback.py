"""Frames of the emulated device, which are taken out of tracebacks of the program's."""

from __future__ import annotations

PACKAGE = __name__.partition(".target")[0]


def unseen(error: BaseException) -> None:
    """Strip leading frames of ours from a traceback; follow it with a bare ``raise``."""
    traceback = error.__traceback__
    while traceback is not None:
        if not str(traceback.tb_frame.f_globals.get("__name__")).startswith(PACKAGE):
            break
        traceback = traceback.tb_next
    error.__traceback__ = traceback
