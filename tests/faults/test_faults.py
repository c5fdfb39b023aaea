"""A fault of any function of the probes leaves a program as it is without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.__main__ import changes, table
from tests.faults.injector import Fault, Injector, sample
from tests.probes.conftest import needs_torch

SAMPLE, SEED = 24, 31
SOME = ("threads", "compiled", "processes")
"""Programs of the sample: the other builds an extension."""
STARTING = (
    "hooks.Finder._find_spec",
    "hooks._watch_loader",
    "hooks._watch_loader.before",
    "hooks._watch_loader.after",
    "start._lazily.callback",
)


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


def hold(injector: Injector, faults: list[Fault], fresh: bool = False) -> None:
    """Inject them; each that fires must change nothing, and nearly all must fire."""
    assert faults
    results = list(injector.inject(faults, fresh))
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
def test_first_launches_of_other_threads_pass_one_that_waits(
    injector: Injector, faults: list[Fault]
) -> None:
    """Initialization of the process is not done yet when seven other threads need it."""
    hold(
        injector,
        [
            fault
            for fault in faults
            if (fault.kind, fault.program) == ("delay", "threads")
            and injector.functions[fault.function].name.startswith("calls.")
        ],
    )


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["first", "third", "base"])
def test_faults_of_an_import_hook_change_no_program(injector: Injector, kind: str) -> None:
    """These are met by an interpreter that starts under the probes."""
    hold(
        injector,
        [
            Fault(number, kind, "threads")
            for number, function in enumerate(injector.functions)
            if function.name in STARTING
        ],
        fresh=True,
    )


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_no_fault_changes_a_program(injector: Injector, faults: list[Fault], part: int) -> None:
    hold(injector, faults[part::PARTS])
