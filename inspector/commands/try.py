"""Compile a recorded kernel with an edited stage, or with other options.

FILE is an edited ttir, ttgir, llir or ptx of the kernel. The stages that follow are compiled again,
by Triton's compiler and ptxas, for the recorded target with the recorded options. Without FILE the
recorded text is compiled with each combination of the given options: a column each. Beside them are
the recorded figures, then the differences and the compilers' messages, at the lines of FILE.
Nothing is launched or written into the recording. Exits with 1 where something did not compile.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from inspector.base.errors import Exit, PtxviewError, UsageError
from inspector.base.model import Stage, Variant
from inspector.base.text import plural, shown
from inspector.commands.common import (
    option_words,
    print_beside,
    print_json,
    seconds,
    split_path,
    standard_input,
)
from inspector.commands.compile import ended_like_ctrl_c, targets
from inspector.diff import compare
from inspector.measure.experiment import Experiment, experiment_of
from inspector.reader.selecting import select_one
from inspector.recording.layout import kept_cache
from inspector.report import compiled as report
from inspector.report import diff_text
from inspector.report.compiled import Difference
from inspector.sources.compilers import check_options
from inspector.sources.opening import newest, open_path
from inspector.sources.trying import (
    MAX_COLUMNS,
    TryRequest,
    TrySetting,
    begin_of,
    check,
    read_edited,
    try_stage,
)
from inspector.system import printing
from inspector.system.printing import narrate

STAGES = ("ttir", "ttgir", "llir", "ptx")
LIMIT_SECONDS = 600.0
MAX_ROWS = 60
"""Rows of a difference that are printed, unless a stage was asked for."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``try``."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[PATH] KERNEL",
        help="recording or file, and kernel: a name, glob, variant id or NAME#2",
    )
    parser.add_argument(
        "--stage",
        nargs="+",
        default=[],
        metavar=("STAGE", "FILE"),
        help="ttir, ttgir, llir or ptx, and the file with the edited text (- is standard input);"
        " without a file the recorded text",
    )
    options = parser.add_argument_group("options to try, each combination a column")
    options.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="ARCH[,ARCH]",
        help="other architectures (sm_80,sm_100)",
    )
    for name, what in (
        ("--num-warps", "warps of a block"),
        ("--num-stages", "stages of a pipelined loop"),
        ("--maxnreg", "most registers of a thread"),
    ):
        options.add_argument(name, action="append", default=[], metavar="N[,N]", help=what)
    options.add_argument(
        "--ptxas-options",
        action="append",
        default=[],
        metavar="'OPTIONS'",
        help="set of ptxas options, a column each; repeatable",
    )
    parser.add_argument(
        "--diff",
        metavar="STAGE",
        choices=(*STAGES, "sass", "none"),
        help="stage whose difference is shown (default: ptx of one column, sass of an edited ptx)",
    )
    parser.add_argument("--python", metavar="PATH", help="interpreter that has Triton")
    parser.add_argument(
        "--limit",
        type=seconds,
        default=LIMIT_SECONDS,
        metavar="S",
        help=f"seconds that one compiler may take ({LIMIT_SECONDS:.0f})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Compile, compare and print; 1 where something did not compile."""
    args = parser.parse_args(argv)
    request = request_of(parser, args)
    with ended_like_ctrl_c():
        outcome = try_stage(request, lambda text: narrate(f"ptxview: {text}"))
    made = experiment_of(outcome, kept_cache())
    differences = list(_differences(made, args.diff))
    if args.json:
        print_json(report.trial_json(made, differences))
    else:
        _print(made, differences, args.diff)
    return Exit.DIFFERENT if outcome.failed else Exit.OK


# -- the request ---------------------------------------------------------------------------------


def request_of(parser: argparse.ArgumentParser, args: argparse.Namespace) -> TryRequest:
    """What the command line asks for. Raises PtxviewError; nothing is compiled yet."""
    stage, file = _stage(parser, args)
    if len(args.words) > 2 or not args.words:
        parser.error("give a KERNEL, or a PATH and a KERNEL")
    path, selector = split_path(args.words)
    recording = open_path(newest() if path is None else Path(path))
    kernel, variant = select_one(recording, selector)
    settings = settings_of(args)
    if file is None and not any(one.label for one in settings):
        raise UsageError(
            "there is nothing to try",
            "Give an edited stage (--stage ptx FILE), or options: --num-warps 8, --target sm_100.",
        )
    if file is None:
        begin = begin_of(kernel, variant, settings, stage)
        text, name = None, f"the recorded {begin.value}"
    else:
        assert stage is not None
        begin = stage
        if stage not in variant.stages:
            why = variant.missing.get(stage, "it was not recorded")
            raise UsageError(f"there is no {stage.value} of {kernel.demangled} to edit: {why}")
        check(kernel, stage, settings)
        text, name = (_standard_input() if file == "-" else read_edited(file, stage)), file
        name = "<stdin>" if file == "-" else file
    return TryRequest(
        recording, kernel, variant, begin, text, name, settings, args.python, args.limit
    )


def _stage(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> tuple[Stage | None, str | None]:
    """The stage and the file of ``--stage``; the words after them belong to the command."""
    if not args.stage:
        return None, None
    word, *rest = args.stage
    if word not in STAGES:
        parser.error(f"--stage: {word} is not one of {', '.join(STAGES)}")
    file, more = (rest[0], rest[1:]) if rest else (None, [])
    args.words = [*args.words, *more]
    return Stage(word), file


def settings_of(args: argparse.Namespace) -> tuple[TrySetting, ...]:
    """Each combination of the options, in the order in which they were given. Raises."""
    archs: Sequence[str | None] = targets(args.target) or (None,)
    named = {
        "num_warps": _numbers("--num-warps", args.num_warps),
        "num_stages": _numbers("--num-stages", args.num_stages),
        "maxnreg": _numbers("--maxnreg", args.maxnreg),
    }
    if any(n & (n - 1) for n in named["num_warps"]):
        raise UsageError("--num-warps are powers of two: 1, 2, 4, 8, 16, 32")
    given = {name: values for name, values in named.items() if values}
    sets = [option_words("--ptxas-options", text) for text in args.ptxas_options] or [()]
    for words in sets:
        check_options(words, "ptx")
    triton = [
        dict(zip(given, values, strict=True)) for values in itertools.product(*given.values())
    ]
    made = [
        TrySetting(target, values, words)
        for target, values, words in itertools.product(archs, triton, sets)
    ]
    if len(made) > MAX_COLUMNS:
        raise UsageError(
            f"these options make {len(made)} combinations, of at most {MAX_COLUMNS}",
            "Give fewer values, or some after the others.",
        )
    labels = {one.label: one for one in made}
    return tuple(labels.values())


def _numbers(option: str, texts: Sequence[str]) -> tuple[int, ...]:
    out: dict[int, None] = {}
    for word in (w.strip() for text in texts for w in text.split(",")):
        if not word.isascii() or not word.isdecimal() or not 0 < int(word[:9]) <= 1024:
            raise UsageError(f"{option} {word or '(nothing)'} is not a number from 1 to 1024")
        out[int(word)] = None
    return tuple(out)


def _standard_input() -> bytes:
    data = standard_input()
    if not data.strip():
        raise UsageError("standard input is empty")
    return data


# -- differences -----------------------------------------------------------------------------------


def _differences(made: Experiment, asked: str | None) -> Iterator[Difference]:
    """The columns that compiled, compared with the recorded variant."""
    columns = [one for one in made.tried if one.variant is not None]
    if asked == "none" or (asked is None and len(columns) != 1):
        return
    edited_ptx = made.outcome.request.stage is Stage.PTX
    usual = Stage.SASS if edited_ptx else Stage.PTX
    base = made.base.variant
    for one in columns:
        assert one.variant is not None and base is not None
        pair: tuple[Variant, Variant] = (base, one.variant)
        try:
            stage = compare.stage_of(*pair, Stage(asked) if asked else usual)
            compared = compare.compare((made.reader, made.reader), pair, stage)
        except PtxviewError as error:
            yield Difference(one, None, error.message)
            continue
        yield Difference(one, compared)


# -- output ---------------------------------------------------------------------------------------


def _print(made: Experiment, differences: Sequence[Difference], asked: str | None) -> None:
    out = printing.out()
    out.print(report.trial_title(made), soft_wrap=True)
    for line in report.trial_table(made, out.width):
        out.print(line, soft_wrap=True)
    out.print()
    for line in report.trial_messages(made):
        out.print(line, soft_wrap=True)
    for sentence in report.trial_sentences(made):
        out.print(Text(shown(sentence)), soft_wrap=True)
    for one in differences:
        _print_difference(one, made.base.label, MAX_ROWS if asked is None else None)
    failed = made.outcome.failed
    if failed:
        narrate(f"ptxview: {failed} of {plural(len(made.outcome.columns), 'column')} failed")


def _print_difference(one: Difference, base: str, max_rows: int | None) -> None:
    out = printing.out()
    compared = one.compared
    out.print()
    out.print(Text.assemble((f"{base} → ", "dim"), (shown(one.column.label), "bold")))
    if compared is None:
        narrate(f"ptxview: {one.why}")
        return
    for line in diff_text.lines(compared.summary, compared.explanation, min(out.width, 100)):
        out.print(line, soft_wrap=True)
    if compared.diff.identical:
        out.print(f"{compared.stage.value}: identical")
        return
    head = f"{compared.stage.value}:  {diff_text.LEGEND}"
    out.print(Text(head, style="dim"), soft_wrap=True)
    print_beside(compared, max_rows, f"--diff {compared.stage.value} shows all")
