"""A stage's text and its listing, where the kernel stands in it, and how the stages are linked.

Nothing is disassembled or parsed before it is asked for, and each result is kept.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from inspector.analyse.fusion import model_lines
from inspector.analyse.links import Relation, StageNames, beginning, composed, relate
from inspector.capture.disassembly import disassemble, disassemble_together
from inspector.errors import PtxviewError, Unreadable
from inspector.listing import parse
from inspector.listing.cubin import is_elf, read_cubin
from inspector.listing.line import Function, Listing
from inspector.model import Fusion, Stage, StageFile, Variant
from inspector.names import base_name
from inspector.reader.tables import operations
from inspector.recording.layout import DerivedCache

DISASSEMBLED = "nvdisasm -c"


@dataclass(frozen=True, slots=True)
class StageText:
    """A stage's text and where it is from; ``annotated`` is nvdisasm's with lines and encodings."""

    text: str
    text_from: str
    annotated: str | None = None


def decode(data: bytes) -> str:
    """Text of any bytes: what is not UTF-8 becomes surrogate escapes."""
    return data.decode("utf-8", "surrogateescape")


class Listings:
    """Reads the stages of variants. Safe to use from several threads."""

    def __init__(self, cache: DerivedCache) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._listings: dict[tuple[str, str, Stage], Listing] = {}
        self._links: dict[tuple[str, str, Stage, Stage], Mapping[int, tuple[int, ...]]] = {}
        self._counted: dict[str, StageText] = {}

    # -- texts ------------------------------------------------------------------------------

    def text(self, variant: Variant, stage: Stage) -> StageText:
        """The text of a stage. Raises ``Unreadable`` with the reason where there is none."""
        file = variant.stages.get(stage)
        if file is None:
            why = variant.missing.get(stage, "it was not recorded")
            raise Unreadable(f"there is no {stage.value} of {variant.symbol}: {why}")
        if stage is Stage.SASS:
            return self._sass(variant, file)
        return StageText(decode(file.content.read()), file.text_from)

    def count_together(self, variants: Sequence[Variant]) -> None:
        """Have the machine code of many disassembled at once, without locations, to be counted in:
        listings that are made from now on are not fit to be shown."""
        cubins: dict[str, bytes] = {}
        for variant in variants:
            file = variant.stages.get(Stage.SASS)
            if file is not None and not file.costly and file.text_from == DISASSEMBLED:
                with contextlib.suppress(PtxviewError):
                    cubins[variant.hash] = file.content.read()
        names = list(cubins)
        for number, (plain, annotated) in disassemble_together(list(cubins.values())).items():
            self._counted[names[number]] = StageText(plain, DISASSEMBLED, annotated)

    def _sass(self, variant: Variant, file: StageFile) -> StageText:
        if variant.hash in self._counted:
            return self._counted[variant.hash]
        cubin = file.content.read()
        if file.text_from != DISASSEMBLED and not is_elf(cubin):  # a report has the text alone
            return StageText(decode(cubin), file.text_from)
        plain, annotated, tool = disassemble(cubin, self._cache)
        if variant.locations_cubin is not None and not _has_lines(cubin):
            try:
                _, lined, _ = disassemble(variant.locations_cubin.read(), self._cache)
            except PtxviewError:
                lined = None
            annotated = lined or annotated
        return StageText(plain, f"nvdisasm {tool} -c", annotated)

    # -- listings ---------------------------------------------------------------------------

    def listing(self, variant: Variant, stage: Stage) -> Listing:
        """The lines of a stage. Raises ``PtxviewError`` with the reason where it cannot be had."""
        key = (variant.hash, variant.symbol if stage is Stage.SOURCE else "", stage)
        with self._lock:
            known = self._listings.get(key)
        if known is None:
            known = self._parse(variant, stage)
            with self._lock:
                self._listings[key] = known
        return known

    def forget(self, hashes: AbstractSet[str]) -> None:
        """Keep no listing and no link any longer of variants with these hashes."""
        with self._lock:
            self._listings = {k: v for k, v in self._listings.items() if k[0] not in hashes}
            self._links = {k: v for k, v in self._links.items() if k[0] not in hashes}
            self._counted = {k: v for k, v in self._counted.items() if k not in hashes}

    def _parse(self, variant: Variant, stage: Stage) -> Listing:
        text = self.text(variant, stage)
        held = variant.stages[stage]
        return parse(stage, text.text, annotated=text.annotated, path=held.origin_path)

    def function(self, variant: Variant, stage: Stage) -> Function | None:
        """Where the kernel stands in a stage's listing, or None if that is not known."""
        if stage in (Stage.SOURCE, Stage.OUTPUT_CODE):
            lines = variant.lines_in(stage)
            return Function(base_name(variant.symbol), *lines) if lines is not None else None
        listing = self.listing(variant, stage)
        functions = functions_of(stage, listing, variant.symbol)
        return next((f for f in functions if f.name == variant.symbol), None) or (
            functions[0] if len(functions) == 1 else None
        )

    # -- links ------------------------------------------------------------------------------

    def places(self, variant: Variant) -> dict[Stage, StageNames]:
        """How locations of the lower stages name the lines of the upper ones."""
        out: dict[Stage, StageNames] = {}
        source = variant.stages.get(Stage.SOURCE)
        if source is not None and variant.copied is not None:
            out[Stage.SOURCE] = StageNames(variant.copied.file, variant.copied.first)
        elif source is not None and source.origin_path and variant.fusion is None:
            out[Stage.SOURCE] = StageNames(source.origin_path)
        if variant.embedded is not None:
            out[Stage.OUTPUT_CODE] = StageNames(*variant.embedded)
        return out

    def links(self, variant: Variant, a: Stage, b: Stage) -> Mapping[int, tuple[int, ...]]:
        """Lines of stage ``a`` to the lines of stage ``b`` that they belong to.

        Both directions hold the same pairs. Raises ``PtxviewError`` where a stage cannot be had.
        """
        key = (variant.hash, variant.symbol, a, b)
        known = self._links.get(key)
        if known is None:
            if a is b:
                return {}
            upper, lower = sorted((a, b), key=lambda s: s.rank)
            relation = self._relate(variant, upper, lower)
            where = key[:2]
            self._links[*where, upper, lower] = relation.forward()
            self._links[*where, lower, upper] = relation.backward()
            known = self._links[key]
        return known

    def _relate(self, variant: Variant, upper: Stage, lower: Stage) -> Relation:
        if upper is Stage.SOURCE and variant.copied is not None:
            if lower is Stage.OUTPUT_CODE:
                return _to_copy(variant, self.listing(variant, upper), self.listing(variant, lower))
        elif upper is Stage.SOURCE and variant.fusion is not None:
            return self._to_model(variant, variant.fusion, lower)
        places = self.places(variant)
        through: Mapping[int, tuple[int, ...]] | None = None
        ptx = variant.stages.get(Stage.PTX)
        if lower is Stage.SASS and upper is not Stage.PTX and ptx and not ptx.costly:
            through = self.links(variant, Stage.PTX, upper)
        left, right = self.listing(variant, upper), self.listing(variant, lower)
        found = relate(left, right, (upper, lower), places, operations(), through)
        if upper is Stage.OUTPUT_CODE and variant.fusion is not None:
            # Its definition and its launches belong to where it begins.
            begin = beginning(right, self.function(variant, lower), found)
            found = Relation((*found.blocks, (variant.fusion.calls, begin)))
        return found

    def _to_model(self, variant: Variant, fusion: Fusion, lower: Stage) -> Relation:
        """The user's lines that a generated kernel was made from, by way of ``output_code``."""
        file = variant.stages.get(Stage.SOURCE)
        if file is None or file.origin_path is None or Stage.OUTPUT_CODE not in variant.stages:
            return Relation(())
        code, span = self.listing(variant, Stage.OUTPUT_CODE), variant.span
        model = model_lines(code, span, fusion, file.origin_path, operations())
        if lower is not Stage.OUTPUT_CODE:
            model = composed(self.links(variant, lower, Stage.OUTPUT_CODE), model)
        return Relation.of(model).turned()


def functions_of(stage: Stage, listing: Listing, name: str = "") -> Sequence[Function]:
    """The functions of a listing; PTX or SASS that has none is a part of one, as it was copied."""
    if listing.functions or stage not in (Stage.PTX, Stage.SASS):
        return listing.functions
    return (Function(name, 1, len(listing.lines)),) if len(listing.lines) else ()


def _to_copy(variant: Variant, source: Listing, code: Listing) -> Relation:
    """The lines of the user's kernel, each to the line of its copy that says the same."""
    if variant.copied is None or variant.embedded is None:
        return Relation(())
    begin, end = variant.copied.span
    further = variant.embedded[1] - variant.copied.first
    pairs = (
        (n, n + further)
        for n in range(begin, min(end, len(source.lines)) + 1)
        if 1 <= n + further <= len(code.lines)
    )
    return Relation(
        [
            ((mine,), [its])
            for mine, its in pairs
            if source.lines[mine - 1].text.strip() == code.lines[its - 1].text.strip() != ""
        ]
    )


def _has_lines(cubin: bytes) -> bool:
    known = read_cubin(cubin)
    return known is not None and known.has_lines
