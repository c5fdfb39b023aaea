"""Verdicts of a gate: a table, JSON, GitHub's annotations, JUnit's XML, a comment in Markdown."""

import posixpath
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from msgspec import Struct
from rich.text import Text

from inspector.base.escapes import shown
from inspector.base.grouping import by_key
from inspector.base.names import short_name
from inspector.base.stage import Location, Stage
from inspector.base.units import plural
from inspector.diff.check import FIGURES, Outcome, Place, Verdict, counts
from inspector.render import jsons, tables
from inspector.render.diff_text import code_span, escaped, markdown_table

MARKS = {Outcome.BROKEN: "✗", Outcome.UNKNOWN: "?", Outcome.KEPT: "✓"}
STYLES = {Outcome.BROKEN: "red", Outcome.UNKNOWN: "yellow", Outcome.KEPT: "green"}
MAX_STEM = 20
"""Letters of a file's name; generated ones have fifty and more."""
_NOT_XML = {*range(0x20), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)} - {0x9, 0xA, 0xD}


class CheckResult(Struct, frozen=True):
    """What was checked: the recording, its baseline if there is one, and every verdict.

    ``kernels`` and ``variants`` are how many there were; ``left_out`` how many variants a tuner
    tried and left; ``new`` the variants that the baseline has not.
    """

    path: str
    baseline: str | None
    verdicts: tuple[Verdict, ...]
    kernels: int
    variants: int
    left_out: int = 0
    new: int = 0

    @property
    def failed(self) -> tuple[Verdict, ...]:
        return tuple(v for v in self.verdicts if v.outcome is not Outcome.KEPT)


def name_of(verdict: Verdict) -> str:
    subject = verdict.subject
    kernel = subject.kernel
    return short_name(kernel.demangled or kernel.name) if kernel else f"graph {subject.graph}"


def amount(value: float | None) -> str:
    """A figure without digits that it has not."""
    return tables.figure(value, "{:,.0f}" if value is None or value == int(value) else "{:,.4g}")


def sentence(verdict: Verdict) -> str:
    """Return one sentence on the value and the limit."""
    figure = FIGURES.get(verdict.what)
    if verdict.outcome is Outcome.UNKNOWN:
        return f"{figure.title if figure else verdict.what} cannot be judged: {verdict.reason}"
    if figure is None:
        state = "absent" if verdict.outcome is Outcome.KEPT else "forbidden"
        return f"{verdict.what}: {verdict.reason or state}"
    unit = figure.unit
    if figure.name == "fp64":  # counted in the stage of the first one
        unit = "" if verdict.place.stage is None else f"of {verdict.place.stage.value.upper()}"
    head = f"{figure.title}: {amount(verdict.value)} {unit}".rstrip()
    if verdict.base is None:
        side = "at least" if figure.least else "at most"
        return f"{head}, {side} {amount(verdict.limit)} allowed"
    worse = verdict.allowed
    room = f", {worse} worse allowed" if worse and worse.amount else ""
    return f"{head}, {amount(verdict.base)} in the baseline{room}"


def place_text(place: Place) -> str:
    """``square.py:23``, ``sass 40``; "" where it is not known."""
    parts = []
    if place.source is not None:
        stem, dot, suffix = posixpath.basename(place.source.file).rpartition(".")
        name = f"{stem[:MAX_STEM]}…" if len(stem) > MAX_STEM + 1 else stem
        parts.append(f"{name}{dot}{suffix}:{place.source.line}")
    if place.stage is not None and place.line is not None:
        parts.append(f"{place.stage.value} {place.line}")
    return " · ".join(parts)


def heading(checked: CheckResult) -> str:
    """How many were checked, and how it ended."""
    n = counts(checked.verdicts)
    unchecked = f" (not {checked.left_out} more that a tuner tried or that failed)"
    parts = (
        f"{plural(checked.variants, 'variant')} of {plural(checked.kernels, 'kernel')}"
        + (unchecked if checked.left_out else ""),
        f"{checked.new} not in the baseline" if checked.new else "",
    )
    outcomes = (
        f"{plural(len(checked.verdicts), 'limit')}: {n[Outcome.KEPT]} kept",
        f"{n[Outcome.BROKEN]} broken" if n[Outcome.BROKEN] else "",
        f"{n[Outcome.UNKNOWN]} not known" if n[Outcome.UNKNOWN] else "",
    )
    return f"{', '.join(filter(None, parts))}; {', '.join(filter(None, outcomes))}"


def rows(checked: CheckResult, everything: bool) -> Iterator[Text]:
    """Yield two lines for each limit that was broken or is unknown, or for ``everything``."""
    for verdict in checked.verdicts if everything else checked.failed:
        variant, location = verdict.subject.variant, place_text(verdict.place)
        head = f" {name_of(verdict)}{f' {variant.id}' if variant else ''}"
        mark = (MARKS[verdict.outcome], STYLES[verdict.outcome])
        yield Text.assemble(mark, (shown(head), "bold"))
        yield Text(shown(f"  {sentence(verdict)}{f'  [{location}]' if location else ''}"))


class VerdictCounts(Struct, frozen=True, kw_only=True):
    """How many verdicts have each outcome."""

    kept: int
    broken: int
    unknown: int


class CheckDocument(Struct, frozen=True, kw_only=True):
    """What ``check --json`` prints; numbers are those of ``CheckResult``."""

    schema: int
    recording: str
    passed: bool
    baseline: str | None
    kernels: int
    variants: int
    left_out: int
    new: int
    counts: VerdictCounts
    checks: list["VerdictRow"]


def document(checked: CheckResult, passed: bool) -> CheckDocument:
    by_outcome = counts(checked.verdicts)
    return CheckDocument(
        schema=jsons.SCHEMA,
        recording=checked.path,
        passed=passed,
        baseline=checked.baseline,
        kernels=checked.kernels,
        variants=checked.variants,
        left_out=checked.left_out,
        new=checked.new,
        counts=VerdictCounts(
            kept=by_outcome[Outcome.KEPT],
            broken=by_outcome[Outcome.BROKEN],
            unknown=by_outcome[Outcome.UNKNOWN],
        ),
        checks=list(map(verdict_row, checked.verdicts)),
    )


class VerdictRow(Struct, frozen=True, kw_only=True):
    """One limit of one variant or graph, in the figure's own ``unit``.

    ``baseline`` is the baseline's figure, ``allowed`` how much worse it may be.
    """

    kernel: str | None
    variant: str | None
    graph: str | None
    what: str
    outcome: Outcome
    value: float | None
    limit: float | None
    by: float | None
    unit: str | None
    baseline: float | None
    allowed: str | None
    text: str | None
    stage: Stage | None
    line: int | None
    source: Location | None


def verdict_row(verdict: Verdict) -> VerdictRow:
    kernel = verdict.subject.kernel
    variant = verdict.subject.variant
    figure = FIGURES.get(verdict.what)
    place = verdict.place
    return VerdictRow(
        kernel=kernel.name if kernel else None,
        variant=variant.id if variant else None,
        graph=verdict.subject.graph,
        what=verdict.what,
        outcome=verdict.outcome,
        value=verdict.value,
        limit=verdict.limit,
        by=verdict.by,
        unit=figure.unit if figure else None,
        baseline=verdict.base,
        allowed=None if verdict.allowed is None else str(verdict.allowed),
        text=None if verdict.outcome is Outcome.KEPT else sentence(verdict),
        stage=place.stage,
        line=place.line,
        source=place.source,
    )


def workflow_commands(checked: CheckResult, root: str) -> Iterator[str]:
    """GitHub's workflow commands: an error at the line of each limit that was not kept.

    ``root`` is the folder of the repository: files below it are named from there, as GitHub shows
    them; of others there is no line that it could show.
    """
    for verdict in checked.failed:
        properties = {"title": f"ptxview check: {name_of(verdict)}"}
        source = verdict.place.source
        if source is not None:
            path = posixpath.normpath(posixpath.join(root, source.file))
            if posixpath.commonpath((path, root)) == posixpath.normpath(root):
                path = posixpath.relpath(path, root)
                properties = {"file": path, "line": str(source.line), **properties}
        property_text = ",".join(f"{k}={_escaped(v, ':,')}" for k, v in properties.items())
        variant = verdict.subject.variant
        config = tables.config_text(variant) if variant else ""
        text = f"{sentence(verdict)}{f' ({config})' if config else ''}"
        if location := place_text(verdict.place):
            text += f" [{location}]"
        yield f"::error {property_text}::{_escaped(text)}"


def _escaped(text: str, extra_characters: str = "") -> str:
    """Text as a workflow command has it (actions/toolkit, ``command.ts``)."""
    for char in "%\r\n" + extra_characters:
        text = text.replace(char, f"%{ord(char):02X}")
    return shown(text)


def junit(checked: CheckResult) -> str:
    """JUnit's XML: a suite a kernel, a case a limit; what is not known is an error."""
    root = ET.Element("testsuites", name="ptxview check")
    suites = by_key((name_of(verdict), verdict) for verdict in checked.verdicts)
    for name, verdicts in suites.items():
        n = counts(verdicts)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_xml(name),
            tests=str(len(verdicts)),
            failures=str(n[Outcome.BROKEN]),
            errors=str(n[Outcome.UNKNOWN]),
            skipped="0",
        )
        for verdict in verdicts:
            variant = verdict.subject.variant
            paired = " against the baseline" if verdict.allowed is not None else ""
            title = f"{verdict.what}{paired}{f' [{variant.id}]' if variant else ''}"
            case = ET.SubElement(suite, "testcase", classname=_xml(name), name=_xml(title))
            if verdict.place.source is not None:
                case.set("file", _xml(verdict.place.source.file))
                case.set("line", str(verdict.place.source.line))
            if verdict.outcome is not Outcome.KEPT:
                kind = "failure" if verdict.outcome is Outcome.BROKEN else "error"
                ET.SubElement(case, kind, message=_xml(sentence(verdict)), type=verdict.what)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _xml(text: str) -> str:
    return "".join("�" if ord(char) in _NOT_XML else char for char in text)


def markdown(checked: CheckResult, passed: bool) -> Iterator[str]:
    yield from (f"### ptxview check: {'passed' if passed else 'failed'}", "")
    yield from (escaped(heading(checked)), "")
    rows = []
    for verdict in checked.failed:
        variant = verdict.subject.variant
        name = code_span(name_of(verdict)) + (f" {code_span(variant.id)}" if variant else "")
        excess = "" if verdict.by is None else amount(verdict.by)
        text = escaped(sentence(verdict)).replace("|", "\\|")
        rows.append((name, text, excess, code_span(place_text(verdict.place))))
    if rows:
        yield from markdown_table(("kernel", "what is wrong", "by", "where"), rows)
