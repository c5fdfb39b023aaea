"""A time that was taken: of what, how, and its share of the device's limits."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, takewhile
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import fields, replace

from inspector.base.model import Kernel, Variant
from inspector.recording.layout import stored_records

MAX_NUMBER = float(1 << 63)
"""No figure (bytes, operations or µs) is as large as this."""


def from_json(kind: Any, value: object) -> Any:
    """Read a value of JSON as a type: a struct, a tuple, a mapping, a text or a number.

    Fields that are missing or of another type get their defaults, elements of another type are
    left out. Raises ``TypeError`` or ``ValueError`` for a value of another type, or a needed field
    without one.
    """
    arguments = get_args(kind)
    if NoneType in arguments:
        (kind,) = (item for item in arguments if item is not NoneType)
        return None if value is None else from_json(kind, value)
    if isinstance(kind, type) and issubclass(kind, Struct):
        if not isinstance(value, dict):
            raise TypeError(f"not an object, which {kind} is")
        return _struct_from_json(kind, value)
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError("not an array")
        if arguments[-1] is not Ellipsis:
            return tuple(from_json(*item) for item in zip(arguments, value, strict=True))
        out = []
        for item in value:
            with suppress(TypeError, ValueError):
                out.append(from_json(arguments[0], item))
        return tuple(out)
    if isinstance(value, int | float) and not -MAX_NUMBER < value < MAX_NUMBER:
        raise ValueError(f"not below {MAX_NUMBER}")
    return convert(value, kind)


def _struct_from_json(kind: type[Struct], value: Mapping[str, object]) -> Struct:
    hints = get_type_hints(kind)
    values = {}
    for item in fields(kind):
        with suppress(TypeError, ValueError, KeyError):
            values[item.name] = from_json(hints[item.name], value[item.name])
    return kind(**values)


# As many of n samples are below the true median as heads fall in n throws of a coin: the binomial
# distribution alone gives the interval (W. J. Conover, Practical Nonparametric Statistics, 3.2).

CONFIDENCE = 0.95


class Median(Struct, frozen=True):
    """A median with its 95 % interval, which fewer than 6 samples do not have."""

    value: float
    low: float | None
    high: float | None
    samples: int

    @property
    def reach(self) -> float | None:
        """Half the interval as a part of the median; None if either is not known."""
        if self.low is None or self.high is None or self.value <= 0:
            return None
        return (self.high - self.low) / 2 / self.value


def rank(count: int) -> int | None:
    """The greatest k whose interval, from the k-th least to the k-th greatest, holds 95 %."""
    log_scale = math.lgamma(count + 1) - count * math.log(2)
    ways = (
        math.exp(log_scale - math.lgamma(k) - math.lgamma(count - k + 2))
        for k in range(1, count // 2 + 1)
    )
    tail = (1 - CONFIDENCE) / 2
    return sum(1 for _ in takewhile(lambda below: below <= tail, accumulate(ways))) or None


def median(samples: Sequence[float]) -> Median | None:
    """The median of the finite samples; None without any."""
    finite = sorted(s for s in samples if math.isfinite(s))
    n = len(finite)
    if not n:
        return None
    middle = (finite[(n - 1) // 2] + finite[n // 2]) / 2
    if (k := rank(n)) is None:
        return Median(middle, None, None, n)
    return Median(middle, finite[k - 1], finite[n - k], n)


ESTIMATE = "estimate"
"""The stopwatch of a time that was not measured but estimated, with its interval."""
STOPWATCHES = ("cupti", "event", "do_bench", "cudagraph")
CACHES = ("cold", "hot", "dirty")
# Warnings: half the median's interval, and a difference of clocks, as parts of the value.
WANTED = 0.01
STEADY = 0.03
MIN_SAMPLES_OF_A_THIRD = 20


class KernelTime(Struct, frozen=True):
    """One kernel of a call: its launches' own durations in µs, and how many a call makes.

    ``name`` is the recorded kernel's if known, else CUPTI's.
    """

    name: str
    variant: str | None
    median_us: float
    per_call: int
    low_us: float | None = None
    high_us: float | None = None
    samples: int = 0


class Timing(Struct, frozen=True):
    """One launch or call by one stopwatch, in µs; None: not known.

    ``kind`` is ``triton`` (a launch), ``graph`` or ``extension``: of those ``kernel`` is the
    graph's id or the function's name, ``variant`` empty, the time the sum of the device's work for
    one call, ``kernels`` its parts, and ``cpu_us`` the median CPU time until the call returned.

    ``call`` is the number of the call among the variant's, from 0, or -1 without one, ``count`` how
    often the program made it, ``inputs`` its tensors in words. ``bytes`` and ``flops`` are of one
    launch, from an ``estimate``, ``given`` by the user, or by the ``script`` that declares the
    call. ``percent_of_peak`` is of a copy's bandwidth by the same stopwatch in the same run.
    ``traced_us`` is what CUPTI read of a kernel that its tracing slows; ``median_us`` is then by a
    pair of events. ``clocks`` are the SM's lowest and highest in MHz, the device's greatest, its
    temperature in °C and what slowed it. ``kept_inputs`` are the tensors that held the program's
    own values, all others being made up; None of an estimate, and of times without such a record.
    """

    kernel: str
    variant: str
    call: int
    stopwatch: str | None = None
    cache: str | None = None
    median_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    samples: int = 0
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    bytes: int | None = None
    flops: int | None = None
    gb_per_s: float | None = None
    tflop_per_s: float | None = None
    percent_of_peak: float | None = None
    traced_us: float | None = None
    warnings: tuple[str, ...] = ()
    count: int = 1
    inputs: str = ""
    error: str | None = None
    clocks: Mapping[str, object] = field(default_factory=dict)
    kind: str = "triton"
    kernels: tuple[KernelTime, ...] = ()
    cpu_us: float | None = None
    bytes_from: str | None = None
    flops_from: str | None = None
    kept_inputs: tuple[str, ...] | None = None


TimingType = TypeVar("TimingType", bound=Timing)


class Peak(Struct, frozen=True):
    """Bandwidth in GB/s of a copy by one stopwatch; ``bytes`` are those read and written."""

    stopwatch: str
    cache: str
    gb_per_s: float
    bytes: int = 0


class Session(Struct, frozen=True):
    """What was timed together: on which device, with what, when (ISO 8601, UTC)."""

    taken: str
    device: Mapping[str, object]
    rows: tuple[Timing, ...]
    peaks: tuple[Peak, ...] = ()
    data_sheet_gb_per_s: float | None = None


def with_time(
    timing: TimingType, answer: Mapping[str, Any], peak: Peak | None = None
) -> TimingType:
    """A timing with the median of the child's ``answer`` and the rates, if it has samples."""
    samples = answer.get("samples", ())
    clocks = answer.get("clocks", {})
    if (middle := median(samples)) is None:
        return timing
    out = []
    if middle.reach is None:
        out.append("too few samples for an interval")
    elif middle.reach > WANTED:
        out.append(f"the median is known to ±{100 * middle.reach:.1f} % only")
    match clocks:
        case {"low_mhz": int() as low, "high_mhz": int() as high} if low < high * (1 - STEADY):
            out.append(f"the SM clock moved between {low} and {high} MHz")
        case {"high_mhz": int() as high, "most_mhz": int() as maximum} if high < maximum * (
            1 - STEADY
        ):
            out.append(f"the SM clock was {high} MHz of {maximum}")
    if slowed := clocks.get("slowed_by"):
        out.append("the device was slowed down by: " + ", ".join(slowed))
    out += _drift(samples)
    if (traced := answer.get("traced")) is not None:
        out.append(
            f"CUPTI's tracing slows this kernel to {traced:.4g} µs; the time is by a pair of "
            "events in a full queue, less what that reads around an empty kernel"
        )
    elif (untraced := answer.get("whole")) is not None:
        out.append(
            f"CUPTI's tracing slows some of its kernels: without it the call takes "
            f"{untraced:.4g} µs at most, the gaps between them included"
        )
    timed = replace(
        timing,
        median_us=middle.value,
        low_us=middle.low,
        high_us=middle.high,
        samples=middle.samples,
        traced_us=traced,
        warnings=(*timing.warnings, *out),
        clocks=clocks,
    )
    return _with_rates(timed, peak)


def _with_rates(timing: TimingType, peak: Peak | None) -> TimingType:
    us = timing.median_us
    if us is None or us <= 0:
        return timing
    gb = None if timing.bytes is None else timing.bytes / us / 1e3
    tflop = None if timing.flops is None else timing.flops / us / 1e6
    percent = None if gb is None or peak is None else 100 * gb / peak.gb_per_s
    return replace(timing, gb_per_s=gb, tflop_per_s=tflop, percent_of_peak=percent)


def _drift(samples: Sequence[float]) -> list[str]:
    """A warning if the last third of the samples took another time than the first."""
    third = len(samples) // 3
    if third < MIN_SAMPLES_OF_A_THIRD:
        return []
    first = median(samples[:third])
    last = median(samples[-third:])
    if first is None or last is None or abs(last.value - first.value) <= STEADY * first.value:
        return []
    return [f"it took {first.value:.4g} µs at first and {last.value:.4g} in the end"]


def timing_row(timing: Timing) -> dict[str, object]:
    call = timing.call if timing.call >= 0 else None
    return {**to_builtins(timing), "variant": timing.variant or None, "call": call}


def stored_session(session: Session) -> dict[str, object]:
    return {**to_builtins(session), "rows": [timing_row(t) for t in session.rows]}


def read(stored: Mapping[str, object]) -> Session | None:
    """A stored session; None if it is not one. Damaged rows are left out."""
    rows = stored.get("rows")
    if not isinstance(rows, list):
        return None
    named = [{**r, "variant": r.get("variant", 0) or ""} for r in rows if isinstance(r, dict)]
    with suppress(TypeError, ValueError):
        return cast(Session, from_json(Session, {**stored, "rows": named}))
    return None


def amounts(source: str, moved_bytes: int | None, operations: int | None) -> dict[str, Any]:
    """Fields of a timing for its bytes and operations, if known, and where they are from."""
    figures = {
        name: n for name, n in (("bytes", moved_bytes), ("flops", operations)) if n is not None
    }
    return {**figures, **{f"{name}_from": source for name in figures}}


def with_amounts(session: Session, moved_bytes: int | None, operations: int | None) -> Session:
    """A session with the given bytes and operations of one launch; None leaves the estimate."""
    figures = amounts("given", moved_bytes, operations)
    peaks = {peak.stopwatch: peak for peak in reversed(session.peaks)}
    rows = [
        _with_rates(replace(row, **figures), peaks.get(row.stopwatch or "")) for row in session.rows
    ]
    return replace(session, rows=tuple(rows)) if figures else session


OWN = "cupti"
COLD = "cold"
"""The stopwatch that reads a kernel's own duration, and the preferred state of the L2."""
HOT = "hot"


class StoredTime(Struct, frozen=True):
    """A time of one kernel, of a launch or within a call, with its median in µs.

    ``taken`` is when that was (ISO 8601), ``device`` the device's name, ``inputs`` are the
    tensors of that launch or call in words, ``session`` counts the sessions before.
    """

    timing: Timing
    median_us: float
    taken: str
    device: str | None
    inputs: str
    session: int = 0

    @property
    def cache(self) -> str:
        return self.timing.cache or ""


class StoredTimes:
    """The times that are stored with a recording, in the order in which they were taken."""

    def __init__(self, sessions: Sequence[Session] = ()) -> None:
        self.sessions: tuple[Session, ...] = ()
        self._taken: dict[str, list[StoredTime]] = {}
        for session in sessions:
            self.add(session)

    def add(self, session: Session) -> None:
        number = len(self.sessions)
        self.sessions = (*self.sessions, session)
        name = session.device.get("name")
        device = name if isinstance(name, str) else None
        for row in session.rows:
            for part in parts(row):
                us = part.median_us
                if us is not None and math.isfinite(us) and us > 0:
                    stored_time = StoredTime(part, us, session.taken, device, row.inputs, number)
                    self._taken.setdefault(part.kernel, []).append(stored_time)

    def all_of(self, kernel: Kernel, variant: Variant) -> tuple[StoredTime, ...]:
        """Every time of a variant by any stopwatch, the oldest first."""
        # An id is as long as it must be: it may have grown since.
        return tuple(
            stored_time
            for stored_time in self._taken.get(kernel.name, ())
            if stored_time.timing.variant == variant.id
            or variant.hash.startswith(stored_time.timing.variant)
        )

    def representative(self, kernel: Kernel, variant: Variant) -> StoredTime | None:
        """The representative time of a variant; None if it was not measured."""
        return next(iter(self._kernel_times(kernel, variant)), None)

    def by_inputs(self, kernel: Kernel, variant: Variant) -> Mapping[str, StoredTime]:
        """The time of a variant with each kind of inputs that it was timed with."""
        out: dict[str, StoredTime] = {}
        for stored_time in self._kernel_times(kernel, variant):
            out.setdefault(stored_time.inputs, stored_time)
        return out

    def __bool__(self) -> bool:
        times = (time for entries in self._taken.values() for time in entries)
        return any(time.timing.stopwatch == OWN for time in times)

    def _kernel_times(self, kernel: Kernel, variant: Variant) -> list[StoredTime]:
        """The variant's times by CUPTI, the representative one first."""

        def rank(time: StoredTime) -> tuple[bool, int, bool, int]:
            # A launch timed alone comes before one within a call of many.
            timing = time.timing
            return timing.cache != COLD, -time.session, timing.kind != "triton", -timing.count

        kernel_times = (
            time for time in self.all_of(kernel, variant) if time.timing.stopwatch == OWN
        )
        return sorted(kernel_times, key=rank)


def parts(row: Timing) -> tuple[Timing, ...]:
    """A launch's own timing; for a call of a graph or function, a timing of each known kernel."""
    if row.variant:
        return (row,)
    inputs_text = f"in a call of {row.kernel}" + (f": {row.inputs}" if row.inputs else "")
    call_fields = ("bytes", "flops", "gb_per_s", "tflop_per_s", "percent_of_peak", "cpu_us")
    unknown: dict[str, Any] = dict.fromkeys(call_fields)
    return tuple(
        replace(
            row,
            kernel=kernel.name,
            variant=kernel.variant,
            median_us=kernel.median_us,
            low_us=kernel.low_us,
            high_us=kernel.high_us,
            samples=kernel.samples,
            inputs=inputs_text,
            kernels=(),
            **unknown,
        )
        for kernel in row.kernels
        if kernel.variant
    )


def comparable_times(
    a: Mapping[str, StoredTime], b: Mapping[str, StoredTime]
) -> tuple[StoredTime, StoredTime] | None:
    """Times of two variants on the same inputs and device, with the L2 in the same state."""
    for inputs, time in a.items():
        other = b.get(inputs)
        if other and (other.device, other.cache) == (time.device, time.cache):
            return time, other
    return None


def times(path: str | Path) -> StoredTimes:
    """The times stored with the recording at a path; none if there is no recording."""
    return StoredTimes(sessions(Path(path)))


def sessions(path: Path) -> list[Session]:
    return [s for s in map(read, stored_records(path)) if s is not None]
