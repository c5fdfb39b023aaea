"""How long a kernel takes without CUPTI's tracing, where that slows it.

To trace kernels that may run at once CUPTI adds code to each, which notes when its blocks begin and
end (NVIDIA calls it the instrumentation overhead of concurrent kernel tracing). Most kernels do not
feel it; one of many short blocks does: on an H200 a GELU of 16,384 blocks of 1,024 threads reads
67.5 µs so, and takes 61. A pair of events adds nothing to the kernel. What it reads too much, the
way from one command in the queue to the next, is the same for every kernel as long as the queue is
full, and an empty kernel tells how much that is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Launch = Callable[[], Any]
# A difference below either is not told from chance.
PART, LEAST_US = 0.02, 0.2
SAMPLES, BATCH, FEWEST = 80, 20, 6
# All of them together, in µs: a launch that takes longer is looked at less often, or not at all.
MOST_US = 500_000
# What the queue is kept busy with meanwhile, in cycles: 2 ms, in which a batch is launched.
AHEAD_CYCLES = 4_000_000
EMPTY = "ptxview_empty"
EMPTY_PTX = f"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry {EMPTY}() {{ ret; }}
"""


def queued(torch: Any, launch: Launch, before: Launch, count: int = SAMPLES) -> list[float]:
    """What a pair of events around a launch reads in a full queue, in µs, so often.

    Empty where this torch cannot keep the queue busy.
    """
    wait = getattr(torch.cuda, "_sleep", None)
    if wait is None:
        return []
    found: list[float] = []
    batch = min(BATCH, count)
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(batch)]
    while len(found) < count:
        torch.cuda.synchronize()
        wait(AHEAD_CYCLES)
        for start, end in pairs:
            before()
            start.record()
            launch()
            end.record()
        torch.cuda.synchronize()
        found += [1000 * float(start.elapsed_time(end)) for start, end in pairs]
    return found


def middle(samples: list[float]) -> float | None:
    """The median of finite samples; None of none."""
    held = sorted(s for s in samples if math.isfinite(s))
    return held[len(held) // 2] if held else None


def around(torch: Any, launch: Launch, before: Launch, own: list[float]) -> float | None:
    """What a pair of events reads around an empty kernel beyond its ``own`` time, in µs."""
    pair, kernel = middle(queued(torch, launch, before)), middle(own)
    return None if pair is None or kernel is None else pair - kernel


def undisturbed(
    torch: Any, said: dict[str, Any], launch: Launch, before: Launch, extra: float | None
) -> dict[str, Any]:
    """What a stopwatch said by CUPTI, with the time without it where tracing slows the call.

    ``extra`` is what a pair of events reads beyond a kernel's own time. A call of one kernel gets
    the samples of the events less this; ``traced`` is then what CUPTI read. Of several kernels the
    pair holds the gaps between them too: the sum stays CUPTI's, ``whole`` is the most that it can
    be. What is not disturbed comes back as it is.
    """
    traced = middle(said["samples"])
    if extra is None or traced is None:
        return said
    count = min(SAMPLES, int(MOST_US / max(traced, 1.0)))
    if count < FEWEST:
        return said
    pairs = queued(torch, launch, before, count)
    plain = middle([p - extra for p in pairs])
    if plain is None or plain <= 0 or traced - plain <= max(PART * plain, LEAST_US):
        return said
    kernels = said.get("kernels")
    if kernels is not None and (len(kernels) != 1 or kernels[0].get("per_call", 1) != 1):
        return {**said, "whole": plain}
    samples = [p - extra for p in pairs]
    changed: dict[str, Any] = {**said, "samples": samples, "traced": traced}
    if "span" in said:
        changed["span"] = samples
    if kernels is not None:
        changed["kernels"] = [{**kernels[0], "samples": samples}]
    return changed
