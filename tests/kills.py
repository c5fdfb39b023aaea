"""``python -m tests.kills [TURNS] [--seed N]``: results of runs that are killed at any moment.

Each turn records a small program with ``-o x.ptxview`` and kills, by SIGKILL and at a random moment
of its recording and finishing, the program, ``ptxview run``, or both at once. What ``ptxview list
x.ptxview`` then reads must hold every event that the program had written before, with its files
whole; it must be called unfinished where it is, and nothing else may be beside it. Prints how
many turns came to what; exits with 1 if one was not so.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from inspector.base.errors import Exit, Unreadable
from inspector.recording.layout import unfinished
from inspector.sources.opening import open_path
from tests.helpers.ptxview import MATMUL, call, command, saved

EVENTS = 40
"""What the program writes: as many lines, each acknowledged, and a Triton kernel in the middle."""

PROGRAM = f"""
import os, random, time
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
WHOM = ("the program", "ptxview run", "both")
OWN = {"program.py", "told", "pid", "pid.part", "said", "x.ptxview"}


def started(folder: Path) -> subprocess.Popen[bytes]:
    """``ptxview run -o x.ptxview program.py`` in a new process group."""
    saved(folder / "program.py", PROGRAM)
    words = ["run", "--no-tui", "--target", "sm_90", "-o", "x.ptxview", "program.py"]
    with (folder / "said").open("wb") as said:
        return subprocess.Popen(
            command(words), cwd=folder, stdout=said, stderr=said, start_new_session=True
        )


def program_of(folder: Path) -> int | None:
    """The program's pid, once it has written it, while it runs."""
    try:
        pid = int((folder / "pid").read_text())
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None
    return None if state in "ZX" else pid


def turn(folder: Path, whom: str, at: float) -> str:
    """One run, killed ``at`` seconds after its start; what it came to, in words."""
    run = started(folder)
    time.sleep(at)
    program = program_of(folder)
    if whom == "the program" and program is not None:
        os.kill(program, signal.SIGKILL)
    elif whom == "ptxview run":
        run.kill()
    elif whom == "both":
        os.killpg(run.pid, signal.SIGKILL)
    status = run.wait()
    until = time.monotonic() + 60
    while program_of(folder) is not None:
        if time.monotonic() > until:
            return "fault: the program was not killed with ptxview run"
        time.sleep(0.002)
    try:
        return judged(folder, status)
    except AssertionError as error:
        return f"fault: {error}"


def judged(folder: Path, status: int) -> str:
    """What a turn came to, in words. Raises ``AssertionError`` for what must not be."""
    told, target = folder / "told", folder / "x.ptxview"
    written = [int(n) for n in told.read_text().split()] if told.exists() else []
    try:
        recording = open_path(target)
    except Unreadable as error:
        assert not written, f"{len(written)} events were written, and nothing is read: {error}"
        assert status == -signal.SIGKILL, status
        return "killed before anything was recorded"
    events: set[int] = set()
    for problem in (p for p in recording.problems if p.startswith("noted: ")):
        number, digest = problem.removeprefix("noted: ").split()
        blob = Path(recording.resolved_path) / "blobs" / digest
        assert not blob.parent.exists() or blob.stat().st_size == 20_000, "a file is not whole"
        events.add(int(number))
    assert not set(written) - events, f"{len(set(written) - events)} events are missing"
    # One that was not acknowledged yet may be there as well.
    assert len(events) <= len(written) + 1, f"{len(events)} of {len(written)} events"
    if len(written) > EVENTS // 2:
        ((_, variant),) = recording.variants()
        assert len(variant.stages) >= 4, list(variant.stages)
        assert all(file.content.read() for file in variant.stages.values())
    listed = call("list", target)
    assert listed.status == Exit.OK, listed.said
    at = target if target.exists() else unfinished(target)
    assert at is not None and at.name in listed.text, "its path is not said"
    assert ("unfinished" in listed.text.splitlines()[1]) is not recording.complete
    left = {p.name for p in folder.iterdir()} - OWN
    assert not [n for n in left if not n.endswith(".unfinished")], sorted(left)
    if target.exists():
        assert recording.complete, "the file is not complete"
        assert not left or status == -signal.SIGKILL, sorted(left)
        return "the file is there"
    assert status == -signal.SIGKILL, status
    return f"its folder is read, {'complete' if recording.complete else 'unfinished'}"


def run(turns: int, seed: int) -> int:
    """Take the turns and print what they came to; the exit status."""
    chance = random.Random(seed)
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        os.environ.update(XDG_STATE_HOME=f"{name}/state", XDG_CACHE_HOME=f"{name}/cache")
        longest = 0.0
        for n in range(2):  # the first fills caches
            began = time.monotonic()
            whole = started(Path(name) / f"whole{n}")
            assert judged(Path(name) / f"whole{n}", whole.wait()) == "the file is there"
            longest = time.monotonic() - began
        for n in range(turns):
            whom = chance.choice(WHOM)
            counts[turn(Path(name) / f"turn{n}", whom, chance.uniform(0, longest)), whom] += 1
    print(f"{turns:,} kills within {longest:.2f} s, seed {seed}")
    for (came_to, whom), count in sorted(counts.items()):
        print(f"{count:>7,}  {whom:>11}  {came_to}")
    return int(any(came_to.startswith("fault") for came_to, _ in counts))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("turns", nargs="?", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sys.exit(run(args.turns, args.seed))
