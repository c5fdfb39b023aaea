"""What the program's user sees: lines on stderr, kept in the recording, and tracebacks."""

from __future__ import annotations

import os
import sys

from ..writer import emit

PACKAGE = __name__.partition(".target")[0]
_said: set[str] = set()


def problem(text: str) -> None:
    """Note something that is missing in the recording alone."""
    emit({"event": "problem", "where": "target", "text": text[:2000]})


def aloud(text: str) -> None:
    """Say one line on stderr, where there is one."""
    try:
        print(f"ptxview: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


def once(key: str, text: str, kept: str = "") -> None:
    """Say one line on stderr the first time that ``key`` comes up in this run; the recording keeps
    it, or ``kept`` where it has the rest already.

    Child processes stay silent where their parent spoke: the environment carries the keys.
    """
    told = os.environ.get("PTXVIEW_SAID", "").split()
    if key in _said or key in told:
        return
    _said.add(key)
    os.environ["PTXVIEW_SAID"] = " ".join([*told, key])
    problem(kept or text)
    aloud(text)


def unseen(error: BaseException) -> None:
    """Strip our leading frames from a traceback; follow it with a bare ``raise``."""
    traceback = error.__traceback__
    while traceback is not None:
        if not str(traceback.tb_frame.f_globals.get("__name__")).startswith(PACKAGE):
            break
        traceback = traceback.tb_next
    error.__traceback__ = traceback
