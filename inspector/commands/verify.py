"""Compare each generated kernel of compiled graphs with its own operators on the same inputs.

SCRIPT is run with what its kernels read and write kept; without a GPU their PTX is executed. Of a
recording, what was kept is compared. Exits with 1 where a kernel's values are not explained.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from inspector.base.errors import Exit, RunFailed, Unreadable, UsageError
from inspector.base.names import words
from inspector.commands import common
from inspector.commands.common import (
    JSON,
    amount,
    option,
    print_json,
    program_on_stderr,
    say,
    split_program,
    takes,
    takes_program,
)
from inspector.commands.run import request_of, summary
from inspector.measure.time.take import interpreter
from inspector.reader.reader import Reader
from inspector.recording.layout import is_recording
from inspector.render import verify as text
from inspector.sources.running import run as record
from inspector.system import printing, toolchain
from inspector.verify.checks import compared, launch_tasks, lines_of, selected
from inspector.verify.kept import store

VALUED = words("-o --out --target --python --calls --budget --value-seconds")
BUDGET = 1 << 30
"""Bytes of tensors that are kept of a run."""
WITHOUT_CACHES = (("TORCHINDUCTOR_FX_GRAPH_CACHE", "0"), ("TORCHINDUCTOR_AUTOGRAD_CACHE", "0"))
"""A graph from a cache comes without its operators."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``verify``; before a program, or anywhere beside a recording."""
    takes_program(parser)
    takes(
        parser,
        {
            "--target": option("sm_90", "run on an emulated device (default without a GPU)"),
            "--calls": option(
                "N", "calls of each graph that are compared (1)", type=int, default=1
            ),
            "--budget": option(
                "BYTES", "tensors kept of a run (1 GiB)", type=amount, default=BUDGET
            ),
            "--json": JSON,
        },
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Run or read, compare and print; 1 where a kernel is not explained."""
    our_words, kind, program = split_program(argv, VALUED)
    is_program = kind != "script" or (bool(program) and not _names_recording(program[0]))
    if is_program:
        args = parser.parse_args(our_words)
        if args.calls < 1:
            raise UsageError("--calls is 1 or more")
        reader, path, selector = _recorded(args, kind, program)
    else:
        args, positional = parser.parse_known_args(argv)
        if unknown := [word for word in positional if word.startswith("-")]:
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        location, selector = common.split_path(positional)
        reader = common.open_reader(location)
        path = Path(reader.recording.resolved_path or reader.recording.path)
    return _verify(reader, path, selector, args)


def _names_recording(word: str) -> bool:
    path = Path(word)
    return is_recording(path) or not word.endswith(".py")


def _recorded(
    args: argparse.Namespace, kind: str, program: Sequence[str]
) -> tuple[Reader, Path, None]:
    """A reader of a run of the program, with the values of its kernels."""
    environment = (
        ("PTXVIEW_VERIFY", str(args.calls)),
        ("PTXVIEW_CONTENTS", str(args.budget)),
        ("PTXVIEW_VALUES", "ptx"),
        ("PTXVIEW_VALUE_SECONDS", "inf"),
        *WITHOUT_CACHES,
    )
    try:
        request = request_of("verify", kind, list(program), args, environment)
        with program_on_stderr():
            outcome = record(request, say)
    except RunFailed as error:
        raise Unreadable(error.message, error.hint) from None
    printing.narrate(summary(outcome))
    if outcome.recording is None:
        raise Unreadable("the recording could not be completed")
    if outcome.status:
        say(f"the program ended with status {outcome.status}; what it launched is compared")
    return common.reader_of(outcome.recording), outcome.path, None


def _verify(reader: Reader, path: Path, selector: str | None, args: argparse.Namespace) -> int:
    selection = selected(reader.recording, selector)
    python = interpreter(
        args.python, (sys.executable, toolchain.interpreter(None)), toolchain.versions
    )
    with printing.progress("executing kernels") as show:
        launches = launch_tasks(reader, path, selection, show)
    with printing.progress("computing operators") as show:
        report = compared(reader, launches, python, show)
    if why := store(path, report):
        printing.narrate(why)
    lines = lines_of(reader, report)
    if args.json:
        print_json(text.document(report, lines))
    else:
        printing.rows(text.rows(report, lines, printing.out().width))
        printing.rows([Text(text.answer(report), "bold" if report.passed else "bold red")])
        printing.narrate(f"inputs: {report.inputs}")
    return Exit.OK if report.passed else Exit.DIFFERENT
