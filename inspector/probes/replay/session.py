"""Runs recorded launches again and times them; a program of its own.

    main(JOB, RESULTS)

JOB is a JSON file: what to launch and how to take the time. RESULTS grows by one JSON object a
line, flushed: ``{"device": …}``, ``{"copy": …}``, and for each launch ``{"begin": n}``, then a
``{"n", "stopwatch", "cache", "samples": [µs…], "clocks", "warnings"}`` for each stopwatch, or
``{"n", "stopwatch", "error"}``, and ``{"end": n}``. Of a call of a graph or of an extension,
CUPTI's line has ``kernels`` and ``cpu`` too. Where a launch breaks the device's context, or takes
longer than its limit, the process ends before that: whoever started it goes on with the next.
When the job's ``budget`` of seconds is spent, no further launch is begun: ``{"spent": true}``.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from . import calls
from .driver import Clocks, Driver, Kernel
from .inputs import Inputs, Memory, NotRebuilt
from .stopwatches import (
    EMPTY,
    EMPTY_PTX,
    OWN_CACHE,
    STOPWATCHES,
    Cache,
    around,
    caches,
    undisturbed,
)
from .trace import Trace, Unavailable, trace_of

WARM_SECONDS = 0.3
EMPTY_SECONDS = 0.2
COPIED_BYTES = 1 << 30
BROKEN = 3
NO_DEVICE = 4
NO_TORCH = 45


class Session:
    """One process on one device: its torch, its driver and its job."""

    def __init__(self, torch: Any, job: dict[str, Any], out: Any) -> None:
        self.torch, self.job, self._out = torch, job, out
        self.driver = Driver()
        self.device = torch.cuda.current_device()
        self.clocks = Clocks(self.driver.bus_id(self.device))
        self.caches: dict[str, Cache] = {}
        self._trace: Trace | None = None
        self._functions: dict[tuple[bytes, str], Any] = {}
        self._extra: list[float | None] = []

    def say(self, **fields: Any) -> None:
        """Write one line of results."""
        self._out.write(json.dumps(fields) + "\n")
        self._out.flush()

    def cache(self, state: str) -> Cache:
        """The state of the L2, with its memory, made once."""
        if state not in self.caches:
            self.caches[state] = Cache(self.torch, state)
        return self.caches[state]

    def trace(self) -> Trace:
        """The source of device events, chosen once."""
        if self._trace is None:
            self._trace = trace_of(self.torch)
        return self._trace

    def about(self) -> dict[str, Any]:
        """The device and the versions."""
        properties = self.torch.cuda.get_device_properties(self.device)
        try:
            import triton

            version = triton.__version__
        except ImportError:
            version = None
        return {
            "name": properties.name, "major": properties.major, "minor": properties.minor,
            "multi_processor_count": properties.multi_processor_count,
            "torch": self.torch.__version__, "triton": version,
            "python": sys.version.split()[0], "cuda": self.torch.version.cuda,
            "driver": self.clocks.driver(), "warm_up": self.clocks.look(),
        }  # fmt: skip

    def warm(self) -> None:
        """Keep the device busy until its clocks are up."""
        cache = self.cache("cold")
        until = time.monotonic() + WARM_SECONDS
        while time.monotonic() < until:
            for _ in range(50):
                cache.prepare()
            self.torch.cuda.synchronize()

    def own(self, launch: Any, before: Any, flushes: bool, between: Any,
            seconds: float | None = None) -> calls.Gathered:  # fmt: skip
        """The device's own times of a launch or a call, by CUPTI.

        ``flushes``: whether ``before`` does anything on the device.
        """
        longest = self.job["seconds"] if seconds is None else seconds
        return calls.cupti(self.trace(), launch, before, flushes, longest, between)

    def measure(self, n: int | None, stopwatch: str, state: str, launch: Any,
                memory: Memory | None = None) -> dict[str, Any]:  # fmt: skip
        """Samples of one stopwatch, with the clocks around and within."""
        flushes = state != "hot" or (memory is not None and memory.changes)

        def take(before: Any, between: Any) -> dict[str, Any]:
            if stopwatch == "cupti":
                return {"samples": self.own(launch, before, flushes, between).sums}
            seconds, watch = self.job["seconds"], STOPWATCHES[stopwatch]
            return {"samples": watch(self.torch, launch, before, seconds, between)}

        # A copy is no kernel, and nothing is added to it.
        checked = n is not None
        restore = (lambda: None) if memory is None else memory.restore
        return {"n": n, **self.watched(stopwatch, state, launch, restore, take, checked)}

    def extra(self) -> float | None:
        """µs that a pair of events reads beyond a kernel's own time, once; None if unknown."""
        if not self._extra:
            try:
                self._extra.append(self._around())
            except (RuntimeError, OSError, AttributeError, Unavailable):
                self._extra.append(None)
        return self._extra[0]

    def _around(self) -> float | None:
        torch, before = self.torch, self.cache("cold").prepare
        function = self.function(EMPTY_PTX.encode(), EMPTY)
        kernel = Kernel(self.driver, function, {"grid": (1, 1, 1), "block": (1, 1, 1)}, [])

        def launch() -> None:
            kernel.launch(torch.cuda.current_stream().cuda_stream)

        own = self.own(launch, before, True, lambda: None, EMPTY_SECONDS)
        return around(torch, launch, before, own.sums)

    def function(self, code: bytes, symbol: str) -> Any:
        """A kernel of machine code, which stays loaded.

        Where one is unloaded the next may have its handle, and CUPTI then loses its launches, or
        has them under the other's name.
        """
        key = hashlib.sha256(code).digest(), symbol
        if key not in self._functions:
            self._functions[key] = self.driver.load(code, symbol)[1]
        return self._functions[key]

    def watched(self, stopwatch: str, state: str, launch: Any, restore: Any,
                take: Any, checked: bool = True) -> dict[str, Any]:  # fmt: skip
        """The result of ``take`` after a warm-up, with the clocks before, during and after.

        ``checked``: compare CUPTI's figures with a pair of events, which tracing cannot slow.
        """
        cache = self.cache(state)
        looks: list[dict[str, Any]] = []

        def before() -> None:
            restore()
            cache.prepare()

        for _ in range(10):
            before()
            launch()
        looks.append(self.clocks.look())
        result = take(before, lambda: looks.append(self.clocks.look()))
        if checked and stopwatch == "cupti":
            result = undisturbed(self.torch, result, launch, before, self.extra())
        looks.append(self.clocks.look())
        if stopwatch == "cupti" and self.trace().note is not None:
            result = {**result, "warnings": [self.trace().note]}
        return {"stopwatch": stopwatch, "cache": state, **result, "clocks": summed(looks)}

    def measure_call(self, again: Any, stopwatch: str, state: str) -> dict[str, Any]:
        """Like ``measure``, for a call that makes many launches."""
        torch, call = self.torch, again.made

        def take(before: Any, between: Any) -> dict[str, Any]:
            if stopwatch != "cupti":
                seconds = self.job["seconds"]
                watch = STOPWATCHES[stopwatch]
                return {"samples": watch(torch, call, before, seconds, between)}
            flushes = state != "hot" or again.memory.changes
            gathered = self.own(call, before, flushes, between)
            return {"samples": gathered.sums, "kernels": gathered.as_said(),
                    "cpu": calls.on_cpu(torch, call, before)}  # fmt: skip

        return self.watched(stopwatch, state, call, again.memory.restore, take)


def summed(looks: list[dict[str, Any]]) -> dict[str, Any]:
    """The lowest and highest clock seen, the highest temperature, and all reasons for slowing."""
    clocks = [x["sm_mhz"] for x in looks if x["sm_mhz"] is not None]
    temperatures = [x["celsius"] for x in looks if x["celsius"] is not None]
    slowdowns = [x["slowed_by"] for x in looks if x["slowed_by"] is not None]
    return {
        "low_mhz": min(clocks, default=None),
        "high_mhz": max(clocks, default=None),
        "most_mhz": looks[-1]["most_mhz"] if looks else None,
        "celsius": max(temperatures, default=None),
        "slowed_by": sorted({reason for reasons in slowdowns for reason in reasons})
        if slowdowns
        else None,
    }


def copy(session: Session) -> None:
    """The device's bandwidth: a copy of a gigabyte, by the same stopwatches."""
    torch = session.torch
    try:
        source = torch.zeros(COPIED_BYTES, dtype=torch.uint8, device="cuda")
        target = torch.empty_like(source)
    except RuntimeError:
        return  # the device has not that much free memory

    def again() -> None:
        target.copy_(source)

    for stopwatch, state in caches(session.job["stopwatches"], session.job["cache"]):
        try:
            # The copy is far larger than the L2, so the L2's state before it does not matter.
            measurement = session.measure(None, stopwatch, state, again)
        except (Unavailable, RuntimeError):
            continue  # without it, times are shown without their share of the bandwidth
        session.say(copy={**measurement, "bytes": 2 * COPIED_BYTES})


def replay(session: Session, recorded: dict[str, Any]) -> None:
    """Time one launch by every stopwatch."""
    torch, driver, n = session.torch, session.driver, recorded["n"]
    inputs = Inputs(torch, recorded, "cuda", session.job["alignment"])
    function = session.function(Path(recorded["cubin"]).read_bytes(), recorded["symbol"])
    driver.allow_shared(function, recorded["shared"] or 0, session.device)
    kernel = Kernel(driver, function, recorded, inputs.values)

    def launch() -> None:
        kernel.launch(torch.cuda.current_stream().cuda_stream)

    def measure(stopwatch: str, state: str) -> dict[str, Any]:
        return session.measure(n, stopwatch, state, launch, inputs)

    by_each(session, n, launch, inputs, measure)
    torch.cuda.synchronize()


def replay_call(session: Session, recorded: dict[str, Any]) -> None:
    """Time one call of a graph or of an extension's function by every stopwatch."""
    again = calls.Again(session.torch, recorded, "cuda", session.job["alignment"])
    by_each(session, recorded["n"], again.made, again.memory,
            lambda stopwatch, state: session.measure_call(again, stopwatch, state))  # fmt: skip


def by_each(session: Session, n: int, launch: Any, inputs: Memory, measure: Any) -> None:
    """Launch once, so that everything is compiled, then time the launch by each stopwatch."""
    torch = session.torch
    inputs.keep_integers()
    torch.cuda.synchronize()
    launch()
    torch.cuda.synchronize()
    inputs.forget_unchanged()
    odd = set(inputs.overflowed())
    for stopwatch, state in caches(session.job["stopwatches"], session.job["cache"]):
        try:
            if inputs.changes and stopwatch in OWN_CACHE:
                raise Unavailable(
                    "the launch changes integers that it reads, and this stopwatch leaves no "
                    "time to give them back"
                )
            result = measure(stopwatch, state)
        except Unavailable as error:
            session.say(n=n, stopwatch=stopwatch, cache=state, error=str(error))
            continue
        except RuntimeError as error:
            torch.cuda.synchronize()  # raises if nothing can be launched any more
            session.say(n=n, stopwatch=stopwatch, cache=state, error=first_line(error))
            continue
        grown = [name for name in inputs.overflowed() if name not in odd]
        overflow_warnings = [f"{name} overflowed as the launch was repeated" for name in grown]
        warnings = [*result.get("warnings", ()), *inputs.warnings, *overflow_warnings]
        session.say(**{**result, "n": n, "warnings": warnings})


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
        except ImportError as error:
            out.write(json.dumps({"no_torch": first_line(error)}) + "\n")
            return NO_TORCH
        if not torch.cuda.is_available():
            out.write(json.dumps({"no_device": f"torch {torch.__version__} sees none"}) + "\n")
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
            faulthandler.dump_traceback_later(job["limit"], exit=True)
            session.say(begin=recorded["n"])
            once = replay if recorded.get("kind", "triton") == "triton" else replay_call
            try:
                with torch.no_grad():
                    once(session, recorded)
            except Exception as error:  # the code of a call may raise whatever it likes
                session.say(n=recorded["n"], stopwatch=None, error=first_line(error))
            try:
                torch.cuda.empty_cache()
                torch.cuda.synchronize()
            except RuntimeError:
                return BROKEN
            session.say(end=recorded["n"])
        faulthandler.cancel_dump_traceback_later()
    return 0


def first_line(error: BaseException) -> str:
    """An error's own words, without torch's advice."""
    text = (str(error).strip().splitlines() or [""])[0]
    if "out of memory" in text:
        # What torch says after the second sentence is of its allocator.
        return ". ".join(text.split(". ")[:2]).rstrip(".")
    plain = isinstance(error, RuntimeError | ValueError | OSError | NotRebuilt) and text
    return text if plain else f"{type(error).__name__}: {text}".rstrip(": ")
