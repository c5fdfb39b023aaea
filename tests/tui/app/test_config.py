"""The user's own keys and theme, and what is remembered of a recording."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.widgets._toast import Toast

from inspector.base.model import Stage
from inspector.tui.app.app import PtxviewApp
from inspector.tui.keys.command_table import TABLE, parse_key, shown_key
from inspector.tui.main.settings import Config, Memory, PaneView, View, parse_config, read_config
from tests.helpers.ptxview import saved
from tests.helpers.sample import reader, settle, text_of
from tests.helpers.shared_app import started


def config(tmp_path: Path, text: str | bytes) -> Config:
    path = saved(tmp_path / "config.toml", text.encode() if isinstance(text, str) else text)
    return read_config(path)


@pytest.mark.parametrize(
    ("text", "key", "seen"),
    [
        ("x", "x", "x"), ("X", "X", "X"), ("/", "slash", "/"), ("?", "question_mark", "?"),
        ("Ctrl+X", "ctrl+x", "^x"), ("shift+a", "A", "A"), ("shift+tab", "shift+tab", "⇧Tab"),
        ("F5", "f5", "F5"), ("alt+enter", "alt+enter", "⌥Enter"), (" ", "space", "Space"),
        ("+", "plus", "+"), ("ctrl++", "ctrl+plus", "^+"), ("é", "é", "é"),
        ("question_mark", "question_mark", "?"), ("PageUp", "pageup", "PgUp"),
        ("hyper+x", None, ""), ("sapce", None, ""), ("", None, ""), ("\x07", None, ""),
        ("x+y", None, ""),
    ],
)  # fmt: skip
def test_a_key_is_written_as_people_write_it_and_shown_short(
    text: str, key: str | None, seen: str
) -> None:
    assert parse_key(text) == key
    assert key is None or shown_key(key) == seen


def test_keys_with_and_without_quotes(tmp_path: Path) -> None:
    assert read_config(tmp_path / "none.toml") == Config()
    said = config(tmp_path, '[keys]\n"stage.next" = "f6"\nstage.previous = ["f8", "f7"]\n')
    assert said.problems == ()
    assert said.keys["stage.next"] == "f6"
    assert said.keys["stage.previous"] == "f8,f7"


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (
            {"stage.1": "j"},
            ["j is stage.1 now, and not down, which has ↓ left"],
        ),
        ({"last": "z"}, ["z is last now, and not zoom, which has no key left"]),
        ({"stage.1": "j", "down": "f6"}, []),
        ({"up": "j", "down": "k"}, []),  # they change places
        ({"layout": "L"}, []),  # it had no key
        ({"quit": "ctrl+t"}, []),
    ],
)
def test_a_key_taken_from_another_command_is_reported(
    keys: dict[str, str], told: list[str]
) -> None:
    assert list(parse_config({"keys": keys}).problems) == told


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("keys = [", "it is not TOML"),
        (b"\xff\xfe", "it is not TOML"),
        ("keys = 3", "keys is not a table"),
        ("colour = 1", "there is no setting colour"),
        ('theme = "blue"', "theme is blue; it can be dark, light, auto"),
        ('[keys]\nfly = "x"', "there is no command fly to bind x to: ? shows the names"),
        ('[keys]\nzoom = "hyper+x"', "zoom: hyper+x is not a key"),
        ("[keys]\nzoom = 5", "zoom: 5 is not a key"),
        ('[keys]\nzoom = ""', "zoom:  is not a key"),
        (
            '[keys]\nzoom = "f9"\nturn = "f9"',
            "F9 is bound twice, to zoom and to turn: zoom has it",
        ),
        (
            '[keys]\nzoon = ["x", "y"]',
            "there is no command zoon to bind x and y to: is zoom meant?",
        ),
        ('[keys]\n"\\u001b[31mred" = "x"', "there is no command ␛[31mred"),
    ],
)
def test_what_means_nothing_is_one_sentence(
    tmp_path: Path, text: str | bytes, complaint: str
) -> None:
    said = config(tmp_path, text)
    assert len(said.problems) == 1
    assert said.problems[0].startswith(complaint)


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "theme": NESTED,
            "keys": NESTED | st.dictionaries(st.sampled_from([c.id for c in TABLE]), NESTED),
        },
    )
)
def test_nothing_in_a_file_raises(said: dict[str, object]) -> None:
    made = parse_config(said)
    assert made.theme in ("dark", "light", "auto")
    assert set(made.keys) <= {c.id for c in TABLE}


async def test_a_new_key_works_and_the_old_one_does_not() -> None:
    app = PtxviewApp(reader(), parse_config({"keys": {"stage.next": "x", "zoom": ["F", "f11"]}}))
    async with started(size=(120, 40), app=app) as (pilot, screen):
        await pilot.press("tab", "s")
        assert str(screen.panes.panes[0].stage) == "source"
        await pilot.press("x")
        assert str(screen.panes.panes[0].stage) == "ttir"
        for key in ("F", "f11"):
            zoomed = screen.panes.zoomed
            await pilot.press(key)
            assert screen.panes.zoomed is not zoomed


async def test_footer_help_and_palette_show_the_keys_that_work() -> None:
    app = PtxviewApp(reader(), parse_config({"keys": {"quit": "ctrl+t", "help": "f2"}}))
    async with started(size=(160, 40), app=app) as (pilot, _):
        last = text_of(pilot).splitlines()[-1]
        assert "^t quit" in last
        assert "F2 help" in last
        await pilot.press("f2", *"help")
        await pilot.pause()
        assert re.search(r"F2 +Help +by task", text_of(pilot))
        await pilot.press("escape", "ctrl+p", *"help")
        assert re.search(r"command +Help +by task.* F2 ", text_of(pilot))


async def test_what_is_wrong_with_the_file_is_one_warning() -> None:
    app = PtxviewApp(reader(), parse_config({"keys": {"fly": "x", "zoom": "hyper+x"}}))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        assert len(app.screen.query(Toast)) == 1
        shown = text_of(pilot)
        assert "there is no command fly" in shown
        assert "hyper+x is not a key" in shown


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "\xff",
        '{"recordings": 3}',
        '{"recordings": {"/r": 3}, "theme": 9}',
        '{"recordings": {"/r": {"subject": [1], "panes": "x", "beside": 3, "tree_width": -1}}}',
        '{"recordings": {"/r": {"panes": [{"gutter": [[1], 2], "wrapped": "x"}]}}}',
    ],
)
async def test_a_damaged_memory_is_no_memory(tmp_path: Path, content: str) -> None:
    file = saved(tmp_path / "remembered.json", content.encode("latin-1"))
    memory = Memory(file)
    assert memory.theme is None
    assert memory.view("/r") is None
    memory.keep("/r", View(panes=(PaneView("ptx"),)))
    assert memory.view("/r") == View(panes=(PaneView("ptx"),))


async def test_everything_is_looked_at_as_it_was_left(tmp_path: Path) -> None:
    file = tmp_path / "state" / "remembered.json"

    async def look(*keys: str) -> tuple[object, ...]:
        app = PtxviewApp(reader(), memory=Memory(file))
        async with started(size=(160, 48), app=app) as (pilot, screen):
            for some in keys:
                await settle(pilot, *some.split())
            views = [pane.view for pane in screen.panes.panes]
            seen = (
                [pane.stage for pane in screen.panes.panes],
                screen.panes.subject.key,
                screen.panes.beside,
                screen.tree_wanted,
                screen.kernels.region.width,
                [pane.region for pane in screen.panes.panes],
                app.current_theme.dark,
                [(v.folding.level, v.folding.as_it_is, v.wrapped) for v in views],
                [v.rows.gutter.selected for v in views],
                [v.groups is None for v in views],
            )
            await pilot.press("q")
        return seen

    fresh = await look()
    left = await look(
        "tab 3 F <wrap> tab",
        "c 7 m right_square_bracket <pane.wider> <turn> <pane.wider> <turn>",
        "shift+tab shift+tab <tree.wider> <theme>",
    )
    assert [one == other for one, other in zip(fresh[4:], left[4:], strict=True)] == [False] * 6
    assert left[0] == [Stage.TTIR, Stage.SASS]
    again = await look("b")
    assert again[:3] == left[:3] and again[6:] == left[6:]
    assert left[3] and not again[3]
    # A layout, and a file as it is; the tree is still hidden.
    laid = await look("tab <layout> w m")
    assert laid[0] == [Stage.SOURCE, Stage.PTX, Stage.SASS]
    again = await look()
    assert again[:4] == laid[:4] and again[6:] == laid[6:]
