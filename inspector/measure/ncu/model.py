"""The launches of a report of Nsight Compute (ncu); every figure is ncu's own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from inspector.analyse.line_annotations import Samples, total

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Rule:
    """The result of one of ncu's rules for a launch.

    ``kind`` is ncu's (``OPT``, ``WRN``, ``INF``), ``speedup`` its estimate in percent of the
    launch's time (``scope`` ``global``) or of one part of the chip (``local``), None if it
    estimates nothing.
    """

    name: str
    kind: str
    text: str
    section: str = ""
    scope: str | None = None
    speedup: float | None = None


@dataclass(frozen=True, slots=True)
class MeasuredInstruction:
    """One instruction of the source page: its offset in bytes from the function's start, its text.

    ``samples`` is None if the report was made without sampling.
    """

    offset: int
    text: str
    samples: Samples | None = None


@dataclass(frozen=True, slots=True)
class NcuLaunch:
    """One profiled launch. Percentages are of the peak, of time in µs, clocks in GHz.

    ``number`` and ``process`` are ncu's, ``demangled`` the name as ncu prints it and ``function``
    the function's own in it. None is "the report does not say". ``base`` is the address that the
    first instruction had.
    """

    number: int
    function: str
    demangled: str
    process: str = ""
    block: Dim3 | None = None
    grid: Dim3 | None = None
    capability: str | None = None
    device: str | None = None
    duration_us: float | None = None
    compute_percent: float | None = None
    memory_percent: float | None = None
    registers: int | None = None
    achieved_occupancy: float | None = None
    theoretical_occupancy: float | None = None
    sm_ghz: float | None = None
    cycles: int | None = None
    rules: tuple[Rule, ...] = ()
    base: int = 0
    code: tuple[MeasuredInstruction, ...] = ()

    @property
    def speedup(self) -> float | None:
        """The largest estimated speed-up of the launch as a whole, in percent of its time.

        Rules of one part of the chip alone (``local``) say nothing of the launch's time.
        """
        estimates = [r.speedup for r in self.rules if r.scope == "global" and r.speedup is not None]
        return max(estimates, default=None)

    @property
    def improvement_us(self) -> float | None:
        """The time that this speed-up would save, in µs."""
        if self.speedup is None or self.duration_us is None:
            return None
        return self.duration_us * self.speedup / 100

    @property
    def samples(self) -> Samples | None:
        """All samples of the launch, None if nothing was sampled."""
        sampled = [i.samples for i in self.code if i.samples is not None]
        return total(sampled) if sampled else None


@dataclass(frozen=True, slots=True)
class Report:
    """The launches of a report in order, the pages that it was read from, and its problems."""

    launches: tuple[NcuLaunch, ...]
    pages: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def joined(reports: Iterable[Report]) -> Report:
    """Several reports as one."""
    all_reports = list(reports)
    return Report(
        tuple(launch for r in all_reports for launch in r.launches),
        tuple(dict.fromkeys(p for r in all_reports for p in r.pages)),
        tuple(dict.fromkeys(p for r in all_reports for p in r.problems)),
    )


@lru_cache(maxsize=4096)
def function_of(demangled: str) -> str:
    """``copy`` of ``void ns::copy<float, 4>(float const*, int)``; other names as they are."""
    out: list[str] = []
    depth = 0
    for position, letter in enumerate(demangled.replace("(anonymous namespace)", "{anonymous}")):
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth -= 1
        elif letter == "(" and depth == 0 and position:
            break
        elif depth == 0:
            out.append(letter)
    return "".join(out).split("::")[-1].strip().rpartition(" ")[2] or demangled


STALLS = {
    "barrier": "other warps at a barrier",
    "branch_resolving": "a branch's target",
    "dispatch": "the dispatcher",
    "drain": "its stores to leave before it ends",
    "gmma": "tensor cores (warpgroup)",
    "imc": "the constant cache",
    "lg": "room in the queue of global memory",
    "long_sb": "global or local memory (long scoreboard)",
    "math": "a busy pipeline",
    "membar": "a memory barrier",
    "mio": "room in the queue of shared memory and special functions",
    "misc": "something else",
    "no_inst": "its next instruction to be fetched",
    "not_selected": "its turn (another warp was chosen)",
    "short_sb": "shared memory or a special function (short scoreboard)",
    "sleep": "its sleep to end",
    "tex": "room in the queue of textures",
    "wait": "a fixed number of cycles",
    "warpgroup_arrive": "its warpgroup",
}
"""What a stalled warp waits for, by the name of ncu's column without ``stall_``."""


def waits_for(reason: str) -> str:
    """What warps did on an instruction, in words; ncu's name if the reason is not known here."""
    return "issuing" if reason == "selected" else f"waiting for {STALLS.get(reason, reason)}"
