"""Run recorded launches of Triton kernels again and take their time, on this machine's GPU.

The recorded machine code is launched with the recorded grid on new inputs of the same kind. The
time is the kernel's own duration (CUPTI) with a clean, cold L2, repeated until the median's 95 %
interval is within 1 %. --stopwatch and --cache ask for other ways.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from inspector import knowledge
from inspector.analyse.device import arch_of
from inspector.analyse.estimates import operations
from inspector.analyse.launches import tensor_bytes
from inspector.annotating import Annotator
from inspector.bench import running
from inspector.bench.planning import Launch, Plan, cooperative, job_of, plan, scratch
from inspector.bench.results import CACHES, STOPWATCHES, Peak, Session, Timing, read, stored
from inspector.bench.results import row as timing_row
from inspector.bench.results import with_time as timed
from inspector.bench.statistics import median
from inspector.capture import machine
from inspector.capture.opening import newest, recordings_folder
from inspector.commands.common import console, narrate, open_reader
from inspector.errors import Exit, PtxviewError, ToolMissing, UsageError
from inspector.model import Stage
from inspector.recording import is_recording, read_events
from inspector.recording_timings import keep, kept, place
from inspector.report import jsons, timings
from inspector.selecting import Found, select, select_one

# What alignments were recorded up to: of torch's allocator on a device, on the emulated one.
ALIGNED, ALIGNED_EMULATED = 512, 64


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``time``."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[PATH] KERNEL…",
        help="the recording (the newest if left out) and which kernels of it (all of Triton's)",
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
        help="how many distinct calls of a variant, the most frequent ones (3)",
    )  # fmt: skip
    parser.add_argument(
        "--python", metavar="PATH", help="the interpreter (the one that recorded the calls)"
    )
    parser.add_argument(
        "--trust", action="store_true", help="run the code of a recording that is not your own"
    )
    parser.add_argument(
        "--stored", action="store_true", help="show the times that were taken before, take none"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Take times and print them; 1 where one failed."""
    args = parser.parse_args(argv)
    if args.seconds <= 0 or args.limit <= 0 or args.calls < 1:
        parser.error("--seconds, --limit and --calls are greater than 0")
    words = list(args.words)
    path = Path(words.pop(0)) if words and Path(words[0]).exists() else newest()
    reader = open_reader(str(path))
    found = chosen(reader, words)
    if args.stored:
        return _stored(path, found if words else None, args.json)
    if not is_recording(path):
        raise UsageError(
            f"{path} is no recording: only one knows with what its kernels were launched",
            "Make one with: ptxview run script.py",
        )
    what = plan(found, args.calls)
    if not what.launches:
        raise UsageError("there is no recorded launch to time", "\n".join(what.left_out))
    if not machine.gpu_present():
        raise ToolMissing("timing needs an NVIDIA GPU, and there is none on this machine")
    recorded = reader.recording.command
    python = running.interpreter(args.python, recorded, sys.executable, machine.versions)
    if not args.trust and not own(path):
        ask(path, python)
    session = take(reader, path, what, python, args)
    _keep(path, session)
    if args.json:
        print(jsons.dumps(timings.document(session)))
    else:
        _print(session)
        for said in what.left_out:
            narrate(f"left out: {said}")
    return Exit.DIFFERENT if any(t.error for t in session.rows) else Exit.OK


def chosen(reader: Annotator, words: list[str]) -> tuple[Found, ...]:
    """The variants that the words name, each once; all without words. Raises ``UsageError``."""
    if not words:
        return reader.recording.variants()
    out: dict[tuple[str, str], Found] = {}
    for word in words:
        fits = select(reader.recording, word) or (select_one(reader.recording, word),)
        out.update({(k.id, v.id): (k, v) for k, v in fits})
    return tuple(out.values())


def own(path: Path) -> bool:
    """Whether a recording is this user's own: his file, in his folder of recordings.

    What a recording says of itself proves nothing; where it lies does.
    """
    try:
        real = path.resolve()
        return real.is_relative_to(recordings_folder().resolve()) and (
            real.stat().st_uid == os.getuid()
        )
    except OSError:
        return False


def ask(path: Path, python: str) -> None:
    """Ask whether to run another's code. Raises ``UsageError`` where the answer is not yes."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"{path} is not from your own folder of recordings, and timing runs the machine code "
            "in it: say --trust if you trust whoever made it"
        )
    narrate(
        f"{path} is not from your own folder of recordings. Timing runs the machine code in it,\n"
        f"under {python}."
    )
    sys.stderr.write("Do you trust whoever made it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("not trusted, and so not run")


def take(
    reader: Annotator, path: Path, what: Plan, python: str, args: argparse.Namespace
) -> Session:
    """Run the launches; their times in the order of the plan."""
    events = read_events(path).events
    need, together = scratch(events), cooperative(events)
    watches = STOPWATCHES if args.stopwatch == "all" else (args.stopwatch,)
    jobs: list[tuple[running.Said, bytes]] = []
    whose: list[int] = []
    refused: dict[int, str] = {}
    for at, launch in enumerate(what.launches):
        variant = launch.variant
        try:
            cubin = variant.stages[Stage.SASS].content.read()
            told = job_of(
                launch, cubin, "", need.get(variant.hash, (0, 0)), variant.hash in together
            )
        except PtxviewError as error:
            told = error.message
        if isinstance(told, str):
            refused[at] = told
        else:
            jobs.append((told, cubin))
            whose.append(at)
    emulated = reader.recording.mode == "target"
    wanted = running.Wanted(
        watches, args.cache, args.seconds, args.limit, ALIGNED_EMULATED if emulated else ALIGNED
    )
    count = len(jobs) * len(watches)
    narrate(f"taking {count} times, {args.seconds:g} s each at most, under {python}")
    gathered = running.measure(python, jobs, wanted) if jobs else running.Gathered()
    peaks = tuple(p for p in map(_peak, gathered.copies) if p is not None)
    rows: list[Timing] = []
    said_of = {at: gathered.rows.get(n, []) for n, at in enumerate(whose)}
    for at, launch in enumerate(what.launches):
        bare = estimated(reader, launch)
        if at in refused:
            rows.append(replace(bare, error=refused[at]))
        rows += [row(bare, said, peaks) for said in said_of.get(at, [])]
    return Session(
        datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        gathered.device,
        tuple(rows),
        peaks,
        data_sheet(gathered.device),
    )


def estimated(reader: Annotator, launch: Launch) -> Timing:
    """A timing to come, with the estimates of what the launch moves and computes."""
    moved, counted = tensor_bytes(launch.call), None
    if Stage.TTIR in launch.variant.stages:
        try:
            function = reader.function(launch.variant, Stage.TTIR)
            listing = reader.listing(launch.variant, Stage.TTIR)
            counted = operations(listing, function, launch.call) if function else None
        except PtxviewError:
            counted = None
    return launch.timing(
        bytes=None if moved is None else moved.value,
        flops=None if counted is None else counted.value,
    )


def row(bare: Timing, said: Mapping[str, object], peaks: tuple[Peak, ...]) -> Timing:
    """A timing of what a child process said of one launch by one stopwatch."""
    watch, cache = said.get("stopwatch"), said.get("cache")
    warnings, clocks = said.get("warnings"), said.get("clocks")
    known = replace(
        bare,
        stopwatch=watch if isinstance(watch, str) else None,
        cache=cache if isinstance(cache, str) else None,
        warnings=tuple(map(str, warnings)) if isinstance(warnings, list) else (),
    )
    peak = next((p for p in peaks if p.stopwatch == watch), None)
    found = timed(known, _samples(said), clocks if isinstance(clocks, dict) else {}, peak)
    return found or replace(known, error=str(said.get("error") or "no time was taken"))


def _samples(said: Mapping[str, object]) -> list[float]:
    samples = said.get("samples")
    numbers = samples if isinstance(samples, list) else []
    return [float(s) for s in numbers if isinstance(s, int | float)]


def _peak(said: Mapping[str, object]) -> Peak | None:
    found, size = median(_samples(said)), said.get("bytes")
    if found is None or found.value <= 0 or not isinstance(size, int):
        return None
    return Peak(str(said["stopwatch"]), str(said["cache"]), size / found.value / 1e3, size)


def data_sheet(device: Mapping[str, object]) -> float | None:
    """GB/s by the data sheet of the device of that name; None where the table has another."""
    known = knowledge.devices().get(arch_of(device) or "")
    if known is None or known.memory_bandwidth is None or known.name != device.get("name"):
        return None
    return known.memory_bandwidth / 1e9


def _keep(path: Path, session: Session) -> None:
    try:
        keep(path, stored(session))
    except OSError as error:
        narrate(f"the times are not kept: {place(path)}: {error.strerror or error}")


def _stored(path: Path, found: tuple[Found, ...] | None, json: bool) -> int:
    sessions = [s for s in map(read, kept(path)) if s is not None]
    if found is not None:
        wanted = {v.id for _, v in found}
        sessions = [
            replace(s, rows=tuple(t for t in s.rows if t.variant in wanted)) for s in sessions
        ]
    sessions = [s for s in sessions if s.rows]
    if json:
        held = [timings.document(s) for s in sessions]
        rows = [{**timing_row(t), "taken": s.taken} for s in sessions for t in s.rows]
        print(jsons.dumps({"schema": jsons.SCHEMA, "sessions": held, "rows": rows}))
        return Exit.OK
    if not sessions:
        narrate("no times are kept of it; ptxview time takes some")
    now = datetime.datetime.now(datetime.UTC)
    for session in sessions:
        console(sys.stdout).print(timings.age(session.taken, now), style="bold")
        _print(session)
    return Exit.OK


def _print(session: Session) -> None:
    out = console(sys.stdout)
    out.print(timings.heading(session))
    out.print(timings.table(session, out.width))
    for line in timings.footnotes(session):
        out.print(line, soft_wrap=True)
