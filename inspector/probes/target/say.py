"""What the program's user must be told: once on stderr, and in the recording."""

from __future__ import annotations

import os
import sys

from ..writer import emit

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
