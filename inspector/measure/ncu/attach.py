"""Finds the variant of each profiled launch: by name, then by registers, code and shape.

Nothing is guessed: a launch that fits several variants alike is attached to none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from inspector.analyse.line_annotations import Samples, total
from inspector.base.errors import PtxviewError
from inspector.base.text import plural
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.measure.ncu.model import Dim3, MeasuredInstruction, NcuLaunch

# -- whether the machine code is that of a listing ------------------------------------------------
# Checks that a report's machine code is that of a listing, and places its samples there.
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
    """The samples of a launch by line number of a listing, or why they cannot be shown there."""
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
        return f"its machine code has {plural(len(theirs), 'instruction')}, this one {len(ours)}"
    start = ours[0][0] if ours else 0
    end = launch.code[-1].offset
    for (offset, text), (address, our_text) in zip(theirs, ours, strict=True):
        if offset != address - start or not _same(text, our_text, launch.base, end, labels, start):
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
    """The text of an instruction without its address and semicolon."""
    return _ADDRESS.sub("", text).partition(";")[0]


def _words(text: str) -> str:
    return _SPACE.sub(" ", text.replace("{", "").replace("}", "")).strip().removesuffix(";").strip()


def _without_padding(code: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """The code without the NOPs at its end, which only fill the section."""
    end = len(code)
    while end and _words(code[end - 1][1]) == "NOP":
        end -= 1
    return list(code[:end])


def _labels(listing: Listing, function: Function) -> Iterator[tuple[str, int]]:
    """The labels of a function, each with its address."""
    waiting: list[str] = []
    for n in range(function.first, function.last + 1):
        line: Line = listing.lines[n - 1]
        if line.kind is Kind.LABEL and line.label is not None:
            waiting.append(line.label)
        elif line.address is not None:
            yield from ((name, line.address) for name in waiting)
            waiting = []


def _same(theirs: str, ours: str, base: int, end: int, labels: dict[str, int], start: int) -> bool:
    left, right = _words(theirs).replace(".reuse", ""), _words(ours).replace(".reuse", "")
    if left == right:
        return True
    if _RELOCATED in right:
        return left.split(",")[0] == right.split(",")[0]

    def offset(number: re.Match[str]) -> str:
        value = int(number[0], 16) - base
        return f"{value:#x}" if 0 <= value <= end else number[0]

    def target(label: re.Match[str]) -> str:
        address = labels.get(label[1])
        return label[0] if address is None else f"{address - start:#x}"

    return _HEX.sub(offset, left) == _LABEL.sub(target, right)


def text_of(launch: NcuLaunch, name: str) -> str:
    """The code of a report as ``cuobjdump -sass`` prints it: offsets, branches within the code."""
    end = launch.code[-1].offset if launch.code else 0

    def offset(number: re.Match[str]) -> str:
        value = int(number[0], 16) - launch.base
        return f"{value:#x}" if 0 <= value <= end else number[0]

    rows = [f"\t\tFunction : {name}"]
    for instruction in launch.code:
        text = _HEX.sub(offset, _instruction(instruction))
        rows.append(f"        /*{instruction.offset:04x}*/{' ' * 19}{text} ;")
    return "\n".join([*rows, "\t\t..........", ""])


def _instruction(instruction: MeasuredInstruction) -> str:
    """The text of an instruction on one line."""
    return _SPACE.sub(" ", instruction.text).removesuffix(";").strip()


Code = Callable[[], tuple[Listing, Function] | None]
Key = tuple[str, str]
"""A variant: the hash of its machine code, its symbol."""

Placement = dict[int, Samples] | str
"""The samples of a launch by the lines of a listing; or why they cannot be shown there."""

MIN_REPORTED_REGISTERS = 16
"""The count that ncu reports if the code needs fewer: seen on an H200 with 12."""

UNRECORDED = "no kernel here is called"
"""How the reason begins if a launch is of a kernel not recorded here, such as torch's own."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant as launches see it.

    ``names`` are all names of its kernel; ``blocks`` and ``grids`` those of its recorded launches,
    or empty. ``code`` reads its machine code.
    """

    key: Key
    names: frozenset[str]
    registers: int | None = None
    blocks: frozenset[Dim3] = frozenset()
    grids: frozenset[Dim3] = frozenset()
    code: Code = lambda: None


@dataclass(frozen=True, slots=True)
class Attached:
    """A launch with the ``key`` of its variant; None if that is not known, and ``why``.

    ``samples`` are by line of the variant's SASS; ``unplaced`` says why they are missing.
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
    """What ncu measured, by variant."""
    launches_by_key: dict[Key, list[Attached]] = {}
    for launch in attached:
        if launch.key is not None:
            launches_by_key.setdefault(launch.key, []).append(launch)
    return {
        key: NcuMeasured(tuple(launches), _summed(launches))
        for key, launches in launches_by_key.items()
    }


def _summed(launches: Iterable[Attached]) -> dict[int, Samples]:
    lines: dict[int, list[Samples]] = {}
    for launch in launches:
        for n, samples in launch.samples.items():
            lines.setdefault(n, []).append(samples)
    return {n: total(of_line) for n, of_line in sorted(lines.items())}


def _takes(needed: int | None, launched: int | None) -> bool:
    """Whether a launch with ``launched`` registers can be of code that needs ``needed``."""
    return (
        needed is None
        or launched is None
        or launched in (needed, max(needed, MIN_REPORTED_REGISTERS))
    )


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
    """The candidates with the launch's name and a fitting number of registers; or why none fits."""
    named = [c for c in candidates if launch.demangled in c.names]
    named = named or [c for c in candidates if launch.function in c.names]
    if not named:
        return f"{UNRECORDED} {launch.function}"
    possible = [c for c in named if _takes(c.registers, launch.registers)]
    if not possible:
        counts = ", ".join(sorted({str(c.registers) for c in named}))
        return f"it has {launch.registers} registers a thread, {launch.function} here {counts}"
    # Many candidates may need fewer registers: code or recorded launches must then agree.
    likely = [c for c in possible if _counted(c, launch) or _alike(c, launch)]
    why = f"it has {launch.registers} registers a thread, and the machine code of none here"
    return likely or why


def _of_code_and_shape(
    launch: NcuLaunch, candidates: Sequence[Candidate], placements: Mapping[Key, Placement]
) -> Key | str:
    """The only candidate with the launch's code, block and grid; or why no candidate fits."""
    of_block = [
        c for c in candidates if not c.blocks or launch.block is None or launch.block in c.blocks
    ]
    # There may be launches that were not recorded, so equal machine code decides.
    remaining = [c for c in candidates if not isinstance(placements[c.key], str)] or of_block
    if not remaining:
        blocks = " or ".join(sorted({str(b) for c in candidates for b in c.blocks}))
        return f"it had blocks of {launch.block}, those here {blocks}"
    remaining = [c for c in remaining if c in of_block] or remaining
    remaining = [c for c in remaining if launch.grid in c.grids and c in of_block] or remaining
    if len({c.key for c in remaining}) > 1:
        return f"it fits {len(remaining)} variants of {launch.function} alike"
    return remaining[0].key


def _placed(launch: NcuLaunch, candidate: Candidate) -> Placement:
    if not launch.code:
        return "the report has no machine code (export the source page too)"
    try:
        code = candidate.code()
    except PtxviewError as error:
        return f"the machine code here cannot be read: {error.message}"
    return "there is no machine code here" if code is None else placed(launch, *code)
