"""What integer instructions of PTX do to forms.

Written from the PTX ISA, chapters "Integer Arithmetic Instructions", "Logic and Shift
Instructions" and "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Callable

from inspector.analyse.sentences import forms
from inspector.analyse.sentences.bitwise import bitwise
from inspector.analyse.sentences.forms import Form
from inspector.analyse.sentences.operands import Kind, Operand, Statement

Get = Callable[[Operand], Form]

_TYPE = re.compile(r"[busf]([1-9]\d{0,3})\Z")


def kind_of(part: str) -> tuple[int, bool] | None:
    """Bits of an integer type and whether it is signed; None where ``part`` is no such type."""
    found = _TYPE.match(part)
    return (int(found[1]), part[0] == "s") if found and part[0] != "f" else None


def types_of(one: Statement) -> list[tuple[int, bool]]:
    """The integer types in an opcode, in order."""
    return [kind for part in one.parts[1:] if (kind := kind_of(part))]


_PLAIN = (Kind.REGISTER, Kind.SPECIAL, Kind.NUMBER, Kind.NAME, Kind.VECTOR)


def result(one: Statement, register: str, width: int, get: Get) -> Form | None:
    """What ``register`` of ``width`` bits holds after a statement that defines it.

    None where that is not known. ``get`` gives the form of an operand, modulo its own width.
    """
    kinds = types_of(one)
    if not kinds or not one.operands or kinds[-1][0] not in (8, 16, 32, 64):
        return None
    bits, signed = kinds[-1]
    first = one.operands[0]
    parts = one.parts
    if first.kind is Kind.VECTOR:
        return _unpacked(one, register, bits, get)
    if first.kind is not Kind.REGISTER or "." in first.text or first.name != register:
        return None
    args = one.operands[1:]
    if any(a.kind not in _PLAIN or ("." in a.text and a.kind is Kind.REGISTER) for a in args):
        return None
    if any(a.negated for a in args):
        return None
    base = parts[0]
    if base == "mov" and len(args) == 1:
        return get(args[0]) if args[0].kind is not Kind.VECTOR else _packed(args[0], bits, get)
    if any(a.kind is Kind.VECTOR for a in args):
        return None
    if base == "cvt":
        return _converted(one, width, args, get)
    if base == "cvta":
        return get(args[0]) if "global" in parts and len(args) == 1 else None
    if "sat" in parts or "cc" in parts or base in ("addc", "subc", "madc"):
        return None
    made = _computed(one, bits, signed, [get(a) for a in args])
    wide = "wide" in parts
    return forms.reduced(made, bits * 2 if wide else bits) if made is not None else None


def _unpacked(one: Statement, register: str, bits: int, get: Get) -> Form | None:
    """``mov.b64 {%r1, %r2}, %rd1``: the lowest bits first."""
    names = [p.name for p in one.operands[0].parts]
    if one.parts[0] != "mov" or len(one.operands) != 2 or names.count(register) != 1:
        return None
    if one.operands[1].kind is not Kind.REGISTER:
        return None
    each, at = bits // max(1, len(names)), names.index(register)
    whole = get(one.operands[1])
    if at == 0:
        return whole
    return forms.divided(forms.wrapped(whole, bits, False), 1 << each * at)


def _packed(vector: Operand, bits: int, get: Get) -> Form | None:
    each = bits // max(1, len(vector.parts))
    out = forms.constant(0)
    for i, part in enumerate(vector.parts):
        if part.kind not in (Kind.REGISTER, Kind.NUMBER) or each not in (8, 16, 32):
            return None
        out = forms.add(out, forms.scale(forms.wrapped(get(part), each, False), 1 << each * i))
    return out


def _converted(one: Statement, width: int, args: tuple[Operand, ...], get: Get) -> Form | None:
    """``cvt.u64.u32``: the source is read as its type, and kept modulo the destination's."""
    kinds = types_of(one)
    plain = len(one.parts) == 3 and len(kinds) == 2 and len(args) == 1
    if not plain or args[0].kind not in (Kind.REGISTER, Kind.SPECIAL, Kind.NUMBER):
        return None
    to, of = kinds
    read = forms.wrapped(get(args[0]), *of)
    # A destination narrower than its register is extended to all of it.
    return forms.wrapped(read, *to) if to[0] != width else forms.reduced(read, to[0])


def _computed(one: Statement, bits: int, signed: bool, args: list[Form]) -> Form | None:
    base, parts = one.parts[0], one.parts
    read = [forms.wrapped(a, bits, signed) for a in args]
    match base, len(args):
        case "add", 2:
            return forms.add(*args)
        case "sub", 2:
            return forms.add(args[0], forms.scale(args[1], -1))
        case "neg", 1:
            return forms.scale(args[0], -1)
        case "not", 1:
            return forms.add(forms.scale(args[0], -1), forms.constant(-1))
        case "mul", 2:
            if "wide" in parts:
                return forms.product(*read)
            return forms.product(*args) if "lo" in parts else None
        case "mad", 3:
            if "wide" in parts:
                return forms.add(forms.product(*read[:2]), args[2])
            return forms.add(forms.product(*args[:2]), args[2]) if "lo" in parts else None
        case (("and" | "or" | "xor"), 2):
            return bitwise(base, args[0], args[1], bits)
        case (("shl" | "shr"), 2):
            return _shifted(base, bits, signed, args)
        case (("div" | "rem"), 2):
            return _quotient(base, read)
        case (("min" | "max"), 2):
            return forms.extreme(base, *read)
        case "bfe", 3:
            return _field(bits, signed, args)
        case _:
            return None


def _shifted(base: str, bits: int, signed: bool, args: list[Form]) -> Form | None:
    by = args[1].number
    if by is None:
        return None
    by %= 1 << 32
    if base == "shl":
        return forms.scale(args[0], 1 << by) if by < bits else forms.constant(0)
    return forms.divided(forms.wrapped(args[0], bits, signed), 1 << min(by, bits))


def _quotient(base: str, read: list[Form]) -> Form | None:
    """Division rounds towards zero, which is down where nothing is negative."""
    by = read[1].number
    if by is None or by <= 0 or read[0].low < 0:
        return None
    return forms.divided(read[0], by) if base == "div" else forms.modulo(read[0], by)


def _field(bits: int, signed: bool, args: list[Form]) -> Form | None:
    at, length = args[1].number, args[2].number
    if at is None or length is None or signed:
        return None
    at, length = at & 255, length & 255
    kept = forms.divided(forms.wrapped(args[0], bits, False), 1 << min(at, bits))
    return forms.modulo(kept, 1 << length) if length < bits else kept
