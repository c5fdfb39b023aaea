"""torch's own samples of every operator: the emulated device computes what the CPU does."""

from __future__ import annotations

import json

import pytest

from tests.probes.conftest import Run, ok

DTYPES = ("float32", "float16", "bfloat16", "complex64", "int64", "bool")
OTHERWISE = {
    # Sums of half precision are kept in float32, as a GPU keeps them (shim/wide.h).
    "_unsafe_masked_index_put_accumulate", "masked.prod", "prod", "nn.functional.cross_entropy",
    "nn.functional.linear_cross_entropy", "nn.functional.nll_loss", "native_layer_norm",
    # Written with other operators, as a GPU's kernel is another than the CPU's; dropout is random.
    "nn.functional.scaled_dot_product_attention", "addr",
    # LAPACK rounds by the alignment of its memory.
    "linalg.lstsq",
}  # fmt: skip
"""Operators whose results are not the CPU kernel's."""


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_are_the_cpus_or_refused_by_name(run: Run, dtype: str) -> None:
    pytest.importorskip("expecttest", reason="torch's samples of operators import expecttest")
    done = ok(run("operators.py", dtype))
    *lines, last = done.out.splitlines()
    assert not [line for line in lines if line.split(" ")[0] not in OTHERWISE]
    counts = json.loads(last)
    assert counts["same"] > 2000 and "ERROR" not in counts and "slow" not in counts
