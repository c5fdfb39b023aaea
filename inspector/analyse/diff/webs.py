"""Values that live and die within one block of straight code, so that each can be renamed alone.

``ptxas`` gives one register to many values. Where a register is written again before its block
ends, nothing else can read what it held before: such a value may be in another register in another
variant, whatever that register is otherwise. Every other value goes by its register's name.
"""

from __future__ import annotations

from collections.abc import Sequence

from inspector.analyse.diff.forms import Forms
from inspector.listing.line import Kind, Line
from inspector.listing.words import words

_LEAVES = words(
    "BRA BRX BRXU JMP JMX JMXU CALL JCAL CAL BSYNC BSSY SYNC SSY BRK CONT PBK PCNT RET PRET "
    "WARPSYNC BREAK bra brx call ret RPCMOV"
)
"""After these, another block may go on with the values of this one."""

_ENDS = words("EXIT KILL exit trap ret RET")
"""After these, where no guard is before them, no value is read. (``ret`` of an entry only.)"""


def webs(forms: Forms, lines: Sequence[Line], entry: bool) -> list[tuple[str, ...]]:
    """For each form its names, those of values local to a block as ``name~number``.

    ``lines`` are those of the forms.
    """
    out: list[list[str]] = []
    open_: dict[str, list[tuple[int, int]]] = {}
    """By register, where its present value is named: form and position."""
    count = 0
    for i, ((_, key, named), line) in enumerate(zip(forms.forms, lines, strict=True)):
        names = list(named)
        out.append(names)
        if line.opcode is None:
            if line.kind is Kind.LABEL or line.label is not None:
                open_.clear()
            continue
        if line.label is not None:
            open_.clear()
        guarded = bool(names) and key[0] == "@"
        defs = line.defs
        written: dict[str, int] = {}
        for k, name in enumerate(names):
            if name in defs and name not in written and not (guarded and k == 0):
                written[name] = k
            elif name in open_:
                open_[name].append((i, k))
        for name, k in written.items():
            if guarded:
                if name in open_:
                    open_[name].append((i, k))
                continue
            closed = open_.get(name)
            if closed is not None:
                count += 1
                _rename(out, closed, f"{name}~{count}")
            open_[name] = [(i, k)]
        base = line.base or ""
        if base in _ENDS and not guarded and (entry or base.lower() != "ret"):
            for name, closed in open_.items():
                count += 1
                _rename(out, closed, f"{name}~{count}")
            open_.clear()
        elif base in _LEAVES:
            open_.clear()
    return [tuple(names) for names in out]


def _rename(out: list[list[str]], places: list[tuple[int, int]], name: str) -> None:
    for i, k in places:
        out[i][k] = name
