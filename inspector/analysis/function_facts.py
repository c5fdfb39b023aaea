"""Analyses of one function of PTX or SASS on steps that are read once, and the schedule of SASS.

The schedule is read off the control words, which the vendor does not document. The stall count of
an instruction is the least number of cycles before the warp may issue its next one; sums of them
are therefore lower bounds of the time, to which every wait for a barrier adds.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from inspector.analysis.accesses import OpcodeLines
from inspector.analysis.flow.definitions import Chains, chains
from inspector.analysis.flow.graph import (
    Flow,
    FlowGraph,
    Steps,
    control_flow,
    make_graph,
    read_steps,
)
from inspector.analysis.flow.liveness import Liveness, live_ranges
from inspector.base.units import plural, some, word_for
from inspector.parsers.line import Control, Function, Line, Listing

# Which instructions may still be under way at each line of SASS, by the barrier they are to clear.
#
# The vendor documents none of this: the fields are those of the control words (``Control``), and
# the rules were read off what ptxas emits. A barrier is a counter. An instruction that takes an
# unknown time raises it when it issues and lowers it when its result is there (write barrier) or
# when its operands have been read (read barrier). An instruction whose wait mask names a barrier
# does not issue before the counter is 0, and ``DEPBAR.LE SB0, 0x2`` not before it is 2 or less.
# ``gsb0``, which ``WARPGROUP.DEPBAR`` waits for, counts warp group matrix products as well.

RESULT = "result"
OPERANDS = "operands"

_DEPBAR = re.compile(r"\b(SB\d|gsb\d)(?:\s*,\s*(0x[0-9a-f]{1,8}|\d{1,8}))?")
_LISTED = re.compile(r"\{([\d,\s]*)\}")
_GROUP = re.compile(r"\bgsb\d\b")
MAX_PENDING = (
    256  # of the instructions that one barrier represents, the last ones are enough to tell
)
MAX_DEPBAR_COUNT = 64  # the greatest count that DEPBAR.LE can name


class Mnemonic(Struct, frozen=True):
    """What the table says of an opcode; ``noun`` is what a sentence calls it.

    Of the instructions of one ``pipe`` a later one's barrier covers those before it. Those that
    are ``chained`` take the result of one before them without waiting for it.
    """

    noun: str = ""
    scoreboard: str | None = None
    pipe: str | None = None
    chained: bool = False


def mnemonics(table: Mapping[str, object]) -> dict[str, Mnemonic]:
    out: dict[str, Mnemonic] = {}
    for entry in table.values():
        if isinstance(entry, Mapping):
            settings = {key: value for key, value in entry.items() if key != "opcodes"}
            out |= dict.fromkeys(entry["opcodes"].split(), Mnemonic(**settings))
    return out


class Event(Struct, frozen=True):
    """What one line has to do with barriers.

    ``waits`` are the barriers that must be clear, with the count that may be left; ``sets`` those
    it raises, with what for. ``loose`` is the pipe of an instruction of unknown latency that
    raises none, ``carries`` of one whose write barrier represents the loose ones before it.
    """

    line: int
    waits: tuple[tuple[str, int], ...]
    sets: tuple[tuple[str, str], ...]
    loose: str | None
    carries: str | None


Ages = dict[tuple[int, str], tuple[int, int]]
"""Instructions under way: (line, what for) → how many raised the barrier since: least, most."""


class InFlight(Struct):
    """What may be under way: by barrier, and by pipe the loose ones."""

    pending: dict[str, Ages]
    loose: dict[str, frozenset[int]]

    def copy(self) -> InFlight:
        return InFlight({b: dict(ages) for b, ages in self.pending.items()}, dict(self.loose))

    def join(self, other: InFlight) -> bool:
        """Add what may be under way in ``other``; whether that was anything new."""
        previous = self.copy()
        for barrier, other_counts in other.pending.items():
            counts = self.pending.setdefault(barrier, {})
            for key, (least, highest) in other_counts.items():
                low, high = counts.get(key, (least, highest))
                counts[key] = (min(low, least), max(high, highest))
            _forget(counts)
        for pipe, lines in other.loose.items():
            self.let_loose(pipe, lines)
        return self != previous

    def let_loose(self, pipe: str, lines: Iterable[int]) -> None:
        self.loose[pipe] = frozenset(sorted({*self.loose.get(pipe, ()), *lines})[-MAX_PENDING:])


def _forget(ages: Ages) -> None:
    for key in sorted(ages)[:-MAX_PENDING]:
        del ages[key]


def event(line: Line, by_mnemonic: Mapping[str, Mnemonic]) -> Event | None:
    """What a line has to do with barriers, None if that is nothing."""
    if line.control is None or line.base is None:
        return None
    waits = _waits(line, line.control)
    sets = _sets(line, line.control)
    pipe = by_mnemonic.get(line.base, Mnemonic()).pipe
    results = any(kind == RESULT for _, kind in sets)
    loose = pipe if pipe and line.defs and not results else None
    if not waits and not sets and loose is None:
        return None
    return Event(line.n, tuple(waits), tuple(sets), loose, pipe if results else None)


def _is_depbar(line: Line) -> bool:
    return line.base == "DEPBAR" or (line.opcode or "").startswith("WARPGROUP.DEPBAR")


def _waits(line: Line, control: Control) -> list[tuple[str, int]]:
    """The barriers that a line waits for, and how many may be outstanding."""
    waits = [(f"SB{b}", 0) for b in range(6) if control.wait >> b & 1]
    if _is_depbar(line):
        waits += _depbar(line.text)
    return waits


def _sets(line: Line, control: Control) -> list[tuple[str, str]]:
    """The barriers that a line sets, and what for."""
    sets: list[tuple[str, str]] = []
    if "gsb" in line.text and not _is_depbar(line) and (group := _GROUP.search(line.text)):
        sets.append((group[0], RESULT))
    if control.write_barrier is not None:
        sets.append((f"SB{control.write_barrier}", RESULT))
    if control.read_barrier is not None:
        sets.append((f"SB{control.read_barrier}", OPERANDS))
    return sets


def _depbar(text: str) -> list[tuple[str, int]]:
    text = text.partition("/*")[2].partition("*/")[2] or text
    code = text.partition("/*")[0].partition(";")[0]
    waits = [(name, int(count, 0) if count else 0) for name, count in _DEPBAR.findall(code)]
    listed = _LISTED.search(code)
    if listed:
        waits += [(f"SB{int(b)}", 0) for b in listed[1].replace(",", " ").split()]
    return waits


def step(state: InFlight, e: Event, ages: frozenset[str]) -> list[tuple[str, int, str]]:
    """Pass a line; return what it waited for: barrier, line, what for."""
    cleared: list[tuple[str, int, str]] = []
    for barrier, allowed in e.waits:
        cleared += [(barrier, *key) for key in _wait(state, barrier, allowed)]
    for barrier, kind in e.sets:
        pending = state.pending.setdefault(barrier, {})
        if barrier in ages:
            for key, (least, highest) in pending.items():
                older = (min(least + 1, MAX_DEPBAR_COUNT), min(highest + 1, MAX_DEPBAR_COUNT))
                pending[key] = older
        entry = (e.line, kind)
        previous = pending.get(entry)
        pending[entry] = (0, previous[1] if previous and barrier in ages else 0)
        if kind == RESULT and e.carries is not None:
            for line in state.loose.pop(e.carries, ()):
                pending.setdefault((line, RESULT), (0, 0))
        _forget(pending)
    if e.loose is not None:
        state.let_loose(e.loose, (e.line,))
    return cleared


def _wait(state: InFlight, barrier: str, allowed: int) -> list[tuple[int, str]]:
    """Wait until at most ``allowed`` are under way; return what may have been waited for."""
    pending = state.pending.get(barrier)
    if not pending:
        return []
    state.pending[barrier] = {
        key: (least, min(highest, allowed - 1))
        for key, (least, highest) in pending.items()
        if least < allowed
    }
    return [key for key, (_, highest) in pending.items() if highest >= allowed]


def waited(
    flow: Flow, lines: Sequence[Line], by_mnemonic: Mapping[str, Mnemonic]
) -> dict[int, tuple[tuple[str, int, str], ...]]:
    """By waiting line, the (barrier, line, what for) that it may wait for, in order of lines."""
    events: list[list[Event]] = []
    for block in flow.blocks:
        in_block = (event(line, by_mnemonic) for line in lines[block.first - 1 : block.last])
        events.append([e for e in in_block if e is not None])
    ages = _counted_barriers(events)
    into = _in_flight_at_entry(flow, events, ages)
    waits: dict[int, tuple[tuple[str, int, str], ...]] = {}
    for index, block_events in enumerate(events):
        state = into.get(index, InFlight({}, {})).copy()
        for e in block_events:
            cleared = step(state, e, ages)
            if cleared:
                waits[e.line] = tuple(sorted(set(cleared), key=lambda c: (c[1], c[0], c[2])))
    return waits


def _counted_barriers(events: Iterable[Iterable[Event]]) -> frozenset[str]:
    """Barriers of which some instruction waits for a count other than 0."""
    counted: set[str] = set()
    for block_events in events:
        for e in block_events:
            counted.update(barrier for barrier, allowed in e.waits if allowed)
    return frozenset(counted)


def _in_flight_at_entry(
    flow: Flow, events: Sequence[Sequence[Event]], ages: frozenset[str]
) -> dict[int, InFlight]:
    """What may be under way at the beginning of each block that is reached."""
    blocks = flow.blocks
    starts = (i for i, block in enumerate(blocks) if i == 0 or not block.predecessors)
    into = {i: InFlight({}, {}) for i in starts}
    todo = set(into)
    while todo:
        i = min(todo)
        todo.remove(i)
        state = into[i].copy()
        for e in events[i]:
            step(state, e, ages)
        for j in blocks[i].successors:
            if j not in into:
                into[j] = state.copy()
                todo.add(j)
            elif into[j].join(state):
                todo.add(j)
    return into


_GUARD = re.compile(r"@!?U?P\d")
MAX_SEARCHED = 4096  # instructions that are looked at for a first consumer
MAX_NAMED = 3  # instructions that a sentence lists one by one


class Wait(Struct, frozen=True):
    """An instruction that another one waits for.

    ``line``, ``address`` and ``opcode`` are of the one waited for; ``barrier`` is ``SB0`` to
    ``SB5``, or ``gsb0`` of warp group matrix products. ``kind`` is ``result`` or ``operands``
    (until they have been read). ``scoreboard`` is ``long`` or ``short`` where the vendor's
    profiler documents which one a warp stalls on, else None.
    """

    line: int
    barrier: str
    address: int | None
    opcode: str | None
    kind: str
    scoreboard: str | None = None


class Consumer(Struct, frozen=True):
    """The first instruction that uses a result, on the way that takes the fewest cycles.

    ``distance`` is in instructions, 1 for the next one; ``cycles`` is the sum of the stall counts
    from the producer up to the consumer: a lower bound.
    """

    line: int
    distance: int
    cycles: int
    address: int | None = None
    opcode: str | None = None


class Schedule(Struct, frozen=True, dict=True):
    """What the control words of one function say. Lines count from 1, cycles are issue cycles."""

    _lines: Sequence[Line]
    _flow: Flow
    _by_mnemonic: Mapping[str, Mnemonic]
    _waited: Mapping[int, tuple[tuple[str, int, str], ...]]

    def stall(self, n: int) -> int | None:
        control = self._lines[n - 1].control if 0 < n <= len(self._lines) else None
        return None if control is None else control.stall

    def cycles(self, lines: Iterable[int]) -> int | None:
        """The stall counts of lines along the way on which they are the most: of two branches that
        exclude each other one counts, of a loop one turn. None if none is known."""
        by_block: Counter[int | None] = Counter()
        for n in dict.fromkeys(lines):
            stall = self.stall(n)
            if stall is not None:
                by_block[self._flow.block_at(n)] += stall
        if not by_block:
            return None
        if len(by_block) == 1:
            return by_block.total()
        longest: dict[int, int] = {}
        for block in self._ends_first:
            following = (
                longest.get(successor, 0) for successor in self._flow.blocks[block].successors
            )
            longest[block] = by_block[block] + max(following, default=0)
        return max(longest.values())

    @cached_property
    def _ends_first(self) -> Sequence[int]:
        """Blocks, each after its successors but for those that it loops back to."""
        blocks = self._flow.blocks
        out: dict[int, None] = {}
        entered: set[int] = set()
        for first in range(len(blocks)):
            todo = [first]
            while todo:
                if (block := todo[-1]) not in entered:
                    entered.add(block)
                    todo += [n for n in blocks[block].successors if n not in entered]
                    continue
                out.setdefault(todo.pop())
        return tuple(out)

    def waits(self, n: int) -> tuple[Wait, ...]:
        """What line ``n`` may wait for, in the order of the listing."""
        out: list[Wait] = []
        for barrier, line, kind in self._waited.get(n, ()):
            producer = self._lines[line - 1]
            mnemonic = self._by_mnemonic.get(producer.base or "", Mnemonic())
            scoreboard = mnemonic.scoreboard if kind != OPERANDS else None
            out.append(Wait(line, barrier, producer.address, producer.opcode, kind, scoreboard))
        return tuple(out)

    def consumer(self, n: int) -> Consumer | None:
        """Who first uses what line ``n`` loads or computes in a time that is not known before. None
        for instructions of fixed latency, without a result, or whose result nobody uses."""
        if not 0 < n <= len(self._lines):
            return None
        line = self._lines[n - 1]
        mnemonic = self._by_mnemonic.get(line.base or "")
        if line.control is None or (line.control.write_barrier is None and mnemonic is None):
            return None
        if all(register[0] != "R" and register[:2] != "UR" for register in line.defs):
            return None
        return _first_use(self._flow, self._lines, line, mnemonic is not None and mnemonic.chained)

    def sentences(self, n: int) -> tuple[str, ...]:
        """What is to be said of line ``n``: what it waits for, and who first uses its result."""
        out = _waiting(self.waits(n), self._by_mnemonic)
        if used := self.consumer(n):
            location = f"{_location(used)}, {used.distance} instructions on"
            location = "the next instruction" if used.distance == 1 else location
            cycles = plural(used.cycles, "cycle")
            out.append(f"its result is first used by {location}, at least {cycles} later")
        return tuple(out)


def schedule(
    lines: Sequence[Line], flow: Flow, table: Mapping[str, object] | None = None
) -> Schedule:
    """The schedule of one function of SASS: the lines of its listing, and its control flow.

    ``table`` is ``reference/scheduling.toml``, which names the scoreboards. Without control words
    nothing is known.
    """
    by_mnemonic = mnemonics(table or {})
    return Schedule(lines, flow, by_mnemonic, waited(flow, lines, by_mnemonic))


class _Search(NamedTuple):
    """A way from a producer that goes on at line ``n`` of a block; ordered by ``cycles``."""

    cycles: int
    """Issue cycles up to there."""
    distance: int
    """Instructions since the producer."""
    block: int
    n: int
    unchanged: frozenset[str]
    """Registers of the producer that nothing has overwritten."""


def _first_use(flow: Flow, lines: Sequence[Line], producer: Line, chained: bool) -> Consumer | None:
    """The nearest use by cycles: a search outwards over the control flow. ``chained``: a following
    instruction of the same kind goes on with the result without a wait."""
    start = flow.block_at(producer.n)
    if start is None:
        return None
    todo = [_Search(0, 0, start, producer.n, frozenset(producer.defs))]
    entered: set[int] = set()
    looked = 0
    best: Consumer | None = None
    while todo and looked < MAX_SEARCHED:
        search = heapq.heappop(todo)
        if best is not None and search.cycles >= best.cycles:
            break
        block = flow.blocks[search.block]
        result = _use_in_block(lines, block.last, search, producer, chained)
        looked += result.distance - search.distance
        if isinstance(result, Consumer):
            if best is None or result.cycles < best.cycles:
                best = result
            continue
        if not result.unchanged:
            continue
        for following in block.successors:
            if following not in entered:
                entered.add(following)
                first = flow.blocks[following].first
                heapq.heappush(todo, result._replace(block=following, n=first))
    return best


def _use_in_block(
    lines: Sequence[Line], last: int, search: _Search, producer: Line, chained: bool
) -> Consumer | _Search:
    """The first use up to the ``last`` line of a block, else the search after it."""
    cycles, distance, _, first, unchanged = search
    for n in range(first, last + 1):
        if not unchanged:
            break
        line = lines[n - 1]
        if line.opcode is None:
            continue
        same = chained and line.base == producer.base
        if distance and not same:
            if not unchanged.isdisjoint(line.uses):
                return Consumer(line.n, distance, cycles, line.address, line.opcode)
            if not _GUARD.search(line.text):
                unchanged = unchanged.difference(line.defs)
        if line.control:
            cycles += line.control.stall
        distance += 1
    return search._replace(cycles=cycles, distance=distance, unchanged=unchanged)


def _location(wait: Wait | Consumer) -> str:
    return f"line {wait.line}" if wait.address is None else f"0x{wait.address:x}"


def _waiting(waits: Sequence[Wait], by_mnemonic: Mapping[str, Mnemonic]) -> list[str]:
    """``waits here for the load at 0x1e0: the long scoreboard``, one for each kind of thing."""
    groups: dict[tuple[str, str, str | None], list[Wait]] = {}
    for wait in waits:
        base = (wait.opcode or "").partition(".")[0]
        noun = by_mnemonic.get(base, Mnemonic()).noun
        noun = f"result of {base}" if noun in ("", "result of") else noun
        groups.setdefault((noun, wait.kind, wait.scoreboard), []).append(wait)
    out: list[str] = []
    for (noun, kind, scoreboard), group in groups.items():
        producers = _named(noun.removeprefix("result of ") if kind == OPERANDS else noun, group)
        until = f": the {scoreboard} scoreboard" if scoreboard else ""
        if kind == OPERANDS:
            until = f" until {'its' if len(group) == 1 else 'their'} operands have been read"
        out.append(f"waits here for {producers}{until}")
    return out


def _named(noun: str, waits: Sequence[Wait]) -> str:
    """``the load at 0x1e0``, ``the loads at 0x10 and 0x20``, ``7 loads from 0x10 to 0x90``."""
    places = [_location(wait) for wait in waits]
    noun_text = noun if noun.isupper() else word_for(len(places), noun)  # a mnemonic has no plural
    if len(places) > MAX_NAMED:
        return f"{len(places)} {noun_text} from {places[0]} to {places[-1]}"
    return f"the {noun_text} at {some(places, MAX_NAMED)}"


class FunctionFacts:
    """Analyses of one function of a listing, each computed on first use.

    A function of a language that is neither PTX nor SASS has no blocks, no registers and no
    chains. ``scheduling`` is ``reference/scheduling.toml``, which names the scoreboards. Safe to
    use from several threads.
    """

    def __init__(
        self, listing: Listing, function: Function, scheduling: Mapping[str, object] | None = None
    ) -> None:
        self.function = function
        self._listing = listing
        self._scheduling = scheduling

    @cached_property
    def _steps(self) -> Steps:
        return read_steps(self._listing, self.function)

    @cached_property
    def _graph(self) -> FlowGraph:
        return make_graph(self._steps)

    @cached_property
    def code(self) -> OpcodeLines:
        return OpcodeLines(self._listing, self.function)

    @cached_property
    def flow(self) -> Flow:
        return control_flow(self._steps, self._graph)

    @cached_property
    def live(self) -> Liveness:
        return live_ranges(self._listing, self.function, self._steps, self._graph)

    @cached_property
    def chains(self) -> Chains:
        return chains(self._steps, self._graph, calls=self._listing.language == "sass")

    @cached_property
    def schedule(self) -> Schedule | None:
        """What the control words of SASS say; None of any other language."""
        if self._listing.language != "sass":
            return None
        return schedule(self._listing.lines, self.flow, self._scheduling)
