"""Integer instructions of PTX over Python's integers, transcribed from the PTX ISA's pseudo-code.

Written from its chapter "Instruction Set" alone, apart from division by zero, which it leaves open:
there, ptxas's own code sets all bits. Operands are unsigned bits; so is the result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

Numbers = list[int]
"""The operands of an instruction, as unsigned bits."""

COMPARE: dict[str, Callable[[int, int], bool]] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}
BOOLEAN: dict[str, Callable[[int, int], int]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


def width_of(kind: str) -> int:
    return 1 if kind == "pred" else int(kind[1:])


def signed(bits: int, width: int) -> int:
    bits &= (1 << width) - 1
    return bits - (1 << width) if bits >> width - 1 else bits


def number(bits: int, kind: str) -> int:
    """Bits read as a type."""
    width = width_of(kind)
    return signed(bits, width) if kind[0] == "s" else bits & ((1 << width) - 1)


def limits(kind: str) -> tuple[int, int]:
    width = width_of(kind)
    return (-(1 << width - 1), (1 << width - 1) - 1) if kind[0] == "s" else (0, (1 << width) - 1)


def clamp(value: int, kind: str) -> int:
    low, high = limits(kind)
    return max(low, min(value, high))


def quotient(a: int, b: int) -> int:
    """Division towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# -- arithmetic ------------------------------------------------------------------------------------


def arithmetic(words: list[str], kind: str, a: Numbers) -> int:
    """``add`` … ``mad24``, ``sad``, ``div``: an exact integer, to be cut to the result's width."""
    base, *modifiers = words
    width = width_of(kind)
    x = [number(value, kind) for value in a]
    if base in ("mul24", "mad24"):
        low24 = kind[0] + "24"
        product = number(a[0], low24) * number(a[1], low24)
        product = product >> 16 if "hi" in modifiers else product
    elif base in ("mul", "mad"):
        product = x[0] * x[1]
        product = product >> width if "hi" in modifiers else product
    else:
        return _sums(base, modifiers, kind, x)
    if base.startswith("mul"):
        return product
    if "wide" in modifiers:
        return product + number(a[2], f"{kind[0]}{2 * width}")
    if "hi" in modifiers and "sat" in modifiers:
        return clamp(signed(product, 32) + x[2], kind)
    return product + x[2]


def _sums(base: str, modifiers: list[str], kind: str, x: Numbers) -> int:
    if base == "div":
        return quotient(x[0], x[1]) if x[1] else -1
    if base == "rem":
        return x[0] - quotient(x[0], x[1]) * x[1] if x[1] else -1
    value = {
        "add": lambda: x[0] + x[1],
        "sub": lambda: x[0] - x[1],
        "sad": lambda: x[2] + abs(x[0] - x[1]),
        "abs": lambda: abs(x[0]),
        "neg": lambda: -x[0],
        "min": lambda: min(x[0], x[1]),
        "max": lambda: max(x[0], x[1]),
    }[base]()
    value = max(value, 0) if "relu" in modifiers else value
    return clamp(value, kind) if "sat" in modifiers else value


ARITHMETIC = frozenset(
    ("add", "sub", "mul", "mad", "mul24", "mad24", "sad", "div", "rem", "abs", "neg", "min", "max")
)


# -- bits ------------------------------------------------------------------------------------------


def field(kind: str, position: int, length: int) -> tuple[int, int]:
    """A bit field's place and length: beyond 255, which the ISA excludes, as on an H200."""
    if width_of(kind) == 64:
        return min(position, 255), min(length, 255)
    return position & 0xFF, length & 0xFF


def bfe(kind: str, a: Numbers) -> int:
    msb = width_of(kind) - 1
    pos, length = field(kind, a[1], a[2])
    has_sign = kind[0] == "s" and length > 0
    sign = a[0] >> min(pos + length - 1, msb) & 1 if has_sign else 0
    d = 0
    for i in range(msb + 1):
        bit = a[0] >> (pos + i) & 1 if i < length and pos + i <= msb else sign
        d |= bit << i
    return d


def bfi(kind: str, a: Numbers) -> int:
    msb = width_of(kind) - 1
    pos, length = field(kind, a[2], a[3])
    f = a[1]
    for i in range(length):
        if pos + i <= msb:
            f = f & ~(1 << pos + i) | (a[0] >> i & 1) << pos + i
    return f


def bfind(kind: str, a: Numbers, shift: bool) -> int:
    msb = width_of(kind) - 1
    x = a[0]
    if kind[0] == "s" and x >> msb & 1:
        x ^= (1 << msb + 1) - 1
    for i in range(msb, -1, -1):
        if x >> i & 1:
            return msb - i if shift else i
    return 0xFFFFFFFF


def fns(a: Numbers) -> int:
    mask, base, offset = a[0], a[1], signed(a[2], 32)
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    position = base
    count = abs(offset) - 1
    step = 1 if offset > 0 else -1
    while 0 <= position < 32:
        if mask >> position & 1:
            if count == 0:
                return position
            count -= 1
        position += step
    return 0xFFFFFFFF


def bmsk(wrap: bool, a: Numbers) -> int:
    start, length = (x & 31 if wrap else min(x, 32) for x in a)
    return sum(1 << bit for bit in range(start, min(start + length, 32)))


def szext(kind: str, wrap: bool, a: Numbers) -> int:
    count = a[1] & 31 if wrap else min(a[1], 32)
    if count == 0:
        return 0
    low = a[0] & ((1 << count) - 1)
    return signed(low, count) if kind[0] == "s" else low


def parts(word: int, width: int, is_signed: bool) -> Numbers:
    cut = [word >> place & ((1 << width) - 1) for place in range(0, 32, width)]
    return [signed(part, width) for part in cut] if is_signed else cut


def dot(words: list[str], kinds: list[str], a: Numbers) -> int:
    signs = [kind[0] == "s" for kind in kinds]
    second = parts(a[1], 8, signs[1])
    if words[0] == "dp4a":
        first = parts(a[0], 8, signs[0])
    else:
        first = parts(a[0], 16, signs[0])
        second = second[2:] if words[1] == "hi" else second[:2]
    return a[2] + sum(x * y for x, y in zip(first, second, strict=True))


def lop3(a: Numbers) -> int:
    d = 0
    for bit in range(32):
        index = (a[0] >> bit & 1) << 2 | (a[1] >> bit & 1) << 1 | a[2] >> bit & 1
        d |= (a[3] >> index & 1) << bit
    return d


def shf(words: list[str], a: Numbers) -> int:
    n = a[2] & 31 if words[2] == "wrap" else min(a[2], 32)
    if words[1] == "l":
        return a[1] << n | a[0] >> 32 - n
    return a[1] << 32 - n | a[0] >> n


PRMT = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}
"""The ISA's table of modes: the source of each byte, the lowest first, by selector[1:0]."""


def prmt(mode: str, a: Numbers) -> int:
    pool = a[1] << 32 | a[0]
    choices = PRMT[mode][a[2] & 3] if mode else [a[2] >> 4 * k & 15 for k in range(4)]
    d = 0
    for place, choice in enumerate(choices):
        byte = pool >> 8 * (choice & 7) & 0xFF
        if choice & 8:
            byte = 0xFF if byte & 0x80 else 0
        d |= byte << 8 * place
    return d


def shift(base: str, kind: str, a: Numbers) -> int:
    n = min(a[1], width_of(kind))
    return a[0] << n if base == "shl" else number(a[0], kind.replace("b", "u")) >> n


def one_word(words: list[str], kind: str, a: Numbers) -> int:
    """An instruction of bits with one type."""
    base, width = words[0], width_of(kind)
    mode = words[1] if len(words) > 1 else ""
    return {
        "popc": lambda: a[0].bit_count(),
        "clz": lambda: width - a[0].bit_length(),
        "brev": lambda: int(f"{a[0]:0{width}b}"[::-1], 2),
        "bfind": lambda: bfind(kind, a, mode == "shiftamt"),
        "fns": lambda: fns(a),
        "bfe": lambda: bfe(kind, a),
        "bfi": lambda: bfi(kind, a),
        "bmsk": lambda: bmsk(mode == "wrap", a),
        "szext": lambda: szext(kind, mode == "wrap", a),
        "and": lambda: a[0] & a[1],
        "or": lambda: a[0] | a[1],
        "xor": lambda: a[0] ^ a[1],
        "not": lambda: ~a[0],
        "cnot": lambda: int(a[0] == 0),
        "lop3": lambda: lop3(a),
        "shf": lambda: shf(words, a),
        "shl": lambda: shift(base, kind, a),
        "shr": lambda: shift(base, kind, a),
        "prmt": lambda: prmt(mode, a),
        "selp": lambda: a[0] if a[2] else a[1],
    }[base]()


# -- the rest --------------------------------------------------------------------------------------


def carried(words: list[str], kind: str, a: Numbers) -> int:
    """The sequences of ``edge_forms.toml`` that set a carry, use it, and add what goes out."""
    width = width_of(kind)
    mask = (1 << width) - 1
    base, out = words[0], "cc" in words
    if base == "add":
        total = a[0] + a[1]
        return total + (total >> width)
    if base == "addc":
        carry = a[0] >> width - 1
        total = a[1] + a[2] + carry
        return total + (total >> width if out else carry)
    if base == "sub":
        return a[0] - a[1] + (a[0] >= a[1])  # as on an H200, whose borrow is a missing carry
    if base == "subc":
        return a[1] - a[2] - (a[0] < 1)
    x = [number(value, kind) for value in a]
    product = x[0] * x[1] >> (width if "hi" in words else 0) & mask
    if base == "madc":
        return product + a[2] + (a[0] >> width - 1)
    total = product + a[2]
    return total + (total >> width)


def halves(words: list[str], kind: str, a: Numbers) -> int:
    """An instruction of two 16-bit numbers at once."""
    half = kind[:-2]
    low = arithmetic(words, half, [value & 0xFFFF for value in a])
    high = arithmetic(words, half, [value >> 16 for value in a])
    return (high & 0xFFFF) << 16 | low & 0xFFFF


def pack(kind: str, a: Numbers) -> int:
    width = width_of(kind)
    mask = (1 << width) - 1
    first, second = (clamp(signed(value, 32), kind) & mask for value in a[:2])
    upper = a[2] << 2 * width if len(a) > 2 else 0
    return upper | first << width | second


def selected(words: list[str], kinds: list[str], a: Numbers) -> int:
    """``setp``, ``set`` and ``slct``."""
    if words[0] == "slct":
        return a[0] if number(a[2], kinds[-1]) >= 0 else a[1]
    x = [number(value, kinds[-1].replace("b", "u")) for value in a[:2]]
    holds = int(COMPARE[words[1]](*x))
    if len(words) > 2:
        holds = BOOLEAN[words[2]](holds, a[2])
    return -holds if words[0] == "set" else holds


def is_type(word: str) -> bool:
    return word == "pred" or (word[0] in "bus" and word[1:].removesuffix("x2").isdigit())


def value(opcode: str, operands: Numbers, width: int) -> int:
    """What a register of ``width`` bits holds after an instruction."""
    split = opcode.split(".")
    kinds = [word for word in split[1:] if is_type(word)]
    words = [word for word in split if not is_type(word)]
    if kinds[0].endswith("x2"):
        result = halves(words, kinds[0], operands)
    elif words[:2] == ["cvt", "pack"]:
        result = pack(kinds[0], operands)
    elif words[0] == "cvt":
        source = number(operands[0], kinds[1])
        result = clamp(source, kinds[0]) if "sat" in words else number(source, kinds[0])
    elif words[0] in ("setp", "set", "slct"):
        result = selected(words, kinds, operands)
    elif words[0] in ("dp4a", "dp2a"):
        result = dot(words, kinds, operands)
    elif "cc" in words or words[0] in ("addc", "subc", "madc"):
        result = carried(words, kinds[0], operands)
    elif words[0] in ARITHMETIC:
        result = arithmetic(words, kinds[0], operands)
    else:
        result = one_word(words, kinds[0], operands)
    return result & ((1 << width) - 1)
