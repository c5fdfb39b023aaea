"""Kernels and variants of a recording, a cache or a file, as a table.

Registers, stack and static shared memory are cuobjdump's; a dash is a figure that is not known.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from rich.console import Console
from rich.status import Status

from inspector.base.errors import Exit, PtxviewError, UsageError
from inspector.base.escapes import shown
from inspector.base.model import Graph, Kernel, Recording, Variant
from inspector.base.units import plural
from inspector.commands.common import (
    JSON,
    MORE,
    NCU,
    PATH,
    flag,
    handle,
    open_profiled,
    option,
    print_brief,
    print_json,
    refuse_together,
    say,
    takes,
    takes_small,
)
from inspector.measure.launch_time import BOUND
from inspector.measure.ncu.attach import ProfiledRecording
from inspector.measure.ncu.report import is_report
from inspector.reader.query import Term, matching, needs_measures, parse
from inspector.reader.reader import Reader
from inspector.reader.summaries import COUNTING_SECONDS
from inspector.reader.tables import table
from inspector.reader.variant_facts import GLANCE_SECONDS
from inspector.recording.layout import user_derived_cache
from inspector.render import jsons, kernel_list, ranks, tables, timings
from inspector.render.compile_rows import compiles_row, guards_row
from inspector.render.graph_rows import graph_row
from inspector.render.json_rows import VariantMeasures
from inspector.render.ncu_rows import ncu_row, ncu_variant_row
from inspector.render.recording_rows import recording_document
from inspector.system import printing

if TYPE_CHECKING:
    from inspector.analysis.graph_view import GraphView
    from inspector.render.costs import Costs
    from inspector.render.profile import Name
    from inspector.verify.verdicts import Verdict


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``list``."""
    takes(
        parser,
        {
            "path": PATH,
            "more": MORE,
            "--by": option("cost", "order by launches × time, with shares", choices=("cost",)),
            "--estimate": flag("with --by cost: estimate all launches, however long it takes"),
            "--where": option("QUERY", "variants by words and properties: 'mm :66 spill>0'"),
            "--tunings": flag("autotuning, a table for each round: candidates, times, choice"),
            "--timeline": flag("the GPU's work by stream in order of time, and its gaps"),
            "--calls": flag("distinct calls of kernels, graphs and functions, with counts"),
            "--ops": flag("operations of each compiled graph: lines, modules, operators"),
            "--compiles": flag("timeline of torch.compile and Triton: caches, breaks, recompiles"),
            "--breaks": flag("graph breaks: line, reason, count and cost"),
            "--recompiles": flag("recompiles: failed guards and cost"),
            "--guards": flag("guards of each compiled function, and their lines"),
            "--ncu": NCU,
            "--json": JSON,
        },
    )
    takes_small(parser, "what there is")


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Print the table, or JSON."""
    args = parser.parse_args(argv)
    views = "brief by tunings timeline calls ops compiles breaks recompiles guards"
    refuse_together(args, *views.split())
    terms = parse(args.where or "")
    if args.estimate and not args.by:
        raise UsageError("--estimate goes with --by cost")
    profiled = open_profiled(args.path, reports=args.ncu, other_paths=args.more)
    if terms:
        profiled = _selected(profiled, terms)
    rec = profiled.reader.recording
    if args.brief:
        return _brief(profiled.reader, args.json)
    if args.by:
        return _costs(profiled, args.json, args.estimate)
    if args.tunings:
        return _tunings(rec, args.json)
    if args.timeline:
        return _timeline(rec, args.json)
    if args.compiles or args.breaks or args.recompiles or args.guards:
        return _compiles(args, rec)
    if args.json:
        return _json(profiled, args.ops)
    if args.calls or args.ops:
        return _calls(profiled.reader, args.ops)
    alone = args.path is not None and is_report(Path(args.path))
    return _kernels(profiled, alone)


def _kernels(profiled: ProfiledRecording, alone: bool) -> int:
    """Print kernels, graphs, ranks and what ncu measured.

    ``alone``: there is no recording whose variants could be named.
    """
    rec = profiled.reader.recording
    out = printing.out()
    out.print(shown(rec.path), style="bold")
    out.print(shown(tables.heading(rec)))
    if rec.kernels and not alone:
        # On a terminal somebody sees that it is counted, once for a recording, and can stop it.
        print_kernels(profiled.reader, out, math.inf if out.is_terminal else COUNTING_SECONDS)
    tables.graphs(rec, out)
    printing.rows(text for text, _ in ranks.lines(rec))
    if profiled.report.launches or profiled.report.problems:
        print_launches(profiled, out, alone)
    if not alone:
        from inspector.render import verify

        unexplained = verify.unexplained_sentences(rec, _verdicts(rec))
        tables.problems(rec, printing.err(), unexplained)
    return Exit.OK


def _verdicts(rec: Recording) -> dict[str, Verdict]:
    """Verdicts of ``verify`` that were kept, by the id of the kernel."""
    from inspector.verify.kept import kept_verdicts, verdicts_of_kernels

    kept = kept_verdicts(Path(rec.resolved_path or rec.path), rec)
    return {kernel: verdict.verdict for kernel, verdict in verdicts_of_kernels(kept).items()}


def _selected(profiled: ProfiledRecording, terms: Sequence[Term]) -> ProfiledRecording:
    """Only the variants of a query; all else of the recording as it is."""
    rec = profiled.reader.recording
    measures = _known_costs(profiled).measure if needs_measures(terms) else None
    variants: dict[str, list[Variant]] = {}
    for kernel, variant in matching(profiled.reader, terms, rec.variants(), measures):
        variants.setdefault(kernel.id, []).append(variant)
    if not variants:
        printing.narrate(f"no variant of {len(rec.variants())} has these properties")
    kernels = tuple(
        replace(kernel, variants=tuple(variants[kernel.id]))
        for kernel in rec.kernels
        if kernel.id in variants
    )
    return ProfiledRecording(
        replace(rec, kernels=kernels, graphs=()), user_derived_cache(), report=profiled.report
    )


def _known_costs(profiled: ProfiledRecording) -> Costs:
    """Kernels by what they cost, without hints; nothing is simulated."""
    from inspector.estimate.launches import launch_evidence
    from inspector.render.costs import costs

    return costs(profiled.reader.recording, launch_evidence(profiled.reader))


HINT_SECONDS = 10.0
"""Within which hints are counted of as many of the costliest kernels as there is time for."""


def _estimated_costs(
    profiled: ProfiledRecording, wait_for_all: bool, say: Callable[[str], object]
) -> Costs:
    """Kernels by what they cost, with hints; launches without a time are simulated."""
    from inspector.estimate.launches import ESTIMATE_SECONDS, LaunchEstimates, launch_evidence
    from inspector.render.costs import costs

    reader = profiled.reader
    estimates = LaunchEstimates(reader)
    say("reading times")
    evidence = launch_evidence(reader, estimates, with_window=True)
    seconds = math.inf if wait_for_all else ESTIMATE_SECONDS
    unestimated = estimates.simulate_missing(evidence, reader.recording.variants(), seconds, say)
    say("counting hints")
    deadline = time.monotonic() + (math.inf if wait_for_all else HINT_SECONDS)

    def rules(variant: Variant) -> tuple[str, ...] | None:
        if time.monotonic() >= deadline:
            return None
        return reader.summaries.read_now(variant).ranked_rules

    cost_table = costs(reader.recording, replace(evidence, rules=rules))
    return replace(cost_table, unestimated=unestimated)


def _costs(profiled: ProfiledRecording, as_json: bool, wait: bool) -> int:
    from inspector.render import costs

    with printing.progress("reading times") as say:
        estimated = _estimated_costs(profiled, wait, say)
    if as_json:
        return print_json(costs.document(estimated))
    out = printing.out()
    out.print(shown(tables.heading(profiled.reader.recording)))
    printing.rows(tables.folded(costs.title(estimated), out.width))
    printing.rows(line.text for line in costs.lines(estimated, out.width))
    for text in costs.footnotes(estimated):
        printing.narrate(text)
    return Exit.OK


def _tunings(rec: Recording, as_json: bool) -> int:
    from inspector.diff.compare import tuned_codes
    from inspector.render import tunings

    codes = tuned_codes(rec.kernels)
    if as_json:
        return print_json({"schema": jsons.SCHEMA, "tunings": tunings.round_rows(rec, codes)})
    printed = [line.text for line in tunings.lines(rec, printing.out().width, codes)]
    printing.rows(printed[:-1])
    if not printed:
        printing.narrate("nothing was tuned")
    return Exit.OK


def _timeline(rec: Recording, as_json: bool) -> int:
    """What the GPU did in a part of the run."""
    from inspector.measure.gpu_window import read_windows
    from inspector.measure.streams import window_streams
    from inspector.render import timeline

    window, problems = read_windows(rec)
    if as_json:
        return print_json(timeline.document(rec, window, problems))
    for problem in problems:
        say(shown(problem))
    if window is None or not len(window.spans):
        printing.narrate(timeline.WHY_EMPTY)
        return Exit.OK
    out = printing.out()
    out.print(shown(tables.heading(rec)))
    printing.rows(tables.folded(timeline.heading(window), out.width))
    printing.rows(timeline.gap_rows(window, rec, out.width))
    drawn = timeline.lines(timeline.named_timeline(window_streams(window), rec), out.width)
    out.print()
    printing.rows(line.text for line in drawn)
    return Exit.OK


def _json(profiled: ProfiledRecording, with_operations: bool) -> int:

    reader = profiled.reader
    from inspector.estimate.launches import launch_evidence

    rec = reader.recording
    evidence = launch_evidence(reader)
    narrate_uncounted(len(_read(reader, None)))

    def measures_of(kernel: Kernel, variant: Variant) -> VariantMeasures:
        return VariantMeasures(
            made_by=reader.facts.producing_tools(variant),
            ncu=ncu_variant_row(profiled.measured(variant)),
            hints=reader.summaries.hint_count(variant),
            timing=timings.stored_time_row(evidence.times.representative(kernel, variant)),
            launch_time=timings.launch_time_row(evidence.launch_time(kernel, variant)),
        )

    verdicts = _verdicts(rec)
    value = recording_document(rec, reader.facts.resources, measures_of, jsons.Rows, verdicts)
    if with_operations:
        value["graphs"] = [graph_row(graph, view) for graph, view in _graph_views(reader)]
    value["compiles"] = compiles_row(rec, table("compile_phases"))
    value["ranks"] = ranks.ranks_row(rec)
    value["ncu"] = ncu_row(profiled.matched_launches(), profiled.report, _names(reader))
    return print_json(value)


def _calls(reader: Reader, of_graphs: bool) -> int:
    """Distinct calls of kernels, or what the calls of graphs compute."""
    from inspector.render import calls

    why = calls.why_empty(reader.recording)
    if of_graphs:
        views = [(graph, view) for graph, view in _graph_views(reader) if view is not None]
        printing.lines(calls.table(views))
        lacks = "No graph was recorded: only torch.compile makes them."
        why = None if reader.recording.graphs else lacks
    else:
        printing.rows(calls.lines(reader.recording))
    if why is not None:
        printing.narrate(why)
    return Exit.OK


def _brief(reader: Reader, as_json: bool) -> int:
    """The recording in short."""
    from inspector.estimate.launches import launch_evidence
    from inspector.render import brief
    from inspector.render.variant_figures import quick_figures

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
        "failed": tables.failure_count(rec),
    }
    failed = any(variant.failed for _, variant in pairs)
    reader.summaries.count_hints([variant for _, variant in pairs])
    evidence = launch_evidence(reader)
    rows = []
    for kernel, variant in pairs:
        figures = quick_figures(
            variant,
            reader.facts.resources(variant),
            reader.summaries.hint_count(variant),
            evidence.launch_time(kernel, variant),
        )
        rows.append({"kernel": kernel.name, "variant": variant.id, **jsons.pick_fields(figures)})
        if failed:
            rows[-1]["failed"] = variant.failed
    value = brief.list_summary(rec.path, about, rows, lambda n: handle(rec, *pairs[n]))
    return print_brief(value, as_json)


def print_kernels(reader: Reader, out: Console, seconds: float = COUNTING_SECONDS) -> None:
    """The table of kernels, when every figure is known. Hints are counted for ``seconds``; a cell
    without a count shows "…". Times are in it if any is more than a lower bound."""
    from inspector.estimate.launches import launch_evidence

    uncounted = _read(reader, out if out.is_terminal else None, seconds)
    uncounted_ids = {id(variant) for variant in uncounted}
    times = launch_evidence(reader).launch_times(reader.recording)
    if all(time.source == BOUND for time in times.values()):
        times = {}

    def launch_cell(kernel: Kernel, variant: Variant) -> str:
        time = times.get((kernel.id, variant.id))
        return "" if time is None else time.figure

    def hint_cell(kernel: Kernel, variant: Variant) -> str:
        if id(variant) in uncounted_ids:
            return "…"
        return tables.figure(reader.summaries.hint_count(variant))

    table = kernel_list.kernels(
        reader.recording,
        reader.facts.resources,
        out.width,
        launch_cell,
        hint_cell,
    )
    out.print(table)
    narrate_uncounted(len(uncounted))


def _read(
    reader: Reader, out: Console | None, seconds: float = COUNTING_SECONDS
) -> Sequence[Variant]:
    """Read the figures of all variants, the tools side by side, and count hints for ``seconds``.

    Returns the variants without a count. ``out`` is a terminal for the progress.
    """
    variants = [v for _, v in reader.recording.variants()]
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        status: Status | None = None
        for count, total in reader.facts.read_resources(variants):
            message = f"reading figures: {count} of {total} cubins"
            if status is not None:
                status.update(message)
            elif out is not None and time.monotonic() - began > GLANCE_SECONDS:
                status = stack.enter_context(out.status(message))
    uncounted = reader.summaries.count_hints(variants, min(seconds, COUNTING_SECONDS))
    if not uncounted or seconds <= COUNTING_SECONDS:
        return uncounted
    with printing.progress("counting hints") as say:
        try:
            return reader.summaries.count_hints(variants, seconds, say)
        except KeyboardInterrupt:
            return reader.summaries.uncounted(variants)


def narrate_uncounted(uncounted: int) -> None:
    """Why counts of hints are not shown."""
    if uncounted:
        printing.narrate(
            f"…: hints of {plural(uncounted, 'variant')} are not counted yet; "
            "ptxview list on a terminal counts them all, ptxview show KERNEL -a those of one"
        )


def _graph_views(reader: Reader) -> Iterator[tuple[Graph, GraphView | None]]:
    """Each graph with what it computes, None where its text cannot be read."""
    for graph in reader.recording.graphs:
        view = None
        try:
            view = reader.graphs.view(graph)
        except PtxviewError as error:
            say(f"graph {graph.id} cannot be shown: {error.message}")
        yield graph, view


def _compiles(args: argparse.Namespace, rec: Recording) -> int:
    """What torch.compile did: all of it, or its breaks, recompiles or guards alone."""
    from inspector.render import compiles

    if args.guards:
        return _guards(args, rec)
    phases = table("compile_phases")
    if args.json:
        print_json({"schema": jsons.SCHEMA, "compiles": compiles_row(rec, phases)})
        return Exit.OK
    why = compiles.why_empty(rec)
    if why is not None:
        printing.narrate(why)
        return Exit.OK
    if args.compiles:
        width = printing.out().width
        figures = table("compile_metrics")
        printing.rows(line.text for line in compiles.lines(rec, phases, figures, width))
        return Exit.OK
    lines = list(compiles.breaks(rec) if args.breaks else compiles.recompile_lines(rec))
    printing.rows(line.text for line in lines)
    if not lines:
        nothing = "no graph breaks" if args.breaks else "nothing was compiled again"
        note = "" if rec.frame_compiles else "; no compile of torch.compile's was recorded"
        printing.narrate(nothing + note)
    return Exit.OK


def _guards(args: argparse.Namespace, rec: Recording) -> int:
    """The guards of each compilation of a frame, read one after the other."""
    from inspector.render import compiles

    guards = (
        (frame, compiles.guards_in(frame.guards.read().decode("utf-8", "surrogateescape")))
        for frame in rec.frame_compiles
        if frame.guards is not None
    )
    if args.json:
        rows = jsons.Rows(guards_row(*frame_guards) for frame_guards in guards)
        print_json({"schema": jsons.SCHEMA, "guards": rows})
    elif any(frame.guards is not None for frame in rec.frame_compiles):
        printing.rows(compiles.guard_lines(guards))
    else:
        printing.narrate(compiles.why_empty(rec) or "no guards were recorded")
    return Exit.OK


def print_launches(profiled: ProfiledRecording, out: Console, alone: bool = False) -> None:
    """What ncu measured: Nsight's summary, and what is odd about it on standard error.

    ``alone``: there is no recording whose variants could be named.
    """
    from inspector.render import profile

    launches = profiled.matched_launches()
    if launches:
        names = None if alone else _names(profiled.reader)
        out.print("measured by ncu", style="bold cyan")
        out.print(profile.launch_table(launches, names, out.width))
    for text in profile.launch_footnotes(launches, profiled.report):
        printing.err().print(f"! {text}", style="yellow", soft_wrap=True)


def _names(reader: Reader) -> Name:
    """The ids of a kernel and a variant, by what a launch is tied to."""
    variants = reader.recording.variants()
    return {(v.hash, v.symbol): (k.id, v.id) for k, v in variants}.__getitem__
