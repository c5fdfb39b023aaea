"""A call's blocks are run and counted: all of them where that is cheap, else some, and said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from inspector.analyse.hints.subject import ExecutedFacts
from inspector.base.errors import Stopped, UsageError
from inspector.execute import (
    Facts,
    Fault,
    LaunchError,
    Observer,
    OutOfBudget,
    Program,
    Trace,
    TraceTooLong,
    execute,
)
from inspector.execute.access import Access
from inspector.execute.blocks import BasicBlock
from inspector.execute.calls.inputs import LaunchInputs
from inspector.execute.calls.touched import Touches, executed_facts
from inspector.execute.kinds import Array, Mask
from inspector.execute.lanes import Lanes
from inspector.execute.launch import choose

Triple = tuple[int, int, int]

BUDGET = 1_000_000_000
"""Lane-instructions that a launch may take unless somebody says otherwise: a minute or two."""
CHEAP = 100_000_000
"""Lane-instructions up to which every block is run without being asked: a few seconds."""
MIN_BLOCKS = 8

Wanted = str | int | Sequence[int | Triple]
"""Which blocks: ``auto``, ``all``, so many spread over the grid, or these."""


def parse_sizes(text: str) -> tuple[int, ...]:
    """``1823``, ``64,4``, ``3,1,0``: one to three numbers. Raises ValueError with a sentence."""
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(p.isascii() and p.isdecimal() for p in parts):
        raise ValueError(f"{text} is not one to three whole numbers")
    if any(len(p) > 10 for p in parts):
        raise ValueError(f"{text} is more than any device has")
    return tuple(int(p) for p in parts)


def parse_place(text: str) -> Triple:
    """Coordinates: ``7``, ``3,1,0``; those that are left out are 0. Raises ValueError."""
    x, y, z = (*parse_sizes(text), 0, 0)[:3]
    return x, y, z


@dataclass(frozen=True, slots=True)
class TraceLaunch:
    """What a kernel is launched with beside its arguments; ``shared`` are dynamic bytes a block."""

    grid: Triple
    block: Triple
    shared: int = 0

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]


@dataclass(slots=True)
class TracedLaunch:
    """What happened. ``ran`` of ``launch.blocks`` blocks; ``work`` in lane-instructions.

    ``sampled``: blocks were left out because all would have taken long. ``fault`` or ``spent`` is
    what ended it; what ``facts`` have until then is not the whole of the blocks that were begun,
    and ``ran`` is None.
    """

    program: Program
    launch: TraceLaunch
    inputs: LaunchInputs
    facts: Facts
    touches: Touches
    ran: int | None = 0
    work: int = 0
    sampled: bool = False
    printed: list[str] = field(default_factory=list)
    """What lanes said by printf, one text a call, of groups of blocks that came to their end."""
    fault: Fault | None = None
    spent: OutOfBudget | None = None

    @property
    def executed(self) -> ExecutedFacts | None:
        """Input of the hints; None if the launch did not end normally."""
        if not self.ran:
            return None
        return executed_facts(self.facts, self.touches, self.ran, self.launch.blocks)


def trace_launch(
    program: Program,
    launch: TraceLaunch,
    make: Callable[[], LaunchInputs],
    *,
    blocks: Wanted = "auto",
    budget: int = BUDGET,
    cheap: int = CHEAP,
    values: bool = True,
    stop: Stop | None = None,
) -> TracedLaunch:
    """Runs a launch and counts what happens at each line.

    ``make`` gives new inputs each time that it is called; ``values``: also what registers
    held, which takes longer. Raises CannotRun before anything is run, LaunchError for a launch that
    no device would take, Stopped where ``stop`` says so; a fault and a budget that is spent are
    results.
    """
    program.check()
    if blocks != "auto":
        wanted: int | Sequence[int | Triple] | None = None
        if not isinstance(blocks, str):
            wanted = blocks
        chosen = choose(launch.grid, wanted).tolist()
        return _Runner(program, launch, make(), budget, values, stop).run(chosen)
    total = launch.blocks
    first = total // 2
    runner = _Runner(program, launch, make(), budget, values, stop)
    begun = runner.run([first])
    if begun.fault is not None and begun.fault.cause == "deadlock" and total > 1:
        # It waits for blocks that were not run: only all of them together come to an end.
        return _Runner(program, launch, make(), budget, values, stop).run(range(total))
    if begun.ran is None or total == 1:
        return begun
    each = max(1, begun.work)
    if each * total <= cheap:
        rest = [n for n in range(total) if n != first]
    else:
        count = max(MIN_BLOCKS, cheap // each)
        begun.sampled = count < total
        rest = [n for n in choose(launch.grid, count - 1).tolist() if n != first]
    return runner.run(rest)


def _never() -> bool:
    return False


class _Runner:
    """Runs blocks of one launch, a group after the other, and counts them together."""

    def __init__(
        self,
        program: Program,
        launch: TraceLaunch,
        inputs: LaunchInputs,
        budget: int,
        values: bool,
        stop: Stop | None,
    ) -> None:
        self.budget = budget
        facts, touches = Facts(program, values=values), Touches(program)
        self.out = TracedLaunch(program, launch, inputs, facts, touches)
        self.observer: Observer = ObserverGroup((facts, touches), stop or _never)

    def run(self, numbers: Sequence[int]) -> TracedLaunch:
        """Runs these blocks after those that were run before."""
        out = self.out
        launch = out.launch
        try:
            done = execute(
                out.program,
                launch.grid,
                launch.block,
                out.inputs.arguments,
                memory=out.inputs.memory,
                shared=launch.shared,
                blocks=list(numbers),
                budget=self.budget - out.work,
                observer=self.observer,
            )
        except Fault as fault:
            out.fault, out.ran = fault, None
            return out
        except OutOfBudget as spent:
            out.spent, out.ran, out.work = spent, None, self.budget
            return out
        out.work += done.work
        out.printed += done.printed
        out.ran = (out.ran or 0) + done.ran
        return out


# -- several observers -----------------------------------------------------------------------------


Stop = Callable[[], bool]
"""Whether what is under way is to end."""


class ObserverGroup(Observer):
    """An observer that tells several others what happens, and ends it where ``stop`` says so.

    Raises Stopped between two instructions. ``steps`` counts them.
    """

    def __init__(self, observers: Sequence[Observer], stop: Stop) -> None:
        self.observers, self.stop, self.steps = observers, stop, 0

    def visit(self, lanes: Lanes, block: BasicBlock, mask: Mask) -> None:
        for one in self.observers:
            one.visit(lanes, block, mask)

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        if self.stop():
            raise Stopped("it was stopped")
        self.steps += 1
        for one in self.observers:
            one.step(lanes, instruction, mask)

    def wrote(
        self, lanes: Lanes, instruction: int, register: int, value: Array, mask: Mask
    ) -> None:
        for one in self.observers:
            one.wrote(lanes, instruction, register, value, mask)

    def branched(self, lanes: Lanes, instruction: int, yes: Mask, no: Mask) -> None:
        for one in self.observers:
            one.branched(lanes, instruction, yes, no)

    def access(self, lanes: Lanes, access: Access) -> None:
        for one in self.observers:
            one.access(lanes, access)


# -- one block -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TracedBlock:
    """A block's steps. ``ended`` says why it did not come to its end, None where it did.

    ``facts`` count what it did, if that was asked for. ``fault`` is what a GPU would end it for:
    the last step is the one that faulted.
    """

    block: Triple
    trace: Trace
    inputs: LaunchInputs
    facts: Facts | None = None
    fault: Fault | None = None
    ended: str | None = None


def trace_block(
    program: Program,
    launch: TraceLaunch,
    inputs: LaunchInputs,
    block: Triple,
    *,
    budget: int,
    trace: Trace | None = None,
    facts: Facts | None = None,
    stop: Stop | None = None,
) -> TracedBlock:
    """Runs one block and keeps its steps, in ``trace`` with its bounds if one is given.

    A fault, a budget that is spent, a bound that is met and a stop are results: what came before
    is there. Raises CannotRun before anything is run, and UsageError for a launch that no device
    would take or a block that it has not.
    """
    program.check()
    trace = trace or Trace(program)
    observers: list[Observer] = [trace] if facts is None else [trace, facts]
    observer: Observer = trace
    if facts is not None or stop is not None:
        observer = ObserverGroup(observers, stop or _never)
    fault: Fault | None = None
    ended: str | None = None
    try:
        execute(
            program,
            launch.grid,
            launch.block,
            inputs.arguments,
            memory=inputs.memory,
            shared=launch.shared,
            blocks=[block],
            budget=budget,
            observer=observer,
        )
    except LaunchError as error:
        raise UsageError(error.message, error.hint) from None
    except Fault as error:
        fault, ended = error, error.message
    except (OutOfBudget, TraceTooLong, Stopped) as error:
        ended = f"{error.message}; the steps before that are here"
    return TracedBlock(block, trace, inputs, facts, fault, ended)
