"""Which registers a texture or surface instruction of SASS defines and uses.

Read off ``nvdisasm -plr``, as in ``sass_operands``. ``TEX.SCR.LL R0, R2, R6, R8, …, CUBE, 0x7``:
up to two components into R2, the others into R0, as the mask has bits; then what is looked up,
shared out between two registers' worth (``SCR``), or coordinates first and all else second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

TEXTURES = frozenset(("TEX", "TLD", "TLD4", "TXD"))
SURFACES = frozenset(("SULD", "SUST"))

_COORDINATES = {
    "1D": 1, "2D": 2, "3D": 3, "CUBE": 3, "ARRAY_1D": 2, "ARRAY_2D": 3, "ARRAY_CUBE": 4,
    "1D_ARRAY": 2, "2D_ARRAY": 3,
}  # fmt: skip
_GENERAL = re.compile(r"-?\|?R(?:\d|Z)")
_MASK = re.compile(r"0x([0-9a-f])\Z")
_DATA = {"64": 2, "128": 4}


def texture_widths(base: str, qualifiers: Sequence[str], operands: Sequence[str]) -> list[int]:
    """How many consecutive registers each operand of a texture instruction names."""
    widths = [2 if operand.startswith("UR") else 1 for operand in operands]
    if len(operands) < 3:
        return widths
    shape = next((o for o in operands if o in _COORDINATES), "1D")
    mask = _MASK.match(operands[-1])
    components = int(mask[1], 16).bit_count() if mask else 4
    widths[0], widths[1] = max(1, components - 2), min(2, max(1, components))
    sources = [i for i in range(2, len(operands)) if _GENERAL.match(operands[i])][:2]
    first = _COORDINATES[shape]
    rest = sum(q in ("LL", "LB", "B") for q in qualifiers)
    if base == "TLD4":  # .B is a component before it is a handle in a register
        rest -= next((q for q in qualifiers if q in "RGBA"), "") == "B"
    if base == "TXD":
        rest += 2 * int(shape[-2]) if shape[-1] == "D" else 0
    if "SCR" in qualifiers and len(sources) == 2:
        first, rest = first + rest - (first + rest) // 2, (first + rest) // 2
    for source, width in zip(sources, (first, max(1, rest)), strict=False):
        widths[source] = width
    return widths


def surface_widths(qualifiers: Sequence[str], operands: Sequence[str]) -> list[int]:
    """The same for a surface: ``[R4]`` are coordinates, the data is as wide as the opcode says."""
    shape = next((_COORDINATES[q] for q in qualifiers if q in _COORDINATES), 1)
    data = next((_DATA[q] for q in qualifiers if q in _DATA), 1)
    out = [1] * len(operands)
    for i, operand in enumerate(operands[:2]):
        out[i] = shape if "[" in operand else data
    return out
