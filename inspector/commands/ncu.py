"""Run a program under ncu (Nsight Compute), and tie what it measures to the kernels.

The program is recorded as by ptxview run, and the report is kept with the recording: list, show
and the interface have it from then on. Every launch is run several times over, so that measuring
takes a while; --kernel and --launch-count say of how many. As with run, standard output and the
exit status are the program's own, and the table is printed on standard error.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from inspector.base.errors import PtxviewError, RunFailed, ToolMissing, Unreadable, UsageError
from inspector.base.text import words
from inspector.commands.common import profiled, split_program
from inspector.commands.list import print_launches
from inspector.commands.run import request_of, summary
from inspector.measure.ncu import report as ncu_files
from inspector.measure.ncu.report import Report, read
from inspector.sources.running import Run, RunOutcome
from inspector.system import files, printing
from inspector.system.printing import narrate
from inspector.system.process import run_program
from inspector.system.toolchain import gpu_present

VALUED = words("-o --out --python --kernel --launch-count --launch-skip --set --report")
SETS = ("full", "detailed", "basic")
REMEDY = (
    "Run it as root, or have the driver allow everyone: as root,\n"
    "  echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > /etc/modprobe.d/nvidia.conf\n"
    "then reload the driver. In a container it takes --cap-add=SYS_ADMIN. Machines that are\n"
    "rented often allow none of these. ptxview time needs no counters."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``ncu``, all of them before the program."""
    parser.add_argument(
        "-o",
        "--out",
        metavar="PATH",
        help="write the recording to this folder or x.ptxview (default: your state folder)",
    )
    parser.add_argument(
        "--kernel",
        metavar="NAME",
        help="measure kernels of this name alone; regex:EXPRESSION fits several",
    )
    parser.add_argument(
        "--launch-count", type=int, default=50, metavar="N", help="measure at most N launches (50)"
    )
    parser.add_argument(
        "--launch-skip",
        type=int,
        default=0,
        metavar="N",
        help="skip the first N fitting launches (0)",
    )
    parser.add_argument(
        "--set",
        choices=SETS,
        default="full",
        help="ncu's sections: full has line samples and all rules, basic is fastest",
    )
    parser.add_argument(
        "--children", action="store_true", help="measure launches of child processes, too"
    )
    parser.add_argument(
        "--report", metavar="PATH", help="keep ncu's own report as well, for its interface"
    )
    parser.add_argument("--python", metavar="PATH", help="interpreter of the program, as for run")


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Measure a program; its exit status, 3 where the counters are not permitted."""
    own, kind, words = split_program(argv, VALUED)
    args = parser.parse_args(own)
    if args.launch_count < 1 or args.launch_skip < 0:
        parser.error("--launch-count is 1 at least, --launch-skip no less than 0")
    # The ranges of integer tensors are found by kernels of their own, which ncu would measure.
    environment = (*ncu_files.ENVIRONMENT, ("PTXVIEW_RANGES", "0"))
    try:
        request = request_of("ncu", kind, words, args, environment)
        if not gpu_present():
            raise ToolMissing("ncu needs an NVIDIA GPU; this machine has none")
        tool = ncu_files.need()
        made = Run(replace(request, driver=False))  # ncu refuses to run beside the library
    except RunFailed as error:
        raise UsageError(error.message, error.hint) from None
    with tempfile.TemporaryDirectory(prefix="ptxview-ncu-") as folder:
        return _measure(args, made, tool, Path(folder))


def _measure(args: argparse.Namespace, made: Run, tool: Path, folder: Path) -> int:
    log, report = folder / "ncu.log", folder / "report.ncu-rep"
    options = ncu_files.arguments(
        report.with_suffix(""),
        log,
        args.set,
        args.kernel,
        args.launch_count,
        args.launch_skip,
        args.children,
    )
    command = [str(tool), *options, *made.argv]
    error: PtxviewError | None = None
    found = Report(())
    with made.lasting():
        try:
            status = run_program(command, made.env)
        except PtxviewError:
            made.abandon()
            raise
        try:
            said = files.read(log).decode("utf-8", "replace")
        except Unreadable:
            said = ""
        try:
            found = _keep(args, made.folder, report, command, said)
        except PtxviewError as trouble:
            error = trouble
        outcome = made.ended(
            ncu_files.status_of(said, status), lambda text: narrate(f"ptxview: {text}")
        )
    narrate(summary(outcome))
    if error is not None:
        narrate(f"ptxview: the recording is kept: {outcome.path}")
        raise error
    _print(outcome, found, args.launch_count)
    return outcome.status


def _keep(
    args: argparse.Namespace, folder: Path, report: Path, command: list[str], said: str
) -> Report:
    """The report, which is kept with the recording. Raises what kept it from being made."""
    if not report.is_file():
        if ncu_files.COUNTERS in said:
            raise ToolMissing(
                "ncu is not permitted to read this GPU's performance counters "
                f"({ncu_files.COUNTERS}), and measured nothing",
                REMEDY,
            )
        why = ncu_files.complaints(said) or ["no kernel was launched that it could see"]
        hint = "\n".join(why[1:4]).replace("--target-processes all", "--children")
        raise Unreadable(f"ncu measured nothing: {why[0]}", hint)
    if args.report:
        _copy(report, Path(args.report))
    text = ncu_files.texts(report)
    found = read(text, "ncu's report")
    try:
        ncu_files.store(folder, text, command)
    except OSError as error:
        narrate(f"ptxview: the report is not kept with the recording: {error.strerror or error}")
    return found


def _copy(report: Path, to: Path) -> None:
    try:
        shutil.copyfile(report, to)
    except OSError as error:
        narrate(f"ptxview: {to} cannot be written: {error.strerror or error}")


def _print(outcome: RunOutcome, found: Report, most: int) -> None:
    if outcome.recording is None:
        return
    print_launches(profiled(outcome.recording, report=found), printing.err())
    if len(found.launches) >= most:
        first = "the first launch was" if most == 1 else f"the first {most} launches were"
        narrate(f"ptxview: only {first} measured (--launch-count)")
