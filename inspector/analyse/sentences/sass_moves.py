"""Shifts, selections, byte permutations, conversions, functions and special registers of SASS."""

from __future__ import annotations

import re
from collections.abc import Mapping

from inspector.analyse.sentences.context import Size
from inspector.analyse.sentences.sass_parts import (
    Pieces,
    SassInstruction,
    SassOperand,
    destination,
    form_of,
    integer,
    is_number,
    joined,
)
from inspector.analyse.sentences.sass_values import notes, width_of

# -- matrix products ------------------------------------------------------------------------------
# Matrix products of SASS: shapes and types.

_SMALL = re.compile(r"(16|8)x?(16|8)x?(256|128|64|32|16|8|4)\Z")
_GROUP = re.compile(r"(\d{2,3})x(\d{1,3})x(\d{1,3})\Z")


def _type(i: SassInstruction, name: str) -> str:
    types = i.table.get("types")
    return str(types.get(name, name)) if isinstance(types, Mapping) else name


def _types(i: SassInstruction) -> tuple[str, str]:
    """The inputs' type and the accumulator's. One alone is the accumulator's (HMMA.16816.F32)."""
    named = [q for q in i.qualifiers if _type(i, q) != q]
    kind = i.base.removeprefix("U")
    accumulated, inputs = i.string("accumulated"), i.string("inputs")
    if kind in ("IMMA", "IGMMA"):
        return " by ".join(dict.fromkeys(_type(i, n) for n in named)) or inputs, accumulated
    if named:
        accumulated = _type(i, named[0])
        rest = [_type(i, n) for n in named[1:]]
        if rest:
            inputs = " by ".join(dict.fromkeys(rest))
    return inputs, accumulated


def product(i: SassInstruction) -> Pieces | None:
    """HMMA, IMMA, DMMA, QMMA …: one warp's product of registers."""
    shape = next((f for q in i.qualifiers if (f := _SMALL.match(q))), None)
    if shape is None or len(i.operands) < 4:
        return None
    m, n, k = (int(shape[g]) for g in (1, 2, 3))
    inputs, accumulated = _types(i)
    wide = {"fp64": 2}.get(accumulated, 1)
    out = max(1, m * n * (16 if accumulated == "fp16" else 32 * wide) // 1024)
    d, a, b, c = i.operands[:4]
    plus = "" if c.zero else f", add {i.words.plain(c, out)}"
    sparse = "A sparse" if i.has("SP") else ""
    bits = _bits(inputs)
    count_a = max(1, m * k * bits // 1024 // (2 if sparse else 1)) if bits else 1
    count_b = max(1, n * k * bits // 1024) if bits else 1
    return {
        "shape": f"{m}×{n}×{k}", "inputs": inputs, "accumulated": accumulated,
        "a": i.words.plain(a, count_a), "b": i.words.plain(b, count_b),
        "d": i.words.plain(d, out), "plus": plus, "notes": joined([sparse]),
    }  # fmt: skip


def _bits(inputs: str) -> int:
    """The bits of one element, by its name: fp16, int8, tf32 (held in 32)."""
    match = re.search(r"tf32|\d+", inputs)
    if match is None:
        return 8 if "fp8" in inputs else 0
    return 32 if match[0] == "tf32" else int(match[0])


def group_product(i: SassInstruction) -> Pieces | None:
    """HGMMA and its like: a warp group's product from shared memory."""
    shape = next((f for q in i.qualifiers if (f := _GROUP.match(q))), None)
    if shape is None or not i.operands:
        return None
    m, n, k = (int(shape[g]) for g in (1, 2, 3))
    inputs, accumulated = _types(i)
    count = max(1, m * n * (16 if accumulated == "fp16" else 32) // (128 * 32))
    d = i.operands[0]
    fresh = any(o.text.strip() in ("!UPT", "RZ") for o in i.operands[1:])
    both = next((o for o in i.operands if "gdesc" in o.bare), None)
    from_registers = len(i.operands) > 2 and i.operands[1].file == "R"
    source = "A in registers, B in shared memory" if from_registers else "A and B in shared memory"
    bar = next((o.bare for o in i.operands if o.file == "gsb"), "")
    turned = [name for name in ("A", "B") if both and f"tnsp{name}" in both.bare]
    return {
        "shape": f"{m}×{n}×{k}", "inputs": inputs, "accumulated": accumulated,
        "d": i.words.plain(d, count), "source": source,
        "plus": "the product alone" if fresh else "added to what is there",
        "also": f"; {bar} tells when it is done" if bar else "",
        "notes": joined([f"{t} transposed" for t in turned] + ["A sparse"] * i.has("SP")),
    }  # fmt: skip


def block_product(i: SassInstruction) -> Pieces | None:
    """UTCHMMA and its like: shape and types are in the instruction descriptor, not in the text."""
    names = [o.bare for o in i.operands]
    tensor = [n for n in names if n.startswith("tmem[")]
    shared = [n for n in names if n.startswith("gdesc[")]
    if not tensor or not names:
        return None
    described = next((n for n in names if n.startswith("idesc[")), "")
    # A comes first: from shared memory, or from tensor memory.
    a = names[0]
    b = shared[-1] if shared else names[min(1, len(names) - 1)]
    d = tensor[1] if a.startswith("tmem[") and len(tensor) > 1 else tensor[0]
    last = i.operands[-1]
    plus = ""
    if last.predicate:
        plus = ", the product alone"
        if last.always is not False:
            condition = "" if last.always else f" if {i.words.predicate(last)}"
            plus = f", added to what is there{condition}"
    return {
        "a": a, "b": b, "d": d, "plus": plus,
        "also": f"; {described} holds shape and types" if described else "",
        "notes": joined(["two blocks together" if i.has("2CTA") else ""]),
        "inputs": i.string("inputs"),
    }  # fmt: skip


_TYPE = re.compile(r"(?:BF16|TF32|F16|F32|F64|[US](?:4|8|16|32|64)|E4M3|E5M2|E2M1|E3M2|E2M3|E8)\Z")
_AXES = {"X": 0, "Y": 1, "Z": 2}


def shift(i: SassInstruction) -> Pieces | None:
    """SHF: a plain shift where the half that is shifted in is 0."""
    o = form_of(i)
    if not {"d", "a", "n", "c"} <= o.keys():
        return None
    d, count = destination(i, o["d"]), integer(o["n"])
    by = i.words.signed(o["n"]) if count is None else str(count & 31)
    low, upper = i.words.signed(o["a"]), i.words.signed(o["c"])
    left, high, signed = i.has("L"), i.has("HI"), i.has("S32", "S64")
    half, shifted_in = (upper, o["a"]) if high else (low, o["c"])
    if not shifted_in.zero:
        whole = _pair(o["c"], o["a"], upper, low)
        text = (
            f"the {'upper' if high else 'lower'} 32 bits of ({whole} {'<<' if left else '>>'} {by})"
        )
        if by == "0" and not left and not high:
            text = low
    elif left:
        times = f" (× {1 << count})" if count is not None and 0 < count < 17 else ""
        text = f"{half} << {by}{times}"
    elif high and signed and count == 31:
        return {"d": d, "value": f"the sign of {half} in all bits", "notes": "", "also": ""}
    else:
        text = f"{half} >> {by}"
    sign = "keeping the sign" if signed and not left else ""
    wrap = "positions modulo 32" if i.has("W") and count is None else ""
    return {"d": d, "value": text, "notes": joined([sign, wrap]), "also": ""}


def _pair(high: SassOperand, low: SassOperand, upper: str, lower: str) -> str:
    """The number of 64 bits that two registers are."""
    if high.number is not None and low.number is not None and high.file == low.file:
        if high.number == low.number + 1:
            return f"{low.file}{low.number}:{high.file}{high.number}"
        if high.number == low.number:
            return f"{lower} twice"
    return f"({upper} above {lower})"


def lea(i: SassInstruction) -> Pieces | None:
    """LEA: an index times a power of two, and a base."""
    o = form_of(i)
    high = i.has("HI")
    left = [v for k, v in o.items() if k not in ("d", "p", "a", "b", "r") and not v.predicate]
    if not {"d", "a", "b"} <= o.keys() or not left:
        return None
    # With .HI the upper half of the index comes before the count, but for .SX32.
    count = integer(left[-1])
    if count is None or (high and len(left) < 2 and not i.has("SX32")):
        return None
    a, b = i.words.signed(o["a"]), i.words.signed(o["b"])
    carry = o.get("p")
    also = f"; the carry into {carry.bare}" if carry is not None and carry.always is None else ""
    d = destination(i, o["d"])
    plus = "" if o["b"].zero else f" + {b}"
    if not high:
        return {"d": d, "value": f"{a} × {1 << (count & 31)}{plus}", "also": also, "notes": ""}
    upper = left[0]
    if i.has("SX32"):
        whole = f"{a} with its sign"
    elif upper.zero:
        whole = a
    else:
        whole = _pair(upper, o["a"], i.words.signed(upper), a)
    if i.has("SX32") and not i.has("X"):
        text = f"({a} >> {32 - count}, keeping the sign){plus}"
    elif upper.zero and not i.has("X"):
        text = f"({whole} >> {32 - count}){plus}"
    else:
        text = f"the upper 32 bits of ({whole} × {1 << (count & 31)}){plus}"
    if i.has("X") and i.operands[-1].predicate and i.operands[-1].always is None:
        text += f" + the carry in {i.words.predicate(i.operands[-1])}"
    return {"d": d, "value": text, "also": also, "notes": ""}


def permute(i: SassInstruction) -> Pieces | None:
    """PRMT: what the selector picks, of constants that are common."""
    o = form_of(i)
    if not {"d", "a", "n", "c"} <= o.keys():
        return None
    d = destination(i, o["d"])
    a, c = i.words.plain(o["a"]), i.words.plain(o["c"])
    selector = integer(o["n"]) if is_number(o["n"]) else None
    if selector is None or i.among("modes"):
        text = f"four bytes of {a} (0 to 3) and {c} (4 to 7) as {i.words.plain(o['n'])} selects"
        return {"d": d, "value": text, "notes": joined(i.among("modes")), "also": ""}
    halves = {0x1: ("lower", a), 0x3: ("upper", a), 0x5: ("lower", c), 0x7: ("upper", c)}
    picked = [selector >> 4 * n & 15 for n in range(4)]
    low, high = _half(picked[:2]), _half(picked[2:])
    if low in halves and high in halves:
        one, two = halves[low], halves[high]
        if one == two:
            text = f"the {one[0]} half of {one[1]} in both halves"
        elif one[1] == two[1] and (one[0], two[0]) == ("lower", "upper"):
            text = one[1]
        else:
            text = f"the {one[0]} half of {one[1]} below, the {two[0]} half of {two[1]} above"
    else:
        text = "bytes " + ", ".join(_byte(p, a, c, o) for p in picked) + " (lowest first)"
    return {"d": d, "value": text, "notes": "", "also": ""}


def _half(bytes_: list[int]) -> int:
    return bytes_[1] if bytes_[1] == bytes_[0] + 1 and bytes_[0] % 2 == 0 and bytes_[1] < 8 else 0


def _byte(picked: int, a: str, c: str, o: Mapping[str, SassOperand]) -> str:
    source, operand = (a, o["a"]) if picked & 4 == 0 else (c, o["c"])
    if operand.zero:
        return "0"
    name = f"{picked & 3} of {source}"
    return f"the sign of {name}" if picked & 8 else name


def select(i: SassInstruction) -> Pieces | None:
    """``a if P0 else b``."""
    o = form_of(i)
    if not {"d", "a", "b", "r"} <= o.keys():
        return None
    if o["r"].always is not None:
        chosen = o["a"] if o["r"].always else o["b"]
        return {"d": destination(i, o["d"], width_of(i, "d")), "notes": notes(i), "also": "",
                "value": i.words.signed(chosen, width_of(i, "a"))}  # fmt: skip
    a, b = (i.words.signed(o[n], width_of(i, n)) for n in "ab")
    if o["r"].inverted:
        a, b = b, a
    text = f"{a} if {o['r'].bare}, else {b}"
    return {"d": destination(i, o["d"], width_of(i, "d")), "value": text,
            "notes": notes(i), "also": ""}  # fmt: skip


def function(i: SassInstruction) -> Pieces | None:
    """MUFU: the function that its qualifier names."""
    o = form_of(i)
    functions = i.table.get("functions")
    if not {"d", "a"} <= o.keys() or not isinstance(functions, Mapping):
        return None
    name = i.first(functions)
    if name is None:
        return None
    text = str(functions[name]).format(a=i.words.signed(o["a"]))
    kind = next((t for t in ("F16", "BF16") if i.has(t)), "" if name.endswith("64H") else "F32")
    types = i.table.get("types")
    unit = types.get(kind, "") if isinstance(types, Mapping) else ""
    return {"d": destination(i, o["d"]), "value": text, "also": "",
            "notes": joined([str(unit), *i.among("notes")])}  # fmt: skip


def convert(i: SassInstruction) -> Pieces | None:
    """F2F.F16.F32: destination's type first; one that is not named is the entry's."""
    o = form_of(i)
    types = i.table.get("types")
    if not {"d", "a"} <= o.keys() or not isinstance(types, Mapping):
        return None
    named = [q for q in i.qualifiers if _TYPE.match(q)]
    to, source = i.string("to"), i.string("from")
    if len(named) > 1:
        to, source = named[0], named[1]
    elif named:
        # One alone is the one that is not what the entry says.
        to, source = _one(i.base.removeprefix("U"), named[0], to, source)
    wide = ("F64", "S64", "U64")
    sources = [o[n] for n in ("a", "b") if n in o]
    what = " and ".join(i.words.signed(s, 2 if source in wide else 1) for s in sources)
    if len(sources) == 2:
        what = f"{what.split(' and ')[0]} (upper half) and {what.split(' and ')[-1]} (lower half)"
    return {"d": destination(i, o["d"], 2 if to in wide else 1), "a": what,
            "from": str(types.get(source, source)), "to": str(types.get(to, to)),
            "notes": joined(i.among("notes"))}  # fmt: skip


def _one(base: str, named: str, to: str, source: str) -> tuple[str, str]:
    floating = named.startswith(("F", "BF", "TF", "E"))
    if base in ("F2I", "F2IP"):
        return (to, named) if floating else (named, source)
    if base in ("I2F", "I2FP"):
        return (named, source) if floating else (to, named)
    if base == "FRND":
        return named, named
    return named, source


def special(i: SassInstruction) -> Pieces | None:
    """What a special register holds, and its range where the launch is known."""
    o = form_of(i)
    table = i.table.get("special")
    if not {"d", "a"} <= o.keys() or not isinstance(table, Mapping):
        return None
    name = o["a"].bare
    wide = 2 if i.has("64") or (i.base in ("CS2R", "CS2UR") and not i.has("32")) else 1
    d = destination(i, o["d"], wide)
    if name == "SRZ":
        return {"form": "zero", "d": d, "also": ""}
    said = table.get(_whole(name) if wide == 2 else name, table.get(name))
    if not isinstance(said, str):
        return None
    return {"d": d, "a": said + _range(i, name)}


def _whole(name: str) -> str:
    """``SR_CLOCKLO`` read into two registers is all of ``SR_CLOCK``."""
    return name.removesuffix("LO")


def _range(i: SassInstruction, name: str) -> str:
    base, _, axis = name.removeprefix("SR_").partition(".")
    sizes: dict[str, Size | None] = {"TID": i.context.block, "CTAID": i.context.grid}
    size = sizes.get(base)
    if size is None or axis not in _AXES:
        return ""
    most = size[_AXES[axis]] - 1
    return f" (0…{most})" if most > 0 else " (always 0)"
