"""How long a launch takes on the GPU, who says so, and how that is marked."""

from msgspec import Struct

from inspector.base.model import Variant
from inspector.base.units import microseconds, plural
from inspector.measure.time.results import ESTIMATE, StoredTime

RUN = "run"
TIMED = "time"
PROFILED = "profile"
NCU = "ncu"
BOUND = "bound"
"""Sources of a launch's time, the most trusted first; ``ESTIMATE`` comes before ``BOUND``."""
MARKS = {ESTIMATE: "≈ ", BOUND: "≥ "}
"""What is put before a time that was not measured."""
MEANINGS = {
    RUN: "median while the program ran",
    TIMED: "median by ptxview time",
    PROFILED: "mean by torch.profiler",
    NCU: "by ncu",
    ESTIMATE: "estimate: simulated, without a GPU",
    BOUND: "lower bound: bytes and operations at the data sheet's peaks",
}
"""What a time of each source is."""


class LaunchTime(Struct, frozen=True):
    """How long one launch of a variant takes on the GPU: a median in µs, and who says so.

    ``mean_us`` is that of all launches, where launches differ; ``timed`` how many were timed,
    None where that is no question.
    """

    us: float
    source: str
    mean_us: float
    timed: int | None = None

    @property
    def mark(self) -> str:
        """``≈`` of an estimate, ``≥`` of a lower bound."""
        return MARKS.get(self.source, "")

    @property
    def measured(self) -> bool:
        return self.source not in MARKS

    @property
    def figure(self) -> str:
        """``≈ 3.51``."""
        return self.mark + microseconds(self.us)

    @property
    def text(self) -> str:
        """``≈ 3.51 µs``."""
        return f"{self.figure} µs"

    @property
    def meaning(self) -> str:
        """``median while the program ran, of 1,720 timed launches``."""
        timed = "" if self.timed is None else f", of {plural(self.timed, 'timed launch')}"
        return MEANINGS[self.source] + timed


def measured_time(variant: Variant, stored_time: StoredTime | None) -> LaunchTime | None:
    """The time of a launch in the program's run, else the one that ``ptxview time`` took."""
    ran = variant.gpu_time
    if ran is not None:
        return LaunchTime(ran.median_us, RUN, ran.mean_us, ran.timed)
    return (
        None
        if stored_time is None
        else LaunchTime(stored_time.median_us, TIMED, stored_time.median_us)
    )
