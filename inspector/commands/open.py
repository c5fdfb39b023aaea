"""Browse a recording, a cache or a file in the terminal.

Where there is no terminal, or with --no-tui, the table of kernels is printed instead. With --web
the same interface is served to a browser on this machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from inspector.base.errors import Exit, ToolMissing, UsageError
from inspector.commands.common import MORE, NCU, PATH, flag, open_profiled, option, profiled, takes
from inspector.system import printing
from inspector.tui.main.settings import config_path

if TYPE_CHECKING:
    # Imported where they are used: the first frame does not wait for them.
    from inspector.measure.ncu.attach import ProfiledRecording
    from inspector.reader.reader import Reader
    from inspector.tui.program.live import Live, Opener


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``open``."""
    parser.epilog = (
        f"Keys and the theme are set in {config_path()}\n"
        "(the help of the interface, ?, shows how); PTXVIEW_TRACEBACK=1 shows where it failed."
    )
    takes(
        parser,
        {
            "path": PATH,
            "more": MORE,
            "--ncu": NCU,
            "--no-tui": flag("print the table of kernels"),
            "--web": flag("serve the interface to a browser instead"),
            "--port": option("N", "with --web: the port (8000)", type=_port, default=8000),
            "--host": option("H", "with --web: the address (127.0.0.1)", default="127.0.0.1"),
        },
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port; one is a number up to 65535")
    return int(text)


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Show the TUI on a terminal, the table elsewhere."""
    args = parser.parse_args(argv)
    if args.web:
        return _serve(args)
    # textual-serve has started this process: its terminal is a browser's.
    in_browser = os.environ.get("TEXTUAL_DRIVER", "").startswith("textual.drivers.web_driver:")
    if args.no_tui or not (on_terminal() or in_browser):
        return _list(args)
    if args.more:
        # What is wrong with them is said without a screen.
        joined = open_profiled(args.path, reports=args.ncu, other_paths=args.more)
        browse(lambda: (joined.reader, None), joined.reader.recording.path)
        return Exit.OK
    if args.path is None or _opened_first(Path(args.path)):
        args.path = str(_openable(args.path))

    def opener() -> tuple[Reader, Live | None]:
        from inspector.measure.ncu.report import is_report

        opened = open_profiled(args.path, reports=args.ncu)
        return opened.reader, None if is_report(Path(args.path)) else following(opened)

    browse(opener, Path(args.path).name)
    return Exit.OK


def _list(args: argparse.Namespace) -> int:
    """The table of ``ptxview list``."""
    from inspector.commands import list as listing

    list_parser = argparse.ArgumentParser()
    listing.arguments(list_parser)
    words = [] if args.path is None else [args.path, *args.more]
    for report in args.ncu:
        words += ["--ncu", report]
    return listing.run(list_parser, words)


def _opened_first(path: Path) -> bool:
    """Whether a path is opened before there is a screen: what is wrong with it is said without one,
    and an archive is unpacked before, as signals, at which its folder is removed, reach the main
    thread."""
    from inspector.system.files.unpacking import is_archive

    packed = path.suffix != ".ptxview" and path.is_file() and is_archive(path)
    return packed or not path.exists()


def on_terminal() -> bool:
    """Whether a person sits at every end."""
    # Textual draws on standard error.
    return printing.at_terminal() and printing.to_terminal()


def _openable(path: str | None) -> Path:
    """A path that can be opened. Raises what is wrong with it."""
    from inspector.measure.ncu.report import is_report
    from inspector.sources.opening import newest, open_path

    location = Path(path) if path is not None else newest()
    if not is_report(location):
        open_path(location)
    return location


def _serve(args: argparse.Namespace) -> int:
    """Serve the interface: a process for every opened page."""
    # What is wrong with them is said here and not in the browser.
    paths = [Path(args.path), *map(Path, args.more)] if args.more else [_openable(args.path)]
    if args.more:
        open_profiled(args.path, reports=args.ncu, other_paths=args.more)
    try:
        from inspector.tui.app.web import WebServer
    except ImportError as error:
        raise ToolMissing(
            f"--web needs textual-serve ({error})", "pip install 'ptxview[web]'"
        ) from None
    root = str(Path(__file__).resolve().parents[2])
    start = "from inspector.commands.cli import main; main()"
    # -P: the current folder is not on the interpreter's path.
    command = [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {root!r}); {start}"]
    command += ["open", *(str(path.absolute()) for path in paths)]
    for report in args.ncu:
        command += ["--ncu", str(Path(report).absolute())]
    try:
        title = f"ptxview {', '.join(path.name for path in paths)}"
        WebServer(command, args.host, args.port, title).serve()
    except OSError as error:
        raise UsageError(
            f"{args.host}, port {args.port} cannot be listened on: {error.strerror or error}",
            "Give another --port or --host.",
        ) from None
    return Exit.OK


def browse(opener: Opener, name: str, live: Live | None = None) -> None:
    """Show the interface, imported only here. Raises what ``opener`` raises."""
    from inspector.tui.app.app import run_tui

    run_tui(opener, name, live)


def following(opened: ProfiledRecording) -> Live | None:
    """What tells how a recording grows that another process still writes; None if none does."""
    from inspector.sources.running import Follower, grows
    from inspector.tui.program.live import Live

    recording = opened.reader.recording
    path = Path(recording.path)
    if not grows(path, recording):
        return None
    follower = Follower(path)

    def look() -> Reader | None:
        newer = follower.look()
        return None if newer is None else profiled(newer, report=opened.report).reader

    return Live(look)
