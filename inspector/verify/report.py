"""Judged launches as a report: one row for each kernel of each call of a graph."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from inspector.base.model import Graph, Kernel, Variant
from inspector.execute.synchronization import Race
from inspector.verify.compare import JudgedLaunch
from inspector.verify.launches import GraphLaunch
from inspector.verify.unordered import ObservedLaunch
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
    observed: ObservedLaunch | None = None

    @property
    def races(self) -> tuple[Race, ...]:
        """Races and reads of unwritten memory of the launch, executed once more."""
        return () if self.observed is None else self.observed.launched.all_races


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
        kernels = (kernel for graph in self.graphs for kernel in graph.kernels)
        return not any(k.races or k.judgement.verdict is Verdict.UNEXPLAINED for k in kernels)


Observe = Callable[[GraphLaunch], ObservedLaunch | None]
"""Executes a launch with observers of orders; None if it cannot be judged."""


def report_of(launches: Iterable[JudgedLaunch], inputs: str, observe: Observe) -> VerifyReport:
    """Group judged launches by graph and call, and these by kernel; observe one launch of each."""
    groups: dict[tuple[str, int], dict[str, list[JudgedLaunch]]] = {}
    graphs: dict[str, Graph] = {}
    for launch in launches:
        graph_launch = launch.task.launch
        graphs[graph_launch.graph.id] = graph_launch.graph
        kernels = groups.setdefault((graph_launch.graph.id, graph_launch.call), {})
        kernels.setdefault(graph_launch.kernel.id, []).append(launch)
    return VerifyReport(
        tuple(
            GraphVerdict(
                graphs[graph], call, tuple(_of_kernel(group, observe) for group in kernels.values())
            )
            for (graph, call), kernels in groups.items()
        ),
        inputs,
    )


def _of_kernel(launches: Sequence[JudgedLaunch], observe: Observe) -> KernelVerdict:
    worst = max(launches, key=lambda launch: SEVERITY.index(launch.judgement.verdict))
    compared = [j for j in launches if j.judgement.verdict is not Verdict.NOT_COMPARED]
    launch = worst.task.launch
    return KernelVerdict(
        launch.kernel,
        launch.variant,
        worst.judgement,
        launch.line,
        len(launches),
        len(compared),
        observe(launch),
    )


def reasons_against(report: VerifyReport) -> Counter[str]:
    """Why kernels were not compared, and how many for each reason."""
    return Counter(
        kernel.judgement.reason
        for graph in report.graphs
        for kernel in graph.kernels
        if kernel.judgement.verdict is Verdict.NOT_COMPARED
    )
