"""All that is computed of one function of PTX or SASS, on steps that are read once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from inspector.analyse.flow.definitions import Chains, chains
from inspector.analyse.flow.graph import (
    Flow,
    FlowGraph,
    Steps,
    control_flow,
    make_graph,
    read_steps,
)
from inspector.analyse.flow.liveness import Liveness, live_ranges
from inspector.analyse.opcodes import OpcodeLines
from inspector.analyse.scheduling import Schedule, schedule
from inspector.listing.line import Function, Listing


class FunctionFacts:
    """Analyses of one function of a listing, each computed on first use.

    A function of a language that is neither PTX nor SASS has no blocks, no registers and no
    chains. ``scheduling`` is ``reference/scheduling.toml``, which names the scoreboards. Safe to
    use from several threads.
    """

    def __init__(
        self, listing: Listing, function: Function, scheduling: Mapping[str, object] | None = None
    ) -> None:
        self.function = function
        self._listing = listing
        self._scheduling = scheduling

    @cached_property
    def _steps(self) -> Steps:
        return read_steps(self._listing, self.function)

    @cached_property
    def _graph(self) -> FlowGraph:
        return make_graph(self._steps)

    @cached_property
    def code(self) -> OpcodeLines:
        """Instructions by opcode."""
        return OpcodeLines(self._listing, self.function)

    @cached_property
    def flow(self) -> Flow:
        """Basic blocks, edges and loops."""
        return control_flow(self._steps, self._graph)

    @cached_property
    def live(self) -> Liveness:
        """Live registers at each instruction."""
        return live_ranges(self._listing, self.function, self._steps, self._graph)

    @cached_property
    def chains(self) -> Chains:
        """Definitions and uses of registers."""
        return chains(self._steps, self._graph, calls=self._listing.language == "sass")

    @cached_property
    def schedule(self) -> Schedule | None:
        """What the control words of SASS say; None of any other language."""
        if self._listing.language != "sass":
            return None
        return schedule(self._listing.lines, self.flow, self._scheduling)
