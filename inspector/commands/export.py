"""A recording for somebody else: one HTML page, Markdown for an issue, a folder of stages, one file.

The page opens without a network and without ptxview; --without takes out what may not leave a
company, and the result says so.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from inspector import printing
from inspector.commands.common import open_reader, print_json
from inspector.errors import Exit, UsageError
from inspector.export.page import page
from inspector.printing import narrate
from inspector.reader.selecting import select, select_one
from inspector.report import jsons


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``export``."""
    parser.add_argument("words", nargs="*", metavar="[PATH] [KERNEL…]")
    parser.add_argument("-o", "--output", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Write it."""
    args = parser.parse_args(argv)
    words = args.words
    path = words[0] if words and Path(words[0]).exists() else None
    reader = open_reader(path)
    chosen = None
    selectors = words[1:] if path else words
    if selectors:
        chosen = [f for s in selectors for f in select(reader.recording, s)]
    text = page(reader, chosen)
    Path(args.output).write_text("".join(text), "ascii")
    printing.lines([args.output])
    return Exit.OK
