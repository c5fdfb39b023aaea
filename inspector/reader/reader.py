"""Everything derived from a recording, by the services of one reader."""

from __future__ import annotations

from inspector.analysis.hints.subject import ExecutedFacts
from inspector.base.model import Recording, Variant
from inspector.reader.annotations import AnnotationReader
from inspector.reader.graphs import GraphReader
from inspector.reader.memo import Memo, RecordingIndex
from inspector.reader.navigation import Navigation
from inspector.reader.stages import StageReader
from inspector.reader.summaries import Summaries
from inspector.reader.variant_facts import Measurements, VariantFacts
from inspector.recording.layout import DerivedCache


class Reader:
    """All that can be read of a recording; each result is computed once and kept.

    Safe to use from several threads. Any method of its services may take a while, and may raise
    ``PtxviewError``.

    Args:
        recording: What to read.
        cache: The user's cache of the output of tools.
        device: The architecture (``sm_80``) for occupancy and hints; None is the recording's own.
            Raises ``UsageError`` for an unknown one.
        measured: Returns a profiler's measurements of a variant, or None.

    Attributes:
        stages: Texts, listings and links of variants.
        facts: Resources, parameters, hints and analysis of variants.
        annotations: Annotations of lines, and regions to look at first.
        graphs: Stages, calls and links of graphs.
        navigation: Links across a variant and its graph.
        summaries: Figures of many variants, for tables.
        memo: The results of all of them.
    """

    def __init__(
        self,
        recording: Recording,
        cache: DerivedCache,
        device: str | None = None,
        measured: Measurements = lambda _: None,
    ) -> None:
        self.recording = recording
        self.cache = cache
        self.index = RecordingIndex(recording)
        self.memo = Memo()
        self.stages = StageReader(cache, self.memo)
        self.facts = VariantFacts(
            recording, self.index, self.stages, self.memo, cache, device, measured
        )
        self.annotations = AnnotationReader(self.stages, self.facts, self.index, self.memo)
        self.graphs = GraphReader(recording, self.index, self.memo)
        self.navigation = Navigation(recording, self.index, self.stages, self.graphs, self.memo)
        self.summaries = Summaries(self.facts, self.memo, cache)

    def store_execution_counts(self, variant: Variant, counts: ExecutedFacts) -> None:
        """Keep the counts of a call whose blocks were run: hints use them from now on."""
        self.facts.store_execution_counts(variant, counts)
        self.summaries.forget(variant)
