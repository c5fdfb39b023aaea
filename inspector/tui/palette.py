"""The command palette: the table of commands, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from inspector.tui.commands import TABLE, Command


class CommandProvider(Provider):
    """Finds commands by title and help, and runs them where they belong."""

    def _line(self, command: Command) -> str:
        return f"{command.title}  ({command.shown})"

    def _run(self, command: Command) -> Callable[[], Awaitable[None]]:
        return partial(self.screen.run_action, f"run('{command.id}')")

    async def discover(self) -> Hits:
        """Everything, in the order of the table."""
        for command in TABLE:
            yield DiscoveryHit(
                self._line(command), self._run(command), command.title, command.help or None
            )

    async def search(self, query: str) -> Hits:
        """The commands whose title or help fits, best first."""
        matcher = self.matcher(query)
        for command in TABLE:
            score = max(matcher.match(command.title), 0.7 * matcher.match(command.help))
            if score > 0:
                yield Hit(
                    score,
                    matcher.highlight(self._line(command)),
                    self._run(command),
                    command.title,
                    command.help or None,
                )
