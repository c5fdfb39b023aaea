"""A fault of any function of the probes leaves a program as it is without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.__main__ import changes, table
from tests.faults.injector import Fault, Injector, sample
from tests.probes.conftest import needs_torch

SAMPLE, SEED = 4, 31
SOME = ("threads", "compiled", "processes")
"""Programs of the sample: the other builds an extension."""
PARTS = 60
"""All faults take an hour; a part takes a minute."""


@pytest.fixture(scope="module")
def injector(tmp_path_factory: pytest.TempPathFactory, common: Path) -> Iterator[Injector]:
    needs_torch()
    made = Injector(tmp_path_factory.mktemp("faults") / "copy", common / "target-caches")
    yield made
    made.close()


@pytest.fixture(scope="module")
def faults(injector: Injector) -> list[Fault]:
    """All that can be met."""
    return list(injector.faults(injector.called()))


def hold(injector: Injector, faults: list[Fault]) -> None:
    """Inject them; each that fires must change nothing, and nearly all must fire."""
    assert faults
    results = list(injector.inject(faults))
    print(table(injector.functions, results))
    changed = changes(injector.functions, results)
    assert not changed, "\n\n".join(changed)
    assert sum(fired for _, fired, _ in results) > 0.9 * len(results)


def test_no_fault_of_a_sample_changes_a_program(tmp_path: Path, common: Path) -> None:
    needs_torch()
    injector = Injector(tmp_path / "copy", common / "target-caches", SOME)
    try:
        hold(injector, sample(list(injector.faults(injector.called())), SAMPLE, SEED))
    finally:
        injector.close()


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_no_fault_changes_a_program(injector: Injector, faults: list[Fault], part: int) -> None:
    hold(injector, faults[part::PARTS])
