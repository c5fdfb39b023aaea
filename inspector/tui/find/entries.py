"""Entries of the palette: kernels, variants, graphs, stages, labels and hints.

Kernels, variants and graphs are the tree's rows, labels are searched in the open listings: opening
the palette parses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from textual.content import Content
from textual.screen import Screen

from inspector.analyse.hints.subject import Finding
from inspector.base.model import Recording, Stage
from inspector.base.text import plural
from inspector.tui.code.code_rows import SEVERITY_SIGNS
from inspector.tui.code.highlight import labels_of
from inspector.tui.find.finder import Entry, Finder
from inspector.tui.keys.command_table import MARKS, TABLE, Command, Where, command, shown, there
from inspector.tui.main.bars import banner
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.main.settings import config_path
from inspector.tui.tree.rows import TreeEntry, TreeKind, TreeRow
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.subject import digit
from inspector.tui.widgets.threads import in_thread
from inspector.tui.widgets.visible import label

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
                f"{SEVERITY_SIGNS.get(one.severity, '·')} {label(one.text)}",
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


STAGE_COMMANDS = frozenset(f"stage.{n}" for n in range(1, 9))
"""Commands that show a stage, which the palette has as stages."""

Run = Callable[[str], Callable[[], object]]
"""What runs a command, by its id."""


def runs(screen: Screen[object]) -> Run:
    """Runs commands where they belong on a screen."""
    return lambda name: partial(screen.run_action, f"run('{name}')")


def wheres(screen: Screen[object]) -> tuple[Where, ...]:
    """The parts of the table that work on a screen, the one that has the focus first."""
    own: tuple[Where, ...] = getattr(screen, "wheres", ())
    if getattr(screen, "empty", False):
        own = (Where.SCREEN,)
    here = getattr(getattr(screen, "footer", None), "where", None)
    return tuple(sorted(own, key=lambda where: where is not here))


def _words(command: Command) -> str:
    return f"{command.title} {command.help} {command.id}".casefold()


def palette_entries(screen: Screen[object], keys: Mapping[str, str]) -> list[Entry]:
    """The commands that a screen has: those that the footer names first, then those of where the
    focus is."""
    own, run = wheres(screen), runs(screen)
    main = Where.SCREEN in own
    commands = [one for one in there(own) if not (main and one.id in STAGE_COMMANDS)]
    commands.sort(key=lambda one: (not one.footer, one.where is not own[0], not one.help))
    return [
        Entry(
            "command",
            one.title,
            one.help,
            shown(one, keys),
            _words(one),
            near=1 if one.where is own[0] else 2,
            run=run(one.id),
        )
        for one in commands
    ]


# -- the help -------------------------------------------------------------------------------------


def sections(own: Sequence[Where]) -> Iterator[tuple[Where, tuple[Command, ...]]]:
    """The commands by where they work: those of where one is first, then what works here as well,
    then the others."""
    rest = [where for where in Where if where not in own]
    # What is everywhere comes right after what is here.
    order = [*own[:1], *(w for w in (Where.SCREEN,) if w not in own[:1])]
    order += [where for where in (*own, *rest) if where not in order]
    for where in order:
        yield where, tuple(one for one in TABLE if one.where is where)


def help_entries(
    screen: Screen[object], recording: Recording, keys: Mapping[str, str], problems: Sequence[str]
) -> list[Entry]:
    """Every command by where it works, what works here first; the signs; how keys are bound."""
    own, run = wheres(screen), runs(screen)
    usable = {one.id for one in there(own)}
    out: list[Entry] = []
    if said := banner(recording):
        out.append(Entry("", f"This recording was {said}.", heading=True))
    for where, commands in sections(own):
        out.append(Entry("", where.value, heading=True))
        for one in commands:
            can = one.id in usable
            out.append(
                Entry(
                    shown(one, keys),
                    one.title,
                    one.help,
                    one.id,
                    _words(one),
                    near=0 if where is own[0] else 1 if can else 2,
                    run=run(one.id) if can else None,
                    why="" if can else _elsewhere(where, own),
                )
            )
    out.append(Entry("", "Signs", heading=True))
    out += [
        Entry(sign, meaning, words=sign, near=3, why="A sign has nothing to be run.")
        for sign, meaning in MARKS
    ]
    out.append(Entry("", f"Your own keys, in {label(str(config_path()))}", heading=True))
    own_keys = (
        ('theme = "light"', "dark, light or auto"),
        ("[keys]", "by the names at the right of each line above"),
        ('"stage.next" = "J"', "one key: J, /, ctrl+x, alt+enter, f5, space"),
        ('zoom = ["z", "f11"]', "or several; [] for none"),
    )
    why = "This is for that file, and not to be run."
    out += [Entry("", text, meaning, near=3, why=why) for text, meaning in own_keys]
    out += [Entry("⚠", problem, near=3, why=why) for problem in problems]
    return out


def _elsewhere(where: Where, own: Sequence[Where]) -> str:
    """Where a command works, for who would run it elsewhere."""
    names = {
        Where.DIFF: "d marks a variant and another, D compares them",
        Where.VARIANTS: "V in the tree opens it",
        Where.TIMING: "t opens it",
        Where.STEP: "x opens it",
        Where.PASSES: "Z opens it",
        Where.TRYING: "E opens it, where an edited stage was saved",
    }
    if where in names and Where.SCREEN in own:
        return f"That works elsewhere: {where.value[0].lower()}{where.value[1:]} ({names[where]})."
    return f"That works elsewhere: {where.value[0].lower()}{where.value[1:]}."


def problems_text(recording: Recording) -> Content:
    """What could not be recorded or read, each with its own words."""
    if not recording.problems:
        return Content("Nothing went wrong: all that was looked for was found and read.")
    return Content("\n\n".join(f"• {label(problem)}" for problem in recording.problems))


HINT = "a kernel, an id, settings, a label, a hint, a stage, a command"


class Palette(Finder):
    """Commands and kernels at once; labels and hints from a thread."""

    def __init__(self, main: MainScreen | None, entries: Sequence[Entry]) -> None:
        super().__init__("Palette", entries, HINT, STAGES)
        self.main = main

    def on_mount(self) -> None:
        """Look for labels and hints."""
        main = self.main
        if main is None:
            return
        listings = [
            (pane.stage, pane.view.source.listing)
            for pane in sorted(main.panes.panes, key=lambda pane: pane is not main.panes.active)
            if pane.stage is not None and pane.view.source is not None and pane.settled
        ]
        for stage, listing in listings:
            names = partial(labels_of, listing, stage)
            in_thread(self, names, partial(self._named, main, stage), f"labels {stage}")
        variant = main.panes.subject.variant
        if variant is not None and listings:
            in_thread(
                self, lambda: main.reads.findings(variant), partial(self._hinted, main), "hints"
            )

    def _named(
        self, main: MainScreen, stage: Stage, names: list[tuple[str, int, str]] | Notice
    ) -> None:
        if isinstance(names, list):
            self.add(label_entries(main, stage, names))

    def _hinted(self, main: MainScreen, findings: tuple[Finding, ...] | Notice) -> None:
        if isinstance(findings, tuple):
            self.add(hint_entries(main, findings))


def palette(screen: Screen[object], main: MainScreen | None, keys: Mapping[str, str]) -> Palette:
    """Return the palette of a screen: its commands, stages and kernels."""
    entries = palette_entries(screen, keys)
    if main is None or main.empty:
        return Palette(None, entries)
    stages = stage_entries(main, lambda name: shown(command(name), keys))
    return Palette(main, [*entries, *stages, *kernel_entries(main)])
