"""``run``: the program keeps its input, output, arguments, environment, status and signals."""

from __future__ import annotations

import ast
import os
import shlex
import sys
from pathlib import Path

import pytest

from inspector.sources.opening import open_path
from tests.helpers.nightly import nightly
from tests.helpers.ptxview import Done, call, command, environment, finished, ptxview, saved
from tests.helpers.tools import needs

# What a program writes that is asked for what it was given.
ASK = """
import json, os, sys
data = sys.stdin.buffer.read()
out = {"argv": sys.argv, "orig": sys.orig_argv[1:], "stdin": data.decode("latin-1"),
       "env": {k: v for k, v in os.environ.items()}, "path": sys.path, "cwd": os.getcwd(),
       "name": __name__, "isatty": [os.isatty(n) for n in range(3)]}
sys.stdout.write(json.dumps(out))
"""


def script(folder: Path, text: str, name: str = "script.py") -> Path:
    """A script of the user's."""
    return saved(folder / name, text)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """A run of a script with input and arguments of many kinds."""
    folder = tmp_path_factory.mktemp("asked")
    path = script(folder, ASK)
    words = ("run", "-o", folder / "rec", path, "-o", "--json", "--", "-m", "a b", "")
    env = environment(PYTHONPATH="/else/where")
    return ptxview(*words, cwd=folder, env=env, given=bytes(range(256)) * 1000), folder


def test_arguments_and_input_are_the_programs_own(asked: tuple[Done, Path]) -> None:
    value = asked[0].json
    assert value["argv"] == [str(asked[1] / "script.py"), "-o", "--json", "--", "-m", "a b", ""]
    assert value["name"] == "__main__" and value["cwd"] == str(asked[1])
    assert value["path"][0] == str(asked[1]), "the script's folder stands first, as always"
    assert value["env"]["PYTHONPATH"].split(os.pathsep)[1:] == ["/else/where"]
    own = {k: v for k, v in value["env"].items() if not k.startswith(("PTXVIEW_", "PYTHONPATH"))}
    assert own.items() >= environment(PYTHONPATH=None, PYTEST_CURRENT_TEST=None).items()
    assert value["stdin"].encode("latin-1") == bytes(range(256)) * 1000


def test_one_line_says_what_was_captured_and_where(asked: tuple[Done, Path]) -> None:
    (line,) = asked[0].said.strip().splitlines()
    assert line.startswith("ptxview: ") and str(asked[1] / "rec") in line
    assert "no kernels" in line and " s" in line


def test_recording_of_a_program_without_kernels_opens(asked: tuple[Done, Path]) -> None:
    value = call("list", asked[1] / "rec", "--json").json
    recording = value["recording"]
    assert value["kernels"] == [] and value["graphs"] == []
    assert recording["exit_status"] == 0 and recording["complete"] is True
    assert recording["command"][1:] == asked[0].json["argv"]
    assert recording["mode"] == "target" and recording["target"] == "sm_90"
    assert recording["device"] is None
    assert recording["tools"]["python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")
    assert recording["problems"] == []
    assert recording["started"].startswith("20")
    shown = call("show", asked[1] / "rec", "anything")
    assert shown.status == 2 and "no kernels" in shown.said


@needs("bash")
def test_a_closed_pipe_ends_the_program_as_without_ptxview(tmp_path: Path) -> None:
    path = script(tmp_path, "import sys\nwhile True: sys.stdout.write('x' * 4096)")
    shell = " ".join(f"'{w}'" for w in command(["run", "-o", tmp_path / "rec", path]))
    done = finished(["bash", "-c", f"{shell} | head -c 3; exit ${{PIPESTATUS[0]}}"])
    assert done.text == "xxx"
    assert done.status == 1 and "BrokenPipeError" in done.said


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["-o"],
        ["--target", "ampere", "run.py"],
        ["--nonsense", "run.py"],
        ["--", "/nowhere/program"],
        ["--python", "/nowhere/python", "run.py"],
    ],
)
def test_what_cannot_be_run_is_our_failure(tmp_path: Path, words: list[str]) -> None:
    script(tmp_path, "print('ran')", "run.py")
    done = ptxview("run", *words, cwd=tmp_path)
    assert done.status == 125 and not done.out
    assert done.said and "Traceback" not in done.said


def test_a_compiled_program_is_run_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shell").symlink_to("/bin/sh")
    words = ("run", "-o", "x.ptxview", "shell", "-c", 'printf "%s" "$1"; exit 3', "name", "a b")
    done = ptxview(*words, cwd=tmp_path)
    assert (done.status, done.text) == (3, "a b")


def test_recording_goes_to_the_state_folder_and_is_the_newest(
    tmp_path: Path, user_folders: Path
) -> None:
    path = script(tmp_path, "print('unique')", "odd name;.py")
    env = environment(XDG_STATE_HOME=str(tmp_path / "state"))
    done = ptxview("run", path, env=env)
    (folder,) = (tmp_path / "state" / "ptxview" / "recordings").iterdir()
    assert str(folder) in done.said
    value = ptxview("list", "--json", env=env).json
    assert value["recording"]["path"] == str(folder)
    assert value["recording"]["command"][-1] == str(path)


def test_single_file_is_made_at_the_end_and_nothing_beside_it(tmp_path: Path) -> None:
    path = script(tmp_path, "print('once')")
    env = environment(XDG_STATE_HOME=str(tmp_path / "state"))
    for _ in range(2):  # the second replaces the first
        done = ptxview("run", "-o", "x.ptxview", path, cwd=tmp_path, env=env)
        assert done.status == 0 and "x.ptxview" in done.said
    assert {p.name for p in tmp_path.iterdir()} - {"state"} == {"script.py", "x.ptxview"}
    assert not list((tmp_path / "state").rglob("events*"))
    assert open_path(tmp_path / "x.ptxview").complete


def test_folder_that_holds_something_is_not_written_into(tmp_path: Path) -> None:
    path = script(tmp_path, "print('ran')")
    held = tmp_path / "held"
    saved(held / "his", "his")
    for where in (held, path):
        done = ptxview("run", "-o", where, path)
        assert done.status == 125 and not done.out and "exists already" in done.said
    assert [p.name for p in held.iterdir()] == ["his"]
    assert path.read_text() == "print('ran')"


@pytest.mark.parametrize(
    "where",
    ["/proc/nowhere/rec", "/proc/nowhere/x.ptxview", "/dev/null/rec", "script.py/x.ptxview"],
)
def test_place_that_cannot_be_written_is_said_before_the_program_runs(
    tmp_path: Path, where: str
) -> None:
    path = script(tmp_path, "print('ran')")
    done = ptxview("run", "-o", where, path, cwd=tmp_path)
    assert done.status == 125 and not done.out
    assert "cannot be written" in done.said and "-o" in done.said


def test_probes_import_nothing_that_the_program_did_not(tmp_path: Path) -> None:
    path = script(tmp_path, "import sys; print(sorted(m for m in sys.modules if '.' not in m))")
    done = ptxview("run", "-o", tmp_path / "rec", path)
    loaded = ast.literal_eval(done.text)
    assert "ptxview_probes" in loaded
    for name in ("torch", "triton", "numpy", "inspector", "rich", "textual"):
        assert name not in loaded


# A run with one of our own functions failing after the program has ended.
FAULTY = """
import importlib, sys
from inspector.commands.cli import main
name, attribute, *words = sys.argv[1:]
def fail(*given, **named):
    raise ZeroDivisionError("injected")
setattr(importlib.import_module(name), attribute, fail)
raise SystemExit(main(words))
"""


@pytest.mark.parametrize(
    "fault",
    [
        "inspector.commands.run summary",
        "inspector.sources.completing complete",
        nightly("inspector.sources.running is_watched"),
        nightly("inspector.sources.running pack"),
        nightly("inspector.sources.opening open_path"),
    ],
)
def test_our_faults_leave_the_programs_status(tmp_path: Path, fault: str) -> None:
    path = script(tmp_path, "print('out'); raise SystemExit(6)")
    out = tmp_path / "x.ptxview"
    words = [*fault.split(), "run", "--no-tui", "-o", str(out), str(path)]
    done = finished([sys.executable, "-c", FAULTY, *words])
    assert (done.status, done.text) == (6, "out\n"), done.said
    assert "injected" in done.said and "Traceback" not in done.said


@needs("bash")
def test_narration_that_cannot_be_written_leaves_the_programs_status(tmp_path: Path) -> None:
    path = script(tmp_path, "print('out'); raise SystemExit(6)")
    words = shlex.join(command(["run", "--no-tui", "-o", tmp_path / "rec", path]))
    done = finished(["bash", "-c", f"{words} 2>/dev/full"])
    assert (done.status, done.text) == (6, "out\n")
