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
from inspector.analyse.sentences.context import Context, Parameter
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

    def __init__(self, layouts: object, sm: int | None, context: Context) -> None:
        self._context = context
        self._layout: Mapping[str, object] = {}
        if isinstance(layouts, Mapping) and sm is not None:
            by_architecture = [(int(k), v) for k, v in layouts.items()
                     if str(k).isdecimal() and isinstance(v, Mapping)]  # fmt: skip
            fitting = [kv for kv in by_architecture if kv[0] <= sm]
            if fitting:
                self._layout = max(fitting, key=lambda kv: kv[0])[1]

    def say(self, bank: str, text: str, size: int) -> str:
        """``c[0x0][0x210]`` in words, ``size`` bytes of it."""
        whole = f"c[{bank}][{text}]"
        if bank != "0x0":
            return whole
        offset = 0 if text in ("RZ", "") else value(text)
        if not isinstance(offset, int) or text.startswith("-"):
            return whole
        for kind in ("block", "grid"):
            start = self._layout.get(kind)
            if isinstance(start, int) and start <= offset < start + 12 and offset % 4 == 0:
                axis = (offset - start) // 4
                return f"the {kind}'s size in {_AXES[axis]}{self._launch(kind, axis)}"
        named = self._layout.get("named")
        if isinstance(named, Mapping):
            # Keys of TOML are strings.
            name = named.get(hex(offset))
            if isinstance(name, str):
                return name
        start = self._layout.get("parameters")
        if isinstance(start, int) and start <= offset < start + 0x8000:
            return self._parameter(offset - start, size, whole)
        return whole

    def _launch(self, kind: str, axis: int) -> str:
        size = self._context.grid if kind == "grid" else self._context.block
        return f" ({size[axis]})" if size is not None else ""

    def _parameter(self, offset: int, size: int, whole: str) -> str:
        parameter = self._context.parameter_at(offset)
        if parameter is None:
            return f"the parameter at byte {offset} ({whole})"
        inside = [p for p in self._context.parameters
                  if p.offset is not None and offset <= p.offset < offset + size]  # fmt: skip
        if len(inside) > 1 and inside[0] is parameter:
            names = [p.name or str(p.index) for p in inside]
            return f"the parameters {', '.join(names[:-1])} and {names[-1]}"
        name = parameter.name or f"{parameter.index}"
        byte = offset - (parameter.offset or 0)
        text = f"the parameter {name}"
        if parameter.name is None and parameter.type:
            text += f": {parameter.type}"
        if byte:
            upper = byte == 4 and parameter.size == 8
            text = f"the upper half of {text}" if upper else f"byte {byte} on of {text}"
        return text + _value(parameter)


def _value(parameter: Parameter) -> str:
    value = parameter.value
    return (
        f" ({value})" if value is not None and parameter.type and "*" not in parameter.type else ""
    )


HANDLERS: Mapping[str, Handler] = {
    "access": sass_flow.access,
    "atomic": sass_flow.atomic,
    "constant": sass_flow.constant,
    "copy_async": sass_flow.copy_async,
    "matrices": sass_flow.matrices,
    "mbarrier": sass_flow.mbarrier,
    "tensor_copy": sass_flow.tensor_copy,
    "tensor_memory": sass_flow.tensor_memory,
    "compute": sass_values.compute,
    "compare": sass_values.compare,
    "logic": sass_values.logic,
    "predicates": sass_values.predicates,
    "smaller": sass_values.smaller,
    "convert": sass_moves.convert,
    "function": sass_moves.function,
    "lea": sass_moves.lea,
    "permute": sass_moves.permute,
    "select": sass_moves.select,
    "shift": sass_moves.shift,
    "special": sass_moves.special,
    "product": sass_moves.product,
    "group_product": sass_moves.group_product,
    "block_product": sass_moves.block_product,
    "barrier": sass_flow.barrier,
    "branch": sass_flow.branch,
    "ends": sass_flow.ends,
    "match": sass_flow.match,
    "plain": sass_flow.plain,
    "shuffle": sass_flow.shuffle,
    "vote": sass_flow.vote,
    "wait": sass_flow.wait,
}
LONGEST = 4096
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
        self._told: dict[str, Mapping[str, object]] = {}

    def sentence(self, n: int) -> str | None:
        """The sentence of line ``n``; None if it is no instruction, or one not known."""
        if not 1 <= n <= len(self._listing.lines):
            return None
        if self._function is not None and not self._function.first <= n <= self._function.last:
            return None
        line = self._listing.lines[n - 1]
        if line.kind is not Kind.INSTRUCTION or line.base is None or len(line.text) > LONGEST:
            return None
        told = self._of(line.base)
        i = take_apart(line, self._wording(), self._context, told, self._table)
        if i is None:
            return None
        text = self._told_of(i) or self._summary(line, i)
        return _guarded(i, text) if text else None

    def _told_of(self, i: SassInstruction) -> str | None:
        handler = HANDLERS.get(i.string("handler") or ("plain" if i.told else ""))
        pieces = handler(i) if handler is not None else None
        if pieces is None:
            return None
        template = self._template(i, pieces)
        return _filled(template, {"notes": sass_values.notes(i), **pieces}) if template else None

    def _template(self, i: SassInstruction, pieces: Pieces) -> str | None:
        """The entry's own; ``form`` names another one, of the entry or of the table ``say``."""
        form = pieces.get("form", "")
        variants = i.told.get("variants")
        if not form and isinstance(variants, Mapping) and (name := i.first(variants)):
            form = f"variants.{name}"
        form = form or "say"
        if form.startswith("variants."):
            template = variants.get(form[9:]) if isinstance(variants, Mapping) else None
        else:
            template = i.told.get(form)
        if not isinstance(template, str):
            shared = self._table.get("say")
            key = "value" if form == "say" else form
            template = shared.get(key) if isinstance(shared, Mapping) else None
        return template if isinstance(template, str) else None

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
            self._words = SassWording(Banks(self._table.get("banks"), sm, self._context).say)
        return self._words

    def _of(self, base: str) -> Mapping[str, object]:
        """The entry of an opcode, with what the one that it is ``like`` says."""
        merged_tables = self._told.get(base)
        if merged_tables is None:
            entry = self._entry(base)
            like = entry.get("like")
            merged = {**self._entry(like), **entry} if isinstance(like, str) else entry
            merged_tables = self._told[base] = merged
        return merged_tables

    def _entry(self, name: str) -> Mapping[str, object]:
        opcodes = self._table.get("opcodes")
        fields = opcodes.get(name) if isinstance(opcodes, Mapping) else None
        return fields if isinstance(fields, Mapping) else {}


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
