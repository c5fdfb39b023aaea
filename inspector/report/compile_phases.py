"""Whose time a compile took, and when: torch's phases told apart, as figures and as bars."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import accumulate
from operator import itemgetter

from inspector.base.model import FrameCompile, KernelCompile, Recording

Table = Mapping[str, Sequence[str]]
"""The names of phases of each part of the compiler; a name may have ``*`` in it."""

DYNAMO, TRITON, PTXAS = "Dynamo", "Triton", "ptxas"
PARTS = {
    DYNAMO: "D",
    "AOTAutograd": "A",
    "Inductor": "I",
    TRITON: "T",
    PTXAS: "p",
    "autotuning": "b",
    "nvcc": "n",
    "numba": "u",
}
"""The parts of the compiler in the order of lowering, and the letter of each in a bar."""
CLOCK_SECONDS = 0.002
"""Difference between clocks of one process."""
_BY = {"nvcc": "nvcc", "inductor": "Inductor", "numba.cuda": "numba"}


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
    """The parts of the compiler to which torch's phases belong."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: dict[str, str | None] = {}

    def part(self, name: str) -> str | None:
        """Return the part of a phase; None if only its parent tells. Exact names come first."""
        if name not in self._known:
            exact = (part for part, names in self._table.items() if name in names)
            fits = (
                p for p, names in self._table.items() if any(fnmatchcase(name, n) for n in names)
            )
            self._known[name] = next(exact, None) or next(fits, None)
        return self._known[name]

    def stretches(
        self, one: FrameCompile, kernels: Iterable[KernelCompile] = ()
    ) -> tuple[Stretch, ...]:
        """Return the time of a compile, each moment given to the innermost known phase.

        ``kernels`` are those that its process compiled at the same time.
        """
        spans = [(p.began, p.began + p.seconds, p.depth, self.part(p.name)) for p in one.phases]
        deepest = max((p.depth for p in one.phases), default=0)
        for kernel in kernels:
            spans += [(b, e, deepest + n, part) for b, e, n, part in _of_kernel(kernel)]
        return tuple(_innermost(spans))

    def rows(self, rec: Recording) -> list[TimelineRow]:
        """Return compiles, kernels outside of any, and failed kernels, in order of time."""
        timed: dict[int | None, list[KernelCompile]] = {}
        for kernel in sorted((k for k in rec.kernel_compiles if k.began is not None), key=_began):
            timed.setdefault(kernel.process, []).append(kernel)
        out, busy = [], []
        for one in rec.frame_compiles:
            inside: list[KernelCompile] = []
            if one.began is not None and one.seconds is not None:
                first, last = one.began - CLOCK_SECONDS, one.began + one.seconds + CLOCK_SECONDS
                busy.append((first, last))
                own = timed.get(one.process, [])
                places = bisect_left(own, first, key=_began), bisect_right(own, last, key=_began)
                inside = own[slice(*places)]
            out.append(TimelineRow(one, None, self.stretches(one, inside)))
        merged = union(busy)
        for kernel in rec.kernel_compiles:
            if kernel.failed is None and (kernel.hit is True or kernel.seconds is None):
                continue
            at = bisect_right(merged, _began(kernel), key=itemgetter(0)) - 1
            within = kernel.began is not None and at >= 0 and kernel.began <= merged[at][1]
            if kernel.failed is not None or not within:
                stretches = tuple(_innermost(_of_kernel(kernel)))
                out.append(TimelineRow(None, kernel, stretches, within))
        out.sort(key=lambda row: row.began if row.began is not None else float("inf"))
        return out


def of_all(rows: Iterable[TimelineRow]) -> list[Stretch]:
    """Return the stretches of all rows, each once."""
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


def _of_kernel(kernel: KernelCompile) -> Iterator[tuple[float, float, int, str]]:
    """Yield a kernel's compile and, deeper, its assembler: the last of Triton's stages."""
    if kernel.began is None or kernel.seconds is None:
        return
    ended = kernel.began + kernel.seconds
    yield kernel.began, ended, 1, _BY.get(kernel.by, TRITON)
    # The stages end where the compile does.
    name, seconds = kernel.steps[-1] if kernel.steps else ("", 0.0)
    if kernel.by == "triton" and name == "cubin":
        yield max(ended - seconds, kernel.began), ended, 2, PTXAS


def _began(kernel: KernelCompile) -> float:
    return kernel.began or 0.0
