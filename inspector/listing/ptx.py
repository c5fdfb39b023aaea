"""PTX: every line of a text, whoever wrote it (LLVM, NVVM, a person), without loss.

Written from the PTX ISA. A line that is one plain instruction is read by one regular expression,
as are ``.loc`` and comments; every other line takes the slow way, through ``LineReader``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from inspector.listing.line import (
    CHUNK,
    Function,
    Kind,
    Lazy,
    LazyLines,
    Line,
    Listing,
    split_lines,
)
from inspector.listing.ptx_location import Locations
from inspector.listing.ptx_statement import (
    AHEAD,
    BRANCHES,
    DECLARED,
    HEADER,
    KNOWN,
    LABEL,
    PLAIN,
    SPECIAL,
    SYMBOL,
    WORD,
    PtxStatement,
    function_header,
    has_result,
    parse_statement,
    strip,
)
from inspector.model import Location
from inspector.text import words

# -- lines that are more than one plain instruction -----------------------------------------------
# The lines of PTX that are more than one plain instruction.
#
# Blocks, labels before an instruction, comments, directives, several statements on a line and
# statements over several lines. They are read one by one; a ``PtxState`` carries over what the next
# line needs.

_OPERANDS = re.compile(r"[\s%\w$.,{}()\[\]+\-|!<>:&*~^]*+;?\s*+\Z")

ONE_LINE = words(
    ".version .target .address_size .loc .file .section .maxnreg .maxntid .reqntid .minnctapersm "
    ".maxnctapersm .noreturn .explicitcluster .reqnctapercluster .maxclusterrank .b8 .b16 .b32 "
    ".b64 .byte .4byte .8byte .quad @@DWARF .dwarf .abi_preserve .abi_preserve_control "
    ".blocksareclusters"
)
"""Directives that end with their line instead of a ``;``."""


class PtxState(NamedTuple):
    """What a line needs to know of the lines before it."""

    comment: bool = False
    open: str = ""
    """What is unfinished: ``i`` an instruction, ``d`` a directive, ``h`` a function's header."""
    depth: int = 0
    """Open braces."""
    inside: bool = False
    """Between a function's header and its end."""
    location: Location | None = None
    names: frozenset[str] = frozenset()
    """Registers declared without ``%`` and in scope."""
    scopes: tuple[tuple[int, frozenset[str]], ...] = ()
    """For each block that declares such registers: its depth, and ``names`` outside of it."""


Event = tuple[int, str]
"""A line at which a function's header begins, or ends as declaration, or its body ends."""


class LineReader:
    """Reads one line at a time, of any kind."""

    def __init__(self, text: str, texts: Sequence[str]) -> None:
        self.texts = texts
        self.locations = Locations(text, texts)

    def read(
        self, n: int, text: str, state: PtxState, events: list[Event]
    ) -> tuple[Line, PtxState]:
        """Line ``n`` (from 1) in ``state``, and the state after it."""
        code, comment = strip(text, state.comment)
        commented = state.comment or len(code) != len(text)
        if comment != state.comment:
            state = state._replace(comment=comment)
        bare = code.strip()
        if not bare:
            return Line(n, text, Kind.COMMENT if commented else Kind.BLANK), state
        if bare.startswith(".loc") and not bare[4:5].isalnum():
            in_function = state.inside or state.depth > 0
            location = self.locations.at(n, code) if in_function else None
            return Line(n, text, Kind.DIRECTIVE), state._replace(location=location)
        if state.open:
            if state.open != "i" or (_OPERANDS.match(code) and not _fresh(text)):
                return self._continue(n, text, code, state, events)
            state = state._replace(open="")
        return self._statements(n, text, code, state, events)

    def _continue(
        self, n: int, text: str, code: str, state: PtxState, events: list[Event]
    ) -> tuple[Line, PtxState]:
        """A line that begins inside a statement."""
        kind = Kind.INSTRUCTION if state.open == "i" else Kind.DIRECTIVE
        end = code.find(";")
        if state.open == "h":
            if code.find("{", 0, end if end >= 0 else len(code)) >= 0:
                return self._statements(n, text, code, state._replace(open=""), events)
            if end >= 0:
                events.append((n, "declared"))
                state = PtxState()
            return Line(n, text, kind), state
        source = state.location if state.open == "i" else None
        head = code if end < 0 else code[:end]
        depth = max(0, state.depth + head.count("{") - head.count("}"))
        if end < 0:
            return Line(n, text, kind, source=source), state._replace(depth=depth)
        state = state._replace(open="", depth=depth)
        if code[end + 1 :].strip():
            line, state = self._statements(n, text, code[end + 1 :], state, events)
            return line._replace(kind=kind) if line.kind is Kind.UNKNOWN else line, state
        return Line(n, text, kind, source=source), state

    def _statements(
        self, n: int, text: str, code: str, state: PtxState, events: list[Event]
    ) -> tuple[Line, PtxState]:
        """A line that begins one or several statements, with blocks and labels."""
        reading = _StatementReading(n, code, state, events, self)
        position = 0
        while position < len(code):
            position = reading.step(position)
        return reading.line(text, state.location), reading.state

    def rest(self, n: int) -> str:
        """The code after line ``n`` up to the statement's end."""
        parts: list[str] = []
        comment = False
        for text in self.texts[n : n + AHEAD]:
            code, comment = strip(text[:4096], comment)
            end = code.find(";")
            if end >= 0:
                parts.append(code[:end])
                break
            if code.lstrip()[:1] not in (".", "@"):
                parts.append(code)
        return " " + " ".join(parts)


class _StatementReading:
    """One line that begins a statement, as far as it has been read."""

    def __init__(
        self, n: int, code: str, state: PtxState, events: list[Event], lines: LineReader
    ) -> None:
        self.n = n
        self.code = code
        self.state = state
        self.events = events
        self.lines = lines
        self.label: str | None = None
        self.kind = Kind.UNKNOWN
        self.found: list[PtxStatement] = []
        self.targets: tuple[str, ...] = ()

    def line(self, text: str, source: Location | None) -> Line:
        """The whole line; registers that an earlier statement on it defines are not ``uses``."""
        n, statements, label = self.n, self.found, self.label
        if not statements:
            return Line(n, text, self.kind, label=label, targets=self.targets)
        first = statements[0]
        defs: dict[str, None] = {}
        uses: dict[str, None] = {}
        defined: set[str] = set()
        for statement in statements:
            uses.update((r, None) for r in statement.uses if r not in defined)
            defs.update((r, None) for r in statement.defs)
            if not statement.guarded:
                defined.update(statement.defs)
        targets = tuple(t for statement in statements for t in statement.targets)
        return Line(
            n, text, Kind.INSTRUCTION, first.base, first.opcode, tuple(defs), tuple(uses),
            source, label, targets,
        )  # fmt: skip

    def step(self, start: int) -> int:
        """Read the piece that begins at ``start``; returns where it ends."""
        c = self.code[start]
        if c.isspace() or c == ";":
            return start + 1
        if c in "{}()":
            self._directive()
            if c == "{":
                self.state = self.state._replace(depth=self.state.depth + 1)
            elif c == "}":
                self._close()
            return start + 1
        if marked := LABEL.match(self.code, start):
            self.label = self.label or marked[1]
            self.kind = Kind.LABEL if self.kind is not Kind.INSTRUCTION else self.kind
            return marked.end()
        if c == "." or self.code.startswith("@@DWARF", start):
            return self._read_directive(start)
        return self._instruction(start)

    def _directive(self) -> None:
        if self.kind is Kind.UNKNOWN:
            self.kind = Kind.DIRECTIVE

    def _close(self) -> None:
        """Leave a block or the function at its ``}``."""
        state = self.state
        depth = max(0, state.depth - 1)
        if depth == 0 and state.inside:
            self.events.append((self.n, "end"))
            self.state = PtxState(state.comment, state.open)
            return
        names, scopes = state.names, state.scopes
        while scopes and scopes[-1][0] > depth:
            names, scopes = scopes[-1][1], scopes[:-1]
        self.state = state._replace(depth=depth, names=names, scopes=scopes)

    def _read_directive(self, start: int) -> int:
        code, size = self.code, len(self.code)
        self._directive()
        end = code.find(";", start)
        until = end if end >= 0 else size
        word = WORD.match(code, start)
        name = word[1] if word else ""
        if not self.state.depth and HEADER.match(code, start, min(size, start + 1024)):
            return self._header(start, until)
        if name == ".reg":
            self._declare(code[start:until])
        elif name == ".branchtargets":
            self.targets = tuple(SYMBOL.findall(code[start:until])[1:])
        if end >= 0:
            return end + 1
        open_ = "" if name in ONE_LINE else "d"
        if name == ".section" and (body := code.find("{", start)) >= 0:
            return body
        depth = max(0, self.state.depth + code.count("{", start) - code.count("}", start))
        self.state = self.state._replace(open=open_, depth=depth)
        return size

    def _header(self, start: int, until: int) -> int:
        """Read ``.entry`` or ``.func`` up to its body, its ``;`` or the line's end."""
        self.events.append((self.n, "begin"))
        self.state = PtxState(self.state.comment, "h", inside=True)
        body = self.code.find("{", start, until)
        if body >= 0:
            self.state = self.state._replace(open="")
            return body
        if until < len(self.code):
            self.events.append((self.n, "declared"))
            self.state = PtxState(self.state.comment)
            return until + 1
        return until

    def _declare(self, statement: str) -> None:
        """Note the names without ``%`` that a ``.reg`` declares; ``r<3>`` is r0, r1, r2."""
        out: set[str] = set()
        for name, count in DECLARED.findall(statement):
            if name[0] == "%":
                continue
            if count:
                out.update(f"{name}{i}" for i in range(min(int(count), 4096)))
            else:
                out.add(name)
        if not out:
            return
        state = self.state
        scopes = state.scopes
        if not scopes or scopes[-1][0] != state.depth:
            scopes = (*scopes, (state.depth, state.names))
        self.state = state._replace(names=state.names | out, scopes=scopes)

    def _instruction(self, start: int) -> int:
        end = self.code.find(";", start)
        piece = self.code[start:end] if end >= 0 else self.code[start:]
        parsed = parse_statement(piece, self.state.names)
        if end < 0 and parsed is not None:
            if parsed.base in KNOWN:
                parsed = parse_statement(piece + self.lines.rest(self.n), self.state.names)
                depth = max(0, self.state.depth + piece.count("{") - piece.count("}"))
                self.state = self.state._replace(open="i", depth=depth)
            else:
                parsed = None
        if parsed is not None:
            self.found.append(parsed)
            self.kind = Kind.INSTRUCTION
        return end + 1 if end >= 0 else len(self.code)


def _fresh(text: str) -> bool:
    """Whether a line inside an unfinished instruction is plainly the next one."""
    match = PLAIN.match(text)
    return match is not None and (bool(match[1]) or match[2].partition(".")[0] in KNOWN)


_REGISTERS = re.compile(r"%[\w$]++").findall
_NOTHING = re.compile(
    r"[ \t]*+(\.b(?:8|16|32|64)[ \t]++[\w,$.+\-() \t]*+)?+(?://.*+)?\r?\Z", re.DOTALL
).match
"""A blank, a comment, or the data of a section (of which the debugging ones have thousands)."""
_LOC = re.compile(r"[ \t]*+\.loc[ \t]").match


class _Opcode(NamedTuple):
    """An opcode, whether its first operand is a result, and whether it is a branch."""

    base: str
    opcode: str
    result: bool
    branch: bool


def parse_ptx(text: str) -> Listing:
    """The listing of a PTX text; lines are parsed on first use.

    ``source`` is that of the last ``.loc`` before a line in the same function, None if that
    is line 0. Special registers (``%tid.x``) are not registers of the kernel, so they are neither
    in ``defs`` nor in ``uses``. A ``call``'s target is the function.
    """
    texts = split_lines(text)
    scanner = _PtxScanner(text, texts)
    return Listing("ptx", LazyLines(texts, scanner), Lazy(scanner.functions))


class _PtxScanner:
    """See ``line.Scanner``."""

    def __init__(self, text: str, texts: Sequence[str]) -> None:
        self.texts = texts
        self.reader = LineReader(text, texts)
        self._opcodes: dict[str, _Opcode] = {}

    def start(self) -> PtxState:
        return PtxState()

    def skim(self, first: int, last: int, state: PtxState) -> PtxState:
        return self._skim(first, last, state, [])

    def functions(self) -> tuple[Function, ...]:
        """Every function with a body, from its header to its ``}``."""
        events: list[Event] = []
        self._skim(0, len(self.texts), PtxState(), events)
        spans: list[tuple[int, int]] = []
        begin = 0
        for n, event in events:
            if event == "end":
                spans.append((begin, n))
            begin = n if event == "begin" else 0
        if begin:
            spans.append((begin, len(self.texts)))
        return tuple(self._function(first, last) for first, last in spans)

    def _function(self, first: int, last: int) -> Function:
        name, entry = function_header(self.texts, first, last)
        return Function(name, first, last, entry)

    def _skim(self, first: int, last: int, state: PtxState, events: list[Event]) -> PtxState:
        """The state after some lines; a plain instruction does not change it."""
        texts, plain, nothing, read = self.texts, PLAIN.match, _NOTHING, self.reader.read
        location = self.reader.locations.at
        mark: tuple[int, str] | None = None  # the last .loc, resolved when it matters
        last = min(last, len(texts))
        some = (texts[at : min(at + CHUNK, last)] for at in range(first, last, CHUNK))
        for i, text in enumerate(chain.from_iterable(some), first):
            if not state.comment and not state.open:
                if plain(text) or nothing(text):
                    continue
                if state.inside and "/*" not in text and _LOC(text):
                    mark = (i + 1, text)
                    continue
            if mark is not None:
                state, mark = state._replace(location=location(*mark)), None
            state = read(i + 1, text, state, events)[1]
        return state if mark is None else state._replace(location=location(*mark))

    def _opcode(self, opcode: str) -> _Opcode:
        base = opcode.partition(".")[0]
        described = _Opcode(base, opcode, has_result(base, opcode), base in BRANCHES)
        self._opcodes[opcode] = described
        return described

    def parse(self, first: int, last: int, state: PtxState) -> tuple[list[Line], PtxState]:
        # The hot loop: about 2 µs a line, so locals for globals, tuple.__new__ for Line(…).
        texts, plain, nothing, read = self.texts, PLAIN.match, _NOTHING, self.reader.read
        find, locate, cached = _REGISTERS, self.reader.locations.at, self._opcodes.get
        make = tuple.__new__
        special = SPECIAL.isdisjoint
        instruction, directive = Kind.INSTRUCTION, Kind.DIRECTIVE
        comment, blank = Kind.COMMENT, Kind.BLANK
        out: list[Line] = []
        add = out.append
        events: list[Event] = []
        for i, text in enumerate(texts[first:last], first):
            if not state.comment and not state.open:
                if match := plain(text):
                    guard, name, operands = match.groups()
                    base, opcode, result, branch = cached(name) or self._opcode(name)
                    if not branch and not state.names:
                        defs: tuple[str, ...] = ()
                        uses: tuple[str, ...] = ()
                        if operands:
                            used = find(operands)
                            if not special(used):
                                used = [r for r in used if r not in SPECIAL]
                            if used and result:
                                head = operands[0]
                                if head == "%" and "|" not in operands:
                                    defs = (used.pop(0),)
                                elif head != "[":
                                    statement = parse_statement(f"{opcode} {operands}")
                                    if statement is not None:
                                        defs, used = statement.defs, list(statement.uses)
                            if guard:
                                used.insert(0, guard)
                            uses = tuple(used)
                            if len(uses) > 1 and (len(uses) > 2 or uses[0] == uses[1]):
                                uses = tuple(dict.fromkeys(uses))
                        elif guard:
                            uses = (guard,)
                        add(
                            make(
                                Line,
                                (i + 1, text, instruction, base, opcode, defs, uses,
                                 state.location, None, (), None, None, None),
                            )
                        )  # fmt: skip
                        continue
                elif empty := nothing(text):
                    if empty[1]:
                        kind = directive
                    else:
                        kind = blank if not text or text.isspace() else comment
                    add(make(Line, (i + 1, text, kind, *_REST)))
                    continue
                elif state.inside and _LOC(text) and "/*" not in text:
                    state = state._replace(location=locate(i + 1, text))
                    add(make(Line, (i + 1, text, directive, *_REST)))
                    continue
            line, state = read(i + 1, text, state, events)
            add(line)
        return out, state


_REST = Line(0, "", Kind.BLANK)[3:]
