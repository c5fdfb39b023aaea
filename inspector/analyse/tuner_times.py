"""What a tuner's times are worth: its stopwatch's overhead, its noise, and what is tied."""

from collections.abc import Iterator, Mapping
from math import prod

from msgspec import Struct

from inspector.base.model import Configuration, Kernel, Recording, Tuning

OVERHEAD_US = 4.0
"""CUDA events around one launch read no less than this: a shorter kernel is not seen by them."""
SMALL_ELEMENTS = 4096
"""Elements that a generated kernel is through with in less than events can read."""

Codes = Mapping[str, object]
"""What tells the machine code of variants apart, by their ids."""


def overheads(rec: Recording) -> dict[str, float]:
    """The longest that each stopwatch of tuners took for a launch of next to no work, in µs.

    Those are generated kernels of ``SMALL_ELEMENTS`` or fewer, each in its fastest configuration.
    A time that is no longer may be that of launching alone. Nothing of stopwatches that time a
    CUDA graph of many launches.
    """
    out: dict[str, float] = {}
    for tuning in (tuning for kernel in rec.kernels for tuning in kernel.autotune):
        name = tuning.stopwatch
        if name is None or "graph" in name:
            continue
        sizes = list(tuning.key.values()) if isinstance(tuning.key, Mapping) else []
        elements = [size for size in sizes if isinstance(size, int)]
        small = bool(sizes) and elements == sizes and prod(elements) <= SMALL_ELEMENTS
        times = [one.time_us for one in tuning.configurations if one.time_us is not None]
        least = min(times) if small and times and tuning.by == "inductor" else OVERHEAD_US
        out[name] = max(out.get(name, OVERHEAD_US), least)
    return out


def elsewhere(kernel: Kernel, tuning: Tuning, one: Configuration) -> list[float]:
    """Times of the same candidate in the kernel's other rounds for the same key."""
    return [
        other.time_us
        for round_ in kernel.autotune
        if round_ is not tuning and round_.key == tuning.key
        for other in round_.configurations
        if other.config == one.config and other.maker == one.maker and other.time_us is not None
    ]


def same_code(tuning: Tuning, one: Configuration, codes: Codes) -> list[Configuration]:
    """The round's candidates with the machine code of one, itself among them."""
    code = codes.get(one.variant or "")
    if code is None:
        return [one]
    return [other for other in tuning.configurations if codes.get(other.variant or "") == code]


def noise(kernel: Kernel, tuning: Tuning, codes: Codes) -> float | None:
    """How much times of the same code differ, of the median candidate, as a share of the least.

    The same code is a candidate in the kernel's other rounds, and candidates of one machine code.
    None if nothing was timed twice.
    """
    ratios = []
    for one in tuning.configurations:
        own = [c.time_us for c in same_code(tuning, one, codes) if c.time_us]
        times = own + elsewhere(kernel, tuning, one)
        if one.time_us and len(times) > 1:
            ratios.append(max(times) / min(times) - 1)
    return sorted(ratios)[len(ratios) // 2] if ratios else None


def tied(kernel: Kernel, tuning: Tuning, codes: Codes) -> list[Configuration]:
    """The candidates whose times are the winner's but for noise, or whose code is."""
    winner, share = tuning.winner, noise(kernel, tuning, codes)
    if winner is None or not winner.time_us or share is None:
        return []
    most = winner.time_us * (1 + share)
    own = same_code(tuning, winner, codes)
    timed = (one for one in tuning.configurations if one is not winner and one.time_us is not None)
    return [one for one in timed if (one.time_us or 0) <= most or one in own]


class RoundTimes(Struct, frozen=True):
    """The tuner's times of two variants in one round that both were in, in µs.

    ``noise`` is the share by which times of the same code differ, ``overhead_us`` what the
    stopwatch reads of launching alone; None if it is not known.
    """

    round: int
    nodes: tuple[str, ...]
    stopwatch: str | None
    a: float
    b: float
    noise: float | None
    overhead_us: float | None


def rounds_of(rec: Recording, kernel: Kernel, a: str, b: str, codes: Codes) -> Iterator[RoundTimes]:
    """The rounds of a kernel's tuning that timed both of two variants, by their ids."""
    floors = overheads(rec)
    for number, tuning in enumerate(kernel.autotune, 1):
        times = {one.variant: one.time_us for one in tuning.configurations if one.time_us}
        if a in times and b in times:
            yield RoundTimes(
                number,
                tuple(use.node for use in tuning.uses if use.node),
                tuning.stopwatch,
                times[a],
                times[b],
                noise(kernel, tuning, codes),
                floors.get(tuning.stopwatch or ""),
            )
