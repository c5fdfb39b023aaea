"""The translation of arithmetic, logic, comparisons, moves and conversions.

Most instructions are rows of tables: the types of their operands and an expression of numpy's.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from inspector.execute import floats
from inspector.execute.blocks import CARRIES
from inspector.execute.kinds import DTYPES, PAIR, WIDTHS, constant, is_float
from inspector.execute.memory import WINDOWS
from inspector.execute.translate import Handler, Translator, Untranslatable
from inspector.parsers.ptx_statement import (
    ImmediateOperand,
    Operand,
    PtxInstruction,
    RegisterOperand,
    VectorOperand,
)
from inspector.semantics import instructions
from inspector.semantics.instructions import BOOLEAN, COMPARISONS

DIRECTIONS = ("rm", "rp", "rz")
HALVES = ("f16x2", "bf16x2")
_TYPES = frozenset(WIDTHS) | {"f32x2"}
UNKNOWN_FORM = "this form is not known here"


def types_of(row: PtxInstruction) -> list[str]:
    return [p for p in row.parts[1:] if p in _TYPES]


def _source_kinds(row: PtxInstruction) -> list[str]:
    """The types of the operands read; in mixed precision all but the last are narrower."""
    named = types_of(row)
    count = len(row.operands) - 1
    if named in (["f32", "f16"], ["f32", "bf16"]) and row.base in ("add", "sub", "fma"):
        return [named[1]] * (count - 1) + ["f32"]
    return [one_type(row)] * count


def one_type(row: PtxInstruction) -> str:
    """The only type of an opcode."""
    named = types_of(row)
    if len(named) != 1:
        raise Untranslatable("operands of several types are not known here")
    return named[0]


# -- integers and bits -----------------------------------------------------------------------------


def is_integer(row: PtxInstruction) -> bool:
    """Whether an opcode names no type but those of single integers and predicates."""
    named = types_of(row)
    return bool(named) and all(kind in instructions.DTYPES for kind in named)


def _integer(t: Translator, row: PtxInstruction) -> None:
    """An instruction of the integers' table; one with a word that it does not know is refused."""
    form = instructions.form_of(row.parts)
    if form is None:
        raise Untranslatable(UNKNOWN_FORM)
    pairs = zip(row.operands[1:], form.sources, strict=True)
    operands = [t.read(operand, kind) for operand, kind in pairs]
    t.write(row.operands[0], t.result(form.expression.format(*operands), form.result), form.result)


TABLE: Mapping[str, tuple[str, str]] = {
    "selp": ("b b pred > u", "np.where({2}, {0}, {1})"),
    "movmatrix": ("u32 > u32", "matrix.move_transposed(m.lanes, {0})"),
    "activemask": ("> u32", "lanes.ballot(m.lanes, np.ones((1, 1), bool), {mask})"),
    "slct": ("b b last > u", "np.where({2} >= 0, {0}, {1})"),
}
"""Types of operands and result, and the result: ``u`` is the bits of the type that is named,
``b`` those of a number that may be written out, ``last`` the second type named."""


def _by_table(t: Translator, row: PtxInstruction) -> None:
    types, expression = TABLE[row.base]
    named = types_of(row)
    if len(named) != (2 if row.base == "slct" else 1):
        raise Untranslatable("operands of several types are not known here")
    kind = named[0]
    bits = f"u{WIDTHS[kind]}"
    types_by_name = {"u": bits, "last": named[-1]}
    sources, _, result = types.partition("> ")
    operands = []
    for operand, name in zip(row.operands[1:], sources.split(), strict=True):
        source_kind = types_by_name.get(name, name)
        operands.append(t.bits(operand, kind) if name == "b" else t.read(operand, source_kind))
    value = expression.format(*operands, mask=t.mask)
    kind = types_by_name.get(result, result)
    t.write(row.operands[0], t.result(value, kind), kind)


_CARRYING = frozenset(("lo", "hi", "cc", *instructions.DTYPES))


def _carried(t: Translator, row: PtxInstruction) -> None:
    """``add``, ``sub`` and ``mad`` with the carry flag, read or written."""
    kind = one_type(row)
    if not set(row.parts[1:]) <= _CARRYING:
        raise Untranslatable(UNKNOWN_FORM)
    unsigned = f"u{WIDTHS[kind]}"
    subtract = row.base in ("sub", "subc")
    a, b = (t.read(operand, unsigned) for operand in row.operands[1:3])
    if row.base in ("mad", "madc"):
        product = instructions.form_of(("mul", row.parts[1], kind))
        if product is None:
            raise Untranslatable(UNKNOWN_FORM)
        a, b = (t.read(operand, kind) for operand in row.operands[1:3])
        a = t.result(product.expression.format(a, b), kind)
        b = t.read(row.operands[3], unsigned)
    carry = t.register(t.blocks.carry) if row.base in CARRIES else "None"
    t.emit(f"x0, x1 = integers.carry_sum({a}, {b}, {carry}, {subtract})")
    t.write(row.operands[0], "x0", unsigned)
    if "cc" in row.parts:
        t.write(RegisterOperand(t.blocks.carry), "x1", "u64")


def _sum_or_product(t: Translator, row: PtxInstruction) -> None:
    """``add``, ``sub``, ``mul``, ``mad``, ``div`` … of integers, or of floats."""
    if not is_integer(row):
        _real(t, row)
    elif "cc" in row.parts or row.base in CARRIES:
        _carried(t, row)
    else:
        _integer(t, row)


def _shift(t: Translator, row: PtxInstruction) -> None:
    form = instructions.form_of(row.parts)
    amount = row.operands[2]
    steps = constant(amount.text, "u32") if isinstance(amount, ImmediateOperand) else -1
    if form is None or not 0 <= steps < WIDTHS[form.result]:
        _integer(t, row)
        return
    shifted = t.constant(steps, DTYPES[form.result])
    value = t.read(row.operands[1], form.result)
    sign = "<<" if row.base == "shl" else ">>"
    t.write(row.operands[0], t.result(f"({value} {sign} {shifted})", form.result), form.result)


def _logic3(t: Translator, row: PtxInstruction) -> None:
    named = [p for p in row.parts[1:] if p in ("and", "or")]
    a, b, c = (t.read(o, "u32") for o in row.operands[1:4])
    table = row.operands[4]
    if not isinstance(table, ImmediateOperand):
        raise Untranslatable("its table is no constant")
    value = t.temporary(f"integers.logic3({a}, {b}, {c}, {int(constant(table.text, 'u32')) & 255})")
    target, predicate = t.pair(row.operands[0])
    if named and predicate is not None:
        third = t.read(row.operands[5], "pred")
        combined = f"({value} != 0) {'&' if named[0] == 'and' else '|'} {third}"
        t.write(predicate, combined, "pred")
    t.write(target, value, "u32")


# -- floating point --------------------------------------------------------------------------------


REAL: Mapping[str, str] = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "fma": "floats.fused({0}, {1}, {2})",
    "div": "{0} / {1}",
    "sqrt": "np.sqrt({0})",
    "rcp": "np.reciprocal({0})",
    "rsqrt": "floats.reciprocal_root({0}).astype(f32)",
    "ex2": "floats.approximate(np.exp2, {0})",
    "lg2": "floats.approximate(np.log2, {0})",
    "sin": "floats.approximate(np.sin, {0})",
    "cos": "floats.approximate(np.cos, {0})",
    "tanh": "floats.approximate(np.tanh, {0})",
    "copysign": "np.copysign({1}, {0})",
    "abs": "np.abs({0})",
    "neg": "-{0}",
}
"""Results rounded to nearest even, of f16 and bf16 in single or double precision."""
EXACT: Mapping[str, str] = {
    "add": "'add', {0}, {1}",
    "sub": "'add', {0}, -{1}",
    "mul": "'mul', {0}, {1}",
    "fma": "'fma', {0}, {1}, {2}",
    "div": "'div', {0}, {1}",
    "sqrt": "'sqrt', {0}, {0}",
    "rcp": "'div', np.ones((1, 1), {0}.dtype), {0}",
}
"""Operations of single and double precision and their operands, for functions of ``floats``."""
NAN_ORDER: Mapping[str, Sequence[int]] = {"fma": (0, 2, 1), "div": (1, 0)}
"""The order of double operands of which the last NaN is the result's, where that is another."""
INEXACT_WHERE_SUBNORMAL = ("mul", "fma", "div", "rcp")
"""Operations whose subnormal results may have more bits than a number has."""
VARIANTS: Mapping[tuple[str, str], str] = {
    ("fma", "f64"): "floats.fused_double({0}, {1}, {2})",
    ("rsqrt", "f64"): "floats.reciprocal_root({0})",
    ("rcp.approx.ftz", "f64"): "floats.coarsely(np.reciprocal, {0})",
    ("rsqrt.approx.ftz", "f64"): "floats.coarsely(floats.reciprocal_root, {0})",
    ("div.approx", "f32"): "floats.divide_approximately({0}, {1})",
    ("div.approx.ftz", "f32"): "floats.divide_approximately({0}, {1})",
}
"""Results of opcodes that are not those of REAL, by opcode and type."""


def _operation(row: PtxInstruction) -> str:
    """The operation of an instruction on floats."""
    return "fma" if row.base == "mad" else row.base


def _real(t: Translator, row: PtxInstruction) -> None:
    kinds = _source_kinds(row)
    kind = kinds[-1]
    way = next((p for p in row.parts if p in DIRECTIONS), None)
    base = _operation(row)
    opcode = row.opcode.removesuffix(f".{kind}")
    template = VARIANTS.get((opcode, kind)) or VARIANTS.get((base, kind)) or REAL[base]
    if way is not None and base in EXACT:
        if kind not in ("f32", "f64", "f32x2"):
            raise Untranslatable("a rounding of this type is not known here")
        template = f"floats.directed({way!r}, {EXACT[base]})"
    elif base == "fma" and kind not in ("f32", "f32x2", "f64"):
        template = "floats.fused_wide({0}, {1}, {2})"
    simple(t, row, template)


FLUSHED = {
    "f32": "floats.flush({0})",
    "bf16": "floats.flush({0})",
    "f16": "floats.flush({0}, floats.TINY_HALF)",
}
"""Subnormal numbers as zeros, by the type whose subnormal numbers they are."""


def _flushed(row: PtxInstruction, kind: str, operand: str) -> str:
    """An operand or a result, its subnormal numbers as zeros where the opcode says so."""
    template = FLUSHED.get(kind.removesuffix("x2"))
    return template.format(operand) if template and "ftz" in row.parts else operand


def _limited(row: PtxInstruction, expression: str) -> str:
    """A floating point result, clamped as the opcode says."""
    for qualifier, function in (("sat", "clamp01"), ("relu", "relu")):
        if qualifier in row.parts:
            expression = f"floats.{function}({expression})"
    return expression


def _settled(row: PtxInstruction, kind: str, expression: str, operands: Sequence[str] = ()) -> str:
    """A result of arithmetic: flushed, clamped, and with the NaN of a GPU."""
    base = _operation(row)
    if "ftz" in row.parts and kind in ("f32", "f32x2") and base in INEXACT_WHERE_SUBNORMAL:
        way = next((p for p in row.parts if p in DIRECTIONS), "rn")
        exact = EXACT[base].format(*operands)
        flushed = f"floats.flush_rounded({expression}, {way!r}, lambda: floats.unrounded({exact}))"
    else:
        flushed = _flushed(row, kind, expression)
    limited = _limited(row, flushed)
    if kind == "f64" and "ftz" not in row.parts:
        order = NAN_ORDER.get(base, range(len(operands)))
        return f"floats.last_nan({limited}, {', '.join(operands[k] for k in order)})"
    clamped = "sat" in row.parts or kind not in ("f32", "f32x2")
    return limited if clamped else f"floats.canonical({limited})"


def simple(t: Translator, row: PtxInstruction, template: str) -> None:
    """An instruction by a template of its operands; packed types by halves."""
    kinds = _source_kinds(row)
    sources = row.operands[1:]
    kind = kinds[-1]
    names = "abc"[: len(sources)]
    packed = kind in floats.PACKED
    arguments = names if packed else [t.read(o, k) for o, k in zip(sources, kinds, strict=True)]
    operands = [_flushed(row, kind, o) for o in arguments]
    value = template.format(*operands)
    if is_float(kind) and row.base != "copysign":
        value = _settled(row, kind, value, operands)
    if packed:
        words = ", ".join(t.read(o, "u64" if kind == "f32x2" else "u32") for o in sources)
        value = f"floats.packed(lambda {', '.join(names)}: {value}, {kind!r}, [{words}])"
    t.write(row.operands[0], t.result(value, kind), "b64" if kind == "f32x2" else kind)


def _extreme(t: Translator, row: PtxInstruction) -> None:
    if is_integer(row):
        _integer(t, row)
        return
    least = row.base == "min"
    values = ["{0}", "{1}", "{2}"][: len(row.operands) - 1]
    if not is_float(one_type(row)):
        template = f"np.{'minimum' if least else 'maximum'}({{0}}, {{1}})"
        clamp = "relu" in row.parts
        simple(t, row, f"np.maximum({template}, {{0}}.dtype.type(0))" if clamp else template)
        return
    if "xorsign" in row.parts or "abs" in row.parts:
        values = [f"np.abs({v})" for v in values]
    template = values[0]
    for value in values[1:]:
        template = f"floats.extreme({template}, {value}, {least}, {'NaN' in row.parts})"
    if "xorsign" in row.parts:
        flipped = "(np.signbit({0}) ^ np.signbit({1}))"
        template = f"np.where({flipped}, -{template}, {template})"
    simple(t, row, template)


def _test(t: Translator, row: PtxInstruction) -> None:
    kind = one_type(row)
    least = "1.1754944e-38" if kind == "f32" else "2.2250738585072014e-308"
    x = t.temporary(t.read(row.operands[1], kind))
    test = {
        "nan": f"np.isnan({x})",
        "notanumber": f"np.isnan({x})",
        "number": f"~np.isnan({x})",
        "finite": f"np.isfinite({x})",
        "infinite": f"np.isinf({x})",
        # "As a special case, positive and negative zero are considered normal numbers."
        "normal": f"np.isfinite({x}) & ((np.abs({x}) >= {least}) | ({x} == 0))",
        "subnormal": f"({x} != 0) & (np.abs({x}) < {least})",
    }.get(row.parts[1])
    if test is None:
        raise Untranslatable("this test is not known here")
    t.write(row.operands[0], test, "pred")


# -- comparisons -----------------------------------------------------------------------------------


OF_FLOATS: Mapping[str, str] = {
    **COMPARISONS,
    "ne": "(({0} < {1}) | ({0} > {1}))",
    "equ": "(~(({0} < {1}) | ({0} > {1})))",
    "neu": "({0} != {1})",
    "ltu": "(~({0} >= {1}))",
    "leu": "(~({0} > {1}))",
    "gtu": "(~({0} <= {1}))",
    "geu": "(~({0} < {1}))",
    "nan": "(np.isnan({0}) | np.isnan({1}))",
    "num": "(~(np.isnan({0}) | np.isnan({1})))",
}
"""Comparisons of floats: those that end with ``u`` hold where an operand is NaN."""


def _compared(row: PtxInstruction, a: str, b: str, real: bool) -> str:
    if (template := (OF_FLOATS if real else COMPARISONS).get(row.parts[1])) is None:
        raise Untranslatable("this comparison is not known here")
    return template.format(a, b)


def _comparison(t: Translator, row: PtxInstruction, kind: str) -> tuple[str, str]:
    """Two operands compared, and what that is combined with."""
    operands = [_flushed(row, kind, t.read(o, kind)) for o in row.operands[1:3]]
    comparison = _compared(row, operands[0], operands[1], is_float(kind))
    named = next((p for p in row.parts[2:] if p in BOOLEAN), None)
    return comparison, f" {BOOLEAN[named]} {t.read(row.operands[3], 'pred')}" if named else ""


def _set_predicate(t: Translator, row: PtxInstruction) -> None:
    kind = row.kind
    first, second = t.pair(row.operands[0])
    if kind in HALVES:
        a, b = (t.read(o, "u32") for o in row.operands[1:3])
        t.emit(f"L = floats.halves({kind!r}, [{a}, {b}])")
        for k, target in enumerate((first, second)):
            if target is not None:
                pair = [_flushed(row, kind, f"L[{k}][{side}]") for side in (0, 1)]
                t.write(target, _compared(row, pair[0], pair[1], real=True), "pred")
        return
    comparison, combination = _comparison(t, row, kind)
    if second is None:
        t.write(first, comparison + combination, "pred")
        return
    value = t.temporary(comparison)
    yes = t.temporary(value + combination)
    no = t.temporary(f"~{value}{combination}")
    t.write(first, yes, "pred")
    t.write(second, no, "pred")


_ONES = {"f32": "u32(0x3F800000)", "f16": "u16(0x3C00)", "bf16": "u16(0x3F80)"}


def _set(t: Translator, row: PtxInstruction) -> None:
    named = types_of(row)
    if len(named) != 2 or named[1].endswith("x2"):
        raise Untranslatable(UNKNOWN_FORM)
    comparison, combination = _comparison(t, row, named[1])
    zero = f"u{WIDTHS[named[0]]}(0)"
    result = f"np.where({comparison}{combination}, {_ONES.get(named[0], '~' + zero)}, {zero})"
    t.write(row.operands[0], result, named[0])


# -- moves and conversions -------------------------------------------------------------------------


_ROUNDINGS = ("rn", "rz", "rm", "rp", "rna", "rs", "rni", "rzi", "rmi", "rpi")
_TO_WHOLE = {"rni": "np.rint", "rzi": "np.trunc", "rmi": "np.floor", "rpi": "np.ceil"}
UNKNOWN_CONVERSION = "this conversion is not known here"


def _move(t: Translator, row: PtxInstruction) -> None:
    target = row.operands[0]
    source = row.operands[1]
    kind = row.kind
    if kind == "pred":
        t.write(target, t.read(source, "pred"), kind)
        return
    width = WIDTHS[kind]
    if kind == PAIR:
        _move_pair(t, target, source)
        return
    if isinstance(target, VectorOperand) and isinstance(source, VectorOperand):
        element_kind = f"b{width // len(source.elements)}"
        values = [t.temporary(t.bits(s, element_kind)) for s in source.elements]
        for register, value in zip(target.elements, values, strict=True):
            t.write(register, value, element_kind)
    elif isinstance(target, VectorOperand):
        each_bits = width // len(target.elements)
        packed = t.temporary(t.read(source, f"b{width}"))
        for k, register in enumerate(target.elements):
            part = f"({packed} >> u{width}({each_bits * k})).astype(u{each_bits})"
            t.write(register, part, f"b{each_bits}")
    elif isinstance(source, VectorOperand):
        each_bits = width // len(source.elements)
        parts = [
            f"({t.read(element, f'b{each_bits}')}.astype(u{width}) << u{width}({k * each_bits}))"
            for k, element in enumerate(source.elements)
        ]
        t.write(target, " | ".join(parts), kind)
    else:
        t.write(target, t.bits(source, kind), kind)


def _move_pair(t: Translator, target: Operand, source: Operand) -> None:
    """``mov.b128``: of a register, or from or to its halves."""
    if isinstance(source, VectorOperand):
        low, high = (t.read(half, "b64") for half in t.elements(source, 2))
        t.write(target, f"joined({low}, {high})", PAIR)
    elif isinstance(target, VectorOperand):
        t.write_list(target, f"halves({t.read(source, PAIR)})", ["b64", "b64"])
    else:
        t.write(target, t.read(source, PAIR), PAIR)


def _to_space(t: Translator, row: PtxInstruction) -> None:
    """``cvta``: a generic address from one of a state space, or the other way round."""
    width = WIDTHS[row.kind]
    value = t.read(row.operands[1], f"u{width}")
    named = (p.partition("::")[0] for p in row.parts[1:-1])
    window = next((WINDOWS[p] for p in named if p in WINDOWS), 0)
    if window and width == 64:
        added = t.constant(window, np.uint64)
        value = f"({value} {'-' if 'to' in row.parts else '+'} {added})"
    t.write(row.operands[0], value, row.kind)


def _convert(t: Translator, row: PtxInstruction) -> None:
    if row.parts[1] == "pack" or is_integer(row):
        _integer(t, row)
        return
    ways = [p for p in row.parts if p in _ROUNDINGS]
    kinds = [p for p in row.parts[1:] if p in WIDTHS]
    if len(kinds) != 2 or "rs" in ways:
        raise Untranslatable(UNKNOWN_CONVERSION)
    to = kinds[0]
    source = kinds[1]
    way = ways[0] if ways else None
    if to.endswith(("x2", "x4")) or source.endswith(("x2", "x4")):
        _convert_packed(t, row, to, source, way)
        return
    value = t.read(row.operands[1], source)
    if source == "f32":
        value = _flushed(row, source, value)
    t.write(row.operands[0], _converted(t, row, to, source, way, value), to)


def _converted(
    t: Translator, row: PtxInstruction, to: str, source: str, way: str | None, value: str
) -> str:
    """The bits of one value in another type, rounded in a way."""
    if to == "tf32":
        finite = "satfinite" in row.parts
        return f"floats.to_tf32({_limited(row, value)}, {way!r}, {finite})"
    if source == "f64" and to in GREATEST:
        return f"floats.narrowed({_as_real(row, to, source, way, value)}, {to!r}, {way or 'rn'!r})"
    if is_float(to):
        return t.result(_as_real(row, to, source, way, value), to, way or "rn")
    dtype = ("i" if to[0] == "s" else "u") + str(WIDTHS[to])
    return f"integers.to_integer({value}, {way!r}, {dtype}).view(u{WIDTHS[to]})"


def _as_real(row: PtxInstruction, to: str, source: str, way: str | None, value: str) -> str:
    """A conversion to floating point: of f16 and bf16 what is to be rounded to them."""
    if way in _TO_WHOLE:
        value = f"{_TO_WHOLE[way]}({value})"
        way = None
    if not is_float(source):
        value = _integer_as_real(to, source, way, value)
    elif to == "f32" and source == "f64":
        rounded = f"floats.round_single({value}, {way!r})"
        if "ftz" in row.parts:
            rounded = f"floats.flush_rounded({rounded}, {way!r}, lambda: {value})"
        value = rounded
    elif to == "f64":
        if "ftz" in row.parts:  # ptxas puts an instruction of single precision before it
            value = f"floats.canonical({value})"
        value = f"{value}.astype(f64)"
    # What numpy cannot hold is limited before it is rounded: limits are exact in every format.
    if "satfinite" in row.parts:
        value = _finite(value, to)
    if to == "f32" and source not in ("bf16", "f64"):  # whose NaN pass
        return _settled(row, to, value)
    return _limited(row, value)


def _integer_as_real(to: str, source: str, way: str | None, value: str) -> str:
    """An integer as floating point; of f16 and bf16 what is to be rounded to them."""
    directed = way in DIRECTIONS
    if WIDTHS[source] == 64 and (directed or to in ("f16", "bf16")):
        return f"floats.from_long({value}, {way!r}, {to!r})"
    if to == "f32" and not directed:
        return f"{value}.astype(f32)"
    exact = f"{value}.astype(f64)"  # 32 bits are exact in double precision
    return f"floats.round_single({exact}, {way!r})" if to == "f32" else exact


GREATEST = {"f16": "f32(65504)", "bf16": "f32(3.3895313892515355e38)"}


def _finite(value: str, kind: str) -> str:
    return f"np.clip({value}, -{GREATEST[kind]}, {GREATEST[kind]})"


SCALED = "scaled::n2::ue8m0"
"""The word of ``cvt`` for two scales in the last operand."""
_READ_HALF: Mapping[str, str] = {
    "f16x2": "floats.from_f16({0})",
    "bf16x2": "floats.from_bf16({0})",
    "ue8m0x2": "floats.from_scale({0})",
    "s2f6x2": "floats.from_fixed({0})",
    **{f"{kind}x2": f"floats.from_small({{0}}, {kind!r})" for kind in floats.SMALL},
}
"""One of a pair as single precision, by its bits."""


def _scales_of(t: Translator, row: PtxInstruction) -> list[str]:
    """The powers of two by which a pair is scaled, the lower one's first."""
    if SCALED not in row.parts:
        return ["f32(1)", "f32(1)"]
    word = t.temporary(t.read(row.operands[-1], "u16"))
    return [f"floats.from_scale(({word} >> u16({s})).astype(u8))" for s in (0, 8)]


def _halves_of(t: Translator, row: PtxInstruction, source: str) -> list[str]:
    """What is converted as a pair, as single precision, the lower one first."""
    if source == "f32":
        values = [t.read(o, "f32") for o in reversed(row.operands[1:3])]
    else:
        step = _element_bits(source)
        width = max(2 * step, 8)
        part = "u16" if step == 16 else "u8"
        bits = t.temporary(t.read(row.operands[1], f"u{width}"))
        values = [f"({bits} >> u{width}({s})).astype({part})" for s in (0, step)]
        values = [_READ_HALF[source].format(v) for v in values]
    if "relu" in row.parts:
        return [f"floats.relu({value})" for value in values]
    return values


def _element_bits(pair: str) -> int:
    """The bits of one value of a packed type, such as ``f16x2``."""
    if pair in HALVES:
        return 16
    return 4 if pair == "e2m1x2" else 8


def _convert_packed(
    t: Translator, row: PtxInstruction, to: str, source: str, way: str | None
) -> None:
    if to.endswith("x4") or source.endswith("x4"):
        raise Untranslatable("conversions of four at once are not known here")
    scaled = SCALED in row.parts
    if scaled and not (to == "s2f6x2" or (to == "bf16x2" and source not in ("f32", *HALVES))):
        raise Untranslatable(UNKNOWN_CONVERSION)
    halves = _halves_of(t, row, source)
    scales = _scales_of(t, row)
    step = _element_bits(to)
    if to in HALVES:
        if scaled:
            halves = [f"({v} * {scale})" for v, scale in zip(halves, scales, strict=True)]
        if "satfinite" in row.parts:
            halves = [_finite(v, to[:-2]) for v in halves]
        halves = [t.result(v, to[:-2], way or "rn") for v in halves]
    elif to == "ue8m0x2":
        halves = [f"floats.to_scale({v}, {way!r}, {'satfinite' in row.parts})" for v in halves]
    elif to == "s2f6x2":
        pairs = zip(halves, scales, strict=True)
        halves = [f"floats.to_fixed({v}, {scale})" for v, scale in pairs]
    elif to[:4] in floats.SMALL:
        relu = "relu" in row.parts
        halves = [f"floats.to_small({v}, {to[:4]!r}, {relu})" for v in halves]
    else:
        raise Untranslatable(UNKNOWN_CONVERSION)
    word = f"u{max(2 * step, 8)}"
    low, high = (f"{v}.astype({word})" for v in halves)
    t.write(row.operands[0], f"({high} << {word}({step})) | {low}", word)


INTEGER = (
    *("rem", "sad", "mul24", "mad24", "popc", "clz", "bfind", "fns", "brev", "bfe", "bfi", "szext"),
    *("bmsk", "dp4a", "dp2a", "and", "or", "xor", "not", "cnot", "shf", "prmt"),
)
SUMS_AND_PRODUCTS = (*("add", "sub", "addc", "subc", "mul", "mad", "madc", "div", "abs", "neg"),)
HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(TABLE, _by_table),
    **dict.fromkeys(REAL, _real),
    **dict.fromkeys(INTEGER, _integer),
    **dict.fromkeys(SUMS_AND_PRODUCTS, _sum_or_product),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("shl", "shr"), _shift),
    "lop3": _logic3,
    "testp": _test,
    "setp": _set_predicate,
    "set": _set,
    "mov": _move,
    "cvt": _convert,
    "cvta": _to_space,
}
