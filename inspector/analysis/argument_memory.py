"""Memory that tensors of a recorded call have in common, to be laid out again as it was.

Each maker of a recorded call's inputs (a trace, a time, a script) allocates each block once and
takes its members' views of it.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from inspector.analysis.card import element_bytes
from inspector.base.model import Argument, Share

ALIGNED = 512
"""Where torch's allocator begins every block, and the largest alignment that is recorded."""


class Member(Struct, frozen=True):
    """An argument in a block; ``offset_bytes`` is its address less the block's."""

    name: str
    offset_bytes: int


class MemoryBlock(Struct, frozen=True):
    """One allocation for tensors that overlapped.

    ``start_bytes`` is its address modulo ``ALIGNED``, by which each member is as aligned as it was.
    ``members`` are in the order to fill them: integers last and the smallest of them at the end,
    since as indices they have to stay in their range.
    """

    size_bytes: int
    start_bytes: int
    members: tuple[Member, ...]


def memory_blocks(arguments: Iterable[Argument], shares: Sequence[Share]) -> list[MemoryBlock]:
    """The blocks of a call's tensors that overlapped; a tensor alone in its memory is in none."""
    if not shares:
        return []
    tensors = {a.name: a for a in arguments}
    sizes = {name: _bytes_spanned(a) for name, a in tensors.items()}
    blocks: list[MemoryBlock] = []
    placed: set[str] = set()
    for share in shares:
        if share.first not in placed:
            offsets = _connected(share.first, shares, sizes)
            placed.update(offsets)
            if len(offsets) > 1:
                blocks.append(_block(offsets, tensors, sizes))
    return blocks


def _bytes_spanned(argument: Argument) -> int:
    """Bytes from a tensor's first to its last element; 0 if it has none, or no known layout."""
    size = element_bytes(argument.dtype or "")
    shape = argument.shape
    strides = argument.strides
    if size is None or shape is None or strides is None or len(shape) != len(strides):
        return 0
    if not all(shape) or min((*shape, *strides), default=0) < 0:
        return 0
    return size * (1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)))


def _connected(name: str, shares: Sequence[Share], sizes: Mapping[str, int]) -> dict[str, int]:
    """Addresses of all tensors that a tensor overlaps, by steps of pairs, less its own."""
    offsets = {name: 0}
    pending = [name]
    while pending:
        current = pending.pop()
        for share in shares:
            other = share.second
            apart = share.offset_bytes
            if current == share.second:
                other = share.first
                apart = -share.offset_bytes
            elif current != share.first:
                continue
            # A recording may name pairs whose layouts do not overlap.
            if other not in offsets and -sizes.get(other, 0) < apart < sizes.get(current, 0):
                offsets[other] = offsets[current] + apart
                pending.append(other)
    return offsets


def _block(
    offsets: Mapping[str, int], tensors: Mapping[str, Argument], sizes: Mapping[str, int]
) -> MemoryBlock:
    first = min(offsets.values())
    best_aligned = max(offsets, key=lambda name: tensors[name].alignment or 0)
    start = (tensors[best_aligned].alignment or ALIGNED) - offsets[best_aligned] + first

    def filling(name: str) -> tuple[bool, int]:
        dtype = tensors[name].dtype or ""
        return not dtype.startswith(("float", "bfloat", "complex")), -sizes[name]

    return MemoryBlock(
        max(offset + sizes[name] for name, offset in offsets.items()) - first,
        start % ALIGNED,
        tuple(Member(name, offsets[name] - first) for name in sorted(offsets, key=filling)),
    )
