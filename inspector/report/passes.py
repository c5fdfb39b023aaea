"""Passes as a table and as JSON: what each changed, which operations came and went, its time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.table import Table
from rich.text import Text

from inspector.analyse.passes import BY_ARRIVAL, PassRun
from inspector.diff.hunks import Hunk
from inspector.report.jsons import SCHEMA
from inspector.report.tables import UNKNOWN
from inspector.text import shown

MOST_OPERATIONS = 4
"""Operations that a row of the table names; the others are counted."""


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
    run: PassRun, most: int | None = MOST_OPERATIONS, asked: frozenset[str] = frozenset()
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
    """A row a pass; operations that were ``asked`` for are named before others."""
    out = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for name, justify in (("#", "right"), ("stage", "left"), ("pass", "left"), ("lines +", "right"),
                          ("−", "right"), ("ms", "right"), ("operations", "left")):  # fmt: skip
        out.add_column(name, justify=justify, no_wrap=name != "operations")  # type: ignore[arg-type]
    for run in passes:
        came, went = run.lines or (0, 0)
        out.add_row(
            str(run.number), run.stage, Text(shown(title(run)), style="" if run.changed else "dim"),
            Text(str(came) if came else "", style="green"),
            Text(str(went) if went else "", style="red"),
            milliseconds(run), Text(shown(operations(run, asked=asked) or note(run))),
        )  # fmt: skip
    return out


def note(run: PassRun) -> str:
    """What is said of a pass after which the operations are as many as before."""
    if not run.finished:
        return "the compiler failed in it"
    if not run.changed:
        return ""
    return "" if run.lines and any(run.lines) else "names, locations or the order of attributes"


def document(
    facts: Mapping[str, object], passes: Iterable[PassRun], hunks: tuple[Hunk, ...] | None
) -> dict[str, object]:
    """The list as JSON; with ``hunks`` it is of one pass, and has its texts."""
    return {
        "schema": SCHEMA,
        **facts,
        "passes": [_one(run, hunks) for run in passes],
    }


def _one(run: PassRun, hunks: tuple[Hunk, ...] | None) -> dict[str, object]:
    changes = run.operations
    lines = None if run.lines is None else {"added": run.lines[0], "removed": run.lines[1]}
    out: dict[str, object] = {
        "number": run.number,
        "stage": run.stage,
        "language": run.language,
        "name": run.name,
        "argument": run.argument or None,
        "scope": run.scope or None,
        "inside": list(run.inside),
        "changed": run.changed,
        "finished": run.finished,
        "ms": run.milliseconds,
        "timed_by": run.timed_by,
        "lines": lines if run.changed else {"added": 0, "removed": 0},
        "introduced": [name for name, (a, b) in changes.items() if b > a],
        "removed": [name for name, (a, b) in changes.items() if b < a],
        "operations": {name: [a, b] for name, (a, b) in changes.items()},
    }
    if hunks is not None:
        out["before"], out["after"] = run.before, run.after
        out["hunks"] = [{"op": h.op.value, "a": list(h.a), "b": list(h.b)} for h in hunks]
    return out
