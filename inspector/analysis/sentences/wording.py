"""Templates and what fills them: formulas of bits, numbers, forms, conditions, directives, labels.

The tables of ``lop3``, ``LOP3.LUT`` and ``PLOP3.LUT`` are functions of three bits: bit
``a << 2 | b << 1 | c`` is the result for bits a, b, c, so that 0xf0 is a alone, 0xcc b, 0xaa c
(PTX ISA, Logic and Shift Instructions: lop3).
"""

import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from inspector.analysis.sentences import forms
from inspector.analysis.sentences.context import Context
from inspector.analysis.sentences.forms import Atom, LinearForm
from inspector.analysis.sentences.values import Condition
from inspector.base.grouping import by_key
from inspector.base.units import plural
from inspector.parsers.ptx_statement import (
    ImmediateOperand,
    register_declarations,
    split,
    strip,
    variable_declaration,
)

_TEXT = """
0; ~(a | b | c); c & ~(a | b); ~(a | b); b & ~(a | c); ~(a | c); ~a & (b ^ c); ~(a | b & c); b & c
& ~a; ~(a | (b ^ c)); c & ~a; ~a & (c | ~b); b & ~a; ~a & (b | ~c); ~a & (b | c); ~a; a & ~(b |
c); ~(b | c); ~b & (a ^ c); ~(b | a & c); ~c & (a ^ b); ~(c | a & b); a ^ (a & b | (b ^ c)); a ^
((b ^ c) | (a ^ ~b)); (a ^ b) & (a ^ c); ~(a & b | (b ^ c)); a ^ (c | a & b); (a & c) ^ (c | ~b);
a ^ (b | a & c); (a & b) ^ (b | ~c); a ^ (b | c); ~(a & (b | c)); a & c & ~b; ~(b | (a ^ c)); c &
~b; ~b & (c | ~a); (a ^ b) & (b ^ c); ~(a & b | (a ^ c)); b ^ (c | a & b); (a | c) ^ (b | ~c); c &
(a ^ b); a ^ (a & b | (b ^ ~c)); c & ~(a & b); a ^ ((a ^ c) | (a ^ ~b)); (a ^ b) & (b | c); a ^ (b
| ~c); (a & b) ^ (b | c); ~a | c & ~b; a & ~b; ~b & (a | ~c); ~b & (a | c); ~b; b ^ (a | b & c);
(a & b) ^ (a | ~c); b ^ (a | c); ~(b & (a | c)); (a ^ b) & (a | c); b ^ (a | ~c); (a & b) ^ (a |
c); ~b | c & ~a; a ^ b; (a ^ b) | ~(a | c); (a ^ b) | c & ~a; ~(a & b); a & b & ~c; ~(c | (a ^
b)); (a ^ c) & (b ^ c); ~(a & c | (a ^ b)); b & ~c; ~c & (b | ~a); c ^ (b | a & c); (a | b) ^ (c |
~b); b & (a ^ c); a ^ (a & c | (b ^ ~c)); (a ^ c) & (b | c); a ^ (c | ~b); b & ~(a & c); a ^ ((a ^
b) | (a ^ ~c)); (a & c) ^ (b | c); ~a | b & ~c; a & ~c; ~c & (a | ~b); c ^ (a | b & c); (a & c) ^
(a | ~b); ~c & (a | b); ~c; c ^ (a | b); ~(c & (a | b)); (a ^ c) & (a | b); c ^ (a | ~b); a ^ c;
(a ^ c) | ~(a | b); (a & c) ^ (a | b); ~c | b & ~a; (a ^ c) | b & ~a; ~(a & c); a & (b ^ c); b ^
(b & c | (a ^ ~c)); (a | c) & (b ^ c); b ^ (c | ~a); (a | b) & (b ^ c); c ^ (b | ~a); b ^ c; (b ^
c) | ~(a | b); (a & b) ^ (c & (a | b)); a ^ b ^ ~c; c ^ (a & b); a ^ ~((a | b) & (b ^ c)); b ^ (a
& c); a ^ ~((a | c) & (b ^ c)); (b ^ c) | b & ~a; ~a | (b ^ c); a & ~(b & c); a ^ ~((a ^ b) | (a ^
c)); (a | c) ^ (b & c); ~b | a & ~c; (a | b) ^ (b & c); ~c | a & ~b; (b ^ c) | a & ~b; ~(b & c); a
^ (b & c); b ^ ~((a ^ c) & (b | c)); (a ^ c) | a & ~b; ~b | (a ^ c); (a ^ b) | a & ~c; ~c | (a ^
b); (a ^ b) | (a ^ c); ~(a & b & c); a & b & c; ~((a ^ b) | (a ^ c)); c & (a ^ ~b); (a ^ ~b) & (c
| ~a); b & (a ^ ~c); (a ^ ~c) & (b | ~a); b ^ ((a ^ c) & (b | c)); a ^ ~(b & c); b & c; (b ^ ~c) &
(b | ~a); c & (b | ~a); (a | b) ^ ~(b & c); b & (c | ~a); (a | c) ^ ~(b & c); a ^ ((a ^ b) | (a ^
c)); ~a | b & c; a & (b ^ ~c); (a | ~b) & (b ^ ~c); a ^ ((a | c) & (b ^ c)); b ^ ~(a & c); a ^ ((a
| b) & (b ^ c)); c ^ ~(a & b); a ^ b ^ c; a ^ ((b ^ c) | ~(a | b)); (a | b) & (b ^ ~c); b ^ ~c; c
^ (a & ~b); ~((a | b) & (b ^ c)); b ^ (a & ~c); ~((a | c) & (b ^ c)); b & c | (a ^ (b | c)); ~(a &
(b ^ c)); a & c; (a ^ ~c) & (a | ~b); c & (a | ~b); (a & c) ^ ~(a | b); (a | b) & (a ^ ~c); a ^
~c; c ^ (b & ~a); ~((a ^ c) & (a | b)); c & (a | b); c ^ ~(a | b); c; c | ~(a | b); a & c | ~a &
b; b & c | (a ^ ~c); c | b & ~a; c | ~a; a & (c | ~b); (a & c) ^ ~(b | c); a ^ ((a ^ c) & (b ^
c)); ~b | a & c; a ^ (b & ~c); ~((a ^ c) & (b | c)); a & c | (a ^ b ^ c); ~(b & (a ^ c)); b & c |
~b & a; a & c | (b ^ ~c); c | a & ~b; c | ~b; a & c | (a ^ b); (a ^ b) | (a ^ ~c); c | (a ^ b); c
| ~(a & b); a & b; (a ^ ~b) & (a | ~c); (a | c) & (a ^ ~b); a ^ ~b; b & (a | ~c); (a & b) ^ ~(a |
c); b ^ (c & ~a); ~((a ^ b) & (a | c)); b & (a | c); b ^ ~(a | c); a & b | ~a & c; b & c | (a ^
~b); b; b | ~(a | c); b | c & ~a; b | ~a; a & (b | ~c); (a & b) ^ ~(b | c); a ^ (c & ~b); ~((a ^
b) & (b | c)); a ^ ((a ^ b) & (b ^ c)); ~c | a & b; a & b | (a ^ b ^ c); ~(c & (a ^ b)); c & b |
~c & a; a & b | (b ^ ~c); a & b | (a ^ c); (a ^ c) | (a ^ ~b); b | a & ~c; b | ~c; b | (a ^ c); b
| ~(a & c); a & (b | c); a ^ ~(b | c); b & a | ~b & c; a & c | (a ^ ~b); c & a | ~c & b; a & b |
(a ^ ~c); a & b | (b ^ c); (b ^ c) | (a ^ ~b); a & b | a & c | b & c; a ^ ~(a & b | (b ^ c)); c |
a & b; c | (a ^ ~b); b | a & c; b | (a ^ ~c); b | c; b | c | ~a; a; a | ~(b | c); a | c & ~b; a |
~b; a | b & ~c; a | ~c; a | (b ^ c); a | ~(b & c); a | b & c; a | (b ^ ~c); a | c; a | c | ~b; a |
b; a | b | ~c; a | b | c; 1
"""
"""Of each table from 0 to 255, the shortest formula."""
_FORMULAS = tuple(" ".join(_TEXT.split()).split("; "))


def restrict(table: int, constants: Sequence[int | None]) -> int:
    """The table where some inputs are always 0 or always 1 (None: not known)."""
    variable_bits = sum((k is None) << 2 - n for n, k in enumerate(constants))
    fixed = sum((k or 0) << 2 - n for n, k in enumerate(constants))
    return sum((table >> (bits & variable_bits | fixed) & 1) << bits for bits in range(8))


def formula(table: int) -> str:
    """A formula in a, b, c with ``~ & ^ |`` of a table of eight bits; ``0`` and ``1`` too."""
    return _FORMULAS[table & 255]


def named(text: str, names: Sequence[str]) -> str:
    """A formula with what a, b and c represent."""
    return text.translate({ord(letter): name for letter, name in zip("abc", names, strict=True)})


_PLACE = re.compile(r"\{(\w+)\}")
_ONE = re.compile(r"(?<![×−+] )(?<![\w.…])1 (arrival|register|thread|byte|column|block)s\b")
_OPTION = re.compile(r"\[([^\[\]]*)\]")

Piece = Callable[[str], str]


class Template(NamedTuple):
    """A sentence, and the qualifiers that an opcode must have for it."""

    qualifiers: frozenset[str]
    text: str


def _silent_qualifiers(
    rules: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, tuple[tuple[str, ...], str]]]:
    """Each qualifier of ``[[silent]]`` with the parts of an instruction, () for any, and why."""
    for rule in rules:
        for instruction in rule.get("instructions", ("",)):
            parts = tuple(instruction.split(".")) if instruction else ()
            for qualifier in rule["qualifiers"]:
                yield qualifier, (parts, rule["reason"])


class Templates:
    """The table ptx_sentences.toml; sections that it does not have are empty.

    ``descriptors`` are the tables of ptx_descriptors.toml.
    """

    def __init__(
        self, table: Mapping[str, Any], descriptors: Mapping[str, Any] | None = None
    ) -> None:
        self.table = table
        self.descriptors = descriptors or {}
        self.pieces: Mapping[str, Mapping[str, str]] = table.get("pieces", {})
        keyed_texts = ((key.split("."), text) for key, text in self.section("say").items())
        self._by_base = by_key(
            (parts[0], Template(frozenset(parts[1:]), text)) for parts, text in keyed_texts
        )
        self._silent = by_key(_silent_qualifiers(table.get("silent", ())))

    def section(self, name: str) -> Mapping[str, str]:
        """One table of words."""
        words: Mapping[str, str] = self.table.get(name, {})
        return words

    def template(self, parts: Sequence[str]) -> Template | None:
        """The template of an opcode: the one that names most of its parts."""
        fitting = [t for t in self._by_base.get(parts[0], ()) if t.qualifiers <= set(parts[1:])]
        return max(fitting, key=lambda t: len(t.qualifiers), default=None)

    def silent(self, parts: Sequence[str], qualifier: str) -> str | None:
        """Why a sentence of an opcode need not say a qualifier; None if it must."""
        for instruction, reason in self._silent.get(qualifier, ()):
            if not instruction or (
                instruction[0] == parts[0] and set(instruction[1:]) <= set(parts[1:])
            ):
                return reason
        return None


def choose_options(template: str, piece: Piece) -> str:
    """A template without the options that have an empty piece."""
    if "[" not in template:
        return template

    def option(match: re.Match[str]) -> str:
        return match[1] if all(map(piece, places(match[1]))) else ""

    return _OPTION.sub(option, template)


def places(template: str) -> list[str]:
    return _PLACE.findall(template)


def fill(template: str, piece: Piece) -> str:
    """A template with its places filled; options with an empty piece are left out."""
    filled: dict[str, str] = {}

    def filled_piece(name: str) -> str:
        if name not in filled:
            filled[name] = piece(name)
        return filled[name]

    text = _PLACE.sub(
        lambda place: filled_piece(place[1]) or "_", choose_options(template, filled_piece)
    )
    if "−" in text:
        text = text.replace("+ −", "− ").replace("− −", "+ ")
    return _ONE.sub(r"1 \1", text) if "1 " in text else text


MAX_FORMULA_CHARS = 160
"""Characters of a formula that are still read."""

_POINTEE = re.compile(
    r"\*(?:fp|bf|[iu])([1-9]\d{0,3})\Z|.*\b(float|double|int|half|long long|char)\b[^*]*\*\Z"
)
_SIZES = {"float": 4, "double": 8, "int": 4, "half": 2, "long long": 8, "char": 1}
_SIGNS = {"lt": "<", "le": "≤", "gt": ">", "ge": "≥", "eq": "=", "ne": "≠"}
ATOM = 0
PRODUCT = 1
SUM = 2
LOOSE = 3
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

    def real(self, immediate: ImmediateOperand) -> str:
        """A floating-point constant in the fewest digits that give its bits."""
        value = float(immediate.value if immediate.value is not None else 0)
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        single = immediate.text.lstrip("- ")[:2].lower() == "0f"
        text = _shortest(value) if single else repr(value)
        constant_name = (
            self.constants.get(struct.pack(">f", abs(value)).hex().upper()) if single else None
        )
        return f"{text} ({'−' if value < 0 else ''}{constant_name})" if constant_name else text

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

    def form_and_range(self, value: LinearForm, line: int) -> str:
        """A form and its range: ``4 × thread, 0…508``."""
        name = "" if value.atom is None else self._atom(value.atom, None)[0]
        text = f"{name} in block" if name in ("thread", "warp") else self.form(value, line)
        return ", ".join(filter(None, (text, self.span(value.low, value.high))))

    def _sum(self, value: LinearForm, line: int | None) -> tuple[str, int]:
        pointers = [t for t in value.terms if self._pointer(t[0], perhaps=True) and t[1] == 1]
        summands = [t for t in value.terms if t not in pointers]
        summands.sort(key=lambda t: -abs(t[1]))
        factor = math.gcd(value.constant, *(f for _, f in summands))
        size = self._pointee(pointers[0][0]) if len(pointers) == 1 else None
        if size and factor % size == 0:
            factor = size
        summand_count = len(summands) + (value.constant != 0)
        if factor < 2 or not summands or summand_count < 2:
            return self._terms(pointers + summands, value.constant, line)
        divided = [(atom, f // factor) for atom, f in summands]
        inner, _ = self._terms(divided, value.constant // factor, line)
        pieces = [(True, self._atom(atom, line)[0]) for atom, _ in pointers]
        pieces.append((True, f"{factor} × ({inner})"))
        return _joined(pieces), SUM if pointers else PRODUCT

    def _terms(
        self, terms: list[tuple[Atom, int]], constant: int, line: int | None
    ) -> tuple[str, int]:
        if not terms:
            return _joined([(constant >= 0, str(abs(constant)))]), ATOM
        terms.sort(key=lambda t: t[1] < 0)
        alone = len(terms) == 1 and not constant
        pieces: list[tuple[bool, str]] = []
        level = SUM
        for atom, factor in terms:
            text, level = self._atom(atom, line)
            if abs(factor) != 1:
                text = f"{abs(factor)} × {_tight(text, level, PRODUCT)}"
                level = PRODUCT
            elif not alone or factor < 0:
                text = _tight(text, level, SUM if factor > 0 else PRODUCT)
            pieces.append((factor > 0, text))
        if alone and terms[0][1] > 0:
            return _joined(pieces), level
        if constant:
            pieces.append((constant >= 0, str(abs(constant))))
        return _joined(pieces), SUM

    def _atom(self, atom: Atom, line: int | None) -> tuple[str, int]:
        if atom.op in forms.LEAVES:
            return self._leaf(atom, line), ATOM
        if atom.op in ("quotient", "remainder"):
            return self._divided(atom, line)
        inner = [self._sum(argument, line) for argument in atom.args]
        if atom.op == "product":
            multiplicand, multiplier = inner
            text = f"{_tight(*multiplicand, PRODUCT)} × {_tight(*multiplier, PRODUCT)}"
            return text, PRODUCT
        if atom.op == "wrap":
            # Left out where only values too large for the program are changed.
            inner_form = atom.args[0]
            not_negative = atom.name[0] == "s" or inner_form.low >= 0
            silent = abs(inner_form.constant) < 1 << 31 and not_negative
            return inner[0] if silent else (f"{atom.name}({inner[0][0]})", ATOM)
        if atom.op in ("min", "max"):
            return f"{atom.op}({inner[0][0]}, {inner[1][0]})", ATOM
        sign = {"and": "&", "or": "|"}.get(atom.op, atom.op)
        return f"{_tight(*inner[0], PRODUCT)} {sign} {_tight(*inner[1], PRODUCT)}", LOOSE

    def _divided(self, atom: Atom, line: int | None) -> tuple[str, int]:
        """A quotient or remainder; of a thread's number and 32, the warp or lane."""
        divisor = atom.args[1].constant
        dividend = atom.args[0].atom
        of_thread = dividend is not None and dividend.name == "%tid.x"
        if divisor == 32 and self.row and of_thread:
            return "warp" if atom.op == "quotient" else "lane", ATOM
        text, level = self._sum(atom.args[0], line)
        if atom.op == "quotient":
            return f"⌊{_tight(text, level, ATOM)} / {divisor}⌋", ATOM
        return f"{_tight(text, level, PRODUCT)} mod {divisor}", LOOSE

    def _leaf(self, atom: Atom, line: int | None) -> str:
        if atom.op == "parameter":
            p = self.parameters.get(atom.name)
            return atom.name if p is None else p.name or f"parameter {p.index}"
        if atom.op == "special":
            return self.names.get(atom.name, atom.name)
        if atom.line is not None and atom.line != line:
            return f"%{atom.name.lstrip('%')} (as of line {atom.line})"
        return atom.name

    def _pointer(self, atom: Atom, perhaps: bool = False) -> bool:
        """Whether an atom is, or may be, an address that others are added to."""
        p = self.parameters.get(atom.name) if atom.op == "parameter" else None
        is_pointer = p is not None and (p.pointer or (perhaps and p.type is None and p.size == 8))
        return is_pointer or atom.op == "symbol"

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

    def condition(self, condition: Condition, line: int | None = None) -> str:
        """``4 × thread < n_cols``."""
        if condition.op in _SIGNS:
            left_form, right_form = condition.forms
            left_text, _ = self._sum(left_form, line)
            right_text, _ = self._sum(right_form, line)
            return f"{left_text} {_SIGNS[condition.op]} {right_text}"
        if condition.op == "number":
            return "true" if condition.always else "false"
        if condition.op == "not":
            return f"not ({self.condition(condition.parts[0], line)})"
        texts = []
        for part in condition.parts:
            text = self.condition(part, line)
            mixed = part.op in ("and", "or") and part.op != condition.op
            texts.append(f"({text})" if mixed else text)
        return f" {condition.op} ".join(texts)

    def condition_text(self, condition: Condition) -> str:
        """A condition where it says more than its registers do: of the launch and parameters."""
        leaves = [leaf for f in _forms(condition) for leaf in forms.leaves(f)]
        if condition.always is not None:
            return "always" if condition.always else "never"
        if not leaves or any(leaf.op == "register" for leaf in leaves):
            return ""
        text = self.condition(condition)
        return text if len(text) <= MAX_FORMULA_CHARS // 2 else ""


def _forms(condition: Condition) -> list[LinearForm]:
    return [*condition.forms, *(f for part in condition.parts for f in _forms(part))]


def _tight(text: str, level: int, strongest: int) -> str:
    return f"({text})" if level > strongest else text


def _joined(pieces: list[tuple[bool, str]]) -> str:
    text = "".join(f" {'+' if plus else '−'} {text}" for plus, text in pieces)
    return text.removeprefix(" + ").replace(" − ", "−", text.startswith(" − "))


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


_WORD = re.compile(r"\s*+(\.?[\w@]++)")
# Not possessive: re of Python 3.11.2 does not go back from an alternative that fails within ()*+.
_LINKING = re.compile(r"\A(?:\s*+\.(?:visible|extern|weak|common)\b)*")
_FILE = re.compile(r'\s*+(\d++)\s++"((?:[^"\\]|\\.)*+)"')
_DEBUGGING = re.compile(r"\$L__(?:tmp|func_begin|func_end|info_string|pubNames|set)\w*+\Z")


def directive(text: str, templates: Templates, context: Context) -> str | None:
    """What a line that is a directive says."""
    code = strip(text[:4096], False)[0].strip()
    table = templates.section("directive")
    if code.startswith(")") and (code := code[1:].strip()) == "":
        return "the parameters end"
    if code[:1] in ("{", "}"):
        body = code[1:].strip(" ;")
        inner = directive(body, templates, context) if body[:1] == "." else None
        return inner or table.get(code[0])
    code = _LINKING.sub("", code)
    word = _WORD.match(code)
    if word is None or (template := table.get(word[1])) is None:
        return None
    body = code[word.end() :].strip().rstrip(";").rstrip()
    return fill(template, _Pieces(body, text, templates, context).get)


class _Pieces:
    """The pieces of a directive; ``{0}`` is the first word after it."""

    def __init__(self, body: str, text: str, templates: Templates, context: Context) -> None:
        self.body = body
        self.text = text
        self.templates = templates
        self.context = context
        self.items = " ".join(split(body)).split()

    def get(self, name: str) -> str:
        if name.isdigit():
            quoted = _FILE.match(self.text.partition(".file")[2]) if '"' in self.body else None
            items = quoted.groups() if quoted else self.items
            return items[int(name)] if int(name) < len(items) else ""
        method = getattr(self, f"_{name}", None)
        return str(method()) if callable(method) else ""

    def _args(self) -> str:
        quoted = re.findall(r'"([^"]*)"', self.text) if '""' in self.body else ()
        return ", ".join(quoted) or self.body

    def _name(self) -> str:
        match = re.search(
            r"(?<![\w$%])([\w$%]++)\s*+(?:\(|\Z)", self.body.rpartition(")")[2] or self.body
        )
        return match[1] if match else self.body

    def _product(self) -> str:
        sizes = [int(p[:9]) for p in split(self.body) if p.isascii() and p.isdecimal()]
        sizes_text = " × ".join(str(s) for s in sizes)
        return f"{sizes_text} = {math.prod(sizes)}" if len(sizes) > 1 else sizes_text

    def _registers(self) -> str:
        declaration = next(register_declarations(f".reg {self.body}"), None)
        if declaration is None:
            return f"registers: {self.body}"
        of_type = self.templates.section("types").get(declaration.type, declaration.type)
        names = ", ".join(
            name if count is None else f"{name}0 … {name}{max(0, count - 1)}"
            for name, count in declaration.names
        )
        kind = "predicates" if declaration.type == "pred" else f"registers of type {of_type}"
        if declaration.type[:1] == "b":
            kind = f"registers of {of_type}"
        return f"{kind}: {names}"

    def _parameter(self) -> str:
        variable = variable_declaration(self.body)
        p = self.context.parameter(variable.name if variable else "")
        if p is None:
            return f"the parameter {self._variable()}"
        place = f", at byte {p.offset} of the parameters" if p.offset is not None else ""
        hidden_note = " (the compiler's own)" if p.hidden else ""
        value = f", {p.value} in this launch" if p.value is not None else ""
        multiple = f", a multiple of {p.multiple}" if p.multiple and p.value is None else ""
        head = f"parameter {p.index} is {p.shown}" if p.name else p.shown
        return f"{head}{hidden_note}{multiple}{value}{place}"

    def _variable(self) -> str:
        variable = variable_declaration(self.body)
        if variable is None:
            return self.body
        if variable.type is None:  # textures and the like have no size
            return variable.name
        reserved_by = "the launch asks for" if ".extern" in self.text else "its values take"
        size = (
            f"as many bytes as {reserved_by}"
            if variable.size is None
            else plural(variable.size, "byte")
        )
        return f"{variable.name}: {size}" + (
            f", aligned to {variable.align}" if variable.align else ""
        )

    def _file(self) -> str:
        return f"source file {self.items[0]}" if self.items else "a source file"


def label(name: str, line: int, jumps: list[int], all_seen: bool) -> str:
    """What a label is there for; ``known`` where all jumps of the function were looked at."""
    if jumps:
        some = [str(n) for n in jumps[:6]] + [f"{len(jumps) - 6} more"] * (len(jumps) > 6)
        listed = " and ".join(filter(None, (", ".join(some[:-1]), some[-1])))
        text = f"jumped to from line{'s' * (len(jumps) > 1)} {listed}"
        return f"{name}: {'the head of a loop, ' * (jumps[-1] >= line)}{text}"
    if _DEBUGGING.match(name):
        return f"{name}: a place that debugging information names"
    return f"{name}: no jump names it" if all_seen else name
