"""Sees what the device does while something runs: by CUPTI itself, else by torch.profiler.

torch.profiler has CUPTI's records too, but is started and stopped for each look, and leaves out
what its conversion of the device's clock puts outside of its window. It is used only where CUPTI
cannot be used, and the row says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from .cupti import Cupti, CuptiError, Event, library

# After the device has come to rest all records are there, as a rule at the first flush.
WAITS = (0.0, 0.001, 0.01, 0.05, 0.2)
# Device events of torch.profiler that are no kernels, copies or fills: by kind if torch gives it,
# else by name.
NO_WORK_KINDS = ("annotation", "sync", "cuda_event", "overhead")
NO_WORK = ("Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event")

Work = Callable[[], Any]
Enough = Callable[[list[Event]], bool]


class Unavailable(Exception):
    """This stopwatch cannot be used here; the message says why."""


class Records:
    """CUPTI's records of what the device did, while in the ``with`` block."""

    note: str | None = None

    def __init__(self, torch: Any, cupti: Cupti) -> None:
        self._torch, self._cupti = torch, cupti
        self._lost = False

    def __enter__(self) -> Records:
        if _profiled(self._torch):
            raise Unavailable("a torch.profiler of the program's own runs, and has CUPTI to itself")
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        try:
            self._cupti.stop()
        except CuptiError:
            pass  # the events seen are valid; a later start says what is wrong

    def _begin(self) -> None:
        try:
            self._cupti.start()
        except CuptiError as error:
            raise Unavailable(str(error)) from None
        self._lost = False

    def saw(self, work: Work, enough: Enough) -> list[Event]:
        """What the device did for ``work``, in order of its start.

        Waits until the records are ``enough``, for a quarter of a second at most. Raises
        ``Unavailable``.
        """
        if self._lost:  # for example, if the called code runs a profiler
            self._begin()
        events: list[Event] = []
        try:
            self._cupti.flush()
            self._cupti.forget()  # of a block before, which was given up
            work()
            self._torch.cuda.synchronize()
            for wait in WAITS:
                time.sleep(wait)
                self._cupti.flush(forced=wait > 0)
                events = sorted([*events, *self._cupti.taken()], key=lambda event: event.start)
                if enough(events):
                    break
            else:
                self._lost = True
        except CuptiError as error:
            raise Unavailable(str(error)) from None
        return events


class Profiler:
    """torch.profiler, started for each look; ``note`` says why it is not CUPTI itself."""

    def __init__(self, torch: Any, note: str | None = None) -> None:
        self._torch, self.note = torch, note

    def __enter__(self) -> Profiler:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def saw(self, work: Work, enough: Enough) -> list[Event]:
        """What the device did for ``work``, in order of its start; it may be nothing."""
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            work()
            self._torch.cuda.synchronize()
        return device_events(profiler)


Trace = Records | Profiler


def device_events(profiler: Any) -> list[Event]:
    """Kernels, copies and fills on the device that torch.profiler saw, by their start."""
    results = getattr(getattr(profiler, "profiler", None), "kineto_results", None)
    events: list[Event] = []
    for event in results.events() if results is not None else []:
        name = str(event.name())
        if "CUDA" not in str(event.device_type()) or name.startswith(NO_WORK):
            continue
        kind = str(event.activity_type()) if hasattr(event, "activity_type") else ""
        if any(word in kind for word in NO_WORK_KINDS):
            continue
        if hasattr(event, "duration_ns"):
            start, duration = event.start_ns(), event.duration_ns()
        else:
            start, duration = 1000 * event.start_us(), 1000 * event.duration_us()
        events.append(Event(name, int(start), int(duration)))
    return sorted(events, key=lambda event: event.start)


def trace_of(torch: Any) -> Trace:
    """CUPTI's records, or torch.profiler if CUPTI cannot be used in this process."""
    try:
        cupti = Cupti(library(getattr(torch.version, "cuda", None)))
        cupti.start()
        cupti.stop()
    except (CuptiError, AttributeError) as error:
        return Profiler(torch, f"by torch.profiler, since CUPTI itself cannot be used: {error}")
    return Records(torch, cupti)


def _profiled(torch: Any) -> bool:
    """Whether a torch.profiler runs in this process, if torch knows."""
    enabled = getattr(getattr(torch, "autograd", None), "_profiler_enabled", None)
    return bool(enabled()) if enabled is not None else False
