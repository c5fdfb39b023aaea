"""Timing a kernel wrong, and then right.

CUDA is asynchronous: a call comes back when the kernel is *queued*, so Python's clock measures the
launch. The first call also pays for the context. Right is: warm up, record an event before and one
after, synchronize, read the difference. And one pair around one short launch is still mostly
launch; put many launches between two events and divide.
"""

import math
import time

import torch


def wall_clock(run):
    """Wrong: nobody waited for the GPU."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e6


def event_pair(run, launches=1):
    """Microseconds a launch between two events, after five warm-ups."""
    for _ in range(5):
        run()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(launches):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / launches


def show(what, microseconds):
    """Print a time, or that it is missing: without a GPU, events return NaN."""
    text = "not measured" if math.isnan(microseconds) else f"{microseconds:10.1f} µs"
    print(f"{what:40} {text}")


if __name__ == "__main__":
    x = torch.randn(2048, 2048, device="cuda")
    torch.testing.assert_close(torch.square(x), x * x)

    show("wall clock, no synchronize (wrong)", wall_clock(lambda: torch.square(x)))
    show("one event pair, one launch", event_pair(lambda: torch.square(x)))
    many = event_pair(lambda: torch.square(x), launches=100)
    show("one event pair, 100 launches", many)
    if math.isnan(many):
        print("no GPU here: the wall clock timed the CPU that stands in for it")
