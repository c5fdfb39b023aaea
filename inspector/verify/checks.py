"""The launches of a recording compared with their operators, one after the other."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from msgspec import Struct

from inspector.base.errors import UsageError
from inspector.base.model import Graph, Recording, Stage
from inspector.reader.query import select, select_graph
from inspector.reader.reader import Reader
from inspector.recording.layout import is_recording, read_events
from inspector.verify.compare import coarse_words_of, judged
from inspector.verify.executed import executed_launches
from inspector.verify.launches import REFERENCES, GraphLaunch, kept_launches
from inspector.verify.lines import Lines, difference_lines
from inspector.verify.report import VerifyReport, report_of
from inspector.verify.tasks import LaunchTask, tasks_of
from inspector.verify.unordered import ObservedLaunch, observed_launch

KEPT = "the program's own, and what its kernels wrote"
MADE_UP = "made up as trace makes them; ptxview verify SCRIPT.py compares the program's own"

Tell = Callable[[str], object]
"""Is called with a sentence on what is being done."""
GoOn = Callable[[], bool]
"""Whether the work is to go on; once it says no, ``Stopped`` is raised."""


class Selection(Struct, frozen=True):
    """What is compared, by ids: all launches of some graphs, or those of some kernels alone."""

    graphs: Collection[str]
    kernels: Collection[str] | None = None

    def takes(self, launch: GraphLaunch) -> bool:
        """Whether a launch is compared."""
        of_kernel = self.kernels is None or launch.kernel.id in self.kernels
        return of_kernel and launch.graph.id in self.graphs


class LaunchTasks(Struct, frozen=True):
    """What is compared of each launch, and what the kernels were given, in words."""

    tasks: Sequence[LaunchTask]
    inputs: str


def selected(recording: Recording, word: str | None) -> Selection:
    """What a word means, a graph or kernels; all without one. Raises ``UsageError``."""
    if word is None:
        return Selection([*(graph.id for graph in recording.graphs), REFERENCES.id])
    if (graph := select_graph(recording, word)) is not None:
        return Selection([graph.id])
    kernels = {kernel.id for kernel, _ in select(recording, word)}
    if not kernels:
        raise UsageError(f"there is no graph or kernel {word}", "ptxview list names them.")
    graphs = [graph.id for graph in recording.graphs if kernels.intersection(graph.kernels)]
    return Selection([*graphs, REFERENCES.id], kernels)


def launch_tasks(
    reader: Reader,
    path: Path,
    selection: Selection,
    tell: Tell = lambda _: None,
    go_on: GoOn = lambda: True,
) -> LaunchTasks:
    """The launches that a recording kept, else executed on inputs that are made up.

    Raises ``UsageError`` where nothing can be compared, ``Stopped`` where ``go_on`` says no.
    """
    if not is_recording(path):
        raise UsageError(
            f"{path} is not a recording: only recordings have operators and launches",
            "ptxview verify SCRIPT.py makes one.",
        )
    recording = reader.recording
    launches = kept_launches(recording, read_events(path))
    inputs = KEPT
    if not launches:
        inputs = MADE_UP
        graphs = [graph for graph in recording.graphs if graph.id in selection.graphs]
        launches = _executed(reader, graphs, tell, go_on)
    tasks = [task for task in tasks_of(launches) if selection.takes(task.launch)]
    if not tasks:
        raise UsageError(*_nothing_to_verify(recording, path))
    return LaunchTasks(tasks, inputs)


def _nothing_to_verify(recording: Recording, path: Path) -> tuple[str, str]:
    """Why nothing can be compared, and what to do about it."""
    graphs = recording.graphs
    again = "ptxview verify SCRIPT.py runs a program, and compares what its kernels write."
    if not graphs:
        return (
            f"{path} has no graph of torch.compile, and no launch of a kernel with a reference",
            "inspector.reference(kernel, function) gives a hand-written kernel one.",
        )
    if any(graph.nodes is None for graph in graphs):
        return f"{path} lacks the operators of its graphs, which came from Inductor's cache", again
    return f"{path} has no launch of a generated kernel", again


def _executed(
    reader: Reader, graphs: Sequence[Graph], tell: Tell, go_on: GoOn
) -> list[GraphLaunch]:
    launches: list[GraphLaunch] = []
    for graph in graphs:
        if Stage.OUTPUT_CODE in graph.stages and graph.nodes is not None:
            for launch in executed_launches(reader, graph, go_on=go_on):
                launches.append(launch)
                tell(f"executing kernels: {len(launches)}")
    return launches


def compared(
    reader: Reader,
    launches: LaunchTasks,
    python: str,
    tell: Tell = lambda _: None,
    go_on: GoOn = lambda: True,
) -> VerifyReport:
    """A verdict on each launch, by an interpreter with torch.

    Raises ``ToolMissing``, ``Unreadable``, and ``Stopped`` where ``go_on`` says no.
    """
    opcodes = coarse_words_of(lambda variant: reader.facts.opcodes(variant) or ())

    def count(done: int, total: int) -> None:
        tell(f"computing operators: {done} of {total}")

    def observe(launch: GraphLaunch) -> ObservedLaunch | None:
        tell(f"comparing the blocks of {launch.kernel.name}")
        return observed_launch(reader, launch, go_on)

    verdicts = judged(launches.tasks, python, opcodes, count, go_on)
    return report_of(verdicts, launches.inputs, observe)


def lines_of(reader: Reader, report: VerifyReport) -> Lines:
    """The lines of each difference that is not explained."""
    return {
        (graph.graph.id, graph.call, kernel.kernel.id): difference_lines(reader, kernel)
        for graph in report.graphs
        for kernel in graph.unexplained
    }
