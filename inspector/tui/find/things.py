"""Entries of the palette: kernels, variants, graphs, stages, labels and hints.

Kernels, variants and graphs are the tree's rows, labels are searched in the open listings: opening
the palette parses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from inspector.analyse.hints.subject import Finding
from inspector.base.model import Stage
from inspector.base.text import plural
from inspector.tui.code.gutter import SIGNS
from inspector.tui.find.ranking import Entry
from inspector.tui.tree.rows import TreeEntry, TreeKind, TreeRow
from inspector.tui.widgets.subject import digit
from inspector.tui.widgets.visible import label

if TYPE_CHECKING:
    from inspector.tui.main.main_screen import MainScreen

STAGES = tuple(stage.value for stage in Stage)
"""Query words for stages."""

TITLES = {
    Stage.SOURCE: "source",
    Stage.OUTPUT_CODE: "output_code",
    Stage.TTIR: "TTIR",
    Stage.DYNAMO: "Dynamo's graph",
    Stage.JOINT: "joint graph",
    Stage.FORWARD: "forward graph",
    Stage.BACKWARD: "backward graph",
    Stage.POST_GRAD: "graph after Inductor's passes",
    Stage.IR_PRE_FUSION: "Inductor's IR before fusion",
    Stage.IR_POST_FUSION: "Inductor's IR after fusion",
    Stage.OPERATIONS: "operations of the graph",
    Stage.TTGIR: "TTGIR",
    Stage.LLIR: "LLVM IR",
    Stage.PTX: "PTX",
    Stage.SASS: "SASS",
}

# -- the recording --------------------------------------------------------------------------------


def kernel_entries(screen: MainScreen) -> list[Entry]:
    """Graphs, kernels and variants, in the order of the tree."""
    here = screen.panes.subject.key
    out: list[Entry] = []
    for entry in screen.kernels.entries:
        out += _of(screen, entry, here, "")
    return out


def _of(
    screen: MainScreen, entry: TreeEntry, here: tuple[str, str, str], above: str
) -> Iterator[Entry]:
    row = entry.row
    if row.kind in (TreeKind.GRAPH, TreeKind.KERNEL, TreeKind.VARIANT):
        yield _entry(screen, entry, here, above)
    name = row.text if row.kind is TreeKind.KERNEL else above
    for beneath in entry.beneath:
        yield from _of(screen, beneath, here, name)


def _entry(screen: MainScreen, entry: TreeEntry, here: tuple[str, str, str], above: str) -> Entry:
    row = entry.row
    kernel, variant = row.subject.kernel, row.subject.variant
    more = detail = ""
    if row.kind is TreeKind.VARIANT:
        more = f"{'★ ' if row.winner else ''}of {above}"
    elif row.kind is TreeKind.GRAPH:
        detail = plural(row.count, "kernel")
    elif row.count:
        detail = f"×{row.count}"
    elif kernel is not None:
        more = kernel.origin.value
    if row.kind is not TreeKind.GRAPH and not row.count and variant is not None:
        detail = label(variant.id)
    own = row.kind is not TreeKind.GRAPH and row.subject.key[:2] == here[:2] and not row.count
    return Entry(
        row.kind.value,
        row.text,
        more,
        detail,
        entry.words,
        entry.digest,
        near=1 if own else 4 if row.kind is TreeKind.VARIANT else 3,
        run=partial(go, screen, row),
        also=None if row.kind is TreeKind.GRAPH else partial(_at_stage, screen, row, row.text),
    )


def _at_stage(screen: MainScreen, row: TreeRow, text: str, stage: str) -> Entry | None:
    """A stage of what a row represents, if it has it."""
    wanted = Stage(stage)
    if not row.subject.has(wanted):
        return None
    variant = row.subject.variant
    return Entry(
        wanted.value,
        text,
        f"its {TITLES[wanted]}",
        "" if variant is None else label(variant.id),
        near=2,
        run=partial(go, screen, row, wanted),
    )


def go(screen: MainScreen, row: TreeRow, stage: Stage | None = None) -> None:
    """Go to the subject of a row, and to a stage of it; the history has the way back."""
    panes = screen.panes
    panes.leave_here()
    if not screen.kernels.go_to(row.key):
        screen.warn(f"{row.text} is not in the recording any more.")
        return
    panes.show(row.subject)
    there = next((p for p in panes.panes if stage is not None and p.stage is stage), panes.active)
    screen.focus_pane(there)
    if stage is not None and there.stage is not stage:
        panes.choose(stage)


# -- what is in view ------------------------------------------------------------------------------


def stage_entries(screen: MainScreen, keys: Callable[[str], str]) -> list[Entry]:
    """The stages of what is open; ``keys`` gives the key of a command."""
    subject = screen.panes.subject
    return [
        Entry(
            "stage",
            TITLES[stage],
            f"of {label(subject.name)}" if subject.has(stage) else "absent here",
            keys(f"stage.{digit(stage)}"),
            stage.value,
            near=0 if subject.has(stage) else 5,
            run=partial(_stage, screen, stage),
        )
        for stage in Stage
    ]


def _stage(screen: MainScreen, stage: Stage) -> None:
    there = next((p for p in screen.panes.panes if p.stage is stage), None)
    screen.focus_pane(there)
    if there is None:
        screen.panes.choose(stage)


def label_entries(
    screen: MainScreen, stage: Stage, names: Sequence[tuple[str, int, str]]
) -> list[Entry]:
    """Functions and labels of what a pane shows."""
    return [
        Entry(
            kind,
            label(name),
            f"{stage}, line {n}",
            words=stage.value,
            near=0,
            run=partial(screen.panes.jump, stage, n),
        )
        for name, n, kind in names
    ]


def hint_entries(screen: MainScreen, findings: Sequence[Finding]) -> list[Entry]:
    """The hints on what is open."""
    out = []
    for one in findings:
        places = {stage: lines for stage, lines in one.lines.items() if lines}
        at = ", ".join(f"{stage} {lines[0]}" for stage, lines in places.items())
        out.append(
            Entry(
                "hint",
                one.rule,
                f"{SIGNS.get(one.severity, '·')} {label(one.text)}",
                at,
                one.text.casefold(),
                run=partial(_hint, screen, one),
            )
        )
    return out


def _hint(screen: MainScreen, finding: Finding) -> None:
    """Go to the first line of a hint; without lines, show all hints."""
    places = {stage: lines[0] for stage, lines in finding.lines.items() if lines}
    shown = [pane.stage for pane in screen.panes.panes if pane.stage in places]
    stage = next((s for s in (*shown, *places) if s is not None), None)
    screen.panes.display = True
    if stage is None:
        screen.action_understand("hints")
    else:
        screen.panes.jump(stage, places[stage])
