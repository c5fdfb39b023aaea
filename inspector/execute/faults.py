"""What keeps a kernel from being run to its end: what cannot be run, faults, a budget spent."""

from collections.abc import Sequence
from dataclasses import dataclass

from inspector.base.errors import PtxviewError
from inspector.base.units import plural

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class WarpGroup:
    """Warps of one block that are at the same line of the PTX; ``line`` is None if they ended."""

    block: Triple
    warps: tuple[int, ...]
    line: int | None


@dataclass(frozen=True, slots=True)
class ArrivalGroup:
    """Warps of one block that arrived at an mbarrier, or copied, in the same line of the PTX.

    ``arrivals`` and ``nbytes`` are the sums of these warps. ``now``: the line at which they are at
    the end, None if they have ended.
    """

    line: int
    block: Triple
    warps: tuple[int, ...]
    arrivals: int
    nbytes: int
    now: int | None


@dataclass(frozen=True, slots=True)
class Wait:
    """What ``threads`` of a deadlock wait for; ``block`` and ``thread`` are the first one's.

    ``kind`` is ``mbarrier``, ``barrier`` (of a block), ``cluster`` or ``memory`` (a value that
    nobody stores). ``reason`` says for what, and what is missing. ``others`` are the warps of the
    block or cluster that neither wait here nor have arrived. ``number`` is that of a block's
    barrier; ``pending`` of ``expected`` arrivals are missing.

    Of an mbarrier: the block that has it and its offset there, ``name`` of the variable, the
    number of its ``phase`` since the init in line ``init_line`` and its parity, the bytes that are
    missing (negative: more came than were expected), who arrived in this phase, and who arrived in
    earlier ones and not in this. ``unexecuted`` are the lines that arrive at this variable, or
    copy for it, and that no thread executed. Where arrivals were not recorded, these are None or
    empty.
    """

    kind: str
    line: int
    block: Triple
    thread: Triple
    threads: int
    waiting: tuple[WarpGroup, ...]
    others: tuple[WarpGroup, ...] = ()
    reason: str = ""
    number: int | None = None
    pending: int | None = None
    expected: int | None = None
    owner: Triple | None = None
    offset: int | None = None
    name: str | None = None
    phase: int | None = None
    parity: int | None = None
    nbytes: int | None = None
    init_line: int | None = None
    arrived: tuple[ArrivalGroup, ...] = ()
    absent: tuple[ArrivalGroup, ...] = ()
    unexecuted: tuple[int, ...] = ()

    @property
    def is_explained(self) -> bool:
        """Whether all whose arrivals are missing wait themselves: the cause is elsewhere."""
        if self.kind == "mbarrier":
            places = [group.now for group in self.absent]
            return bool(self.pending) and bool(places) and None not in places
        return self.kind != "memory" and None not in [group.line for group in self.others]


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change with which a deadlock's block ends, without a race: in some lines of the PTX, waits
    for the other parity, or the ``count`` of arrivals of an init."""

    lines: tuple[int, ...]
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One instruction that cannot be run: its line in the PTX, its opcode, and why."""

    line: int
    opcode: str
    reason: str


class CannotRun(PtxviewError):
    """A kernel has instructions that cannot be run; nothing was written."""

    def __init__(self, kernel: str, obstacles: Sequence[Obstacle]) -> None:
        self.obstacles = tuple(obstacles)
        first = obstacles[0]
        further_count = len(obstacles) - 1
        remainder = f", and {plural(further_count, 'more line')}" if further_count else ""
        super().__init__(
            f"{kernel} cannot be run: line {first.line}, {first.opcode}: {first.reason}{remainder}"
        )


class LaunchError(PtxviewError):
    """A launch that no device would take: a grid, a block or arguments that do not fit."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a launch something happened. Coordinates are (x, y, z)."""

    kernel: str
    line: int
    statement: str
    block: Triple | None = None
    thread: Triple | None = None

    def __str__(self) -> str:
        parts = [f"PTX line {self.line}: {self.statement}"]
        if self.thread is not None:
            parts.insert(0, f"thread {self.thread}")
        if self.block is not None:
            parts.insert(0, f"block {self.block}")
        return ", ".join(parts)


class Malformed(PtxviewError):
    """A statement that is not such as ptxas takes, which showed only when it ran.

    ``written``: whether the launch had stored something until then.
    """

    def __init__(self, place: Place, written: bool) -> None:
        super().__init__(
            f"{place.kernel} cannot be run: line {place.line} is malformed: "
            f"{place.statement[:200]}",
            "Its operands or types are not those that the PTX ISA gives it.",
        )
        self.place = place
        self.written = written


class Fault(PtxviewError):
    """What a GPU would end a launch for, or never end.

    ``cause`` is ``out of bounds``, ``null``, ``misaligned``, ``read only``, ``trap``,
    ``assertion``, ``deadlock``, ``tensor map`` or ``warp group``. ``address`` is that of the
    access, ``nbytes`` its size; ``buffer`` is the name of the nearest buffer and ``past`` how many
    bytes beyond its end the access reaches (negative where it begins before its start).
    ``written``: the buffers that the launch had written until then. ``waits``: of a deadlock, the
    likeliest cause first.
    """

    def __init__(
        self,
        cause: str,
        sentence: str,
        place: Place,
        *,
        space: str = "",
        address: int | None = None,
        nbytes: int = 0,
        buffer: str | None = None,
        past: int | None = None,
        waits: tuple[Wait, ...] = (),
    ) -> None:
        super().__init__(f"{place.kernel}: {sentence} ({place})")
        self.cause = cause
        self.place = place
        self.space = space
        self.address = address
        self.nbytes = nbytes
        self.buffer = buffer
        self.past = past
        self.waits = waits
        self.remedy: Remedy | None = None
        self.written: tuple[str, ...] = ()


class OutOfBudget(PtxviewError):
    """A launch took more than it was allowed, of lane-instructions or of seconds.

    ``work`` is in lane-instructions; ``seconds`` are those that it was allowed, None where it was
    the work that was too much. ``written`` are the buffers that were written until then,
    ``reachable`` all that the launch might have written: none of them holds what it should.
    """

    def __init__(self, kernel: str, work: int, seconds: float | None = None) -> None:
        amount = plural(work, "lane-instruction") if seconds is None else f"{seconds:g} seconds"
        super().__init__(
            f"{kernel} was stopped after {amount}, as many as it was allowed",
            "What it would have written is not known.",
        )
        self.work = work
        self.seconds = seconds
        self.written: tuple[str, ...] = ()
        self.reachable: tuple[str, ...] = ()
