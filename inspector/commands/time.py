"""Run recorded launches again, or the variants that a script declares, and take their time.

Triton's machine code is launched as it was recorded, compiled graphs' code and extensions'
functions are called, all on new inputs of the same kind. The time is the kernels' own duration
(CUPTI) with a clean, cold L2, repeated until the median's 95 % interval is within 1 %. --stopwatch
and --cache ask for other ways.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from dataclasses import replace
from pathlib import Path

from inspector import printing
from inspector.annotating import Annotator
from inspector.bench.amounts import with_amounts
from inspector.bench.results import CACHES, STOPWATCHES, Session, Timing
from inspector.bench.results import row as timing_row
from inspector.capture.opening import newest
from inspector.commands import time_compare, time_options, time_plots
from inspector.commands.common import open_reader
from inspector.errors import Exit, UsageError
from inspector.model import Call
from inspector.printing import narrate
from inspector.recording_timings import place
from inspector.report import jsons, timings
from inspector.selecting import Found, select, select_calls, select_one
from inspector.timing import Wish, own, ready, sessions, store, take


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``time``."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[PATH] KERNEL…",
        help="the recording (the newest if left out) and which kernels, graphs or extensions' "
        "functions of it (all)",
    )
    parser.add_argument(
        "--stopwatch",
        choices=(*STOPWATCHES, "all"),
        default="cupti",
        help="how the time is taken: cupti, the kernel's own duration; event, a pair of events "
        "around one launch; Triton's do_bench; cudagraph, its do_bench_cudagraph; or all, side by "
        "side (cupti)",
    )
    parser.add_argument(
        "--cache",
        choices=CACHES,
        default="cold",
        help="the L2 before each launch: cold and clean, hot, or dirty with other data; do_bench "
        "and cudagraph have their own (cold)",
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="at most, for one stopwatch (2)"
    )
    parser.add_argument(
        "--limit", type=float, default=60.0, metavar="S",
        help="after which a launch is given up, with all its stopwatches (60)",
    )  # fmt: skip
    parser.add_argument(
        "--calls", type=int, default=3, metavar="N",
        help="how many distinct calls of a variant, graph or function, the most frequent ones (3)",
    )  # fmt: skip
    parser.add_argument(
        "--python", metavar="PATH",
        help="the interpreter (ptxview's own where torch is installed with it, else the activated "
        "environment's, python3; never one that a recording names)",
    )  # fmt: skip
    parser.add_argument(
        "--trust", action="store_true", help="run the code of a recording that is not your own"
    )
    parser.add_argument(
        "--stored", action="store_true", help="show the times that were taken before, take none"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    time_options.arguments(parser)


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Take times and print them; 1 where one failed."""
    args = parser.parse_args(argv)
    if args.seconds <= 0 or args.limit <= 0 or args.calls < 1:
        parser.error("--seconds, --limit and --calls are greater than 0")
    if time_compare.is_script(args.words):
        return time_compare.run(args)
    time_options.check(args)
    words = list(args.words)
    path = Path(words.pop(0)) if words and Path(words[0]).exists() else newest()
    reader = open_reader(str(path))
    found, calls = chosen(reader, words)
    if args.stored:
        return _stored(path, (found, calls) if words else None, args.json)
    if args.png is not None:
        time_plots.can_draw()
        time_plots.writable(args.png)
    wish = Wish(args.stopwatch, args.cache, args.seconds, args.limit, args.calls, args.python)
    given = ready(reader, path, found, wish, calls)
    if args.bytes or args.flops:
        time_options.one_launch(len(given.plan.launches) + len(given.calls))
    if not args.trust and not own(reader.recording):
        ask(path, given.python)
    session = take(reader, path, given, wish, narrate)
    session = with_amounts(session, args.bytes, args.flops)
    _keep(path, session)
    if args.json:
        printing.json_line(jsons.dumps(timings.document(session)))
    else:
        _print(session)
        for said in given.plan.left_out:
            narrate(f"left out: {said}")
    if args.roofline:
        time_plots.of_session(session, path.name, args.json, args.png)
    return Exit.DIFFERENT if any(t.error for t in session.rows) else Exit.OK


def chosen(reader: Annotator, words: list[str]) -> tuple[tuple[Found, ...], tuple[Call, ...]]:
    """The variants and the calls that the words name, each once; all without words.

    A word is KERNEL, a graph's id, an extension's function or its module. Raises ``UsageError``.
    """
    recording = reader.recording
    if not words:
        return recording.variants(), recording.calls
    out: dict[tuple[str, str], Found] = {}
    calls: list[Call] = []
    for word in words:
        fits = select(recording, word)
        named = select_calls(recording, word)
        if not fits and not named:
            fits = (select_one(recording, word),)
        out.update({(k.id, v.id): (k, v) for k, v in fits})
        calls += [c for c in named if c not in calls]
    return tuple(out.values()), tuple(calls)


def ask(path: Path, python: str) -> None:
    """Ask whether to run another's code. Raises ``UsageError`` where the answer is not yes."""
    if not printing.at_terminal():
        raise UsageError(
            f"{path} is not from your own folder of recordings, and timing runs the code in it "
            f"and the libraries that it names, under {python}: say --trust if you trust whoever "
            "made it"
        )
    narrate(
        f"{path} is not from your own folder of recordings. Timing runs the code in it and\n"
        f"the libraries that it names, under {python}."
    )
    printing.ask("Do you trust whoever made it? [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("not trusted, and so not run")


def _keep(path: Path, session: Session) -> None:
    try:
        store(path, session)
    except OSError as error:
        narrate(f"the times are not kept: {place(path)}: {error.strerror or error}")


def _stored(path: Path, only: tuple[tuple[Found, ...], tuple[Call, ...]] | None, json: bool) -> int:
    known = sessions(path)
    if only is not None:
        wanted = {v.id for _, v in only[0]}
        names = {c.name for c in only[1]}

        def fits(one: Timing) -> bool:
            of = {one.variant, *(k.variant for k in one.kernels)}
            return bool(of & wanted) or one.kernel in names

        known = [replace(s, rows=tuple(filter(fits, s.rows))) for s in known]
    known = [s for s in known if s.rows]
    if json:
        held = [timings.document(s) for s in known]
        rows = [{**timing_row(t), "taken": s.taken} for s in known for t in s.rows]
        printing.json_line(jsons.dumps({"schema": jsons.SCHEMA, "sessions": held, "rows": rows}))
        return Exit.OK
    if not known:
        narrate("no times are kept of it; ptxview time takes some")
    now = datetime.datetime.now(datetime.UTC)
    for session in known:
        printing.out().print(timings.age(session.taken, now), style="bold")
        _print(session)
    return Exit.OK


def _print(session: Session) -> None:
    out = printing.out()
    out.print(timings.heading(session))
    out.print(timings.table(session, out.width))
    for line in timings.footnotes(session):
        out.print(line, soft_wrap=True)
