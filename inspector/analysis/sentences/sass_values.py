"""What arithmetic, moves, conversions and matrix products of SASS compute, as formulas."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from inspector.analysis.sentences.sass_parts import (
    Pieces,
    SassInstruction,
    SassOperand,
    destination,
    halves,
    immediate,
    integer,
    is_number,
    joined,
)
from inspector.analysis.sentences.wording import formula, named, restrict

_COMPARISONS = {
    "EQ": "=", "NE": "≠", "LT": "<", "LE": "≤", "GT": ">", "GE": "≥",
    "EQU": "=", "NEU": "≠", "LTU": "<", "LEU": "≤", "GTU": ">", "GEU": "≥",
}  # fmt: skip
_UNORDERED = ("EQU", "NEU", "LTU", "LEU", "GTU", "GEU")
# Without a comparison: one value compared with itself, and two.
_TESTS = {
    "NAN": ("{a} is NaN", "{a} or {b} is NaN"),
    "NUM": ("{a} is a number", "{a} and {b} are numbers"),
    "T": ("true", "true"),
    "F": ("false", "false"),
}
# Instructions that take a number away by adding its complement.
_WRAPPING = ("VIADD", "UVIADD", "IADD32I")
_JOINS = {"AND": "and", "OR": "or", "XOR": "xor"}


def notes(i: SassInstruction, *extra_notes: str) -> str:
    """The unit and what the qualifiers add, in parentheses."""
    unit = i.string("unit")
    if i.has("BF16_V2", "BF16") and not i.has("F32"):
        unit = unit.replace("fp16", "bf16")
    return joined([unit or i.first_text("lanes"), *i.among("notes"), *extra_notes])


def width_of(i: SassInstruction, name: str) -> int:
    """How many registers an operand of the form takes: ``wide`` names those of two."""
    if i.has("WIDE"):
        return 2 if name in ("d", "c") else 1
    if i.has("HI") and i.base in ("IMAD", "UIMAD"):
        return 2 if name == "c" else 1  # the whole product and a pair are added, then cut
    return 2 if i.has("64", "S64", "U64") or name in i.string("wide").split() else 1


class _Term(NamedTuple):
    """One term of a sum; ``alone`` is its operand where it is no product."""

    minus: bool
    text: str
    alone: SassOperand | None = None


def compute(i: SassInstruction) -> Pieces | None:
    """``d = a × b + c``, by the entry's ``value``: terms at ``+``, factors at ``*``."""
    d = destination(i, i.o["d"], width_of(i, "d"))
    targets = [i.o[name] for name in ("p", "q") if name in i.o]
    carries = " and ".join(i.words.predicate(t) for t in targets if t.always is None)
    also = f"; the carry into {carries}" if carries else ""
    terms = _terms(i)
    if not terms:
        return {"form": "zero", "d": d, "also": also}
    if len(terms) == 1:
        unchanged = _unchanged(i, terms[0])
        if unchanged is not None:
            return {**unchanged, "d": d, "also": also}
    text = _sum_of(terms)
    if i.has("HI"):
        text = f"the upper 32 bits of ({text})" if " " in text else f"the upper 32 bits of {text}"
    if d == "nowhere" and carries:
        return {"d": carries, "value": f"the carry of {text}", "notes": ""}
    remarks = " (from fp16 to fp32)" if i.base == "HADD2" and i.has("F32") else notes(i, _sign(i))
    return {"d": d, "value": text, "also": also, "notes": remarks}


def _terms(i: SassInstruction) -> list[_Term]:
    """What is added: the products, then the carries of ``.X`` that are not always 0."""
    products = [_product(i, product) for product in i.string("value").split("+")]
    terms = [term for term in products if term is not None]
    if i.has("X"):
        for name in ("r", "s"):
            carry = i.o.get(name)
            if carry is not None and carry.always is not False:
                terms.append(_Term(False, f"the carry in {i.words.predicate(carry)}"))
    return terms


def _sum_of(terms: Sequence[_Term]) -> str:
    """The terms with their signs; what is taken away stands last."""
    first, *further_terms = sorted(terms, key=lambda term: term.minus)
    text = f"-{first.text}" if first.minus else first.text
    for term in further_terms:
        sign = "−" if term.minus else "+"
        text += f" {sign} {term.text}"
    return text


def _sign(i: SassInstruction) -> str:
    """Whether the upper half of an integer product is that of signed numbers."""
    if i.base not in ("IMAD", "UIMAD") or not i.has("WIDE", "HI"):
        return ""
    return "unsigned" if i.has("U32") else "signed"


def _product(i: SassInstruction, product: str) -> _Term | None:
    """``a*b`` as a term; None if it is 0 or has no operand here. Factors of 1 are left out."""
    factors = {name: i.o[name] for name in product.split("*") if name in i.o}
    if not factors or any(factor.zero for factor in factors.values()):
        return None
    names = [name for name, factor in factors.items() if integer(factor) not in (1, -1)]
    if len(factors) == 1 or not names:
        names = [*factors][:1]
    alone = factors[names[0]] if len(names) == 1 else None
    added = integer(next(iter(factors.values()))) or 0
    if i.base in _WRAPPING and 0xFFFF0000 <= added <= 0xFFFFFFFF:  # 0xffffffc0 takes 64 away
        return _Term(True, str((1 << 32) - added), alone)
    text = " × ".join(i.words.unsigned(factors[name], width_of(i, name)) for name in names)
    negative_count = sum(factor.negative for factor in factors.values())
    return _Term(negative_count % 2 == 1, text, alone)


def _unchanged(i: SassInstruction, term: _Term) -> Pieces | None:
    """One operand as it is: a number that is set, a register copied, a constant read."""
    operand = term.alone
    changed = i.has("HI", "SAT", "F32") or i.among("formats") or i.among("notes")
    if operand is None or changed:
        return None
    if is_number(operand) or halves(operand.core) is not None:
        return {"form": "set", "a": immediate(i, operand)}
    if term.minus:
        return None
    if not operand.absolute and " " not in term.text:
        return {"form": "copy", "a": term.text}
    if operand.core.startswith("c["):
        return {"form": "parameter", "a": term.text}
    return None


def compare(i: SassInstruction) -> Pieces | None:
    """``P0 = (R3 ≥ 1823)``, with the predicate that it is combined with."""
    registers = 2 if i.has("S64", "U64", "64") or i.string("wide") else 1
    a = i.words.signed(i.o["a"], registers)
    b = i.words.signed(i.o["b"], registers)
    relation = _relation(i, a, b)
    if relation is None:
        return None
    text = relation + _combined_with(i)
    if i.string("writes"):
        # .BF writes 1.0, without it all bits are set.
        text = f"{'1' if i.has('BF') else 'all ones'} where {text}, else 0"
    else:
        text = f"whether {text}"
    return {
        "d": destination(i, i.o["p"]),
        "value": text,
        "also": _second_result(i, i.o.get("q")),
        "notes": joined([i.string("unit") or _compared_sign(i), *i.among("notes")]),
    }


def _combined_with(i: SassInstruction) -> str:
    """The comparison of the lower halves, and the predicate that the result is joined with."""
    text = ""
    lower = i.o.get("s")
    if i.has("EX") and lower is not None:
        text += f", with {i.words.predicate(lower)} of the lower halves"
    other = i.o.get("r")
    join = i.first(_JOINS)
    if other is not None and join is not None and other.always is not (join == "AND"):
        text += f", {_JOINS[join]} {i.words.predicate(other)}"  # else it changes nothing
    return text


def _compared_sign(i: SassInstruction) -> str:
    if i.has("U32", "U64"):
        return "unsigned"
    ordered = i.first(_COMPARISONS) not in ("EQ", "NE", None)
    return "signed" if ordered else ""


def _relation(i: SassInstruction, a: str, b: str) -> str | None:
    """What the opcode asks of two values, as it reads: ``R3 ≥ 1823``; None if it names nothing."""
    if i.has("MIN", "MAX"):
        return f"{a} is the {'smaller' if i.has('MIN') else 'larger'} of {a} and {b}"
    kind = i.first(_COMPARISONS)
    if kind is not None:
        text = f"{a} {_COMPARISONS[kind]} {b}"
        if kind not in _UNORDERED:
            return text
        return f"{text}, or it is NaN" if a == b else f"{text}, or either is NaN"
    test = next((name for name in _TESTS if i.has(name)), None)
    if test is None:
        return None
    of_one, of_two = _TESTS[test]
    return (of_one if a == b else of_two).format(a=a, b=b)


def _second_result(i: SassInstruction, operand: SassOperand | None) -> str:
    target = "nowhere" if operand is None else destination(i, operand)
    if target == "nowhere":
        return ""
    if i.base == "HSETP2":
        return f", {target} the same of the upper halves"
    if i.has("MIN", "MAX"):
        return f", {target} = whether either is NaN"
    return f", {target} = the opposite"


def smaller(i: SassInstruction) -> Pieces | None:
    """The minimum or maximum of two or three values; VIADDMNMX's of a sum and a value."""
    wide = 2 if i.has("S64", "U64") or i.string("wide") else 1
    a = i.words.signed(i.o["a"], wide)
    b = i.words.signed(i.o["b"], wide)
    values = [a, b]
    if "c" in i.o:
        c = i.words.signed(i.o["c"])
        values = [_sum(a, b), c] if i.base == "VIADDMNMX" else [a, b, c]
    sign = ""
    if not i.string("unit") and not i.first_text("lanes"):
        sign = "unsigned" if i.has("U32", "U64") else "signed"
    return {
        "d": destination(i, i.o["d"], wide),
        "value": f"{_extremum(i)} of {', '.join(values[:-1])} and {values[-1]}",
        "notes": notes(i, sign, *i.among("nan")),
        "also": _which_extremum(i),
    }


def _extremum(i: SassInstruction) -> str:
    selector = i.o["r"]
    if selector.always is None:
        return f"the minimum (the maximum unless {i.words.predicate(selector)})"
    return "the minimum" if selector.always else "the maximum"


def _which_extremum(i: SassInstruction) -> str:
    """The predicates that say which of the values it is."""
    operands = [i.o[name] for name in "pqtu" if name in i.o]
    predicates = ", ".join(operand.core for operand in operands if operand.always is None)
    return f"; {predicates} = which of them it is" if predicates else ""


def _sum(a: str, b: str) -> str:
    return f"{a} − {b.removeprefix('-')}" if b.startswith("-") else f"{a} + {b}"


def logic(i: SassInstruction) -> Pieces | None:
    """LOP3: the formula of the table, its constant inputs counted in."""
    table = integer(i.o["lut"])
    if table is None:
        return None
    inputs = [i.o[n] for n in "abc"]
    # An inverted input is one whose column of the table is read backwards.
    input_texts = (i.words.signed(o, bits=True) for o in inputs)
    names = [f"({text})" if " " in text else text for text in input_texts]
    constants = [int(o.inverted) if o.zero else None for o in inputs]
    text = named(formula(restrict(table, constants)), names)
    return {
        "d": destination(i, i.o["d"]),
        "value": "all ones" if text == "1" else text,
        "also": _not_zero(i),
        "notes": _modulo(inputs, text, names),
    }


def _not_zero(i: SassInstruction) -> str:
    """``; P0 = whether it is not 0, and P1``: the predicate that LOP3 writes, and what it joins."""
    flag = i.o.get("p")
    other = i.o.get("r")
    if flag is None or flag.always is not None:
        return ""
    join = "and" if i.has("PAND") else "or"
    silent = other is None or other.always is (join == "and")
    joined_with = "" if other is None or silent else f", {join} {i.words.predicate(other)}"
    return f"; {flag.core} = whether it is not 0{joined_with}"


def _modulo(inputs: list[SassOperand], text: str, names: list[str]) -> str:
    """A mask of the lowest bits is a remainder."""
    for n, mask in enumerate(inputs):
        number = integer(mask) or 0
        for name in names[:n] + names[n + 1 :]:
            masked = text in (f"{name} & {names[n]}", f"{names[n]} & {name}")
            if masked and number > 0 and not number & (number + 1):
                return f" ({name} modulo {number + 1})"
    return ""


def predicates(i: SassInstruction) -> Pieces | None:
    """PLOP3: two formulas of three predicates."""
    results = []
    for target, lut in (("p", "lut"), ("q", "lut2")):
        table = integer(i.o[lut]) if lut in i.o else None
        d = destination(i, i.o[target])
        if table is not None and d != "nowhere":
            results.append(f"{d} = {_predicate_formula(i, table)}")
    return {"value": ", ".join(results) or "combine predicates for nothing"}


def _predicate_formula(i: SassInstruction, table: int) -> str:
    """The formula of a table of truth, its constant and inverted inputs counted in."""
    inputs = [i.o[name] for name in "abc"]
    for n, operand in enumerate(inputs):
        if operand.inverted and operand.always is None:
            table = sum((table >> (k ^ 4 >> n) & 1) << k for k in range(8))
    constants = [None if operand.always is None else int(operand.always) for operand in inputs]
    names = [o.core if o.predicate else i.words.unsigned(o) for o in inputs]
    text = named(formula(restrict(table, constants)), names)
    if text in ("0", "1"):
        return "true" if text == "1" else "false"
    for sign, word in ((" & ", " and "), (" | ", " or "), (" ^ ", " xor "), ("~", "not ")):
        text = text.replace(sign, word)
    return text


# -- matrix products ------------------------------------------------------------------------------

_SMALL = re.compile(r"(16|8)x?(16|8)x?(256|128|64|32|16|8|4)\Z")
_GROUP = re.compile(r"(\d{2,3})x(\d{1,3})x(\d{1,3})\Z")


def _types(i: SassInstruction) -> tuple[str, str]:
    named = i.among("types")
    accumulated = i.string("accumulated")
    inputs = i.string("inputs")
    if i.base.removeprefix("U") in ("IMMA", "IGMMA"):
        return " by ".join(dict.fromkeys(named)) or inputs, accumulated
    # Behind those of A and B stands the type of the scale factors.
    return " by ".join(dict.fromkeys(named[1:3])) or inputs, named[0] if named else accumulated


def _shape(i: SassInstruction, pattern: re.Pattern[str]) -> tuple[int, int, int] | None:
    shape = next(filter(None, map(pattern.match, i.qualifiers)), None)
    return (int(shape[1]), int(shape[2]), int(shape[3])) if shape else None


def product(i: SassInstruction) -> Pieces | None:
    """HMMA, IMMA, DMMA, QMMA …: one warp's product of registers."""
    shape = _shape(i, _SMALL)
    if shape is None or len(i.operands) < 4:
        return None
    m, n, k = shape
    inputs, accumulated = _types(i)
    scales = i.o_at(4, 5) if i.has("SF") else ()
    accumulator_bits = {"fp64": 64, "fp16": 16}.get(accumulated, 32)
    out = max(1, m * n * accumulator_bits // 1024)
    d, a, b, c = i.operands[:4]
    sparse = i.has("SP")
    # Of one element, by its name: fp16, int8, tf32 (held in 32); 0 if unknown.
    named = re.search(r"tf32|\d+", inputs)
    bits = int(named[0].removeprefix("tf")) if named else 0
    if i.base == "QMMA":
        bits = 8  # elements of 6 and 4 bits are in bytes
    return {
        "shape": _tile(m, n, k),
        "inputs": inputs,
        "accumulated": accumulated,
        "a": i.words.unsigned(a, max(1, m * k * bits // 1024 // (1 + sparse))),
        "b": i.words.unsigned(b, max(1, n * k * bits // 1024)),
        "d": i.words.unsigned(d, out),
        "plus": "" if c.zero else f", add {i.words.unsigned(c, out)}",
        "notes": joined([*_product_notes(i), *_sparsity(i), *_scales(i, scales)]),
    }


_WARP_PRODUCTS = ("HMMA", "IMMA", "QMMA", "OMMA")


def _tile(m: int, n: int, k: int) -> str:
    return f"{'an' if m == 8 else 'a'} {m}×{n}×{k}"


def _product_notes(i: SassInstruction) -> list[str]:
    """How bits are combined before they are counted, and whether the sum is clamped."""
    bits = i.first_text("bit_products") if i.has("POPC") else ""
    return [bits, *["clamped to the accumulator's range"] * i.has("SAT")]


def _sparsity(i: SassInstruction) -> list[str]:
    if not i.has("SP"):
        return []
    # Of a warp's product it comes fifth, of a warp group's last.
    registers = [o for o in i.operands if o.file == "R"]
    metadata = registers[4:5] if i.base in _WARP_PRODUCTS else registers[-1:]
    if not metadata:
        return ["A sparse"]
    behind = i.operands[i.operands.index(metadata[0]) + 1 :]
    numbers = (integer(operand) for operand in reversed(behind) if not operand.file)
    selector = next((number for number in numbers if number is not None), 0)
    selector_note = f", selector {selector}" if selector else ""
    return [f"A sparse, metadata in {metadata[0].core}{selector_note}"]


def _scales(i: SassInstruction, scales: Sequence[SassOperand]) -> list[str]:
    """Registers with the scale factors of A and B; of a sparse A they are behind its metadata."""
    if len(scales) < 2:
        return []
    of_a, of_b = scales
    a = f"{of_a.file}{of_a.number + 1}" if i.has("SP") and of_a.number is not None else of_a.core
    kind = "e4m3" if i.has("UE4M3") else "e8m0"
    block = 16 if i.has("4X") else 32
    selector = next((o.core for o in i.operands if o.file == "UR" and not o.zero), "")
    selector_note = f", chosen by {selector}" if selector else ""
    return [
        f"scale factors ({kind}, one for {block}) of A in {a}, of B in {of_b.core}{selector_note}"
    ]


def group_product(i: SassInstruction) -> Pieces | None:
    """HGMMA and its like: a warp group's product from shared memory."""
    shape = _shape(i, _GROUP)
    if shape is None or not i.operands:
        return None
    m, n, k = shape
    inputs, accumulated = _types(i)
    count = max(1, m * n * (16 if accumulated == "fp16" else 32) // (128 * 32))
    fresh = any(o.text.strip() in ("!UPT", "RZ") for o in i.operands[1:])
    both = next((o.core for o in i.operands if "gdesc" in o.core), "")
    from_registers = len(i.operands) > 2 and i.operands[1].file == "R"
    bar = next((o.core for o in i.operands if o.file == "gsb"), "")
    turned = [f"{name} transposed" for name in ("A", "B") if f"tnsp{name}" in both]
    return {
        "shape": _tile(m, n, k),
        "inputs": inputs,
        "accumulated": accumulated,
        "d": i.words.unsigned(i.operands[0], count),
        "source": f"A {'in registers, B' if from_registers else 'and B'} in shared memory",
        "plus": "the product alone" if fresh else "added to what is there",
        "also": f"; {bar} tells when it is done" if bar else "",
        "notes": joined([*turned, *_product_notes(i), *_sparsity(i)]),
    }


def block_product(i: SassInstruction) -> Pieces | None:
    """UTCHMMA and its like: shape and types are in the instruction descriptor, not in the text."""
    names = [_COLLECTOR.sub("", operand.core) for operand in i.operands]
    in_tensor_memory = [name for name in names if name.startswith("tmem[")]
    in_shared_memory = [name for name in names if name.startswith("gdesc[")]
    if not in_tensor_memory:
        return None
    descriptor = next((name for name in names if name.startswith("idesc[")), "")
    # A comes first: from shared memory, or from tensor memory.
    a = names[0]
    second = 1 if a.startswith("tmem[") and len(in_tensor_memory) > 1 else 0
    return {
        "a": a,
        "b": in_shared_memory[-1] if in_shared_memory else names[min(1, len(names) - 1)],
        "d": in_tensor_memory[second],
        "plus": _block_sum(i),
        "also": f"; {descriptor} holds shape and types" if descriptor else "",
        "notes": joined([*_block_notes(i), *i.among("block_pairs")]),
        "inputs": i.string("inputs"),
    }


def _block_sum(i: SassInstruction) -> str:
    """What the product is added to: the last predicate decides whether to anything."""
    last = next((o for o in reversed(i.operands) if o.predicate), None)
    if last is None:
        return ""
    if last.always is False:
        return ", the product alone"
    condition = "" if last.always else f" if {i.words.predicate(last)}"
    shift = integer(i.operands[-1])
    scale = f" × 2^-{shift}" if shift else ""
    return f", added to what is there{scale}{condition}"


_COLLECTOR = re.compile(r"\.(?:[AB]_(?:KEEP|REUSE)|[AB]_REUSE_KEEP|BUFFER\d)\b")


def _block_notes(i: SassInstruction) -> list[str]:
    """What stands behind the instruction descriptor, and what is kept for the next product."""
    cores = [operand.core for operand in i.operands]
    descriptor = next((n for n, core in enumerate(cores) if core.startswith("idesc[")), len(cores))
    remarks = []
    for operand in i.operands[descriptor + 1 :]:
        number = re.search(r"UR(\d+)", operand.core)
        if number is not None and not operand.predicate:
            remarks.append(_block_operand(i, operand, int(number[1])))
    text = " ".join(cores)
    for name, collector_text in i.table["collector"].items():
        if re.search(rf"\.{name}\b", text):
            remarks.append(collector_text)
    return [*remarks, *i.among("product_modes")]


def _block_operand(i: SassInstruction, operand: SassOperand, first: int) -> str:
    """What the uniform registers from ``first`` on are for."""
    if operand.core.startswith("tmem["):
        return f"scale factors of A at tmem[UR{first}], of B at tmem[UR{first + 1}]"
    if i.has("WS"):
        return f"columns of B as the mask at UR{first}:UR{first + 1} says are zeros"
    count = 8 if i.has("2CTA") else 4
    return f"lanes in the mask UR{first}…UR{first + count - 1} not written"


# -- moves ----------------------------------------------------------------------------------------


def shift(i: SassInstruction) -> Pieces:
    """SHF: a plain shift where the half that is shifted in is 0."""
    d = destination(i, i.o["d"])
    count = integer(i.o["n"])
    leftwards = i.has("L")
    high = i.has("HI")
    signed = i.has("S32", "S64")
    shifted_in = i.o["a"] if high else i.o["c"]
    # Below an upper half that is 0 there is no sign to keep.
    keeps_sign = signed and not leftwards and (high or not shifted_in.zero)
    if shifted_in.zero and keeps_sign and count == 31:
        half = i.words.signed(i.o["c"])
        return {"d": d, "value": f"the sign of {half} in all bits", "notes": ""}
    text = _shifted_half(i, count) if shifted_in.zero else _shifted_pair(i, count)
    sign = "keeping the sign" if keeps_sign else ""
    wrap = "positions modulo 32" if i.has("W") and count is None else ""
    return {"d": d, "value": text, "notes": joined([sign, wrap])}


def _shift_count(i: SassInstruction, count: int | None) -> str:
    return i.words.signed(i.o["n"]) if count is None else str(count & 31)


def _shifted_half(i: SassInstruction, count: int | None) -> str:
    """One register shifted, zeros coming in."""
    half = i.words.signed(i.o["c"] if i.has("HI") else i.o["a"])
    count_text = _shift_count(i, count)
    if not i.has("L"):
        return f"{half} >> {count_text}"
    times = f" (× {1 << count})" if count is not None and 0 < count < 17 else ""
    return f"{half} << {count_text}{times}"


def _shifted_pair(i: SassInstruction, count: int | None) -> str:
    """Half of two registers that are shifted as one number."""
    low = i.words.signed(i.o["a"])
    upper = i.words.signed(i.o["c"])
    high = i.has("HI")
    count_text = _shift_count(i, count)
    if count_text == "0" and not i.has("L") and not high:
        return low
    pair = _pair(i.o["c"], i.o["a"], upper, low)
    shifted_text = f"{pair} {'<<' if i.has('L') else '>>'} {count_text}"
    return f"the {'upper' if high else 'lower'} 32 bits of ({shifted_text})"


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
    named_apart = ("d", "p", "a", "b", "r")
    operands = [o for name, o in i.o.items() if name not in named_apart and not o.predicate]
    # With .HI the upper half of the index comes before the count, but for .SX32.
    count = integer(operands[-1]) if operands else None
    if count is None or (i.has("HI") and len(operands) < 2 and not i.has("SX32")):
        return None
    base = i.words.signed(i.o["b"])
    text = _scaled_index(i, operands[0], count)
    if not i.o["b"].zero:
        sign = "−" if base.startswith("-") else "+"
        text += f" {sign} {base.removeprefix('-')}"
    last = i.operands[-1]
    if i.has("HI") and i.has("X") and last.predicate and last.always is None:
        text += f" + the carry in {i.words.predicate(last)}"
    carry = i.o.get("p")
    also = f"; the carry into {carry.core}" if carry is not None and carry.always is None else ""
    return {"d": destination(i, i.o["d"]), "value": text, "also": also, "notes": ""}


def _scaled_index(i: SassInstruction, upper: SassOperand, count: int) -> str:
    """The index times its power of two, or the upper half of that, of an index of two registers."""
    a = i.words.signed(i.o["a"])
    factor = 1 << (count & 31)
    if not i.has("HI"):
        return f"{a} × {factor}"
    extended = i.has("X")
    if i.has("SX32"):
        if not extended:
            return f"({a} >> {32 - count}, keeping the sign)"
        return f"the upper 32 bits of ({a} with its sign × {factor})"
    if upper.zero and not extended:
        return f"({a} >> {32 - count})"
    index = a if upper.zero else _pair(upper, i.o["a"], i.words.signed(upper), a)
    return f"the upper 32 bits of ({index} × {factor})"


def permute(i: SassInstruction) -> Pieces:
    """PRMT: what the selector picks, of constants that are common."""
    a = i.words.unsigned(i.o["a"])
    c = i.words.unsigned(i.o["c"])
    mode = i.first_text("modes")
    selector = integer(i.o["n"]) if is_number(i.o["n"]) else None
    if mode:
        text = mode.format(a=a, c=c, n=i.words.unsigned(i.o["n"]))
    elif selector is None:
        selects = i.words.unsigned(i.o["n"])
        text = f"four bytes of {a} (0 to 3) and {c} (4 to 7) as {selects} selects"
    else:
        picked = [selector >> 4 * n & 15 for n in range(4)]
        single_bytes = ", ".join(_byte(i, byte, a, c) for byte in picked)
        text = _picked_halves(picked, a, c) or f"bytes {single_bytes} (lowest first)"
    return {"d": destination(i, i.o["d"]), "value": text, "notes": ""}


def _picked_halves(picked: Sequence[int], a: str, c: str) -> str | None:
    """What four bytes are, where they are two halves of the operands."""
    halves = {
        (0, 1): ("lower", a),
        (2, 3): ("upper", a),
        (4, 5): ("lower", c),
        (6, 7): ("upper", c),
    }
    low_half = halves.get((picked[0], picked[1]))
    high_half = halves.get((picked[2], picked[3]))
    if low_half is None or high_half is None:
        return None
    low_part, low_source = low_half
    high_part, high_source = high_half
    if low_half == high_half:
        return f"the {low_part} half of {low_source} in both halves"
    if low_source == high_source and low_part == "lower":
        return low_source
    low_text = f"the {low_part} half of {low_source} below"
    return f"{low_text}, the {high_part} half of {high_source} above"


def _byte(i: SassInstruction, picked: int, a: str, c: str) -> str:
    source, operand = (c, i.o["c"]) if picked & 4 else (a, i.o["a"])
    if operand.zero:
        return "0"
    name = f"{picked & 3} of {source}"
    return f"the sign of {name}" if picked & 8 else name


def select(i: SassInstruction) -> Pieces:
    """``a if P0 else b``."""
    condition = i.o["r"]
    a = i.words.signed(i.o["a"], width_of(i, "a"))
    b = i.words.signed(i.o["b"], width_of(i, "b"))
    if condition.inverted:
        a, b = b, a
    text = a if condition.always is not None else f"{a} if {condition.core}, else {b}"
    return {"d": destination(i, i.o["d"], width_of(i, "d")), "value": text, "notes": notes(i)}


def function(i: SassInstruction) -> Pieces | None:
    name = i.first(i.table["functions"])
    if name is None:
        return None
    kind = next((t for t in ("F16", "BF16") if i.has(t)), "" if name.endswith("64H") else "F32")
    unit = i.packed or i.table["types"].get(kind, "")
    return {
        "d": destination(i, i.o["d"]),
        "value": i.table["functions"][name].format(a=i.words.signed(i.o["a"])),
        "notes": joined([unit, *i.among("notes")]),
    }


def special(i: SassInstruction) -> Pieces | None:
    """What a special register holds, and its range where the launch is known."""
    name = i.o["a"].core
    wide = i.has("64") or (i.base in ("CS2R", "CS2UR") and not i.has("32"))
    d = destination(i, i.o["d"], 1 + wide)
    if name == "SRZ":
        return {"form": "zero", "d": d}
    # SR_CLOCKLO read into two registers is all of SR_CLOCK.
    table = i.table["special"]
    text = table.get(name.removesuffix("LO") if wide else name, table.get(name))
    if text is None:
        return None
    base, _, axis = name.removeprefix("SR_").partition(".")
    size = {"TID": i.context.block, "CTAID": i.context.grid}.get(base)
    if size is not None and axis in ("X", "Y", "Z"):
        largest = size["XYZ".index(axis)] - 1
        extent = f"0…{largest}" if largest > 0 else "always 0"
        text += f" ({extent})"
    return {"d": d, "a": text}
