"""A report of ``verify`` as tables, a sentence and JSON."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from rich.cells import set_cell_size
from rich.text import Text

from inspector.base.model import Recording
from inspector.base.units import plural
from inspector.render.jsons import SCHEMA
from inspector.render.tables import short_title, title
from inspector.render.trace import MAX_RACES, race_lines
from inspector.verify.kept import KeptVerdict
from inspector.verify.launches import REFERENCES
from inspector.verify.lines import DifferenceLines, Lines
from inspector.verify.report import GraphVerdict, KernelVerdict, VerifyReport
from inspector.verify.verdicts import FirstDifference, Verdict

WORDS = {
    Verdict.EQUAL: "equal",
    Verdict.CLOSER: "closer than eager",
    Verdict.SUM_ORDER: "order of a sum",
    Verdict.APPROXIMATION: "approximation",
    Verdict.NOT_COMPARED: "not compared",
    Verdict.UNEXPLAINED: "NOT EXPLAINED",
}
STYLES = {Verdict.UNEXPLAINED: "bold red", Verdict.NOT_COMPARED: "dim"}


class FirstRow(Struct, frozen=True, kw_only=True):
    """The first element that nothing explains; ``allowed`` is by how much rounding may move it."""

    output: str
    index: tuple[int, ...]
    value: object
    reference: object
    eager: object
    allowed: object
    inputs: Mapping[str, object]


class VerifiedKernel(Struct, frozen=True, kw_only=True):
    """A kernel of one call of a graph; errors are shares of the reference's largest magnitude."""

    kernel: str
    number: int | None
    variant: str | None
    verdict: Verdict
    reason: str
    max_error: float | None
    eager_max_error: float | None
    elements: int
    unexplained_elements: int
    launches: int
    compared: int
    first: FirstRow | None
    lines: DifferenceLines | None
    races: Sequence[str] | None = None


class VerifiedGraph(Struct, frozen=True, kw_only=True):
    """One call of a graph, counted from 0."""

    graph: str
    call: int
    kernels: Sequence[VerifiedKernel]


class VerifyDocument(Struct, frozen=True, kw_only=True):
    """``verify --json``."""

    schema: int
    passed: bool
    inputs: str
    graphs: Sequence[VerifiedGraph]


def document(report: VerifyReport, lines: Lines) -> VerifyDocument:
    """The report as JSON."""
    return VerifyDocument(
        schema=SCHEMA,
        passed=report.passed,
        inputs=report.inputs,
        graphs=[
            VerifiedGraph(
                graph=graph.graph.id,
                call=graph.call,
                kernels=[
                    _row(kernel, lines.get((graph.graph.id, graph.call, kernel.kernel.id)))
                    for kernel in graph.kernels
                ],
            )
            for graph in report.graphs
        ],
    )


def _row(kernel: KernelVerdict, lines: DifferenceLines | None) -> VerifiedKernel:
    judgement = kernel.judgement
    return VerifiedKernel(
        kernel=kernel.kernel.id,
        number=kernel.kernel.number,
        variant=None if kernel.variant is None else kernel.variant.id,
        verdict=judgement.verdict,
        reason=judgement.reason,
        max_error=judgement.max_error,
        eager_max_error=judgement.eager_max_error,
        elements=judgement.elements,
        unexplained_elements=judgement.unexplained_elements,
        launches=kernel.launches,
        compared=kernel.compared,
        first=None if judgement.first is None else _first(judgement.first),
        lines=lines,
        races=None if kernel.observed is None else [race.reason for race in kernel.races],
    )


def _first(first: FirstDifference) -> FirstRow:
    return FirstRow(
        output=first.output,
        index=first.index,
        value=first.value,
        reference=first.reference,
        eager=first.eager,
        allowed=first.allowed,
        inputs=first.inputs,
    )


def rows(report: VerifyReport, lines: Lines, width: int) -> Iterator[Text]:
    """A row for each kernel, below the graph's; what differs stands under its kernel."""
    for graph in report.graphs:
        call = f" · call {graph.call}" if graph.call else ""
        yield Text(f"{_heading(graph)}{call}", "bold")
        for kernel in graph.kernels:
            yield from _kernel_rows(kernel, width)
            key = (graph.graph.id, graph.call, kernel.kernel.id)
            yield from _difference_rows(kernel, lines.get(key, DifferenceLines()))
            yield from _race_rows(kernel)


NARROW_COLUMNS = 120
"""Below which a kernel's reason has a separate line."""
VERDICT_COLUMNS = 17


def _kernel_rows(kernel: KernelVerdict, width: int) -> Iterator[Text]:
    """A kernel with its verdict; a reason unless every bit is equal."""
    judgement = kernel.judgement
    verdict = judgement.verdict
    is_narrow = width < NARROW_COLUMNS
    name_columns = max(24, width - VERDICT_COLUMNS - (6 if is_narrow else 66))
    text = Text("  ")
    text.append(set_cell_size(label(kernel), name_columns))
    text.append(f"  {WORDS[verdict]:<{VERDICT_COLUMNS}}", STYLES.get(verdict, ""))
    details = [] if verdict is Verdict.EQUAL else [judgement.reason]
    if judgement.max_error is not None and verdict is not Verdict.EQUAL:
        details.append(f"error {judgement.max_error:.1e}, eager {judgement.eager_max_error:.1e}")
    if kernel.launches > kernel.compared > 0:
        details.append(f"{kernel.compared} of {plural(kernel.launches, 'launch')} compared")
    detail = "; ".join(details)
    if is_narrow or not detail:
        text.rstrip()
        yield text
        if detail:
            yield Text(f"      {detail}", "dim")
        return
    text.append(f"  {detail}", "dim")
    yield text


def _difference_rows(kernel: KernelVerdict, lines: DifferenceLines) -> Iterator[Text]:
    first = kernel.judgement.first
    if first is None:
        return
    index = ", ".join(map(str, first.index))
    yield Text(
        f"      first: {first.output}[{index}] = {first.value}; its operators give "
        f"{first.reference} in fp64, {first.eager} in their dtypes"
    )
    if first.inputs:
        values = ", ".join(f"{name} = {value}" for name, value in first.inputs.items())
        yield Text(f"      from {values}")
    places = [f"{stage} line {n}" for stage, n in (("ptx", lines.ptx), ("sass", lines.sass)) if n]
    places += [lines.source] if lines.source is not None else []
    if places:
        yield Text(f"      stored at {', '.join(places)}")


def _race_rows(kernel: KernelVerdict) -> Iterator[Text]:
    """The missing edge of each race, and its lines with their sources."""
    if kernel.observed is None:
        return
    for race in kernel.races[:MAX_RACES]:
        yield Text(f"      race: {race.reason}", "red")
        for line in race_lines(kernel.observed.selection, race):
            yield Text(f"        {line}", "dim")


def kept_text(kept: KeptVerdict) -> str:
    """``closer than eager: its error is at most that of the operators``."""
    if kept.verdict is Verdict.EQUAL or not kept.reason:
        return WORDS[kept.verdict]
    return f"{WORDS[kept.verdict]}: {kept.reason}"


def unexplained_sentences(rec: Recording, verdicts: Mapping[str, Verdict]) -> list[str]:
    """A sentence for each kernel whose values are not explained; ``verdicts`` are by its id."""
    return [
        f"kernel {short_title(kernel)} is not explained by its operators: ptxview verify"
        for kernel in rec.kernels
        if verdicts.get(kernel.id) is Verdict.UNEXPLAINED
    ]


def answer(report: VerifyReport) -> str:
    """One sentence: whether all is explained, and which kernel is not."""
    if not report.graphs:
        return "no launch of a generated kernel was compared"
    sentences = [_answer(graph) for graph in report.graphs]
    return "; ".join(sentences)


def _heading(graph: GraphVerdict) -> str:
    """``graph 0/0``, or ``references``."""
    return graph.graph.id if graph.graph is REFERENCES else f"graph {graph.graph.id}"


def _answer(graph: GraphVerdict) -> str:
    compared = graph.compared
    explained = len(compared) - len(graph.unexplained)
    call = f" call {graph.call}" if graph.call else ""
    text = f"{_heading(graph)}{call}: {explained} of {plural(len(compared), 'kernel')} explained"
    left_out = len(graph.kernels) - len(compared)
    if left_out:
        text += f", {left_out} not compared"
    for kernel in graph.unexplained[:3]:
        first = kernel.judgement.first
        text += f"; kernel {short_title(kernel.kernel)} differs"
        if first is not None:
            text += f": {first.output}{list(first.index)} is {first.value}, not {first.reference}"
    racing = [short_title(kernel.kernel) for kernel in graph.kernels if kernel.races]
    if racing:
        text += f"; {plural(len(racing), 'kernel')} with a race: {', '.join(racing[:3])}"
    return text


def label(kernel: KernelVerdict) -> str:
    """``#7 silu·mul 4×128 bf16 · model.py:66 · pointwise``."""
    return title(kernel.kernel, with_launches=False)
