"""PTX statements taken apart: guard, opcode, operands.

Written from the PTX ISA, chapters "Syntax" and "Instruction Operands".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from inspector.listing.line import Function, Kind, Line, Listing
from inspector.listing.ptx_statement import AHEAD, LABEL, SPECIAL, strip
from inspector.text import at_commas

LONGEST = 65536
"""Characters of a statement that are looked at."""


class OperandKind(StrEnum):
    """What an operand is. ``OTHER`` is shown as it stands."""

    REGISTER = "register"
    SPECIAL = "special register"
    NUMBER = "number"
    FLOAT = "float"
    ADDRESS = "address"
    VECTOR = "vector"
    PAIR = "pair"
    SINK = "sink"
    NAME = "name"
    GROUP = "group"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand.

    ``parts`` are a vector's elements, the two of ``d|p``, what a call's parentheses hold, or an
    address's base and what follows its comma. ``offset`` is the bytes added to an address's base.
    ``value`` is a number's. ``negated`` is for ``!%p`` and ``-%r1``; ``text`` is as it is written.
    """

    kind: OperandKind
    text: str
    parts: tuple[Operand, ...] = ()
    value: int | float | None = None
    offset: int = 0
    negated: bool = False

    @property
    def name(self) -> str:
        """A register's name without ``!``, ``-`` and what is selected of it (``.x``, ``.b0``)."""
        bare = self.text.lstrip("!- ")
        return bare.partition(".")[0] if self.kind is OperandKind.REGISTER else bare


@dataclass(frozen=True, slots=True)
class WordedStatement:
    """One instruction; ``unless`` is its guard's ``!``."""

    opcode: str
    operands: tuple[Operand, ...] = ()
    guard: str | None = None
    unless: bool = False

    @property
    def parts(self) -> list[str]:
        """``ld``, ``global``, ``L1::no_allocate``, ``v4``, ``b32``."""
        return self.opcode.split(".")


_GUARD = re.compile(r"@(!?)\s*+([%\w$]++)\s*")
_OPCODE = re.compile(r"[a-z_][\w.]*+(?:::[\w.]++)*+")
_NUMBER = re.compile(
    r"(-?)\s*+(?:0[xX]([0-9a-fA-F]{1,40}+)|0[bB]([01]{1,160}+)|(\d{1,40}+))[uU]?\Z"
)
_HEX_FLOAT = re.compile(r"(-?)\s*+0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))\Z")
_DECIMAL = re.compile(r"-?\s*+(?:\d++\.\d*+|\.\d++|\d++(?=[eE]))(?:[eE][+-]?\d++)?\Z")
_REGISTER = re.compile(r"[!-]?\s*+%[\w$]++(?:\.\w++)?\Z")
_NAME = re.compile(r"[A-Za-z_$%][\w$]*+\Z")
_OFFSET = re.compile(
    r"(.*?[^\s+-])\s*+(\+|-)\s*+(-?\s*(?:0[xX][0-9a-fA-F]+|\d+)[uU]?)\s*\Z", re.DOTALL
)


def split(text: str) -> list[str]:
    """Parts at the commas outside every bracket."""
    if "{" not in text and "[" not in text and "(" not in text:
        return [part.strip() for part in text.split(",")] if text.strip() else []
    parts = at_commas(text, "{[(", "}])")
    return parts if parts != [""] else []


def pieces(code: str) -> list[str]:
    """The statements of a stretch of code without comments; labels and block braces left out."""
    out: list[str] = []
    for piece in code[:LONGEST].split(";"):
        bare = piece.strip()
        while bare:
            if bare[0] in "{}" and not bare.startswith("{%"):
                bare = bare[1:].lstrip()
            elif found := LABEL.match(bare):
                bare = bare[found.end() :].lstrip()
            else:
                break
        if bare:
            out.append(bare)
    return out


def statement(code: str, names: frozenset[str] = frozenset()) -> WordedStatement | None:
    """The instruction in ``code``, or None; ``names`` are registers that have no ``%``."""
    code = code[:LONGEST].strip().rstrip(";")
    guard = _GUARD.match(code)
    found = _OPCODE.match(code, guard.end() if guard else 0)
    if found is None:
        return None
    rest = code[found.end() :].strip()
    if rest and not code[found.end()].isspace() and rest[0] not in "{[(":
        return None
    operands = tuple(operand(part, names) for part in split(rest))
    return WordedStatement(
        found[0].rstrip("."), operands, guard[2] if guard else None, bool(guard and guard[1])
    )


def operand(text: str, names: frozenset[str] = frozenset(), depth: int = 0) -> Operand:
    """One operand, whatever it is."""
    text = text.strip()
    if text == "_":
        return Operand(OperandKind.SINK, text)
    first, last = text[:1], text[-1:]
    if depth < 4:
        inner = text[1:-1]
        if first == "[" and last == "]" and "][" not in text:
            return _address(text, inner, names, depth)
        if (first, last) in (("{", "}"), ("(", ")")):
            kind = OperandKind.VECTOR if first == "{" else OperandKind.GROUP
            parts = tuple(operand(p, names, depth + 1) for p in split(inner))
            return Operand(kind, text, parts)
        if "|" in text and first not in "[{(":
            parts = tuple(operand(p, names, depth + 1) for p in text.split("|", 1))
            return Operand(OperandKind.PAIR, text, parts)
    if (value := number(text)) is not None:
        return Operand(OperandKind.NUMBER, text, value=value)
    if (decimal := real(text)) is not None:
        return Operand(OperandKind.FLOAT, text, value=decimal)
    negated = first in ("!", "-")
    bare = text.lstrip("!- ") if negated else text
    if _REGISTER.match(text) or bare in names:
        special = bare.partition(".")[0] in SPECIAL
        return Operand(
            OperandKind.SPECIAL if special else OperandKind.REGISTER, text, negated=negated
        )
    if _NAME.match(text):
        return Operand(OperandKind.NAME, text)
    return Operand(OperandKind.OTHER, text)


def _address(text: str, inner: str, names: frozenset[str], depth: int) -> Operand:
    parts = split(inner)
    if not parts:
        return Operand(OperandKind.OTHER, text)
    offset = 0
    base = parts[0]
    if (found := _OFFSET.match(base)) and (value := number(found[3])) is not None:
        base, offset = found[1], value if found[2] == "+" else -value
    made = [operand(base, names, depth + 1), *(operand(p, names, depth + 1) for p in parts[1:])]
    return Operand(OperandKind.ADDRESS, text, tuple(made), offset=offset)


def number(text: str) -> int | None:
    """An integer as PTX writes it: decimal, ``0x``, ``0b``, octal; None where it is none."""
    found = _NUMBER.match(text)
    if found is None or len(text) > 80:
        return None
    if found[2]:
        value = int(found[2], 16)
    elif found[3]:
        value = int(found[3], 2)
    elif found[4][0] == "0" and len(found[4]) > 1:
        if not set(found[4]) <= set("01234567"):
            return None
        value = int(found[4], 8)
    else:
        value = int(found[4])
    return -value if found[1] else value


def real(text: str) -> float | None:
    """A floating-point constant: ``0f3F800000``, ``0d…`` (the bits), ``1.5``; None elsewhere."""
    if found := _HEX_FLOAT.match(text):
        bits = bytes.fromhex(found[2] or found[3])
        value: float = struct.unpack(">f" if found[2] else ">d", bits)[0]
        return -value if found[1] else value
    if len(text) < 80 and _DECIMAL.match(text):
        return float(text.replace(" ", "").replace("\t", ""))
    return None


def registers(one: Operand) -> list[Operand]:
    """The registers in an operand, in order."""
    if one.kind is OperandKind.REGISTER:
        return [one]
    return [found for part in one.parts for found in registers(part)]


# The statements of each line of a PTX function, and where its registers and labels are used.


_DECLARATION = re.compile(
    r"\.reg\s++(?:\.v[24]\s++)?\.(?:pred|[busf](\d{1,3})(?:x\d)?)\s++([^;]*+)"
)
_DECLARED = re.compile(r"([%\w$]++)(\s*+<)?")

MOST_LINES = 131072
"""Lines of a function that are gone through for where things are defined and used: as many as a
listing keeps parsed. In a longer function every register goes by its own name."""

MOST_USES = 16


class Statements:
    """What stands on a line, and the ways between lines. Lines count from 1."""

    def __init__(self, listing: Listing, function: Function) -> None:
        self.listing = listing
        self.function = function
        self._kept: dict[int, tuple[WordedStatement, ...]] = {}
        self._defined: dict[str, int] = {}
        self._uses: dict[str, list[int]] = {}
        self._labels: dict[str, int] = {}
        self._jumps: dict[str, list[int]] = {}
        self._bits: dict[str, int] = {}
        self._indexed = False

    # -- lines ------------------------------------------------------------------------------

    def line(self, n: int) -> Line | None:
        """Line ``n`` of the listing."""
        lines = self.listing.lines
        return lines[n - 1] if 1 <= n <= len(lines) else None

    def code(self, n: int) -> str:
        """The code of line ``n`` without comments and, where a statement goes on, what follows."""
        lines = self.listing.lines
        text = lines[n - 1].text
        closing = text.find("*/")
        code, comment = strip(text, closing >= 0 and text.find("/*", 0, closing) < 0)
        if ";" in code or lines[n - 1].opcode is None:
            return code
        parts = [code]
        for line in lines[n : n + AHEAD]:
            if line.opcode is not None or line.kind is Kind.LABEL:
                break
            more, comment = strip(line.text, comment)
            if more.lstrip()[:1] != ".":
                parts.append(more)
            if ";" in more:
                break
        return " ".join(parts)

    def at(self, n: int) -> tuple[WordedStatement, ...]:
        """The instructions that begin on line ``n``."""
        known = self._kept.get(n)
        if known is not None:
            return known
        line = self.line(n)
        found: tuple[WordedStatement, ...] = ()
        if line is not None and line.opcode is not None:
            names = frozenset(r for r in (*line.defs, *line.uses) if r[:1] != "%")
            made = (statement(piece, names) for piece in pieces(self.code(n)))
            found = tuple(one for one in made if one is not None)
        if len(self._kept) > MOST_LINES:
            self._kept.clear()
        self._kept[n] = found
        return found

    # -- ways -------------------------------------------------------------------------------

    def definition(self, register: str) -> int | None:
        """The line of a register's only definition, None where it has none or several."""
        self._index()
        return self._defined.get(register) or None

    def uses(self, register: str) -> list[int]:
        """The first lines that use a register."""
        self._index()
        return self._uses.get(register, [])

    def bits(self, register: str) -> int:
        """The width that a register is declared with; 64 where it is not known."""
        self._index()
        family = register.rstrip("0123456789") + "<"
        return max(self._bits.get(register, 0), self._bits.get(family, 0)) or 64

    def label(self, name: str) -> int | None:
        """The line that a label stands on."""
        self._index()
        return self._labels.get(name)

    def jumps(self, name: str) -> list[int]:
        """The lines that may jump to a label."""
        self._index()
        return self._jumps.get(name, [])

    def _index(self) -> None:
        if self._indexed:
            return
        self._indexed = True
        first, last = self.function.first, self.function.last
        if last - first >= MOST_LINES or first < 1:
            return
        defined, uses = self._defined, self._uses
        for line in self.listing.lines[first - 1 : last]:
            n = line.n
            if line.kind is Kind.DIRECTIVE and ".reg" in line.text:
                self._declare(line.text)
            for register in line.defs:
                # 0: defined more than once
                defined[register] = 0 if register in defined else n
            for register in line.uses:
                seen = uses.setdefault(register, [])
                if len(seen) < MOST_USES:
                    seen.append(n)
            if line.label is not None:
                self._labels[line.label] = n
            for target in line.targets:
                self._jumps.setdefault(target, []).append(n)

    def _declare(self, text: str) -> None:
        """``.reg .b32 %r<28>;``: where a name is declared again, the widest counts."""
        for width, names in _DECLARATION.findall(strip(text, False)[0]):
            bits = int(width) if width else 1
            for name, many in _DECLARED.findall(names):
                key = f"{name}<" if many else name
                self._bits[key] = max(bits, self._bits.get(key, 0))


# Sentences with places to be filled, chosen by opcode.


_PLACE = re.compile(r"\{(\w+)\}")
_ONE = re.compile(r"(?<![×−+] )(?<![\w.…])1 (arrival|register|thread|byte|column|block)s\b")
_OPTION = re.compile(r"\[([^\[\]]*)\]")

Piece = Callable[[str], str]


class Templates:
    """The table ptx_sentences.toml; sections that it does not have are empty."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = table
        self.pieces: Mapping[str, Mapping[str, str]] = table.get("pieces", {})
        self._by_base: dict[str, list[tuple[frozenset[str], str]]] = {}
        for key, text in self.section("say").items():
            base, *needs = key.split(".")
            self._by_base.setdefault(base, []).append((frozenset(needs), text))

    def section(self, name: str) -> Mapping[str, str]:
        """One table of words."""
        found = self.table.get(name, {})
        return found if isinstance(found, Mapping) else {}

    def of(self, parts: Sequence[str]) -> str | None:
        """The template of an opcode: the one that names most of its parts."""
        have = set(parts[1:])
        fitting = [f for f in self._by_base.get(parts[0], ()) if f[0] <= have]
        return max(fitting, key=lambda f: len(f[0]))[1] if fitting else None


def fill(template: str, piece: Piece) -> str:
    """A template with its places filled; options with an empty piece are left out."""
    known: dict[str, str] = {}

    def get(name: str) -> str:
        if name not in known:
            known[name] = piece(name)
        return known[name]

    def option(found: re.Match[str]) -> str:
        names = _PLACE.findall(found[1])
        return found[1] if all(get(name) for name in names) else ""

    text = _PLACE.sub(lambda m: get(m[1]) or "_", _OPTION.sub(option, template))
    return _ONE.sub(r"1 \1", text.replace("+ −", "− ").replace("− −", "+ "))
