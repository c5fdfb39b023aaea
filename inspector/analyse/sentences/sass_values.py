"""What arithmetic of SASS computes, as formulas."""

from __future__ import annotations

from typing import NamedTuple

from inspector.analyse.sentences.sass_parts import (
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
from inspector.analyse.sentences.truth_tables import formula, named, restrict

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


def notes(i: SassInstruction, *more: str) -> str:
    """The unit and what the qualifiers add, in parentheses."""
    return joined([i.string("unit"), *i.among("notes"), *more])


def width_of(i: SassInstruction, name: str) -> int:
    """How many registers an operand of the form takes: ``wide`` names those of two."""
    if i.has("WIDE"):
        return 2 if name in ("d", "c") else 1
    if i.has("HI") and i.base in ("IMAD", "UIMAD"):
        return 2 if name == "c" else 1  # the whole product and a pair are added, then cut
    if i.has("64", "S64", "U64") or name in i.string("wide").split():
        return 2
    return 1


class _Term(NamedTuple):
    """One term of a sum; ``alone`` is its operand where it is no product."""

    minus: bool
    text: str
    alone: SassOperand | None = None


def compute(i: SassInstruction) -> Pieces | None:
    """``d = a × b + c``, by the entry's ``value``: terms at ``+``, factors at ``*``."""
    d = destination(i, i.o["d"], width_of(i, "d"))
    targets = (i.o[name] for name in ("p", "q") if name in i.o)
    carries = " and ".join(i.words.predicate(t) for t in targets if t.always is None)
    also = f"; the carry into {carries}" if carries else ""
    products = (_product(i, product) for product in i.string("value").split("+"))
    terms = [*filter(None, products), *_carries_in(i)]
    if not terms:
        return {"form": "zero", "d": d, "also": also}
    # What is taken away stands last.
    first, *rest = sorted(terms, key=lambda term: term.minus)
    text = f"-{first.text}" if first.minus else first.text
    text += "".join(f" {'−' if term.minus else '+'} {term.text}" for term in rest)
    if len(terms) == 1 and (unchanged := _unchanged(i, terms[0])) is not None:
        return {**unchanged, "d": d, "also": also}
    if i.has("HI"):
        text = f"the upper 32 bits of ({text})" if " " in text else f"the upper 32 bits of {text}"
    if d == "nowhere" and carries:
        return {"d": carries, "value": f"the carry of {text}", "notes": ""}
    widened = i.base == "HADD2" and i.has("F32")
    said = " (from fp16 to fp32)" if widened else notes(i)
    return {"d": d, "value": text, "also": also, "notes": said}


def _product(i: SassInstruction, product: str) -> _Term | None:
    """``a*b`` as a term; None if it is 0 or has no operand here. Factors of 1 are left out."""
    factors = [(name, i.o[name]) for name in product.split("*") if name in i.o]
    if not factors or any(factor.zero for _, factor in factors):
        return None
    terms = factors
    if len(factors) > 1:
        terms = [(n, factor) for n, factor in factors if integer(factor) not in (1, -1)]
        terms = terms or factors[:1]
    alone = terms[0][1] if len(terms) == 1 else None
    if i.base in _WRAPPING and (taken_away := _wrapped(factors[0][1])):
        return _Term(True, taken_away, alone)
    text = " × ".join(i.words.plain(factor, width_of(i, name)) for name, factor in terms)
    return _Term(sum(factor.negative for _, factor in factors) % 2 == 1, text, alone)


def _carries_in(i: SassInstruction) -> list[_Term]:
    """The carries that ``.X`` adds, but those that are always 0."""
    carries = [i.o[name] for name in ("r", "s") if name in i.o and i.has("X")]
    return [
        _Term(False, f"the carry in {i.words.predicate(carry)}")
        for carry in carries
        if carry.always is not False
    ]


def _unchanged(i: SassInstruction, term: _Term) -> Pieces | None:
    """One operand as it is: a number that is set, a register copied, a constant read."""
    operand = term.alone
    changed = i.has("HI", "SAT", "F32") or i.among("formats") or i.among("notes")
    if operand is None or changed:
        return None
    if is_number(operand) or halves(operand.bare) is not None:
        return {"form": "set", "a": immediate(i, operand)}
    if term.minus:
        return None
    if not operand.absolute and " " not in term.text:
        return {"form": "copy", "a": term.text}
    return {"form": "parameter", "a": term.text} if operand.bare.startswith("c[") else None


def _wrapped(operand: SassOperand) -> str | None:
    """0xffffffc0, added, is 64 taken away."""
    number = integer(operand)
    if number is None or not 0xFFFF0000 <= number <= 0xFFFFFFFF:
        return None
    return str((1 << 32) - number)


def compare(i: SassInstruction) -> Pieces | None:
    """``P0 = (R3 ≥ 1823)``, with the predicate that it is combined with."""
    registers = 2 if i.has("S64", "U64", "64") or i.string("wide") else 1
    a, b = (i.words.signed(i.o[name], registers) for name in "ab")
    text = _relation(i, a, b)
    if text is None:
        return None
    if i.has("EX") and (lower := i.o.get("s")) is not None:
        text += f", with {i.words.predicate(lower)} of the lower halves"
    if (other := i.o.get("r")) is not None and (join := i.first(_JOINS)) is not None:
        text = _combined(i, text, other, join)
    if i.string("writes"):
        # .BF writes 1.0, without it all bits are set.
        text = f"{'1' if i.has('BF') else 'all ones'} where {text}, else 0"
    else:
        text = f"whether {text}"
    return {
        "d": destination(i, i.o["p"]),
        "value": text,
        "also": _second_result(i, i.o.get("q")),
        "notes": joined([i.string("unit"), _signedness(i), *i.among("notes")]),
    }


def _relation(i: SassInstruction, a: str, b: str) -> str | None:
    """What the opcode asks of two values, as it reads: ``R3 ≥ 1823``; None if it names nothing."""
    if i.has("MIN", "MAX"):
        return f"{a} is the {'smaller' if i.has('MIN') else 'larger'} of {a} and {b}"
    kind = i.first(_COMPARISONS)
    if kind is not None:
        unordered = ", or it is NaN" if a == b else ", or either is NaN"
        return f"{a} {_COMPARISONS[kind]} {b}{unordered if kind in _UNORDERED else ''}"
    test = next((name for name in _TESTS if i.has(name)), None)
    return _TESTS[test][a != b].format(a=a, b=b) if test is not None else None


def _second_result(i: SassInstruction, operand: SassOperand | None) -> str:
    """What the second predicate is set to."""
    target = "nowhere" if operand is None else destination(i, operand)
    if target == "nowhere":
        return ""
    if i.base == "HSETP2":
        return f", {target} the same of the upper halves"
    if i.has("MIN", "MAX"):
        return f", {target} = whether either is NaN"
    return f", {target} = the opposite"


def _signedness(i: SassInstruction) -> str:
    """How whole numbers are compared, where that matters."""
    if i.string("unit"):
        return ""
    if i.has("U32", "U64"):
        return "unsigned"
    return "" if i.first(_COMPARISONS) in ("EQ", "NE", None) else "signed"


def _combined(i: SassInstruction, text: str, other: SassOperand, join: str) -> str:
    if other.always is (join == "AND"):  # changes nothing
        return text
    return f"{text}, {_JOINS[join]} {i.words.predicate(other)}"


def smaller(i: SassInstruction) -> Pieces | None:
    """Minimum or maximum, by the predicate that is PT or !PT as a rule."""
    chosen = i.o["r"].always
    if chosen is None:
        kind = f"the minimum (the maximum unless {i.words.predicate(i.o['r'])})"
    else:
        kind = "the minimum" if chosen else "the maximum"
    wide = 2 if i.has("S64", "U64") or i.string("wide") else 1
    a, b = (i.words.signed(i.o[n], wide) for n in "ab")
    third = [i.words.signed(i.o["c"])] if "c" in i.o else []
    values = [a, b, *third]
    if i.base == "VIADDMNMX" and third:
        values = [f"{a} + {b}", *third]
    sign = "unsigned" if i.has("U32", "U64") else ""
    return {
        "d": destination(i, i.o["d"], wide),
        "value": f"{kind} of {', '.join(values[:-1])} and {values[-1]}",
        "notes": notes(i, sign),
    }


def logic(i: SassInstruction) -> Pieces | None:
    """LOP3: the formula of the table, its constant inputs counted in."""
    table = integer(i.o["lut"])
    if table is None:
        return None
    inputs = [i.o[n] for n in "abc"]
    # An inverted input is one whose column of the table is read backwards.
    names = [_name(i, o) for o in inputs]
    constants = [(1 if o.inverted else 0) if o.zero else None for o in inputs]
    text = named(formula(restrict(table, constants)), names)
    flag = i.o.get("p")
    return {
        "d": destination(i, i.o["d"]),
        "value": "all ones" if text == "1" else text,
        "also": f"; {flag.bare} = whether it is not 0" if flag and flag.always is None else "",
        "notes": _modulo(inputs, text, names),
    }


def _name(i: SassInstruction, operand: SassOperand) -> str:
    text = i.words.signed(operand, bits=True)
    return f"({text})" if " " in text else text


def _modulo(inputs: list[SassOperand], text: str, names: list[str]) -> str:
    """A mask of the lowest bits is a remainder."""
    for n, mask in enumerate(inputs):
        number = integer(mask)
        if number is None or number < 1 or number & (number + 1):
            continue
        for name in names[:n] + names[n + 1 :]:
            if text in (f"{name} & {names[n]}", f"{names[n]} & {name}"):
                return f" ({name} modulo {number + 1})"
    return ""


def predicates(i: SassInstruction) -> Pieces | None:
    """PLOP3: two formulas of three predicates."""
    inputs = [i.o[n] for n in "abc"]
    constants = [None if o.always is None else int(o.always) for o in inputs]
    names = [o.bare for o in inputs]
    out: list[str] = []
    for target, lut in (("p", "lut"), ("q", "lut2")):
        table = integer(i.o[lut]) if lut in i.o else None
        d = destination(i, i.o[target])
        if table is None or d == "nowhere":
            continue
        for n, o in enumerate(inputs):
            if o.inverted and o.always is None:
                table = _flipped(table, n)
        text = named(formula(restrict(table, constants)), names)
        text = {"0": "false", "1": "true"}.get(text, text)
        for sign, word in ((" & ", " and "), (" | ", " or "), (" ^ ", " xor "), ("~", "not ")):
            text = text.replace(sign, word)
        out.append(f"{d} = {text}")
    return {"value": ", ".join(out)} if out else {"value": "combine predicates for nothing"}


def _flipped(table: int, n: int) -> int:
    """The table with input ``n`` negated."""
    bit = 4 >> n
    return sum((table >> (k ^ bit) & 1) << k for k in range(8))
