"""The median's interval against the binomial distribution itself, and against known samples."""

from __future__ import annotations

import math
import random

import pytest

from inspector.measure.time.results import median, rank


def confidence(n: int, k: int) -> float:
    """The exact probability that the k-th least and k-th greatest of n hold the median."""
    return float(1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n)


@pytest.mark.parametrize(("n", "k"), [(6, 1), (10, 2), (20, 6), (50, 18), (100, 40)])
def test_ranks_are_those_of_the_printed_tables(n: int, k: int) -> None:
    assert rank(n) == k


def test_it_holds_the_true_median_of_a_skewed_distribution_as_often_as_it_says() -> None:
    source = random.Random(7)
    truth = math.log(2)  # of the exponential distribution
    held = 0
    for _ in range(2000):
        found = median([source.expovariate(1) for _ in range(61)])
        assert found is not None and found.low is not None and found.high is not None
        held += found.low <= truth <= found.high
    # By the binomial distribution of 61 throws: 96.0 %; three deviations of 2000 tries are 1.3 %.
    assert abs(held / 2000 - confidence(61, rank(61) or 0)) < 0.014
