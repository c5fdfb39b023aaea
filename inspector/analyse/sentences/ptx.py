"""PTX read out: a sentence for an instruction, a directive, a label.

An instruction's sentence is a template whose places ``Pieces`` fills. Written from the PTX ISA,
chapter "Instruction Set".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property

from inspector.analyse.isa import Isa
from inspector.analyse.sentences import forms
from inspector.analyse.sentences.context import Context, before_launch, of_header
from inspector.analyse.sentences.values import (
    MAX_FOLLOWED_LINES,
    Statements,
    Values,
    integer,
    special,
    types_of,
)
from inspector.analyse.sentences.wording import (
    Templates,
    Wording,
    directive,
    fill,
    formula,
    label,
    named,
)
from inspector.base.text import plural
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.listing.ptx_statement import (
    AHEAD,
    SINK,
    AddressOperand,
    ImmediateOperand,
    Operand,
    PairOperand,
    PtxInstruction,
    RegisterOperand,
    SpecialOperand,
    SymbolOperand,
    VectorOperand,
    has_result,
    registers_of,
)

MAX_NAMED_ELEMENTS = 4
"""Elements of a vector that are named one by one."""

_TYPE = re.compile(r"[busf]\d+(?:x\d)?\Z|t?f32\Z|bf16(?:x2)?\Z|u?e\dm\d(?:x\d)?\Z|pred\Z")
_VECTOR = re.compile(r"v([248])\Z")
_BITS = re.compile(r"[busf]([1-9]\d{0,3})\Z")
_SHAPE = re.compile(r"m(\d{1,9}+)(?!\d)n(\d{1,9}+)(?!\d)k(\d{1,9}+)(?!\d)\Z")
_TILE = re.compile(r"m(\d{1,9}+)(?!\d)n(\d{1,9}+)(?!\d)\Z")
_MANY = re.compile(r"x([124])\Z")
_DIMENSIONS = re.compile(r"([1-5])d\Z")
_TENSOR_MEMORY = re.compile(r"\d+x\d+b\Z|x\d+\Z|32x32b\Z")
_BITWISE = ("and", "or", "xor", "not", "lop3", "prmt")
"""Instructions whose larger numbers are masks, told in hexadecimal."""
_ARGUMENTS = "abcefgh"
"""Names of the operands after the result."""
_REAL_ONE = (("f32",), ("f16",), ("bf16",))
_ALL_THREADS = "all threads of the block are"


def byte_picks(a: str, b: str, selector: int) -> str:
    """``prmt.b32``: the four bytes of the result, highest first; bytes 0 to 3 are ``a``'s."""
    picks = [selector >> 4 * i & 15 for i in range(3, -1, -1)]
    said = (
        f"{'the sign of ' * (pick >> 3)}byte {pick & 3} of {b if pick & 4 else a}" for pick in picks
    )
    return f"bytes, the highest first: {', '.join(said)}"


class Pieces:
    """The pieces of one instruction of a function; ``get`` finds them by name."""

    def __init__(self, one: PtxInstruction, reader: PtxReader) -> None:
        self.one = one
        self.reader = reader
        self.parts = one.parts
        self.tables: Mapping[str, Mapping[str, str]] = reader.tables
        self.types: tuple[str, ...] = tuple(part for part in one.parts[1:] if _TYPE.match(part))
        first = one.operands[0] if one.operands else None
        self.addresses: list[AddressOperand] = [
            o for o in one.operands if isinstance(o, AddressOperand)
        ]
        writes = not isinstance(first, AddressOperand) and has_result(one.base, one.opcode)
        self.result = first if writes else None
        self.args: tuple[Operand, ...] = one.operands if self.result is None else one.operands[1:]

    def get(self, name: str) -> str:
        if name in _ARGUMENTS:
            return self._argument(_ARGUMENTS.index(name))
        made = _PIECES.get(name)
        return self.words(name) if made is None else made(self)

    def words(self, table: str) -> str:
        """What the opcode's qualifiers are called in a table of pieces, in order."""
        known = self.tables.get(table, {})
        text = ", ".join(dict.fromkeys(known[p] for p in self.parts[1:] if p in known))
        return fill(text, self.get) if "{" in text else text

    def _part(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return next((match for p in self.parts if (match := pattern.match(p))), None)

    # -- operands ---------------------------------------------------------------------------

    def say(self, one: Operand) -> str:
        match one:
            case ImmediateOperand(text):
                if isinstance(one.value, float):
                    return self.reader.wording.real(one)
                if one.value is None:
                    return text
                bits = types_of(self.one)
                if self.parts[0] in _BITWISE and bits and not -10 < one.value < 1 << 16:
                    return f"0x{one.value % (1 << bits[-1][0]):x}"
                return str(one.value).replace("-", "−")
            case VectorOperand(elements):
                said = [self.say(p) for p in elements]
                if len(said) > MAX_NAMED_ELEMENTS:
                    return f"{{{said[0]} … {said[-1]}}} ({len(said)} registers)"
                return said[0] if len(said) == 1 else "{" + ", ".join(said) + "}"
            case SpecialOperand(name):
                return self._special(name) if self.parts[0] == "mov" else name
            case RegisterOperand(_, negated, name, part):
                sign = "−" if self.parts[0][0] == "v" else "not "
                return f"{sign if negated else ''}{name}{f'.{part}' if part else ''}"
            case AddressOperand():
                return self.place(one)
            case PairOperand(first, second):
                return f"{self.say(first)} and {self.say(second)}"
            case SymbolOperand(name, offset):
                return name + _added(offset)
        return "_"

    def _special(self, name: str) -> str:
        reader = self.reader
        base, _, axis = name.partition(".")
        phrase = reader.templates.section("special").get(base)
        if phrase is None:
            entry = reader.isa.word(name)
            return f"{name} ({entry.summary.strip().removesuffix('.')})" if entry else name
        text = phrase.replace("{block}", reader.wording.block)
        text = text.replace("{axis}", axis or "x, y and z")
        value = special(name, reader.context)
        if value is not None and value.number is not None:
            return f"{text}: {value.number}"
        span = "" if value is None else reader.wording.span(value.low, value.high)
        return f"{text}, {span}" if span else text

    def place(self, one: AddressOperand) -> str:
        """An address: the register and what is added, and known facts about it."""
        base = one.base
        text = self.say(base) + _added(one.offset)
        value = self.reader.values.operand(one, self.one.line)
        if not isinstance(base, RegisterOperand) or value is None:
            return text
        if {(leaf.op, leaf.name) for leaf in forms.leaves(value)} == {("register", base.name)}:
            return text
        form = self.reader.wording.form(value, self.one.line)
        return f"{text} ({form})" if form else text

    def _argument(self, i: int) -> str:
        return self.say(self.args[i]) if i < len(self.args) else ""

    def _d(self, i: int = 0) -> str:
        one = self.result
        pair = (one.first, one.second) if isinstance(one, PairOperand) else (one, None)
        return "" if (said := pair[i]) is None or said is SINK else self.say(said)

    def _last(self) -> str:
        return self.say(self.args[-1]) if self.args else ""

    def _args(self, but: int = 0) -> str:
        said = [self.say(a) for a in self.args[: len(self.args) - but]]
        return " and ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said)

    def _at(self, i: int = 0) -> str:
        return self.place(self.addresses[i]) if i < len(self.addresses) else ""

    def number(self, i: int) -> int | None:
        return integer(self.args[i]) if -len(self.args) <= i < len(self.args) else None

    # -- types and sizes --------------------------------------------------------------------

    def _type(self, at: int = -1) -> str:
        type_ = self.types[at] if self.types else ""
        return self.tables["types"].get(type_, type_)

    def _data(self) -> str:
        type_ = self.types[-1] if self.types else ""
        match, vector, name = _BITS.match(type_), self._part(_VECTOR), self._type()
        if match is None:
            return name or "data"
        many = int(vector[1]) if vector else 1
        amount = f"{'an' if name.startswith('8') else 'a'} {name}"
        if many > 1:
            amount = f"{many} × {name}{'' if type_[0] == 'b' else 's'}"
        elif type_[0] == "b":
            amount = name
        return f"{amount} ({plural(many * int(match[1]) // 8, 'byte')} a thread)"

    def _space(self, i: int = 0) -> str:
        words = self.tables.get("space", {})
        spaces = [words[p] for p in self.parts[1:] if p in words] or ["memory"]
        return spaces[i] if i < len(spaces) else spaces[0]

    def _count(self) -> str:
        vectors = [o for o in self.one.operands if isinstance(o, VectorOperand)]
        return f"{len(vectors[0].elements) if vectors else 1} registers"

    def _saturate(self) -> str:
        if "satfinite" in self.parts:
            return "kept within the type's finite range"
        real = bool(self.types) and self.types[0] in self.tables.get("float", {})
        within = "0…1" if real else "the type's range"
        return f"kept within {within}" if "sat" in self.parts else ""

    # -- integers ---------------------------------------------------------------------------

    def _power(self) -> str:
        by = self.number(1)
        return str(1 << by) if by is not None and 0 <= by < 128 else f"2^{self._argument(1)}"

    def _field(self) -> str:
        at, many = self.number(1), self.number(2)
        if at is None or many is None:
            text = f"{self._argument(2)} bits from bit {self._argument(1)}"
        else:
            text = f"bit {at}" if many == 1 else f"bits {at} to {at + many - 1}"
        extended = ", sign-extended" if self.types and self.types[-1][0] == "s" else ""
        return f"{text} of {self._argument(0)}{extended}"

    def _truth(self) -> str:
        table = self.number(3)
        names = [self._argument(i) for i in range(3)]
        if table is None:
            return f"{', '.join(names)} combined bit by bit, by table {self._argument(3)}"
        text = named(formula(table), names)
        return "all ones" if text == "1" else text

    def _picks(self) -> str:
        selector, a, b = self.number(2), self._argument(0), self._argument(1)
        if selector is None or self.parts[-1] != "b32":
            picks = f"bytes of {a} and {b} that {self._argument(2)} picks ({self.parts[-1]})"
            return picks + self.words("prmt")
        return byte_picks(a, b, selector)

    # -- comparing --------------------------------------------------------------------------

    def _set(self) -> str:
        signs = self.tables["compare"]
        part = next((p for p in self.parts[1:] if p in signs or p in ("num", "nan")), "")
        a, b = self._argument(0), self._argument(1)
        if not part:
            return f"{a} compared to {b}"
        if part in ("num", "nan"):
            text = f"neither {a} nor {b} is NaN" if part == "num" else f"{a} or {b} is NaN"
        else:
            sign, _, or_nan = signs[part].partition(" ")
            text = f"{a} {sign} {b}" + (f", {or_nan}" if or_nan else "")
        also = self._also()
        return f"({text}){also[1:]}" if also else text

    def _also(self) -> str:
        joined = self.words("boolean")
        return f", {joined} {self._argument(2)}" if joined and len(self.args) > 2 else ""

    # -- threads ----------------------------------------------------------------------------

    def _lanes(self) -> str:
        mask = self.number(-1)
        if "sync" not in self.parts:
            return "the warp"
        if mask is None:
            text = f"the lanes in {self._last()}"
        else:
            text = f"the lanes of mask 0x{mask % (1 << 32):x}"
            text = "the whole warp" if text.endswith("0xffffffff") else text
        limits = self.number(2) if self.parts[0] == "shfl" else None
        apart = 32 - ((limits or 0) >> 8 & 31)
        return f"{text}, in groups of {apart}" if apart < 32 else text

    # -- matrices ---------------------------------------------------------------------------

    def _shape(self) -> str:
        shape = self._part(_SHAPE)
        if shape is None:
            return "matrices"
        m, n, k = shape.groups()
        types = self.types
        if len(types) == 2 and self.parts[0] == "wmma":  # the sums' alone: the factors are f16
            types = (types[0], "f16", "f16")
        if len(types) >= 3:
            return f"{m}×{k} {types[1]} by {k}×{n} {types[2]}, sums of {m}×{n} in {types[0]}"
        return f"{m}×{k} by {k}×{n}" + (f" in {types[0]}" if types else "")

    def _share(self) -> str:
        """Which matrix ``wmma.load`` and ``wmma.store`` move."""
        shape = self._part(_SHAPE)
        which = next((part for part in self.parts[1:] if part in ("a", "b", "c", "d")), "")
        if shape is None or not which:
            return "a matrix"
        m, n, k = shape.groups()
        size = {"a": f"{m}×{k}", "b": f"{k}×{n}"}.get(which, f"{m}×{n}")
        return f"matrix {which.upper()}, {size} {''.join(self.types[-1:])}".rstrip()

    def _tiles(self) -> str:
        tile, many = self._part(_TILE), self._part(_MANY)
        size = f"{tile[1]}×{tile[2]}" if tile else "8×8"
        bits = self.types[-1][1:] if self.types else "16"
        several = f"{many[1]} {size} matrices" if many else ""
        matrices = several if many and many[1] != "1" else f"one {size} matrix"
        return f"{matrices} of {bits}-bit elements"

    def _each_lane(self) -> str:
        tile, many = self._part(_TILE), self._part(_MANY)
        lanes = (int(many[1]) if many else 1) * (int(tile[1]) if tile else 8)
        return f"0…{min(32, lanes) - 1}"

    def _sum(self) -> str:
        product = f"{self._argument(0)} · {self._argument(1)}"
        d = self._d() or "its registers"
        scale = self.args[2] if len(self.args) > 2 else None
        adds = True if scale is None else self.number(2)  # None: a predicate says so
        if isinstance(scale, RegisterOperand):
            condition = self.reader.values.condition(scale.name)
            adds = condition.always if condition is not None else None
        if adds is None:
            return f"{d} = {product}, + what it was if {self._argument(2)}"
        return f"{d} += {product}" if adds else f"{d} = {product}"

    def _half(self) -> str:
        match = _BITS.match(self.types[-1]) if self.types else None
        if "wide" in self.parts and match:
            return f"as {2 * int(match[1])} bits"
        return self.words("half")

    def _flag(self) -> str:
        value = self.number(0)
        return self._argument(0) if value is None else "true" if value else "false"

    def _enable(self) -> str:
        kinds = RegisterOperand | ImmediateOperand | SymbolOperand
        rest = self.args[5 if "sp" in self.parts else 4 :]
        return next((self.say(a) for a in rest if isinstance(a, kinds)), "")

    # -- copies -----------------------------------------------------------------------------

    def _source(self) -> str:
        """How much of what ``cp.async`` writes is read."""
        if len(self.args) - ("L2::cache_hint" in self.parts) < 4:
            return ""
        size = self.args[3]
        if isinstance(size, RegisterOperand) and self.reader.statements.bits(size.name) == 1:
            return f"if {self._argument(3)} nothing is read, and all are 0"
        return f"only {self._argument(3)} of them are read, the others are 0"

    def _tensor(self) -> int:
        """Which address is a tensor map with its coordinates."""
        return next((i for i, a in enumerate(self.addresses) if a.more), 0)

    def _coordinates(self) -> str:
        vector = next((a.more[0] for a in self.addresses if a.more), None)
        elements = vector.elements if isinstance(vector, VectorOperand) else (vector,)
        return "" if vector is None else " at " + ", ".join(self.say(e) for e in elements if e)

    def _direction(self) -> str:
        if self._tensor() == 0:
            return f"from shared memory at {self._at(1)}"
        return f"to {self._space()} at {self._at()}"

    def _completion(self) -> str:
        if "bulk_group" in self.parts:
            return "it belongs to the group that is closed next"
        return f"the barrier at {self._at(2)} counts the bytes" if len(self.addresses) > 2 else ""

    def _call(self) -> str:
        lists = [o for o in self.one.operands if isinstance(o, VectorOperand)]
        callee = next((o for o in self.one.operands if not isinstance(o, VectorOperand)), None)
        if callee is None:
            return "a function"
        said = [", ".join(map(self.say, each.elements)) for each in lists] + [""]
        out = said.pop(0) if self.one.operands[0] is not callee else ""
        inside = said[0]
        text = f"{self.say(callee)}({inside})"
        text = text if isinstance(callee, SymbolOperand) else f"the function at {text}"
        return f"{text}, which gives {out}" if out else text

    # -- what the function tells ------------------------------------------------------------

    def _parameter(self) -> str:
        if not self.addresses:
            return ""
        address = self.addresses[0]
        p = self.reader.values.parameter(address)
        if p is None or p.name is None:
            return p.shown if p else f"what {self.say(address.base)}{_added(address.offset)} holds"
        value = f", {p.value} in this launch" if p.value is not None else ""
        return f"{p.shown} (parameter {p.index}{value})"

    def _where(self) -> str:
        target = self._last()
        line = self.reader.statements.labels.get(target)
        if line is None:
            return target
        return f"{target} (line {line}{', back' if line <= self.one.line else ''})"


def _added(offset: int) -> str:
    return f" {'+' if offset > 0 else '−'} {abs(offset)}" if offset else ""


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
        self.tables = {**templates.pieces, "types": words("types"), "compare": words("compare")}

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
        pieces = Pieces(one, self)
        template = self.templates.of(one.parts)
        if template is None:
            text = self._summary(one, pieces)
        else:
            text = fill(template, pieces.get)
            result = self._result(one, line)
            text = f"{text} ({result})" if result else text
        if text is None or one.guard is None:
            return text
        meaning = self._meaning(one.guard.name)
        condition = f"{one.guard.name} ({meaning})" if meaning else one.guard.name
        return f"{'unless' if one.guard.negated else 'if'} {condition}: {text}"

    def _summary(self, one: PtxInstruction, pieces: Pieces) -> str | None:
        """An instruction without its own sentence: what the reference says, and operands."""
        entry = self.isa.ptx(one.opcode)
        if entry is None:
            return None
        said = entry.summary.strip().removesuffix(".")
        said = said if said[1:2].isupper() else said[:1].lower() + said[1:]
        operands = ", ".join(map(pieces.say, one.operands))
        return f"{one.opcode} {operands}: {said}" if operands else said

    def _result(self, one: PtxInstruction, line: Line) -> str:
        """The value of the result, in addition to the sentence."""
        first = one.operands[0] if one.operands else None
        if not isinstance(first, RegisterOperand) or first.name not in line.defs:
            return ""
        name, base, last, typed = first.name, one.base, one.operands[-1], bool(types_of(one))
        if base == "setp" or one.kind == "pred":
            meaning = self._meaning(name) if base != "mov" else ""
            return {"always": "always true", "never": "never true"}.get(meaning, meaning)
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
        # The register itself, or operands that the line names.
        own = value.atom is not None and (value.atom.op, value.atom.name) == ("register", name)
        named = {register.name for other in one.operands[1:] for register in registers_of(other)}
        leaves = forms.leaves(value)
        if own or (leaves and all(x.op == "register" and x.name in named for x in leaves)):
            narrow = value.high - value.low < 1 << max(0, self.statements.bits(name) - 8)
            return self.wording.span(value.low, value.high) if narrow else ""
        text = self.wording.known(value, line.n)
        return f"byte offset: {text}" if text and self._is_offset(name) else text

    def _meaning(self, name: str) -> str:
        """What a predicate says, in this launch or any; "" if that is not known."""
        condition = self.values.condition(name)
        if condition is None:
            return ""
        if condition.always is not None:
            bare = self._unlaunched.condition(name)
            if bare is None or bare.always is None:
                return f"{'true' if condition.always else 'false'} in this launch"
        return self.wording.told(condition)

    @cached_property
    def _unlaunched(self) -> Values:
        """Values that are known without the launch."""
        return Values(self.statements, before_launch(self.context, self.listing, self.function))

    def _is_offset(self, register: str) -> bool:
        """Whether a register is added to an address."""
        lines = self.statements.uses.get(register, ())[:4]
        for one in (one for n in lines for one in self.statements.at(n) if one.base == "add"):
            names = [o.name for o in one.operands[1:] if isinstance(o, RegisterOperand)]
            others = [self.values.register(x, one.line) for x in names if x != register]
            if register in names and any(map(self.wording.is_address, others)):
                return True
        return False


_PIECES: Mapping[str, Callable[[Pieces], str]] = {
    # operands
    "d": Pieces._d,
    "p": lambda of: of._d(1),
    "last": Pieces._last,
    "args": Pieces._args,
    "but": lambda of: of._args(1),
    "at": Pieces._at,
    "at2": lambda of: of._at(1),
    "name": lambda of: of.say(of.addresses[0].base) if of.addresses else "",
    "pin": lambda of: of._last() if len(of.args) > 4 else "",
    # types and sizes
    "to": lambda of: of._type(0),
    "from": lambda of: of._type() if len(of.types) > 1 else "",
    "data": Pieces._data,
    "space": Pieces._space,
    "space2": lambda of: of._space(1),
    "count": Pieces._count,
    "float": lambda of: next((x for t in of.types if (x := of.tables["float"].get(t))), ""),
    "saturate": Pieces._saturate,
    # integers and comparisons
    "power": Pieces._power,
    "field": Pieces._field,
    "truth": Pieces._truth,
    "picks": Pieces._picks,
    "set": Pieces._set,
    "also": Pieces._also,
    "settype": lambda of: "1.0" if of.types[:1] in _REAL_ONE else "all ones",
    # threads
    "waits": lambda of: "none" if of.number(0) == 0 else f"at most {of._argument(0)}",
    "who": lambda of: f"{of._argument(1)} threads are" if len(of.args) > 1 else _ALL_THREADS,
    "lanes": Pieces._lanes,
    # matrices
    "shape": Pieces._shape,
    "share": Pieces._share,
    "tiles": Pieces._tiles,
    "eachlane": Pieces._each_lane,
    "sum": Pieces._sum,
    "half": Pieces._half,
    "flag": Pieces._flag,
    "enable": Pieces._enable,
    "tmem": lambda of: ", ".join(filter(_TENSOR_MEMORY.match, of.parts)),
    # copies and calls
    "source": Pieces._source,
    "map": lambda of: of.say(of.addresses[of._tensor()].base) if of.addresses else "",
    "coordinates": Pieces._coordinates,
    "dimensions": lambda of: f"{(of._part(_DIMENSIONS) or ['', 'several'])[1]}-dimensional",
    "direction": Pieces._direction,
    "completion": Pieces._completion,
    "call": Pieces._call,
    "parameter": Pieces._parameter,
    "where": Pieces._where,
}
"""What fills a place of a template; any other place names a table of words for qualifiers."""
