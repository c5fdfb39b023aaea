"""Branches, barriers, votes and shuffles of SASS."""

from __future__ import annotations

from collections.abc import Mapping

from inspector.analyse.sentences.sass_parts import (
    Instruction,
    Pieces,
    destination,
    form_of,
    integer,
    where,
)


def branch(i: Instruction) -> Pieces | None:
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


def _named(i: Instruction, label: str) -> str:
    """A helper that the compiler added, by what it does."""
    known = i.table.get("helpers")
    if not isinstance(known, Mapping):
        return label
    for part, said in known.items():
        if part in label:
            return f"{label} ({said})"
    return label


def ends(i: Instruction) -> Pieces | None:
    """EXIT, with its second condition."""
    conditions = [i.words.predicate(o) for o in i.operands
                  if o.predicate and o.always is not True]  # fmt: skip
    return {"also": f", if {' and '.join(conditions)}" if conditions else ""}


def barrier(i: Instruction) -> Pieces | None:
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


def shuffle(i: Instruction) -> Pieces | None:
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


def vote(i: Instruction) -> Pieces | None:
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


def match(i: Instruction) -> Pieces | None:
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


def wait(i: Instruction) -> Pieces | None:
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


def plain(i: Instruction) -> Pieces | None:
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
