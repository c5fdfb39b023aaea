"""Promises to users who wrap a program: all that it sees and does is as without ptxview.

Where a row can be compared, the same thing is done to the bare program and to the wrapped one.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from inspector.base.model import Stage
from inspector.sources.opening import open_path
from tests.helpers.nightly import nightly
from tests.helpers.ptxview import Done, command, environment, finished, printed, ptxview, saved
from tests.helpers.tools import needs, skip_without

# Counts what it is sent and tells it when it is asked to end; names its descriptors, its
# dispositions and its mask at the start.
PROGRAM = """
import json, os, signal, sys, time
def descriptors():
    out = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            out[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass  # that of the listing itself
    return {n: f.split(":")[0] for n, f in out.items()}
before = descriptors()
kept = open("/proc/self/status").read().splitlines()
masks = {w.split(":")[0]: w.split()[1] for w in kept if w.startswith(("SigBlk", "SigIgn"))}
got = {}
def on(number, frame):
    got[number] = got.get(number, 0) + 1
    if number == signal.SIGUSR2:
        print(json.dumps(got), flush=True)
        os._exit(9)
for number in signal.valid_signals() - {9, 19, 17, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}:
    if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGPIPE:
        signal.signal(number, on)
print(json.dumps([os.getpid(), before, masks, os.getpgrp() == os.getpid()]), flush=True)
while True:
    time.sleep(60)
"""


@dataclass
class Started:
    """A program that was started, bare or wrapped: the process that was started, and its own."""

    process: subprocess.Popen[bytes]
    program: int
    told: list[object]

    def line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.fixture
def words(tmp_path: Path) -> Callable[[bool, str], list[str]]:

    def make(wrapped: bool, text: str) -> list[str]:
        path = saved(tmp_path / "program.py", text)
        bare = [sys.executable, str(path)]
        folder = tmp_path / f"rec{time.monotonic_ns()}"
        return command(["run", "--no-tui", "-o", folder, path]) if wrapped else bare

    return make


@contextmanager
def started(words: list[str], pass_fds: tuple[int, ...] = (), **more: object) -> Iterator[Started]:
    """The program, which tells at once what it is; nothing of it is left afterwards."""
    made = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        start_new_session=True,
        pass_fds=pass_fds,
        **{"env": environment(), **more},  # type: ignore[call-overload]
    )
    try:
        line = made.stdout.readline()
        told = json.loads(line)
        yield Started(made, told[0], told)
    finally:
        for number in (made.pid, -made.pid):
            with suppress(OSError):
                os.kill(number, signal.SIGCONT)
                os.kill(number, signal.SIGKILL)
        made.communicate()


def state(pid: int) -> str:
    """As the kernel has it; empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def until(true: Callable[[], bool], what: str) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def ended(pid: int) -> bool:
    """Whether a process has ended, be it waited for or not."""
    return state(pid) in ("", "Z")


def seen(words: list[str], send: Callable[[Started], None]) -> tuple[dict[str, int], int]:
    """What the program counted of what was sent, and its status."""
    with started(words) as run:
        send(run)
        time.sleep(0.5)
        os.kill(run.program, signal.SIGUSR2)
        counted = json.loads(run.line())
        status = run.process.wait(120)
    counted.pop(str(int(signal.SIGUSR2)))
    return counted, status


# Signals that stop and continue it, end it silently, or report children have other tests.
OTHERS = ["KILL", "STOP", "CHLD", "TSTP", "TTIN", "TTOU", "CONT", "USR2", "XFSZ"]
EVERY = sorted(
    map(int, signal.valid_signals() - {getattr(signal, f"SIG{name}") for name in OTHERS})
)


def test_every_signal_arrives_once(words: Callable[[bool, str], list[str]]) -> None:
    """Faults, alarms, window sizes, broken pipes and realtime signals among them."""

    def send(run: Started) -> None:
        for number in EVERY:
            os.kill(run.process.pid, number)
            time.sleep(0.02)

    commands = [words(kind, PROGRAM) for kind in (False, True)]
    with ThreadPoolExecutor(2) as pool:  # both wait most of the time
        bare, wrapped = pool.map(lambda command: seen(command, send), commands)
    assert wrapped == bare
    assert bare == ({str(n): 1 for n in EVERY}, 9)


QUEUE = """
import json, os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {40})
print(json.dumps([os.getpid()]), flush=True)
came = [signal.sigtimedwait({40}, 20) is not None for _ in range(200)]
print(json.dumps([sum(came), signal.sigtimedwait({40}, 0.3)]), flush=True)
"""


def test_realtime_signals_keep_their_number(words: Callable[[bool, str], list[str]]) -> None:
    for wrapped in (False, True):
        with started(words(wrapped, QUEUE)) as run:
            for _ in range(200):
                os.kill(run.process.pid, 40)
            assert json.loads(run.line()) == [200, None]


SENDS = """
import json, os, signal, time
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
print(json.dumps([os.getpid()]), flush=True)
os.kill(os.getppid(), signal.SIGUSR1)
time.sleep(0.5)
print(json.dumps(got), flush=True)
"""


def test_what_the_program_sends_to_its_parent_does_not_come_back(
    words: Callable[[bool, str], list[str]],
) -> None:
    with started(words(True, SENDS)) as run:
        assert json.loads(run.line()) == []


def test_an_alarm_that_is_set_before_reaches_the_program(tmp_path: Path) -> None:
    """``perl -e 'alarm 5; exec @ARGV'`` is many people's timeout; it survives an exec."""
    alarm = "import os, signal, sys; signal.alarm(int(sys.argv[1]))"
    alarm += "; os.execv(sys.argv[2], sys.argv[2:])"
    path = saved(tmp_path / "program.py", "import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    for wrapped in (False, True):
        for seconds in (1, 2, 4, 8, 16, 32):  # until it is up before the alarm comes
            recording = tmp_path / f"rec{seconds}"
            words = command(["run", "-o", recording, path]) if wrapped else [sys.executable, path]
            done = finished([sys.executable, "-c", alarm, str(seconds), *words])
            assert done.status in (-signal.SIGALRM, 128 + signal.SIGALRM)
            if done.out:
                break
        assert done.text == "up\n"
    assert open_path(recording).complete


@pytest.mark.parametrize("how", ["pid", "group"])
def test_nothing_is_left_when_it_is_killed(
    words: Callable[[bool, str], list[str]], how: str
) -> None:
    """As with the bare program: after kill -9 neither it nor ptxview runs."""
    with started(words(True, PROGRAM)) as run:
        beside = children(run.process.pid)
        assert run.program in beside
        os.kill(run.process.pid if how == "pid" else -run.process.pid, signal.SIGKILL)
        until(lambda: all(map(ended, beside)), "something went on without its wrapper")


def children(pid: int) -> list[int]:
    return [int(w) for w in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_what_the_program_started_outlives_it_as_without_us(tmp_path: Path) -> None:
    """The bare program's children are nobody's when it is killed, and go on."""
    text = """
import json, os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(json.dumps([os.getpid(), child.pid]), flush=True)
child.wait()
"""
    path = saved(tmp_path / "program.py", text)
    with started(command(["run", "-o", tmp_path / "rec", path])) as run:
        child = run.told[1]
        assert isinstance(child, int)
        os.kill(run.process.pid, signal.SIGKILL)
        until(lambda: ended(run.program), "the program went on")
        assert not ended(child)
        os.kill(child, signal.SIGKILL)


def test_a_program_that_is_stopped_alone_goes_on_alone(
    words: Callable[[bool, str], list[str]],
) -> None:
    """``kill -STOP`` and ``-CONT`` of its number, in a job that no shell could continue."""
    with started(words(True, PROGRAM)) as run:
        for target in (run.program, run.process.pid):
            os.kill(run.program, signal.SIGSTOP)
            until(lambda: state(run.program) == "T", "it was not stopped")
            time.sleep(0.3)
            assert state(run.process.pid) == "S"
            os.kill(target, signal.SIGCONT)
            until(lambda: state(run.program) == "S", "it did not go on")
        os.kill(run.process.pid, signal.SIGUSR2)
        assert json.loads(run.line())[str(int(signal.SIGCONT))] == 2
        assert run.process.wait(120) == 9


def test_a_stopped_program_that_is_killed_ends_the_wrapper(
    words: Callable[[bool, str], list[str]],
) -> None:
    with started(words(True, PROGRAM)) as run:
        os.kill(run.program, signal.SIGSTOP)
        until(lambda: state(run.program) == "T", "it was not stopped")
        os.kill(run.program, signal.SIGKILL)
        assert run.process.wait(120) == 128 + signal.SIGKILL


# -- job control: a real shell on a real terminal ------------------------------------------------


class Shell:
    """An interactive shell on a new terminal."""

    def __init__(self, shell: list[str], folder: Path, **more: str) -> None:
        skip_without(shell[0])
        terms = {"TERM": "dumb", "PS1": "$ ", "HISTFILE": "/dev/null", "INPUTRC": "/dev/null"}
        env = environment(**{**terms, **more})
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.closerange(3, 4096)
            os.execvpe(shell[0], shell, env)
        termios.tcsetwinsize(self.fd, (30, 120))
        self.said = b""

    def type(self, text: str) -> None:
        self.said = b""
        os.write(self.fd, text.encode())

    def sees(self, *wanted: str) -> str:
        end = time.monotonic() + 120
        while not all(re.search(each.encode(), self.said) for each in wanted):
            assert time.monotonic() < end, (wanted, self.said)
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.said += os.read(self.fd, 4096)
                except OSError:
                    raise AssertionError((wanted, self.said)) from None
        return self.said.decode("utf-8", "replace")

    def sees_in_time(self, text: str, wanted: str) -> None:
        """Type it until this has come: a shell notices a stop when all threads stand still."""
        for _ in range(100):
            self.type(text)
            end = time.monotonic() + 1
            while time.monotonic() < end and not re.search(wanted.encode(), self.said):
                if select.select([self.fd], [], [], 0.1)[0]:
                    self.said += os.read(self.fd, 4096)
            if re.search(wanted.encode(), self.said):
                return
        raise AssertionError((wanted, self.said))

    def close(self) -> None:
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.getsid(int(entry.name)) == self.pid:
                    os.kill(int(entry.name), signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


TICKS = """
import os, signal, time
conts = []
signal.signal(signal.SIGCONT, lambda *_: conts.append(1))
print("pid", os.getpid(), "up", flush=True)
while not os.path.exists("end"):
    time.sleep(0.05)
    if os.path.exists("ask"):
        os.unlink("ask"); print("alive", len(conts), flush=True)
    if os.path.exists("read"):
        os.unlink("read"); print("read", input(), flush=True)
print("done", flush=True)
raise SystemExit(6)
"""


@pytest.mark.parametrize(
    "shell", ["bash --norc --noprofile -i", nightly("dash -i"), nightly("sh -i")]
)
@pytest.mark.parametrize("wrapped", [nightly(False), True])
def test_a_job_is_stopped_and_goes_on(tmp_path: Path, shell: str, wrapped: bool) -> None:
    """Ctrl-Z, fg, Ctrl-Z, bg, read in the background, fg, kill %1's STOP and CONT, to its end."""
    path = saved(tmp_path / "program.py", TICKS)
    words = command(["run", "--no-tui", "-o", tmp_path / "rec", path])
    run = shlex.join(words) if wrapped else shlex.join([sys.executable, str(path)])
    at = Shell(shlex.split(shell), tmp_path)

    def alive(number: int) -> None:
        (tmp_path / "ask").touch()
        at.sees(rf"alive {number}\b")

    try:
        at.type(f"set -m; {run}\n")
        program = int(re.search(r"pid (\d+) up", at.sees(r"pid \d+ up"))[1])  # type: ignore[index]
        for turn in range(1, 4):
            at.type("\x1a")
            at.sees("Stopped")
            until(lambda: state(program) == "T", "the program was not stopped")
            time.sleep(1.2 if turn == 1 else 0)  # longer than anything waits for a signal
            at.type("fg\n")
            alive(turn)
        at.type("\x1a")
        at.sees("Stopped")
        at.type("bg\n")
        alive(4)
        (tmp_path / "read").touch()
        until(lambda: state(program) == "T", "it read the terminal in the background")
        at.sees_in_time("jobs\n", "Stopped")
        at.type("fg\n")
        at.sees("program.py")
        at.type("typed\n")
        at.sees("read typed")
        alive(5)
        at.type("\x1a")
        at.sees("Stopped")
        at.type("kill -CONT %1; echo con''tinued\n")
        at.sees("continued")
        alive(6)
        at.type("kill -STOP %1\n")
        until(lambda: state(program) == "T", "it was not stopped by kill -STOP")
        at.sees_in_time("jobs\n", "Stopped")
        at.type("fg\n")
        alive(7)
        (tmp_path / "end").touch()
        at.sees("done")
        at.type("echo status $?\n")
        at.sees("status 6")
    finally:
        (tmp_path / "end").touch()
        at.close()
    if wrapped:
        recording = open_path(tmp_path / "rec")
        assert recording.complete and recording.exit_status == 6


@contextmanager
def bash(folder: Path, text: str, wrapped: bool = True) -> Iterator[Shell]:
    """The program of a text, which ends by a file ``end``, in an interactive bash."""
    path = saved(folder / "program.py", text)
    words = command(["run", "--no-tui", "-o", folder / "rec", path])
    at = Shell(["bash", "--norc", "--noprofile", "-i"], folder)
    try:
        at.type(shlex.join(words if wrapped else [sys.executable, str(path)]) + "\n")
        yield at
        (folder / "end").touch()
        at.sees("done")
    finally:
        at.close()


@pytest.mark.parametrize("wrapped", [nightly(False), True])
def test_ctrl_c_arrives_once(tmp_path: Path, wrapped: bool) -> None:
    with bash(tmp_path, TICKS.replace("SIGCONT", "SIGINT"), wrapped) as at:
        at.sees(r"pid \d+ up")
        for turn in range(1, 4):
            at.type("\x03")
            time.sleep(0.5)
            (tmp_path / "ask").touch()
            at.sees(rf"alive {turn}\b")


def test_a_stop_of_the_wrapper_or_of_the_program_alone_is_seen_by_the_shell(tmp_path: Path) -> None:
    with bash(tmp_path, TICKS) as at:
        program = int(re.search(r"pid (\d+) up", at.sees(r"pid \d+ up"))[1])  # type: ignore[index]
        stops = [(program, signal.SIGSTOP), (parent(program), signal.SIGTSTP)]
        for turn, (target, number) in enumerate(stops, 1):
            at.said = b""
            os.kill(target, number)
            at.sees("Stopped")
            assert state(program) == state(parent(program)) == "T"
            at.type("fg\n")
            (tmp_path / "ask").touch()
            at.sees(rf"alive {turn}\b")


def test_a_program_that_ignores_ctrl_z_is_not_stopped(tmp_path: Path) -> None:
    text = "import signal; signal.signal(signal.SIGTSTP, signal.SIG_IGN)\n" + TICKS
    with bash(tmp_path, text) as at:
        at.sees("up")
        at.type("\x1a")
        time.sleep(0.5)
        (tmp_path / "ask").touch()
        assert "Stopped" not in at.sees("alive 0")


# -- what it inherits -----------------------------------------------------------------------------


def test_descriptors_masks_and_ignored_signals_are_as_they_were(tmp_path: Path) -> None:
    """With inherited descriptors alone, and each set of ignored signals."""
    path = saved(tmp_path / "program.py", PROGRAM)
    for ignored in ((), (signal.SIGHUP,), (signal.SIGINT, signal.SIGQUIT), (signal.SIGCHLD,)):
        told = []
        folder = tmp_path / f"rec{sum(ignored)}"
        for words in ([sys.executable, str(path)], command(["run", "-o", folder, path])):
            read, write = os.pipe()
            kept = os.open(path, os.O_RDONLY)
            try:
                with started(
                    words,
                    (read, write, kept),
                    preexec_fn=lambda ignored=ignored: (
                        [signal.signal(n, signal.SIG_IGN) for n in ignored] and None
                    ),
                ) as run:
                    told.append(run.told[1:])
            finally:
                for each in (read, write, kept):
                    os.close(each)
        assert told[1][:2] == told[0][:2], ignored
        descriptors = told[0][0]
        assert isinstance(descriptors, dict) and len(descriptors) == 6


@pytest.mark.parametrize(
    "kind", [nightly("pass"), "trap '' PIPE", nightly("trap '' HUP"), "trap '' INT TERM"]
)
@needs("bash")
def test_a_command_has_the_dispositions_of_its_shell(tmp_path: Path, kind: str) -> None:
    """A program that is no Python, which would set SIGPIPE itself."""
    said = "grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status"
    run = shlex.join(command(["run", "-o", tmp_path / "rec", "--"]))
    kind = ":" if kind == "pass" else kind
    bare, wrapped = (
        printed("bash", "-c", f"{kind}; {wrapper} {said}; true") for wrapper in ("", run)
    )
    assert wrapped == bare != b""


@needs("bash")
def test_process_substitution_and_numbered_descriptors(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        "import os, sys\n"
        "print(open(sys.argv[1]).read(), os.read(7, 99))\n"
        "open(sys.argv[2], 'w').write('from the program')\n"
        "os.write(9, b'nine')\n"
    )
    (tmp_path / "seven").write_text("seven")
    run = shlex.join(command(["run", "-o", tmp_path / "rec", path]))
    for wrapper in (shlex.join([sys.executable, str(path)]), run):
        script = f"{wrapper} <(echo from bash) >(cat >out; echo >sent) 7<seven 9>nine; "
        script += "s=$?; while ! [ -e sent ]; do sleep 0.05; done; exit $s"
        done = finished(["bash", "-c", script], tmp_path)
        assert (done.status, done.text) == (0, "from bash\n b'seven'\n"), done.said
        assert (tmp_path / "out").read_text() == "from the program"
        assert (tmp_path / "nine").read_text() == "nine"
        for name in ("out", "sent", "nine"):
            (tmp_path / name).unlink()


@needs("bash")
def test_a_socket_that_is_handed_over_is_served(tmp_path: Path) -> None:
    """As systemd does: descriptor 3, and how many in the environment."""
    path = tmp_path / "program.py"
    path.write_text(
        "import os, socket\nassert os.environ['LISTEN_FDS'] == '1'\n"
        "one, _ = socket.socket(fileno=3).accept()\none.sendall(b'served')\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = shlex.join(command(["run", "-o", tmp_path / "rec", path]))
        number = server.fileno()
        made = subprocess.Popen(
            ["bash", "-c", f"exec 3<&{number}; exec {number}<&-; LISTEN_FDS=1 {words}"],
            pass_fds=[number],
            env=environment(),
            stderr=subprocess.PIPE,
        )
        with socket.create_connection(server.getsockname(), timeout=120) as client:
            assert client.recv(99) == b"served"
        assert made.wait(120) == 0, made.communicate()


CLOSES = """
import json, os, sys, time
print(json.dumps([os.getpid()]), flush=True)
for number in (0, 1, int(sys.argv[1])):
    os.close(number)
time.sleep(60)
"""


def test_what_the_program_closes_is_closed(tmp_path: Path) -> None:
    """Readers of its output, writers of its input and readers of a pipe notice at once."""
    path = saved(tmp_path / "program.py", CLOSES)
    read, write = os.pipe()
    words = command(["run", "-o", tmp_path / "rec", path, str(write)])
    try:
        with started(words, (write,)) as run:
            os.close(write)
            assert run.process.stdin is not None and run.process.stdout is not None
            assert os.read(read, 1) == b"" and run.process.stdout.read() == b""
            with pytest.raises(BrokenPipeError):
                for _ in range(100):
                    os.write(run.process.stdin.fileno(), b"x" * 4096)
            assert not ended(run.program)
            run.process.stdin = None
    finally:
        os.close(read)


def test_tools_that_follow_the_program_have_their_streams() -> None:
    """Its input and output are let go of; a compiler without a stdin would fail in odd ways."""
    tool = (
        "import os, sys\n"
        "print([os.readlink(f'/proc/self/fd/{n}') for n in (0, 1)], file=sys.stderr)"
    )
    code = (
        "import os, subprocess, sys\n"
        "from inspector.system.process import run_program\n"
        "run_program([sys.executable, '-c', 'pass'], os.environ)\n"
        f"subprocess.run([sys.executable, '-c', {tool!r}])\n"
    )
    done = finished(["bash", "-c", 'exec "$@" </dev/null', "", sys.executable, "-c", code])
    assert done.said.strip() == "['/dev/null', '/dev/null']"


@pytest.mark.parametrize(
    "closed", [nightly(""), nightly("<&-"), nightly(">&-"), nightly("2>&-"), "<&- >&- 2>&-"]
)
@needs("bash")
def test_streams_that_are_closed_stay_closed(tmp_path: Path, closed: str) -> None:
    """ptxview never takes 0, 1 or 2, and never writes into a file that the program opens there."""
    path = tmp_path / "program.py"
    path.write_text(
        "import os, sys\n"
        "import ptxview_probes.writer as w\n"
        "w.emit({'event': 'problem', 'where': 'w', 'text': 'one'})\n"
        "w.blob(b'data')\n"
        "first = os.open('first', os.O_CREAT | os.O_RDWR)\n"
        "w.emit({'event': 'problem', 'where': 'w', 'text': 'two'})\n"
        "os.write(first, b'his')\n"
        "open('number', 'w').write(str(first))\n"
    )
    words = shlex.join(command(["run", "-o", tmp_path / "rec", path]))
    assert finished(["bash", "-c", f"{words} {closed}"], tmp_path).status == 0
    assert (tmp_path / "first").read_bytes() == b"his"
    least = next((n for n in range(3) if ("<&-", ">&-", "2>&-")[n] in closed.split()), None)
    if least is not None:
        assert int((tmp_path / "number").read_text()) == least
    texts = list(open_path(tmp_path / "rec").problems)
    assert sum("one" in t or "two" in t for t in texts) == 2


# -- what the probes do inside it -----------------------------------------------------------------


def recorded(folder: Path, text: str, out: str = "rec") -> Done:
    """A program of a text, run in a folder and recorded there."""
    path = saved(folder / "program.py", text)
    return ptxview("run", "-o", folder / out, path, cwd=folder)


PROBED = "import os, sys, threading, time\nimport ptxview_probes.writer as w\n" + (
    "def say(text):\n    w.emit({'event': 'problem', 'where': 'w', 'text': text})\n"
)


def told(folder: Path) -> list[str]:
    events = [
        json.loads(line)
        for file in sorted(folder.glob("events-*.jsonl"))
        for line in file.read_bytes().splitlines()
    ]
    return [e["text"] for e in events if e["event"] == "problem"]


DAEMON = """
say("before")
w.blob(b"one")
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
say("first")
os.closerange(0, 4096)
files = [os.open(f"his{n}", os.O_CREAT | os.O_RDWR, 0o600) for n in range(12)]
assert files == list(range(12))
def records():
    for n in range(200):
        say(f"event {n}")
        w.blob(b"content %d" % n)
threads = [threading.Thread(target=records) for _ in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
os.rename("his11", "ended")
"""


def test_a_daemon_keeps_its_files_to_itself(tmp_path: Path) -> None:
    """It closes all descriptors, and its own files take the numbers."""
    done = recorded(tmp_path, PROBED + DAEMON)
    assert done.status == 0, done.said
    until((tmp_path / "ended").exists, "the daemon did not come to its end")
    for n in range(11):
        assert (tmp_path / f"his{n}").read_bytes() == b"", n
    said = told(tmp_path / "rec")
    assert said.count("before") == said.count("first") == 1
    assert sorted(said) == sorted(
        ["before", "first", *(f"event {n}" for n in range(200))]
        + [f"event {n}" for n in range(200) for _ in range(2)]
    )


def test_ptxview_keeps_no_file_open_between_events(tmp_path: Path) -> None:
    text = PROBED + "say('one'); w.blob(b'two')\nprint(sorted(os.listdir('/proc/self/fd')))"
    done = recorded(tmp_path, text)
    assert done.text == "['0', '1', '2', '3']\n"  # 3 is the listing's own


def test_a_child_never_waits_for_what_a_thread_was_importing_for_us(tmp_path: Path) -> None:
    """The thread is held where it imports json until the program forks."""
    text = """
importing, forked = threading.Event(), threading.Event()
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "json":
            importing.set()
            forked.wait(1)
assert "json" not in sys.modules
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=say, args=("of the thread",))
thread.start()
importing.wait()
pid = os.fork()
if pid == 0:
    say("of the child")
    os._exit(0)
forked.set()
end = time.monotonic() + 60
while os.waitpid(pid, os.WNOHANG) == (0, 0):
    if time.monotonic() > end:
        os.kill(pid, 9)
        sys.exit("the child waits")
    time.sleep(0.01)
thread.join()
"""
    done = recorded(tmp_path, PROBED + text)
    assert done.status == 0, done.said
    assert sorted(told(tmp_path / "rec")) == ["of the child", "of the thread"]


@pytest.mark.parametrize("module", ["writer", "calls.call_counts"])
def test_locks_that_another_thread_holds_are_renewed_in_the_child(
    tmp_path: Path, module: str
) -> None:
    """The same without luck: the lock is held by a thread when the program forks."""
    text = f"""
import signal
import ptxview_probes.{module} as module
inside, done = threading.Event(), threading.Event()
def holds():
    with module._lock:
        inside.set(); done.wait()
threading.Thread(target=holds, daemon=True).start()
inside.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    say("child")
    import ptxview_probes.calls.call_counts as calls
    calls.call_target("graph", "g", "child", {{}}).add_call((1,), [("n", "int", 1)])
    os._exit(0)
print(os.waitpid(pid, 0)[1], flush=True)
os._exit(0)
"""
    done = recorded(tmp_path, PROBED + text)
    assert done.text == "0\n", done.said
    assert told(tmp_path / "rec") == ["child"]


FULL = """
import resource
before = resource.getrlimit(resource.RLIMIT_FSIZE)
say("one")
name = next(n for n in os.listdir(w.folder()) if n.startswith("events-"))
size = os.stat(os.path.join(w.folder(), name)).st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, before[1]))  # forty bytes are left
say("two")
say("three")
digest = w.blob(b"x" * 10000)
assert digest is None
w.emit({"event": "triton", "name": "add", "hash": "a" * 64, "metadata": {"name": "add"},
        "files": {"ptx": w.blob(b"y" * 10000), "cubin": None, "ttir": None}})
resource.setrlimit(resource.RLIMIT_FSIZE, before)
say("four")
w.emit({"event": "triton", "name": "add", "hash": "a" * 64, "metadata": {"name": "add"},
        "files": {"ptx": kept(b"y" * 10000), "cubin": kept(b"z" * 10000), "ttir": w.blob(b"ttir")}})
"""
KEPT = """
def kept(data):
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    try:
        return w.blob(data)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
"""


def test_a_full_disk_is_reported_with_its_reason(tmp_path: Path) -> None:
    """A line that was cut short takes nothing with it; what is missing says why."""
    done = recorded(tmp_path, PROBED + FULL.replace("before = ", KEPT + "\nbefore = ", 1))
    assert done.status == 0, done.said
    said = told(tmp_path / "rec")
    why = os.strerror(27)  # a limit of the shell replaces the disk: File too large
    assert said == ["one", f"3 events could not be written: {why}", "four"]
    assert not list((tmp_path / "rec" / "blobs").glob(".*")), "what was begun takes no space"
    recording = open_path(tmp_path / "rec")
    ((_, variant),) = recording.variants()
    for stage in (Stage.PTX, Stage.SASS):
        assert why in variant.missing[stage] and "Triton left" not in variant.missing[stage]
    assert Stage.TTIR in variant.stages
    assert any("add" in p and why in p for p in map(str, recording.problems))
    assert why in done.said


@pytest.mark.parametrize("out", ["rec", "x.ptxview"])
def test_events_that_were_never_written_are_reported_at_the_end(tmp_path: Path, out: str) -> None:
    """The disk is full until the program has ended, and not one event more has a place."""
    done = recorded(tmp_path, PROBED + FULL.partition("digest =")[0], out)
    assert done.status == 0
    why = os.strerror(27)
    assert re.search(rf"events of process \d+ could not be written: {why}", done.said)
    assert any(why in text for text in open_path(tmp_path / out).problems)


FORKS_WITH_TENSORS = """
import os, threading, time, torch
kept = torch.empty(1024, device="cuda")
def makes():
    while True:
        torch.empty(4096, device="cuda")
for _ in range(3):
    threading.Thread(target=makes, daemon=True).start()
for n in range(120):
    pid = os.fork()
    if pid == 0:
        del kept
        os._exit(0)
    end = time.monotonic() + 120
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(pid, 9)
            print("hung", flush=True)
            os._exit(1)
        time.sleep(0.001)
print("none hung", flush=True)
os._exit(0)
"""


@pytest.mark.nightly
def test_a_child_frees_a_tensor_while_a_thread_of_its_parent_makes_one(tmp_path: Path) -> None:
    """The locks of the emulated device."""
    pytest.importorskip("torch")
    path = saved(tmp_path / "program.py", FORKS_WITH_TENSORS)
    done = ptxview("run", "-o", tmp_path / "rec", path, seconds=400)
    assert (done.status, done.text) == (0, "none hung\n"), done.said


def test_profile_wraps_as_run_does(tmp_path: Path) -> None:
    path = saved(tmp_path / "program.py", PROGRAM)
    words = command(["profile", "-o", tmp_path / "one", path])
    counted, status = seen(words, lambda run: os.kill(run.process.pid, signal.SIGTERM))
    assert (counted, status) == ({"15": 1}, 9)
    with started(command(["profile", "-o", tmp_path / "two", path])) as run:
        os.kill(run.process.pid, signal.SIGKILL)
        until(lambda: ended(run.program), "the program went on")


# -- while the recording is being finished --------------------------------------------------------

# An interpreter that takes its time when it is asked for its versions, which is what is done first
# when the program has ended.
SLOW = """#!/bin/sh
case "$1" in -c) touch "$FINISHING"; sleep "$SECONDS_OF_IT" >/dev/null 2>&1;; esac
exec {python} "$@"
"""


@contextmanager
def finishing(folder: Path, seconds: float, blobs: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """A run with ``-o x.ptxview`` whose program has ended with status 3, and whose end takes long.

    ``blobs`` mebibytes are to be packed.
    """
    python = saved(folder / "python", SLOW.format(python=shlex.quote(sys.executable)), mode=0o755)
    path = folder / "program.py"
    path.write_text(
        PROBED + f"for _ in range({blobs}): w.blob(os.urandom(1 << 20))\n"
        "say('said')\nprint('[0]', flush=True)\nraise SystemExit(3)\n"
    )
    (folder / "finishing").unlink(missing_ok=True)
    env = environment(
        FINISHING=str(folder / "finishing"),
        SECONDS_OF_IT=str(seconds),
        XDG_STATE_HOME=str(folder / "state"),
    )
    with started(
        command(["run", "--python", python, "-o", folder / "x.ptxview", path]), env=env
    ) as run:
        until((folder / "finishing").exists, "it never came to finishing")
        yield run.process


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("SIGTERM", False),
        ("SIGINT", True),
        *(nightly(name, group) for name in ("SIGHUP", "SIGALRM") for group in (False, True)),
    ],
)
def test_asked_to_end_while_it_finishes_the_file_is_made_at_once(
    tmp_path: Path, name: str, group: bool
) -> None:
    with finishing(tmp_path, 600) as process:
        for late in (signal.SIGUSR1, 40):  # meant for the program, which has ended
            os.kill(process.pid, late)
        os.kill(-process.pid if group else process.pid, getattr(signal, name))
        _, err = process.communicate(timeout=120)
        assert process.returncode == 3, err
    assert b"interrupted: the recording is kept" in err and b"Traceback" not in err
    recording = open_path(tmp_path / "x.ptxview")
    assert recording.complete and recording.exit_status == 3
    assert not list(tmp_path.glob("*.unfinished"))


def folder_in(err: bytes) -> Path:
    found = re.search(r"writing \S+; should that not end, open (\S+)", err.decode())
    assert found, err
    return Path(found[1])


def test_killed_while_it_finishes_it_has_said_where_the_recording_is(tmp_path: Path) -> None:
    with finishing(tmp_path, 600) as process:
        process.kill()
        _, err = process.communicate(timeout=120)
    assert not (tmp_path / "x.ptxview").exists()
    folder = folder_in(err)
    for words in (("open", "--no-tui", folder), ("list", tmp_path / "x.ptxview")):
        done = ptxview(*words)
        assert done.status == 0 and "said" in done.text + done.said, done
        # The name of the file that was to be made leads to it.
        assert f"{folder}\n" in done.text and "unfinished" in done.text.splitlines()[1]
    recording = open_path(folder)
    assert not recording.complete and recording.exit_status == 3


def test_asked_twice_it_ends(tmp_path: Path) -> None:
    with finishing(tmp_path, 0, blobs=300) as process:
        until(lambda: not ended(process.pid) and packs(process.pid), "it never packed")
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGTERM, err
    assert not (tmp_path / "x.ptxview").exists()
    assert open_path(folder_in(err)).complete, "all that was left was to make the file"


def packs(pid: int) -> bool:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if link.readlink().name.startswith(".x.ptxview."):
                return True
    return False


@pytest.mark.parametrize("name", ["SIGKILL", *map(nightly, ("SIGTERM", "SIGINT", "SIGHUP"))])
def test_ended_at_any_moment_the_recording_is_there(tmp_path: Path, name: str) -> None:
    """Moments spread over reading versions, making the file and putting it in its place."""
    seen = set()
    for turn in range(5):
        with finishing(tmp_path, 0.1, blobs=12) as process:
            time.sleep(turn * 0.17)
            with suppress(OSError):
                process.send_signal(getattr(signal, name))
            _, err = process.communicate(timeout=120)
        file = tmp_path / "x.ptxview"
        at = file if file.exists() else folder_in(err)
        recording = open_path(at)
        assert recording.exit_status == 3
        assert recording.complete or (name == "SIGKILL" and at != file)
        assert list(recording.problems), "what the program said is there"
        seen.add(at.suffix)
        beside = {p.name for p in tmp_path.iterdir() if p.suffix != ".unfinished"}
        assert beside <= {"x.ptxview", "program.py", "python", "finishing", "state"}
        file.unlink(missing_ok=True)
        for folder in tmp_path.glob("*.unfinished"):
            assert name == "SIGKILL", folder
            shutil.rmtree(folder)
    if name != "SIGKILL":
        assert seen == {".ptxview"}, "asked to end, it still makes the file"


# -- beneath the interface ------------------------------------------------------------------------

# It reads the terminal at once, and so gets it.
READS = "import json, os, signal, sys, time\nprint('name', 'please')\ninput()\n"


@contextmanager
def interface(folder: Path, text: str, extra: str = "") -> Iterator[tuple[Shell, int]]:
    """A program beneath the interface, started by a shell on a terminal; its number."""
    path = folder / "program.py"
    path.write_text("import os; open('pid', 'w').write(str(os.getpid()))\n" + text)
    at = Shell(["bash", "--norc", "--noprofile", "-i"], folder, TERM="xterm-256color")
    try:
        run = shlex.join(command(["run", "-o", folder / "rec", path]))
        at.type(f"{run} {extra}\n")
        until(lambda: (folder / "pid").exists() and bool((folder / "pid").read_text()), "no start")
        yield at, int((folder / "pid").read_text())
    finally:
        at.close()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_job_beneath_the_interface_is_stopped_and_goes_on(tmp_path: Path) -> None:
    with interface(tmp_path, READS + TICKS) as (at, program):
        at.sees("name please")
        until(lambda: state(program) == "S", "it never read")
        time.sleep(0.5)
        at.type("me\n")
        at.sees(r"pid \d+ up")
        for turn in range(1, 4):
            at.type("\x1a")
            at.sees("Stopped")
            until(lambda: state(program) == "T", "the program was not stopped")
            at.type("echo 'cook''ed'; stty -a | tr ' ' '\\n' | grep -x icanon\n")
            at.sees("cooked", "icanon")
            at.type("fg\n")
            (tmp_path / "ask").touch()
            at.sees(rf"alive {turn}\b")
        # Typed text still comes key by key to the program, which echoes it once.
        (tmp_path / "read").touch()
        time.sleep(0.3)
        at.type("typed\n")
        assert at.sees("read typed").count("typed") == 2
        (tmp_path / "end").touch()
        at.sees("done")
        at.sees("made no kernels")
        at.type("q")
        at.sees(r"\$ $")
        at.type("echo status $?\n")
        at.sees("status 6")
    assert open_path(tmp_path / "rec").complete


def test_beneath_the_interface_it_is_stopped_and_killed_with_it(tmp_path: Path) -> None:
    with interface(tmp_path, "import time\nprint('up')\ntime.sleep(600)\n") as (at, program):
        at.sees("up")
        leader = parent(program)
        ours = parent(leader)
        for _ in range(2):
            at.said = b""
            os.kill(ours, signal.SIGSTOP)
            at.sees("Stopped")
            until(lambda: state(program) == "T", "it was not stopped")
            at.type("fg\n")
            until(lambda: state(program) == "S", "it did not go on")
            at.sees("running")
            time.sleep(0.6)
            assert state(program) == "S"
        os.kill(ours, signal.SIGKILL)
        until(lambda: ended(program) and ended(leader), "something went on")


def test_beneath_the_interface_signals_arrive_once(tmp_path: Path) -> None:
    numbers = [
        n for n in EVERY if n not in (4, 5, 6, 7, 8, 11, 18, 28, 31)
    ]  # faults; the terminal's
    text = PROGRAM.replace(
        "print(json.dumps(got), flush=True)", "open('got', 'w').write(json.dumps(got))"
    )
    text = text.replace("while True:", "open('up', 'w')\nwhile True:")
    with interface(tmp_path, text) as (at, program):
        until((tmp_path / "up").exists, "it was not up")
        at.sees("running")
        ours = parent(parent(program))
        for number in numbers:
            os.kill(ours, number)
            time.sleep(0.1)
        os.kill(ours, signal.SIGUSR2)
        until(lambda: ended(program), "the program did not end")
        at.sees("status 9")
    counted = json.loads((tmp_path / "got").read_text())
    counted.pop(str(int(signal.SIGUSR2)))
    assert counted == {str(n): 1 for n in numbers}


def test_descriptors_beneath_the_interface(tmp_path: Path) -> None:
    text = (
        "import json, sys\ntold = [open(sys.argv[1]).read(), os.read(7, 9).decode(),"
        " sorted(int(n) for n in os.listdir('/proc/self/fd'))]\n"
        "open('told', 'w').write(json.dumps(told))\n"
    )
    (tmp_path / "seven").write_text("seven")
    with interface(tmp_path, text, "<(echo from bash) 7<seven") as (_, _):
        until((tmp_path / "told").exists, "it did not come to its end")
    assert json.loads((tmp_path / "told").read_text()) == [
        "from bash\n",
        "seven",
        [0, 1, 2, 3, 7, 63],
    ]
