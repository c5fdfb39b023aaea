"""A recorded program beside the bare one: bytes of its streams, exit status, signals, input.

Every row is run twice in a folder each. ``note`` writes an event if the interpreter that it is
called in is recorded, so that a row also says which of its processes are.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from inspector.sources.opening import open_path
from tests.helpers.ptxview import call, environment, ptxview
from tests.helpers.tools import skip_without

NOTING = """
import sys
import time

def note(text):
    writer = sys.modules.get("ptxview_probes.writer")
    if writer is not None:
        writer.problem("noted", text)
"""
NOT_OURS = "import sys\nif 'inspector' not in sys.orig_argv:\n"
"""The interpreter that ptxview runs in loads a sitecustomize as well."""

BASE = str(getattr(sys, "_base_executable", sys.executable))


@dataclass(frozen=True)
class Row:
    """A program, what it is given, and what is to be found in its recording.

    ``words`` are ptxview's after its own options; the bare run leaves out a ``--`` and has an
    interpreter before a script. ``{here}`` is the folder that it runs in. ``differs`` is what of
    its output is another in every run.
    """

    text: str
    words: tuple[str, ...] = ("program.py",)
    given: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unwatched: tuple[tuple[str, str], ...] = ()
    status: int | None = None
    differs: str | None = None
    python: str = sys.executable
    out: str = "rec"
    gone: bool = False
    """Whether the recording is gone, since the program deletes it."""
    first: Callable[[Path], None] | None = None


ROWS: dict[str, Row] = {}
"""By what they show."""

# -- how it is started ----------------------------------------------------------------------------

SAYS = """
import sys
import time
from noting import note
note(__name__)
print(sys.argv[1:], __name__, __file__, sys.stdin.read())
sys.exit(5)
"""
ROWS["a script"] = Row(
    SAYS, ("program.py", "-a", "--", "b c"), given=b"text", notes=("__main__",), status=5
)
ROWS["a command that is a script of Python's"] = Row(
    "",
    ("--", "{here}/tool", "-x"),
    files={"tool": f"#!{sys.executable}\n{SAYS}"},
    notes=("__main__",),
    status=5,
)
ROWS["a command without Python"] = Row(
    "",
    ("--", "sh", "-c", "cat; echo $0 >&2; exit 4", "name"),
    given=b"\0\xff\n",
    status=4,
    unwatched=(("sh", "none"),),
)
ROWS["from standard input"] = Row("", ("-", "a"), given=b"import sys; print(sys.argv)\n")

# -- its own ways of starting Python --------------------------------------------------------------

USER_SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"

ROWS["its own sitecustomize and usercustomize"] = Row(
    "import noting\nnoting.note('ran')\nprint('program')\n",
    python=BASE,
    notes=("ran",),
    files={
        "lib/sitecustomize.py": NOT_OURS + "    print('his site', __name__, __file__)\n",
        f"{USER_SITE}/usercustomize.py": "print('his user', __name__, __file__)\n",
    },
    env={"PYTHONPATH": "{here}/lib", "PYTHONUSERBASE": "{here}"},
)
ROWS["python -I, -E, -S"] = Row(
    """
import os, subprocess, sys
from noting import note
note("parent")
run = [sys.executable, "-c", "import sys; print(sys.flags)"]
for option in ("-I", "-E", "-S", "-IB", "-sE", "-B"):
    print(subprocess.run([run[0], option, *run[1:]], stdout=subprocess.PIPE).stdout)
subprocess.run([sys.executable, "-X", "utf8", "-S", "child.py"])
subprocess.run(["python", "-E", "child.py"], -1, sys.executable)
subprocess.run(["-I"], executable=sys.executable, stdin=subprocess.DEVNULL)
subprocess.run(f"{sys.executable} -I child.py", shell=True)
print(os.system(f"{sys.executable} -E child.py"))
pid = os.posix_spawn(sys.executable, [sys.executable, "-I", "child.py"], os.environ)
print(os.waitpid(pid, 0)[1])
""",
    files={"child.py": "import sys; print('child', sys.flags.isolated, flush=True)\n"},
    notes=("parent",),
    unwatched=tuple(
        (f"{Path(sys.executable).name} {command}", why)
        for command, why in (
            ("-I -c …", "-I"),
            ("-E -c …", "-E"),
            ("-S -c …", "-S"),
            ("-I -B -c …", "-I"),
            ("-s -E -c …", "-E"),
            ("-E child.py", "-E"),
            ("-S child.py", "-S"),
        )
    ),
)

# -- processes ------------------------------------------------------------------------------------

ROWS["multiprocessing: fork, spawn, forkserver"] = Row(
    """
import multiprocessing, os, pickle, subprocess, sys
from noting import note
def work(name):
    note(name)
    print(name, flush=True)
if __name__ == "__main__":
    subprocess.run([sys.executable, "child.py"], check=True)
    for method in ("fork", "spawn", "forkserver"):
        child = multiprocessing.get_context(method).Process(target=work, args=(method,))
        child.start(); child.join(); print(child.exitcode, flush=True)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map(os.system, ["exit 3"]))
    print(pickle.loads(pickle.dumps(subprocess.Popen.__init__)) is subprocess.Popen.__init__)
""",
    files={"child.py": "import noting\nnoting.note('subprocess')\n"},
    notes=("fork", "spawn", "forkserver", "subprocess"),
)
ROWS["exec"] = Row(
    """
import os, sys
from noting import note
note("before")
if len(sys.argv) < 2:
    try:
        os.execvp("nowhere-to-be-found", ["x"])
    except FileNotFoundError as error:
        print(error, flush=True)
    os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
os.execle(sys.executable, "python", "-E", "-c", "import sys; sys.exit(4)", os.environ)
""",
    notes=("before", "before"),
    status=4,
)

# -- what it does to itself and to us -------------------------------------------------------------

ROWS["the recording is deleted"] = Row(
    """
import glob, os, shutil, sys
from noting import note
for folder in glob.glob("rec*"):
    shutil.rmtree(folder)
note("nowhere")
print("went on")
sys.exit(6)
""",
    status=6,
    gone=True,
)
for name in ("SIGKILL", "SIGTERM"):
    ROWS[f"death by {name}"] = Row(
        "import os, signal\nfrom noting import note\nnote('before')\n"
        + f"signal.signal(signal.{name}, signal.SIG_DFL)\n" * (name != "SIGKILL")
        + f"os.kill(os.getpid(), signal.{name})\n",
        notes=("before",),
        status=-int(getattr(signal, name)),
        out="rec.ptxview",
    )

# -- streams --------------------------------------------------------------------------------------

ROWS["binary input to binary output"] = Row(
    "import sys\ndata = sys.stdin.buffer.read()\nsys.stdout.buffer.write(data[::-1])\n"
    "sys.stderr.buffer.write(data)\n",
    given=bytes(range(256)) * 1000 + b"\n",
)

# -- how it ends ----------------------------------------------------------------------------------

for value in ("256", "(2.5, 'ä\\udcff')"):
    ROWS[f"sys.exit({value})"] = Row(f"import sys\nprint('out')\nsys.exit({value})\n")
ROWS["an exception"] = Row(
    """
import os, subprocess
def fails(n):
    if n:
        fails(n - 1)
    subprocess.Popen(["nowhere-to-be-found"])
def outer():
    try:
        os.execv("/nowhere/to/be/found", ["x"])
    except OSError as error:
        raise RuntimeError("in the middle") from error
try:
    fails(3)
except OSError:
    outer()
""",
    status=1,
)
ROWS["a recursion without end"] = Row("def f(n): return f(n + 1)\nf(0)\n", status=1)


def started(row: Row, here: Path) -> tuple[list[str], list[str], dict[str, str]]:
    """The words of the bare and the wrapped run, and their environment."""
    here.mkdir()
    for name, text in {"program.py": row.text, "noting.py": NOTING, **row.files}.items():
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    if row.first is not None:
        row.first(here)
    words = [w.replace("{here}", str(here)) for w in row.words]
    env = environment(
        XDG_STATE_HOME=str(here / "state"),
        HOME=str(here),
        **{n: v.replace("{here}", str(here)) for n, v in row.env.items()},
    )
    bare = words[1:] if words[0] == "--" else [row.python, *words]
    return bare, words, env


@pytest.mark.parametrize("name", ROWS)
def test_it_is_as_the_bare_program(tmp_path: Path, name: str) -> None:
    row = ROWS[name]
    if '"sh"' in row.text or "sh" in row.words:
        skip_without("sh")
    here = tmp_path / "here"
    words, _, env = started(row, here)
    bare = subprocess.run(
        words, input=row.given, capture_output=True, cwd=here, env=env, timeout=120, check=False
    )
    here.rename(tmp_path / "bare")  # the same paths for both
    _, words, env = started(row, here)
    own = ["run", "--no-tui", "-o", row.out, "--python", row.python]
    done = ptxview(*own, *words, cwd=here, env=env, given=row.given)

    def plain(data: bytes) -> bytes:
        return data if row.differs is None else re.sub(row.differs.encode(), b"#", data)

    if row.status is not None:
        assert bare.returncode == row.status, bare.stderr
    assert done.status == (bare.returncode if bare.returncode >= 0 else 128 - bare.returncode)
    assert plain(done.out) == plain(bare.stdout)
    its, ours = plain(done.err), plain(bare.stderr)
    assert its.startswith(ours), (its, ours)
    closing = its[len(ours) :].decode()
    assert re.match(r"(ptxview: .*\n)+(! |$)", closing) and "Traceback" not in closing, closing
    assert str(row.out) in closing
    if row.gone:
        assert "was deleted while the program ran" in closing and closing.count("\n") == 1
        return
    recording = open_path(here / row.out)
    assert recording.complete and recording.exit_status == done.status
    noted = [p.removeprefix("noted: ") for p in recording.problems if p.startswith("noted: ")]
    assert sorted(noted) == sorted(set(row.notes))
    python = Path(sys.executable).name
    told = tuple((c.replace("{python}", python), why) for c, why in row.unwatched)
    assert {(one.command, one.why) for one in recording.unwatched} == set(told)
    for command, _ in told:
        assert f"! {command} was not watched: " in closing
    if told:
        listed = call("list", here / row.out, "--json").json["recording"]
        assert {(one["command"], one["why"]) for one in listed["unwatched"]} == set(told)
    if row.out == "rec":
        files = [json.loads(f.read_text().splitlines()[0]) for f in (here / "rec").glob("events-*")]
        assert all(first["event"] == "process" for first in files)
        # An exec leaves the number as it is.
        assert len({(first["pid"], *first["argv"]) for first in files}) == len(files)
