"""A kernel for an issue: what it takes, the hints, and as much of its texts as is read there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from inspector import __version__
from inspector.base.errors import PtxviewError
from inspector.base.model import Stage
from inspector.base.names import base_name
from inspector.base.text import plural, shown
from inspector.export.gathering import Found, measured, named
from inspector.measure.time.stored import StoredTimes
from inspector.reader.reader import Reader
from inspector.report import annotated, card, failure, tables
from inspector.report.diff_markdown import code, details, escaped, rows_of

IN_FULL = 4
"""Kernels shown in full; more get the table only."""
LONGEST = {Stage.SOURCE: 150, Stage.OUTPUT_CODE: 150, Stage.PTX: 250}
"""Lines of a stage's excerpt: an issue on GitHub may have 65,536 characters."""
MOST = 60_000
LANGUAGES = {Stage.PTX: "ptx", Stage.OUTPUT_CODE: "python"}
HEADS = ("kernel", "registers", "spills", "shared", "occupancy", "instructions", "time", "hints")
_SILENT = re.compile(r"\s*(?:\.loc\b.*|//.*|\$L__tmp\d+:)?")
"""Lines of PTX that an issue can do without."""


def markdown(
    reader: Reader, chosen: Sequence[Found], times: StoredTimes, removed: Sequence[str] = ()
) -> Iterator[str]:
    """Lines of Markdown that nothing in the recording can break out of."""
    written = 0
    rec = reader.recording
    yield from rows_of(HEADS, [_row(reader, found, times) for found in chosen])
    if len(chosen) > IN_FULL:
        yield f"Name up to {plural(IN_FULL, 'kernel')} to have their hints and their code."
        yield ""
    for found in chosen if len(chosen) <= IN_FULL else ():
        for line in _of(reader, found):
            written += len(line) + 1
            if written > MOST:
                yield "More than an issue holds: name one kernel alone."
                break
            yield line
    said = [f"ptxview {__version__}", tables.heading(rec), named(chosen)]
    said += [" ".join(t) for t in rec.tools.items()]
    said += [f"removed: {text}" for text in removed]
    yield f"<sub>{escaped(' · '.join(said))}</sub>"


def _row(reader: Reader, found: Found, times: StoredTimes) -> tuple[str, ...]:
    kernel, variant = found
    resources, own = reader.resources(variant), reader.card(variant)
    full, made = own.occupancy, own.of(Stage.SASS) or own.of(Stage.PTX)
    limiters = "" if full is None else " and ".join(full.limiters)
    mix = None if made is None else made.mix
    return (
        f"{code(base_name(kernel.name))} {code(variant.id)} {escaped(tables.config(variant))}",
        tables.figure(resources.registers),
        tables.spills(resources),
        tables.shared(resources),
        tables.UNKNOWN if full is None else f"{full.percent:.4g} % ({limiters})",
        tables.UNKNOWN if mix is None or made is None else f"{mix.total} {made.stage.value}",
        measured(times.of(kernel, variant)) or tables.UNKNOWN,
        str(len(reader.findings(variant))),
    )


def _of(reader: Reader, found: Found) -> Iterator[str]:
    kernel, variant = found
    yield f"### {code(base_name(kernel.name))} {code(variant.id)} {escaped(variant.target or '')}"
    yield ""
    if (said := failure.how(variant)) is not None:
        yield f"**✗ {escaped(said)}**"
        yield ""
    for finding in reader.findings(variant):
        yield f"- {escaped(annotated.hint(finding).plain.strip())}"
    for why in reader.lacking(variant):
        yield f"- not known: {escaped(why)}"
    yield ""
    yield from details("card", card.lines(reader.card(variant), 100), "text")
    yield ""
    for stage in (Stage.SOURCE, Stage.OUTPUT_CODE, Stage.PTX):
        if stage is Stage.OUTPUT_CODE and Stage.SOURCE in variant.stages and not kernel.fusion:
            continue
        lines = _excerpt(reader, found, stage)
        if lines:
            cuda = (variant.stages[stage].origin_path or "").endswith((".cu", ".cuh"))
            language = LANGUAGES.get(stage, "cuda" if cuda else "python")
            yield from details(stage.value, lines, language, LONGEST[stage])
            yield ""


def _excerpt(reader: Reader, found: Found, stage: Stage) -> list[str]:
    """The kernel's own lines of a stage; of PTX without those that only debuggers need."""
    _, variant = found
    file = variant.stages.get(stage)
    if file is None or file.costly:
        return []
    try:
        own = reader.function(variant, stage)
        listing = reader.listing(variant, stage)
        first, last = (1, len(listing.lines)) if own is None else (own.first, own.last)
        texts = [shown(t.rstrip("\r").expandtabs(4)) for t in listing.texts(first, last)]
    except PtxviewError:
        return []
    if stage is not Stage.PTX:
        return texts
    return [t.partition("// ")[0].rstrip() for t in texts if not _SILENT.fullmatch(t)]
