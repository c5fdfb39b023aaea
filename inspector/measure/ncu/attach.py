"""Finds the variant of each profiled launch: by name, then by registers, code and shape.

Nothing is guessed: a launch that fits several variants alike is attached to none.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import prod

from msgspec import Struct, field

from inspector.analysis.hints.subject import Finding
from inspector.analysis.line_annotations import Samples, total
from inspector.base.errors import PtxviewError
from inspector.base.escapes import shown
from inspector.base.model import Recording, Stage, Variant
from inspector.base.units import plural, word_for
from inspector.measure.ncu.report import Dim3, NcuLaunch, Report, with_offsets
from inspector.parsers.line import Function, Kind, Line, Listing
from inspector.reader.memo import Memo
from inspector.reader.query import names
from inspector.reader.reader import Reader
from inspector.reader.variant_facts import WARP, Measured
from inspector.recording.layout import DerivedCache

# ncu prints addresses of branches, nvdisasm labels; ncu leaves out which operands are kept for
# reuse. Everything else must be equal, instruction by instruction, for samples to be shown.

_ADDRESS = re.compile(r"\A\s*/\*[0-9a-f]+\*/\s*")
_LABEL = re.compile(r"`\(([^()]*)\)")
# What the linker fills in is a number in memory.
_RELOCATED = "32@"


def place_samples(
    launch: NcuLaunch, listing: Listing, function: Function
) -> dict[int, Samples] | str:
    """The samples of a launch by line number of a listing, or why they cannot be shown there."""
    lines = listing.lines[function.first - 1 : function.last]
    coded = {line.address: line for line in lines if line.address is not None}
    start = next(iter(coded), 0)
    labels = _label_offsets(lines, start)
    reported_code = _without_padding([(i.offset, i.text) for i in launch.code])
    recorded_code = _without_padding(
        [(n - start, _ADDRESS.sub("", line.text).partition(";")[0]) for n, line in coded.items()]
    )
    if len(reported_code) != len(recorded_code):
        count = plural(len(reported_code), "instruction")
        return f"its machine code has {count}, this one {len(recorded_code)}"
    for (offset, text), (own_offset, own_text) in zip(reported_code, recorded_code, strict=True):
        if offset != own_offset or not _is_same_instruction(launch, text, own_text, labels):
            return f"its machine code differs from this at {own_offset + start:#x}: {_words(text)}"
    samples = {
        coded[i.offset + start].n: i.samples
        for i in launch.code
        if i.samples is not None and i.offset + start in coded
    }
    return samples or "the report was made without sampling"


def _label_offsets(lines: Iterable[Line], start: int) -> dict[str, str]:
    """The labels of a function, each with its offset from ``start`` as ncu prints it."""
    offsets: dict[str, str] = {}
    waiting: list[str] = []
    for line in lines:
        if line.kind is Kind.LABEL and line.label is not None:
            waiting.append(line.label)
        elif line.address is not None:
            offsets.update(dict.fromkeys(waiting, f"{line.address - start:#x}"))
            waiting = []
    return offsets


def _words(text: str) -> str:
    return " ".join(re.sub("[{}]", "", text).split()).removesuffix(";").strip()


def _without_padding(code: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """The code without the NOPs at its end, which only fill the section."""
    end = len(code)
    while end and _words(code[end - 1][1]) == "NOP":
        end -= 1
    return list(code[:end])


def _is_same_instruction(
    launch: NcuLaunch, reported: str, recorded: str, labels: Mapping[str, str]
) -> bool:
    reported_text, recorded_text = (
        _words(text).replace(".reuse", "") for text in (reported, recorded)
    )
    if _RELOCATED in recorded_text:
        return reported_text.split(",")[0] == recorded_text.split(",")[0]
    named = _LABEL.sub(lambda label: labels.get(label[1], label[0]), recorded_text)
    return reported_text == recorded_text or with_offsets(launch, reported_text) == named


Code = Callable[[], tuple[Listing, Function] | None]
Key = tuple[str, str]
"""A variant: the hash of its machine code, its symbol."""

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


class MatchedLaunch(Struct, frozen=True):
    """A launch with the ``key`` of its variant; None if that is not known, and ``why``.

    ``samples`` are by line of the variant's SASS; ``unplaced`` says why they are missing.
    """

    launch: NcuLaunch
    key: Key | None = None
    why: str = ""
    samples: Mapping[int, Samples] = field(default_factory=dict)
    unplaced: str = ""


class NcuMeasured(Measured, frozen=True):
    """What ncu measured of one variant: its ``launches``, and why samples are not at its lines."""

    launches: tuple[NcuLaunch, ...] = ()
    unplaced: str = ""


def match_launches(
    launches: Iterable[NcuLaunch], candidates: Sequence[Candidate]
) -> list[MatchedLaunch]:
    return [_match_launch(launch, candidates) for launch in launches]


def _match_launch(launch: NcuLaunch, candidates: Sequence[Candidate]) -> MatchedLaunch:
    """Narrow down by name, registers, machine code, block and grid, in this order."""
    named = [c for c in candidates if launch.demangled in c.names]
    named = named or [c for c in candidates if launch.function in c.names]
    if not named:
        return MatchedLaunch(launch, why=f"{UNRECORDED} {launch.function}")
    fitting = [c for c in named if _has_registers(launch, c)]
    if not fitting:
        counts = ", ".join(sorted({str(c.registers) for c in named}))
        why = f"it has {launch.registers} registers a thread, {launch.function} here {counts}"
        return MatchedLaunch(launch, why=why)
    return _match_code(launch, fitting)


def _match_code(launch: NcuLaunch, fitting: Sequence[Candidate]) -> MatchedLaunch:
    """The one of the candidates that the launch's machine code, block and grid fit."""
    placements = {c.key: _placement(launch, c) for c in fitting}
    same_code = [c for c in fitting if not isinstance(placements[c.key], str)]
    remaining = _of_same_size(launch, fitting, same_code)
    if not remaining:
        blocks = set().union(*(c.blocks for c in fitting))
        sizes = " or ".join(sorted(map(str, blocks)))
        return MatchedLaunch(launch, why=f"it had blocks of {launch.block}, those here {sizes}")
    if len({c.key for c in remaining}) > 1:
        why = f"it fits {len(remaining)} variants of {launch.function} alike"
        return MatchedLaunch(launch, why=why)
    key = remaining[0].key
    placement = placements[key]
    if isinstance(placement, str):
        return MatchedLaunch(launch, key, unplaced=placement)
    return MatchedLaunch(launch, key, samples=placement)


def _of_same_size(
    launch: NcuLaunch, fitting: Sequence[Candidate], same_code: Sequence[Candidate]
) -> list[Candidate]:
    """The candidates that the launch's block and grid fit best; none if no block is equal.

    There may be launches that were not recorded, so equal machine code outweighs both.
    """
    same_block = [c for c in fitting if not c.blocks or launch.block in (None, *c.blocks)]
    same_grid = [c for c in same_block if launch.grid in c.grids]
    remaining = list(same_code) or same_block
    for preferred in (same_block, same_grid):
        remaining = [c for c in remaining if c in preferred] or remaining
    return remaining


def _has_registers(launch: NcuLaunch, candidate: Candidate) -> bool:
    """Whether registers agree; if many counts would, code or recorded launches must agree too."""
    registers = candidate.registers
    reported = launch.registers
    if registers is None or reported in (None, registers):
        return True
    if reported != MIN_REPORTED_REGISTERS or registers > MIN_REPORTED_REGISTERS:
        return False
    if launch.code:
        return not isinstance(_placement(launch, candidate), str)
    return launch.grid in candidate.grids and launch.block in candidate.blocks


def _placement(launch: NcuLaunch, candidate: Candidate) -> dict[int, Samples] | str:
    if not launch.code:
        return "the report has no machine code (export the source page too)"
    try:
        code = candidate.code()
    except PtxviewError as error:
        return f"the machine code here cannot be read: {error.message}"
    return "there is no machine code here" if code is None else place_samples(launch, *code)


class ProfiledRecording:
    """A report of ncu with the reader of a recording, each of which needs the other.

    An empty report means no report. Safe to use from several threads.
    """

    def __init__(
        self,
        recording: Recording,
        cache: DerivedCache,
        device: str | None = None,
        report: Report | None = None,
    ) -> None:
        self.report = report or Report(())
        self.reader = Reader(recording, cache, device, self.measured)
        self._memo = Memo()

    def matched_launches(self) -> list[MatchedLaunch]:
        return self._memo.memoize(
            "attached", lambda: match_launches(self.report.launches, self._candidates())
        )

    def measured(self, variant: Variant) -> NcuMeasured | None:
        return self._memo.memoize("measured", self._measured).get(_key(variant))

    def _measured(self) -> dict[Key, NcuMeasured]:
        matches_by_key: defaultdict[Key, list[MatchedLaunch]] = defaultdict(list)
        for match in self.matched_launches():
            if match.key is not None:
                matches_by_key[match.key].append(match)
        return {key: _measured(matches) for key, matches in matches_by_key.items()}

    def _candidates(self) -> list[Candidate]:
        launched: set[str | None] = set()
        for launch in self.report.launches:
            launched.update((launch.function, launch.demangled))
        candidates = []
        for kernel, variant in self.reader.recording.variants():
            candidate_names = frozenset({*names(kernel), variant.symbol})
            if not launched.isdisjoint(candidate_names):
                candidates.append(self._candidate(variant, candidate_names))
        return candidates

    def _candidate(self, variant: Variant, candidate_names: frozenset[str]) -> Candidate:
        return Candidate(
            _key(variant),
            candidate_names,
            self.reader.facts.resources(variant).registers,
            _blocks(variant),
            frozenset(c.grid for c in variant.calls if c.grid is not None),
            partial(self._code, variant),
        )

    def _code(self, variant: Variant) -> tuple[Listing, Function] | None:
        if Stage.SASS not in variant.stages:
            return None
        function = self.reader.stages.function(variant, Stage.SASS)
        return (
            None
            if function is None
            else (self.reader.stages.listing(variant, Stage.SASS), function)
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
SEVERITIES = {"OPT": "hint", "WRN": "warn"}
"""Severities by ncu's kinds of rules; other kinds only inform."""


def _measured(matches: Sequence[MatchedLaunch]) -> NcuMeasured:
    """Sum up the launches of one variant."""
    launches = tuple(match.launch for match in matches)
    unplaced = next((match.unplaced for match in matches if match.unplaced), "")
    notes = [sentence(launch) for launch in launches[:MAX_LISTED_LAUNCHES]]
    if len(launches) > MAX_LISTED_LAUNCHES:
        notes.append(plural(len(launches) - MAX_LISTED_LAUNCHES, "more launch"))
    if unplaced:
        notes.append(f"no samples at the lines: {unplaced}")
    times = [launch.duration_us for launch in launches if launch.duration_us is not None]
    return NcuMeasured(
        tuple(notes),
        _findings(launches),
        _total_samples(matches),
        sum(times) / len(times) if times else None,
        _peak(launches),
        launches,
        unplaced,
    )


def _total_samples(matches: Sequence[MatchedLaunch]) -> dict[int, Samples]:
    """The samples of all launches by line, in the order of lines."""
    samples_by_line: defaultdict[int, list[Samples]] = defaultdict(list)
    for match in matches:
        for n, samples in match.samples.items():
            samples_by_line[n].append(samples)
    return {n: total(samples_by_line[n]) for n in sorted(samples_by_line)}


def _peak(launches: Sequence[NcuLaunch]) -> tuple[float, str] | None:
    """The highest share of the device's memory or compute throughput that a launch reached."""
    shares: list[tuple[float, str]] = []
    for launch in launches:
        if launch.memory_percent is not None:
            shares.append((launch.memory_percent, "memory"))
        if launch.compute_percent is not None:
            shares.append((launch.compute_percent, "compute"))
    return max(shares, default=None)


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


def _findings(launches: Sequence[NcuLaunch]) -> tuple[Finding, ...]:
    """ncu's rules as findings, the greatest speed-up first; of several launches, the first's."""
    out: dict[tuple[str, str], tuple[float, Finding]] = {}
    for launch in launches:
        prefix = f"launch {launch.number}: " if len(launches) > 1 else ""
        for rule in launch.rules:
            gain = ""
            worth = -1.0
            if rule.speedup is not None:
                worth = rule.speedup if rule.scope == "global" else -1.0
                scope = "of this part alone" if rule.scope == "local" else "of the launch's time"
                gain = f" Estimated speed-up by ncu: {rule.speedup:.4g} %, {scope}."
            severity = SEVERITIES.get(rule.kind, "info")
            text = f"{prefix}{rule.text}{gain}"
            finding = Finding(f"ncu:{shown(rule.name)}", severity, text)
            out.setdefault((rule.name, rule.text), (worth, finding))
    return tuple(finding for _, finding in sorted(out.values(), key=lambda f: -f[0]))
