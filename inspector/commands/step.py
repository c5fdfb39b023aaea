"""Step through one block of a recorded call: the values of every register, forwards and backwards.

The block is run once on the CPU and every step kept; commands are read from the terminal, from a
pipe, or from --commands. help tells them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from rich.text import Text

from inspector.base.errors import Exit, UsageError
from inspector.base.text import counted, shown
from inspector.commands.common import print_json
from inspector.commands.launching import chosen_launch, place, takes_launch
from inspector.execute.calls.stepper import StepAnswer, Stepper
from inspector.execute.calls.tracing import trace_block
from inspector.measure.recorded_launch import ChosenLaunch
from inspector.report import step as report
from inspector.report import tables
from inspector.system import printing
from inspector.system.printing import narrate


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``step``."""
    takes_launch(parser)
    parser.add_argument(
        "--block", type=place, default=(0, 0, 0), metavar="X[,Y,Z]", help="block to run (0,0,0)"
    )
    parser.add_argument(
        "--lane",
        type=int,
        default=0,
        metavar="N",
        help="thread of the block whose values are shown first (0)",
    )
    parser.add_argument(
        "--commands",
        metavar="'C; C…'",
        help="commands, in place of a prompt: 'until 47; print %%r5'",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, a document a command")


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Run a block and execute the commands; 1 where the block did not come to its end."""
    args = parser.parse_args(argv)
    chosen = chosen_launch(args, parser)
    if not 0 <= args.lane < chosen.launch.threads:
        raise UsageError(
            f"there is no lane {args.lane}: a block has " + counted(chosen.launch.threads, "thread")
        )
    stepper, ended = _stepper(chosen, args)
    out = printing.out()
    if not args.json:
        head = (
            chosen.kernel.demangled,
            chosen.variant.id,
            chosen.variant.target or "",
            tables.config(chosen.variant),
        )
        out.print(Text(shown("  ".join(filter(None, head))), style="bold"), soft_wrap=True)
    for remark in stepper.inputs.remarks:
        narrate(f"inputs: {remark}")
    if ended is not None:
        narrate(f"ptxview: {ended}")
    misunderstood = False
    _tell(stepper.run("where"), args.json)
    for command in _commands(args.commands, args.json):
        answer = stepper.run(command)
        misunderstood |= not answer.understood
        if answer.ends:
            break
        _tell(answer, args.json)
    if misunderstood and args.commands is not None:
        return Exit.USAGE
    return Exit.DIFFERENT if ended is not None else Exit.OK


def _stepper(chosen: ChosenLaunch, args: argparse.Namespace) -> tuple[Stepper, str | None]:
    """The block's steps, and why it did not come to its end, None if it did."""
    traced = trace_block(
        chosen.program, chosen.launch, chosen.make(), args.block, budget=args.budget
    )
    names, why = chosen.register_names()
    if why:
        narrate(f"ptxview: values have no names from the source: {why}")
    return Stepper.of(traced, names, chosen.source, args.lane), traced.ended


def _commands(given: str | None, quiet: bool) -> Iterator[str]:
    """What is to be done: of the option, else line by line of standard input."""
    if given is not None:
        for command in filter(None, map(str.strip, given.split(";"))):
            _echo(command, quiet)
            yield command
        return
    while (line := printing.answer("(step) ")) is not None:
        typed = printing.at_terminal() and printing.to_terminal()
        for command in [part.strip() for part in line.split(";")] or [""]:
            if command or typed:
                if not typed:
                    _echo(command, quiet)
                yield command


def _echo(command: str, quiet: bool) -> None:
    if not quiet:
        printing.lines(["", f"(step) {command}"])


def _tell(answer: StepAnswer, json: bool) -> None:
    if json:
        print_json(report.document(answer))
        return
    printing.rows(report.rows(answer, printing.out().width))
