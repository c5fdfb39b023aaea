"""Browse a recording, a cache or a file in the terminal.

Where there is no terminal, or with --no-tui, the table of kernels is printed instead.
"""

from __future__ import annotations

import argparse
import sys

from inspector.commands import list as listing
from inspector.commands.common import open_reader
from inspector.errors import Exit
from inspector.reading import Reader


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``open``."""
    parser.add_argument(
        "path", nargs="?", metavar="PATH", help="what to open; the newest recording if left out"
    )
    parser.add_argument("--no-tui", action="store_true", help="print the table of kernels")


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Show the TUI on a terminal, the table elsewhere."""
    args = parser.parse_args(argv)
    if args.no_tui or not on_terminal():
        plain = argparse.ArgumentParser()
        listing.arguments(plain)
        return listing.run(plain, [args.path] if args.path is not None else [])
    browse(open_reader(args.path))
    return Exit.OK


def on_terminal() -> bool:
    """Whether a person sits at every end."""
    # Textual draws on standard error.
    return all(s.isatty() for s in (sys.stdin, sys.stdout, sys.stderr))


def browse(reader: Reader) -> None:
    """The TUI, imported only here."""
    from inspector.tui.app import run_tui

    run_tui(reader)
