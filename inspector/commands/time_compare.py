"""``ptxview time SCRIPT.py``: variants of one computation, timed on the same input and ranked."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from inspector import printing
from inspector.bench.sizes import fixed, sweep, together
from inspector.commands.time_plots import PLOT_ROWS, can_draw, in_terminal, save_png, writable
from inspector.comparing_variants import Wish, compare, ridge, roofline
from inspector.errors import Exit, Unreadable, UsageError
from inspector.printing import narrate
from inspector.recording import is_recording
from inspector.report import comparison as report
from inspector.report import jsons

if TYPE_CHECKING:
    from inspector.bench.comparison import Comparison


def is_script(words: list[str]) -> bool:
    """Whether the words of ``time`` name a script, and not a recording or kernels of one.

    Raises ``UsageError`` for one that is not there.
    """
    if not words or not words[0].endswith(".py") or is_recording(Path(words[0])):
        return False
    if not Path(words[0]).is_file():
        raise UsageError(f"there is no script {words[0]}")
    return True


def run(args: argparse.Namespace) -> int:
    """Compare and print; 1 where a variant failed or disagrees. Raises ``PtxviewError``."""
    script = Path(args.words[0])
    _check(args)
    swept = sweep(args.sweep) if args.sweep is not None else None
    sizes = together(swept, fixed(args.size))
    if args.png is not None:
        can_draw()
    for path in (args.csv, args.png):
        if path is not None:
            writable(path)
    wish = Wish(args.stopwatch, args.cache, args.seconds, args.limit, args.python)
    found = compare(script, sizes, swept.name if swept else None, wish, narrate)
    if args.csv is not None:
        _write(args.csv, report.csv_text(found))
    if args.json:
        printing.json_line(jsons.dumps(report.document(found)))
    else:
        _print(found, args)
    if args.png is not None:
        figure = report.swept(found, report.unit_of(found, ridge(found))) if swept else None
        save_png(figure if swept else roofline(found), args.png)
    bad = [r for r in found.rows if r.timing.error or r.agrees is False]
    return Exit.DIFFERENT if bad else Exit.OK


def _check(args: argparse.Namespace) -> None:
    """What cannot be meant of a script. Raises ``UsageError``."""
    if len(args.words) > 1:
        raise UsageError(f"a script is compared as a whole: {args.words[1]} is one word too many")
    if args.stored:
        raise UsageError("a comparison is not stored with any recording; keep it with --csv")
    if args.bytes or args.flops:
        raise UsageError(
            "the script itself says what a call moves and computes, by bytes_of() and flops_of()"
        )
    if args.png is not None and args.sweep is None and not args.roofline:
        raise UsageError("--png draws what --sweep or --roofline asks for")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise Unreadable(f"{path} cannot be written: {error.strerror or error}") from None


def _print(found: Comparison, args: argparse.Namespace) -> None:
    out = printing.out()
    out.print(report.heading(found))
    calls = list(dict.fromkeys(r.timing.call for r in found.rows))
    drawn = False
    if found.swept is not None and len(calls) > 1:
        figure = report.swept(found, report.unit_of(found, ridge(found)))
        drawn = figure is not None
        if figure is not None:
            in_terminal(out, figure, PLOT_ROWS)
    # Of a sweep, the largest; the others are in the CSV and in the JSON.
    shown = calls[-1:] if drawn else calls
    for which in shown:
        rows = [r for r in found.rows if r.timing.call == which]
        out.print()
        out.print(report.title(found, which), style="bold")
        out.print(report.table(rows, out.width))
        plain = partial(out.print, soft_wrap=True)
        for line in report.launched(rows):
            plain(line)
    for line in report.footnotes(found, calls):
        out.print(line, soft_wrap=True)
    if args.roofline:
        figure = roofline(found)
        if figure is None:
            narrate("no roofline: neither bytes and operations of a call nor a roof is known")
        else:
            in_terminal(out, figure, PLOT_ROWS)
