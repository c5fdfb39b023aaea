"""Which of the instructions of one source line to read first."""

import re
from collections.abc import Callable, Mapping, Sequence

from inspector.parsers.line import Line, Listing

_COPIES = ("MOV", "UMOV", "CS2R", "S2R", "S2UR", "R2UR", "R2P", "mov", "cvta")
"""Instructions that the reference counts as arithmetic and that compute nothing."""
_FLOAT_BASE = re.compile(r"U?[FHD](?:ADD|FMA|MUL|MNMX|SEL|SET|CHK|RND)|MUFU")
"""``FFMA.FTZ R8, R4, R5, R8`` of SASS."""
_FLOAT_TYPE = re.compile(r"\.(?:bf|f|tf)\d")
"""``fma.rn.f32`` of PTX."""
_GLOBAL_BASES = ("LDG", "STG", "LDGSTS", "ATOMG", "REDG", "UTMALDG", "UTMASTG")

TENSOR_RANK = 0
FLOAT_RANK = 1
GLOBAL_MEMORY_RANK = 2
INTEGER_RANK = 3
OTHER_RANK = 4


def rank(line: Line, cost: Callable[[str], str | None]) -> int:
    """How far an instruction is from what a line of source is about; 0 is nearest.

    Integer arithmetic comes after accesses of global memory: it is mostly of addresses.
    """
    opcode = line.opcode or ""
    base = line.base or ""
    kind = cost(opcode) if opcode else None
    if kind == "tensor":
        return TENSOR_RANK
    if kind in ("arithmetic", "conversion") and (
        _FLOAT_BASE.match(base) or _FLOAT_TYPE.search(opcode)
    ):
        return FLOAT_RANK
    if base in _GLOBAL_BASES or ".global" in opcode:
        return GLOBAL_MEMORY_RANK
    if kind == "arithmetic" and base not in _COPIES and not opcode.startswith("IMAD.MOV"):
        return INTEGER_RANK
    return OTHER_RANK


def landing_line(
    listing: Listing,
    lines: Sequence[int],
    figures: Mapping[int, float],
    cost: Callable[[str], str | None],
) -> int:
    """The line to read first: the costliest, else the first of the best rank.

    Args:
        listing: A listing of PTX or SASS.
        lines: Its lines that one line of source became, not empty, in the order of preference.
        figures: Samples or cycles by line; empty if nothing was measured or estimated.
        cost: The class of an opcode (``arithmetic``), None if it is not known.
    """
    costliest = max(lines, key=lambda n: figures.get(n, 0.0))
    if figures.get(costliest):
        return costliest
    return min(lines, key=lambda n: rank(listing.lines[n - 1], cost))
