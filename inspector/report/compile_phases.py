"""Whose time a compile took, and when: torch's phases told apart, as figures and as bars."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import accumulate

from inspector.model import FrameCompile, KernelCompile, Recording

Table = Mapping[str, Sequence[str]]
"""The names of phases of each part of the compiler; a name may have ``*`` in it."""

DYNAMO, AOT, INDUCTOR, TRITON, PTXAS, TUNING, NVCC, NUMBA = (
    "Dynamo", "AOTAutograd", "Inductor", "Triton", "ptxas", "autotuning", "nvcc", "numba",
)  # fmt: skip
PARTS = {
    DYNAMO: "D", AOT: "A", INDUCTOR: "I", TRITON: "T", PTXAS: "p", TUNING: "b", NVCC: "n",
    NUMBA: "u",
}  # fmt: skip
"""The parts of the compiler in the order of lowering, and the letter of each in a bar."""
CLOSE = 0.002
"""Seconds by which clocks of one process may disagree."""
_BY = {"nvcc": NVCC, "inductor": INDUCTOR, "numba.cuda": NUMBA}


@dataclass(frozen=True, slots=True)
class Stretch:
    """An interval, in seconds since 1970, in which one part of the compiler was at work."""

    began: float
    ended: float
    part: str


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A compile, a kernel that was compiled outside of any, or one that was not compiled, with its
    stretches in order.

    ``within`` says of a kernel that did not compile that its time is also in a compile's row.
    """

    compile: FrameCompile | None
    kernel: KernelCompile | None
    stretches: tuple[Stretch, ...]
    within: bool = False

    @property
    def began(self) -> float | None:
        """When it began, None if that is not known."""
        one = self.compile or self.kernel
        return None if one is None else one.began


class Phases:
    """The parts of the compiler that torch's phases belong to."""

    def __init__(self, table: Table) -> None:
        self._exact: dict[str, str] = {}
        self._patterns: list[tuple[str, str]] = []
        for part, names in table.items():
            for name in names:
                if "*" in name:
                    self._patterns.append((name, part))
                else:
                    self._exact[name] = part

    def part(self, name: str) -> str | None:
        """The part that a phase belongs to; None if only its parent can tell."""
        if name not in self._exact:
            fits = (part for pattern, part in self._patterns if fnmatchcase(name, pattern))
            self._exact[name] = next(fits, "")
        return self._exact[name] or None

    def stretches(
        self, one: FrameCompile, kernels: Iterable[KernelCompile] = ()
    ) -> tuple[Stretch, ...]:
        """The time of a compile, each moment given to the innermost phase that is known.

        ``kernels`` are those that its process compiled meanwhile.
        """
        spans = [
            (p.began, p.began + p.seconds, p.depth, self.part(p.name)) for p in one.phases
        ]  # fmt: skip
        deepest = max((p.depth for p in one.phases), default=0)
        for kernel in kernels:
            spans += [
                (began, ended, deepest + n + 1, part)
                for n, (began, ended, part) in enumerate(_of_kernel(kernel))
            ]
        return tuple(_innermost(spans))

    def rows(self, rec: Recording) -> list[TimelineRow]:
        """Compiles, kernels that were compiled outside of any, and all that were not compiled, in
        order of time."""
        timed: dict[int | None, list[tuple[float, int, KernelCompile]]] = {}
        for n, kernel in enumerate(rec.kernel_compiles):
            if kernel.began is not None and kernel.seconds is not None:
                timed.setdefault(kernel.process, []).append((kernel.began, n, kernel))
        for several in timed.values():
            several.sort(key=lambda each: each[:2])
        busy = [(one.began, one.began + one.seconds) for one in rec.frame_compiles
                if one.began is not None and one.seconds is not None]  # fmt: skip
        out = []
        for one in rec.frame_compiles:
            inside = _meanwhile(timed.get(one.process, []), one)
            out.append(TimelineRow(one, None, self.stretches(one, inside)))
        merged = union(busy)
        for kernel in rec.kernel_compiles:
            if kernel.failed is None and (kernel.hit is True or kernel.seconds is None):
                continue
            within = kernel.began is not None and _covered(kernel.began, merged)
            if within and kernel.failed is None:
                continue
            spans = [(b, e, n, part) for n, (b, e, part) in enumerate(_of_kernel(kernel))]
            out.append(TimelineRow(None, kernel, tuple(_innermost(spans)), within))
        out.sort(key=lambda row: row.began if row.began is not None else float("inf"))
        return out


def of_all(rows: Iterable[TimelineRow]) -> list[Stretch]:
    """The stretches of all rows; what stands in two of them counts once."""
    return [s for row in rows if not row.within for s in row.stretches]


def by_part(stretches: Iterable[Stretch]) -> dict[str, float]:
    """Seconds of each part, in the order of lowering; parts that took none are left out."""
    seconds: dict[str, float] = {}
    for one in stretches:
        seconds[one.part] = seconds.get(one.part, 0.0) + one.ended - one.began
    return {part: seconds[part] for part in PARTS if part in seconds}


def union(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Intervals without overlaps, in order."""
    out: list[tuple[float, float]] = []
    for began, ended in sorted(intervals):
        if out and began <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], ended))
        else:
            out.append((began, ended))
    return out


def length(intervals: Iterable[tuple[float, float]]) -> float:
    """Seconds that intervals cover together."""
    return sum(ended - began for began, ended in union(intervals))


class Axis:
    """Moments as columns of a bar; time in which nothing was compiled takes none."""

    def __init__(self, rows: Sequence[TimelineRow], width: int) -> None:
        self.width = width
        self._busy = union((s.began, s.ended) for row in rows for s in row.stretches)
        self._before = list(accumulate((e - b for b, e in self._busy), initial=0.0))
        self._total = self._before[-1]

    def bar(self, stretches: Sequence[Stretch]) -> str:
        """A letter for each column: the part that had most of its time, a blank for none."""
        cells: list[dict[str, float]] = [{} for _ in range(self.width)]
        if self._total <= 0:
            return ""
        for one in stretches:
            first, last = self._at(one.began), self._at(one.ended)
            at = int(first)
            while at < self.width and at < last:
                here = min(last, at + 1) - max(first, at)
                cells[at][one.part] = cells[at].get(one.part, 0.0) + here
                at += 1
        letters = [PARTS[max(c, key=lambda part: c[part])] if c else " " for c in cells]
        bar = "".join(letters)
        if stretches and not bar.strip():
            at = min(int(self._at(stretches[0].began)), self.width - 1)
            bar = " " * at + PARTS[stretches[0].part]
        return bar.rstrip()

    def _at(self, moment: float) -> float:
        at = bisect_right(self._busy, (moment, float("inf"))) - 1
        if at < 0:
            return 0.0
        began, ended = self._busy[at]
        return (self._before[at] + min(moment, ended) - began) / self._total * self.width


def _innermost(spans: Iterable[tuple[float, float, int, str | None]]) -> Iterator[Stretch]:
    """Stretches of nested spans (began, ended, depth, part), each moment the innermost one's."""
    # One pass: what is open at a moment is a stack, as phases nest.
    spans = sorted(spans, key=lambda s: (s[0], s[2], -s[1]))
    stack: list[tuple[float, str]] = []  # until when, which part
    now = 0.0
    pieces: list[Stretch] = []

    def until(moment: float) -> None:
        nonlocal now
        while stack and stack[-1][0] <= moment:
            ended, part = stack.pop()
            if ended > now:
                pieces.append(Stretch(now, ended, part))
                now = ended
        if stack and moment > now:
            pieces.append(Stretch(now, moment, stack[-1][1]))
        now = max(now, moment)

    for began, ended, _, part in spans:
        until(began)
        within = min(ended, stack[-1][0]) if stack else ended
        stack.append((within, part or (stack[-1][1] if stack else DYNAMO)))
    until(float("inf"))
    joined: list[Stretch] = []
    for one in pieces:
        if joined and joined[-1].part == one.part and joined[-1].ended >= one.began:
            joined[-1] = Stretch(joined[-1].began, one.ended, one.part)
        else:
            joined.append(one)
    return iter(joined)


def _of_kernel(kernel: KernelCompile) -> Iterator[tuple[float, float, str]]:
    """A kernel's compile, and within it what its assembler took: the last of Triton's stages."""
    if kernel.began is None or kernel.seconds is None:
        return
    ended = kernel.began + kernel.seconds
    yield kernel.began, ended, _BY.get(kernel.by, TRITON)
    # Files are stored after the last stage and what comes before the first is longer: the stages
    # end where the compile does.
    for name, seconds in kernel.steps[-1:] if kernel.by == "triton" else ():
        if name == "cubin":
            yield max(ended - seconds, kernel.began), ended, PTXAS


def _meanwhile(
    timed: Sequence[tuple[float, int, KernelCompile]], one: FrameCompile
) -> list[KernelCompile]:
    """The kernels, ordered by when they began, that began while a compile was under way."""
    if one.began is None or one.seconds is None:
        return []
    first = bisect_left(timed, (one.began - CLOSE,))
    last = bisect_left(timed, (one.began + one.seconds + CLOSE,))
    return [kernel for _, _, kernel in timed[first:last]]


def _covered(moment: float, intervals: Sequence[tuple[float, float]]) -> bool:
    """Whether a moment lies in one of the intervals, which are in order and apart."""
    at = bisect_left(intervals, (moment + CLOSE,)) - 1
    return at >= 0 and moment <= intervals[at][1] + CLOSE
