"""Sets of words, written as one reads them."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of ``text``."""
    return frozenset(text.split())
