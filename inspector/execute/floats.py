"""Floating point as the PTX ISA rounds it: what numpy lacks, of every format.

Formats that numpy lacks are computed in wider ones and rounded once. An approximate instruction
is computed exactly and rounded; how far the hardware's may be from it is said elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from inspector.execute.kinds import Array, f16, f32, f64, i64, u8, u16, u32, u64

TINY = f32(1.1754944e-38)
"""The smallest normal number of single precision."""


def from_bf16(bits: Array) -> Array:
    """bf16 bits as single precision."""
    return (bits.astype(u32) << u32(16)).view(f32)


def to_bf16(x: Array, way: str = "rn") -> Array:
    """Single or double precision to bf16 bits: to nearest even, or towards zero (``rz``)."""
    if x.dtype == f64:
        x = _to_odd_single(x)
    bits = np.ascontiguousarray(x, f32).view(u32)
    if way == "rz":
        out = (bits >> u32(16)).astype(u16)
    else:
        odd = (bits >> u32(16)) & u32(1)
        out = ((bits + (u32(0x7FFF) + odd)) >> u32(16)).astype(u16)
    nan = np.isnan(x)
    return np.where(nan, u16(0x7FFF), out) if nan.any() else out


def _to_odd_single(x: Array) -> Array:
    """Doubles cut to single precision, the last bit set where something was cut off."""
    cut = round_single(x, "rz")
    inexact = cut.astype(f64) != x
    bits = cut.view(u32)
    return np.where(inexact & np.isfinite(cut), bits | u32(1), bits).view(f32)


def to_f16(x: Array, way: str = "rn") -> Array:
    """Single or double precision to half precision's bits."""
    out = x.astype(f16)
    if way == "rz":
        over = np.abs(out.astype(f64)) > np.abs(x)
        bits = out.view(u16)
        out = np.where(over, bits - u16(1), bits).view(f16)
    nan = np.isnan(out)
    bits = out.view(u16)
    return np.where(nan, u16(0x7FFF), bits) if nan.any() else bits


def from_f16(bits: Array) -> Array:
    """Half precision's bits as single precision."""
    return bits.view(f16).astype(f32)


def flush(x: Array) -> Array:
    """Subnormal single precision numbers as zeros of their sign (``.ftz``)."""
    small = np.abs(x) < TINY
    return np.where(small, np.copysign(f32(0), x), x) if small.any() else x


def clamp01(x: Array) -> Array:
    """``.sat``: clamped to 0 to 1, NaN to 0."""
    kind = x.dtype.type
    return np.where(x > 0, np.minimum(x, kind(1)), kind(0))


def relu(x: Array) -> Array:
    """``.relu``: what is below 0 is 0, NaN stays."""
    return np.where(x <= 0, x.dtype.type(0), x)


def to_odd(total: Array, error: Array) -> Array:
    """A sum in double precision and what its rounding lost, as one number rounded to odd.

    Rounding that to a narrower format rounds the exact sum (Boldo and Melquiond, 2008).
    """
    bits = total.view(i64)
    inexact = (error != 0) & ((bits & 1) == 0) & np.isfinite(total) & np.isfinite(error)
    if not inexact.any():
        return total
    away = (error > 0) == (total > 0)
    return np.where(inexact, np.where(away, bits + 1, bits - 1), bits).view(f64)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """A rounded sum and the exact error of it (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


_MIDDLE, _BELOW = u64(0x10000000), u64(0x1FFFFFFF)


def fused(a: Array, b: Array, c: Array) -> Array:
    """``fma`` of single precision, rounded once.

    The product is exact in double precision and the sum nearly is: only a sum that is halfway
    between two singles, or whose single is subnormal, can be rounded twice and is looked at again.
    """
    product = np.multiply(a, b, dtype=f64)
    total = product + c
    out = total.astype(f32)
    if ((total.view(u64) & _BELOW) == _MIDDLE).any() or (np.abs(total) < TINY).any():
        out = to_odd(*two_sum(product, c.astype(f64))).astype(f32)
    return out


def fused_wide(a: Array, b: Array, c: Array) -> Array:
    """``fma`` of narrow operands in double precision, to be rounded once to their format."""
    product = np.multiply(a, b, dtype=f64)
    return to_odd(*two_sum(product, c.astype(f64)))


_SMALL_PRODUCT, _LARGE = 2.0**-960, 2.0**990


def fused_double(a: Array, b: Array, c: Array) -> Array:
    """``fma`` of double precision, rounded once (Boldo and Melquiond's algorithm).

    Where a part of the product is too small or too large for a double, by fractions.
    """
    high, low = _two_product(a, b)
    t, u = two_sum(c, low)
    v, w = two_sum(high, t)
    out = v + to_odd(*two_sum(u, w))
    small = (np.abs(high) < _SMALL_PRODUCT) & (a != 0) & (b != 0)
    edge = small | (np.abs(a) > _LARGE) | (np.abs(b) > _LARGE) | (np.abs(c) > _LARGE)
    edge = edge | (np.abs(high) > _LARGE)
    # A product of finite factors is finite, also where no double holds it.
    finite = np.isfinite(a) & np.isfinite(b)
    plain = np.where(finite & np.isinf(c), c, a * b + c)
    zero = ((a == 0) | (b == 0)) & (c == 0)  # of which the sum above may have another sign
    out = np.where(np.isfinite(low) & np.isfinite(out) & ~zero, out, plain)
    return _exactly("fma", out, edge, a, b, c)[0] if edge.any() else out


_FRACTIONS: Mapping[str, Callable[[Fraction, Fraction, Fraction], Fraction]] = {
    "fma": lambda x, y, z: x * y + z,
    "mul": lambda x, y, z: x * y,
    "div": lambda x, y, z: x / y if y else Fraction(0),
    "add": lambda x, y, z: x + y,
}
"""Exact results of operations on finite numbers; 0 for a division by 0."""


def _exactly(
    operation: str, out: Array, where: Array, a: Array, b: Array, c: Array | None
) -> tuple[Array, Array]:
    """Elements of an operation on doubles by fractions: to nearest, and the sign of the error.

    Elements with an operand that is not finite are left as they are in ``out``.
    """
    shape = np.broadcast_shapes(out.shape, where.shape)
    result, error = np.broadcast_to(out, shape).copy(), np.zeros(shape, f64)
    given = [np.broadcast_to(x, shape) for x in (a, b, np.zeros((1, 1)) if c is None else c)]
    places = np.nonzero(np.broadcast_to(where, shape))
    for place in zip(*(p.tolist() for p in places), strict=True):
        x, y, z = (float(g[place]) for g in given)
        if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
            continue
        if operation == "sqrt":
            if x >= 0:
                result[place] = near = math.sqrt(x)
                error[place] = _sign(Fraction(x) - Fraction(near) ** 2)
            continue
        exact = _FRACTIONS[operation](Fraction(x), Fraction(y), Fraction(z))
        if exact:
            result[place] = near = _nearest(exact)
            error[place] = _sign(exact - Fraction(near) if math.isfinite(near) else -exact)
    return result, error


def _sign(x: Fraction) -> int:
    return (x > 0) - (x < 0)


def _nearest(exact: Fraction) -> float:
    """The double nearest to a fraction that is not 0."""
    try:
        near = float(abs(exact))
    except OverflowError:
        near = math.inf
    return near if exact > 0 else -near


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """A rounded product and the exact error of it (Dekker)."""
    product = a * b
    a1 = a * 134217729.0
    a1 = a1 - (a1 - a)
    b1 = b * 134217729.0
    b1 = b1 - (b1 - b)
    a2, b2 = a - a1, b - b1
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def round_single(x: Array, way: str) -> Array:
    """Doubles to single precision: ``rn``, ``rz``, ``rm`` (down) or ``rp`` (up)."""
    out = x.astype(f32)
    if way == "rm":
        return np.where(out > x, np.nextafter(out, f32(-np.inf)), out)
    if way == "rp":
        return np.where(out < x, np.nextafter(out, f32(np.inf)), out)
    if way == "rz":
        return np.where(np.abs(out) > np.abs(x), np.nextafter(out, f32(0)), out)
    return out


def _signed_zero(out: Array, a: Array, b: Array, way: str) -> Array:
    """A sum that is 0 is −0 where it is rounded down, unless both parts are +0."""
    if way != "rm":
        return out
    positive = (a == 0) & (b == 0) & ~np.signbit(a) & ~np.signbit(b)
    exact = (out == 0) & (a == -b)
    return np.where(exact & ~positive, -out.dtype.type(0), out)


def directed(operation: str, way: str, a: Array, b: Array, c: Array | None = None) -> Array:
    """``add``, ``mul``, ``fma``, ``div`` or ``sqrt`` of singles or doubles in a direction."""
    if a.dtype == f64:
        return _directed_double(operation, way, a, b, c)
    x, y = a.astype(f64), b.astype(f64)
    if operation == "add":
        value, error = two_sum(x, y)
    elif operation == "fma" and c is not None:
        x, y = x * y, c.astype(f64)
        value, error = two_sum(x, y)
    elif operation == "div":
        value = x / y
        rest = fused_double(-value, y, x)
        error = np.where(y < 0, -rest, rest)
    elif operation == "sqrt":
        value = np.sqrt(x)
        error = fused_double(-value, value, x)
    else:
        value, error = x * y, np.zeros((1, 1))
    out = round_single(to_odd(value, error), way)
    return _signed_zero(out, x, y, way) if operation in ("add", "fma") else out


def _directed_double(operation: str, way: str, a: Array, b: Array, c: Array | None) -> Array:
    """A double precision operation in a direction, by the sign of its exact error.

    Compilers write such an instruction where a program asks for it, so that fractions will do.
    """
    if operation == "fma" and c is not None:
        near = fused_double(a, b, c)
    else:
        near = {"mul": a * b, "div": a / b, "sqrt": np.sqrt(a)}.get(operation, a + b)
    out, error = _exactly(operation, near, np.ones(near.shape, bool), a, b, c)
    result = _directed(out, error, way)
    if operation == "add":
        return _signed_zero(result, a, b, way)
    if operation == "fma" and c is not None and way == "rm":
        # A product that is too small for a double is not 0, and the sum then is not.
        factor = (a == 0) | (b == 0)
        positive = factor & (np.signbit(a) == np.signbit(b)) & (c == 0) & ~np.signbit(c)
        return np.where((out == 0) & (error == 0) & ~positive, f64(-0.0), result)
    return result


def _directed(out: Array, error: Array, way: str) -> Array:
    """A double whose exact value is ``out + error``, rounded in a direction."""
    down, up = f64(-np.inf), f64(np.inf)
    if way == "rm":
        return np.where(error < 0, np.nextafter(out, down), out)
    if way == "rp":
        return np.where(error > 0, np.nextafter(out, up), out)
    positive = ~np.signbit(out)
    shrink = ((error < 0) & positive) | ((error > 0) & ~positive)
    return np.where(shrink, np.nextafter(out, f64(0)), out)


def to_tf32(x: Array, way: str) -> Array:
    """Single precision to tf32's bits: ten bits of mantissa, the rest 0.

    A NaN is 0x7fffe000, and with ``rna`` keeps the bits that tf32 has: so an H200.
    """
    bits = x.view(u32)
    if way == "rn":
        bits = bits + (u32(0xFFF) + ((bits >> u32(13)) & u32(1)))
    elif way == "rna":
        bits = bits + u32(0x1000)
    cut = bits & u32(0xFFFFE000)
    nan = np.isnan(x)
    if not nan.any():
        return cut
    return np.where(nan, x.view(u32) & u32(0xFFFFE000) if way == "rna" else u32(0x7FFFE000), cut)


def packed(operation: Callable[..., Array], kind: str, operands: list[Array]) -> Array:
    """A packed operation: on both halves, in single or double precision, rounded once."""
    out: Array = np.zeros((1, 1), u32)
    read, write = (from_bf16, to_bf16) if kind == "bf16x2" else (from_f16, to_f16)
    for shift in (0, 16):
        halves = [read((a >> u32(shift)).astype(u16)) for a in operands]
        out = out | (write(operation(*halves)).astype(u32) << u32(shift))
    return out


def packed_singles(operation: Callable[..., Array], operands: list[Array]) -> Array:
    """An operation on both single precision numbers of 64 bits."""
    out: Array = np.zeros((1, 1), u64)
    for shift in (0, 32):
        halves = [(a >> u64(shift)).astype(u32).view(f32) for a in operands]
        out = out | (operation(*halves).view(u32).astype(u64) << u64(shift))
    return out


def packed_compare(
    compare: Callable[[Array, Array], Array], kind: str, a: Array, b: Array, shift: int
) -> Array:
    """A comparison of one half of each of two packed words."""
    x, y = ((v >> u32(shift)).astype(u16) for v in (a, b))
    read = from_bf16 if kind == "bf16x2" else from_f16
    return compare(read(x), read(y))


def minimum(a: Array, b: Array) -> Array:
    """The lesser of two, the other where one is NaN; −0 is less than +0."""
    return _ordered_zeros(np.fmin(a, b), a, b, np.signbit(a) | np.signbit(b))


def maximum(a: Array, b: Array) -> Array:
    """The greater of two, the other where one is NaN; +0 is greater than −0."""
    return _ordered_zeros(np.fmax(a, b), a, b, np.signbit(a) & np.signbit(b))


def minimum_nan(a: Array, b: Array) -> Array:
    """The lesser of two, NaN where one is (``min.NaN``); −0 is less than +0."""
    return _ordered_zeros(np.minimum(a, b), a, b, np.signbit(a) | np.signbit(b))


def maximum_nan(a: Array, b: Array) -> Array:
    """The greater of two, NaN where one is (``max.NaN``); +0 is greater than −0."""
    return _ordered_zeros(np.maximum(a, b), a, b, np.signbit(a) & np.signbit(b))


def _ordered_zeros(out: Array, a: Array, b: Array, negative: Array) -> Array:
    """An extreme whose zeros have a sign where both operands are zeros."""
    ties = (a == 0) & (b == 0)
    zero = out.dtype.type(0)
    return np.where(ties, np.where(negative, -zero, zero), out) if ties.any() else out


def approximate(function: Any, x: Array) -> Array:
    """A function of single precision, computed in double precision and rounded once."""
    result: Array = function(x, dtype=f64)
    return result.astype(f32)


def reciprocal_root(x: Array) -> Array:
    """1/√x, in double precision."""
    return 1.0 / np.sqrt(x, dtype=f64)


def upper_word(x: Array) -> Array:
    """Doubles of which the lower 32 bits are 0, as ``rcp.approx.ftz.f64`` gives them."""
    return (x.view(u64) & u64(0xFFFFFFFF00000000)).view(f64)


_FORMATS = {
    "e4m3": (4, 3, 7, 0x7E),
    "e5m2": (5, 2, 15, 0x7B),
    "e2m1": (2, 1, 1, 0x07),
    "e2m3": (2, 3, 1, 0x1F),
    "e3m2": (3, 2, 3, 0x1F),
}
"""Bits of the exponent and the mantissa, the exponent's bias, the greatest finite number's bits
(PTX ISA, "Alternate Floating-Point Data Formats")."""


def _small_values(kind: str) -> Array:
    """Every value of a format of at most eight bits by its bits, as single precision."""
    exponent, mantissa, bias, greatest = _FORMATS[kind]
    codes = np.arange(1 << (exponent + mantissa))
    e, m = codes >> mantissa, codes & ((1 << mantissa) - 1)
    fraction = m / (1 << mantissa) + (e > 0)
    values = np.ldexp(fraction, np.maximum(e, 1) - bias).astype(f32)
    values[greatest + 1 :] = np.nan
    if kind == "e5m2":
        values[greatest + 1] = np.inf
    return np.concatenate((values, -values))


SMALL = {kind: _small_values(kind) for kind in _FORMATS}
"""The values of narrow formats by their bits."""


def to_small(x: Array, kind: str, relu: bool = False) -> Array:
    """Single precision to a narrow format's bits: nearest even, clipped to what is finite."""
    exponent, mantissa, bias, greatest = _FORMATS[kind]
    wide = x.astype(f64)
    if relu:
        wide = np.where(wide < 0, 0.0, wide)
    size = np.abs(wide)
    _, e = np.frexp(np.where(np.isfinite(size), size, 1.0))
    scale = np.maximum(e - 1, 1 - bias) - mantissa
    steps = np.rint(np.ldexp(size, -scale))
    value = np.ldexp(steps, scale)
    top = float(SMALL[kind][greatest])
    value = np.where(np.isnan(size), 0.0, np.minimum(value, top))
    _, e = np.frexp(value)
    normal = value >= 2.0 ** (1 - bias)
    code = np.where(
        normal,
        ((e - 1 + bias) << mantissa)
        + np.rint((np.ldexp(value, -(e - 1)) - 1) * (1 << mantissa)).astype(i64),
        np.rint(np.ldexp(value, bias - 1 + mantissa)).astype(i64),
    )
    sign = np.signbit(wide).astype(i64) << (exponent + mantissa)
    nan = 0x7F if kind in ("e4m3", "e5m2") else greatest
    out = np.where(np.isnan(x), nan, code | sign)
    return out.astype(u8)


def from_small(bits: Array, kind: str) -> Array:
    """A narrow format's bits as single precision."""
    table = SMALL[kind]
    return table[bits & u8(len(table) - 1)]


def from_scale(bits: Array) -> Array:
    """``ue8m0``, a power of two by its exponent, as single precision."""
    value = np.ldexp(f64(1), bits.astype(i64) - 127).astype(f32)
    return np.where(bits == u8(255), f32(np.nan), value)


def to_scale(x: Array, way: str | None) -> Array:
    """Single precision to ``ue8m0``: the power of two next to it, up (``rp``) or towards zero."""
    bits = x.view(u32) & u32(0x7FFFFFFF)
    exponent = bits >> u32(23)
    if way == "rp":
        exponent = exponent + ((bits & u32(0x7FFFFF)) != 0)
    out = np.minimum(exponent, u32(254)).astype(u8)
    return np.where(np.isnan(x), u8(255), out)


def _split_long(value: Array) -> tuple[Array, Array]:
    """64-bit integers as a double and the exact rest."""
    shift = value.dtype.type(32)
    high = (value >> shift).astype(f64) * 2.0**32
    low = (value & value.dtype.type(0xFFFFFFFF)).astype(f64)
    return two_sum(high, low)


def long_to_single(value: Array, way: str) -> Array:
    """64-bit integers to single precision in a direction."""
    return round_single(to_odd(*_split_long(value)), way)


def long_to_double(value: Array, way: str) -> Array:
    """64-bit integers to double precision in a direction."""
    return _directed(*_split_long(value), way)
