"""A function's instructions as numbers: what flow, liveness and definitions are computed on.

``ptx_steps`` and ``sass_steps`` make these of a listing's lines. A register is a small integer,
so that a set of them is one Python int; two registers of one name in two blocks ``{ }`` of PTX are
two registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from inspector.listing.ptx_code import PtxFunction


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


@dataclass(frozen=True)
class Steps:
    """A function. ``steps`` are by line, ascending; ``names`` and ``classes`` by register number;
    ``jumps`` by line. ``kinds`` are the classes of its registers in the order of first mention.
    """

    steps: Sequence[Step]
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
    ptx: PtxFunction | None = None

    @cached_property
    def _rows(self) -> dict[int, int]:
        return {step.line: row for row, step in enumerate(self.steps)}

    def row(self, line: int) -> int | None:
        """The row of a line, None if no instruction begins on it."""
        return self._rows.get(line)
