"""Texts of the timing screen: planned launches, the question, new and earlier times."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from math import prod

from inspector.base.text import kibibytes, plural
from inspector.measure.time.planning import Plan, PlannedLaunch, ReplayableCall, inputs
from inspector.measure.time.results import Session
from inspector.report import timings
from inspector.system.printing import page
from inspector.tui.widgets import recorded_times as times
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.visible import label, shorten

Part = tuple[str, str]
HEAD = "bold $primary"
QUIET = "$quiet"
WARN = "bold $warning"
MAX_PAST = 12
"""Earlier measurements that are shown."""


def wrapped(text: str, width: int, style: str = "", indent: str = "  ") -> Iterator[Part]:
    """A text in lines of at most ``width`` cells."""
    for line in textwrap.wrap(label(text), max(20, width - len(indent))):
        yield f"{indent}{line}\n", style


def launches(plan: Plan, calls: Sequence[ReplayableCall], width: int) -> Iterator[Part]:
    """What would be run, a launch after the other, then calls that launch; and what would not."""
    many = len(plan.launches)
    if many:
        yield f"{plural(many, 'launch')} to time\n", HEAD
    for launch in plan.launches:
        yield from _launch(launch, width)
    if calls:
        yield f"{plural(len(calls), 'call')} to make again\n", HEAD
    for one in calls:
        said = f"{one.call.kind} {one.call.name}: {inputs(one.call.arguments)}"
        yield f"  {shorten(label(said), width - 4)}\n", "bold"
        yield f"    made {_often(one.call.count)} in the run\n", QUIET
    for said in plan.left_out:
        yield from wrapped(f"left out: {said}", width, QUIET)


def _launch(launch: PlannedLaunch, width: int) -> Iterator[Part]:
    call = launch.call
    yield f"  {shorten(label(inputs(call.arguments) or 'no tensors'), width - 4)}\n", "bold"
    parts = []
    if call.grid is not None:
        parts.append(f"grid {'×'.join(map(str, call.grid))}")
    if call.block is not None:
        parts.append(f"{plural(prod(call.block), 'thread')} a block")
    if call.shared_bytes is not None:
        shared = (
            f"{kibibytes(call.shared_bytes)} shared" if call.shared_bytes else "no shared memory"
        )
        parts.append(shared)
    parts.append(f"launched {_often(call.count)}")
    yield from wrapped(" · ".join(parts), width, QUIET, "    ")


def _often(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def leave(path: str, python: str, width: int) -> Iterator[Part]:
    """The question whether another's code may be run."""
    yield "\nRun it?\n", WARN
    yield from wrapped(
        "This runs the code of a recording that is not yours: it is not in your own "
        f"folder of recordings, but in {path}. It would run under {python}, with your rights and "
        "on your GPU. Say yes only if you trust its author.",
        width,
    )
    yield "\n", ""
    yield from (("  y", HEAD), (" run it    ", ""), ("n", HEAD), (" do not\n", ""))


def trouble(notice: Notice, width: int) -> Iterator[Part]:
    """Why there is no time, in a sentence, and what to do."""
    yield "\n", ""
    yield from wrapped(f"{notice.sign} {notice.message}", width, "bold $error", "")
    for line in notice.hint.splitlines():
        yield from wrapped(line, width, QUIET)


def measured(session: Session, width: int) -> Iterator[Part]:
    """The times of one run as the report has them, with its notes."""
    yield "\nMeasured just now\n", HEAD
    yield from wrapped(timings.heading(session), width, QUIET)
    yield table(session, width), ""
    yield "\n", ""
    for note in timings.footnotes(session):
        yield from wrapped(note, width, QUIET)


def before(sessions: Sequence[Session], width: int) -> Iterator[Part]:
    """Earlier measurements, the newest first."""
    told = [s for s in reversed(sessions) if s.rows][:MAX_PAST]
    if told:
        yield "\nTaken before\n", HEAD
    for session in told:
        name = label(str(session.device.get("name") or "unknown device"))
        yield f"  {timings.age(session.taken, times.now())}", "bold"
        yield f"  {name}\n", QUIET
        yield table(session, width), ""


def table(session: Session, width: int) -> str:
    """The report's table as text, indented."""
    console, written = page(width - 2, colours=False)
    console.print(timings.table(session, width - 2))
    return textwrap.indent(written(), "  ")
