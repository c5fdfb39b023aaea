"""From a trace's events to lanes of the CPU and pieces of the GPU's work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inspector.bench.profile import Three
from inspector.bench.profile_spans import ANNOTATION, OP, RUNTIME, Lane, Names
from inspector.bench.profile_trace import Trace

CPU_KINDS = {
    "cpu_op": OP, "user_annotation": ANNOTATION, "cuda_runtime": RUNTIME, "cuda_driver": RUNTIME,
}  # fmt: skip
GPU_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
# What torch's own tables leave out.
LEFT_OUT = frozenset(
    ("[memory]", "[OutOfMemory]", "profiler::_record_function_enter",
     "profiler::_record_function_enter_new", "profiler::_record_function_exit", "aten::is_leaf",
     "aten::output_nr", "aten::_version")
)  # fmt: skip
# The emulated device's own.
OURS = "ptxview_target::"
STEP = "ProfilerStep#"
FAR = 1 << 62  # ns


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of the GPU's work; times in ns, ``external`` the number of who launched it."""

    start: int
    end: int
    name: int
    kind: str
    device: int
    external: int
    correlation: int
    shape: tuple[Three | None, Three | None, int | None, int | None]


class Gathered:
    """A trace's content, ready to be summed up."""

    def __init__(self) -> None:
        self.names = Names()
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


def gather(data: bytes, stacks: bool = False) -> Gathered:
    """Read a trace. Raises ``Unreadable`` for what is none."""
    out = Gathered()
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


def _take(out: Gathered, event: dict[str, object], stacks: bool) -> None:
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
    start, took = event.get("ts"), event.get("dur", 0)
    if not isinstance(start, int | float) or not isinstance(took, int | float):
        raise ValueError
    # µs with three places: whole nanoseconds, which add up exactly.
    begin = round(start * 1000)
    end = begin + round(took * 1000)
    if not -FAR < begin <= end < FAR:
        raise ValueError
    return begin, end


def _thread(event: dict[str, object]) -> object:
    return (str(event.get("pid")), str(event.get("tid")))


def _cpu(out: Gathered, event: dict[str, object], kind: int) -> None:
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
    at = lane.add(start, end, out.names.number(name), kind)
    said = event.get("args")
    if isinstance(said, dict):
        if kind == RUNTIME:
            correlation = said.get("correlation")
            if isinstance(correlation, int):
                out.by_correlation[correlation] = (thread, at)
        else:
            external = said.get("External id")
            if isinstance(external, int):
                out.by_external[external] = (thread, at)


def _gpu(out: Gathered, event: dict[str, object], kind: str) -> None:
    start, end = _times(event)
    out.events += 1
    held = event.get("args")
    said: dict[str, object] = held if isinstance(held, dict) else {}
    grid, block = _three(said.get("grid")), _three(said.get("block"))
    shape = (
        grid,
        block,
        _whole(said.get("registers per thread")),
        _whole(said.get("shared memory")),
    )
    shape = out._shapes.setdefault(shape, shape)
    out.work.append(
        Work(
            start,
            end,
            out.names.number(str(event.get("name"))),
            kind,
            _whole(said.get("device")) or 0,
            _whole(said.get("External id")) or 0,
            _whole(said.get("correlation")) or 0,
            shape,
        )
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _three(value: object) -> Three | None:
    if isinstance(value, list) and len(value) == 3 and all(isinstance(n, int) for n in value):
        return (value[0], value[1], value[2])
    return None
