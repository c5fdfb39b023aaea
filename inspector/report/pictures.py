"""Figures as PNG, by matplotlib, which is an extra (``plot``)."""

from __future__ import annotations

import io
from typing import Any

from inspector.report.figures import Figure, ticks

INCHES, DOTS = (9.0, 5.0), 150
HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#a6761d",
        "#7570b3", "#66a61e", "#e7298a", "#1b9e77")  # fmt: skip
DASHES = ("--", ":", "-.", (0, (6, 2, 1, 2, 1, 2)))
# The legend stands below: a row of it in inches, and names that two of stand beside each other.
ROW, SHORT = 0.17, 60


def png(figure: Figure) -> bytes:
    """A figure as PNG. Raises ``ImportError`` without matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    columns = 2 if all(len(line.name + line.said) < SHORT for line in figure.lines) else 1
    rows = -(-len(figure.lines) // columns)
    wide, high = INCHES
    made = Canvas(figsize=(wide, high + ROW * rows), dpi=DOTS, layout="constrained")
    FigureCanvasAgg(made)
    axes: Any = made.subplots()
    for axis, log in enumerate((figure.log_x, figure.log_y)):
        which = "xy"[axis]
        low, high = figure.reach(axis)
        if log:
            getattr(axes, f"set_{which}scale")("log")
        getattr(axes, f"set_{which}lim")(low, high)
        marks = ticks(low, high, 9, log)
        getattr(axes, f"set_{which}ticks")([v for v, _ in marks], [t for _, t in marks])
    axes.minorticks_off()
    limits = measured = 0
    for line in figure.lines:
        xs, ys = zip(*line.points, strict=True)
        name = _plain(f"{line.name}  {line.said}".rstrip())
        if line.limit:
            dashes = DASHES[limits % len(DASHES)]
            axes.plot(xs, ys, color="#888888", linestyle=dashes, label=name, linewidth=1)
            limits += 1
            continue
        alone = len(xs) == 1
        axes.plot(
            xs, ys, color=HUES[measured % len(HUES)], label=name, linewidth=1.6, marker="o",
            markersize=7 if alone else 3, linestyle="none" if alone else "-",
        )  # fmt: skip
        measured += 1
    axes.set_xlabel(_plain(figure.x))
    axes.set_ylabel(_plain(figure.y))
    axes.set_title(_plain(figure.title), fontsize=10)
    axes.grid(True, alpha=0.3)
    made.legend(fontsize=8, loc="outside lower left", ncols=columns, frameon=False)
    out = io.BytesIO()
    made.savefig(out, format="png", metadata={"Software": "ptxview"})
    return out.getvalue()


def _plain(text: str) -> str:
    """Text that matplotlib does not read as mathematics; a label that begins with _ is hidden."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
