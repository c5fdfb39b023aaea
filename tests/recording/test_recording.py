"""The recording: what is written is read again, and what is damaged is said and survived."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from inspector.recording.layout import Writer, is_recording, pack, read_events
from inspector.sources.opening import open_path
from tests.helpers.ptxview import SQUARE, Done, call, saved, write_events

STARTED: dict[str, object] = {
    "event": "recording",
    "schema": 1,
    "time": 1.0,
    "command": ["python", "x.py"],
    "started": "2026-01-01T00:00:00+00:00",
    "mode": "gpu",
    "target": None,
}


def add_square(writer: Writer, **more: object) -> None:
    """The event of a Triton compile, its blobs before it."""
    metadata = json.loads((SQUARE / "square_kernel.json").read_bytes())
    files = {
        p.suffix[1:]: writer.blob(p.read_bytes())
        for p in SQUARE.iterdir()
        if p.suffix in (".ttir", ".ttgir", ".llir", ".ptx", ".cubin")
    }
    paths = {e: f"/nowhere/square_kernel.{e}" for e in files}
    event = {"event": "triton", "time": 2.0, "pid": 7, "name": "square_kernel", "paths": paths}
    told = {"hash": metadata["hash"], "metadata": metadata, "files": files}
    writer.event(**{**event, **told, **more})


def record(folder: Path, ended: bool = True) -> Path:
    """A complete recording of one kernel."""
    writer = Writer(folder)
    writer.event(**STARTED)
    add_square(writer)
    if ended:
        writer.event(event="end", time=3.0, exit_status=3)
    writer.close()
    return folder


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return record(tmp_path / "recorded")


@pytest.fixture
def packed(recorded: Path, tmp_path: Path) -> Path:
    target = tmp_path / "recorded.ptxview"
    pack(recorded, target)
    return target


def summary(done: Done) -> object:
    """``list --json`` without where it was read from."""
    value = done.json
    value["recording"].pop("path")
    return value


def test_recording_returns_what_was_written(recorded: Path) -> None:
    value = call("list", recorded, "--json").json
    assert value["recording"]["command"] == ["python", "x.py"]
    assert value["recording"]["started"] == "2026-01-01T00:00:00+00:00"
    assert value["recording"]["exit_status"] == 3
    assert value["recording"]["complete"] is True
    assert value["recording"]["mode"] == "gpu"
    (kernel,) = value["kernels"]
    assert (kernel["name"], kernel["origin"]) == ("square_kernel", "triton")
    for stage in ("ttir", "ttgir", "llir", "ptx"):
        expected = (SQUARE / f"square_kernel.{stage}").read_bytes()
        assert call("show", recorded, "square_kernel", "--stage", stage).out == expected


def test_single_file_says_the_same_as_the_folder(recorded: Path, packed: Path) -> None:
    assert is_recording(packed)
    assert summary(call("list", packed, "--json")) == summary(call("list", recorded, "--json"))
    for stage in ("ptx", "sass"):
        assert (
            call("show", packed, "square_kernel", "--stage", stage).out
            == call("show", recorded, "square_kernel", "--stage", stage).out
        )


def test_packing_leaves_derived_things_behind_and_no_part_files(
    recorded: Path, tmp_path: Path
) -> None:
    saved(recorded / "derived" / ("0" * 64), b"made of it by an earlier version")
    pack(recorded, tmp_path / "x.ptxview")
    with zipfile.ZipFile(tmp_path / "x.ptxview") as archive:
        assert all(n.startswith(("blobs/", "events")) for n in archive.namelist())
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    assert stat.S_IMODE((tmp_path / "x.ptxview").stat().st_mode) == 0o666 & ~0o022 & ~_umask()


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_line_that_is_no_json_is_said_and_passed_over(tmp_path: Path) -> None:
    folder = write_events(
        tmp_path / "r", STARTED, "}{\n", "[1]\n", b"\xff\xfe\n", {"event": "end", "exit_status": 0}
    )
    value = call("list", folder, "--json").json
    assert value["recording"]["exit_status"] == 0
    said = " ".join(value["recording"]["problems"])
    assert "line 2" in said and "line 3" in said and "line 4" in said


@pytest.mark.parametrize("schema", [2, "1", None])
def test_newer_or_odd_schema_is_refused(tmp_path: Path, schema: object) -> None:
    folder = write_events(tmp_path / "r", {**STARTED, "schema": schema})
    for done in (call("list", folder), call("list", folder, "--json")):
        assert done.status == 4 and not done.out
        assert "schema" in done.said
    if schema == 2:
        assert "schema 2" in done.said and "Upgrade" in done.said


def test_recording_without_events_is_refused(tmp_path: Path) -> None:
    done = call("list", write_events(tmp_path / "empty"))
    assert done.status == 4
    (tmp_path / "empty" / "events.jsonl").touch()
    assert call("list", tmp_path / "empty").status == 4


def test_children_are_merged_in_the_order_of_time(tmp_path: Path) -> None:
    folder = write_events(tmp_path / "r", STARTED, {"event": "end", "time": 9.0, "exit_status": 0})
    for pid, when in ((11, 5.0), (10, 3.0)):
        events = [
            {"event": "process", "schema": 1, "time": when, "pid": pid, "rank": pid - 10},
            {"event": "problem", "time": when + 1, "pid": pid, "where": "w", "text": str(pid)},
        ]
        text = "".join(json.dumps(e) + "\n" for e in events)
        (folder / f"events-{pid}-x.jsonl").write_text(text)
    assert open_path(folder).problems == ("w: 10", "w: 11")


def test_ranks_of_one_variant_are_merged(tmp_path: Path) -> None:
    folder = record(tmp_path / "r")
    line = next(x for x in (folder / "events.jsonl").read_text().splitlines() if "triton" in x)
    for rank in (1, 0):
        pid = 100 + rank
        process = {"event": "process", "schema": 1, "time": 2.0, "pid": pid, "rank": rank}
        compiled = {**json.loads(line), "pid": pid}
        text = json.dumps(process) + "\n" + json.dumps(compiled) + "\n"
        (folder / f"events-{pid}-x.jsonl").write_text(text)
    ((_, variant),) = open_path(folder).variants()
    assert variant.ranks == (0, 1)


WRITES = """
import sys
from pathlib import Path
from inspector.recording.layout import Writer
writer = Writer(Path(sys.argv[1]))
for n in range(300):
    digest = writer.blob(b"shared %d" % (n % 10) * 1000)
    writer.event(event="problem", where=sys.argv[2], text=str(n), blob=digest)
"""


def test_processes_write_side_by_side(tmp_path: Path) -> None:
    folder = write_events(tmp_path / "r", STARTED)
    started = [
        subprocess.Popen([sys.executable, "-c", WRITES, str(folder), name]) for name in "abcd"
    ]
    # It can be read at any moment, too.
    while any(p.poll() is None for p in started):
        assert open_path(folder).command == ("python", "x.py")
        time.sleep(0.05)
    assert [p.wait() for p in started] == [0, 0, 0, 0]
    held = read_events(folder)
    assert not held.problems
    for name in "abcd":
        texts = [e["text"] for e in held.events if e.get("where") == name]
        assert texts == [str(n) for n in range(300)]
    for blob in (folder / "blobs").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name


def test_recorded_paths_are_never_opened(tmp_path: Path) -> None:
    """The path exists and holds something else; the recorded text is shown."""
    decoy = saved(tmp_path / "decoy.ptx", "// DECOY\n")
    script = saved(tmp_path / "decoy.py", "DECOY\n" * 100)
    folder = tmp_path / "r"
    writer = Writer(folder)
    writer.event(**STARTED)
    add_square(
        writer,
        paths={e: str(decoy) for e in ("ttir", "ttgir", "llir", "ptx", "cubin")},
        source={"file": str(script), "blob": writer.blob(b"def real(): ...\n")},
    )
    add_square(
        writer,
        name="pathless",
        hash="ab" * 32,
        files={"ptx": str(decoy)},
        source={"file": str(script), "blob": str(script)},
    )
    built = dict.fromkeys(("object", "source", "cubin", "ptx"), str(decoy))
    writer.event(event="device_code", directory=str(tmp_path), **built)
    writer.event(event="extension", directory=str(tmp_path), files={"decoy.py": str(script)})
    writer.event(event="graph", path=str(script), blob=str(script))
    writer.close()
    before = {p: p.stat().st_atime_ns for p in (decoy, script)}
    for stage in ("source", "ttir", "ptx", "sass"):
        done = call("show", folder, "square_kernel", "--stage", stage, "--json")
        assert done.status == 0
        assert b"DECOY" not in done.out
    listed = call("list", folder, "--json")
    assert b"DECOY" not in listed.out
    assert call("show", folder, "pathless", "--json").status in (2, 4)
    assert {p: p.stat().st_atime_ns for p in before} == before


def test_truncated_file_is_damaged_at_any_length(packed: Path) -> None:
    whole = packed.read_bytes()
    assert len(whole) > 1000
    for size in range(1, len(whole), len(whole) // 10):
        packed.write_bytes(whole[:size])
        done = call("list", packed)
        assert done.status == 4 and str(packed) in done.said
