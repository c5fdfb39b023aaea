"""``python -m tests.kills [TURNS] [--seed N]``: results of runs that are killed at any moment.

Each turn records a small program with ``-o x.ptxview`` and kills, by SIGKILL and at a random moment
of its recording and finishing, the program, ``ptxview run``, or both at once; a turn in which that
had ended before is taken again. What ``ptxview list
x.ptxview`` then reads must hold every event that the program had written before, with its files
whole; it must be called unfinished where it is, and nothing else may be beside it. Prints how
many turns came to what; exits with 1 if one was not so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from inspector.base.errors import Exit, Unreadable
from inspector.base.model import Recording
from inspector.commands.cli import COMMANDS, main
from inspector.recording.layout import is_recording, unfinished
from inspector.sources.opening import open_path
from tests.helpers.ptxview import MATMUL, call

EVENTS = 40
"""What the program writes: as many lines, each acknowledged, and a Triton kernel in the middle."""

PROGRAM = f"""
import hashlib, os, random, sys, time
import ptxview_probes.writer as writer
told = os.open("told", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
with open("pid.part", "w") as file:
    file.write(str(os.getpid()))
os.rename("pid.part", "pid")
folder = {str(MATMUL)!r}
source = random.Random(1)
for n in range({EVENTS}):
    digest = writer.blob(source.randbytes(20_000))
    writer.emit({{"event": "problem", "where": "noted", "text": f"{{n}} {{digest}}"}})
    if n == {EVENTS // 2}:
        kinds = ("ttir", "ttgir", "ptx", "cubin")
        files = {{name.rpartition(".")[2]: writer.file_blob(f"{{folder}}/{{name}}")
                 for name in os.listdir(folder) if name.endswith(kinds)}}
        writer.emit({{"event": "triton", "name": "matmul_kernel", "hash": "a" * 64,
                     "metadata": {{"name": "matmul_kernel"}}, "files": files}})
    os.write(told, b"%d\\n" % n)
    time.sleep(0.002)
"""
LATE = "had ended before"
WHOM = ("the program", "ptxview run", "both")


@dataclass(frozen=True)
class Turn:
    """What was killed, when after the start, and the result; ``fault`` is the broken promise."""

    whom: str
    at: float
    came_to: str
    fault: str | None = None


def started(folder: Path) -> int:
    """``ptxview run -o x.ptxview program.py`` in a new process group; its pid."""
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        return pid
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        said = os.open("said", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        own = ["run", "--no-tui", "--target", "sm_90", "--python", sys.executable]
        os._exit(main([*own, "-o", "x.ptxview", "program.py"]))
    finally:
        os._exit(99)


def program_of(folder: Path) -> int | None:
    """The program's pid, once it has written it."""
    try:
        return int((folder / "pid").read_text())
    except OSError:
        return None


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def waits(ended: object, seconds: float = 60.0) -> bool:
    """Whether a condition came true in time."""
    until = time.monotonic() + seconds
    while callable(ended) and not ended():
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True


def turn(folder: Path, whom: str, at: float) -> Turn:
    """One run, killed ``at`` seconds after its start."""
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    run = started(folder)
    time.sleep(at)
    program = program_of(folder)
    if whom == "the program" and program is not None and not gone(program):
        os.kill(program, signal.SIGKILL)
    elif whom == "ptxview run":
        os.kill(run, signal.SIGKILL)
    elif whom == "both":
        os.killpg(run, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(run, 0)[1])
    program = program_of(folder)
    if program is not None and not waits(lambda: gone(program)):
        return Turn(whom, at, "the program goes on", "it was not killed with ptxview run")
    try:
        return Turn(whom, at, judged(folder, status))
    except AssertionError as error:
        return Turn(whom, at, "fault", str(error))


def judged(folder: Path, status: int) -> str:
    """What a turn came to, in words. Raises ``AssertionError`` for what must not be."""
    told = folder / "told"
    written = [int(n) for n in told.read_text().split()] if told.exists() else []
    target = folder / "x.ptxview"
    beside = unfinished(target)
    try:
        recording = open_path(target)
    except Unreadable as error:
        assert not written, f"{len(written)} events were written, and nothing is read: {error}"
        assert status == -signal.SIGKILL, status
        return "killed before anything was recorded"
    events = list(noted(recording))
    missing = [n for n in written if n not in {number for number, _ in events}]
    assert not missing, f"{len(missing)} of {len(written)} events are missing"
    # One that was not acknowledged yet may be there as well.
    assert len(events) <= len(written) + 1, f"{len(events)} of {len(written)} events"
    if len(written) > EVENTS // 2:
        ((_, variant),) = recording.variants()
        assert len(variant.stages) >= 4, list(variant.stages)
        assert all(file.content.read() for file in variant.stages.values())
    listed = call("list", target)
    assert listed.status == Exit.OK, listed.said
    at = target if target.exists() else beside
    assert at is not None and at.name in listed.text, "its path is not said"
    assert ("unfinished" in listed.text.splitlines()[1]) is not recording.complete
    left = {p.name for p in folder.iterdir()}
    left -= {"program.py", "told", "pid", "pid.part", "said", target.name}
    rest = [name for name in left if is_recording(folder / name)]
    assert not [n for n in left if not n.endswith(".unfinished")], sorted(left)
    if target.exists():
        assert recording.complete, "the file is not complete"
        if status == -signal.SIGKILL:
            return "the file is there" + (", and its folder" if rest or left else "")
        assert not left, sorted(left)
        if recording.exit_status:
            return "the program was killed: the file is there, with its status"
        return LATE
    assert status == -signal.SIGKILL, status
    if recording.complete:
        return "killed while its file was made: its folder is read, complete"
    if recording.exit_status is not None:
        return "killed while it was finished: its folder is read, unfinished"
    return "killed while the program ran: its folder is read, unfinished"


def noted(recording: Recording) -> Iterator[tuple[int, str]]:
    """The number of each event of the program, and the digest of what it kept with it."""
    for problem in recording.problems:
        if problem.startswith("noted: "):
            number, digest = problem.removeprefix("noted: ").split()
            blob = Path(recording.real) / "blobs" / digest
            assert not blob.parent.exists() or blob.stat().st_size == 20_000, "a file is not whole"
            yield int(number), digest


def lasts(folder: Path) -> float:
    """How long a turn takes that nobody ends, in seconds: the longest of three."""
    longest = 0.0
    for n in range(3):
        began = time.monotonic()
        here = folder / f"whole{n}"
        here.mkdir()
        (here / "program.py").write_text(PROGRAM)
        status = os.waitpid(started(here), 0)[1]
        longest = max(longest, time.monotonic() - began) if n else 0.0  # the first fills caches
        assert judged(here, os.waitstatus_to_exitcode(status)) == LATE
        shutil.rmtree(here)
    return longest


def run(turns: int, seed: int) -> int:
    """Take the turns and print what they came to; the exit status."""
    for command in COMMANDS:
        import_module(command.module)
    chance = random.Random(seed)
    kept = {name: os.environ.get(name) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME")}
    counts: Counter[tuple[str, str]] = Counter()
    faults: list[Turn] = []
    late = 0
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        os.environ.update(XDG_STATE_HOME=f"{folder}/state", XDG_CACHE_HOME=f"{folder}/cache")
        try:
            longest = lasts(folder)
            while sum(counts.values()) < turns:
                here = folder / "turn"
                one = turn(here, chance.choice(WHOM), chance.uniform(0, longest))
                if one.came_to == LATE:
                    late += 1
                    shutil.rmtree(here)
                    continue
                counts[one.came_to, one.whom] += 1
                if one.fault is not None:
                    faults.append(one)
                    shutil.copytree(here, f"/tmp/kills-fault-{os.getpid()}-{len(faults)}")
                shutil.rmtree(here)
        finally:
            for variable, value in kept.items():
                os.environ.pop(variable)
                os.environ.update({} if value is None else {variable: value})
    width = max((len(came_to) for came_to, _ in counts), default=0)
    print(f"{turns:,} kills within {longest:.2f} s, seed {seed}; {late:,} more came too late")
    print(f"{'':{width}}" + "".join(f"  {whom:>11}" for whom in WHOM))
    for came_to in sorted({came_to for came_to, _ in counts}):
        print(f"{came_to:{width}}" + "".join(f"  {counts[came_to, w]:>11,}" for w in WHOM))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"{sum(u.ru_utime + u.ru_stime for u in used):.0f} CPU seconds")
    for one in faults:
        print(f"fault: {one.whom} killed at {one.at:.3f} s: {json.dumps(one.fault)}")
    return 1 if faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("turns", nargs="?", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sys.exit(run(args.turns, args.seed))
