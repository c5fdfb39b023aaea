"""The steps of one warp role, found by walking the machine code's blocks.

Of a role it is known how often its warps came to each line of PTX, exactly. At each branch the walk
goes where it has been less often than they have: round a loop as often as they were each time that
they came to it, past a block that they never entered.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from inspector.analysis.flow.graph import Flow, Loop
from inspector.estimate.path import Op
from inspector.execute.kinds import Array

MAX_STEPS = 200_000
"""Instructions of a warp, beyond which a walk is given up."""
NEGLIGIBLE = 0.5
END = -1
ANCHORED = 5.0
"""What an instruction of a barrier, a copy or a product counts for, of which PTX has one each."""
CONSERVED = 1000.0
TINY = 1e-6
ROUNDS = 20
"""Rounds of least squares whose weights make them least absolute differences."""

Edge = tuple[int, int]
"""A block and its successor; ``END`` where it has none."""


class Walk:
    """``counts`` are how often a warp of the role came to each line of PTX."""

    def __init__(self, flow: Flow, ops: Mapping[int, Op], counts: Mapping[int, float]) -> None:
        self.flow = flow
        self.counts = counts
        self.bodies: list[list[Op]] = [
            [ops[n] for n in range(block.first, block.last + 1) if n in ops]
            for block in flow.blocks
        ]
        self.successors = [
            (*row.successors, END)
            if not row.successors or any(op.base == "EXIT" for op in self.bodies[block])
            else row.successors
            for block, row in enumerate(flow.blocks)
        ]
        """Of each block; a warp may end in one that goes on for others."""
        self.edges = self._edge_counts(counts)
        """How often a warp is still to go from a block to each of its successors."""
        self.expected = [
            sum(self.edges[block, s] for s in successors)
            for block, successors in enumerate(self.successors)
        ]
        """How often a warp enters each block."""
        self.turns = [self._turns(loop) for loop in flow.loops]
        """How often a warp enters a loop's header each time that it comes to the loop."""
        self.visits: Counter[int] = Counter()
        self.turn: Counter[int] = Counter()
        """Turns of each loop since it was last entered."""

    def _edge_counts(self, counts: Mapping[int, float]) -> dict[Edge, float]:
        """How often a warp goes from each block to each of its successors.

        Every block is left as often as it is entered, the first one once more. Within that, the
        counts are those that agree with most instructions: some are tied to a line elsewhere.
        """
        edges = [
            (block, successor)
            for block, successors in enumerate(self.successors)
            for successor in successors
        ]
        entering = np.zeros((len(self.bodies), len(edges)))
        leaving = np.zeros((len(self.bodies), len(edges)))
        for column, (block, successor) in enumerate(edges):
            leaving[block, column] = 1
            if successor != END:
                entering[successor, column] = 1
        begins = np.zeros(len(self.bodies))
        begins[self.flow.entries[0] if self.flow.entries else 0] = 1
        blocks, values, trust = self._observed(counts)
        observed = leaving[blocks]
        conserved = CONSERVED * (leaving - entering)
        fixed = conserved.T @ conserved + TINY * np.eye(len(edges))
        target = conserved.T @ (CONSERVED * begins)
        solved: Array = np.zeros(len(edges))
        for _ in range(ROUNDS):
            off = np.abs(observed @ solved - values)
            weighted = observed * (trust / np.maximum(off, NEGLIGIBLE))[:, None]
            negative = np.diag((solved < 0) * CONSERVED)
            normal = fixed + weighted.T @ observed + negative
            solved = np.linalg.solve(normal, target + weighted.T @ values)
        return dict(zip(edges, np.maximum(np.round(solved), 0.0).tolist(), strict=True))

    def _observed(self, counts: Mapping[int, float]) -> tuple[Array, Array, Array]:
        """Of each instruction that is tied to lines: its block, how often the role came to the
        line that it came to most often, and what that counts for."""
        blocks: list[int] = []
        values: list[float] = []
        trust: list[float] = []
        for block, body in enumerate(self.bodies):
            for op in body:
                line_counts = [counts[p] for p in op.ptx if p in counts]
                if line_counts:
                    blocks.append(block)
                    values.append(max(line_counts))
                    is_anchor = op.unit or op.barrier or op.products
                    trust.append(ANCHORED if is_anchor else 1.0)
        return np.array(blocks, int), np.array(values), np.array(trust)

    def _turns(self, loop: Loop) -> float:
        entries = sum(
            self.edges[p, loop.header]
            for p in self.flow.blocks[loop.header].predecessors
            if p not in loop.blocks
        )
        return round(self.expected[loop.header] / max(entries, 1.0))

    def steps(self) -> list[Op]:
        """The instructions from the first to the end; empty where no end was found."""
        steps: list[Op] = []
        block: int | None = self.flow.entries[0] if self.flow.entries else 0
        previous = -1
        while block is not None:
            self._enter(block, previous)
            steps += [op for op in self.bodies[block] if self._is_taken(op, block)]
            if len(steps) > MAX_STEPS:
                return []
            previous, block = block, self._next(block)
        return steps

    def _is_taken(self, op: Op, block: int) -> bool:
        """Whether a warp takes an instruction of a block that it is in: one that is guarded may be
        taken by other roles alone, or, of a barrier, in some of the visits."""
        known = [self.counts[p] for p in op.ptx if p in self.counts]
        if op.base == "NOP" or not known:
            return op.base != "NOP"
        if op.barrier is None:
            return max(known) > 0
        share = max(known) / max(self.expected[block], 1.0)
        visits = self.visits[block]
        return round(min(1.0, share) * visits) > round(min(1.0, share) * (visits - 1))

    def _enter(self, block: int, previous: int) -> None:
        self.visits[block] += 1
        for number, loop in enumerate(self.flow.loops):
            if loop.header == block:
                inside = previous in loop.blocks
                self.turn[number] = self.turn[number] + 1 if inside else 1

    def _next(self, block: int) -> int | None:
        """The block that the role goes on with; None at the end."""
        chosen = self._chosen(block, self.successors[block])
        self.edges[block, chosen] -= 1
        return None if chosen == END else chosen

    def _chosen(self, block: int, successors: Sequence[int]) -> int:
        """Where a warp goes from a block: round a loop until its turns are over, and of several
        such ways where it is to go most often yet."""
        ways = [s for s in successors if self.edges[block, s] > NEGLIGIBLE] or successors
        around = [n for n, loop in enumerate(self.flow.loops) if block in loop.blocks]
        if around and len(ways) > 1:
            ways = self._ways(max(around, key=lambda n: self.flow.loops[n].depth), ways)
        return max(ways, key=lambda s: self.edges[block, s])

    def _ways(self, number: int, ways: Sequence[int]) -> list[int]:
        """Of the ways on from a block in a loop those to prefer: out of it in its last turn."""
        loop = self.flow.loops[number]
        leaving = [s for s in ways if s not in loop.blocks]
        within = [s for s in ways if s in loop.blocks and s != loop.header]
        back = [s for s in ways if s == loop.header]
        if self.turn[number] >= self.turns[number]:
            return leaving or within or back
        return within or back or leaving
