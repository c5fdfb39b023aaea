"""What the ranks of one program compiled differently, for people and as JSON.

A rank is all processes with the same ``RANK`` in one recording; where a recording names none, it is
a rank itself. Differences are of what ranks should do alike, and wait for each other over: another
variant of a kernel, a kernel or function that some of them lack, more compiles of a function on
one, and what one found in a cache that another compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from rich.text import Text

from inspector.model import FrameCompile, Kernel, KernelCompile, Recording, UserFrame, Variant
from inspector.report.naming import labels
from inspector.text import plural, shown, some

CACHES = {"fx_graph": "FX graph", "fx_graph_bundled": "FX graph", "aotautograd": "AOTAutograd"}


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank: its number and its recording's name, as far as it has them; its processes."""

    number: int | None
    machine: str | None
    processes: frozenset[int]

    @property
    def name(self) -> str:
        """``rank 1``, ``rank 1 of node0``, ``node0``."""
        of = f" of {self.machine}" if self.machine is not None else ""
        return f"rank {self.number}{of}" if self.number is not None else self.machine or ""


@dataclass(frozen=True, slots=True)
class RankDifference:
    """Something that ranks did differently: ``kind`` is ``variant``, ``kernel`` (some lack it),
    ``compiles``, ``function`` (some lack it) or ``cache``.

    ``by_rank`` says of each rank's name what it did: ids of variants, numbers of compiles, or what
    came of looking it up; nothing of one that lacks it. ``place`` is the function's line.
    """

    kind: str
    text: str
    by_rank: Mapping[str, tuple[object, ...]]
    kernel: str | None = None
    function: str | None = None
    place: UserFrame | None = None


def ranks(rec: Recording) -> tuple[Rank, ...]:
    """The ranks of a recording in order; none where there are not several."""
    groups: dict[tuple[str | None, int | None], set[int]] = {}
    for process in rec.processes:
        groups.setdefault((process.machine, process.rank), set()).add(process.number)
    numbered = {machine for machine, number in groups if number is not None}
    several = [
        Rank(number, machine, frozenset(numbers))
        for (machine, number), numbers in groups.items()
        # What started the ranks, and what they started without their environment, is none.
        if number is not None or (machine is not None and machine not in numbered)
    ]
    if len(several) < 2:
        return ()
    place = {machine: n for n, machine in enumerate(rec.machines)}
    return tuple(sorted(several, key=lambda r: (r.number or 0, place.get(r.machine or "", 0))))


def of_processes(rec: Recording) -> dict[int | None, str]:
    """The name of each process's rank; nothing where there are not several."""
    return {number: rank.name for rank in ranks(rec) for number in rank.processes}


def differences(rec: Recording) -> tuple[RankDifference, ...]:
    """What they compiled differently: kernels, then functions, then caches."""
    every = ranks(rec)
    if not every:
        return ()
    rank_of = {number: rank for rank in every for number in rank.processes}
    kernels = [(rank_of[k.process], k) for k in rec.kernel_compiles
               if k.by == "triton" and k.process in rank_of]  # fmt: skip
    frames = [(rank_of[f.process], f) for f in rec.frame_compiles
              if f.process in rank_of and f.direction == "forward"]  # fmt: skip
    return (
        *_of_kernels(rec, every, kernels),
        *_of_functions(every, frames),
        *_of_triton_cache(rec, every, kernels),
        *_of_graph_caches(every, frames),
    )


def _of_kernels(
    rec: Recording, every: Sequence[Rank], compiled: Sequence[tuple[Rank, KernelCompile]]
) -> Iterator[RankDifference]:
    by_hash: dict[str, set[Rank]] = {}
    refused: dict[str, set[Rank]] = {}
    for rank, one in compiled:
        (by_hash if one.failed is None else refused).setdefault(one.hash or "", set()).add(rank)
    for kernel in rec.kernels:
        variants = [v for v in kernel.variants if v.hash in by_hash]
        took = {
            rank: frozenset(v.id for v in variants if rank in by_hash[v.hash]) for rank in every
        }
        if not variants or len(set(took.values())) == 1:
            continue
        lacking = [rank for rank in every if not took[rank]]
        kind = "variant" if len({ids for ids in took.values() if ids}) > 1 else "kernel"
        by_rank = {rank.name: tuple(sorted(took[rank])) for rank in every}
        if kind == "kernel":
            failing = {r for v in variants for r in refused.get(v.hash, ())}
            groups = {
                "compiled it": [r for r in every if took[r]],
                "could not": [r for r in lacking if r in failing],
                "did not": [r for r in lacking if r not in failing],
            }
            text = ", ".join(f"{named(group)} {did}" for did, group in groups.items() if group)
        else:
            text = _apart(kernel, took, every)
        yield RankDifference(
            kind, f"{shown(kernel.called)}: {text}", by_rank, kernel=kernel.id
        )  # fmt: skip


def _apart(kernel: Kernel, took: Mapping[Rank, frozenset[str]], every: Sequence[Rank]) -> str:
    """Which ranks compiled which variants, told by what those differ in."""
    shared = frozenset.intersection(*took.values())
    own: list[Variant] = [v for v in kernel.variants if any(v.id in ids for ids in took.values())]
    told = {v.id: str(label) for v, label in zip(own, labels(own), strict=True)}
    groups: dict[frozenset[str], list[Rank]] = {}
    for rank in every:
        groups.setdefault(took[rank] - shared, []).append(rank)
    parts = [
        f"{named(group)} compiled "
        + (some([told[v.id] for v in own if v.id in ids], 4) if ids else "none of these")
        for ids, group in groups.items()
    ]
    both = f"; all compiled {some([told[i] for i in sorted(shared)], 4)}" if shared else ""
    return ", ".join(parts) + both


def _of_functions(
    every: Sequence[Rank], frames: Sequence[tuple[Rank, FrameCompile]]
) -> Iterator[RankDifference]:
    functions: dict[tuple[str, str, int | None], list[tuple[Rank, FrameCompile]]] = {}
    for rank, one in frames:
        functions.setdefault((one.function, one.file, one.line), []).append((rank, one))
    for (function, file, line), compiles in functions.items():
        counts = Counter(rank for rank, _ in compiles)
        if len({counts[rank] for rank in every}) == 1:
            continue
        groups: dict[int, list[Rank]] = {}
        for rank in every:
            groups.setdefault(counts[rank], []).append(rank)
        some_lack = 0 in groups
        parts = [
            f"{named(group)} compiled it {_times(count)}" if count else f"{named(group)} did not"
            for count, group in sorted(groups.items(), reverse=True)
        ]
        guards = dict.fromkeys(failure.guard for _, one in compiles for failure in one.failures[:1])
        why = f" ({some([shown(guard) for guard in guards], 2)})" if guards else ""
        where = f"  {PurePath(file).name}:{line}" if file and line else ""
        yield RankDifference(
            "function" if some_lack else "compiles",
            f"{shown(function)}{shown(where)}: {', '.join(parts)}{why}",
            {rank.name: (counts[rank],) if counts[rank] else () for rank in every},
            function=function,
            place=UserFrame(file, line, function) if file and line else None,
        )


def _of_triton_cache(
    rec: Recording, every: Sequence[Rank], compiled: Sequence[tuple[Rank, KernelCompile]]
) -> Iterator[RankDifference]:
    """Kernels that some found in Triton's cache and others compiled, by who did which."""
    looked: dict[str, dict[Rank, bool]] = {}
    for rank, one in compiled:
        if one.hit is not None and one.hash:
            # Of several processes of one rank, whoever compiled it had missed it.
            before = looked.setdefault(one.hash, {}).get(rank, True)
            looked[one.hash][rank] = before and one.hit
    ids = {v.hash: (kernel, v) for kernel, v in rec.variants()}
    groups: dict[tuple[tuple[Rank, ...], tuple[Rank, ...]], list[str]] = {}
    for digest, outcomes in looked.items():
        if digest in ids and len(set(outcomes.values())) > 1:
            hits = tuple(r for r in every if outcomes.get(r) is True)
            misses = tuple(r for r in every if outcomes.get(r) is False)
            kernel, variant = ids[digest]
            groups.setdefault((hits, misses), []).append(f"{kernel.called} {variant.id[:4]}")
    for (hits, misses), kernels in groups.items():
        yield RankDifference(
            "cache",
            f"Triton's cache: {named(misses)} compiled {plural(len(kernels), 'kernel')} that "
            f"{named(hits)} found there: {some([shown(kernel) for kernel in kernels])}",
            {r.name: ("hit" if r in hits else "miss",) if r in (*hits, *misses) else ()
             for r in every},
        )  # fmt: skip


def _of_graph_caches(
    every: Sequence[Rank], frames: Sequence[tuple[Rank, FrameCompile]]
) -> Iterator[RankDifference]:
    looked: dict[tuple[str, str], dict[Rank, list[str]]] = {}
    for rank, one in frames:
        for lookup in one.caches:
            name = CACHES.get(lookup.cache, lookup.cache)
            looked.setdefault((one.function, name), {}).setdefault(rank, []).append(lookup.outcome)
    for (function, cache), by_rank in looked.items():
        kinds = {tuple(sorted(Counter(outcomes))) for outcomes in by_rank.values()}
        if len(kinds) < 2:
            continue
        groups: dict[Hashable, list[Rank]] = {}
        for rank in every:
            if rank in by_rank:
                groups.setdefault(tuple(dict.fromkeys(by_rank[rank])), []).append(rank)
        said = [f"{'/'.join(map(str, o if isinstance(o, tuple) else ()))} on {named(group)}"
                for o, group in groups.items()]  # fmt: skip
        yield RankDifference(
            "cache",
            f"{cache} cache: {', '.join(map(shown, said))}, for {shown(function)}",
            {rank.name: tuple(by_rank.get(rank, ())) for rank in every},
            function=function,
        )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def named(several: Iterable[Rank]) -> str:
    """``rank 0``, ``ranks 0 to 3 and 7``, ``node0 and node1``."""
    every = list(several)
    if all(r.number is not None and r.machine is None for r in every) and len(every) > 1:
        return f"ranks {_spans([r.number for r in every if r.number is not None])}"
    return some([shown(r.name) for r in every], 4)


def _spans(numbers: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    told = [str(a) if a == b else f"{a} to {b}" if b - a > 1 else f"{a} and {b}" for a, b in spans]
    return some(told, 6) if len(spans) > 1 else told[0]


def lines(rec: Recording) -> Iterator[tuple[Text, RankDifference | None]]:
    """For people: a heading and a line for each difference."""
    every = ranks(rec)
    if not every:
        return
    told = differences(rec)
    what = plural(len(told), "difference") if told else "nothing was compiled differently"
    yield Text(f"{plural(len(every), 'rank')}: {what}", "bold cyan"), None
    for one in told:
        yield Text(f"  ≠ {one.text}", "yellow"), one


def document(rec: Recording) -> dict[str, object]:
    """What ``list --json`` has of them."""
    return {
        "ranks": [
            {"name": r.name, "rank": r.number, "machine": r.machine,
             "processes": sorted(r.processes)}
            for r in ranks(rec)
        ],
        "differences": [
            {"kind": one.kind, "text": one.text, "kernel": one.kernel, "function": one.function,
             "file": one.place.file if one.place else None,
             "line": one.place.line if one.place else None,
             "by_rank": {name: list(did) for name, did in one.by_rank.items()}}
            for one in differences(rec)
        ],
    }  # fmt: skip
