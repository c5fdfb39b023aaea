"""Recordings that a kill, a full disk or a power failure left as they were."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inspector.base.errors import Unreadable
from inspector.recording.layout import Writer, unfinished, work_folder
from inspector.sources.opening import open_path
from tests.helpers.ptxview import (
    MATMUL,
    REPOSITORY,
    call,
    command,
    environment,
    ptxview,
    saved,
    write_events,
)
from tests.helpers.tools import skip_without

BEGUN = {"event": "recording", "schema": 1, "command": ["python"], "mode": "target", "time": 1.0}


def noted(path: Path) -> list[str]:
    """The content of a recording's events, without facts of the whole run."""
    return [p for p in open_path(path).problems if p.startswith("noted: ")]


def note(n: int) -> dict[str, object]:
    """The event of a program's process."""
    return {"event": "problem", "where": "noted", "text": str(n), "pid": 7, "time": 2.0 + n}


def test_events_are_read_up_to_any_byte_at_which_they_end(tmp_path: Path) -> None:
    """Power that fails in the middle of a line takes that line, and no other with it; so do the
    zeros that a file system leaves where it had promised more than it wrote."""
    folder = write_events(tmp_path / "rec", BEGUN)
    lines = [json.dumps(note(n)).encode() + b"\n" for n in range(3)]
    file = folder / "events-7-1.jsonl"
    whole = b"".join(lines)
    assert len(whole) > 100
    for size in range(len(whole) + 1):
        said = [f"noted: {n}" for n in range(3) if len(b"".join(lines[: n + 1])) <= size]
        for rest in (b"", bytes(len(whole) - size)):
            file.write_bytes(whole[:size] + rest)
            recording = open_path(folder)
            # A line without its end is whole by chance.
            assert noted(folder) in (said, [f"noted: {n}" for n in range(len(said) + 1)]), size
            assert not recording.complete
            cut = size and whole[size - 1 : size] != b"\n"
            told = [p for p in recording.problems if not p.startswith("noted: ")]
            assert bool(told) == bool(rest or (cut and len(noted(folder)) == len(said))), size


def with_kernel(folder: Path) -> dict[str, str]:
    """A recording of one of Triton's kernels; the blobs of its stages by their endings."""
    writer = Writer(folder)
    writer.event(**BEGUN)
    files = {
        path.suffix[1:]: writer.blob(path.read_bytes())
        for path in MATMUL.iterdir()
        if path.suffix in (".ttir", ".ptx", ".cubin")
    }
    writer.event(
        event="triton",
        name="matmul_kernel",
        hash="a" * 64,
        time=2.0,
        pid=7,
        metadata={"name": "matmul_kernel"},
        files=files,
    )
    writer.close()
    return files


def test_a_file_that_is_not_whole_costs_its_stage_alone(tmp_path: Path) -> None:
    files = with_kernel(tmp_path / "rec")
    for kind in ("ttir", "cubin"):
        path = tmp_path / "rec" / "blobs" / files[kind]
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    listed = call("list", tmp_path / "rec")
    assert listed.status == 0 and "matmul_kernel" in listed.text
    assert "unfinished" in listed.text and "Traceback" not in listed.said
    shown = call("show", tmp_path / "rec", "matmul_kernel", "--stage", "ttir")
    assert shown.status == 4 and files["ttir"] in shown.said
    whole = call("show", tmp_path / "rec", "matmul_kernel", "--stage", "ptx")
    assert whole.status == 0 and ".entry matmul_kernel" in whole.text


def test_a_file_that_was_not_made_is_read_from_the_folder_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "x.ptxview"
    assert unfinished(target) is None
    with pytest.raises(Unreadable, match=r"x\.ptxview does not exist"):
        open_path(target)
    for n in (1, 2):
        folder = write_events(work_folder(target), BEGUN, note(n))
        os.utime(folder / "events.jsonl", (n, n))
    work_folder(target).mkdir()  # killed before its first event
    (tmp_path / "x.ptxview.abcdef.unfinished").symlink_to(tmp_path)
    assert unfinished(target) == folder
    listed = call("list", target)
    assert listed.status == 0 and listed.text.startswith(f"{folder}\n")
    assert "unfinished" in listed.text.splitlines()[1]
    assert f"{target} was not made" in listed.said.replace("\n", "") and "noted: 2" in listed.said
    commands: list[list[str | Path]] = [
        ["open", "--no-tui", target],
        ["list", "--json", target],
        ["list", folder],
    ]
    for words in commands:
        assert call(*words).status == 0
    with pytest.raises(Unreadable):
        open_path(tmp_path / "y.ptxview")


FULL = """
import os, sys
import ptxview_probes.writer as w
for n in range(60):
    w.emit({"event": "problem", "where": "noted", "text": str(n)})
    w.blob(os.urandom(50_000))
print("went on")
sys.exit(3)
"""


@contextmanager
def small_disk(folder: Path) -> Iterator[list[str]]:
    """A folder with room for a megabyte, and the words that a command on it begins with.

    Where nothing can be mounted, a limit on the size of files replaces it.
    """
    skip_without("bash", "mount")
    folder.mkdir()
    mounted = (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)],
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )
    try:
        yield [] if mounted else ["bash", "-c", 'ulimit -f 30; exec "$@"', "limited"]
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_full_costs_the_rest_of_the_recording_alone(tmp_path: Path) -> None:
    program = saved(tmp_path / "program.py", FULL)
    disk = tmp_path / "disk"
    with small_disk(disk) as first:
        words = command(["run", "--no-tui", "-o", disk / "x.ptxview", program])
        done = subprocess.run([*first, *words], capture_output=True, env=environment(), check=False)
        said = done.stderr.decode()
        assert (done.returncode, done.stdout) == (3, b"went on\n"), said
        assert "Traceback" not in said
        (folder,) = disk.iterdir()
        assert folder.name in said.replace("\n", "") and "could not be written" in said
        assert noted(folder)[:10] == [f"noted: {n}" for n in range(10)]
        listed = call("list", disk / "x.ptxview")
        assert listed.status == 0 and listed.text.startswith(f"{folder}\n")


def test_a_home_that_cannot_be_written_is_reported_before_the_program_runs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; print('ran', file=sys.stderr); sys.exit(4)\n")
    no = "/proc/nowhere"
    env = environment(
        HOME=no, XDG_STATE_HOME=no, XDG_CACHE_HOME=no, XDG_CONFIG_HOME=no, TMPDIR=str(tmp_path)
    )
    done = ptxview("run", program, env=env)
    assert done.status == 4
    first, ran, *_, last = done.said.splitlines()
    folder = Path(first.partition("the recording is made in ")[2])
    assert no in first and folder.is_relative_to(tmp_path)
    assert ran == "ran" and f"→ {folder} " in last
    commands: list[list[str | Path]] = [["list", folder], ["open", "--no-tui", folder]]
    for words in commands:
        listed = ptxview(*words, env=env)
        assert listed.status == 0 and listed.text.startswith(f"{folder}\n"), listed.said
    # A file where it can be written needs no home at all.
    done = ptxview("run", "-o", tmp_path / "x.ptxview", program, env=env)
    assert done.status == 4 and done.said.startswith("ran\n")
    assert open_path(tmp_path / "x.ptxview").complete


def test_every_command_reads_the_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    """By the name of the file that was to be made."""
    target = tmp_path / "x.ptxview"
    with_kernel(work_folder(target))
    assert call("export", target, "-o", tmp_path / "whole.ptxview").status == 0
    exported = open_path(tmp_path / "whole.ptxview")
    assert not exported.complete and len(exported.kernels) == 1
    assert call("diff", target, tmp_path / "whole.ptxview", "--summary").status == 0
    bare = ptxview("show", target, "matmul_kernel", "--stage", "ptx", cwd=REPOSITORY, fresh=True)
    assert bare.status == 0 and ".entry matmul_kernel" in bare.text
    assert call("show", target, "--stage", "ttir").status == 0  # of one word, it is the PATH
