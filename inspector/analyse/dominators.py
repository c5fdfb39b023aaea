"""Which blocks are on every way to a block, and where ways that avoid one meet those through it.

T. Lengauer and R. E. Tarjan, "A Fast Algorithm for Finding Dominators in a Flowgraph", 1979; R.
Cytron and others, "Efficiently Computing Static Single Assignment Form and the Control Dependence
Graph", 1991. Both take time all but linear in the edges, and nothing here recurses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property


class Dominators:
    """The dominator tree of a graph below a root of its own, from which all else is reached.

    ``first`` and ``last`` number the blocks in the tree's order: ``a`` is on every way to ``b``
    where ``first[a] <= first[b] <= last[a]``. The root is the number after the last block.
    """

    def __init__(self, successors: Sequence[Sequence[int]], entries: Iterable[int]) -> None:
        self.root = len(successors)
        self.predecessors: list[list[int]] = [[] for _ in successors]
        for block, following in enumerate(successors):
            for other in following:
                self.predecessors[other].append(block)
        order, above, self._seeds = _depth_first(successors, entries, self.root)
        self.parent = self._parents(order, above)
        self.first, self.last = self._numbered()

    def _parents(self, order: list[int], above: list[int]) -> list[int]:
        """The immediate dominator of each block, by Lengauer and Tarjan."""
        number = [0] * (self.root + 1)
        for n, block in enumerate(order):
            number[block] = n
        count = len(order)
        semi, label, ancestor = list(range(count)), list(range(count)), [-1] * count
        nearest = [0] * count
        bucket: list[list[int]] = [[] for _ in range(count)]

        def best(v: int) -> int:
            if ancestor[v] < 0:
                return v
            path = []
            while ancestor[ancestor[v]] >= 0:
                path.append(v)
                v = ancestor[v]
            for u in reversed(path):
                over = ancestor[u]
                if semi[label[over]] < semi[label[u]]:
                    label[u] = label[over]
                ancestor[u] = ancestor[over]
            return label[path[0] if path else v]

        for w in range(count - 1, 0, -1):
            block, up = order[w], number[above[order[w]]]
            before = [number[p] for p in self.predecessors[block]]
            for v in [*before, 0] if block in self._seeds else before:
                semi[w] = min(semi[w], semi[best(v)])
            bucket[semi[w]].append(w)
            ancestor[w] = up
            for v in bucket[up]:
                u = best(v)
                nearest[v] = u if semi[u] < semi[v] else up
            bucket[up] = []
        for w in range(1, count):
            if nearest[w] != semi[w]:
                nearest[w] = nearest[nearest[w]]
        out = [self.root] * (self.root + 1)
        for w in range(1, count):
            out[order[w]] = order[nearest[w]]
        return out

    def _numbered(self) -> tuple[list[int], list[int]]:
        children: list[list[int]] = [[] for _ in range(self.root + 1)]
        for block in range(self.root):
            children[self.parent[block]].append(block)
        first, last = [0] * (self.root + 1), [0] * (self.root + 1)
        clock = 0
        work = [(self.root, iter(children[self.root]))]
        while work:
            block, rest = work[-1]
            for child in rest:
                clock += 1
                first[child] = clock
                work.append((child, iter(children[child])))
                break
            else:
                last[block] = clock
                work.pop()
        return first, last

    @cached_property
    def frontiers(self) -> list[list[int]]:
        """For each block those where ways through it meet ways that avoid it."""
        out: list[list[int]] = [[] for _ in range(self.root + 1)]
        for block, before in enumerate(self.predecessors):
            ways = [*before, self.root] if block in self._seeds else before
            if len(ways) < 2:
                continue
            for way in ways:
                while way != self.parent[block] and way != self.root:
                    if out[way] and out[way][-1] == block:
                        break  # and so have all that are above it
                    out[way].append(block)
                    way = self.parent[way]
        return out

    def meeting(self, blocks: Iterable[int]) -> set[int]:
        """Where different values of what is written in ``blocks`` may meet."""
        out: set[int] = set()
        work = list(blocks)
        while work:
            for block in self.frontiers[work.pop()]:
                if block not in out:
                    out.add(block)
                    work.append(block)
        return out


def _depth_first(
    successors: Sequence[Sequence[int]], entries: Iterable[int], root: int
) -> tuple[list[int], list[int], set[int]]:
    """Blocks in preorder from the root on, the block that each was reached from, and those that
    the root leads to: the entries, and one of each part that no entry leads to."""
    order, above = [root], [root] * (root + 1)
    seeds: set[int] = set()
    seen = bytearray(root)
    for seed in (*entries, *range(root)):
        if seen[seed]:
            continue
        seeds.add(seed)
        seen[seed] = 1
        order.append(seed)
        work = [(seed, iter(successors[seed]))]
        while work:
            block, rest = work[-1]
            for other in rest:
                if not seen[other]:
                    seen[other] = 1
                    above[other] = block
                    order.append(other)
                    work.append((other, iter(successors[other])))
                    break
            else:
                work.pop()
    # An entry that another leads to is entered from outside as well.
    return order, above, seeds | set(entries)
