"""A kernel for an issue: resources, hints, excerpts; and a plain folder with every stage."""

import re
from collections.abc import Callable, Iterator, Sequence

from inspector import __version__
from inspector.base.model import FX_STAGES, Kernel, Stage, Variant
from inspector.base.text import PtxviewError, base_name, plural, shown
from inspector.export.page import COSTLY, Found, named
from inspector.listing.source_code import is_cuda
from inspector.measure.evidence import Evidence
from inspector.measure.gpu_window import gpu_window
from inspector.reader.reader import Reader
from inspector.report import card, jsons, tables, timeline
from inspector.report.diff_text import code, details, escaped, rows_of

IN_FULL = 4  # kernels shown in full; more get the table only
LONGEST = {Stage.SOURCE: 150, Stage.OUTPUT_CODE: 150, Stage.PTX: 250}
"""Lines of a stage's excerpt: an issue on GitHub may have 65,536 characters."""
MOST = 60_000
LANGUAGES = {Stage.PTX: "ptx", Stage.OUTPUT_CODE: "python"}
HEADS = ("kernel", "registers", "spills", "shared", "occupancy", "instructions", "time", "hints")
_SILENT = re.compile(r"\s*(?:\.loc\b.*|//.*|\$L__tmp\d+:)?")
"""Lines of PTX that an issue can do without."""


def markdown(
    reader: Reader, chosen: Sequence[Found], given: Evidence, removed: Sequence[str] = ()
) -> Iterator[str]:
    """Lines of Markdown that nothing in the recording can break out of."""
    written = 0
    rec = reader.recording
    yield from rows_of(HEADS, [_row(reader, found, given) for found in chosen])
    window = gpu_window(rec)
    if window is not None and len(window.spans):
        yield escaped(timeline.heading(window))
        yield ""
    if len(chosen) > IN_FULL:
        yield f"Name up to {plural(IN_FULL, 'kernel')} to have their hints and their code."
        yield ""
    for found in chosen if len(chosen) <= IN_FULL else ():
        for line in _of(reader, found):
            written += len(line) + 1
            if written > MOST:
                yield "More than an issue holds: name one kernel alone."
                break
            yield line
    said = [f"ptxview {__version__}", tables.heading(rec), named(chosen)]
    said += [" ".join(t) for t in rec.tools.items()]
    said += [f"removed: {text}" for text in removed]
    yield f"<sub>{escaped(' · '.join(said))}</sub>"


def _row(reader: Reader, found: Found, given: Evidence) -> tuple[str, ...]:
    kernel, variant = found
    resources, own = reader.resources(variant), reader.card(variant)
    time = given.launch_time(kernel, variant)
    full, made = own.occupancy, own.stage_content(Stage.SASS) or own.stage_content(Stage.PTX)
    limiters = "" if full is None else " and ".join(full.limiters)
    mix = None if made is None else made.mix
    return (
        f"{code(base_name(kernel.name))} {code(variant.id)} {escaped(tables.config(variant))}",
        tables.figure(resources.registers),
        tables.spills(resources),
        tables.shared(resources),
        tables.UNKNOWN if full is None else f"{full.percent:.4g} % ({limiters})",
        tables.UNKNOWN if mix is None or made is None else f"{mix.total} {made.stage.value}",
        tables.UNKNOWN if time is None else time.text,
        str(len(reader.findings(variant))),
    )


def _of(reader: Reader, found: Found) -> Iterator[str]:
    kernel, variant = found
    yield f"### {code(base_name(kernel.name))} {code(variant.id)} {escaped(variant.target or '')}"
    yield ""
    if (said := tables.how(variant)) is not None:
        yield f"**✗ {escaped(said)}**"
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
        if lines := _excerpt(reader, found, stage):
            cuda = is_cuda(variant.stages[stage].origin_path)
            language = LANGUAGES.get(stage, "cuda" if cuda else "python")
            yield from details(stage.value, lines, language, LONGEST[stage])
            yield ""


def _excerpt(reader: Reader, found: Found, stage: Stage) -> list[str]:
    """The kernel's own lines of a stage; of PTX without those that only debuggers need."""
    _, variant = found
    if (file := variant.stages.get(stage)) is None or file.costly:
        return []
    try:
        own = reader.function(variant, stage)
        listing = reader.listing(variant, stage)
        first, last = (1, len(listing.lines)) if own is None else (own.first, own.last)
        texts = [shown(t.rstrip("\r").expandtabs(4)) for t in listing.texts(first, last)]
    except PtxviewError:
        return []
    if stage is not Stage.PTX:
        return texts
    return [t.partition("// ")[0].rstrip() for t in texts if not _SILENT.fullmatch(t)]


NAMES = {
    Stage.OUTPUT_CODE: "output_code.py",
    Stage.TTIR: "kernel.ttir",
    Stage.TTGIR: "kernel.ttgir",
    Stage.LLIR: "kernel.ll",
    Stage.PTX: "kernel.ptx",
    Stage.SASS: "kernel.sass",
}
_ODD = re.compile(r"[^A-Za-z0-9_.-]+")
MAX_NAME_CHARS = 80
"""Letters of a folder's name: a file system takes 255 bytes, a path on some machines 260."""

File = tuple[str, bytes]  # A path in the folder and its content


def contents(
    reader: Reader,
    chosen: Sequence[Found],
    given: Evidence,
    removed: Sequence[str] = (),
    compilers: bool = False,
    missing: Callable[[str], None] = lambda text: None,
) -> Iterator[File]:
    """Every file of the folder; ``missing`` is called for each unavailable stage."""
    index: list[str] = []
    taken: set[str] = set()
    for kernel, variant in chosen:
        name = _unique(f"{base_name(kernel.name)}-{variant.id}", taken)
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
        config = escaped(tables.config(variant))
        index.append(f"- {code(base_name(kernel.name))} {code(variant.id)} {config}: {files}")
    for graph in reader.recording.graphs:
        name = f"graphs/{_unique(f'graph-{graph.id}', taken)}"
        leaves = []
        for stage in reversed(reader.graph_stages(graph)):
            if stage is Stage.SOURCE:
                continue
            own = "" if stage is Stage.OUTPUT_CODE else f".{stage.value}"
            leaf = f"{name}{own}.{'py' if stage in (*FX_STAGES, Stage.OUTPUT_CODE) else 'txt'}"
            try:
                text = reader.graph_text(graph, stage)
            except PtxviewError as error:
                missing(f"{stage.value} of graph {graph.id}: {error.message}")
                continue
            yield leaf, text.encode("utf-8", "surrogateescape")
            leaves.append(f"[{stage.value}]({leaf})")
        index.append(f"- graph {code(graph.id)}: {' '.join(leaves)}")
    lines = ["# Kernels", "", *index, "", *markdown(reader, chosen, given, removed), ""]
    yield "README.md", "\n".join(lines).encode("utf-8", "replace")


def _card(reader: Reader, kernel: Kernel, variant: Variant) -> str:
    parts = (kernel.demangled, variant.id, variant.target or "", tables.config(variant))
    lines = [shown("  ".join(filter(None, parts))), "", *card.lines(reader.card(variant), 100)]
    lines += [card.hint(finding).plain.strip() for finding in reader.findings(variant)]
    lines += [f"not known: {shown(why)}" for why in reader.lacking(variant)]
    return "\n".join(lines) + "\n"


def _unique(name: str, taken: set[str]) -> str:
    """Return a portable name, unique regardless of case."""
    plain = _ODD.sub("_", name).strip("._-")[:MAX_NAME_CHARS] or "kernel"
    names = (plain, *(f"{plain}-{n}" for n in range(2, len(taken) + 3)))
    out = next(name for name in names if name.lower() not in taken)
    taken.add(out.lower())
    return out
