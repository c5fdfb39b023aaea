"""The lines of PTX that are more than one plain instruction.

Blocks, labels before an instruction, comments, directives, several statements on a line and
statements over several lines. ``ptx`` asks for them one by one; what a line leaves behind for the
next is a ``State``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from inspector.listing.line import Kind, Line
from inspector.listing.ptx_location import Locations
from inspector.listing.ptx_statement import KNOWN, PLAIN, Statement, parse_statement
from inspector.listing.ptx_text import AHEAD, HEADER, WORD, strip
from inspector.listing.words import words
from inspector.model import Location

_LABEL = re.compile(r"\s*+([\w$%.]++)\s*+:(?!:)")
_OPERANDS = re.compile(r"[\s%\w$.,{}()\[\]+\-|!<>:&*~^]*+;?\s*+\Z")
_DECLARED = re.compile(r"(?<![%\w$])([%\w$]++)\s*+(?:<\s*+(\d{1,9})\s*+>)?\s*+(?=[,;]|\Z)")
_NAMES = re.compile(r"[A-Za-z_$%][\w$]*+")

ONE_LINE = words(
    ".version .target .address_size .loc .file .section .maxnreg .maxntid .reqntid .minnctapersm "
    ".maxnctapersm .noreturn .explicitcluster .reqnctapercluster .maxclusterrank .b8 .b16 .b32 "
    ".b64 .byte .4byte .8byte .quad @@DWARF .dwarf .abi_preserve .abi_preserve_control "
    ".blocksareclusters"
)
"""Directives that end with their line rather than with a ``;``."""


class State(NamedTuple):
    """What the lines before leave behind."""

    comment: bool = False
    open: str = ""
    """What goes on: ``i`` an instruction, ``d`` a directive, ``h`` a function's header."""
    depth: int = 0
    """Open braces."""
    inside: bool = False
    """Between a function's header and its end."""
    location: Location | None = None
    names: frozenset[str] = frozenset()
    """Registers declared without ``%`` and in scope."""
    scopes: tuple[tuple[int, frozenset[str]], ...] = ()
    """For each block that declared some: its depth, and ``names`` outside of it."""


Event = tuple[int, str]
"""A line at which a function's header begins, or ends as declaration, or its body ends."""


class LineReader:
    """Reads one line at a time, whatever is on it."""

    def __init__(self, text: str, texts: list[str]) -> None:
        self.texts = texts
        self.locations = Locations(text, texts)

    def read(self, n: int, text: str, state: State, events: list[Event]) -> tuple[Line, State]:
        """Line ``n`` (from 1) in ``state``, and the state after it."""
        code, comment = strip(text, state.comment)
        commented = state.comment or len(code) != len(text)
        if comment != state.comment:
            state = state._replace(comment=comment)
        bare = code.strip()
        if not bare:
            return Line(n, text, Kind.COMMENT if commented else Kind.BLANK), state
        if bare.startswith(".loc") and not bare[4:5].isalnum():
            here = state.inside or state.depth > 0
            location = self.locations.at(n, code) if here else None
            return Line(n, text, Kind.DIRECTIVE), state._replace(location=location)
        if state.open:
            if state.open != "i" or (_OPERANDS.match(code) and not _fresh(text)):
                return self._continue(n, text, code, state, events)
            state = state._replace(open="")
        return self._statements(n, text, code, state, events)

    def _continue(
        self, n: int, text: str, code: str, state: State, events: list[Event]
    ) -> tuple[Line, State]:
        """A line that begins inside a statement."""
        kind = Kind.INSTRUCTION if state.open == "i" else Kind.DIRECTIVE
        end = code.find(";")
        if state.open == "h":
            if code.find("{", 0, end if end >= 0 else len(code)) >= 0:
                return self._statements(n, text, code, state._replace(open=""), events)
            if end >= 0:
                events.append((n, "declared"))
                state = State()
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
        self, n: int, text: str, code: str, state: State, events: list[Event]
    ) -> tuple[Line, State]:
        """A line that begins a statement; perhaps several, with blocks and labels."""
        reading = _Reading(n, code, state, events, self)
        at = 0
        while at < len(code):
            at = reading.step(at)
        return reading.line(text, state.location), reading.state

    def rest(self, n: int) -> str:
        """What follows line ``n`` up to the statement's end."""
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


class _Reading:
    """One line that begins a statement, as far as it has been read."""

    def __init__(
        self, n: int, code: str, state: State, events: list[Event], lines: LineReader
    ) -> None:
        self.n = n
        self.code = code
        self.state = state
        self.events = events
        self.lines = lines
        self.label: str | None = None
        self.kind = Kind.UNKNOWN
        self.found: list[Statement] = []
        self.targets: tuple[str, ...] = ()

    def line(self, text: str, source: Location | None) -> Line:
        """The whole; what an earlier statement of the line defines is not used by it."""
        n, found, label = self.n, self.found, self.label
        if not found:
            return Line(n, text, self.kind, label=label, targets=self.targets)
        first = found[0]
        defs: dict[str, None] = {}
        uses: dict[str, None] = {}
        done: set[str] = set()
        for one in found:
            uses.update((r, None) for r in one.uses if r not in done)
            defs.update((r, None) for r in one.defs)
            if not one.guarded:
                done.update(one.defs)
        targets = tuple(t for one in found for t in one.targets)
        return Line(
            n, text, Kind.INSTRUCTION, first.base, first.opcode, tuple(defs), tuple(uses),
            source, label, targets,
        )  # fmt: skip

    def step(self, at: int) -> int:
        """Reads one piece at ``at``; where it ends."""
        c = self.code[at]
        if c.isspace() or c == ";":
            return at + 1
        if c in "{}()":
            self._directive()
            if c == "{":
                self.state = self.state._replace(depth=self.state.depth + 1)
            elif c == "}":
                self._close()
            return at + 1
        if marked := _LABEL.match(self.code, at):
            self.label = self.label or marked[1]
            self.kind = Kind.LABEL if self.kind is not Kind.INSTRUCTION else self.kind
            return marked.end()
        if c == "." or self.code.startswith("@@DWARF", at):
            return self._read_directive(at)
        return self._instruction(at)

    def _directive(self) -> None:
        if self.kind is Kind.UNKNOWN:
            self.kind = Kind.DIRECTIVE

    def _close(self) -> None:
        """A ``}``: of a block, or of the function."""
        state = self.state
        depth = max(0, state.depth - 1)
        if depth == 0 and state.inside:
            self.events.append((self.n, "end"))
            self.state = State(state.comment, state.open)
            return
        names, scopes = state.names, state.scopes
        while scopes and scopes[-1][0] > depth:
            names, scopes = scopes[-1][1], scopes[:-1]
        self.state = state._replace(depth=depth, names=names, scopes=scopes)

    def _read_directive(self, at: int) -> int:
        code, size = self.code, len(self.code)
        self._directive()
        end = code.find(";", at)
        until = end if end >= 0 else size
        word = WORD.match(code, at)
        name = word[1] if word else ""
        if not self.state.depth and HEADER.match(code, at, min(size, at + 1024)):
            return self._header(at, until)
        if name == ".reg":
            self._declare(code[at:until])
        elif name == ".branchtargets":
            self.targets = tuple(_NAMES.findall(code[at:until])[1:])
        if end >= 0:
            return end + 1
        open_ = "" if name in ONE_LINE else "d"
        if name == ".section" and (body := code.find("{", at)) >= 0:
            return body
        depth = max(0, self.state.depth + code.count("{", at) - code.count("}", at))
        self.state = self.state._replace(open=open_, depth=depth)
        return size

    def _header(self, at: int, until: int) -> int:
        """``.entry`` or ``.func``, up to its body, its ``;`` or the line's end."""
        self.events.append((self.n, "begin"))
        self.state = State(self.state.comment, "h", inside=True)
        body = self.code.find("{", at, until)
        if body >= 0:
            self.state = self.state._replace(open="")
            return body
        if until < len(self.code):
            self.events.append((self.n, "declared"))
            self.state = State(self.state.comment)
            return until + 1
        return until

    def _declare(self, statement: str) -> None:
        """The names without ``%`` that a ``.reg`` declares; ``r<3>`` is r0, r1, r2."""
        out: set[str] = set()
        for name, count in _DECLARED.findall(statement):
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

    def _instruction(self, at: int) -> int:
        end = self.code.find(";", at)
        piece = self.code[at:end] if end >= 0 else self.code[at:]
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
    found = PLAIN.match(text)
    return found is not None and (bool(found[1]) or found[2].partition(".")[0] in KNOWN)
