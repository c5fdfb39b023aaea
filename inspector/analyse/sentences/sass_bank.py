"""Constant banks: what the driver and the compiler put there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

from inspector.analyse.sentences.context import Context, Parameter
from inspector.analyse.sentences.sass_operands import value
from inspector.listing.line import Listing

_TARGET = re.compile(r"sm_?(\d{2,3})[af]?\b|EF_CUDA_SM(\d{2,3})")
_AXES = "xyz"


def architecture(listing: Listing, context: Context) -> int | None:
    """90 of sm_90a: what the context says, else the head of the listing."""
    texts = [context.target or ""]
    texts += [line.text for line in islice(iter(listing.lines), 40)]
    for text in texts:
        says = text == context.target or any(w in text for w in (".target", "EF_CUDA", "code for"))
        if says and (found := _TARGET.search(text)):
            return int(found[1] or found[2])
    return None


class Banks:
    """``layouts`` is the table ``banks`` of sass_sentences.toml: offsets in bank 0 by first sm."""

    def __init__(self, layouts: object, sm: int | None, context: Context) -> None:
        self._context = context
        self._layout: Mapping[str, object] = {}
        if isinstance(layouts, Mapping) and sm is not None:
            known = [(int(k), v) for k, v in layouts.items()
                     if str(k).isdecimal() and isinstance(v, Mapping)]  # fmt: skip
            fitting = [kv for kv in known if kv[0] <= sm]
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
            found = named.get(hex(offset))
            if isinstance(found, str):
                return found
        start = self._layout.get("parameters")
        if isinstance(start, int) and start <= offset < start + 0x8000:
            return self._parameter(offset - start, size, whole)
        return whole

    def _launch(self, kind: str, axis: int) -> str:
        size = self._context.grid if kind == "grid" else self._context.block
        return f" ({size[axis]})" if size is not None else ""

    def _parameter(self, offset: int, size: int, whole: str) -> str:
        found = self._context.parameter_at(offset)
        if found is None:
            return f"the parameter at byte {offset} ({whole})"
        inside = [p for p in self._context.parameters
                  if p.offset is not None and offset <= p.offset < offset + size]  # fmt: skip
        if len(inside) > 1 and inside[0] is found:
            names = [p.name or str(p.index) for p in inside]
            return f"the parameters {', '.join(names[:-1])} and {names[-1]}"
        name = found.name or f"{found.index}"
        byte = offset - (found.offset or 0)
        text = f"the parameter {name}"
        if found.name is None and found.type:
            text += f": {found.type}"
        if byte:
            upper = byte == 4 and found.size == 8
            text = f"the upper half of {text}" if upper else f"byte {byte} on of {text}"
        return text + _value(found)


def _value(parameter: Parameter) -> str:
    known = parameter.value
    return (
        f" ({known})" if known is not None and parameter.type and "*" not in parameter.type else ""
    )
