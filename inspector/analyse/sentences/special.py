"""Special registers as forms: those that stay the same while a thread runs.

Ranges are from the PTX ISA, chapter "Special Registers", and from the CUDA C++ Programming Guide,
"Compute Capabilities" (a block: 1024 threads, 64 along z; a grid: 2^31-1, 65535, 65535 blocks).
"""

from __future__ import annotations

from inspector.analyse.sentences import forms
from inspector.analyse.sentences.context import Context
from inspector.analyse.sentences.forms import Form

AXES = "xyz"
BLOCK = (1024, 1024, 64)
GRID = ((1 << 31) - 1, 65535, 65535)
THREADS = 1024

FIXED = {"%laneid": 31, "%nwarpid": (1 << 32) - 1, "%cluster_ctarank": (1 << 32) - 1}
"""Others that stay the same, and the most that they can be."""


def block_range(context: Context, axis: int) -> tuple[int, int]:
    """The fewest and the most threads of a block along an axis."""
    if context.block is not None:
        return context.block[axis], context.block[axis]
    most = THREADS
    if context.most is not None:
        x, y, z = context.most
        most = min(most, x * y * z)
    return 1, min(most, BLOCK[axis])


def grid_range(context: Context, axis: int) -> tuple[int, int]:
    """The fewest and the most blocks of a grid along an axis."""
    if context.grid is not None:
        return context.grid[axis], context.grid[axis]
    return 1, GRID[axis]


def special(name: str, context: Context) -> Form | None:
    """A special register's value; None where it may change or is no number."""
    base, _, component = name.strip().partition(".")
    axis = AXES.find(component) if component else -1
    if base in ("%tid", "%ntid", "%ctaid", "%nctaid"):
        if axis < 0:
            return None
        sizes = block_range if base.endswith("tid") else grid_range
        low, high = sizes(context, axis)
        if base in ("%tid", "%ctaid"):
            low, high = 0, high - 1
        return forms.leaf("special", f"{base}.{component}", low, max(low, high))
    return forms.leaf("special", base, 0, FIXED[base]) if base in FIXED else None
