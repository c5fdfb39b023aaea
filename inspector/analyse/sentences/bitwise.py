"""``and``, ``or`` and ``xor`` of forms: sums where no bit can be set on both sides."""

from __future__ import annotations

from math import gcd

from inspector.analyse.sentences.forms import (
    Atom,
    Form,
    add,
    constant,
    divided,
    made,
    modulo,
    scale,
    wrapped,
)


def bitwise(op: str, a: Form, b: Form, bits: int) -> Form:
    """``and``, ``or``, ``xor`` of two registers of ``bits``."""
    for one, other in ((a, b), (b, a)):
        if one.number is not None:
            plain = _with_number(op, other, one.number % (1 << bits), bits)
            if plain is not None:
                return plain
    if op != "and" and _disjoint(a, b, bits):
        return add(a, b)
    if a == b:
        return constant(0) if op == "xor" else a
    x, y = sorted((wrapped(a, bits, False), wrapped(b, bits, False)), key=repr)
    if op == "and":
        return made(op, "", 0, min(x.high, y.high), [x, y])
    high = (1 << max(x.high.bit_length(), y.high.bit_length())) - 1
    low = max(x.low, y.low) if op == "or" else 0
    multiple = gcd(x.multiple & -x.multiple, y.multiple & -y.multiple) or 1
    return made(op, "", low, high, [x, y], multiple)


def _with_number(op: str, a: Form, mask: int, bits: int) -> Form | None:
    if a.number is not None:
        value = a.number % (1 << bits)
        done = {"and": value & mask, "or": value | mask, "xor": value ^ mask}
        return constant(done[op])
    if op == "xor" and mask == (1 << bits) - 1:
        return add(scale(a, -1), constant(-1))
    if op != "and" and mask == 0:
        return a
    if op != "and":
        return None
    if mask == 0:
        return constant(0)
    low = (mask & -mask).bit_length() - 1
    ones = mask >> low
    if ones & (ones + 1):
        return None
    if low == 0:
        return modulo(a, mask + 1) if mask + 1 < 1 << bits else a
    top = mask + (1 << low)
    if a.multiple % (1 << low) == 0:
        return modulo(a, top) if top < 1 << bits else a
    kept = modulo(a, top) if top < 1 << bits else wrapped(a, bits, False)
    return scale(divided(kept, 1 << low), 1 << low)


def _disjoint(a: Form, b: Form, bits: int) -> bool:
    """Whether no bit can be set in both."""
    for one, other in ((a, b), (b, a)):
        zeros = one.multiple & -one.multiple or 1 << bits
        if other.low >= 0 and other.high < zeros:
            return True
    return _ones(a, bits) & _ones(b, bits) == 0


def _ones(a: Form, bits: int) -> int:
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
    most = a.high if a.low >= 0 and a.high <= full else full
    return (1 << most.bit_length()) - 1 & ~(zeros - 1)


def _ones_of(atom: Atom, factor: int) -> int:
    """The bits that may be set in a multiple of an atom, however many."""
    if factor & (factor - 1) == 0 and factor > 0:
        zeros, most, shift = atom.multiple & -atom.multiple, atom.high, factor
    else:
        zeros, most, shift = (
            atom.multiple * factor & -(atom.multiple * factor),
            atom.high * factor,
            1,
        )
    if atom.low < 0 or factor < 0:
        return -zeros * shift
    return ((1 << most.bit_length()) - 1 & -zeros) * shift
