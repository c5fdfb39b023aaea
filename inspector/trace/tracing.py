"""A call's blocks are run and counted: all of them where that is cheap, else some, and said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from inspector.analyse.hints.counts import ExecutedFacts
from inspector.execute import Facts, Fault, Observer, OutOfBudget, Program, execute
from inspector.execute.launch import choose
from inspector.trace.inputs import LaunchInputs
from inspector.trace.touched import Touches, executed_facts
from inspector.trace.watched import Stop, Watched

Triple = tuple[int, int, int]

BUDGET = 1_000_000_000
"""Lane-instructions that a launch may take unless somebody says otherwise: a minute or two."""
CHEAP = 100_000_000
"""Lane-instructions up to which every block is run without being asked: a few seconds."""
LEAST_BLOCKS = 8

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
        count = max(LEAST_BLOCKS, cheap // each)
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
        self.observer: Observer = Watched((facts, touches), stop or _never)

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
