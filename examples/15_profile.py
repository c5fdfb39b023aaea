"""Profile the square: which operator launches which kernel, and what the launch costs.

The lecture wraps torch.profiler around these three with a schedule. Here nothing stands around
them: `ptxview profile --step squares:squares examples/15_profile.py` makes each call of squares()
in squares.py a step, leaves out one, warms up with one and keeps three. torch.square is
aten::square, which calls aten::pow, which launches the kernel; x * x is aten::mul; x ** 2 is
aten::pow.

With --wrong torch.compile is called inside the function that is timed, as in the lecture's plot:
the profile says so, with the line and what each call costs.
"""

import sys

import torch
from squares import squares, wrong

STEPS = 6


if __name__ == "__main__":
    way = wrong if "--wrong" in sys.argv else squares
    sizes = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    n = sizes[0] if sizes else 2048
    x = torch.randn(n, n, device="cuda")
    for _ in range(STEPS):
        ways = way(x)
        torch.cuda.synchronize()
    for y in ways:
        torch.testing.assert_close(y, x * x)
    print(f"{way.__name__}: {STEPS} steps of {n}×{n} agree")
