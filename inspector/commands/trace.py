"""Run the PTX of a recorded call on the CPU: what happened at each line, without a GPU.

Times executed, active lanes, divergence, values, sectors of global memory, bank conflicts: what
hardware counters would tell, exact for the blocks that were run. The inputs are new ones of the
recorded kind. An access out of bounds is reported with its block, thread, address and tensor.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.text import Text

from inspector.analyse.hints.subject import Finding
from inspector.base.errors import Exit, PtxviewError, UsageError
from inspector.base.model import KERNEL_STAGES, Location, Stage
from inspector.base.text import shown
from inspector.commands.common import print_json
from inspector.commands.launching import amount, chosen_launch, place, takes_launch
from inspector.commands.small import span
from inspector.execute import LaunchError, approximations
from inspector.execute.calls.tracing import (
    ExecutedLine,
    TracedLaunch,
    Wanted,
    executed_lines,
    executed_totals,
    rolled_up,
    trace_launch,
)
from inspector.measure.recorded_launch import ChosenLaunch
from inspector.reader import tables as reference
from inspector.report import annotated, tables
from inspector.report import trace as report
from inspector.system import printing
from inspector.system.printing import narrate

ROLLED = tuple(s.value for s in KERNEL_STAGES if s is not Stage.PTX)
"""Stages that PTX is tied to."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``trace``."""
    parser.epilog = report.legend()
    takes_launch(parser)
    parser.add_argument(
        "--blocks",
        type=wanted,
        default="auto",
        metavar="all|N|X,Y,Z",
        help="blocks to run: all, N spread over the grid, or one by its coordinates (default: "
        "all if cheap)",
    )
    parser.add_argument(
        "--by",
        choices=ROLLED,
        metavar="STAGE",
        help="lines of another stage, with the sum of their PTX lines",
    )
    parser.add_argument("--lines", type=span, metavar="A[:B]", help="lines of this range alone")
    parser.add_argument(
        "--bars",
        choices=tuple(report.BARS),
        default="lanes",
        help="figure of the bars (lanes)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def wanted(text: str) -> Wanted:
    """``all``, ``50``, ``3,1,0``."""
    if text in ("all", "auto"):
        return text
    if "," in text:
        return [place(text)]
    try:
        count = amount(text)
    except argparse.ArgumentTypeError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(
            f"{text} is neither all, nor a number of blocks from 1 on, nor one's place: 3,1,0"
        )
    return count


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Run a call and print what happened; 1 where it did not come to its end."""
    args = parser.parse_args(argv)
    chosen = chosen_launch(args, parser)
    by = None if args.by is None else Stage(args.by)
    if by is not None and by not in chosen.variant.stages:
        raise UsageError(f"{chosen.kernel.demangled} has no stage {by.value}")
    links = None if by is None else chosen.reader.links(chosen.variant, Stage.PTX, by)
    try:
        launched = trace_launch(
            chosen.program, chosen.launch, chosen.make, blocks=args.blocks, budget=args.budget
        )
    except LaunchError as error:
        raise UsageError(error.message, error.hint) from None
    told = _traced_kernel(chosen, launched)
    executed = launched.executed
    found = () if executed is None else chosen.reader.counted(chosen.variant, executed)
    if executed is not None and _usual(args, chosen):
        chosen.reader.keep_executed(chosen.variant, executed)
    lines = executed_lines(launched.facts)
    rolled = None if links is None else _between(rolled_up(launched.facts, links), args.lines)
    if rolled is None:
        lines = _between(lines, args.lines)
    if args.json:
        of_stage = {} if by is None or rolled is None else {by: rolled}
        print_json(report.document(told, lines, of_stage, found))
    else:
        listed = lines if rolled is None else rolled
        _print(told, chosen, listed, by or Stage.PTX, args.bars, found)
    if launched.spent is not None:
        narrate(
            f"ptxview: {launched.spent.message}; the figures are from before that.\n"
            f"--budget {2 * args.budget} allows twice as many, --blocks 1 runs one block alone."
        )
    ended = launched.fault is not None or launched.spent is not None
    return Exit.DIFFERENT if ended else Exit.OK


def _usual(args: argparse.Namespace, chosen: ChosenLaunch) -> bool:
    """Whether it is the recorded call that hints are about, as it was, and a fair sample of it."""
    changed = (args.call, args.inputs, args.grid, args.threads, args.shared)
    return (
        chosen.recorded is not None
        and all(one is None for one in changed)
        and args.blocks in ("auto", "all")
    )


def _traced_kernel(chosen: ChosenLaunch, launched: TracedLaunch) -> report.TracedKernel:
    source: Callable[[int], Location | None] = chosen.source
    variant = chosen.variant

    def cost(opcode: str) -> str | None:
        return reference.isa().cost("ptx", opcode)

    return report.TracedKernel(
        chosen.kernel.demangled,
        variant.id,
        variant.target or "",
        tables.config(variant),
        chosen.call,
        len(variant.calls),
        chosen.seed,
        chosen.given,
        launched,
        executed_totals(launched.facts, cost),
        source,
        approximations(chosen.program, reference.table("approximate")),
    )


def _between(
    lines: tuple[ExecutedLine, ...], only: tuple[int, int] | None
) -> tuple[ExecutedLine, ...]:
    if only is None:
        return lines
    return tuple(one for one in lines if only[0] <= one.n <= only[1])


def _print(
    told: report.TracedKernel,
    chosen: ChosenLaunch,
    lines: tuple[ExecutedLine, ...],
    stage: Stage,
    drawn: str,
    found: Sequence[Finding],
) -> None:
    out = printing.out()
    head = "  ".join(filter(None, (told.kernel, told.variant, told.target, told.settings)))
    out.print(Text(shown(head), style="bold"), soft_wrap=True)
    if told.launched.fault is not None:
        _labelled(out, report.fault_rows(told, told.launched.fault), "red")
    _labelled(out, report.summary(told), "")
    for finding in found:
        out.print(annotated.hint(finding), soft_wrap=True)
    out.print()
    if not lines:
        narrate("none of these lines was run, or is tied to one that was")
        return
    if stage is not Stage.PTX:
        said = (
            f"By line of {stage.value}: what the PTX that is tied to a line comes to; a line "
            "of PTX that is tied to several counts on each."
        )
        out.print(Text(said, style="dim"))
    try:
        listing = chosen.reader.listing(chosen.variant, stage)
    except PtxviewError as error:
        narrate(f"ptxview: {error.message}")
        return
    printing.rows(report.rows(lines, listing, out.width, drawn, told.launched.inputs.at))


def _labelled(out: Console, rows: Iterable[tuple[str, str]], style: str) -> None:
    for label, text in report.wrapped(rows, out.width):
        out.print(Text.assemble((label, style or "dim"), text), soft_wrap=True)
