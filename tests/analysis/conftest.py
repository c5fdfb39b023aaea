"""What the disassembler has said of cubins, kept for all tests of analysis."""

from pathlib import Path

import pytest

from inspector.recording.layout import DerivedCache


@pytest.fixture(scope="session")
def cache(common: Path) -> DerivedCache:
    """One for all files and xdist workers: each asks the same of it."""
    return DerivedCache(common / "derived")
