"""Sentences on failed variants, graphs and builds."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.base.errors import UsageError
from inspector.base.model import CompilerMessage, Failure, Graph, Kernel, Stage, Variant
from inspector.base.text import kibibytes, plural, shown
from inspector.report.jsons import ordered

MENDED = (Stage.PTX, Stage.LLIR, Stage.TTGIR, Stage.TTIR)
"""Stages from which ``try`` goes on, the last first."""
MOST_LINES = 12
"""Messages shown one by one."""


def how(variant: Variant) -> str | None:
    """``did not compile: square.py:5:28: …``; None of one that was compiled and could be loaded."""
    error = variant.error
    if error is None:
        return None
    return shown(f"{error.how}: {error.said}")


def refused(error: Failure) -> str:
    """``shared memory 512 KiB > 227 KiB``: what was needed and what the device has; "" where the
    driver did not say."""
    if error.resource is None or error.required is None or error.limit is None:
        return ""
    told = kibibytes if "memory" in error.resource else str
    return shown(f"{error.resource} {told(error.required)} > {told(error.limit)}")


def sentence(kernel: Kernel, variant: Variant) -> str | None:
    """``square did not compile: square.py:5:28: …``; None of one that was compiled."""
    said = how(variant)
    return None if said is None else f"{shown(kernel.called)} {variant.id} {said}"


def need_compiled(kernel: Kernel, variant: Variant) -> None:
    """Raise ``UsageError`` where a compiler refused it: there is nothing that could be run."""
    said = sentence(kernel, variant)
    last = next((stage for stage in MENDED if stage in variant.stages), None)
    if said is not None and variant.uncompiled:
        raise UsageError(
            said,
            f"ptxview show {variant.id} shows what there is of it"
            + (
                "."
                if last is None
                else f"; ptxview try {variant.id} --stage {last.value} FILE "
                "goes on from a mended text."
            ),
        )


def lines(kernel: Kernel, variant: Variant) -> Iterator[str]:
    """The sentence, then all that was said with its lines, the command, and what there is."""
    error, said = variant.error, sentence(kernel, variant)
    if error is None or said is None:
        return
    yield said
    yield from details(error)
    there = ", ".join(stage.value for stage in ordered(variant.stages))
    if error.at_load or not there:
        return
    yield f"it came to these stages: {there}"


def of_graph(graph: Graph) -> Iterator[str]:
    """The same of a graph."""
    if graph.error is None:
        return
    yield shown(f"graph {graph.id} did not compile: {graph.error.said}")
    yield from details(graph.error)


def details(error: Failure) -> Iterator[str]:
    """The line of text that was complained of, the other messages, the command that failed."""
    first = error.first
    if first is not None and first.text:
        yield f"  {shown(first.text.strip())}"
    others = [message for message in error.messages if message is not first]
    for message in others[:MOST_LINES]:
        yield from _message(message)
    if len(others) > MOST_LINES:
        yield f"  … {plural(len(others) - MOST_LINES, 'more message')}"
    if error.command is not None:
        yield f"  the command: {shown(error.command)}"


def _message(message: CompilerMessage) -> Iterator[str]:
    yield shown(f"  {message.severity}: {message.sentence}")
    if message.text:
        yield f"    {shown(message.text.strip())}"
