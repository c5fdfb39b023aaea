"""A fault of any function of the probes leaves a program as it is without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.__main__ import changes, table
from tests.faults.injector import Fault, Injector, sample
from tests.probes.conftest import needs_torch

SAMPLE, SEED = 200, 31


@pytest.fixture(scope="module")
def injector(tmp_path_factory: pytest.TempPathFactory, common: Path) -> Iterator[Injector]:
    needs_torch()
    made = Injector(tmp_path_factory.mktemp("faults") / "copy", common / "target-caches")
    yield made
    made.close()


def hold(injector: Injector, faults: list[Fault]) -> None:
    """Inject them; each that fires must change nothing, and nearly all must fire."""
    results = list(injector.inject(faults))
    print(table(injector.functions, results))
    changed = changes(injector.functions, results)
    assert not changed, "\n\n".join(changed)
    assert sum(fired for _, fired, _ in results) > 0.9 * len(results)


def test_no_fault_of_a_sample_changes_a_program(injector: Injector) -> None:
    hold(injector, sample(list(injector.faults(injector.called())), SAMPLE, SEED))


@pytest.mark.nightly
def test_no_fault_changes_a_program(injector: Injector) -> None:
    hold(injector, list(injector.faults(injector.called())))
