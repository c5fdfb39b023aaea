"""Which memory a kernel may write, from its TTIR: what is absent where it is not run.

Also memory that is reached through addresses kept in memory: a grouped product gets a tensor of
addresses, and what those point at is as absent as the tensors that it was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from . import native

_VALUE = re.compile(r"%[\w.$-]+")
# The first operand is the place written.
_WRITES = (
    "tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_store", "tt.descriptor_store",
    "tt.descriptor_scatter", "tt.descriptor_reduce", "tt.experimental_descriptor_store",
    "ttng.async_tma_copy_local_to_global", "ttng.async_tma_reduce", "ttng.async_tma_scatter",
)  # fmt: skip
# Operations that load from memory: a loaded pointer leads one step further.
_READS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather", "tt.atomic")
# Operations that no pointer comes out of.
_DATA = ("tt.dot",)
# Forms that hide where a pointer comes from: calls, warps with arguments of their own.
_OPAQUE = (" tt.call ", "tensormap_create", "ttg.warp_specialize")
# Further steps than these are taken for one.
MOST_STEPS = 3

# A parameter's position, and the number of loads between it and the value.
_Origin = tuple[int, int]


class Written(NamedTuple):
    """What some store may reach, by position among the function's parameters."""

    arguments: frozenset[int]
    """Parameters that are written themselves."""
    behind: dict[int, int]
    """Parameters whose memory holds the addresses that are written, and at how many steps."""


def written(ttir: str) -> Written | None:
    """What a kernel may write; None where its text has forms that this reading does not follow."""
    lines = ttir.splitlines()
    start = next((i for i, line in enumerate(lines) if "tt.func public" in line), None)
    if start is None or any(_opaque(line) for line in lines):
        return None
    if "int_to_ptr" in ttir and "global_to_local" in ttir:
        return None  # addresses that go through shared memory
    tracing = _Tracing(parameters(ttir))
    codes = [line.split(" loc(")[0].strip() for line in lines[start + 1 :]]
    for _ in range(2 + MOST_STEPS):  # values carried by loops come round again
        tracing.go_over(codes)
    behind: dict[int, int] = {}
    # What is loaded is an address only where something takes it for one.
    addresses = any(form in ttir for form in ("int_to_ptr", "!tt.ptr<!tt.ptr", "inline_asm"))
    for position, steps in tracing.reached:
        if steps and addresses:
            behind[position] = max(steps, behind.get(position, 0))
    direct = frozenset(position for position, steps in tracing.reached if not steps)
    return Written(direct, behind)


class _Tracing:
    """Which parameters each value comes from, and which a store reaches."""

    def __init__(self, names: list[str]) -> None:
        self.reached: set[_Origin] = set()
        self._origins: dict[str, set[_Origin]] = {name: {(i, 0)} for i, name in enumerate(names)}
        self._branched: set[_Origin] = set()
        # What each open region gives to: the values that its operation carries.
        self._regions: list[list[str]] = []

    def go_over(self, codes: list[str]) -> None:
        """All lines of the function, once."""
        self._regions = []
        for code in codes:
            self._line(code)

    def _line(self, code: str) -> None:
        closes = code.startswith("}")
        closed = self._regions.pop() if closes and self._regions else []
        results, _, right = code.partition(" = ") if " = " in code else ("", "", code)
        operands = [_base(value) for value in _VALUE.findall(right)]
        sources = self._sources(operands)
        if operands and any(op in right for op in _WRITES):
            self.reached |= self._sources(operands[:1])
        if "inline_asm" in right and "pure = true" not in right:
            self.reached |= sources  # assembly may write at any address that it is given
        values = [_base(value) for value in _VALUE.findall(results)]
        given, sources = self._flow(code, right, operands, values, sources)
        for value in given:
            self._origins.setdefault(value, set()).update(sources)
        if code.endswith("{"):
            self._regions.append(closed if closes else given)

    def _flow(
        self, code: str, right: str, operands: list[str], results: list[str], sources: set[_Origin]
    ) -> tuple[list[str], set[_Origin]]:
        """The values that a line gives something to, and where that comes from."""
        if code.startswith("^bb"):  # what a loop or a branch hands to a block
            return operands, self._branched | self._sources(self._carried())
        if code.startswith("cf."):
            self._branched |= sources
        elif "iter_args(" in code or "scf.while" in code:
            # All that a loop carries is taken as one.
            return results + operands, sources
        elif "scf.yield" in code or "scf.condition" in code:
            return self._carried(), sources
        elif any(op in right for op in _DATA):
            return [], sources
        elif any(op in right for op in _READS):
            return results, {(i, min(steps + 1, MOST_STEPS)) for i, steps in sources}
        return results, sources

    def _carried(self) -> list[str]:
        """What the innermost region that carries something carries."""
        return next((values for values in reversed(self._regions) if values), [])

    def _sources(self, values: list[str]) -> set[_Origin]:
        return set().union(*(self._origins.get(value, ()) for value in values))


def parameters(ttir: str) -> list[str]:
    """The names of the kernel's parameters in the TTIR: no constexpr is among them."""
    line = next((x for x in ttir.splitlines() if "tt.func public" in x), "")
    return re.findall(r"(%[\w.$-]+): ", line)


def _opaque(line: str) -> bool:
    return any(form in line for form in _OPAQUE)


def _base(value: str) -> str:
    """``%5#1`` and ``%5:2`` are parts of ``%5``."""
    return value.split("#")[0].split(":")[0]


def behind(starts: Iterable[int], steps: int) -> set[int]:
    """Where the memory starts that so many steps lead to, from the memory at these addresses.

    Every word of 64 bits that is an address of device memory counts as a pointer. Memory whose
    value is absent leads nowhere: nothing can be read there.
    """
    import numpy as np

    pieces = native.memory()
    firsts = np.array([first for first, _ in pieces], np.uint64)
    ends = np.array([end for _, end in pieces], np.uint64)
    pieces_seen: set[int] = set()
    edge = {piece for address in starts for piece in _holding(firsts, ends, [address])}
    for _ in range(steps):
        reached: set[int] = set()
        for piece in edge:
            first, end = pieces[piece]
            if not native.absence_at(first):
                reached |= _holding(firsts, ends, _words(first, end))
        edge = reached - pieces_seen
        pieces_seen |= reached
    return {pieces[piece][0] for piece in pieces_seen}


def _words(first: int, end: int) -> Any:
    import ctypes

    import numpy as np

    start = -(-first // 8) * 8
    count = max(0, (end - start) // 8)
    if not count:
        return np.empty(0, np.uint64)
    memory: Any = (ctypes.c_uint64 * count).from_address(start)
    return np.frombuffer(memory, np.uint64)


def _holding(firsts: Any, ends: Any, words: Any) -> set[int]:
    """Which pieces of memory hold one of these addresses."""
    import numpy as np

    words = np.asarray(words, np.uint64)
    if not firsts.size or not words.size:
        return set()
    words = np.unique(words[(words >= firsts[0]) & (words < ends.max())])
    places = np.searchsorted(firsts, words, side="right").astype(np.int64) - 1
    return {int(i) for i, word in zip(places, words, strict=True) if i >= 0 and word < ends[i]}
