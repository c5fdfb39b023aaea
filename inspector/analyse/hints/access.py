"""Global memory: accesses that could be wider, and lanes that read far apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from inspector.analyse.hints.subject import Finding, Subject, Thresholds, number, numbers, plural
from inspector.analyse.hints.touched import Run, runs
from inspector.analyse.hints.warp import Access
from inspector.model import Origin, Stage

NARROW = "narrow-access"
UNCOALESCED = "uncoalesced-layout"

SECTOR = 32
WIDEST = 16
_PLAIN = frozenset(("ld", "st", "ldu"))


def _global(run: Run) -> list[Access]:
    return [a for a in run.values() if a.space == "global" and a.line.base in _PLAIN]


# -- narrow-access --------------------------------------------------------------------------------


def narrow_access(subject: Subject, thresholds: Thresholds) -> Iterator[Finding]:
    """Neighbouring addresses read or written one by one, where one wide access would do."""
    known = runs(subject)
    if not known:
        return
    found = [_pieces(run) for run in known]
    lines = set.intersection(*(set(pieces) for pieces in found))
    lines = {n for n in lines if all(pieces[n] == found[0][n] for pieces in found)}
    if not lines:
        return
    accesses = [known[0][n] for n in sorted(lines)]
    wide = max(found[0][n] for n in lines)
    width = min(access.width for access in accesses)
    pieces = sum(access.width for access in accesses) // wide
    yield Finding(
        NARROW,
        "hint",
        f"{plural(len(accesses), 'access')} of {width} bytes a thread to neighbouring addresses in "
        f"global memory, where {pieces} of {wide} bytes would do: every access takes an "
        f"instruction and a place in the queue of memory, however little it moves. "
        f"{_advice(subject, accesses)}",
        {Stage.PTX: numbers([access.line for access in accesses])},
    )


def _advice(subject: Subject, accesses: list[Access]) -> str:
    if subject.kernel.origin in (Origin.TRITON, Origin.INDUCTOR):
        return (
            "The address is aligned but each element has a condition of its own: where the size "
            "that the mask compares with is a multiple of 16, Triton knows, and merges them."
        )
    return (
        "Read and write float4 (or any type of 8 or 16 bytes) through a pointer that is known to "
        "be aligned; the compiler may not assume it."
    )


def _pieces(run: Run) -> dict[int, int]:
    """Lines of accesses that could be part of a wider one, each with the bytes of that one."""
    stretches: dict[tuple[int, bool, int], list[Access]] = defaultdict(list)
    for access in _global(run):
        if access.width < WIDEST and len(set(access.addresses)) > 1:
            stretches[access.block, access.store, access.width].append(access)
    out: dict[int, int] = {}
    for (_, _, width), accesses in stretches.items():
        for chain in _chains(accesses, width):
            out.update(_cut(chain, width))
    return out


def _chains(accesses: list[Access], width: int) -> Iterator[list[Access]]:
    """Accesses each of which continues, in every lane, where the one before it ends."""
    by_place: dict[tuple[int, ...], Access] = {}
    for access in accesses:
        by_place.setdefault(access.addresses, access)
    follows = {
        place: tuple(address + width for address in place)
        for place in by_place
        if tuple(address + width for address in place) in by_place
    }
    first = set(by_place) - set(follows.values())
    for start in by_place:
        if start not in first or start not in follows:
            continue
        chain, place = [by_place[start]], start
        while place in follows:
            place = follows[place]
            chain.append(by_place[place])
        yield chain


def _cut(chain: list[Access], width: int) -> dict[int, int]:
    """The widest aligned pieces of a chain."""
    out: dict[int, int] = {}
    at = 0
    while at < len(chain):
        wide = WIDEST
        while wide > width:
            count = wide // width
            fits = at + count <= len(chain)
            if fits and all(address % wide == 0 for address in chain[at].addresses):
                out.update((access.line.n, wide) for access in chain[at : at + count])
                at += count
                break
            wide //= 2
        else:
            at += 1
    return out


# -- uncoalesced-layout ---------------------------------------------------------------------------


def uncoalesced_layout(subject: Subject, thresholds: Thresholds) -> Iterator[Finding]:
    """Warps that touch many more sectors of 32 bytes than their data fills."""
    limit = number(thresholds, UNCOALESCED, "sectors_times")
    least = number(thresholds, UNCOALESCED, "lanes")
    known = runs(subject)
    lines = _everywhere(known, limit, least)
    if not lines:
        return
    worst = max(lines, key=lambda n: _sectors([known[0][n]])[0])
    sectors, needed = _sectors([known[0][worst]])
    stays = _everywhere(runs(subject, scalar=1), limit, least)
    unless = "" if worst in stays else _unless(subject)
    accesses = [known[0][n].line for n in sorted(lines)]
    yield Finding(
        UNCOALESCED,
        "warn",
        f"{plural(len(lines), 'access')} to global memory in which the lanes of a warp are far "
        f"apart{unless}: the worst touches {sectors} sectors of 32 bytes for data that fill "
        f"{needed}. Memory moves whole sectors, so most of what it moves is thrown away. Let "
        f"neighbouring lanes have neighbouring elements: {_cure(subject)}.",
        {Stage.PTX: numbers(accesses)},
    )


def _unless(subject: Subject) -> str:
    if subject.kernel.origin in (Origin.TRITON, Origin.INDUCTOR):
        return ""  # Triton compiles another variant where a stride is 1
    return " (unless the argument that their index is multiplied by is 1)"


def _cure(subject: Subject) -> str:
    if subject.kernel.origin in (Origin.TRITON, Origin.INDUCTOR):
        return (
            "pass a tensor whose stride along the block's fastest axis is 1 (contiguous()), or "
            "run tl.arange along the axis that has it"
        )
    return "let threadIdx.x run along the axis of stride 1, or turn tiles in shared memory"


def _everywhere(known: tuple[Run, ...], limit: float, least: float) -> frozenset[int]:
    """Lines that touch too many sectors whatever the block's shape is."""
    found = [frozenset(_scattered(run, limit, least)) for run in known]
    return frozenset.intersection(*found) if found else frozenset()


def _scattered(run: Run, limit: float, least: float) -> Iterator[int]:
    """Of accesses that move together (one stretch, one base) what they touch together counts."""
    together: dict[tuple[int, bool, str], list[Access]] = defaultdict(list)
    for access in _global(run):
        if len(access.addresses) >= least:
            together[access.block, access.store, access.base].append(access)
    for accesses in together.values():
        sectors, needed = _sectors(accesses)
        if sectors >= limit * needed:
            yield from (access.line.n for access in accesses)


def _sectors(accesses: Iterable[Access]) -> tuple[int, int]:
    """Sectors touched, and those that the bytes would fill if they lay side by side."""
    moved: set[int] = set()
    for access in accesses:
        for address in access.addresses:
            moved.update(range(address, address + access.width))
    return len({byte // SECTOR for byte in moved}), max(-(-len(moved) // SECTOR), 1)
