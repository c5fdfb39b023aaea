"""What commands share: opening a path and a reader on it, splitting words, bounded answers."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspector.base.errors import Exit, Unreadable, UsageError
from inspector.base.escapes import shown
from inspector.base.units import plural
from inspector.system import printing

if TYPE_CHECKING:
    from rich.text import Text

    from inspector.base.model import Kernel, Recording, Variant
    from inspector.diff.beside import BesideRow, PassChange
    from inspector.diff.compare import Compared, Files
    from inspector.measure.ncu.attach import ProfiledRecording
    from inspector.measure.ncu.report import Report
    from inspector.reader.reader import Reader

MAX_UNASKED_LINES = 50_000
"""Lines that are printed on a terminal without a question."""
MAX_INPUT_BYTES = 64 << 20
"""Bytes of standard input."""
Options = dict[str, Any]
"""What argparse's ``add_argument`` takes beside the names."""
LAST_LINE = 10**9
"""The last line of a range whose end is left out."""

# -- readers --------------------------------------------------------------------------------------


def open_reader(path: str | None, device: str | None = None) -> Reader:
    """A reader on a path, or on the newest recording; see ``open_profiled``."""
    return open_profiled(path, device).reader


def open_profiled(
    path: str | None,
    device: str | None = None,
    reports: Sequence[str] = (),
    other_paths: Sequence[str] = (),
) -> ProfiledRecording:
    """A reader on a path, or on the newest recording, and the report of ncu that is tied to it.

    ``other_paths`` are recordings that are read as one with it. ``device`` is the device of
    figures. ``reports`` are ncu's; without any, those beside the recording or kept with it. A path
    may be a report itself.
    """
    # Imported here, as all below: who runs a program opens nothing, and it would wait for that.
    from inspector.measure.ncu import report as files
    from inspector.sources.opening import newest, open_path, open_paths

    location = Path(path) if path is not None else newest()
    report_paths = [Path(r) for r in reports]
    if other_paths:
        recording = open_paths([location, *map(Path, other_paths)])
        return profiled(recording, device, files.load(report_paths) if report_paths else None)
    if files.is_report(location):
        report = files.load([location, *report_paths])
        return profiled(files.report_recording(location, report), device, report)
    recording = open_path(location)
    return profiled(recording, device, files.of_recording(location, report_paths))


def confirmed(count: int) -> bool:
    """Whether to print so many lines: asked on a terminal, never for a pipe or a file. Where nobody
    can answer, nothing is printed on it."""
    if count <= MAX_UNASKED_LINES or not printing.to_terminal():
        return True
    if printing.at_terminal():
        reply = printing.answer(f"ptxview: print {count:,} lines on this terminal? [y/N] ") or ""
        if reply.strip().lower() in ("y", "yes"):
            return True
    say(f"{count:,} lines were not printed: --lines 1:200 prints a part, and | less -R pages all")
    return False


def reader_of(recording: Recording, device: str | None = None) -> Reader:
    """A reader of a recording that is at hand, without a report of ncu."""
    return profiled(recording, device).reader


def profiled(
    recording: Recording, device: str | None = None, report: Report | None = None
) -> ProfiledRecording:
    """Where readers are made: one of a recording, with a report of ncu tied to it, if any."""
    from inspector.measure.ncu.attach import ProfiledRecording
    from inspector.recording.layout import user_derived_cache

    return ProfiledRecording(recording, user_derived_cache(), device, report)


# -- words and options ----------------------------------------------------------------------------


def takes(parser: argparse._ActionsContainer, options: Mapping[str, Options]) -> None:
    """Add a table of options: names, with a blank between several, and what each is."""
    for names, how in options.items():
        parser.add_argument(*names.split(), **how)


def flag(text: str) -> Options:
    """An option without a value, by its help."""
    return {"action": "store_true", "help": text}


def option(metavar: str | tuple[str, ...] | None, text: str, **settings: Any) -> Options:
    """An option with a value, or a word: its metavar, its help, and what else argparse takes."""
    return {"help": text, **({} if metavar is None else {"metavar": metavar}), **settings}


def several(metavar: str, text: str) -> Options:
    """An option that may be given again."""
    return option(metavar, text, action="append", default=[])


JSON = flag("print JSON")
KERNEL = option("[PATH] KERNEL", "PATH, and a name, glob, id, NAME#2, #13 or query", nargs="*")
PATH = option("PATH", "recording, cache or file (default: the newest recording)", nargs="?")
MORE = option("PATH", "recordings of other machines, read as one with it", nargs="*")
NCU = several("REPORT", "report of ncu: .ncu-rep, or CSV of details, raw or source; repeatable")
DEVICE = option("ARCH", "architecture of occupancy and hints (default: the variant's own)")
OUT = option("PATH", "write the recording to this folder or x.ptxview (default: state folder)")
PYTHON = option("PATH", "interpreter (default: ptxview's if it has torch, the activated, python3)")


def takes_program(parser: argparse.ArgumentParser) -> None:
    """The options of all that run a program: where the recording goes, and the interpreter."""
    takes(parser, {"-o --out": OUT, "--python": PYTHON})


def takes_compiler(parser: argparse.ArgumentParser) -> None:
    """The options of all that compile: the interpreter, and seconds."""
    limit = option("S", "seconds that one compiler may take (600)", type=seconds, default=600.0)
    takes(parser, {"--python": option("PATH", "interpreter that has Triton"), "--limit": limit})


def split_path(words: Sequence[str]) -> tuple[str | None, str | None]:
    """``[PATH] KERNEL``: of one word, an existing path wins over a kernel of that name.

    Raises ``Unreadable`` for one word with the ending of a file that does not exist.
    """
    from inspector.sources.opening import FILE_ENDINGS, KINDS, is_there

    if len(words) > 2:
        raise UsageError("give at most a PATH and a KERNEL", f"{shown(words[2])} is one too many.")
    if len(words) == 1 and not is_there(Path(words[0])):
        if Path(words[0]).suffix.lower() in FILE_ENDINGS:
            raise Unreadable(f"{shown(words[0])} does not exist", f"Give {KINDS}.")
        return None, words[0]
    return words[0] if words else None, words[1] if len(words) > 1 else None


def choose(args: argparse.Namespace) -> tuple[Reader, Kernel, Variant]:
    """The one variant that ``args.words`` mean: ``[PATH] KERNEL``. Raises ``UsageError``."""
    from inspector.reader.query import select_launched

    path, selector = split_path(args.words)
    reader = open_reader(path)
    return reader, *select_launched(reader.recording, selector)


def select_all(recording: Recording, selectors: Sequence[str]) -> list[tuple[Kernel, Variant]]:
    """Return the variants of KERNELs or graphs, each once; all without ``selectors``.

    Raises ``UsageError`` for a selector that fits none.
    """
    from inspector.reader.query import select, select_graph, select_one

    if not selectors:
        return list(recording.variants())
    out: dict[tuple[str, str], tuple[Kernel, Variant]] = {}
    for selector in selectors:
        graph = select_graph(recording, selector)
        matches = select(recording, selector)
        if graph is not None:
            matches = tuple(f for f in recording.variants() if f[0].id in graph.kernels)
        if not matches:
            select_one(recording, selector)  # raises with the reason
        out |= {(v.hash, v.symbol): (k, v) for k, v in matches}
    return list(out.values())


def split_program(argv: list[str], valued: Collection[str]) -> tuple[list[str], str, list[str]]:
    """Our options, the kind of program, and the program's words; ``valued`` options take a value.

    The program's words begin at the first that is not our option.
    """
    index = 0
    while index < len(argv):
        word = argv[index]
        if word in ("--", "-m"):
            return argv[:index], "command" if word == "--" else "module", argv[index + 1 :]
        if not word.startswith("-") or word == "-":
            return argv[:index], "script", argv[index:]
        index += 2 if word in valued else 1
    return argv, "script", []


@contextlib.contextmanager
def program_on_stderr() -> Iterator[None]:
    """Within it, programs that are started write to standard error what they print."""
    printing.flush()
    saved_stdout = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(saved_stdout, 1)
        os.close(saved_stdout)


def seconds(text: str) -> float:
    """An option's seconds: above 0. Raises ``ArgumentTypeError``."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds")
    return value


def amount(text: str) -> int:
    """``4096``, ``2e9``."""
    with contextlib.suppress(ValueError, OverflowError):
        if (value := float(text)) >= 0 and value == int(value):
            return int(text) if text.isdecimal() else int(value)
    raise argparse.ArgumentTypeError(f"{text} is not a whole number")


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
    """Raise ``UsageError`` if two of these options are given."""
    flags = [f"--{name}" for name in names if getattr(args, name, None)]
    if len(flags) > 1:
        raise UsageError(f"{flags[0]} and {flags[1]} cannot be given together")


def standard_input(advice: str = "") -> bytes:
    """All of standard input. Raises ``UsageError`` with ``advice`` above ``MAX_INPUT_BYTES``."""
    data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        raise UsageError(f"standard input is longer than {MAX_INPUT_BYTES >> 20} MiB", advice)
    return data


def write(path: str | Path, text: str, errors: str = "replace") -> None:
    """Write a file that the user named. Raises ``UsageError``."""
    try:
        Path(path).write_text(text, "utf-8", errors)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None


@contextlib.contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """A place beside the target for a file, which takes its place when complete."""
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as name:
        part = Path(name) / target.name
        yield part
        part.replace(target)


def option_words(option: str, text: str) -> tuple[str, ...]:
    """The words of an option's value, as a shell splits them. Raises ``UsageError``."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{option} {text!r} cannot be split into words: {error}") from None


@contextlib.contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Within it a request to end is an interruption: no compiler and no program is left running."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    previous = {
        number: signal.signal(number, end)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def say(text: str) -> None:
    """One line of narration: what ptxview does, or lacks."""
    printing.narrate(f"ptxview: {text}")


# -- answers --------------------------------------------------------------------------------------


def print_json(value: object) -> int:
    """One JSON document on one line of standard output, written while its ``Rows`` are made."""
    from inspector.render import jsons

    printing.json_pieces(jsons.pieces(value))
    return Exit.OK


def beside_texts(
    comparison: Compared | Files | PassChange, rows: Iterable[BesideRow], width: int | None = None
) -> Iterator[Text]:
    """Rows of two listings as standard output shows them."""
    from inspector.render import diff_text

    out = printing.out()
    colour = out.color_system is not None and not out.no_color
    return diff_text.side_by_side(comparison, rows, width or out.width, colour)


def print_beside(
    comparison: Compared | PassChange, max_rows: int | None = None, all_rows_hint: str = ""
) -> None:
    """Print two listings side by side, equal parts folded; the hint says how to see all rows."""
    from inspector.diff import beside

    out = printing.out()
    rows = list(beside.folded(comparison.rows(), 1))
    for text in itertools.islice(beside_texts(comparison, rows), max_rows):
        out.print(text, soft_wrap=True)
    if max_rows is not None and len(rows) > max_rows:
        out.print(f"… {plural(len(rows) - max_rows, 'more row')}: {all_rows_hint}", style="dim")


def takes_small(parser: argparse.ArgumentParser, subject: str, lines: str | None = None) -> None:
    """Add ``--brief`` and, where ``lines`` is its help, ``--lines``."""
    takes(parser, {"--brief": flag(f"bounded summary of {subject}, with next commands")})
    if lines is not None:
        takes(parser, {"--lines": option("A[:B]", lines, type=span)})


def print_brief(value: dict[str, object], as_json: bool) -> int:
    """Print a summary as JSON or as text."""
    from inspector.render import brief

    if as_json:
        return print_json(value)
    printing.lines(brief.lines(value))
    return Exit.OK


def handle(recording: Recording, kernel: Kernel, variant: Variant) -> str:
    """What a command calls a variant by: its id, or its name where a cubin has several kernels."""
    from inspector.base.names import base_name

    if sum(other.hash == variant.hash for _, other in recording.variants()) == 1:
        return variant.id
    number = f"#{kernel.variants.index(variant) + 1}" if len(kernel.variants) > 1 else ""
    return f"{base_name(kernel.name)}{number}"
