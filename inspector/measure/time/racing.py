"""Runs a script's variants in child processes, and gathers their results.

A variant that breaks the device's context, hangs or kills the process costs its own row, at the
size at which it did; another process goes on with the rest.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inspector.errors import ToolMissing, Unreadable, UsageError
from inspector.measure.time.child import (
    NO_DEVICE,
    NO_TORCH,
    STARTING,
    Child,
    ChildEnd,
    Said,
    TimeWish,
    run_child,
)
from inspector.system.process import Finished, run_tool

REFUSED, WRONG_SIZE = 46, 47
# As the probe has it: the first call may compile.
BUILDING = 300
BUILDING_PHASES = {
    "import": "importing it",
    "input": "making its input",
    "first call": "its first call, which compiles what has to be,",
}


@dataclass(frozen=True, slots=True)
class Task:
    """What is raced: a script's variants at each of the ``sizes``, and how.

    The wish's ``limit`` holds for one variant at one size by all stopwatches, without its first
    call.
    """

    script: Path
    sizes: Sequence[dict[str, int]]
    wish: TimeWish


@dataclass
class Heard:
    """The results of child processes for one variant at one size."""

    about: Said = field(default_factory=dict)
    checked: Said | None = None
    times: list[Said] = field(default_factory=list)
    error: str | None = None


@dataclass
class GatheredRace:
    """The results of child processes; ``variants`` and ``sizes`` are what the script declares.

    Rows are numbered consecutively, all variants of the first size first.
    """

    device: Said = field(default_factory=dict)
    variants: list[str] = field(default_factory=list)
    sizes: dict[str, int | None] = field(default_factory=dict)
    copies: list[Said] = field(default_factory=list)
    rows: dict[int, Heard] = field(default_factory=dict)
    begun: int | None = None
    phase: str = ""
    ended: set[int] = field(default_factory=set)
    lacking: str = ""


def start(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
    """Run a child process to its end in the current folder, as ``python script.py`` would run."""
    return run_tool(argv, seconds=seconds)


def measure(
    python: str, task: Task, say: Callable[[str], None] = lambda _: None, child: Child = start
) -> GatheredRace:
    """Run all variants at all sizes.

    Raises ``ToolMissing`` without a device or torch, ``Unreadable`` where the script declares
    nothing to race or no child could begin, ``UsageError`` where it has no such size.
    """
    gathered = GatheredRace()
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        while _once(python, task, Path(folder), gathered, say, child):
            pass
    return gathered


def _once(
    python: str, task: Task, folder: Path, gathered: GatheredRace, say: Callable[[str], None],
    child: Child,
) -> bool:  # fmt: skip
    """Run one child process; returns whether anything is left for another."""
    job = {**task.wish.told(), "script": str(task.script), "sizes": list(task.sizes),
           "copy": not gathered.copies, "done": sorted(gathered.ended)}  # fmt: skip
    limit = task.wish.limit
    # How many variants there are is not known yet; each has its own limit in the child.
    seconds = STARTING + 100 * len(task.sizes) * (BUILDING + limit)
    gathered.begun, gathered.phase, gathered.lacking = None, "", ""
    end = run_child(python, "script", job, limit, folder, seconds, child)
    hear(end.records, gathered)
    _refuse(end.status, gathered, task)
    problem = _why(end, gathered.phase)
    rows = len(gathered.variants) * len(task.sizes)
    if not gathered.variants or (gathered.begun is None and len(gathered.ended) < rows):
        raise Unreadable(f"the process that runs {task.script.name} ended early: {problem}")
    left = rows - len(gathered.ended)
    if not left:
        return False
    fallen = _fallen(gathered)
    if not fallen:
        raise Unreadable(f"the process that runs {task.script.name} ended early: {problem}")
    for n in fallen:
        row = gathered.rows.setdefault(n, Heard())
        row.error = row.error or problem
        gathered.ended.add(n)
    if left > len(fallen):
        say(f"{_name(gathered, fallen[0])}: {gathered.rows[fallen[0]].error}; going on without it")
    return left > len(fallen)


def _fallen(gathered: GatheredRace) -> list[int]:
    """The rows in which the process ended: one, or all of a size whose input could not be made."""
    n = gathered.begun
    if n is None or n in gathered.ended:
        return []
    count = len(gathered.variants)
    of_size = range(n - n % count, n - n % count + count) if gathered.phase == "input" else [n]
    return [m for m in of_size if m not in gathered.ended]


def _name(gathered: GatheredRace, n: int) -> str:
    return gathered.variants[n % len(gathered.variants)]


def _refuse(status: int | None, gathered: GatheredRace, task: Task) -> None:
    if gathered.variants:
        return  # from then on a status may be a variant's own
    if status == NO_DEVICE:
        raise ToolMissing("timing needs an NVIDIA GPU, and the interpreter's torch sees none")
    if status == NO_TORCH:
        raise ToolMissing(
            f"the interpreter has no torch to run it with ({gathered.lacking})",
            "Name one that has with --python.",
        )
    if status == WRONG_SIZE:
        raise UsageError(f"{task.script}: {gathered.lacking}")
    if status == REFUSED:
        raise Unreadable(f"{task.script}: {gathered.lacking}")


def _why(end: ChildEnd, phase: str) -> str:
    what = BUILDING_PHASES.get(phase)
    if what is not None and end.overdue:
        return f"{what} did not finish within {BUILDING} s"
    return end.problem


def hear(written: Iterable[Said], gathered: GatheredRace) -> None:
    """Take in a child's records."""
    for record in written:
        _take(record, gathered)


def _take(record: dict[str, Any], gathered: GatheredRace) -> None:
    n = record.get("n")
    for key in ("refused", "no_torch"):
        if key in record:
            gathered.lacking = str(record[key])
    if "phase" in record:
        gathered.phase = str(record["phase"])
    if isinstance(record.get("begin"), int):
        gathered.begun = record["begin"]
    elif isinstance(record.get("end"), int):
        gathered.ended.add(record["end"])
    elif isinstance(record.get("device"), dict):
        gathered.device = record["device"]
    elif isinstance(record.get("declared"), dict):
        gathered.variants = [str(v) for v in record["declared"].get("variants", [])]
        gathered.sizes = dict(record["declared"].get("sizes", {}))
    elif isinstance(record.get("copy"), dict):
        gathered.copies.append(record["copy"])
    elif isinstance(n, int):
        row = gathered.rows.setdefault(n, Heard())
        if isinstance(record.get("about"), dict):
            row.about = record["about"]
        elif isinstance(record.get("checked"), dict):
            row.checked = record["checked"]
        elif record.get("stopwatch") is None:
            row.error = str(record.get("error"))
        else:
            row.times.append(record)
