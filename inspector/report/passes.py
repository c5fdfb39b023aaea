"""Passes as a table and as JSON: what each changed, which operations came and went, its time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from inspector.analyse.passes import BY_ARRIVAL, PassRun
from inspector.base.text import shown
from inspector.diff.hunks import Hunk
from inspector.report.jsons import SCHEMA, members, plain
from inspector.report.tables import UNKNOWN

MAX_OPERATIONS = 4
"""Operations named in a row of the table."""


def title(run: PassRun) -> str:
    """``TritonGPUCoalesce``; of LLVM's code generator the short name, whose title is a sentence."""
    return run.argument if " " in run.name and run.argument else run.name


def milliseconds(run: PassRun) -> str:
    """A pass's time: to a tenth as MLIR and LLVM tell it, what was measured here with a tilde."""
    if run.milliseconds is None:
        return UNKNOWN
    about = "~" if run.timed_by == BY_ARRIVAL else ""
    return f"{about}{run.milliseconds:.1f}"


def operations(
    run: PassRun, most: int | None = MAX_OPERATIONS, asked: frozenset[str] = frozenset()
) -> str:
    """``+2 ttg.convert_layout  -1 tt.dot``: those asked for, then the largest changes, first."""
    changes = sorted(
        ((b - a, name) for name, (a, b) in run.operations.items()),
        key=lambda change: (change[1] not in asked, -abs(change[0]), change[1]),
    )
    said = [f"{difference:+d} {name}" for difference, name in changes[:most]]
    left = len(changes) - len(said)
    return "  ".join(said) + (f"  and {left} more" if left else "")


def table(passes: Iterable[PassRun], asked: frozenset[str] = frozenset()) -> Table:
    """Return a row for each pass; operations ``asked`` for come first."""
    out = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for name in ("#", "stage", "pass", "lines +", "−", "ms", "operations"):
        justify: JustifyMethod = "right" if name in ("#", "lines +", "−", "ms") else "left"
        out.add_column(name, justify=justify, no_wrap=name != "operations")
    for run in passes:
        came, went = run.lines or (0, 0)
        out.add_row(
            str(run.number),
            run.stage,
            Text(shown(title(run)), style="" if run.changed else "dim"),
            Text(str(came or ""), style="green"),
            Text(str(went or ""), style="red"),
            milliseconds(run),
            Text(shown(operations(run, asked=asked) or note(run))),
        )
    return out


def note(run: PassRun) -> str:
    """Return a remark on a pass that changed no count of operations."""
    if not run.finished:
        return "the compiler failed in it"
    if not run.changed:
        return ""
    return "" if run.lines and any(run.lines) else "names, locations or the order of attributes"


def document(
    facts: Mapping[str, object], passes: Iterable[PassRun], hunks: tuple[Hunk, ...] | None
) -> dict[str, object]:
    """The list as JSON; with ``hunks`` it is of one pass, and has its texts."""
    return {"schema": SCHEMA, **facts, "passes": [_one(run, hunks) for run in passes]}


def _one(run: PassRun, hunks: tuple[Hunk, ...] | None) -> dict[str, object]:
    changes = run.operations
    came, went = run.lines or (0, 0)
    known = run.lines is not None or not run.changed
    out: dict[str, object] = {
        **members(run, "number stage language name"),
        "argument": run.argument or None,
        "scope": run.scope or None,
        **members(run, "inside changed finished"),
        "ms": run.milliseconds,
        "timed_by": run.timed_by,
        "lines": {"added": came, "removed": went} if known else None,
        "introduced": [name for name, (a, b) in changes.items() if b > a],
        "removed": [name for name, (a, b) in changes.items() if b < a],
        "operations": plain(changes),
    }
    if hunks is not None:
        out |= {**members(run, "before after"), "hunks": [members(h, "op a b") for h in hunks]}
    return out
