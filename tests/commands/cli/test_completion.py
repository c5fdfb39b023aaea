"""Completion as shells ask for it: each through the function that it was given, by a TAB key too.

The words that bash and fish would offer are asked of them for many lines by one process each; zsh
offers nothing without a terminal, and gets one.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inspector.analysis.hints.rules import RULES
from inspector.base.model import Stage
from inspector.commands.cli import COMMANDS
from inspector.reader import tables
from tests.helpers.ptxview import (
    EXTENSION,
    REPOSITORY,
    SAMPLE,
    SQUARE,
    call,
    imported,
    saved,
    write_events,
)
from tests.helpers.tools import needs, skip_without

BASH = """
eval "$(ptxview completion bash)"
while IFS= read -r line; do
  COMP_LINE=$line COMP_POINT=${#line} COMP_TYPE=9 COMPREPLY=()
  _python_argcomplete ptxview || echo "status $?"
  printf '%s\\n' "${COMPREPLY[@]}"; printf '\\x1e'
done
"""
FISH = """
ptxview completion fish | source
while read -l line
  complete -C "$line"; printf '\\x1e'
end
"""
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-c", BASH],
    "fish": ["fish", "--no-config", "-c", FISH],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory, with recordings, scripts and names that shells trip over."""
    folder = tmp_path_factory.mktemp("completing")
    shutil.copy(SAMPLE, folder / "x.ptxview")
    shutil.copytree(SQUARE, folder / "cache" / SQUARE.name)
    for name in ("train.py", "a file.py", "$(touch PWNED).py", "broken.ptxview", ".hidden"):
        (folder / name).write_text("")
    (folder / "sub").mkdir()
    write_events(
        folder / "evil",
        {"event": "recording", "schema": 1, "time": 1.0},
        *(
            {"event": "triton", "name": name, "hash": f"{n}" * 64, "metadata": {}, "files": {}}
            for n, name in enumerate(("fine", "\x1b[2Jevil", "$(touch PWNED)", "a\nb", "\udc80"))
        ),
    )
    return folder


@pytest.fixture(scope="module")
def environment(
    place: Path, tmp_path_factory: pytest.TempPathFactory, common: Path
) -> dict[str, str]:
    """Where ``ptxview`` is a command, of a user with a home and one recording."""
    home = tmp_path_factory.mktemp("home")
    state = home / "state" / "ptxview" / "recordings"
    state.mkdir(parents=True)
    shutil.copytree(place / "evil", state / "20260101-train")
    programs = tmp_path_factory.mktemp("bin")
    program = programs / "ptxview"
    words = shlex.join(imported(common / "warm" / "ptxview").command)
    saved(program, f'#!/bin/sh\nexec {words} "$@"\n', 0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    gone = ("PTXVIEW_", "COMP_", "_ARGCOMPLETE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(gone)}
    return {
        **kept,
        "PATH": path,
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "PYTHONPATH": str(REPOSITORY),
        "TERM": "xterm",
    }


KERNELS = {"square_kernel", "softmax_kernel", "matmul_kernel", "square_matrix_kernel"}
STAGES = {stage.value for stage in Stage}
# A line up to the cursor, what has to be offered, and what must not be.
LINES: dict[str, tuple[set[str], set[str]]] = {
    "ptxview ": ({c.name for c in COMMANDS}, {"train.py"}),
    "ptxview sh": ({"show"}, {"list"}),
    "ptxview show --st": ({"--stage"}, {"--json"}),
    "ptxview show --stage ": (STAGES, {"train.py"}),
    "ptxview show x.ptxview ": (KERNELS, {"train.py", "--json", "fine"}),
    "ptxview show x.ptxview sq": ({"square_kernel"}, {"softmax_kernel"}),
    "ptxview show x.ptxview a4f": ({"a4fe74f3"}, {"square_kernel"}),
    "ptxview show ": ({"x.ptxview", "train.py", "sub/", "cache/", "fine"}, {".hidden"}),
    "ptxview show fi": ({"fine"}, {"x.ptxview"}),
    "ptxview list ": ({"x.ptxview", "cache/"}, {"fine"}),
    "ptxview diff x.ptxview gelu": ({"gelu_kernel", "gelu_float_kernel"}, set()),
    "ptxview check x.ptxview --forbid ": (set(RULES), {"train.py"}),
    "ptxview check x.ptxview --device ": (set(tables.devices()), {"train.py"}),
    "ptxview run --target sm_9": ({"sm_90"}, {"sm_80"}),
    "ptxview run -o y train.py --ta": (set(), {"--target"}),
    "ptxview run -- python tr": ({"train.py"}, set()),
    "ptxview try x.ptxview softmax_kernel --stage ptx tr": ({"train.py"}, set()),
    "ptxview explain mbarrier.i": ({"mbarrier.init", "mbarrier.inval"}, {"mma"}),
    "ptxview completion ": ({"bash", "zsh", "fish"}, {"train.py"}),
    # What is not there, cannot be read, or is no command: nothing, and no word about it.
    "ptxview show nowhere.ptxview k": (set(), KERNELS),
    "ptxview show broken.ptxview k": (set(), KERNELS),
    "ptxview nonsense --x": (set(), {"--json"}),
    "ptxview show evil ": ({"fine"}, {"\x1b[2Jevil", "a"}),
}


@pytest.fixture(scope="module", params=SHELLS)
def offered(
    request: pytest.FixtureRequest, place: Path, environment: dict[str, str]
) -> dict[str, list[str]]:
    """What a shell offers for each line, asked by one process."""
    skip_without(request.param, "sh")
    done = subprocess.run(
        SHELLS[request.param],
        input="\n".join((*LINES, "")),
        capture_output=True,
        cwd=place,
        env=environment,
        encoding="utf-8",
        timeout=300,
    )
    assert not done.stderr and not done.returncode
    *answers, _ = done.stdout.split("\x1e")
    assert len(answers) == len(LINES)
    return {
        line: [word.split("\t")[0].strip() for word in answer.split("\n") if word]
        for line, answer in zip(LINES, answers, strict=True)
    }


@pytest.mark.parametrize("line", LINES)
def test_a_shell_offers_what_may_follow(offered: dict[str, list[str]], line: str) -> None:
    words = set(offered[line])
    there, absent = LINES[line]
    assert not there - words
    assert not absent & words


STARTS = {
    "bash": ("bash --norc --noprofile", 'eval "$(ptxview completion bash)"'),
    "zsh": ("zsh -f", 'autoload -U compinit; compinit -u -D; eval "$(ptxview completion zsh)"'),
    "fish": ("fish --no-config", "ptxview completion fish | source"),
}


WATCHED = """
import os, sys
def told(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork"):
        print("started", arguments, file=sys.stderr)
def left(status):
    print(*sorted({m.split(".")[0] for m in sys.modules}), file=sys.stderr)
    end(status)
sys.addaudithook(told)
end, os._exit = os._exit, left
from inspector.commands.cli import main
sys.exit(main(["list"]))
"""


@needs("bash")
@pytest.mark.parametrize("line", ["show x.ptxview ", "show ext/cuda.cuda.o "])
def test_nothing_is_started_and_no_compiler_or_interface_loaded(
    place: Path, environment: dict[str, str], line: str
) -> None:
    if not (place / "ext").exists():
        shutil.copytree(EXTENSION, place / "ext")
    written, reading = os.pipe()[::-1]
    asked = {
        "_ARGCOMPLETE": "1",
        "COMP_LINE": f"ptxview {line}",
        "COMP_POINT": str(len(line) + 8),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
    }
    done = subprocess.run(
        ["bash", "-c", f'exec "$0" "$@" 8>&{written}', sys.executable, "-c", WATCHED],
        pass_fds=[written],
        capture_output=True,
        text=True,
        cwd=place,
        env=environment | asked,
    )
    os.close(written)
    with os.fdopen(reading) as words:
        offered = words.read().split("\x0b")
    assert done.returncode == 0 and not done.stdout
    started = [line for line in done.stderr.splitlines() if line.startswith("started")]
    assert not [line for line in started if "c++filt" not in line], "but what makes names readable"
    assert "argcomplete" in done.stderr
    assert not {"torch", "triton", "textual"} & set(done.stderr.split())
    assert ("square_kernel" in offered) == ("ext" not in line)


@pytest.mark.parametrize("shell", [pytest.param(s, marks=needs(s)) for s in STARTS])
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    printed = call("completion", shell)
    checked = subprocess.run([shell, "-n", "/dev/stdin"], input=printed.out, capture_output=True)
    assert printed.status == 0 and checked.returncode == 0 and not checked.stderr
