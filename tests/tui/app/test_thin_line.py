"""Only what changes is sent, and the terminal shows the same as if everything were."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from rich.cells import cell_len
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate

from inspector.tui.app.app import PtxviewApp
from tests.helpers.sample import reader, settle

TOKEN = re.compile(r"\x1b\[([\d;]*)([Hm])|\x1b\]8;[^\x1b]*\x1b\\\\|([^\x1b])", re.DOTALL)


@pytest.fixture(autouse=True)
def frames_at_rest() -> None:
    """Every frame is drawn here: they are what is tested."""


class Terminal:
    """Cells with their character and colours, as far as the interface makes use of one."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, int], tuple[str, str]] = {}
        self.bytes = 0

    def feed(self, text: str) -> None:
        """Obey what is sent."""
        self.bytes += len(text.encode())
        x = y = 0
        style = ""
        at = 0
        for found in TOKEN.finditer(text):
            assert found.start() == at, text[at : at + 40]
            at = found.end()
            if found[2] == "H":
                y, x = (int(n) - 1 for n in found[1].split(";"))
            elif found[2] == "m":
                style = "" if found[1] in ("", "0") else f"{style};{found[1]}"
            elif found[3] == "\n":
                continue  # another place is always gone to
            elif found[3]:
                self.cells[y, x] = (found[3], style)
                x += cell_len(found[3])
        assert at == len(text)


class Both(PtxviewApp):
    """Sends to two terminals: all of it, and what is new."""

    def __init__(self) -> None:
        super().__init__(reader())
        self.all, self.thin = Terminal(), Terminal()

    def _display(self, screen: object, renderable: object) -> None:
        if isinstance(renderable, ChopsUpdate | LayoutUpdate):
            self.all.feed(renderable.render_segments(self.console))
            own = self.sent.thin(renderable)
            assert isinstance(own, CompositorUpdate)
            self.thin.feed(own.render_segments(self.console))


def keys() -> Iterator[str]:
    """A walk through the screens, with and without scrolling."""
    yield from ("j", "j", "o", "enter", "j", "j", "k", "pagedown", "g", "tab", "7", "1", "z", "z")
    yield from ("v", "slash", "m", "u", "l", "enter", "n", "N", "escape", "c", "F", "W", "V", "j")
    yield from ("escape", "question_mark", "j", "escape", "p", "T", "T", "i", "escape", "H")
    yield from ("escape", "b", "b", "greater_than_sign", "t", "escape", "r", "u", "I", "escape")


async def test_the_terminal_shows_the_same_and_much_less_is_sent() -> None:
    app = Both()
    async with app.run_test(size=(120, 40)) as ui:
        await settle(ui)
        for size in ((120, 40), (61, 20), (120, 40)):
            await ui.resize_terminal(*size)
            await settle(ui)
            for key in keys():
                await ui.press(key)
                await ui.pause()
                assert app.thin.cells == app.all.cells, key
        await ui.press("tab", "tab", "g")
        await settle(ui)
        app.all.bytes = app.thin.bytes = 0
        for _ in range(5):
            await ui.press("j")
            await settle(ui)
        assert 0 < app.thin.bytes < app.all.bytes / 3
        app.all.bytes = app.thin.bytes = 0
        await ui.press("question_mark", "escape", "slash", "escape")
        await settle(ui)
        assert 0 < app.thin.bytes < app.all.bytes


async def test_what_was_forgotten_is_sent_again() -> None:
    app = Both()
    async with app.run_test(size=(120, 40)) as ui:
        await settle(ui)
        app.sent.forget()
        app.thin.cells.clear()
        app.screen.refresh()
        await ui.pause()
        assert app.thin.cells == app.all.cells
