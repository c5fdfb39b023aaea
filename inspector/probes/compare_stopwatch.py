"""The time of a call that launches any number of kernels, by the kernels' own durations (CUPTI).

What stands between two calls (the flush of the L2) launches kernels too, maybe the same ones. So
both are learnt first, each alone: what a flush launches and what a call launches, by name and in
order. A block of samples counts only where the device's events are exactly these, again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .replay_stopwatches import (
    BLOCK_SECONDS,
    MOST,
    MOST_MISSES,
    Launch,
    Unavailable,
    settled,
)

# Device events that are no work of its own.
NO_WORK = ("annotation", "sync")
LEARNT = 4
# An event: name, start in ns, duration in ns.
Event = tuple[str, int, int]


class Call:
    """Samples of one call, in µs: the kernels' durations together, first start to last end, each.

    ``kernels`` are the names in order, ``each`` the durations of every one of them.
    """

    def __init__(self, kernels: list[str]) -> None:
        self.kernels = kernels
        self.total: list[float] = []
        self.span: list[float] = []
        self.each: list[list[float]] = [[] for _ in kernels]

    def add(self, events: list[Event]) -> None:
        """The device's events of one call."""
        self.total.append(sum(e[2] for e in events) / 1000)
        self.span.append((max(e[1] + e[2] for e in events) - events[0][1]) / 1000)
        for held, event in zip(self.each, events, strict=True):
            held.append(event[2] / 1000)


def device_events(profiler: Any) -> list[Event]:
    """Kernels, copies and fills on the device, by their start."""
    held = getattr(getattr(profiler, "profiler", None), "kineto_results", None)
    found: list[Event] = []
    for event in held.events() if held is not None else []:
        if "CUDA" not in str(event.device_type()):
            continue
        kind = str(event.activity_type()) if hasattr(event, "activity_type") else ""
        if any(word in kind for word in NO_WORK):
            continue
        if hasattr(event, "duration_ns"):
            start, took = event.start_ns(), event.duration_ns()
        else:
            start, took = 1000 * event.start_us(), 1000 * event.duration_us()
        found.append((str(event.name()), int(start), int(took)))
    return sorted(found, key=lambda e: e[1])


def profiled(torch: Any, work: Callable[[], None]) -> list[Event]:
    """The device's events of some work."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    return device_events(profiler)


def period(names: list[str], times: int) -> list[str] | None:
    """What is repeated, where ``names`` is the same ``times`` over; None where it is not."""
    length, rest = divmod(len(names), times)
    return names[:length] if not rest and names == names[:length] * times else None


def learn(torch: Any, launch: Launch) -> list[str]:
    """The names of what one call launches, in order; [] of one that launches nothing.

    Raises ``Unavailable`` where it launches something else each time.
    """

    def work() -> None:
        for _ in range(LEARNT):
            launch()

    empty = 0
    seen: list[str] = []
    for _ in range(MOST_MISSES):
        seen = [name for name, _, _ in profiled(torch, work)]
        found = period(seen, LEARNT)
        if found:
            return found
        empty += not seen
    if empty == MOST_MISSES:
        return []
    raise Unavailable(
        f"its calls do not launch the same kernels each time ({len(seen)} in {LEARNT} calls), so "
        "that they cannot be told from what stands between them"
    )


def kernels_alone(torch: Any, launch: Launch) -> list[str]:
    """``learn`` of a call. Raises ``Unavailable`` also where nothing is seen of it."""
    found = learn(torch, launch)
    if not found:
        raise Unavailable(
            "the profiler saw nothing on the device: does a call launch anything, is CUPTI there, "
            "and no other profiler?"
        )
    return found


def calls(
    torch: Any, launch: Launch, before: Launch, seconds: float, between: Launch, flushes: bool
) -> Call:
    """Samples of a call until the median is settled or the time is up.

    ``flushes``: whether ``before`` does anything on the device. Raises ``Unavailable``.
    """
    kernels = kernels_alone(torch, launch)
    flush = learn(torch, before) if flushes else []
    pattern = [*flush, *kernels]
    found = Call(kernels)
    began = time.monotonic()
    count = 20
    misses = 0
    while True:
        block = time.monotonic()

        def work(count: int = count) -> None:
            for _ in range(count):
                before()
                launch()
            between()

        events = profiled(torch, work)
        took = time.monotonic() - block
        if [e[0] for e in events] == pattern * count:
            misses = 0
            for at in range(len(flush), len(events), len(pattern)):
                found.add(events[at : at + len(kernels)])
        else:
            misses += 1
        if misses >= MOST_MISSES:
            raise Unavailable("what the profiler saw is not what a call launches, again and again")
        samples = found.total
        late = len(samples) >= MOST or time.monotonic() - began > seconds
        if samples and (late or settled(samples)):
            return found
        count = max(10, min(1000, int(count * BLOCK_SECONDS / max(took, 1e-3)) + 1))
