"""Run a program and record every kernel that it makes.

The program keeps its input, output, arguments, exit status and signals. Without a GPU it is run
for --target, on an emulated device, and its kernels are compiled for that. On a terminal the
interface opens at once and fills while the program runs; a program that asks for input or draws
itself gets the terminal until it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from inspector.base.errors import Exit, PtxviewError, RunFailed, ended_by
from inspector.base.model import Recording
from inspector.base.names import words
from inspector.base.units import plural
from inspector.commands import common
from inspector.commands.common import (
    amount,
    flag,
    option,
    reader_of,
    say,
    takes,
    takes_program,
)
from inspector.commands.open import browse, on_terminal
from inspector.sources.running import Follower, Run, RunOutcome, RunRequest, load_the_rest
from inspector.sources.running import run as record
from inspector.system import faults, files, printing
from inspector.system.process import ENDING, STOPPING, WANTS_TERMINAL, PtyProcess, forwarded
from inspector.system.toolchain import gpu_present
from inspector.tui.program.live import Choice, Live, ProgramState

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

# Seconds for all times of a run, for one time, and after which a launch is given up.
TIME_BUDGET = 120
TIME_SECONDS = 1.0
TIME_LIMIT = 30.0
# Of so many variants at most hints are counted after a run. To begin with more takes the better
# part of a second, for which nobody who runs a program has asked, and the prompt waits.
MAX_COUNTED_VARIANTS = 8
# ptxview's options with a value; the program begins at the first word that is not an option.
VALUED = {"run": words("-o --out --target --python --devices --values --value-seconds")}


INPUT_BYTES = 64 << 20
"""Bytes of tensors that are kept of a run, unless the user says how many."""
EMULATED_TENSOR_BYTES = 1 << 20
"""Bytes of the largest tensor that is kept on the emulated device, unless the user asks for all."""

HANG_UP_SECONDS = 60.0
"""In which a program whose terminal is gone may end, and its recording be completed."""

STOP_SECONDS = 0.5
"""Within which we are stopped, once we have asked to be."""

DRAIN_SECONDS = 0.5
"""In which the last of the output must come once the program has ended."""


# What a terminal sends to all that run on it; what else is sent is the program's alone.
TO_ALL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
# Faults are our own, where they are faults; the rest is of stopping, going on and window sizes.
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
_OURS = {*_FAULTS, signal.SIGTRAP, signal.SIGSYS, signal.SIGCONT, signal.SIGWINCH, *STOPPING}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``run``, all of them before the program."""
    takes_program(parser)
    takes(
        parser,
        {
            "--target": option("sm_90", "run on an emulated device (default without a GPU)"),
            "--no-ranges": flag("do not read the value range of integer tensors"),
            "--no-driver": flag("on a GPU, record known compilers alone, not every launch"),
            "--operators": flag("on a GPU, the ATen operator of every launch (10 µs each)"),
            "--inputs": option(
                "BYTES",
                "keep the inputs of first calls, so many bytes in all (64 MiB)",
                nargs="?",
                const=INPUT_BYTES,
                type=amount,
            ),
            "--time": flag(f"then time the recorded calls, for {TIME_BUDGET} s at most"),
            "--no-tui": flag("print the table of kernels in place of the interface"),
        },
    )
    ways = ("budget", "all", "ptx")
    takes(
        parser.add_argument_group("the emulated device"),
        {
            "--devices": option("N", "number of emulated devices (1)", type=int),
            "--values": option(None, "launches to compute; ptx: graphs by kernels", choices=ways),
            "--value-seconds": option("S", "budget of one launch in seconds (20)", type=float),
        },
    )


ELF = b"\x7fELF"
"""What a compiled program begins with on Linux; its parser would be waited for."""


def request_of(
    command: str,
    kind: str,
    words: list[str],
    args: argparse.Namespace,
    environment: tuple[tuple[str, str], ...],
) -> RunRequest:
    """The run of a program that ``split_program`` told from our options, for one of our commands.

    Raises ``RunFailed`` if no program is named, or if ``--target`` is not one.
    """
    if not words:
        raise RunFailed(
            "there is nothing to run", f"ptxview {command} SCRIPT, -m MODULE, or -- COMMAND"
        )
    if kind == "script" and _is_machine_code(words[0]):
        kind, words = "command", [str(Path(words[0]).absolute()), *words[1:]]
    target = getattr(args, "target", None)
    if target is not None:
        # Imported here: most programs have no --target, and would wait for the tables.
        from inspector.reader.tables import devices

        if not re.fullmatch(r"sm_\d{2,3}[af]?", target):
            raise RunFailed(f"{target} is not a target", "A target is written like sm_90.")
        if target.rstrip("af") not in devices():
            targets = ", ".join(devices())
            raise RunFailed(f"no device is known of {target}", f"Known are: {targets}.")
    return RunRequest(
        kind=kind,
        words=tuple(words),
        out=Path(args.out) if args.out else None,
        target=target,
        python=args.python,
        environment=environment,
        driver=not getattr(args, "no_driver", False),
    )


def _is_machine_code(path: str) -> bool:
    """Whether a file is a compiled program, such as nvcc's."""
    try:
        return files.part(Path(path), 0, len(ELF)) == ELF
    except PtxviewError:
        return False


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Record a run; the program's own exit status."""
    our_words, kind, words = common.split_program(_with_size(argv), VALUED["run"])
    try:
        args = parser.parse_args(our_words)
    except SystemExit as stop:
        return Exit.OK if stop.code in (0, None) else Exit.RUN_FAILED
    request = request_of("run", kind, words, args, emulation(args))
    if on_terminal() and not args.no_tui and not args.time:
        return _watched(request)
    outcome = record(request, say, _load_the_rest)
    if outcome.recording is not None or outcome.path.exists():  # else it has been said
        with faults.after_program():
            printing.narrate(summary(outcome))
            if outcome.recording is not None:
                # An interpreter may be the command that the user typed.
                typed = kind == "command" and Path(words[0]).name.startswith("python")
                python = args.python or (words[0] if typed else None)
                _print_recorded(outcome.recording, outcome.path, args.time, python)
    return outcome.status


def _with_size(argv: list[str]) -> list[str]:
    """The words with ``--inputs 64e6`` as one word: without a number, the next is the program."""
    out: list[str] = []
    for word in argv:
        is_size = out[-1:] == ["--inputs"] and re.fullmatch(r"\d+(\.\d+)?(e\d+)?", word)
        if is_size:
            out[-1] = f"--inputs={word}"
        else:
            out.append(word)
    return out


def _print_recorded(rec: Recording, path: Path, timed: bool, python: str | None) -> None:
    """Print what was recorded, if anything was; ``timed``: and take times by ``python``."""
    if rec.kernels or rec.graphs or rec.problems or timed:
        reader = reader_of(rec)
        _print(reader)
        if timed:
            _times(reader, path, python)


def _load_the_rest() -> None:
    """Import what the end of a run needs, while the program runs."""
    load_the_rest()
    import inspector.commands.list
    import inspector.measure.ncu.attach  # noqa: F401


def _print(reader: Reader) -> None:
    """What was recorded, on standard error."""
    # Imported here: until then the program would wait for it, and many make no kernels.
    from inspector.commands.list import print_kernels
    from inspector.reader.summaries import COUNTING_SECONDS
    from inspector.render import tables

    rec = reader.recording
    err = printing.err()
    if rec.kernels:
        seconds = 0.0 if len(rec.variants()) > MAX_COUNTED_VARIANTS else COUNTING_SECONDS
        print_kernels(reader, err, seconds=seconds)
    tables.graphs(rec, err)
    tables.problems(rec, err)


def _times(reader: Reader, path: Path, python: str | None) -> None:
    """Take the times of all calls that were just recorded, keep them and print them.

    A failure costs a line on standard error: the status is the program's.
    """
    # Imported here: most runs are not timed.
    from inspector.commands.time import keep, print_times
    from inspector.measure.time import take
    from inspector.measure.time.take import BenchmarkOptions

    rec = reader.recording
    wish = BenchmarkOptions(
        seconds=TIME_SECONDS, limit=TIME_LIMIT, calls=sys.maxsize, python=python, budget=TIME_BUDGET
    )
    try:
        prepared = take.prepare(reader, path, rec.variants(), wish, rec.calls)
        session = take.take(reader, path, prepared, wish, say)
    except (PtxviewError, OSError) as error:
        why = error.message if isinstance(error, PtxviewError) else str(error)
        say(f"no times: {why}")
        return
    except KeyboardInterrupt:
        say("interrupted: no times are kept")
        return
    keep(path, session)
    print_times(session, printing.err())
    for sentence in prepared.plan.left_out:
        printing.narrate(f"left out: {sentence}")


def _watched(request: RunRequest) -> int:
    """Run beneath the interface; the program's own exit status.

    A program that needs the terminal gets it until it ends; then the interface comes back.
    """
    session = ProgramSession(request)
    live = session.live
    with session.signals():
        with faults.after_program():
            browse(lambda: (session.reader(), live), session.folder.name, live)
        # Left by hand, by the program's wish, or by a fault: the program goes on or is ended.
        if live.running and live.choice is not Choice.END:
            with faults.after_program():
                session.relay()
        outcome = session.finish()
    with faults.after_program():
        if outcome is None:
            raise RunFailed("the recording could not be completed", "What it holds can be opened.")
        printing.narrate(summary(outcome))
        if live.choice is Choice.TERMINAL and outcome.recording is not None:
            final_reader = reader_of(outcome.recording)
            browse(lambda: (final_reader, None), outcome.path.name)
    return Exit.RUN_FAILED if live.status is None else live.status


def emulation(args: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """Settings of the emulated device and of the probes, as the environment carries them."""
    variables = {
        "PTXVIEW_DEVICES": args.devices,
        "PTXVIEW_VALUES": args.values,
        "PTXVIEW_VALUE_SECONDS": args.value_seconds,
        "PTXVIEW_RANGES": "0" if args.no_ranges else None,
        "PTXVIEW_OPERATORS": "1" if args.operators else None,
    }
    inputs = args.inputs
    if inputs is None and not gpu_present():
        inputs = INPUT_BYTES
        variables["PTXVIEW_CONTENT"] = EMULATED_TENSOR_BYTES
    if inputs:
        variables["PTXVIEW_CONTENTS"] = inputs
    return tuple((k, str(v)) for k, v in variables.items() if v is not None)


def summary(outcome: RunOutcome) -> str:
    """One line: what was captured, where, how long it took."""
    rec = outcome.recording
    text = "nothing"
    if rec is not None and (rec.kernels or rec.graphs):
        from inspector.render import tables

        text = tables.heading(rec)
    elif rec is not None:
        text = "the program made no kernels"
        if rec.mode == "gpu":
            text = "no process that was looked into launched a kernel"
        if any(process.why == "none" for process in rec.unwatched):
            text = "nothing was recorded: no interpreter of Python could be watched"
        elif rec.unwatched:
            text += ", as much as could be watched"
        if rec.uncaptured:
            makers = ", ".join(dict.fromkeys(kernel.compiler for kernel in rec.uncaptured))
            count = plural(len(rec.uncaptured), "kernel")
            text = f"no kernel was captured, of {count} that the program made with {makers}"
        if ended := ended_by(outcome.status):
            text += f"; it was {ended}"
    took = f"{outcome.seconds:.1f} s, and {outcome.completion_seconds:.1f} s after it"
    return f"ptxview: {text} → {outcome.path} ({took})"


class ProgramSession:
    """A program that runs, and the threads that tell ``live`` of it."""

    def __init__(self, request: RunRequest) -> None:
        """Start the program. Raises ``RunFailed`` where that cannot be."""
        self._run = Run(request)
        self.folder = self._run.folder
        size = os.get_terminal_size(printing.descriptor())
        try:
            self._program = PtyProcess.start(self._run.argv, self._run.env, size)
        except PtxviewError:
            self._run.abandon()
            raise
        self._follower: Follower | None = Follower(self._run.folder)
        self.live = Live(self._look, partial(self._program.order, "signal"))
        self.outcome: RunOutcome | None = None
        self._relays = False
        self._cooked: list[Any] = []
        self._goes_on = threading.Event()
        # Until the interface has gone, what we say is among the program's output.
        self._say: Callable[[str], None] = lambda text: self.live.text.feed(
            f"ptxview: {text}\r\n".encode("utf-8", "surrogateescape")
        )
        if (elsewhere := self._run.elsewhere()) is not None:
            self._say(elsewhere)
        self._reading = threading.Thread(target=self._read, daemon=True, name="output")
        self._attending = threading.Thread(target=self._attend, daemon=True, name="program")
        self._reading.start()
        self._attending.start()

    def reader(self) -> Reader:
        """A reader of what is recorded so far."""
        from inspector.sources.opening import open_path

        return reader_of(open_path(self.folder))

    def _look(self) -> Reader | None:
        if self._follower is None:
            return None
        if self.outcome is not None and not self._attending.is_alive():
            self._follower = None  # nothing more is to come
            return None if self.outcome.recording is None else reader_of(self.outcome.recording)
        newer = self._follower.look()
        return None if newer is None else reader_of(newer)

    # Threads

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._program.master, 1 << 16)
            except OSError:
                break
            if not data:
                break
            self.live.feed(data)
            if self._relays:
                self._print()

    def _attend(self) -> None:
        status = 128 + signal.SIGKILL  # of the session's leader, if no event says more
        for event, value in self._program.events():
            if event == "stopped" and value in WANTS_TERMINAL:
                self.live.wants_terminal()
            elif event == "stopped" and self._relays:
                self._stop(int(value))
            elif event == "killed":
                self.live.killed_by = int(value)
            elif event == "ended":
                status = int(value)
        self._reading.join(DRAIN_SECONDS)
        self.live.status = status
        self.live.ended = time.monotonic()
        self.live.state = ProgramState.FINISHING
        with contextlib.suppress(Exception):
            self.outcome = self._run.ended(status, lambda text: self._say(text))
        self.live.state = ProgramState.ENDED

    def _stop(self, number: int) -> None:
        """The program was stopped, by Ctrl-Z as a rule: so are we, and go on together.

        Ctrl-Z stops all that was started with us, too, such as a script that waits for us.
        """
        fileno = sys.stdin.fileno()
        self._goes_on.clear()
        self._program.order("follows", 1)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fileno, termios.TCSADRAIN, self._cooked)
        # A group that nobody could let go on again is not stopped at all; nor is the program then.
        if number == signal.SIGTSTP:
            os.killpg(0, number)
        else:
            os.kill(os.getpid(), number)
        self._goes_on.wait(STOP_SECONDS)
        with contextlib.suppress(OSError, termios.error):
            tty.setraw(fileno, termios.TCSANOW)
            self._program.resize(*os.get_terminal_size(printing.descriptor()))
        self._program.order("follows", 0)
        self._program.order("foreground")

    def _continued(self, number: int, frame: FrameType | None) -> None:
        self._goes_on.set()

    # The real terminal

    def _print(self) -> None:
        data = self.live.printed()
        if data:
            with contextlib.suppress(OSError):
                printing.relay(data)

    def relay(self) -> None:
        """Give the program the real terminal until it ends."""
        # The interface had these for itself, and is gone.
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.signal(signal.SIGCONT, self._continued)
        fileno = sys.stdin.fileno()
        self._cooked = termios.tcgetattr(fileno)
        # Key by key; what the program writes has its line ends already.
        tty.setraw(fileno, termios.TCSANOW)
        try:
            self._program.resize(*os.get_terminal_size(printing.descriptor()))
            self._print()
            self._relays = True
            self._program.order("foreground")
            while self.live.running:
                ready, _, _ = select.select([fileno], [], [], 0.05)
                if ready:
                    typed = os.read(fileno, 1 << 14)
                    with contextlib.suppress(OSError):
                        os.write(self._program.master, typed or b"\x04")
                    if not typed:
                        break
            while self.live.running and self._attending.is_alive():
                self._attending.join(0.05)
            self._print()
        finally:
            termios.tcsetattr(fileno, termios.TCSADRAIN, self._cooked)

    def finish(self) -> RunOutcome | None:
        """Wait until the program has ended and its recording is complete; None if that failed."""
        self._say = say
        while self._attending.is_alive():
            self._attending.join(0.1)
        self._print()
        self._program.close()
        return self.outcome

    def _hung_up(self) -> None:
        """The terminal is gone: nobody can leave the interface, and there is nothing to restore."""
        self._attending.join(HANG_UP_SECONDS)
        os._exit(128 + signal.SIGHUP)

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Hand on what is sent to us and meant for the program."""
        hurried: list[int] = []

        def hand_on(number: int, frame: FrameType | None) -> None:
            gone = number == signal.SIGHUP and not os.isatty(sys.stdin.fileno())
            if self.live.running:
                self._program.order("signal" if number in TO_ALL else "kill", number)
            elif number not in ENDING:  # it was meant for the program, which has ended
                pass
            elif self.live.state is ProgramState.FINISHING and not hurried:
                hurried.append(number)
                self._run.hurry()
            elif number != signal.SIGHUP or not gone:
                signal.signal(number, signal.SIG_DFL)  # it is meant for us alone
                os.kill(os.getpid(), number)
            if gone:
                threading.Thread(target=self._hung_up, daemon=True, name="hung up").start()

        def resized(number: int, frame: FrameType | None) -> None:
            with contextlib.suppress(OSError):
                self._program.resize(*os.get_terminal_size(printing.descriptor()))

        handlers: dict[int, Callable[[int, FrameType | None], None]]
        handlers = dict.fromkeys(forwarded() - _OURS, hand_on)
        handlers |= {signal.SIGWINCH: resized, signal.SIGCONT: self._continued}
        previous = {number: signal.signal(number, do) for number, do in handlers.items()}
        try:
            yield
        finally:
            for number, do in previous.items():
                signal.signal(number, do)
