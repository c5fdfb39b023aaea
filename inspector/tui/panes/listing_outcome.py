"""What a thread brings back to a pane: immutable, whether it went well or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from inspector.base.model import Stage
from inspector.listing.line import Kind, Listing
from inspector.tui.code.highlight import Highlighter, highlighter_for, width_of
from inspector.tui.widgets.notice import Notice, attempt
from inspector.tui.widgets.subject import TreeSubject, digit

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

SEARCH_LINES = 200
"""Lines in which the first instruction is looked for."""


@dataclass(frozen=True, slots=True)
class ListingRequest:
    """One stage of one subject."""

    subject: TreeSubject
    stage: Stage


@dataclass(frozen=True, slots=True)
class ListingOutcome:
    """The answer to a request: a highlighted listing and where to look first, or a notice.

    ``width`` is about the cells of the widest line, ``top`` where the kernel begins and ``at`` the
    line for the cursor: its first instruction, or where it did not compile.
    """

    request: ListingRequest
    source: Highlighter | None = None
    width: int = 0
    top: int = 1
    at: int = 1
    notice: Notice | None = None


def _start(reads: Reader, request: ListingRequest) -> int:
    """The line at which the kernel begins in a stage."""
    variant, stage = request.subject.variant, request.stage
    if variant is None:
        return 1
    if (lines := variant.lines_in(stage)) is not None:
        return lines[0]
    if stage is Stage.OUTPUT_CODE and variant.embedded is not None:
        return variant.embedded[1]
    function = reads.function(variant, stage)
    return 1 if function is None else function.first


def _first_instruction(listing: Listing, top: int) -> int:
    """The first instruction from ``top`` on, if it is near: declarations come before it."""
    near = listing.lines[top - 1 : top - 1 + SEARCH_LINES]
    return next((line.n for line in near if line.kind is Kind.INSTRUCTION), top)


def _failed_at(reads: Reader, subject: TreeSubject, stage: Stage) -> int | None:
    """The line of a variant that did not compile at which a compiler says why, or in another stage
    than it says, one that is tied to that line."""
    variant = subject.variant
    if subject.of_graph(stage):
        graph, file = subject.graph, subject.file(stage)
        error = None if graph is None or graph.error is None else graph.error.first
        own = error is not None and file is not None and error.file == file.origin_path
        return error.line if error is not None and own else None
    if variant is None or variant.error is None:
        return None
    place = reads.failed_at(variant)
    if place is None or place[0] is stage:
        return None if place is None else place[1]
    # In another stage, what that line came of: the source of PTX that ptxas refuses.
    return next(iter(reads.links(variant, place[0], stage).get(place[1], ())), None)


def load(reads: Reader, request: ListingRequest) -> ListingOutcome:
    """Read what a request asks for; called in a thread."""
    subject, stage = request.subject, request.stage
    if not subject.has(stage):
        return ListingOutcome(request, notice=missing(subject, stage, reads.recording.complete))

    def work() -> ListingOutcome:
        if subject.of_graph(stage):
            assert subject.graph is not None
            listing = reads.graph_listing(subject.graph, stage)
            file = subject.graph.stages.get(stage)
        else:
            assert subject.variant is not None
            listing = reads.listing(subject.variant, stage)
            file = subject.variant.stages.get(stage)
        if not listing.lines or (len(listing.lines) == 1 and not listing.lines[0].text):
            return ListingOutcome(request, notice=Notice("∅", f"The recorded {stage} is empty."))
        source = highlighter_for(listing, stage, file.origin_path if file else None)
        answer = attempt(lambda: _start(reads, request))
        top = answer if isinstance(answer, int) else 1
        failed = attempt(lambda: _failed_at(reads, subject, stage))
        at = failed if isinstance(failed, int) else 0
        if not 0 < at <= len(listing.lines):
            at = _first_instruction(listing, top)
        return ListingOutcome(request, source, width_of(source.texts), top, at)

    outcome = attempt(work)
    return ListingOutcome(request, notice=outcome) if isinstance(outcome, Notice) else outcome


def missing(subject: TreeSubject, stage: Stage, complete: bool = True) -> Notice:
    """Why there is no such stage, and which there are; in a recording that is not ``complete``,
    so far."""
    there = "   ".join(f"{digit(other)} {other}" for other in subject.stages())
    return Notice(
        "∅" if complete else "◔",
        f"No {stage} here{'' if complete else ' yet'}. {subject.why_missing(stage, complete)}",
        f"Available:   {there}" if there else "There is no other stage either.",
    )
