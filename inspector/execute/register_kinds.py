"""What the bits in a kernel's registers are: PTX declares most registers ``.b32`` and says it not.

A register is what the instructions that compute with it say; one that is only moved has the type of
what it is moved from or to.
"""

from __future__ import annotations

from inspector.execute.blocks import defines
from inspector.execute.kinds import WIDTHS, is_float
from inspector.listing.ptx_code import PtxFunction, PtxInstruction, registers_in

_MOVES = frozenset(("mov", "ld", "st", "selp", "shfl", "ldu", "prmt", "atom", "red"))
_ROUNDS = 4
"""Times that types are passed on along moves; chains of moves that are longer are rare."""


def register_kinds(code: PtxFunction, carry: int) -> list[str]:
    """The type of each register: ``f32``, ``s32``, ``u64``, ``pred``, ``bf16x2``, …"""
    votes: list[dict[str, int]] = [{} for _ in range(len(code.registers) + 1)]
    moves: list[list[int]] = []
    for row in code.instructions:
        if row.base in _MOVES and not is_float(row.kind):
            written, read = defines(row, carry)
            joined = [r for r in (*written, *read) if r != row.guard]
            if len(joined) > 1:
                moves.append(joined)
            continue
        for register, kind in _said(row):
            # The address of a float is not a float.
            if not is_float(kind) or WIDTHS[kind] == WIDTHS.get(_declared(code, register)):
                votes[register][kind] = votes[register].get(kind, 0) + 1
    kinds = [_chosen(vote) for vote in votes]
    for _ in range(_ROUNDS):
        changed = False
        for joined in moves:
            for kind in {kinds[r] for r in joined if is_float(kinds[r] or "b")}:
                for r in joined:
                    declared = _declared(code, r)
                    if not kinds[r] and WIDTHS.get(declared) == WIDTHS.get(kind):
                        kinds[r], changed = kind, True
        if not changed:
            break
    own = [_declared(code, r) for r in range(len(kinds))]
    # A predicate stays one in an instruction of another type.
    return [d if d == "pred" else kind or d for kind, d in zip(kinds, own, strict=True)]


def _declared(code: PtxFunction, register: int) -> str:
    return code.registers[register] if register < len(code.registers) else "b64"


def _said(row: PtxInstruction) -> list[tuple[int, str]]:
    """What an instruction says of its registers."""
    named = [p for p in row.parts[1:] if p in WIDTHS]
    if not named or not row.operands:
        return []
    target, *sources = row.operands
    out: list[tuple[int, str]] = []
    if row.base in ("cvt", "set", "slct") and len(named) > 1:
        first, second = named[0], named[1]
        out += [(r, first) for r in registers_in(target)]
        out += [(r, second) for operand in sources for r in registers_in(operand)]
    elif row.base == "setp":
        out += [(r, named[-1]) for operand in sources[:2] for r in registers_in(operand)]
    elif row.base in ("mma", "wgmma"):
        kind = named[0] if named[0] != "f16" else "f16x2"
        out += [(r, kind) for r in registers_in(target)]
    elif row.base in ("mul", "mad") and "wide" in row.parts:
        letter, width = named[-1][0], WIDTHS[named[-1]]
        out += [(r, f"{letter}{2 * width}") for r in registers_in(target)]
        out += [(r, named[-1]) for operand in sources[:2] for r in registers_in(operand)]
    elif row.base in ("popc", "clz", "bfind"):
        out += [(r, "u32") for r in registers_in(target)]
    elif row.base not in ("cvta", "bar", "barrier", "mbarrier", "cp", "ldmatrix", "createpolicy"):
        kind = named[-1]
        out += [(r, kind) for operand in row.operands for r in registers_in(operand)]
    return out


def _chosen(vote: dict[str, int]) -> str:
    """Floating point where an instruction computes in it; else the most frequent."""
    real = {kind: n for kind, n in vote.items() if is_float(kind)}
    told = {kind: n for kind, n in vote.items() if kind[0] in "us" or kind == "pred"}
    best = real or told
    return max(best, key=lambda kind: best[kind]) if best else ""
