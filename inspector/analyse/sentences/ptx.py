"""PTX read out: a sentence for an instruction, a directive, a label."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from inspector.analyse.isa import Isa
from inspector.analyse.sentences import forms
from inspector.analyse.sentences.context import Context, before_launch, of_header
from inspector.analyse.sentences.ptx_pieces import Pieces, Reading
from inspector.analyse.sentences.templates import Templates, fill
from inspector.analyse.sentences.values import MAX_FOLLOWED_LINES, Statements, Values, types_of
from inspector.analyse.sentences.wording import Wording
from inspector.base.text import plural
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.listing.ptx_statement import (
    AHEAD,
    Operand,
    PtxInstruction,
    RegisterOperand,
    register_declarations,
    registers_of,
    split,
    strip,
    variable_declaration,
)


class PtxReader:
    """Sentences of one function of a PTX listing.

    ``templates`` is the table ptx_sentences.toml. ``context`` None is what PTX says of itself.
    """

    def __init__(
        self,
        listing: Listing,
        function: Function,
        isa: Isa,
        templates: Templates,
        context: Context | None = None,
    ) -> None:
        self.listing = listing
        self.function = function
        self.templates = templates
        self.context = context if context is not None else of_header(listing, function)
        self.statements = Statements(listing, function)
        self.values = Values(self.statements, self.context)
        self._unlaunched: Values | None = None
        words = templates.section
        self.wording = Wording(self.context, words("names"), words("constants"))
        self._reading = Reading(
            isa,
            self.context,
            self.statements,
            self.values,
            self.wording,
            templates,
            {**templates.pieces, "types": words("types"), "compare": words("compare")},
        )

    def sentence(self, n: int) -> str | None:
        """What line ``n`` (from 1) does; None if it does nothing or that is not known."""
        line = self.statements.line(n)
        if line is None:
            return None
        if line.kind is Kind.INSTRUCTION:
            statements = self.statements.at(n)
            if not statements:
                return self._rest(n)
            said = [text for one in statements if (text := self._instruction(one, line))]
            return "; then ".join(said) or None
        if line.kind is Kind.LABEL and line.label is not None:
            followed = self.function.last - self.function.first < MAX_FOLLOWED_LINES
            if ".callprototype" in line.text:
                return f"{line.label}: what the functions called by it take and give"
            return label(line.label, n, self.statements.jumps.get(line.label, []), followed)
        if line.kind is Kind.DIRECTIVE:
            if line.text.strip() == "}" and n == self.function.last:
                return "the function ends"
            return directive(line.text, self.templates, self.context)
        return None

    def _rest(self, n: int) -> str | None:
        """A line in the middle of an instruction."""
        for before in range(n - 1, max(0, n - AHEAD), -1):
            line = self.statements.line(before)
            if line is None or line.kind is not Kind.INSTRUCTION:
                return None
            if line.opcode is not None:
                return f"the instruction of line {before} goes on" if line.opcode else None
        return None

    # -- instructions -----------------------------------------------------------------------

    def _instruction(self, one: PtxInstruction, line: Line) -> str | None:
        pieces = Pieces(one, self._reading)
        template = self.templates.of(one.parts)
        if template is None:
            text = self._summary(one, pieces)
        else:
            text = fill(template, pieces.get)
            result = self._result(one, line)
            text = f"{text} ({result})" if result else text
        if text is None or one.guard is None:
            return text
        name = one.guard.name
        condition = self.values.condition(name)
        meaning = self.wording.told(condition) if condition is not None else ""
        if condition is not None and condition.always is not None and not self._without(name):
            meaning = self._launched(condition.always)
        meaning = f" ({meaning})" if meaning else ""
        return f"{'unless' if one.guard.negated else 'if'} {name}{meaning}: {text}"

    def _summary(self, one: PtxInstruction, pieces: Pieces) -> str | None:
        """An instruction without its own sentence: what the reference says, and operands."""
        entry = self._reading.isa.ptx(one.opcode)
        if entry is None:
            return None
        said = entry.summary.strip().removesuffix(".")
        said = said[:1].lower() + said[1:] if not said[1:2].isupper() else said
        operands = ", ".join(pieces.say(o) for o in one.operands)
        return f"{one.opcode} {operands}: {said}" if operands else said

    def _result(self, one: PtxInstruction, line: Line) -> str:
        """The value of the result, in addition to the sentence."""
        first = one.operands[0] if one.operands else None
        if not isinstance(first, RegisterOperand) or first.name not in line.defs:
            return ""
        name, base, last, typed = first.name, one.base, one.operands[-1], bool(types_of(one))
        if base == "setp" or one.kind == "pred":
            return self._predicate(name) if base != "mov" else ""
        if base == "mov":
            if not isinstance(last, RegisterOperand) or not typed:
                return ""
            copied = self.values.operand(last, line.n)
            if copied is None or (copied.atom is not None and copied.atom.name == last.name):
                return ""  # the register itself
            return self.wording.known(copied, line.n)
        if base == "ld" or not typed or self.statements.definition(name) != line.n:
            return ""
        value = self.values.register(name, line.n)
        if self._is_what_it_says(value, name, one.operands[1:]):
            most = 1 << max(0, self.statements.bits(name) - 8)
            narrow = value.high - value.low < most
            return self.wording.span(value.low, value.high) if narrow else ""
        text = self.wording.known(value, line.n)
        return f"byte offset: {text}" if text and self._is_offset(name) else text

    @staticmethod
    def _is_what_it_says(value: forms.LinearForm, name: str, operands: Sequence[Operand]) -> bool:
        """Whether a value is only the register itself, or operands that the line names."""
        atom = value.atom
        if atom is not None and atom.op == "register" and atom.name == name:
            return True
        named = {register.name for operand in operands for register in registers_of(operand)}
        leaves = forms.leaves(value)
        return bool(leaves) and all(x.op == "register" and x.name in named for x in leaves)

    def _predicate(self, name: str) -> str:
        condition = self.values.condition(name)
        if condition is None:
            return ""
        if condition.always is not None and not self._without(name):
            return self._launched(condition.always)
        meaning = self.wording.told(condition)
        return {"always": "always true", "never": "never true"}.get(meaning, meaning)

    def _without(self, name: str) -> bool:
        """Whether a predicate is decided without the launch."""
        if self._unlaunched is None:
            bare = before_launch(self.context, self.listing, self.function)
            self._unlaunched = Values(self.statements, bare)
        condition = self._unlaunched.condition(name)
        return condition is not None and condition.always is not None

    @staticmethod
    def _launched(always: bool) -> str:
        return f"{'true' if always else 'false'} in this launch"

    def _is_offset(self, register: str) -> bool:
        """Whether a register is added to an address."""
        for n in self.statements.uses.get(register, ())[:4]:
            for one in self.statements.at(n):
                names = [o.name for o in one.operands[1:] if isinstance(o, RegisterOperand)]
                if one.base != "add" or register not in names:
                    continue
                values = [self.values.register(name, n) for name in names if name != register]
                if any(self.wording.is_address(v) for v in values):
                    return True
        return False


# -- directives and labels ------------------------------------------------------------------------

_WORD = re.compile(r"\s*+(\.?[\w@]++)")
_LINKING = re.compile(r"\s*+\.(?:visible|extern|weak|common)\b")
_FILE = re.compile(r'(\d++)\s++"((?:[^"\\]|\\.)*+)"')
_DEBUGGING = re.compile(r"\$L__(?:tmp|func_begin|func_end|info_string|pubNames|set)\w*+\Z")


def directive(text: str, templates: Templates, context: Context) -> str | None:
    """What a line that is a directive says."""
    code = strip(text[:4096], False)[0].strip()
    table = templates.section("directive")
    if code.startswith(")") and (code := code[1:].strip()) == "":
        return "the parameters end"
    if code[:1] in ("{", "}"):
        rest = code[1:].strip(" ;")
        inner = directive(rest, templates, context) if rest[:1] == "." else None
        return inner or table.get(code[0])
    while match := _LINKING.match(code):
        code = code[match.end() :]
    word = _WORD.match(code)
    if word is None or (template := table.get(word[1])) is None:
        return None
    rest = code[word.end() :].strip().rstrip(";").rstrip()
    pieces = _Pieces(rest, text, templates, context)
    return fill(template, pieces.get)


class _Pieces:
    """The pieces of a directive; ``{0}`` is the first word after it."""

    def __init__(self, rest: str, text: str, templates: Templates, context: Context) -> None:
        self.rest = rest
        self.text = text
        self.templates = templates
        self.context = context
        self.items = [w for part in split(rest) for w in part.split()]

    def get(self, name: str) -> str:
        if name.isdigit():
            if self.items and '"' in self.rest and (match := _FILE.match(_rest(self.text))):
                return match[int(name) + 1] if int(name) < 2 else ""
            return self.items[int(name)] if int(name) < len(self.items) else ""
        made = getattr(self, f"_{name}", None)
        return str(made()) if callable(made) else ""

    def _args(self) -> str:
        if self.rest == '""' or '""' in self.rest:
            return ", ".join(re.findall(r'"([^"]*)"', self.text)) or self.rest
        return self.rest

    def _name(self) -> str:
        match = re.search(
            r"(?<![\w$%])([\w$%]++)\s*+(?:\(|\Z)", self.rest.rpartition(")")[2] or self.rest
        )
        return match[1] if match else self.rest

    def _product(self) -> str:
        sizes = [int(p[:9]) for p in split(self.rest) if p.isascii() and p.isdecimal()]
        many = " × ".join(str(s) for s in sizes)
        return f"{many} = {prod(sizes)}" if len(sizes) > 1 else many

    def _registers(self) -> str:
        one = next(register_declarations(f".reg {self.rest}"), None)
        if one is None:
            return f"registers: {self.rest}"
        of_type = self.templates.section("types").get(one.type, one.type)
        names = ", ".join(
            name if count is None else f"{name}0 … {name}{max(0, count - 1)}"
            for name, count in one.names
        )
        what = "predicates" if one.type == "pred" else f"registers of type {of_type}"
        if one.type[:1] == "b":
            what = f"registers of {of_type}"
        return f"{what}: {names}"

    def _parameter(self) -> str:
        one = variable_declaration(self.rest)
        p = self.context.parameter(one.name if one else "")
        if p is None:
            return f"the parameter {self._variable()}"
        place = f", at byte {p.offset} of the parameters" if p.offset is not None else ""
        own = " (the compiler's own)" if p.hidden else ""
        value = f", {p.value} in this launch" if p.value is not None else ""
        multiple = f", a multiple of {p.multiple}" if p.multiple and p.value is None else ""
        head = f"parameter {p.index} is {p.shown}" if p.name else p.shown
        return f"{head}{own}{multiple}{value}{place}"

    def _variable(self) -> str:
        one = variable_declaration(self.rest)
        if one is None:
            return self.rest
        if one.type is None:  # textures and the like have no size
            return one.name
        if one.size is not None:
            size = plural(one.size, "byte")
        elif ".extern" in self.text:
            size = "as many bytes as the launch asks for"
        else:
            size = "as many bytes as its values take"
        return f"{one.name}: {size}" + (f", aligned to {one.align}" if one.align else "")

    def _file(self) -> str:
        return f"source file {self.items[0]}" if self.items else "a source file"


def _rest(text: str) -> str:
    return text.partition(".file")[2].strip()


def label(name: str, line: int, jumps: list[int], all_seen: bool) -> str:
    """What a label is there for; ``known`` where all jumps of the function were looked at."""
    if jumps:
        back = [n for n in jumps if n >= line]
        who = "line" if len(jumps) == 1 else "lines"
        text = f"jumped to from {who} {_listed(jumps)}"
        return f"{name}: the head of a loop, {text}" if back else f"{name}: {text}"
    if _DEBUGGING.match(name):
        return f"{name}: a place that debugging information names"
    return f"{name}: no jump names it" if all_seen else name


def _listed(lines: list[int]) -> str:
    some = [str(n) for n in lines[:6]]
    if len(lines) > 6:
        some.append(f"{len(lines) - 6} more")
    return ", ".join(some[:-1]) + f" and {some[-1]}" if len(some) > 1 else some[0]
