"""The first line of every screen: which recording, from which device, and what to know of it."""

from __future__ import annotations

import re

from textual import events
from textual.content import Content
from textual.widget import Widget

from inspector.model import Recording
from inspector.report.ranks import differences
from inspector.text import plural
from inspector.tui.keys.command_table import command
from inspector.tui.keys.keymap import shown
from inspector.tui.program.live import ending
from inspector.tui.widgets.visible import label, shorten

_UNNAMED = re.compile(
    r"\d{4}(?P<month>\d\d)(?P<day>\d\d)-(?P<hour>\d\d)(?P<minute>\d\d)\d\d-"
    r"(?P<program>.+)-[0-9a-f]{4,}"
)
"""What ``run`` calls a recording that it is given no name for."""
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {f"{n:02}": name for n, name in enumerate(_NAMES, 1)}


def banner(recording: Recording) -> str:
    """What must be said on every screen of a recording that no GPU ran; else ""."""
    if recording.mode != "target":
        return ""
    return f"compiled for {label(recording.target or 'a target')}, not run on a GPU"


def recording_name(recording: Recording) -> str:
    """The last part of the path, without the ending of a recording; of several, all names. Of one
    that nobody gave a name the program's and when it was run: ``train 23 Nov 06:35``."""
    if recording.machines:
        return label(" + ".join(recording.machines))
    name = recording.path.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    if (own := _UNNAMED.fullmatch(name)) and own["month"] in _MONTHS:
        when = f"{int(own['day'])} {_MONTHS[own['month']]} {own['hour']}:{own['minute']}"
        return label(f"{own['program']} {when}")
    return label(name.removesuffix(".ptxview") or recording.path)


def device_name(recording: Recording) -> str:
    """``NVIDIA H200 sm_90a``: the device, with the target that most was compiled for."""
    name = str((recording.device or {}).get("name") or "")
    targets = {v.target: None for _, v in recording.variants() if v.target}
    words = [name] if name else []
    if targets:
        words.append(", ".join(targets) if len(targets) < 3 else f"{len(targets)} targets")
    return label(" ".join(words))


def counts(recording: Recording) -> str:
    """``12 kernels, 19 variants, 3 graphs``."""
    parts = [
        plural(len(recording.kernels), "kernel"),
        plural(len(recording.variants()), "variant"),
    ]
    if recording.graphs:
        parts.append(plural(len(recording.graphs), "graph"))
    return ", ".join(parts)


def parts(recording: Recording) -> list[str]:
    """What the line says, what matters most first."""
    return [
        recording_name(recording),
        banner(recording) or device_name(recording),
        counts(recording),
    ]


class TitleBar(Widget):
    """One line; what matters least is left out first when it gets narrow."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording
        self.told = ""
        """What is said of a program that runs."""

        self.modes: tuple[tuple[str, str], ...] = ()
        """What is on, in a word or two, each with the command that ends it."""

        self._ends: list[tuple[int, int, str]] = []
        self._ranks: tuple[Recording, int] | None = None

    def _different_ranks(self) -> int:
        """How much ranks compiled differently, found once for a recording as it is."""
        if self._ranks is None or self._ranks[0] is not self.recording:
            self._ranks = (self.recording, len(differences(self.recording)))
        return self._ranks[1]

    def render(self) -> Content:
        """Name, device or banner, counts, and warnings at the right."""
        recording = self.recording
        width = self.size.width - 2
        keys = getattr(self.app, "keys", {})
        warnings = []
        if self.told:
            warnings.append(self.told)
        elif not recording.complete:
            warnings.append("unfinished")
        elif recording.exit_status and recording.seconds is not None:
            warnings.append(ending(recording.exit_status, recording.seconds))
        if different := self._different_ranks():
            key = shown(command("compiles"), keys)
            warnings.append(f"{key} {plural(different, 'difference')} of ranks")
        if recording.problems:
            warnings.append(f"! {plural(len(recording.problems), 'problem')}")
        on = [(f"[{shorten(word, 24)} {shown(command(name), keys)}]", name)
              for word, name in self.modes]  # fmt: skip
        right = " ".join([*(text for text, _ in on), *([" · ".join(warnings)] if warnings else [])])
        short = " ".join([*(text for text, _ in on), *("!" for _ in warnings[:1])])
        said = banner(recording)
        name = recording_name(recording)
        choices = [
            parts(recording),
            parts(recording)[:2],
            [said] if said else [name],
        ]
        for right_text in (right, short):
            for chosen in choices:
                text = " · ".join(part for part in chosen if part)
                used = len("ptxview  ") + len(text) + (len(right_text) + 2 if right_text else 0)
                if used <= width:
                    at = width + 1 - Content(right_text).cell_length
                    self._find_ends(at, on)
                    return self._line(("ptxview", text, right_text), width)
        self._ends = []
        if said and len(said) > width:
            said = f"{label(recording.target or '')}, no GPU"
        return Content.assemble((" ", ""), (shorten(said or name, width), "bold"))

    def _find_ends(self, at: int, on: list[tuple[str, str]]) -> None:
        """Where what is on stands."""
        self._ends = []
        for text, name in on:
            self._ends.append((at, at + len(text), name))
            at += len(text) + 1

    async def on_click(self, event: events.Click) -> None:
        """End what was clicked."""
        for start, end, name in self._ends:
            if start <= event.x < end:
                await self.screen.run_action(f"run('{name}')")

    def _line(self, parts: tuple[str, str, str], width: int) -> Content:
        brand, text, right = parts
        left = Content.assemble((" ", ""), (brand, "bold"), ("  ", ""), (text, ""))
        gap = max(1, width + 1 - left.cell_length - Content(right).cell_length)
        fine = right.startswith("exit 0 ") and " · " not in right
        return Content.assemble(left, (" " * gap, ""), (right, "bold" if fine else "bold $warning"))
