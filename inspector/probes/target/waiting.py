"""What a long program waits for, said once a minute: on a GPU it would not wait for it.

Nothing runs beside the program for this: a line is written where something that takes time begins
or ends, by the first process alone.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import say
from .traceback import unseen

EVERY = 60.0
"""Seconds from one line to the next."""
_FIRST = "PTXVIEW_TARGET_PROCESS"


class Waiting:
    """Counts what takes time, by kind: how often, and how many seconds in all."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, tell: Callable[[str], None] = say.aloud
    ) -> None:
        self._clock, self._tell = clock, tell
        self._begun = self._told = clock()
        self._spent: dict[str, tuple[int, float]] = {}
        self._inside = False
        self._process = os.getpid()

    @contextmanager
    def on(self, kind: str, name: str) -> Iterator[None]:
        """Within it, the program waits for something: ``kind`` is what is counted (``launches
        run``), ``name`` the kernel. What is inside of another is part of it."""
        if self._inside:
            yield
            return
        self._inside, begun = True, self._clock()
        self._say(begun, f"now {name}")
        try:
            yield
        finally:
            self._inside, now = False, self._clock()
            count, seconds = self._spent.get(kind, (0, 0.0))
            self._spent[kind] = count + 1, seconds + now - begun
            self._say(now, f"last {name}, {now - begun:.0f} s")

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

    def _say(self, now: float, what: str) -> None:
        if now - self._told < EVERY or not self._spent or os.getpid() != self._process:
            return
        self._told = now
        parts = [f"{kind}: {count:,} in {s:.0f} s" for kind, (count, s) in self._spent.items()]
        minutes = (now - self._begun) / 60
        self._tell(f"{minutes:.0f} min so far: {', '.join(parts)}; {what}")


def _silent(text: str) -> None:
    """What is waited for elsewhere is told there."""


def _here() -> Waiting:
    first = os.environ.setdefault(_FIRST, str(os.getpid())) == str(os.getpid())
    return Waiting(tell=say.aloud if first else _silent)


WAITING = _here()
