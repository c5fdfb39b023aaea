"""The one line record of every language, and the listing that holds them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from inspector.base.stage import Location


class Kind(StrEnum):
    """What a line is. ``UNKNOWN`` lines are shown as they are."""

    INSTRUCTION = "instruction"
    LABEL = "label"
    DIRECTIVE = "directive"
    COMMENT = "comment"
    BLANK = "blank"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Control:
    """The scheduling half of a SASS encoding (sm_70 and later).

    ``stall`` in cycles; barriers are scoreboards 0 to 5 or None; ``wait`` and ``reuse`` are masks.
    Undocumented by the vendor: read from bits 105 to 125 of the 128-bit instruction word.
    """

    stall: int
    yield_: bool
    write_barrier: int | None
    read_barrier: int | None
    wait: int
    reuse: int


class Line(NamedTuple):
    """One line of one stage.

    ``n`` counts from 1. ``text`` is the line without its newline. ``base`` is ``ld`` where
    ``opcode`` is ``ld.global.v4.b32``. ``defs`` and ``uses`` are single registers or SSA values,
    predicates and the guard included, each once, in the order they are written. ``label`` is
    defined here, ``targets`` are branched to or called. ``address`` is the offset in the section
    (SASS); ``ptx_line`` nvdisasm's ``-gp``.

    A statement that spans several lines has its opcode, ``defs`` and ``uses`` on its first; the
    others are of the same kind with ``opcode`` None. A named tuple, because a frozen dataclass
    takes eight times as long to make.
    """

    n: int
    text: str
    kind: Kind
    base: str | None = None
    opcode: str | None = None
    defs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    source: Location | None = None
    label: str | None = None
    targets: tuple[str, ...] = ()
    address: int | None = None
    ptx_line: int | None = None
    control: Control | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a listing: lines ``first`` to ``last``, both counted in, from 1."""

    name: str
    first: int
    last: int
    entry: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """A stage's text as lines. ``"\\n".join(line.text for line in lines)`` is the text again."""

    language: str
    lines: Sequence[Line]
    functions: Sequence[Function] = ()

    def between(self, first: int, last: int) -> Sequence[Line]:
        """Lines ``first`` to ``last``, both included, from 1."""
        return self.lines[max(first, 1) - 1 : max(last, 0)]

    def texts(self, first: int, last: int) -> list[str]:
        return [line.text for line in self.between(first, last)]

    @property
    def text(self) -> str:
        """The stage's text, byte for byte (with surrogate escapes where it was not UTF-8)."""
        return "\n".join([line.text for line in self.lines])


_QUOTED = {
    '"': re.compile(r'(?:[^"\\]|\\.)*+"?', re.DOTALL),
    "'": re.compile(r"(?:[^'\\]|\\.)*+'?", re.DOTALL),
}


def code_of(text: str, until: str, piece: re.Pattern[str]) -> tuple[str, str]:
    """The code of a line of a language with C's comments, and what ends the one left open.

    Comments are cut out and strings emptied. ``until`` is what ends the comment or raw string in
    which the line begins, else "". ``piece`` finds the beginning of a comment, a string, or, with
    its group, a raw string.
    """
    parts: list[str] = []
    position = 0
    if until:
        end = text.find(until)
        if end < 0:
            return "", until
        parts.append(" " if until == "*/" else '""')
        position = end + len(until)
    while match := piece.search(text, position):
        parts.append(text[position : match.start()])
        opening = match[0]
        if opening == "//":
            return "".join(parts), ""
        if string := _QUOTED.get(opening):
            string_match = string.match(text, match.end())
            position = string_match.end() if string_match else len(text)
            parts.append('""')
            continue
        until = "*/" if opening == "/*" else f'){match[1]}"'
        end = text.find(until, match.end())
        parts.append(" " if opening == "/*" else '""')
        if end < 0:
            return "".join(parts), until
        position = end + len(until)
    parts.append(text[position:])
    return "".join(parts), ""


def unescape(text: str, pattern: re.Pattern[str], base: int) -> str:
    """A string's characters: ``pattern`` finds codes in a base (group 1) and ``\\n`` (group 2)."""

    def character(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], base))
        return {"n": "\n", "t": "\t", "r": "\r"}.get(match[2], match[2])

    return pattern.sub(character, text) if "\\" in text else text
