"""PTX: every line of a text, whatever wrote it (LLVM, NVVM, hands), without loss.

Written from the PTX ISA. A line that is one plain instruction is read here by one regular
expression, as are ``.loc`` and comments; everything else goes the slow way round, ``ptx_line``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from inspector.listing.lazy import Lazy, LazyLines
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.listing.ptx_line import Event, LineReader, State
from inspector.listing.ptx_statement import (
    BRANCHES,
    PLAIN,
    SPECIAL,
    has_result,
    parse_statement,
)
from inspector.listing.ptx_text import function_header

_REGISTERS = re.compile(r"%[\w$]++").findall
_NOTHING = re.compile(
    r"[ \t]*+(\.b(?:8|16|32|64)[ \t]++[\w,$.+\-() \t]*+)?+(?://.*+)?\r?\Z", re.DOTALL
).match
"""A blank, a comment, or the data of a section (of which the debugging ones have thousands)."""
_LOC = re.compile(r"[ \t]*+\.loc[ \t]").match


class _Opcode(NamedTuple):
    """What an opcode says of its operands."""

    base: str
    opcode: str
    result: bool
    branch: bool


def parse_ptx(text: str) -> Listing:
    """The listing of a PTX text. Nothing is parsed before it is looked at.

    ``source`` is that of the last ``.loc`` before a line in the same function, None where that
    is line 0. Special registers (``%tid.x``) are no registers of the kernel: neither ``defs``
    nor ``uses``. A ``call``'s target is the function.
    """
    texts = text.split("\n")
    scanner = _Scanner(text, texts)
    return Listing("ptx", LazyLines(texts, scanner), Lazy(scanner.functions))


class _Scanner:
    """See ``lazy.Scanner``."""

    def __init__(self, text: str, texts: list[str]) -> None:
        self.texts = texts
        self.reader = LineReader(text, texts)
        self._opcodes: dict[str, _Opcode] = {}

    def start(self) -> State:
        return State()

    def skim(self, first: int, last: int, state: State) -> State:
        return self._skim(first, last, state, [])

    def functions(self) -> tuple[Function, ...]:
        """Every function with a body, from its header to its ``}``."""
        events: list[Event] = []
        self._skim(0, len(self.texts), State(), events)
        spans: list[tuple[int, int]] = []
        begin = 0
        for n, what in events:
            if what == "end":
                spans.append((begin, n))
            begin = n if what == "begin" else 0
        if begin:
            spans.append((begin, len(self.texts)))
        return tuple(self._function(first, last) for first, last in spans)

    def _function(self, first: int, last: int) -> Function:
        name, entry = function_header(self.texts, first, last)
        return Function(name, first, last, entry)

    def _skim(self, first: int, last: int, state: State, events: list[Event]) -> State:
        """The state after some lines. A plain instruction leaves it as it was."""
        texts, plain, nothing, read = self.texts, PLAIN.match, _NOTHING, self.reader.read
        location = self.reader.locations.at
        mark: tuple[int, str] | None = None  # the last .loc, resolved when it matters
        for i in range(first, min(last, len(texts))):
            text = texts[i]
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
        made = _Opcode(base, opcode, has_result(base, opcode), base in BRANCHES)
        self._opcodes[opcode] = made
        return made

    def parse(self, first: int, last: int, state: State) -> tuple[list[Line], State]:
        # The hot loop: about 2 µs a line, so locals for globals, tuple.__new__ for Line(…).
        texts, plain, nothing, read = self.texts, PLAIN.match, _NOTHING, self.reader.read
        find, locate, known = _REGISTERS, self.reader.locations.at, self._opcodes.get
        make = tuple.__new__
        special = SPECIAL.isdisjoint
        instruction, directive = Kind.INSTRUCTION, Kind.DIRECTIVE
        comment, blank = Kind.COMMENT, Kind.BLANK
        out: list[Line] = []
        add = out.append
        events: list[Event] = []
        for i in range(first, last):
            text = texts[i]
            if not state.comment and not state.open:
                if found := plain(text):
                    guard, name, operands = found.groups()
                    base, opcode, result, branch = known(name) or self._opcode(name)
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
