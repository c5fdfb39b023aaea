"""What max-autotune chose for an operation, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from inspector.base.model import ChoiceUse, Configuration, Graph, Kernel, Recording, Tuning
from inspector.base.text import microseconds, seconds

TOLD = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
"""Settings of a candidate that a single line shows."""


def of_graph(recording: Recording, graph: Graph) -> Iterator[tuple[Kernel, Tuning, ChoiceUse]]:
    """What was chosen for the operations of a graph."""
    for kernel in recording.kernels:
        for tuning in kernel.autotune:
            yield from ((kernel, tuning, use) for use in tuning.uses if use.graph == graph.id)


def candidate(one: Configuration) -> str:
    """A candidate by its name, its maker where that is ATen, its time, and its settings."""
    took = "" if one.time_us is None else f" {microseconds(one.time_us)} µs"
    whose = " of ATen" if one.maker == "ATen" else ""
    settings = [f"{name} {one.config[name]}" for name in TOLD if name in one.config]
    return f"{one.config.get('choice')}{whose}{took}" + (
        f" ({', '.join(settings)})" if settings else ""
    )


def chosen(tuning: Tuning, *uses: ChoiceUse) -> str:
    """The fastest candidate, and those that code was generated from, which may be others: for all
    operations that were chosen for, or for these alone."""
    best = tuning.winner
    out = "none was measured" if best is None else candidate(best)
    names: dict[tuple[int, str], None] = {}
    for use in uses or tuning.uses:
        if use.configuration is not None and use.kernel is not None:
            names.setdefault((use.configuration, use.kernel))
    for place, kernel in names:
        one = tuning.configurations[place]
        out += f", {kernel} was generated from " + ("it" if one == best else candidate(one))
    return out


def candidates(tuning: Tuning) -> str:
    """How many there were, of whom, how many failed, and where their times are from."""
    makers = Counter(one.maker or "unknown" for one in tuning.configurations)
    parts = [", ".join(f"{count} of {maker}" for maker, count in makers.items())]
    failed = sum((one.reason or "").startswith("failed") for one in tuning.configurations)
    parts += [f"{failed} failed"] if failed else []
    if tuning.from_cache:
        parts.append("times from torch's cache")
    elif tuning.seconds is not None:
        parts.append(f"measured in {seconds(tuning.seconds)}")
    return ", ".join(parts)
