"""The stages of variants: texts, listings, the kernel's lines in them, and their links.

Nothing is disassembled or parsed before it is asked for, and each result is kept.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from msgspec import Struct

from inspector.analysis.line_annotations import SourceGroups, by_links, by_places, places
from inspector.analysis.links import (
    Relation,
    StageNames,
    beginning,
    composed,
    marked,
    model_lines,
    relate,
)
from inspector.base.errors import PtxviewError, Unreadable
from inspector.base.escapes import shown
from inspector.base.model import Stage, Variant
from inspector.base.names import base_name
from inspector.parsers import parse
from inspector.parsers.cubin import is_elf, read_cubin
from inspector.parsers.line import Function, Listing
from inspector.parsers.ptx import inline_assembly_lines
from inspector.reader.memo import Memo, code_key
from inspector.reader.tables import operations
from inspector.recording.layout import DerivedCache
from inspector.sources.disassembly import disassemble
from inspector.system.printing import narrate

DISASSEMBLED = "nvdisasm -c"
LARGE_CUBIN_BYTES = 8 << 20
"""Bytes of a cubin from which a message announces the wait."""
LINK_STAGES = (Stage.PTX, Stage.LLIR, Stage.TTGIR, Stage.TTIR, Stage.SASS)
"""Stages whose links say which lines of the source became code, the best first."""


class StageText(Struct, frozen=True):
    """A stage's text and where it is from; ``annotated`` is nvdisasm's with lines and encodings."""

    text: str
    text_from: str
    annotated: str | None = None


def decode(data: bytes) -> str:
    """Text of any bytes: what is not UTF-8 becomes surrogate escapes."""
    return data.decode("utf-8", "surrogateescape")


def _announce(variant: Variant, size: int) -> None:
    """Say what is waited for where there is much machine code."""
    if size >= LARGE_CUBIN_BYTES:
        name = shown(base_name(variant.symbol))
        narrate(
            f"ptxview: the cubin of {name} has {size / 1e6:.0f} MB of machine code: nvdisasm lists "
            "it and every line is read, which takes a second or two for each MB"
        )


class StageReader:
    """Texts, listings and links of variants, each computed once. Thread-safe."""

    def __init__(self, cache: DerivedCache, memo: Memo) -> None:
        self._cache = cache
        self._memo = memo

    def text(self, variant: Variant, stage: Stage) -> StageText:
        """The text of a stage. Raises ``Unreadable`` with the reason if it is missing."""
        if (file := variant.stages.get(stage)) is None:
            reason = variant.missing.get(stage, "it was not recorded")
            raise Unreadable(f"there is no {stage.value} of {variant.symbol}: {reason}")
        if stage is Stage.SASS:
            cubin = file.content.read()
            _announce(variant, len(cubin))
            if file.text_from != DISASSEMBLED and not is_elf(cubin):  # a report has the text alone
                return StageText(decode(cubin), file.text_from)
            plain_text, annotated, command = disassemble(cubin, self._cache)
            parsed_cubin = read_cubin(cubin)
            if variant.locations_cubin is not None and (
                parsed_cubin is None or not parsed_cubin.has_lines
            ):
                with suppress(PtxviewError):
                    annotated = (
                        disassemble(variant.locations_cubin.read(), self._cache)[1] or annotated
                    )
            return StageText(plain_text, command, annotated)
        return StageText(decode(file.content.read()), file.text_from)

    def listing(self, variant: Variant, stage: Stage) -> Listing:
        """The lines of a stage. Raises ``PtxviewError`` with the reason if they are missing."""
        key = ("listing", stage, *listing_key(variant, stage))

        def read() -> Listing:
            text, path = self.text(variant, stage), variant.stages[stage].origin_path
            listing = parse(stage, text.text, annotated=text.annotated, path=path)
            return self._relocated(variant, listing) if stage is Stage.SASS else listing

        return self._memo.memoize(key, read)

    def _relocated(self, variant: Variant, sass: Listing) -> Listing:
        """SASS with the locations of its PTX where the cubin's line table has those of lines of
        inline assembly."""
        ptx = variant.stages.get(Stage.PTX)
        if ptx is None or ptx.costly or not any(line.ptx_line for line in sass.lines):
            return sass
        try:
            ptx_listing = self.listing(variant, Stage.PTX)
        except PtxviewError:
            return sass
        wrong = inline_assembly_lines(ptx_listing)
        lines = [
            line._replace(source=ptx_listing.lines[line.ptx_line - 1].source)
            if line.ptx_line in wrong
            else line
            for line in sass.lines
        ]
        return replace(sass, lines=lines)

    def function(self, variant: Variant, stage: Stage) -> Function | None:
        """The kernel's lines in a stage's listing, or None if unknown."""
        if stage in (Stage.SOURCE, Stage.OUTPUT_CODE):
            lines = variant.lines_in(stage)
            return Function(base_name(variant.symbol), *lines) if lines is not None else None
        functions = functions_of(stage, self.listing(variant, stage), variant.symbol)
        if len(functions) < 2:
            return functions[0] if functions else None
        by_name = self._memo.memoize(
            ("functions", stage, *listing_key(variant, stage)),
            lambda: {f.name: f for f in reversed(functions)},
        )
        return by_name.get(variant.symbol)

    def places(self, variant: Variant) -> dict[Stage, StageNames]:
        """How locations of the lower stages name the lines of the upper ones."""
        out: dict[Stage, StageNames] = {}
        source = variant.stages.get(Stage.SOURCE)
        if source is not None and variant.copied is not None:
            out[Stage.SOURCE] = StageNames(variant.copied.file, variant.copied.first)
        elif source is not None and source.origin_path and variant.fusion is None:
            out[Stage.SOURCE] = StageNames(source.origin_path)
        if variant.embedded is not None:
            out[Stage.OUTPUT_CODE] = self._compiled_file(variant) or StageNames(*variant.embedded)
        return out

    def _compiled_file(self, variant: Variant) -> StageNames | None:
        """The file that locations name in place of the kernel's own, None where they name that.

        Triton's cache may have the code of a template from when max-autotune tried it: the same
        text in another file, where its function begins on another line.
        """
        if variant.fusion is None or variant.embedded is None or variant.span is None:
            return None
        stage = next((s for s in (Stage.TTIR, Stage.TTGIR) if s in variant.stages), None)
        if stage is None:
            return None
        function = self.function(variant, stage)
        listing = self.listing(variant, stage)
        location = None if function is None else listing.lines[function.first - 1].source
        if location is None or location.file == variant.embedded[0]:
            return None
        code = self.listing(variant, Stage.OUTPUT_CODE)
        for line in code.between(*variant.span):
            if line.text.startswith("def "):
                return StageNames(location.file, line.n - location.line + 1)
        return None

    def links(self, variant: Variant, a: Stage, b: Stage) -> Mapping[int, tuple[int, ...]]:
        """Lines of stage ``a`` to the lines of stage ``b`` that they belong to.

        Both directions hold the same pairs. Raises ``PtxviewError`` where a stage cannot be had.
        """
        if a is b:
            return {}
        upper, lower = sorted((a, b), key=lambda s: s.rank)
        stages_key = (*code_key(variant, *variant.stages), _line_owner(variant))
        relation = self._memo.memoize(
            ("relation", *stages_key, upper, lower), lambda: self._relate(variant, upper, lower)
        )
        links_of_relation = relation.forward if a is upper else relation.backward
        return self._memo.memoize(("links", *stages_key, a, b), links_of_relation)

    def _relate(self, variant: Variant, upper: Stage, lower: Stage) -> Relation:
        if upper is Stage.SOURCE and variant.copied is not None and lower is Stage.OUTPUT_CODE:
            return _to_copy(variant, self.listing(variant, upper), self.listing(variant, lower))
        if upper is Stage.SOURCE and variant.copied is None and variant.fusion is not None:
            # The user's lines that a generated kernel was made from, by way of ``output_code``
            file = variant.stages.get(Stage.SOURCE)
            if file is None or file.origin_path is None or Stage.OUTPUT_CODE not in variant.stages:
                return Relation(())
            code, span = self.listing(variant, Stage.OUTPUT_CODE), variant.span
            model = model_lines(code, span, variant.fusion, file.origin_path, operations())
            if lower is not Stage.OUTPUT_CODE:
                model = composed(self.links(variant, lower, Stage.OUTPUT_CODE), model)
            return Relation.from_links(model).turned()
        places = self.places(variant)
        through = None
        ptx = variant.stages.get(Stage.PTX)
        if lower is Stage.SASS and upper is not Stage.PTX and ptx and not ptx.costly:
            through = self.links(variant, Stage.PTX, upper)
        upper_listing, lower_listing = self.listing(variant, upper), self.listing(variant, lower)
        relation = relate(
            upper_listing, lower_listing, (upper, lower), places, operations(), through
        )
        generated = upper is Stage.SOURCE and variant.maker is not None
        if generated and Stage.OUTPUT_CODE in variant.stages and not relation.blocks:
            marks = marked(self.listing(variant, Stage.OUTPUT_CODE))
            if lower is not Stage.OUTPUT_CODE:
                marks = composed(self.links(variant, lower, Stage.OUTPUT_CODE), marks)
            relation = Relation.from_links(marks).turned()
        if upper is Stage.OUTPUT_CODE and variant.fusion is not None:
            # Its definition and its launches belong to where it begins.
            begin = beginning(lower_listing, self.function(variant, lower), relation)
            relation = Relation((*relation.blocks, (variant.fusion.calls, begin)))
        return relation

    def groups(self, variant: Variant, stage: Stage) -> SourceGroups:
        """Group the lines of a stage by source line. Raises ``PtxviewError`` without sources."""
        root = next((s for s in (Stage.SOURCE, Stage.OUTPUT_CODE) if s in variant.stages), None)
        low = [s for s in LINK_STAGES if s in variant.stages]
        # The lines of the source that became code.
        linked = (self._linked(variant, root, s) for s in low if root is not None)
        order = next(filter(None, linked), ())
        if root is not None and order:
            # Each line of the source that code was made of is its own.
            root_lines = (
                {n: (n,) for n in order} if stage is root else self.links(variant, stage, root)
            )
            return SourceGroups(
                by_links(len(self.listing(variant, stage).lines), root_lines), order
            )
        for below in low:
            with suppress(PtxviewError):
                if named := places(self.listing(variant, below)):
                    grouped = by_places(self.listing(variant, stage), named)
                    return SourceGroups(grouped, range(1, len(named) + 1))
        raise Unreadable("no line of this kernel says which source it comes from")

    def _linked(self, variant: Variant, a: Stage, b: Stage) -> Sequence[int]:
        try:
            return tuple(sorted(self.links(variant, a, b)))
        except PtxviewError:
            return ()


def listing_key(variant: Variant, stage: Stage) -> tuple[object, ...]:
    """Identify a listing: by the files that it is read from."""
    if stage is Stage.SASS:
        return (*code_key(variant, stage, Stage.PTX), variant.locations_cubin)
    return code_key(variant, stage)


def _line_owner(variant: Variant) -> str | None:
    """The symbol of a variant whose lines of the source are known for its own function; None where
    all functions of its binary are related to a source file at once, of which there may be
    thousands."""
    file = variant.stages.get(Stage.SOURCE)
    is_named = file is None or file.origin_path is not None
    is_generated = variant.fusion or variant.copied or variant.embedded or variant.maker
    return None if is_named and is_generated is None else variant.symbol


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
            ((source_line,), [copy_line])
            for source_line, copy_line in pairs
            if source.lines[source_line - 1].text.strip()
            == code.lines[copy_line - 1].text.strip()
            != ""
        ]
    )
