"""``show KERNEL --prompt``: what is known of a kernel, gathered for one text of so many tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from pathlib import PurePath

from inspector.analyse.hints.subject import Finding
from inspector.errors import PtxviewError
from inspector.listing.line import Kind, Line
from inspector.measure.time.stored import times
from inspector.model import Kernel, Stage, Variant
from inspector.names import base_name
from inspector.reader.hottest import regions
from inspector.reader.reader import Reader
from inspector.report import brief, card, tables
from inspector.report.prompt import PromptCode, PromptKernel, PromptLine, PromptWindow
from inspector.text import microseconds, plural, shown

LONGEST = 50_000
"""Lines of a stage that are looked at: no more of them would ever be told."""
AROUND = 3
"""Lines before and behind one that is wanted."""
LOOP = 80
"""Lines of a loop that are wanted before others."""
HINTED = 4
"""Lines of a hint that are wanted before others."""
NEAR = 6
"""Lines of the source between which what stands there is told too."""
DEBUGGED = (".loc", ".file", ".section", "$L__tmp", "$L__func", ".L_x_tmp")
"""What only a debugger needs."""


def gathered(reader: Reader, kernel: Kernel, variant: Variant, stage: Stage) -> PromptKernel:
    """A kernel as it is told in one text. Raises ``PtxviewError`` where its stage is not read."""
    findings = reader.findings(variant)
    stages = [stage, *(s for s in (Stage.PTX, Stage.SASS) if s is not stage and _has(variant, s))]
    source = next((s for s in (Stage.SOURCE, Stage.OUTPUT_CODE) if _has(variant, s)), None)
    stages = [s for s in stages if s is not source]
    name = kernel.name if len(kernel.variants) == 1 else variant.id
    code = []
    for each in stages:
        try:
            code.append(_code(reader, variant, each, findings))
        except PtxviewError:
            if each is stage:
                raise
    told = {source, *(one.stage for one in code)}
    about = ", ".join(filter(None, (variant.id, variant.target, tables.config(variant))))
    return PromptKernel(
        title=shown(f"{base_name(kernel.name)} ({about})"),
        figures=[f"- {line.strip()}" for line in _figures(reader, kernel, variant)],
        hints=[shown(_hint(finding)) for finding in findings],
        source=None if source is None else _source(reader, variant, source, stage),
        code=code,
        more=[
            brief.ask(path, "show", name, "--stage", "S", "--lines", "A:B")
            for path in (reader.recording.path, "PATH")
        ],
        others=[s.value for s in Stage if s in variant.stages and s not in told],
    )


def _has(variant: Variant, stage: Stage) -> bool:
    file = variant.stages.get(stage)
    return file is not None and not file.costly


def _figures(reader: Reader, kernel: Kernel, variant: Variant) -> Iterator[str]:
    for line in card.lines(reader.card(variant), 1000):
        yield " ".join(line.split())
    taken = times(reader.recording.path).of(kernel, variant)
    if taken is not None:
        yield f"time {microseconds(taken.median_us)} µs, measured ({taken.stopwatch})"


def _hint(finding: Finding) -> str:
    places = "; ".join(
        f"{stage.value} {', '.join(map(str, lines[:6]))}{' …' if len(lines) > 6 else ''}"
        for stage, lines in finding.lines.items()
        if lines
    )
    guess = ", a guess" if finding.estimated and finding.blocks is None else ""
    where = f" ({places}{guess})" if places or guess else ""
    return f"- {finding.severity} {finding.rule}{where}: {finding.text}"


LANGUAGES = {".py": "python", ".cu": "cuda", ".cuh": "cuda", ".cpp": "cpp"}


def _source(reader: Reader, variant: Variant, stage: Stage, code: Stage) -> PromptCode:
    """The kernel in its source with what was inlined into it, or all of a source in which nobody
    knows where it stands."""
    listing, own = reader.listing(variant, stage), reader.function(variant, stage)
    wanted: Iterable[int] = range(1, min(len(listing.lines), LONGEST) + 1)
    if own is not None:
        wanted = sorted({*range(own.first, own.last + 1), *_inlined(reader, variant, stage, code)})
    lines = [
        PromptLine(n, text) for n in islice(wanted, LONGEST) for text in listing.texts(n, n)
    ]  # fmt: skip
    path = PurePath(variant.stages[stage].origin_path or stage.value)
    language = LANGUAGES.get(path.suffix, "python")
    first = [] if own is None else [PromptWindow(own.first, own.last, "the kernel itself")]
    return PromptCode(stage, language, shown(f"{stage.value}: {path.name}"), lines, first)


def _inlined(reader: Reader, variant: Variant, stage: Stage, code: Stage) -> Iterator[int]:
    """The lines of the source that the code is of, and what stands between two that are near."""
    try:
        lines = sorted(reader.links(variant, stage, code))
    except PtxviewError:
        return
    for n, after in pairwise([*lines, lines[-1]] if lines else []):
        yield from range(n, after if 0 < after - n <= NEAR else n + 1)


def _code(
    reader: Reader, variant: Variant, stage: Stage, findings: tuple[Finding, ...]
) -> PromptCode:
    listing, own = reader.listing(variant, stage), reader.function(variant, stage)
    first, last = (1, len(listing.lines)) if own is None else (own.first, own.last)
    lines = [_line(line) for line in islice(listing.between(first, last), LONGEST)]
    windows, noted = [], []
    for finding in findings:
        for n in finding.lines.get(stage, ())[:HINTED]:
            noted.append(n)
            windows.append(PromptWindow(n - AROUND, n + AROUND, f"hint {finding.rule}"))
    for region in regions(reader, variant, stage):
        why = {
            "samples": f"{region.percent} % of the samples",
            "loop": f"an innermost loop, to line {region.last}, {region.depth} deep",
            "registers": f"{plural(region.live or 0, 'register')} live, the peak",
        }[region.by]
        around = 0 if region.by == "loop" else AROUND
        end = min(region.last, region.first + LOOP)
        windows.append(PromptWindow(region.first - around, end + around, why))
        noted.append(region.first)
    telling = reader.telling(variant, stage)
    sentences = {n: said for n in noted if (said := telling.words(n).sentence) is not None}
    title = f"{stage.value}, lines {first} to {last} of {len(listing.lines)}"
    return PromptCode(stage, stage.value, title, lines, windows, sentences)


def _line(line: Line) -> PromptLine:
    text = line.text.strip()
    says = line.kind not in (Kind.BLANK, Kind.COMMENT) and not text.startswith(DEBUGGED)
    place = line.source
    where = None if place is None else f"{PurePath(place.file).name}:{place.line}"
    return PromptLine(line.n, line.text, line.opcode, where, says)
