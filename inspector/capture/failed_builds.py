"""What nvcc said of a build whose log went to the program's standard output.

A verbose build, as those of setup.py are, prints what compilers say and raises
without it. Commands of its ``build.ninja`` that have left no object are run until one fails.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from inspector import files
from inspector.capture.builds import Build, parse_ninja
from inspector.errors import PtxviewError, Stopped
from inspector.recording.facts import as_map
from inspector.recording.failures import SOURCES, has_log
from inspector.system.process import run_tool
from inspector.system.toolchain import path_folders

Event = dict[str, object]
MOST = 16
"""Commands of one build that are run once more until one fails."""
SECONDS = 120.0
"""For all of them."""


def told_later(
    events: Sequence[Mapping[str, object]],
    blob: Callable[[bytes], str],
    say: Callable[[str], None],
    go_on: Callable[[], bool],
) -> Iterator[Event]:
    """An event for each build that failed without a word of its compilers; ``blob`` keeps a
    file."""
    builds: dict[str, Mapping[str, object]] = {}
    for event in events:
        directory = event.get("directory")
        if event.get("event") != "extension" or not isinstance(directory, str):
            continue
        if event.get("error") and not has_log(event):
            builds.setdefault(directory, event)
        elif has_log(event) or not event.get("error"):
            builds.pop(directory, None)
    for directory, event in builds.items():
        for source, said in _again(Path(directory), say, go_on):
            sources = as_map(event.get("sources"))
            with contextlib.suppress(PtxviewError):
                sources[str(source)] = blob(files.read(source))
            yield {**event, "sources": sources, "error": f"{event['error']}\n{said}"}


def _again(
    folder: Path, say: Callable[[str], None], go_on: Callable[[], bool]
) -> Iterator[tuple[Path, str]]:
    """What the first command that fails says, as ninja prints it; what it makes is thrown away."""
    try:
        edges = parse_ninja(files.text(folder / "build.ninja", files.limits().text))
    except (PtxviewError, OSError):
        return
    began = time.monotonic()
    for edge in [edge for edge in edges if _failed(edge, folder)][:MOST]:
        left = SECONDS - (time.monotonic() - began)
        if left <= 0:
            return
        say(f"{Path(edge.argv[0]).name} again for {Path(edge.inputs[0]).name}, for what it says")
        env = {**os.environ, "PATH": os.pathsep.join(path_folders())}
        with tempfile.TemporaryDirectory(prefix="ptxview-") as name:
            argv = list(_elsewhere(edge.argv, Path(name)))
            try:
                done = run_tool(argv, cwd=folder, env=env, seconds=left, go_on=go_on)
            except Stopped:
                raise
            except PtxviewError:
                continue
        if done.status:
            said = (done.out + done.err).decode("utf-8", "replace")[-20_000:]
            yield (
                folder / edge.inputs[0],
                f"FAILED: {edge.output}\n{shlex.join(edge.argv)}\n{said}\n",
            )
            return


def _elsewhere(argv: Sequence[str], folder: Path) -> Iterator[str]:
    """The command with its outputs in another folder."""
    words = iter(argv)
    for word in words:
        yield word
        if word in ("-o", "-MF"):
            yield str(folder / Path(next(words, "out")).name)


def _failed(edge: Build, folder: Path) -> bool:
    """Whether a command that compiles has left no object that is newer than its source. What goes
    through our own stand-in for nvcc has been told of."""
    if not edge.argv or not edge.inputs or not edge.inputs[0].endswith(SOURCES):
        return False
    if any(Path(word).name == "nvcc_main.py" for word in edge.argv[:2]):
        return False
    try:
        made = (folder / edge.output).stat().st_mtime
        return made < (folder / edge.inputs[0]).stat().st_mtime
    except OSError:
        return (folder / edge.inputs[0]).is_file()
