"""``python -m tests.benchmarks.bench_calls``: what recording adds to each launch after the first.

Launches through a proxy against the same launches without it; the launcher itself does nothing, so
that the difference is all ours. Then calls of graphs, by the number of their inputs. Prints,
asserts nothing. The share of a whole launch through Triton:
``ptxview run --no-tui -m tests.probes.target.by_hand.launch_overhead``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.benchmarks.ratio import Ratio

LAUNCHES, ROUNDS = 2_000, 60


def nanoseconds(launch: Callable[..., object], args: tuple[object, ...]) -> float:
    """The best of many rounds, a launch."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.thread_time_ns()
        for _ in range(LAUNCHES):
            launch(*args)
        best = min(best, (time.thread_time_ns() - begin) / LAUNCHES)
    return best


def inner(*args: object) -> None:
    """A launcher that does nothing."""


def launches(tensors: int, scalars: int) -> tuple[float, float]:
    """Nanoseconds of a launch with these numbers of arguments, without a proxy and with one."""
    import torch

    from inspector.probes.calls import launch, subjects, triton_launches

    parameters: list[tuple[str, object, object]] = [
        *((f"p{n}", "*fp32", None) for n in range(tensors)),
        *((f"n{n}", "i32", None) for n in range(scalars)),
        ("BLOCK", "constexpr", 1024),
    ]

    def subject() -> subjects.Subject:
        return subjects.subject("triton", "bench", f"{tensors}/{scalars}", {})

    counter = launch.Counter(subject, triton_launches.LEADING, parameters)
    values = [torch.zeros(4096) for _ in range(tensors)] + list(range(scalars)) + [1024]
    args = (64, 1, 1, 0, 0, None, None, None, None, *values)
    return nanoseconds(inner, args), nanoseconds(launch.counted(inner, counter), args)


def graphs(inputs: int) -> tuple[float, float]:
    """Nanoseconds of a graph's call with this number of tensors, without hooks and with them."""
    import torch

    from inspector.probes.calls import graphs as probe

    class Compiled:
        cache_key = f"bench {inputs}"

    probe._paths[Compiled.cache_key] = Compiled.cache_key
    call: Any = probe.watched_graph(inner, Compiled())
    given = ([torch.zeros(64) for _ in range(inputs)],)
    return nanoseconds(inner, given), nanoseconds(call, given)


def main() -> None:
    """Print nanoseconds for several numbers of arguments."""
    print(f"{'':>24} {'without':>9} {'with':>9} {'added':>9}")
    rows = [(f"{t} tensors, {s} scalars", launches(t, s)) for t, s in ((1, 1), (3, 6), (12, 12))]
    rows += [(f"a graph of {n} inputs", graphs(n)) for n in (1, 12, 150)]
    for name, (bare, ours) in rows:
        print(f"{name:>24} {bare:6.0f} ns {ours:6.0f} ns {ours - bare:6.0f} ns")


def ratios() -> Iterator[Ratio]:
    """A launch of three tensors that was seen before, beside the same launch unwatched.

    The launcher takes the time that a call of Python with its arguments takes, and does nothing.
    """
    bare, ours = launches(3, 6)
    yield Ratio("a launch that is recorded", ours / bare, "it alone")


if __name__ == "__main__":
    main()
