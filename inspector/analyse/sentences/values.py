"""What each register of a PTX function holds, as far as its instructions and its launch tell.

Only registers with exactly one definition are followed; any other goes by its own name together
with the line that reads it, since what it holds changes. Only what is asked for is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inspector.analyse.sentences import forms
from inspector.analyse.sentences.context import Context, Parameter
from inspector.analyse.sentences.forms import Form
from inspector.analyse.sentences.operands import Kind, Operand, Statement
from inspector.analyse.sentences.special import special
from inspector.analyse.sentences.statements import Statements
from inspector.analyse.sentences.transfer import kind_of, result, types_of

MOST_CONDITIONS = 4


@dataclass(frozen=True, slots=True)
class Condition:
    """What a predicate says: ``lt`` … of two forms, ``and``, ``or``, ``not`` of conditions, or
    ``number`` where it is a constant.

    ``always`` is True or False where the ranges decide it.
    """

    op: str
    forms: tuple[Form, ...] = ()
    parts: tuple[Condition, ...] = ()
    always: bool | None = None
    size: int = 1


class Values:
    """The values of one function's registers."""

    def __init__(self, statements: Statements, context: Context) -> None:
        self.statements = statements
        self.context = context
        self._known: dict[str, Form] = {}
        self._conditions: dict[str, Condition | None] = {}
        self._parameters = {p.symbol: p for p in context.parameters if p.symbol}

    # -- integers ---------------------------------------------------------------------------

    def register(self, name: str, line: int) -> Form:
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

    def operand(self, one: Operand, line: int) -> Form | None:
        """What an operand of line ``line`` stands for; None where that is no integer."""
        if one.kind is Kind.NUMBER:
            return forms.constant(int(one.value or 0))
        if one.kind is Kind.REGISTER:
            bare = "." not in one.text and not one.negated
            return self.register(one.name, line) if bare else None
        if one.kind is Kind.SPECIAL:
            return special(one.text, self.context)
        if one.kind is Kind.NAME:
            return forms.leaf("symbol", one.text, 0, (1 << 64) - 1)
        if one.kind is Kind.ADDRESS:
            base = self.operand(one.parts[0], line)
            return forms.add(base, forms.constant(one.offset)) if base is not None else None
        return None

    def parameter(self, address: Operand) -> Parameter | None:
        """The parameter of the kernel that an address is the beginning of."""
        if address.kind is not Kind.ADDRESS or address.parts[0].kind is not Kind.NAME:
            return None
        return self._parameters.get(address.parts[0].text) if not address.offset else None

    def _definition(self, name: str) -> int | None:
        return self.statements.definition(name)

    def _defining(self, name: str, line: int) -> Statement | None:
        """The statement that defines a register, where it does so whatever happens."""
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

    def _own_name(self, name: str, line: int | None) -> Form:
        return forms.leaf("register", name, 0, (1 << self.statements.bits(name)) - 1, line=line)

    def _compute(self, name: str) -> Form:
        line = self._definition(name)
        one = self._defining(name, line) if line is not None else None
        made: Form | None = None
        if one is not None and line is not None:
            made = self._loaded(one) if one.parts[0] == "ld" else self._result(one, name, line)
        small = made is not None and len(made.terms) <= forms.MOST_TERMS
        if made is not None and small and made.size <= forms.MOST_ATOMS:
            return made
        low, high, multiple = 0, (1 << self.statements.bits(name)) - 1, 1
        if made is not None and made.low >= 0 and made.high <= high:
            low, high, multiple = made.low, made.high, made.multiple or 1
        return forms.leaf("register", name, low, high, multiple)

    def _result(self, one: Statement, name: str, line: int) -> Form | None:
        missing = False

        def get(operand: Operand) -> Form:
            nonlocal missing
            if operand.kind is Kind.REGISTER:
                known = self._known.get(operand.name)
                return known if known is not None else self._own_name(operand.name, line)
            found = self.operand(operand, line)
            missing = missing or found is None
            return found if found is not None else forms.constant(0)

        made = result(one, name, self.statements.bits(name), get)
        return None if missing else made

    def _loaded(self, one: Statement) -> Form | None:
        """A scalar that is a parameter of the kernel."""
        kinds = types_of(one)
        if "param" not in one.parts or len(one.operands) != 2 or len(kinds) != 1:
            return None
        p = self.parameter(one.operands[1])
        bits = kinds[0][0]
        if p is None or p.symbol is None or p.size is None or p.size * 8 != bits:
            return None
        if one.operands[0].kind is not Kind.REGISTER:
            return None
        # PTX has no sign of its own for a parameter; a narrow one is extended as it is loaded.
        whole = self.statements.bits(one.operands[0].name) == bits
        signed = (p.type or "").startswith(("i", "s")) if whole else kinds[0][1]
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        if isinstance(p.value, int) and not isinstance(p.value, bool) and low <= p.value <= high:
            low = high = p.value
        return forms.leaf("parameter", p.symbol, low, high, p.multiple or 1)

    # -- predicates -------------------------------------------------------------------------

    def condition(self, name: str, depth: int = 0) -> Condition | None:
        """What a predicate with one definition says, None where that is not known."""
        if name in self._conditions:
            return self._conditions[name]
        line = self._definition(name)
        one = self._defining(name, line) if line is not None else None
        found: Condition | None = None
        if one is not None and line is not None and depth < MOST_CONDITIONS:
            if one.parts[0] == "setp":
                found = self._comparison(one, name, line)
            elif one.parts[0] in ("and", "or", "not") and one.parts[-1] == "pred":
                found = self._combined(one, depth)
            elif one.opcode == "mov.pred" and one.operands[-1].kind is Kind.NUMBER:
                found = Condition("number", always=bool(one.operands[-1].value))
        if found is not None and found.size > MOST_CONDITIONS:
            found = None
        if depth == 0:
            self._conditions[name] = found
        return found

    def _comparison(self, one: Statement, name: str, line: int) -> Condition | None:
        kind = kind_of(one.parts[-1])
        plain = len(one.parts) == 3 and len(one.operands) == 3
        if kind is None or not plain or one.operands[0].kind is not Kind.REGISTER:
            return None
        a, b = (self.operand(o, line) for o in one.operands[1:])
        if a is None or b is None:
            return None
        op = one.parts[1]
        signed = kind[1] and op not in ("lo", "ls", "hi", "hs")
        op = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(op, op)
        a, b = forms.wrapped(a, kind[0], signed), forms.wrapped(b, kind[0], signed)
        return Condition(op, (a, b), always=_decided(op, a, b))

    def _combined(self, one: Statement, depth: int) -> Condition | None:
        parts: list[Condition] = []
        for operand in one.operands[1:]:
            known = self.condition(operand.name, depth + 1)
            if operand.kind is not Kind.REGISTER or known is None:
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


def _decided(op: str, a: Form, b: Form) -> bool | None:
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
    if one.kind is Kind.REGISTER:
        return [one.name]
    return [name for part in one.parts for name in _names(part)]
