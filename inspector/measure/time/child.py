"""Child processes under the user's interpreter that take times, and what those of launches say.

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

from inspector import files
from inspector.errors import PtxviewError, ToolMissing, Unreadable
from inspector.measure.time.results import STOPWATCHES
from inspector.system.process import Finished, run_tool
from inspector.text import shown

PROBES = Path(__file__).resolve().parents[2] / "probes"
# The probes as a package of their own name, as a recorded program has them; the folder that one
# stands in is no part of the interpreter.
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
# To import torch and to wake the device, which takes tens of seconds on a cold disk.
STARTING = 180

# What a launch's file is called to the child, by the launch's kind.
FILES = {"graph": ("code", ".py"), "extension": ("nothing", ".none")}

Said = dict[str, object]
Child = Callable[[Sequence[str], float, Path], Finished]


# Torch's allocator aligns so on a device.
ALIGNED = 512


@dataclass(frozen=True, slots=True)
class TimeWish:
    """How to take times: by which stopwatch (``all``: each), with the L2 how, for how long.

    ``seconds`` is the most for one stopwatch, ``limit`` what a launch is given up after, ``calls``
    how many distinct calls of a variant are launched, ``python`` the interpreter asked for. After
    ``budget`` seconds in all, nothing further is begun.
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
        """What every child is told of it."""
        return {"stopwatches": list(self.stopwatches), "cache": self.cache,
                "seconds": self.seconds, "limit": self.limit}  # fmt: skip


class ChildEnd(NamedTuple):
    """How a child process ended: ``status`` is None if it took too long as a whole.

    ``problem`` says why it ended before it had done all, if it did. ``overdue``: it ended itself,
    for a step of it had taken longer than its limit. ``records`` are what it wrote.
    """

    status: int | None
    problem: str
    overdue: bool
    records: list[Said]


def run_child(
    python: str, module: str, job: Said, limit: float, folder: Path, seconds: float, child: Child
) -> ChildEnd:
    """Give a job to a module of ``probes/replay`` in a process of its own, and wait for its end.

    ``limit`` is what it ends itself after, if a step of it takes as long; ``seconds`` what all of
    it may take. Raises ``ToolMissing`` where the interpreter cannot be started.
    """
    told, results = folder / "job.json", folder / "results.jsonl"
    results.unlink(missing_ok=True)
    told.write_text(json.dumps(job), "utf-8")
    argv = [python, "-c", BOOT, str(PROBES), module, str(told), str(results)]
    try:
        done = child(argv, seconds, folder)
    except Unreadable as error:
        return ChildEnd(None, error.message, False, records(results))
    overdue = b"Timeout (" in done.err
    return ChildEnd(done.status, why_ended(done, limit), overdue, records(results))


def records(results: Path) -> list[Said]:
    """What a child has written so far; its last line may be cut short."""
    try:
        return [said for said in files.records(results) if isinstance(said, dict)]
    except Unreadable:
        return []


@dataclass
class GatheredTimes:
    """What child processes said: of the device, of the copy, and of each launch by its number.

    ``spent``: the budget was, before the last launch was begun; of those that were not there is no
    row.
    """

    device: Said = field(default_factory=dict)
    copies: list[Said] = field(default_factory=list)
    rows: dict[int, list[Said]] = field(default_factory=dict)
    spent: bool = False


def start(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
    """A child process, to its end."""
    return run_tool(argv, seconds=seconds, cwd=folder)


def watched(stop: threading.Event, tell: Callable[[int], None]) -> Child:
    """How a child process is started that ends with ``Stopped`` once ``stop`` is set; ``tell`` is
    told some times a second how many times it has taken."""

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
    """A child's results as they grow: what was read of them once is not read again."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._read, self._count = 0, 0

    def rows(self) -> int:
        """How many times stand there by now."""
        try:
            more = files.after(self._results, self._read)
        except Unreadable:
            return self._count
        whole = more[: more.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            with suppress(ValueError):
                said = files.parsed(line)
                self._count += isinstance(said, dict) and isinstance(said.get("n"), int)
        return self._count


def measure(
    python: str,
    launches: Sequence[tuple[Said, bytes]],
    wish: TimeWish,
    child: Child = start,
    alignment: int = ALIGNED,
) -> GatheredTimes:
    """Take the time of launches, each (what the child is told of it, its cubin or its code).

    ``alignment`` is what pointers were recorded up to, in bytes. Raises ``ToolMissing`` where there
    is no device or no torch, ``Unreadable`` where no child could begin.
    """
    gathered = GatheredTimes()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ptxview-") as name:
        folder = Path(name)
        jobs: list[Said] = []
        for n, (said, data) in enumerate(launches):
            what, ending = FILES.get(str(said.get("kind")), ("cubin", ".cubin"))
            path = folder / f"{n}{ending}"
            path.write_bytes(data)
            jobs.append({**said, "n": n, what: str(path)})
        while jobs and not gathered.spent:
            left = None
            if wish.budget is not None:
                left = max(wish.budget - (time.monotonic() - began), 0)
            job = {**wish.told(), "alignment": alignment, "budget": left,
                   "copy": not gathered.copies, "launches": jobs}  # fmt: skip
            seconds = STARTING + (len(jobs) + 1) * wish.limit
            end = run_child(python, "session", job, wish.limit, folder, seconds, child)
            jobs = _left(python, jobs, end, gathered)
    return gathered


def _left(python: str, jobs: list[Said], end: ChildEnd, gathered: GatheredTimes) -> list[Said]:
    """What a child process left for the next."""
    begun, ended = gather(end.records, gathered)
    if end.status == NO_DEVICE:
        raise ToolMissing("timing needs an NVIDIA GPU, and the interpreter's torch sees none")
    if end.status == NO_TORCH:
        raise ToolMissing(f"timing needs torch, which {python} cannot import", "See --python.")
    left = [t for t in jobs if t["n"] not in ended]
    if not left or gathered.spent:
        return left
    culprit = next((t for t in left if t["n"] in begun), None)
    if culprit is None:
        raise Unreadable(f"the process that runs calls again ended early: {end.problem}")
    number = culprit["n"]
    assert isinstance(number, int)
    rows = gathered.rows.setdefault(number, [])
    if not any("error" in r for r in rows):
        rows.append({"n": number, "stopwatch": None, "error": end.problem})
    return [t for t in left if t["n"] != number]


def why_ended(done: Finished, limit: float) -> str:
    """Why a child process ended before it had done all, in words."""
    if done.status == -signal.SIGKILL:
        return "the process was killed (SIGKILL), as for want of memory"
    if done.status < 0:
        return f"the process was ended by {_signal(-done.status)}"
    if b"Timeout (" in done.err:
        return f"it did not finish within {limit:.0f} s (--limit)"
    said = done.complaint.strip().splitlines()
    return said[-1] if said else f"the process ended with status {done.status}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def gather(written: Iterable[Said], gathered: GatheredTimes) -> tuple[set[object], set[object]]:
    """Take in what a child wrote; the numbers of launches that it began, and that it ended."""
    begun: set[object] = set()
    ended: set[object] = set()
    for said in written:
        device, copy = said.get("device"), said.get("copy")
        number = said.get("n")
        if "begin" in said:
            begun.add(said["begin"])
        elif "end" in said:
            ended.add(said["end"])
        elif said.get("spent") is True:
            gathered.spent = True
        elif isinstance(device, dict):
            gathered.device = device
        elif isinstance(copy, dict):
            gathered.copies.append(copy)
        elif isinstance(number, int):
            gathered.rows.setdefault(number, []).append(said)
    return begun, ended


def interpreter(
    asked: str | None,
    own: Iterable[str],
    versions: Callable[[str], Mapping[str, str | None]],
    recorded: Sequence[str] | None = None,
) -> str:
    """The interpreter to run calls under: the one asked for, else the first of this user's own
    that has torch.

    The command that was ``recorded`` is only named where there is none: a recording may come from
    anybody, and asking a program for its versions starts it. Raises ``ToolMissing``.
    """
    if asked is not None:
        return asked
    for python in dict.fromkeys(own):
        if _has(python, versions):
            return python
    by = f" It was recorded by: {shown(' '.join(recorded)[:200])}" if recorded else ""
    raise ToolMissing(
        "no interpreter with torch was found to run the calls under",
        f"Name one with --python.{by}",
    )


def _has(python: str, versions: Callable[[str], Mapping[str, str | None]]) -> bool:
    try:
        return bool(versions(python).get("torch"))
    except PtxviewError:
        return False
