"""Small answers, which several commands give: in short, of some lines, or of some figures alone."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial

from inspector import printing
from inspector.commands.common import print_json
from inspector.errors import Exit, PtxviewError, UsageError
from inspector.listing.line import Listing
from inspector.measure.time.stored import StoredTimes, times
from inspector.model import Graph, Kernel, Recording, Stage, Variant
from inspector.names import base_name
from inspector.reader.hottest import Region, regions
from inspector.reader.reader import Reader
from inspector.report import brief, fields, jsons
from inspector.report.fields import FieldSubject

LAST_LINE = 10**9
"""The last line of a range whose end is left out."""


def takes_small(
    parser: argparse.ArgumentParser, of: str, *, lines: str | None = None, more: str = ""
) -> None:
    """``--brief``, ``--fields`` and, where ``lines`` says what it is of, ``--lines``."""
    parser.add_argument(
        "--brief", action="store_true", help=f"{of} in short, and what to ask next; with --json "
        f"at most {brief.MOST:,} bytes",
    )  # fmt: skip
    parser.add_argument(
        "--fields", metavar="NAME,…",
        help=f"these alone: {', '.join(fields.FIELDS)}{more}",
    )  # fmt: skip
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
    """Raises ``UsageError`` where two of these options were given that exclude one another."""
    given = [f"--{name}" for name in names if getattr(args, name.replace("-", "_"), None)]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} cannot be given together")


def within(lines: tuple[int, int], listing: Listing, stage: Stage) -> tuple[int, int]:
    """The requested lines that exist. Raises ``UsageError`` for none."""
    first, last = max(lines[0], 1), min(lines[1], len(listing.lines))
    if first > last:
        many = len(listing.lines)
        asked = brief.span(*lines) if lines[0] != lines[1] else str(lines[0])
        asked = f"{lines[0]}:" if lines[1] == LAST_LINE else asked
        raise UsageError(f"{stage.value} has the lines 1 to {many}, and none in {asked}")
    return first, last


# -- figures --------------------------------------------------------------------------------------


def subject(
    reader: Reader, stored: StoredTimes, kernel: Kernel, variant: Variant, *, count: bool = True
) -> FieldSubject:
    """What fields are asked of; ``count``: hints are counted where nobody has done so yet."""

    def counted() -> int | None:
        if count:
            reader.count_hints([variant])
        return reader.hint_count(variant)

    taken = stored.of(kernel, variant)
    return FieldSubject(
        kernel, variant, reader.resources(variant), partial(reader.card, variant),
        partial(reader.findings, variant), counted, None if taken is None else taken.median_us,
    )  # fmt: skip


def figures(
    reader: Reader, pairs: Sequence[tuple[Kernel, Variant]], names: Sequence[str]
) -> Iterator[dict[str, object]]:
    """These fields of variants, of which there may be many."""
    stored = times(reader.recording.path)
    if "hints" in names:
        reader.count_hints([variant for _, variant in pairs])
    for kernel, variant in pairs:
        yield fields.values(subject(reader, stored, kernel, variant, count=False), names)


def handle(recording: Recording, kernel: Kernel, variant: Variant) -> str:
    """What one calls a variant by: its id, which the kernels of one cubin share, else its name."""
    same = sum(1 for _, one in recording.variants() if one.hash == variant.hash)
    return variant.id if same == 1 else base_name(kernel.name)


# -- one kernel -----------------------------------------------------------------------------------


def kernel_in_short(
    reader: Reader, kernel: Kernel, variant: Variant, stage: Stage
) -> dict[str, object]:
    """One kernel in short. Raises ``PtxviewError`` where its stage cannot be read."""
    one = subject(reader, times(reader.recording.path), kernel, variant)
    listing = reader.listing(variant, stage)
    left_out = ("stages",) if variant.error is not None else ("stages", "failed")
    return brief.kernel(brief.KernelInShort(
        path=reader.recording.path,
        name=handle(reader.recording, kernel, variant),
        kernel=kernel,
        variant=variant,
        stage=stage,
        figures=fields.values(one, [n for n in fields.FIELDS if n not in left_out]),
        stages=[_size(reader, variant, each) for each in jsons.ordered(variant.stages)],
        findings=reader.findings(variant),
        hottest=[_place(listing, region) for region in regions(reader, variant, stage)],
    ))  # fmt: skip


def _size(reader: Reader, variant: Variant, stage: Stage) -> brief.StageSize:
    if variant.stages[stage].costly:
        return brief.StageSize(stage)
    try:
        listing, own = reader.listing(variant, stage), reader.function(variant, stage)
    except PtxviewError:
        return brief.StageSize(stage)
    at = (None, None) if own is None else (own.first, own.last)
    return brief.StageSize(stage, len(listing.lines), *at)


def _place(listing: Listing, region: Region) -> brief.Place:
    lines = listing.between(region.first, region.last)
    text = next((line.text.strip() for line in lines if line.opcode is not None), "")
    return brief.Place(
        region.first, region.last, region.by, text, region.source, region.percent, region.depth,
        region.live,
    )  # fmt: skip


def print_kernel(value: dict[str, object], as_json: bool) -> int:
    """A kernel in short, for people or as data."""
    if as_json:
        print_json(value)
    else:
        printing.lines(brief.kernel_lines(value))
    return Exit.OK


def print_graph(reader: Reader, graph: Graph, as_json: bool) -> int:
    """A graph in short."""
    sizes = {
        stage: len(reader.graph_listing(graph, stage).lines) for stage in reader.graph_stages(graph)
    }
    value = brief.graph(reader.recording.path, graph, sizes)
    if as_json:
        print_json(value)
    else:
        printing.lines(brief.graph_lines(value))
    return Exit.OK


def line_rows(lines: Sequence[dict[str, object]], names: Sequence[str]) -> list[str]:
    """Fields of lines in columns, for people."""
    return fields.table([{"n": line["n"], **{name: line[name] for name in names}}
                         for line in lines])  # fmt: skip
