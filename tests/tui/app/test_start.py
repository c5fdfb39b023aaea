"""The time until the first row, beside an empty Textual application in the same run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.bench_first_frame import spans

MAX_RATIO = 3


@pytest.mark.nightly
def test_the_first_row_is_within_three_times_an_empty_application(tmp_path: Path) -> None:
    """400 kernels that were opened before; the best of three runs, against noise."""
    taken = spans(tmp_path, 3)
    assert min(taken["kernels"]) <= MAX_RATIO * min(taken["empty"]), taken
