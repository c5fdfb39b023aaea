"""Children that end as they should not: each costs its own row."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from inspector.base.errors import Stopped, ToolMissing, Unreadable
from inspector.base.model import Content
from inspector.measure.time.take import NO_DEVICE, BenchmarkOptions, cancellable_child, measure
from inspector.recording.layout import BytesContent, FileContent
from inspector.sources import compilers
from inspector.sources.compilers import by_probes
from inspector.system.process import Finished, run_tool
from tests.helpers.ptxview import saved

WANTED = BenchmarkOptions("cupti", "cold", 1.0, 20.0)
JOBS: list[tuple[dict[str, object], bytes]] = [
    ({"symbol": name}, name.encode()) for name in ("a", "b", "c")
]


FINE = Finished(0, b"", b"")


def test_a_child_that_takes_too_long_as_a_whole_is_begun_again() -> None:
    seen: list[list[int]] = []

    def child(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
        numbers = [launch["n"] for launch in json.loads(Path(argv[-2]).read_text())["launches"]]
        seen.append(numbers)
        said = [{"begin": numbers[0]}, *([] if len(numbers) == 3 else [{"spent": True}])]
        Path(argv[-1]).write_text("".join(json.dumps(x) + "\n" for x in said) + '{"n": 0, "samp')
        if len(numbers) == 3:
            raise Unreadable("python did not finish within 1 s")
        return FINE

    found = measure("python", JOBS, WANTED, child)
    assert seen == [[0, 1, 2], [1, 2]]
    assert found.rows[0][0]["error"] == "python did not finish within 1 s"


def test_what_the_budget_leaves_out_has_no_row_and_begins_no_child() -> None:
    budgets: list[float] = []

    def child(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
        job = json.loads(Path(argv[-2]).read_text())
        budgets.append(job["budget"])
        row = {"n": 0, "stopwatch": "cupti", "cache": "cold", "samples": [2.0]}
        said = [{"device": {}}, {"copy": {}}, {"begin": 0}, row, {"end": 0}, {"spent": True}]
        Path(argv[-1]).write_text("".join(json.dumps(x) + "\n" for x in said))
        return FINE

    found = measure("python", JOBS, replace(WANTED, budget=50.0), child)
    assert found.spent and list(found.rows) == [0]
    assert len(budgets) == 1 and 0 < budgets[0] <= 50


def test_a_graphs_code_and_a_cubin_are_separate_files_and_a_library_has_none() -> None:
    seen: list[dict[str, Any]] = []

    def child(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
        job = json.loads(Path(argv[-2]).read_text())
        seen.extend(
            {k: Path(told[k]).read_bytes() for k in ("cubin", "code") if k in told}
            for told in job["launches"]
        )
        Path(argv[-1]).write_text('{"spent": true}\n')
        return FINE

    jobs: list[tuple[dict[str, object], bytes]] = [
        ({"symbol": "k"}, b"ELF"),
        ({"kind": "graph"}, b"def call"),
        ({"kind": "extension"}, b""),
    ]
    measure("python", jobs, WANTED, child)
    assert seen == [{"cubin": b"ELF"}, {"code": b"def call"}, {}]


def test_kept_tensors_are_files_of_the_child() -> None:
    """Compressed, as the recording has them; one that cannot be read has a name and no file."""
    seen: list[bytes | None] = []
    digests = ["a" * 64, "b" * 64]
    contents: dict[object, Content] = {
        digests[0]: BytesContent(b"compressed"),
        digests[1]: FileContent(Path("/nowhere")),
    }

    def child(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
        (launch,) = json.loads(Path(argv[-2]).read_text())["launches"]
        for argument in launch["arguments"]:
            file = Path(argument["content"] or "/none")
            seen.append(file.read_bytes() if file.exists() else argument["content"] and b"")
        Path(argv[-1]).write_text('{"spent": true}\n')
        return FINE

    arguments = [{"name": "x", "content": digest} for digest in (*digests, None)]
    measure("python", [({"arguments": arguments}, b"ELF")], WANTED, child, blob=contents.get)
    assert seen == [b"compressed", b"", None]


def test_no_device_is_a_lack_and_no_beginning_an_error() -> None:
    with pytest.raises(ToolMissing, match="needs an NVIDIA GPU"):
        measure("python", JOBS, WANTED, lambda *_: Finished(NO_DEVICE, b"", b""))
    with pytest.raises(Unreadable, match="ended early: No module named 'torch'"):
        measure("python", JOBS, WANTED, lambda *_: Finished(1, b"", b"No module named 'torch'"))


def test_the_real_child_says_that_there_is_no_device(
    tmp_path: Path, plain_python: Callable[..., str]
) -> None:
    python = plain_python("torch")
    job, results = tmp_path / "job.json", tmp_path / "results.jsonl"
    job.write_text(json.dumps({"launches": [], "limit": 60}))
    done = run_tool(by_probes(python, "replay.session", job, results))
    assert done.status == NO_DEVICE, done.complaint


def test_a_child_is_ended_when_it_is_stopped_even_where_another_holds_its_pipes(
    tmp_path: Path,
) -> None:
    code = (
        "import json, os, subprocess, sys, time\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'])\n"
        "open('pid', 'w').write(f'{os.getpid()} {other.pid}')\n"
        "with open(sys.argv[-1], 'w') as out: out.write(json.dumps({'n': 0}) + chr(10))\n"
        "time.sleep(600)"
    )
    stop, told = threading.Event(), []

    def tell(count: int) -> None:
        told.append(count)
        if count:
            stop.set()

    with pytest.raises(Stopped):
        argv = [sys.executable, "-c", code, str(tmp_path / "results.jsonl")]
        cancellable_child(stop, tell)(argv, 300, tmp_path)
    child, other = map(int, (tmp_path / "pid").read_text().split())
    os.kill(other, 9)
    assert told[-1] == 1
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """An interpreter that has no torch."""
    python = tmp_path / "python"
    saved(python, f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n', 0o755)
    return str(python)


def test_an_interpreter_without_torch_is_named(bare: str) -> None:
    with pytest.raises(ToolMissing, match=r"needs torch, which .* cannot import"):
        measure(bare, JOBS, WANTED)


REAL = """
import json, os, signal, sys, time, faulthandler
job, out = json.load(open(sys.argv[-2])), open(sys.argv[-1], "a")
say = lambda **x: print(json.dumps(x), file=out, flush=True)
say(device={"name": "none"}); say(copy={})
for told in job["launches"]:
    faulthandler.dump_traceback_later(job["limit"], exit=True)
    say(begin=told["n"])
    if told["symbol"] == "killed": os.kill(os.getpid(), signal.SIGKILL)
    if told["symbol"] == "hangs": time.sleep(600)
    if told["symbol"] == "crashes": os.abort()
    if told["symbol"] == "exits": print("its last words", file=sys.stderr); os._exit(3)
    say(n=told["n"], stopwatch="cupti", cache="cold", samples=[2.0]); say(end=told["n"])
"""


def test_real_processes_that_die_each_in_its_own_way_cost_their_own_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilers, "BOOT", REAL)
    names = ["fine", "killed", "hangs", "crashes", "exits", "well"]
    jobs: list[tuple[dict[str, object], bytes]] = [({"symbol": n}, b"") for n in names]
    found = measure(sys.executable, jobs, replace(WANTED, limit=3.0))
    said = {name: found.rows[n] for n, name in enumerate(names)}
    assert all(len(rows) == 1 for rows in said.values())
    assert said["fine"][0]["samples"] == said["well"][0]["samples"] == [2.0]
    assert said["killed"][0]["error"] == "the process was killed (SIGKILL), as for want of memory"
    assert said["hangs"][0]["error"] == "it did not finish within 3 s (--limit)"
    assert said["crashes"][0]["error"] == "the process was ended by SIGABRT"
    assert said["exits"][0]["error"] == "its last words"
