"""Tables and listings for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from inspector.listing.line import Line
from inspector.model import Kernel, Origin, Recording, Resources, Stage, Variant
from inspector.report.jsons import ordered
from inspector.report.naming import apart, differing, setting, under
from inspector.text import ended_by, kibibytes, microseconds, plural, shown

Figures = Callable[[Variant], Resources]
Clock = Callable[[Kernel, Variant], str]
UNKNOWN = "–"
FAILED = " ✗"
"""Behind the id of what did not compile or could not be loaded."""
MAX_PROBLEMS = 200
"""Lines of problems that are printed."""


def figure(value: int | None) -> str:
    """A count, or a dash where it is not known."""
    return UNKNOWN if value is None else str(value)


def spills(res: Resources) -> str:
    """Spilled bytes, stored and loaded."""
    if res.spill_store_bytes is None and res.spill_load_bytes is None:
        return UNKNOWN
    if not res.spill_store_bytes and not res.spill_load_bytes:
        return "0"
    return f"{figure(res.spill_store_bytes)}/{figure(res.spill_load_bytes)}"


def shared(res: Resources) -> str:
    """Static and dynamic shared memory together, ``33 KiB`` a block; ``–+32 KiB`` where only the
    dynamic part is known and is any. A static part alone is what a kernel takes that no launch is
    known of."""
    static, dynamic = res.static_shared_bytes, res.dynamic_shared_bytes
    if static is None:
        return f"{UNKNOWN}+{kibibytes(dynamic)}" if dynamic else UNKNOWN
    return kibibytes(static + (dynamic or 0))


def config(variant: Variant, first: Sequence[str] = ()) -> str:
    """Warps, stages and constexprs, short; ``first`` what is to be seen where there is no room for
    all."""
    known = {name: variant.config[name] for name in first if name in variant.config}
    known |= variant.config
    parts = []
    for name in ("num_warps", "num_stages", "num_ctas"):
        value = known.pop(name, None)
        if value is not None and not (name == "num_ctas" and value == 1):
            parts.append(setting(name, value))
    known.pop("flags", None)
    choice = known.pop("choice", None)  # max-autotune's name of a candidate says the least
    known |= {} if choice is None else {"choice": choice}
    parts += [f"{k}={v}" for k, v in known.items() if v is not None]
    return " ".join(parts)


def heading(rec: Recording) -> str:
    """One line on what this is."""
    device = rec.device or {}
    where = str(device.get("name") or "") if rec.mode == "gpu" else ""
    if rec.mode == "target":
        where = f"compiled for {rec.target}, not run on a GPU"
    parts = [
        plural(len(rec.kernels), "kernel"),
        plural(len(rec.variants()), "variant"),
        *([plural(len(rec.graphs), "graph")] if rec.graphs else []),
        *([f"{len(rec.uncaptured)} not captured"] if rec.uncaptured else []),
        *([f"{count} failed"] if (count := failed(rec)) else []),
    ]
    without = f"without {' and '.join(rec.removed)}" if rec.removed else ""
    ended = ended_by(rec.exit_status) if rec.complete else "unfinished"
    return " · ".join(p for p in (where, ", ".join(parts), without, ended) if p)


def failed(rec: Recording) -> int:
    """How many variants and graphs came to nothing."""
    errors = (*(v.error for _, v in rec.variants()), *(graph.error for graph in rec.graphs))
    return sum(error is not None for error in errors)


def tuned(variant: Variant) -> str:
    """The time that autotuning measured, and whether this variant won; "" if nothing is known."""
    said = variant.autotune or {}
    time = said.get("time_us")
    why = str(said.get("reason") or "").partition(":")[0]
    parts = [why] if why in ("pruned", "failed") else []
    if isinstance(time, int | float):
        parts.append(f"{microseconds(time)} µs")
    if said.get("winner") is True:
        parts.append("best")
    return " ".join(parts)


HEADS = (
    "kernel",
    "variant",
    "configuration",
    "regs",
    "spill",
    "stack",
    "shared",
    "tuned",
    "time",
    "hints",
    "stages",
)
NUMBERS = ("regs", "spill", "stack", "shared", "tuned", "time", "hints")
# Columns that are left out where no row has anything in them.
WHERE_KNOWN = ("tuned", "time", "hints")
# Columns in the order in which they are given up where the terminal is narrow.
GIVEN_UP = ("stages", "configuration", "stack", "hints", "shared", "spill", "tuned", "variant",
            "time")  # fmt: skip
# How short a name or a configuration may be cut before a column is given up.
NAMES = {"configuration": 32, "kernel": 28}
# Both give in turn, so that neither is whole while the other is a stump.
CUTS = (
    ("kernel", 48), ("configuration", 40), ("kernel", 28), ("configuration", 32),
    ("configuration", 16), ("kernel", 14),
)  # fmt: skip


PART = 64
"""Rows that are laid out at once: a table of thousands is printed in pieces of equal columns."""


class Kernels:
    """The table of kernels and variants, the origin above its kernels, fit into ``width``.

    ``time`` says how long a variant takes, "" if that was not measured, ``hints`` how many
    hints there are on it, "" if hints are not counted at all. Long names and configurations are
    cut; then whole columns are left out. No figure is cut. Rows are made twice, once for the
    widths and once to be printed, so that none is kept.
    """

    def __init__(
        self, rec: Recording, figures: Figures, width: int, time: Clock, hints: Clock
    ) -> None:
        self._subject = (rec, figures, time, hints)
        full = {h: len(h) for h in HEADS}
        filled: set[str] = set()
        for row in _rows(*self._subject):
            for head, cell in zip(HEADS, row, strict=True) if len(row) > 1 else ():
                full[head] = max(full[head], len(cell))
                if cell:
                    filled.add(head)
        for head in WHERE_KNOWN:
            if head not in filled:
                del full[head]
        self._sizes = _fit(full, width)
        # A name that is cut keeps what tells it from the others.
        names = (_indented(kernel) for kernel in rec.kernels)
        self._names = apart(names, self._sizes["kernel"])

    def parts(self) -> Iterator[Text]:
        """The table in pieces of some rows each, the first with the heads.

        They are laid out here: a table of Rich's lays each cell out as a text of its own, which
        takes most of the time of a list of ten thousand rows.
        """
        heads = Text("  ".join(self._cells(HEADS)), "bold")
        rows = [heads]
        for row in _rows(*self._subject):
            if len(rows) >= PART:
                yield _together(rows)
                rows = []
            rows.append(self._row(row))
        yield _together(rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        return self.parts()

    def _row(self, row: tuple[str, ...]) -> Text:
        if len(row) == 1:
            return Text(self._cells((*row, *[""] * (len(HEADS) - 1)))[0], "bold cyan")
        cells = self._cells((self._names.get(row[0], row[0]), *row[1:]))
        out = Text("  ".join(cells))
        if "spill" in self._sizes and row[HEADS.index("spill")] not in (UNKNOWN, "0", ""):
            at = list(self._sizes).index("spill")
            end = sum(len(cell) + 2 for cell in cells[: at + 1]) - 2
            out.stylize("bold red", end - len(cells[at]), end)
        return out

    def _cells(self, row: tuple[str, ...]) -> list[str]:
        """The cells of the columns that are shown, each as wide as its column."""
        return [
            _cell(cell, self._sizes[head], head in NUMBERS)
            for head, cell in zip(HEADS, row, strict=True)
            if head in self._sizes
        ]


def _together(rows: list[Text]) -> Text:
    """Rows one below the other; what is wider than the screen is cut, not folded."""
    out = Text("\n").join(rows)
    out.no_wrap, out.overflow = True, "crop"
    return out


def _cell(text: str, size: int, right: bool) -> str:
    """A text in so many columns: cut with an ellipsis, or filled with blanks."""
    blanks = size - cell_len(text)
    if blanks < 0:
        return set_cell_size(text, size - 1) + "…"
    return " " * blanks + text if right else text + " " * blanks


def kernels(
    rec: Recording,
    figures: Figures,
    width: int,
    time: Clock = lambda kernel, variant: "",
    hints: Clock = lambda kernel, variant: "",
) -> Kernels:
    """The table of kernels and variants; see ``Kernels``."""
    return Kernels(rec, figures, width, time, hints)


def _fit(full: Mapping[str, int], width: int) -> dict[str, int]:
    """Widths of the columns that are shown: as many columns as fit, names cut where they must."""
    for given_up in range(len(GIVEN_UP) + 1):
        out = {h: n for h, n in full.items() if h not in GIVEN_UP[:given_up]}
        over = sum(out.values()) + 2 * (len(out) - 1) - width
        for name, least in CUTS:
            # While the stages are shown, names keep room: they are what one looks for.
            if not given_up and least < NAMES[name]:
                continue
            cut = min(max(over, 0), max(out.get(name, 0) - least, 0))
            if cut:
                out[name] -= cut
                over -= cut
        if over <= 0:
            return out
    out["kernel"] = max(out["kernel"] - over, 4)
    return out


def _rows(rec: Recording, figures: Figures, time: Clock, hints: Clock) -> Iterator[tuple[str, ...]]:
    """A row of one cell for each origin, of one for each head for each variant."""
    for heading in dict.fromkeys(map(under, rec.kernels)):
        yield (heading,)
        for kernel in rec.kernels:
            if under(kernel) == heading:
                yield from _of_kernel(kernel, figures, time, hints)


def _of_kernel(
    kernel: Kernel, figures: Figures, time: Clock, hints: Clock
) -> Iterator[tuple[str, ...]]:
    name = _indented(kernel)
    if not kernel.variants:
        yield (name, "", "no variant here", *[""] * (len(HEADS) - 3))
    first = differing([variant.config for variant in kernel.variants])
    for variant in kernel.variants:
        res = figures(variant)
        yield (
            name,
            shown(variant.id) + (FAILED if variant.error is not None else ""),
            shown(config(variant, first)),
            figure(res.registers),
            spills(res),
            figure(res.stack_bytes),
            shared(res),
            tuned(variant),
            time(kernel, variant),
            hints(kernel, variant),
            " ".join(s.value for s in ordered(variant.stages)),
        )
        name = ""


def _indented(kernel: Kernel) -> str:
    """The name of a kernel as the table has it, beneath its origin."""
    return "  " + shown(kernel.called)


def lacking(rec: Recording) -> list[str]:
    """Why stages that one would expect are not there, each reason once."""
    out: dict[str, list[str]] = {}
    for kernel, variant in rec.variants():
        for stage in (Stage.PTX, Stage.SASS):
            why = None if variant.uncompiled else variant.missing.get(stage)
            wanted = kernel.origin not in (Origin.FILE, Origin.EXTERN) or stage is Stage.SASS
            if why and stage not in variant.stages and wanted:
                out.setdefault(f"no {stage.value}: {why}", []).append(kernel.called)
    return [f"{', '.join(dict.fromkeys(names))}: {why}" for why, names in out.items()]


def never_ran(rec: Recording) -> list[str]:
    """A sentence for each variant and graph that did not compile, or that the device refused."""
    told: dict[str, list[str]] = {}
    for kernel, variant in rec.variants():
        if variant.error is not None:
            how = "did not compile" if variant.uncompiled else "never ran"
            why = f"{variant.id} {how}: {variant.failed}"
            told.setdefault(why, []).append(kernel.called)
    of_kernels = [f"{', '.join(names)} {why}" for why, names in told.items()]
    return of_kernels + [
        f"graph {graph.id} did not compile: {graph.error.said}"
        for graph in rec.graphs
        if graph.error is not None
    ]


def graphs(rec: Recording, console: Console) -> None:
    """The graphs with their kernels, in the order of the wrapper's calls."""
    for graph in rec.graphs:
        console.print(
            Text.assemble(
                ("graph ", "bold cyan"),
                shown(graph.id),
                "  → ",
                shown(", ".join(graph.kernels) or "no kernels"),
                FAILED if graph.error is not None else "",
            ),
            soft_wrap=True,
        )


def problems(rec: Recording, console: Console) -> None:
    """What could not be read or recorded: the first ``MAX_PROBLEMS``, and how many there are
    beside."""
    texts = (*lacking(rec), *never_ran(rec), *rec.problems)
    for text in texts[:MAX_PROBLEMS]:
        console.print(Text("! " + shown(text), style="yellow"))
    if (more := len(texts) - MAX_PROBLEMS) > 0:
        more_problems = plural(more, "more problem")
        console.print(Text(f"! {more_problems}: ptxview list --json has all", style="yellow"))


def beside(
    left: Iterable[Line],
    right: Mapping[int, Line],
    links: Mapping[int, tuple[int, ...]],
    width: int,
    names: tuple[str, str],
) -> Table:
    """Two stages side by side: each left line with the right lines that it is tied to.

    A right line stands beside the first left line that it belongs to; later ones name its number.
    """
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", width=width)
    for name in names:
        table.add_column("", justify="right", no_wrap=True, style="dim")
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1)
    told: set[int] = set()
    for line in left:
        linked = [n for n in links.get(line.n, ()) if n in right]
        fresh = [n for n in linked if n not in told]
        told.update(fresh)
        again = ", ".join(str(n) for n in linked if n not in fresh)
        rows = [(str(n), Text(clean(right[n].text))) for n in fresh]
        if not rows:
            rows = [("", Text(f"↑ {again}" if again else "", style="dim"))]
        for at, (number, text) in enumerate(rows):
            first = (str(line.n), Text(clean(line.text))) if at == 0 else ("", Text(""))
            table.add_row(first[0], first[1], number, text)
    return table


def clean(text: str) -> str:
    """A line for a table: tabs as spaces, controls shown, the carriage return of CRLF left out."""
    return shown(text.rstrip("\r").expandtabs(8))
