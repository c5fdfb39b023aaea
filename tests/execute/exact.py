"""Floating point by exact rational arithmetic, rounded once: slow, and plainly right.

A number is a ``Fraction``, or a float where it is infinite, NaN or a zero with its sign.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

Number = Fraction | float


class Format(NamedTuple):
    """Bits of the exponent and of the mantissa."""

    exponent: int
    mantissa: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.mantissa


FORMATS = {"f": Format(8, 23), "g": Format(11, 52), "e": Format(5, 10), "b": Format(8, 7)}


def number_of(bits: int, form: Format) -> Number:
    """The number that some bits are."""
    negative = bits >> (form.width - 1)
    exponent = (bits >> form.mantissa) & ((1 << form.exponent) - 1)
    mantissa = bits & ((1 << form.mantissa) - 1)
    sign = -1 if negative else 1
    if exponent == (1 << form.exponent) - 1:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0 and mantissa == 0:
        return -0.0 if negative else 0.0
    if exponent:
        mantissa |= 1 << form.mantissa
    power = max(exponent, 1) - form.bias - form.mantissa
    return sign * Fraction(mantissa) * Fraction(2) ** power


def is_zero(x: Number) -> bool:
    return not isinstance(x, Fraction) and x == 0


def negative(x: Number) -> bool:
    return x < 0 if isinstance(x, Fraction) else math.copysign(1, x) < 0


def bits_of(x: Number, form: Format, way: str = "rn") -> int:
    """A number rounded to a format, as ``way`` says; NaN is all ones but the sign."""
    top = 1 << (form.width - 1)
    if not isinstance(x, Fraction):
        if math.isnan(x):
            return top - 1
        infinite = ((1 << form.exponent) - 1) << form.mantissa
        return (top if negative(x) else 0) | (infinite if math.isinf(x) else 0)
    sign, size = (top if x < 0 else 0), abs(x)
    power = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** power:
        power -= 1
    power = max(power, 1 - form.bias)
    steps = size / Fraction(2) ** (power - form.mantissa)
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1 == 1),
        "rz": False,
        "rm": rest > 0 and x < 0,
        "rp": rest > 0 and x > 0,
    }[way]
    whole += up
    # A subnormal's exponent is 0, and its first bit is added to by carrying.
    code = whole + ((power - 1 + form.bias) << form.mantissa)
    infinite = ((1 << form.exponent) - 1) << form.mantissa
    if code >= infinite:
        stays = way == "rz" or (way == "rm" and x > 0) or (way == "rp" and x < 0)
        return sign | (infinite - 1 if stays else infinite)
    return sign | code


def _zero(way: str) -> float:
    return -0.0 if way == "rm" else 0.0


def add(a: Number, b: Number, way: str) -> Number:
    if (isinstance(a, float) and not is_zero(a)) or (isinstance(b, float) and not is_zero(b)):
        return _special(a) + _special(b)
    if is_zero(a) and is_zero(b):
        return a if negative(a) == negative(b) else _zero(way)
    total = (Fraction(0) if is_zero(a) else Fraction(a)) + (
        Fraction(0) if is_zero(b) else Fraction(b)
    )
    return total or _zero(way)


def _special(x: Number) -> float:
    """A float that behaves like ``x`` beside infinities and NaN."""
    return math.copysign(1.0, x) if isinstance(x, Fraction) else x


def multiply(a: Number, b: Number) -> Number:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    return _special(a) * _special(b)


def divide(a: Number, b: Number) -> Number:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a / b
    if is_zero(b):
        if is_zero(a) or (isinstance(a, float) and math.isnan(a)):
            return math.nan
        return math.copysign(math.inf, _special(a)) * math.copysign(1, float(b))
    return _special(a) / _special(b)


def negated(x: Number) -> Number:
    return -x


def root(x: Number, form: Format, way: str) -> int:
    """The bits of a square root, by integers: whether it is exact decides the rounding."""
    if not isinstance(x, Fraction):
        return bits_of(math.nan if x < 0 else x, form)
    if x < 0:
        return bits_of(math.nan, form)
    shift = 4 * (form.mantissa + form.bias + 8)
    scaled = x.numerator * (1 << (2 * shift)) // x.denominator
    whole = math.isqrt(scaled)
    exact = whole * whole * x.denominator == x.numerator * (1 << (2 * shift))
    near = Fraction(whole, 1 << shift) + (0 if exact else Fraction(1, 1 << (shift + 1)))
    return bits_of(near, form, way)


def whole_number(x: Fraction, way: str) -> int:
    """A number rounded to a whole one."""
    if way == "rni":
        return round(x)
    return math.trunc(x) if way == "rzi" else math.floor(x) if way == "rmi" else math.ceil(x)


def to_integer(x: Number, way: str, low: int, high: int, width: int, double: bool) -> int:
    """``cvt`` to an integer of a range; of NaN 0, or the highest bit alone where the integer has 64
    bits or the NaN is a double."""
    if isinstance(x, float) and math.isnan(x):
        return 1 << (width - 1) if double or width == 64 else 0
    if isinstance(x, float):
        return 0 if x == 0 else (high if x > 0 else low)
    whole = whole_number(x, way)
    return min(max(whole, low), high)
