"""Integers as sums of multiples of things with a name: what a register holds, symbolically.

A ``Form`` is an exact integer, a sum ``Σ factor × atom + constant``. That a register of ``w`` bits
holds it means that both are equal modulo 2^w: sums and products need no more. Where the value
itself matters (it is widened, divided, compared) it is *read* as signed or unsigned: that is the
form itself where its range shows that it fits, else an atom ``wrap`` of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from msgspec import Struct

MAX_TERMS = 8
MAX_ATOMS = 24
"""What a register may hold before it is called by its own name."""

LEAVES = ("parameter", "special", "register", "symbol")


class Atom(Struct, frozen=True):
    """Something with a name, or an operation that is no sum.

    ``op`` is one of ``LEAVES`` (``name`` says which one), ``product``, ``quotient`` and
    ``remainder`` (rounded down, by a positive number), ``wrap`` (``name`` is ``s32``, ``u16``),
    ``min``, ``max``, ``and``, ``or``, ``xor`` (of values that are not negative). ``low`` to
    ``high`` is its range, both counted in; it is a multiple of ``multiple``. ``line`` is where a
    register that changes was read.
    """

    op: str
    name: str
    low: int
    high: int
    args: tuple[LinearForm, ...] = ()
    multiple: int = 1
    line: int | None = None
    size: int = 1


class LinearForm(Struct, frozen=True):
    """``Σ factor × atom + constant``, within ``low`` to ``high``; ``size`` counts its atoms."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int
    low: int
    high: int
    size: int

    @property
    def multiple(self) -> int:
        """The largest number known that the form is always a multiple of; 0 for zero."""
        return gcd(self.constant, *(atom.multiple * factor for atom, factor in self.terms))

    @property
    def number(self) -> int | None:
        """The value where it is one number."""
        return self.constant if not self.terms else None

    @property
    def atom(self) -> Atom | None:
        """The atom where the form is nothing else."""
        alone = len(self.terms) == 1 and not self.constant and self.terms[0][1] == 1
        return self.terms[0][0] if alone else None


def form(terms: Iterable[tuple[Atom, int]], constant: int = 0) -> LinearForm:
    """The sum of ``terms``, like atoms together."""
    sums: dict[Atom, int] = {}
    for atom, factor in terms:
        sums[atom] = sums.get(atom, 0) + factor
    nonzero_terms = tuple((atom, factor) for atom, factor in sums.items() if factor)
    low = high = constant
    for atom, factor in nonzero_terms:
        ends = (atom.low * factor, atom.high * factor)
        low, high = low + min(ends), high + max(ends)
    return LinearForm(
        nonzero_terms, constant, low, high, sum(atom.size for atom, _ in nonzero_terms)
    )


def constant(value: int) -> LinearForm:
    return LinearForm((), value, value, value, 0)


def leaf(
    op: str, name: str, low: int, high: int, multiple: int = 1, line: int | None = None
) -> LinearForm:
    if low == high and op == "special":
        return constant(low)
    return _alone(Atom(op, name, low, high, (), multiple, line))


def add(a: LinearForm, b: LinearForm) -> LinearForm:
    return form((*a.terms, *b.terms), a.constant + b.constant)


def scale(a: LinearForm, factor: int) -> LinearForm:
    return form(((atom, f * factor) for atom, f in a.terms), a.constant * factor)


def product(a: LinearForm, b: LinearForm) -> LinearForm:
    for operand, other in ((a, b), (b, a)):
        if operand.number is not None:
            return scale(other, operand.number)
    # Common factors come out, so that 4n × 2m and 8 × n × m are one thing.
    common_factor = 1
    parts: list[LinearForm] = []
    for operand in (a, b):
        common = _common(operand, 0)
        common_factor *= common
        parts.append(_shared(operand, common))
    parts.sort(key=repr)
    ends = [x * y for x in (parts[0].low, parts[0].high) for y in (parts[1].low, parts[1].high)]
    multiple = parts[0].multiple * parts[1].multiple
    return scale(atom_form("product", "", min(ends), max(ends), parts, multiple), common_factor)


def divided(a: LinearForm, divisor: int) -> LinearForm:
    """``a`` by a positive number, rounded down."""
    multiple_part, remainder = _split(a, divisor)
    if remainder.low >= 0 and remainder.high < divisor:
        return multiple_part
    common = _common(remainder, divisor)
    if common > 1:
        return add(multiple_part, divided(_shared(remainder, common), divisor // common))
    inner = remainder.atom
    if inner is not None and inner.op == "quotient":
        return add(multiple_part, divided(inner.args[0], inner.args[1].constant * divisor))
    low = remainder.low // divisor
    high = remainder.high // divisor
    return add(multiple_part, atom_form("quotient", "", low, high, [remainder, constant(divisor)]))


def modulo(a: LinearForm, divisor: int) -> LinearForm:
    """The remainder of ``a`` rounded down, by a positive number."""
    remainder = _split(a, divisor)[1]
    if remainder.low >= 0 and remainder.high < divisor:
        return remainder
    common = _common(remainder, divisor)
    if common > 1:
        return scale(modulo(_shared(remainder, common), divisor // common), common)
    inner = remainder.atom
    if inner is not None and inner.op == "remainder" and inner.args[1].constant % divisor == 0:
        return modulo(inner.args[0], divisor)
    common = gcd(remainder.multiple, divisor)
    return atom_form("remainder", "", 0, divisor - common, [remainder, constant(divisor)], common)


def _split(a: LinearForm, divisor: int) -> tuple[LinearForm, LinearForm]:
    """``a`` as ``whole × divisor + rest``."""
    multiples = [(atom, factor // divisor) for atom, factor in a.terms if factor % divisor == 0]
    remainders = [(atom, factor) for atom, factor in a.terms if factor % divisor]
    over, under = divmod(a.constant, divisor)
    return form(multiples, over), form(remainders, under)


def _common(a: LinearForm, divisor: int) -> int:
    """What all factors and the divisor are multiples of."""
    return gcd(divisor, a.constant, *(factor for _, factor in a.terms))


def _shared(a: LinearForm, divisor: int) -> LinearForm:
    return form(((atom, factor // divisor) for atom, factor in a.terms), a.constant // divisor)


def wrapped(a: LinearForm, bits: int, signed: bool) -> LinearForm:
    """What a register of ``bits`` that holds ``a`` reads as."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if low <= a.low and a.high <= high:
        return a
    if a.number is not None:
        return constant((a.number - low) % (1 << bits) + low)
    a = reduced(a, bits)
    if low <= a.low and a.high <= high:
        return a
    multiple = gcd(a.multiple, 1 << bits)
    return atom_form("wrap", f"{'s' if signed else 'u'}{bits}", low, high, [a], multiple)


def reduced(a: LinearForm, bits: int) -> LinearForm:
    """The simplest form that is equal modulo 2^bits."""
    terms: list[tuple[Atom, int]] = []
    value = a.constant
    for atom, factor in a.terms:
        if atom.op == "wrap" and int(atom.name[1:]) >= bits:
            inner = atom.args[0]
            terms += [(x, f * factor) for x, f in inner.terms]
            value += inner.constant * factor
        else:
            terms.append((atom, factor))
    small = [(x, _near(f, bits)) for x, f in form(terms).terms]
    return form(small, value if 0 <= value < 1 << bits else _near(value, bits))


def _near(value: int, bits: int) -> int:
    half = 1 << bits - 1
    return (value + half) % (1 << bits) - half if not -half < value < half else value


def bitwise(op: str, a: LinearForm, b: LinearForm, bits: int) -> LinearForm:
    for operand, other in ((a, b), (b, a)):
        if operand.number is not None:
            simplified = _with_number(op, other, operand.number % (1 << bits), bits)
            if simplified is not None:
                return simplified
    # No bit can be set in both: one is below the zeros that the other ends in.
    disjoint = not _ones(a, bits) & _ones(b, bits)
    for operand, other in ((a, b), (b, a)):
        zeros = operand.multiple & -operand.multiple or 1 << bits
        disjoint = disjoint or 0 <= other.low <= other.high < zeros
    if op != "and" and disjoint:
        return add(a, b)
    if a == b:
        return constant(0) if op == "xor" else a
    x, y = sorted((wrapped(a, bits, False), wrapped(b, bits, False)), key=repr)
    if op == "and":
        return atom_form(op, "", 0, min(x.high, y.high), [x, y])
    high = (1 << max(x.high.bit_length(), y.high.bit_length())) - 1
    low = max(x.low, y.low) if op == "or" else 0
    multiple = gcd(x.multiple & -x.multiple, y.multiple & -y.multiple) or 1
    return atom_form(op, "", low, high, [x, y], multiple)


def _with_number(op: str, a: LinearForm, mask: int, bits: int) -> LinearForm | None:
    if a.number is not None:
        value = a.number % (1 << bits)
        return constant({"and": value & mask, "or": value | mask, "xor": value ^ mask}[op])
    if op == "xor" and mask == (1 << bits) - 1:
        return add(scale(a, -1), constant(-1))
    if mask == 0:
        return constant(0) if op == "and" else a
    if op != "and":
        return None
    low = (mask & -mask).bit_length() - 1
    ones = mask >> low
    if ones & (ones + 1):
        return None
    top = mask + (1 << low)
    masked = modulo(a, top) if top < 1 << bits else a
    if a.multiple % (1 << low) == 0:
        return masked
    masked = masked if top < 1 << bits else wrapped(a, bits, False)
    return scale(divided(masked, 1 << low), 1 << low)


def _ones(a: LinearForm, bits: int) -> int:
    """The bits that may be set in a register that holds ``a``."""
    full = (1 << bits) - 1
    out = a.constant & full
    for atom, factor in a.terms:
        mask = _ones_of(atom, factor) & full
        if out & mask:
            break
        out |= mask
    else:
        return out
    zeros = a.multiple & -a.multiple or 1 << bits
    highest = a.high if a.low >= 0 and a.high <= full else full
    return (1 << highest.bit_length()) - 1 & ~(zeros - 1)


def _ones_of(atom: Atom, factor: int) -> int:
    """The bits that may be set in a multiple of an atom, however many."""
    odd_factor, shift = (1, factor) if factor & (factor - 1) == 0 and factor > 0 else (factor, 1)
    multiple = atom.multiple * odd_factor
    highest = atom.high * odd_factor
    zeros = multiple & -multiple
    if atom.low < 0 or factor < 0:
        return -zeros * shift
    return ((1 << highest.bit_length()) - 1 & -zeros) * shift


def extreme(op: str, a: LinearForm, b: LinearForm) -> LinearForm:
    if a.high <= b.low or a == b:
        return a if op == "min" else b
    if b.high <= a.low:
        return b if op == "min" else a
    pick = min if op == "min" else max
    return atom_form(op, "", pick(a.low, b.low), pick(a.high, b.high), sorted((a, b), key=repr))


def atom_form(
    op: str, name: str, low: int, high: int, args: list[LinearForm], multiple: int = 1
) -> LinearForm:
    size = 1 + sum(a.size for a in args)
    return _alone(Atom(op, name, low, high, tuple(args), multiple or 1, None, size))


def _alone(atom: Atom) -> LinearForm:
    low = min(atom.low, atom.high)
    high = max(atom.low, atom.high)
    return LinearForm(((atom, 1),), 0, low, high, atom.size)


def leaves(a: LinearForm) -> list[Atom]:
    """Every atom with a name in a form, each as often as it occurs."""
    out = [atom for atom, _ in a.terms if atom.op in LEAVES]
    return out + [leaf for atom, _ in a.terms for arg in atom.args for leaf in leaves(arg)]
