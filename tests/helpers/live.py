"""The names of live registers, line by line."""

from __future__ import annotations

from inspector.analysis.flow.graph import make_graph, read_steps
from inspector.analysis.flow.liveness import ranges_of
from inspector.parsers.line import Function, Listing


def live_names(listing: Listing, function: Function) -> dict[int, set[str]]:
    """What is live at each line on which an instruction begins."""
    steps = read_steps(listing, function)
    steps, ranges = ranges_of(listing, function, steps, make_graph(steps))
    return {
        step.line: {steps.names[r] for r in live.union(step.defs, step.uses) if steps.classes[r]}
        for region in range(len(ranges.starts) - 1)
        for step, live, _ in ranges.region(region)
    }
