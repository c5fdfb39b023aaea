"""``python -m tests.benchmarks.bench_calls``: what recording costs each launch after the first.

Launches through the object that stands before Triton's launcher, against the same launches
without it; the launcher itself does nothing here, so that the difference is all ours. Then the same
of graphs' calls, by how many inputs they have. Times are the thread's own, tensors begin at
multiples of 512 bytes as on a device. Prints, asserts nothing. What share of a whole launch through
Triton that is:
``ptxview run --no-tui -m tests.probes.target.by_hand.launch_overhead``.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

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


def main() -> None:
    import torch

    from inspector.probes.calls import graphs, launch_native, subjects, triton_launches
    from inspector.probes.calls import launch as calls_launch

    def aligned() -> torch.Tensor:
        memory = torch.zeros(64 * 64 + 256)
        start = -memory.data_ptr() % 512 // 4
        return memory[start : start + 4096].view(64, 64)

    def inner(*args: object) -> None:
        return None

    launch_native.build()
    launch_native._loaded.clear()
    compiled = launch_native.native()
    print(f"{'arguments':>24} {'without':>9} {'with':>9} {'added':>9}")
    sizes = ((1, 1), (2, 3), (3, 6), (6, 6), (12, 12))
    for how, (tensors, scalars) in itertools.product(("in Python", "in C"), sizes):
        parameters: list[tuple[str, object, object]] = [
            *((f"p{n}", "*fp32", None) for n in range(tensors)),
            *((f"n{n}", "i32", None) for n in range(scalars)),
            ("BLOCK", "constexpr", 1024),
        ]
        if how == "in C" and compiled is None:
            continue  # no compiler here
        launch_native._loaded[:] = [compiled if how == "in C" else None]
        held = subjects.subject("triton", "bench", f"{tensors}/{scalars} {how}", {})
        watched = calls_launch.stand(inner, held, triton_launches.LEADING, parameters)
        values = [aligned() for _ in range(tensors)] + list(range(scalars)) + [1024]
        args = (64, 1, 1, 0, 0, None, None, None, None, *values)
        bare, ours = nanoseconds(inner, args), nanoseconds(watched, args)
        print(
            f"{tensors:>3} tensors, {scalars:>2} scalars {bare:7.0f} ns {ours:6.0f} ns "
            f"{ours - bare:6.0f} ns  {how}"
        )
    for inputs in (1, 3, 12, 100):
        held = subjects.subject("graph", "bench", f"graph {inputs}", {})
        given = [aligned() for _ in range(inputs)]

        def call(given: list[torch.Tensor], held: subjects.Subject = held) -> None:
            graphs._with_inputs(held, inner, given)

        bare, ours = nanoseconds(inner, (given,)), nanoseconds(call, (given,))
        print(f"{inputs:>10} inputs of a graph {bare:5.0f} ns {ours:6.0f} ns {ours - bare:6.0f} ns")


def ratios() -> Iterator[Ratio]:
    """A launch of three tensors that was seen before, beside the same launch unwatched.

    The launcher takes the time that a call of Python with its arguments takes, and does nothing.
    """
    import torch

    from inspector.probes.calls import launch as calls_launch
    from inspector.probes.calls import launch_native, subjects, triton_launches

    def inner(*args: object) -> None:
        return None

    launch_native.build()
    launch_native._loaded.clear()
    compiled = launch_native.native()
    parameters: list[tuple[str, object, object]] = [
        *((f"p{n}", "*fp32", None) for n in range(3)),
        *((f"n{n}", "i32", None) for n in range(6)),
        ("BLOCK", "constexpr", 1024),
    ]
    values = [torch.zeros(4096) for _ in range(3)] + list(range(6)) + [1024]
    args = (64, 1, 1, 0, 0, None, None, None, None, *values)
    for how, kind in (("in Python", None), ("in C", compiled)):
        if how == "in C" and kind is None:
            continue  # no compiler here
        launch_native._loaded[:] = [kind]
        held = subjects.subject("triton", "bench", how, {})
        watched = calls_launch.stand(inner, held, triton_launches.LEADING, parameters)
        yield Ratio(f"a launch that is recorded {how}",
                    nanoseconds(watched, args) / nanoseconds(inner, args), "it alone")  # fmt: skip


if __name__ == "__main__":
    main()
