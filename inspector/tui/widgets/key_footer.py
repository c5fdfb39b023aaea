"""The last line: the keys that do something here, from the table of commands."""

from __future__ import annotations

from textual.content import Content

from inspector.tui.keys.command_table import Command, Where, command, footer, shown
from inspector.tui.widgets.lines import LineWidget, link

_KEPT = (
    "quit",
    "help",
    "diff.escape",
    "diff.back",
    "variants.escape",
    "timing.back",
    "step.escape",
    "passes.escape",
    "trying.back",
)
_BARE = ("help", "palette", "quit")


class KeyFooter(LineWidget):
    """As many keys as fit; help and quit to the last. Each can be clicked."""

    def __init__(self, where: Where, bare: bool = False) -> None:
        """``bare`` leaves only the keys that work where there is nothing to read."""
        super().__init__()
        self.where = where
        self.bare = bare
        self.watched = False
        """Whether there is a program whose output can be shown."""
        self.words: dict[str, str] = {}

    def say(self, name: str, word: str) -> None:
        """Change the word for a command to what it is set to."""
        self.words[name] = word
        self.refresh()

    def show(self, where: Where) -> None:
        """Show the keys of where the focus is."""
        if where is not self.where:
            self.where = where
            self.refresh()

    def render(self) -> Content:
        """``? help  / search  1-7 stage …``."""

        def key_of(one: Command) -> str:
            return shown(one, getattr(self.app, "keys", {}))

        items = [item for item in footer(self.where, key_of) if not self.bare or item[2] in _BARE]
        if self.watched and (key := key_of(command("output"))):
            items.insert(1, (key, "output", "output"))
        items = [(key, self.words.get(name, word), name) for key, word, name in items]
        while items and sum(len(k) + len(w) + 3 for k, w, _ in items) > self.size.width - 1:
            spare = [item for item in items if item[2] not in _KEPT]
            items.remove(spare[-1] if spare else items[-1])
        parts: list[Content | str] = [" "]
        for key, word, name in items:
            run = f"screen.run({name!r})"
            parts += [link(key, "bold $primary", run), link(f" {word}", "", run), "  "]
        return Content.assemble(*parts)
