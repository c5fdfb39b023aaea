"""PTX as statements with operands: what an instruction reads, writes and names, scopes resolved.

``ptx`` keeps every line of a text; this module keeps what is needed to execute it. Written from
the PTX ISA, chapters "Syntax" and "State Spaces, Types, and Variables". A register or a variable
that is declared in a block ``{ }`` has its own number or name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from types import MappingProxyType

from inspector.base.names import words
from inspector.parsers.line import Function, Listing
from inspector.parsers.ptx_statement import (
    AHEAD,
    FUNCTION,
    INSTRUCTION,
    KNOWN,
    LABEL,
    MAX_STATEMENT_CHARS,
    PLAIN,
    Operand,
    OperandReader,
    PtxInstruction,
    PtxVariable,
    RegisterOperand,
    SpecialOperand,
    SymbolOperand,
    of_range,
    read_variable,
    register_declarations,
    results_and_parameters,
    split_header,
    strip,
    thread_bounds,
)

UNDECLARED = "undeclared"
"""The type of a register whose declaration is not in the function."""
SELECTOR = re.compile(r"[bh]\d{1,4}")
"""Bytes or halves of a register, of a video instruction's operand: ``b0`` of ``%r1.b0``."""
MAX_SCOPES = 64
"""Blocks around a name that are searched for its declaration, innermost first."""


@dataclass(slots=True)
class PtxFunction:
    """A function with a body. ``registers`` are the types of the registers that its instructions
    name, by number; labels and tables are by name, and a label's value is the number of the
    instruction after it."""

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
    reqnctapercluster: tuple[int, int, int] | None = None
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
        return tuple(f.name for f in self.functions.values() if f.entry)


_TARGET = re.compile(r"\s*\.target\s+(\w+)")
_LABELS = re.compile(rf"(?:{LABEL.pattern})*+\s*+\Z")
_OUTSIDE = re.compile(r"\s*(?:\.(?:visible|weak|extern|common)\s+)*\.(?:global|const|shared|tex)\b")
_ONE_LINE = tuple(
    words(
        ".loc .file .pragma .section .maxn .minn .reqn .noreturn .alias .abi .explicit "
        ".callprototype .calltargets .attribute .maxc .blocks"
    )
)
"""Beginnings of directives that end with their line."""


def read_module(listing: Listing) -> PtxModule:
    texts = listing.text.split("\n")
    target = ""
    outside = [True] * len(texts)
    for function in listing.functions:
        for n in range(function.first - 1, function.last):
            outside[n] = False
    variables: dict[str, PtxVariable] = {}
    for line, statement in _statements_outside(texts, outside):
        if match := _TARGET.match(statement):
            target = match[1]
        elif variable := read_variable(statement, line):
            variables[variable.name] = variable
    functions = {f.name: read_function(listing, f, variables) for f in listing.functions}
    return PtxModule(target, functions, variables, texts)


def read_function(
    listing: Listing, function: Function, outer: Mapping[str, PtxVariable] = MappingProxyType({})
) -> PtxFunction:
    """One function; ``outer`` are the variables of its module. Text without a header is a body."""
    reading = FunctionReading(listing, function, outer)
    instructions = list(reading.read_instructions())
    for n, block in reading.branches.items():
        instructions[n] = reading.with_unique_labels(instructions[n], block)
    reading.code.instructions = instructions
    return reading.code


def _statements_outside(texts: Sequence[str], outside: Sequence[bool]) -> Iterator[tuple[int, str]]:
    """Declarations of variables, and ``.target``, outside of functions, with their lines."""
    comment = False
    gathered = ""
    first = 0
    for n, text in enumerate(texts):
        if not outside[n]:
            comment = False
            gathered = ""
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
            gathered = code
            first = n + 1
        while (end := gathered.find(";")) >= 0:
            yield first, gathered[:end]
            gathered = gathered[end + 1 :]
            if not _OUTSIDE.match(gathered):
                gathered = ""


@dataclass(slots=True)
class _Scope:
    """What the block at ``depth`` declares."""

    depth: int
    names: dict[str, int | str] = field(default_factory=dict)
    """A register's number, or the name of a variable that is its own in the module."""
    ranges: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Count and type of ``%r<28>`` by ``%r``; its registers get a number when first named."""


def _is_certain(plain_match: re.Match[str]) -> bool:
    """Whether a line within an unfinished statement is a separate instruction."""
    return bool(plain_match[2]) or plain_match[3].partition(".")[0] in KNOWN


def _is_skipped(code: str) -> bool:
    """Whether a line has no statement: it is empty, or a directive that ends with it."""
    return not code or (code.startswith(_ONE_LINE) and ";" not in code)


class FunctionReading(OperandReader):
    """Reads one function, statement by statement; ``read_instructions`` gives them one by one.

    ``code`` is the function without them, whole after the last.
    """

    def __init__(
        self,
        listing: Listing,
        function: Function,
        outer: Mapping[str, PtxVariable] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.texts = listing.texts(function.first, function.last)
        self.first = function.first
        self.code = PtxFunction(function.name, function.entry, function.first)
        self.outer = outer
        self.scopes = [_Scope(1)]
        """The blocks that declare something, innermost last."""
        self.blocks = [0]
        self.parents = [0]
        """The open blocks, and the block around each, by number."""
        self.pending: list[PtxInstruction] = []
        self.count = 0
        """Instructions so far."""
        self.branches: dict[int, int] = {}
        """The blocks of branches by their number, for ``with_unique_labels`` at the end."""
        self.table_blocks: dict[str, int] = {}
        """The blocks of tables."""
        self.unique_labels: dict[str, dict[int, str]] = {}
        """The unique names of each label by the block that it is in."""
        self.irregular_names: list[str] = []
        """Names of the current instruction that only a reader of text can make sense of."""

    def read_instructions(self) -> Iterator[PtxInstruction]:
        """The instructions; the operands of ``branches`` are their labels as written."""
        body, statement = self._header()
        statement_line = self.first
        comment = False
        depth = 0
        for n in range(body, len(self.texts)):
            yield from self.pending
            self.pending.clear()
            text = self.texts[n]
            line = self.first + n
            if n == body:
                text = statement
                statement = ""
            plain_match = None if comment else PLAIN.match(text)
            if statement and plain_match and _is_certain(plain_match):
                self.code.unread.append((statement_line, statement[:80]))  # its ``;`` is missing
                statement = ""
                depth = 0
            if plain_match and not statement:
                self._instruction(line, text, *plain_match.groups())
                continue
            code, comment = strip(text, comment)
            if not statement:
                if _is_skipped(code.strip()):
                    continue
                statement_line = line
            statement = f"{statement} {code}" if statement else code
            statement, depth = self._pieces(statement, statement_line, depth)
            if len(statement) > MAX_STATEMENT_CHARS or (
                statement and line - statement_line > AHEAD
            ):
                self.code.unread.append((statement_line, statement[:80]))
                statement = ""
                depth = 0
        yield from self.pending
        self._resolve_tables()

    def _resolve_tables(self) -> None:
        """Put the unique names of labels into the tables, once all labels are read."""
        for name, block in self.table_blocks.items():
            labels = self.code.tables[name]
            self.code.tables[name] = tuple(self._label(label, block) for label in labels)

    def _header(self) -> tuple[int, str]:
        """Read the header; returns the line on which the body begins, and the code there."""
        header, body, code = split_header(self.texts)
        if body is None or FUNCTION.search(header) is None:
            return 0, self.texts[0] if self.texts else ""
        bounds = thread_bounds(header)
        self.code.reqntid = bounds.get("reqntid")
        self.code.reqnctapercluster = bounds.get("reqnctapercluster")
        self.code.results, self.code.parameters = results_and_parameters(header, self.first)
        for parameter in (*self.code.results, *self.code.parameters):
            if parameter.space == "reg":
                self._register(self.scopes[0], parameter.name, parameter.kind)
            else:
                self.scopes[0].names[parameter.name] = parameter.name
                self.code.variables[parameter.name] = parameter
        self._open()
        return body, code

    def _open(self) -> None:
        self.parents.append(self.blocks[-1])
        self.blocks.append(len(self.parents) - 1)

    def _close(self) -> None:
        if len(self.blocks) > 1:
            if self.scopes[-1].depth == len(self.blocks):
                self.scopes.pop()
                self.operand_cache.clear()
            self.blocks.pop()

    def _pieces(self, text: str, line: int, depth: int) -> tuple[str, int]:
        """Read whole statements of ``text``; returns the rest, and the open vectors in it."""
        start = 0
        for position, c in enumerate(text):
            if c == "{" and not depth and self._between(text[start:position]):
                self._open()
                start = position + 1
            elif c == "{":
                depth += 1
            elif c == "}" and depth:
                depth -= 1
            elif c == "}":
                self._between(text[start:position])
                self._close()
                start = position + 1
            elif c == ";":
                self._statement(text[start:position], line)
                start = position + 1
                depth = 0
        remainder = text[start:]
        if not depth and self._between(remainder):
            return "", 0
        return remainder if remainder.strip() else "", depth

    def _between(self, text: str) -> bool:
        """Whether ``text`` holds nothing but labels, which are then noted."""
        return _LABELS.match(text) is not None and not self._labels(text).strip()

    def _labels(self, text: str) -> str:
        while label := LABEL.match(text):
            name = label[1]
            block = self.blocks[-1]
            unique = f"{name}@{block}" if name in self.code.labels else name
            self.code.labels[unique] = self.count
            self.unique_labels.setdefault(name, {}).setdefault(block, unique)
            text = text[label.end() :]
        return text

    def _statement(self, text: str, line: int) -> None:
        stripped = self._labels(text).strip()
        if not stripped:
            return
        if stripped[0] == ".":
            self._directive(stripped, line)
            return
        if (match := INSTRUCTION.match(stripped)) is not None:
            self._instruction(line, stripped, *match.groups())
        else:
            self.code.unread.append((line, stripped))

    def _directive(self, text: str, line: int) -> None:
        if text.startswith(".reg") and not text[4:5].isalnum():
            self._declare(text)
        elif text.startswith(".branchtargets") and self.code.labels:
            name = next(reversed(self.code.labels))
            self.code.tables[name] = tuple(re.findall(r"[^\s,]+", text)[1:])
            self.table_blocks[name] = self.blocks[-1]
        elif variable := read_variable(text, line):
            unique = variable.name
            k = 0
            while unique in self.code.variables or unique in self.outer:
                unique = f"{variable.name}@{k}"
                k = k + 1
            self._scope().names[variable.name] = unique
            self.operand_cache.clear()
            self.code.variables[unique] = replace(variable, name=unique)
        elif not text.startswith(_ONE_LINE):
            self.code.unread.append((line, text))

    def _scope(self) -> _Scope:
        """The innermost open block's own."""
        if self.scopes[-1].depth != len(self.blocks):
            self.scopes.append(_Scope(len(self.blocks)))
        return self.scopes[-1]

    def _declare(self, statement: str) -> None:
        scope = self._scope()
        for declaration in register_declarations(statement):
            for name, count in declaration.names:
                if count is None:
                    self._register(scope, name, declaration.type)
                else:
                    scope.ranges.setdefault(name, []).append((count, declaration.type))
        self.operand_cache.clear()

    def _register(self, scope: _Scope, name: str, kind: str) -> int:
        number = scope.names[name] = len(self.code.registers)
        self.code.registers.append(kind)
        self.code.names.append(intern(name))  # the listing's own text
        return number

    def _meaning(self, name: str) -> int | str | None:
        """The register or variable that ``name`` means here; None if it is not declared."""
        prefix, place = of_range(name) or ("", 0)
        for scope in reversed(self.scopes[-MAX_SCOPES:]):
            if name in scope.names:
                return scope.names[name]
            for count, kind in scope.ranges.get(prefix, ()):
                if place < count:
                    return self._register(scope, name, kind)
        return None

    def _instruction(
        self,
        line: int,
        text: str,
        inverted: str | None,
        guard: str | None,
        opcode: str,
        operands_text: str | None,
    ) -> None:
        instruction = self.build_instruction(line, inverted, guard, opcode, operands_text)
        if instruction.guard is not None and instruction.guard.number < 0:
            self.code.unread.append((line, text))
            return
        self.code.unread += [(line, name) for name in self.irregular_names]
        self.irregular_names.clear()
        if instruction.base in ("bra", "brx"):
            self.branches[self.count] = self.blocks[-1]
        self.pending.append(instruction)
        self.count += 1

    def resolve_name(self, name: str) -> Operand:
        """What a name represents in the current scope."""
        meaning = self._meaning(name)
        unscoped = super().resolve_name(name)
        if meaning is None and isinstance(unscoped, SpecialOperand):
            return unscoped
        register_name, _, part = name.partition(".")
        if meaning is None and part:
            meaning = self._meaning(register_name)
            if not SELECTOR.fullmatch(part):  # an element of a vector
                self.irregular_names.append(name)
        if meaning is None and name[:1] == "%":
            meaning = self._register(self.scopes[0], register_name, UNDECLARED)
            self.irregular_names.append(name)
        if isinstance(meaning, int):
            return RegisterOperand(meaning, False, self.code.names[meaning], part)
        return SymbolOperand(name if meaning is None else meaning)

    def with_unique_labels(self, branch: PtxInstruction, block: int) -> PtxInstruction:
        """A branch of a block with the unique names of its labels."""
        operands = tuple(
            SymbolOperand(self._label(o.name, block)) if isinstance(o, SymbolOperand) else o
            for o in branch.operands
        )
        return replace(branch, operands=operands)

    def _label(self, name: str, block: int) -> str:
        """The label that ``name`` means in a block: the nearest around it, else the only one."""
        places = self.unique_labels.get(name, {0: name})
        for _ in range(MAX_SCOPES if len(places) > 1 else 0):
            if block in places:
                return places[block]
            block = self.parents[block]
        return next(iter(places.values()))
