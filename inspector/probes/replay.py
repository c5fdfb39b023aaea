"""Runs recorded launches again and takes their time; a program of its own.

    main(JOB, RESULTS)

JOB is a JSON file: what to launch and how to take the time. RESULTS grows by one JSON object a
line, flushed: ``{"device": …}``, ``{"copy": …}``, and for each launch ``{"begin": n}``, then a
``{"n", "stopwatch", "cache", "samples": [µs…], "clocks", "warnings"}`` for each stopwatch, or
``{"n", "stopwatch", "error"}``, and ``{"end": n}``. Where a launch breaks the device's context, or
takes longer than its limit, the process ends before that: whoever started it goes on with the next.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import time
from pathlib import Path
from typing import Any

from .replay_driver import Clocks, Driver, Kernel
from .replay_inputs import Inputs, NotRebuilt
from .replay_stopwatches import COPY, OWN_CACHE, STOPWATCHES, Cache, Unavailable, caches

WARM_SECONDS = 0.3
COPIED_BYTES = 1 << 30
BROKEN = 3
NO_DEVICE = 4


class Session:
    """One process on one device: its torch, its driver, what the job says."""

    def __init__(self, torch: Any, job: dict[str, Any], out: Any) -> None:
        self.torch, self.job, self._out = torch, job, out
        self.driver = Driver()
        self.device = torch.cuda.current_device()
        self.clocks = Clocks(self.driver.bus_id(self.device))
        self.caches: dict[str, Cache] = {}

    def say(self, **fields: Any) -> None:
        """One line of results."""
        self._out.write(json.dumps(fields) + "\n")
        self._out.flush()

    def cache(self, state: str) -> Cache:
        """The state of the L2, with its memory, made once."""
        if state not in self.caches:
            self.caches[state] = Cache(self.torch, state)
        return self.caches[state]

    def about(self) -> dict[str, Any]:
        """The device and the versions."""
        at = self.torch.cuda.get_device_properties(self.device)
        try:
            import triton

            version = triton.__version__
        except ImportError:
            version = None
        return {
            "name": at.name, "major": at.major, "minor": at.minor,
            "multi_processor_count": at.multi_processor_count,
            "torch": self.torch.__version__, "triton": version,
            "python": sys.version.split()[0], "cuda": self.torch.version.cuda,
            "warm_up": self.clocks.look(),
        }  # fmt: skip

    def warm(self) -> None:
        """Work until the clocks are up."""
        held = self.cache("cold")
        until = time.monotonic() + WARM_SECONDS
        while time.monotonic() < until:
            for _ in range(50):
                held.prepare()
            self.torch.cuda.synchronize()

    def measure(self, n: int | None, stopwatch: str, state: str, launch: Any, name: str,
                restore: Any) -> dict[str, Any]:  # fmt: skip
        """Samples of one stopwatch, with the clocks around and within."""
        cache = self.cache(state)
        looks: list[dict[str, Any]] = []

        def before() -> None:
            restore()
            cache.prepare()

        for _ in range(10):
            before()
            launch()
        looks.append(self.clocks.look())
        samples = STOPWATCHES[stopwatch](
            self.torch, launch, before, name, self.job["seconds"],
            lambda: looks.append(self.clocks.look()),
        )  # fmt: skip
        looks.append(self.clocks.look())
        return {"n": n, "stopwatch": stopwatch, "cache": state, "samples": samples,
                "clocks": summed(looks)}  # fmt: skip


def summed(looks: list[dict[str, Any]]) -> dict[str, Any]:
    """The least and greatest clock that was seen, the warmest, and all that slowed the device."""
    seen = [x["sm_mhz"] for x in looks if x["sm_mhz"] is not None]
    warm = [x["celsius"] for x in looks if x["celsius"] is not None]
    slow = [x["slowed_by"] for x in looks if x["slowed_by"] is not None]
    return {
        "low_mhz": min(seen, default=None),
        "high_mhz": max(seen, default=None),
        "most_mhz": looks[-1]["most_mhz"] if looks else None,
        "celsius": max(warm, default=None),
        "slowed_by": sorted({each for one in slow for each in one}) if slow else None,
    }


def copy(session: Session) -> None:
    """The device's bandwidth: a copy of a gigabyte, by the same stopwatches."""
    torch = session.torch
    try:
        source = torch.zeros(COPIED_BYTES, dtype=torch.uint8, device="cuda")
        target = torch.empty_like(source)
    except RuntimeError:
        return  # a device without that much memory to spare

    def again() -> None:
        target.copy_(source)

    for stopwatch, state in caches(session.job["stopwatches"], session.job["cache"]):
        try:
            # Far larger than the L2, it finds the same there whatever was done before.
            said = session.measure(None, stopwatch, state, again, COPY, lambda: None)
        except (Unavailable, RuntimeError):
            continue  # without it, times stand without a part of the device's bandwidth
        session.say(copy={**said, "bytes": 2 * COPIED_BYTES})


def replay(session: Session, said: dict[str, Any]) -> None:
    """One launch, by every stopwatch."""
    torch, driver, n = session.torch, session.driver, said["n"]
    inputs = Inputs(torch, said, "cuda", session.job["alignment"])
    module, function = driver.load(Path(said["cubin"]).read_bytes(), said["symbol"])
    try:
        driver.allow_shared(function, said["shared"] or 0, session.device)
        kernel = Kernel(driver, function, said, inputs.values)

        def launch() -> None:
            kernel.launch(torch.cuda.current_stream().cuda_stream)

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
                result = session.measure(
                    n, stopwatch, state, launch, said["symbol"], inputs.restore
                )
            except Unavailable as error:
                session.say(n=n, stopwatch=stopwatch, cache=state, error=str(error))
                continue
            grown = [name for name in inputs.overflowed() if name not in odd]
            said_too = [f"{name} overflowed as the launch was repeated" for name in grown]
            session.say(**result, warnings=[*inputs.warnings, *said_too])
    finally:
        torch.cuda.synchronize()
        driver.call("cuModuleUnload", module)


def main(job_path: str, results_path: str) -> int:
    """Do a job; 0, or why not."""
    job = json.loads(Path(job_path).read_text("utf-8"))
    with Path(results_path).open("a", encoding="utf-8") as out:
        import torch

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
        for said in job["launches"]:
            faulthandler.dump_traceback_later(job["limit"], exit=True)
            session.say(begin=said["n"])
            try:
                with torch.no_grad():
                    replay(session, said)
            except (NotRebuilt, RuntimeError, ValueError, OSError) as error:
                session.say(n=said["n"], stopwatch=None, error=first_line(error))
            torch.cuda.empty_cache()
            try:
                torch.cuda.synchronize()
            except RuntimeError:
                return BROKEN
            session.say(end=said["n"])
        faulthandler.cancel_dump_traceback_later()
    return 0


def first_line(error: BaseException) -> str:
    """An error's own words, without torch's advice."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
