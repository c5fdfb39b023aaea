"""Which variant of a recording a profiled launch was of: by name, then by what it took.

Nothing is guessed: a launch that fits several variants alike is attached to none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from inspector.analyse.samples import Samples, total
from inspector.bench.ncu import Dim3, Launch
from inspector.bench.ncu_code import placed
from inspector.errors import PtxviewError
from inspector.listing.line import Function, Listing

Code = Callable[[], tuple[Listing, Function] | None]
Key = tuple[str, str]
"""A variant: the hash of its machine code, its symbol."""

FEWEST_REGISTERS = 16
"""What ncu says of a launch whose machine code needs fewer: seen on an H200 with 12."""

STRANGER = "no kernel here is called"
"""How the reason begins where a launch is of another's kernel, as torch's own are."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant as launches see it.

    ``names`` are all that its kernel answers to; ``blocks`` and ``grids`` those that it is known
    to have been launched with, empty where none is known. ``code`` reads its machine code.
    """

    key: Key
    names: frozenset[str]
    registers: int | None = None
    blocks: frozenset[Dim3] = frozenset()
    grids: frozenset[Dim3] = frozenset()
    code: Code = lambda: None


@dataclass(frozen=True, slots=True)
class Attached:
    """A launch and the variant that it was of, None with the reason where that is not known.

    ``samples`` are by line of the variant's SASS; where there are none, ``unplaced`` says why.
    """

    launch: Launch
    key: Key | None
    why: str = ""
    samples: Mapping[int, Samples] = field(default_factory=dict)
    unplaced: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """What ncu measured of one variant: its launches, and the sum of their samples by line."""

    launches: tuple[Attached, ...]
    samples: Mapping[int, Samples] = field(default_factory=dict)

    @property
    def sampled(self) -> Samples | None:
        """All samples that are shown, None where none are."""
        return total(self.samples.values()) if self.samples else None

    @property
    def unplaced(self) -> str:
        """Why samples of some launch are not shown, "" where all are."""
        return next((a.unplaced for a in self.launches if a.unplaced), "")


def attach(launches: Iterable[Launch], candidates: Sequence[Candidate]) -> list[Attached]:
    """The variant of each launch, in the launches' order."""
    return [_attach(launch, candidates) for launch in launches]


def by_variant(found: Iterable[Attached]) -> dict[Key, Measured]:
    """What was measured, by variant."""
    held: dict[Key, list[Attached]] = {}
    for one in found:
        if one.key is not None:
            held.setdefault(one.key, []).append(one)
    return {key: Measured(tuple(each), _summed(each)) for key, each in held.items()}


def _summed(each: Iterable[Attached]) -> dict[int, Samples]:
    lines: dict[int, list[Samples]] = {}
    for one in each:
        for n, samples in one.samples.items():
            lines.setdefault(n, []).append(samples)
    return {n: total(held) for n, held in sorted(lines.items())}


def _takes(held: int | None, launched: int | None) -> bool:
    """Whether a launch of that many registers can be of machine code with so many."""
    return held is None or launched is None or launched in (held, max(held, FEWEST_REGISTERS))


def _counted(candidate: Candidate, launch: Launch) -> bool:
    return candidate.registers is None or launch.registers in (None, candidate.registers)


def _alike(candidate: Candidate, launch: Launch) -> bool:
    if launch.code:
        return not isinstance(_placed(launch, candidate), str)
    return launch.grid in candidate.grids and launch.block in candidate.blocks


def _attach(launch: Launch, candidates: Sequence[Candidate]) -> Attached:
    exact = [c for c in candidates if launch.demangled in c.names]
    fits = exact or [c for c in candidates if launch.function in c.names]
    if not fits:
        return Attached(launch, None, f"{STRANGER} {launch.function}")
    left = [c for c in fits if _takes(c.registers, launch.registers)]
    if not left:
        held = ", ".join(sorted({str(c.registers) for c in fits}))
        return Attached(
            launch, None,
            f"it has {launch.registers} registers a thread, {launch.function} here {held}",
        )  # fmt: skip
    # Of those that need fewer there may be many: one is it by its machine code, or by its launches.
    left = [c for c in left if _counted(c, launch) or _alike(c, launch)]
    if not left:
        why = f"it has {launch.registers} registers a thread, and the machine code of none here"
        return Attached(launch, None, why)
    of_block = [c for c in left if not c.blocks or launch.block is None or launch.block in c.blocks]
    # Which launches were recorded is not all that there can be: machine code that is equal decides.
    code = {c.key: _placed(launch, c) for c in left}
    equal = [c for c in left if not isinstance(code[c.key], str)]
    known = equal or of_block
    if not known:
        blocks = " or ".join(sorted({str(b) for c in left for b in c.blocks}))
        return Attached(launch, None, f"it had blocks of {launch.block}, those here {blocks}")
    for narrower in (
        [c for c in known if c in of_block],
        [c for c in known if launch.grid in c.grids and c in of_block],
    ):
        known = narrower or known
    if len({c.key for c in known}) > 1:
        return Attached(launch, None, f"it fits {len(known)} variants of {launch.function} alike")
    found = code[known[0].key]
    if isinstance(found, str):
        return Attached(launch, known[0].key, "", {}, found)
    return Attached(launch, known[0].key, "", found)


def _placed(launch: Launch, candidate: Candidate) -> dict[int, Samples] | str:
    if not launch.code:
        return "the report has no machine code (export the source page too)"
    try:
        held = candidate.code()
    except PtxviewError as error:
        return f"the machine code here cannot be read: {error.message}"
    return "there is no machine code here" if held is None else placed(launch, *held)
