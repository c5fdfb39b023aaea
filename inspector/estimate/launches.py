"""Times of launches that nobody measured: estimates, kept by content, and lower bounds."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from inspector import __version__
from inspector.analysis.card import needed_bytes, operations
from inspector.base.errors import PtxviewError
from inspector.base.model import Kernel, Stage, Variant
from inspector.estimate.rows import (
    BlockTimeline,
    Constants,
    LineCycles,
    block_timeline,
    constants,
    estimates,
    frequent,
    simulated,
)
from inspector.measure.evidence import Evidence, evidence
from inspector.measure.time.results import COLD, Session
from inspector.measure.time.take import device_peaks
from inspector.parsers.line import Line
from inspector.reader.reader import Reader
from inspector.reader.variant_facts import is_available

ESTIMATE_SECONDS = 60.0
"""Time that a table gives to estimates nobody asked for."""
MIN_KEPT_FAILURE_SECONDS = 1.0
"""A launch whose simulation failed later than this is not simulated again."""
MIN_BOUND_US = 0.01
"""A smaller lower bound says nothing."""

Launched = tuple[Kernel, Variant]
Kept = TypeVar("Kept")
TIME, CYCLES, TIMELINE = "estimate of a launch", "cycles of a launch", "timeline of a launch"
"""What is kept of a launch."""


class KeptEstimate(Struct, frozen=True):
    """µs of a launch; None where its simulation failed."""

    us: float | None


class LaunchEstimates:
    """Estimates of the most frequent launch of a reader's variants, each simulated once.

    They are kept by content in the user's cache. Safe to use from several threads.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[tuple[str, str], KeptEstimate | None] = {}

    def stored_us(self, kernel: Kernel, variant: Variant) -> float | None:
        """The µs of a launch that was simulated before; None if there was no simulation."""
        estimate = self._stored(kernel, variant)
        return None if estimate is None else estimate.us

    def launch_us(self, kernel: Kernel, variant: Variant) -> float | None:
        """The µs of a launch, simulated at most once; None where they cannot be estimated."""
        estimate = self._stored(kernel, variant)
        return self.simulate(kernel, variant) if estimate is None else estimate.us

    def launch_interval_us(
        self, kernel: Kernel, variant: Variant
    ) -> tuple[float, float, float] | None:
        """The µs of a launch with their interval, low and high; None without an estimate."""
        us = self.launch_us(kernel, variant)
        device = self._device()
        if us is None or device is None:
            return None
        return us, us * float(str(device["low"])), us * float(str(device["high"]))

    def missing(self, times: Evidence, pairs: Sequence[Launched]) -> list[Launched]:
        """Launched variants that have no measured time and were not simulated.

        Those that take longest by their lower bounds come first.
        """
        if constants(self._reader, None)[1] is None:
            return []
        untimed = []
        least: dict[int, float] = {}
        for kernel, variant in pairs:
            if variant.launches and variant.calls and is_available(variant, Stage.PTX):
                launch_time = times.launch_time(kernel, variant)
                measured = launch_time is not None and launch_time.measured
                if not measured and self._stored(kernel, variant) is None:
                    untimed.append((kernel, variant))
                    least[id(variant)] = (
                        0.0 if launch_time is None else launch_time.us * variant.launches
                    )
        return sorted(untimed, key=lambda pair: -least[id(pair[1])])

    def simulate(self, kernel: Kernel, variant: Variant) -> float | None:
        """The µs of a launch, which may take ten seconds; None where they cannot be estimated."""
        began = time.monotonic()
        us = None
        with suppress(PtxviewError):
            us = simulated(self._reader, frequent(kernel, variant), self._device())[0]
        took = time.monotonic() - began
        self._keep(kernel, variant, us, lasting=us is not None or took > MIN_KEPT_FAILURE_SECONDS)
        return us

    def session(self, kernel: Kernel, variant: Variant, cache: str = COLD) -> Session:
        """The estimate of a launch with its interval, or with the reason why there is none.

        That of a cold L2 is kept.
        """
        session = estimates(
            self._reader, ((kernel, variant),), 1, None, named=True, say=lambda _: None, cache=cache
        )
        us = next((row.median_us for row in session.rows), None)
        if us is not None and cache == COLD:
            self._keep(kernel, variant, us, lasting=True)
        return session

    def cycles(self, kernel: Kernel, variant: Variant) -> LineCycles:
        """The warps' cycles of a launch by its lines of SASS, which are kept with its time.

        Raises ``PtxviewError`` without an estimate.
        """
        kept_cycles = self.kept_cycles(kernel, variant)
        if kept_cycles is not None:
            return kept_cycles
        us, cycles = simulated(self._reader, frequent(kernel, variant), self._device())
        self._keep(kernel, variant, us, lasting=True)
        key = self._key(kernel, variant, CYCLES)
        self._reader.cache.store(key, msgspec.json.encode(cycles))
        return cycles

    def kept_cycles(self, kernel: Kernel, variant: Variant) -> LineCycles | None:
        """The cycles by line that somebody asked for before; None if nobody did."""
        return self._kept(kernel, variant, CYCLES, LineCycles)

    def timeline(self, kernel: Kernel, variant: Variant, cache: str = COLD) -> BlockTimeline:
        """What a block of a variant's most frequent launch does over time.

        That with a cold L2 is kept. Raises ``PtxviewError`` without an estimate.
        """
        kept = self.kept_timeline(kernel, variant) if cache == COLD else None
        if kept is not None:
            return kept
        drawn = block_timeline(self._reader, frequent(kernel, variant), self._device(), cache)
        if cache == COLD:
            key = self._key(kernel, variant, TIMELINE)
            self._reader.cache.store(key, msgspec.json.encode(drawn))
        return drawn

    def draw_missing(
        self, pairs: Sequence[Launched], seconds: float, say: Callable[[str], object]
    ) -> None:
        """Make the timelines of launches that wait for mbarriers, until the time is over."""
        until = time.monotonic() + seconds
        for kernel, variant in pairs:
            if time.monotonic() > until:
                return
            estimate = self._stored(kernel, variant)
            has_failed = estimate is not None and estimate.us is None
            if has_failed or not variant.calls or not is_available(variant, Stage.PTX):
                continue
            with suppress(PtxviewError):
                if _has_mbarriers(variant):
                    say(f"simulating a block of {kernel.display_name}")
                    self.timeline(kernel, variant)

    def kept_timeline(self, kernel: Kernel, variant: Variant) -> BlockTimeline | None:
        """The timeline that somebody asked for before; None if nobody did."""
        return self._kept(kernel, variant, TIMELINE, BlockTimeline)

    def _kept(self, kernel: Kernel, variant: Variant, kind: str, type: type[Kept]) -> Kept | None:
        if not variant.calls or not is_available(variant, Stage.PTX):
            return None
        try:
            data = self._reader.cache.get(self._key(kernel, variant, kind))
            return None if data is None else msgspec.json.decode(data, type=type)
        except (PtxviewError, msgspec.DecodeError):
            return None

    def _keep(self, kernel: Kernel, variant: Variant, us: float | None, *, lasting: bool) -> None:
        """Keep the µs of a launch, None where it failed, for this reader or ``lasting``."""
        estimate = KeptEstimate(us)
        self._known[variant.hash, variant.symbol] = estimate
        if lasting:
            key = self._key(kernel, variant, TIME)
            self._reader.cache.store(key, msgspec.json.encode(estimate))

    def simulate_missing(
        self,
        times: Evidence,
        pairs: Sequence[Launched],
        seconds: float,
        say: Callable[[str], object],
    ) -> int:
        """Simulate launches without a measured time until the time is over; how many are left."""
        until = time.monotonic() + seconds
        missing = self.missing(times, pairs)
        for count, (kernel, variant) in enumerate(missing):
            if time.monotonic() > until:
                return len(missing) - count
            say(f"estimating times: {count} of {len(missing)}, {kernel.display_name}")
            self.simulate(kernel, variant)
        return 0

    def _device(self) -> Constants | None:
        return constants(self._reader, None)[1]

    def _stored(self, kernel: Kernel, variant: Variant) -> KeptEstimate | None:
        identity = (variant.hash, variant.symbol)
        if identity not in self._known:
            self._known[identity] = None
            if self._device() is not None and variant.calls and is_available(variant, Stage.PTX):
                self._known[identity] = self._read(kernel, variant)
        return self._known[identity]

    def _read(self, kernel: Kernel, variant: Variant) -> KeptEstimate | None:
        return self._kept(kernel, variant, TIME, KeptEstimate)

    def _key(self, kernel: Kernel, variant: Variant, kind: str) -> str:
        """The digest of all that an estimate depends on: code, call, device, version.

        Raises ``PtxviewError`` without a recorded call.
        """
        call = frequent(kernel, variant).call
        facts = (
            variant.symbol,
            replace(call, count=1, first=None),
            dict(variant.config),
            dict(variant.signature),
            self._device(),
        )
        texts = [
            variant.stages[stage].content.read() if is_available(variant, stage) else b""
            for stage in (Stage.PTX, Stage.SASS)
        ]
        return self._reader.cache.key(kind, __version__, ascii(facts), *texts)


def _has_mbarriers(variant: Variant) -> bool:
    """Whether its PTX waits for mbarriers. Raises ``PtxviewError``."""
    return b"mbarrier.try_wait" in variant.stages[Stage.PTX].content.read()


def launch_evidence(
    reader: Reader,
    estimates: LaunchEstimates | None = None,
    *,
    with_window: bool = False,
) -> Evidence:
    """All that is known of a reader's launches: measured, estimated before, or a lower bound.

    Nothing is simulated, and no hints are looked for.
    """
    estimates = LaunchEstimates(reader) if estimates is None else estimates

    def bound(kernel: Kernel, variant: Variant) -> float | None:
        return reader.memo.memoize(
            ("lower bound", reader.index.key(variant)),
            lambda: lower_bound_us(reader, kernel, variant),
        )

    recorded = evidence(reader, with_window=with_window)
    return replace(recorded, estimated=estimates.stored_us, bound=bound)


TENSOR_PEAKS = {
    "f16": "fp16_tensor",
    "bf16": "bf16_tensor",
    "f32": "tf32_tensor",
    "f64": "fp64_tensor",
}
"""Peaks of tensor cores by the type of what is multiplied; of eight bits ``fp8_tensor``."""
_DOT = re.compile(r":\s*tensor<(?:\d{1,9}x){1,8}(\w{1,20})[,>]")
"""``%15 = tt.dot %a, %b, %c : tensor<64x32xf16> * tensor<32x64xf16> -> tensor<64x64xf32>``"""
_NARROW = re.compile(r"[x:\s]b?f16\b")
"""``%5 = arith.addf %3, %4 : tensor<1024xbf16>``"""


def data_sheet(reader: Reader) -> Mapping[str, float]:
    """Peaks of the device that a recording's times are of, empty where no data sheet is known."""
    return device_peaks(constants(reader, None)[0])


def lower_bound_us(reader: Reader, kernel: Kernel, variant: Variant) -> float | None:
    """What no launch of a variant's most frequent call can be shorter than, in µs.

    Its tensors' bytes at the bandwidth of the device's data sheet, from a cold L2, or the
    operations of its TTIR at the peak of their type. None where neither is known.
    """
    peaks = data_sheet(reader)
    if not peaks or not is_available(variant, Stage.TTIR):
        return None
    try:
        call = frequent(kernel, variant).call
        listing = reader.stages.listing(variant, Stage.TTIR)
        function = reader.stages.function(variant, Stage.TTIR)
    except PtxviewError:
        return None
    if function is None:
        return None
    counted = operations(listing, function, call)
    peak = peak_of(listing.between(function.first, function.last), peaks)
    by_bytes = needed_bytes(call, (listing, function)) / peaks["memory_bandwidth"] * 1e6
    by_operations = counted.value / peak * 1e6 if counted is not None and peak else 0.0
    us = max(by_bytes, by_operations)
    return us if us >= MIN_BOUND_US else None


def peak_of(lines: Sequence[Line], peaks: Mapping[str, float]) -> float | None:
    """Operations a second that no code of these lines of TTIR exceeds; None if not known.

    Of several types the fastest counts. What is no product runs on the vector units, which take
    two numbers of sixteen bits at once.
    """
    dots = [line.text for line in lines if (line.base or "").startswith("tt.dot")]
    if not dots:
        vector = peaks.get("fp32")
        narrow = any(_NARROW.search(line.text) for line in lines)
        return None if vector is None else vector * (2 if narrow else 1)
    rates = []
    for text in dots:
        match = _DOT.search(text)
        name = "fp8_tensor" if match is None else TENSOR_PEAKS.get(match[1], "fp8_tensor")
        rates.append(peaks.get(name))
    known_rates = [rate for rate in rates if rate is not None]
    return max(known_rates) if len(known_rates) == len(rates) else None
