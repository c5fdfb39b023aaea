"""Floating point as the PTX ISA rounds it: what numpy lacks, of every format.

Formats that numpy lacks are computed in wider ones and rounded once. An approximate instruction
is computed exactly and rounded; how far the hardware's may be from it is said elsewhere.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from inspector.execute.kinds import Array, f16, f32, f64, i64, u8, u16, u32, u64

TINY = f32(1.1754944e-38)
"""The smallest normal number of single precision, and of bf16."""
TINY_HALF = f32(2.0**-14 - 2.0**-26)
"""What is below it is subnormal in half precision; from here to 2^-14 all is rounded to 2^-14."""
NAN_BITS = u32(0x7FFFFFFF)
"""The NaN that every operation on singles gives."""


def canonical(x: Array) -> Array:
    """Single precision with every NaN as the one that a GPU's arithmetic gives."""
    least = x.min()  # NaN where any is: faster than isnan
    return x if least == least else np.where(np.isnan(x), NAN_BITS, x.view(u32)).view(f32)


_QUIET = u64(1 << 51)


def last_nan(result: Array, *operands: Array) -> Array:
    """A result of double precision, a NaN as that of the last operand that is one, made quiet.

    PTX ISA, 9.7.3: "NaN payloads are supported for double-precision instructions"; which operand's
    it leaves open. This is what an H200 gives, with the sign of the operand also where that is
    negated or its absolute value is taken.
    """
    least = result.min()  # NaN where any is: faster than isnan
    if least == least:
        return result
    for x in operands:
        nan = np.isnan(x) & np.isnan(result)
        result = np.where(nan, (x.view(u64) | _QUIET).view(f64), result)
    return result


def from_bf16(bits: Array) -> Array:
    return (bits.astype(u32) << u32(16)).view(f32)


def to_bf16(x: Array, way: str = "rn") -> Array:
    """Single or double precision to bf16 bits, rounded once."""
    if x.dtype == f64:
        x = _to_odd_single(x)
    bits = np.ascontiguousarray(x, f32).view(u32)
    if way == "rn":
        bits = bits + (u32(0x7FFF) + ((bits >> u32(16)) & u32(1)))
    elif way in ("rm", "rp"):
        bits = np.where(np.signbit(x) == (way == "rm"), bits + u32(0xFFFF), bits)
    out = (bits >> u32(16)).astype(u16)
    nan = np.isnan(x)
    return np.where(nan, u16(0x7FFF), out) if nan.any() else out


def _to_odd_single(x: Array) -> Array:
    """Doubles cut to single precision, the last bit set where something was cut off."""
    cut = round_single(x, "rz")
    inexact = cut.astype(f64) != x
    bits = cut.view(u32)
    return np.where(inexact & np.isfinite(cut), bits | u32(1), bits).view(f32)


def to_f16(x: Array, way: str = "rn") -> Array:
    """Single or double precision to half precision's bits, rounded once."""
    out = _toward(x, x.astype(f16), way)
    nan = np.isnan(out)
    bits = out.view(u16)
    return np.where(nan, u16(0x7FFF), bits) if nan.any() else bits


def narrowed(x: Array, kind: str, way: str) -> Array:
    """``cvt`` of doubles to f16 or bf16: a NaN keeps its sign and its highest bits, and is quiet.

    So a CPU converts doubles to singles, and an H200 to all three.
    """
    bits = to_f16(x, way) if kind == "f16" else to_bf16(x, way)
    nan = np.isnan(x)
    if not nan.any():
        return bits
    mantissa, quiet = (10, u16(0x7E00)) if kind == "f16" else (7, u16(0x7FC0))
    double = x.view(u64)
    sign = (double >> u64(48)).astype(u16) & u16(0x8000)
    payload = (double >> u64(52 - mantissa)).astype(u16) & u16((1 << mantissa) - 1)
    return np.where(nan, sign | quiet | payload, bits)


def from_f16(bits: Array) -> Array:
    return bits.view(f16).astype(f32)


def flush(x: Array, least: np.floating[Any] = TINY) -> Array:
    """Numbers below the least normal one as zeros of their sign (``.ftz``)."""
    small = np.abs(x) < least
    return np.where(small, np.copysign(x.dtype.type(0), x), x) if small.any() else x


_SCALE = 2.0**64


def flush_rounded(out: Array, way: str, exact: Callable[[], Array]) -> Array:
    """``.ftz`` of a result of single precision that was rounded from ``exact``.

    A result is subnormal where it is less than the least normal number when rounded to as many bits
    as that has (IEEE 754-2008, 7.5, "after rounding"): the PTX ISA (9.7.3) leaves it open, an H200
    does so. Only of results that are that number ``out`` does not tell.
    """
    size = np.abs(out)
    if not (size <= TINY).any():
        return out
    small = size < TINY
    if (size == TINY).any():
        small = small | (np.abs(round_single(exact() * _SCALE, way)) < TINY * f32(_SCALE))
    return np.where(small, np.copysign(f32(0), out), out)


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


_MIDDLE = u64(0x10000000)
_BELOW = u64(0x1FFFFFFF)


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
    return to_odd(*two_sum(np.multiply(a, b, dtype=f64), c.astype(f64)))


_SMALL_PRODUCT = 2.0**-960
_LARGE = 2.0**990


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
    zero = ((a == 0) | (b == 0)) & (c == 0)  # of which the sum above may have another sign
    exact = np.isfinite(low) & np.isfinite(out) & ~zero & ~edge
    return out if exact.all() else np.where(exact, out, _exactly("fma", "rn", edge, a, b, c))


_FRACTIONS: Mapping[str, Callable[[Fraction, Fraction, Fraction], Fraction]] = {
    "add": lambda x, y, z: x + y,
    "mul": lambda x, y, z: x * y,
    "fma": lambda x, y, z: x * y + z,
    "div": lambda x, y, z: x / y if y else Fraction(0),
    "sqrt": lambda x, y, z: _root(x) if x > 0 else Fraction(0),
}
"""Results of operations on finite numbers; 0 where they have no result."""


def _root(x: Fraction) -> Fraction:
    """A square root to 1100 binary places, and a last one where it goes on."""
    square = x.numerator * 4**1100 // x.denominator
    root = math.isqrt(square)
    return Fraction(2 * root + (root * root != square), 2 * 2**1100)


def _exactly(operation: str, way: str, selected: Array, *operands: Array) -> Array:
    """An operation on doubles, in ``selected`` by fractions and rounded once."""
    a, b, c, keep = np.broadcast_arrays(*(*operands, *[np.zeros((1, 1))] * 3)[:3], selected)
    # A product of finite factors is finite, also where no double holds it.
    fused = np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, a * b + c)
    near = {"fma": fused, "mul": a * b, "div": a / b, "sqrt": np.sqrt(a)}.get(operation, a + b)
    out = near.copy()
    if way == "rm" and operation in ("add", "fma"):
        x, y = (a * b, c) if operation == "fma" else (a, b)
        out[(out == 0) & ((x != 0) | np.signbit(x) | (y != 0) | np.signbit(y))] = -0.0
    places = np.nonzero(keep & np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
    for place in zip(*places, strict=True):
        exact = _FRACTIONS[operation](*(Fraction(float(g[place])) for g in (a, b, c)))
        if exact:
            out[place] = _rounded(exact, way)
    return out


def _rounded(exact: Fraction, way: str) -> float:
    """The double for a fraction that is not 0."""
    try:
        near = float(exact)
    except OverflowError:
        near = math.inf if exact > 0 else -math.inf
    toward_zero = way == "rz"
    if near > exact and (way == "rm" or (toward_zero and exact > 0)):
        return math.nextafter(near, -math.inf)
    if near < exact and (way == "rp" or (toward_zero and exact < 0)):
        return math.nextafter(near, math.inf)
    return near


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """A rounded product and the exact error of it (Dekker)."""
    product = a * b
    a1 = a * 134217729.0
    a1 = a1 - (a1 - a)
    b1 = b * 134217729.0
    b1 = b1 - (b1 - b)
    a2 = a - a1
    b2 = b - b1
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def round_single(x: Array, way: str) -> Array:
    """Doubles to single precision: ``rn``, ``rz``, ``rm`` (down) or ``rp`` (up)."""
    return _toward(x, x.astype(f32), way)


def _toward(x: Array, near: Array, way: str) -> Array:
    """The number of a narrower format next to ``x`` in a direction, of the nearest one."""
    kind = near.dtype.type
    if way == "rm":
        return np.where(near > x, np.nextafter(near, kind(-np.inf)), near)
    if way == "rp":
        return np.where(near < x, np.nextafter(near, kind(np.inf)), near)
    if way == "rz":
        return np.where(np.abs(near) > np.abs(x), np.nextafter(near, kind(0)), near)
    return near


def directed(way: str, operation: str, a: Array, b: Array, c: Array | None = None) -> Array:
    """``add``, ``mul``, ``fma``, ``div`` or ``sqrt`` of singles or doubles in a direction.

    Of doubles by fractions: compilers write it where a program asks for it alone.
    """
    if a.dtype == f64:
        operands = (a, b) if c is None else (a, b, c)
        return _exactly(operation, way, np.ones((1, 1), bool), *operands)
    out = round_single(unrounded(operation, a, b, c), way)
    if way != "rm" or operation not in ("add", "fma"):
        return out
    # A sum that is 0 is −0 where it is rounded down, unless both parts are +0.
    x, y = (a, b) if c is None else (a.astype(f64) * b, c)
    positive = (x == 0) & (y == 0) & ~np.signbit(x) & ~np.signbit(y)
    return np.where((out == 0) & (x == -y) & ~positive, f32(-0.0), out)


def unrounded(operation: str, a: Array, b: Array, c: Array | None = None) -> Array:
    """An operation on singles in double precision, rounded to odd: to be rounded once more."""
    x = a.astype(f64)
    y = b.astype(f64)
    if operation == "add":
        value, error = two_sum(x, y)
    elif operation == "fma" and c is not None:
        value, error = two_sum(x * y, c.astype(f64))
    elif operation == "div":
        value = x / y
        residue = fused_double(-value, y, x)
        error = np.where(y < 0, -residue, residue)
    elif operation == "sqrt":
        value = np.sqrt(x)
        error = fused_double(-value, value, x)
    else:
        value = x * y
        error = np.zeros((1, 1))
    return to_odd(value, error)


_TF32_BITS = u32(0xFFFFE000)
_INFINITY_BITS = u32(0x7F800000)


def to_tf32(x: Array, way: str, finite: bool = False) -> Array:
    """Single precision to tf32's bits: ten bits of mantissa, the rest 0.

    A NaN is 0x7fffe000; but ``rna``, which ptxas makes of integer instructions, cuts off its
    lowest 13 bits, also where no others are set. ``finite``: infinities are the greatest number.
    """
    bits = x.view(u32)
    if way == "rn":
        bits = bits + (u32(0xFFF) + ((bits >> u32(13)) & u32(1)))
    elif way == "rna":
        bits = bits + u32(0x1000)
    cut = bits & _TF32_BITS
    nan = np.isnan(x)
    if nan.any():
        cut = np.where(nan, x.view(u32) & _TF32_BITS if way == "rna" else u32(0x7FFFE000), cut)
    if finite:
        size = cut & u32(0x7FFFFFFF)
        beyond = size >= _INFINITY_BITS if way == "rna" else size == _INFINITY_BITS
        cut = np.where(beyond, cut - u32(0x2000), cut)
    return cut


PACKED: Mapping[str, tuple[Any, Any, Callable[[Array], Array], Callable[[Array], Array]]] = {
    "f16x2": (u32, u16, from_f16, to_f16),
    "bf16x2": (u32, u16, from_bf16, to_bf16),
    "f32x2": (u64, u32, lambda bits: bits.view(f32), lambda x: x.view(u32)),
    "u16x2": (u32, u16, lambda bits: bits, lambda x: x),
    "s16x2": (u32, u16, lambda bits: bits.view(np.int16), lambda x: x.view(u16)),
}
"""Types of two numbers: bits of both and of one; how a number is read and written."""


def packed(operation: Callable[..., Array], kind: str, operands: list[Array]) -> Array:
    word, half, _, write = PACKED[kind]
    low, high = (write(operation(*pair)) for pair in halves(kind, operands))
    return low.astype(word) | (high.astype(word) << word(8 * half().itemsize))


def halves(kind: str, operands: list[Array]) -> tuple[list[Array], list[Array]]:
    word, half, read, _ = PACKED[kind]
    step = word(8 * half().itemsize)
    return [read(a.astype(half)) for a in operands], [
        read((a >> step).astype(half)) for a in operands
    ]


def extreme(a: Array, b: Array, least: bool, nan: bool) -> Array:
    """The lesser or the greater of two; −0 is less than +0.

    ``nan``: NaN where one is, else the other.
    """
    negative = np.signbit(a) | np.signbit(b) if least else np.signbit(a) & np.signbit(b)
    if nan:
        out = np.minimum(a, b) if least else np.maximum(a, b)
    else:
        out = np.fmin(a, b) if least else np.fmax(a, b)
    ties = (a == 0) & (b == 0)
    zero = out.dtype.type(0)
    return np.where(ties, np.where(negative, -zero, zero), out) if ties.any() else out


def extreme_of(
    registers: Sequence[Array], dtype: Any, least: bool, absolute: bool, nan: bool
) -> Array:
    """``extreme`` of all registers of a thread, in a type of 32 bits; as bits."""
    numbers = [np.ascontiguousarray(register).view(dtype) for register in registers]
    if dtype is not f32:
        integers: Array = reduce(np.minimum if least else np.maximum, numbers)
        return integers.view(u32)
    if absolute:
        numbers = [np.abs(number) for number in numbers]
    return canonical(reduce(lambda a, b: extreme(a, b, least, nan), numbers)).view(u32)


def approximate(function: Any, x: Array) -> Array:
    """A function of single precision, computed in double precision and rounded once."""
    result: Array = function(x, dtype=f64)
    return result.astype(f32)


def reciprocal_root(x: Array) -> Array:
    return 1.0 / np.sqrt(x, dtype=f64)


def divide_approximately(a: Array, b: Array) -> Array:
    """``div.approx``: a product with the reciprocal, which is 0 of divisors above 2^126."""
    return np.where(np.abs(b) > _GREATEST_DIVISOR, a * np.copysign(f32(0), b), a / b)


_GREATEST_DIVISOR = f32(2.0**126)
_UPPER_WORD = u64(0xFFFFFFFF00000000)
_TINY_DOUBLE = 2.0**-1022


def coarsely(function: Callable[[Array], Array], x: Array) -> Array:
    """``rcp`` and ``rsqrt`` with ``.approx.ftz.f64``: of the upper words, the lower ones 0.

    A NaN has no payload (PTX ISA, "rcp.approx.ftz.f64").
    """
    upper = flush((x.view(u64) & _UPPER_WORD).view(f64), f64(_TINY_DOUBLE))
    result = flush(function(upper), f64(_TINY_DOUBLE))
    bits = np.where(np.isnan(result), u64(0x7FFFFFFF00000000), result.view(u64) & _UPPER_WORD)
    return bits.view(f64)


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
    e = codes >> mantissa
    m = codes & ((1 << mantissa) - 1)
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
    value = np.ldexp(np.rint(np.ldexp(size, -scale)), scale)
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
    return np.where(np.isnan(x), nan, code | sign).astype(u8)


def from_small(bits: Array, kind: str) -> Array:
    """A narrow format's bits as single precision."""
    table = SMALL[kind]
    return table[bits & u8(len(table) - 1)]


def from_scale(bits: Array) -> Array:
    """``ue8m0``, a power of two by its exponent, as single precision."""
    value = np.ldexp(f64(1), bits.astype(i64) - 127).astype(f32)
    return np.where(bits == u8(255), f32(np.nan), value)


def to_scale(x: Array, way: str | None, finite: bool = False) -> Array:
    """Single precision to ``ue8m0``: the power of two next to it, up (``rp``) or towards zero.

    The sign is lost; the least is 2^-127. Beyond 2^127 it is NaN, or 2^127 if ``finite``.
    """
    bits = x.view(u32) & u32(0x7FFFFFFF)
    exponent = bits >> u32(23)
    if way == "rp":
        above = (bits & u32(0x7FFFFF)) != 0
        exponent = exponent + (above & (bits > _LEAST_SCALE) & (bits < _INFINITY_BITS))
    out = np.minimum(exponent, u32(254 if finite else 255)).astype(u8)
    return np.where(np.isnan(x), u8(255), out)


_LEAST_SCALE = u32(0x00400000)
"""2^-127, a subnormal number of single precision."""


def from_fixed(bits: Array) -> Array:
    """``s2f6``, a signed byte of 64ths, as single precision."""
    return bits.view(np.int8).astype(f32) / f32(64)


def to_fixed(x: Array, scale: Array | np.floating[Any]) -> Array:
    """Single precision over a power of two to ``s2f6``: nearest even, clipped, NaN the greatest."""
    parts = np.rint(x.astype(f64) / scale * 64.0)
    clipped = np.clip(np.where(np.isnan(parts), 127.0, parts), -128.0, 127.0)
    return clipped.astype(np.int8).view(u8)


def from_long(value: Array, way: str, kind: str) -> Array:
    """64-bit integers to a format, rounded once: of f16 and bf16 what is to be rounded to them."""
    high = (value >> value.dtype.type(32)).astype(f64) * 2.0**32
    low = (value & value.dtype.type(0xFFFFFFFF)).astype(f64)
    if kind == "f64":
        return directed(way, "add", high, low)
    odd = to_odd(*two_sum(high, low))
    return round_single(odd, way) if kind == "f32" else odd
