"""SASS read out: one sentence for each instruction, built from its parts.

The pieces of an opcode's sentence are in reference/sass_sentences.toml; an opcode that is
not in it gets the reference's summary and its operands.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from itertools import islice
from typing import Any

from inspector.analyse.isa import Isa
from inspector.analyse.sentences import sass_flow, sass_moves, sass_values
from inspector.analyse.sentences.context import Context
from inspector.analyse.sentences.sass_parts import (
    Handler,
    Pieces,
    SassInstruction,
    SassWording,
    take_apart,
    value,
)
from inspector.listing.line import Function, Kind, Line, Listing

# -- constant banks -------------------------------------------------------------------------------
# What the driver and the compiler put there.

_TARGET = re.compile(r"sm_?(\d{2,3})[af]?\b|EF_CUDA_SM(\d{2,3})")
_AXES = "xyz"


def architecture(listing: Listing, context: Context) -> int | None:
    """90 of sm_90a: what the context says, else the head of the listing."""
    texts = [context.target or ""]
    texts += [line.text for line in islice(iter(listing.lines), 40)]
    for text in texts:
        says = text == context.target or any(w in text for w in (".target", "EF_CUDA", "code for"))
        if says and (match := _TARGET.search(text)):
            return int(match[1] or match[2])
    return None


class Banks:
    """``layouts`` is the table ``banks`` of sass_sentences.toml: offsets in bank 0 by first sm."""

    def __init__(self, layouts: Mapping[str, Any], sm: int | None, context: Context) -> None:
        self._context = context
        fitting = [int(first) for first in layouts if sm is not None and int(first) <= sm]
        self._layout = layouts[str(max(fitting))] if fitting else {}

    def say(self, bank: str, text: str, size: int) -> str:
        """``c[0x0][0x210]`` in words, ``size`` bytes of it."""
        whole = f"c[{bank}][{text}]"
        offset = 0 if text in ("RZ", "") else value(text)
        if bank != "0x0" or not isinstance(offset, int) or offset < 0 or not self._layout:
            return whole
        for kind, launched in (("block", self._context.block), ("grid", self._context.grid)):
            place = offset - self._layout[kind]
            if place in (0, 4, 8):
                count = f" ({launched[place // 4]})" if launched is not None else ""
                return f"the {kind}'s size in {_AXES[place // 4]}{count}"
        if name := self._layout["named"].get(hex(offset)):
            return str(name)
        place = offset - self._layout["parameters"]
        return self._parameter(place, size, whole) if 0 <= place < 0x8000 else whole

    def _parameter(self, offset: int, size: int, whole: str) -> str:
        parameter = self._context.parameter_at(offset)
        if parameter is None:
            return f"the parameter at byte {offset} ({whole})"
        inside = [
            p
            for p in self._context.parameters
            if p.offset is not None and offset <= p.offset < offset + size
        ]
        if len(inside) > 1 and inside[0] is parameter:
            names = [p.name or str(p.index) for p in inside]
            return f"the parameters {', '.join(names[:-1])} and {names[-1]}"
        byte = offset - (parameter.offset or 0)
        text = f"the parameter {parameter.name or parameter.index}"
        if parameter.name is None and parameter.type:
            text += f": {parameter.type}"
        if byte:
            upper = byte == 4 and parameter.size == 8
            text = f"the upper half of {text}" if upper else f"byte {byte} on of {text}"
        scalar = parameter.type and "*" not in parameter.type and parameter.value is not None
        return f"{text} ({parameter.value})" if scalar else text


HANDLERS: Mapping[str, tuple[Handler, str]] = {
    "access": (sass_flow.access, ""),
    "atomic": (sass_flow.atomic, ""),
    "constant": (sass_flow.constant, ""),
    "copy_async": (sass_flow.copy_async, ""),
    "matrices": (sass_flow.matrices, ""),
    "mbarrier": (sass_flow.mbarrier, ""),
    "tensor_copy": (sass_flow.tensor_copy, ""),
    "compute": (sass_values.compute, "d"),
    "compare": (sass_values.compare, "p a b"),
    "logic": (sass_values.logic, "d a b c lut"),
    "predicates": (sass_values.predicates, "p q a b c lut"),
    "smaller": (sass_values.smaller, "d a b r"),
    "convert": (sass_moves.convert, "d a"),
    "function": (sass_moves.function, "d a"),
    "lea": (sass_moves.lea, "d a b"),
    "permute": (sass_moves.permute, "d a n c"),
    "select": (sass_moves.select, "d a b r"),
    "shift": (sass_moves.shift, "d a n c"),
    "special": (sass_moves.special, "d a"),
    "product": (sass_moves.product, ""),
    "group_product": (sass_moves.group_product, ""),
    "block_product": (sass_moves.block_product, ""),
    "barrier": (sass_flow.barrier, ""),
    "branch": (sass_flow.branch, ""),
    "ends": (sass_flow.ends, ""),
    "match": (sass_flow.match, ""),
    "plain": (sass_flow.plain, ""),
    "shuffle": (sass_flow.shuffle, "d a n"),
    "vote": (sass_flow.vote, ""),
    "wait": (sass_flow.wait, ""),
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
        self._words: SassWording | None = None

    def sentence(self, n: int) -> str | None:
        """The sentence of line ``n``; None if it is no instruction, or one not known."""
        if not 1 <= n <= len(self._listing.lines):
            return None
        if self._function is not None and not self._function.first <= n <= self._function.last:
            return None
        line = self._listing.lines[n - 1]
        if (
            line.kind is not Kind.INSTRUCTION
            or line.base is None
            or len(line.text) > MAX_LINE_CHARS
        ):
            return None
        told = self._of(line.base)
        i = take_apart(line, self._wording(), self._context, told, self._table)
        if i is None:
            return None
        text = self._told_of(i) or self._summary(line, i)
        return _guarded(i, text) if text else None

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

    def _wording(self) -> SassWording:
        if self._words is None:
            sm = architecture(self._listing, self._context)
            self._words = SassWording(Banks(self._table["banks"], sm, self._context).say)
        return self._words

    def _of(self, base: str) -> Mapping[str, Any]:
        """The entry of an opcode, with what the one that it is ``like`` says."""
        opcodes = self._table["opcodes"]
        entry = opcodes.get(base, {})
        return {**opcodes[entry["like"]], **entry} if "like" in entry else entry


def _filled(template: str, pieces: Pieces) -> str | None:
    """A template with its pieces, None if one is missing."""
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
