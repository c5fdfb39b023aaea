"""From a recording to all that is told of it: listings, links, figures, facts, sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from inspector.analyse.card import Card
from inspector.analyse.function_facts import FunctionFacts
from inspector.analyse.graph_view import GraphView
from inspector.analyse.hints.counts import ExecutedFacts
from inspector.analyse.hints.subject import Finding
from inspector.analyse.links import StageNames, composed
from inspector.analyse.occupancy import Device
from inspector.analyse.sentences.context import Context
from inspector.analyse.source_groups import SourceGroups
from inspector.analyse.telling import Explained, Samples, Telling
from inspector.listing.line import Function, Listing
from inspector.model import GRAPH_STAGES, Graph, Kernel, Recording, Resources, Stage, Variant
from inspector.reader.executions import Executions
from inspector.reader.facts import (
    COUNTING,
    HintCounts,
    Measurements,
    Memo,
    VariantFacts,
    nothing_measured,
)
from inspector.reader.figures import VariantFigures
from inspector.reader.graphs import Graphs
from inspector.reader.listings import Listings, StageText
from inspector.reader.made_by import made_by
from inspector.reader.source_map import SourceMap
from inspector.reader.summaries import Summaries
from inspector.reader.telling import Teller
from inspector.recording.layout import DerivedCache


class Reader:
    """What there is to read of a recording, each thing made when it is first asked for, and kept.

    Safe to use from several threads. Any method may take a while, and may raise ``PtxviewError``.

    ``device`` names the architecture (``sm_80``) that occupancy and hints are told for; None is
    the one that the recording was made on or for. Raises ``UsageError`` for one that is not known.
    ``measured`` says what a profiler measured of a variant.
    """

    def __init__(
        self,
        recording: Recording,
        cache: DerivedCache,
        device: str | None = None,
        measured: Measurements = nothing_measured,
    ) -> None:
        self.recording = recording
        self._memo = memo = Memo()
        self._listings = Listings(cache)
        self._graphs = Graphs(recording)
        self._map = SourceMap(self._listings)
        self._figures = VariantFigures(cache)
        self._executions = Executions(cache)
        self._facts = VariantFacts(
            recording, self._listings, self._figures, memo, device, measured, self._executions.of
        )
        self._hint_counts = HintCounts(self._facts, cache)
        self.summaries = Summaries(
            recording, cache, device,
            lambda listings, figures, own: VariantFacts(
                recording, listings, figures, own, device, measured, self._executions.of
            ),
        )  # fmt: skip
        """What tables say of variants, read many at once."""

        self._teller = Teller(self._listings, self._figures, self._facts, memo)

    # -- texts and listings -----------------------------------------------------------------

    def text(self, variant: Variant, stage: Stage) -> StageText:
        """The text of a stage. Raises ``Unreadable`` with the reason where there is none."""
        return self._listings.text(variant, stage)

    def graph_listing(self, graph: Graph, stage: Stage = Stage.OUTPUT_CODE) -> Listing:
        """The lines of a stage of a graph. Raises ``PtxviewError`` where it cannot be had."""
        return self._graphs.listing(graph, stage)

    def graph_stages(self, graph: Graph) -> tuple[Stage, ...]:
        """What can be shown of a graph, in the order of lowering."""
        return self._graphs.stages(graph)

    def graph_text(self, graph: Graph, stage: Stage) -> str:
        """The text of a stage of a graph. Raises ``PtxviewError`` where it cannot be had."""
        return self._graphs.text(graph, stage)

    def graph_view(self, graph: Graph) -> GraphView:
        """A graph's calls with what each computes. Raises ``PtxviewError``."""
        return self._graphs.view(graph)

    def graph_links(self, graph: Graph, a: Stage, b: Stage) -> Mapping[int, tuple[int, ...]]:
        """Lines of a graph's stage ``a`` to those of its stage ``b`` that they belong to."""
        return self._graphs.links(graph, a, b)

    def listing(self, variant: Variant, stage: Stage) -> Listing:
        """The lines of a stage. Raises ``PtxviewError`` with the reason where it cannot be had."""
        return self._listings.listing(variant, stage)

    def function(self, variant: Variant, stage: Stage) -> Function | None:
        """Where the kernel stands in a stage's listing, or None if that is not known."""
        return self._listings.function(variant, stage)

    def places(self, variant: Variant) -> dict[Stage, StageNames]:
        """How locations of the lower stages name the lines of the upper ones."""
        return self._listings.places(variant)

    def links(self, variant: Variant, a: Stage, b: Stage) -> Mapping[int, tuple[int, ...]]:
        """Lines of stage ``a`` to the lines of stage ``b`` that they belong to.

        Both directions hold the same pairs. Raises ``PtxviewError`` where a stage cannot be had.
        """
        return self._listings.links(variant, a, b)

    def links_of(
        self, variant: Variant | None, graph: Graph | None, a: Stage, b: Stage
    ) -> Mapping[int, tuple[int, ...]]:
        """The same of a variant in its graph, either of which may be missing: from a stage of the
        graph to one of the variant by way of ``output_code``."""
        if (graph is None or not {a, b}.intersection(GRAPH_STAGES)) and variant is not None:
            return self.links(variant, a, b)
        if graph is None:
            return {}
        through = Stage.OUTPUT_CODE
        there = self.graph_stages(graph)
        own = {a, b}.difference(there)
        if variant is not None and variant.fusion is None and Stage.SOURCE in (a, b):
            own.add(Stage.SOURCE)  # the kernel's own file, and not the model's
        if not own:
            return self.graph_links(graph, a, b)
        if variant is None or len(own) == 2:
            return {}
        if a in own:
            return composed(self.links(variant, a, through), self.graph_links(graph, through, b))
        return composed(self.graph_links(graph, a, through), self.links(variant, through, b))

    def groups(self, variant: Variant, stage: Stage) -> SourceGroups:
        """Which line of the source each line of a stage comes from. Raises ``PtxviewError``."""
        return self._map.groups(variant, stage)

    # -- figures ----------------------------------------------------------------------------

    def resources(self, variant: Variant) -> Resources:
        """What a variant takes: cuobjdump's figures, then what was recorded, then PTX's bounds."""
        return self._figures.resources(variant)

    def made_by(self, variant: Variant) -> dict[str, str]:
        """The programs that made a variant, with their versions as far as they are known."""
        origin = self.kernel(variant).origin
        # Every kernel of a cubin is of the same programs, and the cubin may be large.
        key = ("made by", variant.hash, origin)
        return self._memo.once(key, lambda: made_by(self.recording.tools, origin, variant))

    def known_by_now(self, variant: Variant) -> Resources:
        """What is known of a variant without asking anything."""
        return self._figures.known_by_now(variant)

    def figures(self, variants: Sequence[Variant]) -> Iterator[tuple[int, int]]:
        """Reads the figures of many variants, the tools side by side; how many cubins are done, of
        how many, some times a second. ``resources`` then has them all at once."""
        return self._figures.read(variants)

    # -- facts ------------------------------------------------------------------------------

    def kernel(self, variant: Variant) -> Kernel:
        """The kernel that a variant is of."""
        return self._facts.kernel(variant)

    def device(self, variant: Variant) -> Device | None:
        """The device that figures are told for, None if the architecture is not known."""
        return self._facts.device(variant)

    def context(self, variant: Variant) -> Context:
        """Parameters, grid and block, as far as PTX, the signature and the launches tell them."""
        return self._facts.context(variant)

    def parameter_names(self, variant: Variant, stage: Stage) -> dict[str, str]:
        """What a kernel's parameters are called in its source, by what PTX or SASS calls them."""
        return self._facts.parameter_names(variant, stage)

    def card(self, variant: Variant) -> Card:
        """What the variant takes, what limits it and what it is made of; what was measured."""
        return replace(self._facts.card(variant), made_by=self.made_by(variant))

    def findings(self, variant: Variant, counted: bool = True) -> tuple[Finding, ...]:
        """The hints on the variant, then those of the profiler that measured it.

        ``counted``: with what was counted when blocks of a call were run, if they were on this
        machine; two variants are held against each other, and against limits, by the code alone.
        """
        return self._facts.findings(variant, counted)

    def executed(self, variant: Variant) -> ExecutedFacts | None:
        """What was counted when blocks of a call of the variant were run; None if none were."""
        return self._executions.of(variant)

    def counted(self, variant: Variant, facts: ExecutedFacts) -> tuple[Finding, ...]:
        """The hints that these counts of a launch of the variant give, and no others."""
        return self._facts.counted(variant, facts)

    def keep_executed(self, variant: Variant, facts: ExecutedFacts) -> None:
        """Blocks of a recorded call of the variant were run: from now on its hints tell of them."""
        self._executions.keep(variant, facts)
        self._facts.forget_hints(variant)
        self.summaries.forget(variant)

    def lacking(self, variant: Variant) -> tuple[str, ...]:
        """Why figures and hints are not known, where what they are read from was recorded: a
        missing tool, a damaged cubin, a blob that is gone."""
        return self._facts.lacking(variant)

    def pass_over(self, variant: Variant) -> None:
        """Keep nothing any longer of one variant of a file of thousands that was told of."""
        self._facts.pass_over(variant)

    def forget(self, variants: Sequence[Variant]) -> None:
        """Keep nothing any longer of variants that are done with, where there are thousands."""
        self._facts.forget(variants)

    def facts(self, variant: Variant, stage: Stage, n: int) -> FunctionFacts | None:
        """What is known of the function of PTX or SASS that line ``n`` stands in."""
        return self._facts.of_function(variant, stage, n)

    def failed_at(self, variant: Variant) -> tuple[Stage, int] | None:
        """The stage and the line at which a compiler says why a variant did not compile."""
        return self._facts.failed_at(variant)

    def hint_count(self, variant: Variant) -> int | None:
        """How many hints of ours there are on a variant, where they have been counted."""
        return self._hint_counts.of(variant)

    def count_hints(
        self,
        variants: Sequence[Variant],
        seconds: float = COUNTING,
        before: Callable[[], None] = lambda: None,
    ) -> int:
        """Count hints: those that were counted before, then others until ``seconds`` are over; how
        many variants are left without a count. ``before`` is called where there are some to count,
        and time to do so.
        """
        return self._hint_counts.count(variants, seconds, before)

    # -- lines ------------------------------------------------------------------------------

    def telling(self, variant: Variant, stage: Stage, whole: bool = False) -> Telling:
        """What is told of the lines of a stage. Raises ``PtxviewError`` where it cannot be had.

        Counts are of the variant's own function; ``whole`` has those of every function of the file.
        """
        return self._teller.telling(variant, stage, whole)

    def samples(self, variant: Variant, stage: Stage) -> Mapping[int, Samples]:
        """A profiler's samples by line of a stage; above SASS, what the SASS of a line comes to."""
        return self._teller.samples(variant, stage)

    def explain(self, variant: Variant, stage: Stage, n: int) -> tuple[Explained, ...]:
        """The reference of each word on a line of PTX or SASS that it knows, the opcode first."""
        return self._teller.explain(variant, stage, n)
