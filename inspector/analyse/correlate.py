"""Which lines of one stage belong to which lines of another.

Lines are joined by the place that they come from, inlining respected; where several operations
come from one place, by what they do; where one operation became several of the same kind, in
order. SASS and PTX are joined by the PTX line that nvdisasm names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from inspector.analyse.operations import Does, Operations
from inspector.analyse.placing import Chain, Index, Names, Place, files, located, own_lines
from inspector.analyse.relation import Block, Links, Relation, composed
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.model import Stage

__all__ = ["Links", "Place", "Relation", "beginning", "link", "relate"]

UNKNOWN = Operations()


def link(
    a: Listing,
    b: Listing,
    stages: tuple[Stage, Stage],
    places: Mapping[Stage, Place],
    operations: Operations = UNKNOWN,
    through: Mapping[int, tuple[int, ...]] | None = None,
) -> Links:
    """Lines of ``a`` to lines of ``b``. See ``relate``; the other way round is the same pairs."""
    if stages[0].rank > stages[1].rank:
        swapped = (stages[1], stages[0])
        return relate(b, a, swapped, places, operations, through).backward()
    return relate(a, b, stages, places, operations, through).forward()


def relate(
    upper: Listing,
    lower: Listing,
    stages: tuple[Stage, Stage],
    places: Mapping[Stage, Place],
    operations: Operations = UNKNOWN,
    through: Mapping[int, tuple[int, ...]] | None = None,
) -> Relation:
    """Which lines of a stage belong to which of a later one.

    ``places`` are the stages whose lines are what locations name. ``through`` gives for lines of
    PTX those of ``upper``: with it, SASS follows its PTX line, which knows more (columns, whole
    chains) than its own location; to a source only where its own location names none of its
    lines. Lines without a location belong to none.
    """
    first, second = stages
    if stages == (Stage.PTX, Stage.SASS):
        return Relation.of(_direct(lower, upper)).turned()
    if first in places:
        found = _from_source(upper, lower, places[first])
        return found if through is None else _and_through(found, lower, through)
    if first in (Stage.SOURCE, Stage.OUTPUT_CODE):
        return Relation(())
    if second is Stage.SASS and through is not None:
        followed = _alike(composed(_named(lower), through), upper, lower, stages, operations)
        rest = [line for line in lower.lines if line.n not in followed]
        other = _by_place(upper, Listing(lower.language, rest), stages, operations)
        return Relation((*Relation.of(followed).turned().blocks, *other.blocks))
    return _by_place(upper, lower, stages, operations)


def beginning(lower: Listing, function: Function | None, found: Relation) -> tuple[int, ...]:
    """The lines of a kernel that belong to the first of its lines above that has any.

    That is its ``def``, which the code of every stage begins with.
    """
    first = min((n for upper, _ in found.blocks for n in upper), default=None)
    if first is not None:
        return found.forward()[first]
    if function is None:
        return ()
    lines = (lower.lines[n - 1] for n in range(function.first, function.last + 1))
    return next(((line.n,) for line in lines if line.kind is Kind.INSTRUCTION), ())


def _direct(sass: Listing, ptx: Listing) -> Links:
    total = len(ptx.lines)
    return {n: lines for n, lines in _named(sass).items() if 1 <= lines[0] <= total}


def _named(sass: Listing) -> Links:
    return {line.n: (line.ptx_line,) for line in sass.lines if line.ptx_line is not None}


def _from_source(source: Listing, lower: Listing, place: Place) -> Relation:
    locations = located(lower)
    inner, sites = own_lines(source, place, locations)
    blocks: list[Block] = [
        ((n,), [line.n for line in locations[location]]) for location, n in inner.items()
    ]
    # A call whose whole body was inlined has no instruction of its own: what came of it is its.
    taken = set(inner.values())
    blocks += [
        ((n,), [line.n for location in held for line in locations[location]])
        for n, held in sites.items()
        if n not in taken
    ]
    return Relation(blocks)


def _alike(
    links: Links, upper: Listing, lower: Listing, stages: tuple[Stage, Stage], known: Operations
) -> Links:
    """``links`` of the lines below to those above, to the same operation where it is there."""
    above = [known.of(line, stages[0]) for line in upper.lines]
    below = [known.of(line, stages[1]) for line in lower.lines]
    memo: dict[tuple[int, Does], tuple[int, ...]] = {}
    out: Links = {}
    for n, others in links.items():
        does = below[n - 1]
        if len(others) > 1 and does:
            # Lines with the same links share one tuple, which ``links`` keeps alive.
            key = (id(others), does)
            if key not in memo:
                same = [o for o in others if above[o - 1] & does]
                memo[key] = tuple(same) or others
            out[n] = memo[key]
        else:
            out[n] = others
    return out


def _and_through(
    found: Relation, sass: Listing, through: Mapping[int, tuple[int, ...]]
) -> Relation:
    have = {n for _, lines in found.blocks for n in lines}
    rest = {
        line.n: (line.ptx_line,)
        for line in sass.lines
        if line.ptx_line is not None and line.source is not None and line.n not in have
    }
    return Relation((*found.blocks, *Relation.of(composed(rest, through)).turned().blocks))


def _by_place(
    upper: Listing, lower: Listing, stages: tuple[Stage, Stage], operations: Operations
) -> Relation:
    above, below = located(upper), located(lower)
    names = Names(files(above), files(below))
    chains: dict[Chain, list[Line]] = defaultdict(list)
    for location, lines in above.items():
        chains[names.chain(location)] += lines
    index = Index(chains)
    groups: dict[tuple[str, object], list[Line]] = defaultdict(list)
    for location, lines in below.items():
        key = index.nearest(names.chain(location))
        if key is not None:
            groups[key] += lines
    blocks: list[Block] = []
    for key, lines in groups.items():
        others = [line for chain in index.at(key) for line in chains[chain]]
        lines.sort(key=_number)
        others.sort(key=_number)
        blocks += _by_operation(others, lines, stages, operations)
    return Relation(blocks)


def _number(line: Line) -> int:
    return line.n


def _by_operation(
    upper: Sequence[Line], lower: Sequence[Line], stages: tuple[Stage, Stage], known: Operations
) -> list[Block]:
    """Of lines that share a place, those that do the same.

    What has no counterpart below the operation belongs to what has none above it (the address of
    a load, the default of a mask), or, where there is nothing of the kind, to all of the place.
    """
    if len(upper) == 1:
        return [(_numbers(upper), _numbers(lower))]
    above, below = _sorted(upper, stages[0], known), _sorted(lower, stages[1], known)
    blocks: list[Block] = []
    left: list[Line] = []
    met: set[Does] = set()
    for does, lines in below.items():
        fitting = [other for other in above if other & does]
        if not fitting:
            left += lines
            continue
        met.update(fitting)
        if len(fitting) == 1:
            blocks += _in_order(above[fitting[0]], lines)
        else:
            blocks.append((_numbers([x for f in fitting for x in above[f]]), _numbers(lines)))
    if left:
        alone = [line for does, lines in above.items() if does not in met for line in lines]
        blocks.append((_numbers(alone or upper), _numbers(left)))
    return blocks


def _sorted(lines: Sequence[Line], stage: Stage, known: Operations) -> dict[Does, list[Line]]:
    out: dict[Does, list[Line]] = defaultdict(list)
    for line in lines:
        out[known.of(line, stage)].append(line)
    return out


def _numbers(lines: Sequence[Line]) -> list[int]:
    return [line.n for line in lines]


def _in_order(upper: Sequence[Line], lower: Sequence[Line]) -> list[Block]:
    """One operation became several: the first of above the first few of below, and so on.

    Lowering goes operation by operation, so that each becomes a run; an optimiser may have gone
    element by element. Which of the two it was, and whether either, the values tell: who takes
    another's result above must take it below. Where they tell of neither, all belong to all.
    """
    count, times = len(upper), len(lower) // len(upper)
    if count == 1 or times * count != len(lower):
        return [(_numbers(upper), _numbers(lower))]
    takes = _takes(upper)
    for owner in (
        [at // times for at in range(len(lower))],
        [at % count for at in range(len(lower))],
    ):
        below = {(owner[a], owner[b]) for a, b in _takes(lower)}
        if below <= takes:
            runs: dict[int, list[int]] = defaultdict(list)
            for at, line in enumerate(lower):
                runs[owner[at]].append(line.n)
            return [((upper[o].n,), lines) for o, lines in runs.items()]
    return [(_numbers(upper), _numbers(lower))]


def _takes(lines: Sequence[Line]) -> set[tuple[int, int]]:
    """(a, b) where the line at ``a`` uses a value that the line at ``b`` defines last before it."""
    made: dict[str, int] = {}
    out: set[tuple[int, int]] = set()
    for at, line in enumerate(lines):
        out.update((at, made[name]) for name in line.uses if name in made)
        made.update(dict.fromkeys(line.defs, at))
    return out
