"""Everything that has a name, as entries of the palette and of the help.

Kernels, variants and graphs are the tree's rows; labels are searched in the open listings: opening
the palette parses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from textual.content import Content
from textual.screen import Screen

from inspector.base.model import Recording, Stage, Variant
from inspector.listing.line import Listing
from inspector.reader.reader import Reader
from inspector.tui.code.code_rows import SEVERITY_SIGNS
from inspector.tui.code.highlight import labels_of
from inspector.tui.find.finder import Entry, Finder
from inspector.tui.keys.command_table import MARKS, TABLE, Command, Where, command, shown, there
from inspector.tui.main.bars import banner
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.main.settings import config_path
from inspector.tui.tree.rows import TreeEntry, TreeKind, TreeRow, every
from inspector.tui.widgets.subject import digit
from inspector.tui.widgets.tool_screen import ToolScreen
from inspector.tui.widgets.visible import label

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

OPENED_BY = {
    Where.DIFF: " (d marks a variant and another, D compares them)",
    Where.VARIANTS: " (V in the tree opens it)",
    Where.TIMING: " (t opens it)",
    Where.STEP: " (x opens it)",
    Where.PASSES: " (Z opens it)",
    Where.TRYING: " (E opens it, where an edited stage was saved)",
}
"""How one comes from the main screen to where a command works."""

OWN_KEYS = (
    ('theme = "light"', "dark, light or auto"),
    ("[keys]", "by the names at the right of each line above"),
    ('"stage.next" = "J"', "one key: J, /, ctrl+x, alt+enter, f5, space"),
    ('zoom = ["z", "f11"]', "or several; [] for none"),
)
"""Lines of the configuration, explained."""

# -- the recording --------------------------------------------------------------------------------


def _kernel_entry(screen: MainScreen, entry: TreeEntry) -> Entry:
    """The entry of a graph, a kernel or a variant."""
    row = entry.row
    kernel, variant, above = row.subject.kernel, row.subject.variant, screen.kernels.above(row)
    more, detail = "", f"×{row.count}" if row.count else ""
    if row.kind is TreeKind.VARIANT and above is not None:
        more = f"{'★ ' if row.winner else ''}of {above.text}"
    elif kernel is not None and row.leaf:
        more = kernel.origin.value
    if row.leaf and variant is not None:
        detail = label(variant.id)
    own = row.leaf and row.subject.key[:2] == screen.panes.subject.key[:2]
    return Entry(
        row.kind.value,
        row.text,
        more,
        detail,
        entry.words,
        entry.digest,
        near=1 if own else 4 if row.kind is TreeKind.VARIANT else 3,
        run=partial(_go, screen, row),
        also=None if row.kind is TreeKind.GRAPH else partial(_at_stage, screen, row),
    )


def _at_stage(screen: MainScreen, row: TreeRow, stage: str) -> Entry | None:
    wanted, variant = Stage(stage), row.subject.variant
    if not row.subject.has(wanted):
        return None
    return Entry(
        wanted.value,
        row.text,
        f"its {TITLES[wanted]}",
        "" if variant is None else label(variant.id),
        near=2,
        run=partial(_go, screen, row, wanted),
    )


def _go(screen: MainScreen, row: TreeRow, stage: Stage | None = None) -> None:
    """Go to the subject of a row, and to a stage of it; the history has the way back."""
    panes = screen.panes
    panes.history.leave(panes.here())
    if not screen.kernels.go_to(row.key):
        screen.warn(f"{row.text} is not in the recording any more.")
        return
    panes.show(row.subject)
    _show_stage(screen, stage)


def _show_stage(screen: MainScreen, stage: Stage | None) -> None:
    """Go to the pane that shows a stage, else show it in the active one."""
    there = next((p for p in screen.panes.panes if stage is not None and p.stage is stage), None)
    screen.focus_pane(there)
    if there is None and stage is not None:
        screen.panes.choose(stage)


def _stage_entry(screen: MainScreen, stage: Stage, keys: Mapping[str, str]) -> Entry:
    has = screen.panes.subject.has(stage)
    return Entry(
        "stage",
        TITLES[stage],
        f"of {label(screen.panes.subject.name)}" if has else "absent here",
        shown(command(f"stage.{digit(stage)}"), keys),
        stage.value,
        near=0 if has else 5,
        run=partial(_show_stage, screen, stage),
    )


def _labels(screen: MainScreen, stage: Stage, listing: Listing) -> list[Entry]:
    """Functions and labels of what a pane shows; called in a thread."""
    return [
        Entry(
            kind,
            label(name),
            f"{stage}, line {n}",
            words=stage.value,
            run=partial(screen.panes.jump, stage, n),
        )
        for name, n, kind in labels_of(listing, stage)
    ]


def _hints(screen: MainScreen, reads: Reader, variant: Variant) -> list[Entry]:
    """The hints on what is open; called in a thread."""
    return [
        Entry(
            "hint",
            one.rule,
            f"{SEVERITY_SIGNS.get(one.severity, '·')} {label(one.text)}",
            ", ".join(f"{stage} {lines[0]}" for stage, lines in one.lines.items() if lines),
            one.text.casefold(),
            run=partial(screen.to_hint, one)
            if any(one.lines.values())
            else partial(screen.action_understand, "hints"),
        )
        for one in reads.findings(variant)
    ]


# -- commands -------------------------------------------------------------------------------------


def _wheres(screen: Screen[object]) -> tuple[Where, ...]:
    """The parts of the table that work on a screen, the one that has the focus first."""
    if not isinstance(screen, ToolScreen):
        return ()
    own = (Where.SCREEN,) if getattr(screen, "empty", False) else screen.wheres
    return tuple(sorted(own, key=lambda where: where is not screen.footer.where))


def _words(command: Command) -> str:
    return f"{command.title} {command.help} {command.id}".casefold()


def palette(screen: Screen[object], main: MainScreen | None, keys: Mapping[str, str]) -> Finder:
    """Return the palette of a screen: commands, stages and kernels; labels and hints come from
    threads. Commands that the footer names are first, then those of where the focus is."""
    own = _wheres(screen)
    commands = [
        Entry(
            "command",
            one.title,
            one.help,
            shown(one, keys),
            _words(one),
            near=1 if one.where is own[0] else 2,
            run=partial(screen.run_action, f"run('{one.id}')"),
        )
        for one in sorted(
            there(own), key=lambda one: (not one.footer, one.where is not own[0], not one.help)
        )
        # Stages are entries of their own.
        if Where.SCREEN not in own or not one.id.removeprefix("stage.").isdigit()
    ]
    hint = "a kernel, an id, settings, a label, a hint, a stage, a command"
    if main is None or main.empty:
        return Finder("Palette", commands, hint)
    stages = [_stage_entry(main, stage, keys) for stage in Stage]
    kinds = (TreeKind.GRAPH, TreeKind.KERNEL, TreeKind.VARIANT)
    kernels = [
        _kernel_entry(main, one) for one in every(main.kernels.entries) if one.row.kind in kinds
    ]
    later = [
        partial(_labels, main, pane.stage, pane.view.source.listing)
        for pane in sorted(main.panes.panes, key=lambda pane: pane is not main.panes.active)
        if pane.stage is not None and pane.view.source is not None and pane.settled
    ]
    if (variant := main.panes.subject.variant) is not None and later:
        later.append(partial(_hints, main, main.reads, variant))
    names = [stage.value for stage in Stage]
    return Finder("Palette", [*commands, *stages, *kernels], hint, later, names)


def help_entries(
    screen: Screen[object], recording: Recording, keys: Mapping[str, str], problems: Sequence[str]
) -> list[Entry]:
    """Every command by where it works, what works here first, then what works everywhere; the
    signs; how keys are bound."""
    own = _wheres(screen)
    usable = {one.id for one in there(own)}
    out: list[Entry] = []
    if said := banner(recording):
        out.append(Entry("", f"This recording was {said}.", heading=True))
    for where in dict.fromkeys((*own[:1], Where.SCREEN, *own, *Where)):
        out.append(Entry("", where.value, heading=True))
        opened = OPENED_BY.get(where, "") if Where.SCREEN in own else ""
        why = f"That works elsewhere: {where.value[0].lower()}{where.value[1:]}{opened}."
        out += [
            Entry(
                shown(one, keys),
                one.title,
                one.help,
                one.id,
                _words(one),
                near=0 if where is own[0] else 1 if one.id in usable else 2,
                run=partial(screen.run_action, f"run('{one.id}')") if one.id in usable else None,
                why=why,
            )
            for one in TABLE
            if one.where is where
        ]
    out.append(Entry("", "Signs", heading=True))
    why = "A sign has nothing to be run."
    out += [Entry(sign, meaning, words=sign, near=3, why=why) for sign, meaning in MARKS]
    out.append(Entry("", f"Your own keys, in {label(str(config_path()))}", heading=True))
    why = "This is for that file, and not to be run."
    out += [Entry("", text, meaning, near=3, why=why) for text, meaning in OWN_KEYS]
    out += [Entry("⚠", problem, near=3, why=why) for problem in problems]
    return out


def problems_text(recording: Recording) -> Content:
    """What could not be recorded or read, each with its own words."""
    none = "Nothing went wrong: all that was looked for was found and read."
    return Content("\n\n".join(f"• {label(problem)}" for problem in recording.problems) or none)
