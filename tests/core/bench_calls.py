"""``python -m tests.core.bench_calls``: what recording costs each launch after the first.

Launches through the object that stands before Triton's launcher, against the same launches
without it; the launcher itself does nothing here, so that the difference is all ours. Prints,
asserts nothing. What share of a whole launch through Triton that is:
``ptxview run --no-tui -m tests.target.by_hand.launch_overhead``.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LAUNCHES = 200_000


def nanoseconds(launch: Callable[..., object], args: tuple[object, ...]) -> float:
    """The best of five, a launch."""
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter_ns()
        for _ in range(LAUNCHES):
            launch(*args)
        best = min(best, (time.perf_counter_ns() - begin) / LAUNCHES)
    return best


def main() -> None:
    import torch

    from inspector.probes import calls, calls_triton

    def inner(*args: object) -> None:
        return None

    print(f"{'arguments':>24} {'without':>9} {'with':>9} {'added':>9}")
    for tensors, scalars in ((1, 1), (2, 3), (3, 6), (6, 6), (12, 12)):
        parameters: list[tuple[str, object, object]] = [
            *((f"p{n}", "*fp32", None) for n in range(tensors)),
            *((f"n{n}", "i32", None) for n in range(scalars)),
            ("BLOCK", "constexpr", 1024),
        ]
        held = calls.subject("triton", "bench", f"{tensors}/{scalars}", {})
        watched = calls_triton.Launch(inner, held, calls_triton.LEADING, parameters)
        values = [torch.zeros(64, 64) for _ in range(tensors)] + list(range(scalars)) + [1024]
        args = (64, 1, 1, 0, 0, None, None, None, None, *values)
        bare, ours = nanoseconds(inner, args), nanoseconds(watched, args)
        print(
            f"{tensors:>3} tensors, {scalars:>2} scalars {bare:7.0f} ns {ours:6.0f} ns "
            f"{ours - bare:6.0f} ns"
        )


if __name__ == "__main__":
    main()
