"""Faults planted in Inductor's kernels: ``ptxview verify`` names the kernels that have one."""

import pytest

from tests.helpers.tools import skip_without
from tests.verify.find_planted import FAULTS, verified

NAMES = (
    "softmax_scale",
    "dropout_mask",
    "noise_scale",
    "embedding_backward_fill",
    "column_range_identity",
    "index_add_index",
    "foreach_increment",
    "share_sign",
)
"""A kernel alone, two with random numbers, one that prepares memory, one that writes parts, one of
two that change the same memory, one that changes a list, one that reads memory for its result."""


@pytest.mark.nightly
def test_exactly_the_kernel_with_a_fault_is_not_explained() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("triton", reason="triton is not installed")
    skip_without("g++")
    outcomes = verified([*(FAULTS[name]["program"] for name in NAMES), *NAMES])
    assert len(outcomes) == 2 * len(NAMES)
    accused = {outcome.name: outcome.unexplained for outcome in outcomes}
    assert accused == {outcome.name: outcome.planted for outcome in outcomes}
    assert [outcome.not_compared for outcome in outcomes] == [[]] * len(outcomes)
    assert all(outcome.changed > 1e-3 for outcome in outcomes if outcome.kernel is not None)
