"""Ends a window of the profiler by time or for want of memory, in the program's main thread."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

EVERY = 0.2  # seconds between two looks
# A window ends where the program has taken this part of the memory that was free as it began: what
# torch notes of an operator takes seven times as much when it is made a trace of (measured).
PART = 0.08


_KIND = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Limits:
    """A thread that watches while a window is open; it touches nothing of torch's itself."""

    def __init__(self, end: Callable[[str], None]) -> None:
        self._end = end
        self._stop: threading.Event | None = None
        self._why = ""
        # torch's profiler is stopped in the thread that began it. The interpreter calls this
        # there, between two instructions; kept, since C holds no reference.
        self._call = _KIND(self._reached)
        self._others: list[Any] = []

    def watch(self, seconds: float | None) -> None:
        """A window has begun, and ends after ``seconds`` at the latest; None: no time is set."""
        self.stop()
        stop = self._stop = threading.Event()
        until = None if seconds is None else time.monotonic() + seconds
        threading.Thread(
            target=self._look, args=(stop, until), name="ptxview-profile", daemon=True
        ).start()

    def stop(self) -> None:
        """The window has ended."""
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function in the main thread, as soon as it is between two instructions."""

        def call(_: Any) -> int:
            try:
                function()
            except Exception:
                pass
            return 0

        self._others.append(_KIND(call))
        ctypes.pythonapi.Py_AddPendingCall(self._others[-1], None)

    def _look(self, stop: threading.Event, until: float | None) -> None:
        free, began = available(), resident()
        while not stop.wait(EVERY):
            now = resident()
            if until is not None and time.monotonic() >= until:
                self._why = "seconds"
            elif free and began and now and now - began > PART * free:
                self._why = "memory"
            else:
                continue
            ctypes.pythonapi.Py_AddPendingCall(self._call, None)
            return

    def _reached(self, _: Any) -> int:
        try:
            if self._stop is not None and not self._stop.is_set():
                self._end(self._why)
        except Exception:
            pass
        return 0


def resident() -> int | None:
    """Bytes of memory that this process has."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except (OSError, ValueError, IndexError):
        return None


def available() -> int | None:
    """Bytes of memory that are free for programs, of the machine or of the container."""
    found = []
    try:
        with open("/proc/meminfo") as file:
            found += [int(r.split()[1]) * 1024 for r in file if r.startswith("MemAvailable:")]
        with (
            open("/sys/fs/cgroup/memory.max") as most,
            open("/sys/fs/cgroup/memory.current") as now,
        ):
            found.append(int(most.read()) - int(now.read()))
    except (OSError, ValueError, IndexError):
        pass
    return min(found, default=None)
