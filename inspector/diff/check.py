"""Limits of figures and hints, verdicts on them, and the figures of a recording's variants.

Limits come from options and from ``[tool.ptxview.check]``; an option wins, and of the tables of
``[[tool.ptxview.check.kernels]]`` the last that fits a kernel. Each limit of each variant is one
verdict; an unknown figure passes no limit.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import cast

from msgspec import Struct, field

from inspector.analysis.card import Card
from inspector.analysis.hints.subject import Finding
from inspector.base.errors import PtxviewError, UsageError
from inspector.base.model import Kernel, Location, Resources, Stage, Variant
from inspector.diff import recordings
from inspector.diff.compare import entries
from inspector.measure.time.results import StoredTimes
from inspector.parsers.line import Line
from inspector.reader.reader import Reader


class Figure(Struct, frozen=True):
    """A figure of a variant that can be limited: a maximum, where ``least`` a minimum."""

    name: str
    title: str
    unit: str
    least: bool = False

    @property
    def option(self) -> str:
        return f"{'min' if self.least else 'max'}-{self.name}"


FIGURES = {
    figure.name: figure
    for figure in (
        Figure("registers", "registers", "a thread"),
        Figure("spills", "spilled", "bytes a thread"),
        Figure("stack", "stack", "bytes a thread"),
        Figure("shared", "shared memory", "bytes a block"),
        Figure("instructions", "instructions", "of SASS"),
        Figure("fp64", "fp64 instructions", "of PTX, else SASS"),
        Figure("occupancy", "occupancy", "% of the warps", least=True),
        Figure("time", "time", "µs"),
        Figure("kernels", "kernels", "of a graph"),
    )
}
"""All metrics with limits, in the order of reports."""

PAIRED = ("registers", "spills", "stack", "shared", "instructions", "occupancy", "time")
"""Metrics compared with a baseline's."""


class Allowance(Struct, frozen=True):
    """How much worse than the baseline a figure may be.

    ``implied``: nobody asked for this figure by name; where neither side knows it, it is no limit.
    """

    amount: float
    percent: bool = False
    implied: bool = False

    def worst(self, base: float, least: bool) -> float:
        room = base * self.amount / 100 if self.percent else self.amount
        return base - room if least else base + room

    def __str__(self) -> str:
        return f"{self.amount:g}{' %' if self.percent else ''}"


NOT_WORSE = {name: Allowance(0, implied=True) for name in ("registers", "spills", "occupancy")}
"""What a baseline means where nothing else is said."""


class Limits(Struct, frozen=True):
    """Limits of one kernel: ``bounds`` by figure, inclusive, ``forbidden`` rules of hints, and by
    figure how much worse than in the baseline is ``allowed``."""

    bounds: Mapping[str, float] = field(default_factory=dict)
    forbidden: frozenset[str] = frozenset()
    allowed: Mapping[str, Allowance] = field(default_factory=dict)

    def over(self, other: Limits) -> Limits:
        return Limits(
            {**other.bounds, **self.bounds},
            self.forbidden | other.forbidden,
            {**other.allowed, **self.allowed},
        )

    def __bool__(self) -> bool:
        return bool(self.bounds or self.forbidden or self.allowed)


class Rules(Struct, frozen=True):
    """Limits of all kernels, and those of some, each with its KERNEL selector, in their order."""

    limits: Limits = Limits()
    kernels: tuple[tuple[str, Limits], ...] = ()
    baseline: str | None = None

    def limits_for(self, fits: Sequence[bool]) -> Limits:
        """The limits of a kernel that fits those of ``kernels``; of several, the last counts."""
        out = self.limits
        for (_, limits), fit in zip(self.kernels, fits, strict=True):
            out = limits.over(out) if fit else out
        return out


OPTIONS = {figure.option: name for name, figure in FIGURES.items()}
"""Options that take a number, by the figure that they bound."""
SWITCHES = {"no-spills": "spills", "no-fp64": "fp64"}
"""Options that mean a bound of 0."""


def allowance(text: object, location: str) -> Allowance:
    """Parse ``2`` or ``"5%"``. Raises ``UsageError``."""
    number = str(text).strip()
    try:
        return Allowance(_amount(float(number.removesuffix("%")), location), number.endswith("%"))
    except ValueError:
        raise UsageError(
            f"{location}: {text!r} is neither a number nor a percentage", "Such as 2 or 5%."
        ) from None


def read(table: object, location: str, rules: Sequence[str]) -> Rules:
    """Parse ``[tool.ptxview.check]`` of the file ``where``; ``rules`` are those of hints.

    Raises ``UsageError`` for unknown names, with the nearest known one.
    """
    settings = dict(_table(table, location))
    baseline = settings.pop("baseline", None)
    parts = settings.pop("kernels", [])
    if baseline is not None and not isinstance(baseline, str):
        raise UsageError(f"{location}: baseline is not a path")
    if not isinstance(parts, list):
        raise UsageError(
            f"{location}: kernels is not a list of tables", "[[tool.ptxview.check.kernels]]"
        )
    kernels: list[tuple[str, Limits]] = []
    for n, part in enumerate(parts, 1):
        inner = dict(_table(part, f"{location}, kernels {n}"))
        selector = inner.pop("select", None)
        if not isinstance(selector, str):
            raise UsageError(
                f"{location}, kernels {n}: select says no kernel", 'select = "matmul*"'
            )
        if FIGURES["kernels"].option in inner:
            raise UsageError(
                f"{location}, {selector}: max-kernels is a limit of graphs, not of kernels"
            )
        kernels.append((selector, limits_of(inner, f"{location}, {selector}: ", rules)))
    return Rules(limits_of(settings, f"{location}: ", rules), tuple(kernels), baseline)


def limits_of(settings: Mapping[str, object], prefix: str, rules: Sequence[str]) -> Limits:
    """Parse limits by option; ``prefix`` precedes an option in errors. Raises ``UsageError``."""
    bounds: dict[str, float] = {}
    forbidden: list[object] = []
    allowed: dict[str, Allowance] = {}
    for name, value in settings.items():
        option = f"{prefix}{name}"
        if name in OPTIONS:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"{option} is not a number")
            bounds[OPTIONS[name]] = _amount(float(value), option)
        elif name in SWITCHES:
            if not isinstance(value, bool):
                raise UsageError(f"{option} is neither true nor false")
            if value:
                bounds[SWITCHES[name]] = 0.0
        elif name == "forbid":
            forbidden = list(value) if isinstance(value, list) else [value]
            for rule in forbidden:
                if rule not in rules:
                    nearest = _nearest(str(rule), rules)
                    raise UsageError(f"{option}: {rule} is not the rule of a hint", nearest)
        elif name == "allow":
            for key, amount in _table(value, option).items():
                if key not in PAIRED:
                    nearest = _nearest(key, PAIRED)
                    raise UsageError(f"{option}: {key} is not compared with a baseline", nearest)
                allowed[key] = allowance(amount, f"{option}.{key}")
        else:
            all_options = (*OPTIONS, *SWITCHES, "forbid", "allow", "baseline", "kernels")
            raise UsageError(f"{prefix}nothing is called {name}", _nearest(name, all_options))
    return Limits(bounds, frozenset(map(str, forbidden)), allowed)


def _table(value: object, location: str) -> Mapping[str, object]:
    if isinstance(value, dict):
        return cast(Mapping[str, object], value)
    raise UsageError(f"{location} is not a table")


def _amount(value: float, location: str) -> float:
    if math.isfinite(value) and value >= 0:
        return value
    raise UsageError(f"{location}: {value:g} is not an amount")


def _nearest(word: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, names, 2)
    return f"Is {' or '.join(near)} meant?" if near else f"There are {', '.join(names)}."


class Outcome(StrEnum):
    KEPT = "kept"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Place(Struct, frozen=True):
    """Where a limit was broken: a line of a stage and, where it is known, of the user's file."""

    stage: Stage | None = None
    line: int | None = None
    source: Location | None = None


class Figures(Struct, frozen=True):
    """The metrics of one variant, by the names of ``FIGURES``; None and missing are not known.

    ``why`` says why a figure is unknown, or why a rule of hints could not be asked. ``place`` finds
    the line of a figure or rule.
    """

    values: Mapping[str, float | None]
    findings: tuple[Finding, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    place: Callable[[str], Place] = lambda name: Place()


class Subject(Struct, frozen=True):
    """What a verdict is on: a variant of a kernel, or a graph by its name."""

    kernel: Kernel | None = None
    variant: Variant | None = None
    graph: str | None = None


class Verdict(Struct, frozen=True):
    """One limit of one subject.

    ``what`` is a figure's name or a hint's rule. ``limit`` is inclusive; if it follows from a
    baseline, ``base`` is the baseline's figure and ``allowed`` how much worse it may be. ``reason``
    is a forbidden hint's text, or why something is not known.
    """

    subject: Subject
    what: str
    outcome: Outcome
    value: float | None = None
    limit: float | None = None
    base: float | None = None
    allowed: Allowance | None = None
    reason: str = ""
    place: Place = Place()

    @property
    def by(self) -> float | None:
        """How far the limit was passed, in the figure's own unit; None if it was not."""
        if self.outcome is not Outcome.BROKEN or self.value is None or self.limit is None:
            return None
        return abs(self.value - self.limit)


def judge(
    subject: Subject, figures: Figures, limits: Limits, baseline: Figures | None = None
) -> Iterator[Verdict]:
    """Yield a verdict for every limit that applies; ``baseline`` are the metrics of the other."""
    for name in FIGURES:
        if name == "kernels":
            continue
        if name in limits.bounds:
            yield _judged(subject, figures, name, limits.bounds[name])
        allowed = limits.allowed.get(name)
        if baseline is not None and allowed is not None:
            yield from _compared(subject, name, figures, baseline, allowed)
    for rule in sorted(limits.forbidden):
        yield from _forbidden(subject, figures, rule)


def _compared(
    subject: Subject, name: str, figures: Figures, baseline: Figures, allowed: Allowance
) -> Iterator[Verdict]:
    """Compare a figure with the baseline's; nothing of an implied one that neither has."""
    value = figures.values.get(name)
    base = baseline.values.get(name)
    if base is not None and value is not None:
        limit = allowed.worst(base, FIGURES[name].least)
        yield _judged(subject, figures, name, limit, base, allowed)
    elif not allowed.implied or value is not None or base is not None:
        if value is None:
            reason = _why(figures, name)
        else:
            reason = f"in the baseline: {_why(baseline, name)}"
        yield Verdict(subject, name, Outcome.UNKNOWN, value, None, base, allowed, reason)


def _forbidden(subject: Subject, figures: Figures, rule: str) -> Iterator[Verdict]:
    """A broken verdict for each finding of a hint's rule; without findings one that passes."""
    texts = [finding.text for finding in figures.findings if finding.rule == rule]
    for text in texts:
        place = figures.place(rule)
        yield Verdict(subject, rule, Outcome.BROKEN, reason=text, place=place)
    if not texts:
        why = figures.why.get(rule)
        outcome = Outcome.KEPT if why is None else Outcome.UNKNOWN
        yield Verdict(subject, rule, outcome, reason=why or "")


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
        return Verdict(subject, name, Outcome.UNKNOWN, None, limit, reason=_why(figures, name))
    broken = value < limit if FIGURES[name].least else value > limit
    outcome = Outcome.BROKEN if broken else Outcome.KEPT
    place = figures.place(name) if broken else Place()
    return Verdict(subject, name, outcome, value, limit, base, allowed, place=place)


def judge_graph(name: str, kernels: int, limits: Limits) -> Iterator[Verdict]:
    if (limit := limits.bounds.get("kernels")) is not None:
        outcome = Outcome.BROKEN if kernels > limit else Outcome.KEPT
        yield Verdict(Subject(graph=name), "kernels", outcome, kernels, limit)


def _why(figures: Figures, name: str) -> str:
    return figures.why.get(name) or f"{FIGURES[name].title if name in FIGURES else name}: not known"


def counts(verdicts: Sequence[Verdict]) -> dict[Outcome, int]:
    return {o: sum(v.outcome is o for v in verdicts) for o in Outcome}


MACHINE = (Stage.SASS, Stage.PTX)
READ = (Stage.TTGIR, Stage.PTX, Stage.SASS)
"""Stages that hints read."""
_MOVES = frozenset(("mov", "ld", "ldu", "st", "selp", "cp", "call", "slct"))
"""Instructions of PTX that move a double and compute nothing."""
_DOUBLE = frozenset(("DADD", "DMUL", "DFMA", "DSETP", "DMMA", "DMNMX"))
_IN_DOUBLE = frozenset(("F64", "64H"))
"""What the names of SASS's conversions and reciprocals of doubles have in them."""
_LOCAL = frozenset(("STL", "LDL"))
NO_LAUNCH = "what a launch asks for, or the device, is not known"


def _spills(resources: Resources) -> int | None:
    """Bytes of spilled stores and loads."""
    stores = resources.spill_store_bytes
    loads = resources.spill_load_bytes
    return None if stores is None or loads is None else stores + loads


def _shared(card: Card) -> int | None:
    """Bytes of shared memory of a block, static and dynamic."""
    static = card.static_shared_bytes
    dynamic = card.dynamic_shared_bytes
    return None if static is None or dynamic is None else static + dynamic


class Reading(Struct, frozen=True):
    """A recording that is checked: its reader, and the times that are kept of it."""

    reader: Reader
    times: StoredTimes

    def figures(self, kernel: Kernel, variant: Variant, limits: Limits) -> Figures:
        """What of a variant the limits ask for; nothing else is read."""
        limited = {*limits.bounds, *limits.allowed}
        resources = self.reader.facts.resources(variant)
        values: dict[str, float | None] = {
            "registers": resources.registers,
            "stack": resources.stack_bytes,
            "spills": _spills(resources),
        }
        why = dict.fromkeys(values, self._lacking(variant))
        findings: tuple[Finding, ...] = ()
        if limited & {"shared", "occupancy"}:
            card = self.reader.facts.card(variant)
            values["shared"] = _shared(card)
            values["occupancy"] = None if card.occupancy is None else card.occupancy.percent
            why["shared"] = "what a launch asks for is not known"
            why["occupancy"] = NO_LAUNCH
        if "instructions" in limited:
            content = self.reader.facts.card(variant).stage_content(Stage.SASS)
            if content is not None and content.mix is not None:
                values["instructions"] = content.mix.total
            else:
                why["instructions"] = self._unreadable(variant) or self._lacking(variant)
        if "fp64" in limited:
            try:
                values["fp64"] = len(self._double(variant)[1])
            except PtxviewError as error:
                why["fp64"] = error.message
        if "time" in limited:
            stored = self.times.representative(kernel, variant)
            values["time"] = None if stored is None else stored.median_us
            why["time"] = "nobody took its time (ptxview time)"
        if limits.forbidden:
            findings = self.reader.facts.findings(variant, use_execution_counts=False)
            why |= self._not_asked(variant, limits.forbidden)
        return Figures(values, findings, why, lambda name: self._place(kernel, variant, name))

    def _lacking(self, variant: Variant) -> str:
        reasons = self.reader.facts.lacking(variant) or tuple(variant.missing.values())
        return reasons[0] if reasons else "there is no machine code of it to ask"

    def _lines(self, variant: Variant, stage: Stage) -> list[Line]:
        """The kernel's own instructions in a stage. Raises ``PtxviewError`` if it has none."""
        listing = self.reader.stages.listing(variant, stage)
        function = self.reader.stages.function(variant, stage)
        if function is None:
            raise PtxviewError(f"its place in the {stage.value} is unknown")
        lines = listing.between(function.first, function.last)
        return [line for line in lines if line.opcode is not None]

    def _unreadable(self, variant: Variant) -> str:
        """Why a stage that hints read cannot be read; "" where all that are there can."""
        stages = [stage for stage in READ if stage in variant.stages]
        try:
            for stage in stages:
                self._lines(variant, stage)
        except PtxviewError as error:
            return error.message
        return "" if stages else "there is no code of it to read"

    def _not_asked(self, variant: Variant, rules: frozenset[str]) -> dict[str, str]:
        """Rules of hints that could not be asked, each with the reason."""
        if reason := self._unreadable(variant) or next(
            iter(self.reader.facts.lacking(variant)), ""
        ):
            return dict.fromkeys(rules, reason)
        card = self.reader.facts.card(variant)
        needs = {
            "low-occupancy": card.occupancy,
            "small-grid": card.waves,
            "tail-effect": card.waves,
        }
        return {rule: NO_LAUNCH for rule in rules if rule in needs and needs[rule] is None}

    def _double(self, variant: Variant) -> tuple[Stage, list[Line]]:
        """Instructions that compute in double precision: of PTX, else of SASS.

        Raises ``PtxviewError`` if there is neither.
        """
        errors = []
        for stage in (Stage.PTX, Stage.SASS):
            try:
                return stage, [x for x in self._lines(variant, stage) if _is_double(x, stage)]
            except PtxviewError as error:
                errors.append(error)
        raise errors[0]

    # -- where ------------------------------------------------------------------------------

    def _place(self, kernel: Kernel, variant: Variant, name: str) -> Place:
        for stage in MACHINE:
            if stage not in variant.stages:
                continue
            try:
                line = self._line(variant, stage, name)
            except PtxviewError:
                continue
            if line is not None:
                # of what was inlined, where the user's own code is
                source = line.source.frames()[-1] if line.source else _beginning(variant)
                return Place(stage, line.n, source)
        return Place(source=_beginning(variant))

    def _line(self, variant: Variant, stage: Stage, name: str) -> Line | None:
        listing = self.reader.stages.listing(variant, stage)
        if name == "fp64":
            double_stage, double = self._double(variant)
            return double[0] if double_stage is stage and double else None
        if name in ("spills", "stack") and stage is Stage.SASS:
            return next((x for x in self._lines(variant, stage) if x.base in _LOCAL), None)
        if name in ("registers", "occupancy"):
            peaks = self.reader.annotations.annotate(variant, stage).peaks
            return listing.lines[peaks[0] - 1] if peaks else None
        for finding in self.reader.facts.findings(variant, use_execution_counts=False):
            if finding.rule == name and finding.lines.get(stage):
                return listing.lines[finding.lines[stage][0] - 1]
        return None


def _is_double(line: Line, stage: Stage) -> bool:
    base, *parts = (line.opcode or "").split(".")
    if stage is Stage.PTX:
        return base not in _MOVES and "f64" in parts
    return base in _DOUBLE or any(p in _IN_DOUBLE or p.endswith("64H") for p in parts)


def _beginning(variant: Variant) -> Location | None:
    source = variant.stages.get(Stage.SOURCE)
    path = None if source is None else source.origin_path
    return None if path is None else Location(path, variant.span[0] if variant.span else 1)


def in_use(kernel: Kernel, variant: Variant) -> bool:
    """Whether a variant is not a tuner's rejected candidate; true if no winner is known."""
    won = [
        candidate
        for candidate in kernel.variants
        if candidate.autotune and candidate.autotune["winner"] is True
    ]
    if not won:
        return variant.failed is None
    return variant.autotune is None or variant in won or bool(variant.launches)


def partners(a: Reader, b: Reader) -> Iterator[tuple[Variant, Variant | None]]:
    """Every variant of ``b``, with the one of the baseline ``a`` that it belongs to."""
    for a_entry, b_entry in recordings.pair(entries(a), entries(b)):
        if b_entry is not None:
            yield b_entry.variant, None if a_entry is None else a_entry.variant
