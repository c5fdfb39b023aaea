"""Raises the one fault that a process was given; copied into the instrumented probes.

``FAULT`` is the number of a function and the kind of the fault, ``FAULT_LOG`` a file that gets
a line when it fires, or, without a fault, one for each function that is called once or thrice.
"""

from __future__ import annotations

import itertools
import os
import time


class Fault(BaseException):
    """Neither an ``Exception`` nor one of the program's own ways to end."""


_counts: dict[int, itertools.count[int]] = {}
_state: dict[str, object] = {}


def arm() -> None:
    """Read from the environment what is to fail; a forked child does so again."""
    number, _, kind = os.environ.get("FAULT", "").partition(":")
    _state.update(number=int(number or -1), kind=kind, log=os.environ.get("FAULT_LOG"))
    _counts.clear()


def red(number: int) -> None:
    """The first statement of the function with this number."""
    if _state["number"] == number:
        count = next(_counts.setdefault(number, itertools.count(1)))
        if count == (3 if _state["kind"] == "third" else 1):
            _write(f"{number}")
            _fail(str(_state["kind"]))
    elif _state["number"] == -1 and _state["log"]:
        count = next(_counts.setdefault(number, itertools.count(1)))
        if count in (1, 3):
            _write(f"{number}:{count}")


def _write(line: str) -> None:
    log = os.open(str(_state["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(log, line.encode() + b"\n")
    os.close(log)


def _fail(kind: str) -> None:
    if kind == "delay":
        time.sleep(2)
    elif kind == "base":
        raise Fault("fault injected")
    elif kind == "full":
        raise OSError(28, "No space left on device (fault injected)")
    else:
        raise RuntimeError("fault injected")


arm()
