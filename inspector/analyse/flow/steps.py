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
from typing import NamedTuple, overload


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


_NONE, _ALL, _SOME = range(3)
"""Of what a step writes, what it writes for certain."""


class StepRows(Sequence[Step]):
    """Steps one after the other, kept as a few numbers each: a function may have a million.

    A ``Step`` is made when a row is looked at. Those who go through all of them take the numbers:
    ``lines`` are the rows' lines, ascending; ``defs``, ``uses`` and ``kills`` give a row's
    registers without the rest.
    """

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self.lines = array("i")
        self._registers = array("i")
        """What each row writes, then what it reads."""
        self._starts = array("i", (0,))
        self._splits = array("i")
        """Where in ``_registers`` a row's uses begin."""
        self._certain = bytearray()
        self._kills: dict[int, tuple[int, ...]] = {}
        self._lasts: dict[int, int] = {}
        """The last line of a statement, where that is not its first."""
        for step in steps:
            self.append(step)

    def append(self, step: Step) -> None:
        """Another row at the end."""
        line, last, defs, kills, uses = step
        if last != line:
            self._lasts[len(self.lines)] = last
        if kills == defs:
            self._certain.append(_ALL)
        elif kills:
            self._kills[len(self.lines)] = kills
            self._certain.append(_SOME)
        else:
            self._certain.append(_NONE)
        self.lines.append(line)
        registers = self._registers
        registers.extend(defs)
        self._splits.append(len(registers))
        registers.extend(uses)
        self._starts.append(len(registers))

    def goes_on(self, last: int) -> None:
        """The last row's statement goes on to line ``last``."""
        self._lasts[len(self.lines) - 1] = last

    def row(self, line: int) -> int | None:
        """The row of a line, None if no instruction begins on it."""
        at = bisect_left(self.lines, line)
        return at if at < len(self.lines) and self.lines[at] == line else None

    def defs(self, row: int) -> tuple[int, ...]:
        """The registers that a row may write."""
        return tuple(self._registers[self._starts[row] : self._splits[row]])

    def uses(self, row: int) -> tuple[int, ...]:
        """The registers that a row reads."""
        return tuple(self._registers[self._splits[row] : self._starts[row + 1]])

    def named(self, row: int) -> Sequence[int]:
        """The registers that a row writes or reads."""
        return self._registers[self._starts[row] : self._starts[row + 1]]

    def kills(self, row: int) -> tuple[int, ...]:
        """The registers that a row writes for certain."""
        certain = self._certain[row]
        if certain == _ALL:
            return self.defs(row)
        return self._kills[row] if certain == _SOME else ()

    def last(self, row: int) -> int:
        """The last line of a row's statement."""
        return self._lasts.get(row, self.lines[row])

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        if isinstance(index, slice):
            return [self[row] for row in range(len(self.lines))[index]]
        row = range(len(self.lines))[index]
        registers, split = self._registers, self._splits[row]
        defs = tuple(registers[self._starts[row] : split])
        certain = self._certain[row]
        kills = defs if certain == _ALL else self._kills[row] if certain == _SOME else ()
        uses = tuple(registers[split : self._starts[row + 1]])
        return Step(self.lines[row], self.last(row), defs, kills, uses)

    def __iter__(self) -> Iterator[Step]:
        return map(self.__getitem__, range(len(self.lines)))


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
    """A function. ``names`` and ``classes`` are by register number; ``jumps`` by line.

    ``kinds`` are the classes of the registers that its code names, in the order in which they are
    met; a number may be kept for a register that is declared and named nowhere.
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
    """Lines of instructions that a label stands before, whether a jump names it or not (SASS)."""
