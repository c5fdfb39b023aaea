"""Which lines of one stage belong to which lines of another.

Lines are joined by the place that they come from, inlining respected; where several operations
come from one place, by what they do (``Operations``); where one operation became several of the
same kind, in order. SASS and PTX are joined by the PTX line that nvdisasm names. The lines of a
generated kernel are joined to the user's model by the operators that were fused (``model_lines``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from operator import attrgetter
from pathlib import PurePath

from msgspec import Struct

from inspector.base.model import Fusion, Location, MadeFrom, Stage
from inspector.base.text import by_key
from inspector.listing.line import Function, Kind, Line, Listing

Table = Mapping[str, Mapping[str, Sequence[str]]]
Does = frozenset[str]

NOTHING: Does = frozenset()
LANGUAGE = {
    Stage.IR: "mlir",
    Stage.TTIR: "mlir",
    Stage.TTGIR: "mlir",
    Stage.LLIR: "llvm",
    Stage.PTX: "ptx",
    Stage.SASS: "sass",
}
# PTX in a string of LLVM IR: an opcode at the string's beginning or after a separator.
_ASSEMBLY = re.compile(
    r"(?:[\"{;]|0[9A]|\}|p\d|\$\d)\s*+([a-z][a-z0-9_]{1,15}(?:[.:]+[a-z0-9_]++)*+)"
)
_MARKED = re.compile(
    r"^#line (\d{1,9}) |^\s*+# src\[[^\]\n:]{1,400}:(\d{1,9})|^\s*+//[^\n]*<L (\d{1,9})>$"
)
_CALLED = re.compile(r"@(?:llvm\.)?([\w.]++)\(")
_PYTHON = re.compile(
    r"(?<!\w)(?<!\w\.)([A-Za-z_]\w*+(?:\.\w++)*+)\(|(\.to)\(|\s([-+*/<>&|^]|[<>=!]=|<<|>>)\s"
)
_FLOAT = re.compile(r"(?:bf|f|tf|e\dm|ue\dm)\d")
_WORD = re.compile(r"[a-z]\d")


class Operations:
    """Opcodes to operations. Without a table no opcode is known, and all links are by place."""

    def __init__(self, table: Table | None = None) -> None:
        self._names: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for operation, languages in (table or {}).items():
            for language, names in languages.items():
                for name in names:
                    self._names[language][name].add(operation)
        self.named = cache(self._named)
        """What an opcode (or a name of ``python`` or ``aten``) does, by its language."""

    def of(self, line: Line, stage: Stage) -> Does:
        """What a line of a lowered stage does; empty where that is not known."""
        if line.opcode is None:
            return NOTHING
        language = LANGUAGE.get(stage)
        if language == "llvm" and (line.base == "call" or "call" in line.opcode):
            return self._call(line.text)
        return self.named(language, line.opcode) if language else NOTHING

    def _named(self, language: str, opcode: str) -> Does:
        names = self._names[language]
        parts = opcode.partition(" ")[0].split(".")
        words = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
        words += [f"{parts[0]}/{_kind(parts)}"] if language == "ptx" else []
        return next((frozenset(names[word]) for word in words if word in names), NOTHING)

    def _call(self, text: str) -> Does:
        # One call may hold a whole statement of PTX; it does all that is in it.
        out: set[str] = set()
        _, assembly, rest = text.partition(" asm ")
        if assembly:
            for name in _ASSEMBLY.findall(rest):
                out |= self.named("ptx", name)
        elif called := _CALLED.search(text):
            out |= self.named("llvm", called[1])
        return frozenset(out)

    def python(self, text: str) -> Does:
        out: set[str] = set()
        for called, method, sign in _PYTHON.findall(text):
            out |= self.named("python", called or method or sign)
            if called.endswith(".to"):
                out |= self.named("python", ".to")
        return frozenset(out)

    def aten(self, target: str) -> Does:
        """What ``aten.mul.Tensor`` does; empty where the operator is not in the table."""
        parts = target.removeprefix("torch.ops.").split(".")
        if len(parts) > 1 and parts[0] in ("aten", "prims", "inductor"):
            return self.named("aten", parts[1])
        return NOTHING


def _kind(parts: Sequence[str]) -> str | None:
    """``f`` or ``i`` by the type that an opcode of PTX ends with, None if it names none."""
    typed = (part for part in reversed(parts[1:]) if _FLOAT.match(part) or _WORD.match(part))
    return next(("f" if _FLOAT.match(part) else "i" for part in typed), None)


Found = tuple[int, ...]
_VALUE = re.compile(r"\b_?tmp\d{1,9}(?:_\w{1,40})?\b")
# A masked reduction is written with tl.where: no operator of the graph.
_MASK = re.compile(r"tl\.where\([^,\n]{0,400}mask")


def marked(code: Listing) -> Links:
    """Lines of generated code to the user's, by the remarks that its generator leaves above them
    (Helion's ``# src[k.py:5]``, Warp's ``<L 5>``, ``#line 5`` of C++)."""
    out: Links = {}
    at: int | None = None
    for line in code.lines:
        if (found := _MARKED.search(line.text)) is not None and found.lastindex:
            at = int(found[found.lastindex])
        elif at is not None and line.kind is Kind.INSTRUCTION:
            out[line.n] = (at,)
    return out


def model_lines(
    listing: Listing,
    span: tuple[int, int] | None,
    fusion: Fusion,
    file: str,
    operations: Operations,
) -> dict[int, Found]:
    """Lines of ``output_code`` to lines of the user's ``file``; ``span`` is the kernel's text."""
    every = tuple(sorted({m.line for m in fusion.made_from if m.file == file}))
    if not every:
        return {}
    out = {n: every for n in fusion.calls if 1 <= n <= len(listing.lines)}
    if span is None:
        return out
    body = _body(listing, span)
    narrowed = _narrowed([text for _, text in body], fusion, operations)
    for (n, _), owners in zip(body, narrowed, strict=True):
        # Owners of other files alone: the line is from none of this one.
        lines = {m.line for m in map(fusion.made_from.__getitem__, owners) if m.file == file}
        if lines or not owners:
            out[n] = tuple(sorted(lines)) or every
    return out


def _body(listing: Listing, span: tuple[int, int]) -> list[tuple[int, str]]:
    """The kernel's function: from its ``def`` to its last line."""
    first, last = max(1, span[0]), min(span[1], len(listing.lines))
    lines = [listing.lines[n - 1] for n in range(first, last + 1)]
    start = next((at for at, line in enumerate(lines) if line.text.startswith("def ")), None)
    if start is None:
        return []
    quiet = (Kind.BLANK, Kind.COMMENT)
    return [
        (line.n, line.text)
        for line in lines[start:]
        if line.kind not in quiet and not line.text.startswith("'''")
    ]


def _narrowed(body: Sequence[str], fusion: Fusion, operations: Operations) -> list[Found]:
    """For each line which of ``made_from`` it may come of, by index; empty: any of them."""
    does = [_does(m, operations) for m in fusion.made_from]
    # What Inductor added itself may be of any line.
    vague: set[str] = set()
    for target in fusion.unplaced:
        what = operations.aten(target)
        if not what:
            return [()] * len(body)
        vague |= what
    owners = [_owners(text, does, vague, operations) for text in body]
    _follow(body, [_values(text) for text in body], owners)
    return [owner or () for owner in owners]


def _does(made: MadeFrom, operations: Operations) -> Does | None:
    out: set[str] = set()
    for target in made.targets:
        if target.startswith(("operator.", "aten.view", "aten.reshape")):
            continue
        what = operations.aten(target)
        if not what:
            return None
        out |= what
    return frozenset(out)


def _owners(
    text: str, does: Sequence[Does | None], vague: set[str], operations: Operations
) -> Found | None:
    """Who a line may come of; None if it moves values and computes none."""
    name, is_value, right = text.strip().partition(" = ")
    if not is_value or not _VALUE.fullmatch(name):
        return None
    what = NOTHING if _MASK.search(right) else operations.python(f" {right} ") - {"load", "convert"}
    if not what or "tl.load(" in right:
        return None
    if what & vague:
        return ()
    return tuple(at for at, each in enumerate(does) if each is None or each & what)


def _values(text: str) -> tuple[set[str], set[str]]:
    name, is_value, right = text.strip().partition(" = ")
    made = {name} if is_value and _VALUE.fullmatch(name) else set()
    return made, set(_VALUE.findall(right if made else text))


def _follow(
    body: Sequence[str], values: Sequence[tuple[set[str], set[str]]], owners: list[Found | None]
) -> None:
    """A load, a constant or a mask is of who takes it; a store of who made what it stores."""
    users: dict[str, set[int]] = {}
    whole: set[str] = set()
    for at in range(len(body) - 1, -1, -1):
        made, taken = values[at]
        if owners[at] is None and made:
            name = next(iter(made))
            owners[at] = () if name in whole else tuple(sorted(users.get(name, ())))
        for name in taken if "tl.store" not in body[at] else ():
            users.setdefault(name, set()).update(owners[at] or ())
            if not owners[at]:
                whole.add(name)
    makers: dict[str, Found] = {}
    for at, text in enumerate(body):
        made, taken = values[at]
        makers.update(dict.fromkeys(made, owners[at] or ()))
        if "tl.store" in text or "tl.atomic" in text:
            found = [makers.get(name, ()) for name in taken]
            owners[at] = tuple(sorted({x for f in found for x in f})) if all(found) else ()


# Lines of one stage by where they come from, and the best of another's for each such place.

Frame = tuple[str, int, int | None]
Chain = tuple[Frame, ...]
# A module holds the whole file, and is located where the kernel begins.
WHOLE = frozenset({"module", "builtin.module"})


class StageNames(Struct, frozen=True):
    """How a stage's own lines are named in the locations of the lower stages. ``file`` is the file
    that they name; line ``first`` of the stage is that file's line 1."""

    file: str
    first: int = 1


def located(listing: Listing) -> dict[Location, list[Line]]:
    """Instructions by their location, those without one left out."""
    return by_key(
        (line.source, line)
        for line in listing.lines
        if line.source and line.kind is Kind.INSTRUCTION and line.base not in WHOLE
    )


def files(locations: Iterable[Location]) -> set[str]:
    return {frame.file for location in locations for frame in location.frames()}


def _keys(chain: Chain, wanted: bool) -> list[tuple[str, object]]:
    """The keys that a place has, or under which another stage's place looks for its like.

    The best are first. A chain is compared whole, with its columns and then without; where one
    side knows no chain, by its innermost frame; where the other side stops at a call site, by that.
    """
    lines = tuple(frame[:2] for frame in chain)
    alone = len(chain) == 1
    length = "one" if alone != wanted else "many"
    keys: list[tuple[str, object]] = [("whole", chain), ("lines", lines)]
    keys += [(f"{length} column", chain[0]), (f"{length} line", lines[0])]
    if wanted:  # the only ways left: one side has inlined what the other has not
        return [*keys, ("outer", lines[0])] if alone else [*keys, *(("one line", n) for n in lines)]
    return [*keys, *(("outer", line) for line in dict.fromkeys(lines[1:]))]


def own_lines(
    listing: Listing, place: StageNames, locations: Mapping[Location, list[Line]]
) -> tuple[dict[Location, int], dict[int, list[Location]]]:
    """The lines of a source that locations name.

    The first maps a location to the line of its innermost frame that is in the source; the
    second a line to the locations that were inlined there.
    """
    exact = place.file in files(locations)
    wanted = place.file if exact else PurePath(place.file).name
    lines = dict(enumerate(listing.lines, 1))
    inner: dict[Location, int] = {}
    sites: dict[int, list[Location]] = defaultdict(list)
    for location in locations:
        frames = (
            f for f in location.frames() if wanted == (f.file if exact else PurePath(f.file).name)
        )
        named = dict.fromkeys(frame.line + place.first - 1 for frame in frames)
        here = [n for n in named if n in lines and lines[n].kind not in (Kind.BLANK, Kind.COMMENT)]
        inner.update((location, n) for n in here[:1])
        for n in here[1:]:
            sites[n].append(location)
    return inner, sites


# Pairs of lines held as blocks: every line of one side of a block belongs to all of the other.
#
# A line of source may have a hundred thousand instructions. As pairs that would be quadratic; as
# blocks it stays linear, and lines with the same links share one tuple.

Links = dict[int, tuple[int, ...]]
Block = tuple[Sequence[int], Sequence[int]]


class Relation:
    """Which lines of ``left`` belong to which of ``right``; both directions are the same pairs."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.blocks = tuple((tuple(left), tuple(right)) for left, right in blocks if left and right)

    @classmethod
    def of(cls, links: Mapping[int, tuple[int, ...]]) -> Relation:
        """The relation that ``links`` are the forward direction of."""
        groups: dict[object, tuple[list[int], tuple[int, ...]]] = {}
        for n, others in links.items():
            groups.setdefault(_key(others), ([], others))[0].append(n)
        return cls(groups.values())

    def turned(self) -> Relation:
        """The same pairs with left and right exchanged."""
        return Relation((right, left) for left, right in self.blocks)

    def forward(self) -> Links:
        return _links(self.blocks)

    def backward(self) -> Links:
        return _links([(right, left) for left, right in self.blocks])


def _links(blocks: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> Links:
    member = by_key((n, at) for at, (left, _) in enumerate(blocks) for n in left)
    united: dict[tuple[int, ...], tuple[int, ...]] = {}
    for own in member.values():
        key = tuple(own)
        if key not in united:
            united[key] = tuple(sorted({line for at in key for line in blocks[at][1]}))
    return {n: united[tuple(member[n])] for n in sorted(member)}


def composed(first: Mapping[int, tuple[int, ...]], then: Mapping[int, tuple[int, ...]]) -> Links:
    """``first`` followed by ``then``; lines with the same middle share one result."""
    united: dict[object, tuple[int, ...]] = {}
    out: Links = {}
    for n, middle in first.items():
        key = _key(middle)
        reached = then.get(middle[0], ()) if len(middle) == 1 else united.get(key)
        if reached is None:
            reached = united[key] = tuple(sorted({x for m in middle for x in then.get(m, ())}))
        if reached:
            out[n] = reached
    return out


def _key(lines: tuple[int, ...]) -> object:
    """Equal for the same lines; where they are many, only for the same tuple. To hash a long tuple
    for each line that has it would be quadratic."""
    return lines if len(lines) < 16 else id(lines)


UNKNOWN = Operations()


def relate(
    upper: Listing,
    lower: Listing,
    stages: tuple[Stage, Stage],
    places: Mapping[Stage, StageNames],
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
        total = len(upper.lines)
        direct = {n: lines for n, lines in _named(lower).items() if 1 <= lines[0] <= total}
        return Relation.of(direct).turned()
    if first in places:
        relation = _from_source(upper, lower, places[first])
        if through is None:
            return relation
        have = relation.backward()
        placed = {line.n for line in lower.lines if line.source is not None}
        left = {n: at for n, at in _named(lower).items() if n in placed and n not in have}
        return Relation((*relation.blocks, *Relation.of(composed(left, through)).turned().blocks))
    if first in (Stage.SOURCE, Stage.OUTPUT_CODE):
        return Relation(())
    if second is Stage.SASS and through is not None:
        followed = _alike(composed(_named(lower), through), upper, lower, stages, operations)
        rest = [line for line in lower.lines if line.n not in followed]
        other = _by_place(upper, Listing(lower.language, rest), stages, operations)
        return Relation((*Relation.of(followed).turned().blocks, *other.blocks))
    return _by_place(upper, lower, stages, operations)


def beginning(lower: Listing, function: Function | None, relation: Relation) -> tuple[int, ...]:
    """The lines of a kernel that belong to the first of its lines above that has any. That is its
    ``def``, which the code of every stage begins with."""
    first = min((n for upper, _ in relation.blocks for n in upper), default=None)
    if first is not None:
        return relation.forward()[first]
    if function is None:
        return ()
    lines = (lower.lines[n - 1] for n in range(function.first, function.last + 1))
    return next(((line.n,) for line in lines if line.kind is Kind.INSTRUCTION), ())


def _named(sass: Listing) -> Links:
    return {line.n: (line.ptx_line,) for line in sass.lines if line.ptx_line is not None}


def _from_source(source: Listing, lower: Listing, place: StageNames) -> Relation:
    locations = located(lower)
    inner, sites = own_lines(source, place, locations)
    blocks: list[Block] = [
        ((n,), [line.n for line in locations[location]]) for location, n in inner.items()
    ]
    # A call whose whole body was inlined has no own instruction: it gets those of the body.
    taken = set(inner.values())
    blocks += [
        ((n,), [line.n for location in within for line in locations[location]])
        for n, within in sites.items()
        if n not in taken
    ]
    return Relation(blocks)


def _alike(
    links: Links,
    upper: Listing,
    lower: Listing,
    stages: tuple[Stage, Stage],
    operations: Operations,
) -> Links:
    """``links`` of the lines below to those above, to the same operation where it is there."""
    above = [operations.of(line, stages[0]) for line in upper.lines]
    below = [operations.of(line, stages[1]) for line in lower.lines]
    memo: dict[tuple[int, Does], tuple[int, ...]] = {}
    out: Links = {}
    for n, others in links.items():
        # Lines with the same links share one tuple, which ``links`` keeps alive.
        key = (id(others), below[n - 1])
        if key not in memo:
            memo[key] = tuple(o for o in others if above[o - 1] & below[n - 1]) or others
        out[n] = memo[key]
    return out


def _by_place(
    upper: Listing, lower: Listing, stages: tuple[Stage, Stage], operations: Operations
) -> Relation:
    above, below = located(upper), located(lower)
    common = files(above) & files(below)

    def chain(location: Location) -> Chain:
        # Compilers split and join folders each in their own way: a path that not both sides
        # write alike is known by its last part.
        frames = location.frames()
        names = (f.file if f.file in common else PurePath(f.file).name for f in frames)
        return tuple((name, f.line, f.column) for name, f in zip(names, frames, strict=True))

    index = by_key(
        (key, line)
        for location, lines in above.items()
        for key in _keys(chain(location), wanted=False)
        for line in lines
    )
    groups = by_key(
        (nearest, line)
        for location, lines in below.items()
        for nearest in islice(filter(index.__contains__, _keys(chain(location), wanted=True)), 1)
        for line in lines
    )
    blocks: list[Block] = []
    for key, lines in groups.items():
        others = sorted(index[key], key=attrgetter("n"))
        blocks += _by_operation(others, sorted(lines, key=attrgetter("n")), stages, operations)
    return Relation(blocks)


def _by_operation(
    upper: Sequence[Line],
    lower: Sequence[Line],
    stages: tuple[Stage, Stage],
    operations: Operations,
) -> list[Block]:
    """Of lines that share a place, those that do the same.

    What has no counterpart below the operation belongs to what has none above it (the address of
    a load, the default of a mask), or, where there is nothing of the kind, to all of the place.
    """
    if len(upper) == 1:
        return [(_numbers(upper), _numbers(lower))]
    above = by_key((operations.of(line, stages[0]), line) for line in upper)
    below = by_key((operations.of(line, stages[1]), line) for line in lower)
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


def _numbers(lines: Sequence[Line]) -> list[int]:
    return [line.n for line in lines]


def _in_order(upper: Sequence[Line], lower: Sequence[Line]) -> list[Block]:
    """One operation became several: the first of above the first few of below, and so on.

    Lowering goes operation by operation, so that each becomes a run; an optimiser may have gone
    element by element. Which of the two it was, and whether either, the values tell: who takes
    another's result above must take it below. Otherwise all belong to all.
    """
    count, times = len(upper), len(lower) // len(upper)
    above, below = _takes(upper), _takes(lower)
    numbers = _numbers(lower)
    places = range(len(lower))
    for owner in ([at // max(times, 1) for at in places], [at % count for at in places]):
        regular = count > 1 and times * count == len(lower)
        if regular and {(owner[a], owner[b]) for a, b in below} <= above:
            own = by_key(zip(owner, numbers, strict=True))
            return [((line.n,), own[at]) for at, line in enumerate(upper)]
    return [(_numbers(upper), numbers)]


def _takes(lines: Sequence[Line]) -> set[tuple[int, int]]:
    """(a, b) where the line at ``a`` uses a value that the line at ``b`` defines last before it."""
    made: dict[str, int] = {}
    out: set[tuple[int, int]] = set()
    for at, line in enumerate(lines):
        out.update((at, made[name]) for name in line.uses if name in made)
        made.update(dict.fromkeys(line.defs, at))
    return out
