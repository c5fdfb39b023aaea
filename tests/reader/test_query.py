"""Queries that cannot be read."""

import pytest

from inspector.base.errors import UsageError
from inspector.reader.query import parse


@pytest.mark.parametrize("word", ["regs>many", "regs>", "shared<=x"])
def test_a_comparison_without_a_number_is_told_how_to_write_one(word: str) -> None:
    with pytest.raises(UsageError, match="needs a number after it") as error:
        parse(word)
    assert "regs>128" in error.value.hint
