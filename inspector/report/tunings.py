"""Autotuning, one table for each round: candidates by time, the choice, and what became of it.

Times of different rounds (nodes, shapes, processes) never share a column: the same code differs
between them by more than most candidates of one round differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from inspector.base.model import Configuration, Kernel, Recording, Tuning
from inspector.base.text import microseconds, plural, shown
from inspector.report.compiles import CompileLine
from inspector.report.naming import TILE, titles
from inspector.report.tables import UNKNOWN, brief, grid

HEADS = ("", "candidate", "variant", "µs", "other rounds", "became")
GIVES = (("became", 24), ("candidate", 40), ("other rounds", 0), ("variant", 0), ("became", 0))
STAR = "★"


def lines(rec: Recording, width: int) -> Iterator[CompileLine]:
    """Every round of every kernel with a heading, its candidates the fastest first."""
    named = titles(rec)
    for kernel in rec.kernels:
        hashes = {variant.id: variant.hash for variant in kernel.variants}
        for number, tuning in enumerate(kernel.autotune):
            name = named.get(kernel.id, shown(kernel.called))
            heading = " · ".join(filter(None, (name, about(kernel, number))))
            yield CompileLine(Text(heading, "bold cyan"))
            rows = _rows(kernel, number, named)
            table = grid(HEADS, rows, width, ("µs",), GIVES)
            for text, row in zip(table, [[""] * len(HEADS), *rows], strict=True):
                yield CompileLine(text, kernel=hashes.get(row[HEADS.index("variant")]))
            for said in remarks(kernel, tuning):
                yield CompileLine(Text(f"  {said}"))
            yield CompileLine(Text(""))


def about(kernel: Kernel, number: int) -> str:
    """Which round it is, the nodes or sizes that it was for, and its stopwatch."""
    tuning, rounds = kernel.autotune[number], len(kernel.autotune)
    nodes = ", ".join(use.node for use in tuning.uses if use.node)
    key = tuning.key
    sizes = ", ".join(f"{k}={v}" for k, v in key.items()) if isinstance(key, Mapping) else key
    parts = [
        f"round {number + 1} of {rounds}" if rounds > 1 else "",
        f"for {nodes}" if nodes else "" if tuning.operation else shown(str(sizes or "")),
        "times from a cache" if tuning.from_cache else shown(tuning.stopwatch or ""),
    ]
    return " · ".join(filter(None, parts))


def _rows(kernel: Kernel, number: int, named: Mapping[str, str]) -> list[list[str]]:
    tuning = kernel.autotune[number]
    became: dict[int, list[str]] = {}
    for use in tuning.uses:
        place = tuning.best if use.configuration is None else use.configuration
        told = named.get(use.kernel or "", use.kernel or "a library's function")
        if place is not None and told not in became.setdefault(place, []):
            became[place].append(told)
    return [
        [
            STAR if place == tuning.best else "",
            candidate(one),
            shown(one.variant or ""),
            UNKNOWN if one.time_us is None else microseconds(one.time_us),
            ", ".join(map(microseconds, elsewhere(kernel, number, one))),
            shown(", ".join(became.get(place, [])) or (one.reason or "").partition("\n")[0]),
        ]
        for place, one in by_time(tuning)
    ]


def by_time(tuning: Tuning) -> list[tuple[int, Configuration]]:
    """The candidates with their places, the fastest first, those without a time last."""
    return sorted(
        enumerate(tuning.configurations),
        key=lambda pair: float("inf") if pair[1].time_us is None else pair[1].time_us,
    )


def candidate(one: Configuration) -> str:
    """A candidate's maker or template, its tile and its settings."""
    choice = str(one.config.get("choice") or "")
    own = {
        name: value
        for name, value in one.config.items()
        if name != "choice" and (not choice or name in (*TILE, "num_warps", "num_stages"))
    }
    whose = one.maker if one.maker not in (None, "Triton") else ""
    return shown(" ".join(filter(None, [whose, choice, brief(own)])))


def elsewhere(kernel: Kernel, number: int, one: Configuration) -> list[float]:
    """Times of the same candidate in the kernel's other rounds for the same key."""
    own = kernel.autotune[number]
    return [
        other.time_us
        for at, tuning in enumerate(kernel.autotune)
        if at != number and tuning.key == own.key
        for other in tuning.configurations
        if other.config == one.config and other.maker == one.maker and other.time_us is not None
    ]


def noise(kernel: Kernel, tuning: Tuning) -> float | None:
    """How much the median candidate's time differs between rounds, as a share of it; None if it
    was tuned once."""
    number = kernel.autotune.index(tuning)
    ratios = sorted(
        max(times) / min(times) - 1
        for one in tuning.configurations
        if one.time_us
        for others in (elsewhere(kernel, number, one),)
        if others
        for times in ([one.time_us, *others],)
    )
    return ratios[len(ratios) // 2] if ratios else None


def remarks(kernel: Kernel, tuning: Tuning) -> Iterator[str]:
    """Whether the choice is within the tuner's noise, and how often it was benchmarked."""
    winner, spread = tuning.winner, noise(kernel, tuning)
    if winner is not None and winner.time_us and spread is not None:
        tied = [
            one
            for one in tuning.configurations
            if one is not winner
            and one.time_us is not None
            and one.time_us <= winner.time_us * (1 + spread)
        ]
        if tied:
            yield (
                f"tied: {plural(len(tied), 'candidate')} within the {spread:.0%} by which times "
                "of the same candidate differ between rounds"
            )
    counts = {v.benchmarks for v in kernel.variants if v.benchmarks}
    if counts:
        least, most = min(counts), max(counts)
        yield f"benchmarked {least if least == most else f'{least} to {most}'} times each"


def document(rec: Recording) -> Sequence[dict[str, object]]:
    """``list --tunings``' JSON: a row for each round."""
    return [
        {
            "kernel": kernel.id,
            "round": number + 1,
            "nodes": [use.node for use in tuning.uses],
            "best": tuning.best,
            "noise": noise(kernel, tuning),
            "candidates": [
                {
                    "config": dict(one.config),
                    "maker": one.maker,
                    "variant": one.variant,
                    "us": one.time_us,
                    "other_rounds_us": elsewhere(kernel, number, one),
                    "reason": one.reason,
                    "became": sorted(
                        {u.kernel for u in tuning.uses if u.kernel and u.configuration == place}
                    ),
                }
                for place, one in enumerate(tuning.configurations)
            ],
        }
        for kernel in rec.kernels
        for number, tuning in enumerate(kernel.autotune)
    ]
