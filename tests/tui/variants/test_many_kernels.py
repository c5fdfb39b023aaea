"""Four hundred kernels: a journey by keys alone, and one by mouse alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from textual.events import MouseScrollDown

from inspector.capture.opening import open_path
from inspector.model import Stage
from inspector.reader.reader import Reader
from inspector.recording.layout import DerivedCache
from inspector.tui.app.app import PtxviewApp
from inspector.tui.main.main_screen import MainScreen
from tests.helpers.many import TEMPLATE, many
from tests.helpers.ptxview import call
from tests.helpers.sample import settle


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording."""
    return many(tmp_path_factory.mktemp("many") / "recording")


@pytest.fixture
def app(recorded: Path, tmp_path: Path) -> PtxviewApp:
    """The interface on it, with nothing in the cache."""
    return PtxviewApp(Reader(open_path(recorded), DerivedCache(tmp_path / "derived")))


def shown(screen: MainScreen) -> tuple[str, str, str]:
    """Which kernel and variant are read, and at which stage in the active pane."""
    kernel, variant, _ = screen.panes.subject.key
    return kernel, variant, str(screen.panes.active.stage)


@pytest.fixture(scope="module")
def listed(recorded: Path) -> dict[str, Any]:
    """The kernels that ``list --json`` has, by id."""
    return {kernel["id"]: kernel for kernel in call("list", recorded, "--json").json["kernels"]}


def typed(kernel: dict[str, Any]) -> str:
    """What one types of a kernel: its number, or of those that are called alike, of its id."""
    number = re.search(r"_(\d+)$", kernel["name"])
    return number[1] if number else kernel["variants"][0]["id"][:3]


async def test_any_kernels_sass_is_five_keys_away(app: PtxviewApp, listed: dict[str, Any]) -> None:
    kernels = listed
    assert len(kernels) == 400
    named = [k for k in kernels.values() if k["name"] != TEMPLATE]
    # Of ids, three digits are enough for those whose own they are alone.
    begins = [kernel["variants"][0]["id"][:3] for kernel in kernels.values()]
    alike = [k for k in kernels.values() if k not in named and begins.count(typed(k)) == 1]
    assert len(alike) > 60
    async with app.run_test(size=(120, 36)) as ui:
        screen = await settle(ui)
        for kernel in (named[0], named[1], *named[7::150], alike[0]):
            keys = ["7", "slash", *typed(kernel)]
            assert len(keys) <= 5
            await ui.press(*keys)
            await settle(ui)
            assert shown(screen) == (kernel["id"], kernel["variants"][0]["id"], "sass")
            await ui.press("escape")
        view = screen.panes.active.view
        assert view.source is not None
        assert any("EXIT" in text for text in view.source.texts)


async def test_a_journey_by_mouse_alone(app: PtxviewApp, listed: dict[str, Any]) -> None:
    """Down the tree with the wheel, a group unfolded by its sign, a variant read by two clicks."""
    async with app.run_test(size=(160, 48)) as ui:
        screen = await settle(ui)
        group = next(i for i, r in enumerate(screen.kernels.rows) if r.count == 100)
        while not screen.kernels.scroll_offset.y <= group < screen.kernels.scroll_offset.y + 20:
            before = screen.kernels.scroll_offset.y
            await ui._post_mouse_events([MouseScrollDown], screen.kernels, (5, 5))
            await ui.pause()
            assert screen.kernels.scroll_offset.y > before
        at = group - screen.kernels.scroll_offset.y
        await ui.click(screen.kernels, offset=(3, at))
        await settle(ui)
        opened = next(i for i, r in enumerate(screen.kernels.rows) if r.count == 100)
        row = screen.kernels.rows[opened]
        assert row.open
        third = opened + 3 - screen.kernels.scroll_offset.y
        await ui.click(screen.kernels, offset=(8, third), times=2)
        await settle(ui)
        chosen = screen.kernels.rows[opened + 3]
        assert screen.panes.subject.key == chosen.subject.key
        assert screen.focused is screen.panes.active.view
        # The stage's number in the pane's title shows it.
        kinds = {kernel["name"] for kernel in listed.values()}
        assert chosen.subject.kernel is not None and chosen.subject.kernel.name in kinds
        assert Stage.SASS in chosen.subject.stages()
