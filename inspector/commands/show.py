"""One stage of a kernel, or two side by side.

The text goes to standard output byte for byte; on a terminal it is highlighted, and what a terminal
would obey is made visible. --json gives its lines with what each is, where it comes from and what
it is tied to in the other stages.
"""

import argparse
import contextlib
import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from rich.text import Text

from inspector.base.errors import Exit, PtxviewError, UsageError
from inspector.base.escapes import shown
from inspector.base.model import (
    GRAPH_STAGES,
    KERNEL_STAGES,
    Graph,
    Kernel,
    Stage,
    Variant,
)
from inspector.base.names import base_name
from inspector.commands import common
from inspector.commands.common import JSON, KERNEL, NCU, flag, option, say, takes, takes_small
from inspector.commands.show_input import LANGUAGES, open_input
from inspector.estimate.launches import LaunchEstimates, data_sheet, launch_evidence
from inspector.measure.ncu.attach import ProfiledRecording
from inspector.parsers.line import Function, Line, Listing
from inspector.reader.query import select_graph, select_launched
from inspector.reader.reader import Reader
from inspector.render import card, jsons, tables, timings
from inspector.render.graph_rows import graph_view_row
from inspector.render.json_rows import (
    FunctionRow,
    LineRow,
    failure_row,
    function_row,
    line_row,
)
from inspector.render.ncu_rows import ncu_variant_row
from inspector.render.pictures.card_pictures import card_pictures
from inspector.render.pictures.layout_picture import layout_pictures
from inspector.render.pictures.picture import Picture
from inspector.render.pictures.terminal_picture import picture_lines
from inspector.system import printing

CHEAP_INSTRUCTIONS = 10_000_000
MAX_INSTRUCTIONS = 200_000_000
"""Lane-instructions that ``--execute`` spends, and after which it gives up: about a second, and
about ten."""
STAGES = tuple(s.value for s in Stage)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``show``."""
    takes(
        parser,
        {
            "words": {**KERNEL, "help": f"{KERNEL['help']}, or a graph id; - is standard input"},
            "--stage": option(None, "default: ptx, else the lowest", choices=STAGES),
            "--file": option("NAME", "with --stage source: the file, of a fused kernel's several"),
            "--beside": option("STAGE", "second stage beside it", choices=STAGES),
            "-a --annotate": flag("card, hints, and at each line live registers, stalls, meaning"),
            "--execute": flag("run blocks of the most frequent call first, and hint by its counts"),
            "--estimate": flag("simulate the call: percent of its cycles at each line"),
            "--device": option("ARCH", "device of occupancy and hints, and target of a .ptx"),
            "--language": option(None, "language of standard input", choices=LANGUAGES),
            "--ncu": NCU,
            "--json": JSON,
        },
    )
    takes_small(
        parser,
        "the kernel, or of --lines with their hints",
        "these lines of the stage alone (40:80)",
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Print a stage."""
    args = parser.parse_args(argv)
    common.refuse_together(args, "brief", "annotate", "beside")
    path, selector = common.split_path(args.words)
    if args.words[:1] == ["-"]:
        path = "-"
        selector = next(iter(args.words[1:]), None)
    profiled = open_input(path, args)
    reader = profiled.reader
    graph = select_graph(reader.recording, selector)
    if graph is None and selector is None and not reader.recording.variants():
        graph = next(iter(reader.recording.graphs), None)
    if graph is not None:
        return _graph(reader, graph, args)
    request = _request(profiled, selector, args)
    view = next(view for applies, view in VIEWS if applies(request))
    return view(request)


class ShowRequest(Struct, frozen=True):
    """A stage of a variant that is to be shown; ``lines`` are all of it if None."""

    profiled: ProfiledRecording
    kernel: Kernel
    variant: Variant
    stage: Stage
    beside: Stage | None
    lines: tuple[int, int] | None
    estimated: Mapping[int, float]
    args: argparse.Namespace

    @property
    def reader(self) -> Reader:
        return self.profiled.reader


def _request(
    profiled: ProfiledRecording, selector: str | None, args: argparse.Namespace
) -> ShowRequest:
    """What is to be shown of a kernel. Raises ``PtxviewError`` where there is no such thing."""
    reader = profiled.reader
    kernel, variant = select_launched(reader.recording, selector)
    if not args.json:
        for line in tables.failure_lines(kernel, variant):
            say(line)
    stage = Stage(args.stage) if args.stage else _default(variant)
    beside_stage = Stage(args.beside) if args.beside else None
    if args.file or stage is Stage.SOURCE:
        variant = _of_file(reader.navigation.sources(variant), variant, args.file)
    for requested in (stage, beside_stage):
        if requested is not None and requested in GRAPH_STAGES:
            raise _only_of_graphs(reader, kernel, requested)
    if args.execute:
        _execute(reader, kernel, variant, args)
    estimated = _cycles(reader, kernel, variant, stage, args) if args.estimate else {}
    lines = None
    if args.lines is not None:
        lines = _within(args.lines, reader.stages.listing(variant, stage), stage)
    return ShowRequest(profiled, kernel, variant, stage, beside_stage, lines, estimated, args)


def _only_of_graphs(reader: Reader, kernel: Kernel, stage: Stage) -> UsageError:
    """Why a kernel has no such stage, and how to see that of its graph."""
    hint = "Only graphs of torch.compile have one, and it is in none that has."
    for graph in reader.recording.graphs:
        if kernel.id in graph.kernels and stage in reader.graphs.stages(graph):
            command = f"ptxview show {graph.id} --stage {stage.value}"
            hint = f"Show it of a graph: {command}"
            break
    return UsageError(
        f"{kernel.display_name} is a kernel, and {stage.value} is of a whole graph", hint
    )


def _brief_lines(request: ShowRequest) -> int:
    """Some lines in short, each with its sentence and its hints."""
    assert request.lines is not None
    variant = request.variant
    stage = request.stage
    lines = request.reader.stages.listing(variant, stage).between(*request.lines)
    values = _line_values(request.profiled, variant, stage, lines, linked=False)
    rows = [jsons.pick_fields(line, "n text sentence notes") for line in values]
    value = {
        "schema": jsons.SCHEMA,
        "kernel": request.kernel.name,
        "variant": variant.id,
        "stage": stage.value,
        "lines": rows,
    }
    return common.print_brief(value, request.args.json)


def _document(request: ShowRequest) -> int:
    """JSON of the stage, and of the one beside it."""
    profiled = request.profiled
    kernel = request.kernel
    variant = request.variant
    value = _json(profiled, kernel, variant, request.stage, request.lines, request.estimated)
    if request.beside is not None:
        value["beside"] = _json(profiled, kernel, variant, request.beside, _tied_lines(request))
    return common.print_json(value)


def _tied_lines(request: ShowRequest) -> tuple[int, int] | None:
    """From the first to the last line beside that the requested ones are tied to."""
    if request.lines is None or request.beside is None:
        return None
    first, last = request.lines
    links = request.reader.stages.links(request.variant, request.stage, request.beside)
    tied = [line for n in range(first, last + 1) for line in links.get(n, ())]
    return (min(tied), max(tied)) if tied else (1, 0)


def _side_by_side(request: ShowRequest) -> int:
    assert request.beside is not None
    variant = request.variant
    stage = request.stage
    reader = request.reader
    links = reader.stages.links(variant, stage, request.beside)
    part = _part(reader, variant, stage, request.lines)
    titles = (stage, variant.symbol, request.beside)
    return _print_beside(part, reader.stages.listing(variant, request.beside), links, titles)


def _text(request: ShowRequest) -> int:
    """The text as it is, or the requested lines of it."""
    variant = request.variant
    stage = request.stage
    first = 1
    if request.lines is None:
        text = request.reader.stages.text(variant, stage).text
    else:
        lines = request.reader.stages.listing(variant, stage).texts(*request.lines)
        text = "".join(f"{line}\n" for line in lines)
        first = request.lines[0]
    return _print(text, stage, variant.stages[stage].origin_path, first)


def _of_file(files: Mapping[str, Variant], variant: Variant, name: str | None) -> Variant:
    """A fused kernel with the file of that name as its source; other files are said."""
    if name is None:
        other_files = shown(", ".join(list(files)[1:]))
        if other_files:
            say(f"operators are from other files too, which --file NAME shows: {other_files}")
        return variant
    for path, file_variant in files.items():
        if path.endswith(name):
            return file_variant
    hint = f"It is from {shown(', '.join(files))}." if files else ""
    raise UsageError(f"{name} is no file that this kernel was fused from", hint)


def _execute(reader: Reader, kernel: Kernel, variant: Variant, args: argparse.Namespace) -> None:
    """Have some blocks of a recorded call counted, unless they have been."""
    if not args.annotate and not args.json:
        raise UsageError("--execute needs a view with hints", "Give -a or --json with it.")
    if reader.facts.execution_counts(variant) is not None:
        return
    # Imported here: few run anything.
    from inspector.execute.calls.tracing import trace_launch
    from inspector.measure.recorded_launch import LaunchOverrides, choose_launch

    call = choose_launch(reader, kernel, variant, LaunchOverrides())
    launched = trace_launch(
        call.program,
        call.launch,
        call.make,
        budget=MAX_INSTRUCTIONS,
        cheap=CHEAP_INSTRUCTIONS,
        values=False,
    )
    executed = launched.executed
    if executed is not None:
        reader.store_execution_counts(variant, executed)
        return
    ended = launched.fault or launched.spent
    reason = "" if ended is None else f": {ended.message}"
    say(f"the call did not come to its end{reason}; hints are of the code alone")


def _cycles(
    reader: Reader, kernel: Kernel, variant: Variant, stage: Stage, args: argparse.Namespace
) -> dict[int, float]:
    """Estimated percentages of cycles by line. Raises ``PtxviewError`` without an estimate."""
    if not args.annotate and not args.json:
        raise UsageError("--estimate needs a view of lines", "Give -a or --json with it.")
    # Imported here: few simulate anything.
    from inspector.estimate.rows import by_line

    return by_line(reader, variant, LaunchEstimates(reader).cycles(kernel, variant).spent, stage)


def _default(variant: Variant) -> Stage:
    if not variant.stages and variant.error is not None:
        raise UsageError(f"{base_name(variant.symbol)} came to no stage that could be shown")
    if not variant.stages:
        raise UsageError(f"only the name of {variant.symbol} was recorded")
    return max(variant.stages, key=lambda s: (s is Stage.PTX, s.rank))


def _graph(reader: Reader, graph: Graph, args: argparse.Namespace) -> int:
    """What a graph computes, or one of its stages, or two side by side."""
    if args.annotate:
        raise UsageError(
            f"{graph.id} is a graph: nothing is known of its lines",
            f"-a is for its kernels: {', '.join(graph.kernels)}",
        )
    available = reader.graphs.stages(graph)
    for stage_name in (args.stage, args.beside):
        if stage_name is not None and Stage(stage_name) not in available:
            raise _no_stage(reader, graph, Stage(stage_name))
    if args.brief:
        return _brief_graph(reader, graph, available, args.json)
    if not args.json:
        for sentence in tables.graph_failure(graph):
            say(sentence)
    stage = Stage(args.stage) if args.stage else _default_of_graph(available, args)
    beside_stage = Stage(args.beside) if args.beside else None
    listing = reader.graphs.listing(graph, stage)
    lines = None if args.lines is None else _within(args.lines, listing, stage)
    if args.json:
        value = _graph_json(reader, graph, stage, lines)
        if beside_stage is not None:
            value["beside"] = _graph_json(reader, graph, beside_stage, None)
        if Stage.OUTPUT_CODE in available:
            value["graph"] = graph_view_row(graph, reader.graphs.view(graph), available)
        return common.print_json(value)
    if beside_stage is not None:
        other_listing = reader.graphs.listing(graph, beside_stage)
        links = reader.graphs.links(graph, stage, beside_stage)
        titles = (stage, f"graph {graph.id}", beside_stage)
        lines_shown = listing.lines if lines is None else listing.between(*lines)
        return _print_beside(lines_shown, other_listing, links, titles)
    if lines is None:
        return _print_graph(graph, stage, reader.graphs.text(graph, stage), 1)
    text = "".join(f"{line_text}\n" for line_text in listing.texts(*lines))
    return _print_graph(graph, stage, text, lines[0])


def _brief_graph(reader: Reader, graph: Graph, available: Sequence[Stage], as_json: bool) -> int:
    from inspector.render import brief

    sizes = {stage: len(reader.graphs.listing(graph, stage).lines) for stage in available}
    return common.print_brief(brief.graph_summary(reader.recording.path, graph, sizes), as_json)


def _default_of_graph(available: Sequence[Stage], args: argparse.Namespace) -> Stage:
    """JSON has the whole text; a terminal shows its operations."""
    if Stage.OUTPUT_CODE not in available:
        return available[-1]
    return Stage.OUTPUT_CODE if args.json or args.lines is not None else Stage.OPERATIONS


def _print_graph(graph: Graph, stage: Stage, text: str, first: int) -> int:
    if stage is not Stage.OPERATIONS:
        return _print(text, stage, graph.stages[stage].origin_path, first)
    rows = text.split("\n")
    if common.confirmed(len(rows)):
        printing.lines(map(shown, rows))
    return Exit.OK


def _no_stage(reader: Reader, graph: Graph, stage: Stage) -> UsageError:
    """Why a graph has not that stage, and who has."""
    message = f"there is no {stage.value} of graph {graph.id}"
    if graph.error is not None and stage is Stage.OUTPUT_CODE:
        return UsageError(f"{message}: it did not compile: {graph.error.summary}")
    if stage in KERNEL_STAGES:
        has = ", ".join(graph_stage.value for graph_stage in reader.graphs.stages(graph))
        kernels = ", ".join(graph.kernels)
        return UsageError(
            f"{graph.id} is a graph: it has {has}", f"Its kernels have the other stages: {kernels}"
        )
    other_graphs = ", ".join(other.id for other in reader.recording.graphs if stage in other.stages)
    lack = "No graph of the recording has it: torch's caches and saved logs lack it."
    return UsageError(message, f"These have it: {other_graphs}" if other_graphs else lack)


def _graph_json(
    reader: Reader, graph: Graph, stage: Stage, lines: tuple[int, int] | None
) -> dict[str, object]:
    """A stage of a graph, with its lines' links to the others."""
    listing = reader.graphs.listing(graph, stage)
    other_stages = [other for other in reader.graphs.stages(graph) if other is not stage]
    links = {other: reader.graphs.links(graph, stage, other) for other in other_stages}
    file = graph.stages.get(stage)
    part = listing.lines if lines is None else listing.between(*lines)
    return {
        "schema": jsons.SCHEMA,
        "stage": stage.value,
        "text_from": "ptxview" if file is None else file.text_from,
        "error": failure_row(graph.error),
        "functions": _kernels_in_code(reader, graph) if stage is Stage.OUTPUT_CODE else [],
        "notes": [],
        "lines": jsons.Rows(line_row(line, links) for line in part),
    }


def _kernels_in_code(reader: Reader, graph: Graph) -> list[FunctionRow]:
    """The lines of each compiled kernel's text in its graph's ``output_code``."""
    file = graph.stages.get(Stage.OUTPUT_CODE)
    functions = []
    for kernel, variant in reader.recording.variants():
        span = variant.lines_in(Stage.OUTPUT_CODE)
        if span and kernel.id in graph.kernels and variant.stages.get(Stage.OUTPUT_CODE) == file:
            function = Function(kernel.name, *span)
            resources = reader.facts.resources(variant)
            functions.append(function_row(kernel.name, function, variant, resources))
    return functions


def _print(text: str, stage: Stage, path: str | None, first: int = 1) -> int:
    if not printing.to_terminal():
        printing.verbatim(text)
        return Exit.OK
    if not common.confirmed(text.count("\n")):
        return Exit.OK
    from rich.syntax import Syntax

    from inspector.parsers.lexers import lexer_for

    safe = "\n".join(shown(line.rstrip("\r")) for line in text.split("\n"))
    lexer = lexer_for(stage, path)
    printing.out().print(
        Syntax(safe, lexer, line_numbers=True, start_line=first, theme="ansi_dark")
    )
    return Exit.OK


def _print_beside(
    lines: Sequence[Line],
    listing: Listing,
    links: Mapping[int, tuple[int, ...]],
    titles: tuple[Stage, str, Stage],
) -> int:
    """Print lines of one stage beside the tied lines of another."""
    stage, name, other = titles
    other_lines = {line.n: line for line in listing.lines}
    out = printing.out()
    heads = (f"{stage.value}: {name}", other.value)
    table = tables.side_by_side(lines, other_lines, links, out.width, heads)
    if not common.confirmed(table.row_count):
        return Exit.OK
    out.print(table)
    if not links:
        printing.narrate(f"No line of {stage.value} says that it belongs to one of {other.value}.")
    return Exit.OK


def _annotated(request: ShowRequest) -> int:
    """The card and hints, then each line with its annotation."""
    reader = request.reader
    variant = request.variant
    stage = request.stage
    part = _part(reader, variant, stage, request.lines)
    if not common.confirmed(len(part)):
        return Exit.OK
    width = printing.out().width
    annotations = replace(reader.annotations.annotate(variant, stage), estimated=request.estimated)
    rows = [
        *_card_rows(request, min(width, 100)),
        *card.hints(reader.facts.findings(variant)),
        Text(),
    ]
    for picture in _pictures(reader, request.kernel, variant, stage, request.lines):
        rows += [*picture_lines(picture, min(width, 100)), Text()]
    if legend := card.legend(annotations, stage):
        rows.append(Text(legend, "dim"))
    printing.rows([*rows, Text(card.heading(annotations), "dim")])
    printing.rows(card.rows(part, annotations, width))
    return Exit.OK


def _card_rows(request: ShowRequest, width: int) -> Iterator[Text]:
    """The variant's name, figures and times, and what is not known of it."""
    reader = request.reader
    kernel = request.kernel
    variant = request.variant
    title = (kernel.demangled, variant.id, variant.target or "", tables.config_text(variant))
    yield Text(shown("  ".join(title)))
    rows = [("", row) for row in card.lines(reader.facts.card(variant), width)]
    rows += card.origin_rows(reader.graphs.origins(kernel))
    evidence = launch_evidence(reader)
    time = evidence.launch_time(kernel, variant)
    if time is not None:
        rows.append(("time", f"{time.text} a launch ({time.meaning})"))
    timing = evidence.times.representative(kernel, variant)
    if timing is not None:
        age = timings.age(timing.taken, datetime.datetime.now(datetime.UTC))
        how = timings.measurement_text(timing, age)
        rows.append(("", shown(f"{timings.duration(timing.median_us)} µs {how}")))
    rows += [("not known", shown(why)) for why in reader.facts.lacking(variant)]
    for label, text in rows:
        yield Text(f"  {label and label.ljust(card.LABEL)}{text}")


def _pictures(
    reader: Reader,
    kernel: Kernel,
    variant: Variant,
    stage: Stage,
    lines: tuple[int, int] | None = None,
) -> list[Picture]:
    """The pictures of a variant's card, and of TTGIR the layouts of the tensors on some lines."""
    time = launch_evidence(reader).launch_time(kernel, variant)
    pictures = card_pictures(reader.facts.card(variant), time, data_sheet(reader))
    if stage is Stage.TTGIR:
        listing = reader.stages.listing(variant, stage)
        pictures += layout_pictures(listing, _part(reader, variant, stage, lines))
    return pictures


def _part(
    reader: Reader, variant: Variant, stage: Stage, lines: tuple[int, int] | None
) -> Sequence[Line]:
    """The requested lines, else those of the kernel's function, or all."""
    listing = reader.stages.listing(variant, stage)
    function = reader.stages.function(variant, stage)
    if lines is None:
        lines = (1, len(listing.lines)) if function is None else (function.first, function.last)
    return listing.between(*lines)


def _json(
    profiled: ProfiledRecording,
    kernel: Kernel,
    variant: Variant,
    stage: Stage,
    lines: tuple[int, int] | None = None,
    estimated: Mapping[int, float] | None = None,
) -> dict[str, object]:
    reader = profiled.reader
    listing = reader.stages.listing(variant, stage)
    listing_lines = listing.lines if lines is None else listing.between(*lines)
    return {
        "schema": jsons.SCHEMA,
        "stage": stage.value,
        "text_from": reader.stages.text(variant, stage).text_from,
        "error": failure_row(variant.error),
        "functions": jsons.Rows(_functions(profiled, kernel, variant, stage, listing)),
        "notes": [],
        "lines": jsons.Rows(
            _line_values(profiled, variant, stage, listing_lines, estimated=estimated or {})
        ),
    }


def _line_values(
    profiled: ProfiledRecording,
    variant: Variant,
    stage: Stage,
    lines: Iterable[Line],
    linked: bool = True,
    estimated: Mapping[int, float] | None = None,
) -> Iterator[LineRow]:
    """JSON of lines, one after the other; ``linked``: with links to other stages."""
    links = _links_to_others(profiled.reader, variant, stage) if linked else {}
    annotations = profiled.reader.annotations.annotate(variant, stage, whole_file=True)
    for line in lines:
        share = estimated.get(line.n, 0.0) if estimated else None
        yield line_row(line, links, annotations.at(line.n), annotations.words(line.n), share)


def _links_to_others(
    reader: Reader, variant: Variant, stage: Stage
) -> dict[Stage, Mapping[int, tuple[int, ...]]]:
    """Links to the stages that are read without cost, or the reason why a stage has no links."""
    links: dict[Stage, Mapping[int, tuple[int, ...]]] = {}
    for other in jsons.ordered(variant.stages):
        if other is stage or variant.stages[other].costly:
            continue
        try:
            links[other] = reader.stages.links(variant, stage, other)
        except PtxviewError as error:
            say(f"no links to {other.value}: {error.message}")
    return links


def _functions(
    profiled: ProfiledRecording, kernel: Kernel, variant: Variant, stage: Stage, listing: Listing
) -> Iterator[FunctionRow]:
    """JSON of each function of a listing; there may be thousands."""
    reader = profiled.reader
    kernel_function = reader.stages.function(variant, stage)
    if stage in (Stage.SOURCE, Stage.OUTPUT_CODE):
        if kernel_function is not None:
            yield _function(profiled, kernel, variant, stage, kernel_function)
        return
    by_symbol = {v.symbol: (k, v) for k, v in reader.recording.variants() if v.hash == variant.hash}
    for function in listing.functions:
        pair = by_symbol.get(
            function.name, (kernel, variant) if kernel_function is function else None
        )
        if pair is None:
            yield function_row(function.name, function)
            continue
        yield _function(profiled, pair[0], pair[1], stage, function)
        if pair[1] is not variant:
            reader.facts.forget_analysis(pair[1])


def _function(
    profiled: ProfiledRecording,
    kernel: Kernel,
    variant: Variant,
    stage: Stage,
    function: Function,
) -> FunctionRow:
    """One kernel of a listing with its resources, hints, card and newest time."""
    reader = profiled.reader
    notes = [finding.note for finding in reader.facts.findings(variant)]
    evidence = launch_evidence(reader)
    return function_row(
        kernel.name,
        function,
        variant,
        reader.facts.resources(variant),
        notes,
        card=card.card_row(reader.facts.card(variant)),
        ncu=ncu_variant_row(profiled.measured(variant)),
        timing=timings.stored_time_row(evidence.times.representative(kernel, variant)),
        launch_time=timings.launch_time_row(evidence.launch_time(kernel, variant)),
        pictures=_pictures(reader, kernel, variant, stage),
    )


def _within(lines: tuple[int, int], listing: Listing, stage: Stage) -> tuple[int, int]:
    """The lines of a range that a listing has. Raises ``UsageError`` if it has none."""
    count = len(listing.lines)
    first = max(lines[0], 1)
    last = min(lines[1], count)
    if first > last:
        last_asked = "" if lines[1] == common.LAST_LINE else lines[1]
        range_text = str(lines[0]) if lines[0] == lines[1] else f"{lines[0]}:{last_asked}"
        raise UsageError(f"{stage.value} has the lines 1 to {count}, and none in {range_text}")
    return first, last


def _brief_kernel(request: ShowRequest) -> int:
    """Print one kernel in short. Raises ``PtxviewError`` where its stage cannot be read."""
    # Imported here: summaries read differences too, whose modules are many.
    from inspector.render import brief
    from inspector.render.variant_figures import all_figures, quick_figures

    reader = request.reader
    kernel = request.kernel
    variant = request.variant
    listing = reader.stages.listing(variant, request.stage)
    reader.summaries.read_now(variant)
    findings = reader.facts.findings(variant)
    time = launch_evidence(reader).launch_time(kernel, variant)
    resources = reader.facts.resources(variant)
    first = quick_figures(variant, resources, reader.summaries.hint_count(variant), time)
    value = brief.kernel_summary(
        (reader.recording.path, common.handle(reader.recording, kernel, variant)),
        kernel,
        variant,
        request.stage,
        all_figures(variant, first, resources, reader.facts.card(variant), findings),
        [_size(reader, variant, other_stage) for other_stage in jsons.ordered(variant.stages)],
        findings,
        _hottest(request, listing),
    )
    return common.print_brief(value, request.args.json)


def _hottest(request: ShowRequest, listing: Listing) -> list[dict[str, Any]]:
    """The hottest, deepest and most register-hungry regions, each with its first instruction."""
    # Imported here, as above.

    rows = []
    for region in request.reader.annotations.regions(request.variant, request.stage):
        lines = listing.between(region.first, region.last)
        text = next((line.text.strip() for line in lines if line.opcode is not None), "")
        source = region.source and jsons.pick_fields(region.source, "file line")
        fields = jsons.pick_fields(region, "first last by percent depth live")
        rows.append({**fields, "text": text, "source": source})
    return rows


VIEWS: tuple[tuple[Callable[[ShowRequest], bool], Callable[[ShowRequest], int]], ...] = (
    (lambda request: request.args.brief and request.lines is None, _brief_kernel),
    (lambda request: request.args.brief, _brief_lines),
    (lambda request: request.args.json, _document),
    (lambda request: request.beside is not None, _side_by_side),
    (lambda request: request.args.annotate, _annotated),
    (lambda request: True, _text),
)
"""The views of a kernel's stage; the first that applies is printed."""


def _size(reader: Reader, variant: Variant, stage: Stage) -> dict[str, Any]:
    """A stage's lines and those of the kernel in it; None where it is costly to know."""
    size: dict[str, Any] = {"stage": stage.value, "lines": None, "first": None, "last": None}
    with contextlib.suppress(PtxviewError):
        if not variant.stages[stage].costly:
            size["lines"] = len(reader.stages.listing(variant, stage).lines)
            function = reader.stages.function(variant, stage)
            if function is not None:
                size["first"] = function.first
                size["last"] = function.last
    return size
