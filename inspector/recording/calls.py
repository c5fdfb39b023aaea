"""Calls of Triton kernels, graphs and extensions' functions, as their launchers were called.

``driver_launches`` adds what only the CUDA driver sees: replays of CUDA graphs and launches of
other makers' kernels.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.base.model import Argument, Call, Graph, Stage, Variant
from inspector.base.names import argument_types, base_name
from inspector.base.units import plural
from inspector.recording.contents import text_of
from inspector.recording.decoding import is_launch_number
from inspector.recording.events import (
    CallCounts,
    CallRecorded,
    Event,
    LostContext,
    Problem,
    ProcessStarted,
)
from inspector.recording.launch_parameters import arguments_of
from inspector.recording.processes import Process, Processes

# Where a graph's code takes its inputs apart: "arg0_1, arg1_1 = args".
_INPUTS = re.compile(r"^[ \t]+\(?((?:\w+, ?)*\w+,?)\)? = args[ \t]*$", re.MULTILINE)
COUNTING = "counting launches"
"""Where the probes report that a launch was not counted."""
NAMES = {"triton": "kernel", "graph": "graph", "extension": "function"}


class _RecordedCall(Struct, frozen=True):
    """A distinct call of one process, by its number there."""

    process: Process
    number: int
    call: Call
    parameters: tuple[str, ...] = ()


class _CallTarget(Struct):
    """A kernel, a graph or a function with its calls, and how many of each process are counted
    without a description, or are an autotuner's, with the latter's grids."""

    name: str = ""
    calls: list[_RecordedCall] = field(default_factory=list)
    undescribed: dict[Process, int] = field(default_factory=dict)
    benchmarks: dict[Process, int] = field(default_factory=dict)
    benchmark_grids: dict[tuple[int, int, int], None] = field(default_factory=dict)

    def processes(self) -> set[Process]:
        return {recorded.process for recorded in self.calls} | set(self.undescribed)


class Calls:
    """Collects the events of calls of all processes.

    Counts are written as they grow, so a later one replaces an earlier one. Until a process has
    written its final ones, or where counting itself failed, they are lower bounds.
    """

    EVENTS = (ProcessStarted, Problem, CallRecorded, CallCounts)
    """The events that it takes."""

    def __init__(self) -> None:
        self._processes = Processes("process")
        self._targets: dict[tuple[str, str], _CallTarget] = {}
        self._cuda: dict[str, list[_CallTarget]] = {}
        self._counts: dict[tuple[Process, int], int] = {}
        self._failures: dict[tuple[Process, int], str] = {}
        self._lost: dict[Process, LostContext] = {}
        self._open: set[Process] = set()
        self._failed = False
        self._problems: list[str] = []

    def take(self, event: Event) -> None:
        process = self._processes.process_of(event)
        if isinstance(event, Problem) and event.location == COUNTING:
            self._failed = True
        if process is None or not isinstance(event, CallRecorded | CallCounts):
            return
        if event.final is False:
            self._open.add(process)
        elif event.final is True:
            self._open.discard(process)
        if event.malformed is not None:
            self._problems.append(event.malformed)
        if isinstance(event, CallRecorded):
            self._take_call(event, process)
        else:
            self._take_counts(event, process)

    def _take_call(self, event: CallRecorded, process: Process) -> None:
        call = event.call
        if event.id is None or call is None or (call.kind == "cuda" and not call.name):
            return
        target = self._target(call.kind, event.subject or call.name)
        if call.kind == "cuda" and not target.name:
            self._cuda.setdefault(call.name, []).append(target)
        target.name = call.name
        target.calls.append(_RecordedCall(process, event.id, call, event.parameters))

    def _take_counts(self, event: CallCounts, process: Process) -> None:
        for text, count in event.counts.items():
            if is_launch_number(text):
                key = (process, int(text))
                self._counts[key] = max(self._counts.get(key, 0), count)
        for text, error in event.failed.items():
            if is_launch_number(text):
                self._failures[process, int(text)] = error
        context = event.lost_context
        if context is not None:
            self._lost[process] = context
            for number in context.calls:
                self._failures.setdefault((process, number), _lost_call(context))
        for row in event.subjects:
            target = self._target(str(row.kind), str(row.subject))
            _raise_count(target.undescribed, process, row.undescribed)
            _raise_count(target.benchmarks, process, row.benchmarks)
            target.benchmark_grids |= dict.fromkeys(row.benchmark_grids)

    def _target(self, kind: str, identity: str) -> _CallTarget:
        return self._targets.setdefault((kind, identity), _CallTarget())

    def launched(self, variant: Variant, alone: bool = False, demangled: str = "") -> Variant:
        """The variant of a kernel with its launches, if any were recorded.

        A launch of CUDA C++ is identified by the function's base name: it counts for the variant
        only if that is the only one of this name (``alone``).
        """
        targets = []
        if ("triton", variant.hash) in self._targets:
            targets = [self._targets["triton", variant.hash]]
        elif alone:
            targets = self._cuda.get(base_name(variant.symbol), [])
        if not targets:
            return variant
        calls: list[Call] = []
        launches = benchmarks = 0
        processes: set[Process] = set()
        benchmark_grids: dict[tuple[int, int, int], None] = {}
        for target in targets:
            benchmark_grids |= target.benchmark_grids
            calls += self._distinct_calls(target, argument_types(demangled))
            launches += sum(target.undescribed.values())
            benchmarks += sum(target.benchmarks.values())
            processes |= target.processes()
        calls.sort(key=lambda call: call.first or 0)
        return replace(
            variant,
            launches=launches + sum(call.count for call in calls),
            launches_exact=not self._failed and processes.isdisjoint(self._open),
            benchmarks=benchmarks,
            benchmark_grids=tuple(benchmark_grids),
            calls=tuple(calls),
        )

    def other_calls(self, graphs: Iterable[Graph]) -> tuple[Call, ...]:
        """Calls of graphs, under the graphs' ids, and of extensions' functions."""
        graph_of: dict[str | None, Graph] = {}
        for graph in graphs:
            code = graph.stages.get(Stage.OUTPUT_CODE)
            if code is not None:
                graph_of[code.origin_path] = graph
        out: list[Call] = []
        for (kind, identity), target in self._targets.items():
            if kind == "extension":
                out += self._distinct_calls(target)
            elif kind == "graph":
                out += self._graph_calls(target, graph_of.get(identity))
        return tuple(out)

    def _graph_calls(self, target: _CallTarget, graph: Graph | None) -> Iterator[Call]:
        """Calls of a graph; its code names the arguments."""
        text = "" if graph is None else text_of(graph.stages[Stage.OUTPUT_CODE].content)
        inputs = _INPUTS.search(text)
        names = [] if inputs is None else re.findall(r"\w+", inputs[1])
        for call in self._distinct_calls(target):
            yield _named(call, "" if graph is None else graph.id, names)

    def problems(self) -> Iterable[str]:
        """Sentences on malformed calls, and on those of which only a count was kept."""
        yield from self._problems
        for context in self._lost.values():
            yield _lost_problem(context)
        for (kind, _), target in self._targets.items():
            undescribed = sum(target.undescribed.values())
            if undescribed and target.calls:
                verb = "is" if undescribed == 1 else "are"
                yield (
                    f"calls: the {NAMES.get(kind, kind)} {target.name} was called in more than "
                    f"{len(target.calls)} distinct ways; {plural(undescribed, 'more call')} "
                    f"{verb} counted and not described"
                )

    def _distinct_calls(self, target: _CallTarget, types: Sequence[str] = ()) -> tuple[Call, ...]:
        """Distinct calls in the order of first sight, those of several processes as one.

        Launches of CUDA C++, whose parameters have these ``types``, are told apart by their sizes:
        they get the arguments of the first.
        """
        merged: dict[object, Call] = {}
        for recorded in target.calls:
            # A call is recorded when it begins, and counted when it has returned.
            key = recorded.process, recorded.number
            failed = self._failures.get(key)
            count = self._counts.get(key, 1 if failed is None else 0)
            if not count and failed is None:
                continue  # it raised, in a recording that does not say with which error
            call = replace(recorded.call, count=count, failed=failed)
            identity = _identity(call)
            earlier = merged.get(identity)
            if recorded.parameters:
                arguments = arguments_of(recorded.parameters, 0, types)
                call = replace(call, arguments=arguments if earlier is None else earlier.arguments)
            merged[identity] = call if earlier is None else _merged(earlier, call)
        return tuple(merged.values())


def _raise_count(counts: dict[Process, int], process: Process, count: int | None) -> None:
    """Keep the largest count of a process; they grow."""
    counts[process] = max(counts.get(process, 0), count or 0)


def _identity(call: Call) -> object:
    """What calls must have in common to count as the same call."""
    arguments = tuple(repr(replace(a, low=None, high=None)) for a in call.arguments)
    return call.grid, call.block, call.shared_bytes, arguments, call.shares


def _merged(earlier: Call, call: Call) -> Call:
    """The same call in two processes."""
    firsts = [first for first in (earlier.first, call.first) if first is not None]
    return replace(
        earlier,
        count=earlier.count + call.count,
        first=min(firsts, default=None),
        failed=earlier.failed or call.failed,
        arguments=tuple(map(_wider, earlier.arguments, call.arguments)),
    )


def _wider(a: Argument, b: Argument) -> Argument:
    limits = [n for n in (a.low, b.low, a.high, b.high) if n is not None]
    return replace(a, low=min(limits, default=None), high=max(limits, default=None))


def _named(call: Call, name: str, names: list[str]) -> Call:
    """A call of a graph with the names of its arguments, where there are as many."""
    if len(names) != len(call.arguments):
        return replace(call, name=name or call.name)
    pairs = list(zip(call.arguments, names, strict=True))
    renamed = {argument.name: new_name for argument, new_name in pairs}
    shares = tuple(
        replace(
            share,
            first=renamed.get(share.first, share.first),
            second=renamed.get(share.second, share.second),
        )
        for share in call.shares
    )
    arguments = tuple(replace(argument, name=new_name) for argument, new_name in pairs)
    return replace(call, name=name or call.name, arguments=arguments, shares=shares)


# -- lost contexts --------------------------------------------------------------------------------


def _lost_call(context: LostContext) -> str:
    """The error of each call that may have lost a context."""
    if context.launches == 1 and context.complete:
        return f"{context.error} (raised by a later call)"
    return f"perhaps, as one of {_candidates(context)} before the error: {context.error}"


def _candidates(context: LostContext) -> str:
    return f"{'' if context.complete else 'at least '}{plural(context.launches, 'launch')}"


def _lost_problem(context: LostContext) -> str:
    """A sentence on what may have failed."""
    if not context.launches:
        may = "no launch of a Triton kernel was pending: a kernel of another library failed"
    else:
        may = (
            f"{_candidates(context)} of Triton kernels, not known to have ended, may have failed, "
            "unless a kernel of another library or of a CUDA graph did"
        )
    return f"calls: the CUDA context was lost ({context.error}): {may}"
