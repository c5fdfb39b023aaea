"""The page of the lecture's recording, which is exported once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.ptxview import SAMPLE, call
from tests.helpers.shared import once


def export_lecture(page: Path) -> None:
    done = call("export", SAMPLE, "-o", page)
    assert done.status == 0, done.said


@pytest.fixture(scope="session")
def lecture(common: Path) -> Path:
    return once(common / "made" / "lecture.html", export_lecture)
