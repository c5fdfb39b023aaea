"""``python -m tests.benchmarks.bench_first_frame [RUNS]``: the first frame beside an empty one.

Each run starts one process after the other, on a terminal of its own: Textual with nothing in it,
and ``ptxview open`` of a recording with 400 kernels. The time is from the start of the process to
the end of its first frame (Textual's ``Ready``), the median of the runs; the ratio is of the two.
The first frame of ours has the title and what is being read; the kernels come with a later one.
Prints figures; nothing here is a timed test.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.ratio import Ratio

KERNELS = 400
ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "examples" / "recordings" / "lecture-h200.ptxview"

READY = """
import os, sys, time
def ready(self):
    with open(sys.argv[1], "w") as file:
        file.write(repr(time.monotonic()))
    self.exit()
"""
EMPTY = (
    READY
    + """
from textual.app import App
App.on_ready = ready
App().run()
"""
)
OURS = (
    READY
    + """
path, sys.argv[2:] = sys.argv[2], []
from inspector.cli import main
import textual.app
textual.app.App.on_ready = ready
sys.exit(main(["open", path]))
"""
)
WHOLE = (
    READY
    + """
path, sys.argv[2:] = sys.argv[2], []
from inspector.cli import main
from inspector.tui.app import app
shown = app.PtxviewApp.on_ptxview_app_opened
async def opened(self, message):
    await shown(self, message)
    self.call_after_refresh(ready, self)
app.PtxviewApp.on_ptxview_app_opened = opened
sys.exit(main(["open", path]))
"""
)
IMPORTED = (
    READY
    + """
import inspector.reader.reader, inspector.tui.app.app
from textual.app import App
App.on_ready = ready
App().run()
"""
)


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


def once(code: str, words: list[str], home: Path) -> float:
    """Seconds from the start of a process to the end of its first frame."""
    master, slave = os.openpty()
    subprocess.run(["stty", "cols", "120", "rows", "40"], stdin=slave, check=True)
    told = home / "ready"
    told.unlink(missing_ok=True)
    env = {**os.environ, "TERM": "xterm-256color", "XDG_STATE_HOME": str(home / "state"),
           "XDG_CONFIG_HOME": str(home / "config")}  # fmt: skip
    for name in ("COLUMNS", "LINES"):
        env.pop(name, None)

    def drain() -> None:
        try:
            while os.read(master, 1 << 16):
                pass
        except OSError:
            pass

    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(told), *words],
        stdin=slave, stdout=slave, stderr=slave, env=env, cwd=ROOT,
    )  # fmt: skip
    os.close(slave)
    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    process.wait(60)
    os.close(master)
    return float(told.read_text()) - began


def main() -> None:
    """Alternate, so that what else the machine does meets all alike."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        path = many(home / "many")
        cases = {
            "an empty Textual application": (EMPTY, []),
            f"ptxview open, {KERNELS} kernels": (OURS, [str(path)]),
            "the same, until they stand there": (WHOLE, [str(path)]),
            "an empty one that imports all of ours": (IMPORTED, []),
        }
        for code, words in cases.values():
            once(code, words, home)  # bytecode and files are in the cache afterwards
        taken: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(runs):
            for name, (code, words) in cases.items():
                taken[name].append(once(code, words, home))
    medians = {name: statistics.median(found) for name, found in taken.items()}
    empty = next(iter(medians.values()))
    for name, median in medians.items():
        least = min(taken[name])
        print(f"{name:38} {median * 1e3:6.0f} ms (least {least * 1e3:.0f})  {median / empty:.2f}×")


def ratios() -> Iterator[Ratio]:
    """The interface on 400 kernels beside an empty Textual application, three times each."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        path = str(many(home / "many"))
        cases: dict[str, tuple[str, list[str]]] = {
            "empty": (EMPTY, []), "first frame": (OURS, [path]), "kernels": (WHOLE, [path]),
        }  # fmt: skip
        taken: dict[str, list[float]] = {name: [] for name in cases}
        for turn in range(4):
            for name, (code, words) in cases.items():
                spent = once(code, words, home)
                if turn:  # the first fills caches
                    taken[name].append(spent)
    medians = {name: statistics.median(spans) for name, spans in taken.items()}
    for name, what in (
        ("first frame", "the first frame"),
        ("kernels", "400 kernels on the screen"),
    ):
        yield Ratio(what, medians[name] / medians["empty"], "an empty application's first frame")


if __name__ == "__main__":
    main()
