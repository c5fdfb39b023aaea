"""Every command, once: its keys, what it is called, what it does, and where.

Key bindings, the footer, the command palette and the help are all made from ``TABLE``. To add a
command, add a row and the ``action_…`` method that it names, on the widget that ``where`` names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from textual.binding import Binding, BindingType


class Where(Enum):
    """Which widget has the action; its value heads the section of the help."""

    SCREEN = "Everywhere"
    PANE = "In a pane"
    TREE = "In the tree"


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    ``id`` is stable: keys can be bound anew by it. ``keys`` are Textual's names, the first is the
    one shown, as ``shown``. ``action`` is Textual's action string. ``footer`` is its word in the
    footer, "" where it has none; a few words of ``help`` are for the palette and the overlay.
    """

    id: str
    keys: str
    shown: str
    where: Where
    action: str
    title: str
    help: str
    footer: str = ""


_S, _P, _T = Where.SCREEN, Where.PANE, Where.TREE

# fmt: off
TABLE: tuple[Command, ...] = (
    Command("help", "question_mark,f1", "?", _S, "tell_app('help')",
            "Help", "all keys, and what the marks mean", "help"),
    Command("search", "slash", "/", _P, "screen.search",
            "Search", "a regular expression; capitals count once there is one", "search"),
    Command("tree.filter", "slash", "/", _T, "screen.filter",
            "Filter the tree", "as you type; every word must occur", "filter"),
    Command("stage.1", "1", "1", _S, "stage('source')", "Show source", "your own Python or CUDA"),
    Command("stage.2", "2", "2", _S, "stage('output_code')",
            "Show output_code", "what Inductor wrote"),
    Command("stage.3", "3", "3", _S, "stage('ttir')", "Show TTIR", "Triton's IR"),
    Command("stage.4", "4", "4", _S, "stage('ttgir')", "Show TTGIR", "Triton's IR with layouts"),
    Command("stage.5", "5", "5", _S, "stage('llir')", "Show LLVM IR", "what Triton gives to LLVM"),
    Command("stage.6", "6", "6", _S, "stage('ptx')", "Show PTX", "NVIDIA's virtual instructions"),
    Command("stage.7", "7", "7", _S, "stage('sass')", "Show SASS", "what the GPU runs"),
    Command("stage.next", "s", "s", _S, "next_stage(1)",
            "Next stage", "one lower, where there is one"),
    Command("stage.previous", "S", "S", _S, "next_stage(-1)",
            "Previous stage", "one higher, where there is one"),
    Command("pane.next", "tab", "Tab", _S, "next_pane(1)",
            "Next pane", "tree, first pane, second pane", "pane"),
    Command("pane.previous", "shift+tab", "⇧Tab", _S, "next_pane(-1)",
            "Previous pane", "the other way round"),
    Command("tree.toggle", "b", "b", _S, "toggle_tree",
            "Show or hide the tree", "more room for the panes", "tree"),
    Command("filter", "f,ctrl+f", "f", _S, "filter",
            "Filter the tree", "as you type; every word must occur", "filter"),
    Command("zoom", "z", "z", _S, "zoom", "Zoom", "this pane alone, and back", "zoom"),
    Command("turn", "v", "v", _S, "turn",
            "Turn the panes", "beside each other or one above the other", "turn"),
    Command("variant.next", "right_square_bracket", "]", _S, "step(1)",
            "Next variant", "without leaving the pane"),
    Command("variant.previous", "left_square_bracket", "[", _S, "step(-1)",
            "Previous variant", "without leaving the pane"),
    Command("tree.wider", "greater_than_sign", ">", _S, "widen(4)",
            "Wider tree", "four columns more"),
    Command("tree.narrower", "less_than_sign", "<", _S, "widen(-4)",
            "Narrower tree", "four columns less"),
    Command("problems", "exclamation_mark", "!", _S, "tell_app('problems')",
            "Problems", "what could not be recorded or read"),
    Command("theme", "T", "T", _S, "tell_app('other_theme')", "Dark or light", "the other theme"),
    Command("palette", "ctrl+p", "^p", _S, "tell_app('command_palette')",
            "Palette", "every command by its name", "palette"),
    Command("quit", "q", "q", _S, "tell_app('quit')", "Quit", "leave ptxview", "quit"),
    Command("up", "up,k", "↑ k", _P, "move(-1)", "Line up", ""),
    Command("down", "down,j", "↓ j", _P, "move(1)", "Line down", ""),
    Command("page.up", "pageup,ctrl+b", "PgUp", _P, "page(-1)", "Page up", ""),
    Command("page.down", "pagedown,space", "PgDn", _P, "page(1)", "Page down", ""),
    Command("half.up", "ctrl+u", "^u", _P, "page(-0.5)", "Half a page up", ""),
    Command("half.down", "ctrl+d", "^d", _P, "page(0.5)", "Half a page down", ""),
    Command("first", "g,home", "g", _P, "edge(-1)", "First line", ""),
    Command("last", "G,end", "G", _P, "edge(1)", "Last line", ""),
    Command("goto", "colon", ":", _P, "screen.goto", "Go to line", "by its number", "line"),
    Command("left", "left,h", "← h", _P, "sideways(-8)", "Scroll left", ""),
    Command("right", "right,l", "→ l", _P, "sideways(8)", "Scroll right", ""),
    Command("line.start", "0", "0", _P, "sideways(-1000000)",
            "Scroll to the start of the lines", ""),
    Command("match.next", "n", "n", _P, "match(1)", "Next match", ""),
    Command("match.previous", "N", "N", _P, "match(-1)", "Previous match", ""),
    Command("clear", "escape", "Esc", _P, "clear", "Forget the search", ""),
    Command("follow", "enter", "Enter", _P, "screen.follow",
            "Follow the link", "to the lines it is linked with, in the other pane"),
    Command("verbatim", "w", "w", _P, "verbatim",
            "All spaces of SASS", "or fewer, which is how it is shown at first"),
    Command("copy", "y", "y", _P, "screen.copy",
            "Copy the line", "to the clipboard, over SSH as well", "copy"),
    Command("tree.up", "up,k", "↑ k", _T, "move(-1)", "Row up", ""),
    Command("tree.down", "down,j", "↓ j", _T, "move(1)", "Row down", ""),
    Command("tree.page.up", "pageup,ctrl+b", "PgUp", _T, "page(-1)", "Page up", ""),
    Command("tree.page.down", "pagedown", "PgDn", _T, "page(1)", "Page down", ""),
    Command("tree.first", "g,home", "g", _T, "edge(-1)", "First row", ""),
    Command("tree.last", "G,end", "G", _T, "edge(1)", "Last row", ""),
    Command("tree.open", "enter", "Enter", _T, "screen.read", "Read it", "go to the panes", "read"),
    Command("tree.unfold", "right,l", "→ l", _T, "unfold",
            "Unfold", "or go to the first row beneath"),
    Command("tree.fold", "left,h", "← h", _T, "fold", "Fold", "or go to the row above"),
    Command("tree.flip", "space", "Space", _T, "flip", "Fold or unfold", ""),
    Command("tree.clear", "escape", "Esc", _T, "screen.clear_filter", "Forget the filter", ""),
)
# fmt: on

MARKS: tuple[tuple[str, str], ...] = (
    ("▸ ▹", "the cursor's line, in the pane that has the focus and in the others"),
    ("▐", "a line that comes from the same place as the cursor's line in the other pane"),
    ("⚠", "registers are spilled to local memory"),
    ("–", "not known: nothing on this machine or in the recording says it"),
    ("‹ ›", "the line goes on to the left or to the right"),
    ("␛", "a control character; nothing in a listing is obeyed"),
)
"""The signs that the screens use, for the help."""


def bindings(where: Where) -> list[BindingType]:
    """The key bindings of the widget that has these actions.

    They have priority: such a key is acted upon before the next one is handed on. Without it a
    key that moves the focus and the one typed after it, which arrive together over a slow line,
    would both go to the widget that had the focus before.
    """
    return [
        Binding(
            command.keys, command.action, command.title, show=False, priority=True, id=command.id
        )
        for command in TABLE
        if command.where is where
    ]


def footer(where: Where) -> tuple[tuple[str, str, str], ...]:
    """(key, word, command id) in the order in which they may be left out, the last kept longest."""
    chosen = [c for c in TABLE if c.footer and c.where in (where, Where.SCREEN)]
    if where is Where.TREE:
        chosen = [c for c in chosen if c.id != "filter"]  # "/" says it already
    out = [(c.shown, c.footer, c.id) for c in chosen]
    out.insert(2, ("1-7", "stage", "stage.next"))
    return tuple(out)


def command(name: str) -> Command:
    """The command with that id."""
    return next(c for c in TABLE if c.id == name)
