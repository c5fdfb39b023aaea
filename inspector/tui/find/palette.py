"""The palette: whatever has a name, found as one types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import work
from textual.message import Message

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
    subject_listings,
)
from inspector.tui.keys.command_table import command
from inspector.tui.keys.keymap import shown
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.widgets.threads import attempt

HINT = "a kernel, an id, settings, a label, a hint, a stage, a command"


class Palette(Finder):
    """Commands and what the recording has, at once; labels and hints a thread later."""

    class Named(Message):
        """A thread has found what of the listings in view has a name, or the hints on them."""

        def __init__(self, entries: Sequence[Entry]) -> None:
            super().__init__()
            self.entries = entries

    def __init__(self, main: MainScreen | None, entries: Sequence[Entry]) -> None:
        super().__init__("Palette", entries, HINT, STAGES)
        self.main = main

    def on_mount(self) -> None:
        """What is not known yet is looked for meanwhile."""
        super().on_mount()
        if self.main is not None:
            self._look(self.main)

    @work(thread=True, exclusive=True, group="find", exit_on_error=False, description="find")
    def _look(self, main: MainScreen) -> None:
        subject, listings = subject_listings(main)
        for stage, listing in listings:
            names = attempt(lambda of=listing, at=stage: labels_of(of, at))  # type: ignore[misc]
            if isinstance(names, list):
                self.post_message(self.Named(label_entries(main, stage, names)))
        variant = subject.variant
        if variant is not None and listings:
            findings = attempt(lambda: main.reads.findings(variant))
            if isinstance(findings, tuple):
                self.post_message(self.Named(hint_entries(main, findings)))

    def on_palette_named(self, message: Named) -> None:
        """More can be found now."""
        message.stop()
        if message.entries:
            self.add(message.entries)


def palette(screen: object, main: MainScreen | None, keys: Mapping[str, str]) -> Palette:
    """What can be found from a screen: its commands, and on the main one what there is to read."""
    entries = palette_entries(screen, keys)  # type: ignore[arg-type]
    if main is None or main.empty:
        return Palette(None, entries)
    stages = stage_entries(main, lambda name: shown(command(name), keys))
    return Palette(main, [*entries, *stages, *kernel_entries(main)])
