"""One SASS instruction taken apart, with what its sentence needs."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from inspector.analyse.sentences.context import Context
from inspector.analyse.sentences.sass_operands import (
    Operand,
    Wording,
    address,
    as_float,
    integer,
    is_number,
    read,
    registers,
)
from inspector.listing.line import Line
from inspector.listing.sass_operands import split_operands

_CODE = re.compile(
    r"\s*+/\*[0-9a-f]{4,16}\*/\s*+(?:\{\s*+)?(?:@(!?)(U?P(?:\d|T))\s++)?"
    r"[A-Z]\w*+(?:\.[\w.]++)?(?:\s++([^;]*+))?\s*+;"
)
_TARGETS = re.compile(r"`\(([^()\n]*)\)")
_LISTED = re.compile(r"\(\*.*\Z")
_HALVES = re.compile(r"H(?:ADD|MUL|FMA|SET|SETP)2(?:_32I)?\Z")
WIDTHS = {
    "U8": 8, "S8": 8, "U16": 16, "S16": 16, "32": 32, "64": 64, "U64": 64, "S64": 64, "F64": 64,
    "96": 96, "128": 128, "U128": 128, "256": 256, "ENL2": 256,
}  # fmt: skip

Pieces = Mapping[str, str]
Told = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Instruction:
    """``told`` is its entry of sass_sentences.toml, ``table`` the whole of that file."""

    line: Line
    base: str
    qualifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str | None
    label: str | None
    words: Wording
    context: Context
    told: Told
    table: Mapping[str, object]

    def has(self, *names: str) -> bool:
        """Whether any of these qualifiers is in the opcode."""
        return any(n in self.qualifiers for n in names)

    def first(self, names: Mapping[str, object]) -> str | None:
        """The first qualifier that is one of ``names``."""
        return next((q for q in self.qualifiers if q in names), None)

    def among(self, table: str) -> list[str]:
        """What a table of sass_sentences.toml says of the qualifiers, in their order."""
        known = self.table.get(table)
        if not isinstance(known, Mapping):
            return []
        return [str(known[q]) for q in self.qualifiers if q in known]

    def string(self, key: str) -> str:
        """A string of the entry; "" where there is none."""
        found = self.told.get(key)
        return found if isinstance(found, str) else ""

    @property
    def bits(self) -> int:
        """The width that the opcode names, in bits; 32 where it names none."""
        return next((WIDTHS[q] for q in self.qualifiers if q in WIDTHS), 32)

    def at(self, n: int) -> Operand:
        """The operand of that number; RZ where there is none."""
        return self.operands[n] if -len(self.operands) <= n < len(self.operands) else read("RZ")


Handler = Callable[[Instruction], Pieces | None]


def take_apart(
    line: Line, words: Wording, context: Context, told: Told, table: Mapping[str, object]
) -> Instruction | None:
    """The parts of an instruction's line; None where it does not read as one."""
    found = _CODE.match(line.text)
    if found is None or line.base is None or line.opcode is None:
        return None
    negated, guard, text = found.groups()
    text = text or ""
    targets = _TARGETS.findall(text)
    text = _LISTED.sub("", _TARGETS.sub("", text))
    text = text.rstrip().rstrip(",")
    operands = tuple(read(o) for o in split_operands(text) if o)
    if _HALVES.match(line.base):
        operands = _merged(operands)
    return Instruction(
        line=line,
        base=line.base,
        qualifiers=tuple(q for q in line.opcode.split(".")[1:] if q),
        operands=operands,
        guard=None if guard is None else negated + guard,
        label=targets[-1] if targets else None,
        words=words,
        context=context,
        told=told,
        table=table,
    )


def _merged(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """Two immediates of a packed instruction, the upper half's first, as one operand."""
    out: list[Operand] = []
    for operand in operands:
        if out and is_number(operand) and is_number(out[-1]):
            upper = out.pop()
            same = upper.text.strip() == operand.text.strip()
            text = f"({upper.text.strip()}, {operand.text.strip()})"
            out.append(upper if same else Operand(text, text))
        else:
            out.append(operand)
    return tuple(out)


def form_of(i: Instruction) -> dict[str, Operand]:
    """Operands by the names that the entry's ``form`` gives them.

    ``d a ?p b`` are names in order; one with ``?`` is there only where the operand is a predicate.
    """
    out: dict[str, Operand] = {}
    left = list(i.operands)
    for name in i.string("form").split():
        if not left:
            break
        if name.startswith("?") and not left[0].predicate:
            continue
        out[name.lstrip("?")] = left.pop(0)
    return out


def destination(i: Instruction, operand: Operand, width: int = 1) -> str:
    """Where a result goes: ``R4…R7``; ``nowhere`` for RZ."""
    if operand.file in ("R", "UR") and operand.number is None:
        return "nowhere"
    if operand.predicate:
        return "nowhere" if operand.always is not None else operand.bare
    return i.words.plain(operand, width)


def halves(text: str) -> str | None:
    """``(1.5, -2)``, two numbers of fp16, as the 32 bits that they are."""
    found = re.match(r"\((\S+), (\S+)\)\Z", text)
    try:
        packed = struct.pack("<ee", float(found[2]), float(found[1])) if found else b""
    except (ValueError, OverflowError):
        return None
    if not packed:
        return None
    bits = int.from_bytes(packed, "little")
    real = as_float(bits)
    if bits <= 0xFFFF:
        return str(bits)
    return f"{bits:#010x}" + (f" ({real} as fp32)" if real else "")


def immediate(i: Instruction, operand: Operand) -> str:
    """An immediate that is copied: a large one also as the fp32 that its bits are."""
    if not operand.file and (packed := halves(operand.bare)) is not None:
        return packed
    number = integer(operand)
    text = i.words.signed(operand)
    if number is not None and operand.bare.startswith("0x") and (real := as_float(number)):
        return f"{hex(number)} ({real} as fp32)"
    return text


def where(i: Instruction, operand: Operand, *, pair: bool = False) -> str:
    """An address in words, or the operand as it stands."""
    return address(operand, pair=pair) or operand.bare


def many(width: int) -> str:
    """``32 bits``, ``4 × 32 bits (16 bytes a thread)``."""
    if width <= 32:
        return f"{width} bits"
    return f"{width // 32} × 32 bits ({width // 8} bytes a thread)"


def joined(parts: Sequence[str]) -> str:
    """`` (a, b)``, or nothing."""
    kept = [p for p in parts if p]
    return f" ({', '.join(kept)})" if kept else ""


__all__ = [
    "WIDTHS", "Handler", "Instruction", "Pieces", "destination", "form_of", "halves", "immediate",
    "integer", "is_number", "joined", "many", "registers", "take_apart", "where",
]  # fmt: skip
