"""PTX: every line of a text, whatever wrote it (LLVM, NVVM, hands), without loss.

Written from the PTX ISA. A line is read by one regular expression where it is one plain
instruction; everything else (blocks, labels before an instruction, comments, directives,
statements over several lines) goes the slow way round.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from inspector.listing.lazy import Lazy, LazyLines
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.listing.ptx_location import Locations
from inspector.listing.ptx_statement import (
    BRANCHES,
    KNOWN,
    SPECIAL,
    Statement,
    has_result,
    parse_statement,
)
from inspector.listing.words import words
from inspector.model import Location

_PLAIN = re.compile(
    r"[ \t]*+(?:@!?[ \t]*+(%[\w$]++)[ \t]++)?([a-z]\w*+)((?:\.[\w.]++|::[\w.]++)*+)"
    r"(?:[ \t]++([%\w$.,{}\[\]+\-|! \t]*+))?;[ \t]*+(?://.*+)?\r?\Z",
    re.DOTALL,
)
"""One instruction on a line of its own: guard, base, qualifiers, operands."""

_REGISTERS = re.compile(r"%[\w$]++").findall
_COMMENT_OR_STRING = re.compile(r'//|/\*|"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_LABEL = re.compile(r"\s*([\w$%.]++)\s*:(?!:)")
_WORD = re.compile(r"\s*(\.?[\w$@]++)")
_HEADER = re.compile(r"\s*(?:\.[a-z]+\s+)*?\.(entry|func)\b")
_OPERANDS = re.compile(r"[\s%\w$.,{}()\[\]+\-|!<>:&*~^]*+;?\s*\Z")
_DECLARED = re.compile(r"([%\w$]+)(?:\s*<\s*(\d{1,9})\s*>)?\s*(?=[,;]|\Z)")

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
    """Registers declared without ``%``."""


def parse_ptx(text: str) -> Listing:
    """The listing of a PTX text. Nothing is parsed before it is looked at."""
    texts = text.split("\n")
    scanner = _Scanner(texts)
    return Listing("ptx", LazyLines(texts, scanner), Lazy(scanner.functions))


class _Scanner:
    """See ``lazy.Scanner``."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.locations = Locations(texts)
        self._results: dict[str, tuple[str, int]] = {}

    def start(self) -> State:
        return State()

    def skim(self, first: int, last: int, state: State) -> State:
        return self._run(first, last, state, [], [])

    def parse(self, first: int, last: int, state: State) -> list[Line]:
        lines: list[Line] = []
        self._run(first, last, state, lines, [])
        return lines

    def functions(self) -> tuple[Function, ...]:
        """Every function with a body."""
        events: list[tuple[int, str]] = []
        self._run(0, len(self.texts), State(), [], events)
        out: list[Function] = []
        begin = 0
        for n, what in events:
            if what == "end":
                out.append(self._function(begin, n))
            begin = n if what == "begin" else 0
        if begin:
            out.append(self._function(begin, len(self.texts)))
        return tuple(out)

    def _function(self, first: int, last: int) -> Function:
        header = ""
        for n in range(first - 1, min(last, first + 63)):
            header += _code(self.texts[n]) + " "
            if "{" in header or len(header) > 4096:
                break
        found = _HEADER.match(header)
        rest = header[found.end() :].lstrip() if found else header
        while rest[:1] in (".", "("):
            if rest[0] == "(":
                rest = rest[rest.find(")") + 1 or len(rest) :].lstrip()
            else:
                rest = rest.partition(" ")[2].lstrip()
        name = re.match(r"[\w$%]+", rest)
        return Function(name[0] if name else "", first, last, bool(found and found[1] == "entry"))

    def _run(
        self, first: int, last: int, state: State, out: list[Line], events: list[tuple[int, str]]
    ) -> State:
        texts = self.texts
        plain = _PLAIN.match
        make = tuple.__new__
        results = self._results
        instruction = Kind.INSTRUCTION
        add = out.append
        for i in range(first, last):
            text = texts[i]
            if not state.comment and not state.open and (found := plain(text)):
                guard, base, qualifiers, operands = found.groups()
                if base not in BRANCHES and not state.names:
                    opcode = base + qualifiers
                    result = results.get(opcode)
                    if result is None:
                        result = results[opcode] = (opcode, has_result(base, opcode))
                    defs: tuple[str, ...] = ()
                    used: list[str] = []
                    if operands:
                        used = _REGISTERS(operands)
                        if not SPECIAL.isdisjoint(used):
                            used = [r for r in used if r not in SPECIAL]
                        if result[1] and used:
                            head = operands[0]
                            if head == "%" and "|" not in operands:
                                defs = (used.pop(0),)
                            elif head != "[":
                                statement = parse_statement(f"{opcode} {operands}")
                                assert statement is not None
                                defs, used = statement.defs, list(statement.uses)
                    if guard:
                        used.insert(0, guard)
                    uses = tuple(dict.fromkeys(used)) if len(used) > 1 else tuple(used)
                    add(
                        make(
                            Line,
                            (i + 1, text, instruction, base, result[0], defs, uses,
                             state.location, None, (), None, None, None),
                        )
                    )  # fmt: skip
                    continue
            line, state = self._slow(i, text, state, events)
            add(line)
        return state

    def _slow(
        self, i: int, text: str, state: State, events: list[tuple[int, str]]
    ) -> tuple[Line, State]:
        n = i + 1
        code, comment = _strip(text, state.comment)
        had_comment = state.comment or len(code) != len(text)
        if comment != state.comment:
            state = state._replace(comment=comment)
        bare = code.strip()
        if not bare:
            kind = Kind.COMMENT if had_comment else Kind.BLANK
            return Line(n, text, kind, source=None), state
        if bare.startswith(".loc") and _WORD.match(bare)[1] == ".loc":  # type: ignore[index]
            location = self.locations.at(n, code) if state.inside or state.depth else None
            return Line(n, text, Kind.DIRECTIVE), state._replace(location=location)
        if state.open:
            if state.open != "i" or (_OPERANDS.match(code) and not _fresh(text)):
                return self._continue(n, text, code, state, events)
            state = state._replace(open="")
        return self._statements(n, text, code, state, events)

    def _continue(
        self, n: int, text: str, code: str, state: State, events: list[tuple[int, str]]
    ) -> tuple[Line, State]:
        """A line that begins inside a statement."""
        kind = Kind.INSTRUCTION if state.open == "i" else Kind.DIRECTIVE
        if state.open == "h":
            body, end = code.find("{"), code.find(";")
            if body >= 0 and (end < 0 or body < end):
                return self._statements(n, text, code, state._replace(open=""), events)
            if end >= 0:
                events.append((n, "declared"))
                state = State()
            return Line(n, text, kind), state
        end = code.find(";")
        source = state.location if state.open == "i" else None
        if end < 0:
            depth = state.depth + code.count("{") - code.count("}")
            return Line(n, text, kind, source=source), state._replace(depth=max(0, depth))
        head = code[:end]
        depth = max(0, state.depth + head.count("{") - head.count("}"))
        state = state._replace(open="", depth=depth)
        if code[end + 1 :].strip():
            line, state = self._statements(n, text, code[end + 1 :], state, events)
            return line._replace(kind=kind) if line.kind is Kind.UNKNOWN else line, state
        return Line(n, text, kind, source=source), state

    def _statements(
        self, n: int, text: str, code: str, state: State, events: list[tuple[int, str]]
    ) -> tuple[Line, State]:
        """A line that begins a statement; perhaps several, with blocks and labels."""
        at, size = 0, len(code)
        label: str | None = None
        kind = Kind.UNKNOWN
        found: list[Statement] = []
        open_, depth, inside, location, names = state[1:]
        targets: tuple[str, ...] = ()
        while at < size:
            c = code[at]
            if c.isspace() or c == ";":
                at += 1
            elif c in "{}":
                kind = Kind.DIRECTIVE if kind is Kind.UNKNOWN else kind
                depth = depth + 1 if c == "{" else max(0, depth - 1)
                if c == "}" and depth == 0 and inside:
                    events.append((n, "end"))
                    inside, location, names = False, None, frozenset()
                at += 1
            elif c in "()":
                kind = Kind.DIRECTIVE if kind is Kind.UNKNOWN else kind
                at += 1
            elif marked := _LABEL.match(code, at):
                label = label or marked[1]
                kind = Kind.LABEL if kind is not Kind.INSTRUCTION else kind
                at = marked.end()
            elif (
                c in ".@"
                and (word := _WORD.match(code, at))
                and word[1][0] in ".@"
                and (c == "." or word[1] == "@@DWARF")
            ):
                kind = Kind.DIRECTIVE if kind is Kind.UNKNOWN else kind
                if _HEADER.match(code, at) and not depth:
                    events.append((n, "begin"))
                    open_, inside, location, names = "h", True, None, frozenset()
                    rest = code[at:]
                    body, end = rest.find("{"), rest.find(";")
                    if body >= 0 and (end < 0 or body < end):
                        open_, at = "", at + body
                        continue
                    if end >= 0:
                        events.append((n, "declared"))
                        open_, inside = "", False
                        at += end + 1
                        continue
                    break
                end = code.find(";", at)
                statement = code[at : end if end >= 0 else size]
                if word[1] == ".reg":
                    names |= _declared(statement)
                elif word[1] == ".branchtargets":
                    targets = tuple(re.findall(r"[A-Za-z_$%][\w$]*", statement)[1:])
                if end < 0:
                    open_ = "" if word[1] in ONE_LINE else "d"
                    if word[1] == ".section" and "{" in statement:
                        at += statement.index("{")
                        open_ = ""
                        continue
                    depth = max(0, depth + statement.count("{") - statement.count("}"))
                    break
                at = end + 1
            else:
                end = code.find(";", at)
                piece = code[at:end] if end >= 0 else code[at:]
                parsed = parse_statement(piece, names)
                if end < 0 and parsed is not None:
                    if parsed.base in KNOWN:
                        parsed = parse_statement(piece + self._rest(n), names)
                        open_ = "i"
                        depth = max(0, depth + piece.count("{") - piece.count("}"))
                    else:
                        parsed = None
                if parsed is not None:
                    found.append(parsed)
                    kind = Kind.INSTRUCTION
                at = end + 1 if end >= 0 else size
        state = State(state.comment, open_, depth, inside, location, names)
        if not found:
            return Line(n, text, kind, label=label, targets=targets), state
        return _instructions(n, text, label, found, location or state.location), state

    def _rest(self, n: int) -> str:
        """What follows line ``n`` up to the statement's end."""
        parts: list[str] = []
        comment = False
        for text in self.texts[n : n + 256]:
            code, comment = _strip(text, comment)
            end = code.find(";")
            if end >= 0:
                parts.append(code[:end])
                break
            if code.lstrip()[:1] not in (".", "@"):
                parts.append(code)
        return " " + " ".join(parts)


def _instructions(
    n: int, text: str, label: str | None, found: list[Statement], source: Location | None
) -> Line:
    """One line of several statements; what an earlier one of them defines is not used."""
    first = found[0]
    if len(found) == 1:
        return Line(
            n, text, Kind.INSTRUCTION, first.base, first.opcode, first.defs, first.uses,
            source, label, first.targets,
        )  # fmt: skip
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


def _declared(statement: str) -> frozenset[str]:
    """The names without ``%`` that a ``.reg`` declares; ``r<3>`` is r0, r1, r2."""
    out: set[str] = set()
    for name, count in _DECLARED.findall(statement):
        if name[0] == "%":
            continue
        if count:
            out.update(f"{name}{i}" for i in range(min(int(count), 4096)))
        else:
            out.add(name)
    return frozenset(out)


def _fresh(text: str) -> bool:
    """Whether a line inside an unfinished instruction is plainly the next one."""
    found = _PLAIN.match(text)
    return found is not None and (found[2] in KNOWN or bool(found[1]))


def _code(text: str) -> str:
    return _strip(text, False)[0]


def _strip(text: str, comment: bool) -> tuple[str, bool]:
    """The code of a line (comments cut out, strings emptied) and whether a comment is left open."""
    if not comment and "/" not in text and '"' not in text:
        return text, False
    parts: list[str] = []
    at = 0
    if comment:
        end = text.find("*/")
        if end < 0:
            return "", True
        at = end + 2
    while found := _COMMENT_OR_STRING.search(text, at):
        parts.append(text[at : found.start()])
        if found[0] == "//":
            return "".join(parts), False
        if found[0] == "/*":
            end = text.find("*/", found.end())
            if end < 0:
                return "".join(parts), True
            parts.append(" ")
            at = end + 2
        else:
            parts.append('""')
            at = found.end()
    parts.append(text[at:])
    return "".join(parts), False
