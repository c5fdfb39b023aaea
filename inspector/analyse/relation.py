"""Pairs of lines held as blocks: every line of one side of a block belongs to all of the other.

A line of source may have a hundred thousand instructions. As pairs that would be quadratic; as
blocks it stays linear, and lines with the same links share one tuple.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

Links = dict[int, tuple[int, ...]]
Block = tuple[Sequence[int], Sequence[int]]


class Relation:
    """Which lines of ``left`` belong to which of ``right``; both directions are the same pairs."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.blocks = tuple((tuple(left), tuple(right)) for left, right in blocks if left and right)

    @classmethod
    def of(cls, links: Mapping[int, tuple[int, ...]]) -> Relation:
        """The relation that ``links`` are the forward direction of."""
        groups: dict[object, tuple[list[int], tuple[int, ...]]] = {}
        for n, others in links.items():
            groups.setdefault(_key(others), ([], others))[0].append(n)
        return cls(groups.values())

    def turned(self) -> Relation:
        """The same pairs with left and right exchanged."""
        return Relation((right, left) for left, right in self.blocks)

    def forward(self) -> Links:
        """Lines of the left to lines of the right."""
        return _links(self.blocks)

    def backward(self) -> Links:
        """Lines of the right to lines of the left."""
        return _links(self.turned().blocks)


def _links(blocks: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> Links:
    member: dict[int, list[int]] = defaultdict(list)
    for at, (left, _) in enumerate(blocks):
        for n in left:
            member[n].append(at)
    united: dict[tuple[int, ...], tuple[int, ...]] = {}
    out: Links = {}
    for n in sorted(member):
        key = tuple(member[n])
        found = united.get(key)
        if found is None:
            lines = {line for at in key for line in blocks[at][1]}
            found = united[key] = tuple(sorted(lines))
        out[n] = found
    return out


def composed(first: Mapping[int, tuple[int, ...]], then: Mapping[int, tuple[int, ...]]) -> Links:
    """``first`` followed by ``then``; lines with the same middle share one result."""
    united: dict[object, tuple[int, ...]] = {}
    out: Links = {}
    for n, middle in first.items():
        key = _key(middle)
        found = then.get(middle[0], ()) if len(middle) == 1 else united.get(key)
        if found is None:
            found = united[key] = tuple(sorted({x for m in middle for x in then.get(m, ())}))
        if found:
            out[n] = found
    return out


def _key(lines: tuple[int, ...]) -> object:
    """Equal for the same lines; where they are many, only for the same tuple.

    To hash a long tuple for each line that has it would be quadratic.
    """
    return lines if len(lines) < 16 else id(lines)
