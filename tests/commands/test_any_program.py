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
import time
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from inspector.sources.opening import open_path
from tests.helpers.ptxview import call, environment, ptxview, saved
from tests.helpers.tools import skip_without

NOTING = """
import sys
import time

def note(text):
    writer = sys.modules.get("ptxview_probes.writer")
    if writer is not None:
        writer.blob(text.encode())
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
ROWS["-m module"] = Row(SAYS, ("-m", "program", "-o", "x"), notes=("__main__",), status=5)
ROWS["-m pytest"] = Row(
    "from noting import note\n"
    "def test_one(): note('one')\n"
    "def test_two(): assert print('said') == 1, 'not equal'\n",
    ("-m", "pytest", "-q", "-p", "no:cacheprovider", "program.py"),
    env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
    notes=("one",),
    status=1,
    differs=r"in [\d.]+s",
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
ROWS["a command that takes no PYTHONPATH"] = Row(
    "print('isolated')",
    ("--", sys.executable, "-I", "program.py"),
    unwatched=((Path(sys.executable).name, "none"),),
)
ROWS["from standard input"] = Row(
    "",
    ("-", "a", "-b"),
    given=b"import sys\nprint(sys.argv, __name__)\nprint(repr(input()))\nraise SystemExit(3)\n\n",
)
ROWS["another environment, without our packages"] = Row(
    "import sys, noting\nnoting.note('there')\nprint(sys.prefix != sys.base_prefix)\n"
    "try:\n    import rich\nexcept ImportError as error:\n    print(error)\n",
    ("--", "{here}/venv/bin/python", "program.py"),
    notes=("there",),
    first=lambda here: venv.create(here / "venv", with_pip=False),
)

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
ROWS["a sitecustomize that fails"] = Row(
    "print('program')",
    files={"lib/sitecustomize.py": NOT_OURS + "    1 / 0\n"},
    env={"PYTHONPATH": "{here}/lib"},
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
ROWS["subprocess with an emptied environment"] = Row(
    """
import os, subprocess, sys
from noting import note
code = "import os; print(sorted(os.environ), 'noting' in os.listdir('.'), flush=True)"
subprocess.run([sys.executable, "child.py"], env={})
subprocess.run(["sh", "-c", "echo in a shell"], env={"PATH": os.environ["PATH"]})
subprocess.run(["cat", "child.py"], env={})
kept = {n: v for n, v in os.environ.items() if n.startswith(("PYTHONPATH", "PTXVIEW_RECORDING"))}
subprocess.run([sys.executable, "child.py", "kept"], env=kept, stdout=subprocess.DEVNULL)
env = {**os.environ, "PYTHONPATH": "lib" + os.pathsep + os.environ.get("PYTHONPATH", "")}
subprocess.run([sys.executable, "late.py"], env=env)
os.environ.clear()
note("still")
subprocess.run([sys.executable, "other.py"])
""",
    files={
        "child.py": "import os, sys, noting\nnoting.note('child ' + ' '.join(sys.argv[1:]))\n"
        "print(sorted(os.environ), flush=True)\n",
        "other.py": "import os; print(sorted(os.environ))\n",
        "late.py": "print('late')\n",
        "lib/sitecustomize.py": "print('another')\n",
    },
    notes=("child kept", "still"),
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
ROWS["fork and os._exit"] = Row(
    """
import os, sys
from noting import note
print("written once")
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    note("child")
    os.write(1, b"child\\n")
    os._exit(3)
note("parent")
print(os.waitpid(pid, 0)[1] >> 8, flush=True)
sys.stdout.write("never written")
os._exit(9)
""",
    notes=("child", "parent"),
    status=9,
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
ROWS["a daemon that outlives its parent"] = Row(
    """
import os, sys, time
from noting import note
readable, writable = os.pipe()
if os.fork():
    os.close(writable)
    os.read(readable, 1)
    sys.exit("gone")
os.setsid()
if os.fork():
    os._exit(0)
note("daemon")
os.close(writable)
for stream in range(3):
    os.close(stream)
time.sleep(0.2)
note("after its parent")
open("ended", "w").close()
""",
    notes=("daemon", "after its parent"),
    status=1,
)
ROWS["threads"] = Row(
    """
import sys, threading
from noting import note
def work(n):
    note(f"thread {n}")
    if n == 2:
        raise ValueError("in a thread")
for n in range(4):
    thread = threading.Thread(target=work, args=(n,), name=f"t{n}")
    thread.start(); thread.join()
""",
    notes=tuple(f"thread {n}" for n in range(4)),
)

# -- what it does to itself and to us -------------------------------------------------------------

ROWS["another folder, and all descriptors closed"] = Row(
    """
import os, sys
from noting import note
os.mkdir("elsewhere"); os.chdir("elsewhere")
os.closerange(3, 4096)
note("closed")
held = [os.open("/dev/null", os.O_RDONLY) for _ in range(4)]
note("held")
print(os.getcwd().rpartition("/")[2], held)
""",
    notes=("closed", "held"),
)
ROWS["its output is closed"] = Row(
    "import os, sys\nfrom noting import note\nprint('first', flush=True)\n"
    "sys.stdout.close(); os.close(2)\nnote('closed')\nprint('lost')\n",
    notes=("closed",),
    status=120,
    env={"PYTHONUNBUFFERED": ""},
)
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
ROWS["the work folder of a file is deleted"] = Row(
    ROWS["the recording is deleted"].text, status=6, gone=True, out="rec.ptxview"
)
ROWS["its own signal handlers"] = Row(
    """
import os, signal, subprocess, sys
from noting import note
got = []
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGCHLD", "SIGPIPE"):
    number = getattr(signal, name)
    print(name, signal.getsignal(number))
    signal.signal(number, lambda n, frame: got.append(signal.Signals(n).name))
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGPIPE"):
    os.kill(os.getpid(), getattr(signal, name))
subprocess.run(["true"])
note(" ".join(got))
print(got)
""",
    notes=("SIGINT SIGTERM SIGHUP SIGUSR1 SIGPIPE SIGCHLD",),
)
for name in ("SIGKILL", "SIGTERM", "SIGPIPE"):
    ROWS[f"death by {name}"] = Row(
        "import os, signal\nfrom noting import note\nnote('before')\n"
        + f"signal.signal(signal.{name}, signal.SIG_DFL)\n" * (name != "SIGKILL")
        + f"os.kill(os.getpid(), signal.{name})\n",
        notes=("before",),
        status=-int(getattr(signal, name)),
        out="rec.ptxview",
    )
ROWS["KeyboardInterrupt"] = Row(
    "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(10**9): pass\n",
    status=-2,
)

# -- streams --------------------------------------------------------------------------------------

ROWS["binary input to binary output"] = Row(
    "import sys\ndata = sys.stdin.buffer.read()\nsys.stdout.buffer.write(data[::-1])\n"
    "sys.stderr.buffer.write(data)\n",
    given=bytes(range(256)) * 1000 + b"\n",
)
ROWS["megabytes of both"] = Row(
    "import sys\nblock = bytes(range(256)) * 4096\nfor n in range(8):\n"
    "    sys.stdout.buffer.write(block)\n    sys.stderr.buffer.write(block[::-1])\n"
)
ROWS["lines"] = Row(
    "import sys\nfor n in range(5_000):\n    print(n, 'x' * 20)\nprint('end', file=sys.stderr)\n"
)
ROWS["input that is not read"] = Row("print('not read')", given=b"x" * 200_000)

# -- how it ends ----------------------------------------------------------------------------------

for value in ("None", "256", "-1", "(2.5, 'ä\\udcff')"):
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
ROWS["its own triton that fails when it is imported"] = Row(
    "try:\n    import triton.compiler.compiler\nexcept ZeroDivisionError:\n"
    "    import traceback; traceback.print_exc()\nimport torch\n",
    files={
        "triton/__init__.py": "",
        "triton/compiler/__init__.py": "",
        "triton/compiler/compiler.py": "def deep():\n    1 / 0\ndeep()\n",
        "torch.py": "import nowhere_to_be_found\n",
    },
    status=1,
)
ROWS["an exception when it ends"] = Row(
    "import atexit\natexit.register(lambda: 1 / 0)\nclass A:\n"
    "    def __del__(self): raise OSError('x')\na = A()\ndel a\nraise KeyError('last')\n",
    status=1,
    differs=r"0x[0-9a-f]+",
)
ROWS["no syntax"] = Row("print('x'\n", status=1)
ROWS["a recursion without end"] = Row("def f(n): return f(n + 1)\nf(0)\n", status=1)
ROWS["warnings"] = Row(
    "import os, warnings, subprocess\nwarnings.simplefilter('always')\n"
    "p = subprocess.Popen(['true'])\np.wait()\nwarnings.warn('his', stacklevel=1)\n"
    "f = open('program.py')\ndel f\n"
)


def started(row: Row, here: Path) -> tuple[list[str], list[str], dict[str, str]]:
    """The words of the bare and the wrapped run, and their environment."""
    here.mkdir()
    for name, text in {"program.py": row.text, "noting.py": NOTING, **row.files}.items():
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        saved(path, text, 0o755)
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
    while 'open("ended"' in row.text and not (here / "ended").exists():
        time.sleep(0.01)  # what outlives ptxview's own end is recorded later than that
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
