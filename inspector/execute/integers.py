"""Integer and bit instructions that numpy has no function for, as the PTX ISA defines them.

All take and give arrays that broadcast against each other; 32-bit ones unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from inspector.execute.kinds import Array, f64, i32, i64, u8, u16, u32, u64

LOW = u64(0xFFFFFFFF)


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the product of two unsigned 64-bit integers."""
    a0, a1, b0, b1 = a & LOW, a >> u64(32), b & LOW, b >> u64(32)
    middle = a1 * b0 + ((a0 * b0) >> u64(32))
    other = a0 * b1 + (middle & LOW)
    return a1 * b1 + (middle >> u64(32)) + (other >> u64(32))


def multiply_high_signed(a: Array, b: Array) -> Array:
    """The upper half of the product of two signed 64-bit integers, as unsigned bits."""
    ua, ub = a.view(u64), b.view(u64)
    zero = u64(0)
    return multiply_high(ua, ub) - np.where(a < 0, ub, zero) - np.where(b < 0, ua, zero)


def multiply24(a: Array, b: Array, high: bool) -> Array:
    """The 48-bit product of 24-bit integers: its lower or upper 32 bits, unsigned bits out."""
    shift = a.dtype.type(8)
    wide = i64 if a.dtype.kind == "i" else u64
    product = ((a << shift) >> shift).astype(wide) * ((b << shift) >> shift).astype(wide)
    return (product >> wide(16 if high else 0)).astype(u32)


def divide(a: Array, b: Array) -> Array:
    """Division towards zero; by zero it gives all bits set, as the hardware does."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return np.where(b == 0, ~a.dtype.type(0), a // safe)
    quotient = (a - np.fmod(a, safe)) // safe
    return np.where(b == 0, a.dtype.type(-1), quotient)


def remainder(a: Array, b: Array) -> Array:
    """What division towards zero leaves; by zero, the dividend."""
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, b.dtype.type(1), b)))


def saturating_sum(a: Array, b: Array, subtract: bool) -> Array:
    """``add.sat.s32`` and ``sub.sat.s32``."""
    wide = a.astype(i64) - b if subtract else a.astype(i64) + b
    return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(i32)


def saturate(a: Array, dtype: Any) -> Array:
    """Integers clipped to the range of another integer type."""
    info = np.iinfo(dtype)
    if a.dtype == u64:
        return np.minimum(a, u64(info.max)).astype(dtype)
    wide = a.astype(i64)
    low = max(info.min, -(1 << 63))
    high = min(info.max, (1 << 63) - 1)
    return np.clip(wide, low, high).astype(dtype)


def shift_left(a: Array, amount: Array) -> Array:
    """``shl``: amounts beyond the width give 0."""
    bits = a.dtype.itemsize * 8
    kind = a.dtype.type
    shifted = a << np.minimum(amount, u32(bits - 1)).astype(kind)
    return np.where(amount >= u32(bits), kind(0), shifted)


def shift_right(a: Array, amount: Array) -> Array:
    """``shr``: logical or arithmetic by the type; amounts are clamped to the width."""
    bits = a.dtype.itemsize * 8
    kind = a.dtype.type
    shifted = a >> np.minimum(amount, u32(bits - 1)).astype(kind)
    if a.dtype.kind == "i":
        return shifted
    return np.where(amount >= u32(bits), kind(0), shifted)


def funnel_shift(a: Array, b: Array, amount: Array, left: bool, wrap: bool) -> Array:
    """``shf``: the pair ``b:a`` shifted; to the left its upper word, to the right its lower."""
    steps = ((amount & u32(31)) if wrap else np.minimum(amount, u32(32))).astype(u64)
    pair = a.astype(u64) | (b.astype(u64) << u64(32))
    return ((pair << steps) >> u64(32)).astype(u32) if left else (pair >> steps).astype(u32)


def logic3(a: Array, b: Array, c: Array, table: int) -> Array:
    """``lop3``: bit k of ``table`` is the result where the three bits are those of k."""
    formula = _LOGIC3.get(table)
    if formula is not None:
        result: Array = formula(a, b, c)
        return result
    out: Array | None = None
    for k in range(8):
        if table >> k & 1:
            term = (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
            out = term if out is None else out | term
    return np.zeros((1, 1), u32) if out is None else out


_LOGIC3 = {
    0x80: lambda a, b, c: a & b & c,
    0xFE: lambda a, b, c: a | b | c,
    0x96: lambda a, b, c: a ^ b ^ c,
    0xEA: lambda a, b, c: (a & b) | c,
    0xF8: lambda a, b, c: a | (b & c),
    0x78: lambda a, b, c: a ^ (b & c),
    0x6A: lambda a, b, c: (a & b) ^ c,
    0xC8: lambda a, b, c: b & (a | c),
    0xE0: lambda a, b, c: a & (b | c),
    0xCA: lambda a, b, c: (a & b) | (~a & c),
    0xC0: lambda a, b, c: a & b,
    0xFC: lambda a, b, c: a | b,
    0x3C: lambda a, b, c: a ^ b,
}


def permute(a: Array, b: Array, selector: Array, mode: str) -> Array:
    """``prmt``: four of the eight bytes of ``b:a``; in the generic mode with sign replication."""
    if mode:
        base = selector & u32(3)
        picks: Sequence[Array] = [_permuted(mode, base, k) for k in range(4)]
    else:
        picks = [(selector >> u32(4 * k)) & u32(15) for k in range(4)]
    pair = a.astype(u64) | (b.astype(u64) << u64(32))
    out: Array = np.zeros((1, 1), u32)
    for k, pick in enumerate(picks):
        byte = ((pair >> ((pick & u32(7)).astype(u64) * u64(8))) & u64(255)).astype(u32)
        if not mode and (pick & u32(8)).any():
            sign = np.where(byte & u32(128), u32(255), u32(0))
            byte = np.where(pick & u32(8), sign, byte)
        out = out | (byte << u32(8 * k))
    return out


PERMUTE_MODES = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


def _permuted(mode: str, base: Array, k: int) -> Array:
    """The byte that ``prmt`` in a mode takes for byte k."""
    if mode == "f4e":
        return base + u32(k)
    if mode == "b4e":
        return (base - u32(k)) & u32(7)
    if mode == "rc8":
        return base
    if mode == "ecl":
        return np.maximum(base, u32(k))
    if mode == "ecr":
        return np.minimum(base, u32(k))
    return (base & u32(1)) * u32(2) + u32(k & 1)


def extract_bits(a: Array, position: Array, length: Array) -> Array:
    """``bfe`` of any width; signed by the type of ``a``, whose bits the field's sign fills."""
    bits = a.dtype.itemsize * 8
    at = (position & u32(255)).astype(u64)
    size = (length & u32(255)).astype(u64)
    unsigned = a.view(u32 if bits == 32 else u64).astype(u64)
    full = u64(bits)
    inside = np.minimum(size, full)
    mask = np.where(inside >= u64(64), ~u64(0), (u64(1) << (inside & u64(63))) - u64(1))
    field = np.where(at >= u64(64), u64(0), unsigned >> (at & u64(63))) & mask
    if a.dtype.kind != "i":
        return field.astype(a.dtype)
    top = np.where(size == 0, u64(0), np.minimum(at + size - u64(1), full - u64(1)))
    sign = ((unsigned >> top) & u64(1)).astype(bool) & (size != 0)
    have = np.where(at >= full, u64(0), np.minimum(full - np.minimum(at, full), inside))
    kept = np.where(have >= u64(64), ~u64(0), (u64(1) << (have & u64(63))) - u64(1))
    filled = np.where(sign, field | ~kept, field & kept)
    return filled.astype(u32 if bits == 32 else u64).view(a.dtype)


def extend(a: Array, size: Array, wrap: bool) -> Array:
    """``szext``: the lowest bits, the rest filled with their sign or with zeros."""
    return extract_bits(a, np.zeros((1, 1), u32), size & u32(31) if wrap else size)


def insert_bits(a: Array, b: Array, position: Array, length: Array) -> Array:
    """``bfi``: the lowest bits of ``a`` put into ``b``."""
    kind = b.dtype.type
    bits = b.dtype.itemsize * 8
    at = position & u32(255)
    size = np.minimum(length & u32(255), u32(bits))
    ones = ~kind(0)
    mask = np.where(size >= u32(bits), ones, (kind(1) << (size % u32(bits)).astype(kind)) - kind(1))
    inside = at < u32(bits)
    steps = (at % u32(bits)).astype(kind)
    moved = np.where(inside, mask << steps, kind(0))
    return (b & ~moved) | ((a << steps) & moved)


def bit_mask(position: Array, length: Array, wrap: bool) -> Array:
    """``bmsk``: ``length`` ones from bit ``position`` on."""
    at, size = position.astype(u64), length.astype(u64)
    if wrap:
        at, size = at & u64(31), size & u64(31)
    else:
        at, size = np.minimum(at, u64(32)), np.minimum(size, u64(32))
    return ((((u64(1) << size) - u64(1)) << at) & LOW).astype(u32)


def population(a: Array) -> Array:
    """How many bits are set, of 32-bit or 64-bit integers."""
    out = np.zeros(a.shape, u32)
    for part in np.ascontiguousarray(a)[..., None].view(u8).T if a.size else ():
        out += _POPULATION[part].T
    return out


_POPULATION = np.array([n.bit_count() for n in range(256)], u32)


def leading_zeros(a: Array) -> Array:
    """How many bits are 0 above the highest that is set; the width where none is."""
    bits = a.dtype.itemsize * 8
    kind = a.dtype.type
    out, rest = np.zeros(a.shape, u32), a
    step = bits // 2
    while step:
        low = rest < (kind(1) << kind(bits - step))
        out = out + np.where(low, u32(step), u32(0))
        rest = np.where(low, rest << kind(step), rest)
        step //= 2
    return out + (a == 0).astype(u32)


def find_highest(a: Array, shift: bool) -> Array:
    """``bfind``: the highest bit that is not the sign; all bits set if missing."""
    bits = a.dtype.itemsize * 8
    if a.dtype.kind == "i":
        a = np.where(a < 0, ~a, a).view(u32 if bits == 32 else u64)
    zeros = leading_zeros(a)
    return np.where(a == 0, u32(0xFFFFFFFF), zeros if shift else u32(bits - 1) - zeros)


def reverse_bits(a: Array) -> Array:
    """``brev`` of 32-bit or 64-bit integers."""
    kind = a.dtype.type
    step, bits = 1, a.dtype.itemsize * 8
    while step < bits:
        group = (1 << step) - 1
        mask = kind(sum(group << at for at in range(0, bits, 2 * step)))
        a = ((a >> kind(step)) & mask) | ((a & mask) << kind(step))
        step *= 2
    return a


def find_nth(a: Array, base: Array, offset: Array) -> Array:
    """``fns``: where the n-th set bit from ``base`` on is; all bits set if missing."""
    a, base, offset = np.broadcast_arrays(a, base, offset.view(i32))
    out = np.full(a.shape, 0xFFFFFFFF, u32)
    left = np.where(offset < 0, -offset, offset).astype(i64)
    position = base.astype(i64)
    step = np.where(offset < 0, -1, 1)
    settled = np.zeros(a.shape, bool)
    left = np.where(offset == 0, 1, left)
    limit = np.where(offset == 0, 1, 32)
    for k in range(32):
        inside = (position >= 0) & (position < 32) & (k < limit)
        bit = ((a >> (position & 31).astype(u32)) & u32(1)).astype(bool) & inside
        left = left - bit
        hit = bit & (left == 0) & ~settled
        out = np.where(hit, position.astype(u32), out)
        settled |= hit
        position = position + step
    return out


def dot4(a: Array, b: Array, c: Array, signed_a: bool, signed_b: bool) -> Array:
    """``dp4a``: four products of bytes, added to ``c``; unsigned bits out."""
    parts_a = _bytes(a, signed_a)
    parts_b = _bytes(b, signed_b)
    total = c.astype(i64)
    for x, y in zip(parts_a, parts_b, strict=True):
        total = total + x * y
    return total.astype(u32)


def dot2(a: Array, b: Array, c: Array, signed_a: bool, signed_b: bool, high: bool) -> Array:
    """``dp2a``: two products of a half-word and a byte, added to ``c``; unsigned bits out."""
    total = c.astype(i64)
    parts = _bytes(b, signed_b)[2 if high else 0 :][:2]
    for k, y in enumerate(parts):
        half = (a >> u32(16 * k)).astype(u16)
        total = total + (half.view(np.int16) if signed_a else half).astype(i64) * y
    return total.astype(u32)


def _bytes(a: Array, signed: bool) -> list[Array]:
    out = [(a >> u32(8 * k)).astype(u8) for k in range(4)]
    return [(x.view(np.int8) if signed else x).astype(i64) for x in out]


def packed16(operation: Any, a: Array, b: Array, signed: bool) -> Array:
    """An operation on both halves of 32-bit words, wrapped to 16 bits."""
    out: Array = np.zeros((1, 1), u32)
    for shift in (0, 16):
        x, y = ((v >> u32(shift)).astype(u16) for v in (a, b))
        if signed:
            x, y = x.view(np.int16), y.view(np.int16)
        out = out | (operation(x, y).astype(u16).astype(u32) << u32(shift))
    return out


def to_integer(x: Array, way: str, dtype: Any) -> Array:
    """``cvt`` of floats to integers: rounded as ``way`` says, clipped; NaN gives 0.

    A NaN of double precision, or one converted to 64 bits, gives the integer of which only the
    highest bit is set (PTX ISA, "cvt").
    """
    rounded = _ROUND[way](x).astype(f64)
    info = np.iinfo(dtype)
    nan = np.isnan(rounded)
    if info.bits == 64:
        low, high = float(info.min), 2.0**63 if info.min else 2.0**64
        over, under = rounded >= high, rounded < low
        inside = np.where(over | under | nan, 0.0, rounded).astype(dtype)
        out = np.where(over, dtype(info.max), np.where(under, dtype(info.min), inside))
        return np.where(nan, np.array(1 << 63, u64).view(dtype), out)
    clipped = np.clip(np.where(nan, 0.0, rounded), float(info.min), float(info.max))
    out = clipped.astype(i64).astype(dtype)
    if x.dtype == f64 and nan.any():
        out = np.where(nan, np.array(1 << (info.bits - 1), i64).astype(dtype), out)
    return out


_ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
