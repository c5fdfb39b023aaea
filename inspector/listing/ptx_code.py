"""PTX as statements with operands: what an instruction reads, writes and names, scopes resolved.

``ptx`` keeps every line of a text; this module keeps what is needed to execute it. Written from
the PTX ISA, chapters "Syntax" and "State Spaces, Types, and Variables". A register or a variable
that is declared in a block ``{ }`` has a number or a name of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from inspector.listing.line import Function, Listing
from inspector.listing.ptx_declaration import (
    bounds,
    of_range,
    register_declarations,
    variable_declaration,
)
from inspector.listing.ptx_operands import split
from inspector.listing.ptx_statement import LABEL, PLAIN, SPECIAL, strip


@dataclass(frozen=True, slots=True)
class RegisterOperand:
    """A register by its number in ``PtxFunction.registers``; ``negated``: written ``!%p``."""

    number: int
    negated: bool = False


@dataclass(frozen=True, slots=True)
class SpecialOperand:
    """A read-only value of the hardware, such as ``%tid.x``."""

    name: str


@dataclass(frozen=True, slots=True)
class ImmediateOperand:
    """A constant as it is written: ``-1``, ``0f3F800000``, ``0x1F``."""

    text: str


@dataclass(frozen=True, slots=True)
class SymbolOperand:
    """The address of a variable, or the name of a function or a label; ``offset`` in bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class AddressOperand:
    """``[base+offset]``; ``more``: other operands in the brackets (a TMA's coordinates)."""

    base: Operand
    offset: int = 0
    more: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class VectorOperand:
    """``{a, b}``, or the list in a call's parentheses."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class PairOperand:
    """``p|q``: two destinations."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class SinkOperand:
    """``_``: a result that is discarded."""


Operand = (
    RegisterOperand
    | SpecialOperand
    | ImmediateOperand
    | SymbolOperand
    | AddressOperand
    | VectorOperand
    | PairOperand
    | SinkOperand
)

SINK = SinkOperand()

MOST_REGISTERS = 1 << 20
"""Most registers of a function that are read; compilers declare some thousands."""
LONGEST = 1 << 16
"""Most characters of a statement; a longer one is not read."""


@dataclass(frozen=True, slots=True)
class PtxInstruction:
    """One instruction. ``parts`` is the opcode split at its dots, the base first."""

    line: int
    opcode: str
    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: int | None = None
    """The predicate register under which it runs."""
    inverted: bool = False
    """Whether it runs if the guard is false."""

    @property
    def base(self) -> str:
        return self.parts[0]

    @property
    def kind(self) -> str:
        """The last type that the opcode names, usually that of its operands."""
        return self.parts[-1]


@dataclass(frozen=True, slots=True)
class PtxVariable:
    """A variable or a parameter. ``size`` in bytes, 0 if ``.extern`` leaves it open.

    ``initial`` are its initial values as they are written, one for each element.
    """

    name: str
    space: str
    kind: str
    align: int
    size: int
    line: int = 0
    initial: tuple[str, ...] = ()
    extern: bool = False
    array: bool = False


@dataclass(slots=True)
class PtxFunction:
    """A function with a body. ``registers`` are declared types by number; labels and tables are
    by name, and a label's value is the number of the instruction after it."""

    name: str
    entry: bool
    line: int
    parameters: tuple[PtxVariable, ...] = ()
    results: tuple[PtxVariable, ...] = ()
    names: list[str] = field(default_factory=list)
    registers: list[str] = field(default_factory=list)
    variables: dict[str, PtxVariable] = field(default_factory=dict)
    instructions: list[PtxInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """``.branchtargets`` by their label."""
    reqntid: tuple[int, int, int] | None = None
    unread: list[tuple[int, str]] = field(default_factory=list)
    """Line and text of statements that this reader does not know."""


@dataclass(frozen=True, slots=True)
class PtxModule:
    """The functions and variables of a PTX text; ``target`` is ``.target``'s, as in ``sm_90a``."""

    target: str
    functions: dict[str, PtxFunction]
    variables: dict[str, PtxVariable]
    texts: Sequence[str] = ()
    """The lines of the text."""

    @property
    def entries(self) -> tuple[str, ...]:
        """The kernels, in the order of the text."""
        return tuple(f.name for f in self.functions.values() if f.entry)


_SIZES = {"pred": 1, "b128": 16, "f16x2": 4, "bf16x2": 4}
_SPACES = ("global", "const", "shared", "local", "param", "reg", "tex")
_TARGET = re.compile(r"\s*\.target\s+(\w+)")
_OPCODE = re.compile(r"\s*(?:@(!?)\s*([%\w$]+)\s+)?([a-z_][\w.]*(?:::[\w.]+)*)\s*(.*)\Z", re.DOTALL)
_OUTSIDE = re.compile(r"\s*(?:\.(?:visible|weak|extern|common)\s+)*\.(?:global|const|shared|tex)\b")
_ONE_LINE = (".loc", ".file", ".pragma", ".section", ".maxn", ".minn", ".reqn", ".noreturn",
             ".alias", ".abi", ".explicit", ".callprototype", ".calltargets", ".attribute",
             ".maxc", ".blocks")  # fmt: skip
_ADDED = re.compile(r"([^\d+\-\s][^+\-\s]*)\s*([+-].*)\Z", re.DOTALL)
_INTEGER = re.compile(r"[+-]?(?:0[xX][\da-fA-F]+|0[bB][01]+|\d+)U?\Z")


def size_of(kind: str) -> int:
    """Bytes of a fundamental type, such as ``f32`` or ``b8``."""
    size = _SIZES.get(kind)
    return size if size is not None else max(1, int(kind.lstrip("busftx") or 8) // 8)


def integer(text: str) -> int:
    """An integer constant of PTX: decimal, hexadecimal, octal or binary, perhaps with ``U``."""
    bare = text.strip().rstrip("U")
    sign = -1 if bare.startswith("-") else 1
    bare = bare.lstrip("+-")
    if len(bare) > 1 and bare[0] == "0" and bare[1].isdigit():
        return sign * int(bare, 8)
    return sign * int(bare, 0)


def read_module(listing: Listing) -> PtxModule:
    """The functions and variables of a PTX ``listing``."""
    texts = listing.text.split("\n")
    target, outside = "", [True] * len(texts)
    for function in listing.functions:
        for n in range(function.first - 1, function.last):
            outside[n] = False
    variables: dict[str, PtxVariable] = {}
    for line, statement in _statements_outside(texts, outside):
        if match := _TARGET.match(statement):
            target = match[1]
        elif variable := _variable(statement, line):
            variables[variable.name] = variable
    functions = {f.name: _FunctionReading(texts, f, variables).read() for f in listing.functions}
    return PtxModule(target, functions, variables, texts)


def _statements_outside(texts: Sequence[str], outside: Sequence[bool]) -> Iterator[tuple[int, str]]:
    """Declarations of variables, and ``.target``, outside of functions, with their lines."""
    comment, gathered, first = False, "", 0
    for n, text in enumerate(texts):
        if not outside[n]:
            comment, gathered = False, ""
            continue
        if not comment and not gathered and "." not in text and "/*" not in text:
            continue
        code, comment = strip(text, comment)
        if gathered:
            gathered += " " + code
        elif _TARGET.match(code):
            yield n + 1, code
            continue
        elif _OUTSIDE.match(code):
            gathered, first = code, n + 1
        while (end := gathered.find(";")) >= 0:
            yield first, gathered[:end]
            gathered = gathered[end + 1 :]
            if not _OUTSIDE.match(gathered):
                gathered = ""


def _variable(statement: str, line: int, space: str = "") -> PtxVariable | None:
    """The variable or parameter that a statement declares; None if it declares none."""
    declaration = variable_declaration(statement)
    if declaration is None or not declaration.words:
        return None
    rest = declaration.rest.strip()
    names = [word for word, _ in declaration.words]
    state_space = next((w for w in names if w in _SPACES), space)
    if (
        (rest and rest[0] != "=")
        or not state_space
        or (declaration.type is None and state_space != "tex")
    ):
        return None
    initial = tuple(v.strip() for v in re.sub(r"[{}=]", " ", rest).split(",") if v.strip())
    element_bytes = size_of("b64") if declaration.type is None else declaration.element_bytes
    count = prod(0 if size is None else size for size in declaration.sizes) or len(initial)
    return PtxVariable(
        declaration.name, state_space, declaration.type or "b64",
        declaration.align or element_bytes, element_bytes * count, line, initial,
        "extern" in names, bool(declaration.sizes),
    )  # fmt: skip


class _FunctionReading:
    """One function, statement by statement."""

    def __init__(
        self, texts: Sequence[str], function: Function, outer: dict[str, PtxVariable]
    ) -> None:
        self.texts = texts[function.first - 1 : function.last]
        self.first = function.first
        self.made = PtxFunction(function.name, function.entry, function.first)
        self.outer = outer
        self.scopes: list[dict[str, int | str]] = [{}]
        """Meaning of names by scope, innermost last: a register's number, or a variable's name."""
        self.spans: list[int] = [0]
        self.opened = 0
        self.ranges: list[list[tuple[str, int, int]]] = [[]]
        """Numbered registers by scope: the beginning of the name, how many, the first number."""
        self.known: dict[str, Operand] = {}
        self.pending: list[tuple[int, tuple[int, ...]]] = []
        """Branches, each with the blocks around it, to be resolved when all labels are known."""
        self.places: dict[str, dict[int, str]] = {}
        """The unique names of each label by the block that it is in."""

    def read(self) -> PtxFunction:
        body = self._header()
        statement, began, comment, depth = body, self.first, False, 0
        start = self._body_line
        for n in range(start, len(self.texts)):
            text = self.texts[n] if n > start else statement
            line = self.first + n
            if n == start:
                statement = ""
            if not comment and not statement and (plain := PLAIN.match(text)):
                inverted = plain[1] is not None and "!" in text[: plain.start(1)]
                self._instruction(line, plain[1], inverted, plain[2], plain[3] or "")
                continue
            code, comment = strip(text, comment)
            if not statement:
                if not (bare := code.strip()):
                    continue
                if bare.startswith(_ONE_LINE) and ";" not in bare:
                    continue
                began = line
            statement = f"{statement} {code}" if statement else code
            statement, depth = self._pieces(statement, began, depth)
            if len(statement) > LONGEST:
                self.made.unread.append((began, statement[:80]))
                statement, depth = "", 0
        self._jumps()
        return self.made

    def _header(self) -> str:
        """Read the header; returns the code after the body's brace on the same line."""
        text, comment = "", False
        self._body_line = 0
        rest = ""
        for n, line in enumerate(self.texts):
            code, comment = strip(line, comment)
            body = code.find("{")
            text += " " + (code[:body] if body >= 0 else code)
            if body >= 0:
                self._body_line, rest = n, code[body + 1 :]
                break
        self.made.reqntid = bounds(text).get("reqntid")
        kind = re.search(r"\.(?:entry|func)\b", text)
        groups = re.findall(r"\(([^()]*)\)", text[kind.end() :]) if kind else []
        leading = kind is not None and text[kind.end() :].lstrip()[:1] == "("
        if leading and groups:
            self.made.results = self._parameters(groups[0])
            groups = groups[1:]
        if groups:
            self.made.parameters = self._parameters(groups[0])
        return rest

    def _parameters(self, text: str) -> tuple[PtxVariable, ...]:
        out = []
        for part in split(text):
            parameter = _variable(part, self.first, "param")
            if parameter is None:
                continue
            if parameter.space == "reg":
                self._register(parameter.name, parameter.kind)
            else:
                self.scopes[-1][parameter.name] = parameter.name
                self.made.variables[parameter.name] = parameter
            out.append(parameter)
        return tuple(out)

    def _pieces(self, text: str, line: int, depth: int) -> tuple[str, int]:
        """Read whole statements of ``text``; returns the rest, and the open vectors in it."""
        start = 0
        position = 0
        size = len(text)
        while position < size:
            c = text[position]
            if c == "{" and not depth and self._between(text[start:position], line):
                self.opened += 1
                self.scopes.append({})
                self.ranges.append([])
                self.spans.append(self.opened)
                start = position + 1
            elif c == "{":
                depth += 1
            elif c == "}" and depth:
                depth -= 1
            elif c == "}":
                self._between(text[start:position], line)
                if len(self.scopes) > 1:
                    self.scopes.pop()
                    self.ranges.pop()
                    self.spans.pop()
                    self.known.clear()
                start = position + 1
            elif c == ";":
                self._statement(text[start:position], line)
                start, depth = position + 1, 0
            position += 1
        rest = text[start:]
        if not depth and self._between(rest, line):
            return "", 0
        return rest if rest.strip() else "", depth

    def _between(self, text: str, line: int) -> bool:
        """Whether ``text`` holds nothing but labels, which are then noted."""
        position = 0
        while label := LABEL.match(text, position):
            position = label.end()
        if text[position:].strip():
            return False
        self._labels(text)
        return True

    def _labels(self, text: str) -> str:
        """Note the labels that ``text`` begins with; returns the rest."""
        while label := LABEL.match(text):
            name = label[1]
            repeated = name in self.made.labels
            unique = f"{name}@{self.spans[-1]}" if repeated else name
            self.made.labels[unique] = len(self.made.instructions)
            self.places.setdefault(name, {})[self.spans[-1]] = unique
            text = text[label.end() :]
        return text

    def _statement(self, text: str, line: int) -> None:
        text = self._labels(text)
        bare = text.strip()
        if not bare:
            return
        if bare[0] == ".":
            self._directive(bare, line)
            return
        match = _OPCODE.match(bare)
        if match is None:
            self.made.unread.append((line, bare))
            return
        self._instruction(line, match[2], match[1] == "!", match[3], match[4])

    def _directive(self, text: str, line: int) -> None:
        if text.startswith(".reg") and not text[4:5].isalnum():
            self._declare(text, line)
        elif text.startswith(".branchtargets"):
            labels = [x for x in re.split(r"[\s,]+", text[len(".branchtargets") :]) if x]
            name = next(reversed(self.made.labels))
            self.made.tables[name] = tuple(labels)
        elif variable := _variable(text, line):
            unique, k = variable.name, 0
            while unique in self.made.variables or unique in self.outer:
                unique, k = f"{variable.name}@{k}", k + 1
            self.scopes[-1][variable.name] = unique
            self.known.clear()
            self.made.variables[unique] = PtxVariable(
                unique, variable.space, variable.kind, variable.align, variable.size, line,
                variable.initial, variable.extern, variable.array,
            )  # fmt: skip
        elif not text.startswith(_ONE_LINE):
            self.made.unread.append((line, text))

    def _declare(self, statement: str, line: int) -> None:
        for declaration in register_declarations(statement):
            for name, count in declaration.names:
                if count is None:
                    self._register(name, declaration.type)
                    continue
                first = len(self.made.registers)
                if first + count > MOST_REGISTERS:
                    self.made.unread.append((line, f".reg {name}<{count}>"))
                    continue
                self.ranges[-1].append((name, count, first))
                self.made.registers += [declaration.type] * count
                self.made.names += [f"{name}{i}" for i in range(count)]
        self.known.clear()

    def _register(self, name: str, kind: str) -> None:
        self.scopes[-1][name] = len(self.made.registers)
        self.made.registers.append(kind)
        self.made.names.append(name)

    def _meaning(self, name: str) -> int | str | None:
        """The register or variable that ``name`` means here; None if it is not declared."""
        numbered = of_range(name)
        for scope, ranges in zip(reversed(self.scopes), reversed(self.ranges), strict=True):
            if name in scope:
                return scope[name]
            if numbered is not None:
                for begin, count, first in ranges:
                    if begin == numbered[0] and numbered[1] < count:
                        return first + numbered[1]
        return None

    def _instruction(
        self, line: int, guard: str | None, inverted: bool, opcode: str, rest: str
    ) -> None:
        parts = tuple(opcode.split("."))
        operands = tuple([self.operand(o) for o in split(rest)]) if rest else ()
        number = None
        if guard is not None:
            register = self.operand(guard)
            if not isinstance(register, RegisterOperand):
                self.made.unread.append((line, f"@{guard} {opcode}"))
                return
            number = register.number
        if parts[0] in ("bra", "brx"):
            self.pending.append((len(self.made.instructions), tuple(self.spans)))
        self.made.instructions.append(
            PtxInstruction(line, opcode, parts, operands, number, inverted)
        )

    def operand(self, text: str) -> Operand:
        """One operand, with names resolved in the current scope."""
        cached = self.known.get(text)
        if cached is None:
            cached = self.known[text] = self._operand(text)
        return cached

    def _operand(self, text: str) -> Operand:
        text = text.strip()
        first = text[:1]
        if first == "[":
            inside = split(text[1:].rpartition("]")[0])
            base, offset = self._sum(inside[0]) if inside else (SINK, 0)
            return AddressOperand(base, offset, tuple(self.operand(o) for o in inside[1:]))
        if first in ("{", "("):
            return VectorOperand(tuple(self.operand(o) for o in split(text[1:-1])))
        if "|" in text:
            a, _, b = text.partition("|")
            return PairOperand(self.operand(a), self.operand(b))
        if text == "_":
            return SINK
        if first == "!":
            inner = self.operand(text[1:])
            return (
                RegisterOperand(inner.number, True) if isinstance(inner, RegisterOperand) else inner
            )
        base, offset = self._sum(text)
        if isinstance(base, SymbolOperand) and offset:
            return SymbolOperand(base.name, offset)
        return base

    def _sum(self, text: str) -> tuple[Operand, int]:
        """``name+4`` or a name alone: the operand and the bytes added to it."""
        name, offset = text.strip(), 0
        if match := _ADDED.match(name):
            tail = re.sub(r"\s+", "", match[2]).replace("+-", "-")
            if _INTEGER.match(tail):
                name, offset = match[1], integer(tail)
        if name[:1].isdigit() or name[:1] in "-+.":
            return ImmediateOperand(name), offset
        meaning = self._meaning(name)
        if isinstance(meaning, int):
            return RegisterOperand(meaning), offset
        if meaning is not None:
            return SymbolOperand(meaning), offset
        if name.partition(".")[0] in SPECIAL or name == "WARP_SZ":
            return SpecialOperand(name), offset
        return SymbolOperand(name), offset

    def _jumps(self) -> None:
        """Give branches the unique names of their labels, by the blocks around them."""
        for n, spans in self.pending:
            jump = self.made.instructions[n]
            operands = []
            for operand in jump.operands:
                if isinstance(operand, SymbolOperand) and operand.name in self.places:
                    places = self.places[operand.name]
                    inner = [places[s] for s in reversed(spans) if s in places]
                    operand = SymbolOperand(inner[0] if inner else next(iter(places.values())))
                operands.append(operand)
            self.made.instructions[n] = PtxInstruction(
                jump.line, jump.opcode, jump.parts, tuple(operands), jump.guard, jump.inverted
            )
