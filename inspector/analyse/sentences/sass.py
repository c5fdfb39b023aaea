"""SASS read out: one sentence for each instruction, built from its parts.

The pieces of an opcode's sentence are in reference/sass_sentences.toml; an opcode that is
not in it gets the reference's summary and its operands.
"""

import re
import string
from collections.abc import Mapping
from itertools import islice
from typing import Any

from inspector.analyse.isa import Isa
from inspector.analyse.sentences import sass_values
from inspector.analyse.sentences.context import Context
from inspector.analyse.sentences.sass_parts import (
    Handler,
    Pieces,
    SassInstruction,
    SassOperand,
    SassWording,
    address,
    destination,
    integer,
    joined,
    many,
    take_apart,
    where,
)
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.listing.sass_operands import matrix_registers


def _policies(i: SassInstruction) -> list[str]:
    """Hints to the caches, and whom an ordered access is ordered for. Before sm_80 every access of
    global memory has .SYS; without .STRONG it means nothing."""
    return i.among("policies") + (i.among("scopes") if i.has("STRONG") else [])


def _memory(i: SassInstruction) -> list[SassOperand]:
    return [o for o in i.operands if "[" in o.bare]


def _unless(i: SassInstruction, instead: str) -> str:
    """``; 0 unless P0`` where the last predicate decides what is read."""
    conditions = [o for o in i.operands if o.predicate and o.always is None]
    return f"; {instead} unless {i.words.predicate(conditions[-1])}" if conditions else ""


def _address(i: SassInstruction, operand: SassOperand) -> str:
    # Before sm_90 nvdisasm names only the first register of a 64-bit address: [R2] with .E.
    pair = bool(i.string("pairs")) and i.has("E") and "desc[" not in operand.bare
    return where(operand, pair=pair)


def access(i: SassInstruction) -> Pieces | None:
    memory = _memory(i)[:1]
    data = [o for o in i.operands if o.general and o not in memory]
    if not memory or not data:
        return None
    registers = -(-i.bits // 32)
    d = destination(i, data[0], registers)
    if i.bits == 256 and len(data) > 1:
        # Of a load the upper four registers are named first, of a store the lower four.
        order = data[:2] if i.string("stores") else data[1::-1]
        d = " and ".join("nowhere" if o.zero else i.words.plain(o, 4) for o in order)
        d = f"from {d}" if i.string("stores") else d
    elif i.string("stores"):
        d = "of zeros" if data[-1].zero else f"from {i.words.plain(data[-1], registers)}"
    return {
        "d": d,
        "width": i.found("small") or many(i.bits),
        "address": _address(i, memory[0]),
        "also": _unless(i, "0"),
        "space": i.string("space"),
        "notes": joined(_policies(i)),
    }


def constant(i: SassInstruction) -> Pieces | None:
    if len(i.operands) < 2:
        return None
    registers = max(1, i.bits // 32)
    d = destination(i, i.operands[0], registers)
    return {"d": d, "a": i.words.plain(i.operands[1], registers)}


def atomic(i: SassInstruction) -> Pieces | None:
    """An atomic operation; the value before goes nowhere where nobody asks for it."""
    memory, name = _memory(i), i.first(i.table["atomics"])
    if not memory or name is None:
        return None
    at = i.operands.index(memory[0])
    registers = {64: 2, 128: 4}.get(i.bits, 1)
    values = [i.words.signed(o, registers) for o in i.operands[at + 1 :] if o.general]
    if not values and name != "POPC":
        return None
    text = i.table["atomics"][name].format(
        b="".join(values[:1]),
        c="?" if name == "CAS" and len(values) < 2 else "".join(values[-1:]),
        address=_address(i, memory[0]),
        space=i.string("space"),
    )
    before = [o for o in i.operands[:at] if o.general]
    d = destination(i, before[-1], registers) if before else "nowhere"
    unit = i.found("types") or ("64 bits" if i.bits == 64 else "")
    return {
        "value": text,
        "also": "" if d == "nowhere" else f"; the value before into {d}",
        "notes": joined([unit, *_policies(i)]),
    }


def copy_async(i: SassInstruction) -> Pieces | None:
    """LDGSTS: global to shared memory past the registers."""
    memory = _memory(i)
    if len(memory) < 2:
        return None
    return {
        "width": many(i.bits),
        "to": where(memory[0]),
        "from": where(memory[1], pair="desc[" not in memory[1].bare),
        "also": _unless(i, "zeros"),
        "notes": joined(_policies(i)),
    }


def matrices(i: SassInstruction) -> Pieces | None:
    """LDSM, STSM, LDTM, STTM: matrices in shared memory, or columns of tensor memory."""
    memory = _memory(i)
    data = [o for o in i.operands if o.file == "R"]
    if not memory or not data:
        return None
    registers = matrix_registers(i.base, i.qualifiers)
    count = next((int(q) for q in i.qualifiers[-1:] if q in ("2", "4")), 1)
    shapes = [f"shape {q}" for q in i.qualifiers if "dp" in q][:1]
    statistic = data[0] if i.has("STAT") and len(data) > 1 else None
    data = data[1:] if statistic is not None else data
    data_text = i.words.plain(data[0], registers)
    if memory[0] is not i.operands[0]:
        data_text = destination(i, data[0], registers)
    return {
        "count": str(registers if i.base in ("LDTM", "STTM") else count),
        "d": data_text,
        "address": where(memory[0]),
        "plural": "s" if registers > 1 else "",
        "matrices": "matrices" if count > 1 else "matrix",
        "elements": f"{i.found('matrix_shapes')} {i.found('matrix_elements')}",
        "notes": joined(
            ["transposed"] * i.has("MT88", "MT168", "MT1616") + shapes + i.among("columns")
        ),
        "also": _statistic(i, statistic),
    }


def _statistic(i: SassInstruction, operand: SassOperand | None) -> str:
    """LDTM.STAT: the minimum or maximum of what a thread loads."""
    if operand is None:
        return ""
    kind = i.found("statistics") or "statistic"
    unit = joined([i.found("units"), *i.among("nan")])
    return f", and the {kind} of them{unit} into {destination(i, operand)}"


def tensor_copy(i: SassInstruction) -> Pieces | None:
    """UTMALDG and its like: registers that hold addresses and coordinates, and a descriptor."""
    memory = _memory(i)
    if not memory:
        return None
    rank = next((q[0] for q in i.qualifiers if q in ("1D", "2D", "3D", "4D", "5D")), "")
    rows = i.has("GATHER4", "SCATTER4")
    tile = "four rows" if rows else f"a {rank}-dimensional tile"
    addresses = [o for o in memory if not o.bare.startswith("desc[")]
    hints = [f"cache policy {o.bare}" for o in memory if o not in addresses]
    packed = [o.bare for o in i.operands if o.file == "UR"]
    meanings = [*["offsets"] * i.has("IM2COL", "W", "W128"), *["blocks"] * i.has("MULTICAST")]
    return {
        "tile": tile if rank else "a tile",
        "coordinates": "a column and four rows" if rows else "coordinates",
        "a": where(addresses[0]) if addresses else "?",
        "b": where(addresses[-1]) if addresses else "?",
        "operation": (i.first(i.table["atomics"]) or "").lower(),
        "also": f", {' and '.join(meanings)} in {packed[0]}" if packed and meanings else "",
        "notes": joined([*i.among("tensor_modes"), *_policies(i), *hints]),
    }


def block_copy(i: SassInstruction) -> Pieces | None:
    """UBLKCP, UBLKRED, UBLKPF: a block of bytes between global and shared memory.

    ``.S.G`` is the destination's space, then the source's. Shared memory as the destination has
    its mbarrier in the register behind; the size counts 16 bytes.
    """
    memory = [o for o in _memory(i) if not o.bare.startswith("desc[")]
    hints = [f"cache policy {o.bare}" for o in _memory(i) if o not in memory]
    size = next((o.bare for o in i.operands if o.file == "UR"), None)
    spaces = {"S": "shared", "G": "global"}
    to, source = (spaces.get(q, "global") for q in (*i.qualifiers[:2], "", "")[:2])
    if not memory or size is None or (i.base != "UBLKPF" and len(memory) < 2):
        return None
    target = address(memory[0], pair=True) or memory[0].bare
    if to == "shared" and i.base != "UBLKPF":
        first, _, second = target.partition(":")
        target = f"{first}, its mbarrier at {second}" if second else first
    mask = ""
    if i.has("MULTICAST"):
        mask = f"; the mask of blocks is in the upper half of {size}"
    elif i.has("DST_G_BYTE_MASK"):
        mask = f"; which bytes of each 16 are written is in the upper half of {size}"
    return {
        "to": f"{to} memory at {target}",
        "from": f"{source} memory at {address(memory[-1], pair=source == 'global')}",
        "address": target,
        "size": f"{size} × 16 bytes" if not mask else f"the lower half of {size}, × 16 bytes,",
        "operation": (i.first(i.table["atomics"]) or "").lower(),
        "also": mask,
        "notes": joined([i.found("types"), *_policies(i), *hints]),
    }


_COPIED = re.compile(r"(?:[24]x)?(\d{1,3})dp(\d{1,3})bit")
"""``2x64dp128bit_lw02_lw13``: lanes and bits of tensor memory."""


def tensor_memory_copy(i: SassInstruction) -> Pieces | None:
    """UTCCP.T.S: shared memory to tensor memory."""
    if len(i.operands) < 2:
        return None
    shapes = (match for q in i.qualifiers if (match := _COPIED.match(q)))
    lanes, bits = next((match.groups() for match in shapes), ("128", "256"))
    return {
        "a": i.operands[0].bare,
        "b": i.operands[1].bare,
        "shape": f"{lanes} lanes × {bits} bits",
        "notes": joined(
            [*i.among("lane_copies"), *i.among("unpacked")]
            + ["two blocks together"] * i.has("2CTA")
        ),
    }


def multicast_load(i: SassInstruction) -> Pieces | None:
    """LDGMC: one value of the copies of all GPUs."""
    memory = _memory(i)
    if not memory or memory[0] is i.operands[0]:
        return None
    return {
        "d": destination(i, i.operands[0], max(1, i.bits // 32)),
        "address": address(memory[0], pair=True) or memory[0].bare,
        "width": many(i.bits),
        "operation": i.found("reductions") or "combined",
        "notes": joined([i.found("types") or i.first_packed, *_policies(i)]),
    }


def remote_store(i: SassInstruction) -> Pieces | None:
    """STAS, REDAS: a register pair has the address and the mbarrier in another block's memory."""
    memory = _memory(i)
    data = [o for o in i.operands if o.general and o not in memory]
    if not memory or not data:
        return None
    pair = address(memory[0]) or memory[0].bare
    first, _, second = pair.partition(":")
    return {
        "d": "zeros" if data[-1].zero else i.words.plain(data[-1], max(1, i.bits // 32)),
        "width": many(i.bits),
        "address": first,
        "bar": second or first,
        "operation": (i.first(i.table["atomics"]) or "").lower(),
        "notes": joined([i.found("types")]),
    }


def mbarrier(i: SassInstruction) -> Pieces | None:
    """SYNCS: what it does with which mbarrier, by its qualifiers."""
    memory = _memory(i)
    if not memory:
        return None
    rest = [x for x in i.operands if x is not memory[0]]
    first = destination(i, rest[0], 2 if i.has("TRANS64") else 1) if rest else "nowhere"
    last = i.words.plain(rest[-1], 2 if i.variant == "EXCH" else 1) if rest else ""
    state = "" if first == "nowhere" or len(rest) < 2 else f"; the state before into {first}"
    count = next((text for name, text in i.table["arrivals"].items() if i.has(name)), None)
    count = count or i.table["arrivals"]["TRANS64"]
    return {
        "address": where(memory[0]),
        "p": first,
        "a": last,
        "also": state,
        "form": "poll" if i.variant == "PHASECHK" and not i.has("TRYWAIT") else "",
        "count": count.format(a=last, address=where(memory[0])),
        "notes": joined(["one arrival fewer from now on"] * i.has("OPTOUT")),
    }


def _conditions(i: SassInstruction) -> str:
    """``, if P0``: predicate operands are further conditions beside the guard."""
    conditions = [i.words.predicate(o) for o in i.operands if o.predicate and o.always is not True]
    return f", if {' and '.join(conditions)}" if conditions else ""


def branch(i: SassInstruction) -> Pieces | None:
    """To a label, or an address; a predicate operand is a second condition."""
    others = [o.bare for o in i.operands if not o.predicate]
    by = next((o.bare for o in i.operands if o.general), "")
    if not by and others and others[0].startswith(("R", "UR")):
        by = others[0].split()[0]
    label = i.label
    if label is None and not by:
        if not others:
            return None
        label = others[-1]
    to = label or f"the address in {by}"
    # Of the compiler's own functions, what they do.
    helpers = (said for part, said in i.table["helpers"].items() if part in (label or ""))
    to += "".join(f" ({said})" for said in islice(helpers, 1))
    return {
        "label": to,
        "by": by or "a register",
        "bar": others[0] if others else "",
        "also": _conditions(i),
        "targets": ", ".join(i.line.targets[:8]),
    }


def ends(i: SassInstruction) -> Pieces:
    return {"also": _conditions(i)}


def barrier(i: SassInstruction) -> Pieces:
    numbers = [o for o in i.operands if not o.predicate]
    predicate = next((i.words.predicate(o) for o in i.operands if o.predicate), "a predicate")
    first = integer(numbers[0]) if numbers else 0
    return {
        "which": f"the barrier in {numbers[0].bare}" if first is None else f"barrier {first}",
        "who": f"{i.words.plain(numbers[1])} threads"
        if len(numbers) > 1
        else "all threads of the block",
        "p": predicate,
    }


def shuffle(i: SassInstruction) -> Pieces:
    valid, segment = i.o.get("p"), integer(i.o["c"]) if "c" in i.o else None
    also = ""
    if segment is not None and segment >> 8 & 31:
        also = f", within groups of {32 - (segment >> 8 & 31)} lanes"
    if valid is not None and valid.always is None:
        also += f"; {valid.bare} = whether that lane is in range"
    return {
        "d": destination(i, i.o["d"]),
        "a": i.words.plain(i.o["a"]),
        "n": i.words.plain(i.o["n"]),
        "also": also,
    }


def vote(i: SassInstruction) -> Pieces | None:
    """VOTE: the mask of lanes, whether all or any, or both."""
    if not i.operands:
        return None
    *targets, last = i.operands
    asked = i.words.predicate(last)
    kind = "all" if i.has("ALL") else "any" if i.has("ANY") else "all or none"
    lanes = "of the active lanes" if asked == "true" else f"of the lanes where {asked}"
    masks = [x for x in targets if x.general][:1]
    out = [f"{x.bare} = the mask {lanes}" for x in masks if x.number is not None]
    out += [
        f"{x.bare} = whether {asked} in {kind} of the active lanes"
        for x in targets
        if x.predicate and x.always is None
    ][:1]
    return {"value": ", ".join(out) or f"ask the warp for {asked}"}


def highest_bit(i: SassInstruction) -> Pieces:
    """FLO: of an unsigned number, or of a signed one; its place, or the shift that takes it up."""
    kinds = [name for name in ("U32", "SH") if i.has(name)]
    return {
        "d": destination(i, i.o["d"]),
        "a": i.words.plain(i.o["a"]),
        "form": "_".join(kinds),
    }


def match(i: SassInstruction) -> Pieces | None:
    value = next((x for x in reversed(i.operands) if x.general), None)
    targets = [x for x in i.operands if x is not value]
    if value is None or not targets:
        return None
    names = " and ".join(x.bare for x in targets if destination(i, x) != "nowhere")
    kind = "the mask of the lanes that hold"
    if i.has("ALL"):
        kind = "whether (and the mask if) all active lanes hold"
    return {"value": f"{names} = {kind} the same {i.words.plain(value, 2 if i.has('U64') else 1)}"}


def wait(i: SassInstruction) -> Pieces | None:
    """DEPBAR, WARPGROUP.DEPBAR: a scoreboard and how many operations may be unfinished."""
    bar = next((o.bare for o in i.operands if o.file in ("SB", "gsb")), None)
    if bar is None:
        if i.has("ARRIVE"):
            return {"form": "arrive"}
        listed = sorted(o.bare.strip("{} ") for o in i.operands)
        return {"form": "all", "bar": ", ".join(listed)} if listed else None
    count = next((n for o in i.operands if (n := integer(o)) is not None), 0)
    left = "until all its operations are done"
    if count:
        left = f"until no more than {count} of its operations are unfinished"
    return {"bar": bar, "left": left}


def plain(i: SassInstruction) -> Pieces:
    """The operands by the names of the entry's ``form``."""
    wide = i.string("wide").split()
    out: dict[str, str] = {}
    for name, operand in i.o.items():
        width = 2 if name in wide or (i.has("64") and not operand.predicate) else 1
        if name in ("d", "p", "q"):
            out[name] = destination(i, operand, width)
        elif operand.predicate:
            out[name] = i.words.predicate(operand)
        elif "[" in operand.bare and not operand.bare.startswith("c["):
            out[name] = where(operand)
        else:
            out[name] = i.words.signed(operand, width)
    unit = i.string("unit") or i.found(i.string("units") or "units")
    return {**out, "notes": joined([unit, *i.among("notes"), *i.among("nan")])}


# What the driver and the compiler put there.

_TARGET = re.compile(r"sm_?(\d{2,3})[af]?\b|EF_CUDA_SM(\d{2,3})")


def architecture(listing: Listing, context: Context) -> int | None:
    """90 of sm_90a: what the context says, else the head of the listing."""
    texts = [context.target or ""]
    texts += [line.text for line in islice(iter(listing.lines), 40)]
    for text in texts:
        says = text == context.target or any(w in text for w in (".target", "EF_CUDA", "code for"))
        if says and (match := _TARGET.search(text)):
            return int(match[1] or match[2])
    return None


HANDLERS: Mapping[str, tuple[Handler, str]] = {
    "access": (access, ""),
    "atomic": (atomic, ""),
    "constant": (constant, ""),
    "copy_async": (copy_async, ""),
    "matrices": (matrices, ""),
    "mbarrier": (mbarrier, ""),
    "tensor_copy": (tensor_copy, ""),
    "block_copy": (block_copy, ""),
    "tensor_memory_copy": (tensor_memory_copy, ""),
    "multicast_load": (multicast_load, ""),
    "remote_store": (remote_store, ""),
    "compute": (sass_values.compute, "d"),
    "compare": (sass_values.compare, "p a b"),
    "logic": (sass_values.logic, "d a b c lut"),
    "predicates": (sass_values.predicates, "p q a b c lut"),
    "smaller": (sass_values.smaller, "d a b r"),
    "convert": (sass_values.convert, "d a"),
    "function": (sass_values.function, "d a"),
    "lea": (sass_values.lea, "d a b"),
    "permute": (sass_values.permute, "d a n c"),
    "select": (sass_values.select, "d a b r"),
    "shift": (sass_values.shift, "d a n c"),
    "special": (sass_values.special, "d a"),
    "product": (sass_values.product, ""),
    "group_product": (sass_values.group_product, ""),
    "block_product": (sass_values.block_product, ""),
    "barrier": (barrier, ""),
    "branch": (branch, ""),
    "ends": (ends, ""),
    "highest_bit": (highest_bit, "d a"),
    "match": (match, ""),
    "plain": (plain, ""),
    "shuffle": (shuffle, "d a n"),
    "vote": (vote, ""),
    "wait": (wait, ""),
}
"""How to take an instruction apart, and the operands of its form that this needs."""

MAX_LINE_CHARS = 4096
"""Characters of a line that is read; no instruction comes near."""


class SassReader:
    """Sentences of one function. ``templates`` is sass_sentences.toml, parsed."""

    def __init__(
        self,
        listing: Listing,
        function: Function | None,
        isa: Isa,
        templates: Mapping[str, Any],
        context: Context | None = None,
    ) -> None:
        self._listing = listing
        self._function = function
        self._isa = isa
        self._table = templates
        self._context = context or Context()
        self._words = SassWording(
            templates["banks"], architecture(listing, self._context), self._context
        )

    def sentence(self, n: int) -> str | None:
        of = self._function or Function("", 1, len(self._listing.lines))
        line = self._listing.lines[n - 1] if of.first <= n <= of.last else None
        if line is None or line.kind is not Kind.INSTRUCTION or len(line.text) > MAX_LINE_CHARS:
            return None
        i = take_apart(line, self._words, self._context, self._of(line.base or ""), self._table)
        text = None if i is None else self._told_of(i) or self._summary(line, i)
        return _guarded(i, text) if i is not None and text else None

    def _told_of(self, i: SassInstruction) -> str | None:
        handler, needed = HANDLERS[i.string("handler") or "plain"]
        pieces = handler(i) if i.told and i.o.keys() >= set(needed.split()) else None
        if pieces is None:
            return None
        # ``form`` names another template than ``say``, of the entry or of the table ``say``.
        shared = self._table["say"]
        if form := pieces.get("form"):
            template = i.told.get(form) or shared.get(form, "")
        elif i.variant:
            template = i.told["variants"][i.variant]
        else:
            template = i.told.get("say", shared["value"])
        return _filled(template, {"notes": sass_values.notes(i), "also": "", **pieces})

    def _summary(self, line: Line, i: SassInstruction) -> str | None:
        """The reference's summary with the operands as they stand."""
        entry = self._isa.sass(line.opcode or "") or self._isa.sass(line.base or "")
        if entry is None:
            return None
        summary = entry.summary.rstrip(".")
        text = summary[:1].lower() + summary[1:]
        operands = [o.text.replace(".reuse", "") for o in i.operands]
        operands += [i.label] if i.label else []
        return f"{text}: {', '.join(operands)}" if operands else text

    def _of(self, base: str) -> Mapping[str, Any]:
        """The entry of an opcode, with what the one that it is ``like`` says."""
        opcodes = self._table["opcodes"]
        entry = opcodes.get(base, {})
        return {**opcodes[entry["like"]], **entry} if "like" in entry else entry


def _filled(template: str, pieces: Pieces) -> str | None:
    needed = [name for _, name, _, _ in string.Formatter().parse(template) if name]
    if not all(name in pieces for name in needed):
        return None
    text = template.format_map(pieces).replace("  ", " ").strip()
    return text.replace(" into nowhere", " (unused)").replace("nowhere =", "unused:")


def _guarded(i: SassInstruction, text: str) -> str:
    if i.guard is None:
        return text
    name = i.guard.lstrip("!")
    if name in ("PT", "UPT"):
        return f"never (the guard is false): {text}" if i.guard != name else text
    return f"{'unless' if i.guard != name else 'if'} {name}: {text}"
