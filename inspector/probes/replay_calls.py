"""Calls of compiled graphs and of extensions' functions, made again; what they do on the device.

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

from .replay_inputs import Arguments, NotRebuilt, tensor
from .replay_stopwatches import BLOCK_SECONDS, MOST_MISSES, Unavailable, settled

Launch = Callable[[], Any]
# A constant of a graph, whose value its code does not have, and how that code would make another.
_CONSTANT = re.compile(r"^(\w+) = None  # ", re.MULTILINE)
_MADE = (
    r"^[ \t]+{} = rand_strided\(\(([\d, ]*)\), \(([\d, ]*)\), device='(\w+)[:\d]*', "
    r"dtype=torch\.(\w+)\)"
)
_DEVICE = re.compile(r"torch\.cuda\._DeviceGuard\((\d+)\)")
# What the profiler has on the device besides kernels, copies and fills: by kind, where torch says
# it, else by name.
NO_WORK_KINDS = ("cuda_sync", "cuda_event", "gpu_user_annotation", "user_annotation", "overhead")
NO_WORK = ("Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event")
MOST_CALLS = 2000
WRAPPER_CALLS, WRAPPER_SECONDS = 60, 0.5
LEADS = 4


class Again:
    """A call that can be made again and again: ``made()``; ``memory`` is its inputs."""

    def __init__(self, torch: Any, said: dict[str, Any], device: str, most: int) -> None:
        graph = said["kind"] == "graph"
        self.name = str(said["name"])
        function = _code(torch, said, device) if graph else _function(said)
        self.memory = Arguments(torch, said["arguments"], device, most, graph)
        args, given = self.memory.args, self.memory.given
        self.made: Launch = (
            (lambda: function(list(args))) if graph else (lambda: function(*args, **given))
        )


def _imported(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise NotRebuilt(f"{path} is no module of Python's")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _code(torch: Any, said: dict[str, Any], device: str) -> Callable[..., Any]:
    """The function of a graph's ``output_code``; constants that it lacks are made anew.

    Through all versions from torch 2.6 on it is ``call(args)``, be it a function or a method.
    """
    path = said["code"]
    text = Path(path).read_text("utf-8", "replace")
    for number in _DEVICE.findall(text):
        if int(number) != 0:
            raise NotRebuilt(f"the graph was compiled for device {number}; times are taken on 0")
    module = _imported(f"ptxview_graph_{said['n']}", path)
    for name in dict.fromkeys(_CONSTANT.findall(text)):
        setattr(module, name, _constant(torch, name, text, device))
    call = getattr(module, "call", None)
    if not callable(call):
        raise NotRebuilt("the graph's code has no call(args)")
    return call


def _constant(torch: Any, name: str, text: str, device: str) -> Any:
    found = re.search(_MADE.format(re.escape(name)), text, re.MULTILINE)
    if found is None:
        raise NotRebuilt(f"the graph holds {name}, a value of the program that was not recorded")
    shape, strides = ([int(n) for n in found[at].split(",") if n.strip()] for at in (1, 2))
    said = {"name": name, "shape": shape, "strides": strides, "dtype": found[4], "alignment": None}
    return tensor(torch, said, device if found[3] == "cuda" else found[3], 0, [])[0]


def _function(said: dict[str, Any]) -> Callable[..., Any]:
    """A function of an extension's library, which is loaded from where it lay."""
    module = sys.modules.get(said["module"]) or _imported(said["module"], said["library"])
    function = getattr(module, said["function"], None)
    if not callable(function):
        raise NotRebuilt(f"{said['library']} has no function {said['function']} any more")
    return function


# -- what CUPTI saw -------------------------------------------------------------------------------


def work(profiler: Any) -> list[tuple[str, float]]:
    """What the device did, in order of its start: name and µs of kernels, copies, fills."""
    held = getattr(getattr(profiler, "profiler", None), "kineto_results", None)
    found: list[tuple[float, str, float]] = []
    for event in held.events() if held is not None else []:
        name = str(event.name())
        if "CUDA" not in str(event.device_type()) or name.startswith(NO_WORK):
            continue
        if hasattr(event, "activity_type") and str(event.activity_type()) in NO_WORK_KINDS:
            continue
        if hasattr(event, "duration_ns"):
            found.append((event.start_ns(), name, event.duration_ns() / 1000))
        else:
            found.append((event.start_us(), name, float(event.duration_us())))
    found.sort(key=lambda each: each[0])
    return [(name, us) for _, name, us in found]


def parts(
    seen: list[tuple[str, float]], count: int, lead: list[str]
) -> list[list[tuple[str, float]]] | None:
    """What each of ``count`` calls did, without what was done before it; None where that is
    unclear: something is missing, or the calls do not do the same."""
    each, rest = divmod(len(seen), count)
    if rest or each < len(lead):
        return None
    whole = [seen[at : at + each] for at in range(0, len(seen), each)] if each else []
    if any([name for name, _ in part[: len(lead)]] != lead for part in whole):
        return None
    return [part[len(lead) :] for part in whole] if each else [[] for _ in range(count)]


class Gathered:
    """Times of calls in µs: ``sums`` one a call, ``kernels`` one a launch, by name, and how many
    launches a call makes of each."""

    def __init__(self) -> None:
        self.sums: list[float] = []
        self.kernels: dict[str, list[float]] = {}
        self.per_call: dict[str, int] = {}

    def take(self, calls: list[list[tuple[str, float]]]) -> None:
        """Add what calls did."""
        for call in calls:
            self.sums.append(sum(us for _, us in call))
            names = [name for name, _ in call]
            for name, us in call:
                self.per_call.setdefault(name, names.count(name))
                held = self.kernels.setdefault(name, [])
                if len(held) < MOST_CALLS:
                    held.append(us)

    def as_said(self) -> list[dict[str, Any]]:
        """Kernels in the order in which they were first launched."""
        return [
            {"name": name, "per_call": self.per_call[name], "samples": samples}
            for name, samples in self.kernels.items()
        ]


def profiled(torch: Any, run: Launch, count: int) -> list[tuple[str, float]]:
    """What the device did while ``run`` was called so often."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(count):
            run()
        torch.cuda.synchronize()
    return work(profiler)


def lead_of(torch: Any, before: Launch, something: bool) -> list[str]:
    """Names of what stands before each call, which is ``something`` or nothing at all.

    Raises ``Unavailable`` where that is not seen.
    """
    for _ in range(MOST_MISSES):
        seen = [name for name, _ in profiled(torch, before, LEADS)]
        each, rest = divmod(len(seen), LEADS)
        if not rest and seen == seen[:each] * LEADS and bool(seen) == something:
            return seen[:each]
    raise Unavailable("the profiler does not see what stands before a call: is CUPTI there?")


def cupti(
    torch: Any,
    call: Launch,
    before: Launch,
    flushes: bool,
    seconds: float,
    between: Callable[[], None],
) -> Gathered:
    """The device's own times of a call, until the sum's median is settled or the time is up.

    ``flushes``: whether ``before`` does anything on the device.
    """
    lead = lead_of(torch, before, flushes)
    out = Gathered()
    began = time.monotonic()
    count, misses = 10, 0

    def whole() -> None:
        before()
        call()

    while True:
        block = time.monotonic()
        seen = profiled(torch, whole, count)
        took = time.monotonic() - block
        between()
        found = parts(seen, count, lead)
        if found is None or not any(found):
            misses += 1
            if misses >= MOST_MISSES:
                if found is not None and seen:
                    raise Unavailable("the call launched nothing on the device")
                if not seen:
                    raise Unavailable("the profiler saw nothing: is CUPTI there, and no other?")
                raise Unavailable("one call does not launch the same kernels as the next")
            continue
        misses = 0
        out.take(found)
        late = len(out.sums) >= MOST_CALLS or time.monotonic() - began > seconds
        if late or settled(out.sums):
            return out
        count = max(5, min(200, int(count * BLOCK_SECONDS / max(took, 1e-3)) + 1))


def on_cpu(torch: Any, call: Launch, before: Launch) -> list[float]:
    """What a call takes of the CPU's time until it returns, in µs, on an idle device."""
    samples: list[float] = []
    until = time.monotonic() + WRAPPER_SECONDS
    while len(samples) < WRAPPER_CALLS and (len(samples) < 5 or time.monotonic() < until):
        before()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        held = call()
        samples.append(1e6 * (time.perf_counter() - begin))
        torch.cuda.synchronize()
        del held
    return samples
