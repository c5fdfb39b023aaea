"""What the ranks of one program compiled differently, as text and as JSON.

A rank is all processes with the same ``RANK`` in one recording; a recording without any is one
rank. Compared are variants and functions compiled, recompiles, and cache hits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TypeVar

from msgspec import Struct
from rich.text import Text

from inspector.base.model import FrameCompile, Kernel, KernelCompile, Recording, UserFrame
from inspector.base.text import plural, shown, some
from inspector.report.jsons import members, plain
from inspector.report.tables import labels

CACHES = {"fx_graph": "FX graph", "fx_graph_bundled": "FX graph", "aotautograd": "AOTAutograd"}
T = TypeVar("T", bound=Hashable)


class Rank(Struct, frozen=True):
    number: int | None
    machine: str | None
    processes: frozenset[int]

    @property
    def name(self) -> str:
        """``rank 1``, ``rank 1 of node0``, ``node0``."""
        of = f" of {self.machine}" if self.machine is not None else ""
        return f"rank {self.number}{of}" if self.number is not None else self.machine or ""


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


Ranks = Sequence[Rank]
Kernels = Sequence[tuple[Rank, KernelCompile]]
Frames = Sequence[tuple[Rank, FrameCompile]]


def ranks(rec: Recording) -> tuple[Rank, ...]:
    groups: dict[tuple[str | None, int | None], set[int]] = {}
    for process in rec.processes:
        groups.setdefault((process.machine, process.rank), set()).add(process.number)
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
    every = ranks(rec)
    rank_of = {number: rank for rank in every for number in rank.processes}
    kernels = [
        (rank_of[k.process], k)
        for k in rec.kernel_compiles
        if k.by == "triton" and k.process in rank_of
    ]
    frames = [
        (rank_of[f.process], f)
        for f in rec.frame_compiles
        if f.process in rank_of and f.direction == "forward"
    ]
    return (
        *_kernels(rec, every, kernels),
        *_functions(every, frames),
        *_triton_cache(rec, every, kernels),
        *_graph_caches(every, frames),
    )


def _grouped(every: Ranks, did: Callable[[Rank], T]) -> dict[T, list[Rank]]:
    groups: dict[T, list[Rank]] = {}
    for rank in every:
        groups.setdefault(did(rank), []).append(rank)
    return groups


def _kernels(rec: Recording, every: Ranks, compiled: Kernels) -> Iterator[RankDifference]:
    by_hash: dict[str, set[Rank]] = {}
    refused: dict[str, set[Rank]] = {}
    for rank, one in compiled:
        (by_hash if one.failed is None else refused).setdefault(one.hash or "", set()).add(rank)
    for kernel in rec.kernels:
        variants = [v for v in kernel.variants if v.hash in by_hash]
        took = {r: frozenset(v.id for v in variants if r in by_hash[v.hash]) for r in every}
        if len(set(took.values())) < 2:
            continue
        failing = {r for v in variants for r in refused.get(v.hash, ())}
        if len({ids for ids in took.values() if ids}) > 1:
            kind, text = "variant", _variants(kernel, took)
        else:
            did = {
                r: "compiled it" if took[r] else "could not" if r in failing else "did not"
                for r in every
            }
            groups = _grouped(every, did.__getitem__)
            kind, text = "kernel", ", ".join(f"{_named(g)} {what}" for what, g in groups.items())
        by_rank = {rank.name: tuple(sorted(ids)) for rank, ids in took.items()}
        yield RankDifference(kind, f"{shown(kernel.called)}: {text}", by_rank, kernel=kernel.id)


def _variants(kernel: Kernel, took: Mapping[Rank, frozenset[str]]) -> str:
    """Which ranks compiled which variants, by the settings in which these differ."""
    own = [v for v in kernel.variants if any(v.id in ids for ids in took.values())]
    named = {v.id: str(label) for v, label in zip(own, labels(own), strict=True)}
    shared = frozenset.intersection(*took.values())
    parts = [
        f"{_named(group)} compiled "
        + (some([name for ident, name in named.items() if ident in ids], 4) or "none of these")
        for ids, group in _grouped(list(took), lambda rank: took[rank] - shared).items()
    ]
    both = f"; all compiled {some([named[i] for i in sorted(shared)], 4)}" if shared else ""
    return ", ".join(parts) + both


def _functions(every: Ranks, frames: Frames) -> Iterator[RankDifference]:
    functions: dict[tuple[str, str, int | None], list[tuple[Rank, FrameCompile]]] = {}
    for rank, one in frames:
        functions.setdefault((one.function, one.file, one.line), []).append((rank, one))
    for (function, file, line), compiles in functions.items():
        counts = Counter(rank for rank, _ in compiles)
        groups = _grouped(every, counts.__getitem__)
        if len(groups) < 2:
            continue
        often = {0: "did not", 1: "compiled it once", 2: "compiled it twice"}
        parts = [
            f"{_named(group)} {often.get(count, f'compiled it {count} times')}"
            for count, group in sorted(groups.items(), reverse=True)
        ]
        guards = dict.fromkeys(failure.guard for _, one in compiles for failure in one.failures[:1])
        why = f" ({some([shown(guard) for guard in guards], 2)})" if guards else ""
        place = UserFrame(file, line, function) if file and line else None
        where = f"  {PurePath(file).name}:{line}" if place else ""
        yield RankDifference(
            "function" if 0 in groups else "compiles",
            f"{shown(function)}{shown(where)}: {', '.join(parts)}{why}",
            {rank.name: (counts[rank],) if counts[rank] else () for rank in every},
            function=function,
            place=place,
        )


def _triton_cache(rec: Recording, every: Ranks, compiled: Kernels) -> Iterator[RankDifference]:
    """Kernels that some ranks found in Triton's cache and others compiled."""
    missed: dict[str, dict[Rank, bool]] = {}
    for rank, one in compiled:
        if one.hit is not None and one.hash:
            # A rank missed if any of its processes did.
            by_rank = missed.setdefault(one.hash, {})
            by_rank[rank] = by_rank.get(rank, False) or not one.hit
    groups: dict[tuple[bool | None, ...], list[str]] = {}
    for kernel, variant in rec.variants():
        by_rank = missed.get(variant.hash, {})
        if len(set(by_rank.values())) > 1:
            did = tuple(by_rank.get(rank) for rank in every)
            groups.setdefault(did, []).append(f"{kernel.called} {variant.id[:4]}")
    outcome = {None: (), True: ("miss",), False: ("hit",)}
    for did, kernels in groups.items():
        ranks_by = {miss: [r for r, m in zip(every, did, strict=True) if m is miss] for miss in did}
        yield RankDifference(
            "cache",
            f"Triton's cache: {_named(ranks_by[True])} compiled {plural(len(kernels), 'kernel')} "
            f"that {_named(ranks_by[False])} found there: {some([shown(k) for k in kernels])}",
            {rank.name: outcome[miss] for rank, miss in zip(every, did, strict=True)},
        )


def _graph_caches(every: Ranks, frames: Frames) -> Iterator[RankDifference]:
    looked: dict[tuple[str, str], dict[Rank, list[str]]] = {}
    for rank, one in frames:
        for lookup in one.caches:
            name = CACHES.get(lookup.cache, lookup.cache)
            looked.setdefault((one.function, name), {}).setdefault(rank, []).append(lookup.outcome)
    for (function, cache), by_rank in looked.items():
        did = {rank: tuple(dict.fromkeys(outcomes)) for rank, outcomes in by_rank.items()}
        groups = _grouped([rank for rank in every if rank in by_rank], did.__getitem__)
        if len({frozenset(outcomes) for outcomes in groups}) > 1:
            said = ", ".join(f"{shown('/'.join(o))} on {_named(g)}" for o, g in groups.items())
            yield RankDifference(
                "cache",
                f"{cache} cache: {said}, for {shown(function)}",
                {rank.name: tuple(by_rank.get(rank, ())) for rank in every},
                function=function,
            )


def _named(several: Ranks) -> str:
    """``rank 0``, ``ranks 0 to 3 and 7``, ``node0 and node1``."""
    numbers = sorted(r.number for r in several if r.number is not None and r.machine is None)
    if len(several) < 2 or len(numbers) < len(several):
        return some([shown(r.name) for r in several], 4)
    spans: list[list[int]] = []
    for number in numbers:
        if not spans or number > spans[-1][1] + 1:
            spans.append([number, number])
        spans[-1][1] = number
    told = [str(a) if a == b else f"{a} to {b}" if b - a > 1 else f"{a} and {b}" for a, b in spans]
    return f"ranks {some(told, 6)}"


def lines(rec: Recording) -> Iterator[tuple[Text, RankDifference | None]]:
    if every := ranks(rec):
        found = differences(rec)
        what = plural(len(found), "difference") if found else "nothing was compiled differently"
        yield Text(f"{plural(len(every), 'rank')}: {what}", "bold cyan"), None
        yield from ((Text(f"  ≠ {one.text}", "yellow"), one) for one in found)


def document(rec: Recording) -> dict[str, object]:
    return {
        "ranks": [
            members(r, "name machine") | {"rank": r.number, "processes": sorted(r.processes)}
            for r in ranks(rec)
        ],
        "differences": [
            {
                **members(one, "kind text kernel function"),
                "file": one.place.file if one.place else None,
                "line": one.place.line if one.place else None,
                "by_rank": plain(one.by_rank),
            }
            for one in differences(rec)
        ],
    }
