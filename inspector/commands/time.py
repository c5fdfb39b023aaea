"""Time recorded launches, or the variants that a script declares.

Triton's machine code is launched as it was recorded; the code of compiled graphs and the functions
of extensions are called; on the inputs that the recording kept, else on new ones of the same kind.
The time is the kernels' own duration (CUPTI) with a clean, cold L2, repeated until the median's
95 % interval is within 1 %. --stopwatch and --cache choose other ways. --estimate needs no GPU: it
simulates the launches on a device whose constants are known.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins
from msgspec.structs import replace
from rich.console import Console

from inspector.base.errors import Exit, UsageError
from inspector.base.model import Call
from inspector.commands import common
from inspector.commands.common import JSON, PYTHON, amount, flag, option, print_json, several, takes
from inspector.estimate.rows import block_timeline, constants, estimates, frequent, sass_place
from inspector.measure.time.results import (
    CACHES,
    COLD,
    HOT,
    OWN,
    STOPWATCHES,
    Session,
    Timing,
    sessions,
    timing_row,
    with_amounts,
)
from inspector.measure.time.take import (
    BenchmarkOptions,
    Race,
    device_peaks,
    fixed,
    is_own,
    prepare,
    race,
    store,
    sweep,
    take,
)
from inspector.reader.query import KernelVariant, select, select_calls, select_one
from inspector.reader.reader import Reader
from inspector.recording.layout import is_recording, record_file
from inspector.render import jsons, races, timings
from inspector.render.block_timeline import timeline_lines
from inspector.render.tables import require_compiled
from inspector.sources.opening import is_there, newest, path_or_unfinished
from inspector.system import printing

if TYPE_CHECKING:
    from inspector.render.races import Figure


PLOT_ROWS = 22
NO_ROOFLINE = (
    "no roofline: it needs a launch with a time and known bytes and operations (--bytes, --flops)"
)


def draw(figure: Figure | None, missing: str) -> None:
    """Plot a figure as wide as the terminal, or say why not."""
    if figure is None:
        printing.narrate(missing)
    elif importlib.util.find_spec("plotext") is None:
        printing.narrate("no plot: it needs plotext (pip install 'plotext>=6.1,<7')")
    else:
        out = printing.out()
        out.print()
        out.print(races.plot(figure, out.width, PLOT_ROWS))


def time_script(args: argparse.Namespace) -> int:
    """Time a script's variants and print; 1 where one failed or disagrees. Raises."""
    _check_script_options(args)
    swept, values = sweep(args.sweep) if args.sweep is not None else (None, [])
    size = fixed(args.size)
    if swept in size:
        raise UsageError(f"{swept} is given by both --sweep and --size")
    if args.csv is not None and (args.csv.is_dir() or not args.csv.parent.is_dir()):
        raise UsageError(f"{args.csv} cannot be written: its folder does not exist, or it is one")
    sizes = [{swept: value, **size} for value in values] if swept else [size]
    wish = BenchmarkOptions(
        args.stopwatch, args.cache, args.seconds, args.limit, python=args.python
    )
    result = race(Path(args.words[0]), sizes, swept, wish, printing.narrate)
    if args.csv is not None:
        common.write(args.csv, races.csv_text(result))
    if args.json:
        print_json(races.race_document(result))
    else:
        _print_race(result, len(sizes), args.roofline)
    bad = any(r.error or r.agrees is False for r in result.rows)
    return Exit.DIFFERENT if bad else Exit.OK


def _check_script_options(args: argparse.Namespace) -> None:
    """Raise ``UsageError`` where words or options are not of a script."""
    if not Path(args.words[0]).is_file():
        raise UsageError(f"there is no script {args.words[0]}")
    if len(args.words) > 1:
        raise UsageError(f"a script is timed as a whole: {args.words[1]} is one word too many")
    if args.stored or args.bytes or args.flops:
        raise UsageError(
            "--stored, --bytes and --flops are for recordings",
            "A script declares bytes_of() and flops_of(); --csv keeps the times.",
        )


def _print_race(result: Race, size_count: int, roofline: bool) -> None:
    out = printing.out()
    peaks = device_peaks(result.session.device.get("name"))
    out.print(timings.heading(result.session))
    if size_count > 1:
        draw(races.sweep_figure(result, peaks), "no plot: no variant agrees and has a time")
    # Of a sweep, the largest size; the others are in the plot, the CSV and the JSON.
    rows = [row for row in result.rows if row.call == size_count - 1]
    printing.lines(["", races.race_title(result, rows)])
    out.print(races.race_table(rows, out.width))
    printing.lines([*races.launched_kernels(rows), *races.race_footnotes(result)])
    if roofline:
        draw(races.roofline(result, peaks), NO_ROOFLINE)


def positive(text: str) -> int:
    """A number of bytes or operations (``1e9``)."""
    if not (value := amount(text)):
        raise argparse.ArgumentTypeError(f"{text} is not a number of bytes or operations")
    return value


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``time``."""
    watch = "cupti, the kernel's duration; event, a pair of events; Triton's do_bench or cudagraph"
    watches = (*STOPWATCHES, "all")
    takes(
        parser,
        {
            "words": option(
                "[PATH] KERNEL…", "PATH, and kernels, graphs or functions (default: all)", nargs="*"
            ),
            "--stopwatch": option(None, watch, choices=watches, default="cupti"),
            "--cache": option(
                None, "L2 before a launch (cold: clean)", choices=CACHES, default="cold"
            ),
            "--seconds": option("S", "seconds of one stopwatch (2)", type=float, default=2.0),
            "--limit": option("S", "seconds of one launch (60)", type=float, default=60.0),
            "--calls": option("N", "distinct calls of each, by frequency (3)", type=int, default=3),
            "--python": PYTHON,
            "--trust": flag("run the code of another's recording"),
            "--stored": flag("show earlier times, take none"),
            "--estimate": flag("simulate the launches, without a GPU"),
            "--device": option("NAME", "of --estimate (the recording's): H100, H200"),
            "--timeline": flag("with --estimate: what a block of one kernel does over time"),
            "--json": JSON,
            "--roofline": flag("plot operations a second over operations a byte"),
            "--bytes": option("N", "bytes that one launch of KERNEL moves", type=positive),
            "--flops": option("N", "operations of one launch of KERNEL", type=positive),
        },
    )
    of_scripts = parser.add_argument_group(
        "variants of a script",
        "ptxview time SCRIPT.py times the variants that the script declares on one input, compares "
        "their results and ranks them. It declares VARIANTS, a dict of functions, and inputs(), "
        "which returns their arguments; optionally reference(), bytes_of() and flops_of() of the "
        "arguments.",
    )
    takes(
        of_scripts,
        {
            "--sweep": option(
                "N=A:B:STEP", "sizes of inputs(); N=A:B:*2 doubles, N=A,B,C names them"
            ),
            "--size": several("M=V", "another size of inputs()"),
            "--csv": option("PATH", "write all rows as CSV", type=Path),
        },
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Take times and print them; 1 where one failed."""
    args = parser.parse_args(argv)
    if args.seconds <= 0 or args.limit <= 0 or args.calls < 1:
        parser.error("--seconds, --limit and --calls are greater than 0")
    if args.device and not args.estimate:
        raise UsageError("--device is for --estimate; times are taken on the GPU that is here")
    if args.words and args.words[0].endswith(".py") and not is_recording(Path(args.words[0])):
        return time_script(args)
    _check_recording_options(args)
    words = list(args.words)
    if words and is_there(Path(words[0])):
        path = path_or_unfinished(Path(words.pop(0)))
    else:
        path = newest()
    reader = common.open_reader(str(path))
    selected, calls = selected_launches(reader, words)
    if len(selected) == 1 and words and not calls:
        require_compiled(*selected[0])
    if args.timeline and not args.estimate:
        raise UsageError("--timeline is of a simulated block: give --estimate, too")
    if args.estimate:
        return _estimated(args, reader, words)
    if args.stored:
        return _stored(path, (selected, calls) if words else None, args.json)
    return _time_launches(args, reader, path, selected, calls)


def _time_launches(
    args: argparse.Namespace,
    reader: Reader,
    path: Path,
    selected: Sequence[KernelVariant],
    calls: Sequence[Call],
) -> int:
    """Take the times of recorded launches, store and print them."""
    wish = BenchmarkOptions(
        args.stopwatch, args.cache, args.seconds, args.limit, args.calls, args.python
    )
    prepared = prepare(reader, path, selected, wish, calls)
    launch_count = len(prepared.plan.launches) + len(prepared.calls)
    if (args.bytes or args.flops) and launch_count != 1:
        raise UsageError(
            f"--bytes and --flops are of one launch, and {launch_count} are to be timed",
            "Name a variant by its id, with --calls 1.",
        )
    if not args.trust and not is_own(reader.recording):
        ask(path, prepared.python)
    session = take(reader, path, prepared, wish, printing.narrate)
    session = with_amounts(session, args.bytes, args.flops)
    keep(path, session)
    if args.json:
        print_json(timings.document(session))
    else:
        print_times(session, printing.out())
        for sentence in prepared.plan.left_out:
            printing.narrate(f"left out: {sentence}")
        if args.roofline:
            peaks = device_peaks(session.device.get("name"))
            draw(races.session_roofline(session, path.name, peaks), NO_ROOFLINE)
    return Exit.DIFFERENT if any(t.error for t in session.rows) else Exit.OK


def _check_recording_options(args: argparse.Namespace) -> None:
    """Raise ``UsageError`` where options are not of a recording, or not of stored times."""
    for name in ("sweep", "size", "csv"):
        if getattr(args, name):
            advice = "Name such a script: ptxview time kernels/square.py"
            raise UsageError(f"--{name} is for a script that declares variants", advice)
    if args.stored and (args.roofline or args.bytes or args.flops):
        raise UsageError("--roofline, --bytes and --flops are of times that are taken now")


def _estimated(args: argparse.Namespace, reader: Reader, words: list[str]) -> int:
    """Estimate the times of recorded launches and print them."""
    refused = [n for n in ("stored", "roofline", "bytes", "flops", "trust") if getattr(args, n)]
    if args.stopwatch != OWN:
        refused.append("stopwatch")
    if refused:
        raise UsageError(f"--{refused[0]} is of measured times")
    if args.cache not in (COLD, HOT):
        raise UsageError("an estimate is of a cold or a hot L2", "Give --cache hot, or none.")
    selected, _ = selected_launches(reader, words)
    if args.timeline and len(selected) != 1:
        raise UsageError(
            f"--timeline is of one kernel, and {len(selected)} were named",
            "Name one variant: ptxview list has their ids.",
        )
    session = estimates(
        reader, selected, args.calls, args.device, named=bool(words), say=printing.narrate,
        cache=args.cache,
    )  # fmt: skip
    drawn = None
    if args.timeline:
        kernel, variant = selected[0]
        launch = frequent(kernel, variant)
        drawn = block_timeline(reader, launch, constants(reader, args.device)[1], args.cache)
    if args.json:
        extra = {} if drawn is None else {"timeline": to_builtins(drawn[0])}
        print_json({**timings.document(session), **extra})
        return Exit.OK
    if session.rows:
        print_times(session, printing.out())
    if drawn is not None:
        place = partial(sass_place, reader, variant)
        printing.rows(timeline_lines(*drawn, printing.out().width, place))
    return Exit.OK


def selected_launches(
    reader: Reader, words: list[str]
) -> tuple[tuple[KernelVariant, ...], tuple[Call, ...]]:
    """The variants and the calls that the words name, each once; all without words.

    A word is KERNEL, a graph's id, an extension's function or its module. Raises ``UsageError``.
    """
    recording = reader.recording
    if not words:
        return recording.variants(), recording.calls
    out: dict[tuple[str, str], KernelVariant] = {}
    calls: dict[int, Call] = {}
    for word in words:
        named = select_calls(recording, word)
        fits = select(recording, word) or (() if named else (select_one(recording, word),))
        out |= {(k.id, v.id): (k, v) for k, v in fits}
        calls |= {id(call): call for call in named}
    return tuple(out.values()), tuple(calls.values())


TIMING = "timing runs the code in it and the libraries that it names"


def ask(path: Path, python: str, what: str = TIMING) -> None:
    """Ask whether to run another's code, and say what runs it. Raises ``UsageError`` where the
    answer is not yes."""
    if not printing.at_terminal():
        raise UsageError(
            f"{path} is not from your own folder of recordings, and {what}, under {python}: say "
            "--trust if you trust its author"
        )
    printing.narrate(
        f"{path} is not from your own folder of recordings.\n"
        f"{what[:1].upper()}{what[1:]}, under {python}."
    )
    printing.narrate("Do you trust its author? [y/N] ", end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("not trusted, so not run")


def keep(path: Path, session: Session) -> None:
    """Keep times with their recording, or say why they are not kept."""
    try:
        store(path, session)
    except OSError as error:
        printing.narrate(f"the times are not kept: {record_file(path)}: {error.strerror or error}")


def _stored(
    path: Path, only: tuple[tuple[KernelVariant, ...], tuple[Call, ...]] | None, json: bool
) -> int:
    stored_sessions = sessions(path)
    if only is not None:
        named = {*(v.id for _, v in only[0]), *(c.name for c in only[1])}

        def fits(timing: Timing) -> bool:
            return bool(
                named & {timing.variant, timing.kernel, *(k.variant for k in timing.kernels)}
            )

        stored_sessions = [replace(s, rows=tuple(filter(fits, s.rows))) for s in stored_sessions]
    stored_sessions = [s for s in stored_sessions if s.rows]
    if json:
        documents = [timings.document(s) for s in stored_sessions]
        rows = [{**timing_row(t), "taken": s.taken} for s in stored_sessions for t in s.rows]
        return print_json({"schema": jsons.SCHEMA, "sessions": documents, "rows": rows})
    if not stored_sessions:
        printing.narrate("no times are kept of it; ptxview time takes some")
    now = datetime.datetime.now(datetime.UTC)
    for session in stored_sessions:
        printing.out().print(timings.age(session.taken, now), style="bold")
        print_times(session, printing.out())
    return Exit.OK


def print_times(session: Session, out: Console) -> None:
    """The table of times, and what its figures are."""
    out.print(timings.heading(session))
    out.print(timings.table(session, out.width))
    for line in timings.footnotes(session):
        out.print(line, soft_wrap=True)
