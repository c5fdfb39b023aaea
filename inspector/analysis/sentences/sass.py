"""SASS read out: one sentence for each instruction, built from its parts.

The pieces of an opcode's sentence are in reference/sass_sentences.toml; an opcode that is
not in it gets the reference's summary and its operands.
"""

import re
import string
from collections.abc import Mapping
from itertools import islice
from typing import Any

from inspector.analysis.isa import Isa
from inspector.analysis.sentences import sass_conversions, sass_memory, sass_values
from inspector.analysis.sentences.context import Context
from inspector.analysis.sentences.sass_parts import (
    Handler,
    Pieces,
    SassInstruction,
    SassWording,
    address_text,
    destination,
    integer,
    joined,
    take_apart,
)
from inspector.parsers.line import Function, Kind, Line, Listing


def _conditions(i: SassInstruction) -> str:
    """``, if P0``: predicate operands are further conditions beside the guard."""
    conditions = [i.words.predicate(o) for o in i.operands if o.predicate and o.always is not True]
    return f", if {' and '.join(conditions)}" if conditions else ""


def branch(i: SassInstruction) -> Pieces | None:
    """To a label, or an address; a predicate operand is a second condition."""
    values = [o.core for o in i.operands if not o.predicate]
    address_register = next((o.core for o in i.operands if o.general), "")
    if not address_register and values and values[0].startswith(("R", "UR")):
        address_register = values[0].split()[0]
    label = i.label
    if label is None and not address_register:
        if not values:
            return None
        label = values[-1]
    target = label or f"the address in {address_register}"
    return {
        "d": destination(i, i.o["d"], 2) if "d" in i.o else "",
        "label": target + _helper(i, label or ""),
        "by": address_register or "a register",
        "bar": values[0] if values else "",
        "also": _conditions(i),
        "targets": ", ".join(i.line.targets[:8]),
    }


def _helper(i: SassInstruction, label: str) -> str:
    """What a function that the compiler added does."""
    for part, text in i.table["helpers"].items():
        if part in label:
            return f" ({text})"
    return ""


def ends(i: SassInstruction) -> Pieces:
    return {"also": _conditions(i)}


def barrier(i: SassInstruction) -> Pieces:
    numbers = [o for o in i.operands if not o.predicate]
    predicate = next((i.words.predicate(o) for o in i.operands if o.predicate), "a predicate")
    first = integer(numbers[0]) if numbers else 0
    threads = "all threads of the block"
    if len(numbers) > 1:
        threads = f"{i.words.unsigned(numbers[1])} threads"
    return {
        "which": f"the barrier in {numbers[0].core}" if first is None else f"barrier {first}",
        "who": threads,
        "p": predicate,
    }


def shuffle(i: SassInstruction) -> Pieces:
    valid = i.o.get("p")
    segment = integer(i.o["c"]) if "c" in i.o else None
    also = ""
    if segment is not None and segment >> 8 & 31:
        also = f", within groups of {32 - (segment >> 8 & 31)} lanes"
    if valid is not None and valid.always is None:
        also += f"; {valid.core} = whether that lane is in range"
    return {
        "d": destination(i, i.o["d"]),
        "a": i.words.unsigned(i.o["a"]),
        "n": i.words.unsigned(i.o["n"]),
        "also": also,
    }


def vote(i: SassInstruction) -> Pieces | None:
    """VOTE: the mask of lanes, whether all or any, or both."""
    if not i.operands:
        return None
    *targets, last = i.operands
    condition = i.words.predicate(last)
    if i.has("ALL"):
        kind = "all"
    elif i.has("ANY"):
        kind = "any"
    else:
        kind = "all or none"
    results = []
    mask = next((target for target in targets if target.general), None)
    if mask is not None and mask.number is not None:
        active = "active lanes" if condition == "true" else f"lanes where {condition}"
        results.append(f"{mask.core} = the mask of the {active}")
    flags = (target for target in targets if target.predicate and target.always is None)
    flag = next(flags, None)
    if flag is not None:
        results.append(f"{flag.core} = whether {condition} in {kind} of the active lanes")
    return {"value": ", ".join(results) or f"ask the warp for {condition}"}


def highest_bit(i: SassInstruction) -> Pieces:
    """FLO: of an unsigned number, or of a signed one; its place, or the shift that takes it up."""
    kinds = [name for name in ("U32", "SH") if i.has(name)]
    return {
        "d": destination(i, i.o["d"]),
        "a": i.words.unsigned(i.o["a"]),
        "form": "_".join(kinds),
    }


def extension(i: SassInstruction) -> Pieces:
    """SGXT: of a signed or an unsigned number, the count clamped or wrapped."""
    return {**operands_by_name(i), "form": "_".join(name for name in ("W", "U32") if i.has(name))}


def reduction(i: SassInstruction) -> Pieces:
    """REDUX, CREDUX: what is neither signed nor a float is unsigned."""
    unit = i.first_text("units") or ("unsigned" if i.has("MIN", "MAX", "SUM") else "")
    return {**operands_by_name(i), "notes": joined([unit, *i.among("nan")])}


def byte_differences(i: SassInstruction) -> Pieces:
    """VABSDIFF4: of each byte, or their sum (``ACC``)."""
    sign = "signed" if i.has("S8") else "unsigned"
    a = i.words.signed(i.o["a"])
    b = i.words.signed(i.o["b"])
    text = f"the absolute differences of the {sign} bytes of {a} and {b}"
    if i.has("ACC"):
        text = f"the sum of {text}{_plus_c(i)}"
    return {"d": destination(i, i.o["d"]), "value": text, "notes": ""}


def match(i: SassInstruction) -> Pieces | None:
    """MATCH: the lanes that hold the same value as this one, or whether all do."""
    value = next((operand for operand in reversed(i.operands) if operand.general), None)
    if value is None:
        return None
    text = f"the same {i.words.unsigned(value, 2 if i.has('U64') else 1)}"
    targets = [operand for operand in i.operands if operand is not value]
    masks = [o.core for o in targets if o.general and destination(i, o) != "nowhere"]
    if i.has("ALL"):
        flags = [o.core for o in targets if o.predicate and o.always is None]
        results = [f"{m} = the mask of the active lanes if all hold {text}, else 0" for m in masks]
        results += [f"{flag} = whether all active lanes hold {text}" for flag in flags]
    else:
        results = [f"{mask} = the mask of the lanes that hold {text}" for mask in masks[:1]]
    return {"value": ", ".join(results)} if results else None


def wait(i: SassInstruction) -> Pieces | None:
    """DEPBAR, WARPGROUP.DEPBAR: a scoreboard and how many operations may be unfinished."""
    bar = next((o.core for o in i.operands if o.file in ("SB", "gsb")), None)
    if bar is None:
        if i.has("ARRIVE"):
            return {"form": "arrive"}
        listed = sorted(o.core.strip("{} ") for o in i.operands)
        return {"form": "all", "bar": ", ".join(listed)} if listed else None
    counts = (integer(operand) for operand in i.operands)
    count = next((count for count in counts if count is not None), 0)
    condition = "until all its operations are done"
    if count:
        condition = f"until no more than {count} of its operations are unfinished"
    return {"bar": bar, "left": condition}


def operands_by_name(i: SassInstruction) -> Pieces:
    """The operands by the names of the entry's ``form``."""
    wide = i.string("wide").split()
    out: dict[str, str] = {}
    for name, operand in i.o.items():
        width = 2 if name in wide or (i.has("64") and not operand.predicate) else 1
        if name in ("d", "p", "q"):
            out[name] = destination(i, operand, width)
        elif operand.predicate:
            out[name] = i.words.predicate(operand)
        elif "[" in operand.core and not operand.core.startswith("c["):
            out[name] = address_text(operand)
        else:
            out[name] = i.words.signed(operand, width)
    unit = i.string("unit") or i.first_text(i.string("units") or "units")
    notes = [unit, *i.among("notes"), *i.among("nan"), *i.among("block_pairs")]
    return {**out, "notes": joined(notes)}


def dot_product(i: SassInstruction) -> Pieces | None:
    """IDP: two halves of one operand by two bytes of the other (``2A``), or four bytes (``4A``)."""
    signs = ["unsigned" if q[0] == "U" else "signed" for q in i.qualifiers if q[:1] in ("S", "U")]
    if len(signs) < 2:
        return None
    halves = i.has("2A")
    a_parts = f"{signs[0]} {'halves' if halves else 'bytes'}"
    b_parts = f"{signs[1]} bytes"
    if halves:
        b_parts = f"{'upper' if i.has('HI') else 'lower'} two {b_parts}"
    a = i.words.signed(i.o["a"])
    b = i.words.signed(i.o["b"])
    products = f"the products of the {a_parts} of {a} and the {b_parts} of {b}"
    return {"d": destination(i, i.o["d"]), "value": f"the sum of {products}{_plus_c(i)}"}


def _plus_c(i: SassInstruction) -> str:
    """The accumulator that a sum is added to."""
    return "" if i.o["c"].zero else f" + {i.words.signed(i.o['c'])}"


# What the driver and the compiler put there.

_TARGET = re.compile(r"sm_?(\d{2,3})[af]?\b|EF_CUDA_SM(\d{2,3})")


def architecture(listing: Listing, context: Context) -> int | None:
    """90 of sm_90a: what the context says, else the head of the listing."""
    texts = [context.target or ""]
    texts += [line.text for line in islice(iter(listing.lines), 40)]
    for text in texts:
        names_target = text == context.target or any(
            w in text for w in (".target", "EF_CUDA", "code for")
        )
        if names_target and (match := _TARGET.search(text)):
            return int(match[1] or match[2])
    return None


HANDLERS: Mapping[str, tuple[Handler, str]] = {
    "access": (sass_memory.access, ""),
    "atomic": (sass_memory.atomic, ""),
    "constant": (sass_memory.constant, ""),
    "copy_async": (sass_memory.copy_async, ""),
    "matrices": (sass_memory.matrices, ""),
    "mbarrier": (sass_memory.mbarrier, ""),
    "tensor_copy": (sass_memory.tensor_copy, ""),
    "block_copy": (sass_memory.block_copy, ""),
    "tensor_memory_copy": (sass_memory.tensor_memory_copy, ""),
    "multicast_load": (sass_memory.multicast_load, ""),
    "remote_store": (sass_memory.remote_store, ""),
    "compute": (sass_values.compute, "d"),
    "compare": (sass_values.compare, "p a b"),
    "logic": (sass_values.logic, "d a b c lut"),
    "predicates": (sass_values.predicates, "p q a b c lut"),
    "smaller": (sass_values.smaller, "d a b r"),
    "convert": (sass_conversions.convert, "d a"),
    "pack": (sass_conversions.pack, "d a"),
    "pack_integers": (sass_conversions.pack_integers, "d a b c"),
    "dot_product": (dot_product, "d a b c"),
    "cache_control": (sass_memory.cache_control, ""),
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
    "extension": (extension, "d a n"),
    "reduction": (reduction, "d a"),
    "byte_differences": (byte_differences, "d a b c"),
    "address_space": (sass_memory.address_space, ""),
    "fill": (sass_memory.fill, ""),
    "match": (match, ""),
    "plain": (operands_by_name, ""),
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
        function = self._function or Function("", 1, len(self._listing.lines))
        line = self._listing.lines[n - 1] if function.first <= n <= function.last else None
        if line is None or line.kind is not Kind.INSTRUCTION or len(line.text) > MAX_LINE_CHARS:
            return None
        i = take_apart(line, self._words, self._context, self._entry(line.base or ""), self._table)
        text = None if i is None else self._told_of(i) or self._summary(line, i)
        return _guarded(i, text) if i is not None and text else None

    def _told_of(self, i: SassInstruction) -> str | None:
        handler, needed = HANDLERS[i.string("handler") or "plain"]
        pieces = handler(i) if i.entry and i.o.keys() >= set(needed.split()) else None
        if pieces is None:
            return None
        # ``form`` names another template than ``say``, of the entry or of the table ``say``.
        shared = self._table["say"]
        if form := pieces.get("form"):
            template = i.entry.get(form) or shared.get(form, "")
        elif i.variant:
            template = i.entry["variants"][i.variant]
        else:
            template = i.entry.get("say", shared["value"])
        return _filled(template, {"notes": sass_values.notes(i), "also": "", **pieces})

    def _summary(self, line: Line, i: SassInstruction) -> str | None:
        """The reference's summary with the operands as they stand."""
        entry = self._isa.sass(line.opcode or "") or self._isa.sass(line.base or "")
        if entry is None:
            return None
        summary = entry.summary.rstrip(".")
        text = summary[:1].lower() + summary[1:]
        operands = [o.text.replace(".reuse", "") for o in i.operands]
        if i.label:
            operands.append(i.label)
        return f"{text}: {', '.join(operands)}" if operands else text

    def _entry(self, base: str) -> Mapping[str, Any]:
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
    lanes = " in any lane" if i.base == "BRA" and i.has("ANY") else ""
    return f"{'unless' if i.guard != name else 'if'} {name}{lanes}: {text}"
