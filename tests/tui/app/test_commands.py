"""Every command of the table by its key: what is pressed, and what is seen then."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from textual.pilot import Pilot

from inspector.base.errors import Unreadable
from inspector.tui.app.app import PtxviewApp
from inspector.tui.code.code_view import CodeView
from inspector.tui.diff.diff_screen import DiffScreen
from inspector.tui.diff.diff_view import DiffView
from inspector.tui.keys.command_table import TABLE, KeyContext, command, footer
from inspector.tui.main import main_screen as acting
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.program.live import Live, ProgramState
from inspector.tui.program.output_view import OutputView
from inspector.tui.step.step_screen import StepScreen
from inspector.tui.tree.kernel_tree import KernelTree
from inspector.tui.tree.rows import TreeKind, TreeRow
from inspector.tui.variants.variants_screen import VariantsScreen, VariantTable
from inspector.tui.widgets.tool_screen import PROMPTS
from inspector.tui.work import passes_screen
from inspector.tui.work.passes_screen import PassesScreen, PassTable
from inspector.tui.work.verify_screen import VerifyScreen
from inspector.tui.work.work_screen import TimingScreen, TryScreen
from tests.helpers.sample import press as press_keys
from tests.helpers.sample import reader, settle, text_of
from tests.helpers.shared_app import SharedApp, small_app, started

Ui = Pilot[None]
Seen = dict[str, object]
Step = tuple[str, Seen]


def _focus(screen: MainScreen) -> object:
    for n, pane in enumerate(screen.panes.panes, 1):
        if screen.app.focused is pane.view:
            return n
    return "tree" if screen.app.focused is screen.kernels else None


HINTS = {hint: kind for kind, (_, hint) in PROMPTS.items()}


def ids_of(row: TreeRow) -> tuple[str, ...]:
    """Heading and kernel of a row, and the id of its variant."""
    own = (row.subject.key[1],) if row.kind is TreeKind.VARIANT else ()
    return (*row.key[:2], *own)


PROBES: dict[str, Callable[[MainScreen], object]] = {
    "screen": lambda s: type(s.app.screen).__name__,
    "focus": _focus,
    "stages": lambda s: " ".join(str(pane.stage) for pane in s.panes.panes),
    "shown": lambda s: [pane.display for pane in s.panes.panes],
    "notice": lambda s: s.panes.active.view.notice is not None,
    "line": lambda s: s.panes.active.view.cursor,
    "last": lambda s: s.panes.active.view.cursor == s.panes.active.view.lines,
    "hidden": lambda s: s.panes.active.view.lines - s.panes.active.view.map.rows,
    "left": lambda s: s.panes.active.view.scroll_offset.x,
    "matches": lambda s: s.panes.active.view.matches,
    "pattern": lambda s: s.panes.active.view.pattern,
    "chosen": lambda s: s.panes.active.view.selected_lines,
    "columns": lambda s: s.panes.active.view.rows.gutter.columns,
    "register": lambda s: getattr(s.panes.active.view.register, "name", None),
    "mapped": lambda s: [pane.view.groups is not None for pane in s.panes.panes],
    "widths": lambda s: [pane.region.width for pane in s.panes.panes],
    "heights": lambda s: [pane.region.height for pane in s.panes.panes],
    "above": lambda s: s.panes.panes[0].region.y < s.panes.panes[1].region.y,
    "subject": lambda s: s.panes.subject.key[1],
    "tree": lambda s: s.kernels.display,
    "tree width": lambda s: s.kernels.size.width,
    "rows": lambda s: [row.text for row in s.kernels.rows],
    "row count": lambda s: len(s.kernels.rows),
    "row": lambda s: s.kernels.cursor,
    "key": lambda s: None if s.kernels.row is None else ids_of(s.kernels.row),
    "query": lambda s: s.kernels.query_text,
    "prompt": lambda s: s.prompt.display and HINTS[s.prompt.input.placeholder],
    "marked": lambda s: [one.key[1] for one in s.marked],
    "dark": lambda s: s.app.current_theme.dark,
    "clipboard": lambda s: s.app.clipboard,
    "running": lambda s: s.app.is_running and not s.app._exit,
}  # fmt: skip


async def press(ui: Ui, keys: str) -> None:
    """Press keys that blanks separate; what is quoted is typed, and ``<id>`` runs a command as the
    palette does."""
    for typed, key in re.findall(r"'([^']*)'|(\S+)", keys):
        await press_keys(ui, *(typed or [key]))


async def see(ui: Ui, screen: MainScreen, seen: Seen) -> None:
    """Compare what is seen: ``text`` and ``no text`` by what the terminal shows."""
    for text in str(seen.get("text", "")).split(" || "):
        for _ in range(400):  # a thread may have more to do
            shown = text_of(ui)
            if text in shown or text in " ".join(shown.split()):
                break
            await ui.pause(0.02)
        assert text in shown or text in " ".join(shown.split()), shown
    assert "no text" not in seen or str(seen["no text"]) not in text_of(ui)
    own = {name: probe(screen) for name, probe in PROBES.items() if name in seen}
    assert own == {name: value for name, value in seen.items() if "text" not in name}


async def go_through(
    *steps: Step, app: SharedApp | PtxviewApp = small_app, size: tuple[int, int] = (120, 40)
) -> None:
    """Press and compare, step by step."""
    async with started(size=size, app=app) as (ui, screen):
        for keys, seen in steps:
            await press(ui, keys)
            await settle(ui)
            await see(ui, screen, seen)


def test_ids_are_unique() -> None:
    assert len({c.id for c in TABLE}) == len(TABLE)


def test_no_key_means_two_things_in_one_place() -> None:
    keys = {
        w: [k for c in TABLE if c.context is w and c.keys for k in c.keys.split(",")]
        for w in KeyContext
    }
    assert all(len(set(own)) == len(own) for own in keys.values())
    assert not {*keys[KeyContext.SCREEN]} & {*keys[KeyContext.PANE], *keys[KeyContext.TREE]}


SCREENS: dict[KeyContext, type] = {
    KeyContext.DIFF: DiffScreen,
    KeyContext.VARIANTS: VariantsScreen,
    KeyContext.TIMING: TimingScreen,
    KeyContext.STEP: StepScreen,
    KeyContext.PASSES: PassesScreen,
    KeyContext.TRYING: TryScreen,
    KeyContext.VERIFYING: VerifyScreen,
}
HOMES = SCREENS | {
    KeyContext.SCREEN: MainScreen, KeyContext.PANE: CodeView, KeyContext.TREE: KernelTree,
    KeyContext.MOVE: CodeView, KeyContext.OVER: DiffScreen,
    KeyContext.DIFF: DiffView, KeyContext.VARIANTS: VariantTable, KeyContext.PASSES: PassTable,
}  # fmt: skip


def test_every_command_has_an_action_and_a_test() -> None:
    for one in TABLE:
        space, _, action = one.action.partition("(")[0].rpartition(".")
        home = {"screen": SCREENS.get(one.context, MainScreen), "app": PtxviewApp}
        if action == "tell_app":
            space, action = "app", one.action.split("'")[1]
        assert hasattr(home.get(space, HOMES[one.context]), f"action_{action}")
    # Those of other screens have theirs beside these screens; movements are among MOVES.
    moves = ("move(", "page(", "edge(", "sideways(")
    elsewhere = {*SCREENS, KeyContext.OVER}
    own = {c.id for c in TABLE if c.context not in elsewhere and not c.action.startswith(moves)}
    functions = {name.removeprefix("test_key_") for name in globals()}
    tested = {name for names in JOURNEYS for name in names.split()} | {"wrap", "escape"}
    assert {one for one in own - tested if one.replace(".", "_") not in functions} == set()


def test_the_footer_names_only_commands() -> None:
    names = [name for context in KeyContext for _, _, name in footer(context)]
    assert len(names) > len(KeyContext) > 5
    assert [name for name in names if not command(name)] == []


# By their keys, at 120 by 40: the tree has the focus at first, a pane after Tab

KERNELS = ["triton", "square_kernel", "inductor", "graph 0/0", "triton_poi_fused_mul_0", "nvcc",
           "gelu_kernel"]  # fmt: skip
VARIANTS = ["BLOCK=1024 w4 3f2a", "BLOCK=4096 w16 84d2"]

JOURNEYS: dict[str, list[Step]] = {
    # Everywhere
    "help problems theme redraw": [
        ("?", {"screen": "Finder", "text": "Judge a kernel"}), ("escape", {"screen": "MainScreen"}),
        ("!", {"text": "Nothing went wrong"}), ("escape", {"dark": True}),
        ("<theme>", {"dark": False}),
        ("<redraw>", {"text": "square_kernel"})],
    "stage.1 stage.3 stage.6 stage.7": [
        ("tab tab 1", {"stages": "source source", "notice": False}),
        ("3", {"stages": "source ttir", "notice": False}), ("7", {"stages": "source sass"}),
        ("6", {"stages": "source ptx", "notice": False})],
    "stage.2 stage.4 stage.5 stage.9": [
        ("tab 2", {"text": "No output_code here.", "notice": True, "focus": 1}),
        ("4", {"text": "No ttgir here.", "notice": True}), ("5", {"text": "No llir here."}),
        ("9", {"text": "No ir here."})],
    "stage.8": [("tab 8", {"stages": "operations ptx", "notice": True}),  # it is in no graph
                ("tab tab G k k k tab", {"stages": "operations output_code"}),
                ("8", {"stages": "dynamo output_code"}),
                ("8", {"stages": "post_grad output_code"}),
                ("8", {"stages": "operations output_code"})],
    "stage.next stage.previous": [
        ("tab s", {"stages": "ttir ptx"}),
        ("<stage.previous> <stage.previous>", {"stages": "sass ptx"})],
    "pane.next pane.previous": [
        ("", {"focus": "tree", "text": "1024 warps 4 3f2a 22r || 4096 warps 16 84d2 83r⚠"}),
        ("tab", {"focus": 1}), ("tab", {"focus": 2}), ("tab", {"focus": "tree"}),
        ("shift+tab", {"focus": 2})],
    "tree.toggle": [("b", {"tree": False, "focus": 1}), ("b", {"tree": True, "focus": "tree"})],
    "filter.local": [("<filter.local>", {"text": "filter stack>0"})],
    "filter": [("tab <filter> 'gelu'", {"rows": ["nvcc", "gelu_kernel"]}),
               ("enter", {"focus": "tree", "subject": "c07711aa"})],
    "zoom turn": [("tab z", {"shown": [True, False]}), ("tab", {"shown": [False, True]}),
                  ("z", {"shown": [True, True], "above": False}), ("<turn>", {"above": True})],
    "variant.next variant.previous": [
        ("tab ]", {"subject": "3f2a91c0"}), ("]", {"subject": "84d20b7e", "focus": 1}),
        ("[ [", {"subject": "c07711aa"})],
    "tree.wider tree.narrower": [("", {"tree width": 59}), ("<tree.wider>", {"tree width": 63}),
                                 ("<tree.narrower> <tree.narrower>", {"tree width": 55})],
    "pane.wider pane.narrower": [
        ("tab", {"widths": [60, 60]}), ("<pane.wider>", {"widths": [65, 55]}),
        ("<pane.narrower>", {"widths": [60, 60]}),
        ("<turn>", {"heights": [17, 17]}), ("<pane.wider>", {"heights": [18, 16]})],
    "layout": [("tab <layout>", {"stages": "source ptx sass",
                                 "text": "Layout: source · PTX · SASS. The next is source · out"}),
               ("<layout>", {"stages": "source output_code ptx",
                             "text": "There is no output_code of this."}),
               ("<layout>", {"stages": "source"}),
               ("<layout>", {"stages": "source ptx sass", "focus": 1})],
    "palette": [("tab ctrl+p 'to line'", {"text": "Go to line"}), ("enter", {"prompt": "goto"})],
    "quit": [("q", {"running": False})],
    "quit by ctrl+c": [("ctrl+c", {"running": False})],
    "overview": [
        ("0", {"screen": "OverviewScreen", "text": "3 kernels · "}),
        ("escape", {"screen": "MainScreen", "focus": "tree"}),
        ("escape", {"screen": "MainScreen", "focus": 1, "tree": False})],
    "cost": [("$", {"screen": "CostScreen", "text": "share || square_kernel"}),
             ("s", {"screen": "CostScreen", "text": "Cost by µs || square_kernel"}),
             ("escape", {"screen": "MainScreen"})],
    "verify": [
        ("<verify>", {"screen": "MainScreen", "text": "Only kernels that torch.compile"})],
    "upgrade": [
        ("<upgrade>", {"screen": "MainScreen", "text": "No report of ptxview upgrade is kept"})],
    "card profile compiles hints": [
        ("i", {"screen": "Overlay", "text": "22 a thread || warps"}),
        ("escape <profile>", {"screen": "Overlay", "text": "ptxview profile SCRIPT"}),
        ("escape K", {"screen": "MainScreen", "text": "Nothing is known of compiles here"}),
        ("tab H", {"screen": "HintList", "text": "narrow-access"}),
        ("enter", {"screen": "MainScreen", "stages": "source ptx", "line": 14}),
        ("shift+tab shift+tab j j j H", {"text": "No hint"})],
    "time block": [
        ("t", {"screen": "TimingScreen", "text": "is not a recording: only recordings have"}),
        ("escape x", {"screen": "StepScreen",
                      "text": "there is no kernel square_kernel in this PTX"}),
        ("escape", {"screen": "MainScreen"})],
    "edited compare mark": [
        ("<edited>", {"text": "This variant has not changed"}),
        ("D", {"screen": "VariantsScreen", "text": "d marks two variants"}),
        ("escape d j j d", {"marked": ["3f2a91c0", "84d20b7e"],
                            "text": "A BLOCK=1024 warps 4 3f2a || B BLOCK=4096 warps 16 84d2"}),
        ("D", {"screen": "DiffScreen"}), ("q", {"screen": "MainScreen"}),
        ("d", {"marked": ["3f2a91c0"],
               "text": "Marked: A square_kernel 3f2a91c0. d marks another"})],
    "pane.more": [
        ("tab p", {"stages": "source ptx sass", "focus": 3}),
        ("shift+tab p", {"stages": "ptx", "focus": 1}), ("p", {"shown": [True, True]})],
    # In a pane
    "goto follow": [("tab : 'gelu' enter", {"screen": "Finder", "text": "gelu_kernel"}),
                    ("escape : '14' enter", {"line": 14}), ("enter", {"focus": 2, "line": 14})],
    "search match.next match.previous clear": [
        ("tab tab / 'mul.*f7,' enter", {"line": 21, "matches": (21,), "text": "1 of 1"}),
        ("escape", {"pattern": None, "matches": ()}),
        ("/ 'ov' enter n", {"line": 12}), ("n", {"line": 11}), ("N", {"line": 12}),
        ("/ 'nv' enter", {"matches": (2,)}),
        ("/ 'Nv' enter", {"matches": (), "text": "Nothing matches “Nv”."}),
        ("/ '(mul|st' )", {"line": 15}),
        ("enter / ( enter", {"text": "is not a regular expression"})],
    "verbatim": [("tab tab 7", {"text": " /*0010*/       S2R"}),
                 ("w", {"text": "        /*0010*/                   S2R"}),
                 ("w 6 F w", {"hidden": 0, "text": "The file as it is"}), ("w", {"hidden": 9})],
    "map": [("tab", {"mapped": [True, True]}),
            ("m", {"mapped": [False, False], "text": "Source lines have no colours."}),
            ("m", {"mapped": [True, True], "text": "the colour of its source line"})],
    "largest.live largest.stall largest.samples largest.cycles": [
        ("tab <largest.live>", {"line": 14, "text": "18 live registers, the most of any line"}),
        ("<largest.live>", {"line": 14}), ("<largest.stall>", {"line": 14}),
        ("<largest.stall>", {"line": 15, "text": "12 stall cycles, number 2 of 2"}),
        ("<largest.samples>", {"text": "No samples (ncu) are known for this listing."}),
        ("<largest.cycles>", {"text": "No estimate: no call with its arguments was recorded"})],
    "worst": [
        ("tab g W", {"line": 14, "text": "stall cycles, the most of any line"}),
        ("W", {"line": 15, "text": "number 2 of 2"}),
        ("shift+tab W", {"focus": 1, "line": 14})],
    "copy copy.all choose choose.up": [
        ("tab : '13' enter y", {"clipboard": "    mask = columns < n", "text": "on the clipboard"}),
        (": '12' enter shift+down y", {
            "clipboard": "    columns = tl.arange(0, BLOCK)\n    mask = columns < n",
            "text": "Lines 12 to 13 are on the clipboard.", "chosen": None}),
        ("shift+up", {"chosen": (12, 13)}), ("escape", {"chosen": None}),
        ("tab 7 <copy.all>", {"text": "Lines 1 to"})],
    "explain register definition use.next use.previous": [
        ("tab e", {"text": "No instruction to explain on this line."}),
        ("escape a", {"text": "No register is selected"}),
        ("tab : '14' enter e", {"text": "ld || .v4 || PTX ISA"}), ("escape", {"register": "%r3"}),
        ("u", {"line": 15}), (": '14' enter <use.previous>", {"line": 16}),  # round the beginning
        (": '14' enter r", {"register": "%p1"}), ("a", {"line": 13})],
    "columns columns.choose note.next note.previous": [
        ("tab : '14' enter", {"columns": ("live",)}), ("c", {"columns": ("live", "stall")}),
        ("c", {"columns": ()}), ("c", {"columns": ("live",)}),
        ("tab <columns.choose>", {"text": "live registers: pred"}),
        ("j j space escape", {"columns": ("live", "live:pred")}),
        ("g <note.next>", {"line": 14, "text": "4 loads of 4 bytes"}),
        ("g <note.previous>", {"line": 14})],
    "addresses": [
        ("tab 7", {"text": "/*0010*/"}),
        ("ctrl+p 'addresses' enter", {"no text": "/*0010*/", "text": "Addresses and encodings"}),
        ("6 7", {"no text": "/*0010*/", "text": "S2R R0, SR_CTAID.X"}),
        ("6 ctrl+p 'addresses' enter", {"text": "Only SASS has addresses: 7 shows it."})],
    "back forward": [("tab tab : '14' enter G ,", {"line": 14}), (".", {"last": True}),
                     (", , ,", {"text": "nothing to go back to"})],
    "along": [("tab <along>", {"text": "No branch on this line, and no loop around it."})],
    "back to a variant": [("tab tab : '30' enter ] ] G , ,", {"subject": "3f2a91c0"})],
    "frames label.next label.previous": [
        ("tab tab : '14' enter I", {"text": "/home/ada/square.py:14:4"}),
        ("escape 7 : '1' enter <label.next>", {"line": 2}), ("G <label.previous>", {"line": 2})],
    "fold fold.level": [
        ("tab tab", {"text": "[10 folded] .version 8.7, .target sm_90a, .entry", "hidden": 9}),
        ("g j", {"line": 11}), ("k -", {"text": "Generated by LLVM", "hidden": 0}),
        ("G -", {"text": "Nothing to fold here."}),
        ("F", {"hidden": 9, "text": "Folded: location marks, directives, debug sections"}),
        ("F F", {"hidden": 0, "text": "Nothing is folded."})],
    # In the tree
    "tree.open tree.variants": [
        ("enter", {"focus": 1}),
        ("shift+tab V", {"screen": "VariantsScreen", "text": "2 variants"}),
        ("escape", {"screen": "MainScreen"})],
    "tree.fold tree.unfold": [
        ("", {"row count": 9}), ("h", {"row count": 7}), ("l", {"row count": 9}),
        ("h", {"rows": KERNELS}), ("l l", {"key": ("triton", "k1", "3f2a91c0")}),
        ("h h h", {"row": 0})],
    "tree.filter tree.clear": [
        ("/ '0/ mul'", {"rows": ["inductor", "graph 0/0", "triton_poi_fused_mul_0"]}),
        ("escape", {"row count": 9}), ("/ 'gelu' enter", {"text": "1 of 3  Esc  /gelu"}),
        ("G", {"row": 1}), ("escape", {"query": "", "row count": 9, "no text": "/gelu"})],
    "tree.order": [
        ("o", {"key": ("triton", "k1"), "text": "by registers",
               "rows": [*KERNELS[:2], *VARIANTS[::-1], *KERNELS[2:]]}),
        ("o", {"text": "16/24 B⚠"}),
        # Nothing was timed: by name, and round.
        ("o o", {"text": "In the order of compilation.",
                 "rows": [*KERNELS[:2], *VARIANTS, *KERNELS[2:]]})],
}  # fmt: skip


@pytest.mark.parametrize("names", JOURNEYS)
async def test_key(names: str) -> None:
    await go_through(*JOURNEYS[names])


MOVES = [
    [("tab tab F F F g", {"line": 1, "hidden": 0}), ("j down", {"line": 3}),
     ("j k k up", {"line": 1}), ("pagedown", {"line": 17}), ("pageup", {"line": 1}),
     ("ctrl+d", {"line": 17}), ("ctrl+u", {"line": 1}), ("G", {"last": True})],
    [("j", {"row": 2}), ("k k", {"row": 0}), ("G", {"row": 8}), ("pageup", {"row": 0}),
     ("pagedown", {"row": 8}), ("g", {"row": 0})],
    [("tab tab <turn> 3 l", {"left": 8}), ("l h", {"left": 8}),
     ("l <line.start>", {"left": 0}),
     ("<wrap>", {"text": "↪", "no text": "‹"}), ("<wrap>", {"no text": "↪"})],
]  # fmt: skip


@pytest.mark.parametrize("steps", MOVES, ids=["pane", "tree", "wrap sideways"])
async def test_keys_that_move(steps: list[Step]) -> None:
    await go_through(*steps, size=(80, 24) if "left" in steps[0][1] else (120, 24))


async def test_key_output() -> None:
    live = Live(lambda: None, lambda number: None)
    live.state = ProgramState.ENDED
    async with started(size=(120, 40), app=PtxviewApp(reader(), live=live)) as (ui, screen):
        output = screen.query_one(OutputView)
        assert output.display
        await ui.press("O")
        assert screen.focused is output
        await ui.press("O")
        assert not output.display
    await go_through(("O", {"focus": "tree"}))  # without a program nothing changes


async def test_key_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **more: object) -> None:
        raise Unreadable("square_kernel is not Triton's")

    monkeypatch.setattr(passes_screen, "variant_passes", refuse)
    shown: Seen = {"screen": "PassesScreen", "text": "square_kernel is not Triton's"}
    await go_through(("Z", shown), ("escape", {"screen": "MainScreen"}))


@pytest.fixture
def edits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str]]:
    """The commands that an editor is started with, and the text it is given; it exits with 3."""
    calls = []

    def run(argv: list[str], env: object, *, is_job: bool) -> int:
        assert not is_job  # it has the terminal, and is not stopped with us
        path = Path(re.sub(r":\d+\Z", "", argv[-1]))
        calls.append((argv, path.read_text("utf-8") if path.exists() else ""))
        return 3

    monkeypatch.setattr(acting, "run_program", run)
    monkeypatch.setattr(PtxviewApp, "suspend", lambda self: nullcontext())
    return calls


async def test_key_edit(
    edits: list[tuple[list[str], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "code --wait")
    await go_through(("tab tab : '14' enter E", {"focus": 2}))
    ((argv, text),) = edits
    path = Path(argv[-1].removesuffix(":14"))
    assert argv == ["code", "--wait", "--goto", f"{path}:14"] and path.is_absolute()
    assert text.split("\n")[13].lstrip().startswith("@%p1 ld.global")
    assert not path.exists()  # it was a copy


async def test_the_editor_opens_the_source_itself(
    edits: list[tuple[list[str], str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(acting, "whole_path", lambda recorded: tmp_path / "square.py")
    monkeypatch.setenv("VISUAL", "vi")
    await go_through(("tab E", {"text": "vi ended with status 3"}))
    assert edits == [(["vi", "+11", str(tmp_path / "square.py")], "")]


async def test_without_an_editor_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    await go_through(("tab E", {"text": "EDITOR=vim"}))


async def test_key_export(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    saved: Seen = {"text": "The annotated listing is in"}
    await go_through(("tab tab <export>", saved), ("<export>", {}))
    text = (tmp_path / "square_kernel-3f2a91c0.ptx.txt").read_text("utf-8")
    assert text.startswith("square_kernel  3f2a91c0  sm_90a  ptx")
    assert "if %p1: load 4 × 32 bits" in text
    assert "narrow-access" in text
    assert (tmp_path / "square_kernel-3f2a91c0.ptx-2.txt").exists()


async def test_key_screenshot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    await go_through(("<screenshot>", {"text": "A picture of the screen is in"}))
    assert "square_kernel" in (tmp_path / "ptxview.svg").read_text("utf-8")


def test_at_most_110_commands_have_a_key() -> None:
    assert sum(bool(one.keys) for one in TABLE) <= 110


@pytest.mark.parametrize("context", [KeyContext.PANE, KeyContext.TREE])
def test_the_footer_begins_with_what_people_come_for(context: KeyContext) -> None:
    keys = [key for key, _, _ in footer(context)]
    assert keys[:7] == ["?", "$", "1-7", "V", "t", "x", "/"]


UNBOUND = [
    ("~", "“Worst line”: its key is W."),
    ("A", "“Worst line”: its key is W."),
    ("L", "“Next layout”: ^p finds it by its name."),
    ("ctrl+k", "^k does nothing here: ? lists the keys"),
    ("tab o", "o works in the list of kernels (order): b goes there."),
    ("i z", "z does nothing here · Esc closes"),
    ("V z", "z does nothing here"),
    ("H z", "z does nothing here · Esc closes"),
    ("t z", "z does nothing here"),
]


@pytest.mark.parametrize(("keys", "answer"), UNBOUND)
async def test_a_key_that_does_nothing_says_so(keys: str, answer: str) -> None:
    await go_through((keys, {"text": answer}))


async def test_a_dialog_answers_beside_the_widgets_of_textual() -> None:
    async with PtxviewApp(reader()).run_test(
        size=(120, 40), tooltips=True, notifications=True
    ) as ui:
        await settle(ui, "i")
        await settle(ui, "z")
        assert "z does nothing here" in text_of(ui)


async def test_a_key_of_the_panes_works_on_the_active_one_from_the_tree() -> None:
    await go_through(
        ("I", {"screen": "Overlay", "text": "Line 11 comes from", "focus": None}),
        ("escape", {"screen": "MainScreen", "focus": 1}),
        ("shift+tab tab e", {"text": "No instruction to explain on this line."}),
    )
