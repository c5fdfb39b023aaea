"""The steps of a PTX function: labels and registers by the block ``{ }`` they are declared in.

Written from the PTX ISA, "Variables", "Labels and Function Names as Operands" and "Control Flow
Instructions". A line with several statements is one step, that of all of them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from inspector.analyse.flow.steps import Jump, Step, StepRows, Steps, Way
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.listing.ptx_declaration import (
    RegisterDeclaration,
    of_range,
    register_declarations,
    register_parameters,
    register_results,
)
from inspector.listing.ptx_statement import (
    LABEL,
    SYMBOL,
    PtxStatement,
    parse_statement,
    strip,
)

# -- virtual registers ----------------------------------------------------------------------------
# Virtual registers that a function of PTX declares. They are ptxas's to allocate: no figure of
# the machine follows from their number.


def declared(listing: Listing, function: Function) -> dict[str, int]:
    """How many registers of each class ``.reg`` declares (``b32``, ``pred``, ``v2.f32``)."""
    out: dict[str, int] = {}
    if listing.language != "ptx":
        return out
    first = max(function.first, 1)
    for n, text in enumerate(listing.texts(first, function.last), first):
        if ".reg" not in text or (line := listing.lines[n - 1]).kind is not Kind.DIRECTIVE:
            continue
        for one in register_declarations(strip(line.text, False)[0]):
            many = sum(1 if count is None else count for _, count in one.names)
            out[one.type] = out.get(one.type, 0) + many
    return out


# -- names by the block they are declared in ------------------------------------------------------
# Names of PTX by the block ``{ }`` they are declared in (PTX ISA, "Identifiers", "Variables").
#
# What is declared in a block hides the same name outside of it, and ends with it.

UNDECLARED = "undeclared"
"""The class of a register whose declaration is not in the function."""

_HIDDEN = 64
"""Blocks around, declaring the same name, that are looked through."""


class Scopes:
    """The blocks of a function: 0 is what is around it all."""

    def __init__(self) -> None:
        self.parents = [0]
        self.here = 0

    def enter(self) -> None:
        """A ``{``."""
        self.parents.append(self.here)
        self.here = len(self.parents) - 1

    def leave(self) -> None:
        """A ``}``."""
        self.here = self.parents[self.here]


MOST_RANGE = 4
"""Registers of a range for each line of its function, up to which each of them has a number from
the start; of a wider one those that are met have."""

_FEWEST = 1024
_LOOKED_UP = 65536
"""Names of which is kept which register they mean; any other is found again."""


class ByNumber(Sequence[str]):
    """A word for each register, where many registers in a row are said in one.

    Words stand alone, or are of a range: then what they begin with and, of names, their place in
    the range. A function may name a million registers.
    """

    def __init__(self, *, numbered: bool) -> None:
        self._numbered = numbered
        self._starts: list[int] = []
        self._parts: list[list[str] | str] = []
        self._size = 0

    def add(self, word: str) -> None:
        """The word of the next register."""
        if not self._parts or isinstance(self._parts[-1], str):
            self._starts.append(self._size)
            self._parts.append([])
        part = self._parts[-1]
        if isinstance(part, list):
            part.append(word)
        self._size += 1

    def add_range(self, word: str, count: int) -> None:
        """What the words of the next registers begin with."""
        self._starts.append(self._size)
        self._parts.append(word)
        self._size += count

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(self._size)[index]]
        at = bisect_right(self._starts, range(self._size)[index]) - 1
        part = self._parts[at]
        if isinstance(part, list):
            return part[index - self._starts[at]]
        return f"{part}{index - self._starts[at]}" if self._numbered else part

    def __iter__(self) -> Iterator[str]:
        ends = [*self._starts[1:], self._size]
        for at, part in enumerate(self._parts):
            if isinstance(part, list):
                yield from part
            else:
                many = range(ends[at] - self._starts[at])
                yield from (f"{part}{i}" if self._numbered else part for i in many)


class RegisterNumbers:
    """Registers as numbers: those of a range in a row, others in the order in which they are met.

    ``most`` is how many numbers ranges may take together.
    """

    def __init__(self, scopes: Scopes, most: int = _FEWEST) -> None:
        self.scopes = scopes
        self.names = ByNumber(numbered=True)
        self.classes = ByNumber(numbered=False)
        self.kinds: dict[str, None] = {}
        """The classes in the order in which they are met."""
        self.vectors: set[int] = set()
        """Numbers of vectors, whose elements are written one by one."""
        self._left = most
        self._declared: dict[str, list[tuple[int, int, str]]] = {}
        """Scope, serial number, class, by name; innermost last."""
        self._ranges: dict[str, list[tuple[int, int, str, int]]] = {}
        """The same with how many, by what their names begin with."""
        self._firsts: dict[int, int] = {}
        """The number of a range's first register, by its serial number."""
        self._made: dict[int, list[tuple[str, bool]]] = {}
        """What a scope declared, to be forgotten at its end."""
        self._numbers: dict[tuple[str, int], int] = {}
        self._known: dict[str, int] = {}
        self._serial = 0

    def number(self, name: str) -> int:
        """The register that ``name`` means here."""
        known = self._known.get(name)
        if known is not None:
            return known
        serial, kind, place = self._find(name)
        number = self._firsts[serial] + place if serial in self._firsts else None
        if number is None:
            number = self._numbers.get((name, serial))
        if number is None:
            number = self._numbers[name, serial] = len(self.names)
            self.names.add(name)
            self.classes.add(kind)
        if kind not in self.kinds:
            self.kinds[kind] = None
        if kind[:1] == "v" and "." in kind:
            self.vectors.add(number)
        if len(self._known) >= _LOOKED_UP:
            self._known.clear()
        self._known[name] = number
        return number

    def _find(self, name: str) -> tuple[int, str, int]:
        """Serial number, class, and the place in the range, of the innermost that is so named."""
        exact = self._declared.get(name)
        _, serial, kind = exact[-1] if exact else (-1, 0, UNDECLARED)
        place = 0
        if (numbered := of_range(name)) is not None:
            prefix, number = numbered
            for _, of, type_, count in reversed(self._ranges.get(prefix, [])[-_HIDDEN:]):
                if number < count:
                    if of > serial:
                        serial, kind, place = of, type_, number
                    break
        return serial, kind, place

    def declare(self, one: RegisterDeclaration) -> None:
        """The names of a ``.reg`` mean its registers from here on, to the end of this block."""
        here = self.scopes.here
        made = self._made.setdefault(here, [])
        for name, count in one.names:
            self._serial += 1
            if count is not None:
                rows = self._ranges.setdefault(name, [])
                rows.append((here, self._serial, one.type, count))
                if count <= self._left:
                    self._left -= count
                    self._firsts[self._serial] = len(self.names)
                    self.names.add_range(name, count)
                    self.classes.add_range(one.type, count)
            else:
                self._declared.setdefault(name, []).append((here, self._serial, one.type))
            made.append((name, count is not None))
            self._forget(name, count is not None)

    def _forget(self, name: str, ranged: bool) -> None:
        """What was looked up may mean another register now."""
        if ranged:
            self._known.clear()
        else:
            self._known.pop(name, None)

    def enter(self) -> None:
        """A ``{``."""
        self.scopes.enter()

    def leave(self) -> None:
        """A ``}``: what it declared means what it meant outside."""
        here = self.scopes.here
        for name, ranged in self._made.pop(here, ()):
            if ranged:
                self._ranges[name].pop()
            else:
                self._declared[name].pop()
            self._forget(name, ranged)
        self.scopes.leave()


class Labels:
    """Labels by name and by the block that they stand in."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self._places: dict[str, dict[int, int]] = {}

    def put(self, name: str, scope: int, line: int) -> None:
        """The first instruction after a label is on ``line``."""
        self._places.setdefault(name, {}).setdefault(scope, line)

    def find(self, name: str, scope: int) -> int | None:
        """The line that ``name`` means in ``scope``; the only one, wherever it stands."""
        places = self._places.get(name)
        if places is None:
            return None
        if len(places) > 1:
            for _ in range(_HIDDEN):
                if scope in places:
                    return places[scope]
                scope = self.scopes.parents[scope]
        return next(iter(places.values()))


HEADER_LINES = 1024
"""Lines in which a function's body begins, where it does."""

_LABELS = re.compile(rf"(?:{LABEL.pattern})*\s*")
_WAYS = {
    "bra": Way.BRANCH, "brx": Way.BRANCH, "call": Way.CALL, "ret": Way.RETURN,
    "exit": Way.EXIT, "trap": Way.EXIT,
}  # fmt: skip

Pending = tuple[int, str, tuple[str, ...], bool, int]
"""A jump before its labels are known: line, instruction, labels, whether it falls, scope."""


def read_ptx(listing: Listing, function: Function) -> Steps:
    """The steps of ``function`` of a PTX ``listing``."""
    return _StepReading(listing, function).steps()


class _StepReading:
    """One function, line by line."""

    def __init__(self, listing: Listing, function: Function) -> None:
        self.listing = listing
        self.function = function
        self.scopes = Scopes()
        lines = function.last - function.first + 1
        self.registers = RegisterNumbers(self.scopes, _FEWEST + MOST_RANGE * lines)
        self.labels = Labels(self.scopes)
        self.results: tuple[int, ...] = ()
        """Registers that hold what the function returns."""
        self.pending: list[Pending] = []
        self.tables: list[tuple[str, int, tuple[str, ...]]] = []
        """``.branchtargets``: label, scope, what it lists."""
        self.found = StepRows()
        self.waiting: list[tuple[str, int]] = []
        """Labels before their instruction, with the block they stand in."""
        self.continues: set[int] = set()
        """Lines on which statements follow a branch."""
        self.open = ""
        """A declaration that goes on in the next line."""

    def steps(self) -> Steps:
        first = self._header()
        for line in self.listing.between(self.function.first + first, self.function.last):
            if line.kind is Kind.INSTRUCTION:
                if line.opcode is None:
                    if self.found:
                        self.found.goes_on(line.n)
                    continue
                bare = line.text.strip()
                if bare.find(";") == len(bare) - 1 and bare[:1] != "{" and line.label is None:
                    self._plain(line, bare[:1] == "@")
                else:
                    self._scan(line, strip(line.text, False)[0])
            elif line.kind is Kind.LABEL or (
                line.kind is Kind.DIRECTIVE and (self.open or _matters(line.text))
            ):
                self._scan(line, strip(line.text, False)[0])
        return self._finish()

    def _header(self) -> int:
        """Declares the registers that are parameters; how many lines are before the body."""
        text = ""
        comment = False
        first, last = self.function.first, self.function.last
        for line in self.listing.between(first, min(last, first + HEADER_LINES - 1)):
            code, comment = strip(line.text[:4096], comment)
            body = code.find("{")
            text += code[: body if body >= 0 else len(code)] + " "
            if body >= 0:
                break
            if line.kind is Kind.INSTRUCTION:
                return 0
        else:
            return 0
        if ".reg" in text:
            for one in register_parameters(text):
                self.registers.declare(one)
            results = register_results(text)
            names = (name for one in results for name, _ in one.names)
            self.results = tuple(self.registers.number(name) for name in names)
        self.registers.enter()
        self._scan(line, code[body + 1 :])
        return line.n - first + 1

    def _plain(self, line: Line, guarded: bool) -> None:
        """A line that is one instruction."""
        number = self.registers.number
        defs = tuple([number(r) for r in line.defs])
        uses = tuple([number(r) for r in line.uses])
        base = line.base or ""
        if base in _WAYS:
            self._jump(line.n, base, line.targets, guarded)
            if base == "ret":
                uses = (*uses, *self.results)
        self._add(Step(line.n, line.n, defs, () if guarded else self._whole(defs), uses))

    def _whole(self, defs: tuple[int, ...]) -> tuple[int, ...]:
        """Of ``defs`` those that are written as a whole: ``v.x`` of a vector ``v`` is not."""
        partial = self.registers.vectors
        return tuple(d for d in defs if d not in partial) if partial else defs

    def _add(self, step: Step) -> None:
        for name, scope in self.waiting:
            self.labels.put(name, scope, step.line)
        self.waiting.clear()
        self.found.append(step)

    def _jump(self, n: int, base: str, targets: tuple[str, ...], guarded: bool) -> None:
        falls = guarded or base == "call"
        self.pending.append((n, base, targets, falls, self.scopes.here))

    def _scan(self, line: Line, code: str) -> None:
        """A line with blocks, labels, declarations or several statements: one step for them all."""
        making = _Making(self, line)
        at = start = depth = 0
        if self.open:
            code, self.open = f"{self.open} {code}", ""
        size = len(code)
        while at < size:
            c = code[at]
            if c == "{":
                if _empty(code[start:at]):
                    making.piece(code[start:at])
                    self.registers.enter()
                    start = at + 1
                else:
                    depth += 1
            elif c == "}":
                if depth:
                    depth -= 1
                else:
                    making.piece(code[start:at])
                    self.registers.leave()
                    start = at + 1
            elif c == ";":
                making.piece(code[start:at])
                start, depth = at + 1, 0
            at += 1
        making.piece(code[start:], ended=False)
        making.done()

    def _finish(self) -> Steps:
        tables = {(name, scope): targets for name, scope, targets in self.tables}
        named = {name: targets for name, _, targets in reversed(self.tables)}
        jumps: dict[int, Jump] = {}
        for n, base, targets, falls, scope in self.pending:
            way = _WAYS[base]
            if base == "brx" and targets:
                listed = tables.get((targets[0], scope)) or named.get(targets[0])
                targets = listed or targets
            lines = {self.labels.find(t, scope): None for t in targets} if way is Way.BRANCH else {}
            jump = Jump(way, tuple(at for at in lines if at is not None), falls)
            before = jumps.get(n)
            if before is not None:  # several on one line: the last says whether it goes on
                kind = Way.BRANCH if Way.BRANCH in (way, before.way) else way
                jump = Jump(kind, before.targets + jump.targets, falls)
            jumps[n] = jump
        for n in self.continues & jumps.keys():
            jumps[n] = jumps[n]._replace(falls=True)
        registers = self.registers
        return Steps(self.found, jumps, registers.names, registers.classes, tuple(registers.kinds))


class _Making:
    """The step of one line, statement by statement."""

    def __init__(self, reading: _StepReading, line: Line) -> None:
        self.reading = reading
        self.line = line
        self.names = frozenset(r for r in (*line.defs, *line.uses) if r[0] != "%")
        self.defs: dict[int, None] = {}
        self.kills: dict[int, None] = {}
        self.uses: dict[int, None] = {}
        self.left = False
        """Whether a branch may have left the line before."""
        self.met = False

    def piece(self, code: str, ended: bool = True) -> None:
        """One statement without its ``;``, perhaps after labels; the line's last may go on."""
        reading = self.reading
        while match := LABEL.match(code):
            reading.waiting.append((match[1], reading.scopes.here))
            code = code[match.end() :]
        bare = code.strip()
        if not bare:
            return
        if bare[0] == ".":
            if not ended:
                reading.open = code if _matters(bare) else ""
            elif bare.startswith(".reg"):
                for declaration in register_declarations(bare):
                    reading.registers.declare(declaration)
            elif bare.startswith(".branchtargets"):
                listed = tuple(SYMBOL.findall(bare[len(".branchtargets") :]))
                reading.tables += [(name, scope, listed) for name, scope in reading.waiting]
            return
        if self.line.kind is not Kind.INSTRUCTION:
            return
        one = parse_statement(bare, self.names)
        if one is None:
            return
        if not ended:  # the rest is on other lines, and in the line's record
            one = one._replace(defs=self.line.defs, uses=self.line.uses, targets=self.line.targets)
        self._statement(one)

    def _statement(self, one: PtxStatement) -> None:
        reading, number = self.reading, self.reading.registers.number
        made = tuple(number(r) for r in one.defs)
        used = [number(r) for r in one.uses]
        if one.base == "ret":
            used += reading.results
        self.uses.update((r, None) for r in used if r not in self.kills)
        self.defs.update((r, None) for r in made)
        if not one.guarded and not self.left:
            self.kills.update((r, None) for r in reading._whole(made))
        self.met = True
        if one.base in _WAYS:
            reading._jump(self.line.n, one.base, one.targets, one.guarded)
            self.left = True
            reading.continues.discard(self.line.n)
        elif self.left:
            reading.continues.add(self.line.n)

    def done(self) -> None:
        line, reading = self.line, self.reading
        if not self.met:
            if line.kind is not Kind.INSTRUCTION:
                return
            reading._plain(line, "@" in line.text)
            return
        defs, kills, uses = tuple(self.defs), tuple(self.kills), tuple(self.uses)
        reading._add(Step(line.n, line.n, defs, kills, uses))


def _empty(code: str) -> bool:
    """Whether nothing, or only labels, stand before a brace: it is a block's, not a vector's."""
    return _LABELS.fullmatch(code) is not None


def _matters(text: str) -> bool:
    return "{" in text or "}" in text or ".reg" in text or ".branchtargets" in text
