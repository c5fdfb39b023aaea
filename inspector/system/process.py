"""The only code that starts processes: vendor tools with a time limit, and the user's program."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from inspector.base.errors import RunFailed, Stopped, ToolMissing, Unreadable


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
GLANCE_SECONDS, DRAIN_SECONDS = 0.1, 2.0


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
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=None if env is None else dict(env),
        )
    except OSError as error:
        raise ToolMissing(f"{argv[0]} cannot be started: {error.strerror or error}") from None
    until = time.monotonic() + seconds
    with child:
        _running[child] = threading.get_ident()
        try:
            while child in _running and (go_on is None or go_on()):
                # A process that the tool started may hold its pipes open.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    out, err = child.communicate(timeout=min(GLANCE_SECONDS, seconds))
                    return Finished(child.returncode, out, err)
                if time.monotonic() > until:
                    raise Unreadable(f"{argv[0]} did not finish within {seconds:.0f} s")
            raise Stopped("it was stopped before its end")
        finally:
            _running.pop(child, None)
            if child.poll() is None:
                child.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.communicate(timeout=DRAIN_SECONDS)


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
            future = waiting.popleft()  # no result is kept longer than needed
            # Some times a second: a signal that came just before Python began to wait for a lock,
            # or that another thread was given, is seen when the wait ends, and not before.
            while wait([future], GLANCE_SECONDS).not_done:
                pass
            yield future.result()
    except BaseException:
        over.set()
        pool.shutdown(wait=False, cancel_futures=True)
        while any(thread.is_alive() for thread in list(threads)):
            stop_tools({thread.ident for thread in list(threads)})  # also one that began since
            time.sleep(GLANCE_SECONDS / 10)
        raise
    finally:
        pool.shutdown(wait=True)


STOPPING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
"""Signals that stop a job."""
FROM_TERMINAL = (*STOPPING, signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH)
"""Signals that the terminal sends to the whole foreground process group."""
PRELOAD_SECONDS = 1.0
"""Seconds of a program after which there is time for something else."""
LOOK_SECONDS = 0.25
"""Seconds between two checks whether a process was stopped; only its parent is notified."""
_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _SI_KERNEL = 1, 0x80


def forwarded() -> set[int]:
    """Every signal that is forwarded: all that can be caught, except SIGCHLD."""
    never = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
    return {int(number) for number in signal.valid_signals()} - never


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
    for number in (int(name) for name in os.listdir("/proc/self/fd")):  # noqa: PTH208
        with contextlib.suppress(OSError):
            if number > 2 and os.get_inheritable(number):
                out.append(number)
    return out


def _let_go(descriptors: Sequence[int]) -> None:
    """Close the program's descriptors: a reader waits until every process has closed them."""
    for number in descriptors:
        with contextlib.suppress(OSError):
            os.close(number)
    for number in (0, 1):  # no output of ptxview waits there before the program runs
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
    preload: Callable[[], None] | None = None,
) -> int:
    """Run the user's program to its end on this terminal; its exit status, 128+n for a signal.

    The program is in our process group and has the descriptors, the signal mask and the
    dispositions that we inherited. Signals that a process sends to us are forwarded, without the
    value of ``sigqueue``; one sent to the whole group therefore reaches the program twice. Signals
    of the terminal (Ctrl-C, Ctrl-Z) reach the program by themselves. When the program is stopped,
    so are we; when we are killed, so is the program. Unless it ``is_job``, it outlives us, and our
    own input and output are left open. ``preload`` is called once the program has run for
    ``PRELOAD_SECONDS``, in a thread that no signal reaches. Raises ``RunFailed`` if the program
    cannot be started.
    """
    ours, first = os.getpid(), dispositions()
    # If SIGCHLD is ignored, the exit status of a child is lost.
    with _disposition(signal.SIGCHLD, signal.SIG_DFL):
        mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, forwarded() | {signal.SIGCHLD})
        timer = None

        def begin() -> None:
            if is_job:
                die_with_parent()
                if os.getppid() != ours:  # the parent was killed
                    os._exit(128 + signal.SIGKILL)
            for number, handler in first.items():
                signal.signal(number, handler)
            # The mask is inherited; the program must start with the one we were given.
            signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)

        try:
            inherited = inherited_descriptors()
            try:
                child = subprocess.Popen(
                    list(argv),
                    env=dict(env),
                    close_fds=False,
                    restore_signals=False,
                    preexec_fn=begin,
                )
            except OSError as error:
                raise RunFailed(
                    f"{argv[0]} cannot be started: {error.strerror or error}",
                    "Check the path, or name the interpreter with --python.",
                ) from None
            if preload is not None:
                # All signals are blocked here, and so they are in a thread that begins here.
                timer = threading.Timer(PRELOAD_SECONDS, _in_silence, (preload,))
                timer.daemon = True
                timer.start()
            if is_job:
                _let_go(inherited)
            status = child.returncode = _follow(child.pid)
            while signal.sigtimedwait(forwarded(), 0):  # meant for the program, which has ended
                pass
        finally:
            if timer is not None:
                timer.cancel()
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
_LATE = (
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGIO,
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)


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


def _follow(pid: int) -> int:
    """Forward signals, and stop together with the program, until it ends; its status, -n for a
    signal."""
    while True:
        waited, how = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if waited and not os.WIFSTOPPED(how):
            return os.waitstatus_to_exitcode(how)
        if waited and state_of(pid) == "T":  # else it was continued
            _stop(os.WSTOPSIG(how))
        sent = signal.sigwaitinfo(forwarded() | {signal.SIGCHLD})
        if sent.si_signo == signal.SIGCONT:
            # `fg` continues the whole group.
            forward = state_of(pid) == "T"
        else:
            from_terminal = sent.si_code == _SI_KERNEL and sent.si_signo in FROM_TERMINAL
            forward = sent.si_signo != signal.SIGCHLD and not from_terminal and sent.si_pid != pid
        if forward:
            os.kill(pid, sent.si_signo)


def _stop(number: int) -> None:
    """Stop ourselves as the program was stopped, for the shell that waits for us.

    A group without such a shell is not stopped: the kernel then discards the signal, which it would
    not do with SIGSTOP, and continuing the program alone needs no knowledge of us.
    """
    number = number if number in STOPPING else signal.SIGTSTP
    with _disposition(number, signal.SIG_DFL):
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})


def _in_silence(do: Callable[[], None]) -> None:
    """Call a function and ignore its failure, which a later use reports."""
    with contextlib.suppress(Exception):
        do()
