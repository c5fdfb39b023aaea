"""What 15_profile.py calls in each step: `--step` names functions of imported modules."""

import torch


def squares(x):
    """The three ways of the lecture."""
    return torch.square(x), x * x, x**2


def wrong(x):
    """Times the wrapper with what it wraps: compile once, outside."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    y = torch.compile(torch.square)(x)
    end.record()
    torch.cuda.synchronize()
    begin.elapsed_time(end)
    return y, y, y
