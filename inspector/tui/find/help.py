"""Commands as what can be found: in the palette with their keys, and as the help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from textual.content import Content
from textual.screen import Screen

from inspector.base.model import Recording
from inspector.tui.find.ranking import Entry
from inspector.tui.keys.command_table import MARKS, TABLE, Command, Where, there
from inspector.tui.keys.keymap import shown
from inspector.tui.keys.places import config_path
from inspector.tui.main.title_bar import banner
from inspector.tui.widgets.visible import label

STAGES = frozenset(f"stage.{n}" for n in range(1, 9))
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
    commands = [one for one in there(own) if not (main and one.id in STAGES)]
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
