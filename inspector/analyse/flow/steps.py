"""A function's instructions as numbers: what flow, liveness and definitions are computed on.

``ptx_steps`` and ``sass_steps`` make these of a listing's lines. A register is a small integer,
so that a set of them is one Python int; two registers of one name in two blocks ``{ }`` of PTX are
two registers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Step(NamedTuple):
    """One line with at least one instruction.

    ``last`` is the last line of its statement. ``defs`` may be written, ``kills`` (some of them)
    are written for certain: no guard keeps the instruction from it, and the whole is written.
    """

    line: int
    last: int
    defs: tuple[int, ...]
    kills: tuple[int, ...]
    uses: tuple[int, ...]


class StepRows:
    """Steps in the order of their lines, as numbers: each takes about 35 bytes."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._lines = array("I")
        self._fields = array("I")
        """Of each step its last line, and where its kills, defs and uses end."""
        self._registers = array("I")
        for step in steps:
            self.append(step)

    def append(self, step: Step) -> None:
        """Add a step; its kills come first among its defs."""
        registers = self._registers
        self._lines.append(step.line)
        self._fields.append(step.last)
        registers.extend(step.kills)
        self._fields.append(len(registers))
        if len(step.defs) > len(step.kills):
            registers.extend(r for r in step.defs if r not in step.kills)
        self._fields.append(len(registers))
        registers.extend(step.uses)
        self._fields.append(len(registers))

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, row: int) -> Step:
        last, kills, defs, uses = self._fields[4 * row : 4 * row + 4]
        first = self._fields[4 * row - 1] if row else 0
        registers = self._registers[first:uses].tolist()
        kills, defs = kills - first, defs - first
        return Step(
            self._lines[row],
            last,
            tuple(registers[:defs]),
            tuple(registers[:kills]),
            tuple(registers[defs:]),
        )

    def __iter__(self) -> Iterator[Step]:
        return self.between(0, len(self))

    def between(self, start: int, end: int) -> Iterator[Step]:
        """Rows ``start`` to ``end``, without the last."""
        return map(self.__getitem__, range(start, end))

    def line(self, row: int) -> int:
        """The line of a row."""
        return self._lines[row]

    def row(self, line: int) -> int | None:
        """The row of a line, None if no instruction begins on it."""
        row = bisect_left(self._lines, line)
        return row if row < len(self._lines) and self._lines[row] == line else None


class Way(StrEnum):
    """How an instruction leaves its line."""

    BRANCH = "branch"
    CALL = "call"
    RETURN = "return"
    EXIT = "exit"
    SYNC = "sync"
    """Threads meet, and go on where the barrier register's ``BSSY`` says (SASS)."""


class Jump(NamedTuple):
    """Where an instruction goes on. ``targets`` are lines; of a call, those of its callee.

    ``falls``: also, or only, with the next instruction. ``barrier``: of ``SYNC``, its register.
    """

    way: Way
    targets: tuple[int, ...]
    falls: bool
    barrier: str = ""


@dataclass(frozen=True, slots=True)
class Steps:
    """A function. ``names`` and ``classes`` by register number;
    ``jumps`` by line. ``kinds`` are the classes of its registers in the order of first mention.
    """

    steps: StepRows
    jumps: Mapping[int, Jump]
    names: Sequence[str] = ()
    classes: Sequence[str] = ()
    kinds: tuple[str, ...] = ()
    entries: tuple[int, ...] = ()
    """Lines other than the first instruction at which code is entered: functions called within."""
    barriers: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """``BSSY`` by line: its barrier register and the line it names."""
    labelled: tuple[int, ...] = ()
    """Lines of the first instructions after labels, used or not (SASS)."""
