"""Serve an assistant over the Model Context Protocol: list, show, diff, explain, check and time.

It speaks over standard input and output, as a client that starts it expects. It reads
the folders that --root names, and no file outside of them is opened; it runs no program unless it
was started with --allow-run. Answers are in short, and bounded.
"""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from inspector.base.errors import Exit, ToolMissing, UsageError
from inspector.commands.common import flag, say, several, takes
from inspector.recording.layout import recordings_folder
from inspector.serve.tools import Server


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``mcp``."""
    roots = "folder that may be read (default: the working directory, your recordings); repeatable"
    takes(
        parser,
        {
            "--root": several("FOLDER", roots),
            "--allow-run": flag("allow running programs: record, compile a .py, measure"),
        },
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Serve until standard input ends."""
    args = parser.parse_args(argv)
    for name in args.root:
        if not Path(name).is_dir():
            raise UsageError(f"--root {name}: there is no such folder")
    roots = args.root or (Path.cwd(), recordings_folder())
    server = Server(tuple(Path(root).resolve() for root in roots), args.allow_run)
    if find_spec("mcp") is None:
        raise ToolMissing(
            "the protocol's SDK is not installed", "Get it with: pip install 'ptxview[mcp]'"
        )
    from inspector.serve.protocol import serve_stdio

    if sys.stdin.isatty():
        say("waiting for a client of the Model Context Protocol; Ctrl-D ends it")
    serve_stdio(server)
    return Exit.OK
