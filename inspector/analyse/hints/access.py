"""Global memory: accesses that could be wider, and lanes that read far apart."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from inspector.analyse.hints.subject import (
    Finding,
    HintSubject,
    Thresholds,
    number,
    numbers,
    plural,
)
from inspector.analyse.hints.touched import Run, arguments, parameters, runs
from inspector.analyse.hints.warp import WarpAccess
from inspector.analyse.tensors import (
    Blocked,
    Tensors,
    blocked,
    layout_of,
    operand_shape,
    pointed,
    uses,
)
from inspector.base.model import Origin, Stage
from inspector.listing.line import Line
from inspector.listing.ptx_statement import Operand

# -- narrow accesses of Triton --------------------------------------------------------------------
# Rows that begin where nothing is aligned.

RULE = "narrow-access"

MAX_ACCESS_BYTES = 16
_MOVES = frozenset(("tt.load", "tt.store"))
_ARGUMENT = re.compile(r"%([\w$.\-]+): (!tt\.\w+<[^{,)]*>|[\w.]+)")
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
        seen = _narrow(line, layout, tensors) if layout is not None else None
        if seen is not None:
            lines.append(line)
            elements, size = max((elements, size), seen)
    if not lines:
        return
    together = MAX_ACCESS_BYTES // size
    yield Finding(
        RULE,
        "hint",
        f"{plural(len(lines), 'access')} of {elements} elements a thread, {size} bytes at a time, "
        f"though {together} lie side by side: each row but the first begins at an address that is "
        f"not known to be a multiple of {MAX_ACCESS_BYTES}, so that no two may be moved at once. "
        "Give rows a stride that is a multiple of 16 elements (pad them when they are allocated): "
        "Triton compiles another variant for that.",
        {Stage.TTGIR: numbers(lines)},
    )


def scalars(subject: HintSubject) -> dict[str, int]:
    """The integer arguments by their names in TTGIR: the launch's, else awkward ones."""
    given = arguments(subject)
    function = next((line for line in subject.ttgir if line.base == "tt.func"), None)
    if function is None:
        return {}
    out: dict[str, int] = {}
    for at, found in enumerate(_ARGUMENT.finditer(function.text)):
        if not found[2].startswith("!"):
            out[found[1]] = given.value(at, pointer=False)
    return out


def named(subject: HintSubject, values: dict[str, int]) -> dict[str, int]:
    """Values by a kernel's own names as values by the names in its TTGIR."""
    function = next((line for line in subject.ttgir if line.base == "tt.func"), None)
    names = [] if function is None else [f[1] for f in _ARGUMENT.finditer(function.text)]
    own = parameters(subject)
    if len(own) != len(names):
        return values
    return {inner: values[name] for inner, name in zip(names, own, strict=True) if name in values}


def _narrow(line: Line, layout: Blocked, tensors: Tensors) -> tuple[int, int] | None:
    """Elements that a thread holds and bytes of each, where several could be moved at once."""
    shape, size, used = operand_shape(line), pointed(line.text), uses(line)
    if shape is None or size is None or not used or len(shape) != len(layout.order):
        return None
    axis = layout.fastest
    held = layout.held(shape)
    together = min(MAX_ACCESS_BYTES // size, held)
    if layout.size[axis] >= together or together < 2 or shape[axis] % together:
        return None
    steps = [tuple(n if i == axis else 0 for i in range(len(shape))) for n in range(together)]
    places = [place for place in tensors.at(used[0], tuple(steps)) if place is not None]
    if len(places) < together:
        return None
    beside = all(b - a == size for a, b in pairwise(places))
    return (held, size) if beside and places[0] % (together * size) else None


NARROW = "narrow-access"
UNCOALESCED = "uncoalesced-layout"

SECTOR_BYTES = 32


def _global(run: Run) -> list[WarpAccess]:
    return [a for a in run.values() if a.space == "global"]


# -- narrow-access --------------------------------------------------------------------------------


def narrow_access(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Neighbouring addresses read or written one by one, where one wide access would do."""
    accessed = runs(subject)
    if not accessed:
        return
    pieces_of = [_pieces(run) for run in accessed]
    lines = set.intersection(*(set(pieces) for pieces in pieces_of))
    lines = {n for n in lines if all(pieces[n] == pieces_of[0][n] for pieces in pieces_of)}
    if not lines:
        return
    accesses = [accessed[0][n] for n in sorted(lines)]
    wide = max(pieces_of[0][n] for n in lines)
    width = min(access.width for access in accesses)
    pieces = sum(access.width for access in accesses) // wide
    yield Finding(
        NARROW,
        "hint",
        f"{plural(len(accesses), 'access')} of {width} bytes a thread to neighbouring addresses in "
        f"global memory, where {pieces} of {wide} bytes would do: every access takes an "
        f"instruction and a place in the queue of memory, however little it moves. "
        f"{_advice(subject, accesses)}",
        {Stage.PTX: tuple(sorted(lines))},
        estimated=True,
    )


def _advice(subject: HintSubject, accesses: list[WarpAccess]) -> str:
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
    stretches: dict[tuple[int, bool, int], list[WarpAccess]] = defaultdict(list)
    for access in _global(run):
        if access.width < MAX_ACCESS_BYTES:
            stretches[access.block, access.store, access.width].append(access)
    out: dict[int, int] = {}
    for (_, _, width), accesses in stretches.items():
        for chain in _chains(accesses, width):
            out.update(_cut(chain, width))
    return out


def _chains(accesses: list[WarpAccess], width: int) -> Iterator[list[WarpAccess]]:
    """Accesses each of which continues, in every lane, where the one before it ends."""
    by_place: dict[tuple[int, ...], WarpAccess] = {}
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


def _cut(chain: list[WarpAccess], width: int) -> dict[int, int]:
    """The widest aligned pieces of a chain."""
    out: dict[int, int] = {}
    at = 0
    while at < len(chain):
        wide = MAX_ACCESS_BYTES
        while wide > width:
            count = wide // width
            fits = at + count <= len(chain)
            if fits and all(address % wide == 0 for address in chain[at].addresses):
                out.update((access.line, wide) for access in chain[at : at + count])
                at += count
                break
            wide //= 2
        else:
            at += 1
    return out


# -- uncoalesced-layout ---------------------------------------------------------------------------


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
    unless = "" if worst in stays else _unless(subject)
    yield Finding(
        UNCOALESCED,
        "warn",
        f"{plural(len(lines), 'access')} to global memory in which the lanes of a warp are far "
        f"apart{unless}: the worst touches {sectors} sectors of 32 bytes for data that fill "
        f"{needed}. Memory moves whole sectors, so most of what it moves is thrown away. Let "
        f"neighbouring lanes have neighbouring elements: {cure_of_layout(subject)}.",
        {Stage.PTX: tuple(sorted(lines))},
        estimated=True,
    )


def _unless(subject: HintSubject) -> str:
    if subject.kernel.origin in (Origin.TRITON, Origin.INDUCTOR):
        return ""  # Triton compiles another variant where a stride is 1
    return " (unless the argument that their index is multiplied by is 1)"


def cure_of_layout(subject: HintSubject) -> str:
    """What lets neighbouring lanes have neighbouring elements."""
    if subject.kernel.origin in (Origin.TRITON, Origin.INDUCTOR):
        return (
            "pass a tensor whose stride along the block's fastest axis is 1 (contiguous()), or "
            "run tl.arange along the axis that has it"
        )
    return "let threadIdx.x run along the axis of stride 1, or turn tiles in shared memory"


def _everywhere(runs: tuple[Run, ...], limit: float, least: float) -> frozenset[int]:
    """Lines that touch too many sectors for every shape of the block."""
    found = [frozenset(_scattered(run, limit, least)) for run in runs]
    return frozenset.intersection(*found) if found else frozenset()


def _scattered(run: Run, limit: float, least: float) -> Iterator[int]:
    """Of accesses that move together (one stretch, one base) what they touch together counts."""
    together: dict[tuple[int, bool, Operand], list[WarpAccess]] = defaultdict(list)
    for access in _global(run):
        if len(access.addresses) >= least:
            together[access.block, access.store, access.base].append(access)
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
