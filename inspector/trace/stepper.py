"""One block of a launch, step by step, forwards and backwards: what ``step`` and a screen ask.

Every step was kept when the block was run; going to one is reading what stood in the registers.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from inspector.errors import PtxviewError
from inspector.execute import Fault, Program, Trace
from inspector.execute.kinds import Array
from inspector.model import Location
from inspector.trace.block import TracedBlock
from inspector.trace.inputs import LaunchInputs

WARP = 32
AROUND = 5
"""Lines before and after the one at hand that ``list`` shows."""
HELP = (
    ("next [N]", "the next step, or N steps on"),
    ("back [N]", "a step back, or N"),
    ("mine [N]", "the next step that the chosen lane runs"),
    ("until LINE", "the next step on a line of the PTX; until :LINE on one of the source"),
    ("nan", "the next step that gives a lane a NaN"),
    ("parts A B", "the next step that one of two lanes runs and the other does not"),
    ("store ADDRESS", "the next step that stores to an address: 0x7f…, or x+40 (bytes)"),
    ("go N", "step N; start and end are the first and the last"),
    ("print R…", "the chosen lane's value of registers, or of names of the source"),
    ("lanes [R] [block]", "a register's values in the lanes of the warp, or of the whole block"),
    ("registers", "all that was written so far"),
    ("list [N]", "the PTX around, with what each line gave the chosen lane; N lines each way"),
    ("lane N", "choose another lane (thread of the block)"),
    ("where", "this step again"),
    ("quit", "the end"),
)
_SHORT = {"n": "next", "b": "back", "m": "mine", "u": "until", "p": "print", "l": "list",
          "r": "registers", "w": "where", "q": "quit", "h": "help", "?": "help", "exit": "quit",
          "s": "next", "goto": "go", "regs": "registers"}  # fmt: skip


class NotUnderstood(PtxviewError):
    """A command of the loop that cannot be meant."""


@dataclass(frozen=True, slots=True)
class LaneValue:
    """A register's value in one lane. ``name`` is the source's, None if it has none there.

    ``value`` is None where nothing has written it yet; packed types have a tuple. ``line`` wrote
    it last. ``address_in`` is the tensor that it is an address in, with its offset in bytes.
    """

    register: str
    name: str | None
    kind: str
    value: float | int | tuple[float | int, ...] | None
    line: int | None
    address_in: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class LaneStrip:
    """A register in the lanes from ``first`` on: values (None: not written yet), who ran the step.

    ``register`` is None where only the lanes are asked for.
    """

    register: str | None
    name: str | None
    kind: str
    first: int
    values: tuple[float | int | tuple[float | int, ...], ...] | None
    active: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class ListedLine:
    """A line of the PTX around the step at hand, and what it last gave the chosen lane."""

    n: int
    text: str
    value: LaneValue | None
    current: bool


@dataclass(frozen=True, slots=True)
class StepPlace:
    """Where one is. ``step`` counts from 0, of ``steps``.

    ``values`` are what the step gave the chosen lane; ``runs``: whether that lane ran it.
    """

    step: int
    steps: int
    line: int
    statement: str
    source: Location | None
    lane: int
    runs: bool
    warp_lanes: int
    block_lanes: int
    threads: int
    values: tuple[LaneValue, ...]
    strip: LaneStrip


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """What came of a command: where one is then, what was asked for, and a sentence if any."""

    command: str
    place: StepPlace | None
    note: str | None = None
    shows_place: bool = True
    values: tuple[LaneValue, ...] = ()
    strips: tuple[LaneStrip, ...] = ()
    listing: tuple[ListedLine, ...] = ()
    help: tuple[tuple[str, str], ...] = ()
    understood: bool = True
    ends: bool = False


@dataclass(slots=True)
class Stepper:
    """The steps of a block and the one at hand; ``lane`` is a thread of the block.

    ``names`` are the source's names of registers by number, ``source`` says where a line of PTX
    comes from.
    """

    program: Program
    trace: Trace
    inputs: LaunchInputs
    names: Mapping[int, str]
    source: Callable[[int], Location | None]
    lane: int = 0
    fault: Fault | None = None
    at: int = 0
    _by_line: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for k, step in enumerate(self.trace.steps):
            self._by_line.setdefault(step.line, []).append(k)

    @classmethod
    def of(
        cls, traced: TracedBlock, names: Mapping[int, str],
        source: Callable[[int], Location | None], lane: int = 0,
    ) -> Stepper:  # fmt: skip
        """At the first step of a block that was run."""
        return cls(
            traced.trace.program, traced.trace, traced.inputs, names, source, lane, traced.fault
        )

    @property
    def threads(self) -> int:
        """Threads of the block."""
        steps = self.trace.steps
        return len(steps[0].active) if steps else 0

    # -- what is at hand -------------------------------------------------------------------------

    def place(self) -> StepPlace | None:
        """The step at hand; None where the block has none."""
        steps = self.trace.steps
        if not steps:
            return None
        step = steps[self.at]
        strip = self._strip(None, whole=False)
        return StepPlace(
            self.at, len(steps), step.line, self.program.statement(step.line),
            self.source(step.line), self.lane, bool(step.active[self.lane]), sum(strip.active),
            int(step.active.sum()), self.threads,
            tuple(self._value(r, self.at) for r, _ in step.changes if self._is_own(r)), strip,
        )  # fmt: skip

    def _is_own(self, register: int) -> bool:
        return register < len(self.program.code.registers)

    def _value(self, register: int, at: int) -> LaneValue:
        values = self.trace.values(register, at)
        kind = self.trace.kinds[register]
        value = None if values is None else _plain(values, self.lane, self.threads)
        inside = None
        if isinstance(value, int) and kind[1:] == "64":
            tensor = self.inputs.at(value)
            inside = None if tensor is None else (tensor.name, value - tensor.address)
        written = self.trace.written(at).get(register)
        return LaneValue(
            self.program.code.names[register], self.names.get(register), kind, value,
            None if written is None else self.trace.steps[written].line,
            inside,
        )  # fmt: skip

    def _strip(self, register: int | None, *, whole: bool) -> LaneStrip:
        active = self.trace.steps[self.at].active
        first = 0 if whole else self.lane // WARP * WARP
        lanes = range(first, self.threads if whole else min(first + WARP, self.threads))
        here = tuple(bool(active[n]) for n in lanes)
        if register is None:
            return LaneStrip(None, None, "", first, None, here)
        values = self.trace.values(register, self.at)
        return LaneStrip(
            self.program.code.names[register], self.names.get(register),
            self.trace.kinds[register], first,
            None if values is None else tuple(_plain(values, n, self.threads) for n in lanes), here,
        )  # fmt: skip

    # -- commands --------------------------------------------------------------------------------

    def run(self, command: str) -> StepAnswer:
        """Does what a line of the loop says; what is not understood is answered, not raised."""
        words = command.split()
        if not words:
            words = ["next"]
        word = _SHORT.get(words[0], words[0])
        if word == "quit":
            return StepAnswer(command, None, shows_place=False, ends=True)
        if word == "help":
            return StepAnswer(command, self.place(), shows_place=False, help=HELP)
        if not self.trace.steps:
            return StepAnswer(command, None, "there is no step: nothing was run")
        handler = _COMMANDS.get(word)
        try:
            if handler is None:
                near = difflib.get_close_matches(word, list(_COMMANDS), n=1)
                hint = f"; did you mean {near[0]}?" if near else "; help tells what there is"
                raise NotUnderstood(f"there is no command {word}{hint}")
            return handler(self, command, words[1:])
        except NotUnderstood as error:
            return StepAnswer(
                command, self.place(), error.message, shows_place=False, understood=False
            )

    def _move(self, command: str, to: int | None, missing: str) -> StepAnswer:
        """Goes to a step; stays where there is none, and says so."""
        if to is None:
            return StepAnswer(command, self.place(), f"{missing}; still here", shows_place=False)
        last = len(self.trace.steps) - 1
        note = None
        if to > last or to < 0:
            note = "this is the last step" if to > last else "this is the first step"
        self.at = min(max(to, 0), last)
        if self.fault is not None and self.at == last:
            note = f"here the block ended: {self.fault.message}"
        return StepAnswer(command, self.place(), note)

    def _next(self, command: str, words: list[str]) -> StepAnswer:
        return self._move(command, self.at + _count(words), "")

    def _back(self, command: str, words: list[str]) -> StepAnswer:
        return self._move(command, self.at - _count(words), "")

    def _mine(self, command: str, words: list[str]) -> StepAnswer:
        left, to = _count(words), None
        for k in range(self.at + 1, len(self.trace.steps)):
            if self.trace.steps[k].active[self.lane]:
                left, to = left - 1, k
                if not left:
                    break
        return self._move(command, to, f"lane {self.lane} runs no further step")

    def _until(self, command: str, words: list[str]) -> StepAnswer:
        text = _one(words, "until LINE, or until :LINE of the source")
        if not text.startswith(":"):
            line = _number(text)
            to = self.trace.on_line(line, self.at)
            return self._move(command, to, f"no further step is on line {line}")
        line = _number(text[1:])
        lines = {n for n in self._by_line if _on_source(self.source(n), line)}
        here = self.trace.steps[self.at].line
        to = None
        for k in range(self.at + 1, len(self.trace.steps)):
            now = self.trace.steps[k].line
            if now in lines and here not in lines:
                to = k
                break
            here = now
        return self._move(command, to, f"no further step is on line {line} of the source")

    def _nan(self, command: str, words: list[str]) -> StepAnswer:
        if words:
            raise NotUnderstood("nan takes no words")
        return self._move(command, self.trace.first_nan(self.at), "no further step gives a NaN")

    def _parts(self, command: str, words: list[str]) -> StepAnswer:
        if len(words) != 2:
            raise NotUnderstood("say which two lanes: parts 0 1")
        a, b = (self._thread(word) for word in words)
        to = self.trace.parting(a, b, self.at)
        return self._move(command, to, f"lanes {a} and {b} do not part after this")

    def _store(self, command: str, words: list[str]) -> StepAnswer:
        address = self._address("".join(words))
        to = self.trace.store_to(address, self.at)
        return self._move(command, to, f"no further step stores to {address:#x}")

    def _go(self, command: str, words: list[str]) -> StepAnswer:
        return self._move(command, _number(_one(words, "go N")), "")

    def _start(self, command: str, words: list[str]) -> StepAnswer:
        return self._move(command, 0, "")

    def _end(self, command: str, words: list[str]) -> StepAnswer:
        return self._move(command, len(self.trace.steps) - 1, "")

    def _where(self, command: str, words: list[str]) -> StepAnswer:
        return StepAnswer(command, self.place())

    def _lane(self, command: str, words: list[str]) -> StepAnswer:
        self.lane = self._thread(_one(words, "lane N"))
        return StepAnswer(command, self.place())

    def _print(self, command: str, words: list[str]) -> StepAnswer:
        if not words:
            raise NotUnderstood("say which register: print %r5")
        values = tuple(self._value(r, self.at) for word in words for r in self._registers(word))
        return StepAnswer(command, self.place(), shows_place=False, values=values)

    def _lanes(self, command: str, words: list[str]) -> StepAnswer:
        whole = "block" in words
        names = [word for word in words if word not in ("block", "warp")]
        registers: list[int | None] = [r for word in names for r in self._registers(word)]
        strips = tuple(self._strip(r, whole=whole) for r in registers or [None])
        return StepAnswer(command, self.place(), shows_place=False, strips=strips)

    def _all(self, command: str, words: list[str]) -> StepAnswer:
        written = sorted(r for r in self.trace.written(self.at) if self._is_own(r))
        values = tuple(self._value(r, self.at) for r in written)
        note = None if values else "nothing was written yet"
        return StepAnswer(command, self.place(), note, shows_place=False, values=values)

    def _list(self, command: str, words: list[str]) -> StepAnswer:
        around = _count(words, AROUND)
        current = self.trace.steps[self.at].line
        lines = sorted(self._by_line)
        middle = lines.index(current)
        listing = tuple(
            ListedLine(n, self.program.statement(n), self._given(n), n == current)
            for n in lines[max(0, middle - around) : middle + around + 1]
        )
        return StepAnswer(command, self.place(), shows_place=False, listing=listing)

    def _given(self, line: int) -> LaneValue | None:
        """What a line last gave the chosen lane up to now; None if it has given nothing."""
        for k in reversed(self._by_line.get(line, [])):
            step = self.trace.steps[k]
            if k <= self.at and step.active[self.lane]:
                own = [r for r, _ in step.changes if self._is_own(r)]
                return self._value(own[0], k) if own else None
        return None

    # -- words -----------------------------------------------------------------------------------

    def _thread(self, word: str) -> int:
        thread = _number(word)
        if thread >= self.threads:
            raise NotUnderstood(f"there is no lane {thread}: they are 0 to {self.threads - 1}")
        return thread

    def _registers(self, word: str) -> list[int]:
        """The registers that a word names: one of PTX, or all of a name of the source."""
        names = self.program.code.names
        if word in names:
            return [names.index(word)]
        of_source = [r for r, name in self.names.items() if name == word and self._is_own(r)]
        if of_source:
            return sorted(of_source)
        known = [*names, *dict.fromkeys(self.names.values())]
        near = difflib.get_close_matches(word, known, n=2)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise NotUnderstood(f"there is no register {word}{hint}")

    def _address(self, text: str) -> int:
        """``0x7f…``, ``x``, ``x+40``: an address of global memory."""
        name, plus, offset = text.partition("+")
        tensor = self.inputs.tensor(name)
        if tensor is not None:
            return tensor.address + (_number(offset) if plus else 0)
        if name and not plus and (name[0].isdigit()):
            return _number(name)
        known = ", ".join(b.name for b in self.inputs.memory.buffers)
        raise NotUnderstood(f"say where to: store 0x7f…, or a tensor's name and bytes ({known})")


Handler = Callable[[Stepper, str, list[str]], StepAnswer]
_COMMANDS: Mapping[str, Handler] = {
    "next": Stepper._next, "back": Stepper._back, "mine": Stepper._mine, "until": Stepper._until,
    "nan": Stepper._nan, "parts": Stepper._parts, "store": Stepper._store, "go": Stepper._go,
    "start": Stepper._start, "end": Stepper._end, "where": Stepper._where, "lane": Stepper._lane,
    "print": Stepper._print, "lanes": Stepper._lanes, "registers": Stepper._all,
    "list": Stepper._list,
}  # fmt: skip


def _plain(values: Array, lane: int, threads: int) -> float | int | tuple[float | int, ...]:
    """A lane's value as Python's own; a packed type's values as a tuple."""
    each = len(values) // threads
    if each > 1:
        return tuple(one.item() for one in values[each * lane : each * lane + each])
    one = values[lane]
    return int(one) if values.dtype == np.bool_ else one.item()


def _on_source(place: Location | None, line: int) -> bool:
    return place is not None and any(one.line == line for one in place.frames())


def _one(words: list[str], usage: str) -> str:
    if len(words) != 1:
        raise NotUnderstood(f"say {usage}")
    return words[0]


def _count(words: list[str], default: int = 1) -> int:
    return _number(_one(words, "how many")) if words else default


def _number(word: str) -> int:
    """A whole number, also ``0x…``."""
    try:
        value = int(word, 0)
    except ValueError:
        value = -1
    if value < 0 or len(word) > 20:
        raise NotUnderstood(f"{word[:40]} is no whole number")
    return value
