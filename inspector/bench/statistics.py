"""The median of samples, and the interval that it lies in with 95 %: by order, of any distribution.

Of n independent samples, as many are below the true median as heads fall in n throws of a coin.
So it lies between the k-th least and the k-th greatest of them with a probability that follows
from the binomial distribution alone (W. J. Conover, Practical Nonparametric Statistics, 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Median:
    """A median with its 95 % interval, in the samples' unit.

    ``low`` and ``high`` are None of fewer than 6 samples, which no such interval exists of.
    """

    value: float
    low: float | None
    high: float | None
    samples: int

    @property
    def reach(self) -> float | None:
        """Half the interval as a part of the median; None where either is not known."""
        if self.low is None or self.high is None or self.value <= 0:
            return None
        return (self.high - self.low) / 2 / self.value


def rank(count: int) -> int | None:
    """The greatest k whose interval, from the k-th least to the k-th greatest, holds 95 %."""
    tail = (1 - CONFIDENCE) / 2
    below = 0.0
    fits: int | None = None
    log_all = count * math.log(2)
    for k in range(1, count // 2 + 1):
        chosen = math.lgamma(count + 1) - math.lgamma(k) - math.lgamma(count - k + 2)
        below += math.exp(chosen - log_all)
        if below > tail:
            break
        fits = k
    return fits


def median(samples: Sequence[float]) -> Median | None:
    """The median of finite samples; None of none."""
    held = sorted(s for s in samples if math.isfinite(s))
    n = len(held)
    if not n:
        return None
    middle = (held[(n - 1) // 2] + held[n // 2]) / 2
    k = rank(n)
    if k is None:
        return Median(middle, None, None, n)
    return Median(middle, held[k - 1], held[n - k], n)
