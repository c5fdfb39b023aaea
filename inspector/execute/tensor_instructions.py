"""The translation of ``tcgen05``: tensor memory and the products of sm_100's tensor cores."""

from collections.abc import Callable, Mapping

from inspector.execute.kinds import dtype_name
from inspector.execute.tensor_memory import COPIES, REGISTERS, TYPES
from inspector.execute.translate import Handler, Translator, Untranslatable
from inspector.parsers.ptx_statement import (
    AddressOperand,
    ImmediateOperand,
    Operand,
    PtxInstruction,
    VectorOperand,
)

_SCALES = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4, "block16": 4}
"""Scales of each row by the word that says it; ``block32`` is what its kind has by default."""
_SCALES_OF_KIND = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 2}


def _address(t: Translator, operand: Operand) -> str:
    """An address in tensor memory, as 32 bits."""
    _, address = t.address(operand, "generic")
    return f"({address}).astype(u32)"


def _allocate(t: Translator, row: PtxInstruction) -> None:
    _, target = t.address(row.operands[0], "shared")
    columns = t.read(row.operands[1], "u32")
    t.emit(f"m.tensor.allocate({t.number}, {target}, {columns}, {t.mask})")


def _deallocate(t: Translator, row: PtxInstruction) -> None:
    address, columns = (t.read(operand, "u32") for operand in row.operands[:2])
    t.emit(f"m.tensor.deallocate({t.number}, {address}, {columns}, {t.mask})")


def _shape(row: PtxInstruction) -> tuple[str, int]:
    """The shape of a load or store, and how many there are side by side."""
    shape = next((part for part in row.parts if part in REGISTERS), None)
    count = next((int(part[1:]) for part in row.parts if part[1:].isdigit()), 0)
    if shape is None or count not in (1, 2, 4, 8, 16, 32, 64, 128):
        raise Untranslatable("its shape is not known here")
    return shape, count


def _half(operands: list[Operand]) -> int:
    """Take the columns from one half to the other of ``.16x32bx2`` from its operands."""
    operand = operands.pop(1)
    if not isinstance(operand, ImmediateOperand) or operand.value is None:
        raise Untranslatable("the offset of its second half is no constant")
    return int(operand.value)


def _load(t: Translator, row: PtxInstruction) -> None:
    shape, count = _shape(row)
    target, *operands = row.operands
    reduced = operands.pop(0) if "red" in row.parts else None
    half = _half(operands) if shape == "16x32bx2" else 0
    packed = "pack::16b" in row.parts
    arguments = f"{shape!r}, {count}, {_address(t, operands[0])}, {half}, {packed}"
    call = f"m.tensor.load({t.number}, {arguments}, {t.mask})"
    t.write_list(target, call, ["b32"] * (count * REGISTERS[shape]))
    if reduced is not None:
        kind = row.kind if row.kind in ("u32", "s32") else "f32"
        flags = ", ".join(str(word in row.parts) for word in ("min", "abs", "NaN"))
        t.write_list(reduced, f"[floats.extreme_of(L, {dtype_name(kind)}, {flags})]", ["b32"])


def _store(t: Translator, row: PtxInstruction) -> None:
    shape, count = _shape(row)
    operands = list(row.operands)
    half = _half(operands) if shape == "16x32bx2" else 0
    elements = t.elements(operands[1], count * REGISTERS[shape])
    values = ", ".join(t.read(operand, "u32") for operand in elements)
    unpacked = "unpack::16b" in row.parts
    t.emit(
        f"m.tensor.store({t.number}, {shape!r}, {count}, {_address(t, operands[0])}, {half}, "
        f"{unpacked}, [{values}], {t.mask})"
    )


def _copy(t: Translator, row: PtxInstruction) -> None:
    # Compilers write .32x128b.warpx4 in both orders
    words = sorted(part for part in row.parts if part[0].isdigit() or part.startswith("warpx"))
    shape = ".".join(words)
    if shape not in COPIES:
        raise Untranslatable(f"copies of the shape '{shape}' are not emulated")
    packed = next((_PACKED[part] for part in row.parts if part in _PACKED), "")
    address = _address(t, row.operands[0])
    descriptor = t.read(row.operands[1], "u64")
    in_pair = "cta_group::2" in row.parts
    t.emit(
        f"m.tensor.copy({t.number}, {shape!r}, {packed!r}, {in_pair}, {address}, {descriptor}, "
        f"{t.mask})"
    )


_PACKED = {"b4x16_p64": "e2m1", "b6x16_p32": "e2m3"}
"""A type of as many bits by the word of a copy that unpacks its elements."""


def _commit(t: Translator, row: PtxInstruction) -> None:
    _, address = t.address(row.operands[0], "shared")
    ranks = t.read(row.operands[1], "u16") if "multicast::cluster" in row.parts else "None"
    t.emit(f"m.tensor.commit({t.number}, {address}, {ranks}, {t.mask})")


def _scale_count(row: PtxInstruction, kind: str) -> int:
    """Scales of each row of A, 0 without any. Raises Untranslatable where a kind has none."""
    is_scaled = "block_scale" in row.parts
    if is_scaled != (kind in _SCALES_OF_KIND):
        raise Untranslatable(f"products of .kind::{kind} have scales, and others have none")
    named = [count for word, count in _SCALES.items() if word in row.parts]
    return named[0] if named else _SCALES_OF_KIND.get(kind, 0)


def _multiply(t: Translator, row: PtxInstruction) -> None:
    kind = next((part[6:] for part in row.parts if part.startswith("kind::")), "")
    if kind not in TYPES:
        raise Untranslatable("a product of this kind is not known here")
    stationary = "ws" in row.parts
    in_pair = "cta_group::2" in row.parts
    scale_count = _scale_count(row, kind)
    target, a, b, descriptor, *further = row.operands
    in_tensor_memory = isinstance(a, AddressOperand)
    a_matrix = _address(t, a) if in_tensor_memory else t.read(a, "u64")
    scales = [_address(t, further.pop(0)) for _ in "ab"] if scale_count else []
    disabled: list[str] = []
    if further and isinstance(further[0], VectorOperand):
        words = t.elements(further[0], 8 if in_pair else 4)
        disabled = [t.read(operand, "u32") for operand in words]
        further = further[1:]
    adds = t.read(further[0], "pred")
    halvings = 0
    if len(further) > 1:
        if stationary or not isinstance(further[1], ImmediateOperand):
            raise Untranslatable("products that leave out columns are not emulated")
        halvings = int(further[1].value or 0)
    form = f"({kind!r}, {stationary}, {in_pair}, {scale_count})"
    operands = f"{_address(t, target)}, {a_matrix}, {t.read(b, 'u64')}, {t.read(descriptor, 'u32')}"
    t.emit(
        f"m.tensor.multiply({t.number}, {form}, {operands}, {adds}, {in_tensor_memory}, "
        f"[{', '.join(disabled)}], {halvings}, [{', '.join(scales)}], {t.mask})"
    )


def _nothing(t: Translator, row: PtxInstruction) -> None:
    """Waits and fences: all that was issued is done here."""


_OPERATIONS: Mapping[str, Callable[[Translator, PtxInstruction], None]] = {
    "alloc": _allocate,
    "dealloc": _deallocate,
    "relinquish_alloc_permit": _nothing,
    "ld": _load,
    "st": _store,
    "wait::ld": _nothing,
    "wait::st": _nothing,
    "fence::before_thread_sync": _nothing,
    "fence::after_thread_sync": _nothing,
    "cp": _copy,
    "commit": _commit,
    "mma": _multiply,
}


def _translate(t: Translator, row: PtxInstruction) -> None:
    operation = _OPERATIONS.get(row.parts[1]) if len(row.parts) > 1 else None
    if operation is None:
        raise Untranslatable("this operation of tensor memory is not emulated")
    operation(t, row)


HANDLERS: Mapping[str, Handler] = {"tcgen05": _translate}
