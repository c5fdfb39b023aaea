"""What the program's user sees: lines on stderr, kept in the recording, and tracebacks.

Lines that say what a program waits for come after ten seconds of waiting and then every 30 seconds,
also within one long build or launch: a daemon thread writes them, and ends with the wait.
"""

import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..hooks import PACKAGE
from ..writer import emit

FIRST_SECONDS = 10.0
"""Seconds of waiting, in all, before the first line."""
NEXT_SECONDS = 30.0
"""Seconds of waiting between two lines."""
IDLE_SECONDS = 1.0
"""Seconds between two looks of the thread; it ends when nothing is waited for."""


@functools.cache
def problem(text: str) -> None:
    """Record once something that is missing, without a line on stderr."""
    emit({"event": "problem", "where": "target", "text": text[:2000]})


def aloud(text: str) -> None:
    """Print one line on stderr, if it is open."""
    with suppress(OSError, ValueError):
        print(f"ptxview: {text}", file=sys.stderr, flush=True)


def once(key: str, text: str, recorded_text: str = "") -> None:
    """Print and record one line, the first time that ``key`` comes up in this run.

    The recording keeps ``recorded_text`` instead if it has the rest already. Child processes stay
    silent where their parent spoke: the environment carries the keys.
    """
    earlier = os.environ.get("PTXVIEW_SAID", "").split()
    if key not in earlier:
        os.environ["PTXVIEW_SAID"] = " ".join([*earlier, key])
        problem(recorded_text or text)
        aloud(text)


def refusing(kind: type[Exception], text: str) -> Callable[..., Any]:
    """A function that raises a text."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise kind(f"ptxview: {text}")

    return refuse


def unseen(function: Callable[..., Any]) -> Any:
    """A function whose exceptions have none of our leading frames; a decorator."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            traceback = error.__traceback__
            while traceback is not None and str(
                traceback.tb_frame.f_globals.get("__name__")
            ).startswith(PACKAGE):
                traceback = traceback.tb_next
            error.__traceback__ = traceback
            raise

    return call


class Waiting:
    """Counts and times what the program waits for, by kind; only the first process writes."""

    def __init__(self) -> None:
        self._spent: dict[str, tuple[int, float]] = {}
        self._now: tuple[str, str, float] | None = None
        self._due = FIRST_SECONDS
        self._watcher: threading.Thread | None = None
        self._process = os.environ.setdefault("PTXVIEW_TARGET_PROCESS", str(os.getpid()))

    @contextmanager
    def on(self, kind: str, name: str) -> Iterator[None]:
        """Count the block as ``kind`` (``launches computed``) of the kernel ``name``.

        One within another is part of that.
        """
        if self._now is not None or str(os.getpid()) != self._process:
            yield
            return
        begun = time.monotonic()
        self._now = kind, name, begun
        if self._watcher is None or not self._watcher.is_alive():
            self._watcher = threading.Thread(target=self._watch, name="ptxview", daemon=True)
            with suppress(RuntimeError):  # no thread can be started here: nothing is written
                self._watcher.start()
        try:
            yield
        finally:
            count, seconds = self._spent.get(kind, (0, 0.0))
            self._spent[kind] = count + 1, seconds + time.monotonic() - begun
            self._now = None

    def look(self) -> None:
        """Write a line if one is due."""
        if (now := self._now) is None:
            return
        kind, name, begun = now
        elapsed = time.monotonic() - begun
        total = elapsed + sum(seconds for _, seconds in self._spent.values())
        if total >= self._due:
            self._due = total + NEXT_SECONDS
            finished = [f"{kind}: {n:,} in {s:.0f} s" for kind, (n, s) in self._spent.items()]
            doing = f"{kind}: {name}, {elapsed:.0f} s so far"
            aloud(f"waiting for {total:.0f} s: {', '.join([*finished, doing])}")

    def _watch(self) -> None:
        while self._now is not None:
            self.look()
            time.sleep(IDLE_SECONDS)


WAITING = Waiting()
