"""The results of a race: a row for each variant and size, ranked among those that agree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from inspector.errors import UsageError
from inspector.measure.time.child import Said
from inspector.measure.time.racing import GatheredRace, Heard
from inspector.measure.time.results import KernelTime, Peak, Timing, median, with_time

# -- sizes of an input ----------------------------------------------------------------------------
# Sizes of an input, as a user writes them: ``N=256:12672:128``, ``M=4096``.

HOW = "Write N=256:12672:128 (first:last:step), N=256:16384:*2 (each twice the one before), or N=256,781,4096."  # noqa: E501
_RANGE = re.compile(r"(\d{1,18}):(\d{1,18}):(\*?)(\d{1,18})")
MOST = 2000


@dataclass(frozen=True, slots=True)
class Sweep:
    """The sizes that one parameter of the input takes, each once, ascending."""

    name: str
    values: tuple[int, ...]


def sweep(text: str) -> Sweep:
    """``N=first:last:step``, the last included where the steps meet it. Raises ``UsageError``."""
    name, values = _named(text, "--sweep")
    sizes = _values(values)
    if not sizes:
        raise UsageError(f"--sweep {text}: {values or 'nothing'} is not a range of sizes", HOW)
    if len(sizes) > MOST:
        raise UsageError(f"--sweep {text} has {len(sizes):,} sizes, more than {MOST:,}")
    return Sweep(name, tuple(sorted(set(sizes))))


def fixed(texts: list[str]) -> dict[str, int]:
    """Parameters fixed by texts such as ``M=4096``. Raises ``UsageError``."""
    out = {}
    for text in texts:
        name, value = _named(text, "--size")
        if not _is_size(value) or int(value) < 1:
            raise UsageError(f"--size {text}: {value or 'nothing'} is not a size", "Write M=4096.")
        out[name] = int(value)
    return out


def together(swept: Sweep | None, fixed_sizes: dict[str, int]) -> list[dict[str, int]]:
    """The sizes of each input to make; a single one with all defaults if no size is given.

    Raises ``UsageError`` where a parameter is swept and fixed.
    """
    if swept is None:
        return [dict(fixed_sizes)]
    if swept.name in fixed_sizes:
        raise UsageError(f"{swept.name} is given by both --sweep and --size")
    return [{swept.name: value, **fixed_sizes} for value in swept.values]


def _named(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise UsageError(f"{option} {text}: it does not name a parameter of inputs()", HOW)
    return name.strip(), value.strip()


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _values(text: str) -> list[int]:
    limits = _RANGE.fullmatch(text)
    if limits is None:
        parts = [p.strip() for p in text.split(",")]
        sizes = [int(p) for p in parts if _is_size(p)]
        return sizes if len(sizes) == len(parts) and all(sizes) else []
    first, last, factor, step = int(limits[1]), int(limits[2]), limits[3], int(limits[4])
    if first < 1 or step < (2 if factor else 1):
        return []
    if not factor:
        return list(range(first, min(last, first + step * MOST) + 1, step))
    out = []
    while first <= last:
        out.append(first)
        first *= step
    return out


# A span longer than the sum of the kernels by no more than this part counts as the same time.
GAP = 0.02


@dataclass(frozen=True, slots=True)
class RaceRow:
    """One variant at one size by one stopwatch.

    ``timing.kernel`` is the script's name, ``timing.variant`` the variant's, ``timing.call`` the
    number of the size. ``agrees`` is None if it was not checked, ``difference`` the greatest
    absolute one from the reference, ``wrong`` in words what disagrees. ``span_us`` is the median
    time from the first kernel's start to the last one's end. ``rank`` counts from 1 among those of
    one size that agree, None for others; rows whose medians' intervals meet share a rank.
    ``slower`` is its time as a multiple of the fastest's.
    """

    timing: Timing
    sizes: Mapping[str, int]
    dtypes: tuple[str, ...] = ()
    agrees: bool | None = None
    difference: float | None = None
    wrong: str | None = None
    span_us: float | None = None
    rank: int | None = None
    slower: float | None = None

    @property
    def gaps(self) -> bool:
        """Whether the device waited within a call for more than ``GAP`` of its time."""
        time, span = self.timing.median_us, self.span_us
        return span is not None and time is not None and span > time * (1 + GAP)


@dataclass(frozen=True, slots=True)
class Race:
    """What was raced together. ``swept`` is the size that was varied."""

    taken: str
    script: str
    python: str
    device: Mapping[str, object]
    rows: tuple[RaceRow, ...]
    peaks: tuple[Peak, ...] = ()
    data_sheet_gb_per_s: float | None = None
    swept: str | None = None
    defaults: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the variants, in the order of their declaration."""
        return tuple(dict.fromkeys(r.timing.variant for r in self.rows))


def peaks_of(copies: Iterable[Said]) -> tuple[Peak, ...]:
    """The bandwidths of the copies that child processes timed."""
    out = []
    for copy in copies:
        duration, size = median(_numbers(copy.get("samples"))), copy.get("bytes")
        if duration is not None and duration.value > 0 and isinstance(size, int):
            out.append(
                Peak(str(copy["stopwatch"]), str(copy["cache"]), size / duration.value / 1e3, size)
            )
    return tuple(out)


def rows_of(
    gathered: GatheredRace, script: str, sizes: Sequence[Mapping[str, int]], peaks: tuple[Peak, ...]
) -> tuple[RaceRow, ...]:
    """Rows of the gathered results, ranked within each size and stopwatch."""
    out: list[RaceRow] = []
    count = len(gathered.variants)
    for size_index, size in enumerate(sizes):
        of_size: list[RaceRow] = []
        for variant_index, name in enumerate(gathered.variants):
            heard = gathered.rows.get(
                size_index * count + variant_index, Heard(error="it was not run")
            )
            of_size += _rows(heard, Timing(script, name, size_index, None, None, kind="variant"),
                             size, peaks)  # fmt: skip
        out += ranked(of_size)
    return tuple(out)


def _rows(
    heard: Heard, bare: Timing, sizes: Mapping[str, int], peaks: tuple[Peak, ...]
) -> list[RaceRow]:
    about, checked = heard.about, heard.checked or {}
    moved, done = _whole(about.get("bytes")), _whole(about.get("flops"))
    bare = replace(
        bare, inputs=str(about.get("inputs", "")), bytes=moved, flops=done,
        bytes_from=None if moved is None else "script",
        flops_from=None if done is None else "script",
    )  # fmt: skip
    dtypes = about.get("dtypes")
    agrees, wrong, difference = (checked.get(k) for k in ("agrees", "why", "difference"))
    row = RaceRow(
        bare,
        dict(sizes),
        tuple(map(str, dtypes)) if isinstance(dtypes, list) else (),
        agrees if isinstance(agrees, bool) else None,
        float(difference) if isinstance(difference, int | float) else None,
        str(wrong) if wrong else None,
    )
    rows = [_timed(row, answer, peaks) for answer in heard.times]
    if heard.error is not None and all(r.timing.error is None for r in rows):
        rows.append(replace(row, timing=replace(bare, error=heard.error)))
    return rows or [replace(row, timing=replace(bare, error="no time was taken"))]


def _timed(row: RaceRow, answer: Said, peaks: tuple[Peak, ...]) -> RaceRow:
    watch, cache, clocks = (answer.get(k) for k in ("stopwatch", "cache", "clocks"))
    warnings = answer.get("warnings")
    words = tuple(map(str, warnings)) if isinstance(warnings, list) else ()
    bare = replace(
        row.timing,
        stopwatch=str(watch),
        cache=str(cache),
        warnings=(*row.timing.warnings, *words),
    )
    peak = next((p for p in peaks if p.stopwatch == watch), None)
    timing = with_time(
        bare,
        _numbers(answer.get("samples")),
        clocks if isinstance(clocks, dict) else {},
        peak,
        answer,
    )
    if timing is None:
        return replace(
            row, timing=replace(bare, error=str(answer.get("error") or "no time was taken"))
        )
    cpu, span = (median(_numbers(answer.get(k))) for k in ("cpu", "span"))
    kernels = answer.get("kernels")
    timing = replace(
        timing,
        kernels=tuple(_kernels(kernels if isinstance(kernels, list) else [])),
        cpu_us=None if cpu is None else cpu.value,
    )
    return replace(row, timing=timing, span_us=None if span is None else span.value)


def _kernels(answers: Sequence[Any]) -> Iterable[KernelTime]:
    """Each kernel of a call once, by name, in the order of their launches."""
    samples: dict[str, list[float]] = {}
    count: dict[str, int] = {}
    for answer in answers:
        if isinstance(answer, dict):
            name = str(answer.get("name"))
            samples.setdefault(name, []).extend(_numbers(answer.get("samples")))
            count[name] = count.get(name, 0) + 1
    for name, durations in samples.items():
        middle = median(durations)
        if middle is not None:
            yield KernelTime(
                name, None, middle.value, count[name], middle.low, middle.high, middle.samples
            )


def ranked(rows: Sequence[RaceRow]) -> list[RaceRow]:
    """Rows of one size in the same order with their ranks, for each stopwatch separately.

    Two whose intervals meet share a rank: no difference between them was measured.
    """
    order: dict[int, RaceRow] = {}
    for watch in dict.fromkeys(r.timing.stopwatch for r in rows):
        able = [
            (r.timing.median_us, n)
            for n, r in enumerate(rows)
            if r.timing.stopwatch == watch and r.agrees and r.timing.median_us is not None
        ]
        best: RaceRow | None = None
        fastest: float | None = None
        rank = 0
        for place, (time, n) in enumerate(sorted(able), 1):
            row = rows[n]
            if best is None or not _meet(best.timing, row.timing):
                best, rank = row, place
            fastest = time if fastest is None else fastest
            order[n] = replace(row, rank=rank, slower=time / fastest if fastest else None)
    return [order.get(n, row) for n, row in enumerate(rows)]


def _meet(a: Timing, b: Timing) -> bool:
    if a.high_us is None or b.low_us is None:
        return a.median_us == b.median_us
    return b.low_us <= a.high_us


def best_first(rows: Iterable[RaceRow]) -> list[RaceRow]:
    """Ranked ones in their order, then those that are wrong, then those that failed."""
    return sorted(
        rows,
        key=lambda r: (
            r.rank is None, r.timing.median_us is None,
            r.timing.median_us if r.timing.median_us is not None else 0.0,
        ),
    )  # fmt: skip


def _numbers(value: object) -> list[float]:
    samples = value if isinstance(value, list) else []
    return [float(s) for s in samples if isinstance(s, int | float)]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
