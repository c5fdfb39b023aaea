"""Tables and listings for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from inspector.base.model import Kernel, Origin, Recording, Resources, Stage, Variant
from inspector.base.text import ended_by, kibibytes, microseconds, plural, shown
from inspector.listing.line import Line
from inspector.report.grid import Cell, fit, laid_out
from inspector.report.jsons import ordered
from inspector.report.naming import apart, differing, setting, under

Figures = Callable[[Variant], Resources]
Clock = Callable[[Kernel, Variant], str]
UNKNOWN = "–"
FAILED = " ✗"
"""Follows the id of a failed variant."""
MAX_PROBLEMS = 200
"""Printed lines of problems."""


def figure(value: int | None) -> str:
    """Return a count, or a dash if unknown."""
    return UNKNOWN if value is None else str(value)


def spills(res: Resources) -> str:
    """Return spilled bytes, stored and loaded."""
    if res.spill_store_bytes is None and res.spill_load_bytes is None:
        return UNKNOWN
    if not res.spill_store_bytes and not res.spill_load_bytes:
        return "0"
    return f"{figure(res.spill_store_bytes)}/{figure(res.spill_load_bytes)}"


def shared(res: Resources) -> str:
    """Return shared memory of a block: ``33 KiB``; ``–+32 KiB`` if the static part is unknown."""
    static, dynamic = res.static_shared_bytes, res.dynamic_shared_bytes
    if static is None:
        return f"{UNKNOWN}+{kibibytes(dynamic)}" if dynamic else UNKNOWN
    return kibibytes(static + (dynamic or 0))


def config(variant: Variant, first: Sequence[str] = ()) -> str:
    """Return warps, stages and constexprs, short; ``first`` are listed before other constexprs."""
    known = {name: variant.config[name] for name in first if name in variant.config}
    known |= variant.config
    parts = []
    for name in ("num_warps", "num_stages", "num_ctas"):
        value = known.pop(name, None)
        if value is not None and not (name == "num_ctas" and value == 1):
            parts.append(setting(name, value))
    known.pop("flags", None)
    choice = known.pop("choice", None)  # max-autotune's name of a candidate comes last
    known |= {} if choice is None else {"choice": choice}
    parts += [f"{k}={v}" for k, v in known.items() if v is not None]
    return " ".join(parts)


def heading(rec: Recording) -> str:
    """Return one line on a recording."""
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
    """Return the number of variants and graphs that failed."""
    errors = (*(v.error for _, v in rec.variants()), *(graph.error for graph in rec.graphs))
    return sum(error is not None for error in errors)


def tuned(variant: Variant) -> str:
    """Return autotuning's time and whether this variant won; "" if unknown."""
    said = variant.autotune or {}
    time = said.get("time_us")
    why = str(said.get("reason") or "").partition(":")[0]
    parts = [why] if why in ("pruned", "failed") else []
    if isinstance(time, int | float):
        parts.append(f"{microseconds(time)} µs")
    if said.get("winner") is True:
        parts.append("best")
    return " ".join(parts)


NUMBERS = ("regs", "spill", "stack", "shared", "tuned", "time", "hints")
HEADS = ("kernel", "variant", "configuration", *NUMBERS, "stages")
SPILLS = HEADS.index("spill")
WHERE_KNOWN = ("tuned", "time", "hints")
"""Columns left out if empty in every row."""
GIVES = (
    *(("kernel", 48), ("configuration", 40), ("kernel", 28), ("configuration", 32), ("stages", 0)),
    *(("configuration", 16), ("kernel", 14), ("configuration", 0), ("stack", 0), ("hints", 0)),
    *(("shared", 0), ("spill", 0), ("tuned", 0), ("variant", 0), ("time", 0), ("kernel", 4)),
)
"""How columns give room: names stay readable as long as the stages are shown."""


def kernels(
    rec: Recording,
    figures: Figures,
    width: int,
    time: Clock = lambda kernel, variant: "",
    hints: Clock = lambda kernel, variant: "",
) -> Group:
    """Return the table of kernels and variants, grouped by origin.

    Args:
        figures: the resources of a variant.
        time: its measured time; "" if unknown.
        hints: the number of its hints; "" if not counted.
    """
    rows = list(_rows(rec, figures, time, hints))
    full = {
        head: max([len(head), *(cell_len(row[n]) for row in rows)])
        for n, head in enumerate(HEADS)
        if head not in WHERE_KNOWN or any(row[n] for row in rows)
    }
    sizes = fit(full, width, GIVES)
    names = apart((_indented(kernel) for kernel in rec.kernels), sizes["kernel"])
    lines = [laid_out(HEADS, [(head, "bold") for head in HEADS], sizes, NUMBERS)]
    for row in rows:
        cells: list[Cell] = [names.get(row[0], row[0]), *row[1:]]
        if not any(row[1:]):
            cells[0] = (row[0], "bold cyan")
        if row[SPILLS] not in (UNKNOWN, "0", ""):
            cells[SPILLS] = (row[SPILLS], "bold red")
        lines.append(laid_out(HEADS, cells, sizes, NUMBERS))
    return Group(*lines)


def _rows(rec: Recording, figures: Figures, time: Clock, hints: Clock) -> Iterator[tuple[str, ...]]:
    """Yield a row for each origin and each variant, with a cell for each head."""
    for heading in dict.fromkeys(map(under, rec.kernels)):
        yield (heading, *[""] * (len(HEADS) - 1))
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
    """Return a kernel's name, indented beneath its origin."""
    return "  " + shown(kernel.called)


def lacking(rec: Recording) -> list[str]:
    """Return each reason for a missing PTX or SASS once."""
    out: dict[str, list[str]] = {}
    for kernel, variant in rec.variants():
        for stage in (Stage.PTX, Stage.SASS):
            why = None if variant.uncompiled else variant.missing.get(stage)
            wanted = kernel.origin not in (Origin.FILE, Origin.EXTERN) or stage is Stage.SASS
            if why and stage not in variant.stages and wanted:
                out.setdefault(f"no {stage.value}: {why}", []).append(kernel.called)
    return [f"{', '.join(dict.fromkeys(names))}: {why}" for why, names in out.items()]


def never_ran(rec: Recording) -> list[str]:
    """Return a sentence for each variant and graph that failed to compile or load."""
    placed: dict[str, list[str]] = {}
    for kernel, variant in rec.variants():
        if variant.error is not None:
            how = "did not compile" if variant.uncompiled else "never ran"
            why = f"{variant.id} {how}: {variant.failed}"
            placed.setdefault(why, []).append(kernel.called)
    of_kernels = [f"{', '.join(names)} {why}" for why, names in placed.items()]
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
    """Print the first ``MAX_PROBLEMS`` problems and the number of others."""
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
    """Return two stages side by side: left lines with their linked right lines.

    A right line is shown once; later links give its number.
    """
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", width=width)
    for name in names:
        table.add_column("", justify="right", no_wrap=True, style="dim")
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1)
    placed: set[int] = set()
    for line in left:
        linked = [n for n in links.get(line.n, ()) if n in right]
        fresh = [n for n in linked if n not in placed]
        placed.update(fresh)
        again = ", ".join(str(n) for n in linked if n not in fresh)
        rows = [(str(n), Text(clean(right[n].text))) for n in fresh]
        if not rows:
            rows = [("", Text(f"↑ {again}" if again else "", style="dim"))]
        for at, (number, text) in enumerate(rows):
            first = (str(line.n), Text(clean(line.text))) if at == 0 else ("", Text(""))
            table.add_row(first[0], first[1], number, text)
    return table


def clean(text: str) -> str:
    """Return a line with tabs as spaces, visible controls and no carriage return."""
    return shown(text.rstrip("\r").expandtabs(8))
