"""The time of a call that launches any number of kernels, by the kernels' own durations (CUPTI).

What stands between two calls (the flush of the L2) launches kernels too, maybe the same ones. So
both are learnt first, each alone: what a flush launches and what a call launches, by name and in
order. A block of samples counts only where the device's events are exactly these, again and again.
"""

from __future__ import annotations

import time

from .cupti import Event
from .replay_stopwatches import FIRST, MOST, MOST_MISSES, Launch, next_count, settled
from .replay_trace import Trace, Unavailable

LEARNT = 4


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
        self.total.append(sum(e.ns for e in events) / 1000)
        self.span.append((max(e.start + e.ns for e in events) - events[0].start) / 1000)
        for held, event in zip(self.each, events, strict=True):
            held.append(event.ns / 1000)


def period(names: list[str], times: int) -> list[str] | None:
    """What is repeated, where ``names`` is the same ``times`` over; None where it is not."""
    length, rest = divmod(len(names), times)
    return names[:length] if not rest and names == names[:length] * times else None


def names_of(events: list[Event]) -> list[str]:
    """Names in order of the start."""
    return [event.name for event in sorted(events, key=lambda event: event.start)]


def learn(trace: Trace, launch: Launch) -> list[str]:
    """The names of what one call launches, in order; [] of one that launches nothing.

    Raises ``Unavailable`` where it launches something else each time.
    """

    def work() -> None:
        for _ in range(LEARNT):
            launch()

    empty = 0
    names: list[str] = []
    for _ in range(MOST_MISSES):
        names = names_of(trace.saw(work, lambda events: bool(period(names_of(events), LEARNT))))
        one_call = period(names, LEARNT)
        if one_call:
            return one_call
        empty += not names
    if empty == MOST_MISSES:
        return []
    raise Unavailable(
        f"its calls do not launch the same kernels each time ({len(names)} in {LEARNT} calls), so "
        "that they cannot be told from what stands between them"
    )


def kernels_alone(trace: Trace, launch: Launch) -> list[str]:
    """``learn`` of a call. Raises ``Unavailable`` also where nothing is seen of it."""
    names = learn(trace, launch)
    if not names:
        raise Unavailable(
            "CUPTI saw nothing on the device: does a call launch anything, and is no other "
            "profiler at work?"
        )
    return names


def calls(
    trace: Trace, launch: Launch, before: Launch, seconds: float, between: Launch, flushes: bool
) -> Call:
    """Samples of a call until the median is settled or the time is up.

    ``flushes``: whether ``before`` does anything on the device. Raises ``Unavailable``.
    """
    with trace:
        kernels = kernels_alone(trace, launch)
        flush = learn(trace, before) if flushes else []
        pattern = [*flush, *kernels]
        call = Call(kernels)
        began = time.monotonic()
        count, misses = FIRST, 0

        def block() -> None:
            for _ in range(count):
                before()
                launch()
            between()

        def whole(events: list[Event]) -> bool:
            return names_of(events) == pattern * count

        while True:
            block_began = time.monotonic()
            events = trace.saw(block, whole)
            took = time.monotonic() - block_began
            if whole(events):
                misses = 0
                for at in range(len(flush), len(events), len(pattern)):
                    call.add(events[at : at + len(kernels)])
            else:
                misses += 1
            if misses >= MOST_MISSES:
                raise Unavailable("what CUPTI saw is not what a call launches, again and again")
            late = len(call.total) >= MOST or time.monotonic() - began > seconds
            if call.total and (late or settled(call.total)):
                return call
            count = next_count(count, took, len(events), 10, 1000)
