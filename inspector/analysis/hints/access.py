"""Memory access: width, coalescing, bank conflicts; guessed from the code, or as counted.

Counts of executed blocks come from outside: nothing is run here. They are exact for the blocks
that were run, and a finding says how many those are.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from inspector.analysis.hints.launching import IDLE
from inspector.analysis.hints.subject import (
    WARP,
    ExecutedAccess,
    ExecutedBranch,
    ExecutedFacts,
    Finding,
    HintSubject,
    Thresholds,
    advice,
    number,
    numbers,
)
from inspector.analysis.hints.warp import Run, WarpAccess, runs, scalars
from inspector.analysis.tensors import (
    Blocked,
    Tensors,
    blocked,
    layout_of,
    operand_shape,
    pointed,
    uses,
)
from inspector.base.grouping import by_key
from inspector.base.model import Stage
from inspector.base.units import plural
from inspector.parsers.line import Line

# Rows that begin where nothing is aligned.


MAX_ACCESS_BYTES = 16
_MOVES = frozenset(("tt.load", "tt.store"))
_PROGRAM = (5, 3, 2)


def narrow_rows(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Elements side by side that a thread moves one by one, as their place is not aligned."""
    listing = subject.listings.get(Stage.TTGIR)
    moves = [line for line in subject.ttgir if line.base in _MOVES]
    if listing is None or not moves:
        return
    layouts = blocked(listing.lines)
    tensors = Tensors(subject.lines(Stage.TTGIR), scalars(subject), _PROGRAM)
    lines: list[Line] = []
    elements = size = 0
    for line in moves:
        layout = layouts.get(layout_of(line) or "")
        access = _narrow(line, layout, tensors) if layout is not None else None
        if access is not None:
            lines.append(line)
            elements, size = max((elements, size), access)
    if not lines:
        return
    together = MAX_ACCESS_BYTES // size
    yield Finding(
        NARROW,
        "hint",
        f"{plural(len(lines), 'access')} of {elements} elements a thread, {size} bytes at a time, "
        f"though {together} lie side by side: each row but the first begins at an address that is "
        f"not known to be a multiple of {MAX_ACCESS_BYTES}, so that no two may be moved at once. "
        "Give rows a stride that is a multiple of 16 elements (pad them when they are allocated): "
        "Triton compiles another variant for that.",
        {Stage.TTGIR: numbers(lines)},
    )


def _narrow(line: Line, layout: Blocked, tensors: Tensors) -> tuple[int, int] | None:
    """Elements that a thread holds and bytes of each, where several could be moved at once."""
    shape = operand_shape(line)
    size = pointed(line.text)
    pointers = uses(line)
    if shape is None or size is None or not pointers or len(shape) != len(layout.order):
        return None
    axis = layout.fastest
    element_count = layout.elements_a_thread(shape)
    together = min(MAX_ACCESS_BYTES // size, element_count)
    if layout.size[axis] >= together or together < 2 or shape[axis] % together:
        return None
    origin = [0] * len(shape)
    steps = [(*origin[:axis], n, *origin[axis + 1 :]) for n in range(together)]
    addresses = [a for a in tensors.elements(pointers[0], tuple(steps)) if a is not None]
    if len(addresses) < together:
        return None
    contiguous = all(b - a == size for a, b in pairwise(addresses))
    aligned = addresses[0] % (together * size) == 0
    return (element_count, size) if contiguous and not aligned else None


NARROW = "narrow-access"
UNCOALESCED = "uncoalesced-layout"

SECTOR_BYTES = 32


def narrow_access(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Neighbouring addresses read or written one by one, where one wide access would do."""
    accessed = runs(subject)
    if not accessed:
        return
    # Lines of accesses that are a part of the same in each run.
    pieces_of_runs = [set(_pieces(run).items()) for run in accessed]
    lines = dict(set[tuple[int, int]].intersection(*pieces_of_runs))
    if not lines:
        return
    accesses = [accessed[0][n] for n in sorted(lines)]
    wide = max(lines.values())
    width = min(access.width for access in accesses)
    pieces = sum(access.width for access in accesses) // wide
    yield Finding(
        NARROW,
        "hint",
        f"{plural(len(accesses), 'access')} of {width} bytes a thread to neighbouring addresses "
        f"in global memory, where {pieces} of {wide} bytes would do: every access takes an "
        f"instruction and a place in the queue of memory, however little it moves. "
        f"{advice(subject, thresholds, NARROW)}",
        {Stage.PTX: tuple(sorted(lines))},
        estimated=True,
    )


def _pieces(run: Run) -> dict[int, int]:
    """Lines of accesses that could be part of a wider one, each with the bytes of that one."""
    stretches: dict[tuple[int, bool, int], dict[tuple[int, ...], WarpAccess]] = defaultdict(dict)
    for access in run.values():
        if access.space == "global" and access.width < MAX_ACCESS_BYTES:
            stretches[access.block, access.store, access.width].setdefault(access.addresses, access)
    out: dict[int, int] = {}
    for (_, _, width), by_place in stretches.items():
        for place in by_place:
            if _advanced(place, -width) in by_place:
                continue
            chain = []  # each continues, in every lane, where the one before it ends
            while place in by_place:
                chain.append(by_place[place])
                place = _advanced(place, width)
            out.update(_cut(chain, width))
    return out


def _advanced(place: tuple[int, ...], step: int) -> tuple[int, ...]:
    return tuple(address + step for address in place)


def _cut(chain: list[WarpAccess], width: int) -> dict[int, int]:
    out: dict[int, int] = {}
    while chain:
        fits = (w for w in (16, 8, 4, 2) if w > width and w // width <= len(chain))
        aligned = (w for w in fits if not any(address % w for address in chain[0].addresses))
        wide = next(aligned, width)
        if wide > width:
            out.update((access.line, wide) for access in chain[: wide // width])
        chain = chain[wide // width :]
    return out


def uncoalesced_layout(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Warps that touch many more sectors of 32 bytes than their data fills."""
    limit = number(thresholds, UNCOALESCED, "sectors_times")
    least = number(thresholds, UNCOALESCED, "lanes")
    accessed = runs(subject)
    lines = _everywhere(accessed, limit, least)
    if not lines:
        return
    worst = max(lines, key=lambda n: _sectors([accessed[0][n]])[0])
    sectors, needed = _sectors([accessed[0][worst]])
    stays = _everywhere(runs(subject, scalar=1), limit, least)
    # Triton compiles another variant where a stride is 1.
    unless = " (unless the argument that their index is multiplied by is 1)"
    unless = "" if worst in stays or subject.by_triton else unless
    yield Finding(
        UNCOALESCED,
        "warn",
        f"{plural(len(lines), 'access')} to global memory in which the lanes of a warp are far "
        f"apart{unless}: the worst touches {sectors} sectors of 32 bytes for data that fill "
        f"{needed}. Memory moves whole sectors, so most of what it moves is thrown away. Let "
        "neighbouring lanes have neighbouring elements: "
        f"{advice(subject, thresholds, UNCOALESCED)}.",
        {Stage.PTX: tuple(sorted(lines))},
        estimated=True,
        gain=1 - needed / sectors,
    )


def _everywhere(runs: tuple[Run, ...], limit: float, least: float) -> frozenset[int]:
    line_sets = [frozenset(_uncoalesced(run, limit, least)) for run in runs]
    return frozenset.intersection(*line_sets) if line_sets else frozenset()


def _uncoalesced(run: Run, limit: float, least: float) -> Iterator[int]:
    """Of accesses that move together (one stretch, one base) what they touch together counts."""
    together = by_key(
        ((access.block, access.store, access.base), access)
        for access in run.values()
        if access.space == "global" and len(access.addresses) >= least
    )
    for accesses in together.values():
        sectors, needed = _sectors(accesses)
        if sectors >= limit * needed:
            yield from (access.line for access in accesses)


def _sectors(accesses: Iterable[WarpAccess]) -> tuple[int, int]:
    """Sectors touched, and those that the bytes would fill if they lay side by side."""
    moved: set[int] = set()
    for access in accesses:
        for address in access.addresses:
            moved.update(range(address, address + access.width))
    return len({byte // SECTOR_BYTES for byte in moved}), max(-(-len(moved) // SECTOR_BYTES), 1)


CONFLICTS = "bank-conflicts"

BANKS = 32
BANK_BYTES = 4
SCHEDULERS = 4
"""Of an SM, on sm_70 and later."""


def bank_conflicts(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Lanes that want different words of one bank at once.

    A warp's 4-byte access is one pass over the banks where all words are in different banks;
    lanes that want the same word share it. 8 and 16 bytes a lane are moved in halves and quarters
    of the warp, so what counts is passes against those that the width takes anyway.
    """
    limit = number(thresholds, CONFLICTS, "times")
    accessed = runs(subject)
    least = _least_degrees(accessed)
    bad = sorted(n for n, times in least.items() if times >= limit)
    if not bad:
        return
    worst = max(least[n] for n in bad)
    several = " at least" if len(accessed) > 1 else ""
    yield Finding(
        CONFLICTS,
        "hint",
        f"{plural(len(bad), 'access')} to shared memory with bank conflicts,{several} {worst}-way "
        f"in the worst: lanes of a warp want different words of the same of its {BANKS} banks, and "
        f"the access is repeated until all are served (computed from the addresses of a block's "
        f"first warp). {advice(subject, thresholds, CONFLICTS)}",
        {Stage.PTX: tuple(bad)},
        estimated=True,
    )


def _least_degrees(runs: Sequence[Run]) -> dict[int, int]:
    """The least degree of conflicts of each shared access over runs; 0 where one lacks it."""
    degrees = []
    for run in runs:
        shared = [access for access in run.values() if access.space == "shared"]
        degrees.append({access.line: degree(access) for access in shared})
    if not degrees:
        return {}
    return {n: min(times.get(n, 0) for times in degrees) for n in degrees[0]}


def degree(access: WarpAccess) -> int:
    """How many times the passes that an access of its width takes without conflicts."""
    lanes = access.addresses
    if not lanes:
        return 1
    lanes_a_pass = max(BANKS * BANK_BYTES // max(access.width, BANK_BYTES), 1)
    starts = range(0, len(lanes), lanes_a_pass)
    passes = 0
    for start in starts:
        words: set[int] = set()
        for address in lanes[start : start + lanes_a_pass]:
            last = (address + access.width - 1) // BANK_BYTES
            words.update(range(address // BANK_BYTES, last + 1))
        passes += max(Counter(word % BANKS for word in words).values())
    return passes // len(starts)


DIVERGENCE = "divergence"
REPEATED = "redundant-loads"


REPLACED = frozenset((UNCOALESCED, CONFLICTS))
"""Rules that guess from the code what is counted here: nothing is guessed where it was counted."""
EXPLAINED = frozenset((IDLE, "masked-lanes", DIVERGENCE))
"""Rules that say why lanes have no work: one that only says that they have none adds nothing."""


def with_executed(
    subject: HintSubject, guessed: Sequence[Finding], thresholds: Thresholds
) -> tuple[Finding, ...]:
    """The findings of the code, with what was counted in place of what is guessed of it."""
    facts = subject.executed
    if facts is None:
        return tuple(guessed)
    from_code = [finding for finding in guessed if finding.rule not in REPLACED]
    from_counts: list[Finding] = []
    for rule in COUNTED:
        from_counts += rule(subject, facts, thresholds)
    without_idle = [finding for finding in from_counts if finding.rule != IDLE]
    if not EXPLAINED.isdisjoint(finding.rule for finding in (*from_code, *without_idle)):
        from_counts = without_idle
    return (*from_code, *from_counts)


def _ptx_lines(those: Iterable[ExecutedAccess | ExecutedBranch]) -> dict[Stage, tuple[int, ...]]:
    return {Stage.PTX: tuple(sorted({counter.line for counter in those}))}


def _scattered(
    subject: HintSubject, facts: ExecutedFacts, thresholds: Thresholds
) -> Iterator[Finding]:
    limit = number(thresholds, UNCOALESCED, "sectors_times")
    least = number(thresholds, UNCOALESCED, "lanes")
    bad = [
        access
        for access in facts.accesses
        if access.space == "global"
        and access.filled
        and access.together >= limit * access.filled
        and access.lanes >= least * access.requests
    ]
    if not bad:
        return
    worst = max(bad, key=lambda access: access.together / access.filled)
    moved = sum(a.sectors for a in bad)
    needed = sum(a.least_sectors for a in bad)
    yield Finding(
        UNCOALESCED,
        "warn",
        f"{plural(len(bad), 'access')} to global memory in which the lanes of a warp are far "
        f"apart: {moved:,} sectors of {SECTOR_BYTES} bytes for data that fill {needed:,}, "
        f"{worst.sectors / worst.requests:.3g} a request in the worst, where "
        f"{worst.least_sectors / worst.requests:.3g} would do. Memory moves whole sectors, so most "
        "of what it moves is thrown away. Let neighbouring lanes have neighbouring elements: "
        f"{advice(subject, thresholds, UNCOALESCED)}.",
        _ptx_lines(bad),
        blocks=facts.blocks,
        gain=(moved - needed) / max(sum(access.sectors for access in facts.accesses), moved, 1),
    )


def _conflicting(
    subject: HintSubject, facts: ExecutedFacts, thresholds: Thresholds
) -> Iterator[Finding]:
    limit = number(thresholds, CONFLICTS, "times")
    bad = [
        access
        for access in facts.accesses
        if access.space == "shared"
        and access.least_wavefronts
        and access.wavefronts >= limit * access.least_wavefronts
    ]
    if not bad:
        return
    worst = max(bad, key=lambda access: access.wavefronts / access.least_wavefronts)
    waves = sum(a.wavefronts for a in bad)
    least = sum(a.least_wavefronts for a in bad)
    yield Finding(
        CONFLICTS,
        "hint",
        f"{plural(len(bad), 'access')} to shared memory with bank conflicts: {waves:,} wavefronts "
        f"where {least:,} would do, {worst.wavefronts / worst.least_wavefronts:.3g} times as many "
        f"in the worst. Lanes of a warp want different words of the same of its {BANKS} banks, and "
        f"the access is repeated until all are served. {advice(subject, thresholds, CONFLICTS)}",
        _ptx_lines(bad),
        blocks=facts.blocks,
        gain=(waves - least) / _shortest_cycles(facts),
    )


def _shortest_cycles(facts: ExecutedFacts) -> float:
    """Cycles of one SM below which the executed blocks cannot run: a wavefront of shared memory
    takes one, and its schedulers issue one instruction each."""
    wavefronts = sum(access.wavefronts for access in facts.accesses)
    return max(wavefronts, facts.instructions / SCHEDULERS, 1.0)


def _divergent(
    subject: HintSubject, facts: ExecutedFacts, thresholds: Thresholds
) -> Iterator[Finding]:
    share = number(thresholds, DIVERGENCE, "share")
    bad = [b for b in facts.branches if b.divergent and b.divergent >= share * b.warps]
    room = WARP * facts.instructions
    lost = 1 - facts.threads / room if room else 0.0
    if not bad or lost < number(thresholds, DIVERGENCE, "lost"):
        return
    warps = sum(b.warps for b in bad)
    parted = sum(b.divergent for b in bad)
    yield Finding(
        DIVERGENCE,
        "hint",
        f"{plural(len(bad), 'branch')} at which the lanes of {parted:,} of {warps:,} warps part: "
        f"the two ways are run one after the other, each with the other's lanes idle, {lost:.0%} "
        f"of all lanes' turns. {advice(subject, thresholds, DIVERGENCE)}",
        _ptx_lines(bad),
        blocks=facts.blocks,
        gain=lost,
    )


def _idle(subject: HintSubject, facts: ExecutedFacts, thresholds: Thresholds) -> Iterator[Finding]:
    those = [access for access in facts.accesses if access.requests]
    requests = sum(access.requests for access in those)
    lanes = sum(access.lanes for access in those)
    limit = number(thresholds, IDLE, "share")
    lost = facts.lost_lanes
    if lost is None or lost < limit:
        return
    bad = [access for access in those if 1 - access.lanes / (WARP * access.requests) >= limit]
    yield Finding(
        IDLE,
        "hint",
        f"{lanes / requests:.3g} of a warp's {WARP} lanes have part in an access to memory, on "
        f"average of {requests:,}: the others are masked off, were never started, or left before. "
        f"Warps are scheduled whole: {advice(subject, thresholds, IDLE)}",
        _ptx_lines(bad),
        blocks=facts.blocks,
        gain=lost,
    )


def _repeated(
    subject: HintSubject, facts: ExecutedFacts, thresholds: Thresholds
) -> Iterator[Finding]:
    loads = [a for a in facts.accesses if a.space == "global" and a.kind == "load" and a.followed]
    share = number(thresholds, REPEATED, "share")
    bad = [access for access in loads if access.repeated >= share * access.followed]
    twice = sum(access.repeated for access in loads)
    lanes = sum(access.followed for access in loads)
    if not bad or twice < share * lanes:
        return
    yield Finding(
        REPEATED,
        "hint",
        f"{twice:,} of {lanes:,} loads of lanes from global memory that were followed are of what "
        "the same thread has loaded before, and nothing was stored there since: a cache may answer "
        "them, and each takes an instruction and its latency all the same. "
        f"{advice(subject, thresholds, REPEATED)}",
        _ptx_lines(bad),
        blocks=facts.blocks,
    )


COUNTED = (_scattered, _conflicting, _divergent, _idle, _repeated)
