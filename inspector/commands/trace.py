"""Execute a recorded call on the CPU: ``trace`` prints what each line did, ``step`` steps through.

The inputs are new ones of the recorded kind, unless they are given.
"""

import argparse
import contextlib
import io
import itertools
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from rich.text import Text

from inspector.base.errors import Exit, PtxviewError, Unreadable, UsageError
from inspector.base.escapes import shown
from inspector.base.model import KERNEL_STAGES, Stage
from inspector.base.units import plural
from inspector.commands import common
from inspector.commands.common import JSON, KERNEL, amount, flag, option, print_json, say, takes
from inspector.execute import ExecutedLine, LaunchError, OutOfBudget, approximations
from inspector.execute.calls.inputs import Array
from inspector.execute.calls.stepper import Stepper
from inspector.execute.calls.tracing import (
    BUDGET,
    SECONDS,
    BlockSelection,
    Triple,
    parse_place,
    parse_sizes,
    trace_block,
    trace_launch,
)
from inspector.measure.recorded_launch import ChosenLaunch, LaunchOverrides, choose_launch
from inspector.reader import tables as reference
from inspector.render import card, step, tables
from inspector.render import trace as report
from inspector.render.pictures.terminal_picture import picture_lines
from inspector.render.tables import require_compiled
from inspector.system import files, printing

ROLLED = tuple(s.value for s in KERNEL_STAGES if s is not Stage.PTX)
"""Stages that PTX is tied to."""


def takes_launch(parser: argparse.ArgumentParser) -> None:
    """The words and options that say what is launched."""
    seconds = f"seconds after which it is given up ({SECONDS:g})"
    budget = f"lane-instructions after which it is given up ({BUDGET:.0e})".replace("+0", "")
    takes(
        parser,
        {
            "words": KERNEL,
            "--call": option(
                "N", "recorded call (default: a failed one, else the commonest)", type=int
            ),
            "--inputs": option(
                "FILE.npz", "arrays by argument name, in place of new ones", type=Path
            ),
            "--seed": option("N", "seed of new inputs (0)", type=int, default=0),
            "--grid": option("X[,Y,Z]", "blocks, in place of the call's", type=triple),
            "--threads": option("X[,Y,Z]", "threads, in place of the call's", type=triple),
            "--shared": option("BYTES", "dynamic shared memory of a block", type=amount),
            "--budget": option("N", budget, type=amount, default=BUDGET),
            "--seconds": option("S", seconds, type=float, default=SECONDS),
        },
    )


def triple(text: str) -> Triple:
    """``1823``, ``64,4``, ``3,1,0``."""
    try:
        x, y, z = (*parse_sizes(text), 1, 1)[:3]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return x, y, z


def place(text: str) -> Triple:
    """Coordinates: ``7``, ``3,1,0``; those that are left out are 0."""
    try:
        return parse_place(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def chosen_launch(args: argparse.Namespace) -> ChosenLaunch:
    """What the words and options mean. Raises PtxviewError; nothing has been run yet."""
    reader, kernel, variant = common.choose(args)
    require_compiled(kernel, variant)
    arrays = {} if args.inputs is None else read_arrays(args.inputs)
    wish = LaunchOverrides(args.call, args.grid, args.threads, args.shared, arrays, args.seed)
    return choose_launch(reader, kernel, variant, wish)


def read_arrays(path: Path) -> Mapping[str, Array]:
    """The arrays of an .npz by name. Nothing in it is unpickled. Raises ``Unreadable``."""
    if not files.is_zip(path):
        files.opened(path).close()
        raise Unreadable(f"{path} is not an .npz: numpy.savez writes one")
    archive = files.archive(path)
    return {
        member.removesuffix(".npy"): _array(archive.read(member), f"{member} in {path}")
        for member in archive.names
        if member.endswith(".npy")
    }


def _array(data: bytes, name: str) -> Array:
    """An array of a .npy. Raises ``Unreadable`` if it is invalid or holds no numbers."""
    stream = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = np.lib.format.read_array(stream, allow_pickle=False)
    except Exception as error:  # a dozen types, by what is wrong with the header
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        if reason.startswith("Object arrays"):
            raise Unreadable(f"{name} holds objects, and no numbers") from None
        raise Unreadable(f"{name} is not an array: {reason[:200]}") from None
    if array.dtype.names or array.dtype.kind not in "biufc":
        raise Unreadable(f"{name} holds {array.dtype}, and no numbers")
    if stream.tell() != len(data):
        raise Unreadable(f"{name} is damaged: its size is not that of its shape")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``trace``."""
    parser.epilog = report.legend()
    takes_launch(parser)
    bars = tuple(report.BARS)
    takes(
        parser,
        {
            "--blocks": option(
                "all|N|X,Y,Z", "default: all if cheap", type=blocks_option, default="auto"
            ),
            "--by": option("STAGE", "lines of another stage, by sums", choices=ROLLED),
            "--lines": option("A[:B]", "lines of this range alone", type=common.span),
            "--races": flag("report accesses without an order, unwritten reads"),
            "--bars": option(None, "figure of the bars (lanes)", choices=bars, default="lanes"),
            "--json": JSON,
        },
    )


def blocks_option(text: str) -> BlockSelection:
    """``all``, ``50``, ``3,1,0``."""
    if text in ("all", "auto"):
        return text
    if "," in text:
        return [place(text)]
    with contextlib.suppress(argparse.ArgumentTypeError):
        if (count := amount(text)) > 0:
            return count
    raise argparse.ArgumentTypeError(
        f"{text} is neither all, nor a number of blocks from 1 on, nor one's place: 3,1,0"
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Run a call and print what happened; 1 where it did not come to its end, or has a race."""
    args = parser.parse_args(argv)
    call = chosen_launch(args)
    reader = call.reader
    variant = call.variant
    stage = Stage.PTX if args.by is None else Stage(args.by)
    if stage not in variant.stages:
        raise UsageError(f"{call.kernel.demangled} has no stage {stage.value}")
    links = None if stage is Stage.PTX else reader.stages.links(variant, Stage.PTX, stage)
    try:
        launched = trace_launch(
            call.program,
            call.launch,
            call.make,
            blocks=args.blocks,
            budget=args.budget,
            seconds=args.seconds,
            races=args.races,
            orders=args.races,
        )
    except LaunchError as error:
        raise UsageError(error.message, error.hint) from None
    totals = launched.facts.totals(lambda opcode: reference.isa().cost("ptx", opcode))
    differing = approximations(call.program, reference.table("approximate"))
    traced = report.TracedKernel(call, launched, totals, differing)
    executed = launched.executed
    findings = () if executed is None else reader.facts.hints_from_counts(variant, executed)
    if executed is not None and _is_recorded_call(call, args):
        reader.store_execution_counts(variant, executed)  # hints are about this call
    lines = launched.facts.lines()
    listed = lines if links is None else launched.facts.lines(links)
    if args.lines is not None:
        first, last = args.lines
        listed = tuple(line for line in listed if first <= line.n <= last)
    if args.json:
        of_stage = {} if links is None else {stage: listed}
        print_json(report.document(traced, listed if links is None else lines, of_stage, findings))
    else:
        _print_head(call)
        if launched.fault is not None:
            _labelled(report.fault_rows(traced, launched.fault), "red")
        if launched.races is not None:
            _labelled(report.race_rows(traced, launched.races), "red")
            _labelled(report.order_rows(launched.orders), "red")
        _labelled(report.summary(traced), "dim")
        printing.rows(card.hints(findings))
        for picture in report.bank_pictures(traced):
            printing.rows([Text(), *picture_lines(picture, printing.out().width)])
        _print_lines(call, stage, listed, args.bars, launched.inputs.memory.buffer_at)
    if launched.spent is not None:
        _say_spent(launched.spent, args)
    ended = launched.fault is not None or launched.spent is not None
    faulty = any(outcome.fault for outcome in launched.orders)
    return Exit.DIFFERENT if ended or faulty or launched.all_races else Exit.OK


def _is_recorded_call(call: ChosenLaunch, args: argparse.Namespace) -> bool:
    """Whether a recorded call was run unchanged, with enough blocks to represent all."""
    changed = (args.call, args.inputs, args.grid, args.threads, args.shared)
    as_recorded = call.recorded is not None and all(change is None for change in changed)
    return as_recorded and args.blocks in ("auto", "all")


def _say_spent(spent: OutOfBudget, args: argparse.Namespace) -> None:
    """Say that a budget was spent, and how to give more."""
    option = f"--budget {2 * args.budget}"
    if spent.seconds is not None:
        option = f"--seconds {2 * args.seconds:g}"
    printing.narrate(
        f"ptxview: {spent.message}; the figures are from before that.\n"
        f"{option} allows twice as many, --blocks 1 runs one block alone."
    )


def _print_head(call: ChosenLaunch) -> None:
    variant = call.variant
    words = (call.kernel.demangled, variant.id, variant.target, tables.config_text(variant))
    printing.rows([Text(shown("  ".join(filter(None, words))), "bold")])


def _print_lines(
    call: ChosenLaunch,
    stage: Stage,
    lines: tuple[ExecutedLine, ...],
    drawn: str,
    location: report.TensorAt,
) -> None:
    printing.rows([Text()])
    if not lines:
        printing.narrate("none of these lines was run, or is tied to one that was")
        return
    if stage is not Stage.PTX:
        sentence = (
            f"By line of {stage.value}: what the PTX that is tied to a line comes to; a line "
            "of PTX that is tied to several counts on each."
        )
        printing.rows([Text(sentence, "dim")])
    try:
        listing = call.reader.stages.listing(call.variant, stage)
    except PtxviewError as error:
        say(f"{error.message}")
        return
    printing.rows(report.rows(lines, listing, printing.out().width, drawn, location))


def _labelled(rows: Iterable[tuple[str, str]], style: str) -> None:
    pairs = report.labelled(rows, printing.out().width)
    printing.rows(Text.assemble((label, style), text) for label, text in pairs)


def arguments_step(parser: argparse.ArgumentParser) -> None:
    """Options of ``step``."""
    takes_launch(parser)
    takes(
        parser,
        {
            "--block": option("X[,Y,Z]", "block to run (0,0,0)", type=place, default=(0, 0, 0)),
            "--lane": option("N", "thread whose values are shown first (0)", type=int, default=0),
            "--commands": option("'C; C…'", "in place of a prompt: 'until 47; print %%r5'"),
            "--json": flag("print JSON, a document a command"),
        },
    )


def run_step(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Run a block, keep every step, and execute commands; 1 where the block did not end.

    Commands are read from the terminal, from a pipe, or from --commands.
    """
    args = parser.parse_args(argv)
    call = chosen_launch(args)
    if not 0 <= args.lane < call.launch.threads:
        raise UsageError(
            f"there is no lane {args.lane}: a block has " + plural(call.launch.threads, "thread")
        )
    traced = trace_block(
        call.program,
        call.launch,
        call.make(),
        args.block,
        budget=args.budget,
        seconds=args.seconds,
    )
    names, why = call.register_names()
    if why:
        say(f"values have no names from the source: {why}")
    stepper = Stepper(traced, names, call.source, args.lane)
    if not args.json:
        _print_head(call)
    for remark in stepper.inputs.remarks:
        printing.narrate(f"inputs: {remark}")
    if traced.ended is not None:
        say(f"{traced.ended}")
    misunderstood = False
    for command in itertools.chain(("where",), _commands(args.commands, args.json)):
        answer = stepper.run(command)
        misunderstood |= not answer.understood
        if answer.ends:
            break
        if args.json:
            print_json(step.document(answer))
        else:
            printing.rows(step.rows(answer, printing.out().width))
    if misunderstood and args.commands is not None:
        return Exit.USAGE
    return Exit.OK if traced.ended is None else Exit.DIFFERENT


def _commands(option_text: str | None, quiet: bool) -> Iterator[str]:
    """Commands of the option, else of standard input; echoed where nobody typed them."""
    typed = option_text is None and printing.at_terminal() and printing.to_terminal()
    lines = iter(lambda: printing.answer("(step) "), None) if option_text is None else [option_text]
    for line in lines:
        for command in map(str.strip, str(line).split(";")):
            if command and not typed and not quiet:
                printing.lines(["", f"(step) {command}"])
            if command or typed:
                yield command
