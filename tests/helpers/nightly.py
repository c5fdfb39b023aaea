"""Cases of one behaviour, of which a few run with each change and the others nightly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def nightly(*values: object) -> Any:
    """A case of ``pytest.mark.parametrize`` that runs nightly: what ``pytest.param`` takes."""
    return pytest.param(*values, marks=pytest.mark.nightly)


def first_by_day(values: Iterable[object], count: int = 1) -> list[Any]:
    """Values of one parameter: the first ``count`` run with each change, the others nightly."""
    cases = list(values)
    return [*cases[:count], *map(nightly, cases[count:])]
