"""The translation of instructions that move data: loads, stores, atomics, copies, matrices."""

from __future__ import annotations

import re
from collections.abc import Mapping

from inspector.execute.inline import call_arguments, callee_of
from inspector.execute.kinds import WIDTHS, constant
from inspector.execute.matrix import MMA_KINDS, MMA_SHAPES
from inspector.execute.translate import Handler, Translator, Untranslatable
from inspector.listing.ptx_statement import (
    ImmediateOperand,
    PtxInstruction,
    RegisterOperand,
    SinkOperand,
    SymbolOperand,
    VectorOperand,
)

_SPACES = ("param", "global", "shared", "local", "const")
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)\Z")


def space_of(row: PtxInstruction) -> str:
    """The state space that an opcode names; ``generic`` where it names none."""
    named = (p.partition("::")[0] for p in row.parts[1:])
    return next((p for p in named if p in _SPACES), "generic")


def _form(row: PtxInstruction) -> tuple[str, int, str]:
    """State space, elements and type of a load or store."""
    count = next((int(p[1:]) for p in row.parts if re.fullmatch(r"v[248]", p)), 1)
    kind = next((p for p in reversed(row.parts) if p in WIDTHS), "pred")
    if kind == "pred" or "b128" in row.parts:
        raise Untranslatable("elements of this type are not known here")
    return space_of(row), count, kind


def _load(t: Translator, row: PtxInstruction) -> None:
    space, count, kind = _form(row)
    space, address = t.address(row.operands[1], space)
    width = WIDTHS[kind]
    t.emit(f"L = m.memory.load({t.number}, {space!r}, {address}, u{width}, {count}, {t.mask})")
    for k, target in enumerate(t.elements(row.operands[0])):
        t.write(target, f"L[{k}]", kind)


def _store(t: Translator, row: PtxInstruction) -> None:
    space, _, kind = _form(row)
    space, address = t.address(row.operands[0], "local" if space == "param" else space)
    values = ", ".join(t.bits(o, kind) for o in t.elements(row.operands[1]))
    width = WIDTHS[kind]
    t.emit(f"m.memory.store({t.number}, {space!r}, {address}, u{width}, [{values}], {t.mask})")


_OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


def _atomic(t: Translator, row: PtxInstruction) -> None:
    space, _, kind = _form(row)
    what = next((p for p in row.parts[1:] if p in _OPERATIONS), None)
    if what is None or "async" in row.parts:
        raise Untranslatable("this operation is not known here")
    returns = row.base == "atom"
    target, operands = (row.operands[0], row.operands[1:]) if returns else (None, row.operands)
    space, address = t.address(operands[0], space)
    width = WIDTHS[kind]
    halves = kind in ("f16x2", "bf16x2")
    values = [t.bits(o, kind) for o in t.elements(operands[1])]
    compare = "None"
    if what == "cas":
        compare, values = values[0], [t.bits(operands[2], kind)]
    if halves:
        named = [t.temporary(v) for v in values]
        values = [f"({v} >> u32({s})).astype(u16)" for v in named for s in (0, 16)]
        kind = kind[:-2]
    wanted = target is not None and not isinstance(target, SinkOperand)
    t.emit(
        f"L = m.memory.atomic({t.number}, {space!r}, {what!r}, {address}, {kind!r}, "
        f"[{', '.join(values)}], {compare}, {t.mask}, {wanted})"
    )
    if target is None:
        return
    for k, register in enumerate(t.elements(target)):
        if halves:
            pair = f"L[{2 * k}].astype(u32) | (L[{2 * k + 1}].astype(u32) << u32(16))"
            t.write(register, pair)
        else:
            t.write(register, f"L[{k}]", f"b{width}")


def copy(t: Translator, row: PtxInstruction) -> None:
    """``cp.async`` of up to 16 bytes a lane."""
    if row.parts[1] != "async":
        raise Untranslatable("this copy is not known here")
    if row.parts[2] in ("commit_group", "wait_group", "wait_all"):
        return
    _, target = t.address(row.operands[0], "shared")
    _, source = t.address(row.operands[1], "global")
    size = row.operands[2]
    if not isinstance(size, ImmediateOperand):
        raise Untranslatable("its size is no constant")
    given = "None"
    if len(row.operands) > 3 and "L2" not in str(row.operands[3]):
        fourth = row.operands[3]
        if isinstance(fourth, ImmediateOperand) or (
            isinstance(fourth, RegisterOperand) and t.widths[fourth.number] == 32
        ):
            given = t.read(fourth, "u32")
        elif isinstance(fourth, RegisterOperand) and t.widths[fourth.number] == 1:
            ignored = t.read(fourth, "pred")
            given = f"np.where({ignored}, u32(0), u32({int(constant(size.text, 'u32'))}))"
    count = int(constant(size.text, "u32"))
    t.emit(f"m.memory.copy({t.number}, {target}, {source}, {count}, {given}, {t.mask})")


def _load_matrix(t: Translator, row: PtxInstruction) -> None:
    if "b16" not in row.parts or "m8n8" not in row.parts:
        raise Untranslatable("matrices of this form are not known here")
    targets = t.elements(row.operands[0])
    _, address = t.address(row.operands[1], "shared")
    trans = "trans" in row.parts
    t.emit(f"L = m.memory.load_matrix({t.number}, {address}, {len(targets)}, {trans}, {t.mask})")
    for k, target in enumerate(targets):
        t.write(target, f"L[{k}]")


def _store_matrix(t: Translator, row: PtxInstruction) -> None:
    if "b16" not in row.parts or "m8n8" not in row.parts:
        raise Untranslatable("matrices of this form are not known here")
    _, address = t.address(row.operands[0], "shared")
    values = ", ".join(t.read(o, "u32") for o in t.elements(row.operands[1]))
    trans = "trans" in row.parts
    t.emit(f"m.memory.store_matrix({t.number}, {address}, [{values}], {trans}, {t.mask})")


def _move_matrix(t: Translator, row: PtxInstruction) -> None:
    t.write(row.operands[0], f"matrix.move_transposed(m.lanes, {t.read(row.operands[1], 'u32')})")


def _shape(row: PtxInstruction) -> tuple[int, int, int]:
    shape = next((found for p in row.parts if (found := _SHAPE.match(p))), None)
    if shape is None:
        raise Untranslatable("its shape is not known here")
    return int(shape[1]), int(shape[2]), int(shape[3])


def _multiply(t: Translator, row: PtxInstruction) -> None:
    shape = _shape(row)
    kinds = [p for p in row.parts if p in MMA_KINDS]
    if (
        "sp" in row.parts
        or len(kinds) != 4
        or (*shape, kinds[1]) not in MMA_SHAPES
        or ("block_scale" in row.parts or "popc" in row.parts)
    ):
        raise Untranslatable("a multiplication of this shape and these types is not known here")
    wide = "u64" if kinds[0] == "f64" else "u32"
    a, b, c = (
        ", ".join(t.read(o, wide) for o in t.elements(operand)) for operand in row.operands[1:4]
    )
    saturate = "satfinite" in row.parts
    t.emit(f"L = matrix.multiply(m.lanes, {shape}, {kinds!r}, [{a}], [{b}], [{c}], {saturate})")
    for k, target in enumerate(t.elements(row.operands[0])):
        t.write(target, f"L[{k}]")


def _multiply_group(t: Translator, row: PtxInstruction) -> None:
    if row.parts[1] != "mma_async":
        return
    shape = _shape(row)
    kinds = [p for p in row.parts if p in MMA_KINDS]
    if "sp" in row.parts or len(kinds) != 3:
        raise Untranslatable("a multiplication of these types is not known here")
    target, a, b, keep, *rest = row.operands
    left = (
        "[" + ", ".join(t.read(o, "u32") for o in a.elements) + "]"
        if isinstance(a, VectorOperand)
        else t.read(a, "u64")
    )
    numbers = []
    for operand in rest:
        if not isinstance(operand, ImmediateOperand):
            raise Untranslatable("its scale or transposition is no constant")
        numbers.append(int(constant(operand.text, "s32")))
    signs, turned = (numbers[:2], numbers[2:]) if len(numbers) > 1 else ([1, 1], [])
    turned = [0] * (2 - len(turned)) + turned
    old = ", ".join(t.read(o, "u32") for o in t.elements(target))
    saturate = "satfinite" in row.parts
    t.emit(
        f"L = m.multiply_group({t.number}, {t.mask}, {shape}, {kinds!r}, {left}, "
        f"{t.read(b, 'u64')}, "
        f"{t.read(keep, 'pred')}, {signs}, {turned}, [{old}], {saturate})"
    )
    for k, register in enumerate(t.elements(target)):
        t.write(register, f"L[{k}]")


def _policy(t: Translator, row: PtxInstruction) -> None:
    """``createpolicy``: how caches are to be used, which changes no value."""
    t.write(row.operands[0], t.constant(0, "u8"))


def _nothing(t: Translator, row: PtxInstruction) -> None:
    """What changes no value: memory here is as strongly ordered as any fence asks for."""


def _call(t: Translator, row: PtxInstruction) -> None:
    name = callee_of(row)
    if name in ("vprintf", "__assertfail"):
        places = [
            t.symbol(o.name, o.offset)
            for o in call_arguments(row)[1]
            if isinstance(o, SymbolOperand)
        ]
        if name == "vprintf":
            t.emit(f"m.messages.print({t.number}, {', '.join(places)}, {t.mask})")
        else:
            t.emit(f"m.messages.failed({t.number}, [{', '.join(places)}], {t.mask})")
        return
    if name is None:
        raise Untranslatable("it calls a function by its address")
    raise Untranslatable(f"{name[:80]} has no body in this module, or calls itself")


def _refuse(reason: str) -> Handler:
    def translate(t: Translator, row: PtxInstruction) -> None:
        raise Untranslatable(reason)

    return translate


_TEXTURES = "textures and surfaces are not emulated"
_TENSOR_MEMORY = "the tensor memory of sm_100 (tcgen05) is not emulated"

HANDLERS: Mapping[str, Handler] = {
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "atom": _atomic,
    "red": _atomic,
    "ldmatrix": _load_matrix,
    "stmatrix": _store_matrix,
    "movmatrix": _move_matrix,
    "mma": _multiply,
    "wgmma": _multiply_group,
    "createpolicy": _policy,
    "call": _call,
    **dict.fromkeys(
        (
            "membar",
            "fence",
            "griddepcontrol",
            "nanosleep",
            "prefetch",
            "prefetchu",
            "pmevent",
            "setmaxnreg",
            "discard",
            "applypriority",
            "brkpt",
        ),
        _nothing,
    ),
    **dict.fromkeys(
        ("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"), _refuse(_TEXTURES)
    ),
    "tcgen05": _refuse(_TENSOR_MEMORY),
}
