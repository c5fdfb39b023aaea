"""Which lines of one stage belong to which lines of another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from inspector.listing.line import Line, Listing
from inspector.model import Location, Stage

Links = dict[int, tuple[int, ...]]
# A line that holds none of these is a mark on the code, not the code.
SILENT = frozenset({"blank", "comment"})


@dataclass(frozen=True, slots=True)
class Place:
    """How a stage's own lines are named in the locations of the lower stages.

    ``file`` is the file that they name; line ``first`` of the stage is that file's line 1.
    """

    file: str
    first: int = 1


def link(
    a: Listing,
    b: Listing,
    stages: tuple[Stage, Stage],
    places: Mapping[Stage, Place],
) -> Links:
    """Lines of ``a`` to lines of ``b``, where both say that they come from the same place.

    SASS and PTX are joined by the PTX line that nvdisasm names; everything else by file and line
    of any frame of the location. Lines without a location have no links.
    """
    if stages == (Stage.SASS, Stage.PTX):
        return _direct(a, b)
    if stages == (Stage.PTX, Stage.SASS):
        return _turned(_direct(b, a))
    left = _keys(a, stages[0], places)
    right: dict[tuple[str, int], set[int]] = defaultdict(set)
    for n, keys in _keys(b, stages[1], places).items():
        for key in keys[:1] if stages[1] in places else keys:
            right[key].add(n)
    out: Links = {}
    for n, keys in left.items():
        found = set[int]()
        for key in keys:
            found |= right.get(key, set())
            # The innermost frame that the other side knows is the one that is meant.
            if found:
                break
        if found:
            out[n] = tuple(sorted(found))
    return out


def _direct(sass: Listing, ptx: Listing) -> Links:
    return {
        line.n: (line.ptx_line,)
        for line in sass.lines
        if line.ptx_line is not None and 1 <= line.ptx_line <= len(ptx.lines)
    }


def _turned(links: Links) -> Links:
    out: dict[int, list[int]] = defaultdict(list)
    for n, others in links.items():
        for other in others:
            out[other].append(n)
    return {n: tuple(sorted(found)) for n, found in sorted(out.items())}


def _keys(
    listing: Listing, stage: Stage, places: Mapping[Stage, Place]
) -> dict[int, list[tuple[str, int]]]:
    place = places.get(stage)
    if place is not None:
        return {
            line.n: [(_name(place.file), line.n - place.first + 1)]
            for line in listing.lines
            if line.n >= place.first and line.kind.value not in SILENT
        }
    return {
        line.n: [(_name(f.file), f.line) for f in _frames(line)]
        for line in listing.lines
        if line.source is not None and line.kind.value not in SILENT
    }


def _frames(line: Line) -> Iterable[Location]:
    return line.source.frames() if line.source is not None else ()


def _name(path: str) -> str:
    # Compilers split and join folders each in their own way; the file's own name is what they
    # agree on.
    return PurePath(path).name
