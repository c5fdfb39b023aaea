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

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import sys
import time
from functools import cached_property
from pathlib import Path
from typing import Any

from . import calls
from .cupti import Records, Unavailable, trace_of
from .driver import Clocks, Driver, Kernel
from .inputs import Inputs, Memory, first_line
from .script import Comparisons
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
        self.torch, self.job, self._out = torch, job, out
        self.driver = Driver()
        self.device = torch.cuda.current_device()
        self.clocks = Clocks(self.driver.bus_id(self.device))
        self.caches: dict[str, Cache] = {}
        self.comparisons = Comparisons(torch)
        self._functions: dict[tuple[bytes, str], Any] = {}

    def say(self, **fields: Any) -> None:
        """Write one line of results."""
        self._out.write(json.dumps(fields) + "\n")
        self._out.flush()

    def cache(self, state: str) -> Cache:
        """The state of the L2, with its memory, made once."""
        if state not in self.caches:
            self.caches[state] = Cache(self.torch, state)
        return self.caches[state]

    @cached_property
    def trace(self) -> Records:
        """The source of device events."""
        return trace_of(self.torch)

    def about(self) -> dict[str, Any]:
        """The device and the versions."""
        properties = self.torch.cuda.get_device_properties(self.device)
        try:
            import triton

            version = triton.__version__
        except ImportError:
            version = None
        return {
            "name": properties.name,
            "major": properties.major,
            "minor": properties.minor,
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
        cache = self.cache("cold")
        until = time.monotonic() + WARM_SECONDS
        while time.monotonic() < until:
            for _ in range(50):
                cache.prepare()
            self.torch.cuda.synchronize()

    @cached_property
    def extra(self) -> float | None:
        """µs that a pair of events reads beyond a kernel's own time; None if unknown."""
        torch, before = self.torch, self.cache("cold").prepare
        try:
            function = self.function(EMPTY_PTX.encode(), EMPTY)
            kernel = Kernel(self.driver, function, {"grid": (1, 1, 1), "block": (1, 1, 1)}, [])

            def launch() -> None:
                kernel.launch(torch.cuda.current_stream().cuda_stream)

            own = calls.cupti(self.trace, launch, before, True, EMPTY_SECONDS, lambda: None)
            return around(torch, launch, before, own.sums)
        except (RuntimeError, OSError, AttributeError, Unavailable):
            return None

    def function(self, code: bytes, symbol: str) -> Any:
        """A kernel of machine code, which stays loaded.

        Where one is unloaded the next may have its handle, and CUPTI then loses its launches, or
        has them under the other's name.
        """
        key = hashlib.sha256(code).digest(), symbol
        if key not in self._functions:
            self._functions[key] = self.driver.load(code, symbol)[1]
        return self._functions[key]

    def measure(
        self, stopwatch: str, state: str, launch: Any, memory: Memory, kind: str = "triton"
    ) -> dict[str, Any]:
        """Samples of one stopwatch after a warm-up, with the clocks before, during and after.

        ``kind`` is that of the call, or ``copy``: no kernel, so that tracing cannot slow it.
        """
        cache = self.cache(state)
        looks: list[dict[str, Any]] = []
        seconds = self.job["seconds"]

        def before() -> None:
            memory.restore()
            cache.prepare()

        def look() -> None:
            looks.append(self.clocks.look())

        for _ in range(10):
            before()
            launch()
        look()
        if stopwatch == "cupti":
            flushes = state != "hot" or memory.changes
            times = calls.cupti(self.trace, launch, before, flushes, seconds, look)
            result: dict[str, Any] = {"samples": times.sums}
            if kind not in ("triton", "copy"):
                cpu = calls.on_cpu(self.torch, launch, before)
                result |= {"kernels": times.as_json(), "span": times.spans, "cpu": cpu}
            if kind != "copy":
                result = undisturbed(self.torch, result, launch, before, self.extra)
        else:
            watch = STOPWATCHES[stopwatch]
            result = {"samples": watch(self.torch, launch, before, seconds, look)}
        look()
        return {"stopwatch": stopwatch, "cache": state, **result, "clocks": summed(looks)}


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
            measurement = session.measure(stopwatch, state, again, Memory(torch), "copy")
        except (Unavailable, RuntimeError):
            continue  # without it, times are shown without their share of the bandwidth
        session.say(copy={**measurement, "bytes": 2 * COPIED_BYTES})


def repeatable(session: Session, recorded: dict[str, Any]) -> tuple[Any, Memory]:
    """A launch or call that can be repeated, and the memory behind it."""
    torch, driver, most = session.torch, session.driver, session.job["alignment"]
    kind = recorded.get("kind", "triton")
    if kind == "variant":

        def compiled() -> None:
            """From now on only the device can hang."""
            faulthandler.dump_traceback_later(session.job["limit"], exit=True)
            torch.cuda.synchronize()

        began = time.monotonic()
        call = session.comparisons.call(recorded, session.say, compiled)
        if time.monotonic() - began > IDLE_SECONDS:
            session.warm()
        return call
    if kind != "triton":
        again = calls.ReplayableCall(torch, recorded, "cuda", most)
        return again.made, again.memory
    inputs = Inputs(torch, recorded, "cuda", most)
    function = session.function(Path(recorded["cubin"]).read_bytes(), recorded["symbol"])
    driver.allow_shared(function, recorded["shared"] or 0, session.device)
    kernel = Kernel(driver, function, recorded, inputs.values)
    return (lambda: kernel.launch(torch.cuda.current_stream().cuda_stream)), inputs


def replay(session: Session, recorded: dict[str, Any]) -> None:
    """Launch once, so that everything is compiled, then time the launch by each stopwatch."""
    torch, n = session.torch, recorded["n"]
    launch, memory = repeatable(session, recorded)
    memory.keep_integers()
    torch.cuda.synchronize()
    launch()
    torch.cuda.synchronize()
    memory.forget_unchanged()
    odd = set(memory.overflowed())
    for stopwatch, state in caches(session.job["stopwatches"], session.job["cache"]):
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
        overflow_warnings = [f"{name} overflowed as the launch was repeated" for name in grown]
        warnings = [*result.get("warnings", ()), *memory.warnings, *overflow_warnings]
        session.say(**{**result, "n": n, "warnings": warnings})
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
