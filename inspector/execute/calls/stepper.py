"""One block of a launch, step by step, forwards and backwards: what ``step`` and a screen ask.

Every step was kept when the block was run; going to one is reading what was in the registers.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from msgspec import Struct

from inspector.base.errors import PtxviewError
from inspector.base.model import Location
from inspector.execute import Program, TraceStep
from inspector.execute.blocks import defines
from inspector.execute.calls.tracing import TracedBlock
from inspector.execute.facts import as_values
from inspector.execute.kinds import WIDTHS, Array
from inspector.parsers.line import Listing
from inspector.parsers.ptx_statement import registers_in

_SSA = re.compile(r"%([A-Za-z_]\w*?)(?:_\d+)?(?:[:#]\d+)?\Z")
_CONSTANT = re.compile(r"\s*%(?:c[0-9n]\w*|cst\w*|true\w*|false\w*)\s*=\s*arith\.constant\b")
"""What MLIR calls constants that no variable was assigned."""
_PARAMETER = re.compile(r"\[\s*([\w$]+)\s*\]")
Key = tuple[tuple[int, int | None], ...]


def register_names(
    program: Program, ptx: Listing, ttir: Listing | None, parameters: Mapping[str, str]
) -> dict[int, str]:
    """Names of the source by register number, for as many registers as have one.

    ``parameters`` are the arguments' names by PTX's. Triton names the values of its TTIR after the
    variables that they are assigned to: a register has the name of the value that its instruction's
    location is of, where that is the last one of its assignment.
    """
    by_place = {} if ttir is None else _assigned(ttir)
    out: dict[int, str] = {}
    for row in program.code.instructions:
        written, _ = defines(row, program.blocks.carry)
        name = None
        if row.base == "ld" and "param" in row.parts:
            match = _PARAMETER.search(program.statement(row.line))
            name = parameters.get(match[1]) if match else None
        if name is None and by_place and row.line <= len(ptx.lines):
            place = ptx.lines[row.line - 1].source
            name = by_place.get(_key(place)) if place is not None else None
        if name is not None:
            for register in written:
                out.setdefault(register, name)
    return out


def _assigned(ttir: Listing) -> dict[Key, str]:
    """The variable that is assigned what is computed at a place.

    Of the values of one assignment, those before the last are what its parts come to.
    """
    last: dict[tuple[str, int], Key] = {}
    for line in ttir.lines:
        if line.source is None or len(line.defs) != 1 or _CONSTANT.match(line.text):
            continue
        if (match := _SSA.match(line.defs[0])) is not None:
            place = _key(line.source)
            last[match[1], place[-1][0]] = place
    return {place: name for (name, _), place in last.items()}


def _key(place: Location) -> Key:
    """Line and column of a place, and of the calls that it was inlined by: innermost first."""
    return tuple((frame.line, frame.column) for frame in place.frames())


WARP = 32
CONTEXT_LINES = 5
"""Lines before and after the one at hand that ``list`` shows."""
HELP = (
    ("next [N]", "the next step, or N steps on"),
    ("back [N]", "a step back, or N"),
    ("mine [N]", "the next step that the chosen lane runs"),
    ("until LINE", "the next step on a line of the PTX; until :LINE on one of the source"),
    ("before LINE", "the last step before this one that is on a line of the PTX"),
    ("nan", "the next step that gives a lane a NaN"),
    ("parts A B", "the next step that one of two lanes runs and the other does not"),
    ("store ADDRESS", "the next step that stores to an address: 0x7f…, or x+40 (bytes)"),
    ("go N", "step N; start and end are the first and the last"),
    ("print R…", "the chosen lane's value of registers, or of names of the source"),
    ("lanes [R] [block]", "a register's values in the lanes of the warp, or of the whole block"),
    ("registers [live]", "all that was written so far, or what is read after this step"),
    ("list [N]", "the PTX around, with what each line gave the chosen lane; N lines each way"),
    ("lane N", "choose another lane (thread of the block)"),
    ("where", "this step again"),
    ("quit", "the end"),
)
_SHORT = {
    "n": "next",
    "b": "back",
    "m": "mine",
    "u": "until",
    "p": "print",
    "l": "list",
    "r": "registers",
    "w": "where",
    "q": "quit",
    "h": "help",
    "?": "help",
    "exit": "quit",
    "s": "next",
    "goto": "go",
    "regs": "registers",
}


STORES = ("st", "red")
"""Instructions that give memory their second operand."""


class NotUnderstood(PtxviewError):
    """A command of the loop that cannot be meant."""


class LaneValue(Struct, frozen=True):
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


class LaneStrip(Struct, frozen=True):
    """A register in the lanes from ``first`` on: values (None: not written yet), who ran the step.

    ``register`` is None where only the lanes are asked for.
    """

    register: str | None
    name: str | None
    kind: str
    first: int
    values: tuple[float | int | tuple[float | int, ...], ...] | None
    active: tuple[bool, ...]


class LineResult(Struct, frozen=True):
    """What a line of the PTX last did, up to the step at hand: at ``step``.

    ``values`` are what it last gave the chosen lane, by registers, or what that stored to memory
    where ``stored``. ``runs``: whether the lane ran ``step``; if not, an earlier one gave them.
    """

    step: int
    runs: bool
    values: tuple[LaneValue, ...] = ()
    stored: bool = False


class ListedLine(Struct, frozen=True):
    """A line of the PTX around the step at hand, and what it did; None if it was not run yet."""

    n: int
    text: str
    result: LineResult | None
    current: bool


class StepPlace(Struct, frozen=True):
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


class StepAnswer(Struct, frozen=True):
    """Result of a command: the new place, the requested values, and a sentence if any."""

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


_SETS_UP = re.compile(r"(?:ld\.param|mov|cvta)\b")
"""What a kernel begins with: ``ld.param.b64 %rd1, [softmax_kernel_param_0];``."""


class Stepper:
    """The steps of a block that was run and the one at hand; ``lane`` is a thread of the block.

    ``names`` are the source's names of registers by number, ``source`` says where a line of PTX
    comes from.
    """

    def __init__(
        self,
        traced: TracedBlock,
        names: Mapping[int, str],
        source: Callable[[int], Location | None],
        lane: int = 0,
    ) -> None:
        self.trace = traced.trace
        self.inputs = traced.inputs
        self.fault = traced.fault
        self.program = traced.trace.program
        self.names = names
        self.source = source
        self.lane = lane
        self.step_index = 0
        self._by_line: dict[int, list[int]] = {}
        for k, step in enumerate(self.trace.steps):
            self._by_line.setdefault(step.line, []).append(k)

    def to_arithmetic(self) -> None:
        """Go to the first step that computes: before it parameters are loaded and copied."""
        for index, step in enumerate(self.trace.steps):
            statement = self.program.statement(step.line).lstrip()
            if not _SETS_UP.match(statement):
                self.step_index = index
                return

    @property
    def threads(self) -> int:
        steps = self.trace.steps
        return len(steps[0].active) if steps else 0

    def place(self) -> StepPlace | None:
        """The step at hand; None where the block has none."""
        if not (steps := self.trace.steps):
            return None
        step = steps[self.step_index]
        strip = self._strip(None, self.step_index, self._lanes())
        return StepPlace(
            self.step_index,
            len(steps),
            step.line,
            self.program.statement(step.line),
            self.source(step.line),
            self.lane,
            bool(step.active[self.lane]),
            sum(strip.active),
            int(step.active.sum()),
            self.threads,
            self._values(r for r, _ in step.changes),
            strip,
        )

    def _is_own(self, register: int) -> bool:
        return register < len(self.program.code.registers)

    def _value(self, register: int, step_index: int) -> LaneValue:
        values = self.trace.values(register, step_index)
        kind = self.trace.kinds[register]
        value = None if values is None else _lane_value(values, self.lane, self.threads)
        inside = None
        if isinstance(value, int) and kind[1:] == "64":
            tensor = self.inputs.memory.buffer_at(value)
            inside = None if tensor is None else (tensor.name, value - tensor.address)
        written = self.trace.writer(register, step_index)
        return LaneValue(
            self.program.code.names[register],
            self.names.get(register),
            kind,
            value,
            None if written is None else self.trace.steps[written].line,
            inside,
        )

    def _lanes(self, *, whole_block: bool = False) -> range:
        first = 0 if whole_block else self.lane // WARP * WARP
        return range(first, self.threads if whole_block else min(first + WARP, self.threads))

    def _strip(self, register: int | None, step_index: int, lanes: range) -> LaneStrip:
        active = self.trace.steps[step_index].active
        running = tuple(bool(active[n]) for n in lanes)
        if register is None:
            return LaneStrip(None, None, "", lanes.start, None, running)
        values = self.trace.values(register, step_index)
        return LaneStrip(
            self.program.code.names[register],
            self.names.get(register),
            self.trace.kinds[register],
            lanes.start,
            None if values is None else tuple(_lane_value(values, n, self.threads) for n in lanes),
            running,
        )

    def _steps_up_to(self, line: int) -> list[int]:
        """The steps on a line of the PTX up to the step at hand."""
        steps = self._by_line.get(line, [])
        return steps[: bisect_right(steps, self.step_index)]

    def result(self, line: int) -> LineResult | None:
        """What a line of the PTX last did; None if it was not run yet."""
        steps_so_far = self._steps_up_to(line)
        steps = self.trace.steps
        if not steps_so_far:
            return None
        lane_step = next((k for k in reversed(steps_so_far) if steps[k].active[self.lane]), None)
        if lane_step is None:
            return LineResult(steps_so_far[-1], runs=False)
        registers, stored = self._written_registers(lane_step)
        values = tuple(self._value(r, lane_step) for r in registers)
        step = steps[lane_step]
        row = self.program.code.instructions[steps[lane_step].instruction]
        if stored and not registers and row.kind in WIDTHS:
            lane = int(step.active[: self.lane].sum())
            values = _stored_values(step, row.kind, lane)
        return LineResult(steps_so_far[-1], lane_step == steps_so_far[-1], values, stored)

    def _written_registers(self, step_index: int) -> tuple[list[int], bool]:
        """The registers that a step wrote, else those that it stored, and whether it stored."""
        step = self.trace.steps[step_index]
        if written := [r for r, _ in step.changes if self._is_own(r)]:
            return written, False
        row = self.program.code.instructions[step.instruction]
        stored = row.base in STORES and len(row.operands) > 1
        return (registers_in(row.operands[1]) if stored else []), stored

    def strips(self, line: int) -> tuple[LaneStrip, ...]:
        """The whole block's lanes at a line's last step: one for each register that it wrote or
        stored, one without values if missing; nothing if it was not run yet."""
        if not (steps_so_far := self._steps_up_to(line)):
            return ()
        registers: list[int | None] = [*self._written_registers(steps_so_far[-1])[0]]
        lanes = self._lanes(whole_block=True)
        return tuple(self._strip(r, steps_so_far[-1], lanes) for r in registers or [None])

    def live(self) -> tuple[LaneValue, ...]:
        """The registers that may be read after the step at hand and were written by then."""
        if not self.trace.steps:
            return ()
        instruction = self.trace.steps[self.step_index].instruction
        rows = self.program.code.instructions
        blocks = self.program.blocks
        block = next(b for b in blocks.blocks if b.first <= instruction < b.last)
        live = set(block.live_out)
        for row in reversed(rows[instruction + 1 : block.last]):
            written, read = defines(row, blocks.carry)
            live.difference_update(written)
            live.update(read)
        return self._values(sorted(live))

    def _values(self, registers: Iterable[int]) -> tuple[LaneValue, ...]:
        return tuple(
            self._value(r, self.step_index)
            for r in registers
            if self._is_own(r) and self.trace.writer(r, self.step_index) is not None
        )

    def run(self, command: str) -> StepAnswer:
        """Does what a line of the loop says; what is not understood is answered, not raised."""
        word, *words = command.split() or ["next"]
        word = _SHORT.get(word, word)
        if word == "quit":
            return StepAnswer(command, None, shows_place=False, ends=True)
        if word == "help":
            return StepAnswer(command, self.place(), shows_place=False, help=HELP)
        if not self.trace.steps:
            return StepAnswer(command, None, "there is no step: nothing was run")
        try:
            answer = self._move_command(command, word, words)
            return answer or self._query_command(command, word, words)
        except NotUnderstood as error:
            return StepAnswer(
                command, self.place(), error.message, shows_place=False, understood=False
            )

    def _move_command(self, command: str, word: str, words: list[str]) -> StepAnswer | None:
        """A command that goes to another step; None if it is not one."""
        match word:
            case "next":
                return self._move(command, self.step_index + _count(words))
            case "back":
                return self._move(command, self.step_index - _count(words))
            case "go":
                return self._move(command, _number(_single_word(words, "go N")))
            case "start":
                return self._move(command, 0)
            case "end":
                return self._move(command, len(self.trace.steps) - 1)
            case "mine":
                later = range(self.step_index + 1, len(self.trace.steps))
                lane_steps = [k for k in later if self.trace.steps[k].active[self.lane]]
                lane_steps = lane_steps[: _count(words)]
                missing = f"lane {self.lane} runs no further step"
                return self._move(command, lane_steps[-1] if lane_steps else None, missing)
            case "until":
                return self._until(
                    command, _single_word(words, "until LINE, or until :LINE of the source")
                )
            case "before":
                line = _number(_single_word(words, "before LINE"))
                return self.leave((line,), f"line {line}", command)
            case "nan":
                if words:
                    raise NotUnderstood("nan takes no words")
                to = self.trace.first_nan(self.step_index)
                return self._move(command, to, "no further step gives a NaN")
            case "parts":
                if len(words) != 2:
                    raise NotUnderstood("say which two lanes: parts 0 1")
                a, b = (self._thread(word) for word in words)
                to = self.trace.parting(a, b, self.step_index)
                return self._move(command, to, f"lanes {a} and {b} do not part after this")
            case "store":
                address = self._address("".join(words))
                to = self.trace.store_to(address, self.step_index)
                return self._move(command, to, f"no further step stores to {address:#x}")
        return None

    def _query_command(self, command: str, word: str, words: list[str]) -> StepAnswer:
        """A command that stays at the step."""
        answer = partial(StepAnswer, command, self.place(), shows_place=False)
        match word:
            case "where":
                return answer(shows_place=True)
            case "lane":
                self.lane = self._thread(_single_word(words, "lane N"))
                return StepAnswer(command, self.place())
            case "print":
                if not words:
                    raise NotUnderstood("say which register: print %r5")
                registers = self._all_registers(words)
                return answer(values=tuple(self._value(r, self.step_index) for r in registers))
            case "lanes":
                return answer(strips=self._strips(words))
            case "registers":
                if words and words != ["live"]:
                    raise NotUnderstood("say registers, or registers live")
                values = self.live() if words else self._values(self.trace.written())
                missing = "nothing is read after this step" if words else "nothing was written yet"
                return answer(note=None if values else missing, values=values)
            case "list":
                return answer(listing=self._nearby_lines(_count(words, CONTEXT_LINES)))
            case _:
                near = difflib.get_close_matches(word, [usage.split()[0] for usage, _ in HELP], n=1)
                hint = f"; did you mean {near[0]}?" if near else "; help lists commands"
                raise NotUnderstood(f"there is no command {word}{hint}")

    def _all_registers(self, names: Iterable[str]) -> list[int]:
        """The registers that several names of the user's mean."""
        return [register for name in names for register in self._registers(name)]

    def _strips(self, words: Sequence[str]) -> tuple[LaneStrip, ...]:
        """What each lane holds of the registers that are named, else what the step gives."""
        names = [word for word in words if word not in ("block", "warp")]
        lanes = self._lanes(whole_block="block" in words)
        registers: Sequence[int | None] = self._all_registers(names) or [None]
        return tuple(self._strip(register, self.step_index, lanes) for register in registers)

    def _nearby_lines(self, count: int) -> tuple[ListedLine, ...]:
        """The step's line, and as many lines with instructions before and after it."""
        current = self.trace.steps[self.step_index].line
        lines = sorted(self._by_line)
        middle = lines.index(current)
        shown = lines[max(0, middle - count) : middle + count + 1]
        return tuple(
            ListedLine(n, self.program.statement(n), self.result(n), n == current) for n in shown
        )

    def _move(self, command: str, to: int | None, missing: str = "") -> StepAnswer:
        """Go to a step; stay if there is no such step, and say so."""
        if to is None:
            return StepAnswer(command, self.place(), f"{missing}; still here", shows_place=False)
        last = len(self.trace.steps) - 1
        note = None
        if to > last or to < 0:
            note = "this is the last step" if to > last else "this is the first step"
        self.step_index = min(max(to, 0), last)
        if self.fault is not None and self.step_index == last:
            note = f"here the block ended: {self.fault.message}"
        return StepAnswer(command, self.place(), note)

    def _until(self, command: str, text: str) -> StepAnswer:
        if text.startswith(":"):
            line = _number(text[1:])
            lines: set[int] = set()
            for n in self._by_line:
                location = self.source(n)
                if location and line in [frame.line for frame in location.frames()]:
                    lines.add(n)
            return self.enter(lines, f"line {line} of the source", command)
        line = _number(text)
        to = next((k for k in self._by_line.get(line, []) if k > self.step_index), None)
        return self._move(command, to, f"no further step is on line {line}")

    def leave(self, lines: Collection[int], place: str, command: str = "before") -> StepAnswer:
        """Goes to the last step before this one that is on one of these lines of the PTX.

        ``place`` names them in the message that there is no such step.
        """
        steps = (k for line in lines for k in self._steps_up_to(line) if k < self.step_index)
        missing = f"no step before this one is on {place}"
        return self._move(command, max(steps, default=None), missing)

    def enter(self, lines: Collection[int], place: str, command: str = "until") -> StepAnswer:
        """Goes to the next step on one of these lines of the PTX that comes from another one.

        ``place`` names them in the message that there is no such step.
        """
        on = [step.line in lines for step in self.trace.steps[self.step_index :]]
        entered = (self.step_index + k for k in range(1, len(on)) if on[k] and not on[k - 1])
        return self._move(command, next(entered, None), f"no further step is on {place}")

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
        near = difflib.get_close_matches(word, [*names, *dict.fromkeys(self.names.values())], n=2)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise NotUnderstood(f"there is no register {word}{hint}")

    def _address(self, text: str) -> int:
        """``0x7f…``, ``x``, ``x+40``: an address of global memory."""
        name, plus, offset = text.partition("+")
        if (tensor := self.inputs.tensor(name)) is not None:
            return tensor.address + (_number(offset) if plus else 0)
        if name and not plus and (name[0].isdigit()):
            return _number(name)
        buffers = ", ".join(b.name for b in self.inputs.memory.buffers)
        raise NotUnderstood(f"say where to: store 0x7f…, or a tensor's name and bytes ({buffers})")


def _stored_values(step: TraceStep, kind: str, place: int) -> tuple[LaneValue, ...]:
    """What the lane at a place among those that ran has stored in a step."""
    values: list[LaneValue] = []
    for access in step.accesses:
        for stored in access.values:
            if place < len(stored):
                value = as_values(stored, kind)[place].item()
                values.append(LaneValue("", None, kind, value, step.line))
    return tuple(values)


def _lane_value(values: Array, lane: int, threads: int) -> float | int | tuple[float | int, ...]:
    """A lane's value as Python's own; a packed type's values as a tuple."""
    values_per_lane = len(values) // threads
    if values_per_lane > 1:
        return tuple(
            value.item()
            for value in values[values_per_lane * lane : values_per_lane * lane + values_per_lane]
        )
    value = values[lane]
    return int(value) if values.dtype == np.bool_ else value.item()


def _single_word(words: list[str], usage: str) -> str:
    if len(words) != 1:
        raise NotUnderstood(f"say {usage}")
    return words[0]


def _count(words: list[str], default: int = 1) -> int:
    return _number(_single_word(words, "how many")) if words else default


def _number(word: str) -> int:
    try:
        value = int(word, 0)
    except ValueError:
        value = -1
    if value < 0 or len(word) > 20:
        raise NotUnderstood(f"{word[:40]} is not a whole number")
    return value
