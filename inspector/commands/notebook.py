"""Recording from within: a block of a program (``inspector.record()``) and a notebook's cell.

The probes are loaded from their folder under their own name, as by ``ptxview run``; nothing here
imports them, torch or triton. Blocks may be nested: the innermost records, and the outer ones go on
when it ends.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import shlex
import sys
import threading
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from inspector.base.errors import PtxviewError, RunFailed, UsageError
from inspector.base.escapes import shown
from inspector.base.model import Kernel, Recording
from inspector.base.units import plural
from inspector.commands.common import reader_of
from inspector.reader.reader import Reader
from inspector.reader.tables import devices
from inspector.sources import running
from inspector.sources.opening import open_path
from inspector.system import printing, toolchain

PROBES = toolchain.PROBES.parent
PACKAGE = "ptxview_probes"
CHANGED = ("PTXVIEW_RECORDING", "PYTHONPATH")
"""Variables that are different within a block, so that its child processes are recorded as well."""

_lock = threading.RLock()
_open: list[Recorder] = []
"""Blocks that are open, the innermost last."""

_previous_environment: dict[str, str] = {}


class Recorder:
    """A block of this program, recorded: ``with inspector.record() as recording:``.

    Its kernels can be read within the block, and after it. Raises ``PtxviewError`` if nothing can
    be recorded, or read.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, target: str | None = None
    ) -> None:
        self._out = None if path is None else Path(path)
        self._target = target
        self._run: running.Run | None = None
        self._path: Path | None = None
        self._reader: Reader | None = None
        self.said: list[str] = []
        """Notes about the recording: sentences."""

    # -- the block ------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        with _lock:
            if self._run is not None or self._path is not None:
                raise UsageError(
                    "this recording was made already", "Begin another: inspector.record()."
                )
            if not _open and os.environ.get("PTXVIEW_RECORDING"):
                raise UsageError(
                    "this program is being recorded already: ptxview run started it",
                    "Leave one of both out.",
                )
            probes = _probes()
            if self._target is not None:
                emulate(self._target)
            self._run = _begun(self._out)
            self._path = self._run.folder
            if _open:
                probes.end()
            else:
                _previous_environment.clear()
                _previous_environment.update({n: os.environ[n] for n in CHANGED if n in os.environ})
            _open.append(self)
            try:
                _record_into(self._run, probes)
            except BaseException:
                self._end(1)
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with _lock:
            self._end(0 if kind is None else 1)

    def _end(self, status: int) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        innermost = _open[-1] is self
        _open.remove(self)
        if innermost:
            probes = _probes()
            try:
                probes.end()
            finally:
                outer = _open[-1]._run if _open else None
                if outer is not None:
                    _record_into(outer, probes)
                else:
                    for name in CHANGED:
                        os.environ.pop(name, None)
                    os.environ.update(_previous_environment)
        outcome = run.ended(status, self.said.append)
        self._path = outcome.path
        if outcome.recording is not None:
            self._reader = reader_of(outcome.recording)

    # -- what was recorded ----------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """Where the recording is. Raises ``UsageError`` before the block has begun."""
        if self._path is None:
            raise UsageError(
                "nothing was recorded yet", "with inspector.record() as recording: … records."
            )
        return self._path

    @property
    def reader(self) -> Reader:
        """A reader of the recording; within the block, of what was recorded so far."""
        if self._reader is None or self._run is not None:
            self._reader = reader_of(open_path(self.path))
        return self._reader

    @property
    def recording(self) -> Recording:
        """Its values, as ``inspector.base.model`` has them."""
        return self.reader.recording

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that were compiled, each with its variants."""
        return self.recording.kernels

    def show(
        self,
        kernel: str | None = None,
        stage: str | None = None,
        *,
        beside: str | None = None,
        annotate: bool = False,
    ) -> None:
        """Print one stage of a kernel, or two side by side, as ``ptxview show`` does."""
        words = ["show", str(self.path)]
        if kernel:
            words.append(kernel)
        if stage:
            words += ["--stage", stage]
        if beside:
            words += ["--beside", beside]
        if annotate:
            words.append("-a")
        command(words)

    def table(self, *, calls: bool = False) -> None:
        """Print the table of kernels, or their calls, as ``ptxview list`` does."""
        words = ["list", str(self.path)]
        if calls:
            words.append("--calls")
        command(words)

    def __repr__(self) -> str:
        if self._path is None:
            return "<a recording that has not begun>"
        try:
            text = plural(len(self.kernels), "kernel")
        except PtxviewError as error:
            text = error.message
        return f"<recording {self._path}: {text}>"

    def _repr_html_(self) -> str:
        """The page in a frame, for a notebook."""
        return framed(self.reader)


def emulate(target: str) -> None:
    """Give this process an emulated device, for the rest of its life.

    Raises ``UsageError`` if it is too late for that.
    """
    if target not in devices():
        raise UsageError(f"no device is known of {target}", f"Known are: {', '.join(devices())}.")
    why: str | None = _probes().emulate(target)
    if why is not None:
        raise UsageError(
            f"there can be no emulated {target}: {why}",
            "Ask for it first of all in a fresh process: before torch is imported, "
            "with inspector.record(target=…) or, in a notebook, %ptxview target sm_90.",
        )


def _probes() -> Any:
    """The probes for a running program, loaded from their folder under their own name."""
    if PACKAGE not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            PACKAGE, PROBES / "__init__.py", submodule_search_locations=[str(PROBES)]
        )
        if spec is None or spec.loader is None:
            raise RunFailed(f"{PROBES} cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        sys.modules[PACKAGE] = module
        spec.loader.exec_module(module)
    return importlib.import_module(f"{PACKAGE}.in_process")


def _begun(out: Path | None) -> running.Run:
    """Begin a recording of this program; without a place, below the state folder."""
    words = [sys.executable, *sys.argv]
    name = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] else "program"
    name = "notebook" if "ipykernel" in name or "ipykernel" in sys.modules else name
    target = os.environ.get("PTXVIEW_TARGET")
    return running.Run(
        running.RunRequest("script", (name,), out=out, target=target), this_argv=words
    )


def _record_into(run: running.Run, probes: Any) -> None:
    for name in CHANGED:
        os.environ[name] = run.env[name]
    probes.begin()


def command(words: list[str]) -> None:
    """Run a command; its output goes where this program's goes."""
    from inspector.commands.cli import main

    main(words)


HEIGHT_PIXELS = 760
MAX_CHARS = 8_000_000
MAX_VARIANTS = 200
"""Bounds of a whole page: a notebook keeps what it shows."""
TABLE_COLUMNS = 160

STYLE = ":root{color-scheme:light dark}body{font:14px system-ui,sans-serif}"


def framed(reader: Reader) -> str:
    """The page of a recording in a frame, isolated from the notebook's own page.

    A page that would be empty or too large gives way to the table of ``ptxview list``.
    """
    # Imported here: a script that records shows no page.
    from inspector.export.page import page

    variants = list(reader.recording.variants())
    text = ""
    if 0 < len(variants) <= MAX_VARIANTS:
        for piece in page(reader, variants):
            text += piece
            if len(text) > MAX_CHARS:
                break
    if not 0 < len(text) <= MAX_CHARS:
        from inspector.render import kernel_list, tables

        rec = reader.recording
        table = kernel_list.kernels(
            rec,
            reader.facts.resources,
            TABLE_COLUMNS,
            hints=lambda kernel, variant: tables.figure(reader.summaries.hint_count(variant)),
        )
        rows = "\n".join(shown(str(row)) for row in table.renderables)
        table_html = (
            f"<pre>{escape(rows)}</pre>"
            "<p>A notebook would grow too large with the stages of all these kernels: "
            "<code>ptxview open</code> shows them, <code>ptxview export</code> writes a page.</p>"
        )
        text = (
            f"<!doctype html><meta charset=utf-8><title>ptxview</title><style>{STYLE}</style>"
            f"<p>{escape(shown(tables.heading(rec)))}</p>{table_html if rec.kernels else ''}"
        )
    return (
        f'<iframe srcdoc="{escape(text, quote=True)}" sandbox="allow-scripts" title="ptxview" '
        f'style="width:100%;height:{HEIGHT_PIXELS}px;border:0"></iframe>'
    )


NAME = "ptxview"
HELP = """\
%%ptxview [-o PATH] [--as NAME] [--quiet]   record this cell, and show what it compiled
%ptxview target sm_90                       an emulated device, before torch is imported
%ptxview COMMAND …                          any command: list, show, diff, explain …"""


class _Options(argparse.ArgumentParser):
    """Options of the magic; a wrong one is a UsageError, and ends no process."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"%%ptxview: {message}", HELP)


def load(shell: Any) -> None:
    """Register the magic in the shell."""

    def ptxview(line: str, cell: str | None = None) -> Any:
        """Record this cell, and show what it compiled (%ptxview prints help)."""
        try:
            return _line(line) if cell is None else _cell(shell, line, cell)
        except PtxviewError as error:
            printing.narrate(f"ptxview: {error.message}")
            if error.hint:
                printing.narrate(error.hint)
            return None

    shell.register_magic_function(ptxview, "line_cell", NAME)


def unload(shell: Any) -> None:
    """Remove the magic from the shell."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(NAME, None)


def _line(line: str) -> None:
    words = shlex.split(line)
    if not words:
        printing.narrate(HELP)
    elif words[0] == "target":
        if len(words) != 2:
            raise UsageError("%ptxview target: which architecture?", "%ptxview target sm_90")
        emulate(words[1])
        printing.narrate(f"ptxview: this notebook has an emulated {words[1]} from now on")
    else:
        command(words)


def _cell(shell: Any, line: str, cell: str) -> None:
    parser = _Options(prog="%%ptxview", add_help=False, allow_abbrev=False)
    parser.add_argument("-o", "--out", metavar="PATH")
    parser.add_argument("--as", dest="name", metavar="NAME", default="recording")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args(shlex.split(line))
    if not args.name.isidentifier():
        raise UsageError(f"%%ptxview: --as {args.name} is not the name of a variable")
    recorder = Recorder(args.out)
    with recorder:
        error = _run(shell, cell)
    shell.user_ns[args.name] = recorder
    for text in recorder.said:
        printing.narrate(f"ptxview: {text}")
    if not recorder.kernels and (error is not None or not args.quiet):
        printing.narrate(
            "ptxview: nothing was compiled or launched in this cell by Triton, torch.compile or an "
            "extension's build"
        )
    elif recorder.kernels and not args.quiet:
        from IPython.display import display

        display(recorder)
    if error is not None:
        raise error


def _run(shell: Any, cell: str) -> BaseException | None:
    """Run a cell as the notebook does; return its error, which the notebook prints."""
    shown = shell.showtraceback
    shown_syntax = shell.showsyntaxerror
    shell.showtraceback = shell.showsyntaxerror = lambda *args, **options: None
    try:
        result = shell.run_cell(cell)
    finally:
        shell.showtraceback = shown
        shell.showsyntaxerror = shown_syntax
    error: BaseException | None = result.error_before_exec or result.error_in_exec
    return error
