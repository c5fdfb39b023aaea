"""Running ptxview, in this process and in a child, and asking NVIDIA's tools directly."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inspector.commands.cli import main
from tests.helpers import samples, schemas, warm
from tests.helpers.samples import said_of
from tests.helpers.tools import path_of, skip_without

HELD = 100_000
"""Bytes of a document up to which every test holds it against its schema."""
DATA = Path(__file__).resolve().parent.parent / "data" / "core"
REPOSITORY = DATA.parents[2]
LECTURE = DATA / "lecture"
SAMPLE = REPOSITORY / "examples" / "recordings" / "lecture-h200.ptxview"
"""The recording that the project brings."""
LOST_SCALE = REPOSITORY / "tests" / "data" / "verify" / "lost_scale.ptxview"
"""A recording of two graphs with kept values: the kernel of the first is wrong."""
MATMUL = LECTURE / "triton" / "62IEO2LAXFPRDFJTFP26LDFEMSIVZSEEWKOUBVBFACS6ECD7LZEA"
SQUARE = LECTURE / "triton" / "QGNHRXZLHGC2YJ4RCQ27CD3XUW3TPV3OLG4XBHLEQZCPY2R2NZDA"
EXTENSION = LECTURE / "ext" / "square_gelu"


@dataclass(frozen=True)
class Done:
    """How a command ended and what it printed."""

    status: int
    out: bytes
    err: bytes
    command: str = ""
    peak: int | None = None
    """Bytes of memory that it took at most, of a child of who has imported ptxview."""

    @property
    def said(self) -> str:
        return self.err.decode("utf-8", "replace")

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def json(self) -> Any:
        """Standard output as JSON; strictly JSON, so that NaN is an error, and as the command's
        schema says, which another test checks for large documents."""
        assert self.status == 0, self.said
        value = json.loads(self.out, parse_constant=refuse)
        if len(self.out) <= HELD:
            schemas.hold(self.command, value)
        return value


def refuse(name: str) -> object:
    """Fail for NaN and the infinities, which are no JSON."""
    raise AssertionError(f"{name} is no JSON")


def call(*args: str | Path) -> Done:
    out, err = io.BytesIO(), io.BytesIO()
    with (
        redirect_stdout(io.TextIOWrapper(out, "utf-8", write_through=True)),
        redirect_stderr(io.TextIOWrapper(err, "utf-8", "backslashreplace", write_through=True)),
    ):
        try:
            status = int(main([str(a) for a in args]))
        except SystemExit as stop:
            status = int(stop.code or 0)
        return Done(status, out.getvalue(), err.getvalue(), str(args[0]) if args else "")


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment with changes; None takes a variable away."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PTXVIEW_")}
    for name, value in changes.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    return env


def finished(
    argv: Sequence[str | Path],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    given: bytes = b"",
    seconds: float = 600,
) -> Done:
    """Run a program to its end and keep what it prints."""
    done = subprocess.run(
        [str(a) for a in argv],
        input=given,
        capture_output=True,
        cwd=cwd,
        env=environment() if env is None else env,
        timeout=seconds,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


WARM: Path | None = None
"""Where the interpreter listens that has imported ptxview, while tests run."""


def _alike(env: Mapping[str, str]) -> bool:
    """Whether an interpreter that starts with this environment is as one that starts with ours."""
    names = {n for n in {*env, *os.environ} if n.startswith(("PYTHON", "LC_", "LANG"))}
    return all(env.get(name) == os.environ.get(name) for name in names)


def ptxview(
    *args: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    given: bytes = b"",
    seconds: float = 600,
    fresh: bool = False,
) -> Done:
    """``ptxview`` as a program: a child of one that has imported its modules.

    ``fresh``: in a new interpreter, for a test of its start.
    """
    words = [str(a) for a in args]
    env = environment() if env is None else dict(env)
    if fresh or WARM is None or not _alike(env):
        done = finished(command(words), cwd, env, given, seconds)
        return replace(done, command=words[0] if words else "")
    return _of_warm(WARM, words, cwd or Path.cwd(), env, given, seconds)


def imported(place: Path, *modules: str) -> warm.Warm:
    """The interpreter that has imported ptxview's commands, and these modules."""
    start = [sys.executable, str(REPOSITORY / "tests" / "helpers" / "warm_ptxview.py"), *modules]
    said = None if samples.SAID is None else str(samples.SAID)
    return warm.warm(place, start, environment(TESTS_SAID=said))


def _of_warm(
    place: Path,
    words: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    given: bytes,
    seconds: float,
) -> Done:
    parent = imported(place)
    (its_in, to), (out, its_out), (err, its_err) = os.pipe(), os.pipe(), os.pipe()
    try:
        child = parent.start(words, env, cwd, (its_in, its_out, its_err))
    finally:
        for each in (its_in, its_out, its_err):
            os.close(each)
    said: dict[int, bytes] = {}

    def read(stream: int) -> None:
        with os.fdopen(stream, "rb") as file:
            said[stream] = file.read()

    readers = [threading.Thread(target=read, args=(stream,)) for stream in (out, err)]
    for reader in readers:
        reader.start()
    try:
        with os.fdopen(to, "wb") as file:
            file.write(given)
    except BrokenPipeError:
        pass  # it has read what it wanted
    status = child.wait(seconds)
    for reader in readers:
        reader.join()
    return Done(status, said[out], said[err], words[0] if words else "", child.peak)


def command(args: Sequence[str | Path]) -> list[str]:
    """The command that starts ptxview with this interpreter."""
    return [sys.executable, "-m", "inspector", *(str(a) for a in args)]


def tool(name: str) -> str:
    """The path of a vendor's tool; the test is skipped without it."""
    skip_without(name)
    return str(path_of(name))


def printed(*argv: str | Path) -> bytes:
    tool, *options, last = (str(a) for a in argv)
    if Path(tool).name in ("nvdisasm", "cuobjdump") and Path(last).is_file():
        return said_of(last, tool, *options)
    return subprocess.run([str(a) for a in argv], capture_output=True, check=True).stdout


def count_hints(path: Path) -> None:
    """Has all hints of a recording counted: a list gives it some seconds, and keeps what it has."""
    for _ in range(50):
        listed = call("list", path, "--json").json
        if all(variant["hints"] is not None for _, variant in variants_of(listed)):
            return
    raise AssertionError("no list has counted the hints")


def variants_of(listed: Any) -> list[tuple[Any, Any]]:
    return [(k, v) for k in listed["kernels"] for v in k["variants"]]


def saved(path: Path, content: str | bytes, mode: int | None = None) -> Path:
    """Write a file, in a folder that is made if it is missing, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    if mode is not None:
        path.chmod(mode)
    return path


def write_events(folder: Path, *events: Mapping[str, object] | str | bytes) -> Path:
    """A recording's folder with these events; a string or bytes is a line as it stands."""
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    with (folder / "events.jsonl").open("ab") as file:
        for event in events:
            if isinstance(event, Mapping):
                file.write(json.dumps(event).encode() + b"\n")
            else:
                file.write(event.encode() if isinstance(event, str) else event)
    return folder
