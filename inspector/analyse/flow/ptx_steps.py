"""The steps of a PTX function, by the registers and labels that ``ptx_code`` resolves.

Written from the PTX ISA, "Control Flow Instructions". A line with several statements is one step,
that of all of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from inspector.analyse.flow.steps import Jump, Step, StepRows, Steps, Way
from inspector.listing.line import Function, Kind, Listing
from inspector.listing.ptx_code import FunctionReading, PtxFunction
from inspector.listing.ptx_statement import (
    PtxInstruction,
    SymbolOperand,
    register_declarations,
    strip,
)


def declared(listing: Listing, function: Function) -> dict[str, int]:
    """How many registers of each class ``.reg`` declares (``b32``, ``pred``, ``v2.f32``).

    They are virtual: ptxas allocates the machine's registers.
    """
    out: dict[str, int] = {}
    if listing.language != "ptx":
        return out
    for line in listing.between(function.first, function.last):
        if ".reg" not in line.text or line.kind is not Kind.DIRECTIVE:
            continue
        for one in register_declarations(strip(line.text, False)[0]):
            count = sum(1 if count is None else count for _, count in one.names)
            out[one.type] = out.get(one.type, 0) + count
    return out


_WAYS = {
    "bra": Way.BRANCH,
    "brx": Way.BRANCH,
    "call": Way.CALL,
    "ret": Way.RETURN,
    "exit": Way.EXIT,
    "trap": Way.EXIT,
}


def read_ptx(listing: Listing, function: Function) -> Steps:
    """The steps of ``function`` of a PTX ``listing``."""
    reading = FunctionReading(listing, function)
    code = reading.code
    steps = StepRows()
    lines = array("I")
    leaving: dict[int, list[tuple[int, PtxInstruction]]] = {}
    kinds: dict[str, None] = {}
    for line, rows in groupby(reading.rows(), key=attrgetter("line")):
        defs: dict[int, None] = {}
        kills: dict[int, None] = {}
        uses: dict[int, None] = {}
        for row in rows:
            written, read = row.accesses()
            base = row.parts[0]
            for register in read:
                if register.number not in kills:
                    uses[register.number] = None
            if base == "ret":
                results = [v.name for v in code.results if v.space == "reg"]
                uses.update((code.names.index(name), None) for name in results)
            certain = row.guard is None and line not in leaving
            for register in written:
                number = register.number
                defs[number] = None
                # ``v.x`` writes a part of the vector ``v``
                if certain and "." not in code.registers[number]:
                    kills[number] = None
            if base in _WAYS or line in leaving:
                leaving.setdefault(line, []).append((len(lines), row))
            lines.append(line)
        for r in (*defs, *uses):
            kinds[code.registers[r]] = None
        last = _last_line(listing, line, function.last)
        steps.append(Step(line, last, tuple(defs), tuple(kills), tuple(uses)))
    jumps: dict[int, Jump] = {}
    for line, ways in leaving.items():
        jump: Jump | None = None
        for at, row in ways:
            if row.base in _WAYS:
                if at in reading.branches:
                    row = reading.resolved(row, reading.branches[at])
                jump = _merged(jump, _jump(code, lines, row))
            elif jump is not None:
                jump = jump._replace(falls=True)
        if jump is not None:
            jumps[line] = jump
    return Steps(steps, jumps, code.names, code.registers, tuple(kinds))


def _jump(code: PtxFunction, lines: Sequence[int], row: PtxInstruction) -> Jump:
    way = _WAYS[row.base]
    labels: Iterable[str] = ()
    if way is Way.BRANCH:
        names = [o.name for o in row.operands if isinstance(o, SymbolOperand)]
        labels = code.tables.get(names[-1], names) if names and row.base == "brx" else names
    places = (code.labels.get(label, len(lines)) for label in labels)
    targets = (lines[at] for at in places if at < len(lines))
    return Jump(way, tuple(dict.fromkeys(targets)), row.guard is not None or row.base == "call")


def _merged(first: Jump | None, second: Jump) -> Jump:
    """Two jumps of one line: the last says whether it goes on."""
    if first is None:
        return second
    way = Way.BRANCH if Way.BRANCH in (first.way, second.way) else second.way
    return Jump(way, first.targets + second.targets, second.falls)


def _last_line(listing: Listing, first: int, end: int) -> int:
    """The last line of a statement that begins on line ``first``."""
    last = first
    while last < min(end, len(listing.lines)):
        following = listing.lines[last]
        if following.kind is not Kind.INSTRUCTION or following.opcode is not None:
            break
        last += 1
    return last
