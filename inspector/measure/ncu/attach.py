"""Finds the variant of each profiled launch: by name, then by registers, code and shape.

Nothing is guessed: a launch that fits several variants alike is attached to none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import prod

from msgspec import Struct, field

from inspector.analyse.hints.subject import Finding
from inspector.analyse.line_annotations import Samples, total
from inspector.base.errors import PtxviewError
from inspector.base.model import Recording, Stage, Variant
from inspector.base.text import plural, shown, word_for
from inspector.listing.line import Function, Kind, Listing
from inspector.measure.ncu.report import Dim3, NcuLaunch, Report, with_offsets
from inspector.reader.facts import WARP, Measured
from inspector.reader.listings import Memo
from inspector.reader.reader import Reader
from inspector.reader.selecting import names
from inspector.recording.layout import DerivedCache

# -- whether the machine code is that of a listing ------------------------------------------------
# ncu prints addresses of branches, nvdisasm labels; ncu leaves out which operands are kept for
# reuse. Everything else must be equal, instruction by instruction, for samples to be shown.

_ADDRESS = re.compile(r"\A\s*/\*[0-9a-f]+\*/\s*")
_LABEL = re.compile(r"`\(([^()]*)\)")
# What the linker fills in is a number in memory.
_RELOCATED = "32@"


def placed(launch: NcuLaunch, listing: Listing, function: Function) -> dict[int, Samples] | str:
    """The samples of a launch by line number of a listing, or why they cannot be shown there."""
    lines = listing.lines[function.first - 1 : function.last]
    coded = [line for line in lines if line.address is not None]
    start = (coded[0].address or 0) if coded else 0
    offsets = {(line.address or 0) - start: line for line in coded}
    labels: dict[str, str] = {}
    waiting: list[str] = []
    for line in lines:
        if line.kind is Kind.LABEL and line.label is not None:
            waiting.append(line.label)
        elif line.address is not None:
            labels.update(dict.fromkeys(waiting, f"{line.address - start:#x}"))
            waiting = []
    theirs = _without_padding([(i.offset, i.text) for i in launch.code])
    bare = [(n, _ADDRESS.sub("", line.text).partition(";")[0]) for n, line in offsets.items()]
    ours = _without_padding(bare)
    if len(theirs) != len(ours):
        return f"its machine code has {plural(len(theirs), 'instruction')}, this one {len(ours)}"
    for (offset, text), (own_offset, own_text) in zip(theirs, ours, strict=True):
        if offset != own_offset or not _same(launch, text, own_text, labels):
            return f"its machine code differs from this at {own_offset + start:#x}: {_words(text)}"
    samples = {
        offsets[i.offset].n: i.samples
        for i in launch.code
        if i.samples is not None and i.offset in offsets
    }
    return samples or "the report was made without sampling"


def _words(text: str) -> str:
    return " ".join(re.sub("[{}]", "", text).split()).removesuffix(";").strip()


def _without_padding(code: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """The code without the NOPs at its end, which only fill the section."""
    end = len(code)
    while end and _words(code[end - 1][1]) == "NOP":
        end -= 1
    return list(code[:end])


def _same(launch: NcuLaunch, theirs: str, ours: str, labels: Mapping[str, str]) -> bool:
    left, right = (_words(text).replace(".reuse", "") for text in (theirs, ours))
    if _RELOCATED in right:
        return left.split(",")[0] == right.split(",")[0]
    named = _LABEL.sub(lambda label: labels.get(label[1], label[0]), right)
    return left == right or with_offsets(launch, left) == named


Code = Callable[[], tuple[Listing, Function] | None]
Key = tuple[str, str]
"""A variant: the hash of its machine code, its symbol."""

Placement = dict[int, Samples] | str
"""The samples of a launch by the lines of a listing; or why they cannot be shown there."""

MIN_REPORTED_REGISTERS = 16
"""The count that ncu reports if the code needs fewer: seen on an H200 with 12."""

UNRECORDED = "no kernel here is called"
"""Begins the reason if a launch is of a kernel not recorded here, such as torch's own."""


class Candidate(Struct, frozen=True):
    """A variant as launches see it: all names of its kernel, blocks and grids of its recorded
    launches, and what reads its machine code."""

    key: Key
    names: frozenset[str]
    registers: int | None = None
    blocks: frozenset[Dim3] = frozenset()
    grids: frozenset[Dim3] = frozenset()
    code: Code = lambda: None


class Attached(Struct, frozen=True):
    """A launch with the ``key`` of its variant; None if that is not known, and ``why``.

    ``samples`` are by line of the variant's SASS; ``unplaced`` says why they are missing.
    """

    launch: NcuLaunch
    key: Key | None
    why: str = ""
    samples: Mapping[int, Samples] = field(default_factory=dict)
    unplaced: str = ""


class NcuMeasured(Struct, frozen=True):
    """What ncu measured of one variant: its launches, and the sum of their samples by line."""

    launches: tuple[Attached, ...]
    samples: Mapping[int, Samples] = field(default_factory=dict)

    @property
    def sampled(self) -> Samples | None:
        return total(self.samples.values()) if self.samples else None

    @property
    def unplaced(self) -> str:
        return next((a.unplaced for a in self.launches if a.unplaced), "")


def attach(launches: Iterable[NcuLaunch], candidates: Sequence[Candidate]) -> list[Attached]:
    return [_attach(launch, candidates) for launch in launches]


def by_variant(attached: Iterable[Attached]) -> dict[Key, NcuMeasured]:
    launches: defaultdict[Key, list[Attached]] = defaultdict(list)
    for launch in attached:
        if launch.key is not None:
            launches[launch.key].append(launch)
    out = {}
    for key, own in launches.items():
        lines = sorted({n for launch in own for n in launch.samples})
        sums = {n: total(one.samples[n] for one in own if n in one.samples) for n in lines}
        out[key] = NcuMeasured(tuple(own), sums)
    return out


def _attach(launch: NcuLaunch, candidates: Sequence[Candidate]) -> Attached:
    possible = _of_name_and_registers(launch, candidates)
    if isinstance(possible, str):
        return Attached(launch, None, possible)
    placements = {c.key: _placed(launch, c) for c in possible}
    chosen = _of_code_and_shape(launch, possible, placements)
    if isinstance(chosen, str):
        return Attached(launch, None, chosen)
    placement = placements[chosen]
    unplaced = placement if isinstance(placement, str) else ""
    return Attached(launch, chosen, "", {} if isinstance(placement, str) else placement, unplaced)


def _of_name_and_registers(
    launch: NcuLaunch, candidates: Sequence[Candidate]
) -> list[Candidate] | str:
    """The candidates with the launch's name and a fitting number of registers; or why none fits."""
    named = [c for c in candidates if launch.demangled in c.names]
    named = named or [c for c in candidates if launch.function in c.names]
    if not named:
        return f"{UNRECORDED} {launch.function}"
    launched, likely, possible = launch.registers, [], False
    for one in named:
        if one.registers is None or launched in (None, one.registers):
            likely.append(one)
        elif launched == max(one.registers, MIN_REPORTED_REGISTERS):
            # Many candidates may need fewer registers: code or recorded launches must then agree.
            possible = True
            if launch.code:
                agrees = not isinstance(_placed(launch, one), str)
            else:
                agrees = launch.grid in one.grids and launch.block in one.blocks
            likely += [one] if agrees else []
    if likely or possible:
        return likely or f"it has {launched} registers a thread, and the machine code of none here"
    counts = ", ".join(sorted({str(c.registers) for c in named}))
    return f"it has {launched} registers a thread, {launch.function} here {counts}"


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


NOTHING = Report(())
SEVERITIES = {"OPT": "hint", "WRN": "warn"}
"""Severities by ncu's kinds of rules; other kinds only inform."""


class Profiled:
    """A report of ncu with the reader of a recording, each of which needs the other.

    An empty report means no report. Safe to use from several threads.
    """

    def __init__(
        self,
        recording: Recording,
        cache: DerivedCache,
        device: str | None = None,
        report: Report = NOTHING,
    ) -> None:
        self.report = report
        self.reader = Reader(recording, cache, device, self._for_reader)
        self._memo = Memo()

    def attached(self) -> list[Attached]:
        return self._memo.once("attached", lambda: attach(self.report.launches, self._candidates()))

    def measured(self, variant: Variant) -> NcuMeasured | None:
        if not self.report.launches:
            return None
        measured_by_key = self._memo.once("by variant", lambda: by_variant(self.attached()))
        return measured_by_key.get(_key(variant))

    def _for_reader(self, variant: Variant) -> Measured | None:
        measured = self.measured(variant)
        if measured is None:
            return None
        return self._memo.once(_key(variant), lambda: _for_reader(measured))

    def _candidates(self) -> list[Candidate]:
        launched = {n for one in self.report.launches for n in (one.function, one.demangled)}
        return [
            Candidate(
                _key(variant),
                own,
                self.reader.resources(variant).registers,
                _blocks(variant),
                frozenset(c.grid for c in variant.calls if c.grid is not None),
                partial(self._code, variant),
            )
            for kernel, variant in self.reader.recording.variants()
            if (own := frozenset({*names(kernel), variant.symbol})) & launched
        ]

    def _code(self, variant: Variant) -> tuple[Listing, Function] | None:
        if Stage.SASS not in variant.stages:
            return None
        function = self.reader.function(variant, Stage.SASS)
        return None if function is None else (self.reader.listing(variant, Stage.SASS), function)


def _for_reader(measured: NcuMeasured) -> Measured:
    launches = [attached.launch for attached in measured.launches]
    times = [one.duration_us for one in launches if one.duration_us is not None]
    memory = [(one.memory_percent, "memory") for one in launches]
    peaks = [*memory, *((one.compute_percent, "compute") for one in launches)]
    return Measured(
        tuple(told(measured)),
        tuple(ruled(measured)),
        measured.samples,
        sum(times) / len(times) if times else None,
        max(((percent, what) for percent, what in peaks if percent is not None), default=None),
    )


def _key(variant: Variant) -> Key:
    return variant.hash, variant.symbol


def _blocks(variant: Variant) -> frozenset[Dim3]:
    """The block sizes that a variant was launched with, else what Triton compiled it for."""
    blocks = {c.block for c in variant.calls if c.block is not None}
    warps = variant.config.get("num_warps")
    if not blocks and isinstance(warps, int):
        blocks = {(WARP * warps, 1, 1)}
    return frozenset(blocks)


MAX_LISTED_LAUNCHES = 4
"""Launches that a card lists one by one; ``list`` has them all."""


def told(measured: NcuMeasured) -> list[str]:
    out = [sentence(a.launch) for a in measured.launches[:MAX_LISTED_LAUNCHES]]
    if len(measured.launches) > MAX_LISTED_LAUNCHES:
        out.append(plural(len(measured.launches) - MAX_LISTED_LAUNCHES, "more launch"))
    if measured.unplaced:
        out.append(f"no samples at the lines: {measured.unplaced}")
    return out


def sentence(launch: NcuLaunch) -> str:
    """``launch 1: 4.83 µs; 10.7 % of compute, 44.1 % of memory throughput; …``."""
    parts = [] if launch.duration_us is None else [f"{launch.duration_us:.2f} µs"]
    peaks = ((launch.compute_percent, "compute"), (launch.memory_percent, "memory throughput"))
    if throughputs := [f"{value:.1f} % of {limit}" for value, limit in peaks if value is not None]:
        parts.append(", ".join(throughputs))
    if launch.achieved_occupancy is not None:
        theoretical = launch.theoretical_occupancy
        of_theoretical = "" if theoretical is None else f" of {theoretical:.4g} %"
        parts.append(f"occupancy {launch.achieved_occupancy:.1f}{of_theoretical or ' %'} achieved")
    if launch.speedup is not None:
        parts.append(f"estimated speed-up {launch.speedup:.4g} % (ncu's estimate)")
    if (samples := launch.samples) is not None and samples.all:
        parts.append(plural(samples.all, "sample"))
    grid = ""
    if launch.grid is not None:
        blocks = word_for(prod(launch.grid), "block")
        grid = f" of {' × '.join(map(str, launch.grid))} {blocks}"
    return f"launch {launch.number}{grid}: {'; '.join(parts) or 'nothing but its name'}"


def ruled(measured: NcuMeasured) -> list[Finding]:
    """ncu's rules as findings, the greatest speed-up first; of several launches, the first's."""
    out: dict[tuple[str, str], tuple[float, Finding]] = {}
    for launch in (attached.launch for attached in measured.launches):
        prefix = f"launch {launch.number}: " if len(measured.launches) > 1 else ""
        for rule in launch.rules:
            gain, worth = "", -1.0
            if rule.speedup is not None:
                worth = rule.speedup if rule.scope == "global" else -1.0
                scope = "of this part alone" if rule.scope == "local" else "of the launch's time"
                gain = f" Estimated speed-up by ncu: {rule.speedup:.4g} %, {scope}."
            severity, text = SEVERITIES.get(rule.kind, "info"), f"{prefix}{rule.text}{gain}"
            finding = Finding(f"ncu:{shown(rule.name)}", severity, text)
            out.setdefault((rule.name, rule.text), (worth, finding))
    return [finding for _, finding in sorted(out.values(), key=lambda f: -f[0])]
