"""What other programs are run with."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from inspector.base.errors import Stopped
from inspector.system.process import cores, run_tool, side_by_side


def test_an_error_ends_the_tools_that_run_beside_it_and_no_others() -> None:
    """Also the one that stands first and would take a minute."""
    ended: list[str] = []
    other: list[int] = []

    def elsewhere() -> None:
        other.append(run_tool(["sleep", "0.5"]).status)

    def run(item: str) -> None:
        try:
            run_tool(["sleep", item])
        except Stopped:
            ended.append(item)
            raise

    beside = threading.Thread(target=elsewhere)
    beside.start()
    results = side_by_side(run, ["0", *["60"] * 20])
    next(results)
    results.close()  # nobody asks for the rest
    beside.join()
    assert ended and len(ended) <= cores()
    assert other == [0]


# The signal reaches a thread that is not the one that waits, as it also does when it comes just
# before Python begins to wait for a lock: the interpreter knows of it, and nothing wakes it.
UNNOTICED = """
import signal, threading, time
from inspector.system.process import run_tool, side_by_side
def sends():
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
threading.Thread(target=sends).start()
try:
    list(side_by_side(run_tool, [["sleep", "100"], ["sleep", "100"]]))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_who_waits_for_tools_sees_a_signal_that_nothing_wakes_him_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNNOTICED], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "interrupted\n", done.stderr


PRELOAD = """
import os, signal, sys, threading
from inspector.system import process
process.PRELOAD_SECONDS = float(sys.argv[1])
def preload():
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    alone = threading.current_thread() is not threading.main_thread()
    print("preload", alone and process.forwarded() <= blocked, file=sys.stderr)
    raise OSError("nobody reads this")
program = [sys.executable, "-c", "import time; time.sleep(1.5); raise SystemExit(7)"]
print("status", process.run_program(program, os.environ, preload=preload), file=sys.stderr)
"""


@pytest.mark.parametrize(("seconds", "said"), [("0", "preload True\n"), ("60", "")])
def test_what_is_done_while_a_program_runs_sees_no_signal_and_says_nothing(
    seconds: str, said: str
) -> None:
    """A signal that came to such a thread would not be handed on to the program."""
    words = [sys.executable, "-c", PRELOAD, seconds]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == f"{said}status 7\n"


RACE = """
import os, threading, time
from inspector.system.process import run_program
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
wait = os.waitpid
def late(*args):
    seen = wait(*args)
    if seen[0] == 0:
        time.sleep(0.3)
    return seen
os.waitpid = late
print(run_program(["sh", "-c", "sleep 0.1; exit 3"], os.environ, is_job=False))
"""


def test_the_end_of_a_program_is_seen_though_another_thread_took_its_signal() -> None:
    """The program ends between the look at it and the wait for its signal."""
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, timeout=50)
    assert done.stdout == "3\n", done.stderr


@pytest.mark.parametrize("end", ["wait", "kill -9 $$"], ids=["stopped", "killed"])
def test_what_a_tool_started_ends_with_it(tmp_path: Path, end: str) -> None:
    started = tmp_path / "started"
    script = f"sleep 60 >/dev/null 2>&1 & echo $! > {started}; {end}"
    with suppress(Stopped):
        run_tool(["sh", "-c", script], go_on=lambda: not started.exists(), with_children=True)
    process = Path("/proc") / started.read_text().strip() / "stat"
    until = time.monotonic() + 10
    while process.exists() and process.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until, "the process that it started goes on"
        time.sleep(0.01)
