"""PTX's fundamental types as numpy's, and constants as they are written.

A register of n bits is an array of unsigned integers of n bits, regardless of its declared type; an
instruction looks at it as the type that its opcode names. Predicates are arrays of bools.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inspector.parsers.ptx_statement import number, real
from inspector.semantics import instructions

Array = NDArray[Any]
Mask = NDArray[np.bool_] | None
"""Lanes that run: None is all of them; else bools that broadcast to (blocks, threads)."""

u8 = np.uint8
u16 = np.uint16
u32 = np.uint32
u64 = np.uint64
i8 = np.int8
i16 = np.int16
i32 = np.int32
i64 = np.int64
u128 = np.dtype("V16")
"""Two halves of 64 bits, the lower one first, with which nothing is computed."""
f16 = np.float16
f32 = np.float32
f64 = np.float64

UNSIGNED: Mapping[int, Any] = MappingProxyType({8: u8, 16: u16, 32: u32, 64: u64, 128: u128})

DTYPES: Mapping[str, Any] = MappingProxyType(
    {
        "f16": f16,
        "f32": f32,
        "f64": f64,
        "bf16": u16,
        "tf32": f32,
        "f16x2": u32,
        "bf16x2": u32,
        "u16x2": u32,
        "s16x2": u32,
        "e4m3": u8,
        "e5m2": u8,
        "e3m2": u8,
        "e2m3": u8,
        "e2m1": u8,
        "e4m3x2": u16,
        "e5m2x2": u16,
        "e4m3x4": u32,
        "e5m2x4": u32,
        "e2m1x2": u8,
        "e2m3x2": u16,
        "e3m2x2": u16,
        "ue8m0x2": u16,
        "s2f6x2": u16,
        "b128": u128,
    }
    | dict(instructions.DTYPES)
)
"""What an array of a type holds; of types that numpy lacks, their bits."""

WIDTHS: Mapping[str, int] = MappingProxyType(
    {kind: np.dtype(dtype).itemsize * 8 for kind, dtype in DTYPES.items()} | {"pred": 1}
)
"""Bits of a type."""


PAIR = "b128"
"""The type of ``u128``."""


def joined(low: Array, high: Array) -> Array:
    """Registers of 128 bits of their halves."""
    halves = np.stack(np.broadcast_arrays(low, high), -1)
    return halves.view(u128)[..., 0]


def halves(register: Array) -> list[Array]:
    """The lower and the upper 64 bits of registers of 128."""
    both = np.ascontiguousarray(register)[..., None].view(u64)
    return [both[..., 0], both[..., 1]]


def is_float(kind: str) -> bool:
    """Whether a type's values are floating point."""
    return kind[0] in "fe" or kind in ("bf16", "bf16x2", "tf32")


def dtype_name(kind: str) -> str:
    """The name by which generated code knows the numpy type of ``kind``."""
    return {"s": "i"}.get(kind[0], kind[0]) + kind[1:] if kind[0] in "us" else kind


def constant(text: str, kind: str) -> int | float:
    """An immediate as a number of a type: floats by value, integers wrapped to its width.

    Written out floats of an integer's type (``mov.b32 %r1, 0f3F800000``) are their bits. Raises
    ValueError where it is no number.
    """
    negative = text.strip().startswith("-")
    unsigned_text = text.strip().lstrip("+-")
    integer = number(unsigned_text)
    value = real(unsigned_text) if integer is None else integer
    if value is None:
        raise ValueError(text)
    if negative:
        value = -value
    if is_float(kind):
        return float(value)
    width = max(WIDTHS[kind], 8)
    if isinstance(value, float):
        wide = f32 if unsigned_text[:2] in ("0f", "0F") or width == 32 else f64
        value = int(np.array([value], wide).view(UNSIGNED[32 if wide is f32 else 64])[0])
    value &= (1 << width) - 1
    return value - (1 << width) if kind[0] == "s" and value >> (width - 1) else value
