"""Bases of screens and dialogs: title bars, status line, prompt and footer, frames over them."""

import re
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeVar

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.reactive import Reactive
from textual.screen import ModalScreen, Screen
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from inspector.base.model import Stage
from inspector.tui.keys.command_table import (
    Command,
    KeyContext,
    command,
    footer,
    shown,
    shown_key,
    why_nothing,
)
from inspector.tui.widgets.notice import Notice, cut, label, shorten
from inspector.tui.widgets.selection import Completion, completed, offered

PROMPTS = {
    "search": ("/", "a regular expression"),
    "goto": (":", "line number, or a name as in the palette"),
    "filter": ("filter", "names and properties: mm regs>128 op:HGMMA launched"),
    "passes": ("/", "an operation or a pass: convert_layout, +tt.dot made, -tt.dot taken away"),
    "parts": ("parts", "two lanes of the block: 0 31"),
    "store": ("store", "an address: a tensor's name, x+40 (bytes), 0x7f…"),
    "lane": ("lane", "a thread of the block"),
    "go": ("go", "a step's number"),
    "block": ("block", "coordinates: 7, or 3,1,0"),
}
Closed = Callable[[str | None], object]
"""Takes what was typed, None if it was given up."""
Typing = Callable[[str], object]


class Prompt(Vertical):
    """Hidden until asked for; Escape gives up, Enter accepts, what is typed is shown at once.

    Filters are queries: Tab and → complete their properties, which are offered above the line.
    """

    def __init__(self) -> None:
        super().__init__()
        self._then: Closed | None = None
        self._typing: Typing | None = None
        self.sign = Static("", markup=False)
        self.input = Input(compact=True, select_on_focus=True)
        self.note = Static("", markup=False)
        self.offers = Static("", classes="offers")
        self.display = self.completes = False

    def compose(self) -> ComposeResult:
        yield from (self.offers, Horizontal(self.sign, self.input, self.note))

    def ask(self, kind: str, value: str, closed: Closed, typing: Typing | None) -> None:
        self._then = closed
        self._typing = typing
        sign, self.input.placeholder = PROMPTS[kind]
        self.sign.update(f" {sign} ")
        self.note.update("")
        self.offers.display = self.completes = kind == "filter"
        self.input.suggester = Completion() if self.completes else None
        self.offers.update(offered(value))
        with self.input.prevent(Input.Changed):
            self.input.value = value
        self.display = True
        self.screen.set_focus(self.input)

    def _close(self, accepted: bool) -> None:
        closed, self._then = self._then, None
        self.display = False
        if closed is not None:
            closed(self.input.value if accepted else None)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.completes:
            self.offers.update(offered(event.value))
        if self._then is not None and self._typing is not None:
            self._typing(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close(accepted=True)

    def on_key(self, event: events.Key) -> None:
        if event.key in ("escape", "tab", "shift+tab", "down", "up"):
            event.stop()
            event.prevent_default()
            completion = (
                completed(self.input.value) if self.completes and event.key == "tab" else None
            )
            if completion is not None:
                self.input.value = completion
                self.input.cursor_position = len(completion)
                return
            self._close(accepted=event.key != "escape")

    def on_descendant_blur(self) -> None:
        self._close(accepted=True)


ResultType = TypeVar("ResultType")


TEXTUAL_WIDGETS = ("textual-toastrack", "textual-tooltip")


class AnswersKeys:
    """A screen that says so if a key does nothing; it gets those that no widget takes."""

    def on_key(self, event: events.Key) -> None:
        screen: Any = self
        bound = screen.active_bindings
        if not any(alias in bound for alias in event.aliases):
            self.unbound(event.key)

    def unbound(self, key: str) -> None:
        """Answer a key that is bound to nothing here."""
        self.answer(f"{shown_key(key)} does nothing here · Esc closes")

    def answer(self, sentence: str) -> bool:
        """Show a sentence where it covers nothing; whether there was such a place."""
        screen: Any = self
        # Textual's own widgets, for tooltips and notifications, come first.
        own = (widget for widget in screen.children if widget.id not in TEXTUAL_WIDGETS)
        frame = next(own, None)
        if frame is None:
            return False
        frame.border_subtitle = Content(sentence)
        return True


class ToolScreen(AnswersKeys, Screen[ResultType]):
    """A screen whose actions the command table names; keys are letters while one types."""

    contexts: ClassVar[tuple[KeyContext, ...]] = ()
    """The parts of the table that work here; the first is the footer's."""

    def __init__(self) -> None:
        super().__init__()
        self.status = StatusLine()
        self.prompt = Prompt()
        self.footer = KeyFooter(self.contexts[0])
        self.below = (self.status, self.prompt, self.footer)

    @property
    @abstractmethod
    def home(self) -> Widget: ...

    def home_of(self, context: KeyContext) -> DOMNode:
        return self.home if context in (self.contexts[0], KeyContext.MOVE) else self

    def unbound(self, key: str) -> None:
        self.warn(why_nothing(key, getattr(self.app, "keys", {})))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.focused is not self.prompt.input

    def answer(self, sentence: str) -> bool:
        if not self.status.display:
            return False
        self.status.say(sentence)
        return True

    def warn(self, text: str) -> None:
        self.status.say(text, warning=True)

    def show_times(self) -> None:
        """Show times of launches that have been read since the screen was opened."""

    def note(self, text: str) -> None:
        """Show how a query fares, in the prompt's own line while it is open."""
        if self.prompt.display:
            self.prompt.note.update(f" {label(text)} " if text else "")
        elif text:
            self.status.say(label(text))

    def legend(self) -> list[tuple[str, str]]:
        """The signs of the row under the cursor, each with its meaning; for the help."""
        return []

    def fail(self, notice: Notice) -> None:
        self.warn(notice.message)

    def ask(self, kind: str, value: str, on_close: Closed, typing: Typing | None = None) -> None:

        def closed(text: str | None) -> None:
            self.status.display = True
            self.set_focus(self.home)
            on_close(text)

        self.status.display = False
        self.prompt.ask(kind, value, closed, typing)

    async def action_tell_app(self, name: str) -> None:
        await self.app.run_action(name)

    async def action_run(self, name: str) -> None:
        chosen_command = command(name)
        if self.focused is self.prompt.input:
            self.set_focus(self.home)
        await self.app.run_action(chosen_command.action, self.home_of(chosen_command.context))

    def action_back(self) -> None:
        self.dismiss()

    def action_escape(self) -> None:
        """Forget what is searched for or chosen; a screen without such goes back."""
        self.action_back()


BAD_EXPRESSION = (re.error, OverflowError, RecursionError)


def expression(text: str) -> re.Pattern[str]:
    """Compile as in vim's smartcase. Raises one of ``BAD_EXPRESSION``."""
    return re.compile(text, re.NOFLAG if any(c.isupper() for c in text) else re.IGNORECASE)


class SearchScreen(ToolScreen[ResultType]):
    """A screen with listings to search; the cursor goes to the first match while one types."""

    view: Any

    @property
    def home(self) -> Widget:
        home: Widget = self.view
        return home

    origin: tuple[Any, int, re.Pattern[str] | None] | None = None
    """View, line and pattern from before the prompt."""

    @abstractmethod
    def find(self, pattern: re.Pattern[str] | None, typing: bool = False) -> None:
        """Light up a pattern, or none, and go to its first match from ``origin``."""

    def action_search(self) -> None:
        view = self.view
        self.origin = view, view.cursor, view.pattern
        old_text = view.pattern.pattern if view.pattern else ""
        self.ask("search", old_text, self.searched, partial(self.look_for, typing=True))

    def searched(self, text: str | None) -> None:
        if text is not None:
            self.look_for(text)
        elif self.origin is not None:
            (view, n, pattern), self.origin = self.origin, None
            view.go(n)
            self.find(pattern)

    def look_for(self, text: str, typing: bool = False) -> None:
        """Search; what is typed and not yet an expression waits."""
        try:
            pattern = expression(text) if text else None
        except BAD_EXPRESSION as error:
            if not typing:
                self.warn(f"“{label(text)}” is not a regular expression: {error}")
            return
        if pattern is None and self.origin is not None:
            self.origin[0].go(self.origin[1])
        self.find(pattern, typing)


class Overlay(AnswersKeys, ModalScreen[None]):
    """Scrolls with the usual keys; Escape, q and its own key close it."""

    BINDINGS: ClassVar = [
        Binding("escape,q,question_mark,exclamation_mark,enter", "dismiss", "Close", show=False),
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
        Binding("space,pagedown", "scroll(10)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
    ]

    def __init__(
        self, heading: str, text: Content, footing: str = "", wide: bool = False, row: int = 0
    ) -> None:
        """``at`` is the row of the text that is to be in view, from 0."""
        super().__init__(classes="wide" if wide else None)
        self.row = row
        self.frame = VerticalScroll(Static(text))
        self.frame.border_title = Content(heading)
        self.frame.border_subtitle = Content(footing or "Esc closes")

    def compose(self) -> ComposeResult:
        yield self.frame

    def on_mount(self) -> None:
        if self.row:
            self.call_after_refresh(self.frame.scroll_to, y=max(self.row - 4, 0), animate=False)

    def action_scroll(self, rows: int) -> None:
        self.frame.scroll_relative(y=rows, animate=False)


class ChoiceList(AnswersKeys, ModalScreen[ResultType]):
    """Rows in a frame; ``j`` and ``k`` move, too. A subclass says what Enter does."""

    BINDINGS: ClassVar = [
        Binding("j", "cursor(1)", show=False),
        Binding("k", "cursor(-1)", show=False),
    ]

    def __init__(self, heading: str, options: OptionList, footing: str = "") -> None:
        super().__init__()
        self.options = options
        self.options.border_title = Content(heading)
        self.options.border_subtitle = Content(footing)

    def compose(self) -> ComposeResult:
        yield self.options

    def action_cursor(self, step: int) -> None:
        (self.options.action_cursor_down if step > 0 else self.options.action_cursor_up)()


class LineWidget(Widget):
    """A widget of one row or a few; what can be clicked in it looks like the rest."""

    auto_links: Reactive[bool] = Reactive(False)

    def tell(self, **values: object) -> None:
        for name, value in values.items():
            setattr(self, name, value)
        self.refresh()


def clickable(content: Content, action: str) -> Content:
    return content.stylize(Style.from_meta({"@click": action}))


def link(text: str, style: str, action: str) -> Content:
    return clickable(Content.styled(text, style), action)


def stage_tab(stage: Stage, text: str, style: str, suffix: str = " ") -> Content:
    """A name that shows a stage when it is clicked."""
    return clickable(Content.assemble(" ", (text, style), suffix), f"screen.stage({stage.value!r})")


def ends(left_content: Content, right_content: Content, width: int) -> Content:
    gap = max(1, width - left_content.cell_length - right_content.cell_length)
    return Content.assemble(left_content, " " * gap, right_content)


class StatusLine(LineWidget):
    """The line above the footer: where the cursor is, or a message until it moves."""

    def __init__(self) -> None:
        super().__init__()
        self._left = self._right = self._style = ""
        self._place: object = None
        """What the message is about, if there is one."""

    def say(self, text: str, warning: bool = False, place: object = None) -> None:
        """Show a message, safe to draw, until the cursor moves away from ``place``."""
        message, style = (f"⚠ {text}", "bold $warning") if warning else (text, "")
        self.tell(_left=message, _right="", _style=style, _place=place)

    def show(self, left: str, right: str, place: object = None) -> None:
        """Show where the cursor is, unless a message is about that very place."""
        if place is None or place != self._place:
            self.tell(_left=left, _right=right, _style="", _place=None)

    def render(self) -> Content:
        width = self.size.width - 2
        right = self._right if len(self._right) + 12 <= width else ""
        room = width - len(right) - 2 if right else width
        left_content = Content.styled(f" {cut(self._left, room)}", self._style)
        return (
            ends(left_content, Content.styled(right, "$accent"), width + 1)
            if right
            else left_content
        )


MIN_NAME_CELLS = 30
"""Cells that a name keeps if it is that long: facts at the right give way."""


FACTS_SEPARATOR = " · "


def fitting_facts(text: str, width: int) -> str:
    """As many whole facts as fit, the first of them cut at its end if it does not."""
    facts = text.split(FACTS_SEPARATOR)
    while len(facts) > 1 and cell_len(FACTS_SEPARATOR.join(facts)) > width:
        facts.pop()
    return cut(FACTS_SEPARATOR.join(facts), max(width, 0))


class SubjectBar(LineWidget):
    """``time  square_kernel 3f2a91c0      cupti · cold L2``."""

    def __init__(self, head: str, name: str, ident: str = "", right: str = "") -> None:
        super().__init__()
        self.head = head
        self.name_text = name
        self.ident = ident
        self.right = right
        self.part = ""

    def render(self) -> Content:
        width = self.size.width
        head = f" {self.head}  "
        part = f"  {self.part}" if self.part else ""
        name = label(self.name_text)
        room = width - len(head) - len(part) - 3
        ident = f" {self.ident}" if self.ident else ""
        if cell_len(name) + len(ident) + cell_len(self.right) > room:
            ident = ""
        right = fitting_facts(self.right, room - min(cell_len(name), MIN_NAME_CELLS))
        name = shorten(name, room - cell_len(right))
        left_content = Content.assemble((head, "bold"), name, (ident, "dim"), (part, "bold"))
        return ends(left_content, Content.styled(right, "bold $accent"), width - 1)


_KEPT = ("quit", "help", ".back", "escape")
_BARE = ("help", "palette", "quit")


class KeyFooter(LineWidget):
    """As many keys as fit; help and quit to the last. Each can be clicked."""

    def __init__(self, context: KeyContext) -> None:
        super().__init__()
        self.context = context
        self.bare = False
        """Whether only the keys are left that work where there is nothing to read."""
        self.watched = False
        """Whether there is a program whose output can be shown."""
        self.words: dict[str, str] = {}

    def render(self) -> Content:
        def key_of(footer_command: Command) -> str:
            return shown(footer_command, getattr(self.app, "keys", {}))

        items = [item for item in footer(self.context, key_of) if not self.bare or item[2] in _BARE]
        if self.watched and (key := key_of(command("output"))):
            items.insert(1, (key, "output", "output"))
        items = [(key, self.words.get(name, word), name) for key, word, name in items]
        while items and sum(len(k) + len(w) + 3 for k, w, _ in items) > self.size.width - 1:
            spare = [item for item in items if not item[2].endswith(_KEPT)]
            items.remove(spare[-1] if spare else items[-1])
        parts: list[Content | str] = [" "]
        for key, word, name in items:
            run = f"screen.run({name!r})"
            parts += [link(key, "bold $primary", run), link(f" {word}", "", run), "  "]
        return Content.assemble(*parts)
