"""Options of bounded answers, ``--brief`` and ``--lines``, and the summary of one kernel."""

from __future__ import annotations

import argparse
from typing import Any

from inspector.base.errors import Exit, PtxviewError, UsageError
from inspector.base.model import Graph, Kernel, Recording, Stage, Variant
from inspector.base.names import base_name
from inspector.commands.common import print_json
from inspector.listing.line import Listing
from inspector.measure.time.results import times
from inspector.reader.reader import Reader
from inspector.report import jsons
from inspector.system import printing

LAST_LINE = 10**9
"""The last line of a range whose end is left out."""


def takes_small(parser: argparse.ArgumentParser, of: str, lines: str | None = None) -> None:
    """Add ``--brief`` and, where ``lines`` is its help, ``--lines``."""
    parser.add_argument(
        "--brief",
        action="store_true",
        help=f"{of} in short, bounded, and what to ask next",
    )
    if lines is not None:
        parser.add_argument("--lines", type=span, metavar="A[:B]", help=lines)


def span(text: str) -> tuple[int, int]:
    """``47``, ``40:60``, ``40:``, ``:60``."""
    first, colon, last = text.partition(":")
    parts = [first or "1", last or str(LAST_LINE)] if colon else [first, first]
    if text != ":" and all(p.isascii() and p.isdecimal() and len(p) < 11 for p in parts):
        return int(parts[0]), int(parts[1])
    raise argparse.ArgumentTypeError(
        f"{text} is neither a line nor a range of lines: 47, 40:60, 40: or :60"
    )


def refuse_together(args: argparse.Namespace, *names: str) -> None:
    """Raise ``UsageError`` if two of these options are given."""
    given = [f"--{name}" for name in names if getattr(args, name, None)]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} cannot be given together")


def within(lines: tuple[int, int], listing: Listing, stage: Stage) -> tuple[int, int]:
    """The lines of a range that a listing has. Raises ``UsageError`` if it has none."""
    many = len(listing.lines)
    first, last = max(lines[0], 1), min(lines[1], many)
    if first > last:
        last_asked = "" if lines[1] == LAST_LINE else lines[1]
        asked = str(lines[0]) if lines[0] == lines[1] else f"{lines[0]}:{last_asked}"
        raise UsageError(f"{stage.value} has the lines 1 to {many}, and none in {asked}")
    return first, last


def handle(recording: Recording, kernel: Kernel, variant: Variant) -> str:
    """What a command calls a variant by: its id, or its name where a cubin has several kernels."""
    same = sum(1 for _, one in recording.variants() if one.hash == variant.hash)
    return variant.id if same == 1 else base_name(kernel.name)


def answer(value: dict[str, object], as_json: bool) -> int:
    """Print a summary as JSON or as text."""
    from inspector.report import brief

    if as_json:
        print_json(value)
    else:
        printing.lines(brief.lines(value))
    return Exit.OK


def print_kernel(
    reader: Reader, kernel: Kernel, variant: Variant, stage: Stage, as_json: bool
) -> int:
    """Print one kernel in short. Raises ``PtxviewError`` where its stage cannot be read."""
    # Imported here, as below: summaries read differences too, whose modules are many.
    from inspector.reader.line_annotations import regions
    from inspector.report import brief

    listing = reader.listing(variant, stage)
    reader.count_hints([variant])
    findings = reader.findings(variant)
    taken, resources = times(reader.recording.path).of(kernel, variant), reader.resources(variant)
    time_us = None if taken is None else taken.median_us
    first = brief.glance(variant, resources, reader.hint_count(variant), time_us)
    hottest = []
    for region in regions(reader, variant, stage):
        lines = listing.between(region.first, region.last)
        source = region.source
        hottest.append(
            {
                "first": region.first,
                "last": region.last,
                "by": region.by,
                "percent": region.percent,
                "depth": region.depth,
                "live": region.live,
                "text": next((line.text.strip() for line in lines if line.opcode is not None), ""),
                "source": None if source is None else {"file": source.file, "line": source.line},
            }
        )
    value = brief.kernel(
        (reader.recording.path, handle(reader.recording, kernel, variant)),
        kernel,
        variant,
        stage,
        brief.figures(variant, first, resources, reader.card(variant), findings),
        [_size(reader, variant, each) for each in jsons.ordered(variant.stages)],
        findings,
        hottest,
    )
    return answer(value, as_json)


def _size(reader: Reader, variant: Variant, stage: Stage) -> dict[str, Any]:
    """A stage's lines and those of the kernel in it; None where it is costly to know."""
    out: dict[str, Any] = {"stage": stage.value, "lines": None, "first": None, "last": None}
    if variant.stages[stage].costly:
        return out
    try:
        out["lines"] = len(reader.listing(variant, stage).lines)
        if (own := reader.function(variant, stage)) is not None:
            out |= {"first": own.first, "last": own.last}
    except PtxviewError:
        pass
    return out


def print_graph(reader: Reader, graph: Graph, as_json: bool) -> int:
    """Print a graph in short."""
    from inspector.report import brief

    sizes = {
        stage: len(reader.graph_listing(graph, stage).lines) for stage in reader.graph_stages(graph)
    }
    value = brief.graph(reader.recording.path, graph, sizes)
    return answer(value, as_json)
