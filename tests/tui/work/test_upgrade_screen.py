"""The report of ``upgrade`` that is kept with a recording, in the interface."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from inspector.commands.common import open_reader
from inspector.recording.layout import UPGRADES, record_file, store_record
from inspector.tui.app.app import PtxviewApp
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.work.overview_screen import OverviewScreen
from inspector.tui.work.upgrade_screen import UpgradeScreen, kept_report
from tests.helpers.ptxview import SAMPLE, call
from tests.helpers.sample import rest, settle, text_of
from tests.helpers.shared_app import started
from tests.helpers.upgraded import TRIED, WORSE, upgraded


async def test_the_report_leads_to_the_kernels_that_changed(tmp_path: Path) -> None:
    app = PtxviewApp(open_reader(str(upgraded(tmp_path))))
    async with started(size=(150, 40), app=app) as (ui, main):
        main.action_upgrade()
        await rest(ui)
        screen = app.screen
        assert isinstance(screen, UpgradeScreen)
        text = text_of(ui)
        assert "triton 3.6.0 → 3.7.1" in text
        assert "16 variants: 11 the same, 1 in other order or registers alone, 3 changed" in text
        assert "mad.lo.s32 became add.s15" in text and "add.s3 came" not in text
        assert "24 → 32" in text and "100 → 62.5 %" in text and "30.0 → 31.0" in text
        assert "✗ 1 variant refused now: out of registers ␛]0;T" in text
        opening = next(n for n, row in enumerate(screen.rows) if row.opens)
        screen.options.highlighted = opening
        await rest(ui, "enter")
        assert "add.s3 came" in text_of(ui)
        lost = next(n for n, row in enumerate(screen.rows) if "lost_kernel" in row.text.plain)
        screen.options.highlighted = lost
        await rest(ui, "enter", "D")
        assert "this row is no changed variant" in text_of(ui)
        screen.options.highlighted = lost - 1
        await rest(ui, "D")
        assert app.clipboard.startswith(f"ptxview diff {tmp_path}/old.ptxview::")
        await settle(ui, "enter")
        assert isinstance(app.screen, MainScreen)
        subject = main.kernels.row.subject if main.kernels.row else None
        assert subject is not None and subject.kernel is not None
        assert subject.kernel.display_name == TRIED


async def test_a_narrow_terminal_has_every_figure_of_the_chosen_row(tmp_path: Path) -> None:
    app = PtxviewApp(open_reader(str(upgraded(tmp_path))))
    async with started(size=(60, 20), app=app) as (ui, main):
        main.action_upgrade()
        await rest(ui)
        assert "Upgrade · registers 24 → 32, occupancy 100 → 62.5 %" in text_of(ui)
        assert WORSE in text_of(ui)


async def test_the_overview_says_so_in_a_line_that_opens_the_report(tmp_path: Path) -> None:
    app = PtxviewApp(open_reader(str(upgraded(tmp_path))), begins_with_overview=True)
    async with started(size=(120, 48), app=app) as (ui, _):
        await rest(ui)
        overview = app.screen
        assert isinstance(overview, OverviewScreen)
        places = [n for n, row in enumerate(overview.rows) if "Upgraded" in row.text.plain]
        assert "Upgraded from old.ptxview" in text_of(ui)
        overview.options.highlighted = places[0]
        await rest(ui, "enter")
        assert isinstance(app.screen, UpgradeScreen)


async def test_without_a_report_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "new.ptxview"
    shutil.copy(SAMPLE, path)
    store_record(path, {"taken": "now", "report": {"schema": 1}, "variants": []}, UPGRADES)
    app = PtxviewApp(open_reader(str(path)))
    async with started(app=app) as (ui, main):
        main.action_upgrade()
        await rest(ui)
        assert app.screen is main and "No report of ptxview upgrade" in text_of(ui)


def test_the_command_keeps_its_report_with_the_newer_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "old.ptxview", tmp_path / "new.ptxview"]
    for path in paths:
        shutil.copy(SAMPLE, path)
    words: tuple[str | Path, ...] = ("upgrade", *paths, "--estimate", "0", "--json")
    done = call(*words)
    assert done.status == 0 and not record_file(paths[0], UPGRADES).exists()
    (line,) = record_file(paths[1], UPGRADES).read_text().splitlines()
    assert json.loads(line)["report"] == {**done.json, "a": str(paths[0]), "b": str(paths[1])}
    kept = kept_report(open_reader(str(paths[1])).recording)
    assert kept is not None and kept.report.same == done.json["same"] > 0
    record_file(paths[1], UPGRADES).unlink()
    record_file(paths[1], UPGRADES).mkdir()
    done = call(*words)
    assert done.status == 0 and "the report is not kept: " in done.said
