"""The palette: everything with a name, found while typing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from textual.screen import Screen

from inspector.analyse.hints.subject import Finding
from inspector.base.model import Stage
from inspector.tui.code.labels import labels_of
from inspector.tui.find.finder import Finder
from inspector.tui.find.help import palette_entries
from inspector.tui.find.ranking import Entry
from inspector.tui.find.things import (
    STAGES,
    hint_entries,
    kernel_entries,
    label_entries,
    stage_entries,
)
from inspector.tui.keys.command_table import command
from inspector.tui.keys.keymap import shown
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.widgets.notice import Notice, in_thread

HINT = "a kernel, an id, settings, a label, a hint, a stage, a command"


class Palette(Finder):
    """Commands and kernels at once; labels and hints from a thread."""

    def __init__(self, main: MainScreen | None, entries: Sequence[Entry]) -> None:
        super().__init__("Palette", entries, HINT, STAGES)
        self.main = main

    def on_mount(self) -> None:
        """Look for labels and hints."""
        main = self.main
        if main is None:
            return
        listings = [
            (pane.stage, pane.view.source.listing)
            for pane in sorted(main.panes.panes, key=lambda pane: pane is not main.panes.active)
            if pane.stage is not None and pane.view.source is not None and pane.settled
        ]
        for stage, listing in listings:
            names = partial(labels_of, listing, stage)
            in_thread(self, names, partial(self._named, main, stage), f"labels {stage}")
        variant = main.panes.subject.variant
        if variant is not None and listings:
            in_thread(
                self, lambda: main.reads.findings(variant), partial(self._hinted, main), "hints"
            )

    def _named(
        self, main: MainScreen, stage: Stage, names: list[tuple[str, int, str]] | Notice
    ) -> None:
        if isinstance(names, list):
            self.add(label_entries(main, stage, names))

    def _hinted(self, main: MainScreen, findings: tuple[Finding, ...] | Notice) -> None:
        if isinstance(findings, tuple):
            self.add(hint_entries(main, findings))


def palette(screen: Screen[object], main: MainScreen | None, keys: Mapping[str, str]) -> Palette:
    """Return the palette of a screen: its commands, stages and kernels."""
    entries = palette_entries(screen, keys)
    if main is None or main.empty:
        return Palette(None, entries)
    stages = stage_entries(main, lambda name: shown(command(name), keys))
    return Palette(main, [*entries, *stages, *kernel_entries(main)])
