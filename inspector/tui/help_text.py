"""The help, made from the table of commands."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content

from inspector.model import Recording
from inspector.tui.commands import MARKS, TABLE, Where
from inspector.tui.keymap import shown
from inspector.tui.places import config_path
from inspector.tui.title_bar import banner
from inspector.tui.visible import label


def help_text(recording: Recording, keys: Mapping[str, str] | None = None) -> Content:
    """What this is, every key by where it works, the signs, and how keys are bound anew."""
    parts: list[tuple[str, str]] = [
        ("From a line of Python to the instructions that it became.", "bold"),
        ("\nLines of both panes that come from the same place light up together.\n", ""),
    ]
    if said := banner(recording):
        parts.append((f"This recording was {said}.\n", "bold $warning"))
    for where in Where:
        parts.append((f"\n{where.value}\n", "bold $primary"))
        for command in TABLE:
            if command.where is where:
                parts.append((f"  {shown(command, keys or {}):<7}", "bold"))
                parts.append((command.title, ""))
                parts.append((f": {command.help}" if command.help else "", "$quiet"))
                parts.append((f"  {command.id}\n", "$primary"))
    parts.append(("\nSigns\n", "bold $primary"))
    for sign, meaning in MARKS:
        parts += [(f"  {sign:<7}", "bold"), (f"{meaning}\n", "")]
    parts += [
        ("\nYour own keys\n", "bold $primary"),
        (f"  in {label(str(config_path()))}, by the names at the right of each line:\n", ""),
        ('    theme = "light"\n    [keys]\n    "stage.next" = "x"\n    zoom = ["z", "f11"]\n',
         "$quiet"),
    ]  # fmt: skip
    return Content.assemble(*parts)


def problems_text(recording: Recording) -> Content:
    """What could not be recorded or read, each with its own words."""
    if not recording.problems:
        return Content("Nothing went wrong: all that was looked for was found and read.")
    return Content("\n\n".join(f"• {label(problem)}" for problem in recording.problems))
