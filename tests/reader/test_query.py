"""Queries that cannot be read."""

import pytest

from inspector.base.errors import UsageError
from inspector.reader.query import parse


@pytest.mark.parametrize("word", ["regs>many", "regs>", "shared<=x"])
def test_the_error_for_a_comparison_without_a_number_shows_the_form(word: str) -> None:
    with pytest.raises(UsageError, match="needs a number after it") as error:
        parse(word)
    assert "regs>128" in error.value.hint
