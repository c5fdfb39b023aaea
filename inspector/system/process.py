"""The only code that starts processes: vendor tools with a time limit, and the user's program, on
the user's terminal or in the background of a new one.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from inspector.base.errors import RunFailed, Stopped, ToolMissing, Unreadable


class Finished(Struct, frozen=True):
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
    return len(os.sched_getaffinity(0))


def run_tool(
    argv: Sequence[str | Path],
    *,
    seconds: float = 120,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    go_on: Callable[[], bool] | None = None,
    with_children: bool = False,
) -> Finished:
    """Run a tool to its end without a shell; its input is empty.

    ``go_on`` is asked some times a second; once it says no, the tool is killed. ``with_children``
    has the processes that it started end with it, however it ends. Raises
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
            process_group=0 if with_children else None,
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
            if with_children:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            if child.poll() is None:
                child.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.communicate(timeout=DRAIN_SECONDS)


_running: dict[subprocess.Popen[bytes], int] = {}  # by which thread
Item = TypeVar("Item")
Result = TypeVar("Result")


def stop_tools(threads: Container[int | None] | None = None) -> None:
    """Stop all running tools, or those of threads, as if their ``go_on`` said no."""
    for child, thread in list(_running.items()):
        if threads is None or thread in threads:
            _running.pop(child, None)


def side_by_side(
    run: Callable[[Item], Result], items: Sequence[Item]
) -> Generator[Result, None, None]:
    """What ``run`` makes of each item, in their order, as many at once as there are cores.

    Raises what ``run`` raises. Where an error, a signal or who no longer asks ends it early, the
    tools that it runs are stopped, nothing further is begun, and it ends when all are at rest.
    """
    if not items:
        return
    threads: set[threading.Thread] = set()
    over = threading.Event()

    def run_item(item: Item) -> Result:
        threads.add(threading.current_thread())
        if over.is_set():  # a signal may come while the first begin
            raise Stopped("it was stopped before its beginning")
        return run(item)

    pool = ThreadPoolExecutor(max_workers=min(cores(), len(items)))
    try:
        waiting = deque([pool.submit(run_item, item) for item in items])
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


STOPPING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)  # signals that stop a job
FROM_TERMINAL = (*STOPPING, signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH)
"""Signals that the terminal sends to the whole foreground process group."""
PRELOAD_SECONDS = 1.0  # seconds of a program after which there is time for something else
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


def _begin(parent: int | None, first: Mapping[int, signal.Handlers]) -> None:
    """What a program's process does before its exec: it takes these dispositions and, if there is
    a parent, ends with it, also where that has been killed by now."""
    if parent is not None:
        die_with_parent()
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)
    for number, handler in first.items():
        signal.signal(number, handler)


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


def _close_descriptors(descriptors: Sequence[int]) -> None:
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
    ptxview_pid, first = os.getpid(), dispositions()
    # If SIGCHLD is ignored, the exit status of a child is lost.
    with _disposition(signal.SIGCHLD, signal.SIG_DFL):
        mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, forwarded() | {signal.SIGCHLD})
        timer = threading.Timer(PRELOAD_SECONDS, _ignoring_errors, (preload,))
        timer.daemon = True

        def begin() -> None:
            _begin(ptxview_pid if is_job else None, first)
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
                raise _not_started(argv, error.strerror or error) from None
            if preload is not None:
                # All signals are blocked here, and so they are in a thread that begins here.
                timer.start()
            if is_job:
                _close_descriptors(inherited)
            status = child.returncode = _follow(child.pid)
            while signal.sigtimedwait(forwarded(), 0):  # meant for the program, which has ended
                pass
        finally:
            timer.cancel()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)
    return 128 - status if status < 0 else status


def _not_started(argv: Sequence[str], why: object) -> RunFailed:
    return RunFailed(
        f"{argv[0]} cannot be started: {why}",
        "Check the path, or name the interpreter with --python.",
    )


@contextlib.contextmanager
def _disposition(number: int, handler: signal.Handlers) -> Iterator[None]:
    handler_before = signal.signal(number, handler)
    try:
        yield
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

    def handle(number: int, frame: object) -> None:
        for ending in ENDING:
            if signal.getsignal(ending) is handle:
                signal.signal(ending, signal.SIG_DFL)
        do()

    handlers = {**dict.fromkeys(ENDING, handle), **dict.fromkeys(_LATE, lambda *_: None)}
    handlers_before = {n: signal.getsignal(n) for n in handlers}
    changed = [n for n, handler in handlers_before.items() if handler not in (signal.SIG_IGN, None)]
    try:
        for number in changed:
            signal.signal(number, handlers[number])
        yield
    finally:
        for number in changed:
            signal.signal(number, handlers_before[number])


TICK_SECONDS = 0.2
"""Seconds between two looks at a program whose signal another thread has taken and discarded."""


def _follow(pid: int) -> int:
    """Forward signals and stop with the program until it ends; its status, -n for a signal."""
    over, main_thread = threading.Event(), threading.get_ident()

    def tick() -> None:
        while not over.wait(TICK_SECONDS):
            signal.pthread_kill(main_thread, signal.SIGCHLD)

    # sigtimedwait is no substitute: if a stop outlasts its timeout, CPython 3.11 returns a signal
    # that was never received.
    threading.Thread(target=tick, daemon=True, name="tick").start()
    try:
        while True:
            was_stopped = state_of(pid) == "T"
            waited, how = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if waited and not os.WIFSTOPPED(how):
                return os.waitstatus_to_exitcode(how)
            if waited and state_of(pid) == "T":  # else it was continued
                was_stopped = True
                _stop(os.WSTOPSIG(how))
            sent = signal.sigwaitinfo(forwarded() | {signal.SIGCHLD})
            if sent.si_signo == signal.SIGCONT:
                # `fg` continues the whole group; a program that stops again right after it is
                # left stopped.
                forward = was_stopped and state_of(pid) == "T"
            else:
                from_terminal = sent.si_code == _SI_KERNEL and sent.si_signo in FROM_TERMINAL
                from_program = sent.si_signo == signal.SIGCHLD or sent.si_pid == pid
                forward = not from_program and not from_terminal
            if forward:
                with contextlib.suppress(OSError):  # a signal that may not be sent ends nobody
                    os.kill(pid, sent.si_signo)
    finally:
        over.set()


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


def _ignoring_errors(do: Callable[[], None]) -> None:
    """Call a function and ignore its failure, which a later use reports."""
    with contextlib.suppress(Exception):
        do()


WANTS_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)
"""Signals that stop a program in the background when it reads or sets up its terminal."""


class PtyProcess:
    """A program in the background of a new terminal, as after ``program &``.

    Its output is read from ``master``. As soon as it reads its terminal (``input()``) or changes
    the terminal's mode (curses, getpass, readline), the kernel stops it, which ``events`` tells,
    and it waits until ``foreground`` lets it. A small process between this one and the
    program, the leader of that terminal's session, is what makes this possible; it starts nothing
    else, and ends with the program. When this process is stopped, so is the program, and when it is
    killed. Call ``start`` before there are threads.
    """

    def __init__(self, master: int, control: socket.socket) -> None:
        self.master, self._control, self._lines = master, control, control.makefile("rb")

    @classmethod
    def start(
        cls, argv: Sequence[str], env: Mapping[str, str], size: tuple[int, int]
    ) -> PtyProcess:
        """Start a program on a terminal of (columns, rows). Raises ``RunFailed``."""
        control, leader_control = socket.socketpair()
        master, slave = os.openpty()
        with contextlib.suppress(termios.error):  # without a terminal: the kernel's settings
            termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(0))
        process = cls(master, control)
        process.resize(*size)
        inherited, ptxview_pid = inherited_descriptors(), os.getpid()
        if os.fork() == 0:
            try:
                process._lines.close()  # if it stayed open, our end would never be noticed
                control.close()
                os.close(master)
                _lead(argv, env, slave, leader_control, inherited, ptxview_pid)
            finally:
                os._exit(0)
        for number in inherited:  # only the program keeps them open
            os.close(number)
        leader_control.close()
        os.close(slave)
        first_event = next(process.events(), None)
        if first_event is None or first_event[0] != "began":
            process.close()
            reason = "nobody knows why" if first_event is None else first_event[1]
            raise _not_started(argv, reason)
        return process

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.order("resized")

    def events(self) -> Iterator[tuple[str, int | str]]:
        """``("stopped", signal)`` any number of times, ``("killed", signal)`` after a signal,
        then ``("ended", status)``, 128+n for a signal. Blocks."""
        try:
            for line in self._lines:
                state, value = json.loads(line)
                yield state, value
        except (OSError, ValueError):  # it was closed
            return

    def order(self, command: str, value: int = 0) -> None:
        """Have the leader do something.

        ``foreground`` gives the program its terminal and lets it go on where it was stopped;
        ``follows`` says whether this process stops because the program has; ``signal`` sends one to
        the program's group, ``kill`` to the program alone.
        """
        _send(self._control, command, value)

    def close(self) -> None:
        """Close the terminal; a program that still runs is killed."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # a thread may be waiting for events
        self._control.close()
        os.close(self.master)


def _send(control: socket.socket, kind: str, value: int | str) -> None:
    with contextlib.suppress(OSError):
        control.sendall(json.dumps([kind, value]).encode() + b"\n")


def _lead(
    argv: Sequence[str],
    env: Mapping[str, str],
    slave: int,
    control: socket.socket,
    inherited: Sequence[int],
    ptxview_pid: int,
) -> None:
    """The leader of a session on ``slave``: starts the program there and reports its state.

    ``control`` carries one JSON pair a line in both directions.
    """
    send = partial(_send, control)
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    awake, waker = os.pipe()
    os.set_blocking(waker, False)

    # As a shell does for a job: our parent may ignore these, as tmux does, and a program that
    # ignores them would read an end of input instead of being stopped.
    stops = dict.fromkeys(map(int, (*WANTS_TERMINAL, signal.SIGTSTP)), signal.SIG_DFL)
    first, leader = dispositions() | stops, os.getpid()
    signal.signal(signal.SIGCHLD, lambda *_: None)  # if ignored, we would miss the program's end

    def ready() -> None:
        _begin(leader, first)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WANTS_TERMINAL)

    try:
        child = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            process_group=0,
            preexec_fn=ready,
            close_fds=False,
            restore_signals=False,
        )
    except OSError as error:
        send("failed", error.strerror or str(error))
        return
    # The terminal that ptxview itself runs on is not ours to keep open.
    for descriptor in (0, 1, 2):
        os.dup2(slave, descriptor)
    for descriptor in inherited:
        os.close(descriptor)
    for number in (signal.SIGHUP, signal.SIGTERM, *WANTS_TERMINAL):
        signal.signal(number, lambda *_: None)
    # Blocked, since taking the terminal back from the foreground group would stop us.
    signal.pthread_sigmask(signal.SIG_BLOCK, WANTS_TERMINAL)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    send("began", child.pid)
    code = _serve_orders(child.pid, slave, control, awake, send, ptxview_pid)
    # When this leader ends, the foreground group gets a SIGHUP: make that our own group.
    with contextlib.suppress(OSError):
        os.tcsetpgrp(slave, os.getpgrp())
    if code < 0:
        send("killed", -code)
    send("ended", 128 - code if code < 0 else code)


def _serve_orders(
    pid: int,
    slave: int,
    control: socket.socket,
    awake: int,
    report: Callable[[str, int], None],
    ptxview_pid: int,
) -> int:
    """Carry out orders from ``control`` until the program ends; its status, -n for a signal."""
    open_controls: list[socket.socket] = [control]
    follows = False  # whether ptxview is stopped because the program is
    stopped_by_us = False  # it was stopped because we were
    partial_line = b""

    def send(number: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(pid, number)

    while True:
        waited, wait_status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if waited and os.WIFSTOPPED(wait_status):
            if not stopped_by_us:
                report("stopped", os.WSTOPSIG(wait_status))
        elif waited:
            return os.waitstatus_to_exitcode(wait_status)
        waiting: list[int | socket.socket] = [awake, *open_controls]
        stopped = state_of(ptxview_pid) == "T"
        alone = stopped and not stopped_by_us and not follows
        if alone and state_of(pid) not in ("T", "Z"):
            stopped_by_us = True
            os.kill(pid, signal.SIGSTOP)
        elif stopped_by_us and not stopped:
            stopped_by_us = False
            os.kill(pid, signal.SIGCONT)
        ready, _, _ = select.select(waiting, [], [], LOOK_SECONDS)
        if awake in ready:
            os.read(awake, 4096)
        if control in ready:
            data = control.recv(4096)
            if not data:
                open_controls.clear()  # ptxview is gone, and nobody reads the terminal any more
                send(signal.SIGHUP)
                send(signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)
            *lines, partial_line = (partial_line + data).split(b"\n")
            for order, value in map(json.loads, lines):
                if order == "follows":
                    follows = bool(value)
                elif order == "kill":
                    os.kill(pid, value)
                elif order == "foreground":
                    os.tcsetpgrp(slave, pid)
                    send(signal.SIGCONT)
                elif order == "signal":
                    send(value)
                # If the program has the terminal, the kernel has sent it a change of size.
                elif os.tcgetpgrp(slave) != pid:
                    send(signal.SIGWINCH)
