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
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from inspector.errors import RunFailed, Stopped, ToolMissing, Unreadable


@dataclass(frozen=True, slots=True)
class Finished:
    """A tool's output and exit status."""

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


# Seconds between two checks whether to go on, and for reading the rest of a killed tool's output,
# whose pipes another process may hold open.
GLANCE, DRAIN = 0.1, 2.0


def cores() -> int:
    """How many cores this process may use: in a container often fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
        _running[child] = threading.get_ident()
        try:
            # What a tool has started may hold its pipes open: it is not enough to kill the tool.
            out, err = _gather(
                child, seconds, lambda: child in _running and (go_on is None or go_on())
            )
        except subprocess.TimeoutExpired:
            raise Unreadable(f"{argv[0]} did not finish within {seconds:.0f} s") from None
        finally:  # also where we are interrupted
            _running.pop(child, None)
            if child.poll() is None:
                child.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.communicate(timeout=DRAIN)
    return Finished(child.returncode, out, err)


_running: dict[subprocess.Popen[bytes], int] = {}  # by which thread
Item = TypeVar("Item")
Made = TypeVar("Made")


def stop_tools(threads: Container[int | None] | None = None) -> None:
    """Stop every running tool, as if its ``go_on`` said no; only those of threads if some are
    given."""
    for child, thread in list(_running.items()):
        if threads is None or thread in threads:
            _running.pop(child, None)


def side_by_side(
    run: Callable[[Item], Made], items: Sequence[Item], at_once: int | None = None
) -> Generator[Made, None, None]:
    """What ``run`` makes of each item, in their order, as many at once as there are cores, or
    ``at_once`` if that is less.

    Raises what ``run`` raises. Where an error, a signal or who no longer asks ends it early, the
    tools that it runs are stopped, nothing further is begun, and it ends when all are at rest.
    """
    if not items:
        return
    threads: set[threading.Thread] = set()
    over = threading.Event()

    def one(item: Item) -> Made:
        threads.add(threading.current_thread())
        if over.is_set():  # a signal may come while the first begin
            raise Stopped("it was stopped before its beginning")
        return run(item)

    pool = ThreadPoolExecutor(max_workers=min(cores(), len(items), at_once or len(items)))
    try:
        waiting = deque([pool.submit(one, item) for item in items])
        while waiting:
            future = waiting.popleft()  # what was made of it is not kept for those that follow
            # Some times a second: a signal that came just before Python began to wait for a lock,
            # or that another thread was given, is seen when the wait ends, and not before.
            while wait([future], GLANCE).not_done:
                pass
            yield future.result()
    except BaseException:
        over.set()
        pool.shutdown(wait=False, cancel_futures=True)
        while any(thread.is_alive() for thread in list(threads)):
            stop_tools({thread.ident for thread in list(threads)})  # also one that began since
            time.sleep(GLANCE / 10)
        raise
    finally:
        pool.shutdown(wait=True)


def _gather(
    child: subprocess.Popen[bytes], seconds: float, go_on: Callable[[], bool]
) -> tuple[bytes, bytes]:
    """Standard output and standard error of a tool until its end."""
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
    """Start a tool in the background; it may fail, and the terminal's Ctrl-C does not reach it."""
    no = subprocess.DEVNULL
    with contextlib.suppress(OSError):
        # The object is kept: if it is deleted before its process ends, Python warns.
        _begun.append(
            subprocess.Popen(argv, start_new_session=True, stdin=no, stdout=no, stderr=no)
        )


# Signals that stop a job. They reach the program from the terminal or are handed on, and as soon
# as the program is stopped, so are we.
STOPPING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
MOST_AT_ONCE = 1000
_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_SI_QUEUE = -1  # sent with a value, by sigqueue()
MEANWHILE = 1.0
"""Seconds of a program after which there is time for something else."""
LOOK = 0.25
"""Seconds between two checks whether a process was stopped, which only its parent is told."""

BESIDE = "job-signals"
"""The name of the process beside ours, chosen so that no usual ``pkill`` matches it."""


def forwarded() -> set[int]:
    """Every signal that is handed on: all that can be caught, except SIGCHLD."""
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
        """Send the signal with its value to another process; ignored if that has ended."""
        if self.code == _SI_QUEUE:
            _libc.sigqueue(pid, self.number, ctypes.c_void_p(self.value))
            return
        with contextlib.suppress(OSError):
            os.kill(pid, self.number)


def _pending(numbers: set[int], seconds: float = 0.0) -> list[Sent]:
    """Take the pending ones of these blocked signals, waiting ``seconds`` for the first."""
    chosen = (ctypes.c_uint64 * 16)()
    for number in numbers:
        chosen[(number - 1) // 64] |= 1 << (number - 1) % 64
    info = ctypes.create_string_buffer(128)
    until = time.monotonic() + seconds
    out: list[Sent] = []
    while len(out) < MOST_AT_ONCE:
        remaining = 0.0 if out else max(0.0, until - time.monotonic())
        span = struct.pack("qq", int(remaining), int(remaining % 1 * 1e9))
        number = _libc.sigtimedwait(chosen, info, span)
        if number > 0:
            code, sender, value = struct.unpack_from("8xi4xi4xQ", info)
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
    """A process's state as the kernel writes it: R, S, T (stopped), Z (ended); "" if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


class _Beside:
    """A process in our own group, which gets only the signals sent to the whole group.

    A signal that reaches us was sent either to us alone, and must be handed on, or to the whole
    group, and then the program has it already: the kernel does not say which. If this process got
    it too, it was sent to the group. It also sees us stopped from outside, which we cannot, and
    stops the program then.
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
        """Tell it ``program`` with the process id, or ``stops`` or ``goes on`` when we do."""
        with contextlib.suppress(OSError):
            self._line.send(json.dumps([what, number]).encode())

    def ask(self) -> tuple[list[Sent], bool]:
        """The signals it got since it was last asked, and whether it has stopped the program."""
        with contextlib.suppress(OSError, ValueError):
            # Only if it is stopped: a SIGCONT discards pending stop signals, which it is asked for.
            if state_of(self.pid) == "T":
                os.kill(self.pid, signal.SIGCONT)
            self._line.settimeout(5)
            self._line.send(b'["ask", 0]')
            sent, stopped = json.loads(self._line.recv(1 << 17))
            return [Sent(*fields) for fields in sent], bool(stopped)
        return [], False

    def close(self) -> None:
        """End the process."""
        if self.pid:
            self._line.close()
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        self.pid = 0


def _stand_beside(line: socket.socket, ours: int, inherited: Sequence[int]) -> None:
    """The work of the process beside ours, until the other end of ``line`` is closed."""
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
    """The signals sent to this process alone, and whether the one beside stopped the program."""
    ours, theirs, stopped = list(first), list[Sent](), False
    while True:
        # Sending to a group holds a lock of the kernel, which this call waits for; it changes
        # nothing else.
        with contextlib.suppress(OSError):
            os.setpgid(0, os.getpgrp())
        new_theirs, has_stopped = beside.ask()
        new_ours = _pending(forwarded())
        ours += new_ours
        theirs += new_theirs
        stopped |= has_stopped
        if not new_ours and not new_theirs:
            break
    counts = Counter(theirs)
    # A stop signal removes a pending SIGCONT. If the group was continued and then stopped again, we
    # may have taken our SIGCONT before, and the process beside not: the stop came last.
    if any(arrived.number in STOPPING for arrived in theirs):
        ours = [arrived for arrived in ours if arrived.number != signal.SIGCONT]
    # A signal that is not a realtime signal is delivered once, however often it was sent.
    shared = {(s.number, s.code, s.sender) for s in theirs if s.number < signal.SIGRTMIN}
    out = []
    for sent in ours:
        if counts[sent] and sent.number >= signal.SIGRTMIN:
            counts[sent] -= 1
        elif (sent.number, sent.code, sent.sender) not in shared and sent.sender != beside.pid:
            out.append(sent)
    return out, stopped


def _ignores_broken_pipes() -> bool:
    """Whether we were probably started with SIGPIPE ignored.

    Python ignores it at its own start and does not keep the earlier disposition. A shell that
    started us hands on what it ignores itself; a Python parent ignores it too, but not for its
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
    """The dispositions that a program should start with, of signals that Python or we changed."""
    pipes = signal.SIG_IGN if _ignores_broken_pipes() else signal.SIG_DFL
    ignores_children = signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
    return {
        signal.SIGPIPE: pipes,
        signal.SIGXFSZ: signal.SIG_DFL,
        signal.SIGCHLD: signal.SIG_IGN if ignores_children else signal.SIG_DFL,
    }


def inherited_descriptors() -> list[int]:
    """Descriptors from 3 on that we inherited; our own are closed by an exec."""
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
    """Close the program's descriptors: a reader waits until every process has closed them."""
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


def run_program(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    is_job: bool = True,
    meanwhile: Callable[[], None] | None = None,
) -> int:
    """Run the user's program to its end on this terminal; its exit status, 128+n for a signal.

    It is in our own process group and has the descriptors, the signal mask and the dispositions
    that we inherited. A signal that reaches this process alone is handed on; one sent to the group
    reaches the program by itself. When either is stopped, so is the other; when we are killed, so
    is it. Unless it ``is_job``, it outlives us, and our own input and output are left open.
    ``meanwhile`` is called once the program has run for ``MEANWHILE``, in a thread that no signal
    reaches. Raises ``RunFailed`` if the program cannot be started.
    """
    ours, first = os.getpid(), dispositions()
    # If SIGCHLD is ignored, the exit status of a child is lost.
    with _disposition(signal.SIGCHLD, signal.SIG_DFL):
        mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, forwarded() | {signal.SIGCHLD})
        inherited = inherited_descriptors()
        beside = _Beside(inherited)

        def begin() -> None:
            if is_job:
                die_with_parent()
                if os.getppid() != ours:  # the parent was killed meanwhile
                    os._exit(128 + signal.SIGKILL)
            for number, handler in first.items():
                signal.signal(number, handler)
            # The mask is inherited; the program must start with the one we were given.
            signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)

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
            _follow(child.pid, beside, meanwhile)
            beside.close()
            status = child.wait()
            _pending(forwarded())  # signals that were meant for the program are dropped
        finally:
            beside.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)
    return 128 - status if status < 0 else status


@contextlib.contextmanager
def _disposition(number: int, handler: signal.Handlers) -> Iterator[object]:
    """A context in which a signal has another handler."""
    handler_before = signal.getsignal(number)
    signal.signal(number, handler)
    try:
        yield handler_before
    finally:
        signal.signal(number, handler_before)


# Signals that ask a process to end, and others that would end it though meant for the program.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU)
_LATE = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO,
         *range(signal.SIGRTMIN, signal.SIGRTMAX + 1))  # fmt: skip


@contextlib.contextmanager
def instead_of_ending(do: Callable[[], None]) -> Iterator[None]:
    """A context in which the first signal that asks us to end calls ``do``, and the second ends us.

    Ignored signals stay ignored. A program started within it has the former dispositions.
    """

    def asked(number: int, frame: object) -> None:
        for ending in ENDING:
            if signal.getsignal(ending) is asked:
                signal.signal(ending, signal.SIG_DFL)
        do()

    handlers = {**dict.fromkeys(ENDING, asked), **dict.fromkeys(_LATE, lambda *_: None)}
    handlers_before = {n: signal.getsignal(n) for n in handlers}
    changed = [n for n, handler in handlers_before.items() if handler not in (signal.SIG_IGN, None)]
    try:
        for number in changed:
            signal.signal(number, handlers[number])
        yield
    finally:
        for number in changed:
            signal.signal(number, handlers_before[number])


def _follow(pid: int, beside: _Beside, meanwhile: Callable[[], None] | None) -> None:
    """Hand signals on, and stop and continue together with the program, until it has ended."""
    what = os.WEXITED | os.WSTOPPED | os.WNOHANG
    began = time.monotonic()
    while True:
        if meanwhile is not None and time.monotonic() - began >= MEANWHILE:
            # All signals are blocked here, and so they are in a thread that begins here.
            threading.Thread(target=_in_silence, args=(meanwhile,), daemon=True).start()
            meanwhile = None
        # WNOWAIT: until it is waited for, its process id is not reused.
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
        for_us, stopped = _meant_for_us(beside, sent)
        for signal_sent in for_us:
            signal_sent.pass_on(pid)
        if stopped and all(signal_sent.number != signal.SIGCONT for signal_sent in for_us):
            os.kill(pid, signal.SIGCONT)  # it was stopped because we were, and now we go on
        if changed is not None and state_of(pid) == "T":
            beside.tell("stops")
            _stop(changed.si_status)
            beside.tell("goes on")


def _in_silence(do: Callable[[], None]) -> None:
    """Call something whose failure will be told by whoever needs it."""
    with contextlib.suppress(Exception):
        do()


def _stop(number: int) -> None:
    """Stop ourselves by the signal that stopped the program, since the shell shows which it was."""
    if number not in STOPPING:
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    with _disposition(number, signal.SIG_DFL):
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
