"""The only code that starts processes: vendor tools with a time limit, and the user's program."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from inspector.errors import RunFailed, Stopped, ToolMissing, Unreadable


@dataclass(frozen=True, slots=True)
class Finished:
    """What a tool printed and how it ended."""

    status: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Standard output, with surrogate escapes where it is not UTF-8."""
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def complaint(self) -> str:
        """Standard error for a message: its last five lines."""
        return "\n".join(self.err.decode("utf-8", "replace").strip().splitlines()[-5:])


# Seconds between two questions whether to go on, and for the output of a tool that was killed:
# another process may hold its pipes open.
GLANCE, DRAIN = 0.1, 2.0


def run_tool(
    argv: Sequence[str | Path],
    *,
    seconds: float = 120,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    go_on: Callable[[], bool] | None = None,
) -> Finished:
    """Run a tool to its end without a shell; its input is empty.

    ``go_on`` is asked some times a second; once it says no, the tool is killed. Raises
    ``ToolMissing`` where it cannot be started, ``Unreadable`` where it takes longer than
    ``seconds``, ``Stopped`` where ``go_on`` said no.
    """
    try:
        child = subprocess.Popen(
            [os.fspath(a) for a in argv],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=cwd, env=None if env is None else dict(env),
        )  # fmt: skip
    except OSError as error:
        raise ToolMissing(f"{argv[0]} cannot be started: {error.strerror or error}") from None
    with child:
        _running.add(child)
        try:
            # What a tool has started may hold its pipes open: it is not enough to kill the tool.
            out, err = _gather(
                child, seconds, lambda: child in _running and (go_on is None or go_on())
            )
        except subprocess.TimeoutExpired:
            raise Unreadable(f"{argv[0]} did not finish within {seconds:.0f} s") from None
        finally:  # also where we are interrupted
            _running.discard(child)
            if child.poll() is None:
                child.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.communicate(timeout=DRAIN)
    return Finished(child.returncode, out, err)


_running: set[subprocess.Popen[bytes]] = set()


def stop_tools() -> None:
    """Stop every tool that runs, as ``go_on`` does: somebody wants us to end."""
    _running.clear()


def _gather(
    child: subprocess.Popen[bytes], seconds: float, go_on: Callable[[], bool]
) -> tuple[bytes, bytes]:
    """What a tool prints until its end."""
    until = time.monotonic() + seconds
    while go_on():
        try:
            return child.communicate(timeout=min(GLANCE, seconds))
        except subprocess.TimeoutExpired:
            if time.monotonic() > until:
                raise
    raise Stopped("it was stopped before its end")


_begun: list[subprocess.Popen[bytes]] = []


def begin(argv: Sequence[str | Path]) -> None:
    """Start a tool that nobody waits for, and that may fail; Ctrl-C at the terminal is not its."""
    no = subprocess.DEVNULL
    with contextlib.suppress(OSError):
        # The object is kept: one that goes away before its process would warn.
        _begun.append(
            subprocess.Popen(argv, start_new_session=True, stdin=no, stdout=no, stderr=no)
        )


# What becomes of the program is told by these, and is no message to it. What stops a job comes to
# the program from the terminal, or is handed on; we are stopped as soon as it is.
STOPPING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
MOST_AT_ONCE = 1000
_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_SI_QUEUE = -1  # sent with a value, by sigqueue()
LOOK = 0.25
"""Seconds between two looks whether a process was stopped: its parent alone is told."""

BESIDE = "job-signals"
"""The name of the process beside ours in a list of processes: nobody's ``pkill`` means it."""


def forwarded() -> set[int]:
    """Every signal that can be handed on: all that can be caught but the news of children."""
    never = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
    return {int(number) for number in signal.valid_signals()} - never


@dataclass(frozen=True, slots=True)
class Sent:
    """A signal that was sent to a process: how (``si_code``), by whom, and with which value."""

    number: int
    code: int
    sender: int
    value: int

    def pass_on(self, pid: int) -> None:
        """Send it to another process, with the value that it carries; one that is gone is gone."""
        if self.code == _SI_QUEUE:
            _libc.sigqueue(pid, self.number, ctypes.c_void_p(self.value))
            return
        with contextlib.suppress(OSError):
            os.kill(pid, self.number)


def _pending(numbers: set[int], seconds: float = 0.0) -> list[Sent]:
    """Take what was sent of these blocked signals, waiting for the first one that long."""
    chosen = (ctypes.c_uint64 * 16)()
    for number in numbers:
        chosen[(number - 1) // 64] |= 1 << (number - 1) % 64
    told = ctypes.create_string_buffer(128)
    until = time.monotonic() + seconds
    out: list[Sent] = []
    while len(out) < MOST_AT_ONCE:
        left = 0.0 if out else max(0.0, until - time.monotonic())
        span = struct.pack("qq", int(left), int(left % 1 * 1e9))
        number = _libc.sigtimedwait(chosen, told, span)
        if number > 0:
            code, sender, value = struct.unpack_from("8xi4xi4xQ", told)
            out.append(Sent(number, code, sender, value))
        elif out or time.monotonic() >= until:  # else we were stopped meanwhile and go on
            break
    return out


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send us a signal when the thread that started us ends; for a child's start.

    It stays over an exec, and our own children do not inherit it.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def state_of(pid: int) -> str:
    """A process's state as the kernel writes it: R, S, T (stopped), Z (ended); "" where gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


class _Beside:
    """A process in our own group that is sent what the group is sent, and by nobody else.

    A signal that reaches us may have been meant for us alone, and is to be handed on, or for the
    whole group, and the program has it already: the kernel does not say which. This process does:
    of what came to both, the program had its own. It also sees us stopped from outside, which we
    cannot, and stops the program then.
    """

    def __init__(self, inherited: Sequence[int]) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._line.close()
                _stand_beside(theirs, ours, inherited)
            finally:
                os._exit(0)
        theirs.close()

    def tell(self, what: str, number: int = 0) -> None:
        """``program`` with its number; ``stops`` and ``goes on``: that we do."""
        with contextlib.suppress(OSError):
            self._line.send(json.dumps([what, number]).encode())

    def ask(self) -> tuple[list[Sent], bool]:
        """What came to it since it was last asked, and whether it has stopped the program."""
        with contextlib.suppress(OSError, ValueError):
            if state_of(self.pid) == "T":  # a SIGCONT would take from it what it is asked for
                os.kill(self.pid, signal.SIGCONT)
            self._line.settimeout(5)
            self._line.send(b'["ask", 0]')
            sent, stopped = json.loads(self._line.recv(1 << 17))
            return [Sent(*each) for each in sent], bool(stopped)
        return [], False

    def close(self) -> None:
        """It is no longer needed."""
        if self.pid:
            self._line.close()
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        self.pid = 0


def _stand_beside(line: socket.socket, ours: int, inherited: Sequence[int]) -> None:
    """What the process beside does until the other end of ``line`` is closed."""
    for number in (0, 1, 2, *inherited):  # whoever waits for their end must not wait for us
        with contextlib.suppress(OSError):
            os.close(number)
    os.chdir("/")
    _libc.prctl(_PR_SET_NAME, BESIDE.encode(), 0, 0, 0)
    with contextlib.suppress(OSError), open("/proc/self/stat", "rb") as file:  # noqa: PTH123
        fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        if 0 < start < end:  # our command line: `pkill -f` must not take this process for another
            ctypes.memset(start, 0, end - start)
    everything = forwarded() | {int(signal.SIGCHLD)}
    program, follows, stopped = 0, False, False
    while True:
        if select.select([line], [], [], LOOK)[0]:
            data = line.recv(64)
            if not data:
                return
            what, number = json.loads(data)
            if what == "program":
                program = number
            elif what == "ask":
                sent = [(s.number, s.code, s.sender, s.value) for s in _pending(everything)]
                line.send(json.dumps([sent, stopped]).encode())
                stopped = False
            else:
                follows = what == "stops"
        elif program and state_of(ours) == "T":
            if not follows and not stopped:
                stopped = True
                os.kill(program, signal.SIGSTOP)
            elif follows and state_of(program) != "T":
                # Somebody let the program alone go on, or ended it.
                os.kill(ours, signal.SIGCONT)


def _meant_for_us(beside: _Beside, first: list[Sent]) -> tuple[list[Sent], bool]:
    """What was sent to this process alone, and whether the one beside has stopped the program."""
    ours, theirs, stopped = list(first), list[Sent](), False
    while True:
        # Who sends to a group holds a lock of the kernel for all of it, which this waits for; it
        # changes nothing.
        with contextlib.suppress(OSError):
            os.setpgid(0, os.getpgrp())
        there, mine = beside.ask()
        here = _pending(forwarded())
        ours += here
        theirs += there
        stopped |= mine
        if not here and not there:
            break
    came = Counter(theirs)
    # A stop takes a SIGCONT that waits away with it. Where the group was let go on and then stopped
    # again, we may have taken ours before and the one beside not: the stop was the last word.
    if any(each.number in STOPPING for each in theirs):
        ours = [each for each in ours if each.number != signal.SIGCONT]
    # What is no realtime signal is told once, however often it was sent.
    both = {(s.number, s.code, s.sender) for s in theirs if s.number < signal.SIGRTMIN}
    out = []
    for sent in ours:
        if came[sent] and sent.number >= signal.SIGRTMIN:
            came[sent] -= 1
        elif (sent.number, sent.code, sent.sender) not in both and sent.sender != beside.pid:
            out.append(sent)
    return out, stopped


def _ignores_broken_pipes() -> bool:
    """Whether we were started with SIGPIPE ignored, as far as can be known.

    Python ignores it at its own start and keeps no word of how it was. The shell that started us
    hands on what it ignores itself; a parent that is a Python ignores it too, but not for its
    children.
    """
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            ignored = next(int(line[7:], 16) for line in file if line.startswith("SigIgn:"))
    except (OSError, ValueError, StopIteration):
        return False
    pipe, size = (1 << (number - 1) for number in (signal.SIGPIPE, signal.SIGXFSZ))
    return bool(ignored & pipe) and not ignored & size


def dispositions() -> dict[int, signal.Handlers]:
    """What a program that we start is to do with the signals that Python or we have changed."""
    pipes = signal.SIG_IGN if _ignores_broken_pipes() else signal.SIG_DFL
    ignores_children = signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
    return {
        signal.SIGPIPE: pipes,
        signal.SIGXFSZ: signal.SIG_DFL,
        signal.SIGCHLD: signal.SIG_IGN if ignores_children else signal.SIG_DFL,
    }


def inherited_descriptors() -> list[int]:
    """Descriptors from 3 on that whoever started us has handed on: ours end with an exec."""
    out = []
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
    except OSError:  # a container without /proc
        numbers = list(range(256))
    for number in numbers:
        with contextlib.suppress(OSError):
            if number > 2 and os.get_inheritable(number):
                out.append(number)
    return out


def _let_go(descriptors: Sequence[int]) -> None:
    """Keep nothing open that is the program's: another waits until all have closed it."""
    for number in descriptors:
        with contextlib.suppress(OSError):
            os.close(number)
    for number in (0, 1):  # nothing of ours waits to be written there before the program runs
        with contextlib.suppress(OSError):
            if not os.isatty(number):
                nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
                os.dup2(nowhere, number)  # inherited: a tool wants all three
                if nowhere > 2:
                    os.close(nowhere)


def run_program(argv: Sequence[str], env: Mapping[str, str], *, is_job: bool = True) -> int:
    """Run the user's program to its end on this terminal; its status, 128+n for a signal.

    It is in our own process group and has every descriptor, the signal mask and the dispositions
    that we were given. A signal that reaches this process alone is handed on; one to the group the
    program has had itself. When it is stopped, we are, and the other way about; when we are killed,
    so is it. Unless it ``is_job``, it outlives us, and our own input and output are left open.
    Raises ``RunFailed`` where the program cannot be started.
    """
    ours, first = os.getpid(), dispositions()
    # Where it is ignored, nobody is told how a child ended.
    with _disposition(signal.SIGCHLD, signal.SIG_DFL):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, forwarded() | {signal.SIGCHLD})
        inherited = inherited_descriptors()
        beside = _Beside(inherited)

        def begin() -> None:
            if is_job:
                die_with_parent()
                if os.getppid() != ours:  # it was killed meanwhile
                    os._exit(128 + signal.SIGKILL)
            for number, how in first.items():
                signal.signal(number, how)
            # The mask is inherited; the program must start with the one we were given.
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

        try:
            early = _pending(forwarded())
            beside.ask()
            try:
                child = subprocess.Popen(
                    list(argv), env=dict(env), close_fds=False, restore_signals=False,
                    preexec_fn=begin,
                )  # fmt: skip
            except OSError as error:
                raise RunFailed(
                    f"{argv[0]} cannot be started: {error.strerror or error}",
                    "Check the path, or name the interpreter with --python.",
                ) from None
            beside.tell("program", child.pid)
            for sent in early:
                sent.pass_on(child.pid)
            if is_job:
                _let_go(inherited)
            _follow(child.pid, beside)
            beside.close()
            status = child.wait()
            _pending(forwarded())  # they were the program's
        finally:
            beside.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return 128 - status if status < 0 else status


@contextlib.contextmanager
def _disposition(number: int, wanted: signal.Handlers) -> Iterator[object]:
    """What a signal does, and does again afterwards."""
    before = signal.getsignal(number)
    signal.signal(number, wanted)
    try:
        yield before
    finally:
        signal.signal(number, before)


# What asks a process to end, and what else would end it, though it was meant for a program.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU)
_LATE = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO,
         *range(signal.SIGRTMIN, signal.SIGRTMAX + 1))  # fmt: skip


@contextlib.contextmanager
def instead_of_ending(do: Callable[[], None]) -> Iterator[None]:
    """Within it, the first signal that asks us to end calls ``do``, and the second ends us.

    What is ignored stays so. A program that is started within it has every signal as it was.
    """

    def asked(number: int, frame: object) -> None:
        for each in ENDING:
            if signal.getsignal(each) is asked:
                signal.signal(each, signal.SIG_DFL)
        do()

    wanted = {**dict.fromkeys(ENDING, asked), **dict.fromkeys(_LATE, lambda *_: None)}
    before = {n: signal.getsignal(n) for n in wanted}
    changed = [n for n, how in before.items() if how not in (signal.SIG_IGN, None)]
    try:
        for number in changed:
            signal.signal(number, wanted[number])
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])


def _follow(pid: int, beside: _Beside) -> None:
    """Hand signals on, stop and go on with the program, until it has ended."""
    what = os.WEXITED | os.WSTOPPED | os.WNOHANG
    while True:
        # It is left to be waited for: until then its number is nobody else's.
        changed = os.waitid(os.P_PID, pid, what | os.WNOWAIT)
        if changed is not None and changed.si_code != os.CLD_STOPPED:
            return
        sent: list[Sent] = []
        if changed is None:
            sent = [s for s in _pending(forwarded() | {int(signal.SIGCHLD)}, 1.0)
                    if s.number != signal.SIGCHLD]  # fmt: skip
            if not sent:
                continue
        else:
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG)
        meant, stopped = _meant_for_us(beside, sent)
        for each in meant:
            each.pass_on(pid)
        if stopped and all(each.number != signal.SIGCONT for each in meant):
            os.kill(pid, signal.SIGCONT)  # it was stopped because we were, and now we go on
        if changed is not None and state_of(pid) == "T":
            beside.tell("stops")
            _stop(changed.si_status)
            beside.tell("goes on")


def _stop(number: int) -> None:
    """Be stopped by that signal, as the program was: the shell says how a job came to stop."""
    if number not in STOPPING:
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    with _disposition(number, signal.SIG_DFL):
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
