"""What conversions of SASS compute: one value, or several that are packed into a register."""

import re

from inspector.analysis.sentences.sass_parts import (
    Pieces,
    SassInstruction,
    SassOperand,
    destination,
    joined,
    number_bits,
)

_TYPE = re.compile(
    r"(?:BF16|TF32|F16|F32|F64|[US](?:2|4|8|16|32|64)|E4M3|E5M2|E2M1|E3M2|E2M3|E8|S2_6)\Z"
)
_WIDE = ("F64", "S64", "U64")
_UNIT_SCALES = 0x7F7F
"""Two scale factors e8m0 of 1."""


def convert(i: SassInstruction) -> Pieces:
    """F2F.F16.F32: destination's type first; one that is not named is the entry's."""
    types = i.table["types"]
    to, source = _types(i)
    nearest = i.string("rounds") if not i.has("FLOOR", "CEIL", "TRUNC") else ""
    return {
        "d": destination(i, i.o["d"], 2 if to in _WIDE else 1),
        "a": i.words.signed(i.o["a"], 2 if source in _WIDE else 1),
        "from": types.get(source, source),
        "to": types.get(to, to),
        "notes": joined([*i.among("notes"), nearest, *i.among("integers_of_nan")]),
    }


def _types(i: SassInstruction) -> tuple[str, str]:
    """To what type, and from which."""
    to = i.string("to")
    source = i.string("from")
    named = [q for q in i.qualifiers if _TYPE.match(q)]
    if len(named) > 1:
        return named[0], named[1]
    if not named:
        return to, source
    base = i.base.removeprefix("U")
    if base == "FRND":
        return named[0], named[0]
    floating = named[0].startswith(("F", "BF", "TF", "E"))
    read = {"F2I": floating, "I2F": not floating, "I2FP": not floating}
    return (to, named[0]) if read.get(base) else (named[0], source)


def pack(i: SassInstruction) -> Pieces:
    """F2FP: two values into a register or a part of one, or out of one.

    ``PACK_AB`` reads them from two registers, ``UNPACK_B`` from the lower bits of one, ``MERGE_C``
    puts the last operand above what it packs. Where values are converted to or from scaled types
    the last operand has the scale factors; rounding by ``RS`` takes its random bits.
    """
    to, source = _types(i)
    last = i.operands[-1]
    bits = _element_bits(to)
    value = _packed_value(i, to, source)
    scaled = to == "S2_6" or (i.has("UNPACK_B") and len(i.operands) > 2)
    merged = any("MERGE_C" in qualifier for qualifier in i.qualifiers)
    if scaled:
        value += _scales(i, last, upper=to == "S2_6" or last.core.endswith(".H1"))
    elif merged and not last.zero:
        upper_bits = 32 - (bits if i.has("MERGE_C") else 2 * bits)
        value += f", below the lowest {upper_bits} bits of {i.words.unsigned(last)}"
    remarks = i.among("notes")
    if i.has("RS"):
        remarks = [*remarks, f"rounded stochastically by the bits of {i.words.unsigned(last)}"]
    return {"d": destination(i, i.o["d"]), "value": value, "notes": joined(remarks)}


def _packed_value(i: SassInstruction, to: str, source: str) -> str:
    """What is converted, and where it is in the registers."""
    types = i.table["types"]
    conversion = f"from {types.get(source, source)} to {types.get(to, to)}"
    bits = _element_bits(to)
    a = i.words.signed(i.o["a"])
    if i.has("UNPACK_B"):
        return f"the lowest two numbers of {a}, each {conversion}"
    if i.has("UNPACK_B_MERGE_C"):
        return f"the halves of {a}, each {conversion}, in the lowest {2 * bits} bits"
    if i.has("PACK_B", "MERGE_C") or "b" not in i.o:
        return f"{a}, {conversion}"
    upper_place = "upper half"
    lower_place = "lower half"
    if bits < 16:
        upper_place = f"bits {bits} to {2 * bits - 1}"
        lower_place = f"bits 0 to {bits - 1}"
    b = i.words.signed(i.o["b"])
    return f"{a} ({upper_place}) and {b} ({lower_place}), each {conversion}"


def _element_bits(kind: str) -> int:
    """Bits that an element takes where it is packed."""
    if kind == "E2M1":
        return 4
    return 8 if kind.startswith("E") or kind == "S2_6" else 16


def _scales(i: SassInstruction, operand: SassOperand, *, upper: bool) -> str:
    """The scale factors of two values, in one half of an operand; nothing if both are 1."""
    bits = number_bits(operand)
    if bits is not None and (bits >> 16 if upper else bits & 0xFFFF) == _UNIT_SCALES:
        return ""
    text = i.words.unsigned(operand)
    if not operand.suffixes:
        text = f"the {'upper' if upper else 'lower'} half of {text}"
    return f", scaled by the factors (e8m0) in {text}"


def pack_integers(i: SassInstruction) -> Pieces | None:
    """I2IP, F2IP: two values, clamped to a small integer type, below bits of a third operand."""
    to, source = _types(i)
    types = i.table["types"]
    if not to[1:].isdecimal() or to not in types or source not in types:
        return None
    bits = int(to[1:])
    a = f"{i.words.signed(i.o['a'])} (bits {bits} to {2 * bits - 1})"
    b = f"{i.words.signed(i.o['b'])} (bits 0 to {bits - 1})"
    value = f"{a} and {b}, each from {types[source]} to {types[to]}, clamped to its range"
    c = i.o["c"]
    if not c.zero:
        name = i.words.unsigned(c) if c.number is None else f"{c.file}{c.number}"
        value += f", below the lowest {32 - 2 * bits} bits of {name}"
    remarks = [remark for remark in i.among("notes") if "clamped" not in remark]
    remarks += i.among("integers_of_nan")
    return {"d": destination(i, i.o["d"]), "value": value, "notes": joined(remarks)}
