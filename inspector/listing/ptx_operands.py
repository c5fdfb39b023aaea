"""PTX statements taken apart: guard, opcode, operands.

Written from the PTX ISA, chapters "Syntax" and "Instruction Operands".
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from inspector.base.text import at_commas
from inspector.listing.ptx_statement import GUARD, LABEL, OPCODE, SPECIAL

_FLAT = re.compile(r"[^\[\]{}()]*+(?:[\[{(][^\[\]{}(),]*+[\]})][^\[\]{}()]*+)*+\Z")
"""No comma stands within a bracket."""

MAX_STATEMENT_CHARS = 65536
"""Most characters of a statement that are read."""


class OperandKind(StrEnum):
    """What an operand is. ``OTHER`` is shown as it is written."""

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

    ``parts`` are a vector's elements, the two of ``d|p``, the operands in a call's parentheses, or
    an address's base and the operands after its comma. ``offset`` is in bytes, added to an
    address's base. ``value`` is a number's. ``negated`` is for ``!%p`` and ``-%r1``; ``text`` is
    the operand as written.
    """

    kind: OperandKind
    text: str
    parts: tuple[Operand, ...] = ()
    value: int | float | None = None
    offset: int = 0
    negated: bool = False

    @property
    def name(self) -> str:
        """A register's name without ``!``, ``-`` and selectors (``.x``, ``.b0``)."""
        bare = self.text.lstrip("!- ")
        return bare.partition(".")[0] if self.kind is OperandKind.REGISTER else bare


@dataclass(frozen=True, slots=True)
class WordedStatement:
    """One instruction; ``parts`` are its opcode's, ``unless`` is its guard's ``!``."""

    opcode: str
    parts: tuple[str, ...]
    operands: tuple[Operand, ...] = ()
    guard: str | None = None
    unless: bool = False


_NUMBER = re.compile(
    r"(-?)\s*+(?:0[xX]([0-9a-fA-F]{1,40}+)|0[bB]([01]{1,160}+)|(\d{1,40}+))[uU]?\Z"
)
_HEX_FLOAT = re.compile(r"(-?)\s*+0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))\Z")
_DECIMAL = re.compile(r"-?\s*+(?:\d++\.\d*+|\.\d++|\d++(?=[eE]))(?:[eE][+-]?\d++)?\Z")
_REGISTER_OPERAND = re.compile(r"[!-]?\s*+%[\w$]++(?:\.\w++)?\Z")
_NAME = re.compile(r"[A-Za-z_$%][\w$]*+\Z")
_OFFSET = re.compile(
    r"(.*?[^\s+-])\s*+(\+|-)\s*+(-?\s*(?:0[xX][0-9a-fA-F]+|\d+)[uU]?)\s*\Z", re.DOTALL
)


@lru_cache(maxsize=1024)
def parts_of(opcode: str) -> tuple[str, ...]:
    """``ld``, ``global``, ``L1::no_allocate``, ``v4``, ``b32``."""
    return tuple(opcode.split("."))


def split(text: str) -> list[str]:
    """Parts at the commas outside every bracket."""
    if _FLAT.match(text):
        parts = [part.strip() for part in text.split(",")]
    else:
        parts = at_commas(text, "{[(", "}])")
    return parts if parts != [""] else []


def pieces(code: str) -> list[str]:
    """The statements of a stretch of code without comments; labels and block braces left out."""
    out: list[str] = []
    for piece in code[:MAX_STATEMENT_CHARS].split(";"):
        bare = piece.strip()
        while bare:
            if bare[0] in "{}" and not bare.startswith("{%"):
                bare = bare[1:].lstrip()
            elif match := LABEL.match(bare):
                bare = bare[match.end() :].lstrip()
            else:
                break
        if bare:
            out.append(bare)
    return out


def statement(code: str, names: frozenset[str] = frozenset()) -> WordedStatement | None:
    """The instruction in ``code``, or None; ``names`` are registers that have no ``%``."""
    code = code[:MAX_STATEMENT_CHARS].strip().rstrip(";")
    guard = GUARD.match(code)
    match = OPCODE.match(code, guard.end() if guard else 0)
    if match is None:
        return None
    rest = code[match.end() :].strip()
    if rest and not code[match.end()].isspace() and rest[0] not in "{[(":
        return None
    opcode = match[0].rstrip(".")
    operands = tuple([operand(part, names) for part in split(rest)])
    unless = bool(guard and guard[1])
    return WordedStatement(opcode, parts_of(opcode), operands, guard[2] if guard else None, unless)


def operand(text: str, names: frozenset[str] = frozenset(), depth: int = 0) -> Operand:
    """One operand of any kind."""
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
    if _REGISTER_OPERAND.match(text) or bare in names:
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
    if (match := _OFFSET.match(base)) and (value := number(match[3])) is not None:
        base, offset = match[1], value if match[2] == "+" else -value
    operands = [operand(base, names, depth + 1), *(operand(p, names, depth + 1) for p in parts[1:])]
    return Operand(OperandKind.ADDRESS, text, tuple(operands), offset=offset)


def number(text: str) -> int | None:
    """An integer as PTX writes it: decimal, ``0x``, ``0b``, octal; None if it is not one."""
    digits = _NUMBER.match(text)
    if digits is None or len(text) > 80:
        return None
    if digits[2]:
        value = int(digits[2], 16)
    elif digits[3]:
        value = int(digits[3], 2)
    elif digits[4][0] == "0" and len(digits[4]) > 1:
        if not set(digits[4]) <= set("01234567"):
            return None
        value = int(digits[4], 8)
    else:
        value = int(digits[4])
    return -value if digits[1] else value


def real(text: str) -> float | None:
    """A floating-point constant: ``0f3F800000``, ``0d…`` (the bits), ``1.5``; None otherwise."""
    if match := _HEX_FLOAT.match(text):
        bits = bytes.fromhex(match[2] or match[3])
        value: float = struct.unpack(">f" if match[2] else ">d", bits)[0]
        return -value if match[1] else value
    if len(text) < 80 and _DECIMAL.match(text):
        return float(text.replace(" ", "").replace("\t", ""))
    return None


def registers(whole: Operand) -> list[Operand]:
    """The registers in an operand, in order."""
    if whole.kind is OperandKind.REGISTER:
        return [whole]
    return [register for part in whole.parts for register in registers(part)]
