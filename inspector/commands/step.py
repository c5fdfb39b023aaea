"""Step through one block of a recorded call: the values of every register, forwards and backwards.

The block is run once on the CPU and every step kept; commands are read from the terminal, from a
pipe, or from --commands. help tells them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from rich.text import Text

from inspector import printing
from inspector.commands.common import print_json
from inspector.commands.launching import ChosenLaunch, choose_launch, place, takes_launch
from inspector.errors import Exit, PtxviewError, UsageError
from inspector.execute import Fault, LaunchError, OutOfBudget, Trace, TraceTooLong, execute
from inspector.model import Stage
from inspector.printing import narrate
from inspector.report import step as report
from inspector.report import tables
from inspector.text import shown
from inspector.trace.naming import register_names
from inspector.trace.stepper import StepAnswer, Stepper


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``step``."""
    takes_launch(parser)
    parser.add_argument(
        "--block", type=place, default=(0, 0, 0), metavar="X[,Y,Z]", help="which block (0,0,0)"
    )
    parser.add_argument(
        "--lane", type=int, default=0, metavar="N",
        help="whose values are shown at first: a thread of the block (0)",
    )  # fmt: skip
    parser.add_argument(
        "--commands",
        metavar="'C; C…'",
        help="what to do, instead of asking: 'until 47; print %%r5'",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, a document a command")


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Run a block and do what is said; 1 where the block did not come to its end."""
    args = parser.parse_args(argv)
    chosen = choose_launch(args, parser)
    if not 0 <= args.lane < chosen.launch.threads:
        raise UsageError(
            f"there is no lane {args.lane}: a block has {chosen.launch.threads:,} threads"
        )
    stepper, ended = _stepper(chosen, args)
    out = printing.out()
    if not args.json:
        head = (chosen.kernel.demangled, chosen.variant.id, chosen.variant.target or "",
                tables.config(chosen.variant))  # fmt: skip
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
    program, launch = chosen.program, chosen.launch
    inputs = chosen.make()
    trace = Trace(program)
    fault: Fault | None = None
    ended: str | None = None
    try:
        execute(
            program, launch.grid, launch.block, inputs.arguments, memory=inputs.memory,
            shared=launch.shared, blocks=[args.block], budget=args.budget, observer=trace,
        )  # fmt: skip
    except LaunchError as error:
        raise UsageError(error.message, error.hint) from None
    except Fault as error:
        fault, ended = error, error.message
    except (OutOfBudget, TraceTooLong) as error:
        ended = f"{error.message}; the steps before that are here"
    reader, variant = chosen.reader, chosen.variant
    ttir = None
    if Stage.TTIR in variant.stages:
        try:
            ttir = reader.listing(variant, Stage.TTIR)
        except PtxviewError as error:
            narrate(f"ptxview: no names of the source: {error.message}")
    symbols = {p.symbol: p.name for p in reader.context(variant).parameters if p.symbol and p.name}
    names = register_names(program, reader.listing(variant, Stage.PTX), ttir, symbols)
    return Stepper(program, trace, inputs, names, chosen.source, args.lane, fault), ended


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
