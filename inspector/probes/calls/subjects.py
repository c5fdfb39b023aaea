"""Calls of this process: each distinct one recorded when first seen, and counted.

A call is told apart by its grid and by shape, strides, dtype, alignment and value of its
arguments. It becomes an event when it is first seen; counts follow while they grow and when the
process ends. No tensor is kept alive, and the device is waited for only where the range of an
integer tensor is taken, once for a distinct call and never without leave (``PTXVIEW_RANGES``).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import contextmanager
from typing import Any

from ..hooks import unseen
from ..writer import emit, folder, problem
from .arguments import Described, Item, describe, ranges

# Distinct calls that are kept of one kernel, graph or function; the rest are counted together.
MOST_CALLS = 256
# Keys that lead to them: addresses differ more often than their alignment does.
MOST_KEYS = 4096
# A call's count; the count at which it is written again, which is when it has grown by an eighth;
# the call's number.
Entry = list[int]
FORGOTTEN = -2  # in the place of a number
_all: dict[tuple[str, str], Subject] = {}
_next = 0
_tuning = [0]
# How launches within a graph's call are counted (settled.STATE).
graph: list[Any] = [0, 0, None, 0]
_said: set[str] = set()
# Counts written at once: BURST in a row, then A_SECOND per second; others MOMENT seconds later.
BURST, A_SECOND, MOMENT = 64.0, 16.0, 0.25
_spare = [BURST, 0.0]
_later: list[threading.Timer] = []
_lock = threading.RLock()
_attached: list[bool] = []


def _in_child() -> None:
    """Threads do not go along into a child, and those that held the lock never give it back."""
    global _lock
    _later.clear()
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_in_child)


class Subject:
    """One thing that is called: a compiled kernel, a graph, a function of an extension."""

    __slots__ = (
        "benchmarks", "calls", "facts", "fixed", "kind", "launched", "name", "others", "quick",
        "seen", "settled", "turns", "whole",
    )  # fmt: skip

    def __init__(self, kind: str, name: str, facts: dict[str, Any]) -> None:
        self.kind, self.name, self.facts = kind, name, facts
        self.calls: dict[Any, Entry] = {}
        self.seen: dict[Any, Entry] = {}
        # Layouts of tensors that are looked at all at once (launch.Known), by all that is no
        # tensor; how many there were; the last of a call of tensors alone.
        self.quick: dict[Any, list[Any]] = {}
        self.turns = 0
        self.whole: Any = None
        # Of a graph: whether its code can do but one thing, what it launched last, and its calls
        # that are not looked at (settled).
        self.fixed: bool | None = None
        self.launched: list[int] | None = None
        self.settled: Any = None
        # Calls beyond MOST_CALLS, and launches by autotuning, counted as one call each.
        self.others: Entry = [0, 1, -1]
        self.benchmarks: Entry = [0, 1, -1]

    def entry(self, key: Any, items: Iterable[Item], grid: Any = None) -> Entry:
        """The entry of a call that ``seen`` lacks; raises Traced on a compiler's stand-ins."""
        full = len(self.calls) >= MOST_CALLS
        if full and len(self.seen) >= MOST_KEYS:
            return self.others
        described, tensors = describe(items)
        exact = (grid, repr(described))
        with _lock:
            entry = self.calls.get(exact)
            if entry is None and full:
                entry = self.others
            elif entry is None:
                ranges(tensors)
                entry = self._new(exact, described, grid)
            if len(self.seen) >= MOST_KEYS:
                self.seen.clear()
                self.quick.clear()
                self.whole = None
            self.seen[key] = entry
            return entry

    def _new(self, exact: Any, described: list[Described], grid: Any) -> Entry:
        global _next
        entry = [0, 1, _next]
        _next += 1
        self.calls[exact] = entry
        emit(
            {
                "event": "call",
                "id": entry[2],
                "kind": self.kind,
                "name": self.name,
                "first": _made(),
                "grid": grid,
                "arguments": described,
                **self.facts,
            }
        )
        return entry


def subject(kind: str, name: str, identity: str, facts: dict[str, Any]) -> Subject:
    """The subject with this ``identity``, created when it is first seen."""
    with _lock:
        entry = _all.get((kind, identity))
        if entry is None:
            entry = _all[kind, identity] = Subject(kind, name, {**facts, "subject": identity})
        return entry


def _made() -> int:
    """Calls that this process has made so far."""
    finished = sum(e[0] for s in list(_all.values()) for e in (*list(s.calls.values()), s.others))
    return finished + sum(n for _, n in _pending())


def _pending() -> list[tuple[Entry, int]]:
    """Counts that settled graphs have not yet added for themselves and their launches."""
    settled = [s.settled for s in list(_all.values()) if s.settled is not None]
    return [pair for graph_calls in settled for pair in graph_calls.pending()]


def add(subject: Subject, entry: Entry, times: int = 1) -> None:
    """Add ``times`` calls to a count."""
    entry[0] += times
    if entry[0] >= entry[1]:
        grown(subject, entry)


def grown(subject: Subject, entry: Entry) -> None:
    """Write a count, and set when it is written next.

    A program of many kernels has many counts that grow: writing each took 0.3 ms of a step of 120
    kernels. So only some are written per second, and the rest together.
    """
    entry[1] = entry[0] + max(1, entry[0] >> 3)
    if entry[2] >= 0 and entry[0] <= 1:  # the call's own event has counted the first
        return
    now = time.monotonic()
    _spare[0] = min(BURST, _spare[0] + (now - _spare[1]) * A_SECOND)
    _spare[1] = now
    if _spare[0] < 1:
        _tell_later()
        return
    _spare[0] -= 1
    if entry[2] >= 0:
        emit({"event": "calls", "counts": {entry[2]: entry[0]}})
    else:
        emit({"event": "calls", "subjects": [_rest(subject)]})


def _tell_later() -> None:
    """Write all counts after ``MOMENT`` seconds, whatever the program does meanwhile."""
    if not _later:
        timer = threading.Timer(MOMENT, _told)
        timer.daemon = True
        _later.append(timer)
        try:
            timer.start()
        except RuntimeError:  # no more threads, or the interpreter is ending: then finish tells
            _later.clear()


def _told() -> None:
    _later.clear()
    finish()


def _rest(subject: Subject) -> dict[str, Any]:
    return {
        "kind": subject.kind,
        "subject": subject.facts["subject"],
        "others": subject.others[0],
        "benchmarks": subject.benchmarks[0],
    }


def finish() -> None:
    """Write every count as it stands; also called when the process ends."""
    subjects = list(_all.values())
    counts = {e[2]: e[0] for s in subjects for e in list(s.calls.values())}
    for entry, times in _pending():
        counts[entry[2]] = counts.get(entry[2], 0) + times
    rest = [_rest(s) for s in subjects if s.others[0] or s.benchmarks[0]]
    if counts or rest:
        emit({"event": "calls", "counts": counts, "subjects": rest})


def failed(where: str, error: BaseException) -> None:
    """Say once for each kind of failure that calls could not be recorded."""
    text = f"{where}:{type(error).__name__}"
    if text not in _said:
        _said.add(text)
        problem(where, error if isinstance(error, Exception) else str(error))


# -- autotuning -----------------------------------------------------------------------------


@contextmanager
def benchmark() -> Any:
    """Within it, launches are autotuning's and not the program's."""
    _tuning[0] += 1
    try:
        yield
    finally:
        _tuning[0] -= 1


def as_benchmark(name: str) -> None:
    """Count what a method launches as autotuning's, if there is one of that private name."""
    from .. import private_names

    private_names.wrap(name, comparing)


def comparing(original: Any) -> Any:
    """A function whose launches count as autotuning's."""
    import functools

    @functools.wraps(original)
    def measured(*args: Any, **kwargs: Any) -> Any:
        try:
            with benchmark():
                return original(*args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise

    return measured


# -- processes ------------------------------------------------------------------------------


def attach(module: object) -> None:
    """``torch`` or ``triton``, whichever comes first: a forked child counts anew."""
    if folder() is not None and not _attached:
        _attached.append(True)
        os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    for subject in _all.values():
        for entry in subject.calls.values():
            # Whoever compares with it still learns so at the next call.
            entry[:] = [0, 0, FORGOTTEN]
        subject.calls.clear()
        subject.seen.clear()
        subject.quick.clear()
        subject.turns, subject.whole = 0, None
        subject.launched, subject.settled = None, None
        subject.others[:] = [0, 1, -1]
        subject.benchmarks[:] = [0, 1, -1]
    _tuning[0] = 0
    graph[:] = [0, 0, None, 0]
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        # Children of multiprocessing end without atexit.
        util.register_after_fork(util, lambda _: util.Finalize(None, finish, exitpriority=0))
