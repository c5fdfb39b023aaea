"""Kernels and variants of a recording, a cache or a file, as a table.

Registers, stack and static shared memory are cuobjdump's; a dash is a figure that is not known.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from inspector.analyse.graph_view import GraphView
from inspector.base.errors import Exit, PtxviewError
from inspector.base.model import FrameCompile, Graph, Kernel, Recording, Variant
from inspector.base.text import plural, shown
from inspector.commands import small
from inspector.commands.common import open_profiled, print_json, takes_reports
from inspector.measure.ncu.attach import Key, Profiled
from inspector.measure.ncu.report import is_report
from inspector.measure.time.results import times
from inspector.reader import reader
from inspector.reader.facts import GLANCE_SECONDS
from inspector.reader.reader import Reader
from inspector.reader.tables import table
from inspector.report import calls, compiles, graph, guards, jsons, ncu, ranks, tables, timings
from inspector.report.compile_phases import Phases
from inspector.system import printing
from inspector.system.printing import narrate


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``list``."""
    parser.add_argument(
        "path",
        nargs="?",
        metavar="PATH",
        help="recording, cache or file (default: the newest recording)",
    )
    parser.add_argument(
        "more", nargs="*", metavar="PATH", help="recordings of other machines, read as one with it"
    )
    parser.add_argument(
        "--calls",
        action="store_true",
        help="distinct calls of kernels, graphs and extension functions, with counts and "
        "differences",
    )
    parser.add_argument(
        "--ops",
        action="store_true",
        help="operations of each compiled graph: lines, modules and operators of each call",
    )
    parser.add_argument(
        "--compiles",
        action="store_true",
        help="timeline of torch.compile and Triton, with caches, breaks, recompiles and shapes",
    )
    parser.add_argument(
        "--breaks",
        action="store_true",
        help="graph breaks: line, reason, count and cost",
    )
    parser.add_argument(
        "--recompiles",
        action="store_true",
        help="recompiles: failed guards and cost",
    )
    parser.add_argument(
        "--guards",
        action="store_true",
        help="guards of each compiled function, and their lines",
    )
    small.takes_small(parser, "what there is")
    takes_reports(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Print the table, or JSON."""
    args = parser.parse_args(argv)
    small.refuse_together(
        args, "brief", "calls", "ops", "compiles", "breaks", "recompiles", "guards"
    )
    profiled = open_profiled(args.path, reports=args.ncu, more=args.more)
    reader = profiled.reader
    rec = reader.recording
    if args.brief:
        return _brief(reader, args.json)
    if args.guards:
        return _guards(rec, args.json)
    if args.compiles or args.breaks or args.recompiles:
        return _compiles(args, rec)
    if args.calls and not args.json:
        return _calls(rec)
    if args.ops and not args.json:
        return _operations(reader)
    if args.json:
        narrate_uncounted(_read(reader, None))
        value = jsons.recording(
            rec,
            reader.resources,
            lambda v: ncu.variant(profiled.measured(v)),
            jsons.Rows,
            reader.hint_count,
            reader.made_by,
        )
        if args.ops:
            _with_operations(reader, value)
        value["compiles"] = compiles.document(rec, Phases(table("compile_phases")))
        value["ranks"] = ranks.document(rec)
        value["ncu"] = ncu.document(profiled.attached(), profiled.report, _names(reader))
        print_json(timings.with_times(value, rec, times(rec.path)))
        return Exit.OK
    out = printing.out()
    out.print(shown(rec.path), style="bold")
    out.print(shown(tables.heading(rec)))
    alone = args.path is not None and is_report(Path(args.path))
    if rec.kernels and not alone:
        print_kernels(reader, out, clock_of(rec))
    tables.graphs(rec, out)
    for text, _ in ranks.lines(rec):
        out.print(text, soft_wrap=True)
    if profiled.report.launches or profiled.report.problems:
        print_launches(profiled, out, alone)
    if not alone:
        tables.problems(rec, printing.err())
    return Exit.OK


def _brief(reader: Reader, as_json: bool) -> int:
    """The recording in short."""
    from inspector.report import brief

    rec = reader.recording
    pairs = rec.variants()
    about = {
        "path": rec.path,
        "mode": rec.mode,
        "target": rec.target,
        "complete": rec.complete,
        "kernels": len(rec.kernels),
        "variants": len(pairs),
        "graphs": len(rec.graphs),
        "problems": len(rec.problems),
        "failed": tables.failed(rec),
    }
    failed = any(variant.failed for _, variant in pairs)
    reader.count_hints([variant for _, variant in pairs])
    stored = times(rec.path)
    rows = []
    for kernel, variant in pairs:
        taken = stored.of(kernel, variant)
        figures = brief.glance(
            variant,
            reader.resources(variant),
            reader.hint_count(variant),
            None if taken is None else taken.median_us,
        )
        rows.append({"kernel": kernel.name, "variant": variant.id, **figures})
        if failed:
            rows[-1]["failed"] = variant.failed
    value = brief.listed(rec.path, about, rows, lambda n: small.handle(rec, *pairs[n]))
    return small.answer(value, as_json)


def print_kernels(
    reader: Reader,
    out: Console,
    clock: tables.Clock | None = None,
    seconds: float = reader.COUNTING_SECONDS,
) -> None:
    """The table of kernels. On a terminal its first rows appear at once, a dash where a tool has
    not said yet, and give way to the whole when every figure is known, and hints have been counted
    for so many seconds."""
    left = _read(reader, out if out.is_terminal else None, seconds)
    table = tables.kernels(
        reader.recording,
        reader.resources,
        out.width,
        clock or (lambda kernel, variant: ""),
        lambda kernel, variant: tables.figure(reader.hint_count(variant)),
    )
    out.print(table)
    narrate_uncounted(left)


def _read(reader: Reader, out: Console | None, seconds: float = reader.COUNTING_SECONDS) -> int:
    """Read the figures of all variants, the tools side by side, and count hints for ``seconds``.

    Returns the number of variants without a count. ``out`` is a terminal for the progress.
    """
    variants = [v for _, v in reader.recording.variants()]
    began, told = time.monotonic(), 0.0
    with contextlib.ExitStack() as stack:
        live: Live | None = None

        def tell(said: str, first: bool) -> None:
            nonlocal live, told
            now = time.monotonic()
            if out is None or (
                now - (began if live is None else told) < GLANCE_SECONDS and not first
            ):
                return
            if live is None:
                live = stack.enter_context(Live(console=out, transient=True, auto_refresh=False))
            live.update(_standing(reader, out, said), refresh=True)
            told = now

        for done, of in reader.figures(variants):
            tell(f"reading figures: {done} of {of} cubins", first=False)
        return reader.count_hints(variants, seconds, lambda: tell("counting hints", first=True))


def _standing(reader: Reader, out: Console, said: str) -> Group:
    """The rows that fit on the screen, with the figures so far, and the present task."""
    room = max(out.height - 4, 1)
    rec = reader.recording
    first: list[Kernel] = []
    for kernel in rec.kernels:
        if sum(max(len(k.variants), 1) for k in first) >= room:
            break
        first.append(kernel)
    part = replace(rec, kernels=tuple(first))
    table = tables.kernels(part, reader.known_by_now, out.width)
    return Group(table, Text(said, style="dim"))


def narrate_uncounted(left: int) -> None:
    """Why there are dashes among the counts of hints."""
    if left:
        narrate(
            f"hints of {plural(left, 'variant')} are not counted yet: ptxview list counts for "
            "some seconds, and the next one goes on, but for variants of more than "
            f"{reader.MAX_COUNTED_LINES:,} lines; ptxview show KERNEL -a tells those of one"
        )


def clock_of(rec: Recording) -> tables.Clock:
    """What the table's column of times says of a variant."""
    known, now = times(rec.path), datetime.datetime.now(datetime.UTC)

    def clock(kernel: Kernel, variant: Variant) -> str:
        return timings.cell(known.of(kernel, variant), now)

    return clock


def _calls(rec: Recording) -> int:
    out = printing.out()
    for line in calls.lines(rec):
        out.print(line, soft_wrap=True)
    if (why := calls.none_known(rec)) is not None:
        narrate(why)
    return Exit.OK


def _graph_views(reader: Reader) -> Iterator[tuple[Graph, GraphView | None]]:
    """Each graph with what it computes, None where its text cannot be read."""
    for one in reader.recording.graphs:
        view = None
        try:
            view = reader.graph_view(one)
        except PtxviewError as error:
            narrate(f"ptxview: graph {one.id} cannot be shown: {error.message}")
        yield one, view


def _operations(reader: Reader) -> int:
    """Print what each graph computes."""
    views = [(one, view) for one, view in _graph_views(reader) if view is not None]
    printing.lines(list(graph.table(views)))
    if not reader.recording.graphs:
        narrate("No graph was recorded: only torch.compile makes them.")
    return Exit.OK


def _with_operations(reader: Reader, value: dict[str, Any]) -> None:
    """Add to each graph of a list what it computes."""
    for (_, view), row in zip(_graph_views(reader), value["graphs"], strict=True):
        row["operations"] = None if view is None else graph.operations(view)


def _compiles(args: argparse.Namespace, rec: Recording) -> int:
    phases = Phases(table("compile_phases"))
    if args.json:
        print_json({"schema": jsons.SCHEMA, "compiles": compiles.document(rec, phases)})
        return Exit.OK
    out = printing.out()
    if (why := compiles.none_known(rec)) is not None:
        narrate(why)
    elif args.compiles:
        for line in compiles.lines(rec, phases, out.width):
            out.print(line.text, soft_wrap=True)
    else:
        part = compiles.breaks(rec) if args.breaks else compiles.recompiled(rec)
        several = list(part)
        for line in several:
            out.print(line.text, soft_wrap=True)
        if not several:
            there = "" if rec.frame_compiles else "; no compile of torch.compile's was recorded"
            narrate(("no graph breaks" if args.breaks else "nothing was compiled again") + there)
    return Exit.OK


def _guards(rec: Recording, as_json: bool) -> int:
    def told() -> Iterator[tuple[FrameCompile, list[guards.Guard]]]:
        for one in rec.frame_compiles:
            if one.guards is not None:
                text = one.guards.read().decode("utf-8", "surrogateescape")
                yield one, guards.guards_in(text)

    if as_json:
        rows = jsons.Rows(guards.document(*each) for each in told())
        print_json({"schema": jsons.SCHEMA, "guards": rows})
        return Exit.OK
    out = printing.out()
    for line in guards.lines(told()):
        out.print(line, soft_wrap=True)
    if all(one.guards is None for one in rec.frame_compiles):
        narrate(compiles.none_known(rec) or "no guards were recorded")
    return Exit.OK


def print_launches(profiled: Profiled, out: Console, alone: bool = False) -> None:
    """What ncu measured: Nsight's summary, and what is odd about it on standard error.

    ``alone``: there is no recording whose variants could be named.
    """
    err = printing.err()
    found = profiled.attached()
    if found:
        out.print("measured by ncu", style="bold cyan")
        out.print(ncu.summary(found, None if alone else _names(profiled.reader), out.width))
    for text in ncu.footnotes(found, profiled.report):
        err.print(f"! {text}", style="yellow", soft_wrap=True)


def _names(reader: Reader) -> ncu.Name:
    """The ids of a kernel and a variant, by what a launch is tied to."""
    known: dict[Key, tuple[str, str]] = {
        (v.hash, v.symbol): (k.id, v.id) for k, v in reader.recording.variants()
    }
    return known.__getitem__
