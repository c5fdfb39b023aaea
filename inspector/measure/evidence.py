"""Everything that tells how long launches of a recording take, and hints, in the order of trust."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from inspector.analysis.occupancy import Device
from inspector.base.errors import PtxviewError
from inspector.base.model import Kernel, Recording, Variant
from inspector.measure.gpu_window import GpuWindow, gpu_window
from inspector.measure.launch_time import (
    BOUND,
    NCU,
    PROFILED,
    LaunchTime,
    measured_time,
)
from inspector.measure.profile.read import profiles
from inspector.measure.profile.trace import GpuWork, Profile
from inspector.measure.time.results import ESTIMATE, StoredTimes, times
from inspector.reader.reader import Reader
from inspector.reader.variant_facts import Measured

Estimate = Callable[[Kernel, Variant], float | None]


def _nothing(kernel: Kernel, variant: Variant) -> float | None:
    return None


def no_hints(variant: Variant) -> None:
    """Look for no hints."""


class Evidence(Struct, frozen=True):
    """Where times and facts of a recording's variants come from.

    ``rules`` are those of a variant's hints, what may gain most first; it is asked in the order of
    cost, None means not looked for. ``estimated`` gives the µs
    of a launch that has no measured time, ``bound`` what no launch can be shorter than, where they
    are asked for. ``works`` are the profile's kernels by the ids of kernel and variant.
    """

    times: StoredTimes
    profile: Profile | None
    measured: Callable[[Variant], Measured | None]
    device: Callable[[Variant], Device | None]
    rules: Callable[[Variant], tuple[str, ...] | None] = no_hints
    estimated: Estimate = _nothing
    bound: Estimate = _nothing
    works: Mapping[tuple[str, str], GpuWork] = field(default_factory=dict)
    window: GpuWindow | None = None

    def launch_times(self, recording: Recording) -> dict[tuple[str, str], LaunchTime]:
        """The times of a recording's launches by the ids of kernel and variant."""
        times = {(k.id, v.id): self.launch_time(k, v) for k, v in recording.variants()}
        return {ids: time for ids, time in times.items() if time is not None}

    def launch_time(self, kernel: Kernel, variant: Variant) -> LaunchTime | None:
        """The most trusted time of one launch of a variant; None where nothing is known of it.

        A tuner's time does not count: its stopwatch reads launches, not kernels.
        """
        time = measured_time(variant, self.times.representative(kernel, variant))
        if time is not None:
            return time
        work = self.works.get((kernel.id, variant.id))
        if work is not None and work.calls:
            mean = work.gpu_us / work.calls
            return LaunchTime(mean, PROFILED, mean, work.calls)
        counters = self.measured(variant)
        if counters is not None and counters.us is not None:
            return LaunchTime(counters.us, NCU, counters.us)
        if not variant.launches:
            return None
        for source, ask in ((ESTIMATE, self.estimated), (BOUND, self.bound)):
            us = ask(kernel, variant)
            if us is not None:
                return LaunchTime(us, source, us)
        return None


def evidence(reader: Reader, *, with_window: bool = True) -> Evidence:
    """The evidence of a reader's recording, without hints.

    Without ``with_window`` what the GPU did in the run is left out, which takes longest to read.
    """
    rec = reader.recording
    profile = None
    with suppress(PtxviewError):
        profile = profiles(Path(rec.path), rec, reader.cache)[1]

    return Evidence(
        times(rec.path),
        profile,
        reader.facts.measured,
        reader.facts.device,
        works={} if profile is None else works_by_variant(rec, profile.kernels),
        window=gpu_window(rec) if with_window else None,
    )


def works_by_variant(rec: Recording, works: Sequence[GpuWork]) -> dict[tuple[str, str], GpuWork]:
    """Works whose variant is sure: the only one that fits, or the only launched one that does."""
    launched = {(k.id, v.id) for k, v in rec.variants() if v.launches}
    out: dict[tuple[str, str], GpuWork] = {}
    for work in works:
        keys = [(work.kernel or "", variant) for variant in work.variants]
        sure = keys if len(keys) == 1 else [key for key in keys if key in launched]
        if len(sure) == 1:
            out[sure[0]] = work
    return out
