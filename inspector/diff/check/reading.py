"""Metrics of a recording's variants, for comparison with limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from inspector.analyse.hints.subject import Finding
from inspector.base.errors import PtxviewError
from inspector.base.model import Kernel, Location, Resources, Stage, Variant
from inspector.diff import recordings
from inspector.diff.check.judging import Figures, Place
from inspector.diff.check.limits import Limits
from inspector.diff.compare import entries
from inspector.listing.line import Line
from inspector.measure.time.results import StoredTimes
from inspector.reader.reader import Reader

MACHINE = (Stage.SASS, Stage.PTX)
READ = (Stage.TTGIR, Stage.PTX, Stage.SASS)
"""Stages that hints read."""
_MOVES = frozenset(("mov", "ld", "ldu", "st", "selp", "cp", "call", "slct"))
"""Instructions of PTX that move a double and compute nothing."""
_DOUBLE = frozenset(("DADD", "DMUL", "DFMA", "DSETP", "DMMA", "DMNMX"))
_IN_DOUBLE = frozenset(("F64", "64H"))
"""What the names of SASS's conversions and reciprocals of doubles have in them."""
_LOCAL = frozenset(("STL", "LDL"))


@dataclass(frozen=True, slots=True)
class Reading:
    """A recording that is checked: its reader, and the times that are kept of it."""

    reader: Reader
    times: StoredTimes

    def figures(self, kernel: Kernel, variant: Variant, limits: Limits) -> Figures:
        """What of a variant the limits ask for; nothing else is read."""
        asked = {*limits.bounds, *limits.allowed}
        resources = self.reader.resources(variant)
        values: dict[str, float | None] = dict(_taken(resources))
        why = dict.fromkeys(values, self._lacking(variant))
        findings: tuple[Finding, ...] = ()
        if asked & {"shared", "occupancy"}:
            card = self.reader.card(variant)
            if card.static_shared_bytes is not None and card.dynamic_shared_bytes is not None:
                values["shared"] = card.static_shared_bytes + card.dynamic_shared_bytes
            else:
                why["shared"] = "what a launch asks for is not known"
            if card.occupancy is not None:
                values["occupancy"] = card.occupancy.percent
            else:
                why["occupancy"] = "what a launch asks for, or the device, is not known"
        if "instructions" in asked:
            made = self.reader.card(variant).of(Stage.SASS)
            readable = made is not None and made.mix is not None
            values["instructions"] = made.mix.total if made and made.mix else None
            why["instructions"] = (
                "" if readable else self._unreadable(variant) or self._lacking(variant)
            )
        if "fp64" in asked:
            double, why["fp64"] = self._double(variant)
            values["fp64"] = None if double is None else len(double[1])
        if "time" in asked:
            stored = self.times.of(kernel, variant)
            values["time"] = None if stored is None else stored.median_us
            why["time"] = "nobody took its time (ptxview time)"
        if limits.forbidden:
            findings = self.reader.findings(variant, counted=False)
            why |= self._not_asked(variant, limits.forbidden)
        return Figures(values, findings, why, lambda name: self._place(kernel, variant, name))

    def _lacking(self, variant: Variant) -> str:
        reasons = self.reader.lacking(variant) or tuple(variant.missing.values())
        return reasons[0] if reasons else "there is no machine code of it to ask"

    def _lines(self, variant: Variant, stage: Stage) -> tuple[tuple[Line, ...] | None, str]:
        """The kernel's own instructions in a stage; None, with the reason."""
        try:
            listing = self.reader.listing(variant, stage)
        except PtxviewError as error:
            return None, error.message
        function = self.reader.function(variant, stage)
        if function is None:
            return None, f"its place in the {stage.value} is unknown"
        lines = listing.between(function.first, function.last)
        return tuple(line for line in lines if line.opcode is not None), ""

    def _unreadable(self, variant: Variant) -> str:
        """Why a stage that hints read cannot be read; "" where all that are there can."""
        there = [stage for stage in READ if stage in variant.stages]
        if not there:
            return "there is no code of it to read"
        return next(filter(None, (self._lines(variant, stage)[1] for stage in there)), "")

    def _not_asked(self, variant: Variant, rules: frozenset[str]) -> dict[str, str]:
        """Rules of hints that could not be asked, each with the reason: one whose code cannot be
        read says nothing, as one does that has nothing to say."""
        if reason := self._unreadable(variant) or next(iter(self.reader.lacking(variant)), ""):
            return dict.fromkeys(rules, reason)
        card = self.reader.card(variant)
        lacking = {
            "low-occupancy": card.occupancy is None,
            "small-grid": card.waves is None,
            "tail-effect": card.waves is None,
        }
        said = "what a launch asks for, or the device, is not known"
        return {rule: said for rule in rules if lacking.get(rule)}

    def _double(self, variant: Variant) -> tuple[tuple[Stage, list[Line]] | None, str]:
        """Instructions that compute in double precision: of PTX, else of SASS."""
        lines, why = self._lines(variant, Stage.PTX)
        if lines is not None:
            return (Stage.PTX, [line for line in lines if _is_double(line)]), ""
        machine, _ = self._lines(variant, Stage.SASS)
        if machine is None:
            return None, why
        return (Stage.SASS, [line for line in machine if _is_double_machine(line)]), ""

    # -- where ------------------------------------------------------------------------------

    def _place(self, kernel: Kernel, variant: Variant, name: str) -> Place:
        """The line at which a figure comes about; else where the kernel begins."""
        for stage in MACHINE:
            if stage not in variant.stages:
                continue
            try:
                line = self._line(variant, stage, name)
            except PtxviewError:
                continue
            if line is not None:
                return Place(stage, line.n, _outermost(line.source) or _beginning(variant))
        return Place(source=_beginning(variant))

    def _line(self, variant: Variant, stage: Stage, name: str) -> Line | None:
        listing = self.reader.listing(variant, stage)
        if name == "fp64":
            double, _ = self._double(variant)
            return double[1][0] if double and double[0] is stage and double[1] else None
        if name in ("spills", "stack") and stage is Stage.SASS:
            lines_of, _ = self._lines(variant, stage)
            return next((x for x in lines_of or () if x.base in _LOCAL), None)
        if name in ("registers", "occupancy"):
            peaks = self.reader.line_annotations(variant, stage).peaks
            return listing.lines[peaks[0] - 1] if peaks else None
        for finding in self.reader.findings(variant, counted=False):
            if finding.rule == name and finding.lines.get(stage):
                return listing.lines[finding.lines[stage][0] - 1]
        return None


def _is_double(line: Line) -> bool:
    return line.base not in _MOVES and "f64" in (line.opcode or "").split(".")


def _is_double_machine(line: Line) -> bool:
    parts = (line.opcode or "").split(".")
    return parts[0] in _DOUBLE or any(p in _IN_DOUBLE or p.endswith("64H") for p in parts[1:])


def _taken(resources: Resources) -> Mapping[str, float | None]:
    stores, loads = resources.spill_store_bytes, resources.spill_load_bytes
    return {
        "registers": resources.registers,
        "stack": resources.stack_bytes,
        "spills": None if stores is None or loads is None else stores + loads,
    }


def _outermost(location: Location | None) -> Location | None:
    """Where the user's own code stands, of what was inlined into it."""
    return None if location is None else location.frames()[-1]


def _beginning(variant: Variant) -> Location | None:
    source = variant.stages.get(Stage.SOURCE)
    if source is None or source.origin_path is None:
        return None
    return Location(source.origin_path, variant.span[0] if variant.span else 1)


def in_use(kernel: Kernel, variant: Variant) -> bool:
    """Whether a variant is one that a program goes on with: not one that a tuner tried and left.

    Where no winner is known (nothing was timed), every configuration may be the one.
    """
    if not any(_won(one) for one in kernel.variants):
        return variant.failed is None
    return variant.autotune is None or _won(variant) or bool(variant.launches)


def _won(variant: Variant) -> bool:
    return variant.autotune is not None and variant.autotune["winner"] is True


def partners(a: Reader, b: Reader) -> Iterator[tuple[Variant, Variant | None]]:
    """Every variant of ``b``, with the one of the baseline ``a`` that it belongs to."""
    for pair in recordings.pair(entries(a), entries(b)):
        if pair.b is not None:
            yield pair.b.variant, None if pair.a is None else pair.a.variant
