"""``python -m tests.benchmarks.bench_first_frame [RUNS]``: the first frame beside an empty one.

Each run starts one process after the other, on a terminal of its own: Textual with nothing in it,
and ``ptxview open`` of a recording with 400 kernels. The time is from the start of the process
until the terminal has got the last line of a frame, and of ours a kernel's name before it; the
median of the runs, and the ratio of the two. A recording that was never opened before has its
kernels in a later frame than its first. Prints figures; nothing here is a timed test.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.ratio import Ratio

KERNELS = 400
ROWS = 40
PATIENCE = 60.0
ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "examples" / "recordings" / "lecture-h200.ptxview"

EMPTY = "from textual.app import App; App().run()"
OURS = "import sys; from inspector.cli import main; sys.exit(main())"
LAST = f"\x1b[{ROWS};1H".encode()
"""What stands before the last line of a frame."""
NAME = b"square_kernel_0"
"""A kernel that is in view."""
ALL = b"source"
"""The first pane's stage: the interface stands as it will."""


def many(folder: Path) -> Path:
    """A recording of 400 kernels: the example's of Triton, again and again by other names."""
    (folder / "blobs").mkdir(parents=True)
    first: list[str] = []
    compiled: list[dict[str, object]] = []
    with zipfile.ZipFile(SAMPLE) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            if name.startswith("blobs/"):
                (folder / name).write_bytes(data)
                continue
            for line in data.decode().splitlines():
                event = json.loads(line)
                if event["event"] == "triton":
                    compiled.append(event)
                elif event["event"] in ("recording", "device", "end"):
                    first.append(line)
    for n in range(KERNELS):
        event = dict(compiled[n % len(compiled)])
        event["hash"] = hashlib.sha256(f"{event['hash']} {n}".encode()).hexdigest()
        event["name"] = f"{event['name']}_{n}"
        first.append(json.dumps(event))
    (folder / "events.jsonl").write_text("\n".join(first) + "\n")
    return folder


class Terminal:
    """A process on a terminal of its own, and what it has written there."""

    def __init__(self, code: str, words: list[str], home: Path) -> None:
        self._master, slave = os.openpty()
        size = ["stty", "cols", "120", "rows", str(ROWS)]
        subprocess.run(size, stdin=slave, check=True)
        env = {**os.environ, "TERM": "xterm-256color", "PYTHONPYCACHEPREFIX": str(home / "pyc")}
        for name in ("state", "config", "cache"):
            env[f"XDG_{name.upper()}_HOME"] = str(home / name)
        # What is imported is compiled once and kept, as it is where somebody has installed it.
        for name in ("COLUMNS", "LINES", "PYTHONDONTWRITEBYTECODE"):
            env.pop(name, None)
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *words],
            stdin=slave, stdout=slave, stderr=slave, env=env, cwd=ROOT,
        )  # fmt: skip
        os.close(slave)
        self._written = b""

    def until(self, *marks: bytes) -> float:
        """Seconds until one after the other was written."""
        at = 0
        for mark in marks:
            while (next_at := self._written.find(mark, at)) < 0:
                if time.monotonic() - self.began > PATIENCE:
                    raise TimeoutError(repr(mark))
                self._written += os.read(self._master, 1 << 16)
            at = next_at
        return time.monotonic() - self.began

    def leave(self) -> None:
        """Leave the interface as one does, once it has answered all."""
        os.write(self._master, b"q")
        try:
            while os.read(self._master, 1 << 16):
                pass
        except OSError:
            pass
        self.process.wait(PATIENCE)
        os.close(self._master)

    def kill(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self._master)


def once(code: str, words: list[str], home: Path, *marks: bytes) -> float:
    """Seconds from the start of a process until marks were written."""
    terminal = Terminal(code, words, home)
    try:
        return terminal.until(*marks)
    finally:
        terminal.kill()


def opened(path: Path, home: Path) -> None:
    """Have a recording opened and left."""
    terminal = Terminal(OURS, ["open", str(path)], home)
    terminal.until(NAME, ALL)
    terminal.leave()


def spans(home: Path, runs: int) -> dict[str, list[float]]:
    """Seconds of each case, so many times; alternating, so that what else the machine does meets
    all alike."""
    path = many(home / "many")
    words = ["open", str(path)]
    taken: dict[str, list[float]] = {
        "empty": [], "kernels": [], "never opened": [], "all": [],
    }  # fmt: skip
    for turn in range(runs + 1):
        opened(path, home)
        spent = {
            "empty": once(EMPTY, [], home, LAST),
            "kernels": once(OURS, words, home, NAME, LAST),
            "all": once(OURS, words, home, NAME, ALL),
        }
        shutil.rmtree(home / "cache")
        spent["never opened"] = once(OURS, words, home, NAME, LAST)
        if turn:  # in the first, what is imported is compiled
            for name, span in spent.items():
                taken[name].append(span)
    return taken


def main() -> None:
    """Tell of each case."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with tempfile.TemporaryDirectory() as temporary:
        taken = spans(Path(temporary), runs)
    empty = statistics.median(taken["empty"])
    for name, what in (
        ("empty", "an empty Textual application"),
        ("kernels", f"{KERNELS} kernels, opened before"),
        ("never opened", "the same, never opened before"),
        ("all", "until all stands there"),
    ):
        median, least = statistics.median(taken[name]), min(taken[name])
        print(f"{what:32} {median * 1e3:6.0f} ms (least {least * 1e3:.0f})  {median / empty:.2f}×")


def ratios() -> Iterator[Ratio]:
    """The interface on 400 kernels beside an empty Textual application."""
    with tempfile.TemporaryDirectory() as temporary:
        taken = spans(Path(temporary), 5)
    medians = {name: statistics.median(each) for name, each in taken.items()}
    for name, what in (
        ("kernels", "400 kernels on the screen, opened before"),
        ("never opened", "400 kernels on the screen, never opened before"),
        ("all", "panes on the screen"),
    ):
        yield Ratio(what, medians[name] / medians["empty"], "an empty application's first frame")


if __name__ == "__main__":
    main()
