"""Pass by pass: which pass of MLIR's or LLVM's did this to a kernel's IR.

The recorded IR is compiled again by Triton, without a GPU, with the IR told before or after every
pass; the result is kept. PASS is a number of the list, or a name. Of a graph they are
Inductor's, as torch's trace told them when it was compiled.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from inspector.analyse.passes import PassFilter, PassRun
from inspector.base.errors import Exit, UsageError
from inspector.base.text import counted, shown
from inspector.commands.common import open_reader, print_beside, print_json, seconds
from inspector.diff.beside import change_of, lines_changed
from inspector.reader.passes import STAGES, PassList, graph_passes, variant_passes
from inspector.reader.selecting import select_graph, select_one
from inspector.recording.layout import kept_cache
from inspector.report import diff_text, tables
from inspector.report import passes as report
from inspector.sources.opening import is_there
from inspector.system import printing
from inspector.system.printing import narrate


@dataclass(frozen=True, slots=True)
class _Whose:
    """Whose passes they are: what stands above them, and what JSON calls it."""

    words: tuple[str, ...]
    kernel: str | None
    variant: str | None
    graph: str | None


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``passes``."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[PATH] KERNEL [PASS]",
        help="recording, kernel (or graph id, for Inductor's passes), and a pass to show",
    )
    parser.add_argument("--stage", choices=STAGES, help="those that make this stage")
    parser.add_argument(
        "--introduces",
        metavar="OP",
        help="passes that add an operation: convert_layout, ttg.local_alloc, a glob",
    )
    parser.add_argument("--removes", metavar="OP", help="those after which there are fewer")
    parser.add_argument(
        "--full", action="store_true", help="unchanged passes, too; with PASS all lines"
    )
    parser.add_argument(
        "--context",
        type=int,
        default=3,
        metavar="N",
        help="equal lines around each change of PASS (3)",
    )
    parser.add_argument("--width", type=int, metavar="N", help="columns of the diff of PASS")
    parser.add_argument("--python", metavar="PATH", help="the interpreter that has Triton")
    parser.add_argument(
        "--limit",
        type=seconds,
        default=600.0,
        metavar="S",
        help="seconds that the compiler may take (600)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """List the passes, or show what one changed; 1 where the compiler did not come to its end."""
    args = parser.parse_args(argv)
    path, selector, asked = _words(args.words)
    reader = open_reader(path)
    graph = select_graph(reader.recording, selector)
    if graph is not None:
        if args.stage is not None:
            raise UsageError(f"{graph.id} is a graph: its passes make no {args.stage}")
        made = graph_passes(graph, lines_changed)
        whose = _Whose((f"graph {graph.id}", "Inductor's own passes"), None, None, graph.id)
    else:
        kernel, variant = select_one(reader.recording, selector)
        made = variant_passes(
            variant,
            kept_cache(),
            lines_changed,
            python=args.python,
            seconds=args.limit,
            say=lambda text: narrate(f"ptxview: {text} …"),
        )
        words = (
            kernel.demangled,
            variant.id,
            made.target,
            tables.config(variant),
            f"Triton {made.triton}",
        )
        whose = _Whose(words, kernel.name, variant.id, None)
    if asked is not None:
        return _one(whose, made, _chosen(made, asked), args)
    wanted = PassFilter(args.stage, args.introduces, args.removes, args.full or args.json)
    shown_passes = wanted.of(made.passes)
    if args.json:
        print_json(report.document(_facts(whose, made), shown_passes, None))
        return _status(made)
    _head(whose)
    out = printing.out()
    if shown_passes:
        out.print(report.table(shown_passes, wanted.asked(made.passes)))
    changed = sum(p.changed for p in made.passes)
    said = f"{counted(len(made.passes), 'pass')} ran, {changed} changed something"
    if args.introduces or args.removes or args.stage:
        said += f"; {len(shown_passes)} of them as asked"
    narrate(f"ptxview: {said}")
    _remarks(made)
    return _status(made)


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
        rows = "\n".join(f"  {p.number:>4} {p.stage:<6} {shown(report.title(p))}" for p in fits)
        raise UsageError(f"{shown(asked)} fits {len(fits)} passes; give a number:", rows)
    return fits[0]


def _one(whose: _Whose, made: PassList, chosen: PassRun, args: argparse.Namespace) -> int:
    change = change_of(chosen, bare=not args.json)
    if args.json:
        hunks = change.diff.hunks if chosen.changed else ()
        print_json(report.document(_facts(whose, made), [chosen], hunks))
        return _status(made)
    _head(whose)
    out = printing.out()
    took = report.milliseconds(chosen)
    scope = f"  on {chosen.scope}" if chosen.scope else ""
    out.print(
        Text(
            shown(f"{chosen.number}  {chosen.name}  {chosen.argument}{scope}  {took} ms"),
            style="bold cyan",
        ),
        soft_wrap=True,
    )
    if chosen.inside:
        runs = ", ".join(dict.fromkeys(chosen.inside))
        out.print(Text(shown(f"runs {runs} itself")), soft_wrap=True)
    if not chosen.changed:
        out.print("It changed nothing." if chosen.finished else "The compiler failed in it.")
        return _status(made)
    said = report.operations(chosen, None)
    if said:
        out.print(Text(shown(said)), soft_wrap=True)
    if change.diff.identical and not args.full:
        out.print("Names or the order of attributes are all that differs.")
    else:
        legend = diff_text.LEGEND.replace("in a", "before").replace("in b", "after")
        out.print(Text(legend, style="dim"), soft_wrap=True)
        print_beside(change, context=None if args.full else args.context, width=args.width)
    _remarks(made)
    return _status(made)


def _facts(whose: _Whose, made: PassList) -> dict[str, object]:
    return {
        "kernel": whose.kernel,
        "variant": whose.variant,
        "graph": whose.graph,
        "target": made.target or None,
        "triton": made.triton or None,
        "recorded_triton": made.recorded,
        "begins": made.begins,
        "failed": made.failed,
        "remarks": list(made.remarks),
    }


def _head(whose: _Whose) -> None:
    printing.out().print(
        Text(shown("  ".join(filter(None, whose.words))), style="bold"), soft_wrap=True
    )


def _remarks(made: PassList) -> None:
    for remark in made.remarks:
        narrate(f"ptxview: {shown(remark)}")
    if made.failed is not None:
        narrate(f"ptxview: the compiler did not come to its end: {shown(made.failed)}")


def _status(made: PassList) -> int:
    return Exit.OK if made.failed is None else Exit.DIFFERENT
