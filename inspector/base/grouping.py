"""Groups of values by key."""

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")


V = TypeVar("V")


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key, in order; keys in the order of their first."""
    out: dict[K, list[V]] = {}
    for key, value in pairs:
        out.setdefault(key, []).append(value)
    return out
