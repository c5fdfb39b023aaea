"""Live registers by backward data flow, on numbers.

Code is looked at in regions: a region is entered at its top only, and may be left on the way.
Within one, registers are small sets; across regions, only those that some region reads before it
writes them are carried, as bits of an int.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """One instruction. ``kills``: what ends a range that is read further on in the same region.

    ``hides``: what ends one that is read in a later region. These are the same, unless a vendor's
    tool is followed that sees it in another way.
    """

    uses: tuple[int, ...]
    defs: tuple[int, ...]
    kills: tuple[int, ...]
    hides: tuple[int, ...]


class Exit(NamedTuple):
    """After row ``row`` control may go on with the regions ``targets``; ``falls`` with the next."""

    row: int
    targets: tuple[int, ...]
    falls: bool


class Ranges:
    """The live registers of a function.

    ``starts`` are the first rows of regions and the number of rows; ``exits`` those of each
    region in the order of rows. The last of a region says what follows it.
    """

    def __init__(
        self, rows: Sequence[Row], starts: Sequence[int], exits: Sequence[Sequence[Exit]]
    ) -> None:
        self.rows = rows
        self.starts = starts
        self.exits = exits
        self._bits: dict[int, int] = {}
        self._registers: list[int] = []
        self._before = self._solve()

    def region(self, number: int) -> Iterator[tuple[int, set[int], list[int], list[int]]]:
        """The rows of a region from the last to the first, with what is live after each.

        Then what is live there and not after the row that was given before, and the other way
        round. The set is the same one, changed on the way.
        """
        rows = self.rows
        leaving = {each.row: each for each in self.exits[number]}
        live: set[int] = set()
        more: list[int] = []
        less: list[int] = []
        bits = self._bits
        mask = 0  # ``live`` as bits, but for what changed since
        changed: set[int] = set()
        for at in range(self.starts[number + 1] - 1, self.starts[number] - 1, -1):
            found = leaving.get(at)
            if found is not None:
                if not found.falls:
                    less += live
                    live.clear()
                    changed.clear()
                    mask = 0
                if found.targets:
                    if changed:
                        mask &= ~self._mask(changed)
                        mask |= self._mask(changed & live)
                        changed.clear()
                    new = 0
                    for target in found.targets:
                        new |= self._before[target]
                    new &= ~mask
                    mask |= new
                    added = self._set(new)
                    more += added
                    live.update(added)
            yield at, live, more, less
            row = rows[at]
            less = [*live.intersection(row.kills)]
            live.difference_update(less)
            more = [*set(row.uses) - live]
            live.update(more)
            changed.update(r for r in less if r in bits)
            changed.update(r for r in more if r in bits)

    def _set(self, mask: int) -> list[int]:
        """The registers of some bits."""
        out: list[int] = []
        if mask:
            digits = f"{mask:b}"[::-1]
            at = digits.find("1")
            while at >= 0:
                out.append(self._registers[at])
                at = digits.find("1", at + 1)
        return out

    def _exposed(self) -> list[set[int]]:
        """What each region reads before it writes it."""
        out: list[set[int]] = []
        rows = self.rows
        for number, exits in enumerate(self.exits):
            leaving = {each.row for each in exits if not each.falls}
            read: set[int] = set()
            for at in range(self.starts[number + 1] - 1, self.starts[number] - 1, -1):
                if at in leaving:
                    read.clear()
                row = rows[at]
                if row.kills:
                    read.difference_update(row.kills)
                read.update(row.uses)
            out.append(read)
        return out

    def _solve(self) -> list[int]:
        """What is live at the top of each region, as bits."""
        bits = self._bits
        exposed = self._exposed()
        for read in exposed:
            for register in sorted(read):
                if register not in bits:
                    bits[register] = len(bits)
        self._registers = list(bits)
        before = [self._mask(read) for read in exposed]
        passing: list[list[tuple[int, int]]] = []
        sources: list[list[int]] = [[] for _ in exposed]
        for number, exits in enumerate(self.exits):
            hidden: set[int] = set()
            mask, at = 0, self.starts[number]
            ways: list[tuple[int, int]] = []
            for each in exits:
                if not each.targets:
                    continue
                for row in self.rows[at : each.row + 1]:
                    hidden.update(r for r in row.hides if r in bits)
                at = each.row + 1
                if hidden:
                    mask |= self._mask(hidden)
                    hidden.clear()
                ways += [(target, ~mask) for target in each.targets]
            passing.append(ways)
            for target, _ in ways:
                sources[target].append(number)
        work = list(range(len(before)))
        waiting = set(work)
        while work:
            number = work.pop()
            waiting.discard(number)
            mask = before[number]
            for target, kept in passing[number]:
                mask |= before[target] & kept
            if mask != before[number]:
                before[number] = mask
                for source in sources[number]:
                    if source not in waiting:
                        waiting.add(source)
                        work.append(source)
        return before

    def _mask(self, registers: set[int]) -> int:
        """The bits of ``registers``, made in time linear in how many there are."""
        if not registers:
            return 0
        data = bytearray((len(self._bits) + 7) // 8)
        for register in registers:
            bit = self._bits[register]
            data[bit >> 3] |= 1 << (bit & 7)
        return int.from_bytes(data, "little")
