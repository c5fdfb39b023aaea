"""Which instructions may still be under way at each line of SASS, by the barrier they are to clear.

The vendor documents none of this: the fields are those of the control words (``Control``), and
the rules were read off what ptxas emits. A barrier is a counter. An instruction that takes an
unknown time raises it when it issues and lowers it when its result is there (write barrier) or
when its operands have been read (read barrier). An instruction whose wait mask names a barrier
does not issue before the counter is 0, and ``DEPBAR.LE SB0, 0x2`` not before it is 2 or less.
``gsb0``, which ``WARPGROUP.DEPBAR`` waits for, counts warp group matrix products likewise.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inspector.analyse.flow import Flow
from inspector.listing.line import Line

RESULT, OPERANDS = "result", "operands"

_DEPBAR = re.compile(r"\b(SB\d|gsb\d)(?:\s*,\s*(0x[0-9a-f]{1,8}|\d{1,8}))?")
_LISTED = re.compile(r"\{([\d,\s]*)\}")
_GROUP = re.compile(r"\bgsb\d\b")
_MANY = 256  # of the instructions that one barrier stands for, the last ones are enough to tell
_OLD = 64  # the greatest count that DEPBAR.LE can name


@dataclass(frozen=True, slots=True)
class Mnemonic:
    """What the table says of an opcode; ``noun`` is what a sentence calls it.

    Of the instructions of one ``pipe`` a later one's barrier covers those before it. Those that
    are ``chained`` take the result of one before them without waiting for it.
    """

    noun: str = ""
    scoreboard: str | None = None
    pipe: str | None = None
    chained: bool = False


def mnemonics(table: Mapping[str, object]) -> dict[str, Mnemonic]:
    """``reference/scheduling.toml`` by opcode."""
    out: dict[str, Mnemonic] = {}
    for entry in table.values():
        if isinstance(entry, Mapping):
            scoreboard, pipe = entry.get("scoreboard"), entry.get("pipe")
            known = Mnemonic(
                str(entry.get("noun", "")),
                str(scoreboard) if scoreboard else None,
                str(pipe) if pipe else None,
                entry.get("chained") is True,
            )
            out.update((opcode, known) for opcode in str(entry.get("opcodes", "")).split())
    return out


@dataclass(frozen=True, slots=True)
class Event:
    """What one line has to do with barriers.

    ``waits`` are the barriers that must be clear, with the count that may be left; ``sets`` those
    it raises, with what for. ``loose`` is the pipe of an instruction of unknown latency that
    raises none, ``carries`` of one whose write barrier stands for the loose ones before it.
    """

    line: int
    waits: tuple[tuple[str, int], ...]
    sets: tuple[tuple[str, str], ...]
    loose: str | None
    carries: str | None


Ages = dict[tuple[int, str], tuple[int, int]]
"""Instructions under way: (line, what for) → how many raised the barrier since: least, most."""


@dataclass(slots=True)
class State:
    """What may be under way: by barrier, and by pipe the loose ones."""

    pending: dict[str, Ages]
    loose: dict[str, frozenset[int]]

    def copy(self) -> State:
        return State({b: dict(ages) for b, ages in self.pending.items()}, dict(self.loose))

    def join(self, other: State) -> bool:
        """Add what may be under way in ``other``; whether that was anything new."""
        grown = False
        for barrier, theirs in other.pending.items():
            ours = self.pending.setdefault(barrier, {})
            before = dict(ours)
            for key, (least, most) in theirs.items():
                known = ours.get(key)
                ours[key] = (
                    (least, most) if known is None else (min(known[0], least), max(known[1], most))
                )
            if len(ours) > _MANY:
                for key in sorted(ours)[:-_MANY]:
                    del ours[key]
            grown = grown or ours != before
        for pipe, lines in other.loose.items():
            before_lines = self.loose.get(pipe, frozenset())
            together = _latest(before_lines | lines)
            if together != before_lines:
                self.loose[pipe] = together
                grown = True
        return grown


def _latest(lines: frozenset[int]) -> frozenset[int]:
    return lines if len(lines) <= _MANY else frozenset(sorted(lines)[-_MANY:])


def event(line: Line, known: Mapping[str, Mnemonic]) -> Event | None:
    """What a line has to do with barriers, None where that is nothing."""
    control = line.control
    if control is None or line.base is None:
        return None
    waits = [(f"SB{b}", 0) for b in range(6) if control.wait >> b & 1]
    sets: list[tuple[str, str]] = []
    if line.base == "DEPBAR" or (line.opcode or "").startswith("WARPGROUP.DEPBAR"):
        waits += _depbar(line.text)
    elif "gsb" in line.text and (group := _GROUP.search(line.text)):
        sets.append((group[0], RESULT))
    if control.write_barrier is not None:
        sets.append((f"SB{control.write_barrier}", RESULT))
    if control.read_barrier is not None:
        sets.append((f"SB{control.read_barrier}", OPERANDS))
    mnemonic = known.get(line.base)
    pipe = mnemonic.pipe if mnemonic else None
    results = any(what == RESULT for _, what in sets)
    loose = pipe if pipe and line.defs and not results else None
    if not waits and not sets and loose is None:
        return None
    return Event(line.n, tuple(waits), tuple(sets), loose, pipe if results else None)


def _depbar(text: str) -> list[tuple[str, int]]:
    text = text.partition("/*")[2].partition("*/")[2] or text
    code = text.partition("/*")[0].partition(";")[0]
    out = [(name, int(count, 0) if count else 0) for name, count in _DEPBAR.findall(code)]
    if listed := _LISTED.search(code):
        out += [(f"SB{int(b)}", 0) for b in listed[1].replace(",", " ").split()]
    return out


def counted(events: Sequence[Event]) -> frozenset[str]:
    """The barriers of which some instruction waits for a count other than 0."""
    return frozenset(barrier for e in events for barrier, left in e.waits if left)


def step(state: State, e: Event, ages: frozenset[str]) -> list[tuple[str, int, str]]:
    """Let a line pass, and tell what it waited for: barrier, line, what for."""
    cleared: list[tuple[str, int, str]] = []
    for barrier, left in e.waits:
        pending = state.pending.get(barrier)
        if not pending:
            continue
        cleared += [(barrier, *key) for key, (_, most) in pending.items() if most >= left]
        if left:
            kept = {k: (least, min(most, left - 1)) for k, (least, most) in pending.items()
                    if least < left}  # fmt: skip
            state.pending[barrier] = kept
        else:
            del state.pending[barrier]
    for barrier, what in e.sets:
        pending = state.pending.setdefault(barrier, {})
        if barrier in ages:
            for key, (least, most) in pending.items():
                pending[key] = (min(least + 1, _OLD), min(most + 1, _OLD))
        own = (e.line, what)
        before = pending.get(own)
        pending[own] = (0, before[1] if before and barrier in ages else 0)
        if what == RESULT and e.carries is not None:
            for line in state.loose.pop(e.carries, ()):
                pending.setdefault((line, RESULT), (0, 0))
        if len(pending) > _MANY:
            for key in sorted(pending)[:-_MANY]:
                del pending[key]
    if e.loose is not None:
        state.loose[e.loose] = _latest(state.loose.get(e.loose, frozenset()) | {e.line})
    return cleared


def waited(
    flow: Flow, lines: Sequence[Line], known: Mapping[str, Mnemonic]
) -> dict[int, tuple[tuple[str, int, str], ...]]:
    """By waiting line, the (barrier, line, what for) that it may wait for, in order of lines."""
    blocks = flow.blocks
    events = [
        [e for n in range(b.first, b.last + 1) if (e := event(lines[n - 1], known))] for b in blocks
    ]
    ages = counted([e for held in events for e in held])
    into: list[State | None] = [None] * len(blocks)
    todo: list[int] = []
    for i, block in enumerate(blocks):
        if not block.predecessors or i == 0:
            into[i] = State({}, {})
            todo.append(i)
    queued = set(todo)
    while todo:
        i = heapq.heappop(todo)
        queued.discard(i)
        start = into[i]
        if start is None:
            continue
        state = start.copy()
        for e in events[i]:
            step(state, e, ages)
        for j in blocks[i].successors:
            there = into[j]
            if there is None:
                into[j], grown = state.copy(), True
            else:
                grown = there.join(state)
            if grown and j not in queued:
                heapq.heappush(todo, j)
                queued.add(j)
    out: dict[int, tuple[tuple[str, int, str], ...]] = {}
    for i in range(len(blocks)):
        state = (into[i] or State({}, {})).copy()
        for e in events[i]:
            if cleared := step(state, e, ages):
                out[e.line] = tuple(sorted(set(cleared), key=lambda c: (c[1], c[0], c[2])))
    return out
