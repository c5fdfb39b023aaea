"""The first frame: stands at once, while a thread loads the rest of us and reads the recording.

It has the rows of the tree where they are kept from before, drawn where they will stand. This
module and what it imports are all that the first frame needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static

from inspector.tui.tree.kept_tree import KeptTree
from inspector.tui.tree.row_look import HEIGHTS, TreeRows, tree_width
from inspector.tui.widgets.visible import label

if TYPE_CHECKING:
    from inspector.reader.reader import Reader
    from inspector.tui.app.remembered import View
    from inspector.tui.program.live import Live

    Opener = Callable[[], tuple[Reader, Live | None]]
else:
    Opener = Callable

MOST_KEYS = 64
"""Keys that are kept for who can answer them."""


class FirstRows(TreeRows, can_focus=True):
    """Rows that are kept from before, the cursor on the one that will have it."""

    def __init__(self, tree: KeptTree, subject: Sequence[str]) -> None:
        super().__init__()
        self.rows, self.cursor = tree.shown(subject)
        self.virtual_size = Size(0, len(self.rows))

    def on_resize(self) -> None:
        """The cursor stays in view."""
        self.reveal(self.cursor, self.size.height)

    def render_line(self, y: int) -> Strip:
        """Row ``y`` of the view."""
        width = self.scrollable_content_region.width
        index = self.scroll_offset.y + y
        if index >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        row = self.rows[index]
        return self.drawn(row.look, width, index == self.cursor, row.fitted)


class Opening(Screen[None]):
    """The first line of the screen that comes, what is being read, and the rows of its tree.

    Keys are kept, for the screen that comes to answer them.
    """

    # The styles of the rest take as long to read as this screen to draw: they come with it.
    DEFAULT_CSS = """
    Opening { background: $background; color: $foreground; }
    Opening .title { height: 1; background: $panel; }
    Opening .line { height: 1; background: $surface; color: $quiet; }
    Opening FirstRows { height: 1fr; }
    Opening .below { height: 4; }
    Opening.-low .below { height: 1; }
    Opening.-short .below { height: 2; }
    Opening.-tall .below { height: 3; }
    Opening.-ample .below { height: 8; }
    Opening.-vast .below { height: 10; }
    Opening.-low .line, Opening.-short .line { display: none; }
    """
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar = [Binding("q", "app.quit", show=False)]
    AUTO_FOCUS = "FirstRows"

    def __init__(self, name: str, tree: KeptTree | None = None, view: View | None = None) -> None:
        super().__init__()
        self.name_shown = label(name)
        self.tree_width = None if view is None else view.tree_width
        self.rows: FirstRows | None = None
        self.title_parts: tuple[str, ...] = (self.name_shown,)
        if tree is not None and (view is None or view.tree):
            self.rows = FirstRows(tree, () if view is None else view.subject)
            self.title_parts = tree.title
        self.keys: list[events.Key] = []

    def compose(self) -> ComposeResult:
        """A title as it will be, a word, and rows as they will be."""
        title = f"  {' · '.join(self.title_parts)}"
        yield Static(Content.assemble(" ", ("ptxview", "bold"), title), classes="title")
        word = f" ◔ Reading {self.name_shown} …"
        if self.rows is None:
            yield Static(word, markup=False)
        else:
            yield Static(word, markup=False, classes="line")
            self._fit(self.app.size.width)
            yield self.rows
            yield Static(classes="below")

    def _fit(self, width: int) -> None:
        """The tree gives way when it gets narrow."""
        if self.rows is not None:
            wanted = tree_width(self.tree_width, width)
            self.rows.styles.width = "1fr" if wanted is None else wanted

    def on_resize(self, event: events.Resize) -> None:
        """The tree is as wide as the screen lets it be."""
        self._fit(event.size.width)

    def on_key(self, event: events.Key) -> None:
        """Keep it."""
        if len(self.keys) < MOST_KEYS:
            self.keys.append(event)


def load(opener: Opener) -> tuple[Reader, Live | None]:
    """What ``opener`` gives, once all is loaded that shows it. Takes a while: for a thread."""
    import inspector.tui.main.main_screen  # noqa: F401

    return opener()
