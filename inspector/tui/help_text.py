"""The help, made from the table of commands."""

from __future__ import annotations

from textual.content import Content

from inspector.model import Recording
from inspector.tui.commands import MARKS, TABLE, Where
from inspector.tui.title_bar import banner
from inspector.tui.visible import label


def help_text(recording: Recording) -> Content:
    """What this is, every key by where it works, and the signs."""
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
                parts.append((f"  {command.shown:<7}", "bold"))
                parts.append((command.title, ""))
                parts.append((f": {command.help}\n" if command.help else "\n", "$quiet"))
    parts.append(("\nSigns\n", "bold $primary"))
    for sign, meaning in MARKS:
        parts += [(f"  {sign:<7}", "bold"), (f"{meaning}\n", "")]
    return Content.assemble(*parts)


def problems_text(recording: Recording) -> Content:
    """What could not be recorded or read, each with its own words."""
    if not recording.problems:
        return Content("Nothing went wrong: all that was looked for was found and read.")
    return Content("\n\n".join(f"• {label(problem)}" for problem in recording.problems))
