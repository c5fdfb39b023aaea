"""What a launch moves and computes: estimates, from shapes, static counts and TTIR.

Nothing here is measured. Caches, partial cache lines, masks and values that decide how often a
loop runs are not seen; what cannot be known is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from inspector.analyse.accesses import (
    ATOMIC,
    COPY,
    LOAD,
    REDUCTION,
    STORE,
    Access,
    total,
)  # fmt: skip
from inspector.analyse.flow import Flow
from inspector.model import Argument, Call

_BITS = re.compile(r"\D+(\d{1,9}+)(?!\d)")
_ODD_BITS = {
    "bool": 8, "half": 16, "float": 32, "double": 64, "long": 64, "int": 32, "short": 16, "i1": 8,
    "byte": 8, "char": 8, "complex64": 64, "complex128": 128, "bfloat16": 16, "tf32": 32,
}  # fmt: skip

TENSORS_ONCE = "each tensor read or written once"
EACH_ONCE = "each access once by every thread"
EACH_AT_MOST_ONCE = "each access at most once by every thread"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure of one launch that nobody measured, with what it was made of.

    ``at_most``: predicates or branches may leave some of it out.
    """

    value: int
    how: str
    at_most: bool = False


def blocks_of(call: Call) -> int | None:
    """Blocks (programs) of a launch."""
    return None if call.grid is None else call.grid[0] * call.grid[1] * call.grid[2]


def threads_of(call: Call) -> int | None:
    """Threads of a block."""
    return None if call.block is None else call.block[0] * call.block[1] * call.block[2]


def tensor_bytes(call: Call) -> Estimate | None:
    """Global memory by the tensors among the arguments: every element once.

    A dimension of stride 0 is stored once. What a tensor that is read and written, or read by
    many programs, adds to this depends on the caches. None without tensors, or if one has no
    known size.
    """
    sizes = [_bytes(a) for a in call.arguments if a.shape is not None]
    if not sizes or any(size is None for size in sizes):
        return None
    return Estimate(sum(size for size in sizes if size is not None), TENSORS_ONCE)


def _bytes(argument: Argument) -> int | None:
    element = element_bytes(argument.dtype or (argument.type or "").lstrip("*"))
    if element is None or argument.shape is None:
        return None
    strides = argument.strides or (1,) * len(argument.shape)
    count = 1
    for size, stride in zip(argument.shape, strides, strict=False):
        count *= size if stride else min(size, 1)
    return count * element


def element_bytes(dtype: str) -> int | None:
    """Bytes of an element of torch's or Triton's type: 4 of ``float32`` and of ``fp32``."""
    dtype = dtype.removeprefix("torch.")
    bits = _ODD_BITS.get(dtype)
    if bits is None:
        found = _BITS.match(dtype)
        bits = int(found[1]) if found else 0
    return bits // 8 if bits and bits % 8 == 0 else None


def accessed_bytes(
    call: Call, found: Iterable[Access], flow: Flow, branches: bool
) -> Estimate | None:
    """Bytes that the instructions of a kernel ask of global memory, by static counts.

    Every access once for every thread: known where there is no loop; predicates and ``branches``
    (exits too) make it an upper bound. None with loops, or where a width is not known.
    """
    blocks, threads = blocks_of(call), threads_of(call)
    if blocks is None or threads is None or flow.loops:
        return None
    held = tuple(found)
    if any(a.space == "generic" for a in held):
        return None
    bytes_a_thread = total(held, (LOAD, STORE, COPY, ATOMIC, REDUCTION), "global")
    if bytes_a_thread is None:
        return None
    at_most = branches or any(a.guarded for a in held if a.space == "global")
    how = EACH_AT_MOST_ONCE if at_most else EACH_ONCE
    return Estimate(bytes_a_thread * threads * blocks, how, at_most)
