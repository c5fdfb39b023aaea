"""Lines of one stage by where they come from, and the best of another's for each such place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from inspector.listing.line import Kind, Line, Listing
from inspector.model import Location

Frame = tuple[str, int, int | None]
Chain = tuple[Frame, ...]
# A module holds the whole file, and is located where the kernel begins.
WHOLE = frozenset({"module", "builtin.module"})


@dataclass(frozen=True, slots=True)
class Place:
    """How a stage's own lines are named in the locations of the lower stages.

    ``file`` is the file that they name; line ``first`` of the stage is that file's line 1.
    """

    file: str
    first: int = 1


def located(listing: Listing) -> dict[Location, list[Line]]:
    """Instructions by their location, those without one left out."""
    out: dict[Location, list[Line]] = {}
    # Equal neighbours are mostly one object; hashing a chain costs more than asking for its id.
    known: dict[int, tuple[Location, list[Line]]] = {}
    for line in listing.lines:
        source = line.source
        if source is None or line.kind is not Kind.INSTRUCTION or line.base in WHOLE:
            continue
        held = known.get(id(source))
        if held is None:
            held = known[id(source)] = (source, out.setdefault(source, []))
        held[1].append(line)
    return out


class Names:
    """Files of several stages as one name each.

    Compilers split and join folders each in their own way: a path that not all sides write alike
    is known by its last part.
    """

    def __init__(self, *sides: Iterable[str]) -> None:
        common = set.intersection(*(set(side) for side in sides)) if sides else set()
        self._common = common
        self._memo: dict[str, str] = {}

    def of(self, path: str) -> str:
        """The name under which all sides know the file."""
        name = self._memo.get(path)
        if name is None:
            name = path if path in self._common else PurePath(path).name
            self._memo[path] = name
        return name

    def chain(self, location: Location) -> Chain:
        """The frames, innermost first."""
        return tuple((self.of(f.file), f.line, f.column) for f in location.frames())


def files(locations: Iterable[Location]) -> set[str]:
    """Every file that the locations and their call sites name."""
    return {frame.file for location in locations for frame in location.frames()}


class Index:
    """The places of one stage, so that another's find the nearest that means the same.

    A chain is compared whole, with its columns and then without; where one side knows no chain,
    by its innermost frame; where the other side stops at a call site, by that.
    """

    def __init__(self, chains: Collection[Chain]) -> None:
        self._by: dict[tuple[str, object], list[Chain]] = defaultdict(list)
        for chain in chains:
            inner = chain[0]
            self._add("whole", chain, chain)
            self._add("lines", lines_of(chain), chain)
            length = "one" if len(chain) == 1 else "many"
            self._add(f"{length} column", inner, chain)
            self._add(f"{length} line", inner[:2], chain)
            for outer in dict.fromkeys(f[:2] for f in chain[1:]):
                self._add("outer", outer, chain)

    def _add(self, how: str, key: object, chain: Chain) -> None:
        self._by[how, key].append(chain)

    def nearest(self, chain: Chain) -> tuple[str, object] | None:
        """The key of the best match, which ``at`` gives the places of."""
        inner = chain[0]
        keys: list[tuple[str, object]] = [("whole", chain), ("lines", lines_of(chain))]
        if len(chain) == 1:
            keys += [("many column", inner), ("many line", inner[:2]), ("outer", inner[:2])]
            # The only ways left: one side has inlined what the other has not.
        else:
            keys += [("one column", inner), ("one line", inner[:2])]
            keys += [("one line", frame[:2]) for frame in chain[1:]]
        return next((key for key in keys if key in self._by), None)

    def at(self, key: tuple[str, object]) -> list[Chain]:
        """The places that share a key."""
        return self._by[key]


def lines_of(chain: Chain) -> tuple[tuple[str, int], ...]:
    """A chain without its columns."""
    return tuple(frame[:2] for frame in chain)


def own_lines(
    listing: Listing, place: Place, locations: Mapping[Location, list[Line]]
) -> tuple[dict[Location, int], dict[int, list[Location]]]:
    """Where the lines of a source stand in it.

    The first maps a location to the line of its innermost frame that lies in the source; the
    second a line to the locations that were inlined there.
    """
    exact = place.file in files(locations)
    wanted = place.file if exact else PurePath(place.file).name
    silent = (Kind.BLANK, Kind.COMMENT)
    total = len(listing.lines)
    inner: dict[Location, int] = {}
    sites: dict[int, list[Location]] = defaultdict(list)
    for location in locations:
        here = [
            frame.line + place.first - 1
            for frame in location.frames()
            if (frame.file if exact else PurePath(frame.file).name) == wanted
        ]
        here = [n for n in dict.fromkeys(here) if 1 <= n <= total]
        here = [n for n in here if listing.lines[n - 1].kind not in silent]
        if here:
            inner[location] = here[0]
            for n in here[1:]:
                sites[n].append(location)
    return inner, dict(sites)
