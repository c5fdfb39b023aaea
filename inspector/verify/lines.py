"""Where a difference is: the store in PTX and SASS, and the model's line of the node."""

import re
from collections.abc import Mapping

from msgspec import Struct

from inspector.base.errors import PtxviewError
from inspector.base.model import Stage, Variant
from inspector.reader.reader import Reader
from inspector.verify.report import KernelVerdict

STORES = ("st.global", "red.global", "atom.global")
SASS_STORES = ("STG", "RED", "ATOM")


class DifferenceLines(Struct, frozen=True, kw_only=True):
    """Lines that a difference belongs to: the first store to the output in PTX and SASS, and the
    model's line that the node comes from; None where it is not known."""

    ptx: int | None = None
    sass: int | None = None
    source: str | None = None


Lines = Mapping[tuple[str, int, str], DifferenceLines]
"""The lines of differences by graph, call and kernel."""


def difference_lines(reader: Reader, kernel: KernelVerdict) -> DifferenceLines:
    """The lines of an output that differs."""
    judgement = kernel.judgement
    variant = kernel.variant
    source = judgement.source
    if variant is None or judgement.output is None:
        return DifferenceLines(source=source)
    try:
        ptx = _store(reader, variant, judgement.output)
        if ptx is None:
            return DifferenceLines(source=source)
        linked = reader.stages.links(variant, Stage.PTX, Stage.SASS).get(ptx, ())
        sass = reader.stages.listing(variant, Stage.SASS).lines
        stores = [n for n in linked if (sass[n - 1].opcode or "").startswith(SASS_STORES)]
        return DifferenceLines(ptx=ptx, sass=stores[0] if stores else None, source=source)
    except PtxviewError:
        return DifferenceLines(source=source)


def _store(reader: Reader, variant: Variant, parameter: str) -> int | None:
    """The first line of PTX that stores to a parameter's tensor."""
    name = re.compile(rf"(?<!\w){re.escape(parameter)}(?!\w)")
    listing = reader.stages.listing(variant, Stage.PTX)
    annotations = reader.annotations.annotate(variant, Stage.PTX)
    for line in listing.lines:
        if line.opcode is None or not line.opcode.startswith(STORES):
            continue
        if name.search(annotations.words(line.n).sentence or ""):
            return line.n
    return None
