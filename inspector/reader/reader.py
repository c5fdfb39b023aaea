"""From a recording to listings: reads a stage's text, disassembles, parses, links. Lazily.

Nothing is disassembled or parsed before it is asked for, and each result is kept.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from inspector import listing as parsers
from inspector.analyse import links as correlate
from inspector.analyse.fusion import model_lines
from inspector.analyse.links import Relation, composed
from inspector.capture import spills
from inspector.capture.disassembly import disassemble
from inspector.capture.usage import usage_text
from inspector.errors import PtxviewError, Unreadable
from inspector.listing.cubin import is_elf, read_cubin
from inspector.listing.line import Function, Listing
from inspector.model import (
    Content,
    Fusion,
    Graph,
    Recording,
    Resources,
    Stage,
    StageFile,
    Variant,
)
from inspector.names import base_name
from inspector.reader.tables import operations
from inspector.recording.layout import DerivedCache
from inspector.recording.resources import from_res_usage, max_threads, merge


@dataclass(frozen=True, slots=True)
class StageText:
    """A stage's text and where it is from; ``annotated`` is nvdisasm's with lines and encodings."""

    text: str
    text_from: str
    annotated: str | None = None


def decode(data: bytes) -> str:
    """Text of any bytes: what is not UTF-8 becomes surrogate escapes."""
    return data.decode("utf-8", "surrogateescape")


DISASSEMBLED = "nvdisasm -c"
RECENT = 64
"""Cubins whose figures are kept by function: several kernels of one are asked for in a row."""
GLANCE = 0.3
"""Seconds after which one who waits for figures is told how far they are."""
WAVE = 256
"""Cubins that are given to threads at once: a cache has tens of thousands."""


class Reader:
    """Reads what a recording holds. Safe to use from several threads."""

    def __init__(self, recording: Recording, cache: DerivedCache) -> None:
        self.recording = recording
        self._cache = cache
        self._lock = threading.Lock()
        self._listings: dict[tuple[str, str, Stage], Listing] = {}
        self._resources: dict[tuple[str, str], Resources] = {}
        self._links: dict[tuple[str, str, Stage, Stage], Mapping[int, tuple[int, ...]]] = {}
        self._usage: dict[str, dict[str, Resources]] = {}
        self._spills: dict[str, dict[str, Resources]] = {}
        self._bounds: dict[str, dict[str, Resources]] = {}

    # -- texts ------------------------------------------------------------------------------

    def text(self, variant: Variant, stage: Stage) -> StageText:
        """The text of a stage. Raises ``Unreadable`` with the reason where there is none."""
        held = variant.stages.get(stage)
        if held is None:
            why = variant.missing.get(stage, "it was not recorded")
            raise Unreadable(f"there is no {stage.value} of {variant.symbol}: {why}")
        if stage is Stage.SASS:
            return self._sass(variant, held)
        return StageText(decode(held.content.read()), held.text_from)

    def graph_listing(self, graph: Graph) -> Listing:
        """The ``output_code`` of a graph."""
        held = graph.stages[Stage.OUTPUT_CODE]
        return parsers.parse(Stage.OUTPUT_CODE, decode(held.content.read()), path=held.origin_path)

    def _sass(self, variant: Variant, held: StageFile) -> StageText:
        cubin = held.content.read()
        if held.text_from != DISASSEMBLED and not is_elf(cubin):  # a report has the text alone
            return StageText(decode(cubin), held.text_from)
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

    def _parse(self, variant: Variant, stage: Stage) -> Listing:
        text = self.text(variant, stage)
        held = variant.stages[stage]
        return parsers.parse(stage, text.text, annotated=text.annotated, path=held.origin_path)

    def function(self, variant: Variant, stage: Stage) -> Function | None:
        """Where the kernel stands in a stage's listing, or None where that is not known."""
        if stage in (Stage.SOURCE, Stage.OUTPUT_CODE):
            lines = variant.lines_in(stage)
            return Function(base_name(variant.symbol), *lines) if lines is not None else None
        functions = self.listing(variant, stage).functions
        return next((f for f in functions if f.name == variant.symbol), None) or (
            functions[0] if len(functions) == 1 else None
        )

    # -- links ------------------------------------------------------------------------------

    def places(self, variant: Variant) -> dict[Stage, correlate.StageNames]:
        """How locations of the lower stages name the lines of the upper ones."""
        out: dict[Stage, correlate.StageNames] = {}
        source = variant.stages.get(Stage.SOURCE)
        if source is not None and variant.copied is not None:
            out[Stage.SOURCE] = correlate.StageNames(variant.copied.file, variant.copied.first)
        elif source is not None and source.origin_path and variant.fusion is None:
            out[Stage.SOURCE] = correlate.StageNames(source.origin_path)
        if variant.embedded is not None:
            out[Stage.OUTPUT_CODE] = correlate.StageNames(*variant.embedded)
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
        found = correlate.relate(left, right, (upper, lower), places, operations(), through)
        if upper is Stage.OUTPUT_CODE and variant.fusion is not None:
            # Its definition and its launches belong to where it begins.
            begin = correlate.beginning(right, self.function(variant, lower), found)
            found = Relation((*found.blocks, (variant.fusion.calls, begin)))
        return found

    def _to_model(self, variant: Variant, fusion: Fusion, lower: Stage) -> Relation:
        """The user's lines that a generated kernel was made from, by way of ``output_code``."""
        held = variant.stages.get(Stage.SOURCE)
        if held is None or held.origin_path is None or Stage.OUTPUT_CODE not in variant.stages:
            return Relation(())
        code, span = self.listing(variant, Stage.OUTPUT_CODE), variant.span
        model = model_lines(code, span, fusion, held.origin_path, operations())
        if lower is not Stage.OUTPUT_CODE:
            model = composed(self.links(variant, lower, Stage.OUTPUT_CODE), model)
        return Relation.of(model).turned()

    # -- figures ----------------------------------------------------------------------------

    def resources(self, variant: Variant) -> Resources:
        """What a variant takes: cuobjdump's figures, then what was recorded, then PTX's bounds."""
        key = (variant.hash, variant.symbol)
        known = self._resources.get(key)
        if known is None:
            known = self._resources[key] = self._measure(variant)
        return known

    def known_by_now(self, variant: Variant) -> Resources:
        """What is known of a variant without asking anything."""
        return self._resources.get((variant.hash, variant.symbol), variant.known)

    def figures(self, variants: Sequence[Variant]) -> Iterator[tuple[int, int]]:
        """Reads the figures of many variants, the tools side by side; how many cubins are done, of
        how many, some times a second. ``resources`` then has them all at once."""
        todo: dict[str, list[Variant]] = {}
        for variant in variants:
            if (variant.hash, variant.symbol) not in self._resources:
                todo.setdefault(variant.hash, []).append(variant)
        waiting, done = iter(todo.values()), 0
        pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
        try:
            while wave := list(islice(waiting, WAVE)):
                left = {pool.submit(self._of_one_cubin, cubin) for cubin in wave}
                while left:
                    ready, left = wait(left, GLANCE, FIRST_COMPLETED)
                    for one in ready:
                        one.result()
                    done += len(ready)
                    yield done, len(todo)
        finally:  # interrupted, nobody waits for what has not begun
            pool.shutdown(wait=True, cancel_futures=True)

    def _of_one_cubin(self, variants: Sequence[Variant]) -> None:
        for variant in variants:
            self.resources(variant)

    def _measure(self, variant: Variant) -> Resources:
        usage = Resources()
        sass = variant.stages.get(Stage.SASS)
        if sass is not None:
            try:
                usage = self._res_usage(variant, sass.content)
            except PtxviewError:
                usage = _on_record(variant, sass.content)
        known = merge(variant.known, usage, self._bounds_of(variant))
        if known.spill_store_bytes is not None and known.barriers is not None:
            return known
        return merge(known, self._assembled(variant))

    def _bounds_of(self, variant: Variant) -> Resources:
        """The threads a block that PTX allows."""
        by_name = self._bounds.get(variant.hash)
        if by_name is None:
            ptx = variant.stages.get(Stage.PTX)
            text = ""
            if ptx is not None and not ptx.costly:
                with contextlib.suppress(PtxviewError):
                    text = decode(ptx.content.read())
            by_name = {n: Resources(max_threads=most) for n, most in max_threads(text).items()}
            self._keep(self._bounds, variant.hash, by_name)
        return by_name.get(variant.symbol, Resources())

    def _assembled(self, variant: Variant) -> Resources:
        """Spills and barriers where the assembler that made the cubin is at hand."""
        said = self._spills.get(variant.hash)
        if said is None:  # it is told of all kernels of a cubin at once
            said = spills.assembled(variant, self._assemblers, self._cache)
            self._keep(self._spills, variant.hash, said)
        return said.get(variant.symbol, Resources())

    @cached_property
    def _assemblers(self) -> list[Path]:
        """Every assembler of this machine: looking through PATH for each variant is half of all."""
        return spills.assemblers(())

    def _res_usage(self, variant: Variant, content: Content) -> Resources:
        """What cuobjdump says of a variant, and what its cubin has on record of spills."""
        by_name = self._usage.get(variant.hash)
        if by_name is None:
            cubin = content.read()
            printed = usage_text(cubin, self._cache)
            told, recorded = from_res_usage(printed), spills.on_record(cubin, printed)
            nothing = Resources()
            by_name = {
                name: merge(told.get(name, nothing), recorded.get(name, nothing))
                for name in {**told, **recorded}
            }
            self._keep(self._usage, variant.hash, by_name)
        return by_name.get(variant.symbol, Resources())

    def _keep(
        self, kept: dict[str, dict[str, Resources]], key: str, figures: dict[str, Resources]
    ) -> None:
        with self._lock:
            kept[key] = figures
            while len(kept) > RECENT:
                del kept[next(iter(kept))]


def _on_record(variant: Variant, content: Content) -> Resources:
    """What a cubin says without any tool: its barriers."""
    try:
        return spills.on_record(content.read(), "").get(variant.symbol, Resources())
    except PtxviewError:
        return Resources()


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
