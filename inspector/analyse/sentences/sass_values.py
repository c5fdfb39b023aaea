"""What arithmetic of SASS computes, as formulas."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import permutations, product

from inspector.analyse.sentences.sass_parts import (
    Pieces,
    SassInstruction,
    SassOperand,
    destination,
    form_of,
    halves,
    immediate,
    integer,
    is_number,
    joined,
)

# Functions of three bits, as ``LOP3.LUT`` and ``PLOP3.LUT`` have them: tables of eight bits.
#
# Bit ``a << 2 | b << 1 | c`` of the table is the result for bits a, b, c: 0xf0 is a alone, 0xcc b,
# 0xaa c (PTX ISA, Logic and Shift Instructions: lop3).


A, B, C = 0xF0, 0xCC, 0xAA
ALL = 0xFF


def restrict(table: int, known: Sequence[int | None]) -> int:
    """The table where some inputs are always 0 or always 1 (None: not known)."""
    out = 0
    for i, bits in enumerate(product((0, 1), repeat=3)):
        fixed = [b if k is None else k for b, k in zip(bits, known, strict=True)]
        out |= (table >> (fixed[0] << 2 | fixed[1] << 1 | fixed[2]) & 1) << i
    return out


def _joins(inner: int, outer: int) -> bool:
    """Whether an operation reads well inside another without parentheses."""
    return inner == 4 or inner == outer or (inner == 3 and outer == 1)


@cache
def _formulas() -> dict[int, str]:
    """The shortest formula of each table: built up from the inputs, simple ones first."""
    best: dict[int, tuple[int, int, str]] = {}  # cost, precedence, text

    def offer(table: int, cost: int, level: int, text: str) -> bool:
        known = best.get(table)
        if known is not None and known[0] <= cost:
            return False
        best[table] = (cost, level, text)
        return True

    for table, text in ((0, "0"), (ALL, "1"), (A, "a"), (B, "b"), (C, "c")):
        offer(table, 0, 4, text)
    grown = True
    last: dict[int, tuple[int, int, str]] = {}
    while grown:
        grown = False
        for table, (cost, level, text) in list(best.items()):
            inner = text if level == 4 else f"({text})"
            grown |= offer(~table & ALL, cost + 1, 4, f"~{inner}")
        items = sorted(best.items(), key=lambda kv: (kv[1][0], kv[1][2]))
        # Two that were the same the last time make what they made then, and so do two the other way
        # round; and where each table has a formula, none is shorter than the longest of all.
        changed = {table for table, known in items if last.get(table) != known}
        last = dict(items)
        most = max(cost for cost, _, _ in best.values()) if len(best) > ALL else None
        for n, (x, (cx, lx, tx)) in enumerate(items):
            for y, (cy, ly, ty) in items[n:]:
                if most is not None and cx + cy + 2 >= most:
                    break
                if x not in changed and y not in changed:
                    continue
                for op, level, result in (("&", 3, x & y), ("^", 2, x ^ y), ("|", 1, x | y)):
                    left = tx if _joins(lx, level) else f"({tx})"
                    right = ty if _joins(ly, level) else f"({ty})"
                    grown |= offer(result, cx + cy + 2, level, f"{left} {op} {right}")
    best[A & B | A & C | B & C] = (0, 1, "a & b | a & c | b & c")
    inputs = {"a": A, "b": B, "c": C}
    for k, one, other in permutations(inputs):
        # Each bit of k chooses between one and other.
        table = inputs[k] & inputs[one] | ~inputs[k] & inputs[other] & ALL
        best[table] = (0, 1, f"{k} & {one} | ~{k} & {other}")
    return {table: text for table, (_, _, text) in best.items()}


def formula(table: int) -> str:
    """A formula in a, b, c with ``~ & ^ |`` of a table of eight bits; ``0`` and ``1`` too."""
    return _formulas()[table & ALL]


def named(text: str, names: Sequence[str]) -> str:
    """A formula with what a, b and c stand for."""
    words = dict(zip("abc", names, strict=True))
    return "".join(words.get(c, c) for c in text)


_COMPARISONS = {
    "EQ": "=", "NE": "≠", "LT": "<", "LE": "≤", "GT": ">", "GE": "≥",
    "EQU": "=", "NEU": "≠", "LTU": "<", "LEU": "≤", "GTU": ">", "GEU": "≥",
}  # fmt: skip
_UNORDERED = ("EQU", "NEU", "LTU", "LEU", "GTU", "GEU")
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


def compute(i: SassInstruction) -> Pieces | None:
    """``d = a × b + c``, by the entry's ``value``: terms at ``+``, factors at ``*``."""
    operands = form_of(i)
    if "d" not in operands:
        return None
    terms: list[tuple[bool, str]] = []
    bare: list[SassOperand] = []
    for term in i.string("value").split("+"):
        factors = [operands[f] for f in term.split("*") if f in operands]
        if not factors or any(f.zero for f in factors):
            continue
        names = [f for f in term.split("*") if f in operands]
        kept = [
            (n, f) for n, f in zip(names, factors, strict=True)
            if len(factors) == 1 or integer(f) not in (1, -1)
        ]  # fmt: skip
        minus = sum(f.negative for f in factors) % 2 == 1
        kept = kept or [(names[0], factors[0])]
        text = " × ".join(i.words.plain(f, width_of(i, n)) for n, f in kept)
        if i.base in ("VIADD", "UVIADD", "IADD32I") and (large := _wrapped(factors[0])):
            minus, text = True, large
        terms.append((minus, text))
        if len(kept) == 1:
            bare.append(kept[0][1])
    d = destination(i, operands["d"], width_of(i, "d"))
    carries = [operands[p] for p in ("r", "s") if p in operands]
    carried = [i.words.predicate(c) for c in carries if c.always is not False]
    if i.has("X") and carried:
        terms += [(False, f"the carry in {c}") for c in carried]
    out = [f"{i.words.predicate(operands[p])}" for p in ("p", "q")
           if p in operands and operands[p].always is None]  # fmt: skip
    also = f"; the carry into {' and '.join(out)}" if out else ""
    if not terms:
        return {"form": "zero", "d": d, "also": also}
    terms.sort(key=lambda t: t[0])  # what is taken away last
    text = terms[0][1] if not terms[0][0] else f"-{terms[0][1]}"
    text += "".join(f" {'−' if minus else '+'} {t}" for minus, t in terms[1:])
    if len(terms) == 1 and len(bare) == 1 and not _changes(i):
        constant = is_number(bare[0]) or halves(bare[0].bare) is not None
        if constant:
            return {"form": "set", "d": d, "a": immediate(i, bare[0]), "also": also}
        if not terms[0][0] and not bare[0].absolute and " " not in text:
            return {"form": "copy", "d": d, "a": text, "also": also}
        if not terms[0][0] and bare[0].bare.startswith("c["):
            return {"form": "parameter", "d": d, "a": text, "also": also}
    if i.has("HI"):
        text = f"the upper 32 bits of ({text})" if " " in text else f"the upper 32 bits of {text}"
    if d == "nowhere" and out:
        return {"d": " and ".join(out), "value": f"the carry of {text}", "also": "", "notes": ""}
    out_notes = notes(i)
    if i.base == "HADD2" and i.has("F32"):
        out_notes = " (from fp16 to fp32)"
    return {"d": d, "value": text, "also": also, "notes": out_notes}


def _changes(i: SassInstruction) -> bool:
    return i.has("HI", "SAT", "F32") or bool(i.among("formats") or i.among("notes"))


def _wrapped(operand: SassOperand) -> str | None:
    """0xffffffc0, added, is 64 taken away."""
    number = integer(operand)
    if number is None or not 0xFFFF0000 <= number <= 0xFFFFFFFF:
        return None
    return str((1 << 32) - number)


def compare(i: SassInstruction) -> Pieces | None:
    """``P0 = (R3 ≥ 1823)``, with the predicate that it is combined with."""
    operands = form_of(i)
    if not {"p", "a", "b"} <= operands.keys():
        return None
    kind = i.first(_COMPARISONS)
    wide = 2 if i.has("S64", "U64", "64") or i.string("wide") else 1
    a = i.words.signed(operands["a"], wide)
    b = i.words.signed(operands["b"], wide)
    if i.has("MIN", "MAX"):
        text = f"{a} is the {'smaller' if i.has('MIN') else 'larger'} of {a} and {b}"
    elif kind is None and i.has("NAN", "NUM"):
        nan = "is NaN" if i.has("NAN") else "is a number"
        text = f"{a} {nan}" if a == b else f"{a} or {b} is NaN" if i.has("NAN") else \
            f"{a} and {b} are numbers"  # fmt: skip
    elif kind is None:
        text = "true" if i.has("T") else "false" if i.has("F") else "?"
        if text == "?":
            return None
    else:
        text = f"{a} {_COMPARISONS[kind]} {b}"
        if kind in _UNORDERED:
            text += ", or either is NaN" if a != b else ", or it is NaN"
    results = [operands[n] for n in ("p", "q") if n in operands]
    targets = [destination(i, o) for o in results]
    other = operands.get("r")
    join = i.first(_JOINS)
    if i.has("EX"):
        lower = operands.get("s")
        text += f", with {i.words.predicate(lower)} of the lower halves" if lower else ""
    if other is not None and join is not None:
        text = _combined(i, text, other, join)
    signed = [] if i.string("unit") else [
        "unsigned" if i.has("U32", "U64") else "signed" if kind not in ("EQ", "NE", None) else ""
    ]  # fmt: skip
    also = ""
    if len(targets) > 1 and targets[1] != "nowhere":
        also = f", {targets[1]} = the opposite"
        if i.base == "HSETP2":
            also = f", {targets[1]} the same of the upper halves"
        elif i.has("MIN", "MAX"):
            also = f", {targets[1]} = whether either is NaN"
    d = targets[0]
    if i.string("writes"):
        # .BF writes 1.0, without it all bits are set.
        text = f"{'1' if i.has('BF') else 'all ones'} where {text}, else 0"
    else:
        text = f"whether {text}"
    return {"d": d, "value": text, "also": also,
            "notes": joined([i.string("unit"), *signed, *i.among("notes")])}  # fmt: skip


def _combined(i: SassInstruction, text: str, other: SassOperand, join: str) -> str:
    if other.always is not None:
        neutral = {"AND": True, "OR": False, "XOR": False}[join]
        if other.always == neutral:
            return text
    return f"{text}, {_JOINS[join]} {i.words.predicate(other)}"


def smaller(i: SassInstruction) -> Pieces | None:
    """Minimum or maximum, by the predicate that is PT or !PT as a rule."""
    operands = form_of(i)
    if not {"d", "a", "b", "r"} <= operands.keys():
        return None
    chosen = operands["r"].always
    if chosen is None:
        kind = f"the minimum (the maximum unless {i.words.predicate(operands['r'])})"
    else:
        kind = "the minimum" if chosen else "the maximum"
    wide = 2 if i.has("S64", "U64") or i.string("wide") else 1
    a, b = (i.words.signed(operands[n], wide) for n in "ab")
    values = f"{a} + {b} and {i.words.signed(operands['c'])}" if i.base == "VIADDMNMX" and \
        "c" in operands else " and ".join([a, b]) if "c" not in operands else \
        f"{a}, {b} and {i.words.signed(operands['c'])}"  # fmt: skip
    sign = "unsigned" if i.has("U32", "U64") else ""
    return {"d": destination(i, operands["d"], wide), "value": f"{kind} of {values}",
            "notes": notes(i, sign), "also": ""}  # fmt: skip


def logic(i: SassInstruction) -> Pieces | None:
    """LOP3: the formula of the table, its constant inputs counted in."""
    operands = form_of(i)
    table = integer(operands["lut"]) if "lut" in operands else None
    if table is None or not {"d", "a", "b", "c"} <= operands.keys():
        return None
    inputs = [operands[n] for n in "abc"]
    # An inverted input is one whose column of the table is read backwards.
    names = [_name(i, o) for o in inputs]
    known = [(1 if o.inverted else 0) if o.zero else None for o in inputs]
    text = named(formula(restrict(table, known)), names)
    d = destination(i, operands["d"])
    flag = operands.get("p")
    also = ""
    if flag is not None and flag.always is None:
        also = f"; {flag.bare} = whether it is not 0"
    if text in ("0", "1"):
        return {"d": d, "value": "0" if text == "0" else "all ones", "also": also, "notes": ""}
    return {"d": d, "value": text, "also": also, "notes": _modulo(inputs, text, names)}


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
    operands = form_of(i)
    if not {"p", "q", "a", "b", "c", "lut"} <= operands.keys():
        return None
    inputs = [operands[n] for n in "abc"]
    known = [None if o.always is None else int(o.always) for o in inputs]
    names = [o.bare for o in inputs]
    out: list[str] = []
    for target, lut in (("p", "lut"), ("q", "lut2")):
        table = integer(operands[lut]) if lut in operands else None
        d = destination(i, operands[target])
        if table is None or d == "nowhere":
            continue
        for n, o in enumerate(inputs):
            if o.inverted and o.always is None:
                table = _flipped(table, n)
        text = named(formula(restrict(table, known)), names)
        text = {"0": "false", "1": "true"}.get(text, text)
        for sign, word in ((" & ", " and "), (" | ", " or "), (" ^ ", " xor "), ("~", "not ")):
            text = text.replace(sign, word)
        out.append(f"{d} = {text}")
    return {"value": ", ".join(out)} if out else {"value": "combine predicates for nothing"}


def _flipped(table: int, n: int) -> int:
    """The table with input ``n`` negated."""
    bit = 4 >> n
    return sum((table >> (k ^ bit) & 1) << k for k in range(8))
