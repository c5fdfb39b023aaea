"""Run a program under a profiler, torch's or Nsight Compute's, and tie its figures to the kernels.

``profile``: a step ends where an optimizer's step does, or is each call of the function that --step
names; the schedule is torch.profiler's. A program without steps is one window. ``ncu``: the report
is kept with the recording, so that list, show and the interface have it from then on.
"""

import argparse
import contextlib
import datetime
import gzip
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

from msgspec.structs import replace
from rich.text import Text

from inspector.base.errors import Exit, PtxviewError, RunFailed, ToolMissing, Unreadable, UsageError
from inspector.base.escapes import shown
from inspector.base.model import Recording
from inspector.base.names import words
from inspector.base.units import plural
from inspector.commands import common
from inspector.commands.common import (
    flag,
    option,
    program_on_stderr,
    say,
    split_program,
    takes,
    takes_program,
)
from inspector.commands.list import print_launches
from inspector.commands.run import request_of, summary
from inspector.measure.ncu import report as ncu_files
from inspector.measure.ncu.report import Report, read
from inspector.measure.profile.read import profiles, trace_of, why_none
from inspector.measure.profile.trace import Profile, stacks
from inspector.recording.layout import is_recording, user_derived_cache
from inspector.render import profile as profile_report
from inspector.render import timings
from inspector.sources.opening import newest, open_path
from inspector.sources.running import Run, RunOutcome
from inspector.sources.running import run as record
from inspector.system import files, printing
from inspector.system.process import run_program
from inspector.system.toolchain import gpu_present

VALUED = {
    "profile": words(
        "-o --out --target --python --wait --warmup --active --repeat --step --seconds "
        "--trace --stacks --stacks-by --window --top"
    ),
    "ncu": words("-o --out --python --kernel --launch-count --launch-skip --set --report"),
}
NCU_SETS = ("full", "detailed", "basic")
NCU_REMEDY = (
    "Run it as root, or have the driver allow everyone: as root,\n"
    "  echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > /etc/modprobe.d/nvidia.conf\n"
    "then reload the driver. In a container it takes --cap-add=SYS_ADMIN. Machines that are\n"
    "rented often allow none of these. ptxview time needs no counters."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``profile``, all of them before the program."""
    step = "end of a step: optimizer; MODULE:FUNCTION or MODULE:CLASS.METHOD, each call of it; "
    step += "none, one window (auto: optimizer if there is one, else none)"
    takes(
        parser.add_argument_group("what is profiled"),
        {
            "--wait": option("N", "steps that are left out (1)", type=int, default=1),
            "--warmup": option("N", "then those that are thrown away (1)", type=int, default=1),
            "--active": option("N", "steps that are kept (3)", type=int, default=3),
            "--repeat": option("N", "windows: how often all this is done (1)", type=int, default=1),
            "--step": option("WHAT", step, default="auto"),
            "--seconds": option("S", "end a window without steps (10)", type=float, default=10.0),
        },
    )
    takes_program(parser)
    takes(
        parser,
        {
            "--trace": option("PATH", "write the Chrome trace for Perfetto (x.json[.gz])"),
            "--stacks": option("PATH", "record Python stacks, and write them for a flame graph"),
            "--stacks-by": option(
                None, "time of the stacks (default: gpu, if any)", choices=("cpu", "gpu")
            ),
            "--target": option("sm_90", "run on the emulated device, as for run"),
            "--stored": flag("show the profiles of a recording: profile --stored [PATH]"),
            "--window": option("N", "number of the window to show (default: the last)", type=int),
            "--top": option("N", "rows of a table (15)", type=int, default=15),
            "--timeline": flag("the GPU's work of the last step in order of time, and its gaps"),
            "--json": flag("print JSON; the program's standard output goes to standard error"),
        },
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Profile a run; the program's own exit status, and 125 where we fail."""
    our_words, kind, words = split_program(argv, VALUED["profile"])
    stored = "--stored" in our_words
    try:
        # Without a program our options may stand behind the recording, too.
        args, remaining = parser.parse_known_args(argv if stored else our_words)
        unknown = [word for word in remaining if not stored or word.startswith("-")]
        if unknown:
            parser.error(f"unknown: {' '.join(remaining)}")
        _checked(parser, args)
    except SystemExit as stop:
        if stop.code in (0, None):
            return Exit.OK
        return Exit.USAGE if stored else Exit.RUN_FAILED
    if stored:
        return _stored(args, remaining)
    names = ("wait", "warmup", "active", "repeat", "step", "seconds")
    wish = {name: getattr(args, name) for name in names}
    wish["stack"] = args.stacks is not None
    request = request_of("profile", kind, words, args, (("PTXVIEW_PROFILE", json.dumps(wish)),))
    _check_writable(args.trace, args.stacks)
    with program_on_stderr() if args.json else contextlib.nullcontext():
        outcome = record(request, say)
    printing.narrate(summary(outcome))
    try:
        _show(args, outcome.path, outcome.recording or open_path(outcome.path), outcome)
    except PtxviewError as error:
        raise RunFailed(error.message, error.hint) from None
    return outcome.status


def _check_writable(*paths: str | None) -> None:
    """Raise ``RunFailed`` before the run where something could not be written after it."""
    for path in paths:
        if path and not os.access(Path(path).resolve().parent, os.W_OK | os.X_OK):
            raise RunFailed(f"{path} cannot be written", "Give another place.")


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
    windows, profile, problems = profiles(path, rec, user_derived_cache(), args.window)
    if args.json:
        common.print_json(profile_report.document(str(path), windows, profile, problems))
    for problem in problems:
        say(f"{shown(problem)}")
    if profile is None:
        killed = ran is not None and ran.status > 128
        why = "the program was ended by a signal" if killed else why_none(path)
        say(f"there is no profile: {shown(why)}")
        return
    if args.trace:
        _write(Path(args.trace), trace_of(path, profile.window))
        say(f"the trace is in {args.trace}: ui.perfetto.dev opens it")
    if args.stacks:
        _stacks(args, path, profile)
    if not args.json:
        _print(args, rec, len(windows), profile, ran=ran is not None)


def _stacks(args: argparse.Namespace, path: Path, profile: Profile) -> None:
    if not profile.window.stacks:
        say("this window was recorded without stacks (--stacks)")
        return
    gpu = profile.window.gpu if args.stacks_by is None else args.stacks_by == "gpu"
    if gpu and not profile.window.gpu:
        raise Unreadable("there are no stacks by GPU time: there was no GPU")
    lines = stacks(trace_of(path, profile.window), gpu)
    _write(Path(args.stacks), "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    unit = "GPU" if gpu else "CPU"
    say(f"wrote {plural(len(lines), 'stack')} with {unit} µs to {args.stacks}")


def _write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; compressed where its name says so, else not."""
    packed = data[:2] == b"\x1f\x8b"
    compress = path.suffix == ".gz"
    try:
        with common.appearing(path) as part, part.open("wb") as out:
            if packed and not compress:
                files.unpack(data, out, "the trace")
            else:
                out.write(gzip.compress(data, 3) if compress and not packed else data)
    except OSError as error:
        raise Unreadable(f"{path} cannot be written: {error.strerror or error}") from None


def _print(
    args: argparse.Namespace, rec: Recording, window_count: int, profile: Profile, ran: bool
) -> None:
    """The tables: on standard error beside a program, whose standard output is its own."""
    out = printing.err() if ran else printing.out()
    if not ran:
        age = "at an unknown time"
        with contextlib.suppress(OverflowError, ValueError, OSError):
            ended = datetime.datetime.fromtimestamp(profile.window.ended or 0, datetime.UTC)
            age = timings.age(ended.isoformat(), datetime.datetime.now(datetime.UTC))
        out.print(age, style="bold")
    if args.timeline:
        lines = _timeline(profile, rec, out.width)
        if not lines:
            say("no GPU's work was recorded, so there is no timeline")
    else:
        lines = list(
            profile_report.profile_lines(profile, window_count, rec.mode, out.width, args.top)
        )
    for line in lines:
        out.print(line, soft_wrap=True)


def _timeline(profile: Profile, rec: Recording, width: int) -> list[Text]:
    """The GPU's work of the last step, if any."""
    from inspector.measure.streams import profile_streams
    from inspector.render import timeline

    if not profile.timeline:
        return []
    drawn = timeline.lines(timeline.named_timeline(profile_streams(profile), rec), width)
    return [line.text for line in drawn]


def arguments_ncu(parser: argparse.ArgumentParser) -> None:
    """Options of ``ncu``, all of them before the program."""
    takes_program(parser)
    takes(
        parser,
        {
            "--kernel": option("NAME", "kernels of this name alone; regex:EXPRESSION fits several"),
            "--launch-count": option("N", "measure at most N launches (50)", type=int, default=50),
            "--launch-skip": option("N", "skip the first N launches (0)", type=int, default=0),
            "--set": option(
                None, "sections (full: samples and all rules)", choices=NCU_SETS, default="full"
            ),
            "--children": flag("measure launches of child processes, too"),
            "--report": option("PATH", "keep ncu's own report as well, for its interface"),
        },
    )


def run_ncu(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Measure a program; its exit status, 3 where the counters are not permitted."""
    our_words, kind, words = split_program(argv, VALUED["ncu"])
    args = parser.parse_args(our_words)
    if args.launch_count < 1 or args.launch_skip < 0:
        parser.error("--launch-count is 1 at least, --launch-skip no less than 0")
    # The ranges of integer tensors are found by kernels of their own, which ncu would measure.
    environment = (*ncu_files.ENVIRONMENT, ("PTXVIEW_RANGES", "0"))
    try:
        request = request_of("ncu", kind, words, args, environment)
        if not gpu_present():
            raise ToolMissing("ncu needs an NVIDIA GPU; this machine has none")
        tool = ncu_files.need()
        recorded_run = Run(replace(request, driver=False))  # ncu refuses to run beside the library
    except RunFailed as error:
        raise UsageError(error.message, error.hint) from None
    with tempfile.TemporaryDirectory(prefix="ptxview-ncu-") as folder:
        return _measure(args, recorded_run, tool, Path(folder))


def _measure(args: argparse.Namespace, recorded_run: Run, tool: Path, folder: Path) -> int:
    log = folder / "ncu.log"
    report = folder / "report.ncu-rep"
    wish = (args.set, args.kernel, args.launch_count, args.launch_skip, args.children)
    command = [
        str(tool),
        *ncu_files.arguments(report.with_suffix(""), log, *wish),
        *recorded_run.argv,
    ]
    error: PtxviewError | None = None
    measured = Report(())
    with recorded_run.lasting():
        try:
            status = run_program(command, recorded_run.env)
        except PtxviewError:
            recorded_run.abandon()
            raise
        log_text = files.read(log).decode("utf-8", "replace") if log.is_file() else ""
        try:
            measured = _keep(args, recorded_run.folder, report, command, log_text)
        except PtxviewError as trouble:
            error = trouble
        status = ncu_files.status_of(log_text, status)
        outcome = recorded_run.ended(status, say)
    printing.narrate(summary(outcome))
    if error is not None:
        say(f"the recording is kept: {outcome.path}")
        raise error
    if outcome.recording is not None:
        print_launches(common.profiled(outcome.recording, report=measured), printing.err())
        if len(measured.launches) >= args.launch_count:
            count = args.launch_count
            first = "the first launch was" if count == 1 else f"the first {count} launches were"
            say(f"only {first} measured (--launch-count)")
    return outcome.status


def _keep(
    args: argparse.Namespace, folder: Path, report: Path, command: list[str], log_text: str
) -> Report:
    """The report, which is kept with the recording. Raises what kept it from being made."""
    if not report.is_file():
        if ncu_files.COUNTERS in log_text:
            raise ToolMissing(
                "ncu is not permitted to read this GPU's performance counters "
                f"({ncu_files.COUNTERS}), and measured nothing",
                NCU_REMEDY,
            )
        why = ncu_files.complaints(log_text) or ["no kernel was launched that it could see"]
        hint = "\n".join(why[1:4]).replace("--target-processes all", "--children")
        raise Unreadable(f"ncu measured nothing: {why[0]}", hint)
    if args.report:
        try:
            shutil.copyfile(report, args.report)
        except OSError as error:
            say(f"{args.report} cannot be written: {error.strerror or error}")
    text = ncu_files.texts(report)
    parsed = read(text, "ncu's report")
    try:
        ncu_files.store(folder, text, command)
    except OSError as error:
        say(f"the report is not kept with the recording: {error.strerror or error}")
    return parsed
