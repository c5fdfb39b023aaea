"""The query language of variants: ``spill>0 regs>128 op:HGMMA hint:spills launched``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePath

from msgspec import Struct

from inspector.base.errors import PtxviewError, UsageError
from inspector.base.model import EDIT, Kernel, Stage, Variant
from inspector.base.text import meant, shown, words
from inspector.reader.reader import Reader
from inspector.reader.selecting import names

Value = float | bool | str | Collection[str] | None
"""A property's value; None is unknown and matches nothing."""
Properties = Callable[[str], Value]

NUMBERS = words("regs spill stack shared occupancy instr hints warps stages launches time cost")
"""Compared with a number; docs/commands.md says what each is."""
WORDS = {
    "op": "an instruction of its PTX or SASS",
    "hint": "the rule of a hint",
    "dtype": "a tensor's or scalar's type",
    "origin": "triton, inductor, nvcc or extern",
    "file": "a source file of it",
}
FLAGS = words("launched best failed changed")

_COMPARED = re.compile(r"([a-z]+)(>=|<=|!=|>|<|=)(-?[0-9.]+)%?", re.IGNORECASE)
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq,
    "!=": operator.ne,
}  # fmt: skip


class Term(Struct, frozen=True):
    """One condition; ``relation`` is a comparison, ``:``, or "" for a flag or part of a name."""

    name: str
    relation: str = ""
    value: str = ""

    def holds(self, of: Properties) -> bool:
        """Whether a variant has the property; an unknown value never has."""
        found = of(self.name if self.relation or self.name in FLAGS else "name")
        if found is None:
            return False
        if self.relation == ":":
            texts = [found] if isinstance(found, str) else found
            assert isinstance(texts, Collection)
            wanted = self.value.lower()
            return any(wanted in _parts(text.lower()) for text in texts)
        if self.relation:
            assert isinstance(found, int | float)
            return _OPERATORS[self.relation](found, float(self.value))
        return self.name.lower() in found.lower() if isinstance(found, str) else bool(found)


def _parts(text: str) -> set[str]:
    """A word, what it begins with up to each dot, and each part between dots."""
    pieces = re.split(r"[./]", text)
    begun = {".".join(pieces[:n]) for n in range(1, len(pieces) + 1)}
    return {text, *pieces, *begun}


def parse(query: str) -> tuple[Term, ...]:
    """The terms of a query, all of which must hold.

    Raises ``UsageError`` with the nearest property for an unknown one.
    """
    return tuple(_term(word) for word in query.split())


def _term(word: str) -> Term:
    if compared := _COMPARED.fullmatch(word):
        name, relation, value = compared[1].lower(), compared[2], compared[3]
        if name not in NUMBERS:
            raise _unknown(name)
        try:
            float(value)
        except ValueError:
            raise UsageError(f"{shown(value)} is no number", f"Such as {name}>0.") from None
        return Term(name, relation, value)
    name, colon, value = word.partition(":")
    if colon and not value.startswith(":"):  # a C++ name has two
        if name.lower() not in WORDS:
            raise _unknown(name)
        if not value:
            raise UsageError(f"{name}: names nothing", f"It is {WORDS[name.lower()]}.")
        return Term(name.lower(), ":", value)
    if re.search("[<>=]", word) and re.match(r"[a-z]+[<>=!]", word, re.IGNORECASE):
        name = re.split("[<>=!]", word)[0]
        if name.lower() in NUMBERS or meant(name, NUMBERS):
            raise UsageError(f"{shown(word)} compares with no number", "Such as regs>128.")
    return Term(word.lower() if word.lower() in FLAGS else word)


def _unknown(name: str) -> UsageError:
    every = [*NUMBERS, *WORDS, *FLAGS]
    hint = meant(name, every) or f"Known are {', '.join(every)}."
    return UsageError(f"there is no property {shown(name)}", hint)


def matching(
    reader: Reader,
    terms: Sequence[Term],
    pairs: Iterable[tuple[Kernel, Variant]],
    measures: Callable[[str, Variant], float | None] = lambda name, variant: None,
) -> Iterator[tuple[Kernel, Variant]]:
    """The variants for which all terms hold; what costs most to find out is asked last.

    ``measures`` returns the ``time`` and the ``cost`` of a variant.
    """
    ordered = sorted(terms, key=lambda term: _SLOW.index(term.name) if term.name in _SLOW else -1)
    for kernel, variant in pairs:
        of = partial(_property, reader, kernel, variant, measures)
        if all(term.holds(of) for term in ordered):
            yield kernel, variant


_FIGURES = {
    "regs": ("registers",),
    "stack": ("stack_bytes",),
    "spill": ("spill_store_bytes", "spill_load_bytes"),
    "shared": ("static_shared_bytes", "dynamic_shared_bytes"),
}
"""The fields of ``Resources`` that a property adds up."""
_SLOW = ("instr", "op", "occupancy", "hint", "hints")


def _property(
    reader: Reader,
    kernel: Kernel,
    variant: Variant,
    measures: Callable[[str, Variant], float | None],
    name: str,
) -> Value:
    match name:
        case "regs" | "stack" | "spill" | "shared":
            resources = reader.resources(variant)
            figures = [getattr(resources, field) for field in _FIGURES[name]]
            known = [figure for figure in figures if figure is not None]
            return sum(known) if known else None
        case "occupancy":
            return reader.occupancy(variant)
        case "op":
            with suppress(PtxviewError):
                return {
                    line.opcode
                    for stage in (Stage.PTX, Stage.SASS)
                    if stage in variant.stages
                    for line in reader.listing(variant, stage).lines
                    if line.opcode
                }
            return None
        case "instr":
            with suppress(PtxviewError):
                if (sass := reader.code(variant, Stage.SASS)) is not None:
                    return sum(map(len, sass.code.without_padding().values()))
            return None
        case "hint" | "hints":
            with suppress(PtxviewError):
                rules = [hint.rule for hint in reader.hints(variant)]
                return rules if name == "hint" else len(rules)
            return None
        case "warps" | "stages":
            value = variant.config.get(f"num_{name}")
            return value if isinstance(value, int) else None
        case "launches":
            return variant.launches
        case "time" | "cost":
            return measures(name, variant)
        case "dtype":
            types = [a.dtype or a.type or "" for call in variant.calls for a in call.arguments]
            return [*types, *(text.lstrip("*") for text in variant.signature.values())]
        case "origin":
            return kernel.origin.value
        case "file":
            places = [held.origin_path for held in variant.stages.values()]
            made = [part.file for part in (kernel.fusion.made_from if kernel.fusion else ())]
            return [PurePath(path).name for path in (*places, *made) if path]
        case "launched":
            return bool(variant.launches)
        case "best":
            return (variant.autotune or {}).get("winner") is True
        case "failed":
            return variant.error is not None
        case "changed":
            return any(EDIT in one.config for one in kernel.variants)
        case _:
            return " ".join(names(kernel))
