"""PTX: lossless line parser for any producer (LLVM, NVVM, a person).

Written from the PTX ISA. A line that is one plain instruction is read by one regular expression,
as are ``.loc`` and comments; every other line takes the slow way, through ``LineReader``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from inspector.base.model import Location
from inspector.base.text import words
from inspector.listing.line import Function, Kind, Line, Listing
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
        self.locations = Locations(text)

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
            location = self.locations.next(text) if in_function else None
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
    """Reads one line that begins a statement."""

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
            n,
            text,
            Kind.INSTRUCTION,
            first.base,
            first.opcode,
            tuple(defs),
            tuple(uses),
            source,
            label,
            targets,
        )

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
            listed = code[start:until] + (self.lines.rest(self.n) if end < 0 else "")
            self.targets = tuple(SYMBOL.findall(listed)[1:])
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


def parse_ptx(text: str) -> Listing:
    """Parse a PTX text.

    ``source`` is that of the last ``.loc`` before a line in the same function, None if that
    is line 0. Special registers (``%tid.x``) are not registers of the kernel, so they are neither
    in ``defs`` nor in ``uses``. A ``call``'s target is the function.
    """
    texts = text.split("\n")
    reader = LineReader(text, texts)
    state = PtxState()
    events: list[Event] = []
    lines: list[Line] = []
    for n, each in enumerate(texts, 1):
        line = None
        if not state.comment and not state.open:
            if match := PLAIN.match(each):
                line = _plain(n, each, match, state)
            elif empty := _NOTHING(each):
                blank = Kind.BLANK if not each or each.isspace() else Kind.COMMENT
                line = Line(n, each, Kind.DIRECTIVE if empty[1] else blank)
        if line is None:
            line, state = reader.read(n, each, state, events)
        lines.append(line)
    return Listing("ptx", lines, _functions(texts, events))


def _functions(texts: Sequence[str], events: Sequence[Event]) -> tuple[Function, ...]:
    """Every function with a body, from its header to its ``}``."""
    spans: list[tuple[int, int]] = []
    begin = 0
    for n, event in events:
        if event == "end":
            spans.append((begin, n))
        begin = n if event == "begin" else 0
    if begin:
        spans.append((begin, len(texts)))
    functions: list[Function] = []
    for first, last in spans:
        name, entry = function_header(texts, first, last)
        functions.append(Function(name, first, last, entry))
    return tuple(functions)


@lru_cache(maxsize=1024)
def _base(opcode: str) -> str:
    return intern(opcode.partition(".")[0])


@lru_cache(maxsize=4096)
def _has_result(opcode: str) -> bool:
    return has_result(opcode.partition(".")[0], opcode)


def _plain(n: int, text: str, match: re.Match[str], state: PtxState) -> Line | None:
    """A line that is one instruction; None if it needs its operands told apart."""
    guard, opcode, operands = match.groups()
    base, opcode = _base(opcode), intern(opcode)
    if state.names or base in BRANCHES:
        return None
    defs: tuple[str, ...] = ()
    # A name of many lines is one string, also for ``ptx_code``.
    used = list(map(intern, _REGISTERS(operands))) if operands else []
    if not SPECIAL.isdisjoint(used):
        used = [r for r in used if r not in SPECIAL]
    if used and _has_result(opcode):
        head = operands[0]
        if head == "%" and "|" not in operands:
            defs = (used.pop(0),)
        elif head != "[":
            statement = parse_statement(f"{opcode} {operands}")
            if statement is not None:
                defs, used = statement.defs, list(statement.uses)
    if guard:
        used.insert(0, guard)
    uses = tuple(dict.fromkeys(used))
    return Line(n, text, Kind.INSTRUCTION, base, opcode, defs, uses, state.location)
