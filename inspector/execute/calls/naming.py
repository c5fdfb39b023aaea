"""What a kernel's registers are called in its source, where its stages tell."""

from __future__ import annotations

import re
from collections.abc import Mapping

from inspector.base.model import Location
from inspector.execute import Program
from inspector.execute.blocks import defines
from inspector.listing.line import Listing

_SSA = re.compile(r"%([A-Za-z_]\w*?)(?:_\d+)?(?:[:#]\d+)?\Z")
_CONSTANT = re.compile(r"\s*%(?:c[0-9n]\w*|cst\w*|true\w*|false\w*)\s*=\s*arith\.constant\b")
"""What MLIR calls constants that no variable was assigned."""
_PARAMETER = re.compile(r"\[\s*([\w$]+)\s*\]")
Key = tuple[tuple[int, int | None], ...]


def register_names(
    program: Program, ptx: Listing, ttir: Listing | None, parameters: Mapping[str, str]
) -> dict[int, str]:
    """Names of the source by register number, for as many registers as have one.

    ``parameters`` are the arguments' names by PTX's. Triton names the values of its TTIR after the
    variables that they are assigned to: a register has the name of the value that its instruction's
    location is of, where that is the last one of its assignment.
    """
    by_place = {} if ttir is None else _assigned(ttir)
    out: dict[int, str] = {}
    for row in program.code.instructions:
        written, _ = defines(row, program.blocks.carry)
        name = None
        if row.base == "ld" and "param" in row.parts:
            match = _PARAMETER.search(program.statement(row.line))
            name = parameters.get(match[1]) if match else None
        if name is None and by_place and row.line <= len(ptx.lines):
            place = ptx.lines[row.line - 1].source
            name = by_place.get(_key(place)) if place is not None else None
        if name is not None:
            for register in written:
                out.setdefault(register, name)
    return out


def _assigned(ttir: Listing) -> dict[Key, str]:
    """The variable that is assigned what is computed at a place.

    Of the values of one assignment, those before the last are what its parts come to.
    """
    last: dict[tuple[str, int], Key] = {}
    for line in ttir.lines:
        if line.source is None or len(line.defs) != 1 or _CONSTANT.match(line.text):
            continue
        match = _SSA.match(line.defs[0])
        if match is not None:
            place = _key(line.source)
            last[match[1], place[-1][0]] = place
    return {place: name for (name, _), place in last.items()}


def _key(place: Location) -> Key:
    """Line and column of a place, and of the calls that it was inlined by: innermost first."""
    return tuple((one.line, one.column) for one in place.frames())
