"""PTX read out: a sentence for an instruction, a directive, a label.

An instruction's sentence is a template whose places ``Pieces`` fills; an instruction with a word
that the reference does not have gets none, but a sentence that says so.
"""

from __future__ import annotations

from functools import cached_property

from inspector.analysis.isa import Isa
from inspector.analysis.sentences import forms
from inspector.analysis.sentences.context import Context, before_launch, of_header
from inspector.analysis.sentences.forms import LinearForm
from inspector.analysis.sentences.ptx_copies import COPY_PIECES
from inspector.analysis.sentences.ptx_matrices import MATRIX_PIECES
from inspector.analysis.sentences.ptx_pieces import GENERAL_PIECES, FunctionReading, Pieces
from inspector.analysis.sentences.values import (
    MAX_FOLLOWED_LINES,
    Statements,
    Values,
    types_of,
)
from inspector.analysis.sentences.wording import Templates, Wording, directive, label
from inspector.parsers.line import Function, Kind, Line, Listing
from inspector.parsers.ptx_statement import (
    AHEAD,
    LABEL,
    Operand,
    PtxInstruction,
    RegisterOperand,
    registers_of,
)

_PIECES = {**GENERAL_PIECES, **MATRIX_PIECES, **COPY_PIECES}


class PtxReader:
    """Sentences of one function of a PTX listing. ``templates`` is the table ptx_sentences.toml.
    ``context`` None is what PTX says of itself."""

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
        self.isa = isa
        self.templates = templates
        self.context = context if context is not None else of_header(listing, function)
        self.statements = Statements(listing, function)
        self.values = Values(self.statements, self.context)
        words = templates.section
        self.wording = Wording(self.context, words("names"), words("constants"))
        self.reading = FunctionReading(
            isa,
            templates,
            self.context,
            self.statements,
            self.values,
            self.wording,
            {**templates.pieces, **{name: words(name) for name in ("types", "compare", "remarks")}},
            _PIECES,
        )

    def sentence(self, n: int) -> str | None:
        """What line ``n`` (from 1) does; None if it does nothing or that is not known."""
        line = self.statements.line(n)
        if line is None:
            return None
        if line.kind is Kind.INSTRUCTION:
            statements = self.statements.instructions_on(n)
            if not statements:
                return self._continuation(n)
            texts = [self._instruction(instruction, line) for instruction in statements]
            return "; then ".join(filter(None, texts)) or None
        if line.kind is Kind.LABEL and line.label is not None:
            return self._label(line, line.label)
        if line.kind is Kind.DIRECTIVE:
            if line.text.strip() == "}" and n == self.function.last:
                return "the function ends"
            return directive(line.text, self.templates, self.context)
        return None

    def _label(self, line: Line, name: str) -> str:
        marked = LABEL.match(line.text)
        listed = line.text[marked.end() :] if marked else ""
        if listed.lstrip().startswith("."):  # a list of labels or functions, a prototype
            return f"{name}: {directive(listed, self.templates, self.context) or listed.strip()}"
        if name in self.statements.tables:
            return f"{name}: the list of labels that follows"
        followed = self.function.last - self.function.first < MAX_FOLLOWED_LINES
        return label(name, line.n, self.statements.jumps.get(name, []), followed)

    def _continuation(self, n: int) -> str | None:
        """A line in the middle of an instruction."""
        for start in range(n - 1, max(0, n - AHEAD), -1):
            line = self.statements.line(start)
            if line is None or line.kind is not Kind.INSTRUCTION:
                return None
            if line.opcode is not None:
                return f"the instruction of line {start} goes on" if line.opcode else None
        return None

    # -- instructions -----------------------------------------------------------------------

    def _instruction(self, instruction: PtxInstruction, line: Line) -> str | None:
        pieces = Pieces(instruction, self.reading)
        template = self.templates.template(instruction.parts)
        unknown = self._unknown(instruction)
        text: str | None
        if template is None or unknown:
            text = self._summary(instruction, pieces)
            text = "; ".join(filter(None, (text, unknown))) or None
        else:
            text = pieces.sentence(template)
            result = self._result(instruction, line)
            text = f"{text} ({result})" if result else text
        if text is None or instruction.guard is None:
            return text
        meaning = self._meaning(instruction.guard.name)
        condition = f"{instruction.guard.name} ({meaning})" if meaning else instruction.guard.name
        return f"{'unless' if instruction.guard.negated else 'if'} {condition}: {text}"

    def _unknown(self, instruction: PtxInstruction) -> str:
        """What an instruction has that the reference does not; "" if it has all of it."""
        entry = self.isa.ptx(instruction.opcode)
        words = [instruction.base] if entry is None else list(self.isa.unknown(instruction.opcode))
        names = dict.fromkeys(r.name for o in instruction.operands for r in registers_of(o))
        # ``%name`` that is no register is a special register of a newer version.
        words += [n for n in names if n.startswith("%") and self.statements.undeclared(n)]
        if not words:
            return ""
        verb = "is" if len(words) == 1 else "are"
        version = f"; this file is for {self._version}" if self._version else ""
        coverage = f"PTX ISA up to {self.isa.newest_ptx}"
        return f"{' and '.join(words)} {verb} not in the reference ({coverage}{version})"

    @cached_property
    def _version(self) -> str:
        """The version of the PTX ISA that the file is written for."""
        for line in self.listing.lines[: self.function.first]:
            if line.text.startswith(".version"):
                return line.text.removeprefix(".version").partition("//")[0].strip()
        return ""

    def _summary(self, instruction: PtxInstruction, pieces: Pieces) -> str | None:
        """An instruction without its own sentence: what the reference says, and operands."""
        operands = ", ".join(map(pieces.say, instruction.operands))
        entry = self.isa.ptx(instruction.opcode)
        if entry is None:
            return f"{instruction.opcode} {operands}".rstrip()
        summary = entry.summary.strip().removesuffix(".")
        summary = summary if summary[1:2].isupper() else summary[:1].lower() + summary[1:]
        return f"{f'{instruction.opcode} {operands}'.rstrip()}: {summary}"

    def _result(self, instruction: PtxInstruction, line: Line) -> str:
        """The value of the result, in addition to the sentence."""
        first = instruction.operands[0] if instruction.operands else None
        if not isinstance(first, RegisterOperand) or first.name not in line.defs:
            return ""
        name = first.name
        base = instruction.base
        if base == "setp" or instruction.kind == "pred":
            meaning = self._meaning(name) if base != "mov" else ""
            return {"always": "always true", "never": "never true"}.get(meaning, meaning)
        if not types_of(instruction):
            return ""
        if base == "mov":
            return self._copied(instruction.operands[-1], line)
        if base == "ld" or self.statements.definition(name) != line.n:
            return ""
        value = self.values.register(name, line.n)
        if _is_register(value, name) or _has_only_operands(value, instruction):
            narrow = value.high - value.low < 1 << max(0, self.statements.bits(name) - 8)
            return self.wording.span(value.low, value.high) if narrow else ""
        text = self.wording.form_and_range(value, line.n)
        return f"byte offset: {text}" if text and self._is_offset(name) else text

    def _copied(self, source: Operand, line: Line) -> str:
        """The value that a register is set to; "" if that is another register as it is."""
        if not isinstance(source, RegisterOperand):
            return ""
        value = self.values.operand(source, line.n)
        if value is None or (value.atom is not None and value.atom.name == source.name):
            return ""
        return self.wording.form_and_range(value, line.n)

    def _meaning(self, name: str) -> str:
        """What a predicate says, in this launch or any; "" if that is not known."""
        condition = self.values.condition(name)
        if condition is None:
            return ""
        if condition.always is not None:
            general_condition = self._unlaunched.condition(name)
            if general_condition is None or general_condition.always is None:
                return f"{'true' if condition.always else 'false'} in this launch"
        return self.wording.condition_text(condition)

    @cached_property
    def _unlaunched(self) -> Values:
        """Values that are known without the launch."""
        return Values(self.statements, before_launch(self.context, self.listing, self.function))

    def _is_offset(self, register: str) -> bool:
        """Whether a register is added to an address."""
        for n in self.statements.uses.get(register, ())[:4]:
            for instruction in self.statements.instructions_on(n):
                if instruction.base == "add" and self._adds_to_address(instruction, register):
                    return True
        return False

    def _adds_to_address(self, instruction: PtxInstruction, register: str) -> bool:
        names = [o.name for o in instruction.operands[1:] if isinstance(o, RegisterOperand)]
        if register not in names:
            return False
        addends = [self.values.register(x, instruction.line) for x in names if x != register]
        return any(map(self.wording.is_address, addends))


def _is_register(value: LinearForm, name: str) -> bool:
    atom = value.atom
    return atom is not None and atom.op == "register" and atom.name == name


def _has_only_operands(value: LinearForm, instruction: PtxInstruction) -> bool:
    """Whether a form is of nothing but the registers that the line names."""
    names: set[str] = set()
    for operand in instruction.operands[1:]:
        names.update(register.name for register in registers_of(operand))
    leaves = forms.leaves(value)
    return bool(leaves) and all(leaf.op == "register" and leaf.name in names for leaf in leaves)
