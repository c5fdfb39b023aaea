"""The table of all commands: keys, titles, help, actions and places.

Key bindings, the footer, the command palette and the help are all made from ``TABLE``. To add a
command, add a row and the ``action_…`` method that it names, on the widget that ``where`` names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from textual.binding import Binding, BindingType
from textual.keys import KEY_NAME_REPLACEMENTS, Keys, _character_to_key, key_to_character


class Where(Enum):
    """Which widget has the action; its value heads the section of the help."""

    SCREEN = "Everywhere"
    PANE = "In a pane"
    TREE = "In the tree"
    DIFF = "Comparing two variants"
    VARIANTS = "In the table of variants"
    TIMING = "Taking a time"
    STEP = "Running a block, step by step"
    PASSES = "Pass by pass"
    TRYING = "Trying an edited stage"


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    ``id`` is stable: keys can be rebound by it. ``keys`` are Textual's names, the first is the one
    shown. ``footer`` is its word in the footer, "" if it has none.
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
_D, _V, _M, _X = Where.DIFF, Where.VARIANTS, Where.TIMING, Where.STEP
_Z = Where.PASSES
_Y = Where.TRYING


def _moves(where: Where, prefix: str, unit: str, down: str = "pagedown,space") -> list[Command]:
    return [
        Command(f"{prefix}up", "up,k", "↑ k", where, "move(-1)", f"{unit} up", ""),
        Command(f"{prefix}down", "down,j", "↓ j", where, "move(1)", f"{unit} down", ""),
        Command(f"{prefix}page.up", "pageup,ctrl+b", "PgUp", where, "page(-1)", "Page up", ""),
        Command(f"{prefix}page.down", down, "PgDn", where, "page(1)", "Page down", ""),
        Command(f"{prefix}first", "g,home", "g", where, "edge(-1)", f"First {unit.lower()}", ""),
        Command(f"{prefix}last", "G,end", "G", where, "edge(1)", f"Last {unit.lower()}", ""),
    ]


def _far_moves(where: Where, prefix: str) -> list[Command]:
    return [
        Command(f"{prefix}half.up", "ctrl+u", "^u", where, "page(-0.5)", "Half a page up", ""),
        Command(f"{prefix}half.down", "ctrl+d", "^d", where, "page(0.5)", "Half a page down", ""),
        Command(f"{prefix}left", "left,h", "← h", where, "sideways(-8)", "Scroll left", ""),
        Command(f"{prefix}right", "right,l", "→ l", where, "sideways(8)", "Scroll right", ""),
        Command(f"{prefix}line.start", "0", "0", where, "sideways(-1000000)", "Start of lines", ""),
    ]


# fmt: off
TABLE: tuple[Command, ...] = (
    Command("help", "question_mark,f1", "?", _S, "tell_app('help')",
            "Help", "the keys of where you are, then all others; typing searches, Enter runs",
            "help"),
    Command("search", "slash", "/", _P, "screen.search",
            "Search", "a regular expression; capitals count once there is one", "search"),
    Command("tree.filter", "slash", "/", _T, "screen.filter",
            "Filter the tree", "as you type; every word must occur", "filter"),
    Command("tree.order", "o", "o", _T, "order",
            "Order", "as compiled, by registers, spills, time or name", "order"),
    Command("stage.1", "1", "1", _S, "stage('source')", "Show source", "your own Python or CUDA"),
    Command("stage.2", "2", "2", _S, "stage('output_code')",
            "Show output_code", "what Inductor wrote"),
    Command("stage.3", "3", "3", _S, "stage('ttir')", "Show TTIR", "Triton's IR"),
    Command("stage.4", "4", "4", _S, "stage('ttgir')", "Show TTGIR", "Triton's IR with layouts"),
    Command("stage.5", "5", "5", _S, "stage('llir')", "Show LLVM IR", "what Triton gives to LLVM"),
    Command("stage.6", "6", "6", _S, "stage('ptx')", "Show PTX", "NVIDIA's virtual instructions"),
    Command("stage.7", "7", "7", _S, "stage('sass')", "Show SASS", "what the GPU runs"),
    Command("stage.8", "8", "8", _S, "graph_stage",
            "Show the graph", "which operators of which modules each call has; again: its FX "
            "graphs and Inductor's IR"),
    Command("stage.next", "s", "s", _S, "next_stage(1)",
            "Next stage", "one lower, where there is one"),
    Command("stage.previous", "S", "S", _S, "next_stage(-1)",
            "Previous stage", "one higher, where there is one"),
    Command("pane.next", "tab", "Tab", _S, "next_pane(1)",
            "Next pane", "tree, then pane after pane", "pane"),
    Command("pane.previous", "shift+tab", "⇧Tab", _S, "next_pane(-1)",
            "Previous pane", "the other way round"),
    Command("tree.toggle", "b", "b", _S, "toggle_tree",
            "Show or hide the tree", "more room for the panes", "tree"),
    Command("filter", "f,ctrl+f", "f", _S, "filter",
            "Filter the tree", "as you type; every word must occur", "filter"),
    Command("zoom", "z", "z", _S, "zoom", "Zoom", "this pane alone, and back", "zoom"),
    Command("turn", "v", "v", _S, "turn",
            "Turn the panes", "beside each other or one above the other", "turn"),
    Command("pane.more", "p", "p", _S, "pane_more",
            "One pane more", "up to three; then the active one alone"),
    Command("pane.fewer", "P", "P", _S, "pane_fewer", "Close this pane", ""),
    Command("layout", "L", "L", _S, "layout",
            "Next layout", "source · PTX · SASS; source · output_code · PTX; one pane"),
    Command("layout.lowering", "f3", "F3", _S, "lay('lowering')",
            "Layout: source · PTX · SASS", "three panes, from what you wrote to what runs"),
    Command("layout.generated", "f4", "F4", _S, "lay('generated')",
            "Layout: source · output_code · PTX", "three panes, with what torch.compile wrote"),
    Command("layout.whole", "f5", "F5", _S, "lay('whole')",
            "Layout: whole", "this pane alone; the others are closed"),
    Command("borders", "equals_sign", "=", _S, "even",
            "Borders as at first", "tree and panes"),
    Command("map", "m", "m", _S, "map",
            "Map", "each line in the colour of its source line; panes scroll together", "map"),
    Command("variant.next", "right_square_bracket", "]", _S, "step(1)",
            "Next variant", "without leaving the pane"),
    Command("variant.previous", "left_square_bracket", "[", _S, "step(-1)",
            "Previous variant", "without leaving the pane"),
    Command("card", "i", "i", _S, "understand('card')",
            "Card", "what it takes, what limits it, what it is made of", "card"),
    Command("hints", "H", "H", _S, "understand('hints')",
            "Hints", "what may be worth changing, and where", "hints"),
    Command("mark", "d", "d", _S, "mark",
            "Mark the variant", "two are A and B; again takes the mark away", "mark"),
    Command("compare", "D", "D", _S, "compare",
            "Differences", "between the two marked variants", "diff"),
    Command("edited", "B", "B", _S, "edited",
            "What the edit changed", "in this variant, since it was compiled before it"),
    Command("time", "t", "t", _S, "time",
            "Time it", "launch it again on this machine's GPU; the times taken before", "time"),
    Command("block", "x", "x", _S, "step_block",
            "Run a block", "its PTX, here and without a GPU, step by step: values by line", "run"),
    Command("cost", "dollar_sign", "$", _S, "cost",
            "Cost", "which kernels cost most and why; what tuning compared, round by round",
            "cost"),
    Command("compiles", "K", "K", _S, "compiles",
            "Compiles", "a timeline of what was compiled; graph breaks, recompiles and dynamic "
            "shapes, each with its line"),
    Command("passes", "Z", "Z", _S, "passes",
            "Passes", "what each pass of Triton's compiler changed, and how long it took"),
    Command("profile", "M", "M", _S, "understand('profile')",
            "Profile", "operators and kernels as torch.profiler saw them, and who launched which"),
    Command("edit", "E", "E", _S, "edit",
            "Edit", "in $EDITOR, else vi or nano, at this line: your source, else a copy; IR or "
            "PTX that you change goes through the rest of its compiler"),
    Command("export", "X", "X", _S, "export",
            "Save the listing", "with all annotations, in the current folder"),
    Command("screenshot", "ctrl+s", "^s", _S, "screenshot",
            "Save a picture", "of the screen (SVG), in the current folder"),
    Command("problems", "exclamation_mark", "!", _S, "tell_app('problems')",
            "Problems", "what could not be recorded or read"),
    Command("output", "O", "O", _S, "tell_app('output')",
            "Output", "what the program writes; again to hide it"),
    Command("theme", "T", "T", _S, "tell_app('other_theme')", "Dark or light", "the other theme"),
    Command("palette", "ctrl+p", "^p", _S, "tell_app('find')",
            "Palette", "kernels, variants, ids, labels, hints, stages and commands by name",
            "palette"),
    Command("redraw", "ctrl+l", "^l", _S, "tell_app('redraw')",
            "Redraw", "after something else has written on the terminal"),
    Command("quit", "q,ctrl+c", "q", _S, "tell_app('quit')", "Quit", "leave ptxview", "quit"),
    *_moves(_P, "", "Line"),
    *_far_moves(_P, ""),
    Command("goto", "colon", ":", _P, "screen.goto", "Go to line", "by its number", "line"),
    Command("match.next", "n", "n", _P, "match(1)", "Next match", ""),
    Command("match.previous", "N", "N", _P, "match(-1)", "Previous match", ""),
    Command("clear", "escape", "Esc", _P, "screen.clear",
            "Forget", "the chosen lines, else the search"),
    Command("follow", "enter", "Enter", _P, "screen.follow",
            "Follow", "the branch or call on this line; elsewhere to the next pane's linked line"),
    Command("along", "J", "J", _P, "along",
            "Along the branch", "to its label, from there back; else to the head of the loop"),
    Command("back", "comma,alt+left,ctrl+o,backspace", ",", _P, "screen.history(-1)",
            "Back", "to where the last jump began"),
    Command("forward", "full_stop,alt+right", ".", _P, "screen.history(1)", "Forward", "again"),
    Command("frames", "I", "I", _P, "screen.frames",
            "Where it comes from", "every place that the line was inlined from"),
    Command("explain", "e", "e", _P, "screen.understand('explain')",
            "Explain", "the instruction and its qualifiers, from the reference", "explain"),
    Command("register", "r", "r", _P, "screen.register",
            "Next register", "light up where the line's next register is defined and used"),
    Command("definition", "a", "a", _P, "definition",
            "Definition", "where the register that is lit up is assigned"),
    Command("use.next", "u", "u", _P, "use(1)", "Next use", "of the value in it"),
    Command("use.previous", "U", "U", _P, "use(-1)", "Previous use", ""),
    Command("label.next", "right_parenthesis", ")", _P, "screen.label(1)", "Next label", ""),
    Command("label.previous", "left_parenthesis", "(", _P, "screen.label(-1)",
            "Previous label", ""),
    Command("note.next", "right_curly_bracket", "}", _P, "note(1)", "Next note", ""),
    Command("note.previous", "left_curly_bracket", "{", _P, "note(-1)", "Previous note", ""),
    Command("columns", "c", "c", _P, "columns",
            "Columns", "live registers, stall cycles as well, or only notes"),
    Command("columns.choose", "C", "C", _P, "screen.choose_columns",
            "Choose columns", "one by one"),
    Command("largest.live", "R", "R", _P, "largest('live')",
            "Peak of registers", "where the most are live; again the next largest"),
    Command("largest.stall", "A", "A", _P, "largest('stall')",
            "Longest stall", "the line with the most stall cycles; again the next"),
    Command("largest.samples", "percent_sign", "%", _P, "largest('samples')",
            "Most samples", "the line with most of a profiler's samples; again the next"),
    Command("fold", "minus", "-", _P, "fold",
            "Fold or unfold", "the function, debug section or comment here"),
    Command("fold.level", "F", "F", _P, "fold_level",
            "What is folded", "marks and debug sections; comments too; functions too; nothing"),
    Command("pane.wider", "greater_than_sign", ">", _P, "screen.widen_pane(4)",
            "Wider pane", "or higher, where they stand above each other"),
    Command("pane.narrower", "less_than_sign", "<", _P, "screen.widen_pane(-4)",
            "Narrower pane", "or lower"),
    Command("wrap", "W", "W", _P, "wrap", "Wrap", "long lines, or let them go on to the right"),
    Command("verbatim", "w", "w", _P, "verbatim",
            "The file as it is", "every line, name and space; or for reading, as at first"),
    Command("choose", "V", "V", _P, "choose",
            "Choose lines", "from here to where the cursor goes; y copies them"),
    Command("copy", "y", "y", _P, "screen.copy",
            "Copy", "the chosen lines or this one, over SSH as well", "copy"),
    Command("copy.all", "Y", "Y", _P, "screen.copy_all", "Copy the whole listing", ""),
    *_moves(_T, "tree.", "Row", down="pagedown"),
    Command("tree.wider", "greater_than_sign", ">", _T, "screen.widen(4)",
            "Wider tree", "four columns more"),
    Command("tree.narrower", "less_than_sign", "<", _T, "screen.widen(-4)",
            "Narrower tree", "four columns less"),
    Command("tree.open", "enter", "Enter", _T, "screen.read", "Read it", "go to the panes", "read"),
    Command("tree.unfold", "right,l", "→ l", _T, "unfold",
            "Unfold", "or go to the first row beneath"),
    Command("tree.fold", "left,h", "← h", _T, "fold", "Fold", "or go to the row above"),
    Command("tree.flip", "space", "Space", _T, "flip", "Fold or unfold", ""),
    Command("tree.clear", "escape", "Esc", _T, "screen.clear_filter", "Forget the filter", ""),
    Command("tree.variants", "V", "V", _T, "screen.variants",
            "Table of variants", "of this kernel, group, graph or origin, with all figures; again: "
            "of the recording", "variants"),
    Command("diff.next", "n", "n", _D, "screen.again(1)",
            "Next", "match of the search; without one the next change", "next change"),
    Command("diff.previous", "N", "N", _D, "screen.again(-1)",
            "Previous", "match of the search, or change"),
    Command("diff.search", "slash", "/", _D, "screen.search",
            "Search", "a regular expression, on both sides", "search"),
    Command("diff.change.next", "right_square_bracket", "]", _D, "change(1)",
            "Next change", "round the ends"),
    Command("diff.change.previous", "left_square_bracket", "[", _D, "change(-1)",
            "Previous change", "round the ends"),
    Command("diff.unfold", "enter,minus", "Enter", _D, "unfold",
            "Unfold", "the equal lines under the cursor, or fold them again", "unfold"),
    Command("diff.unfold.all", "F", "F", _D, "unfold_all",
            "Unfold all", "every equal line, or none", "all"),
    Command("diff.figures", "i", "i", _D, "screen.figures",
            "Figures", "all that differ: resources, costs, accesses, opcodes", "figures"),
    Command("diff.words", "e", "e", _D, "screen.words",
            "Explanation", "show or hide what explains what", "explanation"),
    Command("diff.exchange", "x", "x", _D, "screen.exchange",
            "Exchange", "a for b", "exchange"),
    Command("diff.exact", "equals_sign", "=", _D, "screen.exact",
            "Exact", "compare the text: names, numbers and comments count", "exact"),
    Command("diff.turn", "v", "v", _D, "turn",
            "Turn", "the two beside each other, or in one column", "turn"),
    Command("diff.escape", "escape", "Esc", _D, "screen.escape",
            "Forget, or back", "the search; without one to the kernels", "back"),
    Command("diff.back", "q,ctrl+c", "q", _D, "screen.back", "Back", "to the kernels"),
    *_moves(_D, "diff.", "Row"),
    *_far_moves(_D, "diff."),
    Command("variants.mark", "d,space", "d", _V, "mark",
            "Mark", "for the diff: the first is A, the second B", "mark"),
    Command("variants.diff", "D", "D", _V, "screen.diff",
            "Diff", "of the two that are marked, or of the marked one and this", "diff"),
    Command("variants.open", "enter", "Enter", _V, "screen.open",
            "Read it", "go to it in the tree", "read"),
    Command("variants.sort.next", "o,right,l", "o", _V, "sort(1)",
            "Order", "by the next column", "order"),
    Command("variants.sort.previous", "O,left,h", "O", _V, "sort(-1)",
            "Order", "by the column before"),
    Command("variants.reverse", "r", "r", _V, "reverse",
            "Reverse", "the largest first, or the least", "reverse"),
    Command("variants.filter", "slash", "/", _V, "screen.filter",
            "Filter", "as you type; every word must occur", "filter"),
    Command("variants.wider", "V", "V", _V, "screen.wider",
            "All variants", "of the recording", "all"),
    Command("variants.escape", "escape", "Esc", _V, "screen.escape",
            "Forget, or back", "the filter; without one to the kernels", "back"),
    Command("variants.back", "q,ctrl+c", "q", _V, "screen.back", "Back", "to the kernels"),
    *_moves(_V, "variants.", "Row", down="pagedown,ctrl+d"),
    Command("timing.take", "t,enter", "t", _M, "take('cupti')",
            "Take the time", "the kernel's own duration, by CUPTI", "time"),
    Command("timing.all", "a", "a", _M, "take('all')",
            "All stopwatches", "side by side, and why they differ", "all stopwatches"),
    Command("timing.cache", "c", "c", _M, "cache",
            "State of the L2", "before each launch: cold, hot or dirty", "L2"),
    Command("timing.yes", "y", "y", _M, "answer(True)",
            "Yes", "run the machine code of this recording, which is not yours"),
    Command("timing.no", "n", "n", _M, "answer(False)", "No", "do not run it"),
    Command("timing.back", "escape,q,ctrl+c", "Esc", _M, "back",
            "Stop, or back", "what runs is ended; else to the kernels", "back"),
    *_moves(_M, "timing.", "Line"),
    Command("trying.compare", "enter,D", "Enter", _Y, "compare",
            "Differences", "between the recorded kernel and the edited one, at every stage",
            "diff"),
    Command("trying.edit", "E", "E", _Y, "edit",
            "Edit again", "your text, at the first line that a compiler complains of", "edit"),
    Command("trying.back", "escape,q,ctrl+c", "Esc", _Y, "back",
            "Stop, or back", "what runs is ended; else to the kernels", "back"),
    *_moves(_Y, "trying.", "Line"),
    Command("step.next", "n", "n", _X, "go('next')", "Next", "step", "next"),
    Command("step.back", "b", "b", _X, "go('back')", "Back", "a step; every one was kept", "back"),
    Command("step.mine", "m", "m", _X, "go('mine')",
            "Mine", "the next step that the chosen lane runs", "mine"),
    Command("step.until", "u", "u", _X, "until", "Until here",
            "the next step on the cursor's line, or on what is tied to it", "until here"),
    Command("step.before", "U", "U", _X, "before",
            "Back to here", "the last step before this one on the cursor's line"),
    Command("step.lanes", "enter", "Enter", _X, "lanes", "Lanes",
            "of the warp and the block: what the cursor's line gave each; chooses one", "lanes"),
    Command("step.registers", "r", "r", _X, "registers", "Registers",
            "beside the panes or over them: those that are live, by the source's names",
            "registers"),
    Command("step.nan", "N", "N", _X, "go('nan')",
            "NaN", "the next step that gives a lane a NaN", "NaN"),
    Command("step.parts", "p", "p", _X, "ask('parts')", "Parts",
            "the next step that one of two lanes runs and the other does not", "part"),
    Command("step.store", "s", "s", _X, "ask('store')", "Store",
            "the next step that stores to an address: output_ptr+40 (bytes), 0x7f…", "store"),
    Command("step.hottest", "H", "H", _X, "hottest", "Hottest line",
            "that warps executed most; again the next", "hottest"),
    Command("step.columns", "c", "c", _X, "columns", "Columns",
            "values; with them times executed, active lanes, partings, sectors, conflicts",
            "columns"),
    Command("step.facts", "f", "f", _X, "facts", "Counted of",
            "this block alone, or of as many as are cheap", ""),
    Command("step.lane.previous", "left_square_bracket", "[", _X, "lane(-1)", "Previous lane", ""),
    Command("step.lane.next", "right_square_bracket", "]", _X, "lane(1)", "Next lane", ""),
    Command("step.warp.previous", "left_curly_bracket", "{", _X, "lane(-32)",
            "Previous warp", ""),
    Command("step.warp.next", "right_curly_bracket", "}", _X, "lane(32)", "Next warp", ""),
    Command("step.lane", "L", "L", _X, "ask('lane')", "Lane", "by its number in the block"),
    Command("step.go", "number_sign", "#", _X, "ask('go')", "Go to a step", "by its number"),
    Command("step.start", "less_than_sign", "<", _X, "go('start')", "Start", "the first step"),
    Command("step.end", "greater_than_sign", ">", _X, "go('end')", "End", "the last step"),
    Command("step.where", "w", "w", _X, "where",
            "Where", "back to the line of the step"),
    Command("step.block", "B", "B", _X, "ask('block')",
            "Another block", "of the same launch, by its coordinates"),
    Command("step.escape", "escape", "Esc", _X, "escape",
            "Stop, forget, or back", "what runs is ended; the search; else to the kernels", "back"),
    Command("step.leave", "q,ctrl+c", "q", _X, "back", "Back", "to the kernels"),
    Command("passes.look", "enter,tab,right,l", "Enter", _Z, "screen.look",
            "Read it", "go to what this pass changed; Esc comes back", "read"),
    Command("passes.search", "slash", "/", _Z, "screen.find",
            "Search", "an operation or a pass; +tt.dot: which made it, -tt.dot: took it away",
            "search"),
    Command("passes.stage", "s", "s", _Z, "stage",
            "Next stage", "the passes that make TTIR, TTGIR, LLVM IR or PTX alone; then all",
            "stage"),
    Command("passes.every", "a", "a", _Z, "every",
            "All passes", "those that changed nothing, too", "all"),
    Command("passes.change.next", "right_square_bracket,n", "]", _Z, "screen.change(1)",
            "Next change", "of this pass, round the ends", "change"),
    Command("passes.change.previous", "left_square_bracket,N", "[", _Z, "screen.change(-1)",
            "Previous change", "of this pass, round the ends"),
    Command("passes.remarks", "r", "r", _Z, "screen.remarks",
            "Remarks", "what was compiled, and how it differs from what was recorded", "remarks"),
    Command("passes.escape", "escape", "Esc", _Z, "screen.escape",
            "Forget, or back", "the filter; without one to the kernels", "back"),
    Command("passes.back", "q,ctrl+c", "q", _Z, "screen.back", "Back", "to the kernels"),
    *_moves(_Z, "passes.", "Row"),
)
# fmt: on

SHARED = (
    "help",
    *(f"stage.{n}" for n in range(1, 8)),
    "stage.next",
    "stage.previous",
    "theme",
    "redraw",
    "palette",
)
"""Commands of the main screen in a diff."""

BARE = ("help", "theme", "redraw", "palette")
"""Commands of the main screen in tables and on work screens."""

BESIDE = (
    *(name for name in SHARED if not name.startswith("stage.") or name[-1].isdigit()),
    "pane.next",
    "pane.previous",
    "zoom",
    "turn",
    "up",
    "down",
    "page.up",
    "page.down",
    "half.up",
    "half.down",
    "first",
    "last",
    "goto",
    "left",
    "right",
    "line.start",
    "search",
    "columns.choose",
    "fold",
    "fold.level",
    "wrap",
    "explain",
    "copy",
    "screenshot",
)
"""Commands of the main screen and of panes on the step screen."""

ALSO = {
    Where.DIFF: SHARED,
    Where.VARIANTS: BARE,
    Where.TIMING: BARE,
    Where.STEP: BESIDE,
    Where.PASSES: BARE,
    Where.TRYING: BARE,
}
"""Commands of the main screen on the screens over it."""

MARKS: tuple[tuple[str, str], ...] = (
    ("⇒", "where a block is run: the line of the step at hand"),
    ("[ ]", "there: a value from before, the lane did not run the line's last step"),
    ("▸ ▹", "the cursor's line, in the pane that has the focus and in the others"),
    ("▐", "a line that comes from the same place as the cursor's line in the other pane"),
    ("● ○", "defines, uses the register that is looked at"),
    ("… 62", "folded lines; - shows them"),
    ("◂ = ◆ ▐ ▴", "in the scrollbar: cursor, matches, notes, linked lines, peaks of registers"),
    ("A B", "in the tree: the variants that are marked"),
    ("↪", "the line above goes on here"),
    ("∘", "in the tree: the operators of the program that were fused into the kernel above"),
    ("⚠ ◆ ·", "a note on the line, or in the tree registers spilled to local memory"),
    ("★", "in the tree and the table of variants: the one that a tuner chose"),
    ("✗", "in the table of variants: did not compile, or could not be loaded"),
    ("×6", "in the tree: so many variants of one name, folded or not"),
    ("…", "in the tree and the table of variants: not read yet"),
    ("°", "a time that the program's own tuner took; those without it were taken here, with t"),
    ("–", "not known: nothing on this machine or in the recording says it"),
    ("~ - +", "in a diff: lines that changed, that only a has, that only b has"),
    ("» «", "in a diff: lines that moved away, that moved here; where to, where from"),
    ("╭ ╰ ▸", "a branch, from its line to its label; ▹ ╶ are ends of one further out"),
    ("┏ ┃ ┗", "a loop: a branch that goes back; a click on either goes along"),
    ("▁ █", "how many of the kernel's largest count of live registers are live on the line"),
    ("a B", "with the map on and without colours: lines of one letter come from one line"),
    ("‹ ›", "the line goes on to the left or to the right"),
    ("␛", "a control character; nothing in a listing is obeyed"),
)


def bindings(where: Where) -> list[BindingType]:
    """The key bindings of the widget that has these actions.

    They have priority: else keys that arrive together would all go to the widget in focus.
    """
    return bindings_of(tuple(command.id for command in TABLE if command.where is where))


def of_screen(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of these commands that a screen has itself, and not the pane in it."""
    return tuple(c.id for c in TABLE if c.id in names and c.where is Where.SCREEN)


def bindings_of(names: tuple[str, ...]) -> list[BindingType]:
    return [
        Binding(
            command.keys, command.action, command.title, show=False, priority=True, id=command.id
        )
        for command in TABLE
        if command.id in names
    ]


def there(wheres: tuple[Where, ...]) -> tuple[Command, ...]:
    names = {name for where in wheres for name in ALSO.get(where, ())}
    return tuple(c for c in TABLE if c.where in wheres or c.id in names)


def footer(
    where: Where, shown: Callable[[Command], str] = lambda one: one.shown
) -> tuple[tuple[str, str, str], ...]:
    """(key, word, command id), the last kept longest; ``shown`` gives a command's key or ""."""
    alone = where in ALSO
    chosen = [c for c in there((where,) if alone else (where, Where.SCREEN)) if c.footer]
    if alone:
        chosen.sort(key=lambda c: (c.id != "help", c.where is not where))
    if where is Where.TREE:
        chosen = [c for c in chosen if c.id != "filter"]  # "/" says it already
    out = [(key, c.footer, c.id) for c in chosen if (key := shown(c))]
    if ALSO.get(where) is not BARE:
        out.insert(2, ("1-7", "stage", "stage.next"))
    return tuple(out)


def command(name: str) -> Command:
    return next(c for c in TABLE if c.id == name)


UNBOUND = "unbound"

MODIFIERS = ("ctrl", "alt", "shift")
_KEY = re.compile(rf"((?:(?:{'|'.join(MODIFIERS)})\+)*)(.|\w+)", re.IGNORECASE | re.DOTALL)
_REPLACED = {short: long for long, short in KEY_NAME_REPLACEMENTS.items()}
_NAMES = {key.value for key in Keys if "+" not in key.value and not key.value.startswith("<")}
_SHORT = {
    "escape": "Esc",
    "enter": "Enter",
    "tab": "Tab",
    "space": "Space",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "home": "Home",
    "end": "End",
    "backspace": "⌫",
    "delete": "Del",
    "insert": "Ins",
}


def parse_key(text: str) -> str | None:
    """Textual's name of a key written as ``/``, ``ctrl+x`` or ``f5``; None if invalid."""
    match = _KEY.fullmatch(text)
    if match is None or (len(match[2]) == 1 and not match[2].isprintable()):
        return None
    held, last = set(match[1].lower().split("+")), match[2]
    if len(last) > 1:
        last = last.lower()
        character = key_to_character(_REPLACED.get(last, last))
        if last not in _NAMES and (character is None or _character_to_key(character) != last):
            return None
    else:
        if "shift" in held and last.isalpha():
            held.discard("shift")
            last = last.upper()
        last = _character_to_key(last.lower() if "ctrl" in held else last)
    return "+".join([*(one for one in MODIFIERS if one in held), last])


def shown_key(key: str) -> str:
    """A key for the footer and the help: ``^x``, ``⇧Tab``, ``?``, ``F5``."""
    *modifiers, last = key.split("+")
    character = last if len(last) == 1 else key_to_character(_REPLACED.get(last, last)) or ""
    word = _SHORT.get(last) or (character if character.isprintable() else "")
    signs = {"ctrl": "^", "alt": "⌥", "shift": "⇧"}
    word = word or last.replace("_", " ").title()
    return "".join(signs.get(m, f"{m}+") for m in modifiers) + word


def places(command: Command) -> frozenset[Where]:
    """Where the key of a command does something: two commands cannot share a key in one place."""
    own = {Where.PANE, Where.TREE} if command.where is Where.SCREEN else {command.where}
    return frozenset(own | {where for where, names in ALSO.items() if command.id in names})


def rebind(
    wanted: Mapping[str, tuple[str, ...]], table: Iterable[Command] = TABLE
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The keys of each command that changed, and what could not be done.

    A key that is asked for is taken from the command that has it; of two the first gets it.
    """
    commands = {c.id: c for c in table}
    problems: list[str] = []
    keys: dict[str, list[str]] = {}
    owners: dict[tuple[str, Where], str] = {}

    def owner_of(key: str, one: Command) -> str | None:
        return next((owners[key, w] for w in places(one) if (key, w) in owners), None)

    for name, asked in wanted.items():
        keys[name] = []
        for key in dict.fromkeys(asked):
            if other := owner_of(key, commands[name]):
                problems.append(
                    f"{shown_key(key)} is bound twice, to {other} and to {name}: {other} has it"
                )
            else:
                keys[name].append(key)
                owners.update({(key, where): name for where in places(commands[name])})
        if asked and not keys[name]:
            del keys[name]
    lost: dict[tuple[str, str], list[str]] = {}
    for one in commands.values():
        taken = {key: owner for key in one.keys.split(",") if (owner := owner_of(key, one))}
        if one.id not in keys and taken:
            keys[one.id] = [key for key in one.keys.split(",") if key not in taken]
            rest = ", ".join(map(shown_key, keys[one.id])) or "no key"
            for item in taken.items():
                lost.setdefault(item, []).append(f"{one.id}, which has {rest} left")
    problems += [
        f"{shown_key(key)} is {name} now, and not {'; nor '.join(others)}"
        for (key, name), others in lost.items()
    ]
    return {name: ",".join(own) or UNBOUND for name, own in keys.items()}, tuple(problems)


def shown(one: Command, changed: Mapping[str, str]) -> str:
    keys = changed.get(one.id)
    if keys is None:
        return one.shown
    return "" if keys == UNBOUND else shown_key(keys.split(",")[0])
