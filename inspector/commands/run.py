"""Run a program and record every kernel that it makes.

The program keeps its input, output, arguments, exit status and signals. Without a GPU it is run
for --target, on an emulated device, and its kernels are compiled for that. On a terminal the
interface opens at once and fills while the program runs; a program that asks for input or draws
itself gets the terminal until it ends.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from inspector.base.errors import Exit, PtxviewError, RunFailed
from inspector.base.text import ended_by, plural, words
from inspector.commands.common import reader_of, split_program
from inspector.commands.open import browse, on_terminal
from inspector.sources.running import RunOutcome, RunRequest, load_the_rest
from inspector.sources.running import run as record
from inspector.system import printing
from inspector.system.printing import narrate

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

# Seconds for all times of a run, for one time, and after which a launch is given up.
TIME_BUDGET, TIME_SECONDS, TIME_LIMIT = 120, 1.0, 30.0
# Of so many variants at most hints are counted after a run. To begin with more takes the better
# part of a second, for which nobody who runs a program has asked, and the prompt waits.
MAX_COUNTED_VARIANTS = 8
# ptxview's options with a value; the program begins at the first word that is not an option.
VALUED = words("-o --out --target --python --devices --values --value-seconds")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``run``, all of them before the program."""
    parser.add_argument(
        "-o",
        "--out",
        metavar="PATH",
        help="write the recording to this folder or x.ptxview (default: your state folder)",
    )
    parser.add_argument(
        "--target",
        metavar="sm_90",
        help="compile for this architecture on an emulated device (default without a GPU: sm_90)",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="interpreter of the program (default: ptxview's own if it has torch, the activated "
        "environment's, python3)",
    )
    parser.add_argument(
        "--no-ranges",
        action="store_true",
        help="do not read the value range of integer tensors (one device wait for each distinct "
        "call)",
    )
    parser.add_argument(
        "--no-driver",
        action="store_true",
        help="on a GPU, record known compilers alone, not every launch of the CUDA driver",
    )
    parser.add_argument(
        "--operators",
        action="store_true",
        help="on a GPU, attribute every launch to its ATen operator, about 10 µs a launch "
        "(default: first launches)",
    )
    emulated = parser.add_argument_group("the emulated device")
    emulated.add_argument("--devices", type=int, metavar="N", help="number of emulated devices (1)")
    emulated.add_argument(
        "--values",
        choices=("budget", "all", "ptx"),
        help="launches to compute: within the budget (budget), all (all), or within it with "
        "graphs as their generated kernels (ptx)",
    )
    emulated.add_argument(
        "--value-seconds",
        type=float,
        metavar="S",
        help="budget of one launch in seconds, each a fixed amount of work (20)",
    )
    parser.add_argument(
        "--time",
        action="store_true",
        help=f"when the program has ended, run the recorded calls again and take their time, for "
        f"{TIME_BUDGET} s at most; on a GPU, and without the terminal interface",
    )
    parser.add_argument(
        "--no-tui",
        action="store_true",
        help="print the table of kernels on standard error in place of the interface",
    )


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
    target = getattr(args, "target", None)
    if target is not None and not re.fullmatch(r"sm_\d{2,3}[af]?", target):
        raise RunFailed(f"{target} is not a target", "A target is written like sm_90.")
    if target is not None:
        # Imported here: most programs have no --target, and would wait for the tables.
        from inspector.reader.tables import devices

        if target.rstrip("af") not in devices():
            known = ", ".join(devices())
            raise RunFailed(f"no device is known of {target}", f"Known are: {known}.")
    out = Path(args.out) if args.out else None
    return RunRequest(
        kind=kind,
        words=tuple(words),
        out=out,
        target=target,
        python=args.python,
        environment=environment,
        driver=not getattr(args, "no_driver", False),
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Record a run; the program's own exit status."""
    own, kind, words = split_program(argv, VALUED)
    try:
        args = parser.parse_args(own)
    except SystemExit as stop:
        return Exit.OK if stop.code in (0, None) else Exit.RUN_FAILED
    request = request_of("run", kind, words, args, emulation(args))
    if on_terminal() and not args.no_tui and not args.time:
        return _watched(request)
    outcome = record(request, lambda text: narrate(f"ptxview: {text}"), _load_the_rest)
    if outcome.recording is None and not outcome.path.exists():
        return outcome.status  # which has been said
    narrate(summary(outcome))
    rec = outcome.recording
    if rec is not None and (rec.kernels or rec.graphs or rec.problems or args.time):
        reader = reader_of(rec)
        _print(reader)
        if args.time:
            _times(reader, outcome.path, args.python or _typed(request))
    return outcome.status


def _load_the_rest() -> None:
    """Import what the end of a run needs, while the program runs."""
    load_the_rest()
    import inspector.commands.list
    import inspector.measure.ncu.attach  # noqa: F401


def _print(reader: Reader) -> None:
    """What was recorded, on standard error."""
    # Imported here: until then the program would wait for it, and many make no kernels.
    from inspector.commands.list import print_kernels
    from inspector.reader.reader import COUNTING_SECONDS
    from inspector.report import tables

    rec, err = reader.recording, printing.err()
    if rec.kernels:
        seconds = 0.0 if len(rec.variants()) > MAX_COUNTED_VARIANTS else COUNTING_SECONDS
        print_kernels(reader, err, seconds=seconds)
    tables.graphs(rec, err)
    tables.problems(rec, err)


def _typed(request: RunRequest) -> str | None:
    """The interpreter that the user typed himself as the command to run, if he did."""
    first = request.words[0] if request.kind == "command" else ""
    return first if Path(first).name.startswith("python") else None


def _times(reader: Reader, path: Path, python: str | None) -> None:
    """Take the times of all calls that were just recorded, keep them and print them.

    A failure costs a line on standard error: the status is the program's.
    """
    # Imported here: most runs are not timed.
    from inspector.measure.time import take
    from inspector.measure.time.take import TimeWish
    from inspector.report import timings

    rec = reader.recording
    wish = TimeWish(
        seconds=TIME_SECONDS, limit=TIME_LIMIT, calls=sys.maxsize, python=python, budget=TIME_BUDGET
    )
    try:
        given = take.ready(reader, path, rec.variants(), wish, rec.calls)
        session = take.take(reader, path, given, wish, lambda text: narrate(f"ptxview: {text}"))
    except (PtxviewError, OSError) as error:
        why = error.message if isinstance(error, PtxviewError) else str(error)
        narrate(f"ptxview: no times: {why}")
        return
    except KeyboardInterrupt:
        narrate("ptxview: interrupted: no times are kept")
        return
    try:
        take.store(path, session)
    except OSError as error:
        narrate(f"ptxview: the times are not kept: {error}")
    err = printing.err()
    err.print(timings.heading(session))
    err.print(timings.table(session, err.width))
    for line in (*timings.footnotes(session), *(f"left out: {x}" for x in given.plan.left_out)):
        err.print(line, soft_wrap=True)


def _watched(request: RunRequest) -> int:
    """Run beneath the interface; the program's own exit status."""
    # Imported here: only who sits at a terminal needs the interface.
    from inspector.commands.watched import watch

    outcome, wanted = watch(request, browse)
    if outcome is None:
        raise RunFailed("the recording could not be completed", "What it holds can be opened.")
    narrate(summary(outcome))
    if wanted and outcome.recording is not None:
        made = reader_of(outcome.recording)
        browse(lambda: (made, None), outcome.path.name)
    return outcome.status


def emulation(args: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """Settings of the emulated device and of the probes, as the environment carries them."""
    given = {
        "PTXVIEW_DEVICES": args.devices,
        "PTXVIEW_VALUES": args.values,
        "PTXVIEW_VALUE_SECONDS": args.value_seconds,
        "PTXVIEW_RANGES": "0" if args.no_ranges else None,
        "PTXVIEW_OPERATORS": "1" if args.operators else None,
    }
    return tuple((k, str(v)) for k, v in given.items() if v is not None)


def summary(outcome: RunOutcome) -> str:
    """One line: what was captured, where, how long it took."""
    rec = outcome.recording
    what = "nothing"
    if rec is not None and (rec.kernels or rec.graphs):
        from inspector.report import tables

        what = tables.heading(rec)
    elif rec is not None:
        what = (
            "no process that was looked into launched a kernel"
            if rec.mode == "gpu"
            else "the program made no kernels"
        )
        if any(one.why == "none" for one in rec.unwatched):
            what = "nothing was recorded: no interpreter of Python could be watched"
        elif rec.unwatched:
            what += ", as much as could be watched"
        if rec.uncaptured:
            makers = ", ".join(dict.fromkeys(one.by for one in rec.uncaptured))
            count = plural(len(rec.uncaptured), "kernel")
            what = f"no kernel was captured, of {count} that the program made with {makers}"
        if ended := ended_by(outcome.status):
            what += f"; it was {ended}"
    took = f"{outcome.seconds:.1f} s, and {outcome.after:.1f} s after it"
    return f"ptxview: {what} → {outcome.path} ({took})"
