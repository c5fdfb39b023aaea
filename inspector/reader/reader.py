"""Everything derived from a recording: listings, links, resources, analysis, annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from inspector.analyse.card import Card
from inspector.analyse.graph_view import GraphView
from inspector.analyse.hints.subject import ExecutedFacts
from inspector.analyse.line_annotations import SourceGroups
from inspector.analyse.links import composed
from inspector.base.model import GRAPH_STAGES, Graph, Recording, Stage, Variant
from inspector.listing.line import Listing
from inspector.reader.compiled import made_by
from inspector.reader.facts import Measurements
from inspector.reader.graphs import Graphs
from inspector.reader.line_annotations import Teller
from inspector.reader.listings import groups
from inspector.reader.summaries import COUNTING_SECONDS, Summaries
from inspector.recording.layout import DerivedCache


class Reader(Teller):
    """All that can be read of a recording; each result is computed once and kept.

    Safe to use from several threads. Any method may take a while, and may raise ``PtxviewError``.

    Args:
        recording: What to read.
        cache: The user's cache of the output of tools.
        device: The architecture (``sm_80``) for occupancy and hints; None is the recording's own.
            Raises ``UsageError`` for an unknown one.
        measured: Returns a profiler's measurements of a variant, or None.
    """

    def __init__(
        self,
        recording: Recording,
        cache: DerivedCache,
        device: str | None = None,
        measured: Measurements = lambda _: None,
    ) -> None:
        super().__init__(recording, cache, device, measured)
        self._graphs = Graphs(recording, self.memo)
        self.summaries = Summaries(self)
        """Figures of many variants, for tables."""

    # -- graphs -----------------------------------------------------------------------------

    def graph_listing(self, graph: Graph, stage: Stage = Stage.OUTPUT_CODE) -> Listing:
        """The lines of a stage of a graph. Raises ``PtxviewError`` if it is missing."""
        return self._graphs.listing(graph, stage)

    def graph_stages(self, graph: Graph) -> tuple[Stage, ...]:
        """The stages of a graph that can be shown, in the order of lowering."""
        return self._graphs.stages(graph)

    def graph_text(self, graph: Graph, stage: Stage) -> str:
        """The text of a stage of a graph. Raises ``PtxviewError`` if it is missing."""
        return self._graphs.text(graph, stage)

    def graph_view(self, graph: Graph) -> GraphView:
        """A graph's calls with what each computes. Raises ``PtxviewError``."""
        return self._graphs.view(graph)

    def graph_links(self, graph: Graph, a: Stage, b: Stage) -> Mapping[int, tuple[int, ...]]:
        """Lines of a graph's stage ``a`` to those of its stage ``b`` that they belong to."""
        return self._graphs.links(graph, a, b)

    def links_of(
        self, variant: Variant | None, graph: Graph | None, a: Stage, b: Stage
    ) -> Mapping[int, tuple[int, ...]]:
        """Links as of ``links``, of a variant in its graph, either of which may be missing.

        A stage of the graph is linked with one of the variant through ``output_code``.
        """
        if (graph is None or not {a, b}.intersection(GRAPH_STAGES)) and variant is not None:
            return self.links(variant, a, b)
        if graph is None:
            return {}
        through = Stage.OUTPUT_CODE
        own = {a, b}.difference(self.graph_stages(graph))
        if variant is not None and variant.fusion is None and Stage.SOURCE in (a, b):
            own.add(Stage.SOURCE)  # the kernel's own file, and not the model's
        links = self.graph_links
        if not own:
            return links(graph, a, b)
        if variant is None or len(own) == 2:
            return {}
        if a in own:
            return composed(self.links(variant, a, through), links(graph, through, b))
        return composed(links(graph, a, through), self.links(variant, through, b))

    def groups(self, variant: Variant, stage: Stage) -> SourceGroups:
        """The source line of each line of a stage. Raises ``PtxviewError``."""
        return groups(self, variant, stage)

    # -- variants ---------------------------------------------------------------------------

    def made_by(self, variant: Variant) -> dict[str, str]:
        """The programs that made a variant, with their versions if known."""
        origin = self.kernel(variant).origin
        # Every kernel of a cubin is of the same programs, and the cubin may be large.
        key = ("made by", variant.hash, origin)
        return self.memo.once(key, lambda: made_by(self.recording.tools, origin, variant))

    def card(self, variant: Variant) -> Card:
        """Resources, limits and contents of a variant, its measurements, and its compilers."""
        return replace(super().card(variant), made_by=self.made_by(variant))

    def executed(self, variant: Variant) -> ExecutedFacts | None:
        """Counts of a call whose blocks were run on this machine; None if none was."""
        return self.executions.of(variant)

    def keep_executed(self, variant: Variant, facts: ExecutedFacts) -> None:
        """Keep the counts of a call whose blocks were run: hints use them from now on."""
        self.executions.keep(variant, facts)
        self.pass_over(variant)
        self.summaries.forget(variant)

    def hint_count(self, variant: Variant) -> int | None:
        """How many hints there are on a variant, if they have been counted."""
        summary = self.summaries.of(variant)
        return None if summary is None else summary.hints

    def count_hints(
        self,
        variants: Sequence[Variant],
        seconds: float = COUNTING_SECONDS,
        before: Callable[[], None] = lambda: None,
    ) -> int:
        """Count hints, from the cache and then for at most ``seconds``; how many variants are left.

        ``before`` is called if there are some to count and time to do so.
        """
        return self.summaries.count_hints(variants, seconds, before)
