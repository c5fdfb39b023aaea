"""Names that people type: base names of mangled functions, shortest prefixes of digests."""

from __future__ import annotations

import re
from collections.abc import Iterable

SHORTEST = 8
_NESTED = re.compile(r"_ZN?K?(?:L)?(\d.*)")


def base_name(symbol: str) -> str:
    """``square_matrix_kernel`` for ``_Z20square_matrix_kernelPKfPfii``; others as they are.

    Itanium C++ ABI 5.1.2: a source name is its length and its letters; the last of a nested name
    is the function's own.
    """
    found = _NESTED.match(symbol)
    if not found:
        return symbol
    rest, name = found[1], ""
    while match := re.match(r"(\d{1,6})", rest):
        size = int(match[1])
        start = match.end()
        if size == 0 or start + size > len(rest):
            break
        name, rest = rest[start : start + size], rest[start + size :]
    return name or symbol


def shortest_ids(digests: Iterable[str]) -> dict[str, str]:
    """The shortest prefix of each digest that no other shares, of eight letters or more."""
    known = sorted(set(digests))
    out: dict[str, str] = {}
    for n, digest in enumerate(known):
        need = SHORTEST
        for other in known[max(n - 1, 0) : n] + known[n + 1 : n + 2]:
            common = 0
            for a, b in zip(digest, other, strict=False):
                if a != b:
                    break
                common += 1
            need = max(need, common + 1)
        out[digest] = digest[:need]
    return out
