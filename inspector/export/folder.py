"""A plain folder of a recording: a file a stage as its compiler wrote it, and the card beside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from inspector.base.errors import PtxviewError
from inspector.base.model import FX_STAGES, GRAPH_STAGES, Kernel, Stage, Variant
from inspector.base.names import base_name
from inspector.base.text import shown
from inspector.export.gathering import COSTLY, Found
from inspector.export.markdown import markdown
from inspector.listing.cuda import is_cuda
from inspector.measure.time.stored import StoredTimes
from inspector.reader.reader import Reader
from inspector.report import annotated, card, jsons, tables
from inspector.report.diff_markdown import code, escaped

NAMES = {
    Stage.OUTPUT_CODE: "output_code.py",
    Stage.TTIR: "kernel.ttir",
    Stage.TTGIR: "kernel.ttgir",
    Stage.LLIR: "kernel.ll",
    Stage.PTX: "kernel.ptx",
    Stage.SASS: "kernel.sass",
}
_ODD = re.compile(r"[^A-Za-z0-9_.-]+")
LONGEST = 80
"""Letters of a folder's name: a file system takes 255 bytes, a path on some machines 260."""

File = tuple[str, bytes]
"""A path in the folder and its content."""


def contents(
    reader: Reader,
    chosen: Sequence[Found],
    times: StoredTimes,
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
            label = f"{base_name(kernel.name)} {variant.id}: {stage.value}"
            try:
                if file.costly and not compilers:
                    raise PtxviewError(COSTLY)
                text = reader.text(variant, stage).text
            except PtxviewError as error:
                missing(f"{label}: {error.message}")
                continue
            cuda = is_cuda(file.origin_path)
            leaf = NAMES.get(stage, "source.cu" if cuda else "source.py")
            written.append(leaf)
            yield f"{name}/{leaf}", text.encode("utf-8", "surrogateescape")
        yield f"{name}/card.txt", _card(reader, kernel, variant).encode("utf-8", "replace")
        files = " ".join(f"[{leaf}]({name}/{leaf})" for leaf in (*written, "card.txt"))
        config = escaped(tables.config(variant))
        index.append(f"- {code(base_name(kernel.name))} {code(variant.id)} {config}: {files}")
    for graph in reader.recording.graphs:
        try:
            data = graph.stages[Stage.OUTPUT_CODE].content.read()
        except (PtxviewError, KeyError):
            continue
        name = f"graphs/{_unique(f'graph-{graph.id}', taken)}"
        yield f"{name}.py", data
        leaves = [f"[output_code]({name}.py)"]
        for stage in reader.graph_stages(graph):
            if stage in GRAPH_STAGES:
                leaf = f"{name}.{stage.value}.{'py' if stage in FX_STAGES else 'txt'}"
                try:
                    text = reader.graph_text(graph, stage)
                except PtxviewError as error:
                    missing(f"{stage.value} of graph {graph.id}: {error.message}")
                    continue
                yield leaf, text.encode("utf-8", "surrogateescape")
                leaves.append(f"[{stage.value}]({leaf})")
        index.append(f"- graph {code(graph.id)}: {' '.join(leaves)}")
    lines = ["# Kernels", "", *index, "", *markdown(reader, chosen, times, removed), ""]
    yield "README.md", "\n".join(lines).encode("utf-8", "replace")


def _card(reader: Reader, kernel: Kernel, variant: Variant) -> str:
    parts = (kernel.demangled, variant.id, variant.target or "", tables.config(variant))
    lines = [shown("  ".join(filter(None, parts))), "", *card.lines(reader.card(variant), 100)]
    lines += [annotated.hint(finding).plain.strip() for finding in reader.findings(variant)]
    lines += [f"not known: {shown(why)}" for why in reader.lacking(variant)]
    return "\n".join(lines) + "\n"


def _unique(name: str, taken: set[str]) -> str:
    """Return a portable name, unique regardless of case."""
    plain = _ODD.sub("_", name).strip("._-")[:LONGEST] or "kernel"
    names = (plain, *(f"{plain}-{n}" for n in range(2, len(taken) + 3)))
    out = next(name for name in names if name.lower() not in taken)
    taken.add(out.lower())
    return out
