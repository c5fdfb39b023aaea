"""Repeats calls of compiled graphs and extensions' functions, and times their device work.

A call is many launches: its time is the sum of what CUPTI saw on the device between what stands
before it (the flush of the L2) and the next, kernels, copies and fills alike.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .cupti import Event, Records, Unavailable
from .inputs import Arguments, NotRebuilt, tensor
from .stopwatches import MAX_MISSES, next_count, settled

Launch = Callable[[], Any]
# A constant of a graph whose value is not in its code, and how that code would make another.
_CONSTANT = re.compile(r"^(\w+) = None  # ", re.MULTILINE)
_MADE = (
    r"^[ \t]+{} = rand_strided\(\(([\d, ]*)\), \(([\d, ]*)\), device='(\w+)[:\d]*', "
    r"dtype=torch\.(\w+)\)"
)
_DEVICE = re.compile(r"torch\.cuda\._DeviceGuard\((\d+)\)")
MAX_CALLS = 2000
WRAPPER_CALLS, WRAPPER_SECONDS = 60, 0.5
LEADS = 4


class ReplayableCall:
    """A recorded call that ``made()`` repeats any number of times; ``memory`` holds its inputs."""

    def __init__(self, torch: Any, call: dict[str, Any], device: str, most: int) -> None:
        graph = call["kind"] == "graph"
        self.name = str(call["name"])
        function = _code(torch, call, device) if graph else _function(call)
        self.memory = Arguments(torch, call["arguments"], device, most, graph)
        args, kwargs = self.memory.args, self.memory.given
        self.made: Launch = (
            (lambda: function(list(args))) if graph else (lambda: function(*args, **kwargs))
        )


def imported(name: str, path: str) -> Any:
    """Import a file as the module of that name."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise NotRebuilt(f"{path} is no module of Python's")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _code(torch: Any, call: dict[str, Any], device: str) -> Callable[..., Any]:
    """The function of a graph's ``output_code``; missing constants are generated.

    Through all versions from torch 2.6 on it is ``call(args)``, be it a function or a method.
    """
    path = call["code"]
    text = Path(path).read_text("utf-8", "replace")
    for number in _DEVICE.findall(text):
        if int(number) != 0:
            raise NotRebuilt(f"the graph was compiled for device {number}; times are taken on 0")
    module = imported(f"ptxview_graph_{call['n']}", path)
    for name in dict.fromkeys(_CONSTANT.findall(text)):
        setattr(module, name, _constant(torch, name, text, device))
    function = getattr(module, "call", None)
    if not callable(function):
        raise NotRebuilt("the graph's code has no call(args)")
    return function


def _constant(torch: Any, name: str, text: str, device: str) -> Any:
    match = re.search(_MADE.format(re.escape(name)), text, re.MULTILINE)
    if match is None:
        raise NotRebuilt(f"the graph holds {name}, a value of the program that was not recorded")
    shape, strides = ([int(n) for n in match[group].split(",") if n.strip()] for group in (1, 2))
    description = {
        "name": name,
        "shape": shape,
        "strides": strides,
        "dtype": match[4],
        "alignment": None,
    }
    return tensor(torch, description, device if match[3] == "cuda" else match[3], 0, [])[0]


def _function(call: dict[str, Any]) -> Callable[..., Any]:
    """A function of an extension's library, which is loaded from its recorded path."""
    module = sys.modules.get(call["module"]) or imported(call["module"], call["library"])
    function = getattr(module, call["function"], None)
    if not callable(function):
        raise NotRebuilt(f"{call['library']} has no function {call['function']} any more")
    return function


# -- what CUPTI saw -------------------------------------------------------------------------------


def parts(events: list[Event], count: int, lead: list[str]) -> list[list[Event]] | None:
    """The events of each of ``count`` calls, without the ``lead`` before each.

    None if they cannot be separated: an event is missing, or the calls differ.
    """
    per_call, rest = divmod(len(events), count)
    if rest or per_call < len(lead):
        return None
    calls = [events[n * per_call : (n + 1) * per_call] for n in range(count)]
    if any([event.name for event in call[: len(lead)]] != lead for call in calls):
        return None
    return [call[len(lead) :] for call in calls]


class CallTimes:
    """Times of calls in µs: ``sums`` of their kernels and ``spans`` from the first start to the
    last end, one a call; ``kernels`` one a launch, by name; ``per_call`` launches of each name."""

    def __init__(self) -> None:
        self.sums: list[float] = []
        self.spans: list[float] = []
        self.kernels: dict[str, list[float]] = {}
        self.per_call: dict[str, int] = {}

    def take(self, calls: list[list[Event]]) -> None:
        """Add the events of calls."""
        for call in calls:
            self.sums.append(sum(event.ns for event in call) / 1000)
            end = max((event.start + event.ns for event in call), default=0)
            self.spans.append((end - call[0].start) / 1000 if call else 0.0)
            names = [event.name for event in call]
            for event in call:
                self.per_call.setdefault(event.name, names.count(event.name))
                samples = self.kernels.setdefault(event.name, [])
                if len(samples) < MAX_CALLS:
                    samples.append(event.ns / 1000)

    def as_json(self) -> list[dict[str, Any]]:
        """Kernels in the order in which they were first launched."""
        return [
            {"name": name, "per_call": self.per_call[name], "samples": samples}
            for name, samples in self.kernels.items()
        ]


def lead_of(trace: Records, before: Launch, something: bool) -> list[str]:
    """Names of the device events that ``before`` causes; ``something``: whether there are any.

    Raises ``Unavailable`` if CUPTI does not see them.
    """

    def repeated(events: list[Event]) -> list[str] | None:
        names = [event.name for event in events]
        once = names[: len(names) // LEADS]
        return once if names == once * LEADS and bool(names) == something else None

    def often() -> None:
        for _ in range(LEADS):
            before()

    for _ in range(MAX_MISSES):
        names = repeated(trace.saw(often, lambda events: repeated(events) is not None))
        if names is not None:
            return names
    raise Unavailable("CUPTI does not see the flush before a call: is another profiler at work?")


def cupti(
    trace: Records,
    call: Launch,
    before: Launch,
    flushes: bool,
    seconds: float,
    between: Callable[[], None],
) -> CallTimes:
    """The device's own times of a call, until the sum's median is settled or the time is up.

    ``flushes``: whether ``before`` does anything on the device.
    """
    out = CallTimes()
    count, misses = 10, 0

    def block() -> None:
        for _ in range(count):
            before()
            call()
        between()

    with trace:
        lead = lead_of(trace, before, flushes)

        def calls(events: list[Event]) -> list[list[Event]] | None:
            return parts(events, count, lead)

        began = time.monotonic()
        while True:
            block_began = time.monotonic()
            events_seen = trace.saw(block, lambda events: any(calls(events) or ()))
            block_seconds = time.monotonic() - block_began
            work_by_call = calls(events_seen)
            if work_by_call is None or not any(work_by_call):
                misses += 1
                if misses >= MAX_MISSES:
                    of_calls = len(events_seen) - len(lead) * count
                    raise Unavailable(_why(len(events_seen), work_by_call, of_calls, count))
                continue
            misses = 0
            out.take(work_by_call)
            late = len(out.sums) >= MAX_CALLS or time.monotonic() - began > seconds
            if late or settled(out.sums):
                return out
            count = next_count(count, block_seconds, len(events_seen), 5, 200)


def _why(seen: int, calls: list[list[Event]] | None, of_calls: int, count: int) -> str:
    """Why calls have no time."""
    if not seen:
        return "CUPTI saw nothing on the device: is another profiler at work?"
    if calls is not None:
        return "the call launched nothing on the device, or CUPTI saw none of it"
    return (
        "one call does not launch the same kernels as the next, or CUPTI missed some: it saw "
        f"{of_calls} of {count} calls"
    )


def on_cpu(torch: Any, call: Launch, before: Launch) -> list[float]:
    """CPU time of a call until it returns, in µs, on an idle device."""
    samples: list[float] = []
    until = time.monotonic() + WRAPPER_SECONDS
    while len(samples) < WRAPPER_CALLS and (len(samples) < 5 or time.monotonic() < until):
        before()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        result = call()
        samples.append(1e6 * (time.perf_counter() - begin))
        torch.cuda.synchronize()
        del result
    return samples
