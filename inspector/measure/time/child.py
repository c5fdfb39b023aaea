"""Runs launches again in a child process under the user's interpreter, and gathers what it says.

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
from dataclasses import dataclass, field, replace
from pathlib import Path

from inspector import files
from inspector.errors import PtxviewError, ToolMissing, Unreadable
from inspector.system.process import Finished, run_tool
from inspector.text import shown

PROBES = Path(__file__).resolve().parents[2] / "probes"
# The probes as a package of their own name, as a recorded program has them; the folder that one
# stands in is no part of the interpreter.
BOOT = """
import sys, importlib.util as u
sys.path[:] = [p for p in sys.path if p]
folder = sys.argv[1]
spec = u.spec_from_file_location("ptxview_probes", folder + "/__init__.py",
                                 submodule_search_locations=[folder])
sys.modules["ptxview_probes"] = u.module_from_spec(spec)
from ptxview_probes.replay.session import main
raise SystemExit(main(sys.argv[2], sys.argv[3]))
"""
NO_DEVICE, NO_TORCH = 4, 45
# To import torch and to wake the device, which takes tens of seconds on a cold disk.
STARTING = 180

# What a launch's file is called to the child, by the launch's kind.
FILES = {"graph": ("code", ".py"), "extension": ("nothing", ".none")}

Said = dict[str, object]
Child = Callable[[Sequence[str], float, Path], Finished]


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


@dataclass(frozen=True, slots=True)
class Wanted:
    """How to take the time. ``limit`` is of one launch by all stopwatches, in seconds.

    Once ``budget`` seconds have passed, no further launch is begun; None: all are.
    """

    stopwatches: tuple[str, ...]
    cache: str
    seconds: float
    limit: float
    alignment: int
    budget: float | None = None


def start(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
    """A child process, to its end."""
    return run_tool(argv, seconds=seconds, cwd=folder)


def watched(stop: threading.Event, tell: Callable[[int], None]) -> Child:
    """How a child process is started that ends with ``Stopped`` once ``stop`` is set; ``tell`` is
    told some times a second how many times it has taken."""

    def child(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
        def go_on() -> bool:
            known = GatheredTimes()
            gather(Path(argv[-1]), known)
            tell(sum(map(len, known.rows.values())))
            return not stop.is_set()

        return run_tool(argv, seconds=seconds, cwd=folder, go_on=go_on)

    return child


def measure(
    python: str, launches: Sequence[tuple[Said, bytes]], wanted: Wanted, child: Child = start
) -> GatheredTimes:
    """Take the time of launches, each (what the child is told of it, its cubin or its code).

    Raises ``ToolMissing`` where there is no device or no torch, ``Unreadable`` where no child could
    begin.
    """
    gathered = GatheredTimes()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ptxview-") as held:
        folder = Path(held)
        told: list[Said] = []
        for n, (said, data) in enumerate(launches):
            what, ending = FILES.get(str(said.get("kind")), ("cubin", ".cubin"))
            path = folder / f"{n}{ending}"
            path.write_bytes(data)
            told.append({**said, "n": n, what: str(path)})
        while told and not gathered.spent:
            left = None
            if wanted.budget is not None:
                left = max(wanted.budget - (time.monotonic() - began), 0)
            told = _once(python, told, replace(wanted, budget=left), folder, gathered, child)
    return gathered


def _once(
    python: str,
    told: list[Said],
    wanted: Wanted,
    folder: Path,
    gathered: GatheredTimes,
    child: Child,
) -> list[Said]:
    """One child process; what it left for the next."""
    job, results = folder / "job.json", folder / "results.jsonl"
    results.unlink(missing_ok=True)
    job.write_text(
        json.dumps(
            {"stopwatches": list(wanted.stopwatches), "cache": wanted.cache,
             "seconds": wanted.seconds, "limit": wanted.limit, "alignment": wanted.alignment,
             "budget": wanted.budget, "copy": not gathered.copies, "launches": told}
        ),
        "utf-8",
    )  # fmt: skip
    argv = [python, "-c", BOOT, str(PROBES), str(job), str(results)]
    problem = ""
    status: int | None = None
    try:
        done = child(argv, STARTING + (len(told) + 1) * wanted.limit, folder)
        status, problem = done.status, why_ended(done, wanted.limit)
    except Unreadable as error:  # it took too long as a whole
        problem = error.message
    begun, ended = gather(results, gathered)
    if status == NO_DEVICE:
        raise ToolMissing("timing needs an NVIDIA GPU, and the interpreter's torch sees none")
    if status == NO_TORCH:
        raise ToolMissing(f"timing needs torch, which {python} cannot import", "See --python.")
    left = [t for t in told if t["n"] not in ended]
    if not left or gathered.spent:
        return left
    culprit = next((t for t in left if t["n"] in begun), None)
    if culprit is None:
        raise Unreadable(f"the process that runs calls again ended early: {problem}")
    number = culprit["n"]
    assert isinstance(number, int)
    rows = gathered.rows.setdefault(number, [])
    if not any("error" in r for r in rows):
        rows.append({"n": number, "stopwatch": None, "error": problem})
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


def gather(results: Path, gathered: GatheredTimes) -> tuple[set[object], set[object]]:
    """Read a child's results; the numbers of launches that it began, and that it ended."""
    begun: set[object] = set()
    ended: set[object] = set()
    try:
        records = [*files.records(results)]
    except Unreadable:
        return begun, ended
    for said in records:
        if not isinstance(said, dict):
            continue
        number = said.get("n")
        if "begin" in said:
            begun.add(said["begin"])
        elif "end" in said:
            ended.add(said["end"])
        elif said.get("spent") is True:
            gathered.spent = True
        elif isinstance(said.get("device"), dict):
            gathered.device = said["device"]
        elif isinstance(said.get("copy"), dict):
            gathered.copies.append(said["copy"])
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
