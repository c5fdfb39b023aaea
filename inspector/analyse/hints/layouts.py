"""Layouts of TTGIR: which elements of a tensor a thread holds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from inspector.listing.line import Line

_ALIAS = re.compile(r"(#[\w$]+) = #ttg\.blocked<\{(.*)\}>")
_LIST = re.compile(r"(?<!\w)(\w++) = \[([\d, ]*+)\]")
_USED = re.compile(r"tensor<(?:\d++x)++[^,<>]*+(?:<[^<>]*+>)?+, (#[\w$]++)>")


@dataclass(frozen=True, slots=True)
class Blocked:
    """``#ttg.blocked``: per axis, elements a thread, threads a warp, warps; axes, fastest first."""

    size: tuple[int, ...]
    threads: tuple[int, ...]
    warps: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def fastest(self) -> int:
        """The axis along which neighbouring elements are given out first."""
        return self.order[0]

    def held(self, shape: tuple[int, ...]) -> int:
        """Elements that one thread holds along the fastest axis of a tensor."""
        axis = self.fastest
        once = self.size[axis] * self.threads[axis] * self.warps[axis]
        return self.size[axis] * max(-(-shape[axis] // once), 1)


def blocked(lines: Iterable[Line]) -> dict[str, Blocked]:
    """The blocked layouts of a listing by their names (``#blocked1``)."""
    out: dict[str, Blocked] = {}
    for line in lines:
        found = _ALIAS.match(line.text)
        if found is None:
            continue
        parts = {name: tuple(int(n) for n in re.findall(r"\d{1,9}+", inner))
                 for name, inner in _LIST.findall(found[2])}  # fmt: skip
        size, threads = parts.get("sizePerThread", ()), parts.get("threadsPerWarp", ())
        warps, order = parts.get("warpsPerCTA", ()), parts.get("order", ())
        axes = len(order)
        if not all((*size, *threads, *warps)):
            continue  # nobody holds nothing
        if axes and len(size) == len(threads) == len(warps) == axes and max(order) < axes:
            out[found[1]] = Blocked(size, threads, warps, order)
    return out


def layout_of(line: Line) -> str | None:
    """The name of the layout of the first tensor among an operation's types."""
    found = _USED.search(line.text.partition(" loc(")[0])
    return found[1] if found else None
