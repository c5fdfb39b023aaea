"""A kernel for an issue: resources, hints, excerpts; and a plain folder with every stage."""

import re
from collections.abc import Callable, Iterator, Sequence

from inspector import __version__
from inspector.base.model import FX_STAGES, Kernel, Stage, Variant
from inspector.base.text import PtxviewError, base_name, plural, shown
from inspector.export.comparisons import KernelVariant
from inspector.export.page import COSTLY, counts_text
from inspector.listing.source_code import is_cuda
from inspector.measure.evidence import Evidence
from inspector.measure.gpu_window import gpu_window
from inspector.reader.reader import Reader
from inspector.report import card, jsons, tables, timeline
from inspector.report.diff_text import code, details, escaped, markdown_table

MAX_FULL_KERNELS = 4  # kernels shown in full; more get the table only
MAX_EXCERPT_LINES = {Stage.SOURCE: 150, Stage.OUTPUT_CODE: 150, Stage.PTX: 250}
"""Lines of a stage's excerpt: an issue on GitHub may have 65,536 characters."""
MAX_CHARS = 60_000
LANGUAGES = {Stage.PTX: "ptx", Stage.OUTPUT_CODE: "python"}
HEADS = ("kernel", "registers", "spills", "shared", "occupancy", "instructions", "time", "hints")
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
    resources = reader.resources(variant)
    variant_card = reader.card(variant)
    time = evidence.launch_time(kernel, variant)
    occupancy, machine_code = (
        variant_card.occupancy,
        variant_card.stage_content(Stage.SASS) or variant_card.stage_content(Stage.PTX),
    )
    limiters = "" if occupancy is None else " and ".join(occupancy.limiters)
    mix = None if machine_code is None else machine_code.mix
    return (
        f"{code(base_name(kernel.name))} {code(variant.id)} {escaped(tables.config_text(variant))}",
        tables.figure(resources.registers),
        tables.spills(resources),
        tables.shared(resources),
        tables.UNKNOWN if occupancy is None else f"{occupancy.percent:.4g} % ({limiters})",
        tables.UNKNOWN
        if mix is None or machine_code is None
        else f"{mix.total} {machine_code.stage.value}",
        tables.UNKNOWN if time is None else time.text,
        str(len(reader.findings(variant))),
    )


def _kernel_section(reader: Reader, kernel_variant: KernelVariant) -> Iterator[str]:
    kernel, variant = kernel_variant
    yield f"### {code(base_name(kernel.name))} {code(variant.id)} {escaped(variant.target or '')}"
    yield ""
    if (failure := tables.failure_text(variant)) is not None:
        yield f"**✗ {escaped(failure)}**"
        yield ""
    for finding in reader.findings(variant):
        yield f"- {escaped(card.hint(finding).plain.strip())}"
    for why in reader.lacking(variant):
        yield f"- not known: {escaped(why)}"
    yield ""
    yield from details("card", card.lines(reader.card(variant), 100), "text")
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
        function = reader.function(variant, stage)
        listing = reader.listing(variant, stage)
        first, last = (
            (1, len(listing.lines)) if function is None else (function.first, function.last)
        )
        texts = [shown(t.rstrip("\r").expandtabs(4)) for t in listing.texts(first, last)]
    except PtxviewError:
        return []
    if stage is not Stage.PTX:
        return texts
    return [t.partition("// ")[0].rstrip() for t in texts if not _DEBUG_LINE.fullmatch(t)]


NAMES = {
    Stage.OUTPUT_CODE: "output_code.py",
    Stage.TTIR: "kernel.ttir",
    Stage.TTGIR: "kernel.ttgir",
    Stage.LLIR: "kernel.ll",
    Stage.PTX: "kernel.ptx",
    Stage.SASS: "kernel.sass",
}
_UNPORTABLE = re.compile(r"[^A-Za-z0-9_.-]+")
MAX_NAME_CHARS = 80
"""Letters of a folder's name: a file system takes 255 bytes, a path on some machines 260."""

File = tuple[str, bytes]  # A path in the folder and its content


def contents(
    reader: Reader,
    kernel_variants: Sequence[KernelVariant],
    evidence: Evidence,
    removed: Sequence[str] = (),
    compilers: bool = False,
    missing: Callable[[str], None] = lambda text: None,
) -> Iterator[File]:
    """Every file of the folder; ``missing`` is called for each unavailable stage."""
    index: list[str] = []
    used_names: set[str] = set()
    for kernel, variant in kernel_variants:
        name = _unique(f"{base_name(kernel.name)}-{variant.id}", used_names)
        written: list[str] = []
        for stage in jsons.ordered(variant.stages):
            file = variant.stages[stage]
            try:
                if file.costly and not compilers:
                    raise PtxviewError(COSTLY)
                text = reader.text(variant, stage).text
            except PtxviewError as error:
                label = f"{base_name(kernel.name)} {variant.id}: {stage.value}"
                missing(f"{label}: {error.message}")
                continue
            leaf = NAMES.get(stage, "source.cu" if is_cuda(file.origin_path) else "source.py")
            written.append(leaf)
            yield f"{name}/{leaf}", text.encode("utf-8", "surrogateescape")
        yield f"{name}/card.txt", _card(reader, kernel, variant).encode("utf-8", "replace")
        files = " ".join(f"[{leaf}]({name}/{leaf})" for leaf in (*written, "card.txt"))
        config = escaped(tables.config_text(variant))
        index.append(f"- {code(base_name(kernel.name))} {code(variant.id)} {config}: {files}")
    for graph in reader.recording.graphs:
        name = f"graphs/{_unique(f'graph-{graph.id}', used_names)}"
        leaves = []
        for stage in reversed(reader.graph_stages(graph)):
            if stage is Stage.SOURCE:
                continue
            suffix = "" if stage is Stage.OUTPUT_CODE else f".{stage.value}"
            leaf = f"{name}{suffix}.{'py' if stage in (*FX_STAGES, Stage.OUTPUT_CODE) else 'txt'}"
            try:
                text = reader.graph_text(graph, stage)
            except PtxviewError as error:
                missing(f"{stage.value} of graph {graph.id}: {error.message}")
                continue
            yield leaf, text.encode("utf-8", "surrogateescape")
            leaves.append(f"[{stage.value}]({leaf})")
        index.append(f"- graph {code(graph.id)}: {' '.join(leaves)}")
    lines = ["# Kernels", "", *index, "", *markdown(reader, kernel_variants, evidence, removed), ""]
    yield "README.md", "\n".join(lines).encode("utf-8", "replace")


def _card(reader: Reader, kernel: Kernel, variant: Variant) -> str:
    parts = (kernel.demangled, variant.id, variant.target or "", tables.config_text(variant))
    lines = [shown("  ".join(filter(None, parts))), "", *card.lines(reader.card(variant), 100)]
    lines += [card.hint(finding).plain.strip() for finding in reader.findings(variant)]
    lines += [f"not known: {shown(why)}" for why in reader.lacking(variant)]
    return "\n".join(lines) + "\n"


def _unique(name: str, used_names: set[str]) -> str:
    """Return a portable name, unique regardless of case."""
    portable_name = _UNPORTABLE.sub("_", name).strip("._-")[:MAX_NAME_CHARS] or "kernel"
    names = (portable_name, *(f"{portable_name}-{n}" for n in range(2, len(used_names) + 3)))
    unique_name = next(name for name in names if name.lower() not in used_names)
    used_names.add(unique_name.lower())
    return unique_name
