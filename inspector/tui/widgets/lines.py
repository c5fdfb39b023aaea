"""Lines of one row, of which parts can be clicked: title bars, status lines, the keys."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import Reactive
from textual.style import Style
from textual.widget import Widget

from inspector.tui.keys.command_table import Command, Where, command, footer, shown
from inspector.tui.widgets.visible import cut, label, shorten


class LineWidget(Widget):
    """A widget of one row or a few; what can be clicked in it looks like the rest."""

    auto_links: Reactive[bool] = Reactive(False)


def clickable(content: Content, action: str) -> Content:
    return content.stylize(Style.from_meta({"@click": action}))


def link(text: str, style: str, action: str) -> Content:
    return clickable(Content.styled(text, style), action)


def ends(left: Content, right: Content, width: int) -> Content:
    gap = max(1, width - left.cell_length - right.cell_length)
    return Content.assemble(left, " " * gap, right)


class StatusLine(LineWidget):
    """The line above the footer: where the cursor is, or a message until it moves."""

    def __init__(self) -> None:
        super().__init__()
        self._left = self._right = ""
        self._style = ""
        self._message = self._cuts_end = False
        self._place: object = None

    def say(
        self, text: str, warning: bool = False, place: object = None, cuts_end: bool = False
    ) -> None:
        self._left, self._right = f"⚠ {text}" if warning else text, ""
        self._style = "bold $warning" if warning else ""
        self._message, self._place, self._cuts_end = True, place, cuts_end
        self.refresh()

    def show(self, left: str, right: str, place: object = None) -> None:
        if self._message and place is not None and place == self._place:
            return
        self._left, self._right, self._style = left, right, ""
        self._message, self._place = False, place
        self.refresh()

    def render(self) -> Content:
        width = self.size.width - 2
        right = self._right if len(self._right) + 12 <= width else ""
        room = width - len(right) - 2 if right else width
        cut_text = cut if self._cuts_end else shorten
        left = Content.styled(f" {cut_text(self._left, room)}", self._style)
        return ends(left, Content.styled(right, "$accent"), width + 1) if right else left


MIN_NAME_CELLS = 10
"""Cells that a name keeps, however long the text at the right is."""


class SubjectBar(LineWidget):
    """``time  square_kernel 3f2a91c0      cupti · cold L2``."""

    def __init__(self, head: str, name: str, ident: str = "", right: str = "") -> None:
        super().__init__()
        self.head, self.name_text, self.ident, self.right = head, name, ident, right
        self.part = ""

    def tell(self, right: str, part: str = "") -> None:
        self.right, self.part = right, part
        self.refresh()

    def render(self) -> Content:
        width, head = self.size.width, f" {self.head}  "
        part = f"  {self.part}" if self.part else ""
        ident = f" {self.ident}" if self.ident else ""
        used = len(head) + len(ident) + len(part)
        right = shorten(self.right, max(0, width - used - MIN_NAME_CELLS))
        name = shorten(label(self.name_text), width - used - len(right) - 3)
        left = Content.assemble((head, "bold"), name, (ident, "dim"), (part, "bold"))
        return ends(left, Content.styled(right, "bold $accent"), width - 1)


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
        self.words[name] = word
        self.refresh()

    def show(self, where: Where) -> None:
        if where is not self.where:
            self.where = where
            self.refresh()

    def render(self) -> Content:
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
