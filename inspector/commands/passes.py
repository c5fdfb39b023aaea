"""Compile a recorded kernel again: pass by pass, or with an edited stage or other options.

``passes``: the recorded IR is compiled by Triton, without a GPU, with the IR printed before or
after every pass; of a graph the passes are Inductor's, as torch's trace has them. ``try``: an
edited stage, or the recorded one with each combination of options, goes through the rest of its
compiler. Nothing is launched or written into the recording.
"""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from inspector.analyse.passes import PassFilter, PassRun
from inspector.base.model import Stage
from inspector.base.text import Exit, PtxviewError, UsageError, counted, plural, shown
from inspector.commands import common
from inspector.commands.common import JSON, KERNEL, option, say, several, takes, takes_compiler
from inspector.commands.compile import targets
from inspector.diff import compare
from inspector.diff.beside import change_of, folded, lines_changed
from inspector.measure.experiment import Experiment, experiment_of
from inspector.reader.passes import STAGES, PassList, graph_passes, variant_passes
from inspector.reader.query import select_graph, select_one
from inspector.recording.layout import kept_cache
from inspector.report import compiled as report
from inspector.report import diff_text, tables
from inspector.report.compiled import Difference
from inspector.report.jsons import SCHEMA
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
    path, selector, asked = _words(args.words)
    reader = common.open_reader(path)
    graph = select_graph(reader.recording, selector)
    whose: dict[str, object] = dict.fromkeys(("kernel", "variant", "graph"))
    if graph is not None:
        if args.stage is not None:
            raise UsageError(f"{graph.id} is a graph: its passes make no {args.stage}")
        made = graph_passes(graph, lines_changed)
        head = [f"graph {graph.id}", "Inductor's own passes"]
        whose["graph"] = graph.id
    else:
        kernel, variant = select_one(reader.recording, selector)
        made = variant_passes(
            variant,
            kept_cache(),
            lines_changed,
            python=args.python,
            seconds=args.limit,
            say=lambda text: say(f"{text} …"),
        )
        settings = (made.target or "", tables.config(variant), f"Triton {made.triton}")
        head = [kernel.demangled, variant.id, *settings]
        whose |= {"kernel": kernel.name, "variant": variant.id}
    wanted = PassFilter(args.stage, args.introduces, args.removes, args.full or args.json)
    chosen = None if asked is None else _chosen(made, asked)
    listed = wanted.of(made.passes) if chosen is None else [chosen]
    if args.json:
        hunks = None
        if chosen is not None:
            hunks = change_of(chosen, without_locations=False).diff.hunks if chosen.changed else ()
        facts = {
            "schema": SCHEMA,
            **whose,
            "target": made.target or None,
            "triton": made.triton or None,
            "recorded_triton": made.recorded,
            "begins": made.begins,
            "failed": made.failed,
            "remarks": list(made.remarks),
            "passes": [report.pass_json(one, hunks) for one in listed],
        }
        common.print_json(facts)
    else:
        line = Text(shown("  ".join(filter(None, head))), "bold")
        if chosen is not None:
            printing.rows([line, *_pass_texts(chosen, args)])
        else:
            printing.rows([line])
            if listed:
                asked_for = wanted.asked(made.passes)
                printing.out().print(report.pass_table(listed, asked_for))
            changed = sum(p.changed for p in made.passes)
            said = f"{counted(len(made.passes), 'pass')} ran, {changed} changed something"
            if args.introduces or args.removes or args.stage:
                said += f"; {len(listed)} of them as asked"
            say(said)
        for remark in made.remarks:
            say(shown(remark))
        if made.failed is not None:
            say(f"the compiler did not come to its end: {shown(made.failed)}")
    return Exit.OK if made.failed is None else Exit.DIFFERENT


def _words(words: list[str]) -> tuple[str | None, str | None, str | None]:
    """``[PATH] KERNEL [PASS]``: an existing path wins over a kernel of that name."""
    rest = list(words)
    path = rest.pop(0) if rest and is_there(Path(rest[0])) else None
    if len(rest) > 2:
        raise UsageError("give [PATH] KERNEL [PASS]", f"{shown(rest[2])} is one word too many.")
    return path, rest[0] if rest else None, rest[1] if len(rest) > 1 else None


def _chosen(made: PassList, asked: str) -> PassRun:
    """The one pass that a word means. Raises ``UsageError``."""
    fits = made.one(asked)
    if not fits:
        raise UsageError(
            f"no pass is called {shown(asked)}", "Without PASS they are listed, all with --full."
        )
    if len(fits) > 1:
        names = [(p.number, p.stage, shown(report.pass_title(p))) for p in fits]
        rows = "\n".join(f"  {number:>4} {stage:<6} {name}" for number, stage, name in names)
        raise UsageError(f"{shown(asked)} fits {len(fits)} passes; give a number:", rows)
    return fits[0]


def _pass_texts(chosen: PassRun, args: argparse.Namespace) -> Iterator[Text]:
    scope = f"  on {chosen.scope}" if chosen.scope else ""
    took = report.pass_milliseconds(chosen)
    head = f"{chosen.number}  {chosen.name}  {chosen.argument}{scope}  {took} ms"
    yield Text(shown(head), "bold cyan")
    if chosen.inside:
        yield Text(shown(f"runs {', '.join(dict.fromkeys(chosen.inside))} itself"))
    if not chosen.changed:
        yield Text("It changed nothing." if chosen.finished else "The compiler failed in it.")
        return
    if said := report.pass_operations(chosen, None):
        yield Text(shown(said))
    change = change_of(chosen, without_locations=True)
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
    made = experiment_of(outcome, kept_cache())
    differences = list(_differences(made, args.diff))
    if args.json:
        common.print_json(report.trial_json(made, differences))
    else:
        _print(made, differences, args.diff)
    return Exit.DIFFERENT if outcome.failed else Exit.OK


def _try_request(parser: argparse.ArgumentParser, args: argparse.Namespace) -> TryRequest:
    """What the command line asks for. Raises PtxviewError; nothing is compiled yet."""
    word, *rest = args.stage or [None]
    if word is not None and word not in EDITED:
        parser.error(f"--stage: {word} is not one of {', '.join(EDITED)}")
    stage, file = None if word is None else Stage(word), rest[0] if rest else None
    words = [*args.words, *rest[1:]]  # those after the file belong to the command
    if len(words) > 2 or not words:
        parser.error("give a KERNEL, or a PATH and a KERNEL")
    path, selector = common.split_path(words)
    recording = open_path(newest() if path is None else Path(path))
    kernel, variant = select_one(recording, selector)
    settings = _settings(args)
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
        text, name = read_edited(file, stage) if file != "-" else common.standard_input(), file
        if file == "-":
            name = "<stdin>"
            if not text.strip():
                raise UsageError("standard input is empty")
    return TryRequest(
        recording, kernel, variant, begin, text, name, settings, args.python, args.limit
    )


def _settings(args: argparse.Namespace) -> tuple[TrySetting, ...]:
    """Each combination of the options, in the order in which they were given. Raises."""
    archs: Sequence[str | None] = targets(args.target) or (None,)
    names = ("num_warps", "num_stages", "maxnreg")
    named = {n: _numbers(f"--{n.replace('_', '-')}", getattr(args, n)) for n in names}
    if any(n & (n - 1) for n in named["num_warps"]):
        raise UsageError("--num-warps are powers of two: 1, 2, 4, 8, 16, 32")
    given = {name: values for name, values in named.items() if values}
    sets = [common.option_words("--ptxas-options", text) for text in args.ptxas_options] or [()]
    for words in sets:
        check_options(words, "ptx")
    chosen = itertools.product(*given.values())
    triton = [dict(zip(given, values, strict=True)) for values in chosen]
    made = [TrySetting(*one) for one in itertools.product(archs, triton, sets)]
    if len(made) > MAX_COLUMNS:
        raise UsageError(
            f"these options make {len(made)} combinations, of at most {MAX_COLUMNS}",
            "Give fewer values, or some after the others.",
        )
    return tuple({one.label: one for one in made}.values())


def _numbers(option: str, texts: Sequence[str]) -> tuple[int, ...]:
    out: dict[int, None] = {}
    for word in (w.strip() for text in texts for w in text.split(",")):
        if not word.isascii() or not word.isdecimal() or not 0 < int(word[:9]) <= 1024:
            raise UsageError(f"{option} {word or '(nothing)'} is not a number from 1 to 1024")
        out[int(word)] = None
    return tuple(out)


def _differences(made: Experiment, asked: str | None) -> Iterator[Difference]:
    """The columns that compiled, compared with the recorded variant."""
    columns = [(one, one.variant) for one in made.tried if one.variant is not None]
    if asked == "none" or (asked is None and len(columns) != 1):
        return
    usual = Stage.SASS if made.outcome.request.stage is Stage.PTX else Stage.PTX
    base = made.base.variant
    for one, variant in columns:
        assert base is not None
        pair = (base, variant)
        try:
            stage = compare.stage_of(*pair, Stage(asked) if asked else usual)
            compared = compare.compare((made.reader, made.reader), pair, stage)
        except PtxviewError as error:
            yield one, error.message
            continue
        yield one, compared


def _print(made: Experiment, differences: Sequence[Difference], asked: str | None) -> None:
    printing.rows(
        [
            report.trial_title(made),
            *report.trial_table(made, printing.out().width),
            Text(),
            *report.messages([one.compilation for one in made.tried]),
            *(Text(shown(sentence)) for sentence in report.trial_sentences(made)),
        ]
    )
    for one in differences:
        _print_difference(one, made.base.label, MAX_ROWS if asked is None else None)
    if failed := made.outcome.failed:
        say(f"{failed} of {plural(len(made.outcome.columns), 'column')} failed")


def _print_difference(one: Difference, base: str, max_rows: int | None) -> None:
    column, compared = one
    head = Text.assemble((f"{base} → ", "dim"), (shown(column.label), "bold"))
    if isinstance(compared, str):
        printing.rows([Text(), head])
        say(compared)
        return
    stage, width = compared.stage.value, min(printing.out().width, 100)
    summed = diff_text.lines(compared.summary, compared.explanation, width)
    same = compared.diff.identical
    said = Text(f"{stage}: identical") if same else Text(f"{stage}:  {diff_text.LEGEND}", "dim")
    printing.rows([Text(), head, *summed, said])
    if not same:
        common.print_beside(compared, max_rows, f"--diff {stage} shows all")
