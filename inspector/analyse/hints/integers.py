"""Integer PTX instructions on 32 values at once. What is not known stays unknown (None)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence

Lanes = int | tuple[int, ...]

COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}
_TYPE = re.compile(r"\.([bsuf]f?|pred)(8|16|32|64|128)?(?:x2)?\Z")


def width_of(opcode: str) -> int | None:
    """Bits of the type that an opcode ends in: 32 of ``ld.global.v4.b32``."""
    found = _TYPE.search(opcode)
    return int(found[2]) if found and found[2] else None


def _quotient(a: int, b: int) -> int:
    """Division towards zero; of nothing, all bits."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _logic3(a: int, b: int, c: int, table: int) -> int:
    out = 0
    for at in range(8):
        if table >> at & 1:
            x = a if at & 4 else ~a
            y = b if at & 2 else ~b
            z = c if at & 1 else ~c
            out |= x & y & z
    return out


def _inserted(a: int, b: int, start: int, count: int) -> int:
    mask = (1 << min(count, 64)) - 1 << min(start, 64)
    return (b & ~mask) | (a << min(start, 64) & mask)


def _permuted(a: int, b: int, choice: int) -> int:
    pool = (b & 0xFFFFFFFF) << 32 | a & 0xFFFFFFFF
    return sum((pool >> 8 * (choice >> 4 * k & 7) & 0xFF) << 8 * k for k in range(4))


OPERATIONS: dict[str, Callable[..., int]] = {
    "cvta": lambda a: a,
    "cvt": lambda a: a,
    "not": lambda a: ~a,
    "neg": lambda a: -a,
    "abs": abs,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "mul24": operator.mul,
    "mad": lambda a, b, c: a * b + c,
    "mad24": lambda a, b, c: a * b + c,
    "div": _quotient,
    "rem": lambda a, b: a - _quotient(a, b) * b if b else a,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": lambda a, b: a << min(b & 0xFFFFFFFF, 64),
    "shr": lambda a, b: a >> min(b & 0xFFFFFFFF, 64),
    "bfe": lambda a, b, c: a >> min(b, 64) & (1 << min(c, 64)) - 1,
    "bfi": _inserted,
    "lop3": _logic3,
    "prmt": _permuted,
    "selp": lambda a, b, p: a if p else b,
    "pack": lambda a, b: a & 0xFFFFFFFF | b << 32,
}
_HIGH = re.compile(r"(?:mul|mad)\.hi\b")
_FLOAT = re.compile(r"\.(?:b?f|tf)\d")


def compute(opcode: str, values: Sequence[Lanes | None]) -> Lanes | None:
    """The result of an integer instruction, wrapped to its type; None where it is not known."""
    base = opcode.partition(".")[0]
    if _FLOAT.search(opcode) or _HIGH.match(opcode):
        return None
    if base == "setp":
        function: Callable[..., int] = lambda a, b: int(COMPARE[opcode.split(".")[1]](a, b))  # noqa: E731
    elif base in OPERATIONS:
        function = OPERATIONS[base]
    else:
        return None
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        return _despite(base, values)
    wrap = _wrapper(opcode, base)
    narrow = _signedness(opcode, base)
    try:
        if all(isinstance(value, int) for value in known):
            return wrap(function(*(narrow(value) for value in known)))  # type: ignore[arg-type]
        columns = [(v,) * 32 if isinstance(v, int) else v for v in known]
        return tuple(wrap(function(*map(narrow, row))) for row in zip(*columns, strict=True))
    except (TypeError, ValueError, OverflowError):
        return None  # not as many operands as the instruction has


def _despite(base: str, values: Sequence[Lanes | None]) -> Lanes | None:
    """What is known though an operand is not: ``and`` with 0, ``or`` with true."""
    if base == "and" and 0 in values:
        return 0
    return None


def _same(value: int) -> int:
    return value


def _signedness(opcode: str, base: str) -> Callable[[int], int]:
    """Operands as the type reads them: for what depends on the sign."""
    if base not in ("div", "rem", "min", "max", "shr", "setp", "mul", "mad", "cvt", "bfe"):
        return _same
    found = re.search(r"\.([su])(8|16|32|64)\Z", opcode)
    if found is None:
        return _same
    bits = int(found[2])
    return _signed(bits) if found[1] == "s" else _unsigned(bits)


def _wrapper(opcode: str, base: str) -> Callable[[int], int]:
    if base in ("setp", "cvta"):
        return _same
    if base == "cvt":
        found = re.search(r"\.([subf])(8|16|32|64)\.", opcode)
    else:
        found = re.search(r"\.([subp])(8|16|32|64)\Z", opcode)
    if found is None:
        return _same if not opcode.endswith(".pred") else lambda v: v & 1
    bits = int(found[2]) * (2 if ".wide" in opcode else 1)
    return _signed(bits) if found[1] == "s" else _unsigned(bits)


def _signed(bits: int) -> Callable[[int], int]:
    half, whole = 1 << bits - 1, 1 << bits
    return lambda value: (value + half) % whole - half


def _unsigned(bits: int) -> Callable[[int], int]:
    mask = (1 << bits) - 1
    return lambda value: value & mask
