"""Whether figures keep to their limits: each limit of each variant is one verdict.

An unknown figure passes no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from inspector.analyse.hints.subject import Finding
from inspector.base.model import Kernel, Location, Stage, Variant
from inspector.diff.check.limits import FIGURES, Allowance, Limits


class Outcome(StrEnum):
    """How a limit was kept."""

    KEPT = "kept"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a limit was broken: a line of a stage and, where it is known, of the user's file."""

    stage: Stage | None = None
    line: int | None = None
    source: Location | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """The metrics of one variant, by the names of ``FIGURES``; None and missing are not known.

    ``findings`` are the hints on it. ``why`` says why a figure is not known, or why nobody can say
    whether a rule of hints holds.
    ``place`` finds the line at which a figure, or a rule of hints, comes about.
    """

    values: Mapping[str, float | None]
    findings: tuple[Finding, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    place: Callable[[str], Place] = lambda name: Place()


@dataclass(frozen=True, slots=True)
class Subject:
    """What a verdict is on: a variant of a kernel, or a graph by its name."""

    kernel: Kernel | None = None
    variant: Variant | None = None
    graph: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One limit of one subject.

    ``what`` is a figure's name or a hint's rule. ``limit`` is what was allowed, inclusive; of one
    that follows from a baseline, ``base`` is the baseline's figure and ``allowed`` how much worse
    it may be. ``value`` and ``limit`` are None of a hint that was forbidden, of which ``said`` is
    what it says; of what is not known ``said`` is why.
    """

    subject: Subject
    what: str
    outcome: Outcome
    value: float | None = None
    limit: float | None = None
    base: float | None = None
    allowed: Allowance | None = None
    said: str = ""
    place: Place = Place()

    @property
    def by(self) -> float | None:
        """How far the limit was passed, in the figure's own unit; None if it was not."""
        if self.outcome is not Outcome.BROKEN or self.value is None or self.limit is None:
            return None
        return abs(self.value - self.limit)


def judge(
    subject: Subject, figures: Figures, limits: Limits, before: Figures | None = None
) -> Iterator[Verdict]:
    """Yield a verdict for every limit that applies; ``before`` are the baseline's metrics."""
    for name in FIGURES:
        if name == "kernels":
            continue
        if name in limits.bounds:
            yield _judged(subject, figures, name, limits.bounds[name])
        allowed = limits.allowed.get(name)
        if before is None or allowed is None:
            continue
        value, base = figures.values.get(name), before.values.get(name)
        if base is not None and value is not None:
            limit = allowed.worst(base, FIGURES[name].least)
            yield _judged(subject, figures, name, limit, base, allowed)
        elif not (allowed.implied and value is base is None):
            missing = value is None
            said = _why(figures, name) if missing else f"in the baseline: {_why(before, name)}"
            yield Verdict(subject, name, Outcome.UNKNOWN, value, None, base, allowed, said)
    for rule in sorted(limits.forbidden):
        yield from _hint(subject, figures, rule)


def _judged(
    subject: Subject,
    figures: Figures,
    name: str,
    limit: float,
    base: float | None = None,
    allowed: Allowance | None = None,
) -> Verdict:
    value = figures.values.get(name)
    if value is None:
        return Verdict(subject, name, Outcome.UNKNOWN, None, limit, said=_why(figures, name))
    broken = value < limit if FIGURES[name].least else value > limit
    outcome = Outcome.BROKEN if broken else Outcome.KEPT
    place = figures.place(name) if broken else Place()
    return Verdict(subject, name, outcome, value, limit, base, allowed, place=place)


def _hint(subject: Subject, figures: Figures, rule: str) -> Iterator[Verdict]:
    found = [finding for finding in figures.findings if finding.rule == rule]
    for finding in found:
        place = figures.place(rule)
        yield Verdict(subject, rule, Outcome.BROKEN, said=finding.text, place=place)
    if not found and rule in figures.why:
        yield Verdict(subject, rule, Outcome.UNKNOWN, said=figures.why[rule])
    elif not found:
        yield Verdict(subject, rule, Outcome.KEPT)


def judge_graph(name: str, kernels: int, limits: Limits) -> Iterator[Verdict]:
    """Whether a graph has no more kernels than it may."""
    if "kernels" in limits.bounds:
        limit = limits.bounds["kernels"]
        outcome = Outcome.BROKEN if kernels > limit else Outcome.KEPT
        yield Verdict(Subject(graph=name), "kernels", outcome, kernels, limit)


def _why(figures: Figures, name: str) -> str:
    return figures.why.get(name) or f"{FIGURES[name].title if name in FIGURES else name}: not known"


def counts(verdicts: Sequence[Verdict]) -> dict[Outcome, int]:
    """How many of each outcome there are."""
    return {o: sum(v.outcome is o for v in verdicts) for o in Outcome}
