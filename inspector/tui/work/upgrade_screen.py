"""The report of ``upgrade`` that is kept with the recording, over the screen."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding

from inspector.base.model import Recording
from inspector.recording.layout import UPGRADES, stored_records
from inspector.render.compiles import CompileLine
from inspector.render.upgrade_report import KeptUpgrade, lines, newest, upgraded
from inspector.tui.widgets.lines_screen import LinesScreen
from inspector.tui.widgets.notice import label


def kept_report(recording: Recording) -> KeptUpgrade | None:
    """The newest report that is kept with a recording."""
    return newest(stored_records(Path(recording.resolved_path or recording.path), UPGRADES))


class UpgradeScreen(LinesScreen[str]):
    """Is left with the key of the variant that was chosen (``UpgradedVariant.key``)."""

    BINDINGS: ClassVar = [Binding("D", "diff", show=False)]
    KEYS: ClassVar = "D copies its diff · n next part"

    def __init__(self, recording: Recording, kept: KeptUpgrade) -> None:
        self.report = kept.report
        self.path = recording.resolved_path or recording.path
        self.changed = upgraded(kept, recording)
        super().__init__("Upgrade", self._lines)

    def _lines(self, width: int) -> Iterable[CompileLine]:
        return lines(self.report, self.changed, width, self.opened)

    def action_diff(self) -> None:
        """Copy the command that compares the chosen variant with what it was before."""
        key = self.rows[self.options.highlighted or 0].kernel
        changed = next((row for row in self.changed if key and row.key == key), None)
        if changed is None or changed.variant is None:
            self.answer("this row is no changed variant")
            return
        sides = f"{self.report.a}::{changed.row.variant}", f"{self.path}::{changed.variant.id}"
        command = shlex.join(("ptxview", "diff", *sides))
        self.app.copy_to_clipboard(command)
        self.answer(f"copied: {label(command)}")
