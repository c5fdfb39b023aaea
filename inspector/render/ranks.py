"""What the ranks of one program compiled differently, as text and as JSON.

A rank is all processes with the same ``RANK`` in one recording; a recording without any is one
rank. Compared are variants and functions compiled, recompiles, and cache hits.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePath
from typing import TypeVar

from msgspec import Struct, field
from rich.text import Text

from inspector.base.escapes import shown
from inspector.base.grouping import by_key
from inspector.base.model import FrameCompile, Kernel, KernelCompile, Recording, UserFrame
from inspector.base.units import plural, some
from inspector.render.labels import labels

CACHES = {"fx_graph": "FX graph", "fx_graph_bundled": "FX graph", "aotautograd": "AOTAutograd"}


class Rank(Struct, frozen=True):
    number: int | None
    machine: str | None
    processes: frozenset[int]

    @property
    def name(self) -> str:
        """``rank 1``, ``rank 1 of node0``, ``node0``."""
        if self.number is None:
            return self.machine or ""
        machine_text = f" of {self.machine}" if self.machine is not None else ""
        return f"rank {self.number}{machine_text}"


class RankDifference(Struct, frozen=True):
    """One difference: ``kind`` is ``variant``, ``kernel``, ``compiles``, ``function`` or ``cache``.

    ``by_rank`` has each rank's variants, number of compiles or lookups; ``place`` is the function.
    """

    kind: str
    text: str
    by_rank: Mapping[str, tuple[object, ...]]
    kernel: str | None = None
    function: str | None = None
    place: UserFrame | None = None


Outcome = TypeVar("Outcome", bound=Hashable)
RankKernels = Sequence[tuple[Rank, KernelCompile]]
"""Kernel compiles, each with the rank that compiled."""
RankFrames = Sequence[tuple[Rank, FrameCompile]]
"""Compiles of functions, each with the rank that compiled."""
VariantsByRank = Mapping[Rank, frozenset[str]]
"""The ids of the variants that each rank compiled."""


def ranks(rec: Recording) -> tuple[Rank, ...]:
    groups = by_key(((process.machine, process.rank), process.number) for process in rec.processes)
    numbered = {machine for machine, number in groups if number is not None}
    several = [
        Rank(number, machine, frozenset(numbers))
        for (machine, number), numbers in groups.items()
        # The launcher, and children without its environment, are no ranks.
        if number is not None or (machine is not None and machine not in numbered)
    ]
    order = {machine: n for n, machine in enumerate(rec.machines)}
    several.sort(key=lambda r: (r.number or 0, order.get(r.machine or "", 0)))
    return tuple(several) if len(several) > 1 else ()


def differences(rec: Recording) -> tuple[RankDifference, ...]:
    """Return what ranks compiled differently: kernels, then functions, then caches."""
    all_ranks = ranks(rec)
    rank_of = {number: rank for rank in all_ranks for number in rank.processes}
    kernels = [
        (rank_of[kernel.process], kernel)
        for kernel in rec.kernel_compiles
        if kernel.compiler == "triton" and kernel.process in rank_of
    ]
    frames = [
        (rank_of[frame.process], frame)
        for frame in rec.frame_compiles
        if frame.process in rank_of and frame.direction == "forward"
    ]
    return (
        *_kernel_differences(rec, all_ranks, kernels),
        *_function_differences(all_ranks, frames),
        *_triton_cache_differences(rec, all_ranks, kernels),
        *_graph_cache_differences(all_ranks, frames),
    )


def _ranks_by_outcome(outcomes: Mapping[Rank, Outcome]) -> dict[Outcome, list[Rank]]:
    """The ranks of each outcome; with one group nothing differs."""
    return by_key((outcome, rank) for rank, outcome in outcomes.items())


# -- kernels --------------------------------------------------------------------------------------


class _RankCompiles(Struct):
    """The ranks that compiled a variant, and those whose compile of it failed."""

    compiled: set[Rank] = field(default_factory=set)
    failed: set[Rank] = field(default_factory=set)


def _kernel_differences(
    rec: Recording, all_ranks: Sequence[Rank], kernels: RankKernels
) -> Iterator[RankDifference]:
    by_hash: dict[str, _RankCompiles] = {}
    for rank, kernel_compile in kernels:
        compiles = by_hash.setdefault(kernel_compile.hash or "", _RankCompiles())
        if kernel_compile.failed is None:
            compiles.compiled.add(rank)
        else:
            compiles.failed.add(rank)
    for kernel in rec.kernels:
        compiles_by_id = {v.id: by_hash[v.hash] for v in kernel.variants if v.hash in by_hash}
        compiled = {
            rank: frozenset(ident for ident, c in compiles_by_id.items() if rank in c.compiled)
            for rank in all_ranks
        }
        sets = set(compiled.values())
        if len(sets) < 2:
            continue
        by_rank = {rank.name: tuple(sorted(ids)) for rank, ids in compiled.items()}
        if len(sets - {frozenset()}) > 1:
            kind = "variant"
            text = _variants_text(kernel, compiled)
        else:
            kind = "kernel"
            failing = {rank for c in compiles_by_id.values() for rank in c.failed}
            text = _kernel_text(compiled, failing)
        yield RankDifference(
            kind, f"{shown(kernel.display_name)}: {text}", by_rank, kernel=kernel.id
        )


def _kernel_text(compiled: VariantsByRank, failing: Collection[Rank]) -> str:
    """``rank 0 compiled it, rank 1 could not``."""
    outcomes = {}
    for rank, ids in compiled.items():
        if ids:
            outcomes[rank] = "compiled it"
        elif rank in failing:
            outcomes[rank] = "could not"
        else:
            outcomes[rank] = "did not"
    groups = _ranks_by_outcome(outcomes)
    return ", ".join(f"{_ranks_text(group)} {outcome}" for outcome, group in groups.items())


def _variants_text(kernel: Kernel, compiled: VariantsByRank) -> str:
    """Which ranks compiled which variants, by the settings in which these differ."""
    all_ids = frozenset().union(*compiled.values())
    variants = [variant for variant in kernel.variants if variant.id in all_ids]
    names = {v.id: str(label) for v, label in zip(variants, labels(variants), strict=True)}
    shared = frozenset.intersection(*compiled.values())
    parts = []
    for ids, group in _ranks_by_outcome({r: ids - shared for r, ids in compiled.items()}).items():
        own_names = [name for ident, name in names.items() if ident in ids]
        parts.append(f"{_ranks_text(group)} compiled {some(own_names, 4) or 'none of these'}")
    text = ", ".join(parts)
    if shared:
        text += f"; all compiled {some([names[ident] for ident in sorted(shared)], 4)}"
    return text


# -- functions ------------------------------------------------------------------------------------


def _function_differences(
    all_ranks: Sequence[Rank], frames: RankFrames
) -> Iterator[RankDifference]:
    by_function = by_key(
        ((frame.function, frame.file, frame.line), (rank, frame)) for rank, frame in frames
    )
    for (function, file, line), compiles in by_function.items():
        frames_by_rank = by_key(compiles)
        counts = {rank: len(frames_by_rank.get(rank, ())) for rank in all_ranks}
        groups = _ranks_by_outcome(counts)
        if len(groups) < 2:
            continue
        parts = [
            f"{_ranks_text(group)} {_times_text(count)}"
            for count, group in sorted(groups.items(), reverse=True)
        ]
        place = UserFrame(file, line, function) if file and line else None
        location = f"  {PurePath(file).name}:{line}" if place else ""
        reasons = _guards_text(chain.from_iterable(frames_by_rank.values()))
        yield RankDifference(
            "function" if 0 in groups else "compiles",
            f"{shown(function)}{shown(location)}: {', '.join(parts)}{reasons}",
            {rank.name: (count,) if count else () for rank, count in counts.items()},
            function=function,
            place=place,
        )


def _times_text(count: int) -> str:
    words = {0: "did not", 1: "compiled it once", 2: "compiled it twice"}
    return words.get(count, f"compiled it {count} times")


def _guards_text(frames: Iterable[FrameCompile]) -> str:
    """The first failed guards of recompiles in parentheses; "" without any."""
    guards = dict.fromkeys(shown(f.failures[0].guard) for f in frames if f.failures)
    return f" ({some(list(guards), 2)})" if guards else ""


# -- caches ---------------------------------------------------------------------------------------


def _triton_cache_differences(
    rec: Recording, all_ranks: Sequence[Rank], kernels: RankKernels
) -> Iterator[RankDifference]:
    """Kernels that some ranks found in Triton's cache and others compiled."""
    lookups: dict[str | None, dict[Rank, str]] = {}
    for rank, kernel_compile in kernels:
        outcomes = lookups.setdefault(kernel_compile.hash, {})
        # A rank missed if any of its processes did.
        if kernel_compile.hit is False:
            outcomes[rank] = "miss"
        elif kernel_compile.hit is True:
            outcomes.setdefault(rank, "hit")
    names_by_outcome: dict[tuple[str, ...], list[str]] = {}
    for kernel, variant in rec.variants():
        by_rank = lookups.get(variant.hash, {})
        if {"hit", "miss"} <= {*by_rank.values()}:
            outcomes_of_all = tuple(by_rank.get(rank, "") for rank in all_ranks)
            name = shown(f"{kernel.display_name} {variant.id[:4]}")
            names_by_outcome.setdefault(outcomes_of_all, []).append(name)
    for outcomes_of_all, names in names_by_outcome.items():
        by_rank = dict(zip(all_ranks, outcomes_of_all, strict=True))
        groups = _ranks_by_outcome(by_rank)
        yield RankDifference(
            "cache",
            f"Triton's cache: {_ranks_text(groups['miss'])} compiled "
            f"{plural(len(names), 'kernel')} that {_ranks_text(groups['hit'])} found there: "
            f"{some(names)}",
            {rank.name: (outcome,) if outcome else () for rank, outcome in by_rank.items()},
        )


def _graph_cache_differences(
    all_ranks: Sequence[Rank], frames: RankFrames
) -> Iterator[RankDifference]:
    lookups: dict[tuple[str, str], dict[Rank, list[str]]] = {}
    for rank, frame in frames:
        for lookup in frame.caches:
            cache = CACHES.get(lookup.cache, lookup.cache)
            by_rank = lookups.setdefault((frame.function, cache), {})
            by_rank.setdefault(rank, []).append(lookup.outcome)
    for (function, cache), by_rank in lookups.items():
        outcomes = {r: tuple(dict.fromkeys(by_rank[r])) for r in all_ranks if r in by_rank}
        groups = _ranks_by_outcome(outcomes)
        if len(set(map(frozenset, groups))) < 2:
            continue
        parts = [f"{shown('/'.join(o))} on {_ranks_text(group)}" for o, group in groups.items()]
        yield RankDifference(
            "cache",
            f"{cache} cache: {', '.join(parts)}, for {shown(function)}",
            {rank.name: tuple(by_rank.get(rank, ())) for rank in all_ranks},
            function=function,
        )


# -- text and JSON --------------------------------------------------------------------------------


def _ranks_text(several: Sequence[Rank]) -> str:
    """``rank 0``, ``ranks 0 to 3 and 7``, ``node0 and node1``."""
    numbers = sorted(r.number for r in several if r.number is not None and r.machine is None)
    if len(several) < 2 or len(numbers) < len(several):
        return some([shown(r.name) for r in several], 4)
    spans: list[list[int]] = []
    for number in numbers:
        if not spans or number > spans[-1][1] + 1:
            spans.append([number, number])
        spans[-1][1] = number
    return f"ranks {some([_span_text(first, last) for first, last in spans], 6)}"


def _span_text(first: int, last: int) -> str:
    """``3``, ``3 and 4``, ``3 to 5``."""
    if first == last:
        return str(first)
    return f"{first} to {last}" if last - first > 1 else f"{first} and {last}"


def lines(rec: Recording) -> Iterator[tuple[Text, RankDifference | None]]:
    all_ranks = ranks(rec)
    if not all_ranks:
        return
    found_differences = differences(rec)
    summary = "nothing was compiled differently"
    if found_differences:
        summary = plural(len(found_differences), "difference")
    yield Text(f"{plural(len(all_ranks), 'rank')}: {summary}", "bold cyan"), None
    for difference in found_differences:
        yield Text(f"  ≠ {difference.text}", "yellow"), difference


class RankRow(Struct, frozen=True, kw_only=True):
    """A rank: all processes with its number on one machine."""

    name: str
    machine: str | None
    rank: int | None
    processes: list[int]


class RankDifferenceRow(Struct, frozen=True, kw_only=True):
    """One difference; ``by_rank`` has each rank's variants, number of compiles or lookups."""

    kind: str
    text: str
    kernel: str | None
    function: str | None
    file: str | None
    line: int | None
    by_rank: Mapping[str, tuple[object, ...]]


class RanksRow(Struct, frozen=True):
    """The ranks of a program, and what they compiled differently."""

    ranks: list[RankRow]
    differences: list[RankDifferenceRow]


def ranks_row(rec: Recording) -> RanksRow:
    return RanksRow(
        [
            RankRow(
                name=rank.name,
                machine=rank.machine,
                rank=rank.number,
                processes=sorted(rank.processes),
            )
            for rank in ranks(rec)
        ],
        list(map(_difference_row, differences(rec))),
    )


def _difference_row(difference: RankDifference) -> RankDifferenceRow:
    place = difference.place
    return RankDifferenceRow(
        kind=difference.kind,
        text=difference.text,
        kernel=difference.kernel,
        function=difference.function,
        file=place.file if place else None,
        line=place.line if place else None,
        by_rank=difference.by_rank,
    )
