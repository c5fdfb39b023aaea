"""The translation of video instructions: arithmetic of bytes, halves and words of registers.

PTX ISA, "Video Instructions". Parts are integers of 64 bits, which hold what an operation gives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from inspector.execute.translate import Handler, Translator, Untranslatable
from inspector.parsers.ptx_statement import Operand, PtxInstruction, RegisterOperand
from inspector.semantics.instructions import COMPARISONS

UNKNOWN_FORM = "this form is not known here"
DISPUTED = "a GPU gives another value in this form than the PTX ISA says"


class Part(NamedTuple):
    """Some bits of a word, or of two."""

    first: int
    width: int


WORD = Part(0, 32)
PARTS: Mapping[str, Part] = {
    "": WORD,
    **{f"b{k}": Part(8 * k, 8) for k in range(4)},
    **{f"h{k}": Part(16 * k, 16) for k in range(2)},
}
OPERATIONS: Mapping[str, str] = {
    "vadd": "{0} + {1}",
    "vsub": "{0} - {1}",
    "vabsdiff": "np.abs({0} - {1})",
    "vmin": "np.minimum({0}, {1})",
    "vmax": "np.maximum({0}, {1})",
    "vavrg": "({0} + {1} + ({0} + {1} >= 0)) >> 1",
    "vshl.clamp": "integers.shift_part({0}, np.minimum({1}, 32))",
    "vshl.wrap": "integers.shift_part({0}, {1} & 31)",
    "vshr.clamp": "{0} >> np.minimum({1}, 32)",
    "vshr.wrap": "{0} >> ({1} & 31)",
    **{
        f"vset.{word}": f"{COMPARISONS[word]}.astype(i64)"
        for word in ("eq", "ne", "lt", "le", "gt", "ge")
    },
}
"""Results by the operation and, of a shift or a comparison, its word."""
SECOND: Mapping[str, str] = {
    "add": "{0} + {1}",
    "min": "np.minimum({0}, {1})",
    "max": "np.maximum({0}, {1})",
}
"""What is done with a result and the third operand."""


def _chosen(operand: Operand) -> tuple[Operand, str, bool]:
    """An operand without its selector, the selector, and whether it is negated."""
    if not isinstance(operand, RegisterOperand):
        return operand, "", False
    return replace(operand, part="", negated=False), operand.part, operand.negated


def _parts(selector: str, count: int, first: int) -> list[Part]:
    """The parts that a selector names, the lowest element's first; a default from ``first`` on."""
    if count == 1:
        if selector not in PARTS:
            raise Untranslatable(UNKNOWN_FORM)
        return [PARTS[selector]]
    letter = "h" if count == 2 else "b"
    numbers = [int(d) for d in reversed(selector[1:])] or list(range(first, first + count))
    if not selector.startswith(letter[: len(selector)]) or max(numbers) >= 2 * count:
        raise Untranslatable(UNKNOWN_FORM)
    return [Part(n * 32 // count, 32 // count) for n in numbers]


def _limits(kind: str, width: int) -> tuple[int, int]:
    """The least and the greatest number of a type of some bits."""
    low = -(1 << (width - 1)) if kind == "s32" else 0
    return low, low + (1 << width) - 1


def _fields(
    t: Translator, operands: Sequence[Operand], count: int, kinds: Sequence[str]
) -> list[list[str]]:
    """The parts of A and of B that are computed with; of several at once from either register."""
    chosen = [_chosen(operand) for operand in operands]
    words = [t.temporary(f"{t.read(o, 'u32')}.astype(u64)") for o, _, _ in chosen]
    if count > 1:
        words = [t.temporary(f"{words[0]} | ({words[1]} << u64(32))")] * 2
    fields: list[list[str]] = []
    for index, (word, (_, selector, _), kind) in enumerate(zip(words, chosen, kinds, strict=True)):
        parts = _parts(selector, count, index * count)
        if len(parts) != count:
            raise Untranslatable(UNKNOWN_FORM)
        signed = kind == "s32"
        calls = [f"integers.part({word}, {p.first}, {p.width}, {signed})" for p in parts]
        fields.append([t.temporary(call) for call in calls])
    return fields


def _are_narrow(operands: Sequence[Operand]) -> bool:
    """Whether operands are bytes or halves."""
    return all(_chosen(operand)[1] for operand in operands)


@dataclass(frozen=True)
class VideoForm:
    """What a video instruction but ``vmad`` computes.

    ``count`` results of ``template``; ``kinds`` are the types of the result, of A and of B, and
    ``second`` is the operation with the third operand, or "".
    """

    base: str
    count: int
    kinds: Sequence[str]
    template: str
    second: str

    @property
    def shifts(self) -> bool:
        return self.base in ("vshl", "vshr")


def _form(row: PtxInstruction) -> VideoForm:
    base = row.base.rstrip("24")
    kinds = [p for p in row.parts[1:] if p in ("u32", "s32")]
    if base == "vset":
        kinds.insert(0, "u32")
    words = [p for p in row.parts[1:] if f"{base}.{p}" in OPERATIONS]
    template = OPERATIONS.get(".".join([base, *words]))
    second = [p for p in row.parts[1:] if p in SECOND]
    if template is None or len(kinds) != 3 or len(second) > 1:
        raise Untranslatable(UNKNOWN_FORM)
    count = int(row.base[-1]) if row.base[-1] in "24" else 1
    form = VideoForm(base, count, kinds, template, "".join(second))
    if form.shifts and kinds[2] != "u32":
        raise Untranslatable(UNKNOWN_FORM)
    return form


def _is_settled(row: PtxInstruction, form: VideoForm, mask: str) -> bool:
    """Whether an H200 gives the PTX ISA's value in a form of one result.

    What ptxas makes of the others for sm_90 keeps 32 bits of results, and merges other bits.
    """
    saturated = "sat" in row.parts
    if mask and (mask[0] != "b" or form.second or saturated or form.shifts):
        return False
    if saturated and form.shifts:
        return form.base == "vshr" and not form.second
    if saturated:
        return form.kinds[0] == "s32" or _are_narrow(row.operands[1:3])
    if form.second and form.second != "add":
        inputs = form.kinds[:2] if form.shifts else form.kinds
        return form.base not in ("vadd", "vsub") and len(set(inputs)) == 1
    return True


def _operate(t: Translator, row: PtxInstruction) -> None:
    form = _form(row)
    count = form.count
    fields = _fields(t, row.operands[1:3], count, form.kinds[1:])
    target, mask, _ = _chosen(row.operands[0])
    if count == 1 and not _is_settled(row, form, mask):
        raise Untranslatable(DISPUTED)
    written = _parts(mask, count, 0)
    if any(part.first > 31 for part in written):
        raise Untranslatable(UNKNOWN_FORM)
    values: list[str] = []
    for a, b in zip(*fields, strict=True):
        value = form.template.format(a, b)
        if "sat" in row.parts:
            low, high = _limits(form.kinds[0], written[0].width)
            value = f"np.clip({value}, {low}, {high})"
        values.append(t.temporary(value))
    places = [p.first * count // 32 if count > 1 else 0 for p in written]
    kept = [(values[place], part) for place, part in zip(places, written, strict=True)]
    c = t.temporary(t.read(row.operands[3], "u32")) if len(row.operands) > 3 else "u32(0)"
    if form.second:
        result = f"integers.part({c}.astype(u64), 0, 32, {form.kinds[0] == 's32'})"
        for value, _ in kept:
            result = SECOND[form.second].format(value, result)
        result = f"({result}).astype(u32)"
    else:
        result = _merged(t, c, kept)
    t.write(target, result, "u32")


def _merged(t: Translator, word: str, kept: Sequence[tuple[str, Part]]) -> str:
    """A word with values in the place of some of its parts."""
    for value, part in kept:
        bits = (1 << part.width) - 1
        others = ~(bits << part.first) & 0xFFFFFFFF
        moved = f"(({value}).astype(u32) & u32({bits})) << u32({part.first})"
        word = t.temporary(f"({word} & u32({others})) | ({moved})")
    return word


def _multiply_add(t: Translator, row: PtxInstruction) -> None:
    """``vmad``; its result is signed where a factor is, or where anything is negated."""
    kinds = [p for p in row.parts[1:] if p in ("u32", "s32")]
    scales = [p for p in row.parts[1:] if p.startswith("shr")]
    c, selector, subtract = _chosen(row.operands[3])
    flags = [_chosen(operand)[2] for operand in row.operands[1:3]]
    negated = flags[0] != flags[1]
    plus_one = "po" in row.parts
    if len(kinds) != 3 or len(scales) > 1 or selector or negated + subtract + plus_one > 1:
        raise Untranslatable(UNKNOWN_FORM)
    whole = kinds[1:] != ["s32", "s32"] and not _are_narrow(row.operands[1:3])
    if (scales or "sat" in row.parts) and (whole or "s32" not in kinds[1:]):
        raise Untranslatable(DISPUTED)
    (a,), (b,) = _fields(t, row.operands[1:3], 1, kinds[1:])
    signed = "s32" in kinds[1:] or negated or subtract
    summand = f"integers.part({t.read(c, 'u32')}.astype(u64), 0, 32, {signed})"
    limits = _limits("s32" if signed else "u32", 32) if "sat" in row.parts else None
    shift = int(scales[0][3:]) if scales else 0
    arguments = f"{a}, {b}, {summand}, {negated}, {subtract}, {plus_one}, {shift}, {limits}"
    t.write(row.operands[0], f"integers.scaled_sum({arguments})", "u32")


_SCALAR = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset", "vshl", "vshr")
_SEVERAL = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")
HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(_SCALAR, _operate),
    **{f"{base}{count}": _operate for base in _SEVERAL for count in (2, 4)},
    "vmad": _multiply_add,
}
