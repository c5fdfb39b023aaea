"""Deadlocks: what each thread waits for, what is missing there, and who should have come.

An mbarrier holds its pending arrivals and bytes itself. Who arrived is known where an
``ArrivalObserver`` was among the observers, as when a block is executed again after a deadlock.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from inspector.base.names import static_name
from inspector.base.units import plural
from inspector.execute.barriers import CLUSTER, FailedTest, OpenBarrier, Phases, PhaseState
from inspector.execute.faults import ArrivalGroup, Fault, Place, Remedy, Wait, WarpGroup
from inspector.execute.kinds import Array
from inspector.execute.lanes import Lanes, Triple, coordinates
from inspector.execute.memory import OrderObserver
from inspector.execute.program import Program
from inspector.parsers.ptx_statement import (
    AddressOperand,
    Operand,
    PtxInstruction,
    RegisterOperand,
    SymbolOperand,
    registers_in,
)

WARP_LANES = 32
_PARITY_WAIT = re.compile(
    r"(mbarrier\.(?:try|test)_wait\.parity[^;\[]*+\[[^\]]*+\]\s*+,)\s*+([^,;\s]++)([^;]*+;)"
)
"""``mbarrier.try_wait.parity.shared::cta.b64 done, [%r3], %r4;``"""
_OTHER_PARITY = r"{ .reg .b32 other_parity; xor.b32 other_parity, \2, 1; \1 other_parity\3 }"
_INIT = re.compile(r"(mbarrier\.init[^;\[]*\[[^\]]*\]\s*,)\s*([^,;\s]+)")
"""``mbarrier.init.shared::cta.b64 [%r38], %r43;``"""
LOADS = ("ld", "ldu", "atom", "mbarrier")
"""Instructions whose results are computed of no address that they name."""
UNKNOWN = 0
ENDED = -1


class Arriver(NamedTuple):
    """Who counts at an mbarrier: the instruction, the block's number, the warp."""

    instruction: int
    block: int
    warp: int


@dataclass(slots=True)
class PhaseHistory:
    """An mbarrier since the instruction that initialised it, None if that is unknown: the number
    of its phase, who counted what in it, and who did so before."""

    init: int | None
    phase: int = 0
    arrived: dict[Arriver, tuple[int, int]] = field(default_factory=dict)
    """Arrivals, and bytes that came."""
    earlier: set[Arriver] = field(default_factory=set)


class ArrivalObserver(OrderObserver):
    """An observer of the phases of mbarriers, by the number of the block and the offset there."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.histories: dict[tuple[int, int], PhaseHistory] = {}
        self.executed: set[int] = set()
        """Instructions that have arrived anywhere, or copied."""
        self.tests: set[tuple[int, int]] = set()
        """Waits that were over: the line, the offset of the mbarrier."""

    def mbarrier(
        self, lanes: Lanes, way: str, instruction: int, rows: Array, offsets: Array, threads: Array
    ) -> None:
        for row, offset in set(zip(rows.tolist(), offsets.tolist(), strict=True)):
            key = int(lanes.numbers[row]), offset
            if way == "wait":
                self.tests.add((self.program.code.instructions[instruction].line, offset))
            elif way == "init":
                self.histories[key] = PhaseHistory(instruction)
            elif way == "complete" and (history := self.histories.get(key)) is not None:
                history.phase += 1
                history.earlier.update(history.arrived)
                history.arrived = {}

    def counted(
        self,
        lanes: Lanes,
        instruction: int,
        rows: Array,
        offsets: Array,
        threads: Array,
        arrivals: Array,
        nbytes: Array,
    ) -> None:
        self.executed.add(instruction)
        for row, offset, thread, count, expected in zip(
            *(x.tolist() for x in (rows, offsets, threads, arrivals, nbytes)), strict=True
        ):
            history = self.histories.get((int(lanes.numbers[row]), offset))
            if history is not None:
                block, column = divmod(thread, lanes.width)
                who = Arriver(instruction, int(lanes.numbers[block]), column // WARP_LANES)
                total, came = history.arrived.get(who, (0, 0))
                history.arrived[who] = total + count, came + max(0, -expected)


def counts_at_mbarrier(row: PtxInstruction) -> bool:
    """Whether an instruction arrives at an mbarrier, or reports bytes to one."""
    words = {word for part in row.parts for word in part.split("::")}
    if row.base == "mbarrier":
        return not words.isdisjoint(("arrive", "arrive_drop", "complete_tx"))
    return "mbarrier" in words and row.base != "fence"


class SharedVariables:
    """A program's variables of shared memory, by offset and by the operands that name them."""

    def __init__(self, program: Program) -> None:
        self.offsets = {
            name: offset
            for name, (space, offset) in program.layout.offsets.items()
            if space == "shared"
        }
        self._definitions: dict[int, list[PtxInstruction]] = {}
        for row in program.code.instructions:
            if row.base not in LOADS and row.operands:
                for number in registers_in(row.operands[0]):
                    self._definitions.setdefault(number, []).append(row)

    def at(self, offset: int) -> str | None:
        """The variable that is at an offset."""
        names = [name for name, start in self.offsets.items() if start <= offset]
        return max(names, key=self.offsets.__getitem__, default=None)

    def name(self, offset: int) -> str:
        """The variable at an offset, as C++ names it; ``full+8`` within it."""
        variable = self.at(offset)
        if variable is None:
            return ""
        start = self.offsets[variable]
        name = static_name(variable)
        return f"{name}+{offset - start}" if offset > start else name

    def of(self, operands: Sequence[Operand]) -> set[str]:
        """The variables from whose addresses operands are computed."""
        names: set[str] = set()
        seen: set[int] = set()
        pending = list(operands)
        while pending:
            operand = pending.pop()
            if isinstance(operand, SymbolOperand) and operand.name in self.offsets:
                names.add(operand.name)
            elif isinstance(operand, AddressOperand):
                pending.append(operand.base)
            elif isinstance(operand, RegisterOperand) and operand.number not in seen:
                seen.add(operand.number)
                for row in self._definitions.get(operand.number, ()):
                    pending += row.operands[1:]
        return names


class Deadlock:
    """The lanes of a chunk in which nothing goes on."""

    def __init__(
        self, program: Program, lanes: Lanes, phases: Phases, history: ArrivalObserver | None
    ) -> None:
        self.program = program
        self.rows = program.code.instructions
        self.lanes = lanes
        self.phases = phases
        self.history = history
        self.variables = SharedVariables(program)
        self.lines: Array = np.where(lanes.full_mask(lanes.live), UNKNOWN, ENDED)
        """The line of the PTX at which each lane is, or one of these: (B, T)."""

    def waits(
        self,
        barriers: Sequence[OpenBarrier],
        polled: Sequence[tuple[int, Array]],
        tests: Sequence[FailedTest],
    ) -> tuple[Wait, ...]:
        """What the first cluster that waits waits for, the likeliest cause first.

        ``polled`` are loops, by the instruction that looks whether they may end, with their lanes.
        """
        testing = np.zeros(self.lanes.shape, bool)
        waiting = np.zeros(self.lanes.shape, bool)
        for instruction, mask in polled:
            self.lines[mask] = self.rows[instruction].line
            waiting |= mask
        for barrier in barriers:
            self.lines[barrier.waiting] = barrier.instruction.line
            waiting |= barrier.waiting
        for test in tests:
            self.lines[test.lanes] = self.rows[test.instruction].line
            testing[test.lanes] = True
        size = self.lanes.cluster_size
        first = int(np.argmax(waiting.any(1))) // size * size
        cluster = np.zeros(self.lanes.shape, bool)
        cluster[first : first + size, : self.lanes.threads] = True
        out = [self._of_mbarrier(test, cluster) for test in tests if cluster[test.owner, 0]]
        out += [self._of_barrier(b, cluster) for b in barriers if (b.waiting & cluster).any()]
        for instruction, mask in polled:
            lanes = mask & cluster & ~testing
            if lanes.any():
                reason = "for ever for what nobody is left to store"
                line = self.rows[instruction].line
                out.append(self._wait("memory", line, lanes, cluster & ~lanes, reason))
        return tuple(sorted(out, key=lambda wait: wait.is_explained))

    def _wait(
        self, kind: str, line: int, lanes: Array, others: Array, reason: str, **details: Any
    ) -> Wait:
        """A wait of some lanes in a line."""
        row, column = self.lanes.first(lanes)
        thread = coordinates(column, self.lanes.block)
        groups = self._groups(lanes), self._groups(others)
        count = int(lanes.sum())
        return Wait(kind, line, self._block(row), thread, count, *groups, reason, **details)

    def _block(self, row: int) -> Triple:
        return coordinates(int(self.lanes.numbers[row]), self.lanes.grid)

    def _groups(self, mask: Array) -> tuple[WarpGroup, ...]:
        """The warps of lanes, by block and by the line at which they are."""
        out: list[WarpGroup] = []
        for row in np.flatnonzero(mask.any(1)).tolist():
            for line in np.unique(self.lines[row][mask[row]]).tolist():
                columns = np.flatnonzero(mask[row] & (self.lines[row] == line))
                warps = tuple(np.unique(columns // WARP_LANES).tolist())
                out.append(WarpGroup(self._block(row), warps, None if line == ENDED else line))
        return tuple(out)

    def _of_barrier(self, barrier: OpenBarrier, cluster: Array) -> Wait:
        """A wait at a block's barrier, of the first of its blocks, or at the cluster's."""
        lanes = cluster
        name = "the cluster's barrier"
        if barrier.number != CLUSTER:
            row = int(np.argmax((barrier.waiting & cluster).any(1)))
            lanes = cluster & (self.lanes.row == row)
            name = f"barrier {barrier.number}"
        arrived = int((barrier.arrived & lanes).sum())
        count = 0 if barrier.number == CLUSTER else int(barrier.counts[row])
        live = self.lines != ENDED
        expected = count or int((lanes & (live | barrier.arrived)).sum())
        others = lanes & ~barrier.arrived
        if not count:
            others &= live
        return self._wait(
            "cluster" if barrier.number == CLUSTER else "barrier",
            barrier.instruction.line,
            lanes & barrier.waiting,
            others,
            f"at {name}, where {arrived:,} of {plural(expected, 'thread')} arrived",
            number=None if barrier.number == CLUSTER else barrier.number,
            pending=expected - arrived,
            expected=expected,
        )

    def _of_mbarrier(self, test: FailedTest, cluster: Array) -> Wait:
        state = self.phases.state(test.owner, test.offset)
        owner = int(self.lanes.numbers[test.owner])
        history = PhaseHistory(None)
        unexecuted: tuple[int, ...] = ()
        if self.history is not None:
            history = self.history.histories.get((owner, test.offset), history)
            unexecuted = self._unexecuted(self.history.executed, test.offset)
        absent = dict.fromkeys(history.earlier - history.arrived.keys(), (0, 0))
        name = self.variables.name(test.offset)
        phase = f"a phase of parity {state.parity}"
        if history.init is not None:
            phase = f"phase {history.phase} (parity {state.parity})"
        place = f"the mbarrier {name} at byte {test.offset:,}"
        if self.lanes.cluster_size > 1:
            place += f" of block {self._block(test.owner)}"
        lanes = np.zeros(self.lanes.shape, bool)
        lanes[test.lanes] = True
        return self._wait(
            "mbarrier",
            self.rows[test.instruction].line,
            lanes,
            cluster & ~lanes,
            f"for {phase} of {place}: {_missing(state)}",
            pending=state.pending,
            expected=state.expected,
            owner=self._block(test.owner),
            offset=test.offset,
            name=name,
            phase=None if history.init is None else history.phase,
            parity=state.parity,
            nbytes=state.nbytes,
            init_line=None if history.init is None else self.rows[history.init].line,
            arrived=self._arrivals(history.arrived),
            absent=self._arrivals(absent),
            unexecuted=unexecuted,
        )

    def _unexecuted(self, executed: Collection[int], offset: int) -> tuple[int, ...]:
        """The lines that arrive at an mbarrier's variable, or may do, and were not executed."""
        variable = self.variables.at(offset)
        out: list[int] = []
        for n, row in enumerate(self.rows):
            if counts_at_mbarrier(row) and n not in executed:
                named = self.variables.of(row.operands)
                if variable in named or not named:
                    out.append(row.line)
        return tuple(out)

    def _arrivals(self, counts: Mapping[Arriver, tuple[int, int]]) -> tuple[ArrivalGroup, ...]:
        """Arrivals by instruction, block, and where the warps are now."""
        groups: dict[tuple[int, int, int], list[Arriver]] = {}
        for arriver in sorted(counts):
            groups.setdefault((arriver.instruction, arriver.block, self._now(arriver)), []).append(
                arriver
            )
        return tuple(
            ArrivalGroup(
                self.rows[instruction].line,
                coordinates(block, self.lanes.grid),
                tuple(arriver.warp for arriver in group),
                sum(counts[arriver][0] for arriver in group),
                sum(counts[arriver][1] for arriver in group),
                None if line == ENDED else line,
            )
            for (instruction, block, line), group in groups.items()
        )

    def _now(self, arriver: Arriver) -> int:
        """The line at which a warp is: the last one of its lanes."""
        rows = np.flatnonzero(self.lanes.numbers == arriver.block)
        first = arriver.warp * WARP_LANES
        return int(self.lines[rows[0], first : first + WARP_LANES].max())


def deadlock_fault(program: Program, waits: tuple[Wait, ...]) -> Fault:
    """The fault of a deadlock, at its first wait."""
    first = waits[0]
    statement = program.statement(first.line)
    place = Place(program.name, first.line, statement, first.block, first.thread)
    verb = "thread waits" if first.threads == 1 else "threads wait"
    sentence = f"{first.threads:,} {verb} {first.reason}"
    return Fault("deadlock", sentence, place, waits=waits)


def remedies(
    program: Program, waits: Iterable[Wait], history: ArrivalObserver
) -> Iterator[tuple[Wait, Remedy, Program]]:
    """Changes that may end a deadlock, with the changed program: the other parity of a wait, and
    as many arrivals at an init as came."""
    mbarrier_waits = [wait for wait in waits if wait.kind == "mbarrier"]
    tests = history.tests | {(wait.line, wait.offset) for wait in mbarrier_waits}
    for wait in mbarrier_waits:
        lines = _lines_of_variable(program, wait, tests, "parity")
        yield wait, *_changed(program, lines, _PARITY_WAIT, _OTHER_PARITY, None)
        arrived = (wait.expected or 0) - (wait.pending or 0)
        if wait.pending and arrived and not wait.absent:
            lines = _lines_of_variable(program, wait, {(wait.init_line, wait.offset)}, "init")
            yield wait, *_changed(program, lines, _INIT, rf"\1 {arrived}", arrived)


def _lines_of_variable(
    program: Program, wait: Wait, executed: Collection[tuple[int | None, int | None]], word: str
) -> set[int]:
    """The lines of instructions with a word that name the mbarriers of a wait's variable.

    ``executed`` are lines with the offsets that they named; of others it is derived. Where one
    variable has everything, as in dynamic shared memory, only those are taken that named the same.
    """
    variables = SharedVariables(program)
    variable = variables.at(wait.offset or 0)
    if variable is None or variables.offsets[variable] >= program.static_shared:
        return {line for line, offset in executed if line and offset == wait.offset}
    lines = {line for line, offset in executed if line and variables.at(offset or 0) == variable}
    known = {line for line, _ in executed}
    for row in program.code.instructions:
        if row.base == "mbarrier" and word in row.parts and row.line not in known:
            addresses = [o for o in row.operands[:2] if isinstance(o, AddressOperand)]
            if variable in variables.of(addresses):
                lines.add(row.line)
    return lines


def _changed(
    program: Program,
    lines: Iterable[int],
    pattern: re.Pattern[str],
    replacement: str,
    count: int | None,
) -> tuple[Remedy, Program]:
    """The program with a change of some lines."""
    texts = list(program.module.texts)
    chosen = tuple(line for line in sorted(lines) if pattern.search(texts[line - 1]))
    for line in chosen:
        texts[line - 1] = pattern.sub(replacement, texts[line - 1])
    return Remedy(chosen, count), Program("\n".join(texts), program.name)


def _missing(state: PhaseState) -> str:
    """What a phase lacks, in words."""
    if not state.expected:
        return "it is not initialised"
    parts: list[str] = []
    if state.pending:
        parts.append(f"{state.pending:,} of {plural(state.expected, 'arrival')}")
    if state.nbytes > 0:
        parts.append(plural(state.nbytes, "byte"))
    is_one = state.pending + max(0, state.nbytes) == 1
    text = f"{' and '.join(parts)} {'is' if is_one else 'are'} missing" if parts else ""
    if state.nbytes < 0:
        excess = f"{plural(-state.nbytes, 'byte')} more came than were expected"
        text = f"{text}, and {excess}" if text else excess
    return text
