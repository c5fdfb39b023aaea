"""Loops of a graph: strongly connected parts, and those that remain without their header.

For a graph whose loops are entered through one block each, these are the natural loops of its
back edges (those of one header taken together). A loop entered in several places is one as well;
its header is the first block in which it is entered. (B. Steensgaard, "Sequentializing Program
Dependence Graphs for Irreducible Programs", 1993.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

DEEPEST = 16
"""Loops nested deeper are not looked for: each level takes time linear in the code in it."""

Found = tuple[int, int, tuple[int, ...]]
"""Header, depth (from 1), blocks in order."""


def find_loops(successors: Sequence[Sequence[int]], entries: Iterable[int]) -> list[Found]:
    """The loops among the nodes that are reached from ``entries``; outer ones before inner ones."""
    entries = set(entries)
    reached = _reached(successors, entries)
    predecessors: list[list[int]] = [[] for _ in successors]
    for node in reached:
        for other in successors[node]:
            predecessors[other].append(node)
    out: list[Found] = []
    work: list[tuple[list[int], int]] = [(sorted(reached), 1)]
    cut: set[int] = set()  # headers of the loops around
    while work:
        nodes, depth = work.pop()
        for part in _components(nodes, successors, cut):
            inside = set(part)
            entered = [
                n for n in part if n in entries or any(p not in inside for p in predecessors[n])
            ]
            header = min(entered or part)
            out.append((header, depth, tuple(sorted(part))))
            if depth < DEEPEST and len(part) > 1:
                cut.add(header)
                work.append((sorted(part), depth + 1))
    out.sort(key=lambda loop: (loop[1], loop[0]))
    return out


def _reached(successors: Sequence[Sequence[int]], entries: Iterable[int]) -> set[int]:
    seen = set(entries)
    work = list(seen)
    while work:
        for other in successors[work.pop()]:
            if other not in seen:
                seen.add(other)
                work.append(other)
    return seen


def _components(
    nodes: Sequence[int], successors: Sequence[Sequence[int]], cut: set[int]
) -> list[list[int]]:
    """Strongly connected parts of the graph of ``nodes`` without edges into ``cut``.

    Tarjan's algorithm without recursion. A single node is one where it goes on with itself.
    """
    inside = set(nodes)
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    out: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(successors[root]))]
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in inside or other in cut:
                    continue
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(successors[other])))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    part: list[int] = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        part.append(member)
                        if member == node:
                            break
                    if len(part) > 1 or (node in successors[node] and node not in cut):
                        out.append(part)
    return out
