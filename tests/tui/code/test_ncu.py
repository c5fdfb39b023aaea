"""What ncu measured, in the interface: the column of samples, the hints, a report alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from inspector.base.model import Stage
from inspector.commands.common import open_profiled
from inspector.commands.common import profiled as made_of
from inspector.measure.ncu.attach import ProfiledRecording
from inspector.reader.reader import Reader
from inspector.tui.app.app import PtxviewApp
from inspector.tui.code.code_rows import CHOICES, SAMPLES
from tests.helpers.ncu_data import write
from tests.helpers.ptxview import SAMPLE
from tests.helpers.sample import settle, text_of
from tests.helpers.shared_app import started

pytestmark = pytest.mark.usefixtures("new_user")


@pytest.fixture
def pages(tmp_path: Path) -> list[str]:
    return [str(p) for p in write(tmp_path / "pages", "details", "source")]


def only(profiled: ProfiledRecording, ident: str) -> Reader:
    """The reader with that variant first, which the interface then opens with."""
    from msgspec.structs import replace

    rec = profiled.reader.recording
    kernel, variant = next((k, v) for k, v in rec.variants() if v.id == ident)
    alone = replace(rec, kernels=(replace(kernel, variants=(variant,)),), graphs=())
    return made_of(alone, report=profiled.report).reader


async def test_samples_are_in_the_gutter_and_rules_among_the_hints(pages: list[str]) -> None:
    reader = only(open_profiled(str(SAMPLE), reports=pages), "a4fe74f3")
    async with started(size=(180, 50), app=PtxviewApp(reader)) as (pilot, screen):
        view = screen.panes.panes[-1].view
        assert screen.panes.panes[-1].stage in (Stage.PTX, Stage.SASS)
        annotations = view.rows.gutter.annotations
        assert annotations.sampled == 354 and annotations.hottest
        assert SAMPLES in view.rows.gutter.columns  # by default
        hot = max(annotations.hottest, key=lambda n: annotations.share(n) or 0)
        assert view.rows.gutter.parts(hot)[-1][0].strip().endswith("%")
        wide = view.rows.gutter.width
        view.columns(selected=tuple(c for c in CHOICES[0] if c != SAMPLES))
        assert view.rows.gutter.width < wide
        await settle(pilot, "H")
        assert "ncu:CPIStall" in text_of(pilot)
        await settle(pilot, "escape", "$")
        cost = next(row for row in text_of(pilot).split("\n") if "a4fe74f3" in row)
        assert " ncu " in cost
