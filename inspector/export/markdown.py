"""A kernel for an issue: resources, hints, excerpts."""

import re
from collections.abc import Iterator, Sequence

from inspector import __version__
from inspector.analysis.card import Card
from inspector.base.errors import PtxviewError
from inspector.base.escapes import shown
from inspector.base.model import Stage
from inspector.base.names import base_name
from inspector.base.units import plural
from inspector.export.comparisons import KernelVariant
from inspector.export.page import counts_text
from inspector.measure.evidence import Evidence
from inspector.measure.gpu_window import gpu_window
from inspector.parsers.source_code import is_cuda
from inspector.reader.reader import Reader
from inspector.render import card, tables, timeline
from inspector.render.columns import Metrics, cells
from inspector.render.diff_text import code_span, details, escaped, markdown_table
from inspector.render.variant_figures import machine_code

MAX_FULL_KERNELS = 4  # kernels shown in full; more get the table only
MAX_EXCERPT_LINES = {Stage.SOURCE: 150, Stage.OUTPUT_CODE: 150, Stage.PTX: 250}
"""Lines of a stage's excerpt: an issue on GitHub may have 65,536 characters."""
MAX_CHARS = 60_000
LANGUAGES = {Stage.PTX: "ptx", Stage.OUTPUT_CODE: "python"}
FIGURES = ("registers", "spills", "shared")
HEADS = ("kernel", *FIGURES, "occupancy", "instructions", "time", "hints")
_DEBUG_LINE = re.compile(r"\s*(?:\.loc\b.*|//.*|\$L__tmp\d+:)?")
"""Lines of PTX that an issue can do without."""


def markdown(
    reader: Reader,
    kernel_variants: Sequence[KernelVariant],
    evidence: Evidence,
    removed: Sequence[str] = (),
) -> Iterator[str]:
    """Lines of Markdown that nothing in the recording can break out of."""
    written = 0
    rec = reader.recording
    yield from markdown_table(
        HEADS, [_row(reader, kernel_variant, evidence) for kernel_variant in kernel_variants]
    )
    window = gpu_window(rec)
    if window is not None and len(window.spans):
        yield escaped(timeline.heading(window))
        yield ""
    if len(kernel_variants) > MAX_FULL_KERNELS:
        yield f"Name up to {plural(MAX_FULL_KERNELS, 'kernel')} to have their hints and their code."
        yield ""
    for kernel_variant in kernel_variants if len(kernel_variants) <= MAX_FULL_KERNELS else ():
        for line in _kernel_section(reader, kernel_variant):
            written += len(line) + 1
            if written > MAX_CHARS:
                yield "More than an issue holds: name one kernel alone."
                break
            yield line
    footer = [f"ptxview {__version__}", tables.heading(rec), counts_text(kernel_variants)]
    footer += [" ".join(t) for t in rec.tools.items()]
    footer += [f"removed: {text}" for text in removed]
    yield f"<sub>{escaped(' · '.join(footer))}</sub>"


def _row(reader: Reader, kernel_variant: KernelVariant, evidence: Evidence) -> tuple[str, ...]:
    kernel, variant = kernel_variant
    time = evidence.launch_time(kernel, variant)
    name = f"{code_span(base_name(kernel.name))} {code_span(variant.id)}"
    occupancy, instructions = _card_cells(reader.facts.card(variant))
    return (
        f"{name} {escaped(tables.config_text(variant))}",
        *cells(FIGURES, Metrics(reader.facts.resources(variant))),
        occupancy,
        instructions,
        tables.UNKNOWN if time is None else time.text,
        str(len(reader.facts.findings(variant))),
    )


def _card_cells(variant_card: Card) -> tuple[str, str]:
    """Occupancy with its limiters, and the instructions of SASS, else of PTX."""
    occupancy = variant_card.occupancy
    occupancy_text = tables.UNKNOWN
    if occupancy is not None:
        occupancy_text = f"{occupancy.percent:.4g} % ({' and '.join(occupancy.limiters)})"
    content = machine_code(variant_card)
    if content is None or content.mix is None:
        return occupancy_text, tables.UNKNOWN
    return occupancy_text, f"{content.mix.total} {content.stage.value}"


def _kernel_section(reader: Reader, kernel_variant: KernelVariant) -> Iterator[str]:
    kernel, variant = kernel_variant
    name = f"{code_span(base_name(kernel.name))} {code_span(variant.id)}"
    yield f"### {name} {escaped(variant.target or '')}"
    yield ""
    failure = tables.failure_text(variant)
    if failure is not None:
        yield f"**✗ {escaped(failure)}**"
        yield ""
    for finding in reader.facts.findings(variant):
        yield f"- {escaped(card.hint(finding).plain.strip())}"
    for reason in reader.facts.lacking(variant):
        yield f"- not known: {escaped(reason)}"
    yield ""
    yield from details("card", card.lines(reader.facts.card(variant), 100), "text")
    yield ""
    for stage in (Stage.SOURCE, Stage.OUTPUT_CODE, Stage.PTX):
        if stage is Stage.OUTPUT_CODE and Stage.SOURCE in variant.stages and not kernel.fusion:
            continue
        if lines := _excerpt(reader, kernel_variant, stage):
            cuda = is_cuda(variant.stages[stage].origin_path)
            language = LANGUAGES.get(stage, "cuda" if cuda else "python")
            yield from details(stage.value, lines, language, MAX_EXCERPT_LINES[stage])
            yield ""


def _excerpt(reader: Reader, kernel_variant: KernelVariant, stage: Stage) -> list[str]:
    """The kernel's own lines of a stage; of PTX without those that only debuggers need."""
    _, variant = kernel_variant
    if (file := variant.stages.get(stage)) is None or file.costly:
        return []
    try:
        function = reader.stages.function(variant, stage)
        listing = reader.stages.listing(variant, stage)
        first, last = (
            (1, len(listing.lines)) if function is None else (function.first, function.last)
        )
        texts = [shown(t.rstrip("\r").expandtabs(4)) for t in listing.texts(first, last)]
    except PtxviewError:
        return []
    if stage is not Stage.PTX:
        return texts
    return [t.partition("// ")[0].rstrip() for t in texts if not _DEBUG_LINE.fullmatch(t)]
