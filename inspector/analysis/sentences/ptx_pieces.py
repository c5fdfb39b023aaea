"""What fills the places of PTX sentences: the pieces of one instruction.

Each piece notes the qualifiers and operands that it speaks of; ``Pieces.sentence`` gives the others
in words, so that nothing of an instruction is left out silently. Written from the PTX ISA, chapter
"Instruction Set".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from inspector.analysis.isa import Isa
from inspector.analysis.sentences import descriptors, forms
from inspector.analysis.sentences.context import Context
from inspector.analysis.sentences.forms import LinearForm
from inspector.analysis.sentences.values import Statements, Values, integer, special, types_of
from inspector.analysis.sentences.wording import (
    Template,
    Templates,
    Wording,
    choose_options,
    fill,
    formula,
    named,
    places,
)
from inspector.base.units import plural
from inspector.parsers.ptx_statement import (
    SINK,
    AddressOperand,
    ImmediateOperand,
    Operand,
    PairOperand,
    PtxInstruction,
    RegisterOperand,
    SinkOperand,
    SpecialOperand,
    SymbolOperand,
    VectorOperand,
    result_count,
)

MAX_NAMED_ELEMENTS = 4
"""Elements of a vector that are named one by one."""

MAX_NAMED_TARGETS = 8
"""Labels of an indexed branch that are named."""

_TYPE = re.compile(
    r"[busf]\d+(?:x\d)?\Z|t?f32\Z|bf16(?:x2)?\Z|u?e\dm\d(?:x\d)?\Z|s\df\d(?:x\d)?\Z|pred\Z"
)
_INTEGER = re.compile(r"([us])\d+(?:x\d)?\Z")
_VECTOR = re.compile(r"v([248])\Z")
_BITS = re.compile(r"[busf]([1-9]\d{0,3})\Z")
_BITWISE = ("and", "or", "xor", "not", "lop3", "prmt")
"""Instructions whose larger numbers are masks, told in hexadecimal."""
_ARGUMENTS = "abcefghij"
"""Names of the operands after the result."""
_REAL_ONE = (("f32",), ("f16",), ("bf16",))
_ALL_THREADS = "all threads of the block are"
_SECOND_OF_PAIR = -1
"""Among the places of operands, the second half of a result ``d|p``."""
_REMARKING_TABLES = ("flush", "activation", "rounding", "nan", "order", "scope", "cache")
"""Tables of pieces whose words do as a remark on a qualifier too."""


def byte_picks(a: str, b: str, selector: int) -> str:
    """``prmt.b32``: the four bytes of the result, highest first; bytes 0 to 3 are ``a``'s."""
    picks = [selector >> 4 * i & 15 for i in range(3, -1, -1)]
    byte_texts = (
        f"{'the sign of ' * (pick >> 3)}byte {pick & 3} of {b if pick & 4 else a}" for pick in picks
    )
    return f"bytes, the highest first: {', '.join(byte_texts)}"


@dataclass(frozen=True)
class FunctionReading:
    """What the sentences of one function are made from."""

    isa: Isa
    templates: Templates
    context: Context
    statements: Statements
    values: Values
    wording: Wording
    tables: Mapping[str, Mapping[str, str]]
    makers: Mapping[str, Callable[[Pieces], str]]
    """What fills a place of a template; any other place names a table of words for qualifiers."""


@dataclass(frozen=True)
class Spoken:
    """The places of an opcode's parts and of operands that a piece speaks of."""

    parts: set[int]
    operands: set[int]

    def update(self, other: Spoken) -> None:
        self.parts.update(other.parts)
        self.operands.update(other.operands)


class Pieces:
    """The pieces of one instruction of a function; ``get`` finds them by name."""

    def __init__(self, instruction: PtxInstruction, reading: FunctionReading) -> None:
        self.instruction = instruction
        self.reading = reading
        self.parts = instruction.parts
        self.tables = reading.tables
        self.typed = [n for n, part in enumerate(instruction.parts) if n and _TYPE.match(part)]
        """The places of types among the parts."""
        self.types = tuple(instruction.parts[n] for n in self.typed)
        first = instruction.operands[0] if instruction.operands else None
        self.results = 0
        if first is not None and not isinstance(first, AddressOperand):
            self.results = min(
                result_count(instruction.base, instruction.opcode), len(instruction.operands)
            )
        self.result = first if self.results else None
        self.args: tuple[Operand, ...] = instruction.operands[self.results :]
        self.address_places = [
            n
            for n, operand in enumerate(instruction.operands)
            if isinstance(operand, AddressOperand)
        ]
        self._texts: dict[str, str] = {}
        self._spoken: dict[str, Spoken] = {}
        self._current = Spoken(set(), set())

    def get(self, name: str) -> str:
        if name not in self._texts:
            outer = self._current
            self._current = Spoken(set(), set())
            self._texts[name] = self._piece(name)
            self._spoken[name] = self._current
            self._current = outer
        self._current.update(self._spoken[name])
        return self._texts[name]

    def _piece(self, name: str) -> str:
        if name in _ARGUMENTS:
            return self.argument(_ARGUMENTS.index(name))
        make = self.reading.makers.get(name)
        return self.words(name) if make is None else make(self)

    def words(self, table: str) -> str:
        """What the opcode's qualifiers are called in a table of pieces, in order."""
        texts = self.tables.get(table, {})
        named_places = [n for n, part in enumerate(self.parts) if n and part in texts]
        self._current.parts.update(named_places)
        text = ", ".join(dict.fromkeys(texts[self.parts[n]] for n in named_places))
        return fill(text, self.get) if "{" in text else text

    def sentence(self, template: Template) -> str:
        """The template filled, followed by all parts that it does not mention."""
        text = choose_options(template.text, self.get)
        spoken = Spoken(set(), set())
        for name in places(text):
            self.get(name)
            spoken.update(self._spoken[name])
        spoken.parts.update(n for n, p in enumerate(self.parts) if p in template.qualifiers)
        # ", short words" before "; .qualifier: a longer text".
        remarks = sorted(self._unspoken(spoken), key=lambda remark: remark[0])
        return fill(text, self.get) + "".join(remarks)

    # -- what no piece speaks of ----------------------------------------------------------

    def _unspoken(self, spoken: Spoken) -> Iterator[str]:
        handled: set[str] = set()
        for n in range(1, len(self.parts)):
            part = self.parts[n]
            if n in spoken.parts or part in handled:
                continue
            handled.add(part)
            if self.reading.templates.silent(self.parts, part) is None:
                yield self._remark(part, spoken)
        if _SECOND_OF_PAIR not in spoken.operands and (second := self._second_of_pair()):
            yield f"; the second result is {second}"
        for n in range(len(self.instruction.operands)):
            operand = self.instruction.operands[n]
            if n not in spoken.operands and not isinstance(operand, SinkOperand):
                yield f"; operand {n + 1} is {self.say(operand)}"

    def _second_of_pair(self) -> str:
        """The second half of a result ``d|p``, else ""."""
        pair = self.result
        if not isinstance(pair, PairOperand) or isinstance(pair.second, SinkOperand):
            return ""
        return self.say(pair.second)

    def _remark(self, part: str, spoken: Spoken) -> str:
        """A qualifier in words: those of the sentences, else those of the reference."""
        remarks = self.tables["remarks"]
        phrases = [remarks.get(f"{self.parts[0]}.{part}"), remarks.get(part)]
        phrases += [self.tables[name].get(part) for name in _REMARKING_TABLES]
        phrase = next(filter(None, phrases), None)
        if phrase is not None:
            for name in places(phrase):
                self.get(name)
                spoken.update(self._spoken[name])
            return f", {fill(phrase, self.get)}"
        meaning = self.reading.isa.qualifiers(self.instruction.opcode).get(f".{part}", "")
        summary = meaning.strip().removesuffix(".")
        if not summary:
            return f"; .{part}"
        return (
            f"; .{part}: {summary if summary[1:2].isupper() else summary[0].lower() + summary[1:]}"
        )

    # -- qualifiers -------------------------------------------------------------------------

    def has(self, qualifier: str) -> bool:
        """Whether the opcode has a qualifier, which is then spoken of."""
        if qualifier not in self.parts[1:]:
            return False
        self._current.parts.add(self.parts.index(qualifier, 1))
        return True

    def match_part(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The first part that fits a pattern, which is then spoken of."""
        for n in range(1, len(self.parts)):
            if match := pattern.match(self.parts[n]):
                self._current.parts.add(n)
                return match
        return None

    def any_of(self, qualifiers: Iterable[str]) -> str:
        """The first part that is one of some qualifiers, which is then spoken of; "" if none is."""
        for n in range(1, len(self.parts)):
            if self.parts[n] in qualifiers:
                self._current.parts.add(n)
                return self.parts[n]
        return ""

    def type_at(self, index: int) -> str:
        """One of the opcode's types, which is then spoken of; "" if there are fewer."""
        if not -len(self.typed) <= index < len(self.typed):
            return ""
        self._current.parts.add(self.typed[index])
        return self.types[index]

    def type_text(self, index: int = -1) -> str:
        name = self.type_at(index)
        return self.tables["types"].get(name, name)

    def speak_of(self, parts: Iterable[int]) -> None:
        """Note places of the opcode's parts as spoken of."""
        self._current.parts.update(parts)

    # -- operands ---------------------------------------------------------------------------

    def say(self, operand: Operand) -> str:
        match operand:
            case ImmediateOperand(text):
                if isinstance(operand.value, float):
                    return self.reading.wording.real(operand)
                if operand.value is None:
                    return text
                bits = types_of(self.instruction)
                if self.parts[0] in _BITWISE and bits and not -10 < operand.value < 1 << 16:
                    return f"0x{operand.value % (1 << bits[-1][0]):x}"
                return str(operand.value).replace("-", "−")
            case VectorOperand(elements):
                texts = [self.say(p) for p in elements]
                if len(texts) > MAX_NAMED_ELEMENTS:
                    return f"{{{texts[0]} … {texts[-1]}}} ({len(texts)} registers)"
                return texts[0] if len(texts) == 1 else "{" + ", ".join(texts) + "}"
            case SpecialOperand(name):
                return self._special(name) if self.parts[0] == "mov" else name
            case RegisterOperand(_, negated, name, part):
                sign = "−" if self.parts[0][0] == "v" else "not "
                return f"{sign if negated else ''}{name}{f'.{part}' if part else ''}"
            case AddressOperand(further_operands=further) if further:
                return f"[{', '.join([self.place(operand), *map(self.say, further)])}]"
            case AddressOperand():
                return self.place(operand)
            case PairOperand(first, second):
                return f"{self.say(first)} and {self.say(second)}"
            case SymbolOperand(name, offset):
                return name + added(offset)
        return "_"

    def _special(self, name: str) -> str:
        reading = self.reading
        base, _, axis = name.partition(".")
        phrase = reading.templates.section("special").get(base)
        if phrase is None:
            entry = reading.isa.word(name)
            return f"{name} ({entry.summary.strip().removesuffix('.')})" if entry else name
        text = phrase.replace("{block}", reading.wording.block)
        text = text.replace("{axis}", axis or "x, y and z")
        value = special(name, reading.context)
        if value is not None and value.number is not None:
            return f"{text}: {value.number}"
        span = "" if value is None else reading.wording.span(value.low, value.high)
        return f"{text}, {span}" if span else text

    def place(self, address: AddressOperand) -> str:
        """An address: the register and what is added, and known facts about it."""
        base = address.base
        text = self.say(base) + added(address.offset)
        value = self.reading.values.operand(address, self.instruction.line)
        if not isinstance(base, RegisterOperand) or value is None:
            return text
        if self.parts[0] == "tcgen05" and (allocated := self._in_tensor_memory(value)):
            return f"{text} ({allocated})"
        if {(leaf.op, leaf.name) for leaf in forms.leaves(value)} == {("register", base.name)}:
            return text
        form = self.reading.wording.form(value, self.instruction.line)
        return f"{text} ({form})" if form else text

    def _in_tensor_memory(self, address: LinearForm) -> str:
        """``lane 32, column 64 of the allocation``; "" if it is not known to be of one."""
        n = self.instruction.line
        for atom, factor in address.terms:
            if factor != 1 or atom.op != "register":
                continue
            if not self.reading.values.is_allocation(atom.name):
                continue
            start = self.reading.values.register(atom.name, n)
            offset = forms.add(address, forms.scale(start, -1))
            lane, column = descriptors.lane_and_column(offset)
            wording = self.reading.wording
            lane_text = wording.form(lane, n)
            column_text = wording.form(column, n)
            several = len(self.reading.statements.allocations) > 1
            name = f" {atom.name}" if several else ""
            if lane_text and column_text:
                return f"lane {lane_text}, column {column_text} of the allocation{name}"
        return ""

    def arg(self, index: int) -> Operand | None:
        """An operand after the results, which is then spoken of; negative from the last one."""
        if not -len(self.args) <= index < len(self.args):
            return None
        self._current.operands.add(self.results + index % len(self.args))
        return self.args[index]

    def value_of(self, index: int) -> LinearForm | None:
        """What a register or a number among the arguments holds, None if it is neither."""
        operand = self.args[index] if index < len(self.args) else None
        if not isinstance(operand, RegisterOperand | ImmediateOperand):
            return None
        return self.reading.values.operand(operand, self.instruction.line)

    def argument(self, index: int) -> str:
        operand = self.arg(index)
        return "" if operand is None else self.say(operand)

    def number(self, index: int) -> int | None:
        operand = self.arg(index)
        return None if operand is None else integer(operand)

    def address(self, index: int) -> AddressOperand | None:
        """An operand in brackets, by its place among them; it is then spoken of."""
        if index >= len(self.address_places):
            return None
        operand = self.instruction.operands[self.address_places[index]]
        self._current.operands.add(self.address_places[index])
        return operand if isinstance(operand, AddressOperand) else None

    def address_text(self, index: int = 0) -> str:
        address = self.address(index)
        return "" if address is None else self.place(address)

    def result_text(self, index: int = 0) -> str:
        if self.result is None:
            return ""
        self._current.operands.add(0)
        result = self.result
        if isinstance(result, PairOperand):
            if index:
                self._current.operands.add(_SECOND_OF_PAIR)
            result = result.second if index else result.first
        elif index:
            return ""
        return "" if result is SINK else self.say(result)

    def _second_result(self) -> str:
        if self.results < 2:
            return ""
        self._current.operands.add(1)
        return self.say(self.instruction.operands[1])

    def _args(self, but: int = 0) -> str:
        argument_texts = [self.argument(n) for n in range(len(self.args) - but)]
        return " and ".join(
            [", ".join(argument_texts[:-1]), argument_texts[-1]]
            if len(argument_texts) > 1
            else argument_texts
        )

    def _name(self) -> str:
        address = self.address(0)
        return "" if address is None else self.say(address.base)

    # -- types and sizes --------------------------------------------------------------------

    def _float(self) -> str:
        names = self.tables["float"]
        for n in range(len(self.types)):
            if self.types[n] in names:
                return names[self.type_at(n)]
        return ""

    def _sign(self, index: int = -1) -> str:
        """Whether an integer type is signed; the name of another type."""
        if not self.types or index >= len(self.types):
            return ""
        integers = _INTEGER.match(self.types[index])
        if integers is None:
            return self.type_text(index)
        self.type_at(index)
        return "signed" if integers[1] == "s" else "unsigned"

    def _set_type(self) -> str:
        return "1.0" if (self.type_at(0),) in _REAL_ONE else "all ones"

    def _data(self) -> str:
        type_ = self.types[-1] if self.types else ""
        match = _BITS.match(type_)
        vector = self.match_part(_VECTOR)
        name = self.type_text()
        if match is None:
            return name or "data"
        elements = int(vector[1]) if vector else 1
        amount = f"{'an' if name.startswith('8') else 'a'} {name}"
        if elements > 1:
            amount = f"{elements} × {name}{'' if type_[0] == 'b' else 's'}"
        elif type_[0] == "b":
            amount = name
        return f"{amount} ({plural(elements * int(match[1]) // 8, 'byte')} a thread)"

    def space(self, index: int = 0) -> str:
        words = self.tables.get("space", {})
        spaces = [n for n, part in enumerate(self.parts) if n and part in words]
        if not spaces:
            return "memory"
        space = spaces[index] if index < len(spaces) else spaces[0]
        self._current.parts.add(space)
        return words[self.parts[space]]

    def _count(self) -> str:
        vectors = [
            n for n, o in enumerate(self.instruction.operands) if isinstance(o, VectorOperand)
        ]
        if not vectors:
            return "1 register"
        vector = self.instruction.operands[vectors[0]]
        elements = vector.elements if isinstance(vector, VectorOperand) else ()
        return f"{len(elements)} registers"

    def _saturate(self) -> str:
        if self.has("satfinite"):
            return "kept within the type's finite range"
        if not self.has("sat"):
            return ""
        real = bool(self.types) and self.types[0] in self.tables.get("float", {})
        return f"kept within {'0…1' if real else 'the range of the type'}"

    def _scaling(self) -> str:
        """What ``cvt`` does with its scales: widening multiplies by them, narrowing divides."""
        return "divided by" if self.types[:1] == ("s2f6x2",) else "multiplied by"

    # -- integers ---------------------------------------------------------------------------

    def _power(self) -> str:
        exponent = self.number(1)
        return (
            str(1 << exponent)
            if exponent is not None and 0 <= exponent < 128
            else f"2^{self.argument(1)}"
        )

    def _field(self) -> str:
        position = self.number(1)
        length = self.number(2)
        if position is None or length is None:
            text = f"{self.argument(2)} bits from bit {self.argument(1)}"
        else:
            text = (
                f"bit {position}" if length == 1 else f"bits {position} to {position + length - 1}"
            )
        extended = ", sign-extended" if self.type_at(-1)[:1] == "s" else ""
        return f"{text} of {self.argument(0)}{extended}"

    def _truth(self) -> str:
        table = self.number(3)
        names = [self.argument(i) for i in range(3)]
        if table is None:
            return f"{', '.join(names)} combined bit by bit, by table {self.argument(3)}"
        text = named(formula(table), names)
        return "all ones" if text == "1" else text

    def _picks(self) -> str:
        selector = self.number(2)
        a = self.argument(0)
        b = self.argument(1)
        mode = self.words("prmt")
        if mode:
            return f"bytes of {a} and {b} from byte {self.argument(2)} on: {mode}"
        if selector is None:
            return f"bytes of {a} and {b} that {self.argument(2)} picks"
        return byte_picks(a, b, selector)

    # -- comparing --------------------------------------------------------------------------

    def _set(self) -> str:
        signs = self.tables["compare"]
        part = self.any_of({*signs, "num", "nan"})
        a = self.argument(0)
        b = self.argument(1)
        if not part:
            return f"{a} compared to {b}"
        if part in ("num", "nan"):
            text = f"neither {a} nor {b} is NaN" if part == "num" else f"{a} or {b} is NaN"
        else:
            sign, _, or_nan = signs[part].partition(" ")
            text = f"{a} {sign} {b}" + (f", {or_nan}" if or_nan else "")
        also = self._also()
        return f"({text}){also[1:]}" if also else text

    def _opposite(self) -> str:
        """The second predicate of ``setp``, which is combined as the first one is."""
        second = self.result_text(1)
        return f"{second} = the opposite{self._also()}" if second else ""

    def _also(self) -> str:
        if len(self.args) < 3:
            return ""
        joined = self.words("boolean")
        return f", {joined} {self.argument(2)}" if joined else ""

    def _half(self) -> str:
        match = _BITS.match(self.types[-1]) if self.types else None
        if match and self.has("wide"):
            return f"as {2 * int(match[1])} bits"
        return self.words("half")

    def _compared_as(self) -> str:
        """Whether an order is that of signed or unsigned integers, or of floats."""
        equality = {"eq", "ne"}.intersection(self.parts)
        if equality and self.types and _INTEGER.match(self.types[-1]):
            return ""
        sign = self._sign() if self.types and self.types[-1][:1] != "b" else ""
        return sign if sign in ("", "signed", "unsigned") else f"in {self._float()}"

    def _flag(self) -> str:
        value = self.number(0)
        if value is None:
            return self.argument(0)
        return "true" if value else "false"

    # -- threads ----------------------------------------------------------------------------

    def _lanes(self) -> str:
        if not self.has("sync"):
            return "the warp"
        mask = self.number(-1)
        if mask is None:
            text = f"the lanes in {self.argument(-1)}"
        else:
            text = f"the lanes of mask 0x{mask % (1 << 32):x}"
            text = "the whole warp" if text.endswith("0xffffffff") else text
        return text

    def _groups(self) -> str:
        """Which lanes ``shfl`` takes part with, from its third operand: ``0x181f``."""
        limits = self.number(2)
        if limits is None:
            return f"{self._lanes()}, in groups by {self.argument(2)}"
        text = self._lanes()
        group_lanes = 32 - (limits >> 8 & 31)
        if group_lanes < 32:
            text += f", in groups of {group_lanes}"
        bound = limits & 31
        unbounded = 0 if "up" in self.parts else 31
        return text if bound == unbounded else f"{text}, bounded by lane {bound}"

    def _who(self) -> str:
        return f"{self.argument(1)} threads are" if len(self.args) > 1 else _ALL_THREADS

    def _reducing(self) -> str:
        return f"{self.argument(1)} threads" if len(self.args) > 2 else "the block's threads"

    def _waits(self) -> str:
        return "none" if self.number(0) == 0 else f"at most {self.argument(0)}"

    # -- what the function tells ------------------------------------------------------------

    def _call(self) -> str:
        self._current.operands.update(range(len(self.instruction.operands)))
        lists = [o for o in self.instruction.operands if isinstance(o, VectorOperand)]
        callee = next(
            (o for o in self.instruction.operands if not isinstance(o, VectorOperand)), None
        )
        if callee is None:
            return "a function"
        list_texts = [", ".join(map(self.say, vector.elements)) for vector in lists] + [""]
        out = list_texts.pop(0) if self.instruction.operands[0] is not callee else ""
        inside = list_texts[0]
        text = f"{self.say(callee)}({inside})"
        text = text if isinstance(callee, SymbolOperand) else f"the function at {text}"
        return f"{text}, which gives {out}" if out else text

    def _parameter(self) -> str:
        address = self.address(0)
        if address is None:
            return ""
        p = self.reading.values.parameter(address)
        if p is None or p.name is None:
            return p.shown if p else f"what {self.say(address.base)}{added(address.offset)} holds"
        value = f", {p.value} in this launch" if p.value is not None else ""
        return f"{p.shown} (parameter {p.index}{value})"

    def _target(self) -> str:
        target = self.argument(-1)
        line = self.reading.statements.labels.get(target)
        if line is None:
            return target
        return f"{target} (line {line}{', back' if line <= self.instruction.line else ''})"

    def _labels(self) -> str:
        """The labels of a ``.branchtargets`` list, by number."""
        targets = self.reading.statements.tables.get(self.argument(-1), ())
        label_texts = [f"{n}: {label}" for n, label in enumerate(targets[:MAX_NAMED_TARGETS])]
        return ", ".join(label_texts + ["…"] * (len(targets) > MAX_NAMED_TARGETS))


def added(offset: int) -> str:
    return f" {'+' if offset > 0 else '−'} {abs(offset)}" if offset else ""


GENERAL_PIECES: Mapping[str, Callable[[Pieces], str]] = {
    "d": Pieces.result_text,
    "d2": Pieces._second_result,
    "p": lambda pieces: pieces.result_text(1),
    "last": lambda pieces: pieces.argument(-1),
    "args": Pieces._args,
    "but": lambda pieces: pieces._args(1),
    "at": Pieces.address_text,
    "at2": lambda pieces: pieces.address_text(1),
    "name": Pieces._name,
    "pin": lambda pieces: pieces.argument(4) if len(pieces.args) > 4 else "",
    "to": lambda pieces: pieces.type_text(0),
    "from": lambda pieces: pieces.type_text() if len(pieces.types) > 1 else "",
    "packedfrom": lambda pieces: pieces.type_text(1),
    "scaling": Pieces._scaling,
    "data": Pieces._data,
    "space": Pieces.space,
    "space2": lambda pieces: pieces.space(1),
    "count": Pieces._count,
    "float": Pieces._float,
    "sign": Pieces._sign,
    "sign1": lambda pieces: pieces._sign(0),
    "sign2": lambda pieces: pieces._sign(1),
    "saturate": Pieces._saturate,
    "power": Pieces._power,
    "field": Pieces._field,
    "truth": Pieces._truth,
    "picks": Pieces._picks,
    "set": Pieces._set,
    "opposite": Pieces._opposite,
    "comparedas": Pieces._compared_as,
    "settype": Pieces._set_type,
    "waits": Pieces._waits,
    "who": Pieces._who,
    "redthreads": Pieces._reducing,
    "lanes": Pieces._lanes,
    "groups": Pieces._groups,
    "half": Pieces._half,
    "flag": Pieces._flag,
    "newaddress": lambda pieces: pieces.argument(1),
    "ordinal": lambda pieces: pieces.argument(1) if len(pieces.args) > 2 else "",
    "call": Pieces._call,
    "parameter": Pieces._parameter,
    "where": Pieces._target,
    "labels": Pieces._labels,
}
