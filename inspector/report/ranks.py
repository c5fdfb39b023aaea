"""What the ranks of one program compiled differently, as text and as JSON.

A rank is all processes with the same ``RANK`` in one recording; a recording without any is one
rank. Compared are variants and functions compiled, recompiles, and cache hits.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TypeVar

from msgspec import Struct
from rich.text import Text

from inspector.base.model import FrameCompile, Kernel, KernelCompile, Recording, UserFrame
from inspector.base.text import by_key, plural, shown, some
from inspector.report.jsons import members, plain
from inspector.report.tables import labels

CACHES = {"fx_graph": "FX graph", "fx_graph_bundled": "FX graph", "aotautograd": "AOTAutograd"}
T = TypeVar("T", bound=Hashable)
V = TypeVar("V")


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


Kernels = Sequence[tuple[Rank, KernelCompile]]
Frames = Sequence[tuple[Rank, FrameCompile]]


def ranks(rec: Recording) -> tuple[Rank, ...]:
    groups = by_key(((one.machine, one.rank), one.number) for one in rec.processes)
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
        if k.compiler == "triton" and k.process in rank_of
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


def _rows(done: Iterable[tuple[T, Rank, V]]) -> dict[T, dict[Rank, list[V]]]:
    """What each rank did of each thing."""
    rows = by_key((key, (rank, value)) for key, rank, value in done)
    return {key: by_key(own) for key, own in rows.items()}


def _grouped(did: Mapping[Rank, T]) -> dict[T, list[Rank]]:
    """The ranks that did the same; with one group nothing differs."""
    return by_key((what, rank) for rank, what in did.items())


def _kernels(rec: Recording, every: Sequence[Rank], kernels: Kernels) -> Iterator[RankDifference]:
    asked = _rows((one.hash or "", rank, one.failed is None) for rank, one in kernels)
    for kernel in rec.kernels:
        did = [(v, asked[v.hash]) for v in kernel.variants if v.hash in asked]
        took = {r: frozenset(v.id for v, by in did if True in by.get(r, ())) for r in every}
        if len(set(took.values())) < 2:
            continue
        if len({ids for ids in took.values() if ids}) > 1:
            kind, text = "variant", _variants(kernel, took)
        else:
            failing = {rank for _, by in did for rank in by if False in by[rank]}
            how = {
                r: "compiled it" if took[r] else "could not" if r in failing else "did not"
                for r in every
            }
            groups = _grouped(how).items()
            kind, text = "kernel", ", ".join(f"{_named(group)} {what}" for what, group in groups)
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
        for ids, group in _grouped({rank: ids - shared for rank, ids in took.items()}).items()
    ]
    both = f"; all compiled {some([named[i] for i in sorted(shared)], 4)}" if shared else ""
    return ", ".join(parts) + both


def _functions(every: Sequence[Rank], frames: Frames) -> Iterator[RankDifference]:
    rows = _rows(((one.function, one.file, one.line), rank, one) for rank, one in frames)
    for (function, file, line), by_rank in rows.items():
        counts = {rank: len(by_rank.get(rank, ())) for rank in every}
        groups = _grouped(counts)
        if len(groups) < 2:
            continue
        often = {0: "did not", 1: "compiled it once", 2: "compiled it twice"}
        parts = [
            f"{_named(group)} {often.get(count, f'compiled it {count} times')}"
            for count, group in sorted(groups.items(), reverse=True)
        ]
        again = (one.failures[0] for made in by_rank.values() for one in made if one.failures)
        guards = dict.fromkeys(shown(failure.guard) for failure in again)
        why = f" ({some(list(guards), 2)})" if guards else ""
        place = UserFrame(file, line, function) if file and line else None
        where = f"  {PurePath(file).name}:{line}" if place else ""
        yield RankDifference(
            "function" if 0 in groups else "compiles",
            f"{shown(function)}{shown(where)}: {', '.join(parts)}{why}",
            {rank.name: (count,) if count else () for rank, count in counts.items()},
            function=function,
            place=place,
        )


def _triton_cache(
    rec: Recording, every: Sequence[Rank], kernels: Kernels
) -> Iterator[RankDifference]:
    """Kernels that some ranks found in Triton's cache and others compiled."""
    rows = _rows((one.hash, rank, one.hit) for rank, one in kernels if one.hit is not None)
    # A rank missed if any of its processes did.
    said = {
        key: tuple(("miss" if False in by[r] else "hit") if r in by else "" for r in every)
        for key, by in rows.items()
    }
    groups = by_key(
        (said[v.hash], shown(f"{k.called} {v.id[:4]}"))
        for k, v in rec.variants()
        if {"hit", "miss"} <= {*said.get(v.hash, ())}
    )
    for did, names in groups.items():
        of = _grouped(dict(zip(every, did, strict=True)))
        yield RankDifference(
            "cache",
            f"Triton's cache: {_named(of['miss'])} compiled {plural(len(names), 'kernel')} "
            f"that {_named(of['hit'])} found there: {some(names)}",
            {r.name: (one,) if one else () for r, one in zip(every, did, strict=True)},
        )


def _graph_caches(every: Sequence[Rank], frames: Frames) -> Iterator[RankDifference]:
    rows = _rows(
        ((one.function, CACHES.get(lookup.cache, lookup.cache)), rank, lookup.outcome)
        for rank, one in frames
        for lookup in one.caches
    )
    for (function, cache), by_rank in rows.items():
        outcomes = {r: tuple(dict.fromkeys(by_rank[r])) for r in every if r in by_rank}
        groups = _grouped(outcomes)
        if len(set(map(frozenset, groups))) > 1:
            said = ", ".join(f"{shown('/'.join(o))} on {_named(g)}" for o, g in groups.items())
            yield RankDifference(
                "cache",
                f"{cache} cache: {said}, for {shown(function)}",
                {rank.name: tuple(by_rank.get(rank, ())) for rank in every},
                function=function,
            )


def _named(several: Sequence[Rank]) -> str:
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
