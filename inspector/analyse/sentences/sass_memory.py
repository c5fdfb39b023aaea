"""Loads, stores, atomics and asynchronous copies of SASS."""

from __future__ import annotations

from collections.abc import Mapping

from inspector.analyse.sentences.sass_operands import Operand
from inspector.analyse.sentences.sass_parts import (
    Instruction,
    Pieces,
    destination,
    joined,
    many,
    where,
)

_SMALL = {"U8": "8 bits, unsigned,", "S8": "8 bits, signed,", "U16": "16 bits, unsigned,",
          "S16": "16 bits, signed,"}  # fmt: skip


def _width(i: Instruction) -> str:
    small = i.first(_SMALL)
    return _SMALL[small] if small else many(i.bits)


def _policies(i: Instruction) -> list[str]:
    """Hints to the caches, and whom an ordered access is ordered for.

    Before sm_80 every access of global memory has .SYS; without .STRONG it means nothing.
    """
    return i.among("policies") + (i.among("scopes") if i.has("STRONG") else [])


def _memory(i: Instruction) -> Operand | None:
    return next((o for o in i.operands if "[" in o.bare), None)


def _address(i: Instruction, operand: Operand) -> str:
    # Before sm_90 nvdisasm names only the first register of a 64-bit address: [R2] with .E.
    pair = bool(i.string("pairs")) and i.has("E") and "desc[" not in operand.bare
    return where(i, operand, pair=pair)


def access(i: Instruction) -> Pieces | None:
    """A load or a store: how much, where, into or from which registers."""
    memory = _memory(i)
    if memory is None:
        return None
    data = [o for o in i.operands if o.file in ("R", "UR") and o is not memory]
    registers = -(-i.bits // 32)
    conditions = [o for o in i.operands if o.predicate and o.always is None]
    also = f"; 0 unless {i.words.predicate(conditions[-1])}" if conditions else ""
    if not data:
        return None
    d = destination(i, data[0], registers)
    if i.string("stores"):
        d = "of zeros" if data[-1].zero else f"from {i.words.plain(data[-1], registers)}"
    return {"d": d, "width": _width(i), "address": _address(i, memory), "also": also,
            "space": i.string("space"), "notes": joined(_policies(i))}  # fmt: skip


def constant(i: Instruction) -> Pieces | None:
    """A load from a constant bank."""
    if len(i.operands) < 2:
        return None
    registers = max(1, i.bits // 32)
    d = destination(i, i.operands[0], registers)
    return {"d": d, "a": i.words.plain(i.operands[1], registers)}


def atomic(i: Instruction) -> Pieces | None:
    """An atomic operation; the value before goes nowhere where nobody asks for it."""
    memory = _memory(i)
    operations = i.table.get("atomics")
    if memory is None or not isinstance(operations, Mapping):
        return None
    name = i.first(operations)
    at = i.operands.index(memory)
    values = [o for o in i.operands[at + 1 :] if o.file in ("R", "UR")]
    if name is None or (not values and name != "POPC"):
        return None
    registers = 2 if i.bits == 64 else 4 if i.bits == 128 else 1
    texts = [i.words.signed(v, registers) for v in values] or [""]
    if name == "CAS":
        texts += ["?"] if len(texts) < 2 else []
    text = str(operations[name]).format(
        b=texts[0], c=texts[-1], address=_address(i, memory), space=i.string("space")
    )
    before = [o for o in i.operands[:at] if o.file in ("R", "UR")]
    d = destination(i, before[-1], registers) if before else "nowhere"
    types = i.table.get("types")
    kind = i.first(types) if isinstance(types, Mapping) else None
    unit = str(types[kind]) if isinstance(types, Mapping) and kind else ""
    if not unit and i.bits == 64:
        unit = "64 bits"
    return {"value": text, "also": "" if d == "nowhere" else f"; the value before into {d}",
            "notes": joined([unit, *_policies(i)])}  # fmt: skip


def copy_async(i: Instruction) -> Pieces | None:
    """LDGSTS: global to shared memory past the registers."""
    memory = [o for o in i.operands if "[" in o.bare]
    if len(memory) < 2:
        return None
    conditions = [o for o in i.operands if o.predicate and o.always is None]
    also = f"; zeros unless {i.words.predicate(conditions[-1])}" if conditions else ""
    pair = "desc[" not in memory[1].bare
    return {"width": many(i.bits), "to": where(i, memory[0]),
            "from": where(i, memory[1], pair=pair), "also": also,
            "notes": joined(_policies(i))}  # fmt: skip


def matrices(i: Instruction) -> Pieces | None:
    """LDSM, STSM: one, two or four matrices of 8×8 elements of 16 bits."""
    memory = _memory(i)
    data = [o for o in i.operands if o.file == "R"]
    if memory is None or not data:
        return None
    count = next((int(q) for q in reversed(i.qualifiers) if q in ("1", "2", "4")), 1)
    transposed = "transposed" if i.has("MT88", "MT168") else ""
    return {"count": f"{count} matrices" if count > 1 else "1 matrix",
            "d": i.words.plain(data[0], count), "address": where(i, memory),
            "notes": joined([transposed])}  # fmt: skip


def tensor_memory(i: Instruction) -> Pieces | None:
    """LDTM, STTM: a number of columns of tensor memory."""
    memory = _memory(i)
    data = [o for o in i.operands if o.file == "R"]
    times = next((int(q[1:]) for q in i.qualifiers if q[:1] == "x" and q[1:].isdecimal()), 1)
    if memory is None or not data:
        return None
    shape = next((q for q in i.qualifiers if "dp" in q), "")
    return {"count": str(times), "d": i.words.plain(data[0], min(times, 255)),
            "address": where(i, memory), "plural": "s" if times > 1 else "",
            "notes": joined([f"shape {shape}" if shape else ""])}  # fmt: skip


def tensor_copy(i: Instruction) -> Pieces | None:
    """UTMALDG and its like: registers that hold addresses and coordinates, and a descriptor."""
    memory = [o for o in i.operands if "[" in o.bare]
    if not memory:
        return None
    rank = next((q[0] for q in i.qualifiers if q in ("1D", "2D", "3D", "4D", "5D")), "")
    tile = f"{rank}-dimensional tile" if rank else "tile"
    kinds = i.table.get("atomics")
    kind = i.first(kinds) if isinstance(kinds, Mapping) else None
    return {"tile": tile, "a": where(i, memory[0]), "b": where(i, memory[-1]),
            "operation": (kind or "").lower(), "notes": joined(_policies(i))}  # fmt: skip


def mbarrier(i: Instruction) -> Pieces | None:
    """SYNCS: what it does with which mbarrier, by its qualifiers."""
    memory = _memory(i)
    variants = i.told.get("variants")
    if memory is None or not isinstance(variants, Mapping):
        return None
    name = i.first(variants)
    if name is None:
        return None
    rest = [x for x in i.operands if x is not memory]
    first = destination(i, rest[0]) if rest else "nowhere"
    last = i.words.plain(rest[-1], 2 if name == "EXCH" else 1) if rest else ""
    state = "" if first == "nowhere" or len(rest) < 2 else f"; the state before into {first}"
    return {"form": f"variants.{name}", "address": where(i, memory), "p": first, "a": last,
            "also": state}  # fmt: skip
