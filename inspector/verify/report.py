"""Judged launches as a report: one row for each kernel of each call of a graph."""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from inspector.base.model import Graph, Kernel, Variant
from inspector.verify.compare import JudgedLaunch
from inspector.verify.verdicts import SEVERITY, Judgement, Verdict


class KernelVerdict(Struct, frozen=True):
    """A kernel of one call of a graph: the judgement on that of its launches which is hardest to
    explain. ``line`` is that launch's in ``output_code``; ``compared`` of ``launches`` launches."""

    kernel: Kernel
    variant: Variant | None
    judgement: Judgement
    line: int
    launches: int
    compared: int


class GraphVerdict(Struct, frozen=True):
    """The kernels of one call of a graph, in the order of their first launch."""

    graph: Graph
    call: int
    kernels: tuple[KernelVerdict, ...]

    @property
    def unexplained(self) -> tuple[KernelVerdict, ...]:
        return tuple(k for k in self.kernels if k.judgement.verdict is Verdict.UNEXPLAINED)

    @property
    def compared(self) -> tuple[KernelVerdict, ...]:
        return tuple(k for k in self.kernels if k.judgement.verdict is not Verdict.NOT_COMPARED)


class VerifyReport(Struct, frozen=True):
    """All calls that were compared, in order; ``inputs`` says what the kernels were given."""

    graphs: tuple[GraphVerdict, ...]
    inputs: str

    @property
    def passed(self) -> bool:
        return not any(graph.unexplained for graph in self.graphs)


def report_of(launches: Iterable[JudgedLaunch], inputs: str) -> VerifyReport:
    """Group judged launches by graph and call, and these by kernel."""
    groups: dict[tuple[str, int], dict[str, list[JudgedLaunch]]] = {}
    graphs: dict[str, Graph] = {}
    for launch in launches:
        graph_launch = launch.task.launch
        graphs[graph_launch.graph.id] = graph_launch.graph
        kernels = groups.setdefault((graph_launch.graph.id, graph_launch.call), {})
        kernels.setdefault(graph_launch.kernel.id, []).append(launch)
    return VerifyReport(
        tuple(
            GraphVerdict(graphs[graph], call, tuple(map(_of_kernel, kernels.values())))
            for (graph, call), kernels in groups.items()
        ),
        inputs,
    )


def _of_kernel(launches: Sequence[JudgedLaunch]) -> KernelVerdict:
    worst = max(launches, key=lambda launch: SEVERITY.index(launch.judgement.verdict))
    compared = [j for j in launches if j.judgement.verdict is not Verdict.NOT_COMPARED]
    launch = worst.task.launch
    return KernelVerdict(
        launch.kernel, launch.variant, worst.judgement, launch.line, len(launches), len(compared)
    )


def reasons_against(report: VerifyReport) -> Counter[str]:
    """Why kernels were not compared, and how many for each reason."""
    return Counter(
        kernel.judgement.reason
        for graph in report.graphs
        for kernel in graph.kernels
        if kernel.judgement.verdict is Verdict.NOT_COMPARED
    )
