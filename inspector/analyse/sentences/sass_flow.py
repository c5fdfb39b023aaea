"""Branches, barriers, votes and shuffles of SASS."""

from __future__ import annotations

from collections.abc import Mapping

from inspector.analyse.sentences.sass_parts import (
    Pieces,
    SassInstruction,
    SassOperand,
    destination,
    form_of,
    integer,
    joined,
    many,
    where,
)

# -- memory ---------------------------------------------------------------------------------------
# Loads, stores, atomics and asynchronous copies of SASS.

_SMALL = {"U8": "8 bits, unsigned,", "S8": "8 bits, signed,", "U16": "16 bits, unsigned,",
          "S16": "16 bits, signed,"}  # fmt: skip


def _width(i: SassInstruction) -> str:
    small = i.first(_SMALL)
    return _SMALL[small] if small else many(i.bits)


def _policies(i: SassInstruction) -> list[str]:
    """Hints to the caches, and whom an ordered access is ordered for.

    Before sm_80 every access of global memory has .SYS; without .STRONG it means nothing.
    """
    return i.among("policies") + (i.among("scopes") if i.has("STRONG") else [])


def _memory(i: SassInstruction) -> SassOperand | None:
    return next((o for o in i.operands if "[" in o.bare), None)


def _address(i: SassInstruction, operand: SassOperand) -> str:
    # Before sm_90 nvdisasm names only the first register of a 64-bit address: [R2] with .E.
    pair = bool(i.string("pairs")) and i.has("E") and "desc[" not in operand.bare
    return where(i, operand, pair=pair)


def access(i: SassInstruction) -> Pieces | None:
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


def constant(i: SassInstruction) -> Pieces | None:
    """A load from a constant bank."""
    if len(i.operands) < 2:
        return None
    registers = max(1, i.bits // 32)
    d = destination(i, i.operands[0], registers)
    return {"d": d, "a": i.words.plain(i.operands[1], registers)}


def atomic(i: SassInstruction) -> Pieces | None:
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


def copy_async(i: SassInstruction) -> Pieces | None:
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


def matrices(i: SassInstruction) -> Pieces | None:
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


def tensor_memory(i: SassInstruction) -> Pieces | None:
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


def tensor_copy(i: SassInstruction) -> Pieces | None:
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


def mbarrier(i: SassInstruction) -> Pieces | None:
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


def branch(i: SassInstruction) -> Pieces | None:
    """To a label, or an address; a predicate operand is a second condition."""
    conditions = [i.words.predicate(o) for o in i.operands
                  if o.predicate and o.always is not True]  # fmt: skip
    others = [o for o in i.operands if not o.predicate]
    label = i.label
    by = ""
    registers = [o for o in others if o.file in ("R", "UR")]
    if registers or (others and others[0].bare.startswith(("R", "UR"))):
        by = registers[0].bare if registers else others[0].bare.split()[0]
    if label is None and not by:
        label = others[-1].bare if others else None
    if label is None and not by:
        return None
    to = _named(i, label) if label else f"the address in {by}"
    return {"label": to, "by": by or "a register",
            "bar": others[0].bare if others else "",
            "also": f", if {' and '.join(conditions)}" if conditions else "",
            "targets": ", ".join(i.line.targets[:8])}  # fmt: skip


def _named(i: SassInstruction, label: str) -> str:
    """A helper that the compiler added, by what it does."""
    table = i.table.get("helpers")
    if not isinstance(table, Mapping):
        return label
    for part, said in table.items():
        if part in label:
            return f"{label} ({said})"
    return label


def ends(i: SassInstruction) -> Pieces | None:
    """EXIT, with its second condition."""
    conditions = [i.words.predicate(o) for o in i.operands
                  if o.predicate and o.always is not True]  # fmt: skip
    return {"also": f", if {' and '.join(conditions)}" if conditions else ""}


def barrier(i: SassInstruction) -> Pieces | None:
    """BAR: which barrier, and how many threads where that is said."""
    variants = i.told.get("variants")
    if not isinstance(variants, Mapping):
        return None
    name = i.first(variants)
    if name is None:
        return None
    numbers = [o for o in i.operands if not o.predicate]
    predicate = next((o for o in i.operands if o.predicate), None)
    first = integer(numbers[0]) if numbers else 0
    which = f"barrier {first}" if first is not None else f"the barrier in {numbers[0].bare}"
    some = f"{i.words.plain(numbers[1])} threads" if len(numbers) > 1 else ""
    return {"form": f"variants.{name}", "which": which, "who": some or "all threads of the block",
            "p": i.words.predicate(predicate) if predicate else "a predicate"}  # fmt: skip


def shuffle(i: SassInstruction) -> Pieces | None:
    """SHFL: from which lane."""
    variants = i.told.get("variants")
    o = form_of(i)
    if not isinstance(variants, Mapping) or not {"d", "a", "n"} <= o.keys():
        return None
    name = i.first(variants)
    if name is None:
        return None
    valid = o.get("p")
    also = f"; {valid.bare} = whether that lane is in range" if (
        valid is not None and valid.always is None) else ""  # fmt: skip
    segment = integer(o["c"]) if "c" in o else None
    width = ""
    if segment is not None and segment >> 8 & 31:
        width = f", within groups of {32 - (segment >> 8 & 31)} lanes"
    return {"form": f"variants.{name}", "d": destination(i, o["d"]), "a": i.words.plain(o["a"]),
            "n": i.words.plain(o["n"]), "also": width + also}  # fmt: skip


def vote(i: SassInstruction) -> Pieces | None:
    """VOTE: the mask of lanes, whether all or any, or both."""
    o = list(i.operands)
    if not o:
        return None
    asked = i.words.predicate(o[-1])
    mask = next((x for x in o[:-1] if x.file in ("R", "UR")), None)
    flag = next((x for x in o[:-1] if x.predicate and x.always is None), None)
    kind = "all" if i.has("ALL") else "any" if i.has("ANY") else "all or none"
    out: list[str] = []
    if mask is not None and destination(i, mask) != "nowhere":
        what = "of the active lanes" if asked == "true" else f"of the lanes where {asked}"
        out.append(f"{mask.bare} = the mask {what}")
    if flag is not None:
        out.append(f"{flag.bare} = whether {asked} in {kind} of the active lanes")
    return {"value": ", ".join(out) or f"ask the warp for {asked}"}


def match(i: SassInstruction) -> Pieces | None:
    """MATCH: lanes with the same value."""
    o = list(i.operands)
    value = next((x for x in reversed(o) if x.file in ("R", "UR")), None)
    targets = [x for x in o if x is not value]
    if value is None or not targets:
        return None
    what = i.words.plain(value, 2 if i.has("U64") else 1)
    names = " and ".join(x.bare for x in targets if destination(i, x) != "nowhere")
    if i.has("ALL"):
        return {
            "value": f"{names} = whether (and the mask if) all active lanes hold the same {what}"
        }
    return {"value": f"{names} = the mask of the lanes that hold the same {what}"}


def wait(i: SassInstruction) -> Pieces | None:
    """DEPBAR, WARPGROUP.DEPBAR: a scoreboard and how many operations may be unfinished."""
    bar = next((o.bare for o in i.operands if o.file in ("SB", "gsb")), None)
    if bar is None:
        if i.has("ARRIVE"):
            return {"form": "arrive"}
        listed = [o.bare.strip("{} ") for o in i.operands]
        return {"form": "all", "bar": ", ".join(sorted(listed))} if listed else None
    count = next((integer(o) for o in i.operands if integer(o) is not None), 0) or 0
    left = f"until no more than {count} of its operations are unfinished" if count else \
        "until all its operations are done"  # fmt: skip
    return {"bar": bar, "left": left}


def plain(i: SassInstruction) -> Pieces | None:
    """The operands by the names of the entry's ``form``."""
    o = form_of(i)
    wide = i.string("wide").split()
    out: dict[str, str] = {}
    for name, operand in o.items():
        width = 2 if name in wide or (i.has("64") and not operand.predicate) else 1
        if name in ("d", "p", "q"):
            out[name] = destination(i, operand, width)
        elif operand.predicate:
            out[name] = i.words.predicate(operand)
        elif "[" in operand.bare and not operand.bare.startswith("c["):
            out[name] = where(i, operand)
        else:
            out[name] = i.words.signed(operand, width)
    extra = [s for s in (i.string("unit"), *i.among("notes")) if s]
    out["notes"] = f" ({', '.join(extra)})" if extra else ""
    out["also"] = ""
    return out
