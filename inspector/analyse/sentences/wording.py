"""Numbers, forms and conditions as short text."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping

from inspector.analyse.sentences import forms
from inspector.analyse.sentences.context import Context, Parameter
from inspector.analyse.sentences.forms import Atom, LinearForm
from inspector.analyse.sentences.values import Condition
from inspector.listing.ptx_statement import ImmediateOperand

MAX_FORMULA_CHARS = 160
"""Characters of a formula that are still read."""

_POINTEE = re.compile(
    r"\*(?:fp|bf|[iu])([1-9]\d{0,3})\Z|.*\b(float|double|int|half|long long|char)\b[^*]*\*\Z"
)
_SIZES = {"float": 4, "double": 8, "int": 4, "half": 2, "long long": 8, "char": 1}
_SIGNS = {"lt": "<", "le": "≤", "gt": ">", "ge": "≥", "eq": "=", "ne": "≠"}
ATOM, PRODUCT, SUM, LOOSE = 0, 1, 2, 3
"""How tightly a text holds together."""


class Wording:
    """Text of values; ``names`` and ``constants`` are tables of ptx_sentences.toml."""

    def __init__(
        self, context: Context, names: Mapping[str, str], constants: Mapping[str, str]
    ) -> None:
        block = "program" if context.language == "triton" else "block"
        self.block = block
        self.context = context
        self.names = {k: v.replace("{block}", block) for k, v in names.items()}
        self.constants = constants
        self.parameters = {p.symbol: p for p in context.parameters if p.symbol}
        size = context.block
        self.row = context.language == "triton" or (size is not None and size[1:] == (1, 1))
        """Whether a block's threads are numbered by %tid.x alone."""

    # -- numbers ----------------------------------------------------------------------------

    def real(self, one: ImmediateOperand) -> str:
        """A floating-point constant in the fewest digits that give its bits."""
        value = float(one.value if one.value is not None else 0)
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        single = one.text.lstrip("- ")[:2].lower() == "0f"
        text = _shortest(value) if single else repr(value)
        known = self.constants.get(struct.pack(">f", abs(value)).hex().upper()) if single else None
        return f"{text} ({'−' if value < 0 else ''}{known})" if known else text

    def span(self, low: int, high: int) -> str:
        """``0…127``; "" if it says next to nothing."""
        if high - low >= (1 << 31) - 2 or abs(low) > 1 << 40 or low == high:
            return ""
        return f"{low}…{high}".replace("-", "−")

    # -- forms ------------------------------------------------------------------------------

    def form(self, value: LinearForm, line: int | None = None) -> str:
        """A form as a formula, read at ``line``; "" if that would be too long."""
        text = self._sum(value, line)[0]
        return text if len(text) <= MAX_FORMULA_CHARS else ""

    def known(self, value: LinearForm, line: int) -> str:
        """A form and its range: ``4 × thread, 0…508``."""
        text = self.form(value, line)
        role = self._role(value)
        span = self.span(value.low, value.high)
        return ", ".join(part for part in (role or text, span) if part)

    def _role(self, value: LinearForm) -> str:
        alone = value.atom
        if alone is None:
            return ""
        name = self._atom(alone, None)[0]
        return {"thread": "thread in block", "warp": "warp in block"}.get(name, "")

    def _sum(self, value: LinearForm, line: int | None) -> tuple[str, int]:
        if not value.terms:
            return _signed(value.constant), ATOM
        pointers = [t for t in value.terms if self._first(t[0]) and t[1] == 1]
        rest = [t for t in value.terms if t not in pointers]
        rest.sort(key=lambda t: -abs(t[1]))
        by = math.gcd(value.constant, *(f for _, f in rest))
        size = self._pointee(pointers[0][0]) if len(pointers) == 1 else None
        if size and by % size == 0:
            by = size
        many = len(rest) + bool(value.constant) > 1
        if by > 1 and rest and many:
            inner = LinearForm(
                tuple((a, f // by) for a, f in rest), value.constant // by, 0, 0, value.size
            )
            pieces = [(True, self._atom(a, line)[0]) for a, _ in pointers]
            pieces.append((True, f"{by} × ({self._plain(inner, line)})"))
            return _joined(pieces), SUM if pointers else PRODUCT
        return self._terms(pointers + rest, value.constant, line)

    def _plain(self, value: LinearForm, line: int | None) -> str:
        terms = sorted(value.terms, key=lambda t: -abs(t[1]))
        return self._terms(terms, value.constant, line)[0]

    def _terms(
        self, terms: list[tuple[Atom, int]], constant: int, line: int | None
    ) -> tuple[str, int]:
        pieces: list[tuple[bool, str]] = []
        terms.sort(key=lambda t: t[1] < 0)
        alone = len(terms) == 1 and not constant
        level = ATOM
        for atom, factor in terms:
            text, level = self._atom(atom, line)
            if abs(factor) != 1:
                text, level = f"{abs(factor)} × {_tight(text, level, PRODUCT)}", PRODUCT
            elif not (alone and factor > 0):
                text = _tight(text, level, SUM if factor > 0 else PRODUCT)
            pieces.append((factor > 0, text))
        if constant:
            pieces.append((constant > 0, str(abs(constant))))
        return _joined(pieces), level if alone and pieces[0][0] else SUM

    def _atom(self, atom: Atom, line: int | None) -> tuple[str, int]:
        if atom.op in forms.LEAVES:
            return self._leaf(atom, line), ATOM
        inner = [self._sum(a, line) for a in atom.args]
        if atom.op == "product":
            left, right = (_tight(text, level, PRODUCT) for text, level in inner)
            return f"{left} × {right}", PRODUCT
        if atom.op in ("quotient", "remainder"):
            by = atom.args[1].constant
            of = atom.args[0].atom
            if by == 32 and self.row and of is not None and of.name == "%tid.x":
                return ("warp" if atom.op == "quotient" else "lane"), ATOM
            if atom.op == "quotient":
                return f"⌊{_tight(*inner[0], ATOM)} / {by}⌋", ATOM
            return f"{_tight(*inner[0], PRODUCT)} mod {by}", LOOSE
        if atom.op == "wrap":
            return inner[0] if _silent(atom) else (f"{atom.name}({inner[0][0]})", ATOM)
        if atom.op in ("min", "max"):
            return f"{atom.op}({inner[0][0]}, {inner[1][0]})", ATOM
        sign = {"and": "&", "or": "|"}.get(atom.op, atom.op)
        return f"{_tight(*inner[0], PRODUCT)} {sign} {_tight(*inner[1], PRODUCT)}", LOOSE

    def _leaf(self, atom: Atom, line: int | None) -> str:
        if atom.op == "parameter":
            p = self.parameters.get(atom.name)
            return self.parameter(p) if p is not None else atom.name
        if atom.op == "special":
            return self.names.get(atom.name, atom.name)
        if atom.line is not None and atom.line != line:
            return f"%{atom.name.lstrip('%')} (as of line {atom.line})"
        return atom.name

    def parameter(self, p: Parameter) -> str:
        """``n_cols``, ``parameter 3``."""
        return p.name or f"parameter {p.index}"

    def _pointer(self, atom: Atom) -> bool:
        if atom.op == "symbol":
            return True
        p = self.parameters.get(atom.name) if atom.op == "parameter" else None
        return p is not None and p.pointer

    def _first(self, atom: Atom) -> bool:
        """Whether an atom is, or may be, an address that others are added to."""
        p = self.parameters.get(atom.name) if atom.op == "parameter" else None
        return self._pointer(atom) or (p is not None and p.type is None and p.size == 8)

    def is_address(self, value: LinearForm) -> bool:
        """Whether a pointer is in a form."""
        return any(self._pointer(atom) and factor == 1 for atom, factor in value.terms)

    def _pointee(self, atom: Atom) -> int | None:
        p = self.parameters.get(atom.name)
        match = _POINTEE.match(p.type or "") if p is not None else None
        if match is None:
            return None
        return max(1, int(match[1]) // 8) if match[1] else _SIZES[match[2]]

    # -- conditions -------------------------------------------------------------------------

    def condition(self, one: Condition, line: int | None = None) -> str:
        """``4 × thread < n_cols``."""
        if one.op in _SIGNS:
            left, right = (self._sum(f, line)[0] for f in one.forms)
            return f"{left} {_SIGNS[one.op]} {right}"
        inner = [self.condition(p, line) for p in one.parts]
        if one.op == "number":
            return "true" if one.always else "false"
        if one.op == "not":
            return f"not ({inner[0]})"
        mixed = [
            f"({t})" if p.op in ("and", "or") and p.op != one.op else t
            for t, p in zip(inner, one.parts, strict=True)
        ]
        return f" {one.op} ".join(mixed)

    def told(self, one: Condition) -> str:
        """A condition where it says more than its registers do: of the launch and parameters."""
        leaves = [leaf for f in _forms(one) for leaf in forms.leaves(f)]
        if one.always is not None:
            return "always" if one.always else "never"
        if not leaves or any(leaf.op == "register" for leaf in leaves):
            return ""
        text = self.condition(one)
        return text if len(text) <= MAX_FORMULA_CHARS // 2 else ""


def _forms(one: Condition) -> list[LinearForm]:
    return [*one.forms, *(f for part in one.parts for f in _forms(part))]


def _silent(atom: Atom) -> bool:
    """Whether a wrap can be left out: only values too large for the program are changed."""
    inner = atom.args[0]
    if abs(inner.constant) >= 1 << 31:
        return False
    return atom.name[0] == "s" or inner.low >= 0


def _tight(text: str, level: int, at: int) -> str:
    return f"({text})" if level > at else text


def _signed(value: int) -> str:
    return str(value).replace("-", "−")


def _joined(pieces: list[tuple[bool, str]]) -> str:
    out = ""
    for plus, text in pieces:
        if out:
            out += f" {'+' if plus else '−'} {text}"
        else:
            out = text if plus else f"−{text}"
    return out


def _shortest(value: float) -> str:
    """The shortest decimal that is the same 32-bit float."""
    packed = struct.pack(">f", value)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        try:
            if struct.pack(">f", float(text)) == packed:
                return text.replace("-", "−", 1) if text[0] == "-" else text
        except OverflowError:
            continue
    return repr(value)
