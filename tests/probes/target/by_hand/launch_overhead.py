"""Launches a second, by Triton: ``ptxview run -m tests.probes.target.by_hand.launch_overhead``.

The launch goes through Triton's own Python, as on a GPU, up to the launcher, which does nothing;
with the probe before it and without. Prints, asserts nothing.
"""

from __future__ import annotations

import time

import torch

from kernels.square import square_kernel

LAUNCHES = 20_000


def per_second(x: torch.Tensor, out: torch.Tensor) -> float:
    """The best of five."""
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(LAUNCHES):
            square_kernel[(64,)](out, x, 128, 128, 100, BLOCK_SIZE=128)
        best = min(best, (time.perf_counter() - begin) / LAUNCHES)
    return 1 / best


def main() -> None:
    from ptxview_probes.calls.launch import counted

    x = torch.randn(64, 128, device="cuda")
    out = torch.empty_like(x)
    kernel = square_kernel[(64,)](out, x, 128, 128, 100, BLOCK_SIZE=128)
    watched = kernel._run

    def nothing(*args: object) -> None:
        return None

    kernel._run = nothing
    without = per_second(x, out)
    kernel._run = counted(nothing, watched._ptxview)
    recorded = per_second(x, out)
    kernel._run = watched
    added = (1 / recorded - 1 / without) * 1e6
    print(f"{without:,.0f} launches/s without, {recorded:,.0f} with: ", end="")
    print(f"{recorded / without:.3f}, {added:.2f} µs a launch")


if __name__ == "__main__":
    main()
