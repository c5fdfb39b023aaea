"""The translation of instructions in which lanes of a warp see each other."""

from __future__ import annotations

from collections.abc import Mapping

from inspector.execute.kinds import is_float
from inspector.execute.translate import Handler, Translator, Untranslatable
from inspector.listing.ptx_code import PtxInstruction

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
    t.emit(f"L = warps.shuffle(m.lanes, {mode!r}, {a}, {b}, {c})")
    t.write(target, "L[0]")
    if predicate is not None:
        t.write(predicate, "L[1]")


def _vote(t: Translator, row: PtxInstruction) -> None:
    mode = next((p for p in row.parts if p in ("ballot", "any", "all", "uni")), None)
    if mode is None:
        raise Untranslatable("this mode is not known here")
    predicate = t.read(row.operands[1], "pred")
    members = _members(t, row, 2)
    t.write(row.operands[0], f"warps.vote(m.lanes, {mode!r}, {predicate}, {t.mask}, {members})")


def _active(t: Translator, row: PtxInstruction) -> None:
    t.write(row.operands[0], f"warps.ballot(m.lanes, np.ones((1, 1), bool), {t.mask})")


def _match(t: Translator, row: PtxInstruction) -> None:
    value = t.read(row.operands[1], f"u{row.kind[1:]}")
    members = _members(t, row, 2)
    target, predicate = t.pair(row.operands[0])
    if "any" in row.parts:
        t.write(target, f"warps.match(m.lanes, {value}, {t.mask}, {members})")
        return
    t.emit(f"L = warps.match_all(m.lanes, {value}, {t.mask}, {members})")
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
        f"warps.reduce_warp(m.lanes, {what!r}, {value}, {t.mask}, {members}, "
        f"{'abs' in row.parts}, {'NaN' in row.parts})"
    )
    t.write(row.operands[0], t.result(made, kind))


def _elect(t: Translator, row: PtxInstruction) -> None:
    target, predicate = t.pair(row.operands[0])
    t.emit(f"L = warps.elect(m.lanes, {t.mask}, {t.read(row.operands[1], 'u32')})")
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
}
