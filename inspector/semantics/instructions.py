"""Integer instructions of PTX by their opcodes: types of the operands and a numpy expression.

``form_of`` gives what generated code is made of, ``evaluate`` the value. An opcode's modifiers are
part of the table's key, so that a word that no row has is refused and never passed over.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from inspector.semantics import integers
from inspector.semantics.integers import Array

DTYPES: Mapping[str, Any] = MappingProxyType(
    {"pred": np.bool_}
    | {f"{letter}{bits}": getattr(integers, f"u{bits}") for letter in "bu" for bits in (16, 32, 64)}
    | {f"s{bits}": getattr(integers, f"i{bits}") for bits in (16, 32, 64)}
    | {"b8": integers.u8, "u8": integers.u8, "s8": integers.i8}
)
"""What an array of a type holds."""

WIDTHS: Mapping[str, int] = MappingProxyType(
    {kind: 1 if kind == "pred" else np.dtype(dtype).itemsize * 8 for kind, dtype in DTYPES.items()}
)

COMPARISONS: Mapping[str, str] = MappingProxyType(
    {
        "eq": "({0} == {1})",
        "ne": "({0} != {1})",
        "lt": "({0} < {1})",
        "le": "({0} <= {1})",
        "gt": "({0} > {1})",
        "ge": "({0} >= {1})",
        "lo": "({0} < {1})",
        "ls": "({0} <= {1})",
        "hi": "({0} > {1})",
        "hs": "({0} >= {1})",
    }
)
BOOLEAN: Mapping[str, str] = MappingProxyType({"and": "&", "or": "|", "xor": "^"})
"""What ``setp`` combines a comparison with a predicate by."""

_INTEGERS = "u16 s16 u32 s32 u64 s64"
_LONGER = "u32 s32 u64 s64"
_WORDS = "u32 s32"
_SIGNED = "s16 s32 s64"
_BITS = "b16 b32 b64"

# Types that the opcode may name; types of operands and result; the result. ``t`` is the first type
# that the opcode names, ``l`` its last, ``u`` and ``s`` the first's bits, unsigned or signed, ``w``
# the first with twice the bits.
ROWS: dict[str, tuple[str, str, str]] = {
    # PTX ISA, "Integer Arithmetic Instructions"
    "add": (_INTEGERS, "t t > t", "{0} + {1}"),
    "add.sat": ("s32", "t t > t", "integers.saturating_sum({0}, {1}, False)"),
    "sub": (_INTEGERS, "t t > t", "{0} - {1}"),
    "sub.sat": ("s32", "t t > t", "integers.saturating_sum({0}, {1}, True)"),
    "mul.lo": (_INTEGERS, "t t > t", "{0} * {1}"),
    "mul.hi": (_INTEGERS, "t t > t", "integers.multiply_high({0}, {1})"),
    "mul.wide": ("u16 s16 u32 s32", "t t > w", "integers.multiply_wide({0}, {1})"),
    "mad.lo": (_INTEGERS, "t t t > t", "{0} * {1} + {2}"),
    "mad.hi": (_INTEGERS, "t t t > t", "integers.multiply_high({0}, {1}) + {2}"),
    "mad.hi.sat": (
        "s32",
        "t t t > t",
        "integers.saturating_sum(integers.multiply_high({0}, {1}), {2}, False)",
    ),
    "mad.wide": ("u16 s16 u32 s32", "t t w > w", "integers.multiply_wide({0}, {1}) + {2}"),
    "mul24.lo": (_WORDS, "t t > t", "integers.multiply24({0}, {1}, False)"),
    "mul24.hi": (_WORDS, "t t > t", "integers.multiply24({0}, {1}, True)"),
    "mad24.lo": (_WORDS, "t t t > t", "integers.multiply24({0}, {1}, False) + {2}"),
    "mad24.hi": (_WORDS, "t t t > t", "integers.multiply24({0}, {1}, True) + {2}"),
    "mad24.hi.sat": (
        "s32",
        "t t t > t",
        "integers.saturating_sum(integers.multiply24({0}, {1}, True), {2}, False)",
    ),
    "sad": (_INTEGERS, "t t t > t", "np.maximum({0}, {1}) - np.minimum({0}, {1}) + {2}"),
    "div": (_INTEGERS, "t t > t", "integers.divide({0}, {1})"),
    "rem": (_INTEGERS, "t t > t", "integers.remainder({0}, {1})"),
    "abs": (_SIGNED, "t > t", "np.abs({0})"),
    "neg": (_SIGNED, "t > t", "-{0}"),
    "min": (_INTEGERS, "t t > t", "np.minimum({0}, {1})"),
    "max": (_INTEGERS, "t t > t", "np.maximum({0}, {1})"),
    "min.relu": ("s32", "t t > t", "np.maximum(np.minimum({0}, {1}), 0)"),
    "max.relu": ("s32", "t t > t", "np.maximum(np.maximum({0}, {1}), 0)"),
    "popc": ("b32 b64", "u > u32", "integers.population({0})"),
    "clz": ("b32 b64", "u > u32", "integers.leading_zeros({0})"),
    "bfind": (_LONGER, "t > u32", "integers.find_highest({0}, False)"),
    "bfind.shiftamt": (_LONGER, "t > u32", "integers.find_highest({0}, True)"),
    "fns": ("b32", "u32 u32 u32 > u32", "integers.find_nth({0}, {1}, {2})"),
    "brev": ("b32 b64", "u > u", "integers.reverse_bits({0})"),
    "bfe": (_LONGER, "t u32 u32 > t", "integers.extract_bits({0}, {1}, {2})"),
    "bfi": ("b32 b64", "u u u32 u32 > u", "integers.insert_bits({0}, {1}, {2}, {3})"),
    "szext.clamp": (_WORDS, "t u32 > t", "integers.extend({0}, {1}, False)"),
    "szext.wrap": (_WORDS, "t u32 > t", "integers.extend({0}, {1}, True)"),
    "bmsk.clamp": ("b32", "u u > u", "integers.bit_mask({0}, {1}, False)"),
    "bmsk.wrap": ("b32", "u u > u", "integers.bit_mask({0}, {1}, True)"),
    "dp4a": (_WORDS, "t l u32 > u32", "integers.dot4({0}, {1}, {2})"),
    "dp2a.lo": (_WORDS, "t l u32 > u32", "integers.dot2({0}, {1}, {2}, False)"),
    "dp2a.hi": (_WORDS, "t l u32 > u32", "integers.dot2({0}, {1}, {2}, True)"),
    # PTX ISA, "Logic and Shift Instructions"
    "and": (f"pred {_BITS}", "u u > u", "{0} & {1}"),
    "or": (f"pred {_BITS}", "u u > u", "{0} | {1}"),
    "xor": (f"pred {_BITS}", "u u > u", "{0} ^ {1}"),
    "not": (f"pred {_BITS}", "u > u", "~{0}"),
    "cnot": (_BITS, "u > u", "({0} == 0).astype({0}.dtype)"),
    "lop3": ("b32", "u u u u > u", "integers.logic3({0}, {1}, {2}, int({3}.flat[0]) & 255)"),
    "shf.l.clamp": ("b32", "u u u > u", "integers.funnel_shift({0}, {1}, {2}, True, False)"),
    "shf.l.wrap": ("b32", "u u u > u", "integers.funnel_shift({0}, {1}, {2}, True, True)"),
    "shf.r.clamp": ("b32", "u u u > u", "integers.funnel_shift({0}, {1}, {2}, False, False)"),
    "shf.r.wrap": ("b32", "u u u > u", "integers.funnel_shift({0}, {1}, {2}, False, True)"),
    "shl": (_BITS, "u u32 > u", "integers.shift_left({0}, {1})"),
    "shr": (f"{_BITS} {_INTEGERS}", "t u32 > t", "integers.shift_right({0}, {1})"),
    # PTX ISA, "Comparison and Selection Instructions", "Data Movement and Conversion Instructions"
    "selp": (f"{_BITS} {_INTEGERS}", "u u pred > u", "np.where({2}, {0}, {1})"),
    "prmt": ("b32", "u u u > u", "integers.permute({0}, {1}, {2}, '')"),
}
ROWS |= {
    f"prmt.{mode}": ("b32", "u u u > u", f"integers.permute({{0}}, {{1}}, {{2}}, {mode!r})")
    for mode in integers.PERMUTE_MODES
}
ROWS |= {
    f"setp.{name}": (f"{_BITS} {_INTEGERS}", "t t > pred", expression)
    for name, expression in COMPARISONS.items()
}
ROWS |= {
    f"setp.{name}.{word}": (
        f"{_BITS} {_INTEGERS}",
        "t t pred > pred",
        f"{expression} {sign} {{2}}",
    )
    for name, expression in COMPARISONS.items()
    for word, sign in BOOLEAN.items()
}
_PAIRS = frozenset(("dp4a", "dp2a.lo", "dp2a.hi"))
"""Instructions that name the types of two operands."""
_PACKED_WIDTHS: Mapping[str, int] = MappingProxyType(
    {f"{letter}{bits}": bits for letter in "us" for bits in (2, 4, 8, 16)}
)
"""Bits of the types that ``cvt.pack`` converts to."""


@dataclass(frozen=True, slots=True)
class IntegerForm:
    """How an instruction is computed: an expression of its operands, read as ``sources``."""

    sources: tuple[str, ...]
    expression: str
    """Of ``{0}``, ``{1}``, …, arrays; it uses ``np`` and ``integers``."""
    result: str
    """The type of the expression's value."""


@lru_cache(1024)
def form_of(parts: tuple[str, ...]) -> IntegerForm | None:
    """The form of an opcode split at its dots; None where no integer instruction has its words."""
    if parts[:3] == ("cvt", "pack", "sat"):
        return _packing(parts[3:])
    named = [part for part in parts[1:] if part in DTYPES]
    key = ".".join(part for part in parts if part not in DTYPES)
    if key in ("cvt", "cvt.sat"):
        return _conversion(named, saturated=key == "cvt.sat")
    row = ROWS.get(key)
    if row is None or len(named) != 1 + (key in _PAIRS) or not set(named) <= set(row[0].split()):
        return None
    first = named[0]
    letters = {
        "t": first.replace("b", "u"),
        "l": named[-1],
        "u": first if first == "pred" else f"u{WIDTHS[first]}",
        "w": f"{first[0]}{2 * WIDTHS[first]}",
    }
    sources, _, result = row[1].partition(" > ")
    read = tuple(letters.get(letter, letter) for letter in sources.split())
    return IntegerForm(read, row[2], letters.get(result, result))


def _conversion(named: Sequence[str], saturated: bool) -> IntegerForm | None:
    """``cvt`` between integers, the result's type first."""
    if len(named) != 2 or any(kind == "pred" or kind[0] == "b" for kind in named):
        return None
    to, source = named
    dtype = f"integers.{'i' if to[0] == 's' else 'u'}{WIDTHS[to]}"
    expression = f"integers.saturate({{0}}, {dtype})" if saturated else f"{{0}}.astype({dtype})"
    return IntegerForm((source,), expression, to)


def _packing(kinds: tuple[str, ...]) -> IntegerForm | None:
    """``cvt.pack.sat``: 16 bits twice fill a register, narrower types are put below a third."""
    if not kinds or kinds[0] not in _PACKED_WIDTHS:
        return None
    width = _PACKED_WIDTHS[kinds[0]]
    if kinds[1:] != (("s32",) if width == 16 else ("s32", "b32")):
        return None
    third = "None" if width == 16 else "{2}"
    sources = ("s32", "s32") if width == 16 else ("s32", "s32", "u32")
    expression = f"integers.pack({{0}}, {{1}}, {third}, {width}, {kinds[0][0] == 's'})"
    return IntegerForm(sources, expression, "u32")


@lru_cache(1024)
def _function(form: IntegerForm) -> Callable[..., Array]:
    """A form's expression as a function; its text is this module's."""
    names = "abcd"[: len(form.sources)]
    source = f"lambda {', '.join(names)}: {form.expression.format(*names)}"
    function: Callable[..., Array] = eval(source, {"np": np, "integers": integers})
    return function


def evaluate(opcode: str, operands: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """The value of an instruction in each lane, as its type reads it.

    ``operands`` are a sequence of integers each, one a lane, of any size: what a register does not
    hold is cut off. None where the opcode is no known integer instruction, or takes other operands.

    >>> evaluate("bfe.s32", [[0xFF], [0], [8]])
    (-1,)
    """
    form = form_of(tuple(opcode.split(".")))
    if form is None or len(operands) != len(form.sources):
        return None
    pairs = zip(operands, form.sources, strict=True)
    arrays = [_register(lanes, kind) for lanes, kind in pairs]
    value = np.broadcast_to(_function(form)(*arrays), (1, len(operands[0])))
    return tuple(int(lane) for lane in value[0].tolist())


def _register(lanes: Sequence[int], kind: str) -> Array:
    """Integers as an array of a type, in the shape that the instructions' functions take."""
    if kind == "pred":
        return np.array([[bool(lane) for lane in lanes]])
    mask = (1 << WIDTHS[kind]) - 1
    unsigned = np.array([[lane & mask for lane in lanes]], f"u{WIDTHS[kind] // 8}")
    return unsigned.view(DTYPES[kind])
