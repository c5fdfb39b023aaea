"""Sizes of an input, as a user writes them: ``N=256:12672:128``, ``M=4096``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from inspector.errors import UsageError

HOW = "Write N=256:12672:128 (first:last:step), N=256:16384:*2 (each twice the one before), or N=256,781,4096."  # noqa: E501
_RANGE = re.compile(r"(\d{1,18}):(\d{1,18}):(\*?)(\d{1,18})")
MOST = 2000


@dataclass(frozen=True, slots=True)
class Sweep:
    """The sizes that one parameter of the input is to have, each once, ascending."""

    name: str
    values: tuple[int, ...]


def sweep(text: str) -> Sweep:
    """``N=first:last:step``, the last included where the steps meet it. Raises ``UsageError``."""
    name, values = _named(text, "--sweep")
    found = _values(values)
    if not found:
        raise UsageError(f"--sweep {text}: {values or 'nothing'} is no range of sizes", HOW)
    if len(found) > MOST:
        raise UsageError(f"--sweep {text} has {len(found):,} sizes, more than {MOST:,}")
    return Sweep(name, tuple(sorted(set(found))))


def fixed(texts: list[str]) -> dict[str, int]:
    """``M=4096`` of each. Raises ``UsageError``."""
    out = {}
    for text in texts:
        name, value = _named(text, "--size")
        if not _is_size(value) or int(value) < 1:
            raise UsageError(f"--size {text}: {value or 'nothing'} is no size", "Write M=4096.")
        out[name] = int(value)
    return out


def together(swept: Sweep | None, held: dict[str, int]) -> list[dict[str, int]]:
    """The sizes of each input that is to be made; one with all defaults where none is given.

    Raises ``UsageError`` where a parameter is swept and fixed.
    """
    if swept is None:
        return [dict(held)]
    if swept.name in held:
        raise UsageError(f"{swept.name} is given by both --sweep and --size")
    return [{swept.name: value, **held} for value in swept.values]


def _named(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise UsageError(f"{option} {text}: it does not name a parameter of inputs()", HOW)
    return name.strip(), value.strip()


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _values(text: str) -> list[int]:
    found = _RANGE.fullmatch(text)
    if found is None:
        parts = [p.strip() for p in text.split(",")]
        sizes = [int(p) for p in parts if _is_size(p)]
        return sizes if len(sizes) == len(parts) and all(sizes) else []
    first, last, factor, step = int(found[1]), int(found[2]), found[3], int(found[4])
    if first < 1 or step < (2 if factor else 1):
        return []
    if not factor:
        return list(range(first, min(last, first + step * MOST) + 1, step))
    out = []
    while first <= last:
        out.append(first)
        first *= step
    return out
