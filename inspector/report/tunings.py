"""Autotuning, one table for each round: candidates by time, the choice, and what became of it.

Times of different rounds (nodes, shapes, processes) never share a column: the same code differs
between them by more than most candidates of one round differ.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from inspector.analyse.tuner_times import (
    SMALL_ELEMENTS,
    Codes,
    elsewhere,
    noise,
    overheads,
    same_code,
    tied,
)
from inspector.base.model import Configuration, Kernel, Recording, Tuning
from inspector.base.text import microseconds, plural, shown
from inspector.report.compiles import CompileLine
from inspector.report.tables import TILE, UNKNOWN, brief, grid, titles

HEADS = ("", "candidate", "variant", "µs", "other rounds", "became")
GIVES = (("became", 24), ("candidate", 40), ("other rounds", 0), ("variant", 0), ("became", 0))
STAR, TIED = "★", "≈"


def lines(rec: Recording, width: int, codes: Codes) -> Iterator[CompileLine]:
    """Every round of every kernel with a heading, its candidates the fastest first.

    ``codes`` tells the machine code of variants apart, by their ids.
    """
    named, floors = titles(rec), overheads(rec)
    for kernel in rec.kernels:
        hashes = {variant.id: variant.hash for variant in kernel.variants}
        for number, tuning in enumerate(kernel.autotune):
            name = named.get(kernel.id, shown(kernel.called))
            heading = " · ".join(filter(None, (name, about(kernel, number))))
            yield CompileLine(Text(heading, "bold cyan"))
            overhead_us = floors.get(tuning.stopwatch or "")
            rows = _rows(kernel, number, named, codes, overhead_us)
            table = grid(HEADS, rows, width, ("µs",), GIVES)
            for text, row in zip(table, [[""] * len(HEADS), *rows], strict=True):
                variant = hashes.get(row[HEADS.index("variant")])
                yield CompileLine(text, kernel=variant, about=row[HEADS.index("became")])
            for said in remarks(kernel, tuning, codes, overhead_us):
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


def _rows(
    kernel: Kernel,
    number: int,
    named: Mapping[str, str],
    codes: Codes,
    overhead_us: float | None,
) -> list[list[str]]:
    tuning = kernel.autotune[number]
    alike = tied(kernel, tuning, codes)
    became: dict[int, list[str]] = {}
    for use in tuning.uses:
        place = tuning.best if use.configuration is None else use.configuration
        told = named.get(use.kernel or "", use.kernel or "a library's function")
        if place is not None and told not in became.setdefault(place, []):
            became[place].append(told)
    rows = []
    for place, one in by_time(tuning):
        first = first_alike(tuning, one, codes)
        same = "" if first is None else f"same code as {first}"
        why = (one.reason or "").partition("\n")[0]
        row = [
            STAR if place == tuning.best else TIED * (one in alike),
            candidate(one),
            shown(one.variant or ""),
            "≤ " * at_most(one, overhead_us)
            + (UNKNOWN if one.time_us is None else microseconds(one.time_us)),
            ", ".join(map(microseconds, elsewhere(kernel, tuning, one))),
            shown(", ".join(filter(None, (*became.get(place, []), same, why)))),
        ]
        rows.append(row)
    return rows


def first_alike(tuning: Tuning, one: Configuration, codes: Codes) -> str | None:
    """The variant of the fastest candidate with the same machine code, None if it is its own."""
    first = min(same_code(tuning, one, codes), key=_time)
    return None if first is one else first.variant


def _time(one: Configuration) -> float:
    return math.inf if one.time_us is None else one.time_us


def by_time(tuning: Tuning) -> list[tuple[int, Configuration]]:
    """The candidates with their places, the fastest first, those without a time last."""
    return sorted(
        enumerate(tuning.configurations),
        key=lambda pair: _time(pair[1]),
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


def remarks(
    kernel: Kernel, tuning: Tuning, codes: Codes, overhead_us: float | None
) -> Iterator[str]:
    """What the round's times do not tell, and how often it was benchmarked."""
    if overhead_us and any(at_most(one, overhead_us) for one in tuning.configurations):
        read = f"{tuning.stopwatch} read up to {microseconds(overhead_us)} µs around kernels of "
        yield f"≤ mostly launch overhead: {read}{SMALL_ELEMENTS:,} elements or fewer"
    spread = noise(kernel, tuning, codes)
    if spread is not None:
        alike = plural(len(tied(kernel, tuning, codes)), "candidate")
        yield f"≈ tied: {alike} within the {spread:.0%} by which times of one code differ"
    counts = {v.benchmarks for v in kernel.variants if v.benchmarks}
    if counts:
        least, most = min(counts), max(counts)
        yield f"benchmarked {least if least == most else f'{least} to {most}'} times each"


def at_most(one: Configuration, overhead_us: float | None) -> bool:
    """Whether a time may be that of launching alone: the kernel takes that or less."""
    return overhead_us is not None and one.time_us is not None and one.time_us <= overhead_us


def document(rec: Recording, codes: Codes) -> Sequence[dict[str, object]]:
    """``list --tunings``' JSON: a row for each round."""
    floors = overheads(rec)
    return [
        {
            "kernel": kernel.id,
            "round": number + 1,
            "nodes": [use.node for use in tuning.uses],
            "best": tuning.best,
            "noise": noise(kernel, tuning, codes),
            "overhead_us": floors.get(tuning.stopwatch or ""),
            "candidates": [
                {
                    "config": dict(one.config),
                    "maker": one.maker,
                    "variant": one.variant,
                    "us": one.time_us,
                    "other_rounds_us": elsewhere(kernel, tuning, one),
                    "same_code_as": first_alike(tuning, one, codes),
                    "tied": one in alike,
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
        for alike in (tied(kernel, tuning, codes),)
    ]
