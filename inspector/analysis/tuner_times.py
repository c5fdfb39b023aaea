"""What a tuner's times are worth, and what its choice costs by the GPU's own times.

Overhead and noise of its stopwatch, what is tied, and how long the GPU took for the same launches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import prod

from msgspec import Struct

from inspector.base.model import Configuration, GpuTime, Kernel, Recording, Tuning, Variant

OVERHEAD_US = 4.0
"""CUDA events around one launch read no less than this: a shorter kernel is not seen by them."""
SMALL_ELEMENTS = 4096
"""Elements that a generated kernel is through with in less than events can read."""

TICK_US = 0.04
"""Times of the GPU on an H200 are multiples of 32 ns: less than this apart is one tick or none."""
MIN_TIMED = 8
"""Launches below which quartiles say nothing of how launches differ."""

Codes = Mapping[str, object]
"""What tells the machine code of variants apart, by their ids."""


def overheads(rec: Recording) -> dict[str, float]:
    """The longest that each stopwatch of tuners took for a launch of next to no work, in µs.

    Those are generated kernels of ``SMALL_ELEMENTS`` or fewer, each in its fastest configuration.
    So much of each of its times may be that of launching alone. Nothing of stopwatches that time a
    CUDA graph of many launches.
    """
    longest: dict[str, float] = {}
    for kernel in rec.kernels:
        for tuning in kernel.autotune:
            name = tuning.stopwatch
            if name is None or "graph" in name:
                continue
            least = _least_work_us(tuning)
            overhead = OVERHEAD_US if least is None else least
            longest[name] = max(longest.get(name, OVERHEAD_US), overhead)
    return longest


def _least_work_us(tuning: Tuning) -> float | None:
    """The fastest time of a round for next to no work; None of any other round."""
    if tuning.tuner != "inductor" or not isinstance(tuning.key, Mapping):
        return None
    sizes = list(tuning.key.values())
    elements = [size for size in sizes if isinstance(size, int)]
    if not sizes or elements != sizes or prod(elements) > SMALL_ELEMENTS:
        return None
    times = [candidate.time_us for candidate in tuning.configurations]
    return min((us for us in times if us is not None), default=None)


def elsewhere(kernel: Kernel, tuning: Tuning, candidate: Configuration) -> list[float]:
    """Times of the same candidate in the kernel's other rounds for the same key."""
    times = []
    for other_round in kernel.autotune:
        if other_round is tuning or other_round.key != tuning.key:
            continue
        for other in other_round.configurations:
            same = other.config == candidate.config and other.maker == candidate.maker
            if same and other.time_us is not None:
                times.append(other.time_us)
    return times


def same_code(tuning: Tuning, candidate: Configuration, codes: Codes) -> list[Configuration]:
    """The round's candidates with the machine code of one, itself among them."""
    code = codes.get(candidate.variant or "")
    if code is None:
        return [candidate]
    return [other for other in tuning.configurations if codes.get(other.variant or "") == code]


def noises(rec: Recording, codes: Codes) -> dict[str, float]:
    """By stopwatch, how much times of the same code differ, as a share of the least.

    It is the upper quartile over the candidates that were timed in several rounds for one key,
    of any kernel; without such, over those of one round with the same machine code.
    Those are timed one after the other, and differ less than rounds do.
    """
    between: dict[str, list[float]] = {}
    within: dict[str, list[float]] = {}
    for kernel in rec.kernels:
        for tuning in kernel.autotune:
            for candidate in tuning.configurations:
                same_code_times = [
                    c.time_us for c in same_code(tuning, candidate, codes) if c.time_us
                ]
                other_round_times = [us for us in elsewhere(kernel, tuning, candidate) if us]
                times = same_code_times + other_round_times
                if candidate.time_us and len(times) > 1:
                    ratios = between if other_round_times else within
                    share = max(times) / min(times) - 1
                    ratios.setdefault(tuning.stopwatch or "", []).append(share)
    return {name: sorted(r)[len(r) * 3 // 4] for name, r in (within | between).items()}


class TunerFacts(Struct, frozen=True):
    """What a recording has of its tuners.

    ``overheads_us`` and ``noises`` are by stopwatch, ``codes`` tell the machine code of variants
    apart, ``uses`` count the rounds that a kernel, by its id, was generated from.
    """

    codes: Codes
    overheads_us: Mapping[str, float]
    noises: Mapping[str, float]
    kernels: Mapping[str, Kernel]
    uses: Mapping[str, int]

    def overhead_us(self, tuning: Tuning) -> float | None:
        """What the round's stopwatch reads of launching alone."""
        return self.overheads_us.get(tuning.stopwatch or "")

    def noise(self, tuning: Tuning) -> float | None:
        """The share by which times of the same code differ; None if nothing was timed twice."""
        return self.noises.get(tuning.stopwatch or "")

    def tied(self, tuning: Tuning) -> list[Configuration]:
        """The candidates whose times are the winner's but for noise, or whose code is.

        Where the GPU timed a candidate and the winner, its times must not tell them apart either.
        """
        winner = tuning.winner
        share = self.noise(tuning)
        if winner is None or not winner.time_us or share is None:
            return []
        most_us = winner.time_us * (1 + share)
        winner_code = same_code(tuning, winner, self.codes)
        tied = []
        for candidate in tuning.configurations:
            if candidate is winner or candidate.time_us is None:
                continue
            same_time = candidate.time_us <= most_us and _alike_on_gpu(candidate, winner)
            if same_time or candidate in winner_code:
                tied.append(candidate)
        return tied

    def tied_by_gpu(self, tuning: Tuning) -> list[Configuration]:
        """The candidates that the GPU ran as fast as ``best_by_gpu``, itself among them."""
        best = best_by_gpu(tuning)
        if best is None or best.gpu_time is None:
            return []
        best_code = same_code(tuning, best, self.codes)
        tied = []
        for candidate in tuning.configurations:
            time = candidate.gpu_time
            if time is not None and (candidate in best_code or overlap(time, best.gpu_time)):
                tied.append(candidate)
        return tied

    def cost_of_choice(self, kernel: Kernel, tuning: Tuning) -> ChoiceCost | None:
        """How much longer the program's launches take than with the candidate best by GPU time.

        None where the tuner's launches do not say: of candidates that are tied or were not timed.
        """
        winner = tuning.winner
        best = best_by_gpu(tuning)
        if winner is None or best is None or winner.gpu_time is None or best.gpu_time is None:
            return None
        if winner is best:
            return ChoiceCost(0)
        if winner in self.tied_by_gpu(tuning):
            return None
        launched_variants = self._launched_variants(kernel, tuning)
        launches = sum(variant.launches or 0 for variant in launched_variants)
        program = _only_time(launched_variants)
        program_us = None if program is None else program.median_us
        if not launches or (program is not None and _no_slower(program, best.gpu_time)):
            return ChoiceCost(None, launches or None, program_us)
        chosen_us = winner.gpu_time.median_us
        if program_us is not None:
            chosen_us = min(chosen_us, program_us)
        return ChoiceCost((chosen_us - best.gpu_time.median_us) * launches, launches, program_us)

    def _launched_variants(self, kernel: Kernel, tuning: Tuning) -> Sequence[Variant]:
        """What the program launches because of a round: the winner, or what was generated from it.

        Nothing where rounds for other sizes or operations chose the same.
        """
        if tuning.operation is not None:
            return self._generated_variants(tuning)
        if tuning.winner is None:
            return []
        variant_id = tuning.winner.variant
        for other in kernel.autotune:
            if other.winner and other.winner.variant == variant_id and other.key != tuning.key:
                return []
        return [variant for variant in kernel.variants if variant.id == variant_id]

    def _generated_variants(self, tuning: Tuning) -> Sequence[Variant]:
        """The variants of kernels that were generated from a round's choice, and from no other."""
        variants: list[Variant] = []
        for kernel_id in {use.kernel for use in tuning.uses if use.configuration == tuning.best}:
            kernel = self.kernels.get(kernel_id or "")
            if kernel is None:
                continue
            if self.uses.get(kernel.id) != 1:
                return []
            variants += kernel.variants
        return variants


class ChoiceCost(Struct, frozen=True):
    """What a choice costs the program in all of its run: an estimate of ``us``.

    It is by the program's ``launches``, None where they are not known to be of this round. Of one
    of them, ``program_us`` is the GPU time, with what else was fused into it; None where none was
    timed. It may be shorter than in the tuner, which empties caches, and then counts; where it is
    no longer than the best candidate's, the cost is unknown.
    """

    us: float | None
    launches: int | None = None
    program_us: float | None = None


def tuner_facts(rec: Recording, codes: Codes) -> TunerFacts:
    """Read what a recording has of its tuners."""
    rounds = [tuning for kernel in rec.kernels for tuning in kernel.autotune]
    kernels_by_round = [{use.kernel for use in tuning.uses if use.kernel} for tuning in rounds]
    return TunerFacts(
        codes=codes,
        overheads_us=overheads(rec),
        noises=noises(rec, codes),
        kernels={kernel.id: kernel for kernel in rec.kernels},
        uses=Counter(chain.from_iterable(kernels_by_round)),
    )


def best_by_gpu(tuning: Tuning) -> Configuration | None:
    """The candidate whose launches took the GPU the least, by their median.

    None where fewer than two were timed.
    """
    timed = [(c.gpu_time.median_us, n) for n, c in enumerate(tuning.configurations) if c.gpu_time]
    return tuning.configurations[min(timed)[1]] if len(timed) > 1 else None


def _only_time(variants: Sequence[Variant]) -> GpuTime | None:
    """The GPU's time of the one variant that was timed, None if none or several were."""
    timed = [variant.gpu_time for variant in variants if variant.gpu_time is not None]
    return timed[0] if len(timed) == 1 else None


def _no_slower(time: GpuTime, other: GpuTime) -> bool:
    return time.median_us < other.median_us or overlap(time, other)


def _alike_on_gpu(a: Configuration, b: Configuration) -> bool:
    return a.gpu_time is None or b.gpu_time is None or overlap(a.gpu_time, b.gpu_time)


def overlap(a: GpuTime, b: GpuTime) -> bool:
    """Whether two times differ by no more than repeated launches do: their quartiles overlap, or
    are one tick of the GPU's clock apart, or are of too few launches."""
    a_low, _, a_high = a.quartiles_us
    b_low, _, b_high = b.quartiles_us
    apart = max(a_low, b_low) - min(a_high, b_high)
    return apart <= TICK_US or min(a.timed, b.timed) < MIN_TIMED


class GpuTimes(Struct, frozen=True):
    """The GPU's medians of the tuner's launches of two variants, in µs.

    ``tied``: they differ by no more than repeated launches do.
    """

    a: float
    b: float
    tied: bool


class RoundTimes(Struct, frozen=True):
    """The tuner's times of two variants in one round that both were in, in µs.

    ``noise`` is the share by which times of the same code differ, ``overhead_us`` what the
    stopwatch reads of launching alone, ``gpu`` what the GPU took; None if it is not known.
    """

    round: int
    nodes: tuple[str, ...]
    stopwatch: str | None
    a: float
    b: float
    noise: float | None
    overhead_us: float | None
    gpu: GpuTimes | None = None


def rounds_of(rec: Recording, kernel: Kernel, a: str, b: str, codes: Codes) -> Iterator[RoundTimes]:
    """The rounds of a kernel's tuning that timed both of two variants, by their ids."""
    facts = tuner_facts(rec, codes)
    for number, tuning in enumerate(kernel.autotune, 1):
        timed = {c.variant: c for c in tuning.configurations if c.time_us}
        if a not in timed or b not in timed:
            continue
        gpu_a = timed[a].gpu_time
        gpu_b = timed[b].gpu_time
        yield RoundTimes(
            number,
            tuple(use.node for use in tuning.uses if use.node),
            tuning.stopwatch,
            timed[a].time_us or 0.0,
            timed[b].time_us or 0.0,
            facts.noise(tuning),
            facts.overhead_us(tuning),
            None
            if gpu_a is None or gpu_b is None
            else GpuTimes(gpu_a.median_us, gpu_b.median_us, overlap(gpu_a, gpu_b)),
        )
