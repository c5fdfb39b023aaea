"""One SASS instruction taken apart, with what its sentence needs."""

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from inspector.analysis.sentences.context import Context, Parameter
from inspector.parsers.line import Line
from inspector.parsers.sass_operands import access_bits, split_operands

# Operands of SASS as they are disassembled, read and put in words.
#
# NVIDIA documents no operands; what stands here was read off nvdisasm's output.

_REGISTER = re.compile(r"(UR|UP|R|P|B|SB|gsb)(\d{1,3}|(?<=R)Z|(?<=P)T)((?:\.\w++)*+)\Z")
_NUMBER = re.compile(
    r"0x[0-9a-f]{1,32}\Z|\d{1,40}(?:\.\d{1,60})?(?:e[+-]?\d{1,4})?\Z|(?:INF|Q?NAN)\Z"
)
_BANK = re.compile(r"c\[(0x[0-9a-f]{1,4}|UR\d{1,3})\]\[([^\]]*)\]((?:\.\w++)*+)\Z")
_PARTS = {
    "H0_H0": "the lower half of {}",
    "H1_H1": "the upper half of {}",
    "H0": "the lower half of {}",
    "H1": "the upper half of {}",
    "H0_NH1": "the halves of {} with the upper one negated",
    "B0": "byte 0 of {}",
    "B1": "byte 1 of {}",
    "B2": "byte 2 of {}",
    "B3": "byte 3 of {}",
    "SIGN": "the sign of {}",
}
PREDICATES = ("P", "UP")


class SassOperand(Struct, frozen=True):
    """One operand. ``file`` is ``R``, ``UR``, ``P``, ``UP``, ``B``, ``SB``, ``gsb``, else "".

    ``number`` is None for RZ, URZ, PT, UPT and what is no register. ``bare`` is the text without
    signs, bars and ``.reuse``.
    """

    text: str
    core: str
    file: str = ""
    number: int | None = None
    suffixes: tuple[str, ...] = ()
    negative: bool = False
    inverted: bool = False
    absolute: bool = False

    @property
    def zero(self) -> bool:
        """RZ, URZ, or the number 0."""
        if self.file in ("R", "UR"):
            return self.number is None
        return not self.file and _NUMBER.match(self.core) is not None and value(self.core) == 0

    @property
    def general(self) -> bool:
        """Whether it is a general register, RZ and URZ too."""
        return self.file in ("R", "UR")

    @property
    def predicate(self) -> bool:
        """Whether it is a predicate, PT and UPT too."""
        return self.file in PREDICATES

    @property
    def always(self) -> bool | None:
        """What PT and UPT, negated or not, always are; None for other operands."""
        return not self.inverted if self.predicate and self.number is None else None


def read(text: str) -> SassOperand:
    core = text.strip()
    negative = core.startswith("-")
    core = core.removeprefix("-")
    inverted = core.startswith(("!", "~"))
    core = core[inverted:].replace(".reuse", "").strip().lstrip("+")
    absolute = core.startswith("|") and "|" in core[1:]
    core = core.replace("|", "", 2) if absolute else core
    signs = negative, inverted, absolute
    match = _REGISTER.match(core)
    if match is None:
        return SassOperand(text, core, "", None, (), *signs)
    file, number, suffixes = match.groups()
    register_number = int(number) if number.isdecimal() else None
    return SassOperand(text, core, file, register_number, tuple(suffixes.split(".")[1:]), *signs)


def value(text: str) -> float | int | None:
    try:
        if text.startswith("0x"):
            return int(text, 16)
        return float(text) if any(c in text for c in ".eNI") else int(text)
    except ValueError:
        return None


def is_number(operand: SassOperand) -> bool:
    return not operand.file and _NUMBER.match(operand.core) is not None


def integer(operand: SassOperand) -> int | None:
    """The immediate's value where it is a whole number, its sign counted in."""
    if operand.general and operand.number is None:
        return 0
    number = value(operand.core) if is_number(operand) else None
    if not isinstance(number, int):
        return None
    return -number if operand.negative else number


def number_bits(operand: SassOperand) -> int | None:
    """The 32 bits of an immediate: ``0x7f7f``, ``4.57e-41.H0``; None if it has none."""
    text = operand.core.removesuffix(".H0").removesuffix(".H1")
    literal = value(text) if _NUMBER.match(text) else None
    if isinstance(literal, float):
        try:
            return int.from_bytes(struct.pack("<f", literal), "little")
        except OverflowError:
            return None
    return literal


def registers(file: str, first: int, count: int) -> str:
    """``R4``, ``R2:R3``, ``R4…R7``."""
    if count <= 1:
        return f"{file}{first}"
    last = f"{file}{first + count - 1}"
    return f"{file}{first}:{last}" if count == 2 else f"{file}{first}…{last}"


class SassWording:
    """Puts operands in words. ``layouts`` is the table ``banks`` of sass_sentences.toml: offsets in
    constant bank 0 by first sm."""

    def __init__(self, layouts: Mapping[str, Any], sm: int | None, context: Context) -> None:
        self._context = context
        fitting = [int(first) for first in layouts if sm is not None and int(first) <= sm]
        self._layout = layouts[str(max(fitting))] if fitting else {}

    def bank(self, bank: str, text: str, size: int) -> str:
        """``c[0x0][0x210]`` in words, ``size`` bytes of it."""
        bank_text = f"c[{bank}][{text}]"
        offset = 0 if text in ("RZ", "") else value(text)
        if bank != "0x0" or not isinstance(offset, int) or offset < 0 or not self._layout:
            return bank_text
        for kind, launched in (("block", self._context.block), ("grid", self._context.grid)):
            place = offset - self._layout[kind]
            if place in (0, 4, 8):
                count = f" ({launched[place // 4]})" if launched is not None else ""
                return f"the {kind}'s size in {'xyz'[place // 4]}{count}"
        if name := self._layout["named"].get(hex(offset)):
            return str(name)
        place = offset - self._layout["parameters"]
        return self._parameter(place, size, bank_text) if 0 <= place < 0x8000 else bank_text

    def _parameter(self, offset: int, size: int, bank_text: str) -> str:
        parameter = self._context.parameter_at(offset)
        if parameter is None:
            return f"the parameter at byte {offset} ({bank_text})"
        inside = [
            p
            for p in self._context.parameters
            if p.offset is not None and offset <= p.offset < offset + size
        ]
        if len(inside) > 1 and inside[0] is parameter:
            names = [p.name or str(p.index) for p in inside]
            return f"the parameters {', '.join(names[:-1])} and {names[-1]}"
        return _parameter_text(parameter, offset - (parameter.offset or 0))

    def unsigned(self, operand: SassOperand, width: int = 1, *, bits: bool = False) -> str:
        """Without its sign. ``width`` registers; ``bits``: numbers as hexadecimal."""
        text = self._magnitude(operand, width, bits)
        if operand.absolute:
            text = f"|{text}|"
        return f"not {text}" if operand.inverted and not operand.zero else text

    def signed(self, operand: SassOperand, width: int = 1, *, bits: bool = False) -> str:
        """With its sign."""
        text = self.unsigned(operand, width, bits=bits)
        return f"-{text}" if operand.negative and text != "0" else text

    def predicate(self, operand: SassOperand) -> str:
        """``P0``, ``not P0``, ``true``, ``false``."""
        if operand.always is not None:
            return "true" if operand.always else "false"
        return f"not {operand.core}" if operand.inverted else operand.core

    def _magnitude(self, operand: SassOperand, width: int, bits: bool) -> str:
        if not operand.file:
            match = _BANK.match(operand.core)
            if match:
                return self.bank(match[1], match[2], 4 * width)
            return number(operand.core, bits) if _NUMBER.match(operand.core) else operand.core
        if operand.number is None:
            if operand.predicate:
                return "true"
            return "all ones" if operand.inverted else "0"
        wide = 2 if "64" in operand.suffixes and width == 1 else width
        text = registers(operand.file, operand.number, wide)
        for suffix in operand.suffixes:
            if suffix in _PARTS:
                text = _PARTS[suffix].format(text)
        return text


def _parameter_text(parameter: Parameter, byte: int) -> str:
    """A parameter from one of its bytes on, with its type and value where these are known."""
    text = f"the parameter {parameter.name or parameter.index}"
    if parameter.name is None and parameter.type:
        text += f": {parameter.type}"
    if byte == 4 and parameter.size == 8:
        text = f"the upper half of {text}"
    elif byte:
        text = f"byte {byte} on of {text}"
    if parameter.type and "*" not in parameter.type and parameter.value is not None:
        text += f" ({parameter.value})"
    return text


def number(text: str, bits: bool = False) -> str:
    """``0x40`` → ``64``; above 65535, and where bits count, hexadecimal."""
    literal = value(text)
    if literal is None or not isinstance(literal, int) or not text.startswith("0x"):
        return text.replace("INF", "infinity").replace("QNAN", "NaN").replace("NAN", "NaN")
    return hex(literal) if (bits and literal > 9) or literal > 0xFFFF else str(literal)


def as_float(bits: int) -> str | None:
    """An fp32 of these bits as text where it is one that somebody would write."""
    if not 0 < bits < 1 << 32:
        return None
    exponent = bits >> 23 & 255
    if exponent == 255:
        if bits & 0x7FFFFF:
            return "NaN"
        return "-infinity" if bits >> 31 else "infinity"
    if not 64 <= exponent <= 191:
        return None
    return f"{struct.unpack('f', struct.pack('I', bits))[0]:.7g}"


_ADDRESS = re.compile(r"(?:(?P<desc>g?desc)\[(?P<policy>[^\]]*)\])?(?:tmem)?\[(?P<body>[^\]]*)\]\Z")


def address(operand: SassOperand, *, pair: bool = False) -> str | None:
    """``desc[UR4][R2.64+0x10]`` → ``R2:R3 + 16``; None if it is no address. ``pair``: registers
    without a suffix represent two (global memory on sm_70 to sm_89)."""
    match = _ADDRESS.match(operand.core)
    if match is None:
        return None
    terms: list[str] = []
    for part in re.sub(r"\+-", "-", match["body"]).replace("-", "+-").split("+"):
        sign = "-" if part.strip().startswith("-") else ""
        term = read(part.strip().lstrip("-"))
        if not term.core or term.zero:
            continue
        if term.general and term.number is not None:
            text, is_pair = _register_term(term, term.number, pair)
            # Only one register of an address represents two.
            pair = pair and not is_pair
        else:
            offset = value(term.core)
            text = term.core if offset is None else str(offset)
        terms.append(sign + text)
    return " + ".join(terms).replace("+ -", "− ") or "0"


def _register_term(term: SassOperand, number: int, pair: bool) -> tuple[str, bool]:
    """A register of an address with its scale, and whether it represents two."""
    scale = next((s[1:] for s in term.suffixes if re.match(r"X\d", s)), None)
    wide = "64" in term.suffixes or (pair and "U32" not in term.suffixes and not scale)
    text = registers(term.file, number, 2 if wide else 1)
    return (f"{text} × {scale}" if scale else text), wide


_CODE = re.compile(
    r"\s*+/\*[0-9a-f]{4,16}\*/\s*+(?:\{\s*+)?(?:@(!?)(U?P(?:\d|T))\s++)?"
    r"[A-Z]\w*+(?:\.[\w.]++)?(?:\s++([^;]*+))?\s*+;"
)
_TARGETS = re.compile(r"`\(([^()\n]*)\)")
_LISTED = re.compile(r"\(\*.*\Z")
_HALVES = re.compile(r"H(?:ADD|MUL|FMA|SET|SETP)2(?:_32I)?\Z")

_PACKED_TYPE = re.compile(r"(B?F(?:16|32)|E4M3|E5M2)x(\d{1,2})\Z")
"""``BF16x2``, ``E5M2x16``."""

Pieces = Mapping[str, str]


class SassInstruction(Struct, frozen=True):
    """One instruction. ``o`` are operands by the names that the entry's ``form`` gives them;
    ``told`` is its entry of sass_sentences.toml, ``table`` the whole of that file."""

    line: Line
    base: str
    qualifiers: tuple[str, ...]
    operands: tuple[SassOperand, ...]
    o: Mapping[str, SassOperand]
    guard: str | None
    label: str | None
    words: SassWording
    context: Context
    entry: Mapping[str, Any]
    table: Mapping[str, Any]

    def has(self, *names: str) -> bool:
        return any(n in self.qualifiers for n in names)

    def first(self, names: Mapping[str, object]) -> str | None:
        return next((q for q in self.qualifiers if q in names), None)

    def among(self, table: str) -> list[str]:
        """What a table of sass_sentences.toml says of the qualifiers, in their order."""
        texts = self.table[table]
        return [texts[q] for q in self.qualifiers if q in texts]

    def first_text(self, table: str) -> str:
        """What such a table says of the first qualifier that it has; "" if none."""
        return next(iter(self.among(table)), "")

    def o_at(self, *indices: int) -> tuple[SassOperand, ...]:
        """Operands by their places; none if one is missing."""
        operands = tuple(self.operands[n] for n in indices if n < len(self.operands))
        return operands if len(operands) == len(indices) else ()

    @property
    def packed(self) -> str:
        """``2 × bf16``: the type of packed values; "" without one."""
        match = next(filter(None, map(_PACKED_TYPE.match, self.qualifiers)), None)
        return f"{match[2]} × {self.table['types'][match[1]]}" if match else ""

    @property
    def combined_type(self) -> str:
        """The type of an atomic operation's value: numbers without a name are unsigned."""
        if type_name := self.packed or self.first_text("types"):
            return type_name
        if self.has("ADD", "MIN", "MAX", "INC", "DEC"):
            return f"unsigned {self.bits}-bit integer"
        return ""

    def string(self, key: str) -> str:
        return str(self.entry.get(key, ""))

    @property
    def variant(self) -> str | None:
        """The first qualifier with a sentence in the entry."""
        return self.first(self.entry.get("variants", {}))

    @property
    def bits(self) -> int:
        """The width that the opcode names, in bits; 32 where it names none."""
        return access_bits(self.qualifiers)


Handler = Callable[[SassInstruction], Pieces | None]


def take_apart(
    line: Line,
    words: SassWording,
    context: Context,
    entry: Mapping[str, Any],
    table: Mapping[str, Any],
) -> SassInstruction | None:
    """The parts of an instruction's line; None if it does not read as one."""
    match = _CODE.match(line.text)
    if match is None or line.base is None or line.opcode is None:
        return None
    negated, guard, text = match.groups()
    text = text or ""
    targets = _TARGETS.findall(text)
    text = _LISTED.sub("", _TARGETS.sub("", text)).rstrip().rstrip(",")
    operands = tuple(read(o) for o in split_operands(text) if o)
    if _HALVES.match(line.base):
        operands = _merged(operands)
    return SassInstruction(
        line,
        line.base,
        tuple(line.opcode.split(".")[1:]),
        operands,
        _named(operands, entry.get("form", "")),
        None if guard is None else negated + guard,
        targets[-1] if targets else None,
        words,
        context,
        entry,
        table,
    )


def _named(operands: Sequence[SassOperand], form: str) -> dict[str, SassOperand]:
    """Operands by their names in a form. ``d a ?p b`` are names in order; one with ``?`` is there
    only where the operand is a predicate."""
    out: dict[str, SassOperand] = {}
    names = iter(form.split())
    for operand in operands:
        name = next((n for n in names if n[0] != "?" or operand.predicate), None)
        if name is None:
            break
        out[name.lstrip("?")] = operand
    return out


def _merged(operands: tuple[SassOperand, ...]) -> tuple[SassOperand, ...]:
    """Two immediates of a packed instruction, the upper half's first, as one operand."""
    out: list[SassOperand] = []
    for operand in operands:
        if out and is_number(operand) and is_number(out[-1]):
            upper = out.pop()
            same = upper.text.strip() == operand.text.strip()
            text = f"({upper.text.strip()}, {operand.text.strip()})"
            out.append(upper if same else SassOperand(text, text))
        else:
            out.append(operand)
    return tuple(out)


def destination(i: SassInstruction, operand: SassOperand, width: int = 1) -> str:
    """Where a result goes: ``R4…R7``; ``nowhere`` for RZ."""
    if operand.number is None and (operand.general or operand.predicate):
        return "nowhere"
    return operand.core if operand.predicate else i.words.unsigned(operand, width)


def halves(text: str) -> str | None:
    """``(1.5, -2)``, two numbers of fp16, as the 32 bits that they are."""
    match = re.match(r"\((\S+), (\S+)\)\Z", text)
    if match is None:
        return None
    try:
        packed = struct.pack("<ee", float(match[2]), float(match[1]))
    except (ValueError, OverflowError):
        return None
    bits = int.from_bytes(packed, "little")
    real = f" ({as_float(bits)} as fp32)" if as_float(bits) else ""
    return str(bits) if bits <= 0xFFFF else f"{bits:#010x}{real}"


def immediate(i: SassInstruction, operand: SassOperand) -> str:
    """An immediate that is copied: a large one also as the fp32 that its bits are."""
    if not operand.file and (packed := halves(operand.core)) is not None:
        return packed
    number = integer(operand)
    if number is not None and operand.core.startswith("0x") and (real := as_float(number)):
        return f"{hex(number)} ({real} as fp32)"
    return i.words.signed(operand)


def address_text(operand: SassOperand, *, pair: bool = False) -> str:
    """An address in words, or the operand as it stands."""
    return address(operand, pair=pair) or operand.core


def width_text(width: int) -> str:
    """``32 bits``, ``4 × 32 bits (16 bytes a thread)``."""
    if width <= 32:
        return f"{width} bits"
    return f"{width // 32} × 32 bits ({width // 8} bytes a thread)"


def joined(parts: Sequence[str]) -> str:
    """`` (a, b)``, or nothing."""
    nonempty_parts = [p for p in parts if p]
    return f" ({', '.join(nonempty_parts)})" if nonempty_parts else ""
