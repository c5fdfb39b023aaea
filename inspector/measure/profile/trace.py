"""Reads a trace's events into lanes of the CPU and pieces of the GPU's work."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from inspector.base.errors import Unreadable
from inspector.base.text import words
from inspector.measure.profile.model import Three

# -- what ran on the CPU --------------------------------------------------------------------------
# What ran on the CPU, a lane for each thread: which call contains which, by torch's rules.

OP, ANNOTATION, RUNTIME = 0, 1, 2
NOBODY = -1


class TextNumbers:
    """Each text once, by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._known: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text."""
        index = self._known.get(text)
        if index is None:
            index = self._known[text] = len(self.texts)
            self.texts.append(text)
        return index


class Lane:
    """The spans of one thread; times in ns of the trace's clock.

    ``build`` finds the ``parent`` of each span, and its time without its children (``own``). Spans
    that torch's tables leave out have ``kept`` 0.
    """

    def __init__(self) -> None:
        self.start, self.end = array("q"), array("q")
        self.name, self.kind = array("i"), array("b")
        self.parent = array("i")
        self.children = array("i")
        self.own = array("q")
        self.kept = array("b")
        self.order: list[int] = []

    def add(self, start: int, end: int, name: int, kind: int) -> int:
        """Add a span; returns its number in this lane."""
        self.start.append(start)
        self.end.append(end)
        self.name.append(name)
        self.kind.append(kind)
        return len(self.start) - 1

    def build(self) -> None:
        """Order spans by start and length; a parent is the innermost span that holds one whole."""
        count = len(self.start)
        start, end = self.start, self.end
        self.parent = array("i", [NOBODY]) * count
        self.children = array("i", [0]) * count
        self.own = array("q", (e - s for s, e in zip(start, end, strict=True)))
        self.kept = array("b", [1]) * count
        self.order = sorted(range(count), key=lambda n: (start[n], -end[n]))
        stack: list[int] = []
        for n in self.order:
            while stack and (start[n] >= end[stack[-1]] or end[n] > end[stack[-1]]):
                stack.pop()
            if stack:
                self.parent[n] = stack[-1]
                self.children[stack[-1]] += 1
            stack.append(n)
        self._merge()
        for n in self.order:
            if self.kept[n] and self.parent[n] != NOBODY:
                self.own[self.parent[n]] -= end[n] - start[n]

    def _merge(self) -> None:
        """Merge an operator with an only child of the same name, so that it counts once."""
        into: dict[int, int] = {}
        for n in self.order:
            above = self.parent[n]
            if above in into:
                above = self.parent[n] = into[above]
            if above != NOBODY and self.name[above] == self.name[n] and self.children[above] == 1:
                self.kept[n] = 0
                self.children[above] = self.children[n]
                into[n] = above


# -- a Chrome trace, event by event ---------------------------------------------------------------
# Reads a Chrome trace of Kineto event by event: large traces do not fit in memory.
#
# The trace is input like any other: what is damaged in it is passed over and counted.

CHUNK_CHARS = 4 << 20
# No event of Kineto's is a hundredth as long; one that is longer is damaged.
MAX_EVENT_CHARS = 1 << 20
# More events are not read: 5 million fill about a gigabyte of memory here.
MAX_EVENTS = 5_000_000
# As long as the most events could be; what is longer was not written by Kineto.
MAX_TRACE_CHARS = MAX_EVENTS * 4096
_BEGIN = re.compile(r'"traceEvents"\s*:\s*\[')
_SKIPPED = re.compile(r"[\s,]*")
_NEXT = re.compile(r"\n[^\S\n]*+\{\s*+\"ph\"")


class Trace:
    """The events of one trace; ``header`` and the counts are known once they have been read.

    ``header`` is the part before the events (``deviceProperties``, ``schemaVersion`` …),
    ``damaged`` how many events could not be read, ``cut`` whether there were more than are read.
    """

    def __init__(self, data: bytes) -> None:
        """``data``: the file's content, compressed by gzip or not."""
        raw = io.BytesIO(data)
        packed = data[:2] == b"\x1f\x8b"
        self._text = io.TextIOWrapper(
            gzip.GzipFile(fileobj=raw) if packed else raw, "utf-8", "surrogateescape"
        )
        self.header: Mapping[str, object] = {}
        self.damaged = 0
        self.cut = False
        self._length = 0

    def events(self) -> Iterator[dict[str, object]]:
        """Every event, in the file's order. Raises ``Unreadable`` if the file is not a trace."""
        buffer = self._begin()
        decode = json.JSONDecoder(strict=False).raw_decode
        position = count = 0
        while True:
            skipped = _SKIPPED.match(buffer, position)
            position = skipped.end() if skipped else position
            try:
                event, end = decode(buffer, position)
            except (ValueError, RecursionError):
                if buffer.startswith("]", position):
                    return
                chunk = self._more()
                if chunk and len(buffer) - position < MAX_EVENT_CHARS:
                    buffer, position = buffer[position:] + chunk, 0
                    continue
                buffer, position = buffer + chunk, position
                next_event = _NEXT.search(buffer, position + 1)
                self.damaged += 1
                if next_event is None:
                    return
                position = next_event.start()
                continue
            position = end
            if position > CHUNK_CHARS:
                buffer, position = buffer[position:], 0
            if isinstance(event, dict):
                if count >= MAX_EVENTS:
                    self.cut = True
                    return
                count += 1
                yield event

    def _begin(self) -> str:
        text = ""
        while (start := _BEGIN.search(text)) is None:
            chunk = self._more()
            if not chunk or len(text) > 16 * CHUNK_CHARS:
                raise Unreadable("it is not a Chrome trace: it has no traceEvents")
            text += chunk
        try:
            header = json.loads(text[: start.end()] + "]}", strict=False)
        except (ValueError, RecursionError):
            header = {}
        self.header = header if isinstance(header, dict) else {}
        return text[start.end() :]

    def _more(self) -> str:
        try:
            chunk = self._text.read(CHUNK_CHARS)
        except (OSError, EOFError, zlib.error) as error:
            raise Unreadable(f"the trace is damaged: {error}") from None
        self._length += len(chunk)
        if self._length > MAX_TRACE_CHARS:
            raise Unreadable("the trace is too long to be real")
        return chunk


CPU_KINDS = {
    "cpu_op": OP,
    "user_annotation": ANNOTATION,
    "cuda_runtime": RUNTIME,
    "cuda_driver": RUNTIME,
}
GPU_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
# Names that torch's own tables leave out.
LEFT_OUT = words(
    "[memory] [OutOfMemory] profiler::_record_function_enter "
    "profiler::_record_function_enter_new profiler::_record_function_exit "
    "aten::is_leaf aten::output_nr aten::_version"
)
# The prefix of the emulated device's own operators.
OURS = "ptxview_target::"
STEP = "ProfilerStep#"
MAX_NS = 1 << 62  # ns


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of the GPU's work; times in ns, ``external``: the number of its operator."""

    start: int
    end: int
    name: int
    kind: str
    device: int
    external: int
    correlation: int
    shape: tuple[Three | None, Three | None, int | None, int | None]


class GatheredTrace:
    """A trace's content, ready to be summed up."""

    def __init__(self) -> None:
        self.names = TextNumbers()
        self.lanes: dict[object, Lane] = {}
        self.frames: dict[object, Lane] = {}
        self.work: list[Work] = []
        self.by_external: dict[int, tuple[object, int]] = {}
        self.by_correlation: dict[int, tuple[object, int]] = {}
        self.steps: list[tuple[int, int, int]] = []
        self.events = 0
        self.header: dict[str, object] = {}
        self.damaged, self.cut = 0, False
        self._shapes: dict[object, tuple[Three | None, Three | None, int | None, int | None]] = {}

    def spans(self) -> Iterator[tuple[object, Lane, int]]:
        """Every span of the CPU that counts: its thread, its lane, its number there."""
        for thread, lane in self.lanes.items():
            for n in lane.order:
                if lane.kept[n]:
                    yield thread, lane, n


def gather(data: bytes, stacks: bool = False) -> GatheredTrace:
    """Read a trace. Raises ``Unreadable`` if ``data`` is not one."""
    out = GatheredTrace()
    trace = Trace(data)
    for event in trace.events():
        if event.get("ph") == "X":
            try:
                _take(out, event, stacks)
            except (TypeError, ValueError, OverflowError, AttributeError):
                out.damaged += 1
    out.header = dict(trace.header)
    out.damaged += trace.damaged
    out.cut = trace.cut
    for lane in (*out.lanes.values(), *out.frames.values()):
        lane.build()
    return out


def _take(out: GatheredTrace, event: dict[str, object], stacks: bool) -> None:
    category = event.get("cat")
    if not isinstance(category, str):
        return
    kind = CPU_KINDS.get(category)
    if kind is not None:
        _cpu(out, event, kind)
    elif category in GPU_KINDS:
        _gpu(out, event, GPU_KINDS[category])
    elif stacks and category == "python_function":
        start, end = _times(event)
        lane = out.frames.setdefault(_thread(event), Lane())
        lane.add(start, end, out.names.number(str(event.get("name"))), OP)


def _times(event: dict[str, object]) -> tuple[int, int]:
    start, duration = event.get("ts"), event.get("dur", 0)
    if not isinstance(start, int | float) or not isinstance(duration, int | float):
        raise ValueError
    # µs with three places: whole nanoseconds, which add up exactly.
    begin = round(start * 1000)
    end = begin + round(duration * 1000)
    if not -MAX_NS < begin <= end < MAX_NS:
        raise ValueError
    return begin, end


def _thread(event: dict[str, object]) -> object:
    return (str(event.get("pid")), str(event.get("tid")))


def _cpu(out: GatheredTrace, event: dict[str, object], kind: int) -> None:
    name = str(event.get("name"))
    if name in LEFT_OUT or name.startswith(OURS):
        return
    start, end = _times(event)
    out.events += 1
    if kind == ANNOTATION and name.startswith(STEP):
        number = name.removeprefix(STEP)
        if number.isdecimal() and len(number) < 10:
            out.steps.append((int(number), start, end))
            name = STEP[:-1] + "*"
    thread = _thread(event)
    lane = out.lanes.get(thread)
    if lane is None:
        lane = out.lanes[thread] = Lane()
    span = lane.add(start, end, out.names.number(name), kind)
    arguments = event.get("args")
    if isinstance(arguments, dict):
        if kind == RUNTIME:
            correlation = arguments.get("correlation")
            if isinstance(correlation, int):
                out.by_correlation[correlation] = (thread, span)
        else:
            external = arguments.get("External id")
            if isinstance(external, int):
                out.by_external[external] = (thread, span)


def _gpu(out: GatheredTrace, event: dict[str, object], kind: str) -> None:
    start, end = _times(event)
    out.events += 1
    raw_arguments = event.get("args")
    arguments: dict[str, object] = raw_arguments if isinstance(raw_arguments, dict) else {}
    grid, block = _three(arguments.get("grid")), _three(arguments.get("block"))
    shape = (
        grid,
        block,
        whole(arguments.get("registers per thread")),
        whole(arguments.get("shared memory")),
    )
    shape = out._shapes.setdefault(shape, shape)
    out.work.append(
        Work(
            start,
            end,
            out.names.number(str(event.get("name"))),
            kind,
            whole(arguments.get("device")) or 0,
            whole(arguments.get("External id")) or 0,
            whole(arguments.get("correlation")) or 0,
            shape,
        )
    )


def whole(value: object) -> int | None:
    """A whole number of JSON; None for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _three(value: object) -> Three | None:
    if isinstance(value, list) and len(value) == 3 and all(isinstance(n, int) for n in value):
        return (value[0], value[1], value[2])
    return None
