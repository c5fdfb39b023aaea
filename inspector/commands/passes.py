"""Compile a recorded kernel again: pass by pass, or with an edited stage or other options.

``passes``: the recorded IR is compiled by Triton, without a GPU, with the IR printed before or
after every pass; of a graph the passes are Inductor's, as torch's trace has them. ``try``: an
edited stage, or the recorded one with each combination of options, goes through the rest of its
compiler. Nothing is launched or written into the recording.
"""

import argparse
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.text import Text

from inspector.analysis.passes import PassFilter, PassRun
from inspector.base.errors import Exit, PtxviewError, UsageError
from inspector.base.escapes import shown
from inspector.base.model import Stage
from inspector.base.units import plural
from inspector.commands import common
from inspector.commands.common import JSON, KERNEL, option, say, several, takes, takes_compiler
from inspector.commands.compile import targets
from inspector.diff import compare
from inspector.diff.beside import change_of, folded, lines_changed
from inspector.diff.matching import Hunk
from inspector.measure.experiment import Experiment, experiment_of
from inspector.reader.passes import STAGES, PassList, graph_passes, variant_passes
from inspector.reader.query import select_graph, select_one
from inspector.reader.reader import Reader
from inspector.recording.layout import user_derived_cache
from inspector.render import compiled as report
from inspector.render import diff_text, tables
from inspector.render.compiled import Difference
from inspector.render.jsons import SCHEMA
from inspector.sources.compilers import check_options
from inspector.sources.opening import is_there, newest, open_path
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

EDITED = ("ttir", "ttgir", "llir", "ptx")
"""Stages that may be edited."""
MAX_ROWS = 60
"""Rows of a difference that are printed, unless a stage was asked for."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``passes``."""
    takes(
        parser,
        {
            "words": option(
                "[PATH] KERNEL [PASS]", "PATH, KERNEL or a graph's id, a pass", nargs="*"
            ),
            "--stage": option(None, "those that make this stage", choices=STAGES),
            "--introduces": option("OP", "passes that add an operation: convert_layout, a glob"),
            "--removes": option("OP", "those after which there are fewer"),
            "--full": common.flag("unchanged passes, too; with PASS all lines"),
            "--context": option("N", "equal lines around a change (3)", type=int, default=3),
            "--width": option("N", "columns of the diff of PASS", type=int),
            "--json": JSON,
        },
    )
    takes_compiler(parser)


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """List the passes, or show what one changed; 1 where the compiler did not come to its end."""
    args = parser.parse_args(argv)
    path, selector, pass_word = _words(args.words)
    reader = common.open_reader(path)
    pass_list, head, owner = _pass_list(reader, selector, args)
    pass_filter = PassFilter(args.stage, args.introduces, args.removes, args.full or args.json)
    pass_run = None if pass_word is None else _one_pass(pass_list, pass_word)
    listed = pass_filter.select(pass_list.passes) if pass_run is None else [pass_run]
    if args.json:
        common.print_json(_document(pass_list, owner, listed, pass_run))
    else:
        line = Text(shown("  ".join(filter(None, head))), "bold")
        if pass_run is not None:
            printing.rows([line, *_pass_texts(pass_run, args)])
        else:
            printing.rows([line])
            _print_list(pass_list, listed, pass_filter, args)
        for remark in pass_list.remarks:
            say(shown(remark))
        if pass_list.failed is not None:
            say(f"the compiler did not come to its end: {shown(pass_list.failed)}")
    return Exit.OK if pass_list.failed is None else Exit.DIFFERENT


def _pass_list(
    reader: Reader, selector: str | None, args: argparse.Namespace
) -> tuple[PassList, list[str], dict[str, object]]:
    """The passes of a graph or a variant, the words of their heading, and whose they are."""
    owner: dict[str, object] = dict.fromkeys(("kernel", "variant", "graph"))
    graph = select_graph(reader.recording, selector)
    if graph is not None:
        if args.stage is not None:
            raise UsageError(f"{graph.id} is a graph: its passes make no {args.stage}")
        owner["graph"] = graph.id
        pass_list = graph_passes(graph, lines_changed)
        return pass_list, [f"graph {graph.id}", "Inductor's own passes"], owner
    kernel, variant = select_one(reader.recording, selector)
    pass_list = variant_passes(
        variant,
        user_derived_cache(),
        lines_changed,
        python=args.python,
        seconds=args.limit,
        say=lambda text: say(f"{text} …"),
    )
    head = [
        kernel.demangled,
        variant.id,
        pass_list.target or "",
        tables.config_text(variant),
        f"Triton {pass_list.triton}",
    ]
    owner |= {"kernel": kernel.name, "variant": variant.id}
    return pass_list, head, owner


def _document(
    pass_list: PassList,
    owner: Mapping[str, object],
    listed: Sequence[PassRun],
    pass_run: PassRun | None,
) -> dict[str, object]:
    """The JSON of passes; of one pass with its hunks."""
    hunks: tuple[Hunk, ...] | None = None
    if pass_run is not None:
        hunks = ()
        if pass_run.changed:
            hunks = change_of(pass_run, without_locations=False).diff.hunks
    return {
        "schema": SCHEMA,
        **owner,
        "target": pass_list.target or None,
        "triton": pass_list.triton or None,
        "recorded_triton": pass_list.recorded,
        "begins": pass_list.begins,
        "failed": pass_list.failed,
        "remarks": list(pass_list.remarks),
        "passes": [report.pass_json(listed_pass, hunks) for listed_pass in listed],
    }


def _print_list(
    pass_list: PassList,
    listed: Sequence[PassRun],
    pass_filter: PassFilter,
    args: argparse.Namespace,
) -> None:
    if listed:
        asked_for = pass_filter.matching_operations(pass_list.passes)
        printing.out().print(report.pass_table(listed, asked_for))
    changed = sum(pass_run.changed for pass_run in pass_list.passes)
    sentence = f"{plural(len(pass_list.passes), 'pass')} ran, {changed} changed something"
    if args.introduces or args.removes or args.stage:
        sentence += f"; {len(listed)} of them as asked"
    say(sentence)


def _words(words: list[str]) -> tuple[str | None, str | None, str | None]:
    """``[PATH] KERNEL [PASS]``: an existing path wins over a kernel of that name."""
    remaining = list(words)
    path = remaining.pop(0) if remaining and is_there(Path(remaining[0])) else None
    if len(remaining) > 2:
        raise UsageError(
            "give [PATH] KERNEL [PASS]", f"{shown(remaining[2])} is one word too many."
        )
    return path, remaining[0] if remaining else None, remaining[1] if len(remaining) > 1 else None


def _one_pass(pass_list: PassList, word: str) -> PassRun:
    """The one pass that a word means. Raises ``UsageError``."""
    fits = pass_list.find(word)
    if not fits:
        raise UsageError(
            f"no pass is called {shown(word)}", "Without PASS they are listed, all with --full."
        )
    if len(fits) > 1:
        names = [(p.number, p.stage, shown(report.pass_title(p))) for p in fits]
        rows = "\n".join(f"  {number:>4} {stage:<6} {name}" for number, stage, name in names)
        raise UsageError(f"{shown(word)} fits {len(fits)} passes; give a number:", rows)
    return fits[0]


def _pass_texts(pass_run: PassRun, args: argparse.Namespace) -> Iterator[Text]:
    scope = f"  on {pass_run.scope}" if pass_run.scope else ""
    took = report.pass_milliseconds(pass_run)
    head = f"{pass_run.number}  {pass_run.name}  {pass_run.argument}{scope}  {took} ms"
    yield Text(shown(head), "bold cyan")
    if pass_run.inside:
        yield Text(shown(f"runs {', '.join(dict.fromkeys(pass_run.inside))} itself"))
    if not pass_run.changed:
        yield Text("It changed nothing." if pass_run.finished else "The compiler failed in it.")
        return
    if operations := report.pass_operations(pass_run, None):
        yield Text(shown(operations))
    change = change_of(pass_run, without_locations=True)
    if change.diff.identical and not args.full:
        yield Text("Names or the order of attributes are all that differs.")
        return
    yield Text(diff_text.LEGEND.replace("in a", "before").replace("in b", "after"), "dim")
    rows = change.rows() if args.full else folded(change.rows(), args.context)
    yield from common.beside_texts(change, rows, args.width)


def arguments_try(parser: argparse.ArgumentParser) -> None:
    """Options of ``try``."""
    stage = "ttir, ttgir, llir or ptx, and the file with the edited text (- is standard input); "
    stage += "without a file the recorded text"
    diff = "stage whose difference is shown (default: ptx of one column, sass of an edited ptx)"
    stages = (*EDITED, "sass", "none")
    takes(
        parser,
        {
            "words": KERNEL,
            "--stage": option(("STAGE", "FILE"), stage, nargs="+", default=[]),
            "--diff": option("STAGE", diff, choices=stages),
            "--json": JSON,
        },
    )
    takes_compiler(parser)
    takes(
        parser.add_argument_group("options to try, each combination a column"),
        {
            "--target": several("ARCH[,ARCH]", "other architectures (sm_80,sm_100)"),
            "--num-warps": several("N[,N]", "warps of a block"),
            "--num-stages": several("N[,N]", "stages of a pipelined loop"),
            "--maxnreg": several("N[,N]", "most registers of a thread"),
            "--ptxas-options": several("'OPTIONS'", "set of ptxas options, a column; repeatable"),
        },
    )


def run_try(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Compile, compare and print; 1 where something did not compile."""
    args = parser.parse_args(argv)
    request = _try_request(parser, args)
    with common.ended_like_ctrl_c():
        outcome = try_stage(request, say)
    experiment = experiment_of(outcome, user_derived_cache())
    differences = list(_differences(experiment, args.diff))
    if args.json:
        common.print_json(report.trial_json(experiment, differences))
    else:
        _print(experiment, differences, args.diff)
    return Exit.DIFFERENT if outcome.failed else Exit.OK


def _try_request(parser: argparse.ArgumentParser, args: argparse.Namespace) -> TryRequest:
    """What the command line asks for. Raises PtxviewError; nothing is compiled yet."""
    word, *stage_words = args.stage or [None]
    if word is not None and word not in EDITED:
        parser.error(f"--stage: {word} is not one of {', '.join(EDITED)}")
    stage = None if word is None else Stage(word)
    file = stage_words[0] if stage_words else None
    words = [*args.words, *stage_words[1:]]  # those after the file belong to the command
    if len(words) > 2 or not words:
        parser.error("give a KERNEL, or a PATH and a KERNEL")
    path, selector = common.split_path(words)
    recording = open_path(newest() if path is None else Path(path))
    kernel, variant = select_one(recording, selector)
    settings = _settings(args)
    if file is None:
        if not any(setting.label for setting in settings):
            raise UsageError(
                "there is nothing to try",
                "Give an edited stage (--stage ptx FILE), or options: --num-warps 8, "
                "--target sm_100.",
            )
        begin = begin_of(kernel, variant, settings, stage)
        text = None
        name = f"the recorded {begin.value}"
    else:
        assert stage is not None
        begin = stage
        if stage not in variant.stages:
            why = variant.missing.get(stage, "it was not recorded")
            raise UsageError(f"there is no {stage.value} of {kernel.demangled} to edit: {why}")
        check(kernel, stage, settings)
        text = _edited_text(file, stage)
        name = "<stdin>" if file == "-" else file
    return TryRequest(
        recording, kernel, variant, begin, text, name, settings, args.python, args.limit
    )


def _edited_text(file: str, stage: Stage) -> bytes:
    """The text of a file, or of standard input for ``-``."""
    if file != "-":
        return read_edited(file, stage)
    text = common.standard_input()
    if not text.strip():
        raise UsageError("standard input is empty")
    return text


def _settings(args: argparse.Namespace) -> tuple[TrySetting, ...]:
    """Each combination of the options, in the order in which they were given. Raises."""
    archs: Sequence[str | None] = targets(args.target) or (None,)
    names = ("num_warps", "num_stages", "maxnreg")
    named = {n: _numbers(f"--{n.replace('_', '-')}", getattr(args, n)) for n in names}
    if any(n & (n - 1) for n in named["num_warps"]):
        raise UsageError("--num-warps are powers of two: 1, 2, 4, 8, 16, 32")
    named_values = {name: values for name, values in named.items() if values}
    sets = [common.option_words("--ptxas-options", text) for text in args.ptxas_options] or [()]
    for words in sets:
        check_options(words, "ptx")
    combinations = itertools.product(*named_values.values())
    triton = [dict(zip(named_values, values, strict=True)) for values in combinations]
    all_settings = [TrySetting(*parts) for parts in itertools.product(archs, triton, sets)]
    if len(all_settings) > MAX_COLUMNS:
        raise UsageError(
            f"these options make {len(all_settings)} combinations, of at most {MAX_COLUMNS}",
            "Give fewer values, or some after the others.",
        )
    return tuple({setting.label: setting for setting in all_settings}.values())


def _numbers(option: str, texts: Sequence[str]) -> tuple[int, ...]:
    numbers: dict[int, None] = {}
    for text in texts:
        for word in map(str.strip, text.split(",")):
            if not word.isascii() or not word.isdecimal() or not 0 < int(word[:9]) <= 1024:
                raise UsageError(f"{option} {word or '(nothing)'} is not a number from 1 to 1024")
            numbers[int(word)] = None
    return tuple(numbers)


def _differences(experiment: Experiment, diff_option: str | None) -> Iterator[Difference]:
    """The columns that compiled, compared with the recorded variant."""
    columns = [
        (column, column.variant) for column in experiment.tried if column.variant is not None
    ]
    if diff_option == "none" or (diff_option is None and len(columns) != 1):
        return
    usual = Stage.SASS if experiment.outcome.request.stage is Stage.PTX else Stage.PTX
    base = experiment.base.variant
    for column, variant in columns:
        assert base is not None
        pair = (base, variant)
        try:
            stage = compare.stage_of(*pair, Stage(diff_option) if diff_option else usual)
            compared = compare.compare((experiment.reader, experiment.reader), pair, stage)
        except PtxviewError as error:
            yield column, error.message
            continue
        yield column, compared


def _print(
    experiment: Experiment, differences: Sequence[Difference], diff_option: str | None
) -> None:
    printing.rows(
        [
            report.trial_title(experiment),
            *report.trial_table(experiment, printing.out().width),
            Text(),
            *report.messages([column.compilation for column in experiment.tried]),
            *(Text(shown(sentence)) for sentence in report.trial_sentences(experiment)),
        ]
    )
    for difference in differences:
        _print_difference(
            difference, experiment.base.label, MAX_ROWS if diff_option is None else None
        )
    if failed := experiment.outcome.failed:
        say(f"{failed} of {plural(len(experiment.outcome.columns), 'column')} failed")


def _print_difference(difference: Difference, base: str, max_rows: int | None) -> None:
    column, compared = difference
    head = Text.assemble((f"{base} → ", "dim"), (shown(column.label), "bold"))
    if isinstance(compared, str):
        printing.rows([Text(), head])
        say(compared)
        return
    stage = compared.stage.value
    width = min(printing.out().width, 100)
    summed = diff_text.lines(compared.summary, compared.explanation, width)
    same = compared.diff.identical
    heading = Text(f"{stage}: identical") if same else Text(f"{stage}:  {diff_text.LEGEND}", "dim")
    printing.rows([Text(), head, *summed, heading])
    if not same:
        common.print_beside(compared, max_rows, f"--diff {stage} shows all")
