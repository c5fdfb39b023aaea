"""The last line: the keys that do something here, from the table of commands."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.widget import Widget

from inspector.tui.keys.command_table import Command, Where, command, footer
from inspector.tui.keys.keymap import shown

_KEPT = ("quit", "help", "diff.escape", "diff.back", "variants.escape", "timing.back",
         "step.escape", "passes.escape", "trying.back")  # fmt: skip
_BARE = ("help", "palette", "quit")


class KeyFooter(Widget):
    """As many keys as fit; help and quit to the last. Each can be clicked."""

    def __init__(self, bare: bool = False) -> None:
        """``bare`` where there is nothing to read: only the keys that still do something."""
        super().__init__()
        self.bare = bare
        self.watched = False
        """Whether there is a program whose output can be shown."""

        self.where = Where.TREE
        self.words: dict[str, str] = {}
        self._spans: list[tuple[int, int, str]] = []

    def say(self, name: str, word: str) -> None:
        """Another word for a command: what it is set to."""
        self.words[name] = word
        self.refresh()

    def show(self, where: Where) -> None:
        """The keys of where the focus is."""
        if where is not self.where:
            self.where = where
            self.refresh()

    def render(self) -> Content:
        """``? help  / search  1-7 stage …``."""
        width = self.size.width - 1
        items = [
            (key, self.words.get(name, word), name)
            for key, word, name in footer(self.where, self._key)
            if not self.bare or name in _BARE
        ]
        if self.watched and (key := self._key(command("output"))):
            items.insert(1, (key, self.words.get("output", "output"), "output"))
        while items and sum(len(k) + len(w) + 3 for k, w, _ in items) > width:
            spare = [item for item in items if item[2] not in _KEPT]
            items.remove(spare[-1] if spare else items[-1])
        parts: list[tuple[str, str]] = [(" ", "")]
        self._spans = []
        at = 1
        for key, word, name in items:
            parts += [(key, "bold $primary"), (f" {word}  ", "")]
            self._spans.append((at, at + len(key) + len(word) + 1, name))
            at += len(key) + len(word) + 3
        return Content.assemble(*parts)

    def _key(self, one: Command) -> str:
        return shown(one, getattr(self.app, "keys", {}))

    async def on_click(self, event: events.Click) -> None:
        """Run what was clicked."""
        for start, end, name in self._spans:
            if start <= event.x < end:
                await self.screen.run_action(f"run('{name}')")
