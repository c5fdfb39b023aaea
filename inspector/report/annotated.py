"""A listing for people to read: gutters at the left, what each line does, the notes beneath it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from inspector.analyse.hints.subject import Finding
from inspector.analyse.line_annotations import LineAnnotations, Samples, Told
from inspector.base.model import Note, Stage
from inspector.base.text import plural, shown
from inspector.listing.line import Line
from inspector.measure.ncu.report import waits_for
from inspector.report.tables import clean

WIDE = 150
"""Minimum columns for sentences beside their lines; below them otherwise."""

_PLAIN = (".loc", "$L__tmp", "$L__func")
"""Debugging lines, which get no sentence."""

MARKS = {"warn": "⚠", "hint": "◆", "info": "·"}
STYLES = {"warn": "bold red", "hint": "bold yellow", "info": "cyan"}


def legend(annotations: LineAnnotations, stage: Stage) -> str:
    """What the gutter counts: virtual and allocated registers are different things."""
    sampled = ""
    if annotations.sampled:
        sampled = f" Samples: percent of the kernel's {annotations.sampled}, measured by ncu"
        shared = "" if stage is Stage.SASS else "; an instruction of several lines counts on each"
        sampled += f"{shared}."
    return (_counted(annotations, stage) + sampled).strip()


def _counted(annotations: LineAnnotations, stage: Stage) -> str:
    if not annotations.classes:
        return ""
    if stage is Stage.PTX:
        return "Live at each instruction: virtual registers, by declared class."
    if stage is Stage.SASS:
        of = "" if annotations.allocated is None else f" of {annotations.allocated} a thread"
        return f"Live at each instruction: allocated registers (gpr{of}); stall: issue cycles."
    return "Of each line's SASS: the most allocated registers live, ▲ the peak; stall: the sum."


def heading(annotations: LineAnnotations) -> str:
    """The names of the gutter's columns."""
    cells = [f"{name:>5}" for name in annotations.classes] + ["stall"] * annotations.stalls
    cells += ["samples"] if annotations.sampled else []
    return f"{'line':>6} " + " ".join(cells)


def rows(lines: Iterable[Line], annotations: LineAnnotations, width: int) -> Iterator[Text]:
    """The lines with their gutters; as wide as they are, ``width`` decides only where words go."""
    wide = width >= WIDE
    room = max(40, width // 2 - 10)
    own = annotations.peaks if "gpr" in annotations.classes and annotations.machine else ()
    told: dict[Note, int] = {}
    peaked = False
    for line in lines:
        one = annotations.at(line.n)
        cells = list(_cells(one, annotations.classes, annotations.stalls))
        if annotations.sampled:
            share = annotations.share(line.n)
            part = "" if share is None else f"{share:.1f} %" if share else "0 %"
            cells.append(f"{part:>7}")
        gutter = f"{line.n:>6} " + " ".join(cells)
        text = clean(line.text)
        said = (
            [] if line.text.lstrip().startswith(_PLAIN) else list(annotations.words(line.n).said())
        )
        if line.n in own[:1] or (one.rolled is not None and one.rolled.peak and not peaked):
            said.append(peak(one, annotations))
            peaked = annotations.machine is False
        if one.samples is not None and annotations.sampled:
            said += sampled(one.samples, annotations.sampled)
        row = Text.assemble((gutter, "dim"), " ", text)
        if said and wide and len(text) <= room:
            row.append(" " * (room - len(text)) + "  " + " · ".join(said), "green")
            said = []
        yield row
        margin = " " * (len(gutter) + 1)
        indent = " " * (len(text) - len(text.lstrip()))
        for sentence in said:
            yield Text.assemble(margin, indent, ("└ " + sentence, "green"))
        for note in one.notes:
            mark = MARKS.get(note.severity, "·")
            style = STYLES.get(note.severity, "")
            words = f"as on line {told[note]}" if note in told else note.text
            told.setdefault(note, line.n)
            yield Text.assemble(margin, indent, (f"{mark} {note.rule}: {words}", style))


WORTH_WORDS = 0.01
"""Minimum share of a kernel's samples for which a line's stall reasons are shown."""


def sampled(samples: Samples, all_of: int) -> list[str]:
    """What warps waited for on a line, the two most frequent reasons in words."""
    if samples.all < max(1.0, WORTH_WORDS * all_of):
        return []
    reasons = [
        f"{shown(waits_for(name))} {100 * count / samples.all:.0f} %"
        for name, count in samples.top()
    ]
    share = f"{100 * samples.all / all_of:.1f} % of the samples"
    return [f"{share}: {', '.join(reasons)}" if reasons else share]


def peak(one: Told, annotations: LineAnnotations) -> str:
    """That a line holds the kernel's peak of live registers, of how many."""
    counts = one.live if one.rolled is None else one.rolled.live
    live = (counts or {}).get("gpr", 0)
    of = (
        plural(live, "allocated register")
        if annotations.allocated is None
        else f"{live} of {plural(annotations.allocated, 'allocated register')}"
    )
    where = "the kernel's peak" if one.rolled is None else "its SASS holds the kernel's peak"
    return f"{where}: {of} live"


def hint(finding: Finding) -> Text:
    """A hint of the kernel, with the first lines that it was seen on."""
    places = ", ".join(
        f"{stage.value} {lines[0]}" + (f" and {len(lines) - 1} more" if len(lines) > 1 else "")
        for stage, lines in finding.lines.items()
        if lines
    )
    mark, style = MARKS.get(finding.severity, "·"), STYLES.get(finding.severity, "")
    where = f" ({places})" if places else ""
    if finding.blocks is not None:
        ran, of = finding.blocks
        where += f", counted in {'all' if ran == of else f'{ran:,} of'} {of:,} blocks"
    elif finding.estimated:
        where += ", a guess from the code"
    # What a profiler's rules say comes from a file.
    return Text.assemble(
        (f"  {mark} {shown(finding.rule)}", style), f"{where}: {shown(finding.text)}"
    )


def _cells(one: Told, classes: Sequence[str], stalls: bool) -> Iterator[str]:
    counts = one.counts()
    for name in classes:
        peak = "▲" if name == "gpr" and one.rolled is not None and one.rolled.peak else ""
        yield f"{'' if counts is None else f'{peak}{counts.get(name, 0)}':>5}"
    if stalls:
        cycles = one.cycles()
        yield f"{'' if cycles is None else cycles:>5}"
