"""The steps of one warp role, found by walking the machine code's blocks.

Of a role it is known how often its warps came to each line of PTX, exactly. At each branch the walk
goes where it has been less often than they have: round a loop as often as they were each time that
they came to it, past a block that they never entered.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from inspector.analysis.flow.graph import Flow, Loop
from inspector.estimate.path import Op

MAX_STEPS = 200_000
"""Instructions of a warp, beyond which a walk is given up."""
NEGLIGIBLE = 0.5


class Walk:
    """``counts`` are how often a warp of the role came to each line of PTX."""

    def __init__(self, flow: Flow, ops: Mapping[int, Op], counts: Mapping[int, float]) -> None:
        self.flow = flow
        self.counts = counts
        self.bodies: list[list[Op]] = [
            [ops[n] for n in range(block.first, block.last + 1) if n in ops]
            for block in flow.blocks
        ]
        self.expected = self._expected(counts)
        """How often a warp enters each block."""
        self.turns = [self._turns(loop) for loop in flow.loops]
        """How often a warp enters a loop's header each time that it comes to the loop."""
        self.visits: Counter[int] = Counter()
        self.turn: Counter[int] = Counter()
        """Turns of each loop since it was last entered."""

    def _expected(self, counts: Mapping[int, float]) -> list[float]:
        known: dict[int, float] = {}
        for block, body in enumerate(self.bodies):
            of_lines = Counter(counts[p] for op in body for p in op.ptx if p in counts)
            if of_lines:  # most of them: an instruction may be tied to a line elsewhere
                known[block] = max(of_lines, key=lambda count: (of_lines[count], count))
        expected = [known.get(block, 0.0) for block in range(len(self.bodies))]
        # What is tied to no line is entered as often as what comes before and after it.
        for _ in range(len(self.bodies)):
            changed = False
            for block, row in enumerate(self.flow.blocks):
                if block in known:
                    continue
                before = sum(self._share(expected, p, block) for p in row.predecessors)
                after = max((expected[s] for s in row.successors), default=before)
                value = min(before, after) if row.successors else before
                changed |= value != expected[block]
                expected[block] = value
            if not changed:
                break
        return expected

    def _share(self, expected: Sequence[float], block: int, successor: int) -> float:
        """How often a block is left for one of its successors, at most."""
        others = sum(expected[s] for s in self.flow.blocks[block].successors if s != successor)
        if len(self.flow.blocks[block].successors) == 1:
            return expected[block]
        return max(0.0, expected[block] - others) or min(expected[block], expected[successor])

    def _turns(self, loop: Loop) -> float:
        inside = set(loop.blocks)
        before = [p for p in self.flow.blocks[loop.header].predecessors if p not in inside]
        header = self.expected[loop.header]
        entries = min(header, sum(self.expected[p] for p in before))
        return round(header / entries) if entries > NEGLIGIBLE else header

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
        successors = self.flow.blocks[block].successors
        if len(successors) < 2:
            return successors[0] if successors else None
        inner = self._innermost(block)
        if inner is not None:
            loop = self.flow.loops[inner]
            staying = [s for s in successors if s in loop.blocks]
            leaving = [s for s in successors if s not in loop.blocks]
            further = [s for s in staying if s != loop.header]
            if loop.header in staying and further:
                remaining = self._most_remaining(further)
                return loop.header if self._remaining(remaining) <= NEGLIGIBLE else remaining
            if staying and leaving:
                inside = self._most_remaining(staying)
                return inside if self._stays(inner, inside) else self._most_remaining(leaving)
        return self._branch(block, successors)

    def _remaining(self, block: int) -> float:
        """How often a warp is still to enter a block."""
        return self.expected[block] - self.visits[block]

    def _most_remaining(self, blocks: Sequence[int]) -> int:
        return max(blocks, key=self._remaining)

    def _innermost(self, block: int) -> int | None:
        around = [n for n, loop in enumerate(self.flow.loops) if block in loop.blocks]
        return max(around, key=lambda n: self.flow.loops[n].depth, default=None)

    def _stays(self, number: int, inside: int) -> bool:
        """Whether a warp goes on ``inside`` of a loop, at a block with a way out of it."""
        header = self.flow.loops[number].header
        is_last = self.turn[number] >= self.turns[number]
        if inside == header:
            return not is_last
        is_less = self.expected[inside] < self.expected[header] - NEGLIGIBLE
        return self._remaining(inside) > NEGLIGIBLE and not (is_last and is_less)

    def _branch(self, block: int, successors: Sequence[int]) -> int:
        """One of several ways that meet again: the rarer one as often as its share of the visits."""
        if len(successors) > 2:
            return self._most_remaining(successors)
        rarest, common = sorted(successors, key=lambda s: self.expected[s])
        share = self.expected[rarest] / max(self.expected[block], 1.0)
        if self.visits[rarest] < round(min(1.0, share) * self.visits[block]):
            return rarest
        return common
