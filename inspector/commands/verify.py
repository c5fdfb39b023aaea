"""Compare each generated kernel of compiled graphs with its own operators on the same inputs.

SCRIPT is run with what its kernels read and write kept; without a GPU their PTX is executed. Of a
recording, what was kept is compared. Exits with 1 where a kernel's values are not explained.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.text import Text

from inspector.base.errors import Exit, RunFailed, Unreadable, UsageError
from inspector.base.model import Stage
from inspector.base.names import words
from inspector.commands import common
from inspector.commands.common import (
    JSON,
    amount,
    option,
    print_json,
    program_on_stderr,
    say,
    split_program,
    takes,
    takes_program,
)
from inspector.commands.run import request_of, summary
from inspector.measure.time.take import interpreter
from inspector.reader.query import select, select_graph
from inspector.reader.reader import Reader
from inspector.recording.layout import is_recording, read_events
from inspector.render import verify as text
from inspector.sources.running import run as record
from inspector.system import printing, toolchain
from inspector.verify.compare import coarse_words_of, judged
from inspector.verify.executed import executed_launches
from inspector.verify.launches import GraphLaunch, kept_launches
from inspector.verify.lines import difference_lines
from inspector.verify.report import report_of
from inspector.verify.tasks import LaunchTask, tasks_of

VALUED = words("-o --out --target --python --calls --budget --value-seconds")
BUDGET = 1 << 30
"""Bytes of tensors that are kept of a run."""
KEPT = "the program's own, and what its kernels wrote"
MADE_UP = "made up as trace makes them; ptxview verify SCRIPT.py compares the program's own"
WITHOUT_CACHES = (("TORCHINDUCTOR_FX_GRAPH_CACHE", "0"), ("TORCHINDUCTOR_AUTOGRAD_CACHE", "0"))
"""A graph from a cache comes without its operators."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``verify``; before a program, or anywhere beside a recording."""
    takes_program(parser)
    takes(
        parser,
        {
            "--target": option("sm_90", "run on an emulated device (default without a GPU)"),
            "--calls": option(
                "N", "calls of each graph that are compared (1)", type=int, default=1
            ),
            "--budget": option(
                "BYTES", "tensors kept of a run (1 GiB)", type=amount, default=BUDGET
            ),
            "--json": JSON,
        },
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Run or read, compare and print; 1 where a kernel is not explained."""
    our_words, kind, program = split_program(argv, VALUED)
    is_program = kind != "script" or (bool(program) and not _names_recording(program[0]))
    if is_program:
        args = parser.parse_args(our_words)
        if args.calls < 1:
            raise UsageError("--calls is 1 or more")
        reader, path, selector = _recorded(args, kind, program)
    else:
        args, positional = parser.parse_known_args(argv)
        if unknown := [word for word in positional if word.startswith("-")]:
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        location, selector = common.split_path(positional)
        reader = common.open_reader(location)
        path = Path(reader.recording.resolved_path or reader.recording.path)
    return _verify(reader, path, selector, args)


def _names_recording(word: str) -> bool:
    path = Path(word)
    return is_recording(path) or not word.endswith(".py")


def _recorded(
    args: argparse.Namespace, kind: str, program: Sequence[str]
) -> tuple[Reader, Path, None]:
    """A reader of a run of the program, with the values of its kernels."""
    environment = (
        ("PTXVIEW_VERIFY", str(args.calls)),
        ("PTXVIEW_CONTENTS", str(args.budget)),
        ("PTXVIEW_VALUES", "ptx"),
        ("PTXVIEW_VALUE_SECONDS", "inf"),
        *WITHOUT_CACHES,
    )
    try:
        request = request_of("verify", kind, list(program), args, environment)
        with program_on_stderr():
            outcome = record(request, say)
    except RunFailed as error:
        raise Unreadable(error.message, error.hint) from None
    printing.narrate(summary(outcome))
    if outcome.recording is None:
        raise Unreadable("the recording could not be completed")
    if outcome.status:
        say(f"the program ended with status {outcome.status}; what it launched is compared")
    return common.reader_of(outcome.recording), outcome.path, None


def _verify(reader: Reader, path: Path, selector: str | None, args: argparse.Namespace) -> int:
    if not is_recording(path):
        raise UsageError(
            f"{path} is not a recording: only recordings have operators and launches",
            "ptxview verify SCRIPT.py makes one.",
        )
    recording = reader.recording
    python = interpreter(
        args.python, (sys.executable, toolchain.interpreter(None)), toolchain.versions
    )
    launches = kept_launches(recording, read_events(path))
    inputs = KEPT
    with printing.progress("executing kernels") as show:
        if not launches:
            inputs = MADE_UP
            launches = _executed(reader, selector, show)
    tasks = _selected(reader, list(tasks_of(launches)), selector)
    if not tasks:
        raise UsageError(*_nothing_to_verify(reader, path))
    opcodes = coarse_words_of(lambda variant: reader.facts.opcodes(variant) or ())
    with printing.progress("computing operators") as show:

        def tell(done: int, total: int) -> None:
            show(f"{done} of {total}")

        report = report_of(judged(tasks, python, opcodes, tell), inputs)
    lines = {
        (graph.graph.id, graph.call, kernel.kernel.id): difference_lines(reader, kernel)
        for graph in report.graphs
        for kernel in graph.unexplained
    }
    if args.json:
        print_json(text.document(report, lines))
    else:
        printing.rows(text.rows(report, lines, printing.out().width))
        printing.rows([Text(text.answer(report), "bold" if report.passed else "bold red")])
        printing.narrate(f"inputs: {report.inputs}")
    return Exit.OK if report.passed else Exit.DIFFERENT


def _nothing_to_verify(reader: Reader, path: Path) -> tuple[str, str]:
    """Why nothing can be compared, and what to do about it."""
    graphs = reader.recording.graphs
    again = "ptxview verify SCRIPT.py runs a program, and compares what its kernels write."
    if not graphs:
        return (
            f"{path} has no graph of torch.compile",
            "Kernels that torch.compile generates have operators to be compared with, others none.",
        )
    if any(graph.nodes is None for graph in graphs):
        return f"{path} lacks the operators of its graphs, which came from Inductor's cache", again
    return f"{path} has no launch of a generated kernel", again


def _executed(
    reader: Reader, selector: str | None, show: Callable[[str], object]
) -> list[GraphLaunch]:
    """The launches of the graphs that a word means, executed on inputs that are made up."""
    graphs = reader.recording.graphs
    if selector is not None and (chosen := select_graph(reader.recording, selector)) is not None:
        graphs = (chosen,)
    elif selector is not None:
        kernels = {kernel.id for kernel, _ in select(reader.recording, selector)}
        graphs = tuple(graph for graph in graphs if kernels.intersection(graph.kernels))
    launches = []
    for graph in graphs:
        if Stage.OUTPUT_CODE in graph.stages and graph.nodes is not None:
            for launch in executed_launches(reader, graph):
                launches.append(launch)
                show(f"{len(launches)}")
    return launches


def _selected(
    reader: Reader, tasks: Sequence[LaunchTask], selector: str | None
) -> Sequence[LaunchTask]:
    """The tasks of a graph or of a kernel. Raises ``UsageError`` for a word that fits none."""
    if selector is None:
        return tasks
    graph = select_graph(reader.recording, selector)
    if graph is not None:
        return [task for task in tasks if task.launch.graph.id == graph.id]
    kernels = {kernel.id for kernel, _ in select(reader.recording, selector)}
    if not kernels:
        raise UsageError(f"there is no graph or kernel {selector}", "ptxview list names them.")
    return [task for task in tasks if task.launch.kernel.id in kernels]
