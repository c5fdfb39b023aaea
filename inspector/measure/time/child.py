"""Runs child processes under the user's interpreter that take times, and gathers their results.

A launch that breaks the device's context, hangs or kills the process costs its own row: another
process goes on with the rest.
"""

from __future__ import annotations

import json
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from inspector.base.errors import PtxviewError, ToolMissing, Unreadable
from inspector.base.text import shown
from inspector.measure.time.results import STOPWATCHES
from inspector.system import files
from inspector.system.process import Finished, run_tool

PROBES = Path(__file__).resolve().parents[2] / "probes"
# The probes as a package, as a recorded program has them, without the current folder in the path.
BOOT = """
import sys, importlib, importlib.util as u
sys.path[:] = [p for p in sys.path if p]
folder = sys.argv[1]
spec = u.spec_from_file_location("ptxview_probes", folder + "/__init__.py",
                                 submodule_search_locations=[folder])
sys.modules["ptxview_probes"] = u.module_from_spec(spec)
main = importlib.import_module("ptxview_probes.replay." + sys.argv[2]).main
raise SystemExit(main(sys.argv[3], sys.argv[4]))
"""
NO_DEVICE, NO_TORCH = 4, 45
# Seconds to import torch and wake the device, which takes tens of seconds on a cold disk.
STARTING = 180

# The key under which the child gets a launch's file, and the file's ending, by kind of launch.
FILES = {"graph": ("code", ".py"), "extension": ("", ".none"), "variant": ("", ".none")}

Said = dict[str, object]
Child = Callable[[Sequence[str], float, Path], Finished]


# Alignment in bytes of torch's allocator on a device.
ALIGNED = 512


@dataclass(frozen=True, slots=True)
class TimeWish:
    """How to take times: by which stopwatch (``all``: each), in which state of the L2.

    ``seconds`` limits one stopwatch, ``limit`` (seconds) one launch, ``calls`` the distinct calls
    of a variant that are launched; ``python`` is the interpreter asked for. After ``budget``
    seconds in all, nothing further is begun.
    """

    stopwatch: str = "cupti"
    cache: str = "cold"
    seconds: float = 2.0
    limit: float = 60.0
    calls: int = 3
    python: str | None = None
    budget: float | None = None

    @property
    def stopwatches(self) -> tuple[str, ...]:
        """The stopwatches by name."""
        return STOPWATCHES if self.stopwatch == "all" else (self.stopwatch,)

    def told(self) -> Said:
        """The part of every child's job that the wish determines."""
        return {
            "stopwatches": list(self.stopwatches),
            "cache": self.cache,
            "seconds": self.seconds,
            "limit": self.limit,
        }


class ChildEnd(NamedTuple):
    """How a child process ended: ``status`` is None if it took too long as a whole.

    ``problem`` says why it ended early, if it did. ``records`` are what it wrote.
    """

    status: int | None
    problem: str
    records: list[Said]


def run_child(
    python: str, module: str, job: Said, limit: float, folder: Path, seconds: float, child: Child
) -> ChildEnd:
    """Run a module of ``probes/replay`` with a job in a separate process, and wait for its end.

    After ``limit`` seconds in one step the child ends itself; ``seconds`` limits it as a whole.
    Raises ``ToolMissing`` if the interpreter cannot be started.
    """
    job_file, results = folder / "job.json", folder / "results.jsonl"
    results.unlink(missing_ok=True)
    job_file.write_text(json.dumps(job), "utf-8")
    argv = [python, "-c", BOOT, str(PROBES), module, str(job_file), str(results)]
    try:
        done = child(argv, seconds, folder)
    except Unreadable as error:
        return ChildEnd(None, error.message, records(results))
    return ChildEnd(done.status, why_ended(done, limit), records(results))


def records(results: Path) -> list[Said]:
    """The records that a child has written so far, without a last line that is cut short."""
    try:
        return [record for record in files.records(results) if isinstance(record, dict)]
    except Unreadable:
        return []


@dataclass
class GatheredTimes:
    """The results of child processes: the device, the copies, and rows by the launch's number.

    ``spent``: the budget ran out before all launches were begun; the others have no rows.
    """

    device: Said = field(default_factory=dict)
    copies: list[Said] = field(default_factory=list)
    rows: dict[int, list[Said]] = field(default_factory=dict)
    spent: bool = False


def start(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
    """Run a child process to its end."""
    return run_tool(argv, seconds=seconds, cwd=folder)


def watched(stop: threading.Event, tell: Callable[[int], None]) -> Child:
    """A function that runs a child process, and raises ``Stopped`` once ``stop`` is set.

    ``tell`` is called some times a second with the number of times taken so far.
    """

    before = 0  # of the children that ended early

    def child(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
        nonlocal before
        growing = _Growing(Path(argv[-1]))

        def go_on() -> bool:
            tell(before + growing.rows())
            return not stop.is_set()

        try:
            return run_tool(argv, seconds=seconds, cwd=folder, go_on=go_on)
        finally:
            before += growing.rows()

    return child


class _Growing:
    """A child's results as they grow; each part of the file is read only once."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._read, self._count = 0, 0

    def rows(self) -> int:
        """The number of times written so far."""
        try:
            new_bytes = files.part(self._results, self._read)
        except Unreadable:
            return self._count
        complete = new_bytes[: new_bytes.rfind(b"\n") + 1]
        self._read += len(complete)
        for line in complete.splitlines():
            with suppress(ValueError):
                record = files.parsed(line)
                self._count += isinstance(record, dict) and isinstance(record.get("n"), int)
        return self._count


def measure(
    python: str,
    launches: Sequence[tuple[Said, bytes]],
    wish: TimeWish,
    child: Child = start,
    alignment: int = ALIGNED,
    building: float = 0,
) -> GatheredTimes:
    """Take the time of launches, each a pair of its job and its cubin or code.

    ``alignment`` is the largest one recorded of pointers, in bytes, ``building`` the seconds that a
    launch may compile before its limit begins. Raises ``ToolMissing`` if there
    is no device or no torch, ``Unreadable`` if no child could begin.
    """
    gathered = GatheredTimes()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ptxview-") as name:
        folder = Path(name)
        jobs: list[Said] = []
        for n, (launch, data) in enumerate(launches):
            key, ending = FILES.get(str(launch.get("kind")), ("cubin", ".cubin"))
            path = folder / f"{n}{ending}"
            path.write_bytes(data)
            jobs.append({**launch, "n": n, key: str(path)})
        while jobs and not gathered.spent:
            remaining = None
            if wish.budget is not None:
                remaining = max(wish.budget - (time.monotonic() - began), 0)
            job = {
                **wish.told(),
                "alignment": alignment,
                "budget": remaining,
                "building": building,
                "copy": not gathered.copies,
                "launches": jobs,
            }
            seconds = STARTING + (len(jobs) + 1) * (wish.limit + building)
            end = run_child(python, "session", job, wish.limit, folder, seconds, child)
            jobs = _left(python, jobs, end, gathered)
    return gathered


def _left(python: str, jobs: list[Said], end: ChildEnd, gathered: GatheredTimes) -> list[Said]:
    """The jobs that a child process left for the next one."""
    begun, ended = gather(end.records, gathered)
    if end.status == NO_DEVICE:
        raise ToolMissing("timing needs an NVIDIA GPU, and the interpreter's torch sees none")
    if end.status == NO_TORCH:
        raise ToolMissing(f"timing needs torch, which {python} cannot import", "See --python.")
    remaining = [t for t in jobs if t["n"] not in ended]
    if not remaining or gathered.spent:
        return remaining
    culprit = next((t for t in remaining if t["n"] in begun), None)
    if culprit is None:
        raise Unreadable(f"the process that runs calls again ended early: {end.problem}")
    number = culprit["n"]
    assert isinstance(number, int)
    rows = gathered.rows.setdefault(number, [])
    if not any("error" in r for r in rows):
        rows.append({"n": number, "stopwatch": None, "error": end.problem})
    return [t for t in remaining if t["n"] != number]


def why_ended(done: Finished, limit: float) -> str:
    """A sentence on why a child process ended early."""
    if done.status == -signal.SIGKILL:
        return "the process was killed (SIGKILL), as for want of memory"
    if done.status < 0:
        return f"the process was ended by {_signal(-done.status)}"
    if b"Timeout (" in done.err:
        return f"it did not finish within {limit:.0f} s (--limit)"
    lines = done.complaint.strip().splitlines()
    return lines[-1] if lines else f"the process ended with status {done.status}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def gather(written: Iterable[Said], gathered: GatheredTimes) -> tuple[set[object], set[object]]:
    """Take in a child's records; returns the numbers of launches that it began, and finished."""
    begun: set[object] = set()
    ended: set[object] = set()
    for record in written:
        device, copy = record.get("device"), record.get("copy")
        number = record.get("n")
        if "begin" in record:
            begun.add(record["begin"])
        elif "end" in record:
            ended.add(record["end"])
        elif record.get("spent") is True:
            gathered.spent = True
        elif isinstance(device, dict):
            gathered.device = device
        elif isinstance(copy, dict):
            gathered.copies.append(copy)
        elif isinstance(number, int):
            gathered.rows.setdefault(number, []).append(record)
    return begun, ended


def interpreter(
    asked: str | None,
    own: Iterable[str],
    versions: Callable[[str], Mapping[str, str | None]],
    recorded: Sequence[str] | None = None,
) -> str:
    """The interpreter to run calls under: the one asked for, else the first of this user's own
    that has torch.

    The command that was ``recorded`` is only named in the error: a recording may come from anybody,
    and asking a program for its versions starts it. Raises ``ToolMissing``.
    """
    if asked is not None:
        return asked
    for python in dict.fromkeys(own):
        if _has(python, versions):
            return python
    by = f" It was recorded by: {shown(' '.join(recorded)[:200])}" if recorded else ""
    raise ToolMissing(
        "no interpreter with torch was found to run the calls under", f"Name one with --python.{by}"
    )


def _has(python: str, versions: Callable[[str], Mapping[str, str | None]]) -> bool:
    try:
        return bool(versions(python).get("torch"))
    except PtxviewError:
        return False
