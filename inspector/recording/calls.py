"""Turns events of calls into distinct calls with counts, and launches of each variant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from inspector.base.model import Argument, Call, Graph, Stage, Variant
from inspector.base.names import base_name
from inspector.base.text import plural
from inspector.recording.facts import as_int, as_map, decoded, text_of

Event = Mapping[str, object]
# Where a graph's code takes its inputs apart: "arg0_1, arg1_1 = args".
_INPUTS = re.compile(r"^[ \t]+\(?((?:\w+, ?)*\w+,?)\)? = args[ \t]*$", re.MULTILINE)
# A process by its id, and how many processes of that id have been before.
Process = tuple[int, int]
Subject = tuple[str, str]
COUNTING = "counting launches"
"""Where the probes report that a launch was not counted."""
NAMES = {"triton": "kernel", "graph": "graph", "extension": "function"}


@dataclass
class _Subject:
    name: str = ""
    calls: list[tuple[Process, int, Call]] = field(default_factory=list)
    others: dict[Process, int] = field(default_factory=dict)
    benchmarks: dict[Process, int] = field(default_factory=dict)

    def processes(self) -> set[Process]:
        """The processes that called it."""
        return {process for process, _, _ in self.calls} | set(self.others)


class Calls:
    """Collects the events of calls of all processes.

    Counts are written as they grow, so a later one replaces an earlier one. Until a process has
    written its final ones, or where counting itself failed, they are lower bounds.
    """

    def __init__(self) -> None:
        self._generation: dict[int, int] = {}
        self._subjects: dict[Subject, _Subject] = {}
        self._cuda: dict[str, list[_Subject]] = {}
        self._counts: dict[tuple[Process, int], int] = {}
        self._open: set[Process] = set()
        self._failed = False
        self._said: list[str] = []

    def take(self, event: Event) -> None:
        """Take in an event of any kind; those that are not about calls are ignored."""
        kind, pid = event.get("event"), as_int(event.get("pid"))
        if kind == "problem" and event.get("where") == COUNTING:
            self._failed = True
        if kind not in ("process", "call", "calls") or pid is None:
            return
        if kind == "process":
            self._generation[pid] = self._generation.get(pid, 0) + 1
            return
        process = (pid, self._generation.get(pid, 0))
        if event.get("final") is False:
            self._open.add(process)
        elif event.get("final") is True:
            self._open.discard(process)
        if kind == "call":
            self._call(event, process)
        else:
            self._told(event, process)

    def _call(self, event: Event, process: Process) -> None:
        number = as_int(event.get("id"))
        call = decoded({"name": "", **event}, Call, self._said.append)
        if number is None or call is None or (call.kind == "cuda" and not call.name):
            return
        subject = self._subject(call.kind, event.get("subject") or call.name)
        if call.kind == "cuda" and not subject.name:
            self._cuda.setdefault(call.name, []).append(subject)
        subject.name = call.name
        subject.calls.append((process, number, call))

    def _told(self, event: Event, process: Process) -> None:
        for text, value in as_map(event.get("counts")).items():
            count = as_int(value)
            if text.isdecimal() and len(text) < 10 and count is not None:
                key = (process, int(text))
                self._counts[key] = max(self._counts.get(key, 0), count)
        subjects = event.get("subjects")
        for row in subjects if isinstance(subjects, list) else []:
            counts = as_map(row)
            subject = self._subject(counts.get("kind"), counts.get("subject"))
            for by_process, name in (
                (subject.others, "others"),
                (subject.benchmarks, "benchmarks"),
            ):
                by_process[process] = max(by_process.get(process, 0), as_int(counts.get(name)) or 0)

    def _subject(self, kind: object, identity: object) -> _Subject:
        return self._subjects.setdefault((str(kind), str(identity)), _Subject())

    def launched(self, variant: Variant, alone: bool = False) -> Variant:
        """The variant with its launches, if any were recorded.

        A launch of CUDA C++ is identified by the function's base name: it counts for the variant
        only if that is the only one of this name (``alone``).
        """
        subjects = [s for s in [self._subjects.get(("triton", variant.hash))] if s is not None]
        if not subjects and alone:
            subjects = self._cuda.get(base_name(variant.symbol), [])
        if not subjects:
            return variant
        calls = sorted((c for s in subjects for c in self._of(s)), key=lambda c: c.first or 0)
        return replace(
            variant,
            launches=sum(c.count for c in calls) + sum(sum(s.others.values()) for s in subjects),
            launches_exact=not self._failed
            and not any(process in self._open for s in subjects for process in s.processes()),
            benchmarks=sum(sum(s.benchmarks.values()) for s in subjects),
            calls=tuple(calls),
        )

    def rest(self, graphs: Iterable[Graph]) -> tuple[Call, ...]:
        """Calls of graphs, under the graphs' ids, and of extensions' functions."""
        out: list[Call] = []
        every = ((g.stages.get(Stage.OUTPUT_CODE), g) for g in graphs)
        codes = {code.origin_path: g for code, g in every if code is not None}
        for (kind, identity), subject in self._subjects.items():
            if kind == "extension":
                out += self._of(subject)
            elif kind == "graph":
                graph = codes.get(identity)
                text = text_of(graph.stages[Stage.OUTPUT_CODE].content) if graph else ""
                inputs = _INPUTS.search(text)
                names = re.findall(r"\w+", inputs[1]) if inputs else []
                out += [_named(c, graph.id if graph else "", names) for c in self._of(subject)]
        return tuple(out)

    def problems(self) -> Iterable[str]:
        """Sentences on malformed calls, and on those of which only a count was kept."""
        yield from self._said
        for (kind, _), subject in self._subjects.items():
            others = sum(subject.others.values())
            if others and subject.calls:
                yield (
                    f"calls: the {NAMES.get(kind, kind)} {subject.name} was called in more than "
                    f"{len(subject.calls)} distinct ways; {plural(others, 'more call')} "
                    f"{'is' if others == 1 else 'are'} counted and not described"
                )

    def _of(self, subject: _Subject) -> tuple[Call, ...]:
        """Distinct calls in the order of first sight, those of several processes as one."""
        merged: dict[object, Call] = {}
        for process, number, call in subject.calls:
            # A call is recorded when it begins, and counted when it has returned.
            count = self._counts.get((process, number), 1)
            if not count:
                continue  # it raised
            key = (call.grid, call.block, call.shared_bytes, _without_ranges(call.arguments))
            earlier = merged.get(key)
            if earlier is None:
                merged[key] = replace(call, count=count)
                continue
            firsts = [f for f in (earlier.first, call.first) if f is not None]
            merged[key] = replace(
                earlier,
                count=earlier.count + count,
                first=min(firsts, default=None),
                arguments=tuple(map(_wider, earlier.arguments, call.arguments)),
            )
        return tuple(merged.values())


def _without_ranges(arguments: tuple[Argument, ...]) -> tuple[object, ...]:
    return tuple(repr(replace(a, low=None, high=None)) for a in arguments)


def _wider(a: Argument, b: Argument) -> Argument:
    lows = [n for n in (a.low, b.low) if n is not None]
    highs = [n for n in (a.high, b.high) if n is not None]
    return replace(a, low=min(lows, default=None), high=max(highs, default=None))


def _named(call: Call, name: str, names: list[str]) -> Call:
    """A graph's call under the graph's id, its inputs under the names that the code gives them."""
    fits = len(names) == len(call.arguments)
    arguments = (
        tuple(replace(a, name=n) for a, n in zip(call.arguments, names, strict=True))
        if fits
        else call.arguments
    )
    return replace(call, name=name or call.name, arguments=arguments)
