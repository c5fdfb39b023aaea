"""Which lines of one stage belong to which lines of another.

Lines are joined by the place that they come from, inlining respected; where several operations
come from one place, by what they do (``Operations``); where one operation became several of the
same kind, in order. SASS and PTX are joined by the PTX line that nvdisasm names. The lines of a
generated kernel are joined to the user's model by the operators that were fused (``model_lines``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from pathlib import PurePath

from msgspec import Struct

from inspector.base.grouping import by_key
from inspector.base.model import Fusion, Location, MadeFrom, Stage, is_product
from inspector.parsers.line import Function, Kind, Line, Listing

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

    def kinds_of_line(self, line: Line, stage: Stage) -> Does:
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
        if language == "ptx":
            words.append(f"{parts[0]}/{_kind(parts)}")
        return next((frozenset(names[word]) for word in words if word in names), NOTHING)

    def _call(self, text: str) -> Does:
        # One call may hold a whole statement of PTX; it does all that is in it.
        out: set[str] = set()
        _, assembly, assembly_text = text.partition(" asm ")
        if assembly:
            for name in _ASSEMBLY.findall(assembly_text):
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
    source_line: int | None = None
    for line in code.lines:
        if (mark := _MARKED.search(line.text)) is not None and mark.lastindex:
            source_line = int(mark[mark.lastindex])
        elif source_line is not None and line.kind is Kind.INSTRUCTION:
            out[line.n] = (source_line,)
    return out


def model_lines(
    listing: Listing,
    span: tuple[int, int] | None,
    fusion: Fusion,
    file: str,
    operations: Operations,
) -> dict[int, Found]:
    """Lines of ``output_code`` to lines of the user's ``file``; ``span`` is the kernel's text."""
    all_lines = tuple(sorted({m.line for m in fusion.made_from if m.file == file}))
    if not all_lines:
        return {}
    out = {n: all_lines for n in fusion.calls if 1 <= n <= len(listing.lines)}
    if span is None:
        return out
    body = _body(listing, span)
    narrowed = _narrowed([text for _, text in body], fusion, operations)
    for (n, _), owners in zip(body, narrowed, strict=True):
        # Owners of other files alone: the line is from none of this one.
        lines = {m.line for m in map(fusion.made_from.__getitem__, owners) if m.file == file}
        if lines or not owners:
            out[n] = tuple(sorted(lines)) or all_lines
    return out


def _body(listing: Listing, span: tuple[int, int]) -> list[tuple[int, str]]:
    """The kernel's function: from its ``def`` to its last line."""
    first = max(1, span[0])
    last = min(span[1], len(listing.lines))
    lines = [listing.lines[n - 1] for n in range(first, last + 1)]
    start = next((index for index, line in enumerate(lines) if line.text.startswith("def ")), None)
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
        operation_kinds = operations.aten(target)
        if not operation_kinds:
            return [()] * len(body)
        vague |= operation_kinds
    owners = [_owners(text, does, vague, operations) for text in body]
    values = [_values(text) for text in body]
    _follow(body, values, owners)
    products = tuple(
        index for index, m in enumerate(fusion.made_from) if any(map(is_product, m.targets))
    )
    # What a template writes itself (``acc += tl.dot(a, b)``) is of its product; what is fused
    # around it defines values (``tmp0 = …``).
    return [
        owner or (() if defined else products)
        for owner, (defined, _) in zip(owners, values, strict=True)
    ]


def _does(origin: MadeFrom, operations: Operations) -> Does | None:
    out: set[str] = set()
    for target in origin.targets:
        if target.startswith(("operator.", "aten.view", "aten.reshape")):
            continue
        operation_kinds = operations.aten(target)
        if not operation_kinds:
            return None
        out |= operation_kinds
    return frozenset(out)


def _owners(
    text: str, does: Sequence[Does | None], vague: set[str], operations: Operations
) -> Found | None:
    """Who a line may come of; None if it moves values and computes none."""
    name, is_value, right = text.strip().partition(" = ")
    if not is_value or not _VALUE.fullmatch(name):
        return None
    operation_kinds = (
        NOTHING if _MASK.search(right) else operations.python(f" {right} ") - {"load", "convert"}
    )
    if not operation_kinds or "tl.load(" in right:
        return None
    if operation_kinds & vague:
        return ()
    return tuple(
        index
        for index, origin_kinds in enumerate(does)
        if origin_kinds is None or origin_kinds & operation_kinds
    )


def _values(text: str) -> tuple[set[str], set[str]]:
    name, is_value, right = text.strip().partition(" = ")
    defined = {name} if is_value and _VALUE.fullmatch(name) else set()
    return defined, set(_VALUE.findall(right if defined else text))


def _follow(
    body: Sequence[str], values: Sequence[tuple[set[str], set[str]]], owners: list[Found | None]
) -> None:
    """A load, a constant or a mask is of who takes it; a store of who made what it stores."""
    _follow_to_users(body, values, owners)
    makers: dict[str, Found] = {}
    for index, text in enumerate(body):
        defined, used = values[index]
        makers.update(dict.fromkeys(defined, owners[index] or ()))
        if "tl.store" in text or "tl.atomic" in text:
            owner_sets = [makers.get(name, ()) for name in used]
            all_known = all(owner_sets)
            owners[index] = tuple(sorted(set().union(*owner_sets))) if all_known else ()


def _follow_to_users(
    body: Sequence[str], values: Sequence[tuple[set[str], set[str]]], owners: list[Found | None]
) -> None:
    """Give lines without an owner those of the lines that take their value; none if one of these
    has none itself."""
    users: dict[str, set[int]] = {}
    unrestricted: set[str] = set()
    for index in range(len(body) - 1, -1, -1):
        defined, used = values[index]
        if owners[index] is None and defined:
            name = next(iter(defined))
            owners[index] = () if name in unrestricted else tuple(sorted(users.get(name, ())))
        if "tl.store" in body[index]:
            continue
        for name in used:
            users.setdefault(name, set()).update(owners[index] or ())
            if not owners[index]:
                unrestricted.add(name)


# Lines of one stage by where they come from, and the best of another's for each such place.

Frame = tuple[str, int, int | None]
Chain = tuple[Frame, ...]
# A module holds the whole file, and is located where the kernel begins.
WHOLE = frozenset({"module", "builtin.module"})
_NO_CODE = (Kind.BLANK, Kind.COMMENT)


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


PlaceKey = tuple[str, object]
"""What of a place is compared, and that."""


def _keys(chain: Chain, searching: bool) -> list[PlaceKey]:
    """The keys that a place has, or under which another stage's place looks for its like.

    The best are first. A chain is compared whole, with its columns and then without; where one
    side knows no chain, by its innermost frame; where the other side stops at a call site, by that.
    """
    lines = tuple(frame[:2] for frame in chain)
    alone = len(chain) == 1
    length = "one" if alone != searching else "many"
    keys: list[PlaceKey] = [
        ("whole", chain),
        ("lines", lines),
        (f"{length} column", chain[0]),
        (f"{length} line", lines[0]),
    ]
    if not searching:
        keys += [("outer", line) for line in dict.fromkeys(lines[1:])]
    elif alone:  # the only ways left: one side has inlined what the other has not
        keys.append(("outer", lines[0]))
    else:
        keys += [("one line", line) for line in lines]
    return keys


def own_lines(
    listing: Listing, place: StageNames, locations: Mapping[Location, list[Line]]
) -> tuple[dict[Location, int], dict[int, list[Location]]]:
    """The lines of a source that locations name.

    The first maps a location to the line of its innermost frame that is in the source; the
    second a line to the locations that were inlined there.
    """
    exact = place.file in files(locations)
    file_name = place.file if exact else PurePath(place.file).name
    code = {n for n, line in enumerate(listing.lines, 1) if line.kind not in _NO_CODE}
    inner: dict[Location, int] = {}
    sites: dict[int, list[Location]] = defaultdict(list)
    for location in locations:
        lines: dict[int, None] = {}
        for frame in location.frames():
            n = frame.line + place.first - 1
            if n in code and file_name == (frame.file if exact else PurePath(frame.file).name):
                lines[n] = None
        for depth, n in enumerate(lines):
            if depth == 0:
                inner[location] = n
            else:
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
        self.blocks = tuple(
            (tuple(upper), tuple(lower)) for upper, lower in blocks if upper and lower
        )

    @classmethod
    def from_links(cls, links: Mapping[int, tuple[int, ...]]) -> Relation:
        """The relation that ``links`` are the forward direction of."""
        groups: dict[object, tuple[list[int], tuple[int, ...]]] = {}
        for n, targets in links.items():
            groups.setdefault(_key(targets), ([], targets))[0].append(n)
        return cls(groups.values())

    def turned(self) -> Relation:
        """The same pairs with left and right exchanged."""
        return Relation((lower, upper) for upper, lower in self.blocks)

    def forward(self) -> Links:
        return _links(self.blocks)

    def backward(self) -> Links:
        return _links([(lower, upper) for upper, lower in self.blocks])


def _links(blocks: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> Links:
    member = by_key(
        (n, index) for index, (upper_lines, _) in enumerate(blocks) for n in upper_lines
    )
    united: dict[tuple[int, ...], tuple[int, ...]] = {}
    for block_indices in member.values():
        key = tuple(block_indices)
        if key not in united:
            united[key] = tuple(sorted({line for index in key for line in blocks[index][1]}))
    return {n: united[tuple(member[n])] for n in sorted(member)}


def composed(first: Mapping[int, tuple[int, ...]], then: Mapping[int, tuple[int, ...]]) -> Links:
    """``first`` followed by ``then``; lines with the same middle share one result."""
    united: dict[object, tuple[int, ...]] = {}
    links: Links = {}
    for n, middle in first.items():
        if len(middle) == 1:
            reached = then.get(middle[0], ())
        else:
            key = _key(middle)
            if key not in united:
                targets = {line for m in middle for line in then.get(m, ())}
                united[key] = tuple(sorted(targets))
            reached = united[key]
        if reached:
            links[n] = reached
    return links


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
        return Relation.from_links(direct).turned()
    if first in places:
        relation = _from_source(upper, lower, places[first])
        return relation if through is None else _completed(relation, lower, through)
    if first in (Stage.SOURCE, Stage.OUTPUT_CODE):
        return Relation(())
    if second is Stage.SASS and through is not None:
        by_ptx = composed(_named(lower), through)
        followed = _same_operation(by_ptx, upper, lower, stages, operations)
        other_lines = [line for line in lower.lines if line.n not in followed]
        other = _by_place(upper, Listing(lower.language, other_lines), stages, operations)
        return Relation((*Relation.from_links(followed).turned().blocks, *other.blocks))
    return _by_place(upper, lower, stages, operations)


def _completed(
    relation: Relation, lower: Listing, through: Mapping[int, tuple[int, ...]]
) -> Relation:
    """A relation with a source, in which lines whose location names none follow their PTX line."""
    linked = relation.backward()
    located_lines = {line.n for line in lower.lines if line.source is not None}
    unlinked = {
        n: ptx_lines
        for n, ptx_lines in _named(lower).items()
        if n in located_lines and n not in linked
    }
    further = Relation.from_links(composed(unlinked, through)).turned()
    return Relation((*relation.blocks, *further.blocks))


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
    blocks: list[Block] = [((n,), _numbers(locations[location])) for location, n in inner.items()]
    # A call whose whole body was inlined has no own instruction: it gets those of the body.
    with_instruction = set(inner.values())
    for n, within in sites.items():
        if n not in with_instruction:
            body = [line for location in within for line in locations[location]]
            blocks.append(((n,), _numbers(body)))
    return Relation(blocks)


def _same_operation(
    links: Links,
    upper: Listing,
    lower: Listing,
    stages: tuple[Stage, Stage],
    operations: Operations,
) -> Links:
    """``links`` of the lines below to those above, to the same operation where it is there."""
    upper_operations = [operations.kinds_of_line(line, stages[0]) for line in upper.lines]
    lower_operations = [operations.kinds_of_line(line, stages[1]) for line in lower.lines]
    memo: dict[tuple[int, Does], tuple[int, ...]] = {}
    same: Links = {}
    for n, targets in links.items():
        does = lower_operations[n - 1]
        # Lines with the same links share one tuple, which ``links`` keeps alive.
        key = (id(targets), does)
        if key not in memo:
            fitting = tuple(target for target in targets if upper_operations[target - 1] & does)
            memo[key] = fitting or targets
        same[n] = memo[key]
    return same


def _by_place(
    upper: Listing, lower: Listing, stages: tuple[Stage, Stage], operations: Operations
) -> Relation:
    upper_locations = located(upper)
    lower_locations = located(lower)
    common_files = files(upper_locations) & files(lower_locations)
    index: dict[PlaceKey, list[Line]] = defaultdict(list)
    for location, lines in upper_locations.items():
        for key in _keys(_chain(location, common_files), searching=False):
            index[key] += lines
    groups: dict[PlaceKey, list[Line]] = defaultdict(list)
    for location, lines in lower_locations.items():
        keys = _keys(_chain(location, common_files), searching=True)
        nearest = next((key for key in keys if key in index), None)
        if nearest is not None:
            groups[nearest] += lines
    blocks: list[Block] = []
    for key, lines in groups.items():
        upper_lines = sorted(index[key], key=attrgetter("n"))
        blocks += _by_operation(upper_lines, sorted(lines, key=attrgetter("n")), stages, operations)
    return Relation(blocks)


def _chain(location: Location, common_files: Container[str]) -> Chain:
    """The frames of a location. Compilers split and join folders each in their own way: a path that
    not both sides write alike is known by its last part."""
    frames = []
    for frame in location.frames():
        file = frame.file if frame.file in common_files else PurePath(frame.file).name
        frames.append((file, frame.line, frame.column))
    return tuple(frames)


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
    upper_by_operation = by_key((operations.kinds_of_line(line, stages[0]), line) for line in upper)
    lower_by_operation = by_key((operations.kinds_of_line(line, stages[1]), line) for line in lower)
    blocks: list[Block] = []
    unmatched: list[Line] = []
    met: set[Does] = set()
    for does, lines in lower_by_operation.items():
        fitting = [other for other in upper_by_operation if other & does]
        met.update(fitting)
        if not fitting:
            unmatched += lines
        elif len(fitting) == 1:
            blocks += _in_order(upper_by_operation[fitting[0]], lines)
        else:
            upper_lines = [line for other in fitting for line in upper_by_operation[other]]
            blocks.append((_numbers(upper_lines), _numbers(lines)))
    if unmatched:
        without = [does for does in upper_by_operation if does not in met]
        alone = [line for does in without for line in upper_by_operation[does]]
        blocks.append((_numbers(alone or upper), _numbers(unmatched)))
    return blocks


def _numbers(lines: Sequence[Line]) -> list[int]:
    return [line.n for line in lines]


def _in_order(upper: Sequence[Line], lower: Sequence[Line]) -> list[Block]:
    """One operation became several: the first of above the first few of below, and so on.

    Lowering goes operation by operation, so that each becomes a run; an optimiser may have gone
    element by element. Which of the two it was, and whether either, the values tell: who takes
    another's result above must take it below. Otherwise all belong to all.
    """
    count = len(upper)
    times = len(lower) // len(upper)
    upper_uses = _takes(upper)
    lower_uses = _takes(lower)
    numbers = _numbers(lower)
    places = range(len(lower))
    for owner in (
        [index // max(times, 1) for index in places],
        [index % count for index in places],
    ):
        regular = count > 1 and times * count == len(lower)
        if regular and {(owner[a], owner[b]) for a, b in lower_uses} <= upper_uses:
            numbers_by_owner = by_key(zip(owner, numbers, strict=True))
            return [((line.n,), numbers_by_owner[index]) for index, line in enumerate(upper)]
    return [(_numbers(upper), numbers)]


def _takes(lines: Sequence[Line]) -> set[tuple[int, int]]:
    """(a, b) where the line at ``a`` uses a value that the line at ``b`` defines last before it."""
    definitions: dict[str, int] = {}
    out: set[tuple[int, int]] = set()
    for index, line in enumerate(lines):
        out.update((index, definitions[name]) for name in line.uses if name in definitions)
        definitions.update(dict.fromkeys(line.defs, index))
    return out
