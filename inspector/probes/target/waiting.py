"""Lines on stderr that say what a program waits for on the emulated device.

The first line comes after ten seconds of waiting, the next ones every 30 seconds, also while one
long build or launch is under way: a daemon thread writes them, and ends when nothing is waited for.
Only the first process writes.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import say
from .say import unseen

FIRST_SECONDS = 10.0
"""Seconds of waiting, in all, before the first line."""
NEXT_SECONDS = 30.0
"""Seconds of waiting between two lines."""
IDLE_SECONDS = 1.0
"""Seconds between two looks of the thread; it ends where it finds nothing that is waited for."""
_FIRST_PROCESS = "PTXVIEW_TARGET_PROCESS"


class Waiting:
    """What takes time, by kind: how often, and how many seconds in all."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str], None] = say.aloud,
        first: float = FIRST_SECONDS,
    ) -> None:
        self._clock, self._tell = clock, tell
        self._spent: dict[str, tuple[int, float]] = {}
        self._now: tuple[str, str, float] | None = None
        self._due = first
        self._process = os.getpid()
        self._watcher: threading.Thread | None = None

    @contextmanager
    def on(self, kind: str, name: str) -> Iterator[None]:
        """Count what runs within as ``kind`` (``launches computed``); ``name`` is the kernel's.

        What is nested is part of the outer.
        """
        if self._now is not None or os.getpid() != self._process:
            yield
            return
        begun = self._clock()
        self._now = kind, name, begun
        self._watch()
        try:
            yield
        finally:
            self._now = None
            count, seconds = self._spent.get(kind, (0, 0.0))
            self._spent[kind] = count + 1, seconds + self._clock() - begun

    def counted(self, kind: str, name_of: Callable[..., str], run: Callable[..., Any]) -> Any:
        """A function whose calls are waited for."""

        @functools.wraps(run)
        def call(*args: Any, **given: Any) -> Any:
            try:
                with self.on(kind, name_of(*args, **given)):
                    return run(*args, **given)
            except BaseException as error:
                unseen(error)
                raise

        return call

    def look(self) -> None:
        """Write a line if one is due."""
        now = self._now
        if now is None:
            return
        kind, name, begun = now
        here = self._clock() - begun
        total = here + sum(seconds for _, seconds in self._spent.values())
        if total < self._due:
            return
        self._due = total + NEXT_SECONDS
        done = [f"{kind}: {n:,} in {s:.0f} s" for kind, (n, s) in self._spent.items()]
        doing = f"{kind}: {name}, {here:.0f} s so far"
        self._tell(f"waiting for {total:.0f} s: {', '.join([*done, doing])}")

    def _watch(self) -> None:
        if self._watcher is None or not self._watcher.is_alive():
            self._watcher = threading.Thread(target=self._watching, name="ptxview", daemon=True)
            try:
                self._watcher.start()
            except RuntimeError:  # no thread can be started here: nothing is written
                self._watcher = None

    def _watching(self) -> None:
        while True:
            time.sleep(IDLE_SECONDS)
            if self._now is None:
                return
            self.look()


def _silent(text: str) -> None:
    """The first process writes for its children."""


def _here() -> Waiting:
    first = os.environ.setdefault(_FIRST_PROCESS, str(os.getpid())) == str(os.getpid())
    return Waiting(tell=say.aloud if first else _silent)


WAITING = _here()
