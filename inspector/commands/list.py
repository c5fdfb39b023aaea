"""Kernels and variants of a recording, a cache or a file, as a table.

Registers, stack and static shared memory are cuobjdump's; a dash is a figure that is not known.
"""

from __future__ import annotations

import argparse
import sys

from inspector.commands.common import console, open_reader
from inspector.errors import Exit
from inspector.report import jsons, tables
from inspector.report.safe import shown


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``list``."""
    parser.add_argument(
        "path", nargs="?", metavar="PATH", help="what to open; the newest recording if left out"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Print the table, or JSON."""
    args = parser.parse_args(argv)
    reader = open_reader(args.path)
    rec = reader.recording
    if args.json:
        print(jsons.dumps(jsons.recording(rec, reader.resources)))
        return Exit.OK
    out = console(sys.stdout)
    out.print(shown(rec.path), style="bold")
    out.print(shown(tables.heading(rec)))
    if rec.kernels:
        out.print(tables.kernels(rec, reader.resources, out.width))
    tables.graphs(rec, out)
    tables.problems(rec, console(sys.stderr))
    return Exit.OK
