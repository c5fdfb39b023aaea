"""The columns between a line's number and its text: results of the analysis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from inspector.analyse.line_annotations import NOTHING, LineAnnotations, Told, ranked, virtual

LIVE, STALL, NOTES, SAMPLES = "live", "stall", "notes", "samples"
"""Columns by name; ``live:pred`` counts the live registers of one class, ``samples`` are a
profiler's, in percent of the kernel's."""

VALUE, WARPS, LANES, DIVERGES, SECTORS, CONFLICTS = (
    "value",
    "warps",
    "lanes",
    "diverges",
    "sectors",
    "conflicts",
)
"""Columns of a listing whose kernel was run: what the line gave the chosen lane, and what happened
at it; see ``inspector/report/trace.py``."""
RUN = (WARPS, LANES, DIVERGES, SECTORS, CONFLICTS, VALUE)

CHOICES: tuple[tuple[str, ...], ...] = (
    (LIVE, NOTES, SAMPLES),
    (LIVE, STALL, NOTES, SAMPLES),
    (NOTES,),
)
"""What the key goes through."""

SIGNS = {"warn": "⚠", "hint": "◆", "info": "·"}
_ORDER = ("warn", "hint", "info")

BARS = "▁▂▃▄▅▆▇█"


class Column(NamedTuple):
    """A column: its title, its head, its width in cells, and the unit of its figures."""

    title: str
    head: str = ""
    width: int = 0
    unit: str = ""


COLUMNS = {
    LIVE: Column("live registers", "live", 5, "live register"),
    STALL: Column("stall cycles", "stall", 6, "stall cycle"),
    NOTES: Column("notes"),
    SAMPLES: Column("samples (ncu)", "samples", 8, "sample"),
    WARPS: Column("times executed, by warps", "warps", 7),
    LANES: Column("active lanes of a warp's 32", "lanes", 6),
    DIVERGES: Column("divergent of the branches", "parts", 6),
    SECTORS: Column("sectors of global memory", "sector", 8),
    CONFLICTS: Column("conflicts of shared memory's banks", "confl.", 7),
    VALUE: Column("the chosen lane's value", "value", 16),
}


def title(column: str) -> str:
    """Return the title of a column; ``live:pred`` names a register class."""
    kind, _, register_class = column.partition(":")
    words = COLUMNS[kind].title
    return f"{words}: {register_class}" if register_class else words


class RunFigures(Protocol):
    """Figures of a listing's lines from a run of its kernel."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of ``RUN`` that there is something for."""
        ...

    def cell(self, column: str, n: int) -> str:
        """A figure of line ``n``, or ""."""
        ...

    def value(self, n: int, width: int) -> tuple[str, bool]:
        """What line ``n`` gave the chosen lane, in so many cells, and whether it ran it last."""
        ...

    def hot(self, n: int) -> bool:
        """Whether much of what was executed was executed there."""
        ...


@dataclass(frozen=True, slots=True)
class Gutter:
    """The columns of one listing."""

    annotations: LineAnnotations = NOTHING
    wanted: tuple[str, ...] = ()
    run: RunFigures | None = None
    columns: tuple[str, ...] = field(init=False)
    """The columns that are wanted and there, and have cells of their own."""
    width: int = field(init=False)
    """Cells of all columns."""

    def __post_init__(self) -> None:
        """Once, and not for each row that is drawn."""
        columns = tuple(c for c in self.there if c in self.wanted and c != NOTES)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "width", sum(map(_width, columns)))

    @property
    def there(self) -> tuple[str, ...]:
        """The columns that this listing has something for, in the order in which they are."""
        annotations = self.annotations
        classes = tuple(f"{LIVE}:{name}" for name in annotations.classes)
        return (
            *((LIVE, *classes) if classes else ()),
            *((STALL,) if annotations.stalls else ()),
            *((SAMPLES,) if annotations.sampled else ()),
            *(() if self.run is None else self.run.columns),
            *((NOTES,) if annotations.noted else ()),
        )

    @property
    def heads(self) -> str:
        """What the columns are called, ``width`` cells."""
        heads = ((c.partition(":")[2] or COLUMNS[c].head, _width(c) - 1) for c in self.columns)
        return "".join(f"{head[:cells]:>{cells}} " for head, cells in heads)

    def value(self, n: int) -> tuple[str, bool]:
        """What line ``n`` gave the chosen lane, in the last cells of the columns, and whether it
        ran it last; "" where that is no column."""
        if self.run is None or VALUE not in self.columns:
            return "", True
        room = _width(VALUE) - 1
        text, runs = self.run.value(n, room)
        return f"{text:>{room}} ", runs

    def cells(self, n: int) -> str:
        """The columns of line ``n``, but for the lane's value."""
        return "".join(text for text, _ in self.parts(n))

    def parts(self, n: int) -> tuple[tuple[str, bool], ...]:
        """The columns of line ``n``, but for the lane's value, and whether each is at its largest;
        a figure too long for its column is cut."""
        columns = tuple(c for c in self.columns if c != VALUE)
        if not columns:
            return ()
        told = self.annotations.at(n)
        return tuple(
            (f"{self._cell(c, told, n)[: _width(c) - 1]:>{_width(c) - 1}} ", self._loud(c, told, n))
            for c in columns
        )

    def figure(self, column: str, told: Told) -> float | None:
        """The figure of a column on a line, as shown, ranked and compared with the largest; None if
        unknown."""
        kind, _, one = column.partition(":")
        if kind == STALL:
            return told.cycles()
        if kind == SAMPLES:
            return None if told.samples is None else told.samples.all
        counts = told.counts()
        if kind != LIVE or counts is None:
            return None
        if one:
            return counts.get(one, 0)
        return counts.get("gpr", 0) if self._allocated(told) else virtual(counts)

    def _allocated(self, told: Told) -> bool:
        """Whether a line's live registers are the machine's: PTX's own are virtual ones."""
        return self.annotations.machine or told.live is None

    def _most(self, column: str, told: Told) -> int:
        """The largest count of live registers anywhere in the kernel, 0 if it is not known."""
        one = column.partition(":")[2] or ("gpr" if self._allocated(told) else "virtual")
        return self.annotations.most.get(one, 0)

    def _loud(self, column: str, told: Told, n: int) -> bool:
        """Whether a figure is as large as any of its kind, or has a tenth of the samples; where a
        kernel was run, whether much of what was executed was executed there."""
        kind = column.partition(":")[0]
        if self.run is not None and kind in RUN:
            return self.run.hot(n)
        if kind == SAMPLES:
            return n in self.annotations.hottest
        if kind != LIVE:
            return False
        if most := self._most(column, told):
            return self.figure(column, told) == most
        if ":" in column:
            return False
        if told.live is not None:
            return n in self.annotations.peaks
        return told.rolled is not None and told.rolled.peak

    def _cell(self, column: str, told: Told, n: int) -> str:
        kind = column.partition(":")[0]
        if self.run is not None and kind in RUN:
            return self.run.cell(column, n)
        if kind == SAMPLES:
            share = self.annotations.share(n)
            return "" if share is None else f"{share:.1f}%" if share else "0%"
        figure = self.figure(column, told)
        if figure is None:
            return ""
        if kind == STALL:
            return f"{figure:g}"
        most = self._most(column, told)
        eighths = min(len(BARS) - 1, int(figure * len(BARS) / most)) if most else 0
        return f"{figure:g}{BARS[eighths] if most and figure else ' '}"

    def sign(self, n: int) -> str:
        """The mark of the gravest note on line ``n``, or a space."""
        if NOTES not in self.wanted:
            return " "
        held = {note.severity for note in self.annotations.at(n).notes}
        return next((SIGNS[s] for s in _ORDER if s in held), " ")

    def peak(self, n: int) -> bool:
        """Whether any figure of line ``n`` is as large as any of its kind."""
        return any(loud for _, loud in self.parts(n))

    def ranked(self, column: str, lines: int) -> tuple[int, ...]:
        """The lines, of so many, with the largest figures of a column; goes through all of them,
        for a thread."""
        told = ((n, self.figure(column, self.annotations.at(n))) for n in range(1, lines + 1))
        figures = ((n, figure) for n, figure in told if figure is not None)
        return ranked(figures, column.startswith(LIVE), MAX_RANKED_LINES)


MAX_RANKED_LINES = 200
"""Lines that are gone through from the largest figure down; nobody goes further."""


def _width(column: str) -> int:
    return COLUMNS[column.partition(":")[0]].width
