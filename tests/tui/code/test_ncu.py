"""What ncu measured, in the interface: the column of samples, the hints, a report alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from inspector.base.model import Stage
from inspector.commands.common import open_profiled
from inspector.commands.common import profiled as made_of
from inspector.measure.ncu.attach import Profiled
from inspector.reader.reader import Reader
from inspector.tui.app.app import PtxviewApp
from inspector.tui.code.code_rows import CHOICES, SAMPLES
from tests.helpers.ncu_data import LECTURE, write
from tests.helpers.sample import settle, text_of


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STATE", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


@pytest.fixture
def pages(tmp_path: Path) -> list[str]:
    return [str(p) for p in write(tmp_path / "pages", "details", "source")]


def only(profiled: Profiled, ident: str) -> Reader:
    """The reader with that variant first, which the interface then opens with."""
    from msgspec.structs import replace

    rec = profiled.reader.recording
    kernel, variant = next((k, v) for k, v in rec.variants() if v.id == ident)
    alone = replace(rec, kernels=(replace(kernel, variants=(variant,)),), graphs=())
    return made_of(alone, report=profiled.report).reader


async def test_samples_are_in_the_gutter_and_rules_among_the_hints(pages: list[str]) -> None:
    reader = only(open_profiled(str(LECTURE), reports=pages), "a4fe74f3")
    async with PtxviewApp(reader).run_test(size=(180, 50)) as pilot:
        screen = await settle(pilot)
        view = screen.panes.panes[-1].view
        assert screen.panes.panes[-1].stage in (Stage.PTX, Stage.SASS)
        annotations = view.rows.gutter.annotations
        assert annotations.sampled == 354 and annotations.hottest
        assert SAMPLES in view.rows.gutter.columns  # by default
        hot = max(annotations.hottest, key=lambda n: annotations.share(n) or 0)
        assert view.rows.gutter.parts(hot)[-1][0].strip().endswith("%")
        wide = view.rows.gutter.width
        view.columns(wanted=tuple(c for c in CHOICES[0] if c != SAMPLES))
        assert view.rows.gutter.width < wide
        await pilot.press("H")
        await settle(pilot)
        assert "ncu:CPIStall" in text_of(pilot)
        await pilot.press("escape", "$")
        await settle(pilot)
        cost = next(row for row in text_of(pilot).split("\n") if "a4fe74f3" in row)
        assert " ncu " in cost
