"""Translation of asynchronous copies, mbarriers, tensor maps and warp instructions."""

from __future__ import annotations

from collections.abc import Mapping

from inspector.execute import transfer
from inspector.execute.bulk import FIELDS
from inspector.execute.kinds import constant, is_float
from inspector.execute.translate import Handler, Translator, Untranslatable
from inspector.listing.ptx_statement import (
    AddressOperand,
    ImmediateOperand,
    Operand,
    PtxInstruction,
    SinkOperand,
    VectorOperand,
)

_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def _shared(t: Translator, operand: Operand) -> str:
    """An address in shared memory."""
    return t.address(operand, "shared")[1]


def _barrier(t: Translator, row: PtxInstruction) -> None:
    what = row.parts[1]
    operands = row.operands
    n, mask = t.number, t.mask
    if what == "init":
        count = t.read(operands[1], "u32")
        t.emit(f"m.phases.initialise({n}, {_shared(t, operands[0])}, {count}, {mask})")
    elif what == "inval":
        t.emit(f"m.phases.invalidate({n}, {_shared(t, operands[0])}, {mask})")
    elif what in ("arrive", "arrive_drop"):
        _arrive(t, row)
    elif what in ("expect_tx", "complete_tx"):
        size = t.read(operands[1], "u32")
        t.emit(
            f"m.phases.expect({n}, {_shared(t, operands[0])}, {size}, {mask}, "
            f"{what == 'complete_tx'})"
        )
    elif what in ("test_wait", "try_wait"):
        parity = "parity" in row.parts
        state = t.read(operands[2], "u32" if parity else "u64")
        made = f"m.phases.test({n}, {_shared(t, operands[1])}, {state}, {parity}, {mask})"
        t.write(operands[0], made)
    elif what == "pending_count":
        t.write(operands[0], f"pending_count({t.read(operands[1], 'u64')})")
    else:
        raise Untranslatable("this operation of an mbarrier is not known here")


def _arrive(t: Translator, row: PtxInstruction) -> None:
    """``arrive``, with or without a state that comes back, a count, bytes that are expected."""
    operands = list(row.operands)
    target: Operand = SinkOperand()
    if not isinstance(operands[0], AddressOperand):
        target = operands.pop(0)
    expects = "expect_tx" in row.parts
    number = t.read(operands[1], "u32") if len(operands) > 1 else "None"
    count, nbytes = ("None", number) if expects else (number, "None")
    drop = row.parts[1] == "arrive_drop"
    t.emit(
        f"L = m.phases.arrive({t.number}, {_shared(t, operands[0])}, {count}, {nbytes}, "
        f"{t.mask}, {drop})"
    )
    t.write(target, "L")


def _copy(t: Translator, row: PtxInstruction) -> None:
    """``cp.async`` of a few bytes, or a bulk copy."""
    parts = row.parts
    if "bulk" not in parts:
        if "mbarrier" in parts and "arrive" in parts:
            _arrive_after_copies(t, row)
        else:
            transfer.copy(t, row)
        return
    if any(p in ("commit_group", "wait_group", "prefetch") for p in parts):
        return
    if "multicast" in row.opcode or any(p.startswith("im2col") for p in parts):
        raise Untranslatable("copies to several blocks of a cluster and im2col are not emulated")
    if "tensor" in parts:
        _tile(t, row)
    else:
        _bytes(t, row)


def _arrive_after_copies(t: Translator, row: PtxInstruction) -> None:
    """Copies are done when they are issued, so that the arrival is at once; else it is counted."""
    if "noinc" in parts_of(row):
        address = _shared(t, row.operands[0])
        t.emit(f"m.phases.arrive({t.number}, {address}, None, None, {t.mask})")


def parts_of(row: PtxInstruction) -> tuple[str, ...]:
    """The words of an opcode, those with ``::`` split as well."""
    return tuple(word for part in row.parts for word in part.split("::"))


def _tile(t: Translator, row: PtxInstruction) -> None:
    words = parts_of(row)
    reduces = "reduce" in words
    inward = row.opcode.find("shared") < row.opcode.find("global")
    rows = "gather4" in words or "scatter4" in words
    tensor = row.operands[1 if inward else 0]
    if not isinstance(tensor, AddressOperand) or len(tensor.more) != 1:
        raise Untranslatable("its tensor map is given in a form that is not known here")
    _, address = t.address(AddressOperand(tensor.base, tensor.offset), "generic")
    points = tensor.more[0]
    numbers = ", ".join(t.read(o, "u32") for o in t.elements(points))
    if inward:
        target, barrier = _shared(t, row.operands[0]), _shared(t, row.operands[2])
        t.emit(
            f"m.bulk.load_tile({t.number}, {target}, {address}, [{numbers}], {barrier}, "
            f"{rows}, {t.mask})"
        )
        return
    what = next((p for p in row.parts if p in _OPERATIONS), "") if reduces else ""
    source = _shared(t, row.operands[1])
    t.emit(
        f"m.bulk.store_tile({t.number}, {address}, [{numbers}], {source}, {what!r}, {rows}, "
        f"{t.mask})"
    )


def _bytes(t: Translator, row: PtxInstruction) -> None:
    words = parts_of(row)
    _, target = t.address(row.operands[0], "generic")
    _, source = t.address(row.operands[1], "generic")
    size = t.read(row.operands[2], "u32")
    if row.opcode.find("shared") < row.opcode.find("global") or "global" not in words:
        if "reduce" in words:
            raise Untranslatable("reductions into shared memory are not emulated")
        barrier = _shared(t, row.operands[3])
        t.emit(f"m.bulk.copy_in({t.number}, {target}, {source}, {size}, {barrier}, {t.mask})")
        return
    what = next((p for p in row.parts if p in _OPERATIONS), "") if "reduce" in words else ""
    kind = row.kind if what else "b8"
    t.emit(f"m.bulk.copy_out({t.number}, {target}, {source}, {size}, {kind!r}, {what!r}, {t.mask})")


def _tensor_map(t: Translator, row: PtxInstruction) -> None:
    if row.parts[1] == "cp_fenceproxy":
        _, target = t.address(row.operands[0], "generic")
        t.emit(f"m.bulk.copy_map({t.number}, {target}, {_shared(t, row.operands[1])}, {t.mask})")
        return
    field = next((p for p in row.parts if p in FIELDS), None)
    if row.parts[1] != "replace" or field is None:
        raise Untranslatable("this field of a tensor map is not known here")
    dimension = 0
    if FIELDS[field][1]:
        order = row.operands[1]
        if not isinstance(order, ImmediateOperand):
            raise Untranslatable("its dimension is no constant")
        dimension = int(constant(order.text, "u32"))
        if dimension > (3 if field == "global_stride" else 4):
            raise Untranslatable("there is no such dimension")
    value = t.read(row.operands[-1], "u64" if row.kind == "b64" else "u32")
    space, address = t.address(row.operands[0], transfer.space_of(row))
    t.emit(
        f"m.bulk.replace({t.number}, {space!r}, {address}, {field!r}, {dimension}, {value}, "
        f"{t.mask})"
    )


def _map_address(t: Translator, row: PtxInstruction) -> None:
    """``mapa``: in a cluster of one, an address of another block's is one's own."""
    source = row.operands[1]
    width = "u64" if row.kind.endswith("64") else "u32"
    if isinstance(source, VectorOperand):
        raise Untranslatable("an address of this form is not known here")
    t.write(row.operands[0], t.read(source, width))


def _rank(t: Translator, row: PtxInstruction) -> None:
    """``getctarank``: the only block of a cluster."""
    t.write(row.operands[0], t.constant(0, "u4"))


def _is_in(t: Translator, row: PtxInstruction) -> None:
    """``isspacep``: whether a generic address is in a state space."""
    space = row.parts[1].partition("::")[0]
    number = {"global": 0, "shared": 1, "local": 2, "param": 3, "const": 0}.get(space)
    if number is None:
        raise Untranslatable("this state space is not known here")
    t.write(row.operands[0], f"({t.read(row.operands[1], 'u64')} >> u64(56)) == u64({number})")


# -- warp instructions -----------------------------------------------------------------------------


_ALL = "np.full((1, 1), 0xFFFFFFFF, u32)"


def _members(t: Translator, row: PtxInstruction, at: int) -> str:
    """The member mask of a ``.sync`` form; all lanes in the others."""
    return t.read(row.operands[at], "u32") if "sync" in row.parts else _ALL


def _shuffle(t: Translator, row: PtxInstruction) -> None:
    mode = next((p for p in row.parts if p in ("up", "down", "bfly", "idx")), None)
    if mode is None:
        raise Untranslatable("this mode is not known here")
    target, predicate = t.pair(row.operands[0])
    a, b, c = (t.read(o, "u32") for o in row.operands[1:4])
    t.emit(f"L = lanes.shuffle(m.lanes, {mode!r}, {a}, {b}, {c})")
    t.write(target, "L[0]")
    if predicate is not None:
        t.write(predicate, "L[1]")


def _vote(t: Translator, row: PtxInstruction) -> None:
    mode = next((p for p in row.parts if p in ("ballot", "any", "all", "uni")), None)
    if mode is None:
        raise Untranslatable("this mode is not known here")
    predicate = t.read(row.operands[1], "pred")
    members = _members(t, row, 2)
    t.write(row.operands[0], f"lanes.vote(m.lanes, {mode!r}, {predicate}, {t.mask}, {members})")


def _active(t: Translator, row: PtxInstruction) -> None:
    t.write(row.operands[0], f"lanes.ballot(m.lanes, np.ones((1, 1), bool), {t.mask})")


def _match(t: Translator, row: PtxInstruction) -> None:
    value = t.read(row.operands[1], f"u{row.kind[1:]}")
    members = _members(t, row, 2)
    target, predicate = t.pair(row.operands[0])
    if "any" in row.parts:
        t.write(target, f"lanes.match(m.lanes, {value}, {t.mask}, {members})")
        return
    t.emit(f"L = lanes.match_all(m.lanes, {value}, {t.mask}, {members})")
    t.write(target, "L[0]")
    if predicate is not None:
        t.write(predicate, "L[1]")


def _reduce(t: Translator, row: PtxInstruction) -> None:
    what = next((p for p in row.parts[1:] if p in ("add", "min", "max", "and", "or", "xor")), None)
    if what is None:
        raise Untranslatable("this operation is not known here")
    kind = row.kind if is_float(row.kind) or row.kind[0] == "s" else "u32"
    value, members = t.read(row.operands[1], kind), _members(t, row, 2)
    made = (
        f"lanes.reduce_warp(m.lanes, {what!r}, {value}, {t.mask}, {members}, "
        f"{'abs' in row.parts}, {'NaN' in row.parts})"
    )
    t.write(row.operands[0], t.result(made, kind))


def _elect(t: Translator, row: PtxInstruction) -> None:
    target, predicate = t.pair(row.operands[0])
    t.emit(f"L = lanes.elect(m.lanes, {t.mask}, {t.read(row.operands[1], 'u32')})")
    t.write(target, "L[0]")
    if predicate is not None:
        t.write(predicate, "L[1]")


def _warp_barrier(t: Translator, row: PtxInstruction) -> None:
    """``bar.warp.sync``: lanes of a warp that run together are together already."""


HANDLERS: Mapping[str, Handler] = {
    "shfl": _shuffle,
    "vote": _vote,
    "activemask": _active,
    "match": _match,
    "redux": _reduce,
    "elect": _elect,
    "bar": _warp_barrier,
    "barrier": _warp_barrier,
    "cp": _copy,
    "mbarrier": _barrier,
    "tensormap": _tensor_map,
    "mapa": _map_address,
    "getctarank": _rank,
    "isspacep": _is_in,
}
