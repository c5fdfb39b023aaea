"""Several observers of one run, which ends when somebody says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from inspector.errors import Stopped
from inspector.execute import Observer
from inspector.execute.access import Access
from inspector.execute.blocks import BasicBlock
from inspector.execute.kinds import Array, Mask
from inspector.execute.lanes import Lanes

Stop = Callable[[], bool]
"""Whether what is under way is to end."""


class Watched:
    """An observer that tells several others what happens, and ends it where ``stop`` says so.

    Raises Stopped between two instructions. ``steps`` counts them.
    """

    def __init__(self, observers: Sequence[Observer], stop: Stop) -> None:
        self.observers, self.stop, self.steps = observers, stop, 0

    def visit(self, lanes: Lanes, block: BasicBlock, mask: Mask) -> None:
        for one in self.observers:
            one.visit(lanes, block, mask)

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        if self.stop():
            raise Stopped("it was stopped")
        self.steps += 1
        for one in self.observers:
            one.step(lanes, instruction, mask)

    def wrote(
        self, lanes: Lanes, instruction: int, register: int, value: Array, mask: Mask
    ) -> None:
        for one in self.observers:
            one.wrote(lanes, instruction, register, value, mask)

    def branched(self, lanes: Lanes, instruction: int, yes: Mask, no: Mask) -> None:
        for one in self.observers:
            one.branched(lanes, instruction, yes, no)

    def access(self, lanes: Lanes, access: Access) -> None:
        for one in self.observers:
            one.access(lanes, access)
