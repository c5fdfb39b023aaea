"""The command palette: the table of commands, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from inspector.tui.commands import Command, Where, there
from inspector.tui.keymap import shown


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
