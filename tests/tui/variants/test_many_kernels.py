"""Four hundred kernels: journeys by the filter, by the palette and by mouse."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.events import MouseScrollDown

from inspector.base.model import Stage, Variant
from inspector.reader.reader import Reader
from inspector.recording.layout import DerivedCache
from inspector.sources.opening import open_path
from inspector.tui.app.app import PtxviewApp
from tests.helpers.many import TEMPLATE, many
from tests.helpers.sample import settle

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording."""
    return many(tmp_path_factory.mktemp("many") / "recording")


@pytest.fixture
def app(recorded: Path, tmp_path: Path) -> PtxviewApp:
    """The interface on it, with nothing in the cache."""
    return PtxviewApp(Reader(open_path(recorded), DerivedCache(tmp_path / "derived")))


async def test_any_kernels_sass_is_five_keys_away(app: PtxviewApp) -> None:
    """By the filter; of kernels with the same name by three digits of an id."""
    kernels = app.main.reads.recording.kernels
    assert len(kernels) == 400
    named = [k for k in kernels if k.name != TEMPLATE]
    begins = [k.variants[0].id[:3] for k in kernels]
    alike = [k for k in kernels if k.name == TEMPLATE and begins.count(k.variants[0].id[:3]) == 1]
    assert len(alike) > 60
    async with app.run_test(size=(120, 36)) as ui:
        screen = await settle(ui)
        for kernel in (named[0], named[1], *named[7::150], alike[0]):
            number = re.search(r"_(\d+)$", kernel.name)
            ident = kernel.variants[0].id
            keys = ["7", "slash", *(number[1] if number else ident[:3])]
            assert len(keys) <= 5
            await ui.press(*keys)
            await settle(ui)
            assert screen.panes.subject.key[:2] == (kernel.id, ident)
            assert screen.panes.active.stage is Stage.SASS
            await ui.press("escape")
        view = screen.panes.active.view
        assert view.source is not None
        assert any("EXIT" in text for text in view.source.texts)


async def test_the_palette_finds_any_kernel_and_reads_only_the_open_one(
    app: PtxviewApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[str] = set()
    listing = Reader.listing

    def counted(self: Reader, variant: Variant, stage: Stage) -> object:
        asked.add(variant.hash)
        return listing(self, variant, stage)

    monkeypatch.setattr(Reader, "listing", counted)
    kernels = app.main.reads.recording.kernels
    named = [k for k in kernels if k.name != TEMPLATE]
    alike = [k for k in kernels if k.name == TEMPLATE][60]
    wanted = [(k.name, k) for k in (named[0], named[151], named[-1])]
    async with app.run_test(size=(120, 36)) as ui:
        screen = await settle(ui)
        for name, kernel in (*wanted, (alike.variants[0].id, alike)):
            before = set(asked)
            await ui.press("ctrl+p", *name)
            assert not asked - before, "typing reads nothing"
            await ui.press("enter", "7")
            await settle(ui)
            assert screen.panes.subject.key[0] == kernel.id
            assert screen.panes.active.stage is Stage.SASS
            await ui.press("6")  # so that the next 7 has an effect
            await settle(ui)
            assert asked - before <= {kernel.variants[0].hash}


async def test_a_journey_by_mouse_alone(app: PtxviewApp) -> None:
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
        assert chosen.subject.kernel is not None and chosen.subject.kernel.name == TEMPLATE
        assert Stage.SASS in chosen.subject.stages()
