"""Run a program with torch.profiler around it: operators, kernels, and which launched which.

The program is not changed, and is recorded as by run. A step ends where an optimizer's step does,
or is each call of the function that --step names; the schedule is torch.profiler's: --wait steps
are left out, --warmup ones thrown away, --active ones kept. A program without steps is one window.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gzip
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from inspector.base.errors import Exit, PtxviewError, RunFailed, Unreadable, UsageError
from inspector.base.model import Recording
from inspector.base.text import shown, words
from inspector.commands.common import split_program
from inspector.commands.run import request_of, summary
from inspector.measure.profile.read import profiles, trace_of, why_none
from inspector.measure.profile.trace import Profile, Window, stacks
from inspector.recording.layout import is_recording, kept_cache
from inspector.report import jsons, timings
from inspector.report import profile as profile_report
from inspector.sources.opening import newest, open_path
from inspector.sources.running import RunOutcome
from inspector.sources.running import run as record
from inspector.system import files, printing
from inspector.system.printing import narrate

VALUED = words(
    "-o --out --target --python --wait --warmup --active --repeat --step --seconds "
    "--trace --stacks --stacks-by --window --top"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``profile``, all of them before the program."""
    plan = parser.add_argument_group("what is profiled")
    for name, default, what in (
        ("wait", 1, "steps that are left out"),
        ("warmup", 1, "steps after these that are profiled and thrown away"),
        ("active", 3, "steps that are kept"),
        ("repeat", 1, "how often all this is done; each time gives a window"),
    ):
        plan.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{what} ({default})"
        )
    plan.add_argument(
        "--step",
        default="auto",
        metavar="WHAT",
        help="end of a step: optimizer; MODULE:FUNCTION or MODULE:CLASS.METHOD, each call of it;"
        " none, one window (auto: optimizer if there is one, else none)",
    )
    plan.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        metavar="S",
        help="end a window without steps after S seconds (10)",
    )
    parser.add_argument(
        "--trace", metavar="PATH", help="write the Chrome trace for Perfetto (x.json[.gz])"
    )
    parser.add_argument(
        "--stacks",
        metavar="PATH",
        help="record Python stacks and write them as input of a flame graph",
    )
    parser.add_argument(
        "--stacks-by",
        choices=("cpu", "gpu"),
        help="time of the stacks (default: gpu if there is one)",
    )
    parser.add_argument(
        "-o",
        "--out",
        metavar="PATH",
        help="write the recording to this folder or x.ptxview (default: your state folder)",
    )
    parser.add_argument("--target", metavar="sm_90", help="run on the emulated device, as for run")
    parser.add_argument("--python", metavar="PATH", help="interpreter of the program, as for run")
    parser.add_argument(
        "--stored",
        action="store_true",
        help="show the profiles of a recording: profile --stored [PATH]",
    )
    parser.add_argument(
        "--window", type=int, metavar="N", help="number of the window to show (default: the last)"
    )
    parser.add_argument("--top", type=int, default=15, metavar="N", help="rows of a table (15)")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON; the program's standard output goes to standard error",
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Profile a run; the program's own exit status, and 125 where we fail."""
    own, kind, words = split_program(argv, VALUED)
    stored = "--stored" in own
    try:
        # Without a program our options may stand behind the recording, too.
        args, rest = parser.parse_known_args(argv if stored else own)
        if [word for word in rest if not stored or word.startswith("-")]:
            parser.error(f"unknown: {' '.join(rest)}")
        _checked(parser, args)
    except SystemExit as stop:
        if stop.code in (0, None):
            return Exit.OK
        return Exit.USAGE if stored else Exit.RUN_FAILED
    if stored:
        return _stored(args, rest)
    environment = (("PTXVIEW_PROFILE", _wish(args)),)
    request = request_of("profile", kind, words, args, environment)
    for path in (args.trace, args.stacks):
        if path and not os.access(Path(path).resolve().parent, os.W_OK | os.X_OK):
            raise RunFailed(f"{path} cannot be written", "Give another place.")
    with _program_on_stderr() if args.json else contextlib.nullcontext():
        outcome = record(request, lambda text: narrate(f"ptxview: {text}"))
    narrate(summary(outcome))
    try:
        _show(args, outcome.path, outcome.recording or open_path(outcome.path), outcome)
    except PtxviewError as error:
        raise RunFailed(error.message, error.hint) from None
    return outcome.status


def _checked(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if min(args.wait, args.warmup) < 0 or min(args.active, args.repeat, args.top) < 1:
        parser.error("--wait and --warmup are 0 or more, --active, --repeat and --top 1 or more")
    if not args.seconds > 0:
        parser.error("--seconds is greater than 0")
    if args.step not in ("auto", "optimizer", "none"):
        if not re.fullmatch(r"(?:[\w.]+:)?[\w.]+", args.step):
            parser.error(f"--step: {args.step} is not the name of a function")
        if args.step.rpartition(":")[0] in ("", "__main__"):
            parser.error(
                f"--step {args.step}: a function of the script itself cannot be named; give "
                "MODULE:FUNCTION of a module that it imports, or --step optimizer, or call "
                "torch.profiler and its step() in the script"
            )


def _wish(args: argparse.Namespace) -> str:
    """The probe's settings as JSON."""
    wish = {n: getattr(args, n) for n in ("wait", "warmup", "active", "repeat", "step", "seconds")}
    return json.dumps({**wish, "stack": args.stacks is not None})


@contextlib.contextmanager
def _program_on_stderr() -> Iterator[None]:
    """Within it, programs that are started write to standard error what they print."""
    printing.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _stored(args: argparse.Namespace, words: list[str]) -> int:
    if len(words) > 1:
        raise UsageError("--stored shows one recording", "ptxview profile --stored [PATH]")
    path = Path(words[0]) if words else newest()
    if path.exists() and not is_recording(path):
        raise Unreadable(f"{path} is not a recording, and only one holds profiles")
    _show(args, path, open_path(path), None)
    return Exit.OK


def _show(args: argparse.Namespace, path: Path, rec: Recording, ran: RunOutcome | None) -> None:
    """Print what a recording's profile says, and write the requested files."""
    windows, profile, problems = profiles(path, rec, kept_cache(), args.window)
    if args.json:
        printing.json_line(
            jsons.dumps(profile_report.document(str(path), windows, profile, problems))
        )
    for said in problems:
        narrate(f"ptxview: {shown(said)}")
    if profile is None:
        killed = ran is not None and ran.status > 128
        why = "the program was ended by a signal" if killed else why_none(path)
        narrate(f"ptxview: there is no profile: {shown(why)}")
        return
    if args.trace:
        _write(Path(args.trace), trace_of(path, profile.window))
        narrate(f"ptxview: the trace is in {args.trace}: ui.perfetto.dev opens it")
    if args.stacks:
        _stacks(args, path, profile)
    if not args.json:
        _print(args, rec, windows, profile, to_stdout=ran is None)


def _stacks(args: argparse.Namespace, path: Path, profile: Profile) -> None:
    if not profile.window.stacks:
        narrate("ptxview: this window was recorded without stacks (--stacks)")
        return
    gpu = profile.window.gpu if args.stacks_by is None else args.stacks_by == "gpu"
    if gpu and not profile.window.gpu:
        raise Unreadable("there are no stacks by GPU time: there was no GPU")
    lines = stacks(trace_of(path, profile.window), gpu)
    _write(Path(args.stacks), "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    by = "GPU" if gpu else "CPU"
    many = "1 stack" if len(lines) == 1 else f"{len(lines):,} stacks"
    narrate(f"ptxview: wrote {many} with {by} µs to {args.stacks}")


def _write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; compressed where its name says so, else not."""
    packed = data[:2] == b"\x1f\x8b"
    wanted = path.suffix == ".gz"
    handle, part = tempfile.mkstemp(dir=path.resolve().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            if packed and not wanted:
                files.unpack(data, out, "the trace")
            else:
                out.write(gzip.compress(data, 3) if wanted and not packed else data)
        mask = os.umask(0)
        os.umask(mask)
        Path(part).chmod(0o644 & ~mask)
        Path(part).replace(path)
    except OSError as error:
        Path(part).unlink(missing_ok=True)
        raise Unreadable(f"{path} cannot be written: {error.strerror or error}") from None
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def _age(ended: float | None) -> str:
    """How long ago that was."""
    try:
        taken = datetime.datetime.fromtimestamp(ended or 0, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"
    return timings.age(taken.isoformat(), datetime.datetime.now(datetime.UTC))


def _print(
    args: argparse.Namespace,
    rec: Recording,
    windows: list[Window],
    profile: Profile,
    to_stdout: bool,
) -> None:
    """The tables: on standard error beside a program, whose standard output is its own."""
    out = printing.out() if to_stdout else printing.err()
    if to_stdout:
        out.print(_age(profile.window.ended), style="bold")
    for part in profile_report.whole(profile, len(windows), rec.mode, out.width, args.top):
        out.print(part, soft_wrap=isinstance(part, Text))
