"""Values of a PTX function's registers, derived from its instructions and its launch.

Only registers with exactly one definition are followed; any other goes by its own name together
with the line that reads it, since what it holds changes. Values are computed on request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import gcd

from inspector.analyse.sentences import forms
from inspector.analyse.sentences.context import Context, Parameter
from inspector.analyse.sentences.forms import (
    Atom,
    LinearForm,
    add,
    constant,
    divided,
    made,
    modulo,
    scale,
    wrapped,
)
from inspector.analyse.sentences.statements import Statements
from inspector.listing.ptx_operands import Operand, OperandKind, WordedStatement

# -- and, or, xor of forms ------------------------------------------------------------------------
# ``and``, ``or`` and ``xor`` of forms: sums where no bit can be set on both sides.


def bitwise(op: str, a: LinearForm, b: LinearForm, bits: int) -> LinearForm:
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


def _with_number(op: str, a: LinearForm, mask: int, bits: int) -> LinearForm | None:
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


def _disjoint(a: LinearForm, b: LinearForm, bits: int) -> bool:
    """Whether no bit can be set in both."""
    for one, other in ((a, b), (b, a)):
        zeros = one.multiple & -one.multiple or 1 << bits
        if other.low >= 0 and other.high < zeros:
            return True
    return _ones(a, bits) & _ones(b, bits) == 0


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


# -- special registers ----------------------------------------------------------------------------
# Special registers as forms: those that stay the same while a thread runs.
#
# Ranges are from the PTX ISA, chapter "Special Registers", and from the CUDA C++ Programming
# Guide, "Compute Capabilities" (a block: 1024 threads, 64 along z; a grid: 2^31-1, 65535, 65535
# blocks).

AXES = "xyz"
BLOCK = (1024, 1024, 64)
GRID = ((1 << 31) - 1, 65535, 65535)
THREADS = 1024

FIXED = {"%laneid": 31, "%nwarpid": (1 << 32) - 1, "%cluster_ctarank": (1 << 32) - 1}
"""Others that stay the same, and the most that they can be."""


def block_range(context: Context, axis: int) -> tuple[int, int]:
    """The fewest and the most threads of a block along an axis."""
    if context.block is not None:
        return context.block[axis], context.block[axis]
    most = THREADS
    if context.most is not None:
        x, y, z = context.most
        most = min(most, x * y * z)
    return 1, min(most, BLOCK[axis])


def grid_range(context: Context, axis: int) -> tuple[int, int]:
    """The fewest and the most blocks of a grid along an axis."""
    if context.grid is not None:
        return context.grid[axis], context.grid[axis]
    return 1, GRID[axis]


def special(name: str, context: Context) -> LinearForm | None:
    """A special register's value; None if it may change or is no number."""
    base, _, component = name.strip().partition(".")
    axis = AXES.find(component) if component else -1
    if base in ("%tid", "%ntid", "%ctaid", "%nctaid"):
        if axis < 0:
            return None
        sizes = block_range if base.endswith("tid") else grid_range
        low, high = sizes(context, axis)
        if base in ("%tid", "%ctaid"):
            low, high = 0, high - 1
        return forms.leaf("special", f"{base}.{component}", low, max(low, high))
    return forms.leaf("special", base, 0, FIXED[base]) if base in FIXED else None


# -- integer instructions -------------------------------------------------------------------------
# What integer instructions of PTX do to forms.
#
# Written from the PTX ISA, chapters "Integer Arithmetic Instructions", "Logic and Shift
# Instructions" and "Data Movement and Conversion Instructions".

Get = Callable[[Operand], LinearForm]

_TYPE = re.compile(r"[busf]([1-9]\d{0,3})\Z")


def kind_of(part: str) -> tuple[int, bool] | None:
    """Bits of an integer type and whether it is signed; None if ``part`` is no such type."""
    match = _TYPE.match(part)
    return (int(match[1]), part[0] == "s") if match and part[0] != "f" else None


def types_of(one: WordedStatement) -> tuple[tuple[int, bool], ...]:
    """The integer types in an opcode, in order."""
    return tuple(kind for part in one.parts[1:] if (kind := kind_of(part)))


_PLAIN = (
    OperandKind.REGISTER,
    OperandKind.SPECIAL,
    OperandKind.NUMBER,
    OperandKind.NAME,
    OperandKind.VECTOR,
)


def result(one: WordedStatement, register: str, width: int, get: Get) -> LinearForm | None:
    """What ``register`` of ``width`` bits holds after a statement that defines it.

    None if that is not known. ``get`` gives the form of an operand, modulo its own width.
    """
    kinds = types_of(one)
    if not kinds or not one.operands or kinds[-1][0] not in (8, 16, 32, 64):
        return None
    bits, signed = kinds[-1]
    first = one.operands[0]
    parts = one.parts
    if first.kind is OperandKind.VECTOR:
        return _unpacked(one, register, bits, get)
    if first.kind is not OperandKind.REGISTER or "." in first.text or first.name != register:
        return None
    args = one.operands[1:]
    if any(
        a.kind not in _PLAIN or ("." in a.text and a.kind is OperandKind.REGISTER) for a in args
    ):
        return None
    if any(a.negated for a in args):
        return None
    base = parts[0]
    if base == "mov" and len(args) == 1:
        return (
            get(args[0]) if args[0].kind is not OperandKind.VECTOR else _packed(args[0], bits, get)
        )
    if any(a.kind is OperandKind.VECTOR for a in args):
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


def _unpacked(one: WordedStatement, register: str, bits: int, get: Get) -> LinearForm | None:
    """``mov.b64 {%r1, %r2}, %rd1``: the lowest bits first."""
    names = [p.name for p in one.operands[0].parts]
    if one.parts[0] != "mov" or len(one.operands) != 2 or names.count(register) != 1:
        return None
    if one.operands[1].kind is not OperandKind.REGISTER:
        return None
    each, at = bits // max(1, len(names)), names.index(register)
    whole = get(one.operands[1])
    if at == 0:
        return whole
    return forms.divided(forms.wrapped(whole, bits, False), 1 << each * at)


def _packed(vector: Operand, bits: int, get: Get) -> LinearForm | None:
    each = bits // max(1, len(vector.parts))
    out = forms.constant(0)
    for i, part in enumerate(vector.parts):
        if part.kind not in (OperandKind.REGISTER, OperandKind.NUMBER) or each not in (8, 16, 32):
            return None
        out = forms.add(out, forms.scale(forms.wrapped(get(part), each, False), 1 << each * i))
    return out


def _converted(
    one: WordedStatement, width: int, args: tuple[Operand, ...], get: Get
) -> LinearForm | None:
    """``cvt.u64.u32``: the source is read as its type, and kept modulo the destination's."""
    kinds = types_of(one)
    plain = len(one.parts) == 3 and len(kinds) == 2 and len(args) == 1
    if not plain or args[0].kind not in (
        OperandKind.REGISTER,
        OperandKind.SPECIAL,
        OperandKind.NUMBER,
    ):
        return None
    to, of = kinds
    read = forms.wrapped(get(args[0]), *of)
    # A destination narrower than its register is extended to all of it.
    return forms.wrapped(read, *to) if to[0] != width else forms.reduced(read, to[0])


def _computed(
    one: WordedStatement, bits: int, signed: bool, args: list[LinearForm]
) -> LinearForm | None:
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


def _shifted(base: str, bits: int, signed: bool, args: list[LinearForm]) -> LinearForm | None:
    by = args[1].number
    if by is None:
        return None
    by %= 1 << 32
    if base == "shl":
        return forms.scale(args[0], 1 << by) if by < bits else forms.constant(0)
    return forms.divided(forms.wrapped(args[0], bits, signed), 1 << min(by, bits))


def _quotient(base: str, read: list[LinearForm]) -> LinearForm | None:
    """Division rounds towards zero, which is down where nothing is negative."""
    by = read[1].number
    if by is None or by <= 0 or read[0].low < 0:
        return None
    return forms.divided(read[0], by) if base == "div" else forms.modulo(read[0], by)


def _field(bits: int, signed: bool, args: list[LinearForm]) -> LinearForm | None:
    at, length = args[1].number, args[2].number
    if at is None or length is None or signed:
        return None
    at, length = at & 255, length & 255
    kept = forms.divided(forms.wrapped(args[0], bits, False), 1 << min(at, bits))
    return forms.modulo(kept, 1 << length) if length < bits else kept


MAX_CONDITIONS = 4


@dataclass(frozen=True, slots=True)
class Condition:
    """What a predicate says: ``lt`` … of two forms, ``and``, ``or``, ``not`` of conditions, or
    ``number`` where it is a constant.

    ``always`` is True or False if the ranges decide it.
    """

    op: str
    forms: tuple[LinearForm, ...] = ()
    parts: tuple[Condition, ...] = ()
    always: bool | None = None
    size: int = 1


class Values:
    """The values of one function's registers."""

    def __init__(self, statements: Statements, context: Context) -> None:
        self.statements = statements
        self.context = context
        self._known: dict[str, LinearForm] = {}
        self._conditions: dict[str, Condition | None] = {}
        self._parameters = {p.symbol: p for p in context.parameters if p.symbol}

    # -- integers ---------------------------------------------------------------------------

    def register(self, name: str, line: int) -> LinearForm:
        """What a register holds when line ``line`` reads it, modulo its width."""
        if name in self._known:
            return self._known[name]
        if self._definition(name) is None:
            return self._own_name(name, line)
        # Depth first without recursion: a chain may be as long as the function.
        stack: list[tuple[str, Iterator[str]]] = [(name, self._needs(name))]
        open_ = {name}
        while stack:
            current, needs = stack[-1]
            for need in needs:
                if need not in self._known and need not in open_ and self._definition(need):
                    stack.append((need, self._needs(need)))
                    open_.add(need)
                    break
            else:
                stack.pop()
                open_.discard(current)
                self._known[current] = self._compute(current)
        return self._known[name]

    def operand(self, one: Operand, line: int) -> LinearForm | None:
        """What an operand of line ``line`` represents; None if that is no integer."""
        if one.kind is OperandKind.NUMBER:
            return forms.constant(int(one.value or 0))
        if one.kind is OperandKind.REGISTER:
            bare = "." not in one.text and not one.negated
            return self.register(one.name, line) if bare else None
        if one.kind is OperandKind.SPECIAL:
            return special(one.text, self.context)
        if one.kind is OperandKind.NAME:
            return forms.leaf("symbol", one.text, 0, (1 << 64) - 1)
        if one.kind is OperandKind.ADDRESS:
            base = self.operand(one.parts[0], line)
            return forms.add(base, forms.constant(one.offset)) if base is not None else None
        return None

    def parameter(self, address: Operand) -> Parameter | None:
        """The parameter of the kernel that an address is the beginning of."""
        if address.kind is not OperandKind.ADDRESS or address.parts[0].kind is not OperandKind.NAME:
            return None
        return self._parameters.get(address.parts[0].text) if not address.offset else None

    def _definition(self, name: str) -> int | None:
        return self.statements.definition(name)

    def _defining(self, name: str, line: int) -> WordedStatement | None:
        """The statement that defines a register without a guard."""
        found = [
            one
            for one in self.statements.at(line)
            if one.operands and any(name == r for r in _names(one.operands[0]))
        ]
        return found[0] if len(found) == 1 and found[0].guard is None else None

    def _needs(self, name: str) -> Iterator[str]:
        line = self._definition(name)
        one = self._defining(name, line) if line is not None else None
        for operand in one.operands[1:] if one is not None else ():
            yield from _names(operand)

    def _own_name(self, name: str, line: int | None) -> LinearForm:
        return forms.leaf("register", name, 0, (1 << self.statements.bits(name)) - 1, line=line)

    def _compute(self, name: str) -> LinearForm:
        line = self._definition(name)
        one = self._defining(name, line) if line is not None else None
        made: LinearForm | None = None
        if one is not None and line is not None:
            made = self._loaded(one) if one.parts[0] == "ld" else self._result(one, name, line)
        small = made is not None and len(made.terms) <= forms.MAX_TERMS
        if made is not None and small and made.size <= forms.MAX_ATOMS:
            return made
        low, high, multiple = 0, (1 << self.statements.bits(name)) - 1, 1
        if made is not None and made.low >= 0 and made.high <= high:
            low, high, multiple = made.low, made.high, made.multiple or 1
        return forms.leaf("register", name, low, high, multiple)

    def _result(self, one: WordedStatement, name: str, line: int) -> LinearForm | None:
        missing = False

        def get(operand: Operand) -> LinearForm:
            nonlocal missing
            if operand.kind is OperandKind.REGISTER:
                form = self._known.get(operand.name)
                return form if form is not None else self._own_name(operand.name, line)
            value = self.operand(operand, line)
            missing = missing or value is None
            return value if value is not None else forms.constant(0)

        made = result(one, name, self.statements.bits(name), get)
        return None if missing else made

    def _loaded(self, one: WordedStatement) -> LinearForm | None:
        """A scalar that is a parameter of the kernel."""
        kinds = types_of(one)
        if "param" not in one.parts or len(one.operands) != 2 or len(kinds) != 1:
            return None
        p = self.parameter(one.operands[1])
        bits = kinds[0][0]
        if p is None or p.symbol is None or p.size is None or p.size * 8 != bits:
            return None
        if one.operands[0].kind is not OperandKind.REGISTER:
            return None
        # PTX has no sign for a parameter; a narrow one is extended as it is loaded.
        whole = self.statements.bits(one.operands[0].name) == bits
        signed = (p.type or "").startswith(("i", "s")) if whole else kinds[0][1]
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        if isinstance(p.value, int) and not isinstance(p.value, bool) and low <= p.value <= high:
            low = high = p.value
        return forms.leaf("parameter", p.symbol, low, high, p.multiple or 1)

    # -- predicates -------------------------------------------------------------------------

    def condition(self, name: str, depth: int = 0) -> Condition | None:
        """What a predicate with one definition says, None if that is not known."""
        if name in self._conditions:
            return self._conditions[name]
        line = self._definition(name)
        one = self._defining(name, line) if line is not None else None
        condition: Condition | None = None
        if one is not None and line is not None and depth < MAX_CONDITIONS:
            if one.parts[0] == "setp":
                condition = self._comparison(one, name, line)
            elif one.parts[0] in ("and", "or", "not") and one.parts[-1] == "pred":
                condition = self._combined(one, depth)
            elif one.opcode == "mov.pred" and one.operands[-1].kind is OperandKind.NUMBER:
                condition = Condition("number", always=bool(one.operands[-1].value))
        if condition is not None and condition.size > MAX_CONDITIONS:
            condition = None
        if depth == 0:
            self._conditions[name] = condition
        return condition

    def _comparison(self, one: WordedStatement, name: str, line: int) -> Condition | None:
        kind = kind_of(one.parts[-1])
        plain = len(one.parts) == 3 and len(one.operands) == 3
        if kind is None or not plain or one.operands[0].kind is not OperandKind.REGISTER:
            return None
        a, b = (self.operand(o, line) for o in one.operands[1:])
        if a is None or b is None:
            return None
        op = one.parts[1]
        signed = kind[1] and op not in ("lo", "ls", "hi", "hs")
        op = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(op, op)
        a, b = forms.wrapped(a, kind[0], signed), forms.wrapped(b, kind[0], signed)
        return Condition(op, (a, b), always=_decided(op, a, b))

    def _combined(self, one: WordedStatement, depth: int) -> Condition | None:
        parts: list[Condition] = []
        for operand in one.operands[1:]:
            known = self.condition(operand.name, depth + 1)
            if operand.kind is not OperandKind.REGISTER or known is None:
                return None
            parts.append(denied(known) if operand.negated else known)
        if one.parts[0] == "not":
            return denied(parts[0]) if len(parts) == 1 else None
        return joined(one.parts[0], tuple(parts)) if len(parts) == 2 else None


def joined(op: str, parts: tuple[Condition, ...]) -> Condition:
    """``and`` or ``or`` of conditions."""
    said = [p.always for p in parts]
    ends = op == "or"
    always = ends if ends in said else None if None in said else not ends
    return Condition(op, parts=parts, always=always, size=sum(p.size for p in parts))


_DENIED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def denied(one: Condition) -> Condition:
    """The opposite of a condition."""
    always = None if one.always is None else not one.always
    if one.op in _DENIED:
        return Condition(_DENIED[one.op], one.forms, always=always)
    if one.op == "not":
        return one.parts[0]
    return Condition("not", parts=(one,), always=always, size=one.size)


def _decided(op: str, a: LinearForm, b: LinearForm) -> bool | None:
    below, above = a.high < b.low, a.low > b.high
    match op:
        case "lt":
            return True if below else False if a.low >= b.high else None
        case "le":
            return True if a.high <= b.low else False if above else None
        case "gt":
            return True if above else False if a.high <= b.low else None
        case "ge":
            return True if a.low >= b.high else False if below else None
        case "eq" | "ne":
            same = a == b or (a.low == a.high == b.low == b.high)
            if same or below or above:
                return same == (op == "eq")
    return None


def _names(one: Operand) -> list[str]:
    if one.kind is OperandKind.REGISTER:
        return [one.name]
    return [name for part in one.parts for name in _names(part)]
