"""ncu's measurements for a reader: launches tied to variants, samples to lines."""

from __future__ import annotations

from math import prod

from inspector.analyse.hints.subject import Finding
from inspector.base.model import Kernel, Recording, Stage, Variant
from inspector.base.text import plural, shown, word_for
from inspector.listing.line import Function, Listing
from inspector.measure.ncu.attach import Attached, Candidate, Key, NcuMeasured, attach, by_variant
from inspector.measure.ncu.model import Dim3, NcuLaunch, Report
from inspector.reader.facts import WARP, Measured, Memo
from inspector.reader.reader import Reader
from inspector.reader.selecting import names
from inspector.recording.layout import DerivedCache

NOTHING = Report(())
SEVERITIES = {"OPT": "hint", "WRN": "warn"}
"""Severities by ncu's kinds of rules; other kinds only inform."""


class Profiled:
    """A report of ncu together with the reader of a recording.

    Launches find their variants through the reader, and the reader shows what was measured of a
    variant. An empty report means no report. Safe to use from several threads.
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
        """The report's launches in order, each with the variant that it was of."""
        return self._memo.once("attached", lambda: attach(self.report.launches, self._candidates()))

    def measured(self, variant: Variant) -> NcuMeasured | None:
        """ncu's measurements of a variant; None without any."""
        if not self.report.launches:
            return None
        measured_by_key = self._memo.once("by variant", lambda: by_variant(self.attached()))
        return measured_by_key.get(_key(variant))

    def _for_reader(self, variant: Variant) -> Measured | None:
        measured = self.measured(variant)
        if measured is None:
            return None
        return self._memo.once(
            _key(variant),
            lambda: Measured(tuple(told(measured)), tuple(ruled(measured)), measured.samples),
        )

    def _candidates(self) -> list[Candidate]:
        launched_names = {
            n for launch in self.report.launches for n in (launch.function, launch.demangled)
        }
        out = []
        for kernel, variant in self.reader.recording.variants():
            candidate_names = frozenset({*names(kernel), variant.symbol})
            if candidate_names & launched_names:
                out.append(self._candidate(kernel, variant, candidate_names))
        return out

    def _candidate(
        self, kernel: Kernel, variant: Variant, candidate_names: frozenset[str]
    ) -> Candidate:
        def code() -> tuple[Listing, Function] | None:
            if Stage.SASS not in variant.stages:
                return None
            function = self.reader.function(variant, Stage.SASS)
            return (
                None if function is None else (self.reader.listing(variant, Stage.SASS), function)
            )

        return Candidate(
            _key(variant),
            candidate_names,
            self.reader.resources(variant).registers,
            _blocks(variant),
            frozenset(c.grid for c in variant.calls if c.grid is not None),
            code,
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
    """A sentence on each launch."""
    out = [sentence(a.launch) for a in measured.launches[:MAX_LISTED_LAUNCHES]]
    if len(measured.launches) > MAX_LISTED_LAUNCHES:
        out.append(plural(len(measured.launches) - MAX_LISTED_LAUNCHES, "more launch"))
    if measured.unplaced:
        out.append(f"no samples at the lines: {measured.unplaced}")
    return out


def sentence(launch: NcuLaunch) -> str:
    """``launch 1: 4.83 µs; 10.7 % of compute, 44.1 % of memory throughput; …``."""
    parts = []
    if launch.duration_us is not None:
        parts.append(f"{launch.duration_us:.2f} µs")
    peaks = ((launch.compute_percent, "compute"), (launch.memory_percent, "memory throughput"))
    if throughputs := [f"{value:.1f} % of {limit}" for value, limit in peaks if value is not None]:
        parts.append(", ".join(throughputs))
    if launch.achieved_occupancy is not None:
        theoretical = launch.theoretical_occupancy
        of_theoretical = "" if theoretical is None else f" of {theoretical:.4g} %"
        parts.append(f"occupancy {launch.achieved_occupancy:.1f}{of_theoretical or ' %'} achieved")
    if launch.speedup is not None:
        parts.append(f"estimated speed-up {launch.speedup:.4g} % (ncu's estimate)")
    samples = launch.samples
    if samples is not None and samples.all:
        parts.append(plural(samples.all, "sample"))
    grid = ""
    if launch.grid is not None:
        blocks = word_for(prod(launch.grid), "block")
        grid = f" of {' × '.join(map(str, launch.grid))} {blocks}"
    return f"launch {launch.number}{grid}: {'; '.join(parts) or 'nothing but its name'}"


def ruled(measured: NcuMeasured) -> list[Finding]:
    """ncu's rules as findings, the greatest speed-up first; of several launches, the first's."""
    out: dict[tuple[str, str], tuple[float, Finding]] = {}
    for attached in measured.launches:
        for rule in attached.launch.rules:
            key = rule.name, rule.text
            if key in out:
                continue
            prefix = f"launch {attached.launch.number}: " if len(measured.launches) > 1 else ""
            gain = ""
            if rule.speedup is not None:
                scope = "of this part alone" if rule.scope == "local" else "of the launch's time"
                gain = f" Estimated speed-up by ncu: {rule.speedup:.4g} %, {scope}."
            finding = Finding(
                f"ncu:{shown(rule.name)}",
                SEVERITIES.get(rule.kind, "info"),
                f"{prefix}{rule.text}{gain}",
            )
            worth = rule.speedup if rule.speedup is not None and rule.scope == "global" else -1.0
            out[key] = (worth, finding)
    return [finding for _, finding in sorted(out.values(), key=lambda f: -f[0])]
