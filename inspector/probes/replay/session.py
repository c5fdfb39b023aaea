"""Repeats calls and times them: recorded launches, graphs, extensions, variants of a script.

    main(JOB, RESULTS)

JOB is a JSON file: what to launch and how to take the time. RESULTS grows by one JSON object a
line, flushed: ``{"device": …}``, ``{"copy": …}``, and for each launch ``{"begin": n}``, then a
``{"n", "stopwatch", "cache", "samples": [µs…], "clocks", "warnings"}`` for each stopwatch, or
``{"n", "stopwatch", "error"}``, and ``{"end": n}``. CUPTI's line of a call other than a recorded
launch has ``kernels``, ``span`` and ``cpu`` too; a variant of a script has ``{"n", "about"}`` and
``{"n", "checked"}`` before. Where a launch breaks the device's context, or exceeds its limit, the
process ends: its parent starts another one for the remaining launches. When the job's ``budget`` of
seconds is spent, no further launch is begun: ``{"spent": true}``.
"""

import faulthandler
import functools
import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from statistics import median_high
from typing import Any

from .driver import (
    EMPTY,
    EMPTY_PTX,
    MAX_MISSES,
    OWN_CACHE,
    STOPWATCHES,
    Clocks,
    Cupti,
    Driver,
    Event,
    Launch,
    Unavailable,
    launched,
    next_count,
    preparing,
    queued,
    settled,
    trace_of,
    undisturbed,
)
from .inputs import Memory, NotRebuilt, first_line, imported, tensor
from .script import Comparison

# A constant of a graph whose value is not in its code, and how that code would make another.
_CONSTANT = re.compile(r"^(\w+) = None  # ", re.MULTILINE)
_MADE = (
    r"^[ \t]+{} = rand_strided\(\(([\d, ]*)\), \(([\d, ]*)\), device='(\w+)[:\d]*', "
    r"dtype=torch\.(\w+)\)"
)
_DEVICE = re.compile(r"torch\.cuda\._DeviceGuard\((\d+)\)")
MAX_CALLS = 2000
WRAPPER_CALLS = 60
WRAPPER_SECONDS = 0.5
LEADS = 4


def repeated(torch: Any, call: dict[str, Any], memory: Memory) -> Launch:
    """A recorded call that can be made any number of times, with inputs in ``memory``."""
    if call["kind"] == "graph":
        code = _code(torch, call)
        inputs = memory.flat(call["arguments"])
        return lambda: code(list(inputs))
    function, (args, kwargs) = _function(call), memory.arguments(call["arguments"])
    return lambda: function(*args, **kwargs)


def _code(torch: Any, call: dict[str, Any]) -> Callable[..., Any]:
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
        setattr(module, name, _constant(torch, name, text))
    function = getattr(module, "call", None)
    if not callable(function):
        raise NotRebuilt("the graph's code has no call(args)")
    return function


def _constant(torch: Any, name: str, text: str) -> Any:
    match = re.search(_MADE.format(re.escape(name)), text, re.MULTILINE)
    if match is None:
        raise NotRebuilt(f"the graph holds {name}, a value of the program that was not recorded")
    layout = {"dtype": match[4], "alignment": None}
    layout |= {"shape": _integers(match[1]), "strides": _integers(match[2])}
    return tensor(torch, {"name": name, **layout}, match[3], 0, [])[0]


def _integers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part.strip()]


def _function(call: dict[str, Any]) -> Callable[..., Any]:
    """A function of an extension's library, which is loaded from its recorded path."""
    module = sys.modules.get(call["module"]) or imported(call["module"], call["library"])
    function = getattr(module, call["function"], None)
    if not callable(function):
        raise NotRebuilt(f"{call['library']} has no function {call['function']} any more")
    return function


def parts(events: list[Event], count: int, lead: list[str]) -> list[list[Event]]:
    """The events of each of ``count`` calls, without the ``lead`` before each.

    Empty if they cannot be separated: an event is missing, or the calls differ.
    """
    per_call, remainder = divmod(len(events), count)
    calls = [events[n * per_call : (n + 1) * per_call] for n in range(count)]
    if remainder:
        return []
    for call in calls:
        if [event.name for event in call[: len(lead)]] != lead:
            return []
    return [call[len(lead) :] for call in calls]


def add(times: dict[str, Any], calls: list[list[Event]]) -> None:
    """Add calls to times in µs.

    ``samples`` are the sums of a call's kernels, ``span`` the times from the first start to the
    last end, ``kernels`` each kernel by name, in the order in which they were first launched.
    """
    for call in calls:
        times["samples"].append(sum(event.ns for event in call) / 1000)
        end = max((event.start + event.ns for event in call), default=0)
        times["span"].append((end - call[0].start) / 1000 if call else 0.0)
        names = [event.name for event in call]
        for name, _, ns in call:
            empty_row = {"name": name, "per_call": names.count(name), "samples": []}
            samples = times["kernels"].setdefault(name, empty_row)["samples"]
            if len(samples) < MAX_CALLS:
                samples.append(ns / 1000)


def lead_of(trace: Cupti, prepare: Launch, something: bool) -> list[str]:
    """Names of the device events that ``prepare`` causes; ``something``: whether there are any.

    Raises ``Unavailable`` if CUPTI does not see them.
    """

    def repeated(events: list[Event]) -> bool:
        names = [event.name for event in events]
        return names == names[: len(names) // LEADS] * LEADS and bool(names) == something

    def often() -> None:
        for _ in range(LEADS):
            prepare()

    for _ in range(MAX_MISSES):
        events = trace.saw(often, repeated)
        if repeated(events):
            return [event.name for event in events[: len(events) // LEADS]]
    raise Unavailable("CUPTI does not see the flush before a call: is another profiler at work?")


def cupti(
    trace: Cupti,
    call: Launch,
    prepare: Launch,
    flushes: bool,
    seconds: float,
    between: Callable[[], None],
) -> dict[str, Any]:
    """The device's own times of a call, until the sum's median is settled or the time is up.

    ``flushes``: whether ``prepare`` does anything on the device.
    """
    out: dict[str, Any] = {"samples": [], "span": [], "kernels": {}}
    count = 10

    def block() -> None:
        for _ in range(count):
            prepare()
            call()
        between()

    with trace:
        lead = lead_of(trace, prepare, flushes)

        def enough(events: list[Event]) -> bool:
            return any(parts(events, count, lead))

        began = time.monotonic()
        while True:
            for _ in range(MAX_MISSES):
                block_began = time.monotonic()
                block_events = trace.saw(block, enough)
                block_seconds = time.monotonic() - block_began
                if enough(block_events):
                    break
            else:
                raise Unavailable(_why(block_events, count, lead))
            add(out, parts(block_events, count, lead))
            late = len(out["samples"]) >= MAX_CALLS or time.monotonic() - began > seconds
            if late or settled(out["samples"]):
                return out
            count = next_count(count, block_seconds, len(block_events), 5, 200)


def _why(events: list[Event], count: int, lead: list[str]) -> str:
    """Why calls have no time."""
    if not events:
        return "CUPTI saw nothing on the device: is another profiler at work?"
    if parts(events, count, lead):
        return "the call launched nothing on the device, or CUPTI saw none of it"
    return (
        "one call does not launch the same kernels as the next, or CUPTI missed some: it saw "
        f"{len(events) - len(lead) * count} of {count} calls"
    )


def on_cpu(torch: Any, call: Launch, prepare: Launch) -> list[float]:
    """CPU time of a call until it returns, in µs, on an idle device."""
    samples: list[float] = []
    until = time.monotonic() + WRAPPER_SECONDS
    while len(samples) < WRAPPER_CALLS and (len(samples) < 5 or time.monotonic() < until):
        prepare()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        result = call()
        samples.append(1e6 * (time.perf_counter() - begin))
        torch.cuda.synchronize()
        del result
    return samples


WARM_SECONDS = 0.3
EMPTY_SECONDS = 0.2
# Seconds of compiling after which the idle device has lowered its clocks.
IDLE_SECONDS = 0.2
COPIED_BYTES = 1 << 30
BROKEN = 3
NO_DEVICE = 4
NO_TORCH = 45


class Session:
    """One process on one device: its torch, its driver and its job."""

    def __init__(self, torch: Any, job: dict[str, Any], out: Any) -> None:
        self.torch = torch
        self.job = job
        self._out = out
        self.driver = Driver()
        self.device = torch.cuda.current_device()
        self.clocks = Clocks(self.driver.bus_id(self.device))
        self.comparison: Comparison | None = None
        # What brings the L2 into a state, with its memory, made once.
        self.preparing = functools.cache(functools.partial(preparing, torch))
        # A kernel of machine code stays loaded: where one is unloaded the next may have its handle,
        # and CUPTI then loses its launches, or has them under the other's name.
        self.function = functools.cache(lambda code, name: self.driver.load(code, name))

    def say(self, **fields: Any) -> None:
        """Write one line of results."""
        self._out.write(json.dumps(fields) + "\n")
        self._out.flush()

    @cached_property
    def trace(self) -> Cupti:
        """The source of device events."""
        return trace_of(self.torch)

    def about(self) -> dict[str, Any]:
        """The device and the versions."""
        properties = self.torch.cuda.get_device_properties(self.device)
        version = None
        with suppress(ImportError):
            version = importlib.import_module("triton").__version__
        return {
            **{n: getattr(properties, n) for n in ("name", "major", "minor")},
            "multi_processor_count": properties.multi_processor_count,
            "torch": self.torch.__version__,
            "triton": version,
            "python": sys.version.split()[0],
            "cuda": self.torch.version.cuda,
            "driver": self.clocks.driver(),
            "warm_up": self.clocks.look(),
        }

    def warm(self) -> None:
        """Keep the device busy until its clocks are up."""
        prepare = self.preparing("cold")
        until = time.monotonic() + WARM_SECONDS
        while time.monotonic() < until:
            for _ in range(50):
                prepare()
            self.torch.cuda.synchronize()

    @cached_property
    def extra(self) -> float | None:
        """µs that a pair of events reads beyond a kernel's own time; None if unknown."""
        torch = self.torch
        prepare = self.preparing("cold")
        try:
            function = self.function(EMPTY_PTX.encode(), EMPTY)
            empty = {"grid": (1, 1, 1), "block": (1, 1, 1)}
            launch = launched(torch, self.driver, function, empty, [])
            traced = cupti(self.trace, launch, prepare, True, EMPTY_SECONDS, lambda: None)
            return median_high(queued(torch, launch, prepare)) - median_high(traced["samples"])
        except (RuntimeError, OSError, AttributeError, Unavailable):
            return None

    def measure(
        self, stopwatch: str, state: str, launch: Any, memory: Memory, kind: str = "triton"
    ) -> dict[str, Any]:
        """Samples of one stopwatch after a warm-up, with the clocks before, during and after.

        ``kind`` is that of the call, or ``copy``: no kernel, so that tracing cannot slow it.
        """
        prepare = self.preparing(state)
        looks: list[dict[str, Any]] = []
        seconds = self.job["seconds"]

        def restore_and_prepare() -> None:
            memory.restore()
            prepare()

        def look() -> None:
            looks.append(self.clocks.look())

        for _ in range(10):
            restore_and_prepare()
            launch()
        look()
        if stopwatch == "cupti":
            flushes = state != "hot" or memory.changes
            times = cupti(self.trace, launch, restore_and_prepare, flushes, seconds, look)
            result: dict[str, Any] = {"samples": times["samples"]}
            if kind not in ("triton", "copy"):
                cpu = on_cpu(self.torch, launch, restore_and_prepare)
                result = {**times, "kernels": [*times["kernels"].values()], "cpu": cpu}
            if kind != "copy":
                result = undisturbed(self.torch, result, launch, restore_and_prepare, self.extra)
        else:
            watch = STOPWATCHES[stopwatch]
            result = {"samples": watch(self.torch, launch, restore_and_prepare, seconds, look)}
        look()
        return {"stopwatch": stopwatch, "cache": state, **result, "clocks": summed(looks)}


def summed(looks: list[dict[str, Any]]) -> dict[str, Any]:
    """The lowest and highest clock seen, the highest temperature, and all reasons for slowing."""
    names = ("sm_mhz", "celsius", "slowed_by")
    readings: dict[str, list[Any]] = {}
    for name in names:
        readings[name] = [look[name] for look in looks if look[name] is not None]
    reasons = sorted(set().union(*readings["slowed_by"]))
    return {
        "low_mhz": min(readings["sm_mhz"], default=None),
        "high_mhz": max(readings["sm_mhz"], default=None),
        "most_mhz": looks[-1]["most_mhz"] if looks else None,
        "celsius": max(readings["celsius"], default=None),
        "slowed_by": reasons if readings["slowed_by"] else None,
    }


def copy(session: Session) -> None:
    """The device's bandwidth: a copy of a gigabyte, by the same stopwatches."""
    torch = session.torch
    for stopwatch in session.job["stopwatches"]:
        state = OWN_CACHE.get(stopwatch, session.job["cache"])
        try:
            source = torch.zeros(COPIED_BYTES, dtype=torch.uint8, device="cuda")
            # The copy is far larger than the L2, so the L2's state before it does not matter.
            launch = functools.partial(torch.empty_like(source).copy_, source)
            measurement = session.measure(stopwatch, state, launch, Memory(torch), "copy")
        except (Unavailable, RuntimeError):  # for example, too little free memory
            continue  # without it, times are shown without their share of the bandwidth
        session.say(copy={**measurement, "bytes": 2 * COPIED_BYTES})


def repeatable(session: Session, recorded: dict[str, Any]) -> tuple[Any, Memory]:
    """A launch or call that can be repeated, and the memory behind it."""
    torch = session.torch
    driver = session.driver
    memory = Memory(torch, "cuda", session.job["alignment"])
    kind = recorded.get("kind", "triton")
    if kind == "variant":

        def compiled() -> None:
            """From now on only the device can hang."""
            faulthandler.dump_traceback_later(session.job["limit"], exit=True)
            torch.cuda.synchronize()

        began = time.monotonic()
        if session.comparison is None or session.comparison.sizes != recorded["sizes"]:
            session.comparison = None  # frees the memory of the size before
            session.comparison = Comparison(torch, recorded["script"], recorded["sizes"])
        call = session.comparison.call(recorded, session.say, compiled)
        if time.monotonic() - began > IDLE_SECONDS:
            session.warm()
        return call, memory
    memory.share(recorded)
    if kind != "triton":
        return repeated(torch, recorded, memory), memory
    values = memory.parameters(recorded, driver.tensor_map)
    function = session.function(Path(recorded["cubin"]).read_bytes(), recorded["symbol"])
    driver.allow_shared(function, recorded["shared"] or 0, session.device)
    return launched(torch, driver, function, recorded, values), memory


def replay(session: Session, recorded: dict[str, Any]) -> None:
    """Launch once, so that everything is compiled, then time the launch by each stopwatch."""
    torch = session.torch
    n = recorded["n"]
    launch, memory = repeatable(session, recorded)
    memory.changed_by(launch)
    torch.cuda.synchronize()
    odd = set(memory.overflowed())
    for stopwatch in session.job["stopwatches"]:
        state = OWN_CACHE.get(stopwatch, session.job["cache"])
        try:
            if memory.changes and stopwatch in OWN_CACHE:
                raise Unavailable(
                    "the launch changes integers that it reads, and this stopwatch leaves no "
                    "time to restore them"
                )
            kind = recorded.get("kind", "triton")
            result = session.measure(stopwatch, state, launch, memory, kind)
        except (Unavailable, RuntimeError) as error:
            torch.cuda.synchronize()  # raises if nothing can be launched any more
            session.say(n=n, stopwatch=stopwatch, cache=state, error=first_line(error))
            continue
        grown = [name for name in memory.overflowed() if name not in odd]
        overflows = [f"{name} overflowed as the launch was repeated" for name in grown]
        warnings = [*memory.warnings, *overflows]
        session.say(**{**result, "n": n, "warnings": warnings, "kept": memory.kept_names})
    torch.cuda.synchronize()


def main(job_path: str, results_path: str) -> int:
    """Do a job and return the exit status: 0, or one that says why not."""
    began = time.monotonic()
    job = json.loads(Path(job_path).read_text("utf-8"))
    # A graph's kernels are compiled here, and not by workers that outlive a process that is killed.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    # The cache with the program's graphs also has its kernels and the results of tuning them.
    for recorded in job["launches"]:
        if os.path.isdir(recorded.get("cache") or ""):
            os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", recorded["cache"])
    with Path(results_path).open("a", encoding="utf-8") as out:
        try:
            import torch
        except ImportError:
            return NO_TORCH
        if not torch.cuda.is_available():
            return NO_DEVICE
        # Above all, this works where the interpreter itself is stuck in a call of the driver.
        faulthandler.dump_traceback_later(job["limit"], exit=True)
        torch.zeros(1, device="cuda")
        session = Session(torch, job, out)
        session.say(device=session.about())
        session.warm()
        if job["copy"]:
            copy(session)
            torch.cuda.empty_cache()
        budget = job.get("budget")
        for recorded in job["launches"]:
            if budget is not None and time.monotonic() - began > budget:
                session.say(spent=True)
                break
            # The first call of a variant may compile.
            faulthandler.dump_traceback_later(job["limit"] + job["building"], exit=True)
            session.say(begin=recorded["n"])
            try:
                with torch.set_grad_enabled(recorded.get("kind") == "variant"):
                    replay(session, recorded)
            except (Exception, SystemExit) as error:  # the code of a call may raise anything
                session.say(n=recorded["n"], stopwatch=None, error=first_line(error))
            try:
                torch.cuda.empty_cache()
                torch.cuda.synchronize()
            except RuntimeError:
                return BROKEN
            session.say(end=recorded["n"])
        faulthandler.cancel_dump_traceback_later()
    return 0
