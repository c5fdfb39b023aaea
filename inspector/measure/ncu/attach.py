"""Which variant of a recording a profiled launch was of: by name, then by what it took.

Nothing is guessed: a launch that fits several variants alike is attached to none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inspector.analyse.telling import Samples, total
from inspector.errors import PtxviewError
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.measure.ncu.model import Dim3, MeasuredInstruction, NcuLaunch

# -- whether the machine code is that of a listing ------------------------------------------------
# Whether the machine code of a report is that of a listing, and where its samples stand there.
#
# ncu prints where branches went in memory, nvdisasm a label; ncu leaves out which operands are
# kept for reuse. Everything else must be equal, instruction by instruction, for samples to be
# shown.

_ADDRESS = re.compile(r"\A\s*/\*[0-9a-f]+\*/\s*")
_SPACE = re.compile(r"\s+")
_LABEL = re.compile(r"`\(([^()]*)\)")
_HEX = re.compile(r"\b0x[0-9a-f]{5,16}\b")
# What the linker fills in is a number in memory.
_RELOCATED = "32@"


def placed(launch: NcuLaunch, listing: Listing, function: Function) -> dict[int, Samples] | str:
    """The samples of a launch by the lines of a listing; or why they cannot be shown there."""
    if not launch.code:
        return "the report has no machine code (export the source page too)"
    lines = [
        listing.lines[n - 1]
        for n in range(function.first, function.last + 1)
        if listing.lines[n - 1].address is not None
    ]
    labels = dict(_labels(listing, function))
    theirs = _without_padding([(i.offset, i.text) for i in launch.code])
    ours = _without_padding([(line.address or 0, _bare(line.text)) for line in lines])
    if len(theirs) != len(ours):
        return f"its machine code has {len(theirs)} instructions, this one {len(ours)}"
    start = ours[0][0] if ours else 0
    end = launch.code[-1].offset
    for (offset, text), (address, own) in zip(theirs, ours, strict=True):
        if offset != address - start or not _same(text, own, launch.base, end, labels, start):
            return f"its machine code differs from this at {address:#x}: {_words(text)}"
    if not any(i.samples for i in launch.code):
        return "the report was made without sampling"
    by_address = {(line.address or 0) - start: line.n for line in lines}
    return {
        by_address[i.offset]: i.samples
        for i in launch.code
        if i.samples is not None and i.offset in by_address
    }


def _bare(text: str) -> str:
    """An instruction without its address and its semicolon."""
    return _ADDRESS.sub("", text).partition(";")[0]


def _words(text: str) -> str:
    return _SPACE.sub(" ", text.replace("{", "").replace("}", "")).strip().removesuffix(";").strip()


def _without_padding(code: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Without the NOPs at the end, which only fill the section."""
    end = len(code)
    while end and _words(code[end - 1][1]) == "NOP":
        end -= 1
    return list(code[:end])


def _labels(listing: Listing, function: Function) -> Iterator[tuple[str, int]]:
    """The labels of a function with the addresses that they stand for."""
    waiting: list[str] = []
    for n in range(function.first, function.last + 1):
        line: Line = listing.lines[n - 1]
        if line.kind is Kind.LABEL and line.label is not None:
            waiting.append(line.label)
        elif line.address is not None:
            yield from ((name, line.address) for name in waiting)
            waiting = []


def _same(
    theirs: str, ours: str, base: int, end: int, labels: dict[str, int], start: int
) -> bool:  # fmt: skip
    left, right = _words(theirs).replace(".reuse", ""), _words(ours).replace(".reuse", "")
    if left == right:
        return True
    if _RELOCATED in right:
        return left.split(",")[0] == right.split(",")[0]

    def offset(number: re.Match[str]) -> str:
        value = int(number[0], 16) - base
        return f"{value:#x}" if 0 <= value <= end else number[0]

    def target(label: re.Match[str]) -> str:
        at = labels.get(label[1])
        return label[0] if at is None else f"{at - start:#x}"

    return _HEX.sub(offset, left) == _LABEL.sub(target, right)


def text_of(launch: NcuLaunch, name: str) -> str:
    """The code of a report as ``cuobjdump -sass`` prints it: offsets, branches within the code."""
    end = launch.code[-1].offset if launch.code else 0

    def offset(number: re.Match[str]) -> str:
        value = int(number[0], 16) - launch.base
        return f"{value:#x}" if 0 <= value <= end else number[0]

    rows = [f"\t\tFunction : {name}"]
    for one in launch.code:
        text = _HEX.sub(offset, _instruction(one))
        rows.append(f"        /*{one.offset:04x}*/{' ' * 19}{text} ;")
    return "\n".join([*rows, "\t\t..........", ""])


def _instruction(one: MeasuredInstruction) -> str:
    """Its text on one line, whatever the report holds."""
    return _SPACE.sub(" ", one.text).removesuffix(";").strip()


Code = Callable[[], tuple[Listing, Function] | None]
Key = tuple[str, str]
"""A variant: the hash of its machine code, its symbol."""

Placement = dict[int, Samples] | str
"""The samples of a launch by the lines of a listing; or why they cannot be shown there."""

FEWEST_REGISTERS = 16
"""What ncu says of a launch whose machine code needs fewer: seen on an H200 with 12."""

STRANGER = "no kernel here is called"
"""How the reason begins where a launch is of another's kernel, as torch's own are."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant as launches see it.

    ``names`` are all that its kernel answers to; ``blocks`` and ``grids`` those that it is known
    to have been launched with, empty if none is known. ``code`` reads its machine code.
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

    launch: NcuLaunch
    key: Key | None
    why: str = ""
    samples: Mapping[int, Samples] = field(default_factory=dict)
    unplaced: str = ""


@dataclass(frozen=True, slots=True)
class NcuMeasured:
    """What ncu measured of one variant: its launches, and the sum of their samples by line."""

    launches: tuple[Attached, ...]
    samples: Mapping[int, Samples] = field(default_factory=dict)

    @property
    def sampled(self) -> Samples | None:
        """All samples that are shown, None if none are."""
        return total(self.samples.values()) if self.samples else None

    @property
    def unplaced(self) -> str:
        """Why samples of some launch are not shown, "" if all are."""
        return next((a.unplaced for a in self.launches if a.unplaced), "")


def attach(launches: Iterable[NcuLaunch], candidates: Sequence[Candidate]) -> list[Attached]:
    """The variant of each launch, in the launches' order."""
    return [_attach(launch, candidates) for launch in launches]


def by_variant(attached: Iterable[Attached]) -> dict[Key, NcuMeasured]:
    """What was measured, by variant."""
    held: dict[Key, list[Attached]] = {}
    for one in attached:
        if one.key is not None:
            held.setdefault(one.key, []).append(one)
    return {key: NcuMeasured(tuple(each), _summed(each)) for key, each in held.items()}


def _summed(each: Iterable[Attached]) -> dict[int, Samples]:
    lines: dict[int, list[Samples]] = {}
    for one in each:
        for n, samples in one.samples.items():
            lines.setdefault(n, []).append(samples)
    return {n: total(held) for n, held in sorted(lines.items())}


def _takes(held: int | None, launched: int | None) -> bool:
    """Whether a launch of that many registers can be of machine code with so many."""
    return held is None or launched is None or launched in (held, max(held, FEWEST_REGISTERS))


def _counted(candidate: Candidate, launch: NcuLaunch) -> bool:
    return candidate.registers is None or launch.registers in (None, candidate.registers)


def _alike(candidate: Candidate, launch: NcuLaunch) -> bool:
    if launch.code:
        return not isinstance(_placed(launch, candidate), str)
    return launch.grid in candidate.grids and launch.block in candidate.blocks


def _attach(launch: NcuLaunch, candidates: Sequence[Candidate]) -> Attached:
    possible = _of_name_and_registers(launch, candidates)
    if isinstance(possible, str):
        return Attached(launch, None, possible)
    placements = {c.key: _placed(launch, c) for c in possible}
    chosen = _of_code_and_shape(launch, possible, placements)
    if isinstance(chosen, str):
        return Attached(launch, None, chosen)
    placement = placements[chosen]
    if isinstance(placement, str):
        return Attached(launch, chosen, unplaced=placement)
    return Attached(launch, chosen, samples=placement)


def _of_name_and_registers(
    launch: NcuLaunch, candidates: Sequence[Candidate]
) -> list[Candidate] | str:
    """The candidates that are called so and can have taken so many registers; or why none is."""
    named = [c for c in candidates if launch.demangled in c.names]
    named = named or [c for c in candidates if launch.function in c.names]
    if not named:
        return f"{STRANGER} {launch.function}"
    possible = [c for c in named if _takes(c.registers, launch.registers)]
    if not possible:
        counts = ", ".join(sorted({str(c.registers) for c in named}))
        return f"it has {launch.registers} registers a thread, {launch.function} here {counts}"
    # Of those that need fewer there may be many: one is it by its machine code, or by its launches.
    likely = [c for c in possible if _counted(c, launch) or _alike(c, launch)]
    why = f"it has {launch.registers} registers a thread, and the machine code of none here"
    return likely or why


def _of_code_and_shape(
    launch: NcuLaunch, candidates: Sequence[Candidate], placements: Mapping[Key, Placement]
) -> Key | str:
    """The one candidate that has the launch's machine code, block and grid; or why none has."""
    of_block = [
        c for c in candidates if not c.blocks or launch.block is None or launch.block in c.blocks
    ]
    # Which launches were recorded is not all that there can be: machine code that is equal decides.
    left = [c for c in candidates if not isinstance(placements[c.key], str)] or of_block
    if not left:
        blocks = " or ".join(sorted({str(b) for c in candidates for b in c.blocks}))
        return f"it had blocks of {launch.block}, those here {blocks}"
    left = [c for c in left if c in of_block] or left
    left = [c for c in left if launch.grid in c.grids and c in of_block] or left
    if len({c.key for c in left}) > 1:
        return f"it fits {len(left)} variants of {launch.function} alike"
    return left[0].key


def _placed(launch: NcuLaunch, candidate: Candidate) -> Placement:
    if not launch.code:
        return "the report has no machine code (export the source page too)"
    try:
        code = candidate.code()
    except PtxviewError as error:
        return f"the machine code here cannot be read: {error.message}"
    return "there is no machine code here" if code is None else placed(launch, *code)
