"""The steps of a PTX function, by the registers and labels that ``ptx_code`` resolves.

Written from the PTX ISA, "Control Flow Instructions". A line with several statements is one step,
that of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from inspector.analyse.flow.steps import Jump, Step, Steps, Way
from inspector.listing.line import Function, Kind, Listing
from inspector.listing.ptx_code import PtxFunction, PtxInstruction, SymbolOperand, read_function
from inspector.listing.ptx_declaration import register_declarations
from inspector.listing.ptx_statement import strip


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
    "bra": Way.BRANCH, "brx": Way.BRANCH, "call": Way.CALL, "ret": Way.RETURN,
    "exit": Way.EXIT, "trap": Way.EXIT,
}  # fmt: skip


def read_ptx(listing: Listing, function: Function) -> Steps:
    """The steps of ``function`` of a PTX ``listing``."""
    code = read_function(listing, function)
    results = [code.names.index(v.name) for v in code.results if v.space == "reg"]
    vectors = {r for r, kind in enumerate(code.registers) if kind[:1] == "v" and "." in kind}
    steps: list[Step] = []
    jumps: dict[int, Jump] = {}
    for line, rows in groupby(code.instructions, key=lambda row: row.line):
        defs: dict[int, None] = {}
        kills: dict[int, None] = {}
        uses: dict[int, None] = {}
        jump: Jump | None = None
        for row in rows:
            written, read = row.registers()
            if row.base == "ret":
                read += results
            uses.update((r, None) for r in read if r not in kills)
            defs.update((r, None) for r in written)
            if row.guard is None and jump is None:
                # ``v.x`` writes a part of the vector ``v``
                kills.update((r, None) for r in written if r not in vectors)
            if row.base in _WAYS:
                jump = _merged(jump, _jump(code, row))
            elif jump is not None:
                jump = jump._replace(falls=True)
        if jump is not None:
            jumps[line] = jump
        last = _last_line(listing, line, function.last)
        steps.append(Step(line, last, tuple(defs), tuple(kills), tuple(uses)))
    named = (r for step in steps for r in (*step.defs, *step.uses))
    kinds = dict.fromkeys(code.registers[r] for r in named)
    return Steps(steps, jumps, code.names, code.registers, tuple(kinds), ptx=code)


def _jump(code: PtxFunction, row: PtxInstruction) -> Jump:
    way = _WAYS[row.base]
    labels: Iterable[str] = ()
    if way is Way.BRANCH:
        names = [o.name for o in row.operands if isinstance(o, SymbolOperand)]
        labels = code.tables.get(names[-1], names) if names and row.base == "brx" else names
    places = (code.labels.get(label, len(code.instructions)) for label in labels)
    targets = (code.instructions[at].line for at in places if at < len(code.instructions))
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
