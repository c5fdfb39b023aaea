"""The translation of arithmetic, logic and comparison instructions."""

from __future__ import annotations

from collections.abc import Mapping

from inspector.execute.integers import PERMUTE_MODES
from inspector.execute.kinds import WIDTHS, constant, is_float
from inspector.execute.translate import Handler, Translator, Untranslatable
from inspector.listing.ptx_statement import ImmediateOperand, PtxInstruction

DIRECTIONS = ("rm", "rp", "rz")
SAD = "(np.maximum({0}, {1}) - np.minimum({0}, {1})) + {2}"
_TYPES = frozenset(WIDTHS) | {"f32x2", "b128"}


def direction(row: PtxInstruction) -> str | None:
    """The rounding that an opcode names, where it is not to nearest even."""
    return next((p for p in row.parts if p in DIRECTIONS), None)


def types_of(row: PtxInstruction) -> list[str]:
    """The types that an opcode names."""
    return [p for p in row.parts[1:] if p in _TYPES]


def one_type(row: PtxInstruction) -> str:
    """The only type of an opcode; mixed precision is refused."""
    named = types_of(row)
    if len(named) != 1:
        raise Untranslatable("operands of several types are not known here")
    return named[0]


def _inputs(t: Translator, row: PtxInstruction, kind: str, first: int = 1) -> list[str]:
    """Operands from ``first`` on; subnormal ones are flushed where the opcode says so."""
    operands = [t.read(o, kind) for o in row.operands[first:]]
    if "ftz" in row.parts and kind == "f32":
        operands = [f"floats.flush({o})" for o in operands]
    return operands


def _finish(t: Translator, row: PtxInstruction, expression: str, kind: str) -> None:
    """Flushes and clamps a floating point result as the opcode says, and writes it."""
    if is_float(kind):
        if "ftz" in row.parts and kind == "f32":
            expression = f"floats.flush({expression})"
        if "sat" in row.parts:
            expression = f"floats.clamp01({expression})"
        if "relu" in row.parts:
            expression = f"floats.relu({expression})"
    t.write(row.operands[0], t.result(expression, kind))


def simple(t: Translator, row: PtxInstruction, template: str, wide: bool = False) -> None:
    """An instruction of one type by a template of its operands; packed types by halves.

    ``wide``: the template gives double precision of narrower operands.
    """
    kind = one_type(row)
    if kind in ("f16x2", "bf16x2"):
        names = "abc"[: len(row.operands) - 1]
        body = template.format(*names)
        if "sat" in row.parts:
            body = f"floats.clamp01({body})"
        if "relu" in row.parts:
            body = f"floats.relu({body})"
        operands = ", ".join(t.read(o, "u32") for o in row.operands[1:])
        made = f"floats.packed(lambda {', '.join(names)}: {body}, {kind!r}, [{operands}], {wide})"
        t.write(row.operands[0], made)
        return
    if kind == "f32x2":
        _two_singles(t, row, template)
        return
    if kind in ("u16x2", "s16x2"):
        a, b = (t.read(o, "u32") for o in row.operands[1:])
        body = template.format("a", "b")
        signed = kind[0] == "s"
        t.write(row.operands[0], f"integers.packed16(lambda a, b: {body}, {a}, {b}, {signed})")
        return
    _finish(t, row, template.format(*_inputs(t, row, kind)), kind)


def _two_singles(t: Translator, row: PtxInstruction, template: str) -> None:
    """``.f32x2``: on both halves of 64 bits."""
    halves = []
    sources = [t.temporary(t.read(o, "u64")) for o in row.operands[1:]]
    for shift in (0, 32):
        parts = [f"({s} >> u64({shift})).astype(u32).view(f32)" for s in sources]
        if "ftz" in row.parts:
            parts = [f"floats.flush({p})" for p in parts]
        body = template.format(*parts)
        if "ftz" in row.parts:
            body = f"floats.flush({body})"
        halves.append(f"({body}).view(u32).astype(u64)")
    t.write(row.operands[0], f"({halves[0]} | ({halves[1]} << u64(32)))")


def _carried(t: Translator, row: PtxInstruction, subtract: bool) -> None:
    kind = "u" + one_type(row)[1:]
    a, b = (t.read(o, kind) for o in row.operands[1:3])
    carry = t.carry() if row.base in ("addc", "subc") else "None"
    t.emit(f"x0, x1 = carry_sum({a}, {b}, {carry}, {subtract})")
    t.write(row.operands[0], "x0")
    if "cc" in row.parts:
        t.set_carry("x1")


def _sum(t: Translator, row: PtxInstruction, sign: str) -> None:
    if "cc" in row.parts or row.base in ("addc", "subc"):
        _carried(t, row, sign == "-")
        return
    kind, way = one_type(row), direction(row)
    if "sat" in row.parts and kind == "s32":
        a, b = (t.read(o, kind) for o in row.operands[1:])
        made = f"integers.saturating_sum({a}, {b}, {sign == '-'})"
        t.write(row.operands[0], t.result(made, kind))
    elif way is None:
        simple(t, row, f"{{0}} {sign} {{1}}")
    elif kind == "f32":
        simple(t, row, f"floats.rounded_sum({{0}}, {sign}{{1}}, {way!r})")
    elif kind == "f64":
        simple(t, row, f"floats.rounded_double('add', {{0}}, {sign}{{1}}, None, {way!r})")
    else:
        raise Untranslatable("a rounding of this type is not known here")


def _product(row: PtxInstruction, kind: str, a: str, b: str) -> str:
    """Bits of the product of integers: the lower or upper half, or all of it."""
    width = WIDTHS[kind]
    letter = "i" if kind[0] == "s" else "u"
    if width == 64:
        if "hi" in row.parts:
            return f"integers.multiply_high{'_signed' if letter == 'i' else ''}({a}, {b})"
        return f"({a} * {b}).view(u64)"
    wide = f"{letter}{2 * width}"
    if "wide" in row.parts:
        return f"({a}.astype({wide}) * {b}.astype({wide})).view(u{2 * width})"
    if "hi" in row.parts:
        return f"(({a}.astype({wide}) * {b}.astype({wide})) >> {wide}({width})).astype(u{width})"
    return f"({a} * {b}).view(u{width})"


def _multiply(t: Translator, row: PtxInstruction) -> None:
    kind, way = one_type(row), direction(row)
    if kind[0] in "us":
        a, b = (t.read(o, kind) for o in row.operands[1:])
        t.write(row.operands[0], _product(row, kind, a, b))
    elif way is None:
        simple(t, row, "{0} * {1}")
    elif kind == "f32":
        simple(t, row, f"floats.rounded_product({{0}}, {{1}}, {way!r})")
    elif kind == "f64":
        simple(t, row, f"floats.rounded_double('mul', {{0}}, {{1}}, None, {way!r})")
    else:
        raise Untranslatable("a rounding of this type is not known here")


def _multiply_add(t: Translator, row: PtxInstruction) -> None:
    kind = one_type(row)
    if is_float(kind) or kind == "f32x2":
        _fused(t, row)
        return
    a, b = (t.read(o, kind) for o in row.operands[1:3])
    width = WIDTHS[kind] * (2 if "wide" in row.parts else 1)
    product = _product(row, kind, a, b)
    c = t.read(row.operands[3], f"u{width}")
    if row.base == "madc" or "cc" in row.parts:
        carry = t.carry() if row.base == "madc" else "None"
        t.emit(f"x0, x1 = carry_sum({product}, {c}, {carry}, False)")
        t.write(row.operands[0], "x0")
        if "cc" in row.parts:
            t.set_carry("x1")
    elif "sat" in row.parts:
        if kind != "s32" or "hi" not in row.parts:
            raise Untranslatable("a clamped sum of this type is not known here")
        total = f"integers.saturating_sum({product}.view(i32), {c}.view(i32), False)"
        t.write(row.operands[0], f"{total}.view(u32)")
    else:
        t.write(row.operands[0], f"{product} + {c}")


def _multiply24(t: Translator, row: PtxInstruction) -> None:
    kind = one_type(row)
    a, b = (t.read(o, kind) for o in row.operands[1:3])
    product = f"integers.multiply24({a}, {b}, {'hi' in row.parts})"
    if row.base == "mad24":
        product = f"{product} + {t.read(row.operands[3], 'u32')}"
    t.write(row.operands[0], product)


def _fused(t: Translator, row: PtxInstruction) -> None:
    kind, way = one_type(row), direction(row)
    if kind in ("f32", "f32x2"):
        if way is None:
            simple(t, row, "floats.fused({0}, {1}, {2})")
        else:
            simple(t, row, f"floats.fused_rounded({{0}}, {{1}}, {{2}}, {way!r})")
    elif kind == "f64":
        if way is None:
            simple(t, row, "floats.fused_double({0}, {1}, {2})")
        else:
            simple(t, row, f"floats.rounded_double('fma', {{0}}, {{1}}, {{2}}, {way!r})")
    elif kind == "bf16":
        body = "floats.fused_wide({}, {}, {})".format(*_inputs(t, row, kind))
        if "relu" in row.parts:
            body = f"floats.relu({body})"
        t.write(row.operands[0], f"floats.double_to_bf16({body})")
    else:
        simple(t, row, "floats.fused_wide({0}, {1}, {2})", wide=True)


def _divide(t: Translator, row: PtxInstruction) -> None:
    kind, way = one_type(row), direction(row)
    if not is_float(kind):
        simple(t, row, "integers.divide({0}, {1})")
    elif way is None:
        simple(t, row, "{0} / {1}")
    elif kind == "f32":
        simple(t, row, f"floats.rounded_quotient({{0}}, {{1}}, {way!r})")
    else:
        simple(t, row, f"floats.rounded_double('div', {{0}}, {{1}}, None, {way!r})")


def _root(t: Translator, row: PtxInstruction) -> None:
    kind, way = one_type(row), direction(row)
    if way is None:
        simple(t, row, "np.sqrt({0})")
    elif kind == "f32":
        simple(t, row, f"floats.rounded_root({{0}}, {way!r})")
    else:
        simple(t, row, f"floats.rounded_double('sqrt', {{0}}, {{0}}, None, {way!r})")


def _reciprocal(t: Translator, row: PtxInstruction) -> None:
    kind, way = one_type(row), direction(row)
    if kind == "f64" and "approx" in row.parts:  # the upper word alone
        simple(t, row, "floats.upper_word(1 / {0})")
    elif way is None:
        simple(t, row, "np.reciprocal({0})")
    elif kind == "f32":
        simple(t, row, f"floats.rounded_quotient(np.ones((1, 1), f32), {{0}}, {way!r})")
    else:
        one = "np.ones((1, 1), f64)"
        simple(t, row, f"floats.rounded_double('div', {one}, {{0}}, None, {way!r})")


def _reciprocal_root(t: Translator, row: PtxInstruction) -> None:
    kind = one_type(row)
    if kind == "f64":
        simple(t, row, "floats.upper_word(floats.reciprocal_root({0}))")
    else:
        simple(t, row, "floats.reciprocal_root({0}).astype(f32)")


def _approximate(function: str) -> Handler:
    def translate(t: Translator, row: PtxInstruction) -> None:
        simple(t, row, f"floats.approximate(np.{function}, {{0}})")

    return translate


def _extreme(t: Translator, row: PtxInstruction) -> None:
    kind = one_type(row)
    least = row.base == "min"
    if not is_float(kind):
        name = "np.minimum" if least else "np.maximum"
        clamp = "relu" in row.parts
        template = f"{name}({{0}}, {{1}})"
        simple(t, row, f"np.maximum({template}, {{0}}.dtype.type(0))" if clamp else template)
        return
    name = "floats.minimum" if least else "floats.maximum"
    if "NaN" in row.parts:
        name += "_nan"
    template = f"{name}({{0}}, {{1}})"
    if len(row.operands) == 4:
        template = f"{name}({template}, {{2}})"
    if "xorsign" in row.parts:
        flipped = "(np.signbit({0}) ^ np.signbit({1}))"
        template = f"{name}(np.abs({{0}}), np.abs({{1}}))"
        template = f"np.where({flipped}, -{template}, {template})"
    elif "abs" in row.parts:
        template = f"{name}(np.abs({{0}}), np.abs({{1}}))"
    simple(t, row, template)


def _sign(template: str) -> Handler:
    """``neg`` and ``abs``: of floats the sign bit alone, also of a NaN."""

    def translate(t: Translator, row: PtxInstruction) -> None:
        kind = one_type(row)
        if kind in ("f16", "bf16", "f16x2", "bf16x2"):
            width = WIDTHS[kind]
            sign = "0x8000" if width == 16 else "0x80008000"
            bits = t.read(row.operands[1], f"u{width}")
            if row.base == "neg":
                t.write(row.operands[0], f"{bits} ^ u{width}({sign})")
            else:
                t.write(row.operands[0], f"{bits} & ~u{width}({sign})")
            return
        simple(t, row, template)

    return translate


def _logic(template: str) -> Handler:
    def translate(t: Translator, row: PtxInstruction) -> None:
        kind = "pred" if row.kind == "pred" else f"u{WIDTHS[one_type(row)]}"
        operands = [t.read(o, kind) for o in row.operands[1:]]
        t.write(row.operands[0], template.format(*operands))

    return translate


def _shift(t: Translator, row: PtxInstruction) -> None:
    kind = one_type(row)
    if row.base == "shl" or kind[0] == "b":
        kind = "u" + kind[1:]
    value, amount = t.read(row.operands[1], kind), row.operands[2]
    width = WIDTHS[kind]
    if isinstance(amount, ImmediateOperand) and 0 <= int(constant(amount.text, "u32")) < width:
        steps = t.constant(
            int(constant(amount.text, "u32")), f"{'i' if kind[0] == 's' else 'u'}{width // 8}"
        )
        made = f"({value} {'<<' if row.base == 'shl' else '>>'} {steps})"
    else:
        name = "left" if row.base == "shl" else "right"
        made = f"integers.shift_{name}({value}, {t.read(amount, 'u32')})"
    t.write(row.operands[0], t.result(made, kind))


def _funnel(t: Translator, row: PtxInstruction) -> None:
    a, b, c = (t.read(o, "u32") for o in row.operands[1:])
    left, wrap = "l" in row.parts, "wrap" in row.parts
    t.write(row.operands[0], f"integers.funnel_shift({a}, {b}, {c}, {left}, {wrap})")


def _table(t: Translator, row: PtxInstruction) -> None:
    named = [p for p in row.parts[1:] if p in ("and", "or")]
    a, b, c = (t.read(o, "u32") for o in row.operands[1:4])
    table = row.operands[4]
    if not isinstance(table, ImmediateOperand):
        raise Untranslatable("its table is no constant")
    made = f"integers.logic3({a}, {b}, {c}, {int(constant(table.text, 'u32')) & 255})"
    target, predicate = t.pair(row.operands[0])
    if not named or predicate is None:
        t.write(target, made)
        return
    value = t.temporary(made)
    third = t.read(row.operands[5], "pred")
    t.write(predicate, f"({value} != 0) {'&' if named[0] == 'and' else '|'} {third}")
    t.write(target, value)


def _permute(t: Translator, row: PtxInstruction) -> None:
    mode = next((p for p in row.parts[1:] if p in PERMUTE_MODES), "")
    a, b, c = (t.read(o, "u32") for o in row.operands[1:])
    t.write(row.operands[0], f"integers.permute({a}, {b}, {c}, {mode!r})")


def _extract(t: Translator, row: PtxInstruction) -> None:
    kind = one_type(row)
    a = t.read(row.operands[1], kind)
    position, length = (t.read(o, "u32") for o in row.operands[2:])
    t.write(row.operands[0], t.result(f"integers.extract_bits({a}, {position}, {length})", kind))


def _insert(t: Translator, row: PtxInstruction) -> None:
    kind = "u" + one_type(row)[1:]
    a, b = (t.read(o, kind) for o in row.operands[1:3])
    position, length = (t.read(o, "u32") for o in row.operands[3:])
    t.write(row.operands[0], f"integers.insert_bits({a}, {b}, {position}, {length})")


def _of_one(template: str) -> Handler:
    """An instruction of one operand whose result has its own type."""

    def translate(t: Translator, row: PtxInstruction) -> None:
        kind = one_type(row)
        value = t.read(row.operands[1], kind if kind[0] == "s" else f"u{WIDTHS[kind]}")
        t.write(row.operands[0], template.format(value))

    return translate


def _find_highest(t: Translator, row: PtxInstruction) -> None:
    value = t.read(row.operands[1], one_type(row))
    t.write(row.operands[0], f"integers.find_highest({value}, {'shiftamt' in row.parts})")


def _find_nth(t: Translator, row: PtxInstruction) -> None:
    a, base, offset = (t.read(o, "u32") for o in row.operands[1:])
    t.write(row.operands[0], f"integers.find_nth({a}, {base}, {offset})")


def _mask_of_bits(t: Translator, row: PtxInstruction) -> None:
    a, b = (t.read(o, "u32") for o in row.operands[1:])
    t.write(row.operands[0], f"integers.bit_mask({a}, {b}, {'wrap' in row.parts})")


def _zero_extend(t: Translator, row: PtxInstruction) -> None:
    """``szext``: the lowest bits, the rest filled with their sign or with zeros."""
    kind = one_type(row)
    a, size = t.read(row.operands[1], kind), t.read(row.operands[2], "u32")
    if "wrap" in row.parts:
        size = f"({size} & u32(31))"
    zero = t.constant(0, "u4")
    t.write(row.operands[0], t.result(f"integers.extract_bits({a}, {zero}, {size})", kind))


def _dot(t: Translator, row: PtxInstruction) -> None:
    named = types_of(row)
    a, b = (t.read(o, "u32") for o in row.operands[1:3])
    signs = [kind[0] == "s" for kind in named]
    c = t.read(row.operands[3], "s32" if any(signs) else "u32")
    if row.base == "dp4a":
        made = f"integers.dot4({a}, {b}, {c}, {signs[0]}, {signs[1]})"
    else:
        made = f"integers.dot2({a}, {b}, {c}, {signs[0]}, {signs[1]}, {'hi' in row.parts})"
    t.write(row.operands[0], made)


def _test(t: Translator, row: PtxInstruction) -> None:
    kind = one_type(row)
    least = "1.1754944e-38" if kind == "f32" else "2.2250738585072014e-308"
    x = t.temporary(t.read(row.operands[1], kind))
    made = {
        "nan": f"np.isnan({x})",
        "notanumber": f"np.isnan({x})",
        "number": f"~np.isnan({x})",
        "finite": f"np.isfinite({x})",
        "infinite": f"np.isinf({x})",
        # "As a special case, positive and negative zero are considered normal numbers."
        "normal": f"np.isfinite({x}) & ((np.abs({x}) >= {least}) | ({x} == 0))",
        "subnormal": f"({x} != 0) & (np.abs({x}) < {least})",
    }.get(row.parts[1])
    if made is None:
        raise Untranslatable("this test is not known here")
    t.write(row.operands[0], made)


_COMPARE = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
_UNORDERED = {"equ": "!=", "neu": "==", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}
"""Comparisons that hold where an operand is NaN, by the ordered one that is their negation."""


def compared(comparison: str, a: str, b: str, real: bool) -> str:
    """Two values compared as ``setp`` does."""
    if comparison in ("nan", "num"):
        nan = f"(np.isnan({a}) | np.isnan({b}))"
        return nan if comparison == "nan" else f"(~{nan})"
    if real and comparison == "ne":
        return f"(({a} < {b}) | ({a} > {b}))"
    if comparison in _UNORDERED and real:
        if comparison == "equ":
            return f"(~(({a} < {b}) | ({a} > {b})))"
        if comparison == "neu":
            return f"({a} != {b})"
        return f"(~({a} {_UNORDERED[comparison]} {b}))"
    if comparison not in _COMPARE:
        raise Untranslatable("this comparison is not known here")
    return f"({a} {_COMPARE[comparison]} {b})"


_BOOLEAN = {"and": "&", "or": "|", "xor": "^"}


def _set_predicate(t: Translator, row: PtxInstruction) -> None:
    kind = row.kind
    first, second = t.pair(row.operands[0])
    if kind in ("f16x2", "bf16x2"):
        a, b = (t.read(o, "u32") for o in row.operands[1:3])
        compare = f"lambda a, b: {compared(row.parts[1], 'a', 'b', True)}"
        for target, shift in ((first, 0), (second, 16)):
            if target is not None:
                t.write(target, f"floats.packed_compare({compare}, {kind!r}, {a}, {b}, {shift})")
        return
    made, more = _comparison(t, row, kind)
    if second is not None:
        value = t.temporary(made)
        yes = t.temporary(f"{value} {more}" if more else value)
        no = t.temporary(f"~{value} {more}" if more else f"~{value}")
        t.write(first, yes)
        t.write(second, no)
    else:
        t.write(first, f"{made} {more}" if more else made)


def _comparison(t: Translator, row: PtxInstruction, kind: str) -> tuple[str, str | None]:
    operands = [t.read(o, kind) for o in row.operands[1:3]]
    if "ftz" in row.parts and kind == "f32":
        operands = [f"floats.flush({o})" for o in operands]
    a, b = operands
    made = compared(row.parts[1], a, b, is_float(kind))
    named = next((p for p in row.parts[2:] if p in _BOOLEAN), None)
    if named is None:
        return made, None
    return made, f"{_BOOLEAN[named]} {t.read(row.operands[3], 'pred')}"


def _set(t: Translator, row: PtxInstruction) -> None:
    named = types_of(row)
    if len(named) != 2 or named[1].endswith("x2"):
        raise Untranslatable("this form is not known here")
    made, more = _comparison(t, row, named[1])
    made = f"({made} {more})" if more else made
    if is_float(named[0]):
        one = {"f32": "0x3F800000", "f16": "0x3C00", "bf16": "0x3F80"}[named[0]]
        width = WIDTHS[named[0]]
        t.write(row.operands[0], f"np.where({made}, u{width}({one}), u{width}(0))")
    else:
        width = WIDTHS[named[0]]
        t.write(row.operands[0], f"np.where({made}, ~u{width}(0), u{width}(0))")


def _select(t: Translator, row: PtxInstruction) -> None:
    kind = one_type(row)
    a, b = (t.bits(o, kind) for o in row.operands[1:3])
    t.write(row.operands[0], f"np.where({t.read(row.operands[3], 'pred')}, {a}, {b})")


def _select_by_sign(t: Translator, row: PtxInstruction) -> None:
    kinds = types_of(row)
    a, b = (t.bits(o, kinds[0]) for o in row.operands[1:3])
    t.write(row.operands[0], f"np.where({t.read(row.operands[3], kinds[1])} >= 0, {a}, {b})")


def _logical_not(t: Translator, row: PtxInstruction) -> None:
    width = WIDTHS[one_type(row)]
    value = t.read(row.operands[1], f"u{width}")
    t.write(row.operands[0], f"({value} == 0).astype(u{width})")


HANDLERS: Mapping[str, Handler] = {
    "add": lambda t, row: _sum(t, row, "+"),
    "sub": lambda t, row: _sum(t, row, "-"),
    "addc": lambda t, row: _carried(t, row, False),
    "subc": lambda t, row: _carried(t, row, True),
    "mul": _multiply,
    "mad": _multiply_add,
    "madc": _multiply_add,
    "mul24": _multiply24,
    "mad24": _multiply24,
    "fma": _fused,
    "div": _divide,
    "rem": lambda t, row: simple(t, row, "integers.remainder({0}, {1})"),
    "abs": _sign("np.abs({0})"),
    "neg": _sign("-{0}"),
    "min": _extreme,
    "max": _extreme,
    "sqrt": _root,
    "rsqrt": _reciprocal_root,
    "rcp": _reciprocal,
    "ex2": _approximate("exp2"),
    "lg2": _approximate("log2"),
    "sin": _approximate("sin"),
    "cos": _approximate("cos"),
    "tanh": _approximate("tanh"),
    "copysign": lambda t, row: simple(t, row, "np.copysign({1}, {0})"),
    "sad": lambda t, row: simple(t, row, SAD),
    "and": _logic("{0} & {1}"),
    "or": _logic("{0} | {1}"),
    "xor": _logic("{0} ^ {1}"),
    "not": _logic("~{0}"),
    "cnot": _logical_not,
    "shl": _shift,
    "shr": _shift,
    "shf": _funnel,
    "lop3": _table,
    "prmt": _permute,
    "bfe": _extract,
    "bfi": _insert,
    "szext": _zero_extend,
    "bmsk": _mask_of_bits,
    "popc": _of_one("integers.population({0})"),
    "clz": _of_one("integers.leading_zeros({0})"),
    "brev": _of_one("integers.reverse_bits({0})"),
    "bfind": _find_highest,
    "fns": _find_nth,
    "dp4a": _dot,
    "dp2a": _dot,
    "testp": _test,
    "setp": _set_predicate,
    "set": _set,
    "selp": _select,
    "slct": _select_by_sign,
}

__all__ = ["HANDLERS", "direction", "one_type", "types_of"]
