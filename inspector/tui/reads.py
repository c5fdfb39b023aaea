"""What the screens ask of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from inspector.analyse.card import Card
from inspector.analyse.hints import Finding
from inspector.analyse.telling import Explained, Telling
from inspector.listing.line import Function, Listing
from inspector.model import Graph, Recording, Resources, Stage, Variant


class Reads(Protocol):
    """A recording whose listings are made when they are asked for.

    Every method may take a while and may raise ``PtxviewError``: they are called from worker
    threads, several at a time, and their results are kept by the reader.
    """

    @property
    def recording(self) -> Recording:
        """The kernels, their variants and the graphs."""
        ...

    def listing(self, variant: Variant, stage: Stage) -> Listing:
        """One stage of one variant."""
        ...

    def resources(self, variant: Variant) -> Resources:
        """Registers, spills and memory; None where a figure has no source."""
        ...

    def links(self, variant: Variant, a: Stage, b: Stage) -> Mapping[int, tuple[int, ...]]:
        """For lines of ``a``, the lines of ``b`` that come from the same place."""
        ...

    def function(self, variant: Variant, stage: Stage) -> Function | None:
        """Where the variant's kernel stands in that stage's listing."""
        ...

    def graph_listing(self, graph: Graph) -> Listing:
        """The ``output_code`` of a graph."""
        ...

    def telling(self, variant: Variant, stage: Stage) -> Telling:
        """What the analysis says of the lines of a stage."""
        ...

    def card(self, variant: Variant) -> Card:
        """What the variant takes, what limits it and what it is made of."""
        ...

    def findings(self, variant: Variant) -> tuple[Finding, ...]:
        """The hints on the variant."""
        ...

    def explain(self, variant: Variant, stage: Stage, n: int) -> tuple[Explained, ...]:
        """The reference of each word on a line that it knows, the opcode first."""
        ...
