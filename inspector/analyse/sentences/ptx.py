"""PTX read out: a sentence for an instruction, a directive, a label."""

from __future__ import annotations

import re
from collections.abc import Sequence

from inspector.analyse.isa import Isa
from inspector.analyse.sentences import forms
from inspector.analyse.sentences.basic import BITS, Basic
from inspector.analyse.sentences.context import Context, before_launch, of_header
from inspector.analyse.sentences.directives import directive, label
from inspector.analyse.sentences.statements import MAX_FOLLOWED_LINES, Statements
from inspector.analyse.sentences.templates import Templates, fill
from inspector.analyse.sentences.values import Values, special, types_of
from inspector.analyse.sentences.wording import Wording
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.listing.ptx_operands import Operand, OperandKind, WordedStatement, registers
from inspector.listing.ptx_statement import AHEAD

# -- threads together, matrices, copies, calls ----------------------------------------------------
# The pieces of sentences of threads together, of matrices and of copies, and of calls.
#
# Written from the PTX ISA, chapter "Instruction Set".

_SHAPE = re.compile(r"m(\d{1,9}+)(?!\d)n(\d{1,9}+)(?!\d)k(\d{1,9}+)(?!\d)\Z")
_TILE = re.compile(r"m(\d{1,9}+)(?!\d)n(\d{1,9}+)(?!\d)\Z")


class Pieces(Basic):
    """All pieces of one instruction."""

    # -- threads ----------------------------------------------------------------------------

    def _waits(self) -> str:
        left = self.number(0)
        return "none" if left == 0 else f"at most {self._letter(0)}"

    def _who(self) -> str:
        who = f"{self._letter(1)} threads" if len(self.args) > 1 else "all threads of the block"
        return f"{who} are"

    def _lanes(self) -> str:
        mask = self.number(-1)
        if "sync" not in self.parts:
            return "the warp"
        if mask is None:
            text = f"the lanes in {self._last()}"
        elif mask % (1 << 32) == (1 << 32) - 1:
            text = "the whole warp"
        else:
            text = f"the lanes of mask 0x{mask % (1 << 32):x}"
        limits = self.number(2) if self.parts[0] == "shfl" else None
        apart = 32 - (limits >> 8 & 31) if limits is not None else 32
        return f"{text}, in groups of {apart}" if apart < 32 else text

    # -- matrices ---------------------------------------------------------------------------

    def _shape(self) -> str:
        shape = next((size for p in self.parts if (size := _SHAPE.match(p))), None)
        if shape is None:
            return "matrices"
        m, n, k = shape.groups()
        types = self.types
        if len(types) == 2 and self.parts[0] == "wmma":  # the sums' alone: the factors are f16
            types = (types[0], "f16", "f16")
        if len(types) >= 3:
            d, a, b = types[0], types[1], types[2]
            return f"{m}×{k} {a} by {k}×{n} {b}, sums of {m}×{n} in {d}"
        return f"{m}×{k} by {k}×{n}" + (f" in {types[0]}" if types else "")

    def _share(self) -> str:
        """Which matrix ``wmma.load`` and ``wmma.store`` move."""
        shape = next((s for p in self.parts if (s := _SHAPE.match(p))), None)
        which = next((part for part in self.parts[1:] if part in ("a", "b", "c", "d")), "")
        if shape is None or not which:
            return "a matrix"
        m, n, k = shape.groups()
        size = {"a": f"{m}×{k}", "b": f"{k}×{n}"}.get(which, f"{m}×{n}")
        return f"matrix {which.upper()}, {size}" + (f" {self.types[-1]}" if self.types else "")

    def _tiles(self) -> str:
        tile = next((m for p in self.parts if (m := _TILE.match(p))), None)
        size = f"{tile[1]}×{tile[2]}" if tile else "8×8"
        bits = self.types[-1][1:] if self.types else "16"
        many = next((p[1:] for p in self.parts if re.fullmatch(r"x[124]", p)), "1")
        plural = f"{many} {size} matrices" if many != "1" else f"one {size} matrix"
        return f"{plural} of {bits}-bit elements"

    def _eachlane(self) -> str:
        many = next((int(p[1:]) for p in self.parts if re.fullmatch(r"x[124]", p)), 1)
        tile = next((tile for p in self.parts if (tile := _TILE.match(p))), None)
        return f"0…{min(32, many * (int(tile[1]) if tile else 8)) - 1}"

    def _sum(self) -> str:
        product = f"{self._letter(0)} · {self._letter(1)}"
        d = self._d() or "its registers"
        fresh = self.added()
        if fresh is None:
            return f"{d} = {product}, + what it was if {self._letter(2)}"
        return f"{d} += {product}" if fresh else f"{d} = {product}"

    def added(self) -> bool | None:
        """Whether wgmma adds to its accumulator; None if a predicate says so."""
        if len(self.args) < 3:
            return True
        fresh = self.number(2)
        return bool(fresh) if fresh is not None else None

    def _half(self) -> str:
        match = BITS.match(self.types[-1]) if self.types else None
        if "wide" in self.parts and match:
            return f"as {2 * int(match[1])} bits"
        return self.words("half")

    def _flag(self) -> str:
        value = self.number(0)
        return self._letter(0) if value is None else "true" if value else "false"

    def _enable(self) -> str:
        after = 5 if "sp" in self.parts else 4
        later = [
            a
            for a in self.args[after:]
            if a.kind in (OperandKind.REGISTER, OperandKind.NUMBER, OperandKind.NAME)
        ]
        return self.say(later[0]) if later else ""

    def _tmem(self) -> str:
        return ", ".join(p for p in self.parts if re.fullmatch(r"\d+x\d+b|x\d+|32x32b", p))

    # -- copies -----------------------------------------------------------------------------

    def _source(self) -> str:
        """How much of what ``cp.async`` writes is read."""
        if len(self.args) - ("L2::cache_hint" in self.parts) < 4:
            return ""
        if self.is_predicate(self.args[3]):
            return f"if {self._letter(3)} nothing is read, and all are 0"
        return f"only {self._letter(3)} of them are read, the others are 0"

    def is_predicate(self, one: Operand) -> bool:
        """Whether an operand is a predicate, by its name where no more is known."""
        return one.kind is OperandKind.REGISTER and one.name.startswith("%p")

    def _tensor(self) -> int:
        """Which address is a tensor map with its coordinates."""
        return next((i for i, a in enumerate(self.addresses) if len(a.parts) > 1), 0)

    def _map(self) -> str:
        return self.say(self.addresses[self._tensor()].parts[0]) if self.addresses else ""

    def _coordinates(self) -> str:
        if not self.addresses or len(self.addresses[self._tensor()].parts) < 2:
            return ""
        vector = self.addresses[self._tensor()].parts[1]
        return " at " + ", ".join(self.say(p) for p in vector.parts or (vector,))

    def _dimensions(self) -> str:
        digit = next((p[0] for p in self.parts if re.fullmatch(r"[1-5]d", p)), "several")
        return f"{digit}-dimensional"

    def _direction(self) -> str:
        if self._tensor() == 0:
            return f"from shared memory at {self._at2()}"
        return f"to {self._space()} at {self._at()}"

    def _completion(self) -> str:
        if "bulk_group" in self.parts:
            return "it belongs to the group that is closed next"
        if len(self.addresses) > 2:
            return f"the barrier at {self._nth_address(2)} counts the bytes"
        return ""

    def _call(self) -> str:
        groups = [o for o in self.one.operands if o.kind is OperandKind.GROUP]
        callee = next((o for o in self.one.operands if o.kind is not OperandKind.GROUP), None)
        if callee is None:
            return "a function"
        at = self.one.operands.index(callee)
        given = [g for g in groups if self.one.operands.index(g) < at]
        taken = [g for g in groups if g not in given]
        inside = ", ".join(self.say(p) for p in taken[0].parts) if taken else ""
        text = (
            f"{callee.text}({inside})"
            if callee.kind is OperandKind.NAME
            else f"the function at {callee.text}({inside})"
        )
        out = ", ".join(self.say(p) for p in given[0].parts) if given else ""
        return f"{text}, which gives {out}" if out else text


MAX_NAMED_ELEMENTS = 4
"""Elements of a vector that are named one by one."""

_BITWISE = ("and", "or", "xor", "not", "lop3", "prmt")
"""Instructions whose larger numbers are masks, told in hexadecimal."""


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
        self.isa = isa
        self.templates = templates
        self.context = context if context is not None else of_header(listing, function)
        self.statements = Statements(listing, function)
        self.values = Values(self.statements, self.context)
        self._unlaunched: Values | None = None
        section = templates.section
        self.wording = Wording(self.context, section("names"), section("constants"))
        self._tables = {
            **templates.pieces,
            "types": section("types"),
            "compare": section("compare"),
        }

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
            return label(line.label, n, self.statements.jumps(line.label), followed)
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

    def _instruction(self, one: WordedStatement, line: Line) -> str | None:
        pieces = _Worded(one, line, self)
        template = self.templates.of(one.parts)
        if template is None:
            text = self._summary(one, pieces)
        else:
            text = fill(template, pieces.get)
            result = self._result(one, line)
            text = f"{text} ({result})" if result else text
        if text is None:
            return None
        return f"{self._guard(one)}{text}"

    def _guard(self, one: WordedStatement) -> str:
        if one.guard is None:
            return ""
        condition = self.values.condition(one.guard)
        meaning = self.wording.told(condition) if condition is not None else ""
        if condition is not None and condition.always is not None and not self._without(one.guard):
            meaning = self._launched(condition.always)
        return (
            f"{'unless' if one.unless else 'if'} {one.guard}{f' ({meaning})' if meaning else ''}: "
        )

    def _summary(self, one: WordedStatement, pieces: Pieces) -> str | None:
        """An instruction without its own sentence: what the reference says, and operands."""
        entry = self.isa.ptx(one.opcode)
        if entry is None:
            return None
        said = entry.summary.strip().removesuffix(".")
        said = said[:1].lower() + said[1:] if not said[1:2].isupper() else said
        operands = ", ".join(pieces.say(o) for o in one.operands)
        return f"{one.opcode} {operands}: {said}" if operands else said

    def _result(self, one: WordedStatement, line: Line) -> str:
        """The value of the result, in addition to the sentence."""
        first = one.operands[0] if one.operands else None
        if first is None or first.kind is not OperandKind.REGISTER or first.name not in line.defs:
            return ""
        base, last, typed = one.parts[0], one.operands[-1], bool(types_of(one))
        if base == "setp" or one.parts[-1] == "pred":
            return self._predicate(first.name) if base != "mov" else ""
        if base == "mov":
            return self._moved(last, line.n) if last.kind is OperandKind.REGISTER and typed else ""
        if base == "ld" or not typed or self.statements.definition(first.name) != line.n:
            return ""
        value = self.values.register(first.name, line.n)
        if self._is_what_it_says(value, first.name, one.operands[1:]):
            return self._range(value, first.name)
        text = self.wording.known(value, line.n)
        return f"byte offset: {text}" if text and self._is_offset(first.name) else text

    def _moved(self, source: Operand, n: int) -> str:
        """The value of a copied register, unless that is the register itself."""
        value = self.values.operand(source, n)
        if value is None or (value.atom is not None and value.atom.name == source.name):
            return ""
        return self.wording.known(value, n)

    @staticmethod
    def _is_what_it_says(value: forms.LinearForm, name: str, operands: Sequence[Operand]) -> bool:
        """Whether a value is only the register itself, or operands that the line names."""
        atom = value.atom
        if atom is not None and atom.op == "register" and atom.name == name:
            return True
        named = {register.name for operand in operands for register in registers(operand)}
        leaves = forms.leaves(value)
        return bool(leaves) and all(x.op == "register" and x.name in named for x in leaves)

    def _range(self, value: forms.LinearForm, name: str) -> str:
        most = 1 << max(0, self.statements.bits(name) - 8)
        return self.wording.span(value.low, value.high) if value.high - value.low < most else ""

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
        for n in self.statements.uses(register)[:4]:
            for one in self.statements.at(n):
                if one.parts[0] != "add" or not one.operands:
                    continue
                others = [o for o in one.operands[1:] if o.kind is OperandKind.REGISTER]
                if all(o.name != register for o in others):
                    continue
                values = [self.values.register(o.name, n) for o in others if o.name != register]
                if any(self.wording.is_address(v) for v in values):
                    return True
        return False


class _Worded(Pieces):
    """The pieces of an instruction of a function, whose registers are known."""

    def __init__(self, one: WordedStatement, line: Line, reader: PtxReader) -> None:
        self.reader = reader
        self.line = line
        super().__init__(one, reader._tables)

    def say(self, one: Operand) -> str:
        wording = self.reader.wording
        match one.kind:
            case OperandKind.FLOAT:
                return wording.real(one)
            case OperandKind.NUMBER:
                value = int(one.value or 0)
                bits = types_of(self.one)
                if self.parts[0] in _BITWISE and bits and not -10 < value < 1 << 16:
                    return f"0x{value % (1 << bits[-1][0]):x}"
                return str(value).replace("-", "−")
            case OperandKind.VECTOR:
                return self._vector(one)
            case OperandKind.SPECIAL:
                return self._special(one)
            case OperandKind.REGISTER if one.negated:
                return f"{'not ' if one.text[0] == '!' else '−'}{one.text.lstrip('!- ')}"
            case OperandKind.ADDRESS:
                return self.place(one)
            case OperandKind.PAIR:
                return " and ".join(self.say(p) for p in one.parts)
            case _:
                return one.text

    def _vector(self, one: Operand) -> str:
        said = [self.say(p) for p in one.parts]
        if len(said) > MAX_NAMED_ELEMENTS:
            return f"{{{said[0]} … {said[-1]}}} ({len(said)} registers)"
        return said[0] if len(said) == 1 else "{" + ", ".join(said) + "}"

    def _special(self, one: Operand) -> str:
        if self.parts[0] != "mov":
            return one.text
        base, _, axis = one.text.partition(".")
        phrase = self.reader.templates.section("special").get(base)
        if phrase is None:
            entry = self.reader.isa.word(one.text)
            return f"{one.text} ({entry.summary.strip().removesuffix('.')})" if entry else one.text
        block = self.reader.wording.block
        text = phrase.replace("{block}", block).replace("{axis}", axis or "x, y and z")
        value = special(one.text, self.reader.context)
        if value is None:
            return text
        if value.number is not None:
            return f"{text}: {value.number}"
        span = self.reader.wording.span(value.low, value.high)
        return f"{text}, {span}" if span else text

    def place(self, one: Operand) -> str:
        """An address: the register and what is added, and known facts about it."""
        base = one.parts[0]
        text = self.say(base)
        if one.offset:
            text += f" {'+' if one.offset > 0 else '−'} {abs(one.offset)}"
        if base.kind is not OperandKind.REGISTER:
            return text
        value = self.reader.values.operand(one, self.line.n)
        if value is None:
            return text
        leaves = forms.leaves(value)
        if all(leaf.op == "register" and leaf.name == base.name for leaf in leaves) and leaves:
            return text
        form = self.reader.wording.form(value, self.line.n)
        return f"{text} ({form})" if form else text

    def added(self) -> bool | None:
        said = super().added()
        if said is None and self.args[2].kind is OperandKind.REGISTER:
            condition = self.reader.values.condition(self.args[2].name)
            return condition.always if condition is not None else None
        return said

    def is_predicate(self, one: Operand) -> bool:
        return one.kind is OperandKind.REGISTER and self.reader.statements.bits(one.name) == 1

    # -- pieces that need the function ------------------------------------------------------

    def _parameter(self) -> str:
        if not self.addresses:
            return ""
        address = self.addresses[0]
        p = self.reader.values.parameter(address)
        if p is None:
            name = address.parts[0].text + (f" + {address.offset}" if address.offset else "")
            return f"what {name} holds"
        if p.name is None:
            return p.shown
        value = f", {p.value} in this launch" if p.value is not None else ""
        return f"{p.shown} (parameter {p.index}{value})"

    def _where(self) -> str:
        target = next((o.text for o in reversed(self.one.operands)), "")
        line = self.reader.statements.label(target)
        if line is None:
            return target
        return f"{target} (line {line}, back)" if line <= self.line.n else f"{target} (line {line})"
