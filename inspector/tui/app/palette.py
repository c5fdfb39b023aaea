"""The command palette: the table of commands, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from inspector.model import Recording
from inspector.tui.app.command_table import MARKS, TABLE, Command, Where, there
from inspector.tui.app.keymap import shown
from inspector.tui.app.places import config_path
from inspector.tui.widgets.title_bar import banner
from inspector.tui.widgets.visible import label

# -- the help -------------------------------------------------------------------------------------
# The help, made from the table of commands.


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
        ('    theme = "light"\n    [keys]\n    "stage.next" = "J"\n    zoom = ["z", "f11"]\n',
         "$quiet"),
    ]  # fmt: skip
    return Content.assemble(*parts)


def problems_text(recording: Recording) -> Content:
    """What could not be recorded or read, each with its own words."""
    if not recording.problems:
        return Content("Nothing went wrong: all that was looked for was found and read.")
    return Content("\n\n".join(f"• {label(problem)}" for problem in recording.problems))


class CommandProvider(Provider):
    """Finds commands by title and help, and runs them where they belong."""

    @property
    def _there(self) -> tuple[Command, ...]:
        """What the screen under the palette has."""
        usual = (Where.SCREEN, Where.PANE, Where.TREE)
        return there(getattr(self.screen, "wheres", usual))

    def _line(self, command: Command) -> str:
        key = shown(command, getattr(self.app, "keys", {}))
        return f"{command.title}  ({key})" if key else command.title

    def _run(self, command: Command) -> Callable[[], Awaitable[None]]:
        return partial(self.screen.run_action, f"run('{command.id}')")

    async def discover(self) -> Hits:
        """Everything, in the order of the table."""
        for command in self._there:
            yield DiscoveryHit(
                self._line(command), self._run(command), command.title, command.help or None
            )

    async def search(self, query: str) -> Hits:
        """The commands whose title or help fits, best first."""
        matcher = self.matcher(query)
        for command in self._there:
            score = max(matcher.match(command.title), 0.7 * matcher.match(command.help))
            if score > 0:
                yield Hit(
                    score,
                    matcher.highlight(self._line(command)),
                    self._run(command),
                    command.title,
                    command.help or None,
                )
