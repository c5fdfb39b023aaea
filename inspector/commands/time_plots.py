"""Plots of measured times: in the terminal, and as PNG."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from inspector import printing
from inspector.comparing_variants import session_roofline
from inspector.errors import ToolMissing, Unreadable, UsageError
from inspector.printing import narrate

if TYPE_CHECKING:
    from rich.console import Console

    from inspector.bench.results import Session
    from inspector.report.figures import Figure

PLOT_ROWS = 22
NO_ROOFLINE = (
    "no roofline: no launch has a time, bytes and operations that are known (--bytes, --flops)"
)


def can_draw() -> None:
    """Before anything is measured. Raises ``ToolMissing`` without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ToolMissing("--png needs matplotlib: pip install 'ptxview[plot]'")


def writable(path: Path) -> None:
    """Before anything is measured. Raises ``UsageError`` where a file cannot stand there."""
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"{path} cannot be written: there is no such folder, or it is one itself")


def in_terminal(out: Console, figure: Figure, rows: int) -> None:
    """A figure as wide as the terminal; where it cannot be drawn, a word on why."""
    if importlib.util.find_spec("plotext") is None:
        narrate("no plot: it needs plotext (pip install 'plotext>=6.1,<7')")
        return
    from inspector.report.plots import plot

    out.print()
    out.print(plot(figure, out.width, rows))


def save_png(figure: Figure | None, path: Path) -> None:
    """Write a figure. Raises ``Unreadable`` where there is nothing in it, or it cannot be kept."""
    if figure is None:
        raise Unreadable(f"{path} is not written: there is nothing to draw in it")
    from inspector.report.pictures import png

    try:
        path.write_bytes(png(figure))
    except OSError as error:
        raise Unreadable(f"{path} cannot be written: {error.strerror or error}") from None


def of_session(session: Session, name: str, quiet: bool, path: Path | None) -> None:
    """The roofline of launches that were timed: in the terminal, unless ``quiet``, and as PNG."""
    figure = session_roofline(session, name)
    if figure is None:
        narrate(NO_ROOFLINE)
        return
    if not quiet:
        in_terminal(printing.out(), figure, PLOT_ROWS)
    if path is not None:
        save_png(figure, path)
